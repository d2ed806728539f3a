//! Of which instances of a service something is told, where it isn't of all: a large service is told of in parts.
//!
//! Pure. Parts are ranges of the order of instances, so that each of them may say of its own range that it is all, and
//! nobody has to remember the other parts.

use std::{
    ops::Bound::{Excluded, Unbounded},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::{Gone, Instance, InstanceKey, Instances, Shown, State, instance::Mark, key::compare};

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
    /// Those of `instances` whose keys it holds, in their order; goes through no others.
    pub(super) fn among<'i>(&self, instances: &'i Instances) -> impl Iterator<Item = &'i Arc<Instance>> {
        let (holds, range) = match self {
            Self::News => (false, None),
            Self::Whole => (true, None),
            Self::Within(range) => (true, Some(range)),
        };
        let after = range.and_then(|range| range.after.as_ref());
        let begin = after.map_or(Unbounded, |after| Excluded(after.key()));
        let behind = holds.then(|| instances.range((begin, Unbounded)));
        let to = range.and_then(|range| range.to.as_ref());
        let is_within = move |key: InstanceKey<'_>| to.is_none_or(|to| compare(&key, &to.key()).is_le());
        behind.into_iter().flatten().take_while(move |instance| is_within(instance.key()))
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

/// What is told of the instances of a range, and held for it: the service may go on meanwhile.
#[derive(Clone, Debug, Default)]
pub struct Slice {
    /// Of which instances.
    pub range: Range,
    /// How many bytes they have, as whoever cut it measures them.
    pub bytes: usize,
    alive: Vec<Arc<Instance>>,
    gone: Vec<Arc<Gone>>,
}

impl Slice {
    /// Those that are there, in the order of their keys, each with what it shows now.
    pub fn alive(&self) -> impl Iterator<Item = (&Instance, Mark)> {
        self.alive.iter().map(|instance| (&**instance, instance.mark()))
    }

    /// Those that are gone, in the order of their keys.
    pub fn gone(&self) -> impl Iterator<Item = &Gone> {
        self.gone.iter().map(|gone| &**gone)
    }
}

/// One instance that is there or gone, shared.
enum Held<'a> {
    Alive(&'a Arc<Instance>),
    Gone(&'a Arc<Gone>),
}

impl Held<'_> {
    fn shown(&self) -> Shown<'_> {
        match self {
            Self::Alive(instance) => Shown::Alive(instance, instance.mark()),
            Self::Gone(gone) => Shown::Gone(gone),
        }
    }
}

