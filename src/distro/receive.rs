//! Takes what members send and answer into the registry, and sees to it that what is better here gets back to them.

use super::{
    accept::{self, AcceptError, Outcome, Part, Taken},
    batch,
    handle::{Distro, FAULTY_DATA},
};
use crate::{
    base::clock::{Millis, Reading},
    cluster::Address,
    model::ServiceKey,
};

impl Distro {
    /// Takes data of a peer: what Nacre members stamped is merged, lists of 1.x take the place of ours or, of services of
    /// ours, add to them. `from`: see [`Part::of`].
    pub(super) fn take(&self, from: Option<&Address>, batch: Vec<batch::Read>, now: Millis) -> Outcome {
        let view = self.0.cluster.view();
        let is_newcomer = from.is_some_and(|from| self.is_newcomer(from, now));
        let part = |key: &ServiceKey| Part::in_view(&view, key, from, is_newcomer, || self.judges(key, now));
        let outcome = accept::take(&self.0.lists.0, batch, part, now);
        self.taken(&outcome);
        outcome
    }

    fn taken(&self, outcome: &Outcome) {
        self.0.counts.note_outcome(outcome);
        let belated = outcome.taken.iter().filter_map(|(key, taken)| match taken {
            Taken::Merged(merged) => Some((key, merged.belated?)),
            Taken::Replaced(_) => None,
        });
        let mut belated = belated.peekable();
        if belated.peek().is_some() {
            let mut core = self.0.core.lock();
            belated.for_each(|(key, stamp)| core.came_belated(key, stamp));
        }
    }

    /// Takes what a member sent (a map of keys and data as JSON), key by key. `from` is the Nacre member that sent it; one
    /// of 1.x doesn't say who it is. To members that are `unreached` by it what it sent is handed on. `written`: see
    /// [`Self::written_at`].
    ///
    /// # Errors
    /// The body is no such map at all.
    pub fn receive(
        &self,
        from: Option<&Address>,
        unreached: &[Address],
        written: Reading,
        body: &[u8],
    ) -> Result<Outcome, serde_json::Error> {
        let now = self.0.clock.now();
        let outcome = self.take(from, batch::read(body, written)?, now);
        self.hand_on(unreached, &outcome, now);
        match from {
            Some(from) => self.send_whole(from, better_here(&outcome)),
            None => self.send_to_all(better_here(&outcome)),
        }
        Ok(outcome)
    }

    fn hand_on(&self, to: &[Address], outcome: &Outcome, now: Millis) {
        if to.is_empty() {
            return;
        }
        let known =
            |key: &ServiceKey| Some((key.clone(), self.0.lists.0.get(key.place())?.state().fingerprint()));
        let taken: Vec<_> = outcome.taken.iter().filter_map(|(key, _)| known(key)).collect();
        let mut core = self.0.core.lock();
        to.iter().for_each(|to| core.hand_on(to, taken.iter().cloned(), now));
        drop(core);
        self.0.woken.notify_one();
    }

    /// Sends a peer what is better here than what it told.
    pub(super) fn send_better(&self, from: &Address, outcome: &Outcome) {
        self.send_whole(from, better_here(outcome));
    }

    /// Notes what was wrong with data of a peer, and sends it what is better here.
    pub(super) fn note_outcome(&self, from: &Address, outcome: &Outcome) {
        self.send_better(from, outcome);
        if let Some(error) = first_fault(outcome) {
            self.note_failure(from, FAULTY_DATA, &error);
        }
    }
}

/// The first thing that was wrong with data of a peer, if anything was.
#[must_use]
pub fn first_fault(outcome: &Outcome) -> Option<String> {
    outcome.faults().next().map(AcceptError::to_string)
}

/// The services of which this node knows better than the peer whose data came to this.
fn better_here(outcome: &Outcome) -> impl Iterator<Item = ServiceKey> {
    let is_better = |taken: &Taken| match taken {
        Taken::Merged(merged) => merged.ours_is_newer,
        Taken::Replaced(replaced) => replaced.ours_differs,
    };
    outcome.taken.iter().filter(move |(_, taken)| is_better(taken)).map(|(key, _)| key.clone())
}
