//! Instances that the registry has known lately by their beats and registrations, whether somebody has asked for a list of
//! them or not: in an outage their beats are answered as those of instances that a list shows.
//!
//! Pure. Each is a number of 64 bits. Two generations, of which the older is forgotten when the younger is full, or has
//! lasted long enough. Source: ours.

use std::{
    collections::HashSet,
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

use super::stale::HostKey;
use crate::{base::clock::Millis, model::ServiceKey};

/// Instances that are remembered.
const MOST: usize = 200_000;

/// Those that have beaten or were registered.
#[derive(Debug)]
pub struct Beaten {
    hasher: RandomState,
    young: HashSet<u64>,
    old: HashSet<u64>,
    /// Since when there has been this generation.
    since: Millis,
    generation_ms: u64,
}

impl Beaten {
    /// Remembers each for `bound` at most, and for half of that at least.
    #[must_use]
    pub fn new(bound: Duration) -> Self {
        let generation_ms = u64::try_from(bound.as_millis() / 2).unwrap_or(u64::MAX);
        let (young, old) = (HashSet::new(), HashSet::new());
        Self { hasher: RandomState::new(), young, old, since: Millis(0), generation_ms }
    }

    /// The registry knows it.
    pub fn note(&mut self, service: &ServiceKey, host: &HostKey, now: Millis) {
        self.age(now);
        let number = self.number(service, host);
        if self.young.len() >= MOST / 2 && !self.young.contains(&number) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(number);
    }

    /// It has left, or the registry doesn't know it.
    pub fn forget(&mut self, service: &ServiceKey, host: &HostKey) {
        let number = self.number(service, host);
        self.young.remove(&number);
        self.old.remove(&number);
    }

    /// Whether the registry has known it lately.
    #[must_use]
    pub fn knows(&mut self, service: &ServiceKey, host: &HostKey, now: Millis) -> bool {
        self.age(now);
        let number = self.number(service, host);
        self.young.contains(&number) || self.old.contains(&number)
    }

    fn age(&mut self, now: Millis) {
        let passed_ms = now.since(self.since);
        if passed_ms < self.generation_ms {
            return;
        }
        self.old = std::mem::take(&mut self.young);
        self.since = self.since.plus(self.generation_ms);
        if passed_ms >= self.generation_ms.saturating_mul(2) {
            // Nobody has looked for the time of two: none of them is young enough.
            self.old.clear();
            self.since = now;
        }
    }

    fn number(&self, service: &ServiceKey, host: &HostKey) -> u64 {
        self.hasher.hash_one((service, host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(name: &str) -> ServiceKey {
        ServiceKey::new("public", name)
    }

    fn host(port: i32) -> HostKey {
        HostKey { ip: "10.0.0.1".into(), port, cluster: "DEFAULT".into() }
    }

    #[test]
    fn who_has_beaten_is_known_for_a_while() {
        let mut beaten = Beaten::new(Duration::from_secs(10));
        beaten.note(&service("a"), &host(1), Millis(100_000));
        let mut knows = |name: &str, port, now| beaten.knows(&service(name), &host(port), Millis(now));
        assert!(knows("a", 1, 100_000) && !knows("a", 2, 100_000) && !knows("b", 1, 100_000));
        assert!(knows("a", 1, 104_999) && knows("a", 1, 109_000));
        assert!(!knows("a", 1, 110_000));
        beaten.note(&service("a"), &host(1), Millis(110_000));
        assert!(!beaten.knows(&service("a"), &host(1), Millis(120_000)), "nobody has looked meanwhile");
    }

    #[test]
    fn who_has_left_is_known_no_more() {
        let mut beaten = Beaten::new(Duration::from_secs(10));
        for port in [1, 2] {
            beaten.note(&service("a"), &host(port), Millis(0));
        }
        beaten.forget(&service("a"), &host(1));
        let knows = [1, 2].map(|port| beaten.knows(&service("a"), &host(port), Millis(0)));
        assert_eq!(knows, [false, true]);
    }

    #[test]
    fn no_more_are_remembered_than_there_is_room_for_and_the_latest_are() {
        let mut beaten = Beaten::new(Duration::from_secs(10));
        let last = i32::try_from(MOST).unwrap() * 2;
        for port in 0..=last {
            beaten.note(&service("a"), &host(port), Millis(0));
            assert!(beaten.young.len() + beaten.old.len() <= MOST);
        }
        let knows = [last, 0].map(|port| beaten.knows(&service("a"), &host(port), Millis(0)));
        assert_eq!(knows, [true, false]);
    }
}
