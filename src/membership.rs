//! Wires what a node with members has beside one that serves alone: the list, the reports, the protocol, forwarding.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::{
    api::ring::RingOfMembers,
    base::{
        clock::{Clock, Reading},
        tasks::Tasks,
    },
    cluster::{
        Address, Cluster, Doorkeeper, LookupError, Peers, Standing,
        lookup::{self, Watch},
        report,
    },
    config::{Lookup, Settings},
    distro::{Distro, core::PARTING_MS, exchange::Exchange, line::Rhythm, runner::Runner},
    model::{Registry, change::Changes},
    stack::Forwarder,
};

/// Time between two requests of the protocol to one member: what changes meanwhile goes together.
const GATHER: Duration = Duration::from_millis(5);
/// How often the members are told whom this node finds slow.
const SLOW_PERIOD: Duration = Duration::from_millis(500);

/// Who is there, and how to reach them.
pub struct Membership {
    /// The members, or this node alone.
    pub cluster: Cluster,
    /// Calls to them.
    pub peers: Peers,
    /// Says who is one.
    pub doorkeeper: Doorkeeper,
    /// Tells this run of the node from others.
    boot: u64,
    /// Reads the list from now on; nothing for a node that serves alone.
    watch: Option<Watch>,
}

impl Membership {
    /// Finds the members; `own` is the node as it calls itself, `boot` a number that no other run of it has.
    ///
    /// # Errors
    /// There shall be a list, and there is none that names this node.
    pub async fn find(
        settings: &Arc<Settings>,
        own: Address,
        boot: u64,
        clock: &Clock,
    ) -> Result<Self, LookupError> {
        let found = match settings.membership.lookup {
            Lookup::Standalone => None,
            _ => lookup::find(settings, own.clone()).await?,
        };
        let (cluster, watch) = match found {
            Some(found) => {
                let (cluster, watch) = Cluster::new(found, settings, clock.clone());
                (cluster, Some(watch))
            }
            None => (Cluster::alone(own, clock.clone()), None),
        };
        let peers = Peers::new(cluster.view().own.clone(), boot, settings);
        Ok(Self { cluster, peers, doorkeeper: Doorkeeper::new(&settings.cluster), boot, watch })
    }

    /// All listed members; none for a node that serves alone.
    #[must_use]
    pub fn listed(&self) -> Vec<Address> {
        let members = self.has_members().then(|| self.cluster.members());
        members.into_iter().flatten().map(|member| member.address).collect()
    }

    /// Whether there is a list of members.
    #[must_use]
    pub fn has_members(&self) -> bool {
        self.watch.is_some()
    }

    /// The registry as it must be: one whose data members share stamps what is written.
    #[must_use]
    pub fn share(&self, registry: Registry, at: Reading) -> Registry {
        if self.has_members() { registry.shared(at) } else { registry }
    }

    /// Tells the others and the operator of what came out of the store, which members don't share.
    pub fn tell_of_persistent(&self, registry: &Registry) {
        let mut count = 0;
        registry.for_each(|service| {
            let state = service.state();
            count += state.persistent.len() + usize::from(state.definition.explicit);
        });
        self.cluster.set_persistent(u64::try_from(count).unwrap_or(u64::MAX));
    }

    /// The protocol over `registry`; nothing for a node that serves alone.
    #[must_use]
    pub fn protocol(
        &self,
        registry: &Arc<Registry>,
        changes: &Arc<Changes>,
        clock: &Clock,
        settings: &Settings,
    ) -> Option<Exchange> {
        let (cluster, registry, boot) = (self.cluster.clone(), Arc::clone(registry), self.boot);
        let distro =
            || Distro::new(cluster, registry, Arc::clone(changes), clock.clone(), rhythm(settings), boot);
        self.has_members().then(|| Exchange { distro: distro(), peers: self.peers.clone() })
    }
}

/// The pace of the protocol by these settings.
#[must_use]
pub fn rhythm(settings: &Settings) -> Rhythm {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let distro = &settings.distro;
    Rhythm {
        merge_ms: ms(distro.sync_delay),
        legacy_merge_ms: ms(distro.legacy_sync_delay),
        gather_ms: ms(GATHER),
        batch: distro.batch_sync_key_count,
        retry_cap_ms: ms(distro.sync_retry_delay),
        verify_ms: ms(distro.verify_interval),
    }
}

/// What forwarding asks of these members.
#[must_use]
pub fn ring(membership: &Membership, exchange: &Exchange, clock: &Clock) -> Arc<RingOfMembers> {
    Arc::new(RingOfMembers {
        cluster: membership.cluster.clone(),
        doorkeeper: membership.doorkeeper.clone(),
        exchange: exchange.clone(),
        clock: clock.clone(),
    })
}

