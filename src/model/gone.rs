//! What is remembered of instances that are gone, so that older news of them can't bring them back.
//!
//! Pure. Kept only where peers share the data; none at all costs nothing. Ordered and shared between revisions like the
//! instances themselves.

use std::{cmp::Ordering, sync::Arc};

use equivalent::{Comparable, Equivalent};
use imbl::OrdSet;

use super::{InstanceKey, key::compare};
use crate::base::clock::Millis;

/// Tombstones that a service may have; beyond it the oldest are forgotten, and a line says so. Some twenty megabytes, and as many as
/// can go in the minute for which they are kept where all members are there.
pub const MOST_GONE: usize = 100_000;
/// The same of all services together, some sixty megabytes; looked at every ten seconds.
pub const MOST_GONE_IN_ALL: usize = 300_000;

/// Why an instance is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Somebody removed it.
    Left,
    /// The list of its owner, one of 1.x, lacks it: somebody removed it, or it was silent for too long there. Members are told that
    /// it left.
    Missing,
    /// It was silent for longer than its delete time-out, as far as the node knew that removed it.
    Silent {
        /// The last beat that this node knew of.
        last_beat: Millis,
    },
}

/// A tombstone: an instance that was there, or might be on other nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Address as it was given.
    pub ip: Box<str>,
    /// Its port.
    pub port: i32,
    /// Its cluster.
    pub cluster: Box<str>,
    /// Of the write that removed it.
    pub stamp: u64,
    /// Of the write that it undoes: that of the description, where silence ended it; its own, where somebody removed it.
    pub written: u64,
    /// When it was removed.
    pub at: Millis,
    /// Why.
    pub cause: Cause,
}

impl Gone {
    /// The tombstone of this instance.
    #[must_use]
    pub fn of(key: &InstanceKey<'_>, stamp: u64, at: Millis, cause: Cause) -> Self {
        let (ip, cluster) = (key.ip.into(), key.cluster.into());
        Self { ip, port: key.port, cluster, stamp, written: stamp, at, cause }
    }

    /// The same of an instance whose description was written under this stamp.
    #[must_use]
    pub fn of_writing(self, written: u64) -> Self {
        Self { written: written.min(self.stamp), ..self }
    }

    /// Which instance it was.
    #[must_use]
    pub fn key(&self) -> InstanceKey<'_> {
        InstanceKey { ip: &self.ip, port: self.port, cluster: &self.cluster }
    }

    /// Removed by somebody, not for its silence.
    #[must_use]
    pub fn has_left(&self) -> bool {
        matches!(self.cause, Cause::Left | Cause::Missing)
    }
}

/// Tombstones in the order of their keys.
#[derive(Clone, Debug, Default)]
pub struct Tombstones(OrdSet<ByKey>);

#[derive(Clone, Debug)]
struct ByKey(Arc<Gone>);

impl PartialEq for ByKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for ByKey {}

impl PartialOrd for ByKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByKey {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.0.key(), &other.0.key())
    }
}

impl Comparable<ByKey> for InstanceKey<'_> {
    fn compare(&self, gone: &ByKey) -> Ordering {
        compare(self, &gone.0.key())
    }
}

impl Equivalent<ByKey> for InstanceKey<'_> {
    fn equivalent(&self, gone: &ByKey) -> bool {
        Comparable::compare(self, gone) == Ordering::Equal
    }
}

impl Tombstones {
    /// The tombstone of the instance with this key; O(log n).
    #[must_use]
    pub fn get(&self, key: &InstanceKey<'_>) -> Option<&Gone> {
        self.0.get(key).map(|gone| &*gone.0)
    }

    /// All of them, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = &Gone> {
        self.shared().map(|gone| &**gone)
    }

    /// The same, to be kept.
    pub(super) fn shared(&self) -> impl Iterator<Item = &Arc<Gone>> {
        self.0.iter().map(|gone| &gone.0)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// None at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts one in the place of the one with its key; O(log n).
    pub(super) fn insert(&mut self, gone: Gone) {
        self.0.insert(ByKey(Arc::new(gone)));
    }

    /// Removes the one with this key; O(log n).
    pub(super) fn remove(&mut self, key: &InstanceKey<'_>) {
        if !self.is_empty() {
            self.0.remove(key);
        }
    }

    /// Forgets those from before `before`, and of the rest the oldest until no more than `at_most` are left.
    ///
    /// Tells how many it forgot.
    pub(super) fn prune(&mut self, before: Millis, at_most: usize) -> usize {
        let mut oldest: Vec<&ByKey> = self.0.iter().collect();
        oldest.sort_by_key(|ByKey(gone)| (gone.at, gone.stamp));
        let outdated = oldest.partition_point(|ByKey(gone)| gone.at < before);
        oldest.truncate(outdated.max(oldest.len().saturating_sub(at_most)));
        let forgotten: Vec<ByKey> = oldest.into_iter().cloned().collect();
        for gone in &forgotten {
            self.0.remove(gone);
        }
        forgotten.len()
    }

    /// Keeps the number within its bound, with some room, so that not each further one costs a look at all. Tells how many it
    /// forgot.
    pub(super) fn bound(&mut self) -> usize {
        if self.len() > MOST_GONE { self.prune(Millis(0), MOST_GONE / 8 * 7) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tombstones(times: &[u64]) -> Tombstones {
        let mut tombstones = Tombstones::default();
        for (port, at) in (1..).zip(times) {
            let key = InstanceKey { ip: "10.0.0.1", port, cluster: "C" };
            tombstones.insert(Gone::of(&key, 1, Millis(*at), Cause::Left));
        }
        tombstones
    }

    fn times(tombstones: &Tombstones) -> Vec<u64> {
        tombstones.iter().map(|gone| gone.at.0).collect()
    }

    #[test]
    fn what_is_old_is_forgotten_and_the_oldest_of_too_many() {
        let all = tombstones(&[5, 1, 4, 2, 3, 3]);
        let pruned = |before, at_most| {
            let mut some = all.clone();
            let forgotten = some.prune(Millis(before), at_most);
            (forgotten, times(&some))
        };
        assert_eq!(pruned(0, 10), (0, vec![5, 1, 4, 2, 3, 3]));
        assert_eq!(pruned(3, 10), (2, vec![5, 4, 3, 3]));
        assert_eq!(pruned(0, 3), (3, vec![5, 4, 3]));
        assert_eq!(pruned(5, 3), (5, vec![5]));
        assert_eq!(pruned(0, 0).1, [0; 0]);
    }

    #[test]
    fn their_number_is_bounded_also_where_all_are_of_one_moment() {
        let mut tombstones = tombstones(&vec![7; MOST_GONE + 1]);
        assert_eq!(tombstones.bound(), MOST_GONE / 8 + 1);
        assert_eq!(tombstones.len(), MOST_GONE / 8 * 7);
        assert_eq!(tombstones.bound(), 0);
        assert_eq!(tombstones.len(), MOST_GONE / 8 * 7);
    }

    #[test]
    fn a_port_that_is_none_is_no_part_of_the_key() {
        let mut tombstones = Tombstones::default();
        let key = |port| InstanceKey { ip: "a", port, cluster: "C" };
        tombstones.insert(Gone::of(&key(0), 1, Millis(1), Cause::Left));
        assert_eq!(tombstones.get(&key(-1)).map(|gone| gone.stamp), Some(1));
        tombstones.remove(&key(-1));
        assert!(tombstones.is_empty());
    }
}
