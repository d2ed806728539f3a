//! Who listens to which service.
//!
//! A subscriber is a service (which need not exist), the clusters it asked for, an address and an agent; the same
//! question again renews it, which is one look-up and one atomic write, since every list with a `udpPort` does it.
//! Pure: times come in as arguments. Source: Nacos 1.4.8 naming module, push clients; compat files `push`,
//! `service-subscribers`.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    hash::{BuildHasher as _, Hash, Hasher, RandomState},
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use equivalent::Equivalent;
use parking_lot::Mutex;

use crate::{
    base::clock::Millis,
    model::{ServiceKey, registry::Place},
};

use super::resolver::Named;

/// Lists of one service that differ in their clusters are built one by one for each push, so their count is bounded.
pub const MOST_SHAPES: usize = 128;
/// A subscriber whose texts (clusters, agent, host name, application) are longer together, in bytes, isn't taken.
pub const MOST_TEXT_BYTES: usize = 2_048;

const SHARDS: usize = 32;

/// A question that subscribes, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The service.
    pub place: Place<'a>,
    /// Names separated by commas, or empty for all clusters.
    pub clusters: &'a str,
    /// Where the packets shall go.
    pub host: Host<'a>,
    /// The port there.
    pub port: u16,
    /// The whole agent text.
    pub agent: &'a str,
}

/// A host as a client names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host<'a> {
    /// By its address.
    Ip(IpAddr),
    /// By a name that must be resolved.
    Name(&'a str),
}

/// One who listens.
#[derive(Debug)]
pub struct Subscriber {
    /// To what.
    pub service: ServiceKey,
    /// The clusters asked for.
    pub clusters: Arc<str>,
    /// `dom` and `serviceName` carry the group.
    pub grouped: bool,
    /// Its agent text.
    pub agent: Box<str>,
    /// The application that it says it is; may be empty.
    pub app: Box<str>,
    /// Where it called from.
    pub caller: IpAddr,
    /// Where its packets go.
    pub target: Target,
    /// [`Millis`] of its last question, or [`GONE`].
    asked_at: AtomicU64,
    /// `lastRefTime` of the newest packet that was sent to it; 0 before the first.
    pub(super) newest_packet: AtomicU64,
}

/// In the place of the last question: it was swept, and can't be renewed any more.
const GONE: u64 = u64::MAX;

/// Where packets go.
#[derive(Debug)]
pub enum Target {
    /// To this address.
    Address(SocketAddr),
    /// To what a name stands for.
    Named(Named),
}

impl Target {
    /// The host as the client named it.
    #[must_use]
    pub fn host(&self) -> Host<'_> {
        match self {
            Self::Address(address) => Host::Ip(address.ip()),
            Self::Named(named) => Host::Name(&named.host),
        }
    }

    /// The port there.
    #[must_use]
    pub fn port(&self) -> u16 {
        match self {
            Self::Address(address) => address.port(),
            Self::Named(named) => named.port,
        }
    }

    /// The address, as far as it is known.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Address(address) => Some(*address),
            Self::Named(named) => named.address(),
        }
    }

    /// The host as lists of subscribers show it: its address, or the name until that is known.
    #[must_use]
    pub fn host_text(&self) -> String {
        match (self.address(), self) {
            (Some(address), _) => address.ip().to_string(),
            (None, Self::Named(named)) => named.host.to_string(),
            (None, Self::Address(address)) => address.ip().to_string(),
        }
    }

    /// Host and port with a colon between, as lists of subscribers show them.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}:{}", self.host_text(), self.port())
    }
}

