//! Asks the legacy servers: the owner of a service first, then the others.
//!
//! What the servers are stands behind [`Servers`]; who owns what they are asked for every few seconds, and when an owner
//! doesn't answer. Source: ours; the entries `core/cluster` of Nacos 1.4.8.

use std::{
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};
use http::Response;
use smallvec::SmallVec;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    question::{Question, Refused, Sent, What},
    ring::{self, Ring},
    stale::ListKey,
    verdict::{self, Expected, NoAnswer},
};
use crate::{base::burst::Seldom, cluster::Address};

/// How long a request of those that clients make all the time may take with all servers that it is sent to.
pub(super) const PATIENCE: Duration = Duration::from_millis(2_500);
/// How much of the time that is left one server may take, where there is another.
const SHARE_OF_ONE: f64 = 0.6;
/// How long a server may take to show its cluster.
const PATIENCE_WITH_LOOKS: Duration = Duration::from_millis(1_500);
/// How often the members are asked for; as often as they ask each other.
pub(super) const RING_EVERY: Duration = Duration::from_secs(2);
/// How often at most, while owners don't answer.
const RING_EVERY_AT_MOST: Duration = Duration::from_millis(500);

/// Who a server is, and who its members are, below the context path.
pub(super) const SELF: &str = "/v1/core/cluster/self";
pub(super) const NODES: &str = "/v1/core/cluster/nodes";

/// Why a server has given no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Nothing was sent: nobody is there.
    #[error("it can't be reached: {0}")]
    Unreachable(String),
    /// Nothing was sent: there is no connection, which says little of the server.
    #[error("no connection to it: {0}")]
    Unconnected(String),
    /// Nothing was sent: as many requests as may are under way and wait.
    #[error("as many requests as may are under way to it")]
    Full,
    /// It said nothing in time.
    #[error("it says nothing")]
    TimedOut,
    /// What it said isn't whole, is too long, or is nothing that a registry says.
    #[error("{0}")]
    Spoilt(String),
}

/// The number of a server.
pub type Server = usize;

/// The legacy servers.
pub trait Servers: Send + Sync + 'static {
    /// How many there are; their numbers begin with 0.
    fn count(&self) -> usize;

    /// Those that are well, in the order in which a caller of this address asks them.
    fn well(&self, caller: IpAddr) -> SmallVec<[Server; 4]>;

    /// The one that this caller asks where none is well: it may be so only seemingly. Whoever is one too many to ask it so
    /// is told that it is unreachable.
    fn last_resort(&self, _caller: IpAddr) -> Option<Server> {
        None
    }

    /// Whether no server was well at some time since this was asked last.
    fn were_all_down(&self) -> bool {
        false
    }

    /// Asks one of them; ends within the time.
    fn ask(
        &self,
        server: Server,
        sent: Sent,
        within: Duration,
    ) -> BoxFuture<'_, Result<Response<Bytes>, Failure>>;

    /// Asks it, in this node's own name, for what stands at a path below the context path.
    fn look(
        &self,
        server: Server,
        path: &'static str,
        within: Duration,
    ) -> BoxFuture<'_, Result<Response<Bytes>, Failure>>;

    /// Closes kept connections that are too old.
    fn sweep(&self) {}

    /// How it is called, for people.
    fn name(&self, server: Server) -> String;
}

/// The legacy cluster as its members show it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Cluster {
    ring: Ring,
    /// How each server is called there; nothing where it hasn't said.
    names: Vec<Option<Address>>,
}

impl Cluster {
    /// The server that owns the service of this name.
    fn owner(&self, name: &str) -> Option<Server> {
        let owner = self.ring.owner(name)?;
        self.names.iter().position(|name| name.as_ref() == Some(owner))
    }
}

/// What all servers that were asked have said.
pub(super) struct Failed {
    /// The reason that says most.
    pub refused: Refused,
    /// The words of one that said that it doesn't serve now.
    pub said: Option<Response<Bytes>>,
    /// None is there: each refuses, or none is well.
    pub nobody: bool,
}

