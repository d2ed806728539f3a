//! Of which instances of a service something is told, where it isn't of all: a large service is told of in parts.
//!
//! Pure. Parts are ranges of the order of instances, so that each of them may say of its own range that it is all, and
//! nobody has to remember the other parts.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::{InstanceKey, Shown, State, key::compare};

/// Of which instances the entries that a member tells are all that it knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// Of none: they are news alone.
    #[default]
    News,
    /// Of all of the service.
    Whole,
    /// Of those of a range.
    Within(Range),
}

impl Extent {
    /// Whether the instance with this key would have been told of, if it were known.
    #[must_use]
    pub fn holds(&self, key: &InstanceKey<'_>) -> bool {
        match self {
            Self::News => false,
            Self::Whole => true,
            Self::Within(range) => range.holds(key),
        }
    }
}

impl From<bool> for Extent {
    /// Of all, or of none.
    fn from(complete: bool) -> Self {
        if complete { Self::Whole } else { Self::News }
    }
}

/// A range of the order of instances.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// It begins behind this one; nothing for the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Bound>,
    /// This one is its last; nothing for the last of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Bound>,
}

/// A key of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    ip: Box<str>,
    port: i32,
    cluster: Box<str>,
}

impl Bound {
    /// This key.
    #[must_use]
    pub fn of(key: &InstanceKey<'_>) -> Self {
        Self { ip: key.ip.into(), port: key.port, cluster: key.cluster.into() }
    }

    fn key(&self) -> InstanceKey<'_> {
        InstanceKey { ip: &self.ip, port: self.port, cluster: &self.cluster }
    }
}

impl Range {
    /// Whether the key lies in it.
    #[must_use]
    pub fn holds(&self, key: &InstanceKey<'_>) -> bool {
        self.after.as_ref().is_none_or(|after| compare(key, &after.key()).is_gt())
            && self.to.as_ref().is_none_or(|to| compare(key, &to.key()).is_le())
    }
}

impl State {
    /// Cuts what [`State::entries`] gives into ranges whose entries have at most so many bytes by `bytes_of`, or are but one;
    /// together they hold every key. One range where all fits.
    pub fn cut(
        &self,
        newer_than: Option<u64>,
        most_bytes: usize,
        bytes_of: impl Fn(&Shown<'_>) -> usize,
    ) -> Vec<Range> {
        let all: usize = self.entries(newer_than).map(|entry| bytes_of(&entry)).sum();
        let (mut ranges, mut after) = (Vec::new(), None);
        if all > most_bytes {
            let (mut bytes, mut last): (usize, Option<Shown<'_>>) = (0, None);
            for entry in self.sorted_entries(newer_than) {
                let more = bytes_of(&entry);
                if let Some(last) = last.filter(|_| bytes + more > most_bytes) {
                    let to = Some(Bound::of(&last.key()));
                    ranges.push(Range { after: std::mem::replace(&mut after, to.clone()), to });
                    bytes = 0;
                }
                bytes += more;
                last = Some(entry);
            }
        }
        ranges.push(Range { after, to: None });
        ranges
    }

    /// What [`State::entries`] gives in the order of keys.
    fn sorted_entries(&self, newer_than: Option<u64>) -> impl Iterator<Item = Shown<'_>> {
        let is_newer = move |entry: &Shown<'_>| newer_than.is_none_or(|stamp| entry.stamp() > stamp);
        let alive = self.ephemeral.iter().map(|instance| Shown::Alive(instance, instance.mark()));
        let mut alive = alive.filter(is_newer).peekable();
        let mut gone = self.gone.iter().map(Shown::Gone).filter(is_newer).peekable();
        std::iter::from_fn(move || match (alive.peek(), gone.peek()) {
            (Some(one), Some(other)) if compare(&one.key(), &other.key()) == Ordering::Greater => gone.next(),
            (Some(_), _) => alive.next(),
            (None, _) => gone.next(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        base::clock::{Millis, Reading},
        model::{Limits, Place, Registry, instance::Description},
    };

    const AT: Reading = Reading { now: Millis(1 << 40), wall_ms: 1_795_983_049_938 };
    const PLACE: Place<'static> = Place { namespace: "public", name: "G@@s" };

    fn key(ip: &str) -> InstanceKey<'_> {
        InstanceKey { ip, port: 80, cluster: "C" }
    }

    #[test]
    fn ranges_hold_each_key_once_the_dead_as_the_living() {
        let registry = Registry::new(Arc::default(), Limits::default()).shared(AT);
        let ips: Vec<String> = (0..10).map(|n| format!("10.0.0.{n}")).collect();
        for ip in &ips {
            registry.register(PLACE, &Description::new(ip, 80, "C"), AT.now).unwrap();
        }
        for ip in [&ips[0], &ips[4], &ips[9]] {
            registry.deregister(PLACE, key(ip), AT.now).unwrap();
        }
        let state = registry.get(PLACE).unwrap().state();
        for (most, count) in [(0, 10), (1, 10), (3, 4), (9, 2), (10, 1), (99, 1)] {
            let ranges = state.cut(None, most, |_| 1);
            assert_eq!(ranges.len(), count, "{most}");
            for ip in ips.iter().map(String::as_str).chain(["0", "10.0.0.45", "z"]) {
                assert_eq!(ranges.iter().filter(|range| range.holds(&key(ip))).count(), 1, "{ip}");
            }
            for range in &ranges {
                let held = state.entries(None).filter(|entry| range.holds(&entry.key())).count();
                assert!(held <= most.max(1), "{held} of {most}");
            }
        }
        let news = state.cut(Some(state.highest_stamp - 1), 0, |_| 1);
        assert_eq!(news.len(), 1, "one thing is newer");
    }

    #[test]
    fn what_is_told_is_all_of_its_range() {
        let bound = |ip| Some(Bound::of(&key(ip)));
        let range = Range { after: bound("b"), to: bound("d") };
        let held = |extent: Extent| ["a", "b", "c", "d", "e"].map(|ip| extent.holds(&key(ip)));
        assert_eq!(held(Extent::Within(range.clone())), [false, false, true, true, false]);
        assert_eq!(held(Extent::Within(Range { after: None, ..range })), [true, true, true, true, false]);
        assert_eq!((held(true.into()), held(false.into())), ([true; 5], [false; 5]));
    }
}
