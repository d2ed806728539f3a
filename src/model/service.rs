//! A service: its definition and its instances, as a chain of immutable states.
//!
//! Readers take the current [`State`] without a lock. Writers hold the service's lock, change a [`Draft`] and
//! publish it as the next revision; instances are shared between revisions, so a write costs O(log n).
//! Source: Nacos 1.4.8 naming module, service; compat files `service-*`.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize, Serializer};

pub use super::draft::{Draft, Moment, Touched};
use super::{
    Instance, InstanceKey, Instances, Metadata, ServiceKey,
    checksum::Checksum,
    cluster::Cluster,
    gone::{Cause, Gone, Tombstones},
    list::Answers,
    selector::Selector,
};
use crate::base::{clock::Millis, java};

/// Time between two looks at a service, from its making on.
pub const GRID_MS: u64 = 5_000;

/// What is known of a service besides its instances.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    /// Share of healthy instances at or below which all are shown as healthy; any 32-bit float, `NaN` too.
    #[serde(with = "threshold_bits")]
    pub protect_threshold: f32,
    /// As given.
    pub metadata: Metadata,
    /// As given.
    pub selector: Selector,
    /// In order of arrival.
    pub clusters: Vec<Cluster>,
    /// Made or changed by a request about the service or a cluster of it; one that a registration made goes when it is
    /// empty.
    pub explicit: bool,
    /// The service came into being by a request about itself: its checksum names the clusters in order of arrival,
    /// not in that of a hash map.
    pub made_by_request: bool,
    /// It lies in the store: that of a service that a request made or changed, or that ever had a persistent instance.
    /// Set when it is stored, so not itself in it.
    #[serde(skip, default = "is_stored")]
    pub durable: bool,
}

/// What is read from the store is stored.
fn is_stored() -> bool {
    true
}

/// A protection threshold as answers show it: those that JSON can't hold are texts.
#[derive(Clone, Copy, Debug)]
pub struct Threshold(pub f32);

impl Serialize for Threshold {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            number if number.is_finite() => number.serialize(serializer),
            number => java::float_text(number).serialize(serializer),
        }
    }
}

/// Thresholds are stored by their bits, since JSON knows no `NaN`.
mod threshold_bits {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(value: &f32, serializer: S) -> Result<S::Ok, S::Error> {
        value.to_bits().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f32, D::Error> {
        u32::deserialize(deserializer).map(f32::from_bits)
    }
}

impl Definition {
    /// The cluster of this name.
    #[must_use]
    pub fn cluster(&self, name: &str) -> Option<&Cluster> {
        self.clusters.iter().find(|cluster| &*cluster.name == name)
    }

    /// The clusters as answers name them: in order of arrival where a request made the service, else in that of a Java
    /// hash map.
    #[must_use]
    pub fn clusters_in_order(&self) -> Vec<&Cluster> {
        let mut clusters: Vec<&Cluster> = self.clusters.iter().collect();
        if !self.made_by_request {
            java::hash_map_order(&mut clusters, |cluster| &cluster.name);
        }
        clusters
    }

    /// Kept although nothing is registered in it.
    #[must_use]
    pub fn outlives_its_instances(&self) -> bool {
        self.explicit || !self.metadata.is_empty()
    }
}

/// One revision of a service.
#[derive(Debug)]
pub struct State {
    /// Counts the writes.
    pub revision: u64,
    /// What is known besides the instances.
    pub definition: Arc<Definition>,
    /// Those that live by beats.
    pub ephemeral: Instances,
    /// Those that stay.
    pub persistent: Instances,
    /// Ephemeral ones that are gone, where peers share the data.
    pub gone: Tombstones,
    /// No ephemeral instance and no tombstone, gone by or there, had a higher stamp when this was published.
    pub highest_stamp: u64,
    /// See [`State::digest`].
    pub(super) digest: OnceLock<u64>,
    /// See [`State::datum_checksum`].
    datum_checksum: OnceLock<[u8; 16]>,
    /// Of the list as it was when it last changed; health that changed since isn't in it.
    pub(super) checksum: Arc<Checksum>,
    /// Health changed since the checksum was taken.
    pub(super) checksum_is_old: bool,
    pub(super) answers: Answers,
}

impl State {
    /// Both kinds, persistent ones first.
    pub fn instances(&self) -> impl Iterator<Item = &Arc<Instance>> {
        self.persistent.iter().chain(self.ephemeral.iter())
    }