/// Starts what runs for a node with members; without effect for one that serves alone.
pub fn spawn(
    membership: Membership,
    exchange: Option<&Exchange>,
    forwarder: &Forwarder,
    tasks: &mut Tasks,
    stopped: &CancellationToken,
) {
    let (Some(watch), Some(exchange)) = (membership.watch, exchange) else { return };
    let cluster = membership.cluster;
    let runner = Runner { exchange: exchange.clone() };
    tasks.spawn("distro", runner.run(stopped.clone()));
    tasks.spawn("health of 1.x members", exchange.clone().exchange_health(stopped.clone()));
    tasks.spawn("member reports", report::run(cluster.clone(), membership.peers, stopped.clone()));
    tasks.spawn("member list", watch.run(cluster.clone(), stopped.clone()));
    let (seen, changed) = (cluster.clone(), cluster.changes());
    let names = membership.doorkeeper.follow(move || seen.view(), changed, stopped.clone());
    tasks.spawn("member names", names);
    tasks.spawn("slow members", tell_slow(cluster, forwarder.clone(), stopped.clone()));
}

/// Asks members that don't answer whether they do again, and tells the others of them, until `stopped`.
async fn tell_slow(cluster: Cluster, forwarder: Forwarder, stopped: CancellationToken) {
    let slow = forwarder.clone();
    let telling = async {
        let mut told = Vec::new();
        loop {
            tokio::time::sleep(SLOW_PERIOD).await;
            let slow: Vec<Address> = slow.slow().iter().map(|address| Address::new(address)).collect();
            if slow != told {
                cluster.set_slow(slow.clone());
                told = slow;
            }
        }
    };
    tokio::select! {
        () = stopped.cancelled() => {}
        () = telling => {}
        never = forwarder.probe() => match never {},
    }
}

/// Ready once the node has its data from the members; at once where it serves alone. One that is taken off the list before
/// has none: it waits until it is listed again, and has loaded.
pub async fn until_loaded(cluster: Cluster) {
    let mut changes = cluster.changes();
    while matches!(cluster.view_guard().standing, Standing::Starting | Standing::Removed) {
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Leaves the members in order: they get what they lack and are told, so that others own what this node owned before it
/// stops listening. Takes `patience` at most; one that takes nothing has half of it, and a quarter to be told.
pub async fn leave(exchange: &Exchange, cluster: &Cluster, patience: Duration) {
    let until = Instant::now() + patience;
    let half = until - patience / 2;
    let _ = timeout_at(half, until_compared(cluster)).await;
    let standing = cluster.view_guard().standing;
    if standing == Standing::Removed {
        // What it wrote as a member it still brings to those that are, for a while.
        let parted = until.min(Instant::now() + Duration::from_millis(PARTING_MS));
        let _ = timeout_at(parted, exchange.distro.flushed()).await;
    }
    if standing != Standing::Serving {
        return;
    }
    // Who hangs holds up the news neither to itself nor to the others.
    let _ = timeout_at(half, exchange.distro.flushed()).await;
    cluster.set_standing(Standing::Leaving);
    let told = timeout(patience / 4, cluster.has_told()).await;
    // What was written while they heard of it, too.
    let flushed = timeout_at(until, exchange.distro.flushed()).await;
    if told.is_err() || flushed.is_err() {
        tracing::warn!(?patience, "not all members have what this node knows: they don't answer in time");
    }
    for (member, services) in exchange.distro.waiting().into_iter().filter(|(_, services)| *services > 0) {
        let state = cluster.view_guard().peer(&member).map(|peer| peer.state);
        tracing::warn!(%member, ?state, services, "this member doesn't have all that was written here");
    }
}

/// Ready once the node doesn't compare its data with the members' any more.
async fn until_compared(cluster: &Cluster) {
    let mut changes = cluster.changes();
    while cluster.view_guard().standing == Standing::Comparing {
        if changes.changed().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    async fn starting() -> Cluster {
        let (own, other) = ("127.0.80.1:8848", "127.0.80.2:8848");
        let mut settings = Settings { config_dir: "/nowhere".into(), ..Settings::default() };
        settings.membership.lookup = Lookup::File;
        settings.membership.member_list = [own, other].map(str::to_owned).to_vec();
        let settings = Arc::new(settings);
        let membership = Membership::find(&settings, Address::new(own), 1, &Clock::system()).await;
        membership.unwrap().cluster
    }

    fn is_ready(cluster: &Cluster) -> bool {
        until_loaded(cluster.clone()).now_or_never().is_some()
    }

    #[tokio::test]
    async fn a_node_is_ready_when_it_serves_and_not_when_it_is_removed_while_it_loads() {
        let cluster = starting().await;
        assert!(!is_ready(&cluster));
        cluster.set_standing(Standing::Serving);
        assert!(is_ready(&cluster));
        let cluster = starting().await;
        cluster.drop_members(&[cluster.view().own.clone()]);
        assert_eq!((cluster.view().standing, is_ready(&cluster)), (Standing::Removed, false));
    }
}
