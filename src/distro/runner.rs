//! Drives the protocol: tells it the time, the cluster and what changed, makes its calls.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{
    calls::{Action, Answer},
    exchange::Exchange,
    handle::Settled,
    lists::Lists,
    takeover::{handed_over, moved, take_over},
};
use crate::{
    base::clock::Millis,
    cluster::{Address, Standing, View},
    model::{
        Registry, ServiceKey,
        gone::{MOST_GONE, MOST_GONE_IN_ALL},
    },
};

/// How often tombstones are looked at, in milliseconds.
const PRUNE_MS: u64 = 10_000;
/// How long a tombstone is kept at least, in milliseconds.
const GONE_MS: u64 = 60_000;

/// The task that drives the protocol.
pub struct Runner {
    /// Makes the calls.
    pub exchange: Exchange,
}

/// What a call brought.
struct Ended {
    id: u64,
    to: Address,
    answer: Answer<ServiceKey>,
}

impl Runner {
    /// Drives until `stopped`; calls under way are then given up.
    pub async fn run(self, stopped: CancellationToken) {
        let mut calls = JoinSet::new();
        // What the cluster has become since the protocol was made is told like any other change.
        let mut seen = Arc::clone(self.exchange.distro.0.core.lock().view());
        let mut views = self.exchange.distro.0.cluster.changes();
        let mut next_prune = self.now().plus(PRUNE_MS);
        let mut clock_stops = self.exchange.peers.clock_stops();
        loop {
            let now = self.now();
            self.see(&mut seen, now);
            let stops = self.exchange.peers.clock_stops();
            if std::mem::replace(&mut clock_stops, stops) != stops {
                self.exchange.distro.doubt_beats();
                self.exchange.distro.0.core.lock().clock_stood();
            }
            self.exchange.distro.take_changes(now);
            let actions = self.exchange.distro.0.core.lock().poll(now);
            self.perform(actions, &mut calls);
            // Only now: until a standstill has its effect, whoever asks must find that nobody drove.
            self.exchange.distro.drives(now);
            if now >= next_prune {
                next_prune = now.plus(PRUNE_MS);
                self.prune(now);
            }
            let next = self.exchange.distro.0.core.lock().next(now).unwrap_or(next_prune).min(next_prune);
            tokio::select! {
                () = stopped.cancelled() => return,
                () = self.exchange.distro.0.changes.any_local() => {}
                () = self.exchange.distro.0.woken.notified() => {}
                // The sender lives as long as the handle that this task holds.
                _ = views.changed() => {}
                Some(ended) = calls.join_next() => self.end(ended, &mut calls),
                () = tokio::time::sleep(Duration::from_millis(next.since(now))) => {}
            }
        }
    }

    fn now(&self) -> Millis {
        self.exchange.distro.0.clock.now()
    }

    fn lists(&self) -> &Lists {
        &self.exchange.distro.0.lists
    }

    fn registry(&self) -> &Registry {
        &self.lists().0
    }

    /// Tells the protocol and the services of another view.
    fn see(&self, seen: &mut Arc<View>, now: Millis) {
        let view = self.exchange.distro.0.cluster.view();
        if Arc::ptr_eq(seen, &view) {
            return;
        }
        if seen.standing == Standing::Removed && view.standing == Standing::Starting {
            // Others went on without it, and nobody kept for it what it should forget.
            self.registry().forget_ephemeral();
        }
        if view.standing.is_loading() && !seen.standing.is_loading() {
            // They are asked anew.
            *self.exchange.distro.0.rings.lock() = Arc::default();
        }
        self.exchange.distro.see(Arc::clone(&view), now);
        let taken = take_over(self.registry(), seen, &view, now);
        self.exchange.distro.0.counts.taken_over.fetch_add(taken, Relaxed);
        if taken > 0 && seen.ring != view.ring {
            tracing::info!(services = taken, members = view.ring.len(), "services taken over");
        }
        let handed_over = handed_over(self.registry(), seen, &view);
        let mut core = self.exchange.distro.0.core.lock();
        core.see(Arc::clone(&view), now);
        for peer in view.peers.iter().filter(|peer| peer.nacre.is_none()) {
            core.hand_over(&peer.address, handed_over.iter().cloned(), now);
        }
        drop(core);
        self.exchange.distro.0.flushed.notify_waiters();
        *seen = view;
    }

