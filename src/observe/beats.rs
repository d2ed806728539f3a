//! Counts of beats by what they met.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::sharded::Sharded;

/// What a beat did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Renewed an instance that was there.
    Renewed,
    /// Registered an instance that was missing.
    Registered,
    /// Met nothing; the client was told to register again, or had just removed the instance.
    Unknown,
}

impl Effect {
    /// All, in the order of their counters.
    pub const ALL: [Self; 3] = [Self::Renewed, Self::Registered, Self::Unknown];

    /// As a label.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Renewed => "renewed",
            Self::Registered => "registered",
            Self::Unknown => "unknown",
        }
    }
}

/// Counters of beats.
#[derive(Debug)]
pub struct Beats(Sharded<[AtomicU64; Effect::ALL.len()]>);

impl Default for Beats {
    fn default() -> Self {
        Self(Sharded::new(Default::default))
    }
}

impl Beats {
    /// Counts one.
    pub fn note(&self, beat: Effect) {
        self.0.own()[beat as usize].fetch_add(1, Relaxed);
    }

    /// How many did this so far.
    #[must_use]
    pub fn count(&self, beat: Effect) -> u64 {
        self.0.sum(|counts| counts[beat as usize].load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beats_count_by_what_they_did() {
        let beats = Beats::default();
        beats.note(Effect::Renewed);
        beats.note(Effect::Unknown);
        beats.note(Effect::Unknown);
        assert_eq!(Effect::ALL.map(|beat| beats.count(beat)), [1, 0, 2]);
    }
}