    /// Count of both kinds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.persistent.len() + self.ephemeral.len()
    }

    /// Nothing is registered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Nothing is registered or remembered and nobody made it on purpose, so that it goes some time after.
    #[must_use]
    pub fn may_go(&self) -> bool {
        self.is_empty() && self.gone.is_empty() && !self.definition.outlives_its_instances()
    }

    /// The ephemeral instances that have been silent for longer than `after_ms`.
    pub fn silent_for(&self, now: Millis, after_ms: u64) -> impl Iterator<Item = &Arc<Instance>> {
        self.ephemeral.iter().filter(move |instance| now.since(instance.last_beat()) > after_ms)
    }

    /// The checksum of the ephemeral list that 1.x peers compare; made by whoever asks first of a revision.
    pub fn datum_checksum(&self, make: impl FnOnce(&Self) -> [u8; 16]) -> [u8; 16] {
        *self.datum_checksum.get_or_init(|| make(self))
    }

    /// The instances of one kind.
    #[must_use]
    pub fn of_kind(&self, ephemeral: bool) -> &Instances {
        if ephemeral { &self.ephemeral } else { &self.persistent }
    }

    /// The checksum that lists show, as 32 hexadecimal digits; made by the first reader of a revision.
    #[must_use]
    pub fn checksum(&self, name: &str) -> &str {
        self.checksum.get(name, self)
    }
}

/// A service, for as long as it exists.
#[derive(Debug)]
pub struct Service {
    /// Where it lives.
    pub key: ServiceKey,
    /// Expiry acts every [`GRID_MS`] from here on.
    pub made_at: Millis,
    state: ArcSwap<State>,
    /// Until when nobody is judged by silence.
    grace_until: AtomicU64,
    /// The order of writes; holds whether the service has been removed.
    removed: Mutex<bool>,
    /// A report about it is waiting to be taken.
    pub(crate) announced: AtomicBool,
    /// A report of something written here is waiting to be taken.
    pub(crate) announced_local: AtomicBool,
}

/// The service was removed between finding it and writing to it; look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removed;

impl Service {
    /// A service without instances.
    #[must_use]
    pub fn new(key: ServiceKey, definition: Definition, now: Millis) -> Arc<Self> {
        Self::with_stamps_above(0, key, definition, now)
    }

    /// A service without instances, whose stamps will be higher than this one.
    #[must_use]
    pub(super) fn with_stamps_above(
        highest_stamp: u64,
        key: ServiceKey,
        definition: Definition,
        now: Millis,
    ) -> Arc<Self> {
        let state = State {
            revision: 0,
            definition: Arc::new(definition),
            ephemeral: Instances::new(),
            persistent: Instances::new(),
            gone: Tombstones::default(),
            highest_stamp,
            digest: OnceLock::new(),
            datum_checksum: OnceLock::new(),
            checksum: Arc::default(),
            checksum_is_old: false,
            answers: Answers::default(),
        };
        Arc::new(Self {
            key,
            made_at: now,
            state: ArcSwap::from_pointee(state),
            grace_until: AtomicU64::new(0),
            removed: Mutex::new(false),
            announced: AtomicBool::new(false),
            announced_local: AtomicBool::new(false),
        })
    }

    /// Until when silence says nothing about its instances: their beats went to another node until a moment ago.
    #[must_use]
    pub fn grace_until(&self) -> Millis {
        Millis(self.grace_until.load(Ordering::Relaxed))
    }

    /// Lets nobody be judged by silence until then.
    pub fn give_grace(&self, until: Millis) {
        self.grace_until.fetch_max(until.0, Ordering::Relaxed);
    }

    /// The newest revision.
    #[must_use]
    pub fn state(&self) -> Arc<State> {
        self.state.load_full()
    }

