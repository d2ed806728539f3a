//! What one peer hasn't got yet, and when it is sent.
//!
//! Pure. A key waits once, however often it changes; at most one request is under way, so the order of a key's changes is
//! kept and a peer that hangs holds one connection. What waits is bounded by the number of keys.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::base::{
    clock::Millis,
    mutant::{self, Mutant},
};

/// First pause after a failure, in milliseconds; it doubles up to the cap.
const FIRST_RETRY_MS: u64 = 500;
/// A peer that has taken nothing for so long, in milliseconds, counts as one that is brought nothing. A member of 1.x that stands
/// still is DOWN before, up to eight of them.
const FAILING_MS: u64 = 60_000;

/// How fast changes leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Time between two sendings of one key, in milliseconds.
    pub merge_ms: u64,
    /// Time between two requests to one peer, in milliseconds.
    pub gather_ms: u64,
    /// Keys in one request.
    pub batch: usize,
    /// Longest pause before a request is tried again, in milliseconds.
    pub retry_cap_ms: u64,
}

/// A key to be sent, and what the peer has of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item<K> {
    /// Names the datum.
    pub key: K,
    /// Parts with a higher stamp are sent; nothing for all of them.
    pub newer_than: Option<u64>,
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The peer has the items; the highest stamp of each as sent, in their order, or nothing where it refused the item
    /// for good.
    Taken(Vec<Option<u64>>),
    /// It has none of them as far as is known.
    Failed,
}

/// What one peer lacks.
#[derive(Debug)]
pub struct Outbox<K> {
    waiting: HashMap<K, Waiting>,
    /// The same by the time from which they may be sent.
    due: BTreeSet<(Millis, K)>,
    /// The highest stamp that the peer is known to have.
    confirmed: HashMap<K, u64>,
    /// The fingerprints of what was handed on to it for others.
    handed_on: HashMap<K, u64>,
    /// When a key was sent last, as far back as it matters.
    sent: BTreeMap<K, Millis>,
    under_way: Option<Vec<Item<K>>>,
    /// What came meanwhile under lower stamps than others, which may not be in what is under way.
    belated: HashMap<K, u64>,
    not_before: Millis,
    failures: u32,
    /// Since when all requests have failed.
    failing: Option<Millis>,
}

/// A key that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// The peer wants the whole of it.
    whole: bool,
    due: Millis,
}

/// When something is due that goes before all else.
const FIRST: Millis = Millis(0);

impl<K> Default for Outbox<K> {
    fn default() -> Self {
        Self {
            waiting: HashMap::new(),
            due: BTreeSet::new(),
            confirmed: HashMap::new(),
            handed_on: HashMap::new(),
            sent: BTreeMap::new(),
            under_way: None,
            belated: HashMap::new(),
            not_before: Millis(0),
            failures: 0,
            failing: None,
        }
    }
}

impl<K: Clone + Ord + std::hash::Hash> Outbox<K> {
    /// Notes that `key` changed, or that the peer wants the `whole` of it.
    pub fn put(&mut self, key: &K, whole: bool, now: Millis, pace: Pace) {
        let mut due = self.sent.get(key).map_or(now, |sent| sent.plus(pace.merge_ms).max(now));
        if let Some(waiting) = self.waiting.get_mut(key) {
            waiting.whole |= whole;
            if waiting.due <= due {
                return;
            }
            std::mem::swap(&mut waiting.due, &mut due);
            self.due.remove(&(due, key.clone()));
            due = waiting.due;
        } else {
            self.waiting.insert(key.clone(), Waiting { whole, due });
        }
        self.due.insert((due, key.clone()));
    }

    /// Notes that the peer may lack something that others have written of a key whose data have this `fingerprint` now;
    /// nothing where that was noted before. A stamp wouldn't do: what two write at the same moment comes in any order.
    pub fn hand_on(&mut self, key: &K, fingerprint: u64, now: Millis, pace: Pace) {
        if self.handed_on.insert(key.clone(), fingerprint) != Some(fingerprint) {
            self.put(key, true, now, pace);
        }
    }