/// The servers and what is known of their cluster.
pub(super) struct Asking {
    servers: Arc<dyn Servers>,
    cluster: ArcSwap<Cluster>,
    /// The ring may have changed.
    ring_is_old: Notify,
    /// For what may take its time.
    patience: Duration,
    lines: Seldom,
}

impl Asking {
    pub fn new(servers: Arc<dyn Servers>, patience: Duration) -> Self {
        let (cluster, ring_is_old, lines) = (ArcSwap::default(), Notify::new(), Seldom::default());
        Self { servers, cluster, ring_is_old, patience, lines }
    }

    /// How long a request may take with all servers that it is sent to.
    fn patience(&self, what: &What) -> Duration {
        match what {
            What::List(_) | What::Beat { .. } => PATIENCE,
            What::Write(which, _) if which.ephemeral => PATIENCE,
            // The cluster has to agree on it, or it is much.
            What::Write(..) | What::Change { .. } | What::Other => self.patience,
        }
    }

    /// How many members own services, as far as that is known.
    pub fn owners(&self) -> usize {
        self.cluster.load().ring.len()
    }

    /// Looks at the cluster every few seconds, and when an owner doesn't answer, until `stopped`.
    ///
    /// `nobody_is_well` is told when no server is, which no request may have seen.
    pub async fn watch(&self, stopped: &CancellationToken, nobody_is_well: impl Fn()) {
        loop {
            tokio::select! {
                () = stopped.cancelled() => return,
                () = self.look_at_cluster() => {}
            }
            self.servers.sweep();
            if self.well().is_empty() {
                nobody_is_well();
            }
            let looks_again = async {
                tokio::time::sleep(RING_EVERY_AT_MOST).await;
                tokio::select! {
                    () = tokio::time::sleep(RING_EVERY - RING_EVERY_AT_MOST) => {}
                    () = self.ring_is_old.notified() => {}
                }
            };
            if stopped.run_until_cancelled(looks_again).await.is_none() {
                return;
            }
        }
    }

    /// Whether no server was well at some time since this was asked last.
    pub fn were_all_down(&self) -> bool {
        self.servers.were_all_down()
    }

    /// The answer to a question, of whoever gives one.
    pub async fn ask(&self, question: &Question, sent: &Sent) -> Result<Response<Bytes>, Failed> {
        self.ask_within(question, sent, self.patience(&question.what)).await
    }

    /// The same within this time.
    pub async fn ask_within(
        &self,
        question: &Question,
        sent: &Sent,
        patience: Duration,
    ) -> Result<Response<Bytes>, Failed> {
        let expected = match question.what {
            What::List(ListKey { is_check: true, .. }) => Expected::Check,
            What::List(_) => Expected::List,
            What::Beat { .. } => Expected::Beat,
            What::Write(..) | What::Change { .. } | What::Other => Expected::Anything,
        };
        // All else goes to one server alone, once bytes of it went: it may be done there.
        let is_repeatable = sent.request.method().is_idempotent();
        let service = question.service.as_ref();
        let owner = service.and_then(|service| self.cluster.load().owner(&service.name));
        let mut servers = self.servers.well(sent.peer.ip());
        // The owner, if it is well, before the others, which keep their order.
        servers.sort_by_key(|server| Some(*server) != owner);
        if servers.is_empty() && is_repeatable {
            servers.extend(self.servers.last_resort(sent.peer.ip()));
        }
        let started = tokio::time::Instant::now();
        let mut failed = Failed { refused: Refused::Away, said: None, nobody: true };
        for (number, server) in servers.iter().enumerate() {
            let left = patience.saturating_sub(started.elapsed());
            if left.is_zero() {
                break;
            }
            let is_last = number + 1 == servers.len();
            let within = if is_last { left } else { left.mul_f64(SHARE_OF_ONE) };
            let mut is_answered = false;
            let failure = match self.servers.ask(*server, sent.clone(), within).await {
                Ok(response) => match verdict::judge(expected, &response) {
                    Ok(()) => return Ok(response),
                    Err(why) => {
                        is_answered = true;
                        let text = format!("{why} (status {})", response.status().as_u16());
                        if matches!(why, NoAnswer::Status(_)) {
                            failed.said = Some(response);
                        }
                        Failure::Spoilt(text)
                    }
                },
                Err(failure) => failure,
            };
            // All else is told where it is seen.
            if matches!(failure, Failure::Spoilt(_)) {
                self.note_failure(*server, &failure);
            }
            failed.nobody &= matches!(failure, Failure::Unreachable(_));
            let was_sent = matches!(failure, Failure::TimedOut | Failure::Spoilt(_));
            failed.refused = match failure {
                Failure::Unreachable(_) | Failure::Unconnected(_) => failed.refused,
                Failure::Full if failed.refused != Refused::Away => failed.refused,
                Failure::Full => Refused::Full,
                // Only it can tell that what it refuses hasn't been done.
                _ if !is_repeatable && !is_answered => Refused::Doubtful,
                Failure::TimedOut => Refused::TimedOut,
                Failure::Spoilt(_) => Refused::Strange,
            };
            if was_sent && !is_repeatable {
                break;
            }
        }
        if owner.is_some() {
            self.ring_is_old.notify_one();
        }
        Err(failed)
    }

