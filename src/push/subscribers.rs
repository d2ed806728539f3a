//! Who listens to which service.
//!
//! All [`Subscriber`]s, found by their question and by their service, and swept when their time is over. The same
//! question again renews, which is one look-up and one atomic write, since every list with a `udpPort` does it.
//! Pure: times come in as arguments. Source: Nacos 1.4.8 naming module, push clients; compat files `push`,
//! `service-subscribers`.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;

use super::subscriber::{Asked, Details, Entry, Host, Subscriber};
use crate::{base::clock::Millis, model::ServiceKey};

/// Lists of one service that differ in their clusters are built one by one for each push, so their count is bounded.
pub const MOST_SHAPES: usize = 128;
/// A subscriber whose texts (clusters, agent, host name, application) are longer together, in bytes, isn't taken.
pub const MOST_TEXT_BYTES: usize = 2_048;

const SHARDS: usize = 32;

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
        let clusters = Arc::clone(&group.clusters);
        let subscriber = Arc::new(Subscriber::new(service, clusters, asked, details, now));
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
        self.remove(Subscriber::end);
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
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::{model::Place, push::subscriber::Target};

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

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