    /// Notes that something came under this stamp, which isn't the highest of the key: the peer may lack it though it has
    /// later ones, so what is confirmed ends before it. By itself nothing is sent: who wrote it brings it to all; but what
    /// this node sends or hands on of the key next isn't cut behind it.
    pub fn came_belated(&mut self, key: &K, stamp: u64) {
        let before = stamp.saturating_sub(1);
        if let Some(confirmed) = self.confirmed.get_mut(key) {
            *confirmed = before.min(*confirmed);
        }
        if self.under_way.iter().flatten().any(|item| item.key == *key) {
            self.belated
                .entry(key.clone())
                .and_modify(|lowest| *lowest = before.min(*lowest))
                .or_insert(before);
        }
    }

    /// What is to be sent now, oldest first; nothing while a request is under way or a pause lasts. What somebody waits for goes
    /// alone, so that it doesn't wait for the rest to be sent and read.
    pub fn take(&mut self, now: Millis, pace: Pace) -> Option<Vec<Item<K>>> {
        if self.next().is_none_or(|next| next > now) {
            return None;
        }
        self.sent.retain(|_, sent| sent.plus(pace.merge_ms) > now);
        let mut items = Vec::new();
        let is_hurried = self.due.first().is_some_and(|(due, _)| *due == FIRST);
        let until = if is_hurried { FIRST } else { now };
        while items.len() < pace.batch && self.due.first().is_some_and(|(due, _)| *due <= until) {
            let Some((_, key)) = self.due.pop_first() else { break };
            let whole = self.waiting.remove(&key).is_some_and(|waiting| waiting.whole);
            let newer_than = self.confirmed.get(&key).copied().filter(|_| !whole);
            self.sent.insert(key.clone(), now);
            items.push(Item { key, newer_than });
        }
        self.under_way = Some(items.clone());
        self.not_before = now.plus(pace.gather_ms);
        Some(items)
    }

    /// When there will be something to send; nothing while a request is under way or nothing waits.
    #[must_use]
    pub fn next(&self) -> Option<Millis> {
        let is_free = self.under_way.is_none() || mutant::is(Mutant::NoOrder);
        let (due, _) = self.due.first().filter(|_| is_free)?;
        Some((*due).max(self.not_before))
    }

    /// Notes how the request under way ended. `dice` spreads the retries of several peers.
    pub fn sent(&mut self, outcome: Sent, now: Millis, pace: Pace, dice: u64) {
        let Some(items) = self.under_way.take() else { return };
        let belated = std::mem::take(&mut self.belated);
        match outcome {
            Sent::Taken(highest) => {
                (self.failures, self.failing) = (0, None);
                for (item, highest) in items.into_iter().zip(highest) {
                    match highest {
                        Some(stamp) => {
                            let stamp = belated.get(&item.key).map_or(stamp, |before| stamp.min(*before));
                            self.confirmed.insert(item.key, stamp)
                        }
                        None => self.confirmed.remove(&item.key),
                    };
                }
            }
            Sent::Failed => {
                self.failures = self.failures.saturating_add(1);
                self.failing.get_or_insert(now);
                let pause = FIRST_RETRY_MS.saturating_mul(2_u64.saturating_pow(self.failures - 1));
                let pause = pause.min(pace.retry_cap_ms);
                self.not_before = now.plus(pause - dice % (pause / 4).max(1));
                let is_repeated = !mutant::is(Mutant::NoRetry);
                for item in items.into_iter().filter(|_| is_repeated) {
                    // Sent again at the first occasion, with what came meanwhile.
                    self.sent.remove(&item.key);
                    self.put(&item.key, item.newer_than.is_none(), now, pace);
                }
            }
        }
    }

    /// Tries again without waiting for the pause to end: the peer is back.
    pub fn hurry(&mut self, now: Millis) {
        self.not_before = self.not_before.min(now);
        (self.failures, self.failing) = (0, None);
    }

