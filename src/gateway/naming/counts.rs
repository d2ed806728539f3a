//! What became of naming requests of the mode `legacy` so far, for metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Who answered a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A legacy server.
    Registry,
    /// The last good list.
    Stale,
    /// The gateway, a beat of an instance that it knows.
    Known,
    /// The gateway, a beat of another.
    Unknown,
    /// The gateway, which keeps the write.
    Kept,
    /// Nobody: it was refused.
    Refused,
}

impl By {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Registry, Self::Stale, Self::Known, Self::Unknown, Self::Kept, Self::Refused];

    /// As metrics spell it.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Registry => "registry",
            Self::Stale => "stale",
            Self::Known => "known",
            Self::Unknown => "unknown",
            Self::Kept => "kept",
            Self::Refused => "refused",
        }
    }
}

/// Counts from the start of the process on.
#[derive(Debug, Default)]
pub struct Counts {
    answers: [AtomicU64; By::ALL.len()],
    /// Kept writes that were sent and taken.
    pub replayed: AtomicU64,
    /// Kept writes that the registry refused when they were sent.
    pub rejected: AtomicU64,
    /// Times that no legacy server answered any more.
    pub outages: AtomicU64,
}

impl Counts {
    /// Counts an answer.
    pub fn note(&self, by: By) {
        self.answers[by as usize].fetch_add(1, Relaxed);
    }

    /// Answers by label of who gave them.
    #[must_use]
    pub fn answers(&self) -> [(&'static str, u64); By::ALL.len()] {
        By::ALL.map(|by| (by.label(), self.answers[by as usize].load(Relaxed)))
    }
}
