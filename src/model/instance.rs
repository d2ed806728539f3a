//! One instance: an address in a cluster, and what is known of it.
//!
//! Pure. The description never changes, a new one takes its place; only, in one cell, what was heard of its client and, in
//! another, health and stamp change inside, so that a beat copies nothing. Source: Nacos 1.4.8 naming module, instance;
//! compat files `instance-register`, `instance-ids`, `beat`.

use std::{
    cmp::Ordering,
    num::NonZero,
    sync::atomic::{AtomicU8, AtomicU64, Ordering as Atomic},
};

pub use super::key::{InstanceKey, IpAndPort};
use super::{Metadata, key::compare};
use crate::base::{clock::Millis, java};

/// Time without a beat after which an instance is unhealthy, unless its metadata says otherwise; milliseconds.
pub const UNHEALTHY_AFTER_MS: u64 = 15_000;
/// Time without a beat after which an instance is removed, unless its metadata says otherwise; milliseconds.
pub const DELETE_AFTER_MS: u64 = 30_000;
/// An instance that hasn't beaten for longer than this is late, in milliseconds: two beats.
pub const LATE_MS: u64 = 10_000;
/// What clients are told to leave between two beats, unless the metadata says otherwise; milliseconds.
pub const BEAT_INTERVAL_MS: u64 = 5_000;

/// Two times of a beat that lie less than this apart may be the same beat, heard of in two ways; milliseconds.
pub const SAME_BEAT_MS: u64 = 1_000;

/// Begins the metadata keys that mean something here.
const KEY_PREFIX: &str = "preserved.";
/// Metadata key: the beat interval of this instance.
pub const KEY_INTERVAL: &str = "preserved.heart.beat.interval";
/// Metadata key: after which silence this instance is unhealthy.
pub const KEY_UNHEALTHY: &str = "preserved.heart.beat.timeout";
/// Metadata key: after which silence this instance is removed.
pub const KEY_DELETE: &str = "preserved.ip.delete.timeout";
/// Metadata key: `snowflake` asks for a counted id.
pub const KEY_ID_GENERATOR: &str = "preserved.instance.id.generator";

/// Lowest weight that is stored above zero.
const LEAST_WEIGHT: f64 = 0.01;
/// Highest weight.
pub const HIGHEST_WEIGHT: f64 = 10_000.0;

/// The id that lists show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceId {
    /// `ip#port#cluster#group@@service`, put together when it is shown.
    Simple,
    /// A number counted within the service, or what a peer sent.
    Given(Box<str>),
    /// A datum of a peer had none; lists show null.
    Missing,
}

/// A registered instance.
#[derive(Debug)]
pub struct Instance {
    /// ip and cluster in one allocation: `ip` first, the cluster from `ip_end` on.
    place: Box<str>,
    ip_end: u32,
    /// See [`Instance::key_hash`].
    key_hash: u64,
    /// Any 32-bit number, as given.
    pub port: i32,
    /// 0 to 10,000.
    pub weight: f64,
    /// Those that aren't are left out of lists.
    pub enabled: bool,
    /// Lives by its beats; one that doesn't stays until it is removed.
    pub ephemeral: bool,
    /// Shown in lists; only a peer's datum sets it. Neither silence nor beats change the health of one.
    pub marked: bool,
    /// As given.
    pub metadata: Metadata,
    /// The id that lists show.
    pub id: InstanceId,
    /// See [`Instance::app`]. So rare that it gets an allocation more, and all others eight bytes less.
    app: Option<Box<Box<str>>>,
    /// Silence after which it is unhealthy, in milliseconds.
    pub unhealthy_after_ms: u64,
    /// Silence after which it is removed, in milliseconds.
    pub delete_after_ms: u64,
    /// One more than [`Instance::own_beat_interval_ms`], so that nothing takes no room.
    own_beat_interval: Option<NonZero<u64>>,
    /// The lower half of [`Instance::written`], whose upper half follows from the stamp.
    written: u32,
    /// Health and stamp in one, so that nobody reads the one without the other: see [`Mark`].
    mark: AtomicU64,
    /// The last beat, and after how many seconds more one was overheard: see [`Heard`].
    heard: AtomicU64,
    /// What is known of its silence: [`LATE`], [`RENEWED`], [`DOUBTED`].
    silence: AtomicU8,
}