    /// Notes a beat of the instance with this key if there is one, and tells what was found.
    ///
    /// Takes no lock: where a write published a new revision meanwhile, the beat is noted there too.
    pub fn beat(&self, key: &super::InstanceKey<'_>, now: Millis) -> Beaten {
        let mut state = self.state.load();
        loop {
            let found = match (state.ephemeral.get(key), state.persistent.get(key)) {
                // Whatever stands under the same key in the other kind.
                (Some(instance), _) => {
                    instance.beat(now);
                    Beaten::Ephemeral(Arc::clone(instance))
                }
                (None, Some(instance)) => Beaten::Persistent(Arc::clone(instance)),
                (None, None) if has_just_left(&state, key, now) => Beaten::JustLeft,
                (None, None) => Beaten::Unknown,
            };
            let newest = self.state.load();
            if Arc::ptr_eq(&state, &newest) {
                return found;
            }
            state = newest;
        }
    }

    /// Notes a beat of the ephemeral instance with this key that a peer tells of, if there is one and it is later than
    /// the one that is known ([`Instance::hear_beat`]); tells whether it is.
    pub fn hear_beat(&self, key: &InstanceKey<'_>, at: Millis) -> bool {
        let mut state = self.state.load();
        loop {
            let later = state.ephemeral.get(key).is_some_and(|instance| instance.hear_beat(at));
            let newest = self.state.load();
            if Arc::ptr_eq(&state, &newest) {
                return later;
            }
            state = newest;
        }
    }

    /// Notes a beat of the ephemeral instance with this key that went on to the owner, if there is one
    /// ([`Instance::overhear`]). One that is written anew in the same moment may miss it: the next will do.
    pub fn overhear(&self, key: &InstanceKey<'_>, at: Millis) {
        if let Some(instance) = self.state.load().ephemeral.get(key) {
            instance.overhear(at);
        }
    }

    /// Lets `change` make the next revision; it is published before this returns.
    ///
    /// A draft that `change` didn't touch publishes nothing.
    ///
    /// # Errors
    /// [`Removed`] if the service is gone; nothing was called then.
    pub fn write<T>(
        &self,
        moment: Moment,
        change: impl FnOnce(&mut Draft) -> T,
    ) -> Result<(T, Touched), Removed> {
        let removed = self.removed.lock();
        if *removed {
            return Err(Removed);
        }
        let before = self.state.load();
        let mut draft = Draft::of(&before, moment);
        let result = change(&mut draft);
        Ok((result, self.publish(&before, draft)))
    }

    /// Publishes a draft that was touched; callers hold the lock.
    fn publish(&self, before: &State, mut draft: Draft) -> Touched {
        let mut touched = draft.touched;
        if touched != Touched::default() {
            (touched.forgotten, touched.highest_stamp) = (draft.gone.bound(), draft.highest_stamp);
            let anew = touched.instances || touched.definition || touched.checksum;
            self.state.store(Arc::new(State {
                revision: before.revision + 1,
                definition: draft.definition,
                ephemeral: draft.ephemeral,
                persistent: draft.persistent,
                gone: draft.gone,
                highest_stamp: draft.highest_stamp,
                digest: OnceLock::new(),
                datum_checksum: OnceLock::new(),
                checksum: if anew { Arc::default() } else { Arc::clone(&before.checksum) },
                checksum_is_old: !anew && (before.checksum_is_old || touched.health),
                answers: Answers::default(),
            }));
            // From here on a beat finds the new ones; what came to the old ones in between counts.
            for (before, instance) in &draft.replaced {
                instance.inherit_beat(before);
            }
        }
        touched
    }

