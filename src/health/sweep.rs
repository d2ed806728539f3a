//! Looks at every service every 5 s from its making on: expires what is silent, brings its checksum up to date.
//!
//! One task, one queue of due times. Source: Nacos 1.4.8 naming module, the task that each service has; compat file
//! `beat-timing`. That a node which stood still first lets everybody beat again is ours.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;

use super::expiry::{Verdict, is_silent, judge};
use crate::{
    base::{
        burst::Burst,
        clock::{Clock, Millis},
        mutant::{self, Mutant},
    },
    distro::{Distro, Settled},
    model::{
        Instance, Registry, Service, State, change::Changes, list::is_protected, service::GRID_MS,
        switches::Switchboard,
    },
};

/// Services that are looked at before other tasks get their turn.
const BATCH: usize = 64;
/// A look that is late by more than this means that the process stood still, and with it the beats.
const FROZEN_MS: u64 = 5_000;

/// What sweeps did so far.
#[derive(Debug, Default)]
pub struct SweepStats {
    /// Instances that turned unhealthy for want of beats.
    pub unhealthy: AtomicU64,
    /// Instances that were removed for want of beats.
    pub removed: AtomicU64,
    lines: Burst,
}

/// The sweeping task.
pub struct Sweeper {
    /// The time.
    pub clock: Clock,
    /// What is swept.
    pub registry: Arc<Registry>,
    /// Tells of new services.
    pub changes: Arc<Changes>,
    /// With `healthCheckEnabled` off nothing expires. Beats are noted all the same, so when it is on again, the next
    /// look takes those that are silent then, and no others.
    pub switches: Arc<Switchboard>,
    /// The members beside this node, which may know of beats that didn't come here; nothing for a node alone.
    pub distro: Option<Distro>,
    /// False only marks silent instances unhealthy.
    pub may_remove: bool,
    /// Counts.
    pub stats: Arc<SweepStats>,
}