    /// A key that waits goes before all others from now on, and isn't merged with later changes. Tells whether that is news.
    pub fn bring_forward(&mut self, key: &K) -> bool {
        let Some(waiting) = self.waiting.get_mut(key).filter(|waiting| waiting.due != FIRST) else {
            return false;
        };
        let due = std::mem::replace(&mut waiting.due, FIRST);
        self.due.remove(&(due, key.clone()));
        self.due.insert((FIRST, key.clone()))
    }

    /// Forgets what the peer is known to have: it starts with nothing, or was not a member for a while.
    pub fn forget_confirmed(&mut self) {
        self.confirmed.clear();
        self.handed_on.clear();
    }

    /// Whether this key waits or is under way, so that the peer can't have its newest parts.
    #[must_use]
    pub fn lacks(&self, key: &K) -> bool {
        let under_way = self.under_way.iter().flatten().any(|item| item.key == *key);
        under_way || self.waiting.contains_key(key)
    }

    /// The same, unless nothing has been taken for long.
    #[must_use]
    pub fn brings(&self, key: &K, now: Millis) -> bool {
        self.failing.is_none_or(|failing| now.since(failing) < FAILING_MS) && self.lacks(key)
    }

    /// Forgets what the peer has of keys that don't exist any more, and what waits of them: a key goes long after all that it
    /// had, and whoever was away so long is told whole lists.
    pub fn forget_all_but(&mut self, exists: &dyn Fn(&K) -> bool) {
        self.waiting.retain(|key, _| exists(key));
        self.due.retain(|(_, key)| exists(key));
        self.confirmed.retain(|key, _| exists(key));
        self.handed_on.retain(|key, _| exists(key));
    }