    /// Sets the health of instances: `decide` gives the wanted health of each, or nothing to leave it.
    ///
    /// It is asked again after the health has been set: a beat that came in between saw the old one, and wins.
    /// Tells how many have another health now. What `received` says of ephemeral ones isn't news to peers.
    ///
    /// # Errors
    /// [`Removed`] if the service is gone.
    pub fn set_health(
        &self,
        moment: Moment,
        received: bool,
        decide: impl Fn(&Instance) -> Option<bool>,
    ) -> Result<(u64, Touched), Removed> {
        let state = self.state();
        let changes = |instance: &Instance| decide(instance).filter(|&healthy| healthy != instance.healthy());
        if !state.instances().any(|instance| changes(instance).is_some()) {
            return Ok((0, Touched::default()));
        }
        self.write(moment, |draft| {
            let mut changed = 0;
            let current = self.state.load();
            // The checksum keeps the health of the last change of the list.
            let _ = current.checksum(&self.key.name);
            for instance in current.instances() {
                let Some(healthy) = changes(instance) else { continue };
                draft.set_health(instance, healthy, received);
                if decide(instance) == Some(healthy) {
                    changed += 1;
                } else {
                    draft.take_back_health(instance, !healthy);
                }
            }
            draft.touched.health |= changed > 0;
            changed
        })
    }

    /// Sets the health of the ephemeral instance with this key, if it is there.
    ///
    /// # Errors
    /// [`Removed`] if the service is gone.
    pub fn set_health_of(
        &self,
        moment: Moment,
        key: &InstanceKey<'_>,
        healthy: bool,
    ) -> Result<Touched, Removed> {
        let ((), touched) = self.write(moment, |draft| {
            let Some(instance) = draft.ephemeral.get(key).cloned() else { return };
            if instance.healthy() != healthy {
                // The checksum keeps the health of the last change of the list.
                let _ = self.state.load().checksum(&self.key.name);
                draft.set_health(&instance, healthy, false);
                draft.touched.health = true;
            }
        })?;
        Ok(touched)
    }

    /// Brings the checksum up to date where health changed since it was taken.
    pub fn refresh_checksum(&self) {
        if self.state.load().checksum_is_old {
            let nothing_stamped = Moment { now: Millis(0), least_stamp: 0, keeps_gone: false };
            let _ = self.write(nothing_stamped, |draft| draft.touched.checksum = true);
        }
    }

    /// Marks the service as removed when `agrees` with its last state; no write succeeds afterwards.
    ///
    /// Where tombstones are kept, a state in which all ephemeral instances have left is published before. Tells what
    /// that changed, or nothing where the service stays.
    pub(super) fn remove_if(&self, moment: Moment, agrees: impl FnOnce(&State) -> bool) -> Option<Touched> {
        let mut removed = self.removed.lock();
        let before = self.state.load();
        if *removed || !agrees(&before) {
            return None;
        }
        *removed = true;
        let mut draft = Draft::of(&before, moment);
        if moment.keeps_gone {
            for instance in &before.ephemeral {
                draft.remove(&instance.key(), Cause::Left);
            }
        }
        Some(self.publish(&before, draft))
    }

    /// Whether it has been removed from the registry.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        *self.removed.lock()
    }

    /// Whether a report about it is waiting to be taken.
    #[cfg(test)]
    pub fn is_announced(&self) -> bool {
        self.announced.load(Ordering::Acquire)
    }
}

/// What a beat found.
#[derive(Debug, Clone)]
pub enum Beaten {
    /// This instance, whose time is renewed now.
    Ephemeral(Arc<Instance>),
    /// A persistent one, on which beats have no effect.
    Persistent(Arc<Instance>),
    /// Nothing any more: it was removed less than [`JUST_LEFT_MS`] ago. Only where tombstones are kept.
    JustLeft,
    /// Nothing.
    Unknown,
}

/// A beat that comes so soon after a removal, in milliseconds, was sent before it: for as long clients wait for an answer.
/// The next one of a client that lives comes later.
pub const JUST_LEFT_MS: u64 = 3_000;

fn has_just_left(state: &State, key: &InstanceKey<'_>, now: Millis) -> bool {
    // When what an owner's list lacks went there isn't known.
    let left = |gone: &Gone| gone.cause == Cause::Left && now.since(gone.at) < JUST_LEFT_MS;
    state.gone.get(key).is_some_and(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_beyond_json_are_texts() {
        let text = |value: f32| String::from_utf8(crate::base::json::to_bytes(&Threshold(value))).unwrap();
        assert_eq!((text(0.0), text(0.8)), ("0.0".into(), "0.8".into()));
        assert_eq!((text(f32::NAN), text(f32::NEG_INFINITY)), ("\"NaN\"".into(), "\"-Infinity\"".into()));
    }
}
