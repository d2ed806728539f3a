//! Counts and log lines of writes that are passed on to other members.

use std::{
    net::IpAddr,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Instant,
};

use nacre_middleware::{
    forwarder::{Note, Outcome},
    loop_guard::Refused,
};

use super::sharded::Sharded;
use crate::base::burst::Seldom;

/// Counters of writes that are another member's, and of what peers pass on in vain.
#[derive(Debug)]
pub struct Forwards {
    outcomes: Sharded<[AtomicU64; Outcome::ALL.len()]>,
    refused: [AtomicU64; REFUSALS.len()],
    opened: AtomicU64,
    disagreements: Seldom,
    redirects: Seldom,
    failures: Seldom,
    refusals: Seldom,
}

/// Each with its label.
const REFUSALS: [(Refused, &str); 3] =
    [(Refused::Redirect, "redirect"), (Refused::Hops, "hops"), (Refused::Late, "late")];

impl Default for Forwards {
    fn default() -> Self {
        Self {
            outcomes: Sharded::new(Default::default),
            refused: Default::default(),
            opened: AtomicU64::new(0),
            disagreements: Seldom::default(),
            redirects: Seldom::default(),
            failures: Seldom::default(),
            refusals: Seldom::default(),
        }
    }
}

/// What was counted so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardReadings {
    /// Writes that were another member's, by label of what became of them.
    pub outcomes: [(&'static str, u64); Outcome::ALL.len()],
    /// Requests that peers passed on and that were refused, by label of the reason.
    pub refused: [(&'static str, u64); REFUSALS.len()],
    /// How often a peer stopped answering.
    pub opened: u64,
}

impl Forwards {
    /// Counts what happened, and tells people what they must know.
    pub fn note(&self, note: Note<'_>) {
        match note {
            Note::Outcome(outcome) => _ = self.outcomes.own()[outcome as usize].fetch_add(1, Relaxed),
            Note::Opened(peer) => {
                self.opened.fetch_add(1, Relaxed);
                tracing::warn!(
                    peer,
                    "a member does not answer: writes for its services are no longer sent to it"
                );
            }
            Note::Closed(peer) => tracing::info!(peer, "a member answers again: writes are sent to it"),
            Note::Disagrees(peer) => {
                if let Some(unlogged) = self.disagreements.pass(&[peer], Instant::now()) {
                    tracing::warn!(
                        peer,
                        unlogged,
                        "a member says that it does not own a service that is its own as this node sees it"
                    );
                }
            }
            Note::Redirects(peer, status) => {
                if let Some(unlogged) = self.redirects.pass(&[peer], Instant::now()) {
                    let status = status.as_u16();
                    tracing::warn!(
                        peer,
                        status,
                        unlogged,
                        "a write that was passed on was answered with a redirect, which is not followed"
                    );
                }
            }
            Note::Spoilt(peer, error) => {
                if let Some(unlogged) = self.failures.pass(&[peer, error], Instant::now()) {
                    tracing::warn!(
                        peer,
                        error,
                        unlogged,
                        "the answer to a write that was passed on can't be used: it may have been done"
                    );
                }
            }
            Note::Failed(peer, error) => {
                if let Some(unlogged) = self.failures.pass(&[peer, error], Instant::now()) {
                    tracing::warn!(peer, error, unlogged, "a write could not be passed on");
                }
            }
        }
    }

    /// Counts a request of a peer that was refused.
    pub fn note_refusal(&self, why: Refused, peer: IpAddr, path: &str) {
        let number = REFUSALS.iter().position(|(reason, _)| *reason == why);
        let Some((count, (_, reason))) = number.map(|number| (&self.refused[number], REFUSALS[number]))
        else {
            return;
        };
        count.fetch_add(1, Relaxed);
        if let Some(unlogged) = self.refusals.pass(&[&peer.to_string(), reason], Instant::now()) {
            tracing::warn!(%peer, path, reason, unlogged, "a request that a peer passed on was refused");
        }
    }

    /// The counts.
    #[must_use]
    pub fn read(&self) -> ForwardReadings {
        let count = |outcome: Outcome| self.outcomes.sum(|counts| counts[outcome as usize].load(Relaxed));
        let mut refused = REFUSALS.map(|(_, label)| (label, 0));
        for ((_, shown), count) in refused.iter_mut().zip(&self.refused) {
            *shown = count.load(Relaxed);
        }
        ForwardReadings {
            outcomes: Outcome::ALL.map(|outcome| (outcome.label(), count(outcome))),
            refused,
            opened: self.opened.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_count_by_what_became_of_them() {
        let forwards = Forwards::default();
        for note in [
            Note::Outcome(Outcome::Deputy),
            Note::Outcome(Outcome::Deputy),
            Note::Opened("a"),
            Note::Closed("a"),
        ] {
            forwards.note(note);
        }
        forwards.note_refusal(Refused::Late, IpAddr::from([127, 0, 0, 1]), "/");
        let read = forwards.read();
        let counted: Vec<_> =
            read.outcomes.iter().chain(&read.refused).filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [&("deputy", 2), &("late", 1)]);
        assert_eq!(read.opened, 1);
        for (number, outcome) in Outcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, number);
        }
    }
}
