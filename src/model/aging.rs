//! What time and checks do to the instances of a service: their health, their removal for silence, the forgetting of
//! those that are gone.

use std::sync::Arc;

use super::{Instance, InstanceKey, Registry, Service, gone::Cause};
use crate::base::clock::Millis;

impl Registry {
    /// Sets the health of instances: `decide` gives the wanted health of each, or nothing to leave it.
    ///
    /// Tells how many have another health now.
    pub fn set_health(
        &self,
        service: &Arc<Service>,
        now: Millis,
        decide: impl Fn(&Instance) -> Option<bool>,
    ) -> u64 {
        let written = service.set_health(self.moment(now), false, decide);
        let Ok((changed, touched)) = written else { return 0 };
        self.report(service, touched);
        changed
    }

    /// The same where no list shows a difference, so that only peers are told.
    pub fn set_health_unseen(
        &self,
        service: &Arc<Service>,
        now: Millis,
        decide: impl Fn(&Instance) -> Option<bool>,
    ) -> u64 {
        let written = service.set_health(self.moment(now), false, decide);
        let Ok((changed, touched)) = written else { return 0 };
        self.report_to_peers(service, touched);
        changed
    }

    /// The same with what a 1.x peer found, which tells the others itself.
    pub fn take_health(
        &self,
        service: &Arc<Service>,
        now: Millis,
        decide: impl Fn(&Instance) -> Option<bool>,
    ) -> u64 {
        let written = service.set_health(self.moment(now), true, decide);
        let Ok((changed, touched)) = written else { return 0 };
        self.report(service, touched);
        changed
    }

    /// Sets the health of the ephemeral instance with this key, if it is there; O(log n).
    pub fn set_health_of(&self, service: &Arc<Service>, key: &InstanceKey<'_>, healthy: bool, now: Millis) {
        if let Ok(touched) = service.set_health_of(self.moment(now), key, healthy) {
            self.report(service, touched);
        }
    }

    /// Removes those of `gone` that are still there and of which `agrees` still holds: a beat may have come meanwhile.
    ///
    /// Tells how many went.
    pub fn remove_silent(
        &self,
        service: &Arc<Service>,
        gone: &[Arc<Instance>],
        now: Millis,
        agrees: impl Fn(&Instance) -> bool,
    ) -> u64 {
        let removed = self.write(service, now, |draft| {
            let mut removed = 0;
            for instance in gone {
                let current = draft.ephemeral().get(&instance.key()).filter(|current| agrees(current));
                if let Some(last_beat) = current.map(|current| current.last_beat()) {
                    draft.remove(&instance.key(), Cause::Silent { last_beat });
                    removed += 1;
                }
            }
            removed
        });
        removed.unwrap_or(0)
    }

    /// Forgets all ephemeral instances and tombstones without a word to anybody: the node was none of those who share the
    /// data for a while, and learns them anew before it serves again.
    pub fn forget_ephemeral(&self) {
        self.for_each(|service| {
            // A service that is removed meanwhile has none.
            let _ = self.write_unstamped(service, |draft| {
                (draft.ephemeral, draft.gone) = Default::default();
                draft.touched.stamps = true;
                // No list is pushed, but what one shows must fit.
                draft.touched.checksum = true;
            });
        });
    }

    /// Forgets the tombstones of instances that went before `before`, and of the rest the oldest until no more than
    /// `at_most` are left. Tells how many it forgot.
    pub fn prune_gone(&self, service: &Arc<Service>, before: Millis, at_most: usize) -> usize {
        let state = service.state();
        if state.gone.len() <= at_most && state.gone.iter().all(|gone| gone.at >= before) {
            return 0;
        }
        let pruned = self.write_unstamped(service, |draft| {
            let forgotten = draft.gone.prune(before, at_most);
            draft.touched.stamps |= forgotten > 0;
            forgotten
        });
        pruned.unwrap_or(0)
    }

    /// Where all services together have more than `at_most` tombstones, forgets the oldest until an eighth is free again, and
    /// those of the same millisecond. Tells how many it forgot.
    pub fn bound_gone(&self, at_most: usize) -> usize {
        let mut times = Vec::new();
        self.for_each(|service| times.extend(service.state().gone.iter().map(|gone| gone.at)));
        if times.len() <= at_most {
            return 0;
        }
        let excess = times.len() - (at_most - at_most / 8);
        let (_, last, _) = times.select_nth_unstable(excess - 1);
        let before = last.plus(1);
        let mut forgotten = 0;
        self.for_each(|service| forgotten += self.prune_gone(service, before, at_most));
        forgotten
    }
}
