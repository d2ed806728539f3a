//! What members of Nacos 1.x say to compare: the checksums of all that they own, and of services with their health.
//!
//! Their checksums decide nothing by themselves: what differs or is missing is asked for, and only what the owner then
//! doesn't know has gone. Source: Nacos 1.4.8 naming module, distro consistency service and service manager.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};

use futures_util::{
    future::join_all,
    stream::{self, FuturesUnordered, StreamExt as _},
};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    checksum,
    exchange::Exchange,
    handle::{DISPUTED, Distro},
    key::{self, Key},
    mapper::{Owner, owner},
};
use crate::{
    cluster::{Address, Standing, View},
    model::{Registry, ServiceKey},
};

/// Time between two reports of health, and from when the node serves to the first. The reference waits for a minute at first; while this node was
/// away, others may have called instances unhealthy that beat to it again, and data alone change no health there.
const REPORTS_MS: u64 = 5_000;
const REPORTS: Duration = Duration::from_millis(REPORTS_MS);
/// Services of one member about which it is asked at once.
const MOST_ASKED: usize = 8;
/// Services whose health waits to be asked for; beyond it the next report asks again.
const MOST_WAITING: usize = 100_000;

/// What a member's checksums say.
#[derive(Debug, PartialEq, Eq)]
pub enum Compared {
    /// It says that it owns what this node owns: the two see different clusters, and nothing can be concluded.
    Disputed(ServiceKey),
    /// These are to be asked for.
    Differing(Vec<ServiceKey>),
}

/// Compares the checksums (by key) that `source` sent of all that it owns. What it takes for its own and isn't, by this node's
/// view, is passed over.
#[must_use]
pub fn compare(
    registry: &Registry,
    view: &View,
    source: &Address,
    checksums: &BTreeMap<String, String>,
) -> Compared {
    let mut differing = BTreeSet::new();
    for (text, sent) in checksums {
        // Other keys hold what isn't exchanged here.
        let Key::List(place) = key::read(text) else { continue };
        match owner(view, place.name) {
            Owner::Here => return Compared::Disputed(place.to_key()),
            Owner::Peer(owner) if owner == source => {
                let service = registry.get(place);
                if service.is_none_or(|service| checksum::of(&service.state()) != *sent) {
                    differing.insert(place.to_key());
                }
            }
            Owner::Peer(_) | Owner::Nobody => {}
        }
    }
    registry.for_each(|service| {
        if owner(view, &service.key.name) == Owner::Peer(source)
            && !service.state().ephemeral.is_empty()
            && !checksums.contains_key(&key::of(service.key.place()))
        {
            differing.insert(service.key.clone());
        }
    });
    Compared::Differing(differing.into_iter().collect())
}

/// Services whose health members of 1.x see otherwise.
#[derive(Debug, Default)]
pub(super) struct Health {
    waiting: Mutex<BTreeMap<Address, BTreeSet<ServiceKey>>>,
    any: Notify,
}

impl Health {
    fn put(&self, from: &Address, keys: Vec<ServiceKey>) {
        let mut waiting = self.waiting.lock();
        let room = MOST_WAITING.saturating_sub(waiting.values().map(BTreeSet::len).sum());
        waiting.entry(from.clone()).or_default().extend(keys.into_iter().take(room));
        drop(waiting);
        self.any.notify_one();
    }

    /// Of which something waits.
    fn members(&self) -> Vec<Address> {
        self.waiting.lock().keys().cloned().collect()
    }

    /// What a member is asked for next.
    fn next(&self, from: &Address) -> Option<ServiceKey> {
        let mut waiting = self.waiting.lock();
        let next = waiting.get_mut(from).and_then(BTreeSet::pop_first);
        if next.is_none() {
            waiting.remove(from);
        }
        next
    }

    fn forget(&self, from: &Address) {
        self.waiting.lock().remove(from);
    }
}

