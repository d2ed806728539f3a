//! The registry under threads: what was acknowledged stays, and no reader sees less than what was published.
//!
//! Threads start together at a barrier and take their steps from a seed; the interleaving is the machine's. What is
//! checked holds for each of them.

use std::{
    collections::HashMap,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use super::{
    Place, Registry,
    change::Changes,
    instance::Description,
    list::{self, Echo, Shape},
};
use crate::base::clock::Millis;

/// Numbers that depend on the seed alone.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

fn registry() -> Registry {
    Registry::new(Arc::new(Changes::default()), Default::default())
}

const WRITERS: usize = 4;
const STEPS: usize = 3_000;
const KEYS: usize = 2;
/// Steps of a writer between two moments at which it lets the cleaner go round.
const STEPS_A_ROUND: usize = 10;

/// The services of all writers, and behind them one of each writer's own.
fn names() -> Vec<String> {
    (0..2 + WRITERS).map(|index| format!("G@@s{index}")).collect()
}

/// What a writer knows: the weight of each of its instances, by service and port.
type Acknowledged = HashMap<(usize, i32), f64>;

/// Registers, removes and wipes at random; gives what must be there afterwards of this writer's instances.
fn write(
    registry: &Registry,
    names: &[String],
    writer: usize,
    mut random: Seeded,
    rounds: &AtomicUsize,
) -> Acknowledged {
    let (ip, own) = (format!("10.0.0.{writer}"), 2 + writer);
    let mut acknowledged = Acknowledged::new();
    for step in 1..=STEPS {
        if step.is_multiple_of(STEPS_A_ROUND) {
            // Never for long: the test is about what happens, not about whether.
            let before = rounds.load(Ordering::Acquire);
            (0..1_000)
                .take_while(|_| rounds.load(Ordering::Acquire) == before)
                .for_each(|_| thread::yield_now());
        }
        let service = [0, 1, own][random.below(3)];
        let place = Place { namespace: "public", name: &names[service] };
        let port = i32::try_from(random.below(KEYS)).unwrap() + 1;
        let weight = f64::from(u32::try_from(step).unwrap());
        let described = Description { weight, ..Description::new(&ip, port, "DEFAULT") };
        match random.below(8) {
            0..4 => {
                registry.register(place, &described, Millis(0)).unwrap();
                acknowledged.insert((service, port), weight);
            }
            4..7 => {
                let was_there = registry.deregister(place, described.key, Millis(0)).unwrap();
                assert_eq!(was_there, acknowledged.remove(&(service, port)).is_some());
            }
            _ => {
                // Of a service with instances nobody else can have removed it.
                let of_own = |(service, _): &(usize, i32)| *service == own;
                let had_instances = acknowledged.keys().any(of_own);
                let removed = registry.remove(Place { namespace: "public", name: &names[own] }, Millis(0));
                assert!(removed || !had_instances);
                acknowledged.retain(|key, _| !of_own(key));
            }
        }
    }
    acknowledged
}

#[test]
fn nothing_acknowledged_is_lost_between_registering_removing_and_cleaning() {
    for seed in [1, 2, 3] {
        let (registry, names, done) = (registry(), names(), AtomicBool::new(false));
        let rounds = AtomicUsize::new(0);
        let start = Barrier::new(WRITERS + 1);
        let (acknowledged, cleaned) = thread::scope(|scope| {
            let cleaner = scope.spawn(|| {
                start.wait();
                let mut cleaned = 0;
                while !done.load(Ordering::Acquire) {
                    for name in &names {
                        let place = Place { namespace: "public", name };
                        cleaned += usize::from(registry.remove_idle(place));
                    }
                    rounds.fetch_add(1, Ordering::Release);
                }
                cleaned
            });
            let writers = [0, 1, 2, 3].map(|writer| {
                let (registry, names, start, rounds) = (&registry, &names, &start, &rounds);
                scope.spawn(move || {
                    start.wait();
                    write(registry, names, writer, Seeded(seed * 100 + writer as u64), rounds)
                })
            });
            let acknowledged = writers.map(thread::ScopedJoinHandle::join);
            done.store(true, Ordering::Release);
            (acknowledged.map(Result::unwrap), cleaner.join().unwrap())
        });
        assert!(cleaned > 0, "seed {seed}: the cleaner got something to do");
        let mut there = HashMap::new();
        registry.for_each(|service| {
            assert!(!service.is_removed(), "seed {seed}: {} is served though it is gone", service.key);
            let index = names.iter().position(|name| *name == *service.key.name).unwrap();
            for instance in service.state().instances() {
                there.insert((instance.ip().to_owned(), index, instance.port), instance.weight);
            }
        });
        let acknowledged = acknowledged.iter().enumerate().flat_map(|(writer, of_writer)| {
            let key = move |(service, port)| (format!("10.0.0.{writer}"), service, port);
            of_writer.iter().map(move |(at, weight)| (key(*at), *weight))
        });
        assert_eq!(there, acknowledged.collect(), "seed {seed}");
    }
}

const INSTANCES: usize = 200;

/// How many instances the list shows as unhealthy, and how many it shows.
fn shown(registry: &Registry, place: Place<'_>) -> (usize, usize) {
    let service = registry.get(place).unwrap();
    let shape = Shape { clusters: "", healthy_only: false, grouped: true };
    let echo = Echo { cache_millis: 0, wall_ms: 0, env: "" };
    let answer = list::answer(&service, &service.state(), shape).to_bytes(echo);
    let text = std::str::from_utf8(&answer).unwrap();
    (text.matches(r#""healthy":false"#).count(), text.matches(r#""healthy":"#).count())
}

#[test]
fn no_list_is_older_than_the_health_that_was_published_before_it_was_asked_for() {
    let (registry, place) = (registry(), Place { namespace: "public", name: "G@@s" });
    let ips: Vec<String> = (0..INSTANCES).map(|index| format!("10.0.1.{index}")).collect();
    let described: Vec<_> = ips.iter().map(|ip| Description::new(ip, 80, "DEFAULT")).collect();
    // One that stays healthy: protection never sets in.
    registry.register(place, &Description::new("10.0.0.1", 80, "DEFAULT"), Millis(0)).unwrap();
    for described in &described {
        registry.register(place, described, Millis(0)).unwrap();
    }
    let service = registry.get(place).unwrap();
    for (healthy, readings) in [(false, AtomicUsize::new(0)), (true, AtomicUsize::new(0))] {
        let (published, start) = (AtomicUsize::new(0), Barrier::new(3));
        thread::scope(|scope| {
            let readers = [(); 2].map(|()| {
                scope.spawn(|| {
                    start.wait();
                    loop {
                        let before = published.load(Ordering::Acquire);
                        let (unhealthy, all) = shown(&registry, place);
                        assert_eq!(all, INSTANCES + 1);
                        let changed = if healthy { INSTANCES - unhealthy } else { unhealthy };
                        assert!(changed >= before, "{changed} of {before} published changes to {healthy}");
                        readings.fetch_add(1, Ordering::Release);
                        if before == INSTANCES {
                            return;
                        }
                    }
                })
            });
            start.wait();
            for described in &described {
                registry.set_health_of(&service, &described.key, healthy, Millis(0));
                let read = readings.load(Ordering::Acquire);
                published.fetch_add(1, Ordering::Release);
                // So that the readers see many revisions, even on one core.
                while readings.load(Ordering::Acquire) == read
                    && !readers.iter().any(thread::ScopedJoinHandle::is_finished)
                {
                    thread::yield_now();
                }
            }
        });
    }
    assert_eq!(shown(&registry, place), (0, INSTANCES + 1));
}