/// Its owner has said that it is late.
const LATE: u8 = 1;
/// Its silence counts from a change of its owner on.
const RENEWED: u8 = 2;
/// Its last beat may be older than it looks.
const DOUBTED: u8 = 4;

/// What is heard of an instance's client, in one, so that a beat costs one store and each of a million instances eight bytes:
/// the last beat in milliseconds in the upper 44 bits (hundreds of years), what came later in seconds in the other 20 (twelve days).
#[derive(Clone, Copy, Debug)]
struct Heard {
    last_beat: Millis,
    seconds_later: u64,
}

impl Heard {
    const LATER_BITS: u32 = 20;
    const MOST_LATER: u64 = (1 << Self::LATER_BITS) - 1;
    const MOST_MS: u64 = u64::MAX >> Self::LATER_BITS;

    fn at(last_beat: Millis) -> Self {
        Self { last_beat, seconds_later: 0 }
    }

    fn packed(self) -> u64 {
        self.last_beat.0.min(Self::MOST_MS) << Self::LATER_BITS | self.seconds_later.min(Self::MOST_LATER)
    }

    fn unpacked(packed: u64) -> Self {
        Self { last_beat: Millis(packed >> Self::LATER_BITS), seconds_later: packed & Self::MOST_LATER }
    }

    fn last(self) -> Millis {
        self.last_beat.plus(self.seconds_later * 1_000)
    }
}

/// An instance's health and the stamp of the write that it comes from.
///
/// A pair of the two, with the description, is never changed but to another stamp: whoever has seen one pair of a
/// stamp has seen them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Of the last write: higher than that of each write that was known where it was made. 0 for none.
    pub stamp: u64,
    /// As beats and checks have it.
    pub healthy: bool,
}

/// The highest stamp that a [`Mark`] holds.
pub const HIGHEST_STAMP: u64 = u64::MAX >> 1;

impl Mark {
    fn packed(self) -> u64 {
        self.stamp.min(HIGHEST_STAMP) << 1 | u64::from(self.healthy)
    }

    /// The last stamp up to this one with this lower half. Stamps are milliseconds, so it is the right one for 49 days;
    /// later the description seems to be younger than it is, to everybody alike.
    fn written(self, lower: u32) -> u64 {
        self.stamp.saturating_sub(u64::from(lower_half(self.stamp).wrapping_sub(lower)))
    }

    fn of(packed: u64) -> Self {
        Self { stamp: packed >> 1, healthy: packed & 1 == 1 }
    }
}

fn lower_half(stamp: u64) -> u32 {
    u32::try_from(stamp & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}

/// What a new [`Instance`] is made of.
#[derive(Clone, Debug)]
pub struct Description<'a> {
    /// Identity.
    pub key: InstanceKey<'a>,
    /// Unchecked; see [`stored_weight`].
    pub weight: f64,
    /// Offered in lists.
    pub enabled: bool,
    /// Health until something else is known.
    pub healthy: bool,
    /// Kind.
    pub ephemeral: bool,
    /// As given.
    pub metadata: Metadata,
    /// Name of the application.
    pub app: Option<&'a str>,
}

impl<'a> Description<'a> {
    /// An enabled, healthy, ephemeral instance of weight 1 without metadata.
    #[must_use]
    pub fn new(ip: &'a str, port: i32, cluster: &'a str) -> Self {
        Self {
            key: InstanceKey { ip, port, cluster },
            weight: 1.0,
            enabled: true,
            healthy: true,
            ephemeral: true,
            metadata: Metadata::default(),
            app: None,
        }
    }
}