impl Distro {
    /// A member of 1.x tells the checksums (by key) of what it owns. Tells whether it was taken for what it says.
    pub fn compare_legacy(&self, source: &Address, checksums: &BTreeMap<String, String>) -> bool {
        let view = self.0.cluster.view();
        if view.peer(source).is_none() || view.standing != Standing::Serving {
            return false;
        }
        match compare(&self.0.lists.0, &view, source, checksums) {
            Compared::Disputed(key) => {
                self.note_failure(
                    source,
                    DISPUTED,
                    &format!("it says that it owns {key}, which is this node's"),
                );
                false
            }
            Compared::Differing(keys) => {
                self.pull(source, keys);
                true
            }
        }
    }

    /// Asks a member of 1.x for lists of its own, but for those of which something waits for it. Keys are parted by commas, so one
    /// that has a comma can't be asked for: it comes with the next change.
    pub(super) fn pull(&self, from: &Address, keys: impl IntoIterator<Item = ServiceKey>) {
        let mut keys = keys.into_iter().filter(|key| !key.namespace.contains(',')).peekable();
        if keys.peek().is_some() {
            self.0.core.lock().pull(from, keys, self.0.clock.now());
            self.0.woken.notify_one();
        }
    }

    /// A member of 1.x tells the checksums (by name) of the services of a namespace that it owns, health included.
    pub fn compare_health(&self, source: &Address, namespace: &str, checksums: &HashMap<String, String>) {
        let view = self.0.cluster.view();
        let unlike = unlike(&self.0.lists.0, &view, source, (namespace, checksums));
        if !unlike.is_empty() {
            self.0.health.put(source, unlike);
        }
    }
}

/// The services of a namespace that `source`, a member of 1.x, owns and that it sees otherwise by these checksums (by
/// name). None while this node doesn't serve: it loads, or compares, all.
fn unlike(
    registry: &Registry,
    view: &View,
    source: &Address,
    (namespace, checksums): (&str, &HashMap<String, String>),
) -> Vec<ServiceKey> {
    if view.standing != Standing::Serving || view.peer(source).is_none_or(|peer| peer.nacre.is_some()) {
        return Vec::new();
    }
    let owned = checksums.iter().filter(|(name, _)| owner(view, name) == Owner::Peer(source));
    let differing = owned.filter_map(|(name, sent)| {
        let key = ServiceKey::new(namespace, name);
        let service = registry.get(key.place())?;
        service.refresh_checksum();
        (service.state().checksum(&key.name) != sent).then_some(key)
    });
    differing.collect()
}

impl Exchange {
    /// Tells members of 1.x the health of what this node owns, and asks them for that of what they own, until `stopped`.
    pub async fn exchange_health(self, stopped: CancellationToken) {
        tokio::select! {
            () = stopped.cancelled() => {}
            never = self.report_healths() => match never {},
            never = self.pull_healths() => match never {},
        }
    }

