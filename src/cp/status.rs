//! How writing goes, shared by the writer's thread and its handles.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::SystemTime,
};

use arc_swap::ArcSwap;

/// Whether persistent data can be written, by the latest attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreHealth {
    /// The latest write worked, or none was needed yet.
    Ok,
    /// The latest write failed, or a bug made the state uncertain (then until the restart).
    Failing {
        /// When it began to fail.
        since: SystemTime,
        /// For a person: what the disk said.
        reason: String,
    },
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriterStats {
    /// Jobs whose records were written and that were applied; those without records don't count.
    pub jobs: u64,
    /// Transactions that succeeded, one fsync each.
    pub commits: u64,
    /// Transactions that failed.
    pub failures: u64,
}

/// Written by the thread, except `stopping`.
#[derive(Debug)]
pub(super) struct Status {
    pub(super) health: ArcSwap<StoreHealth>,
    pub(super) stopping: AtomicBool,
    /// Set for good by a panic: the health stays bad until the restart.
    bug: AtomicBool,
    pub(super) jobs: AtomicU64,
    pub(super) commits: AtomicU64,
    pub(super) failures: AtomicU64,
}

impl Default for Status {
    fn default() -> Self {
        Self {
            health: ArcSwap::from_pointee(StoreHealth::Ok),
            stopping: AtomicBool::new(false),
            bug: AtomicBool::new(false),
            jobs: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        }
    }
}

impl Status {
    pub(super) fn works(&self) {
        if !self.bug.load(Relaxed) {
            self.health.store(Arc::new(StoreHealth::Ok));
        }
    }

    pub(super) fn fails(&self, reason: String) {
        let since = match &**self.health.load() {
            StoreHealth::Failing { .. } if self.bug.load(Relaxed) => return,
            StoreHealth::Failing { since, .. } => *since,
            StoreHealth::Ok => SystemTime::now(),
        };
        self.health.store(Arc::new(StoreHealth::Failing { since, reason }));
    }

    /// A job panicked: what is in memory may differ from what is on disk.
    pub(super) fn bug(&self) {
        self.fails("a write of persistent data panicked: restart the node".to_owned());
        self.bug.store(true, Relaxed);
    }

    pub(super) fn stats(&self) -> WriterStats {
        WriterStats {
            jobs: self.jobs.load(Relaxed),
            commits: self.commits.load(Relaxed),
            failures: self.failures.load(Relaxed),
        }
    }
}