impl Subscriber {
    fn asked(&self) -> Asked<'_> {
        Asked {
            place: self.service.place(),
            clusters: &self.clusters,
            host: self.target.host(),
            port: self.target.port(),
            agent: &self.agent,
        }
    }

    /// Whether it asked within `lifetime_ms`.
    fn is_live(&self, now: Millis, lifetime_ms: u64) -> bool {
        let asked_at = self.asked_at.load(Ordering::Acquire);
        asked_at != GONE && now.since(Millis(asked_at)) <= lifetime_ms
    }

    fn is_gone(&self) -> bool {
        self.asked_at.load(Ordering::Acquire) == GONE
    }

    /// Notes a question; false when it was swept meanwhile.
    fn renew(&self, now: Millis) -> bool {
        let later = |asked_at| (asked_at != GONE).then_some(now.0.max(asked_at));
        self.asked_at.fetch_update(Ordering::AcqRel, Ordering::Acquire, later).is_ok()
    }

    /// Marks it as swept if its last question is too old.
    fn expire(&self, now: Millis, lifetime_ms: u64) -> bool {
        let expired =
            |asked_at| (asked_at != GONE && now.since(Millis(asked_at)) > lifetime_ms).then_some(GONE);
        self.asked_at.fetch_update(Ordering::AcqRel, Ordering::Acquire, expired).is_ok()
    }
}

impl PartialEq for Asked<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.port == other.port
            && self.host == other.host
            && self.place == other.place
            && self.clusters == other.clusters
            && self.agent == other.agent
    }
}

impl Hash for Asked<'_> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.place.hash(hasher);
        self.clusters.hash(hasher);
        self.host.hash(hasher);
        self.port.hash(hasher);
        self.agent.hash(hasher);
    }
}

/// A subscriber as a key of itself.
#[derive(Clone)]
struct Entry(Arc<Subscriber>);

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.0.asked() == other.0.asked()
    }
}

impl Eq for Entry {}

impl Hash for Entry {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.0.asked().hash(hasher);
    }
}

impl Equivalent<Entry> for Asked<'_> {
    fn equivalent(&self, entry: &Entry) -> bool {
        *self == entry.0.asked()
    }
}

/// Those who get the same list.
#[derive(Clone, Debug)]
pub struct Group {
    /// The clusters they asked for.
    pub clusters: Arc<str>,
    /// `dom` and `serviceName` carry the group.
    pub grouped: bool,
    /// They.
    pub subscribers: Vec<Arc<Subscriber>>,
}

/// Why somebody wasn't subscribed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotTaken {
    /// There are as many as the setting allows.
    Full,
    /// Of this service too many lists that differ are listened to already.
    TooManyShapes,
    /// Its texts are too long.
    TooLong,
}

/// What a new subscriber has besides its question.
#[derive(Debug)]
pub struct Details<'a> {
    /// Where its packets go; host and port as in the question.
    pub target: Target,
    /// `dom` and `serviceName` carry the group.
    pub grouped: bool,
    /// The application that it says it is.
    pub app: &'a str,
    /// Where it called from.
    pub caller: IpAddr,
}

/// All subscribers of this node.
pub struct Subscribers {
    known: papaya::HashMap<Entry, ()>,
    /// The same by service; its locks also order what is added and removed.
    audiences: [Mutex<HashMap<ServiceKey, Vec<Group>>>; SHARDS],
    hasher: RandomState,
    count: AtomicUsize,
    most: usize,
    lifetime_ms: u64,
}

impl fmt::Debug for Subscribers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Subscribers").field("count", &self.len()).finish_non_exhaustive()
    }
}

impl Subscribers {
    /// Nobody. At most `most` at a time, each for `lifetime_ms` after its last question.
    #[must_use]
    pub fn new(most: usize, lifetime_ms: u64) -> Self {
        Self {
            known: papaya::HashMap::new(),
            audiences: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::new(),
            count: AtomicUsize::new(0),
            most,
            lifetime_ms,
        }
    }

    /// How many there are, those included whose time is over but who weren't swept yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Nobody at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Renews a known subscriber and calls `with` with it; nothing where it must be added.
    pub fn renew<T>(
        &self,
        asked: &Asked<'_>,
        now: Millis,
        with: impl FnOnce(&Arc<Subscriber>) -> T,
    ) -> Option<T> {
        let known = self.known.pin();
        let (Entry(subscriber), ()) = known.get_key_value(asked)?;
        subscriber.renew(now).then(|| with(subscriber))
    }