    async fn report_healths(&self) -> Infallible {
        let mut reports = tokio::time::interval_at(tokio::time::Instant::now() + REPORTS, REPORTS);
        reports.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            reports.tick().await;
            // What was loaded may be another's mistake; after that time those that live have beaten here.
            if self.distro.has_served(REPORTS_MS) {
                self.report_health().await;
            }
        }
    }

    /// Each member by itself: one that hangs, or has much to tell, keeps no other waiting.
    async fn pull_healths(&self) -> Infallible {
        let (mut pulls, mut pulled) = (FuturesUnordered::new(), BTreeSet::new());
        loop {
            for from in self.distro.0.health.members() {
                if pulled.insert(from.clone()) {
                    pulls.push(async move {
                        self.pull_health(&from).await;
                        from
                    });
                }
            }
            tokio::select! {
                () = self.distro.0.health.any.notified() => {}
                Some(from) = pulls.next() => {
                    pulled.remove(&from);
                }
            }
        }
    }

    async fn report_health(&self) {
        let view = self.distro.0.cluster.view();
        let legacy: Vec<_> = view.peers.iter().filter(|peer| peer.nacre.is_none()).collect();
        if legacy.is_empty() {
            return;
        }
        let mut namespaces: BTreeMap<Arc<str>, Vec<(Arc<str>, String)>> = BTreeMap::new();
        self.distro.0.lists.0.for_each(|service| {
            if owner(&view, &service.key.name) == Owner::Here {
                service.refresh_checksum();
                let checksum = service.state().checksum(&service.key.name).to_owned();
                let of_namespace = namespaces.entry(Arc::clone(&service.key.namespace)).or_default();
                of_namespace.push((Arc::clone(&service.key.name), checksum));
            }
        });
        // One that hangs keeps no other waiting.
        join_all(legacy.iter().map(|peer| self.report_health_to(&peer.address, &namespaces))).await;
    }

    async fn report_health_to(&self, to: &Address, namespaces: &BTreeMap<Arc<str>, Vec<(Arc<str>, String)>>) {
        for (namespace, services) in namespaces {
            let checksums = services.iter().map(|(name, checksum)| (&**name, &**checksum));
            if let Err(error) = self.peers.service_status(to, namespace, checksums).await {
                self.distro.note_failure(to, error.kind(), &error.to_string());
                return;
            }
        }
    }

    async fn pull_health(&self, from: &Address) {
        let health = &self.distro.0.health;
        let waiting = stream::iter(std::iter::from_fn(|| health.next(from)));
        let ask = async |key: ServiceKey| match self.peers.statuses(from, &key.namespace, &key.name).await {
            Ok(statuses) => self.take_health(from, &key, &statuses),
            Err(error) => {
                self.distro.note_failure(from, error.kind(), &error.to_string());
                // Its next report asks again.
                health.forget(from);
            }
        };
        waiting.for_each_concurrent(MOST_ASKED, ask).await;
    }

    /// Those that aren't named are unhealthy, as the reference has it; unless the service has another owner by now.
    fn take_health(&self, from: &Address, key: &ServiceKey, statuses: &[(String, bool)]) {
        let (registry, view) = (&self.distro.0.lists.0, self.distro.0.cluster.view());
        if owner(&view, &key.name) != Owner::Peer(from) {
            return;
        }
        let Some(service) = registry.get(key.place()) else { return };
        let healthy: BTreeSet<&str> =
            statuses.iter().filter(|(_, healthy)| *healthy).map(|(address, _)| &**address).collect();
        let decide = |instance: &crate::model::Instance| {
            let address = format!("{}:{}", instance.ip(), instance.port);
            instance.ephemeral.then(|| healthy.contains(&*address))
        };
        registry.take_health(&service, self.distro.0.clock.now(), decide);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::clock::{Millis, Reading},
        cluster::{Mapping, MemberState, Peer},
        model::{Limits, instance::Description, registry::Place},
    };

    fn names(owned_by: Owner<'_>, view: &View, count: usize) -> Vec<String> {
        let names = (0..1_000).map(|n| format!("G@@{n}"));
        names.filter(|name| owner(view, name) == owned_by).take(count).collect()
    }

    #[test]
    fn health_is_asked_of_the_member_of_1x_that_owns_the_service() {
        let (own, source) = (Address::new("10.0.0.1:8848"), Address::new("10.0.0.2:8848"));
        let view = |standing, nacre| {
            let mut peer = Peer::new(source.clone(), MemberState::Up);
            peer.nacre = nacre;
            View::new(own.clone(), standing, vec![peer], Mapping::Modulo)
        };
        let serving = view(Standing::Serving, None);
        let registry = Registry::new(Arc::default(), Limits::default());
        let registry = registry.shared(Reading { now: Millis(1), wall_ms: 1 });
        let (theirs, ours) = (names(Owner::Peer(&source), &serving, 3), names(Owner::Here, &serving, 1));
        for name in theirs[..2].iter().chain(&ours) {
            let place = Place { namespace: "public", name };
            registry.register(place, &Description::new("a", 80, "DEFAULT"), Millis(1)).unwrap();
        }
        let same = registry.get(Place { namespace: "public", name: &theirs[0] }).unwrap();
        same.refresh_checksum();
        let same = same.state().checksum(&theirs[0]).to_owned();
        let sent = HashMap::from([
            (theirs[0].clone(), same),
            (theirs[1].clone(), "other".into()),
            (theirs[2].clone(), "unknown here".into()),
            (ours[0].clone(), "other".into()),
        ]);
        let ask = |view: &View, source: &Address| unlike(&registry, view, source, ("public", &sent));
        assert_eq!(ask(&serving, &source), [ServiceKey::new("public", &theirs[1])]);
        assert_eq!(ask(&view(Standing::Starting, None), &source), []);
        assert_eq!(ask(&view(Standing::Serving, Some(1)), &source), [], "a Nacre member compares otherwise");
        assert_eq!(ask(&serving, &Address::new("10.0.0.3:8848")), [], "not listed");
        assert_eq!(unlike(&registry, &serving, &source, ("other", &sent)), []);
    }

    #[test]
    fn what_waits_to_be_asked_for_is_bounded_and_goes_with_a_member_that_does_not_answer() {
        let health = Health::default();
        let [one, other] = ["10.0.0.2:8848", "10.0.0.3:8848"].map(Address::new);
        let keys = |from: usize| (from..from + 70_000).map(|n| ServiceKey::new("public", &format!("G@@{n}")));
        health.put(&one, keys(0).collect());
        health.put(&other, keys(0).collect());
        health.put(&one, keys(0).collect());
        let count = |from: &Address| std::iter::from_fn(|| health.next(from)).count();
        assert_eq!(health.members(), [one.clone(), other.clone()]);
        assert_eq!((count(&other), health.members()), (30_000, vec![one.clone()]));
        health.forget(&one);
        assert_eq!((count(&one), health.members()), (0, vec![]));
    }

    #[test]
    fn what_differs_is_asked_for_and_a_dispute_ends_it() {
        let (own, source) = (Address::new("10.0.0.1:8848"), Address::new("10.0.0.2:8848"));
        let peers = vec![Peer::new(source.clone(), MemberState::Up)];
        let view = View::new(own, Standing::Serving, peers, Mapping::Modulo);
        let registry = Registry::new(Arc::default(), Limits::default());
        let registry = registry.shared(Reading { now: Millis(1), wall_ms: 1 });
        let theirs = names(Owner::Peer(&source), &view, 4);
        let ours = names(Owner::Here, &view, 2);
        for name in theirs[..3].iter().chain(&ours) {
            let place = Place { namespace: "public", name };
            registry.register(place, &Description::new("a", 80, "DEFAULT"), Millis(1)).unwrap();
        }
        let key = |name: &str| key::of(Place { namespace: "public", name });
        let own_checksum =
            |name: &str| checksum::of(&registry.get(Place { namespace: "public", name }).unwrap().state());
        let sent = [
            (key(&theirs[0]), own_checksum(&theirs[0])),
            (key(&theirs[1]), "other".into()),
            (key(&theirs[3]), "unknown here".into()),
            ("something else".into(), "x".into()),
        ];
        let mut sent = BTreeMap::from(sent);
        let compared = compare(&registry, &view, &source, &sent);
        let mut expected: Vec<_> = theirs[1..].iter().map(|name| ServiceKey::new("public", name)).collect();
        expected.sort();
        assert_eq!(compared, Compared::Differing(expected));
        let other = Address::new("10.0.0.3:8848");
        assert_eq!(compare(&registry, &view, &other, &sent), Compared::Differing(vec![]), "not its own");
        sent.insert(key(&ours[0]), own_checksum(&ours[0]));
        assert_eq!(
            compare(&registry, &view, &source, &sent),
            Compared::Disputed(ServiceKey::new("public", &ours[0]))
        );
    }
}