impl Instance {
    /// An instance as described, with a beat at `now`.
    #[must_use]
    pub fn new(description: Description<'_>, id: InstanceId, now: Millis) -> Self {
        let Description { key, weight, enabled, healthy, ephemeral, metadata, app } = description;
        let mut place = String::with_capacity(key.ip.len() + key.cluster.len());
        place.push_str(key.ip);
        place.push_str(key.cluster);
        let times = Times::of(&metadata);
        Self {
            place: place.into(),
            ip_end: u32::try_from(key.ip.len()).unwrap_or(u32::MAX),
            key_hash: key.hash(),
            port: key.port,
            weight: stored_weight(weight),
            enabled,
            ephemeral,
            marked: false,
            unhealthy_after_ms: times.unhealthy_after_ms,
            delete_after_ms: times.delete_after_ms,
            own_beat_interval: times.own_beat_interval,
            metadata,
            id,
            app: app.map(|app| Box::new(app.into())),
            written: 0,
            mark: AtomicU64::new(Mark { stamp: 0, healthy }.packed()),
            heard: AtomicU64::new(Heard::at(now).packed()),
            silence: AtomicU8::new(0),
        }
    }

    /// Identity within its kind.
    #[must_use]
    pub fn key(&self) -> InstanceKey<'_> {
        InstanceKey { ip: self.ip(), port: self.port, cluster: self.cluster() }
    }

    /// The [hash](InstanceKey::hash) of its key, reckoned once: members compare those of all instances every few seconds.
    #[must_use]
    pub fn key_hash(&self) -> u64 {
        self.key_hash
    }

    /// The address as it was given.
    #[must_use]
    pub fn ip(&self) -> &str {
        &self.place[..self.ip_end as usize]
    }

    /// Name of the cluster.
    #[must_use]
    pub fn cluster(&self) -> &str {
        &self.place[self.ip_end as usize..]
    }

    /// Name of the application; kept, shown by the catalog only.
    #[must_use]
    pub fn app(&self) -> Option<&str> {
        self.app.as_deref().map(|app| &**app)
    }

    /// Health as beats and checks have it, without protection.
    #[must_use]
    pub fn healthy(&self) -> bool {
        self.mark().healthy
    }

    /// Health and stamp, read together.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark::of(self.mark.load(Atomic::SeqCst))
    }

    /// The stamp of the write that it comes from; 0 before it is registered.
    #[must_use]
    pub fn stamp(&self) -> u64 {
        self.mark().stamp
    }

    /// Sets the health of one that isn't registered yet; that of a registered one changes by way of its service.
    pub fn set_healthy(&mut self, healthy: bool) {
        *self.mark.get_mut() = Mark { healthy, ..self.mark() }.packed();
    }

    /// The stamp of the write that the description comes from: that of the last write, unless its health changed since.
    ///
    /// What was written later is newer, whatever became of the health of the other one meanwhile: a node that hasn't
    /// heard of a new description or of a removal can't bring the old one back by noticing silence or a beat.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written_under(self.mark())
    }

    /// The same as it was under this mark.
    #[must_use]
    pub fn written_under(&self, mark: Mark) -> u64 {
        mark.written(self.written)
    }

    /// Gives one that isn't registered yet the stamp of the write that makes it.
    pub fn set_stamp(&mut self, stamp: u64) {
        self.written = lower_half(stamp);
        *self.mark.get_mut() = Mark { stamp, ..self.mark() }.packed();
    }

    /// Sets the stamp of the description of one that isn't registered yet, and whose health has changed since.
    pub fn set_written(&mut self, written: u64) {
        self.written = lower_half(written.min(self.stamp()));
    }

    /// Marks a registered one; callers hold the service's write lock, since a change must make a new revision.
    pub(super) fn set_mark(&self, mark: Mark) {
        self.mark.store(mark.packed(), Atomic::SeqCst);
    }

    /// When the last beat or registration came.
    #[must_use]
    pub fn last_beat(&self) -> Millis {
        self.heard().last_beat
    }

    /// When its client was last heard of, by a beat here or by one that went on to the owner.
    #[must_use]
    pub fn last_heard(&self) -> Millis {
        self.heard().last()
    }

    fn heard(&self) -> Heard {
        Heard::unpacked(self.heard.load(Atomic::SeqCst))
    }

    /// Notes what the instance whose place this one took has got meanwhile.
    pub(super) fn inherit_beat(&self, before: &Self) {
        let Heard { last_beat, .. } = before.heard();
        self.heard.fetch_max(Heard::at(last_beat).packed(), Atomic::SeqCst);
        self.overhear(before.last_heard());
    }

    /// Notes a beat that went on to the owner, as of some second until it came.
    ///
    /// It isn't the last beat yet: what the owner and this node know of each other's writes may take long to arrive, and a
    /// copy that knows of beats to the moment would take a removal for older than they are.
    pub fn overhear(&self, at: Millis) {
        let with = |packed: u64| {
            let heard = Heard::unpacked(packed);
            let seconds_later = at.since(heard.last_beat) / 1_000;
            (seconds_later > heard.seconds_later).then(|| Heard { seconds_later, ..heard }.packed())
        };
        // Nothing to do where it is known.
        let _ = self.heard.fetch_update(Atomic::SeqCst, Atomic::SeqCst, with);
    }

    /// Lets what was overheard count as the last beat: for the owner, before it takes the instance for silent.
    pub fn count_overheard(&self) {
        self.hear_beat(self.last_heard());
    }

    /// Notes a beat that a peer tells of. One that is later by less than [`SAME_BEAT_MS`] is the one that is known:
    /// what is on its way for some time would look younger at each node that passes it on.
    ///
    /// Tells whether it is later.
    pub fn hear_beat(&self, at: Millis) -> bool {
        let heard = self.heard();
        let later = at.since(heard.last_beat) >= SAME_BEAT_MS;
        if later {
            self.heard.fetch_max(Heard::at(at).packed(), Atomic::SeqCst);
            self.silence.fetch_and(!(RENEWED | DOUBTED), Atomic::Relaxed);
            self.overhear(heard.last());
        }
        later
    }

    /// Whether the node that owns its service has said that it is late with its beats.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.silence.load(Atomic::Relaxed) & LATE != 0
    }

    /// Notes what the owner of its service says; forgotten when it is written anew.
    pub fn set_late(&self, late: bool) {
        if late {
            self.silence.fetch_or(LATE, Atomic::Relaxed);
        } else {
            self.silence.fetch_and(!LATE, Atomic::Relaxed);
        }
    }

    /// Whether it has been taken for just beaten when its service came from an owner that tells nobody of beats, and
    /// nothing has been heard of it since.
    #[must_use]
    pub fn is_renewed(&self) -> bool {
        self.silence.load(Atomic::Relaxed) & RENEWED != 0
    }

    /// Notes that it has just been taken for beaten.
    pub fn set_renewed(&self) {
        self.silence.fetch_or(RENEWED, Atomic::Relaxed);
    }

    /// Whether its last beat may be older than it looks, since the clock stood still, and nothing has been heard of it since.
    #[must_use]
    pub fn is_doubted(&self) -> bool {
        self.silence.load(Atomic::Relaxed) & DOUBTED != 0
    }

    /// Notes that its last beat may be older than it looks.
    pub fn set_doubted(&self) {
        self.silence.fetch_or(DOUBTED, Atomic::Relaxed);
    }

    /// Takes over what is known of the silence of the one in whose place it is put, unless it has beaten later: nobody says
    /// so again at once.
    pub(super) fn inherit_silence(&self, before: &Self) {
        if self.last_beat() < before.last_beat().plus(SAME_BEAT_MS) {
            self.silence.fetch_or(before.silence.load(Atomic::Relaxed), Atomic::Relaxed);
        }
    }

    /// Whether it has been silent for longer than its delete time-out; a marked one never is.
    #[must_use]
    pub fn is_overdue(&self, now: Millis) -> bool {
        !self.marked && now.since(self.last_beat()) > self.delete_after_ms
    }

    /// Notes a beat. Whoever looks at the health after it and whoever sets the health before looking at the time
    /// can't both miss the other: both cells are sequentially consistent.
    pub fn beat(&self, now: Millis) {
        self.heard.store(Heard::at(now).packed(), Atomic::SeqCst);
        if self.is_renewed() || self.is_doubted() {
            self.silence.fetch_and(!(RENEWED | DOUBTED), Atomic::Relaxed);
        }
    }

    /// What its client is told to leave between two beats, in milliseconds, where the metadata says so.
    #[must_use]
    pub fn own_beat_interval_ms(&self) -> Option<u64> {
        self.own_beat_interval.map(|more| more.get() - 1)
    }

    /// What clients are told to leave between beats, in milliseconds.
    #[must_use]
    pub fn beat_interval_ms(&self) -> u64 {
        self.own_beat_interval_ms().unwrap_or(BEAT_INTERVAL_MS)
    }

    /// The id as shown, for a service of this name; nothing when a peer sent none.
    #[must_use]
    pub fn id_text(&self, service: &str) -> Option<String> {
        match &self.id {
            InstanceId::Simple => Some(format!("{}#{}#{}#{service}", self.ip(), self.port, self.cluster())),
            InstanceId::Given(id) => Some(id.to_string()),
            InstanceId::Missing => None,
        }
    }

    /// What it is made of.
    #[must_use]
    pub fn description(&self) -> Description<'_> {
        Description {
            key: self.key(),
            weight: self.weight,
            enabled: self.enabled,
            healthy: self.healthy(),
            ephemeral: self.ephemeral,
            metadata: self.metadata.clone(),
            app: self.app(),
        }
    }

    /// The same description as a new value, for an update of some fields; health, stamp and beat time come along.
    #[must_use]
    pub fn copy(&self) -> Self {
        Self {
            place: self.place.clone(),
            ip_end: self.ip_end,
            key_hash: self.key_hash,
            port: self.port,
            weight: self.weight,
            enabled: self.enabled,
            ephemeral: self.ephemeral,
            marked: self.marked,
            metadata: self.metadata.clone(),
            id: self.id.clone(),
            app: self.app.clone(),
            unhealthy_after_ms: self.unhealthy_after_ms,
            delete_after_ms: self.delete_after_ms,
            own_beat_interval: self.own_beat_interval,
            written: self.written,
            mark: AtomicU64::new(self.mark().packed()),
            heard: AtomicU64::new(Heard::at(self.last_beat()).packed()),
            silence: AtomicU8::new(0),
        }
    }

    /// Gives it another name of its application.
    pub fn set_app(&mut self, app: &str) {
        self.app = Some(Box::new(app.into()));
    }

    /// Puts `metadata` in the place of what was there, the time-outs that it carries included.
    pub fn set_metadata(&mut self, metadata: Metadata) {
        let times = Times::of(&metadata);
        self.unhealthy_after_ms = times.unhealthy_after_ms;
        self.delete_after_ms = times.delete_after_ms;
        self.own_beat_interval = times.own_beat_interval;
        self.metadata = metadata;
    }

    /// `IP:PORT:unknown:CLUSTER_WEIGHT_HEALTHY_MARKED_CLUSTER`, as error texts name an instance.
    #[must_use]
    pub fn describe(&self) -> String {
        let (weight, cluster) = (java::double_text(self.weight), self.cluster());
        format!("{}_{weight}_{}_{}_{cluster}", self.key().text(), self.healthy(), self.marked)
    }
}

