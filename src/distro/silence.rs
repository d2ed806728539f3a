//! What members know of beats that others get: an owner tells who is late, and asks before it judges.
//!
//! Pure but for the cells of the instances. A beat goes to the owner alone, and a copy that takes over must know about
//! how old the last one is: those that the owner doesn't call late are in time. Only news are told, so that nothing is
//! said of a thousand instances that are all in time, or all late for hours. That a copy knows all that was said before is
//! found out by a digest of all that are late: without it those who aren't named would be taken for living.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    data::Told,
    documents::{Beats, Named, Silences, Silent},
    verify::Differing,
};
use crate::{
    base::{
        clock::Millis,
        hash::{fnv, mix},
    },
    cluster::Address,
    model::{Instance, Registry, Service, ServiceKey, instance::LATE_MS},
};

/// What a copy takes for the age of the last beat of an instance that isn't late: that, and the longest way of the news.
pub const IN_TIME_MS: u64 = LATE_MS + 3_000;

/// Which of the services that `owned` says have instances that became late, or came back, since `told` was said.
#[must_use]
pub fn news(registry: &Registry, owned: &dyn Fn(&ServiceKey) -> bool, told: &mut Told, now: Millis) -> Beats {
    let (mut beats, mut still) =
        (Beats { anew: told.is_empty(), ..Beats::default() }, Told::with_capacity(told.len()));
    registry.for_each(|service| {
        if !owned(&service.key) {
            return;
        }
        let (mut late, mut back) = (Vec::new(), Vec::new());
        let state = service.state();
        for instance in &state.ephemeral {
            let age_ms = now.since(instance.last_beat());
            let is_late = age_ms > LATE_MS;
            if !is_late && told.is_empty() {
                continue;
            }
            let id = id(service, instance);
            if is_late {
                beats.lates.0 = beats.lates.0.wrapping_add(id);
                still.insert(id);
            }
            if is_late && !told.contains(&id) {
                late.push(Silent::new(&instance.key(), age_ms));
            } else if !is_late && told.contains(&id) {
                back.push(Silent::new(&instance.key(), age_ms));
            }
        }
        for (list, silent) in [(&mut beats.late, late), (&mut beats.back, back)] {
            if !silent.is_empty() {
                list.push((Named(service.key.clone()), silent));
            }
        }
    });
    *told = still;
    beats
}

/// An instance of a service under its stamp, in 64 bits; what is written anew is told anew.
fn id(service: &Service, instance: &Instance) -> u64 {
    let key = instance.key();
    let parts = [
        service.key.namespace.as_bytes(),
        service.key.name.as_bytes(),
        key.ip.as_bytes(),
        key.cluster.as_bytes(),
    ];
    let bytes = parts.into_iter().flat_map(|part| part.iter().copied().chain([0xff]));
    mix(fnv(bytes.chain(key.port.to_be_bytes()).chain(instance.stamp().to_be_bytes())))
}

/// Takes what the owner of the services that `of_owner` says tells of their silence; of others it says nothing. Tells whether it knows all now that
/// was said before; if not, it should be said anew. If so, those that weren't named are [`in_time`], of the services that
/// the owner has as they are here: of an instance that it lacks it says nothing.
pub fn hear(registry: &Registry, beats: &Beats, of_owner: &dyn Fn(&ServiceKey) -> bool, now: Millis) -> bool {
    if beats.anew {
        registry.for_each(|service| {
            if of_owner(&service.key) {
                forget_late(service);
            }
        });
    }
    each(registry, &beats.late, |service, silent| {
        if !of_owner(&service.key) {
            return;
        }
        if let Some(instance) = service.state().ephemeral.get(&silent.key()) {
            instance.set_late(true);
            service.hear_beat(&silent.key(), now.minus(silent.3));
        }
    });
    each(registry, &beats.back, |service, silent| {
        if !of_owner(&service.key) {
            return;
        }
        if let Some(instance) = service.state().ephemeral.get(&silent.key()) {
            instance.set_late(false);
        }
    });
    let mut lates = 0_u64;
    each_of(registry, of_owner, &mut |service, instance| {
        if instance.is_late() {
            lates = lates.wrapping_add(id(service, instance));
        }
    });
    lates == beats.lates.0
}