impl State {
    /// Cuts what [`State::entries`] gives into slices that have at most so many bytes by `bytes_of`, or are but one entry;
    /// their ranges together hold every key. One slice where all fits. Goes through the instances once.
    pub fn cut(
        &self,
        newer_than: Option<u64>,
        most_bytes: usize,
        bytes_of: impl Fn(&Shown<'_>) -> usize,
    ) -> Vec<Slice> {
        let (mut slices, mut slice, mut last) = (Vec::new(), Slice::default(), None::<Held<'_>>);
        for held in self.sorted(newer_than) {
            let more = bytes_of(&held.shown());
            if let Some(last) = last.filter(|_| slice.bytes.saturating_add(more) > most_bytes) {
                let to = Some(Bound::of(&last.shown().key()));
                slice.range.to.clone_from(&to);
                let next = Slice { range: Range { after: to, to: None }, ..Slice::default() };
                slices.push(std::mem::replace(&mut slice, next));
            }
            slice.bytes = slice.bytes.saturating_add(more);
            match held {
                Held::Alive(instance) => slice.alive.push(Arc::clone(instance)),
                Held::Gone(gone) => slice.gone.push(Arc::clone(gone)),
            }
            last = Some(held);
        }
        slices.push(slice);
        slices
    }

    /// What [`State::entries`] gives in the order of keys.
    fn sorted(&self, newer_than: Option<u64>) -> impl Iterator<Item = Held<'_>> {
        let is_newer = move |held: &Held<'_>| newer_than.is_none_or(|stamp| held.shown().stamp() > stamp);
        let mut alive = self.ephemeral.iter().map(Held::Alive).filter(is_newer).peekable();
        let mut gone = self.gone.shared().map(Held::Gone).filter(is_newer).peekable();
        std::iter::from_fn(move || match (alive.peek(), gone.peek()) {
            (Some(one), Some(other)) if compare(&one.shown().key(), &other.shown().key()).is_gt() => {
                gone.next()
            }
            (Some(_), _) => alive.next(),
            (None, _) => gone.next(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::clock::{Millis, Reading},
        model::{Limits, Place, Registry, instance::Description},
    };

    const AT: Reading = Reading { now: Millis(1 << 40), wall_ms: 1_795_983_049_938 };
    const PLACE: Place<'static> = Place { namespace: "public", name: "G@@s" };

    impl Extent {
        /// Whether the instance with this key would have been told of, if it were known.
        fn holds(&self, key: &InstanceKey<'_>) -> bool {
            match self {
                Self::News => false,
                Self::Whole => true,
                Self::Within(range) => range.holds(key),
            }
        }
    }

    impl Range {
        /// Whether the key lies in it.
        fn holds(&self, key: &InstanceKey<'_>) -> bool {
            self.after.as_ref().is_none_or(|after| compare(key, &after.key()).is_gt())
                && self.to.as_ref().is_none_or(|to| compare(key, &to.key()).is_le())
        }
    }

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
            let slices = state.cut(None, most, |_| 1);
            assert_eq!(slices.len(), count, "{most}");
            for ip in ips.iter().map(String::as_str).chain(["0", "10.0.0.45", "z"]) {
                assert_eq!(slices.iter().filter(|slice| slice.range.holds(&key(ip))).count(), 1, "{ip}");
            }
            for slice in &slices {
                let alive = slice.alive().map(|(instance, _)| instance.key().text());
                let told: Vec<_> = alive.chain(slice.gone().map(|gone| gone.key().text())).collect();
                let all = state.entries(None).filter(|entry| slice.range.holds(&entry.key()));
                assert_eq!(told, all.map(|entry| entry.key().text()).collect::<Vec<_>>());
                assert!(told.len() <= most.max(1) && slice.bytes == told.len(), "{told:?} of {most}");
                let extent = Extent::Within(slice.range.clone());
                let among: Vec<_> =
                    extent.among(&state.ephemeral).map(|instance| instance.key().text()).collect();
                assert_eq!(among, told[..slice.alive().count()]);
            }
        }
        let upside_down = Range { after: Some(Bound::of(&key(&ips[6]))), to: Some(Bound::of(&key(&ips[2]))) };
        assert_eq!(Extent::Within(upside_down).among(&state.ephemeral).count(), 0);
        assert_eq!(Extent::News.among(&state.ephemeral).count(), 0);
        assert_eq!(Extent::Whole.among(&state.ephemeral).count(), 7);
        let news = state.cut(Some(state.highest_stamp - 1), 0, |_| 1);
        assert_eq!((news.len(), news[0].bytes), (1, 1), "one thing is newer");
    }

    #[test]
    fn what_is_told_is_all_of_its_range() {
        let bound = |ip| Some(Bound::of(&key(ip)));
        let range = Range { after: bound("b"), to: bound("d") };
        let held = |extent: Extent| ["a", "b", "c", "d", "e"].map(|ip| extent.holds(&key(ip)));
        assert_eq!(held(Extent::Within(range.clone())), [false, false, true, true, false]);
        assert_eq!(held(Extent::Within(Range { after: None, ..range })), [true, true, true, true, false]);
        assert_eq!((held(Extent::Whole), held(Extent::News)), ([true; 5], [false; 5]));
    }
}
