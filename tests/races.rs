//! Persistent instances registered and removed by many at once: what is served and what is stored are the same.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "support/in_process.rs"]
#[allow(dead_code, reason = "each test uses its part")]
mod in_process;

use std::{
    collections::BTreeMap,
    sync::{Arc, Barrier},
    thread,
};

use in_process::{start, start_in};
use nacre::model::Registry;
use tokio::runtime::{Builder, Runtime};

const WRITERS: usize = 4;
const STEPS: usize = 60;
/// Instances of each writer; the last port is everybody's.
const PORTS: usize = 4;

/// Weights by ip and port.
type Weights = BTreeMap<(String, i32), f64>;

fn weights(registry: &Registry) -> Weights {
    let mut weights = Weights::new();
    registry.for_each(|service| {
        for instance in service.state().instances() {
            assert!(!instance.ephemeral);
            weights.insert((instance.ip().to_owned(), instance.port), instance.weight);
        }
    });
    weights
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn what_many_register_and_remove_at_once_is_what_a_restart_finds() {
    for seed in 1..=3 {
        let node = start();
        let start = Barrier::new(WRITERS);
        let acknowledged: Vec<Weights> = thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let (mut door, start) = (node.another_door(), &start);
                    scope.spawn(move || {
                        let (runtime, mut random, mut known) =
                            (runtime(), seed * 1_000 + writer, Weights::new());
                        start.wait();
                        for step in 1..=STEPS {
                            random = random
                                .wrapping_mul(6_364_136_223_846_793_005)
                                .wrapping_add(1_442_695_040_888_963_407);
                            let (port, adds) = (1 + (random >> 33) % PORTS, (random >> 40) % 3 > 0);
                            let ip =
                                if port == PORTS { "10.0.0.9".into() } else { format!("10.0.0.{writer}") };
                            let target =
                                format!("/v1/ns/instance?serviceName=s&ephemeral=false&ip={ip}&port={port}");
                            let key = (ip, i32::try_from(port).unwrap());
                            let answer = if adds {
                                let weight = f64::from(u32::try_from(step).unwrap());
                                known.insert(key, weight);
                                runtime.block_on(door.ask("POST", &format!("{target}&weight={weight}")))
                            } else {
                                known.remove(&key);
                                runtime.block_on(door.ask("DELETE", &target))
                            };
                            assert_eq!(answer, (200, "ok".into()));
                        }
                        known.retain(|(ip, _), _| ip != "10.0.0.9");
                        known
                    })
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        let served = weights(&node.registry);
        let mut owned = served.clone();
        owned.retain(|(ip, _), _| ip != "10.0.0.9");
        assert_eq!(owned, acknowledged.into_iter().flatten().collect(), "seed {seed}");
        let folder = runtime().block_on(node.stop());
        assert_eq!(weights(&start_in(Arc::clone(&folder)).registry), served, "seed {seed}: after a restart");
    }
}
