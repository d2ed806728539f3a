//! Beats against sweeps and writes that copy instances, in threads that start together at barriers.

use std::{
    sync::{Arc, Barrier},
    thread,
};

use super::sweep::Sweeper;
use crate::{
    base::clock::{Clock, Millis},
    model::{
        Registry, Service,
        change::Changes,
        instance::Description,
        registry::Place,
        service::{Beaten, Draft},
    },
};

const PLACE: Place<'static> = Place { namespace: "public", name: "G@@s" };
const ROUNDS: usize = 400;
const INSTANCES: i32 = 8;
/// The one that nobody beats.
const SILENT: i32 = 0;

/// As the endpoint does it. One that isn't there any more stays away, and is missed at the end of the round.
fn beat(registry: &Registry, service: &Arc<Service>, port: i32, clock: &Clock) {
    let key = Description::new("10.0.0.1", port, "DEFAULT").key;
    if let Beaten::Ephemeral(instance) = service.beat(&key, clock.now())
        && !instance.healthy()
    {
        registry.set_health_of(service, &key, true, clock.now());
    }
}

/// As a batch of metadata does it: each instance of the draft gives way to a changed copy.
fn change_all(registry: &Registry, service: &Arc<Service>, metadata: &str) {
    let change = |draft: &mut Draft| {
        for instance in &draft.ephemeral().clone() {
            let mut copy = instance.copy();
            copy.set_metadata(metadata.parse().unwrap());
            draft.put(copy);
        }
    };
    registry.write(service, Millis(0), change).unwrap();
}

#[test]
fn an_instance_that_beats_in_time_stays_healthy_whatever_is_written_and_swept_meanwhile() {
    let (clock, changes) = (Clock::set(1_000_000), Arc::new(Changes::default()));
    let registry = Arc::new(Registry::new(Arc::clone(&changes), Default::default()));
    for port in SILENT..=INSTANCES {
        registry.register(PLACE, &Description::new("10.0.0.1", port, "DEFAULT"), clock.now()).unwrap();
    }
    let service = registry.get(PLACE).unwrap();
    let sweeper = Sweeper {
        clock: clock.clone(),
        registry: Arc::clone(&registry),
        changes,
        switches: Arc::default(),
        distro: None,
        may_remove: true,
        stats: Arc::default(),
    };
    let (start, end) = (Barrier::new(4), Barrier::new(4));
    let wrong = thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                start.wait();
                (1..=INSTANCES).for_each(|port| beat(&registry, &service, port, &clock));
                // Who had not beaten just now would be silent for 16 s, and unhealthy.
                clock.advance(2_000);
                end.wait();
            }
        });
        scope.spawn(|| {
            for round in 0..ROUNDS {
                start.wait();
                (0..3).for_each(|step| change_all(&registry, &service, &format!("round={round}-{step}")));
                end.wait();
            }
        });
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                start.wait();
                (0..6).for_each(|_| sweeper.sweep(&service, clock.now()));
                end.wait();
            }
        });
        // Held back until all threads have ended: one that stopped early would let the others wait for ever.
        let mut wrong = Vec::new();
        for round in 0..ROUNDS {
            clock.advance(14_000);
            start.wait();
            end.wait();
            let state = service.state();
            let seen = state.ephemeral.iter().filter(|instance| instance.port != SILENT);
            let seen: Vec<_> = seen.map(|one| (one.healthy(), one.metadata.get("round"))).collect();
            let wanted = (true, Some(format!("{round}-2")));
            if seen != vec![wanted; usize::try_from(INSTANCES).unwrap()] {
                wrong.push((round, seen));
            }
        }
        wrong
    });
    assert_eq!(wrong, []);
    assert_eq!(service.state().len(), usize::try_from(INSTANCES).unwrap(), "the silent one is gone");
}