    fn perform(&self, actions: Vec<Action<Lists>>, calls: &mut JoinSet<Ended>) {
        for action in actions {
            match action {
                Action::Call { id, to, call } => {
                    let exchange = self.exchange.clone();
                    calls.spawn(async move {
                        let answer = exchange.make(&to, call).await;
                        Ended { id, to, answer }
                    });
                }
                Action::Settled { key, asked, by_all } => {
                    self.exchange.distro.settle(Settled { key, asked, by_all });
                }
                Action::Compare(comparison) => {
                    let compared = comparison.over(self.lists(), self.now());
                    let actions = self.exchange.distro.0.core.lock().compared(compared);
                    self.perform(actions, calls);
                }
                Action::Ready { loaded_from } => self.serve(&loaded_from),
                Action::StoodStill { ms } => {
                    tracing::warn!(
                        ms,
                        "the process, or its clock, stood still; the members are asked what happened meanwhile"
                    );
                    self.exchange.distro.0.cluster.set_standing(Standing::Comparing);
                }
                Action::LoadsAnew => *self.exchange.distro.0.rings.lock() = Arc::default(),
            }
        }
    }

    /// Puts into the outbox of each member of 1.x what gets another owner by this node's coming.
    fn bring_along(&self, now: Millis) {
        let (distro, view) = (&self.exchange.distro.0, self.exchange.distro.0.cluster.view());
        let rings = std::mem::take(&mut *distro.rings.lock());
        for to in view.peers.iter().filter(|peer| peer.nacre.is_none()).map(|peer| &peer.address) {
            let Some(arrival) = rings.arrival(&view.own, to) else { continue };
            let moved = moved(self.registry(), &arrival, to);
            distro.core.lock().hand_over(to, moved, now);
        }
    }

    fn serve(&self, loaded_from: &[Address]) {
        let (cluster, now) = (&self.exchange.distro.0.cluster, self.now());
        self.bring_along(now);
        for address in loaded_from {
            cluster.answered(address, now);
        }
        // The clock may have been set right while the members' data were of another time.
        self.registry().read_clock(self.exchange.distro.0.clock.reading());
        tracing::info!(
            from = loaded_from.len(),
            services = self.registry().len(),
            "data of the members loaded"
        );
        cluster.set_standing(Standing::Serving);
    }

    fn end(&self, ended: Result<Ended, tokio::task::JoinError>, calls: &mut JoinSet<Ended>) {
        let Ended { id, to, answer } = match ended {
            Ok(ended) => ended,
            // A panic of a call is a fault of ours; the task's owner stops the server in order.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        let now = self.now();
        if is_good(&answer) {
            self.exchange.distro.0.cluster.answered(&to, now);
        }
        let actions = self.exchange.distro.0.core.lock().answered(id, answer, now);
        self.exchange.distro.0.flushed.notify_waiters();
        self.perform(actions, calls);
    }

    /// Forgets tombstones that every Nacre member has, what members have of services that are gone, and of too many tombstones
    /// the oldest.
    fn prune(&self, now: Millis) {
        self.registry().read_clock(self.exchange.distro.0.clock.reading());
        let exists = |key: &ServiceKey| self.registry().get(key.place()).is_some();
        self.exchange.distro.0.core.lock().forget_all_but(&exists);
        let mut count = 0;
        self.registry().for_each(|service| {
            let gone = service.state().gone.len();
            count += gone;
            if gone > 0 && !self.exchange.distro.0.core.lock().is_lacking(&service.key) {
                count -= self.registry().prune_gone(service, now.minus(GONE_MS), MOST_GONE).min(gone);
            }
        });
        // To go through all services twice would be felt where there are many.
        let forgotten =
            if count > MOST_GONE_IN_ALL { self.registry().bound_gone(MOST_GONE_IN_ALL) } else { 0 };
        if forgotten > 0 {
            tracing::warn!(
                forgotten,
                "more instances have gone than are remembered of all services: they come back with a member that was away"
            );
        }
    }
}

/// Whether an answer shows that its sender is well.
fn is_good(answer: &Answer<ServiceKey>) -> bool {
    match answer {
        Answer::Verified { .. } | Answer::Wanted(_) | Answer::Heard { .. } | Answer::Done => true,
        Answer::Push(sent) => matches!(sent, super::outbox::Sent::Taken(_)),
        Answer::Load(_) | Answer::Failed => false,
    }
}