/// Notes that the instances of these services which nobody calls late have beaten.
pub fn in_time(registry: &Registry, of: &dyn Fn(&ServiceKey) -> bool, now: Millis) {
    let beat = now.minus(IN_TIME_MS);
    each_of(registry, of, &mut |_, instance| {
        if !instance.is_late() {
            instance.hear_beat(beat);
        }
    });
}

fn each_of(registry: &Registry, of: &dyn Fn(&ServiceKey) -> bool, each: &mut dyn FnMut(&Service, &Instance)) {
    registry.for_each(|service| {
        if of(&service.key) {
            service.state().ephemeral.iter().for_each(|instance| each(service, instance));
        }
    });
}

/// Owners all of whose last words about silence were understood, while the comparison of their data goes on.
#[derive(Debug, Default)]
pub struct Understood(BTreeSet<Address>);

impl Understood {
    /// An owner compared the digest of its data: where that `is_equal`, what it said holds for all of them.
    pub fn verified(
        &mut self,
        registry: &Registry,
        (owner, of_owner): (&Address, &dyn Fn(&ServiceKey) -> bool),
        (has_heard, is_equal): (bool, bool),
        now: Millis,
    ) {
        self.0.remove(owner);
        match (has_heard, is_equal) {
            (true, true) => in_time(registry, of_owner, now),
            (true, false) => _ = self.0.insert(owner.clone()),
            (false, _) => {}
        }
    }

    /// It compared the keys that may differ: what it said holds for all others. Those that differ are sent, and their
    /// beats with them.
    pub fn compared(
        &mut self,
        registry: &Registry,
        (owner, of_owner): (&Address, &dyn Fn(&ServiceKey) -> bool),
        differing: &Differing<ServiceKey>,
        now: Millis,
    ) {
        if self.0.remove(owner) {
            let Differing { wanted, unknown_there } = differing;
            let differs: BTreeSet<&ServiceKey> = wanted.iter().chain(unknown_there).collect();
            in_time(registry, &|key| of_owner(key) && !differs.contains(key), now);
        }
    }
}

/// Forgets who was called late by a former owner of this service: the new one says it anew.
pub fn forget_late(service: &Service) {
    for instance in &service.state().ephemeral {
        instance.set_late(false);
    }
}

/// The silent instances of these services, about which others are asked.
#[must_use]
pub fn silent_of<'a>(services: impl IntoIterator<Item = &'a Arc<Service>>, now: Millis) -> Silences {
    let silences = services.into_iter().map(|service| {
        let state = service.state();
        let silent = state.silent_for(now, 0).filter(|instance| is_silent(instance, now));
        let silent = silent.map(|instance| Silent::new(&instance.key(), now.since(instance.last_beat())));
        (Named(service.key.clone()), silent.collect())
    });
    silences.collect()
}

fn is_silent(instance: &Instance, now: Millis) -> bool {
    !instance.marked
        && now.since(instance.last_beat()) > instance.unhealthy_after_ms.min(instance.delete_after_ms)
}

/// Of the instances that an owner takes for silent, those of which a younger beat is known here.
#[must_use]
pub fn younger(registry: &Registry, asked: &Silences, now: Millis) -> Silences {
    let mut heard: Silences = Vec::new();
    each(registry, asked, |service, silent| {
        let state = service.state();
        let Some(instance) = state.ephemeral.get(&silent.key()) else { return };
        let age_ms = now.since(instance.last_beat());
        if age_ms < silent.3 {
            let beat = Silent::new(&silent.key(), age_ms);
            match heard.last_mut().filter(|(named, _)| named.0 == service.key) {
                Some((_, beats)) => beats.push(beat),
                None => heard.push((Named(service.key.clone()), vec![beat])),
            }
        }
    });
    heard
}

