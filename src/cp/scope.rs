//! Which jobs may share one transaction: those that can't see each other's effect. Pure.
//!
//! A job is decided against what is applied, and a batch is applied after its fsync; so a job that
//! would look at what an earlier job of the batch changes must wait for the next batch.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// What a job looks at and changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One instance of a service. Doesn't touch what the service's other instances have in common.
    Instance {
        /// The service, by any name that is unique and always the same.
        service: Arc<str>,
        /// The instance, unique within the service.
        instance: Arc<str>,
    },
    /// A service with all its instances.
    Service(Arc<str>),
    /// Anything, such as switches, or a change of many services.
    Everything,
}

/// The scopes of the jobs in a batch.
#[derive(Debug, Default)]
pub(super) struct Taken {
    everything: bool,
    services: HashMap<Arc<str>, Part>,
}

#[derive(Debug)]
enum Part {
    Whole,
    Instances(HashSet<Arc<str>>),
}

impl Taken {
    /// Whether a job of `scope` must wait for the jobs taken so far.
    pub(super) fn conflicts(&self, scope: &Scope) -> bool {
        if self.everything {
            return true;
        }
        match scope {
            Scope::Everything => !self.services.is_empty(),
            Scope::Service(service) => self.services.contains_key(service),
            Scope::Instance { service, instance } => match self.services.get(service) {
                None => false,
                Some(Part::Whole) => true,
                Some(Part::Instances(taken)) => taken.contains(instance),
            },
        }
    }

    pub(super) fn take(&mut self, scope: &Scope) {
        match scope {
            Scope::Everything => self.everything = true,
            Scope::Service(service) => {
                self.services.insert(service.clone(), Part::Whole);
            }
            Scope::Instance { service, instance } => {
                let part =
                    self.services.entry(service.clone()).or_insert_with(|| Part::Instances(HashSet::new()));
                if let Part::Instances(taken) = part {
                    taken.insert(instance.clone());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(service: &str, instance: &str) -> Scope {
        Scope::Instance { service: service.into(), instance: instance.into() }
    }

    fn service(service: &str) -> Scope {
        Scope::Service(service.into())
    }

    fn conflict(first: &Scope, second: &Scope) -> bool {
        let mut taken = Taken::default();
        taken.take(first);
        taken.conflicts(second)
    }

    #[test]
    fn jobs_conflict_when_one_can_see_the_others_effect() {
        let cases = [
            (instance("a", "1"), instance("a", "2"), false),
            (instance("a", "1"), instance("b", "1"), false),
            (instance("a", "1"), instance("a", "1"), true),
            (instance("a", "1"), service("a"), true),
            (instance("a", "1"), service("b"), false),
            (service("a"), service("a"), true),
            (service("a"), service("b"), false),
            (instance("a", "1"), Scope::Everything, true),
            (service("a"), Scope::Everything, true),
            (Scope::Everything, Scope::Everything, true),
        ];
        for (first, second, expected) in cases {
            assert_eq!(conflict(&first, &second), expected, "{first:?}, {second:?}");
            assert_eq!(conflict(&second, &first), expected, "{second:?}, {first:?}");
        }
    }

    #[test]
    fn a_whole_service_stays_whole_and_an_empty_batch_takes_anything() {
        let mut taken = Taken::default();
        for scope in [instance("a", "1"), service("a"), Scope::Everything] {
            assert!(!taken.conflicts(&scope));
        }
        taken.take(&service("a"));
        taken.take(&instance("a", "1"));
        assert!(taken.conflicts(&instance("a", "2")));
    }
}