impl PartialEq for Instance {
    fn eq(&self, other: &Self) -> bool {
        compare(&self.key(), &other.key()) == Ordering::Equal
    }
}

impl Eq for Instance {}

impl PartialOrd for Instance {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Instance {
    /// By identity alone, in the order of the service checksum.
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.key(), &other.key())
    }
}

/// The times that metadata sets, read once so that beats and sweeps needn't.
struct Times {
    own_beat_interval: Option<NonZero<u64>>,
    unhealthy_after_ms: u64,
    delete_after_ms: u64,
}

impl Times {
    fn of(metadata: &Metadata) -> Self {
        let (mut own_beat_interval_ms, mut unhealthy, mut delete) = (None, None, None);
        if metadata.may_have(KEY_PREFIX) {
            for (key, value) in metadata.entries() {
                match &*key {
                    KEY_INTERVAL => own_beat_interval_ms = whole_number(&value),
                    KEY_UNHEALTHY => unhealthy = whole_number(&value),
                    KEY_DELETE => delete = whole_number(&value),
                    _ => {}
                }
            }
        }
        Self {
            own_beat_interval: own_beat_interval_ms.and_then(|ms: u64| NonZero::new(ms.saturating_add(1))),
            unhealthy_after_ms: unhealthy.unwrap_or(UNHEALTHY_AFTER_MS),
            delete_after_ms: delete.unwrap_or(DELETE_AFTER_MS),
        }
    }
}