/// Takes the answer to a question about silence.
pub fn take(registry: &Registry, heard: &Silences, now: Millis) {
    each(registry, heard, |service, beat| {
        service.hear_beat(&beat.key(), now.minus(beat.3));
    });
}

fn each(registry: &Registry, silences: &Silences, mut each: impl FnMut(&Arc<Service>, &Silent)) {
    for (Named(key), silent) in silences {
        if let Some(service) = registry.get(key.place()) {
            silent.iter().for_each(|silent| each(&service, silent));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::clock::Reading,
        model::{Limits, instance::Description, registry::Place},
    };

    const PLACE: Place<'static> = Place { namespace: "public", name: "G@@s" };
    const START: Millis = Millis(100_000);

    /// A node with these instances, all beaten at the start.
    fn node(ips: &[&str]) -> Registry {
        let registry = Registry::new(Arc::default(), Limits::default());
        let registry = registry.shared(Reading { now: START, wall_ms: 1_000_000 });
        for ip in ips {
            registry.register(PLACE, &Description::new(ip, 80, "DEFAULT"), START).unwrap();
        }
        registry
    }

    fn named(silences: &Silences) -> Vec<(&str, u64)> {
        silences.iter().flat_map(|(_, silent)| silent).map(|silent| (&*silent.0, silent.3)).collect()
    }

    fn ages(registry: &Registry, now: Millis) -> Vec<u64> {
        let state = registry.get(PLACE).unwrap().state();
        state.ephemeral.iter().map(|instance| now.since(instance.last_beat())).collect()
    }

    fn beat(registry: &Registry, ip: &str, now: Millis) {
        registry.get(PLACE).unwrap().beat(&Description::new(ip, 80, "DEFAULT").key, now);
    }

    #[test]
    fn only_news_are_told_and_copies_know_the_beats_by_them() {
        let (owner, copy, mut told) = (node(&["a", "b"]), node(&["a", "b"]), Told::default());
        let all = |_: &ServiceKey| true;
        let mut tell = |now: Millis| {
            let beats = news(&owner, &all, &mut told, now);
            let heard = hear(&copy, &beats, &all, now);
            if heard {
                in_time(&copy, &all, now);
            }
            (named(&beats.late).len(), named(&beats.back).len(), heard)
        };
        beat(&owner, "a", START.plus(8_000));
        assert_eq!(tell(START.plus(10_000)), (0, 0, true));
        assert_eq!(ages(&copy, START.plus(10_000)), [10_000, 10_000]);
        assert_eq!(tell(START.plus(15_000)), (1, 0, true), "b is late");
        assert_eq!(ages(&copy, START.plus(15_000)), [13_000, 15_000]);
        beat(&owner, "a", START.plus(18_000));
        assert_eq!(tell(START.plus(20_000)), (0, 0, true), "b still is");
        assert_eq!(ages(&copy, START.plus(20_000)), [13_000, 20_000]);
        beat(&owner, "b", START.plus(24_000));
        assert_eq!(tell(START.plus(25_000)), (0, 1, true));
        assert_eq!(ages(&copy, START.plus(25_000)), [13_000, 13_000]);
        beat(&owner, "a", START.plus(60_000));
        assert_eq!(tell(START.plus(60_000)), (1, 0, true));
        owner.register(PLACE, &Description::new("b", 80, "DEFAULT"), START.plus(60_000)).unwrap();
        assert_eq!(tell(START.plus(75_000)), (2, 0, false), "what was registered anew is told anew");
    }

    #[test]
    fn of_services_of_others_nobody_tells_silence() {
        let (owner, copy, mut told) = (node(&["a"]), node(&["a"]), Told::default());
        let late = news(&owner, &|_| true, &mut told, START.plus(15_000));
        assert_eq!(named(&late.late), [("a", 15_000)]);
        let is_late = || copy.get(PLACE).unwrap().state().ephemeral.iter().any(|instance| instance.is_late());
        hear(&copy, &late, &|_| false, START.plus(15_000));
        assert!(!is_late());
        hear(&copy, &late, &|_| true, START.plus(15_000));
        assert!(is_late());
        beat(&owner, "a", START.plus(18_000));
        let back = news(&owner, &|_| true, &mut told, START.plus(20_000));
        hear(&copy, &back, &|_| false, START.plus(20_000));
        assert!(is_late());
        hear(&copy, &back, &|_| true, START.plus(20_000));
        assert!(!is_late());
    }

    #[test]
    fn who_has_missed_something_takes_nobody_for_living_until_it_is_said_anew() {
        let (owner, copy, mut told) = (node(&["a", "b"]), node(&["a", "b"]), Told::default());
        let all = |_: &ServiceKey| true;
        let mut understood = Understood::default();
        let mut tell = |now: Millis, told: &mut Told| {
            let heard = hear(&copy, &news(&owner, &all, told, now), &all, now);
            understood.verified(&copy, (&Address::new("o:1"), &all), (heard, true), now);
            heard
        };
        beat(&owner, "a", START.plus(12_000));
        assert!(tell(START.plus(15_000), &mut told));
        // As when the owner seems to be another one for a moment.
        forget_late(&copy.get(PLACE).unwrap());
        beat(&owner, "a", START.plus(17_000));
        assert!(!tell(START.plus(20_000), &mut told));
        assert_eq!(ages(&copy, START.plus(20_000)), [18_000, 20_000], "as known before");
        told.clear();
        assert!(tell(START.plus(25_000), &mut told));
        assert_eq!(ages(&copy, START.plus(25_000)), [13_000, 25_000]);
    }

    #[test]
    fn of_what_the_owner_lacks_or_has_otherwise_its_silence_says_nothing() {
        let (copy, owner, all) = (node(&["a"]), Address::new("o:1"), |_: &ServiceKey| true);
        let (now, own) = (START.plus(29_000), ServiceKey::new("public", "G@@s"));
        let age = || ages(&copy, now)[0];
        let differing = |wanted: &[ServiceKey], unknown_there: &[ServiceKey]| Differing {
            wanted: wanted.to_vec(),
            unknown_there: unknown_there.to_vec(),
        };
        let mut understood = Understood::default();
        let (theirs, mine) = ([own.clone()], [ServiceKey::new("public", "G@@t")]);
        for (heard, wanted, unknown, expected) in [
            (true, &theirs[..], &mine[..], 29_000),
            (true, &mine, &theirs, 29_000),
            (false, &mine, &[], 29_000),
            (true, &mine, &[], 13_000),
        ] {
            understood.verified(&copy, (&owner, &all), (heard, false), now);
            assert_eq!(age(), 29_000, "not before the keys are compared");
            understood.compared(&copy, (&owner, &all), &differing(wanted, unknown), now);
            assert_eq!(age(), expected, "{heard} {wanted:?} {unknown:?}");
        }
        let later = now.plus(20_000);
        understood.compared(&copy, (&owner, &all), &differing(&[], &[]), later);
        assert_eq!(ages(&copy, later), [33_000], "nothing was said since");
    }

    #[test]
    fn whoever_knows_a_younger_beat_says_so() {
        let (owner, copy) = (node(&["a", "b", "c"]), node(&["a", "b"]));
        beat(&copy, "a", START.plus(12_000));
        let now = START.plus(16_000);
        beat(&owner, "c", now);
        let asked = silent_of([&owner.get(PLACE).unwrap()], now);
        assert_eq!(named(&asked), [("a", 16_000), ("b", 16_000)]);
        let heard = younger(&copy, &asked, now);
        assert_eq!(named(&heard), [("a", 4_000)]);
        take(&owner, &heard, now);
        assert_eq!(ages(&owner, now), [4_000, 16_000, 0]);
    }
}
