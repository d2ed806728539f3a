//! When a changed service is due to be pushed.
//!
//! The first change of a quiet service waits a moment, so that changes that come together share a push; a service
//! that keeps changing is pushed once per interval. Pure: times come in as arguments.
//! Source: the rule is ours; Nacos 1.4.8 always waits a second.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use crate::{
    base::clock::Millis,
    model::{Service, ServiceKey},
};

/// Services that wait for their push, and when the others were last pushed.
///
/// Holds what changed or was pushed within the last interval, so as many entries as there are services at most.
#[derive(Debug)]
pub struct Schedule {
    first_delay_ms: u64,
    interval_ms: u64,
    entries: HashMap<ServiceKey, Entry>,
    /// When to look at which entry again: to push it, or to forget when it was pushed.
    order: BTreeSet<(Millis, ServiceKey)>,
}

#[derive(Debug)]
enum Entry {
    /// To be pushed.
    Due(Arc<Service>),
    /// Pushed less than an interval ago; remembered until this time.
    Pushed { until: Millis },
}

impl Schedule {
    /// Nothing is due. `first_delay_ms`: from a change to its push when the service was quiet; `interval_ms`: from
    /// one push of a service to its next at least.
    #[must_use]
    pub fn new(first_delay_ms: u64, interval_ms: u64) -> Self {
        Self { first_delay_ms, interval_ms, entries: HashMap::new(), order: BTreeSet::new() }
    }

    /// Notes that `service` changed now.
    pub fn changed(&mut self, service: Arc<Service>, now: Millis) {
        let soonest = now.plus(self.first_delay_ms);
        let at = match self.entries.get_mut(&service.key) {
            Some(Entry::Due(known)) => {
                // A removed service may have been made again meanwhile; the newer one has the newer definition.
                *known = service;
                return;
            }
            Some(Entry::Pushed { until }) => {
                self.order.remove(&(*until, service.key.clone()));
                soonest.max(*until)
            }
            None => soonest,
        };
        self.order.insert((at, service.key.clone()));
        self.entries.insert(service.key.clone(), Entry::Due(service));
    }

    /// When [`Schedule::take_due`] has something to do again.
    #[must_use]
    pub fn next_due(&self) -> Option<Millis> {
        self.order.first().map(|(at, _)| *at)
    }

    /// A service that is due; counts as pushed now.
    pub fn take_due(&mut self, now: Millis) -> Option<Arc<Service>> {
        while let Some((at, _)) = self.order.first()
            && *at <= now
        {
            let (_, key) = self.order.pop_first()?;
            let Some(Entry::Due(service)) = self.entries.remove(&key) else { continue };
            if self.interval_ms > 0 {
                let until = now.plus(self.interval_ms);
                self.order.insert((until, key.clone()));
                self.entries.insert(key, Entry::Pushed { until });
            }
            return Some(service);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Definition;

    fn service(name: &str) -> Arc<Service> {
        Service::new(ServiceKey::new("public", name), Definition::default(), Millis(0))
    }

    fn at(ms: u64) -> Millis {
        Millis(1_000_000 + ms)
    }

    /// The times at which `name` is pushed if it changes at `changes`; looked at every millisecond.
    fn pushes(changes: &[u64]) -> Vec<u64> {
        let mut schedule = Schedule::new(200, 1_000);
        let mut pushed = Vec::new();
        for now in 0..6_000 {
            for _ in changes.iter().filter(|change| **change == now) {
                schedule.changed(service("G@@a"), at(now));
            }
            while schedule.take_due(at(now)).is_some() {
                pushed.push(now);
            }
        }
        assert!(
            schedule.entries.is_empty() && schedule.order.is_empty(),
            "all is forgotten after a quiet second"
        );
        pushed
    }

    #[test]
    fn the_first_change_after_a_quiet_second_waits_for_company() {
        assert_eq!(pushes(&[100]), [300]);
        assert_eq!(pushes(&[100, 150, 299]), [300]);
        assert_eq!(pushes(&[100, 2_000]), [300, 2_200]);
    }

    #[test]
    fn a_service_that_keeps_changing_is_pushed_once_an_interval() {
        let busy: Vec<u64> = (0..3_000).step_by(50).collect();
        assert_eq!(pushes(&busy), [200, 1_200, 2_200, 3_200]);
    }

    #[test]
    fn a_change_late_in_the_interval_still_waits_for_company() {
        assert_eq!(pushes(&[0, 1_150]), [200, 1_350]);
        assert_eq!(pushes(&[0, 300]), [200, 1_200]);
    }

    #[test]
    fn services_do_not_wait_for_each_other() {
        let mut schedule = Schedule::new(200, 1_000);
        schedule.changed(service("G@@a"), at(0));
        schedule.changed(service("G@@b"), at(10));
        assert_eq!(schedule.next_due(), Some(at(200)));
        assert_eq!(
            schedule.take_due(at(200)).map(|service| service.key.name.to_string()),
            Some("G@@a".into())
        );
        assert!(schedule.take_due(at(200)).is_none());
        assert_eq!(schedule.next_due(), Some(at(210)));
    }

    #[test]
    fn without_an_interval_nothing_is_remembered() {
        let mut schedule = Schedule::new(0, 0);
        schedule.changed(service("G@@a"), at(0));
        assert!(schedule.take_due(at(0)).is_some());
        assert_eq!(schedule.next_due(), None);
    }
}
