//! Requests to a service: how many are under way, and how many may be tried once more.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use nacre_middleware::resend::Budget;
use parking_lot::Mutex;

/// Requests to a service.
#[derive(Debug)]
pub struct Load {
    in_flight: AtomicU32,
    /// All so far.
    requests: AtomicU64,
    budget: Mutex<Budget>,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            in_flight: AtomicU32::new(0),
            requests: AtomicU64::new(0),
            budget: Mutex::new(Budget::new(Instant::now())),
        }
    }
}

impl Load {
    /// How many are under way.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Relaxed)
    }

    /// Counts one more until it is dropped; none where there are `most`.
    #[must_use]
    pub fn enter(self: &Arc<Self>, most: u32) -> Option<ServiceSlot> {
        if !enter(&self.in_flight, most) {
            return None;
        }
        self.requests.fetch_add(1, Relaxed);
        Some(ServiceSlot(Arc::clone(self)))
    }

    /// Takes leave for one further attempt; there are as many as [`Budget`] says.
    #[must_use]
    pub fn may_retry(&self) -> bool {
        self.budget.lock().take(Instant::now(), self.requests.load(Relaxed))
    }
}

/// Counts one more where there are fewer than `most`.
pub(super) fn enter(count: &AtomicU32, most: u32) -> bool {
    count.fetch_update(Relaxed, Relaxed, |count| (count < most).then_some(count + 1)).is_ok()
}

/// A request under way to a service.
#[derive(Debug)]
pub struct ServiceSlot(Arc<Load>);

impl Drop for ServiceSlot {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Relaxed);
    }
}