    fn note_failure(&self, server: Server, failure: &Failure) {
        let (name, reason) = (self.servers.name(server), failure.to_string());
        if let Some(unlogged) = self.lines.pass(&[&name, &reason], Instant::now()) {
            tracing::warn!(server = name, reason, unlogged, "a legacy server gives no answer");
        }
    }

    pub(super) async fn look_at_cluster(&self) {
        let all = 0..self.servers.count();
        let well = self.well();
        let names = join_all(all.map(async |server| match well.contains(&server) {
            true => self.name_of(server).await,
            false => None,
        }));
        let (names, ring) = tokio::join!(names, self.ring());
        let before = self.cluster.load();
        // Who says nothing now is called as before.
        let names = names.into_iter().enumerate();
        let names = names.map(|(server, name)| name.or_else(|| before.names.get(server).cloned().flatten()));
        let ring = ring.unwrap_or_else(|| before.ring.clone());
        let cluster = Cluster { ring, names: names.collect() };
        if **before != cluster {
            if before.ring != cluster.ring {
                tracing::info!(owners = %cluster.ring, "the owners of services in the legacy cluster");
            }
            self.cluster.store(Arc::new(cluster));
        }
    }

    /// Those that are well, in some order.
    fn well(&self) -> SmallVec<[Server; 4]> {
        self.servers.well(IpAddr::from([127, 0, 0, 1]))
    }

    /// How a server is called in its cluster.
    async fn name_of(&self, server: Server) -> Option<Address> {
        let answer = self.servers.look(server, SELF, PATIENCE_WITH_LOOKS).await.ok()?;
        ring::own_address(answer.body()).filter(|_| answer.status().is_success())
    }

    /// The ring, as the first server shows it that tells.
    async fn ring(&self) -> Option<Ring> {
        for server in self.well() {
            let failure = match self.servers.look(server, NODES, PATIENCE_WITH_LOOKS).await {
                Ok(response) if response.status().is_success() => match Ring::read(response.body()) {
                    Ok(ring) => return Some(ring),
                    Err(error) => Failure::Spoilt(format!("its members aren't known: {error}")),
                },
                // A server without such an entry has no owners that could be known.
                Ok(response) if response.status().is_client_error() => return Some(Ring::default()),
                Ok(response) => Failure::Spoilt(format!(
                    "its members aren't known: status {}",
                    response.status().as_u16()
                )),
                Err(failure) => failure,
            };
            self.note_failure(server, &failure);
        }
        None
    }
}
