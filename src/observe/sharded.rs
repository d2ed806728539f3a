//! Counters that many threads write and hardly anybody reads.
//!
//! Each thread writes to its own copy, so that the busiest counters of the server are never passed from core to
//! core; a reader adds the copies up.

use std::{
    cell::Cell,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread::available_parallelism,
};

/// More copies than this only cost memory: threads share them from here on.
const MOST_SHARDS: usize = 64;

/// Copies of some counters.
#[derive(Debug)]
pub(super) struct Sharded<T> {
    shards: Box<[Apart<T>]>,
}

/// Keeps its value out of the cache lines of others.
#[derive(Debug)]
#[repr(align(128))]
struct Apart<T>(T);

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The number of this thread, in the order in which threads first counted something.
    static OWN: Cell<Option<usize>> = const { Cell::new(None) };
}

impl<T> Sharded<T> {
    /// One copy for each core, and at most [`MOST_SHARDS`].
    pub(super) fn new(make: impl Fn() -> T) -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        let count = cores.next_power_of_two().min(MOST_SHARDS);
        Self { shards: (0..count).map(|_| Apart(make())).collect() }
    }

    /// The copy that this thread writes to.
    pub(super) fn own(&self) -> &T {
        let number = OWN.get().unwrap_or_else(|| {
            let number = THREADS.fetch_add(1, Relaxed);
            OWN.set(Some(number));
            number
        });
        // The count of copies is a power of two.
        &self.shards[number & (self.shards.len() - 1)].0
    }

    /// What `value` gives for each copy, added up.
    pub(super) fn sum(&self, value: impl Fn(&T) -> u64) -> u64 {
        self.shards.iter().map(|shard| value(&shard.0)).sum()
    }
}
