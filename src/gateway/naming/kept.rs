//! Registrations and deregistrations of the time in which no legacy server answers: kept, and sent when one does again.
//!
//! Pure. Of each instance the newest counts, in the place that it has among all; they go in that order, one at a time. What
//! has no room is refused, so that its client knows. Source: ours.

use std::collections::{BTreeMap, HashMap};

use super::stale::HostKey;
use crate::model::ServiceKey;

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
    order: BTreeMap<u64, Which>,
}

#[derive(Debug)]
struct Entry<W> {
    number: u64,
    effect: Effect,
    write: W,
    bytes: usize,
}

/// A write that is to be sent; its number goes back with how that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn<W> {
    /// Stands for it.
    pub number: u64,
    /// Of which service.
    pub service: ServiceKey,
    /// What is sent.
    pub write: W,
}

impl<W: Clone> Kept<W> {
    /// Room for the writes of as many instances.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self::within(most, MOST_BYTES)
    }

    fn within(most: usize, most_bytes: usize) -> Self {
        Self { most, most_bytes, bytes: 0, next: 0, by_instance: HashMap::new(), order: BTreeMap::new() }
    }

    /// Keeps a write of about so many bytes, instead of what is kept of its instance.
    ///
    /// # Errors
    /// No room; what is kept stays.
    pub fn keep(&mut self, which: Which, effect: Effect, write: W, bytes: usize) -> Result<(), Full> {
        let older = self.by_instance.get(&which);
        let bytes_of_others = self.bytes - older.map_or(0, |older| older.bytes);
        if (older.is_none() && self.by_instance.len() >= self.most)
            || bytes_of_others.saturating_add(bytes) > self.most_bytes
        {
            return Err(Full);
        }
        let number = self.next;
        self.next += 1;
        self.bytes = bytes_of_others + bytes;
        let entry = Entry { number, effect, write, bytes };
        if let Some(older) = self.by_instance.insert(which.clone(), entry) {
            self.order.remove(&older.number);
        }
        self.order.insert(number, which);
        Ok(())
    }

    /// What will have become of this instance when all is sent; nothing where nothing is kept of it.
    #[must_use]
    pub fn effect(&self, which: &Which) -> Option<Effect> {
        self.by_instance.get(which).map(|entry| entry.effect)
    }

    /// The first of all. It stays until [`Kept::done`].
    #[must_use]
    pub fn first(&self) -> Option<Turn<W>> {
        let (number, which) = self.order.first_key_value()?;
        let entry = self.by_instance.get(which)?;
        Some(Turn { number: *number, service: which.service.clone(), write: entry.write.clone() })
    }

    /// The write with this number has been answered. Nothing happens where a newer one has taken its place meanwhile.
    pub fn done(&mut self, number: u64) {
        let entry = self.order.remove(&number).and_then(|which| self.by_instance.remove(&which));
        self.bytes -= entry.map_or(0, |entry| entry.bytes);
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
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Effect::*, *};

    fn which(port: i32) -> Which {
        let host = HostKey { ip: "10.0.0.1".into(), port, cluster: "DEFAULT".into() };
        Which { service: ServiceKey::new("public", "G@@a"), host, ephemeral: true }
    }

    /// What is sent until nothing waits.
    fn drain(kept: &mut Kept<&'static str>) -> Vec<&'static str> {
        let mut sent = Vec::new();
        while let Some(turn) = kept.first() {
            sent.push(turn.write);
            kept.done(turn.number);
        }
        assert!(kept.is_empty() && kept.order.is_empty() && kept.bytes == 0);
        sent
    }

    #[test]
    fn all_go_in_the_order_in_which_they_came_and_of_an_instance_the_newest() {
        let mut kept = Kept::new(10);
        for (port, effect, write) in
            [(1, Registers, "+1"), (2, Registers, "+2"), (1, Deregisters, "-1"), (3, Registers, "+3")]
        {
            kept.keep(which(port), effect, write, 1).unwrap();
        }
        assert_eq!(
            [1, 2, 4].map(|port| kept.effect(&which(port))),
            [Some(Deregisters), Some(Registers), None]
        );
        assert_eq!(drain(&mut kept), ["+2", "-1", "+3"]);
    }

    #[test]
    fn kinds_are_instances_of_their_own() {
        let mut kept = Kept::new(10);
        kept.keep(which(1), Registers, "ephemeral", 1).unwrap();
        kept.keep(Which { ephemeral: false, ..which(1) }, Registers, "persistent", 1).unwrap();
        assert_eq!(drain(&mut kept), ["ephemeral", "persistent"]);
    }

    #[test]
    fn a_further_instance_has_no_room_but_a_newer_write_has() {
        let mut kept = Kept::new(2);
        kept.keep(which(1), Registers, "+1", 1).unwrap();
        kept.keep(which(2), Registers, "+2", 1).unwrap();
        assert_eq!(kept.keep(which(3), Registers, "+3", 1), Err(Full));
        assert_eq!(kept.keep(which(1), Deregisters, "-1", 1), Ok(()));
        assert_eq!(kept.len(), 2);
        assert_eq!(drain(&mut kept), ["+2", "-1"]);
    }

    #[test]
    fn a_write_that_is_too_long_for_all_bytes_has_no_room() {
        let mut kept = Kept::within(10, 100);
        assert_eq!(kept.keep(which(1), Registers, "+1", 60), Ok(()));
        assert_eq!(kept.keep(which(2), Registers, "+2", 41), Err(Full));
        assert_eq!(kept.keep(which(2), Registers, "+2", 40), Ok(()));
        assert_eq!(kept.keep(which(1), Deregisters, "-1", 61), Err(Full), "the older one stays");
        assert_eq!(kept.effect(&which(1)), Some(Registers));
        assert_eq!(kept.keep(which(1), Deregisters, "-1", 10), Ok(()));
        assert_eq!(drain(&mut kept), ["+2", "-1"]);
    }

    #[test]
    fn what_comes_while_an_older_write_is_under_way_goes_after_it() {
        let mut kept = Kept::new(10);
        kept.keep(which(1), Registers, "+1", 1).unwrap();
        let under_way = kept.first().unwrap();
        kept.keep(which(1), Deregisters, "-1", 1).unwrap();
        kept.done(under_way.number);
        assert_eq!(kept.effect(&which(1)), Some(Deregisters));
        assert_eq!(drain(&mut kept), ["-1"]);
    }

    #[test]
    fn what_is_not_done_is_first_again() {
        let mut kept = Kept::new(10);
        kept.keep(which(1), Registers, "+1", 1).unwrap();
        kept.keep(which(2), Registers, "+2", 1).unwrap();
        assert_eq!(kept.first(), kept.first());
        assert_eq!(drain(&mut kept), ["+1", "+2"]);
    }

    proptest! {
        #[test]
        fn what_is_sent_leaves_each_instance_as_its_newest_write_says(
            writes in prop::collection::vec((0..6_i32, prop::bool::ANY, prop::bool::ANY), 0..40)
        ) {
            let (mut kept, mut wanted, mut registry) = (Kept::new(4), HashMap::new(), HashMap::new());
            let send = |kept: &mut Kept<(i32, bool)>, registry: &mut HashMap<i32, bool>| {
                let Some(turn) = kept.first() else { return };
                registry.insert(turn.write.0, turn.write.1);
                kept.done(turn.number);
            };
            for (port, registers, sends) in writes {
                let effect = if registers { Registers } else { Deregisters };
                if kept.keep(which(port), effect, (port, registers), 1).is_ok() {
                    wanted.insert(port, registers);
                }
                prop_assert!(kept.len() <= 4 && kept.len() == kept.order.len());
                if sends {
                    send(&mut kept, &mut registry);
                }
            }
            while !kept.is_empty() {
                send(&mut kept, &mut registry);
            }
            prop_assert_eq!(wanted, registry);
        }
    }
}
