//! Registrations and deregistrations of the time in which no legacy server answers: kept, and sent when one does again.
//!
//! Pure. Of each instance the newest counts, by when its request came, in the place that it has among all. They go in that
//! order, one of an instance at a time; one that isn't taken waits, longer each time, and lets the others go first. What
//! has no room is refused, so that its client knows. Source: ours.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::stale::HostKey;
use crate::{base::clock::Millis, model::ServiceKey};

/// Which instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Which {
    /// Its service.
    pub service: ServiceKey,
    /// Its address and cluster.
    pub host: HostKey,
    /// It lives by beats.
    pub ephemeral: bool,
}

/// What a kept write does to its instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The instance is there.
    Registers,
    /// It isn't.
    Deregisters,
}

/// Bytes of all writes that wait.
pub const MOST_BYTES: usize = 64 << 20;

/// Milliseconds until one that wasn't taken is tried again: twice as long each time, up to the most.
const LEAST_WAIT_MS: u64 = 500;
const MOST_WAIT_MS: u64 = 30_000;

/// There is no room for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("as many registrations as may be are waiting for the registry")]
pub struct Full;

/// Writes that wait; `W` is what is sent.
#[derive(Debug)]
pub struct Kept<W> {
    most: usize,
    most_bytes: usize,
    bytes: usize,
    next: u64,
    by_instance: HashMap<Which, Entry<W>>,
    /// Those that may go, by their places.
    ready: BTreeMap<u64, Which>,
    /// Those that weren't taken, by when they may be tried again.
    later: BTreeMap<(Millis, u64), Which>,
    /// A write of them is being sent, so that none of theirs overtakes it.
    under_way: HashSet<Which>,
}

#[derive(Debug)]
struct Entry<W> {
    place: u64,
    /// It waits for this time among `later`.
    not_before: Option<Millis>,
    tries: u32,
    arrival: u64,
    effect: Effect,
    write: W,
    bytes: usize,
}

/// A write that is being sent: nothing more of its instance is until [`Kept::ended`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn<W> {
    /// The number of its request.
    pub arrival: u64,
    /// Of which instance.
    pub which: Which,
    /// What it does.
    pub effect: Effect,
    /// What is sent.
    pub write: W,
}

/// A write to be kept.
#[derive(Clone, Debug)]
pub struct Arrived<W> {
    /// The number of its request, which grows from one to the next.
    pub arrival: u64,
    /// What it does.
    pub effect: Effect,
    /// What is sent.
    pub write: W,
    /// About how many it takes.
    pub bytes: usize,
}