/// A service and when it is looked at next; ordered by time alone.
struct Due {
    at: Millis,
    service: Arc<Service>,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

impl Due {
    /// The next look at `service` after `now`; the grid stays that of its making, however late a look was.
    fn after(service: Arc<Service>, now: Millis) -> Self {
        let passed = now.since(service.made_at) / GRID_MS + 1;
        Self { at: service.made_at.plus(passed * GRID_MS), service }
    }
}

impl Sweeper {
    /// Sweeps until `stopped`.
    pub async fn run(self, stopped: CancellationToken) {
        let mut queue = BinaryHeap::new();
        loop {
            let wait = queue.peek().map(|Reverse(due): &Reverse<Due>| due.at.since(self.clock.now()));
            tokio::select! {
                () = stopped.cancelled() => return,
                service = self.changes.next_made() => {
                    let made_at = service.made_at;
                    queue.push(Reverse(Due::after(service, made_at)));
                }
                settled = settled(self.distro.as_ref()), if self.distro.is_some() => {
                    self.judge_settled(&settled);
                }
                () = tokio::time::sleep(Duration::from_millis(wait.unwrap_or(0))), if wait.is_some() => {
                    self.look(&mut queue);
                    // All that came out of the store can be due at once.
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    /// Looks at the services that are due, at most [`BATCH`] of them.
    fn look(&self, queue: &mut BinaryHeap<Reverse<Due>>) {
        let now = self.clock.now();
        let late_ms = queue.peek().map_or(0, |Reverse(due)| now.since(due.at));
        if late_ms > FROZEN_MS {
            // Where there are members, they know better what happened meanwhile.
            if self.distro.is_none() {
                tracing::warn!(late_ms, "the process stood still; all instances get their time anew");
                self.registry.for_each(|service| renew(service, now));
            }
            // Once for all: what is queued is late by the same pause, and nobody is silent now.
            *queue = queue.drain().map(|Reverse(due)| Reverse(Due::after(due.service, now))).collect();
            return;
        }
        for _ in 0..BATCH {
            if queue.peek().is_none_or(|Reverse(due)| due.at > now) {
                return;
            }
            let Some(Reverse(due)) = queue.pop() else { return };
            if due.service.is_removed() {
                continue;
            }
            self.sweep(&due.service, now);
            queue.push(Reverse(Due::after(due.service, now)));
        }
    }

    pub(super) fn sweep(&self, service: &Arc<Service>, now: Millis) {
        if self.switches.load().health_check_enabled {
            match &self.distro {
                None => self.expire(service, now, now),
                Some(distro) if distro.looks_after(&service.key, now) && self.finds_silent(service, now) => {
                    distro.ask(&service.key);
                }
                Some(_) => {}
            }
        }
        service.refresh_checksum();
    }

    /// Judges a service about whose silent instances the members were asked.
    fn judge_settled(&self, settled: &Settled) {
        let now = self.clock.now();
        let judges = self.distro.as_ref().is_some_and(|distro| distro.may_judge(settled, now));
        if let Some(service) = self.registry.get(settled.key.place()).filter(|_| judges)
            && self.switches.load().health_check_enabled
        {
            self.expire(&service, settled.asked, now);
        }
    }

    /// Whether there is somebody to be judged.
    pub fn finds_silent(&self, service: &Service, now: Millis) -> bool {
        let (state, grace) = (service.state(), service.grace_until());
        let is_silent = |instance: &Instance| self.verdict(instance, now, grace) != Verdict::Stays;
        state.ephemeral.iter().any(|instance| is_silent(instance))
    }

    /// Beats that went on to a former owner are this node's own to know: they count before anybody is taken for silent.
    fn verdict(&self, instance: &Instance, now: Millis, grace: Millis) -> Verdict {
        let mut verdict = judge(instance, now, grace);
        if verdict != Verdict::Stays && !mutant::is(Mutant::LostGrace) {
            instance.count_overheard();
            verdict = judge(instance, now, grace);
        }
        match verdict {
            Verdict::Gone if !self.may_remove && instance.healthy() => Verdict::Unhealthy,
            Verdict::Gone if !self.may_remove => Verdict::Stays,
            verdict => verdict,
        }
    }

    /// Judges the instances of a service by how silent they were at `asked`, as its owner: of one that has become so since
    /// then no member was asked.
    pub fn expire(&self, service: &Arc<Service>, asked: Millis, now: Millis) {
        let (state, grace) = (service.state(), service.grace_until());
        let verdict = |instance: &Instance| self.verdict(instance, asked, grace);
        let (mut any_silent, mut gone) = (false, Vec::new());
        for instance in &state.ephemeral {
            match verdict(instance) {
                Verdict::Stays => {}
                Verdict::Unhealthy => any_silent = true,
                Verdict::Gone => gone.push(Arc::clone(instance)),
            }
        }
        if any_silent {
            // Those that go are as silent, and go next.
            let silent = |instance: &Instance| instance.ephemeral && is_silent(instance, asked, grace);
            let decide = |instance: &Instance| silent(instance).then_some(false);
            let turned = if looks_the_same(&state, silent) {
                // No list shows a difference, so no client is told.
                self.registry.set_health_unseen(service, now, decide)
            } else {
                self.registry.set_health(service, now, decide)
            };
            self.stats.unhealthy.fetch_add(turned, Ordering::Relaxed);
            self.log(service, turned, "instances turned unhealthy: no beat");
        }
        if !gone.is_empty() {
            let removed = self
                .registry
                .remove_silent(service, &gone, now, |instance| verdict(instance) == Verdict::Gone);
            self.stats.removed.fetch_add(removed, Ordering::Relaxed);
            self.log(service, removed, "instances removed: no beat");
        }
    }

    fn log(&self, service: &Service, count: u64, what: &str) {
        if count == 0 {
            return;
        }
        match self.stats.lines.pass(Instant::now()) {
            Some(unlogged) => tracing::info!(service = %service.key, count, unlogged, "{what}"),
            None => tracing::debug!(service = %service.key, count, "{what}"),
        }
    }
}

/// The next service that the members were asked about.
async fn settled(distro: Option<&Distro>) -> Settled {
    match distro {
        Some(distro) => distro.next_settled().await,
        None => std::future::pending().await,
    }
}

/// Whether every list looks the same after the `silent` ones have turned unhealthy: when all were healthy and none
/// is then, protection shows all of them as healthy still.
fn looks_the_same(state: &State, silent: impl Fn(&Instance) -> bool) -> bool {
    is_protected(0, state.len(), state.definition.protect_threshold)
        && state.instances().all(|instance| instance.healthy() && silent(instance))
}

/// Counts all silence from `now` on.
fn renew(service: &Service, now: Millis) {
    for instance in &service.state().ephemeral {
        instance.beat(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        Limits,
        instance::{Description, InstanceId},
        registry::Place,
    };

    const PLACE: Place<'static> = Place { namespace: "public", name: "G@@s" };

    fn sweeper(clock: &Clock) -> Sweeper {
        let changes = Arc::new(Changes::default());
        let registry = Arc::new(Registry::new(Arc::clone(&changes), Limits::default()));
        let (clock, switches, stats) = (clock.clone(), Arc::default(), Arc::default());
        Sweeper { clock, registry, changes, switches, distro: None, may_remove: true, stats }
    }

    /// The healths of the service's instances after the sweep at this moment.
    fn swept(sweeper: &Sweeper) -> Vec<bool> {
        let service = sweeper.registry.get(PLACE).unwrap();
        sweeper.sweep(&service, sweeper.clock.now());
        service.state().instances().map(|instance| instance.healthy()).collect()
    }

    #[test]
    fn a_silent_instance_turns_unhealthy_and_goes_whatever_its_ip() {
        let clock = Clock::set(0);
        let sweeper = sweeper(&clock);
        for ip in ["10.0.0.1", "[::1]", "a b&c"] {
            sweeper.registry.register(PLACE, &Description::new(ip, 80, "DEFAULT"), clock.now()).unwrap();
        }
        clock.advance(15_000);
        assert_eq!(swept(&sweeper), [true, true, true]);
        clock.advance(5_000);
        assert_eq!(swept(&sweeper), [false, false, false]);
        clock.advance(10_001);
        assert_eq!(swept(&sweeper), [false; 0]);
    }

    #[test]
    fn only_a_silence_that_a_list_shows_is_reported() {
        let clock = Clock::set(0);
        let sweeper = sweeper(&clock);
        let register = |ip| {
            sweeper.registry.register(PLACE, &Description::new(ip, 80, "DEFAULT"), clock.now()).unwrap();
            sweeper.registry.get(PLACE).unwrap()
        };
        let service = register("10.0.0.1");
        assert!(service.is_announced());
        // As the push does when it takes the report.
        service.announced.store(false, Ordering::Relaxed);
        clock.advance(20_000);
        assert_eq!(swept(&sweeper), [false]);
        assert!(!service.is_announced(), "the only instance is shown as healthy still");
        register("10.0.0.2");
        service.announced.store(false, Ordering::Relaxed);
        clock.advance(5_000);
        service.beat(&Description::new("10.0.0.1", 80, "DEFAULT").key, clock.now());
        clock.advance(11_000);
        assert_eq!(swept(&sweeper), [false, false]);
        assert!(service.is_announced(), "the first one was shown as unhealthy before");
    }

    #[test]
    fn a_beat_keeps_an_instance_and_persistent_ones_never_go() {
        let clock = Clock::set(0);
        let sweeper = sweeper(&clock);
        let persistent = Description { ephemeral: false, ..Description::new("10.0.0.2", 80, "DEFAULT") };
        let ephemeral = Description::new("10.0.0.1", 80, "DEFAULT");
        sweeper.registry.register(PLACE, &persistent, clock.now()).unwrap();
        sweeper.registry.register(PLACE, &ephemeral, clock.now()).unwrap();
        clock.advance(29_000);
        sweeper.registry.get(PLACE).unwrap().beat(&ephemeral.key, clock.now());
        clock.advance(10_000);
        assert_eq!(swept(&sweeper), [true, true]);
        clock.advance(100_000);
        assert_eq!(swept(&sweeper), [true]);
    }

    #[test]
    fn with_checks_off_nothing_expires_and_later_only_the_silent_do() {
        let clock = Clock::set(0);
        let sweeper = sweeper(&clock);
        let alive = Description::new("10.0.0.1", 80, "DEFAULT");
        for described in [&alive, &Description::new("10.0.0.2", 80, "DEFAULT")] {
            sweeper.registry.register(PLACE, described, clock.now()).unwrap();
        }
        sweeper.switches.alter_here(|switches| switches.set("check", "false")).unwrap();
        clock.advance(100_000);
        assert_eq!(swept(&sweeper), [true, true]);
        sweeper.registry.get(PLACE).unwrap().beat(&alive.key, clock.now());
        sweeper.switches.alter_here(|switches| switches.set("check", "true")).unwrap();
        assert_eq!(swept(&sweeper), [true]);
    }

    #[test]
    fn one_that_has_become_silent_since_the_members_were_asked_stays_until_they_are_asked_about_it() {
        let clock = Clock::set(0);
        let (sweeper, start) = (sweeper(&clock), clock.now());
        for ip in ["10.0.0.1", "10.0.0.2"] {
            sweeper.registry.register(PLACE, &Description::new(ip, 80, "DEFAULT"), clock.now()).unwrap();
            clock.advance(1_000);
        }
        let service = sweeper.registry.get(PLACE).unwrap();
        clock.advance(13_001);
        let asked = clock.now();
        clock.advance(1_000);
        let expired = |asked: Millis| -> Vec<bool> {
            sweeper.expire(&service, asked, clock.now());
            service.state().instances().map(|instance| instance.healthy()).collect()
        };
        assert_eq!(expired(asked), [false, true]);
        assert_eq!(expired(clock.now()), [false, false]);
        clock.advance(16_000);
        assert_eq!(expired(start.plus(30_001)).len(), 1, "the second has 999 ms still");
    }

    #[test]
    fn a_marked_instance_neither_turns_unhealthy_nor_goes() {
        let clock = Clock::set(0);
        let sweeper = sweeper(&clock);
        let mut marked =
            Instance::new(Description::new("10.0.0.1", 80, "DEFAULT"), InstanceId::Simple, clock.now());
        marked.marked = true;
        sweeper.registry.replace_all(PLACE, &[marked], clock.now()).unwrap();
        sweeper.registry.register(PLACE, &Description::new("10.0.0.2", 80, "DEFAULT"), clock.now()).unwrap();
        clock.advance(20_000);
        assert_eq!(swept(&sweeper), [true, false]);
        clock.advance(20_000);
        assert_eq!(swept(&sweeper), [true]);
    }

    #[test]
    fn a_process_that_stood_still_removes_nobody() {
        let clock = Clock::set(0);
        let sweeper = sweeper(&clock);
        sweeper.registry.register(PLACE, &Description::new("10.0.0.1", 80, "DEFAULT"), clock.now()).unwrap();
        let service = sweeper.registry.get(PLACE).unwrap();
        let mut queue = BinaryHeap::from([Reverse(Due { at: service.made_at.plus(GRID_MS), service })]);
        clock.advance(60_000);
        sweeper.look(&mut queue);
        assert!(
            sweeper.registry.get(PLACE).unwrap().state().ephemeral.iter().all(|instance| instance.healthy())
        );
        clock.advance(5_000);
        sweeper.look(&mut queue);
        assert_eq!(sweeper.registry.get(PLACE).unwrap().state().len(), 1);
    }

    #[test]
    fn a_pause_is_made_good_once_however_many_services_there_are() {
        let clock = Clock::set(0);
        let sweeper = sweeper(&clock);
        let names: Vec<_> = (0..3 * BATCH).map(|number| format!("G@@{number}")).collect();
        let mut queue: BinaryHeap<_> = names.iter().map(|name| due(&sweeper, name)).collect();
        clock.advance(60_000);
        sweeper.look(&mut queue);
        assert_eq!(queue.len(), 3 * BATCH);
        let now = clock.now();
        assert!(queue.iter().all(|Reverse(due)| due.at > now && due.at <= now.plus(GRID_MS)));
    }

    /// The service of this name and when it is due.
    fn due(sweeper: &Sweeper, name: &str) -> Reverse<Due> {
        let place = Place { name, ..PLACE };
        sweeper
            .registry
            .register(place, &Description::new("10.0.0.1", 80, "DEFAULT"), sweeper.clock.now())
            .unwrap();
        let service = sweeper.registry.get(place).unwrap();
        Reverse(Due { at: service.made_at.plus(GRID_MS), service })
    }

    #[test]
    fn a_look_at_many_services_ends_after_a_batch() {
        let clock = Clock::set(0);
        let sweeper = sweeper(&clock);
        let mut queue: BinaryHeap<_> =
            (0..100).map(|number| due(&sweeper, &format!("G@@{number}"))).collect();
        clock.advance(GRID_MS);
        let due =
            |queue: &BinaryHeap<Reverse<Due>>| queue.iter().filter(|due| due.0.at <= clock.now()).count();
        let mut left = vec![due(&queue)];
        while due(&queue) > 0 {
            sweeper.look(&mut queue);
            left.push(due(&queue));
        }
        assert_eq!(left, [100, 36, 0]);
    }

    #[test]
    fn what_turned_unhealthy_is_counted_and_a_beat_in_between_is_not() {
        let clock = Clock::set(0);
        let sweeper = sweeper(&clock);
        for ip in ["10.0.0.1", "10.0.0.2"] {
            sweeper.registry.register(PLACE, &Description::new(ip, 80, "DEFAULT"), clock.now()).unwrap();
        }
        clock.advance(20_000);
        let service = sweeper.registry.get(PLACE).unwrap();
        // The first beats after its health was set, before that is looked at again.
        let decide = |instance: &Instance| {
            if instance.ip() == "10.0.0.1" && !instance.healthy() {
                instance.beat(clock.now());
            }
            is_silent(instance, clock.now(), Millis(0)).then_some(false)
        };
        assert_eq!(sweeper.registry.set_health(&service, clock.now(), decide), 1);
        swept(&sweeper);
        assert_eq!(sweeper.stats.unhealthy.load(Ordering::Relaxed), 0);
        clock.advance(20_000);
        swept(&sweeper);
        assert_eq!(sweeper.stats.unhealthy.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn without_removal_silent_instances_stay_unhealthy() {
        let clock = Clock::set(0);
        let sweeper = Sweeper { may_remove: false, ..sweeper(&clock) };
        sweeper.registry.register(PLACE, &Description::new("10.0.0.1", 80, "DEFAULT"), clock.now()).unwrap();
        clock.advance(60_000);
        assert_eq!(swept(&sweeper), [false]);
        assert_eq!(swept(&sweeper), [false]);
    }

    #[test]
    fn what_was_overheard_counts_for_all_whoever_else_is_silent() {
        let clock = Clock::set(0);
        let sweeper = sweeper(&clock);
        let after = |ms| clock.now().plus(ms);
        for ip in ["a", "b", "c", "d"] {
            sweeper.registry.register(PLACE, &Description::new(ip, 80, "C"), clock.now()).unwrap();
        }
        let service = sweeper.registry.get(PLACE).unwrap();
        // The beats of b and d went on to another node, those of d until after the members were asked.
        let asked = after(31_000);
        service.overhear(&Description::new("b", 80, "C").key, after(17_000));
        assert!(sweeper.finds_silent(&service, asked));
        service.overhear(&Description::new("d", 80, "C").key, after(31_500));
        sweeper.expire(&service, asked, after(34_000));
        let state = service.state();
        let left: Vec<(&str, bool)> = state.ephemeral.iter().map(|one| (one.ip(), one.healthy())).collect();
        assert_eq!(left, [("b", true), ("d", true)]);
    }
}
