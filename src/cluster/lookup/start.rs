//! The first list: without one that names the node itself there is no start.

use std::{sync::Arc, time::Duration};

use super::{
    list::{List, RaftPorts},
    source::Source,
    watch::Watch,
};
use crate::{cluster::Address, config::Settings};

/// Between two tries.
const PAUSE: Duration = Duration::from_secs(1);
/// Members that a refusal names.
const NAMED: usize = 10;

/// Why there is no list to start with; the text tells the operator what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// It can't be read, is broken or names nobody.
    #[error("there is no list of members in {place}: {reason}")]
    NoList {
        /// Where it was looked for.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// It lacks the node itself.
    #[error(
        "this node, {own}, isn't among the members in {place} ({listed}); name it there, or give the address by which \
         the others know it with nacos.server.ip and server.port"
    )]
    NotListed {
        /// The node as it calls itself.
        own: Address,
        /// Where the list is.
        place: String,
        /// Whom it names.
        listed: String,
    },
}

/// A list to start with.
#[derive(Debug)]
pub struct Found {
    /// The node itself, as the list spells it: so others know it.
    pub own: Address,
    /// All members, sorted as text, the node itself among them.
    pub members: Vec<Address>,
    /// The raft ports of those that have another one than usual.
    pub raft_ports: RaftPorts,
    /// Reads the list from now on.
    pub watch: Watch,
}

/// Reads the list for the first time; none for a node that serves alone. `own` has a port.
///
/// A file is read once, an address server asked `nacos.core.address-server.retry` times and a name looked at 10 times,
/// 1 s apart.
///
/// # Errors
/// There is no list, or it lacks the node.
pub async fn find(settings: &Arc<Settings>, own: Address) -> Result<Option<Found>, LookupError> {
    let Some(source) = Source::new(settings.membership.lookup, settings, &own) else { return Ok(None) };
    find_in(source, settings, own).await.map(Some)
}

async fn find_in(mut source: Source, settings: &Arc<Settings>, own: Address) -> Result<Found, LookupError> {
    let mut tries = source.tries(settings);
    loop {
        let read = source.first().await;
        let error = match check(&source, read, &own) {
            Ok((spelling, list)) => {
                list.notes
                    .iter()
                    .for_each(|note| tracing::warn!(place = source.place(), "list of members: {note}"));
                let List { members, raft_ports, .. } = list.clone();
                let watch = Watch::new(source, Arc::clone(settings), spelling.clone(), list);
                return Ok(Found { own: spelling, members, raft_ports, watch });
            }
            Err(error) => error,
        };
        tries -= 1;
        if tries == 0 {
            return Err(error);
        }
        tracing::warn!(%error, tries_left = tries, "no list of members to start with: it is looked for again in a second");
        tokio::time::sleep(PAUSE).await;
    }
}

/// The list, and how it spells the node; a list of nobody or without the node is none.
pub(super) fn check(
    source: &Source,
    read: Result<List, String>,
    own: &Address,
) -> Result<(Address, List), LookupError> {
    let no_list = |reason| LookupError::NoList { place: source.place(), reason };
    let list = read.map_err(no_list)?;
    if list.members.is_empty() {
        return Err(no_list("it names nobody".to_owned()));
    }
    match list.spelling_of(own).cloned() {
        Some(spelling) => Ok((spelling, list)),
        None => {
            let named: Vec<&str> = list.members.iter().take(NAMED).map(Address::as_str).collect();
            let more = if list.members.len() > NAMED { ", ..." } else { "" };
            let listed = named.join(", ") + more;
            Err(LookupError::NotListed { own: own.clone(), place: source.place(), listed })
        }
    }
}