    /// Adds a subscriber, or renews the one that somebody else added meanwhile.
    ///
    /// # Errors
    /// [`NotTaken`]; nothing changes then.
    pub fn add(
        &self,
        asked: &Asked<'_>,
        details: Details<'_>,
        now: Millis,
    ) -> Result<Arc<Subscriber>, NotTaken> {
        let host_bytes = if let Host::Name(name) = asked.host { name.len() } else { 0 };
        let place_bytes = asked.place.namespace.len() + asked.place.name.len();
        let text_bytes =
            asked.clusters.len() + asked.agent.len() + host_bytes + details.app.len() + place_bytes;
        if text_bytes > MOST_TEXT_BYTES {
            return Err(NotTaken::TooLong);
        }
        let key = asked.place.to_key();
        let mut audiences = self.shard(&key).lock();
        let known = self.known.pin();
        if let Some((Entry(subscriber), ())) = known.get_key_value(asked) {
            if subscriber.renew(now) {
                return Ok(Arc::clone(subscriber));
            }
            known.remove(asked);
        }
        let groups = audiences.get(&key).map_or(&[][..], Vec::as_slice);
        let group = groups.iter().position(|group| group.is_for(asked.clusters, details.grouped));
        if group.is_none() && groups.len() >= MOST_SHAPES {
            return Err(NotTaken::TooManyShapes);
        }
        let more = |count| (count < self.most).then_some(count + 1);
        if self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_err() {
            return Err(NotTaken::Full);
        }
        // One copy of the names for all who listen to the same.
        let service = audiences.get_key_value(&key).map_or(key, |(key, _)| key.clone());
        let groups = audiences.entry(service.clone()).or_default();
        let at = group.unwrap_or_else(|| {
            groups.push(Group::new(asked.clusters, details.grouped));
            groups.len() - 1
        });
        let group = &mut groups[at];
        let subscriber = Arc::new(Subscriber {
            service,
            clusters: Arc::clone(&group.clusters),
            grouped: details.grouped,
            agent: asked.agent.into(),
            app: details.app.into(),
            caller: details.caller,
            target: details.target,
            asked_at: AtomicU64::new(now.0),
            newest_packet: AtomicU64::new(0),
        });
        group.subscribers.push(Arc::clone(&subscriber));
        known.insert(Entry(Arc::clone(&subscriber)), ());
        Ok(subscriber)
    }

    fn shard(&self, key: &ServiceKey) -> &Mutex<HashMap<ServiceKey, Vec<Group>>> {
        &self.audiences[self.shard_index(key)]
    }

