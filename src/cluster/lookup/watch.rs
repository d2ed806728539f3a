//! Reads the list again and again, and tells the cluster when it has changed.

use std::sync::Arc;

use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    address_server::AddressServerShown,
    judge::{Judge, Verdict},
    list::List,
    source::Source,
    start::{LookupError, check},
};
use crate::{
    cluster::{Address, Cluster},
    config::{Lookup, LookupType, Settings},
};

/// Switches that wait at most.
const MOST_SWITCHES: usize = 8;

/// Somebody wants the list to come from elsewhere.
#[derive(Debug)]
pub(in crate::cluster) struct Switch {
    to: LookupType,
    done: oneshot::Sender<Result<(), LookupError>>,
}

/// Why the list still comes from where it came from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupSwitchError {
    /// There is no list.
    #[error("this node serves alone")]
    Alone,
    /// There is no list, or one without this node.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The node is being stopped, or too many wait already.
    #[error("the list of members isn't read now")]
    Busy,
}

/// Asks a [`Watch`] to read elsewhere.
#[derive(Clone, Debug)]
pub(in crate::cluster) struct Switcher(mpsc::Sender<Switch>);

impl Switcher {
    /// Ready when the list comes from there.
    pub async fn switch(&self, to: LookupType) -> Result<(), LookupSwitchError> {
        let (done, outcome) = oneshot::channel();
        self.0.try_send(Switch { to, done }).map_err(|_| LookupSwitchError::Busy)?;
        Ok(outcome.await.map_err(|_| LookupSwitchError::Busy)??)
    }
}

/// What operators are shown of the list's origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupShown {
    /// As Nacos calls it: `file`, `address-server`; `dns` is ours.
    pub kind: &'static str,
    /// It lies on this machine, where nobody makes it of the nodes that are ready.
    pub is_own: bool,
    /// File, URL or name.
    pub place: String,
    /// Why the last list that was read doesn't count.
    pub trouble: Option<String>,
    /// How the web server has been answering, where it is one.
    pub server: Option<AddressServerShown>,
}

/// What reads the list.
#[derive(Debug)]
pub struct Watch {
    source: Source,
    settings: Arc<Settings>,
    own: Address,
    judge: Judge,
    switches: mpsc::Receiver<Switch>,
    switcher: mpsc::Sender<Switch>,
}

impl Watch {
    pub(super) fn new(source: Source, settings: Arc<Settings>, own: Address, list: List) -> Self {
        let (switcher, switches) = mpsc::channel(MOST_SWITCHES);
        let judge = Judge::new(own.clone(), list, source.patience());
        Self { source, settings, own, judge, switches, switcher }
    }

    pub(in crate::cluster) fn switcher(&self) -> Switcher {
        Switcher(self.switcher.clone())
    }

    /// What there is to show.
    #[must_use]
    pub fn shown(&self) -> LookupShown {
        LookupShown {
            kind: self.source.kind(),
            is_own: matches!(self.source, Source::File(_)),
            place: self.source.place(),
            trouble: self.judge.trouble().map(str::to_owned),
            server: self.source.server(),
        }
    }

    /// Reads until told to stop.
    pub async fn run(mut self, cluster: Cluster, stopped: CancellationToken) {
        let mut next = Instant::now() + self.source.pause();
        loop {
            tokio::select! {
                () = stopped.cancelled() => return,
                Some(switch) = self.switches.recv() => {
                    let outcome = self.switch(switch.to, &cluster).await;
                    // Whoever asked may have gone.
                    let _ = switch.done.send(outcome);
                }
                () = tokio::time::sleep_until(next) => {
                    let read = tokio::select! {
                        () = stopped.cancelled() => return,
                        read = self.source.next() => read,
                    };
                    if let Some(read) = read {
                        self.take(read, &cluster);
                    }
                    next = Instant::now() + self.source.pause();
                }
            }
            // After a switch the new source may want to be read earlier; asking for one never puts a look off.
            next = next.min(Instant::now() + self.source.pause());
            cluster.set_lookup(self.shown());
        }
    }

    async fn switch(&mut self, to: LookupType, cluster: &Cluster) -> Result<(), LookupError> {
        let lookup = match to {
            LookupType::File => Lookup::File,
            LookupType::AddressServer => Lookup::AddressServer,
        };
        let Some(mut source) = Source::new(lookup, &self.settings, &self.own) else { return Ok(()) };
        if source.kind() == self.source.kind() {
            return Ok(());
        }
        let read = source.first().await;
        let (_, list) = check(&source, read, &self.own)?;
        tracing::info!(place = source.place(), "the list of members comes from elsewhere from now on");
        self.judge.set_patience(source.patience());
        self.source = source;
        self.take(Ok(list), cluster);
        Ok(())
    }

    fn take(&mut self, read: Result<List, String>, cluster: &Cluster) {
        let place = self.source.place();
        let had_trouble = self.judge.trouble().is_some();
        match self.judge.judge(read) {
            Verdict::New(List { members, raft_ports, notes }) => {
                notes.iter().for_each(|note| tracing::warn!(place, "list of members: {note}"));
                cluster.relist(&members, raft_ports);
            }
            Verdict::Kept { is_news: true } => {
                let reason = self.judge.trouble().unwrap_or_default();
                tracing::warn!(place, reason, "this list of members doesn't count, the former one does");
            }
            Verdict::Same if had_trouble => tracing::info!(place, "the list of members is in order again"),
            Verdict::Same | Verdict::Kept { is_news: false } => {}
        }
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