/// The beat interval that metadata sets, in milliseconds.
#[must_use]
pub fn own_beat_interval_ms(metadata: &Metadata) -> Option<u64> {
    Times::of(metadata).own_beat_interval.map(|more| more.get() - 1)
}

/// A text that is all digits as a number; all other texts, and what 64 bits don't hold, count as not given.
fn whole_number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether metadata asks for a counted id.
#[must_use]
pub fn wants_counted_id(metadata: &Metadata) -> bool {
    metadata.get(KEY_ID_GENERATOR).is_some_and(|generator| generator.eq_ignore_ascii_case("snowflake"))
}

/// The weight as it is stored: above zero at least 0.01, at most 10,000.
#[must_use]
pub fn stored_weight(weight: f64) -> f64 {
    if weight > HIGHEST_WEIGHT {
        HIGHEST_WEIGHT
    } else if weight > 0.0 && weight < LEAST_WEIGHT {
        LEAST_WEIGHT
    } else {
        weight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_digits_or_the_default() {
        let times = |metadata: &str| {
            let metadata = metadata.parse().unwrap();
            let Times { unhealthy_after_ms, delete_after_ms, .. } = Times::of(&metadata);
            (own_beat_interval_ms(&metadata), unhealthy_after_ms, delete_after_ms)
        };
        assert_eq!(times(""), (None, 15_000, 30_000));
        let set = r#"{"preserved.heart.beat.interval":"0","preserved.heart.beat.timeout":100,
            "preserved.ip.delete.timeout":"0200"}"#;
        assert_eq!(times(set), (Some(0), 100, 200));
        for wrong in ["1s", "-1", "+1", "1.5", " 7 ", "", "99999999999999999999"] {
            let set = format!(r#"{{"preserved.heart.beat.interval":"{wrong}"}}"#);
            assert_eq!(times(&set).0, None, "{wrong}");
        }
        assert_eq!(times("preserved.heart.beat.timeouts=1"), (None, 15_000, 30_000));
    }

    #[test]
    fn an_instance_stays_small() {
        // With the two counts of its Arc it fits the allocator's class of 160 bytes.
        assert!(size_of::<Instance>() <= 144, "{}", size_of::<Instance>());
    }

    #[test]
    fn the_stamp_of_the_description_stays_when_the_health_changes() {
        let described = Description::new("10.0.0.2", 80, "DEFAULT");
        let mut instance = Instance::new(described, InstanceId::Simple, Millis(1));
        for written in [1, 5, u64::from(u32::MAX), 1 << 32, 1_795_982_718_087, HIGHEST_STAMP - (1 << 32)] {
            instance.set_stamp(written);
            assert_eq!((instance.written(), instance.stamp()), (written, written));
            for later in [0, 1, 40 * 24 * 3_600 * 1_000] {
                instance.set_mark(Mark { stamp: written + later, healthy: false });
                assert_eq!((instance.copy().written(), instance.stamp()), (written, written + later));
            }
        }
        instance.set_stamp(9);
        instance.set_written(7);
        assert_eq!((instance.written(), instance.stamp()), (7, 9));
    }

    #[test]
    fn health_and_stamp_are_kept_together() {
        let mut instance = Instance::new(Description::new("a", 1, "C"), InstanceId::Simple, Millis(1));
        assert_eq!(instance.mark(), Mark { stamp: 0, healthy: true });
        instance.set_stamp(HIGHEST_STAMP);
        instance.set_healthy(false);
        assert_eq!(instance.copy().mark(), Mark { stamp: HIGHEST_STAMP, healthy: false });
        instance.set_mark(Mark { stamp: u64::MAX, healthy: true });
        assert_eq!(instance.mark(), Mark { stamp: HIGHEST_STAMP, healthy: true });
    }

    #[test]
    fn a_beat_that_was_heard_of_before_is_no_later_one() {
        let instance = Instance::new(Description::new("a", 1, "C"), InstanceId::Simple, Millis(10_000));
        assert!(!instance.hear_beat(Millis(9_000)) && !instance.hear_beat(Millis(10_999)));
        assert_eq!(instance.last_beat(), Millis(10_000));
        assert!(instance.hear_beat(Millis(11_000)) && !instance.hear_beat(Millis(11_000)));
        assert_eq!(instance.last_beat(), Millis(11_000));
        assert!(!instance.is_overdue(Millis(41_000)) && instance.is_overdue(Millis(41_001)));
    }

    #[test]
    fn weights_are_clamped_when_stored() {
        for (given, stored) in [(0.0, 0.0), (0.001, 0.01), (0.5, 0.5), (20_000.0, 10_000.0)] {
            assert_eq!(stored_weight(given).to_bits(), f64::to_bits(stored));
        }
    }

    #[test]
    fn what_was_overheard_counts_for_who_is_asked_and_for_an_owner_that_lets_it() {
        let instance =
            |ms| Instance::new(Description::new("10.1.1.1", 80, "C"), InstanceId::Simple, Millis(ms));
        let known = |instance: &Instance| (instance.last_beat().0, instance.last_heard().0);
        let one = instance(10_500);
        for (ms, last_heard) in [(9_000, 10_500), (11_499, 10_500), (20_999, 20_500), (15_000, 20_500)] {
            one.overhear(Millis(ms));
            assert_eq!(known(&one), (10_500, last_heard), "{ms}");
        }
        assert!(one.hear_beat(Millis(15_600)));
        assert_eq!(known(&one), (15_600, 19_600), "what is known of later stays, but for some of a second");
        let next = instance(12_000);
        next.inherit_beat(&one);
        assert_eq!(known(&next), (15_600, 19_600));
        assert_eq!(known(&one.copy()), (15_600, 15_600), "a copy may be for another node");
        next.count_overheard();
        assert_eq!(known(&next), (19_600, 19_600));
        next.overhear(Millis(40_000));
        next.beat(Millis(30_000));
        assert_eq!(known(&next), (30_000, 30_000));
        next.overhear(Millis(30_000 + (1 << 40)));
        assert_eq!(known(&next), (30_000, 30_000 + ((1 << 20) - 1) * 1_000));
    }

    #[test]
    fn an_instance_names_itself_as_the_texts_of_v1_do() {
        let described = Description { weight: 2.0, ..Description::new("10.0.0.2", 80, "DEFAULT") };
        let instance = Instance::new(described, InstanceId::Simple, Millis(1));
        assert_eq!(instance.describe(), "10.0.0.2:80:unknown:DEFAULT_2.0_true_false_DEFAULT");
        assert_eq!(instance.id_text("G@@s").as_deref(), Some("10.0.0.2#80#DEFAULT#G@@s"));
    }
}