impl<W: Clone> Kept<W> {
    /// Room for the writes of as many instances.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self::within(most, MOST_BYTES)
    }

    fn within(most: usize, most_bytes: usize) -> Self {
        let (by_instance, ready, later) = (HashMap::new(), BTreeMap::new(), BTreeMap::new());
        let under_way = HashSet::new();
        Self { most, most_bytes, bytes: 0, next: 0, by_instance, ready, later, under_way }
    }

    /// Keeps a write, instead of what is kept of its instance; one that came before that is over.
    ///
    /// # Errors
    /// No room; what is kept stays.
    pub fn keep(&mut self, which: &Which, arrived: Arrived<W>) -> Result<(), Full> {
        let Arrived { arrival, effect, write, bytes } = arrived;
        let older = self.by_instance.get(which);
        if older.is_some_and(|other| other.arrival > arrival) {
            return Ok(());
        }
        let bytes_of_others = self.bytes - older.map_or(0, |older| older.bytes);
        if (older.is_none() && self.by_instance.len() >= self.most)
            || bytes_of_others.saturating_add(bytes) > self.most_bytes
        {
            return Err(Full);
        }
        self.forget(which);
        let place = self.place();
        self.bytes += bytes;
        let entry = Entry { place, not_before: None, tries: 0, arrival, effect, write, bytes };
        self.by_instance.insert(which.clone(), entry);
        self.ready.insert(place, which.clone());
        Ok(())
    }

    /// What will have become of this instance when all is sent; nothing where nothing is kept of it.
    #[must_use]
    pub fn effect(&self, which: &Which) -> Option<Effect> {
        self.by_instance.get(which).map(|entry| entry.effect)
    }

    /// What is kept of this instance.
    #[must_use]
    pub fn write(&self, which: &Which) -> Option<&W> {
        self.by_instance.get(which).map(|entry| &entry.write)
    }

    /// Begins to send what is kept of this instance, out of turn; nothing where that is being done, or nothing is kept.
    pub fn begin(&mut self, which: &Which) -> Option<Turn<W>> {
        let Entry { arrival, effect, write, .. } = self.by_instance.get(which)?;
        let turn = Turn { arrival: *arrival, which: which.clone(), effect: *effect, write: write.clone() };
        self.under_way.insert(which.clone()).then_some(turn)
    }

    /// Begins to send the first of all that may go now. It stays until [`Kept::done`].
    pub fn first(&mut self, now: Millis) -> Option<Turn<W>> {
        while let Some(first) = self.later.first_entry().filter(|first| first.key().0 <= now) {
            let which = first.remove();
            let place = self.place();
            if let Some(entry) = self.by_instance.get_mut(&which) {
                (entry.place, entry.not_before) = (place, None);
                self.ready.insert(place, which);
            }
        }
        let which = self.ready.values().find(|which| !self.under_way.contains(*which))?.clone();
        self.begin(&which)
    }

    /// Nothing of this instance is being sent any more.
    pub fn ended(&mut self, which: &Which) {
        self.under_way.remove(which);
    }

    /// This write wasn't taken: it may be tried again later, behind others. Gives how often it has been tried so that it
    /// `counts`; 0 where a newer one has taken its place meanwhile.
    pub fn postpone(&mut self, turn: &Turn<W>, counts: bool, now: Millis) -> u32 {
        let is_it = |entry: &&mut Entry<W>| entry.arrival == turn.arrival;
        let Some(entry) = self.by_instance.get_mut(&turn.which).filter(is_it) else { return 0 };
        match entry.not_before {
            None => self.ready.remove(&entry.place),
            Some(not_before) => self.later.remove(&(not_before, entry.place)),
        };
        let wait_ms = (LEAST_WAIT_MS << entry.tries.min(6)).min(MOST_WAIT_MS);
        let not_before = now.plus(wait_ms);
        entry.tries += u32::from(counts);
        entry.not_before = Some(not_before);
        self.later.insert((not_before, entry.place), turn.which.clone());
        entry.tries
    }

    /// This write has been answered, or is given up. Nothing happens where a newer one has taken its place.
    pub fn done(&mut self, turn: &Turn<W>) {
        if self.by_instance.get(&turn.which).is_some_and(|entry| entry.arrival == turn.arrival) {
            self.forget(&turn.which);
        }
    }

    /// A write of this instance has been answered that came later than what is kept of it, if anything.
    pub fn overtaken(&mut self, which: &Which, arrival: u64) {
        if self.by_instance.get(which).is_some_and(|entry| entry.arrival < arrival) {
            self.forget(which);
        }
    }

    fn forget(&mut self, which: &Which) {
        let Some(entry) = self.by_instance.remove(which) else { return };
        self.bytes -= entry.bytes;
        match entry.not_before {
            None => self.ready.remove(&entry.place),
            Some(not_before) => self.later.remove(&(not_before, entry.place)),
        };
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_instance.len()
    }

    /// None waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_instance.is_empty()
    }

    fn place(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Effect::*, *};

    const NOW: Millis = Millis(1_000);

    fn which(port: i32) -> Which {
        let host = HostKey { ip: "10.0.0.1".into(), port, cluster: "DEFAULT".into() };
        Which { service: ServiceKey::new("public", "G@@a"), host, ephemeral: true }
    }

    fn arrived<W>(arrival: u64, effect: Effect, write: W) -> Arrived<W> {
        Arrived { arrival, effect, write, bytes: 1 }
    }

    /// What is sent until nothing may go.
    fn drain(kept: &mut Kept<&'static str>, now: Millis) -> Vec<&'static str> {
        let mut sent = Vec::new();
        while let Some(turn) = kept.first(now) {
            sent.push(turn.write);
            kept.done(&turn);
            kept.ended(&turn.which);
        }
        assert_eq!(kept.len(), kept.ready.len() + kept.later.len());
        assert!(!kept.is_empty() || kept.bytes == 0);
        sent
    }

    #[test]
    fn all_go_in_the_order_in_which_they_came_and_of_an_instance_the_newest() {
        let mut kept = Kept::new(10);
        let writes =
            [(1, Registers, "+1"), (2, Registers, "+2"), (1, Deregisters, "-1"), (3, Registers, "+3")];
        for (arrival, (port, effect, write)) in (1..).zip(writes) {
            kept.keep(&which(port), arrived(arrival, effect, write)).unwrap();
        }
        assert_eq!(
            [1, 2, 4].map(|port| kept.effect(&which(port))),
            [Some(Deregisters), Some(Registers), None]
        );
        assert_eq!(drain(&mut kept, NOW), ["+2", "-1", "+3"]);
    }

    #[test]
    fn the_newest_is_the_one_that_came_last_whichever_is_kept_first() {
        let mut kept = Kept::new(10);
        kept.keep(&which(1), arrived(2, Deregisters, "-1")).unwrap();
        kept.keep(&which(1), arrived(1, Registers, "+1")).unwrap();
        assert_eq!(drain(&mut kept, NOW), ["-1"]);
    }

    #[test]
    fn kinds_are_instances_of_their_own() {
        let mut kept = Kept::new(10);
        kept.keep(&which(1), arrived(1, Registers, "ephemeral")).unwrap();
        kept.keep(&Which { ephemeral: false, ..which(1) }, arrived(2, Registers, "persistent")).unwrap();
        assert_eq!(drain(&mut kept, NOW), ["ephemeral", "persistent"]);
    }

    #[test]
    fn a_further_instance_has_no_room_but_a_newer_write_has() {
        let mut kept = Kept::new(2);
        kept.keep(&which(1), arrived(1, Registers, "+1")).unwrap();
        kept.keep(&which(2), arrived(2, Registers, "+2")).unwrap();
        assert_eq!(kept.keep(&which(3), arrived(3, Registers, "+3")), Err(Full));
        assert_eq!(kept.keep(&which(1), arrived(4, Deregisters, "-1")), Ok(()));
        assert_eq!(kept.len(), 2);
        assert_eq!(drain(&mut kept, NOW), ["+2", "-1"]);
    }

    #[test]
    fn a_write_that_is_too_long_for_all_bytes_has_no_room() {
        let mut kept = Kept::within(10, 100);
        let mut keep = |port, effect, write, bytes| {
            kept.keep(&which(port), Arrived { arrival: 1, effect, write, bytes })
        };
        assert_eq!(keep(1, Registers, "+1", 60), Ok(()));
        assert_eq!(keep(2, Registers, "+2", 41), Err(Full));
        assert_eq!(keep(2, Registers, "+2", 40), Ok(()));
        assert_eq!(keep(1, Deregisters, "-1", 61), Err(Full), "the older one stays");
        assert_eq!(keep(1, Deregisters, "-1", 10), Ok(()));
        assert_eq!(drain(&mut kept, NOW), ["+2", "-1"]);
    }

    #[test]
    fn what_comes_while_an_older_write_is_under_way_goes_after_it() {
        let mut kept = Kept::new(10);
        kept.keep(&which(1), arrived(1, Registers, "+1")).unwrap();
        let under_way = kept.first(NOW).unwrap();
        kept.keep(&which(1), arrived(2, Deregisters, "-1")).unwrap();
        assert_eq!((kept.first(NOW), kept.begin(&which(1))), (None, None), "one at a time");
        kept.done(&under_way);
        assert_eq!(kept.postpone(&under_way, true, NOW), 0);
        kept.ended(&which(1));
        assert_eq!(kept.effect(&which(1)), Some(Deregisters));
        assert_eq!(drain(&mut kept, NOW), ["-1"]);
    }

    #[test]
    fn what_is_not_taken_lets_others_go_first_and_comes_again_later_each_time() {
        let mut kept = Kept::new(10);
        for (arrival, write) in (1..).zip(["+1", "+2", "+3"]) {
            kept.keep(&which(i32::try_from(arrival).unwrap()), arrived(arrival, Registers, write)).unwrap();
        }
        let fail = |kept: &mut Kept<&'static str>, counts, now: u64| {
            let turn = kept.first(Millis(now))?;
            kept.ended(&turn.which);
            Some((turn.write, kept.postpone(&turn, counts, Millis(now))))
        };
        assert_eq!(fail(&mut kept, true, 0), Some(("+1", 1)));
        assert_eq!(drain(&mut kept, Millis(0)), ["+2", "+3"]);
        assert_eq!((fail(&mut kept, true, 499), fail(&mut kept, true, 500)), (None, Some(("+1", 2))));
        assert_eq!((fail(&mut kept, false, 1_499), fail(&mut kept, false, 1_500)), (None, Some(("+1", 2))));
        assert_eq!((fail(&mut kept, true, 3_499), fail(&mut kept, true, 3_500)), (None, Some(("+1", 3))));
        for tries in 4..20 {
            assert_eq!(fail(&mut kept, true, u64::from(tries) * 100_000), Some(("+1", tries)));
        }
        assert_eq!(fail(&mut kept, true, 1_929_999), None);
        // It can go while it waits, too, and a newer one takes its place.
        let waits = kept.begin(&which(1)).unwrap();
        kept.keep(&which(1), arrived(9, Deregisters, "-1")).unwrap();
        kept.done(&waits);
        kept.ended(&which(1));
        assert_eq!(drain(&mut kept, NOW), ["-1"]);
        kept.keep(&which(4), arrived(10, Registers, "+4")).unwrap();
        let waits = kept.first(NOW).unwrap();
        kept.postpone(&waits, true, NOW);
        kept.postpone(&waits, true, NOW);
        assert_eq!(kept.later.len(), 1);
        kept.done(&waits);
        assert!(kept.is_empty() && kept.later.is_empty() && kept.bytes == 0);
    }

    #[test]
    fn what_is_older_than_an_answered_write_is_over() {
        let mut kept = Kept::new(10);
        kept.keep(&which(1), arrived(2, Registers, "+1")).unwrap();
        kept.overtaken(&which(1), 1);
        assert_eq!(kept.len(), 1);
        kept.overtaken(&which(1), 3);
        assert!(kept.is_empty());
    }

    proptest! {
        #[test]
        fn what_is_sent_leaves_each_instance_as_its_newest_write_says(
            writes in prop::collection::vec((0..6_i32, prop::bool::ANY, 0..3_u8), 0..40)
        ) {
            let (mut kept, mut wanted, mut registry) = (Kept::new(4), HashMap::new(), HashMap::new());
            let send = |kept: &mut Kept<(i32, bool)>, registry: &mut HashMap<i32, bool>| {
                let Some(turn) = kept.first(Millis(u64::MAX)) else { return };
                registry.insert(turn.write.0, turn.write.1);
                kept.done(&turn);
                kept.ended(&turn.which);
            };
            for (arrival, (port, registers, then)) in (0..).zip(writes) {
                let effect = if registers { Registers } else { Deregisters };
                if kept.keep(&which(port), arrived(arrival, effect, (port, registers))).is_ok() {
                    wanted.insert(port, registers);
                }
                prop_assert!(kept.len() <= 4 && kept.len() == kept.ready.len() + kept.later.len());
                match then {
                    0 => {}
                    1 => send(&mut kept, &mut registry),
                    _ => {
                        if let Some(turn) = kept.first(NOW) {
                            kept.postpone(&turn, true, NOW);
                            kept.ended(&turn.which);
                        }
                    }
                }
            }
            while !kept.is_empty() {
                send(&mut kept, &mut registry);
            }
            prop_assert_eq!(wanted, registry);
            prop_assert_eq!(kept.bytes, 0);
        }
    }
}
