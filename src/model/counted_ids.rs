//! The numbers that instances of one kind have as ids, and the smallest that none has.
//!
//! Pure. Kept beside the instances and shared between revisions like them, so that a new number costs O(log n) however
//! many there are. Source: Nacos 1.4.8 naming module, the id generator `snowflake`; compat file `instance-ids`.

use imbl::{OrdMap, OrdSet};

use super::instance::InstanceId;

/// Numbers in use. Copying shares all of them.
#[derive(Clone, Debug, Default)]
pub(super) struct CountedIds {
    /// How many instances have which number; peers may send one twice.
    used: OrdMap<u64, u32>,
    /// Every number from here on that is used was given, not counted; this one isn't used.
    next: u64,
    /// What isn't used below `next`.
    free: OrdSet<u64>,
}

impl CountedIds {
    /// Notes one more instance with this number.
    pub fn add(&mut self, number: u64) {
        *self.used.entry(number).or_insert(0) += 1;
        self.free.remove(&number);
        while self.used.contains_key(&self.next) {
            self.next += 1;
        }
    }

    /// Notes one instance less.
    pub fn remove(&mut self, number: u64) {
        let Some(count) = self.used.get_mut(&number) else { return };
        *count -= 1;
        if *count == 0 {
            self.used.remove(&number);
            if number < self.next {
                self.free.insert(number);
            }
        }
    }

    /// The smallest number that no instance has.
    pub fn smallest_free(&self) -> u64 {
        self.free.get_min().copied().unwrap_or(self.next)
    }

    /// No instance has any.
    pub fn is_empty(&self) -> bool {
        self.used.is_empty()
    }
}

/// The number that an id is; texts that aren't one don't count.
pub(super) fn number(id: &InstanceId) -> Option<u64> {
    match id {
        InstanceId::Given(id) => id.parse().ok(),
        InstanceId::Simple | InstanceId::Missing => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_smallest_free_number_is_the_one_that_counting_finds(
            steps in prop::collection::vec((any::<bool>(), prop_oneof![0..12_u64, Just(u64::MAX - 1)]), 0..80),
        ) {
            let (mut ids, mut all) = (CountedIds::default(), Vec::new());
            for (adds, number) in steps {
                if adds {
                    ids.add(number);
                    all.push(number);
                } else {
                    ids.remove(number);
                    if let Some(at) = all.iter().position(|other| *other == number) {
                        all.remove(at);
                    }
                }
                let smallest = (0..).find(|free| !all.contains(free)).unwrap();
                prop_assert_eq!((ids.smallest_free(), ids.is_empty()), (smallest, all.is_empty()));
            }
        }
    }
}
