//! What pushes came to, counted since the start.
//!
//! Written by the pushing task and by whoever subscribes, shown by `/metrics`. The counts are ours; those of Nacos 1.4.8
//! are in [`super::State`].

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of the pushes since the start; each only grows, but for the greatest cost.
#[derive(Debug, Default)]
pub struct Stats {
    /// Packets sent, each counted once however often it was sent again.
    pub sent: Tally,
    /// Packets sent again.
    pub resent: Tally,
    /// Packets that were acknowledged.
    pub acked: Tally,
    /// Milliseconds from the sending of the acknowledged packets to their acknowledgement, summed.
    pub acked_ms: Tally,
    /// The most milliseconds of these.
    pub slowest_ack_ms: Tally,
    /// Packets that nobody acknowledged, or not before a newer one was sent.
    pub failed: Tally,
    /// Packets that the system didn't take.
    pub unsendable: Tally,
    /// Packets that won't be sent again because too many wait for their acknowledgement.
    pub sent_once: Tally,
    /// Lists that don't fit into a packet; each counts once a push, for all who wait for it.
    pub too_large: Tally,
    /// Datagrams that came in and were no acknowledgement that anything waits for.
    pub strange_acks: Tally,
    /// Questions that would have subscribed, but for a bound or a rule.
    pub refused: Tally,
    /// Host names that couldn't be resolved, or not in time.
    pub unresolved: Tally,
}

/// One counter.
#[derive(Debug, Default)]
pub struct Tally(AtomicU64);

impl Tally {
    /// Counts one more.
    pub fn count(&self) {
        self.add(1);
    }

    /// Counts this many more.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Raises it to `value` if it is below.
    pub fn raise_to(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }

    /// Its value.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