    fn shard_index(&self, key: &ServiceKey) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "any bits do")]
        let hash = self.hasher.hash_one(key) as usize;
        hash % SHARDS
    }

    /// Whether anybody listens to this service, live or not yet swept.
    #[must_use]
    pub fn has_audience(&self, service: &ServiceKey) -> bool {
        self.shard(service).lock().contains_key(service)
    }

    /// Those who listen to this service now, by the list that they get.
    #[must_use]
    pub fn audience(&self, service: &ServiceKey, now: Millis) -> Vec<Group> {
        let audiences = self.shard(service).lock();
        let groups = audiences.get(service).map_or(&[][..], Vec::as_slice);
        let live = groups.iter().map(|group| Group {
            clusters: Arc::clone(&group.clusters),
            grouped: group.grouped,
            subscribers: group
                .subscribers
                .iter()
                .filter(|subscriber| subscriber.is_live(now, self.lifetime_ms))
                .map(Arc::clone)
                .collect(),
        });
        live.filter(|group| !group.subscribers.is_empty()).collect()
    }

    /// Calls `each` with every subscriber whose time isn't over, in no order.
    pub fn for_each_live(&self, now: Millis, mut each: impl FnMut(&Arc<Subscriber>)) {
        for Entry(subscriber) in self.known.pin().keys() {
            if subscriber.is_live(now, self.lifetime_ms) {
                each(subscriber);
            }
        }
    }

    /// Removes those whose time is over.
    pub fn sweep(&self, now: Millis) {
        self.remove(|subscriber| subscriber.expire(now, self.lifetime_ms));
    }

    /// Removes everybody.
    pub fn clear(&self) {
        self.remove(|subscriber| subscriber.asked_at.swap(GONE, Ordering::AcqRel) != GONE);
    }

    /// Removes those that `ends` has just marked as gone; it must tell so once for each.
    fn remove(&self, ends: impl Fn(&Subscriber) -> bool) {
        let known = self.known.pin();
        let mut gone: Vec<Vec<Arc<Subscriber>>> = vec![Vec::new(); SHARDS];
        for Entry(subscriber) in known.keys() {
            if ends(subscriber) {
                self.count.fetch_sub(1, Ordering::AcqRel);
                gone[self.shard_index(&subscriber.service)].push(Arc::clone(subscriber));
            }
        }
        for (shard, gone) in self.audiences.iter().zip(gone).filter(|(_, gone)| !gone.is_empty()) {
            let mut audiences = shard.lock();
            for subscriber in &gone {
                // It may have been added anew meanwhile; that one stays.
                let is_it = |entry: &Entry| Arc::ptr_eq(&entry.0, subscriber);
                if known.get_key_value(&subscriber.asked()).is_some_and(|(entry, ())| is_it(entry)) {
                    known.remove(&subscriber.asked());
                }
            }
            // Each audience once, however many of its members are gone.
            let services: HashSet<&ServiceKey> = gone.iter().map(|subscriber| &subscriber.service).collect();
            for service in services {
                let Some(groups) = audiences.get_mut(service) else { continue };
                for group in groups.iter_mut() {
                    group.subscribers.retain(|subscriber| !subscriber.is_gone());
                }
                groups.retain(|group| !group.subscribers.is_empty());
                if groups.is_empty() {
                    audiences.remove(service);
                }
            }
        }
    }
}

impl Group {
    fn new(clusters: &str, grouped: bool) -> Self {
        Self { clusters: clusters.into(), grouped, subscribers: Vec::new() }
    }