    /// The keys that wait or are under way.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.waiting.keys().chain(self.under_way.iter().flatten().map(|item| &item.key))
    }

    /// How many keys wait or are under way.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len() + self.under_way.as_ref().map_or(0, Vec::len)
    }

    /// The peer has everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace { merge_ms: 50, gather_ms: 5, batch: 3, retry_cap_ms: 3_000 };

    fn keys(items: Option<Vec<Item<u32>>>) -> Vec<u32> {
        items.into_iter().flatten().map(|item| item.key).collect()
    }

    fn taken(stamps: &[u64]) -> Sent {
        Sent::Taken(stamps.iter().copied().map(Some).collect())
    }

    #[test]
    fn the_first_change_leaves_at_once_and_the_next_ones_merge() {
        let mut outbox = Outbox::default();
        outbox.put(&7, false, Millis(1_000), PACE);
        assert_eq!(keys(outbox.take(Millis(1_000), PACE)), [7]);
        outbox.put(&7, false, Millis(1_001), PACE);
        outbox.put(&7, false, Millis(1_002), PACE);
        assert_eq!(outbox.take(Millis(1_060), PACE), None, "one request at a time");
        outbox.sent(taken(&[10]), Millis(1_010), PACE, 0);
        assert_eq!((outbox.next(), outbox.len()), (Some(Millis(1_050)), 1));
        assert_eq!(outbox.take(Millis(1_049), PACE), None);
        assert_eq!(outbox.take(Millis(1_050), PACE), Some(vec![Item { key: 7, newer_than: Some(10) }]));
    }

    #[test]
    fn another_key_waits_for_the_gathering_only() {
        let mut outbox = Outbox::default();
        outbox.put(&1, false, Millis(1_000), PACE);
        assert_eq!(keys(outbox.take(Millis(1_000), PACE)), [1]);
        outbox.put(&2, false, Millis(1_001), PACE);
        outbox.sent(taken(&[1]), Millis(1_001), PACE, 0);
        assert_eq!(outbox.next(), Some(Millis(1_005)));
        assert_eq!(keys(outbox.take(Millis(1_005), PACE)), [2]);
    }

    #[test]
    fn batches_are_cut_and_the_oldest_go_first() {
        let mut outbox = Outbox::default();
        for key in [5, 4, 3, 2, 1] {
            outbox.put(&key, false, Millis(1_000 + u64::from(10 - key)), PACE);
        }
        assert_eq!(keys(outbox.take(Millis(2_000), PACE)), [5, 4, 3]);
        outbox.sent(taken(&[1, 1, 1]), Millis(2_001), PACE, 0);
        assert_eq!(keys(outbox.take(Millis(2_005), PACE)), [2, 1]);
    }

    #[test]
    fn a_failure_is_tried_again_with_doubling_pauses_and_a_whole_stays_a_whole() {
        let mut outbox = Outbox::default();
        outbox.put(&1, false, Millis(0), PACE);
        let mut now = Millis(0);
        let mut pauses = Vec::new();
        for _ in 0..100 {
            assert_eq!(outbox.take(now, PACE), Some(vec![Item { key: 1, newer_than: None }]));
            outbox.sent(Sent::Failed, now, PACE, 0);
            let next = outbox.next().unwrap();
            pauses.push(next.since(now));
            now = next;
        }
        assert_eq!(pauses[..3], [500, 1_000, 2_000]);
        assert!(outbox.brings(&1, Millis(59_999)));
        assert!(outbox.lacks(&1) && !outbox.brings(&1, Millis(60_000)), "that may last");
        assert!(pauses[3..].iter().all(|pause| *pause == 3_000), "{pauses:?}");
        let back = now.minus(1_000);
        outbox.hurry(back);
        assert!(outbox.brings(&1, Millis(60_000)));
        assert_eq!(outbox.next(), Some(back));
        assert_eq!(keys(outbox.take(back, PACE)), [1]);
        outbox.sent(taken(&[4]), back, PACE, 0);
        outbox.put(&1, true, now, PACE);
        assert_eq!(outbox.take(now, PACE), Some(vec![Item { key: 1, newer_than: None }]));
    }

    #[test]
    fn what_is_refused_for_good_is_not_sent_again_but_whole_when_it_changes() {
        let mut outbox = Outbox::default();
        outbox.put(&1, false, Millis(0), PACE);
        outbox.take(Millis(0), PACE);
        outbox.sent(Sent::Taken(vec![None]), Millis(1), PACE, 0);
        assert!(outbox.is_empty() && outbox.next().is_none());
        outbox.put(&1, false, Millis(100), PACE);
        assert_eq!(outbox.take(Millis(100), PACE), Some(vec![Item { key: 1, newer_than: None }]));
    }

    #[test]
    fn what_is_under_way_or_waits_is_lacking() {
        let mut outbox = Outbox::default();
        assert!(!outbox.lacks(&1));
        outbox.put(&1, false, Millis(0), PACE);
        assert!(outbox.lacks(&1));
        outbox.take(Millis(0), PACE);
        assert!(outbox.lacks(&1) && !outbox.lacks(&2));
        outbox.sent(taken(&[1]), Millis(1), PACE, 0);
        assert!(!outbox.lacks(&1));
    }

    #[test]
    fn what_came_under_a_lower_stamp_is_not_taken_for_confirmed() {
        let mut outbox = Outbox::default();
        let sent = |outbox: &mut Outbox<u32>, now: u64, belated: Option<u64>| {
            outbox.put(&1, false, Millis(now), PACE);
            let items = outbox.take(Millis(now), PACE).unwrap();
            belated.into_iter().for_each(|stamp| outbox.came_belated(&1, stamp));
            outbox.sent(taken(&[10]), Millis(now), PACE, 0);
            items[0].newer_than
        };
        assert_eq!(sent(&mut outbox, 0, None), None);
        outbox.came_belated(&1, 8);
        outbox.came_belated(&1, 9);
        outbox.came_belated(&2, 1);
        assert_eq!(sent(&mut outbox, 100, None), Some(7));
        assert_eq!(sent(&mut outbox, 200, Some(5)), Some(10));
        assert_eq!(sent(&mut outbox, 300, None), Some(4), "it came while the former was under way");
        assert_eq!(sent(&mut outbox, 400, None), Some(10));
    }

    #[test]
    fn retries_are_spread() {
        let pause = |dice| {
            let mut outbox = Outbox::default();
            outbox.put(&1, false, Millis(0), PACE);
            outbox.take(Millis(0), PACE);
            outbox.sent(Sent::Failed, Millis(0), PACE, dice);
            outbox.next().unwrap().0
        };
        assert_eq!((pause(0), pause(124), pause(125)), (500, 376, 500));
    }

    #[test]
    fn one_key_can_be_sent_before_its_time() {
        let mut outbox = Outbox::default();
        for at in [0, 1] {
            outbox.put(&1, false, Millis(at), PACE);
            outbox.put(&2, false, Millis(at), PACE);
            if at == 0 {
                assert_eq!(keys(outbox.take(Millis(0), PACE)), [1, 2]);
                outbox.sent(taken(&[7, 8]), Millis(1), PACE, 0);
            }
        }
        assert_eq!(keys(outbox.take(Millis(10), PACE)), [0; 0]);
        assert_eq!([2, 2, 3].map(|key| outbox.bring_forward(&key)), [true, false, false]);
        assert_eq!(keys(outbox.take(Millis(10), PACE)), [2]);
        outbox.sent(taken(&[9]), Millis(11), PACE, 0);
        assert_eq!(keys(outbox.take(Millis(50), PACE)), [1]);
    }

    #[test]
    fn what_is_not_to_be_merged_takes_along_what_waits_to_be() {
        let mut outbox = Outbox::default();
        outbox.put(&1, false, Millis(0), PACE);
        assert_eq!(keys(outbox.take(Millis(0), PACE)), [1]);
        outbox.sent(taken(&[7]), Millis(1), PACE, 0);
        outbox.put(&1, false, Millis(2), PACE);
        assert_eq!(outbox.next(), Some(Millis(50)));
        outbox.put(&1, true, Millis(6), Pace { merge_ms: 0, ..PACE });
        assert_eq!(outbox.take(Millis(6), PACE), Some(vec![Item { key: 1, newer_than: None }]));
        outbox.sent(taken(&[7]), Millis(7), PACE, 0);
        assert_eq!((outbox.next(), outbox.len()), (None, 0));
    }

    #[test]
    fn what_somebody_waits_for_goes_alone_before_all_that_is_due() {
        let mut outbox = Outbox::default();
        for key in 0..5_000 {
            outbox.put(&key, true, Millis(7), PACE);
        }
        assert_eq!(keys(outbox.take(Millis(8), PACE)), [0, 1, 2]);
        assert!(outbox.bring_forward(&4_999));
        assert_eq!(keys(outbox.take(Millis(9), PACE)), [0; 0], "one request at a time");
        outbox.sent(Sent::Failed, Millis(9), PACE, 0);
        outbox.hurry(Millis(10));
        let item = |key| Item { key, newer_than: None };
        assert_eq!(outbox.take(Millis(10), PACE), Some(vec![item(4_999)]));
        outbox.sent(taken(&[9]), Millis(15), PACE, 0);
        assert_eq!(keys(outbox.take(Millis(15), PACE)), [3, 4, 5], "those that failed wait again");
    }

    #[test]
    fn what_a_peer_has_is_forgotten_with_the_key_and_when_it_starts_anew() {
        let mut outbox = Outbox::default();
        let next = |outbox: &mut Outbox<u32>, now| {
            for key in [1, 2] {
                outbox.put(&key, false, Millis(now), PACE);
            }
            let items = outbox.take(Millis(now), PACE).unwrap();
            outbox.sent(taken(&[7, 8]), Millis(now), PACE, 0);
            items.into_iter().map(|item| item.newer_than).collect::<Vec<_>>()
        };
        assert_eq!(next(&mut outbox, 0), [None, None]);
        assert_eq!(next(&mut outbox, 100), [Some(7), Some(8)]);
        outbox.forget_all_but(&|key| *key == 2);
        assert_eq!(next(&mut outbox, 200), [None, Some(8)]);
        outbox.forget_confirmed();
        assert_eq!(next(&mut outbox, 300), [None, None]);
        (3..9).for_each(|key| outbox.put(&key, true, Millis(400), PACE));
        outbox.forget_all_but(&|key| *key == 8);
        assert_eq!((outbox.len(), outbox.due.len()), (1, 1));
    }
}