    fn is_for(&self, clusters: &str, grouped: bool) -> bool {
        self.grouped == grouped && *self.clusters == *clusters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn asked<'a>(name: &'a str, clusters: &'a str, port: u16) -> Asked<'a> {
        let place = Place { namespace: "public", name };
        Asked { place, clusters, host: Host::Ip(HERE), port, agent: "Nacos-Java-Client:v1.4.8" }
    }

    fn ask(subscribers: &Subscribers, asked: &Asked<'_>, now: u64) -> Result<Arc<Subscriber>, NotTaken> {
        if let Some(known) = subscribers.renew(asked, Millis(now), Arc::clone) {
            return Ok(known);
        }
        let target = Target::Address((HERE, asked.port).into());
        subscribers.add(asked, Details { target, grouped: true, app: "", caller: HERE }, Millis(now))
    }

    fn count(subscribers: &Subscribers, name: &str, now: u64) -> usize {
        let groups = subscribers.audience(&ServiceKey::new("public", name), Millis(now));
        groups.iter().map(|group| group.subscribers.len()).sum()
    }

    #[test]
    fn the_same_question_renews() {
        let subscribers = Subscribers::new(10, 30_000);
        let first = ask(&subscribers, &asked("G@@a", "", 1), 0).unwrap();
        let second = ask(&subscribers, &asked("G@@a", "", 1), 20_000).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!((subscribers.len(), count(&subscribers, "G@@a", 50_000)), (1, 1));
        assert_eq!(count(&subscribers, "G@@a", 50_001), 0);
    }

    #[test]
    fn service_clusters_address_and_agent_make_a_subscriber() {
        let subscribers = Subscribers::new(10, 30_000);
        let one = asked("G@@a", "", 1);
        let others = [
            asked("G@@b", "", 1),
            asked("G@@a", "A", 1),
            asked("G@@a", "", 2),
            Asked { agent: "Nacos-Java-Client:v1.4.7", ..one },
            Asked { place: Place { namespace: "n", ..one.place }, ..one },
            Asked { host: Host::Name("localhost"), ..one },
        ];
        ask(&subscribers, &one, 0).unwrap();
        for other in &others {
            assert!(subscribers.renew(other, Millis(0), |_| ()).is_none(), "{other:?}");
            ask(&subscribers, other, 0).unwrap();
        }
        assert_eq!(subscribers.len(), 1 + others.len());
        assert_eq!(subscribers.audience(&ServiceKey::new("public", "G@@a"), Millis(0)).len(), 2);
    }

    #[test]
    fn at_the_bound_nobody_is_added_but_the_known_are_renewed() {
        let subscribers = Subscribers::new(2, 30_000);
        ask(&subscribers, &asked("G@@a", "", 1), 0).unwrap();
        ask(&subscribers, &asked("G@@a", "", 2), 0).unwrap();
        assert_eq!(ask(&subscribers, &asked("G@@a", "", 3), 0).unwrap_err(), NotTaken::Full);
        ask(&subscribers, &asked("G@@a", "", 2), 20_000).unwrap();
        subscribers.sweep(Millis(40_000));
        assert_eq!(subscribers.len(), 1);
        ask(&subscribers, &asked("G@@a", "", 3), 40_000).unwrap();
        assert_eq!(count(&subscribers, "G@@a", 40_000), 2);
    }

    #[test]
    fn long_texts_and_too_many_lists_of_a_service_are_not_taken() {
        let subscribers = Subscribers::new(1_000, 30_000);
        let long = "A".repeat(MOST_TEXT_BYTES);
        assert_eq!(ask(&subscribers, &asked("G@@a", &long, 1), 0).unwrap_err(), NotTaken::TooLong);
        for index in 0..MOST_SHAPES {
            ask(&subscribers, &asked("G@@a", &index.to_string(), 1), 0).unwrap();
        }
        assert_eq!(ask(&subscribers, &asked("G@@a", "more", 1), 0).unwrap_err(), NotTaken::TooManyShapes);
        ask(&subscribers, &asked("G@@a", "0", 2), 0).unwrap();
        ask(&subscribers, &asked("G@@b", "more", 1), 0).unwrap();
    }

    #[test]
    fn the_swept_leave_nothing_behind() {
        let subscribers = Subscribers::new(10, 30_000);
        ask(&subscribers, &asked("G@@a", "", 1), 0).unwrap();
        ask(&subscribers, &asked("G@@a", "A", 1), 10_000).unwrap();
        subscribers.sweep(Millis(30_001));
        assert_eq!(subscribers.len(), 1);
        assert!(subscribers.has_audience(&ServiceKey::new("public", "G@@a")));
        subscribers.sweep(Millis(40_001));
        assert!(subscribers.is_empty() && subscribers.known.is_empty());
        assert!(subscribers.audiences.iter().all(|shard| shard.lock().is_empty()));
    }

    #[test]
    fn one_who_asks_again_while_being_swept_stays() {
        let subscribers = Subscribers::new(10, 30_000);
        let question = asked("G@@a", "", 1);
        let old = ask(&subscribers, &question, 0).unwrap();
        // As a sweep does between marking and removing.
        assert!(old.expire(Millis(30_001), 30_000));
        subscribers.count.fetch_sub(1, Ordering::AcqRel);
        let new = ask(&subscribers, &question, 30_001).unwrap();
        assert!(!Arc::ptr_eq(&old, &new));
        subscribers.sweep(Millis(30_002));
        assert_eq!((subscribers.len(), count(&subscribers, "G@@a", 30_002)), (1, 1));
    }

    #[test]
    fn clearing_removes_everybody() {
        let subscribers = Subscribers::new(10, 30_000);
        ask(&subscribers, &asked("G@@a", "", 1), 0).unwrap();
        subscribers.clear();
        assert!(subscribers.is_empty() && subscribers.known.is_empty());
        assert_eq!(count(&subscribers, "G@@a", 0), 0);
    }
}
