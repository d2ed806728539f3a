//! What the protocol did so far, for metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{
    accept::{Outcome, Taken},
    calls::Answer,
};
use crate::model::merge::Merged;

/// Counts from the start of the process on.
#[derive(Debug, Default)]
pub struct Counts {
    /// Services that this node became the owner of.
    pub taken_over: AtomicU64,
    /// News of silence that this node knew better, since it knows a younger beat: so often a service was told otherwise.
    pub refuted: AtomicU64,
    /// Comparisons of what this node owns with the copies of a Nacre member, that found no difference.
    pub same: AtomicU64,
    /// The same that found one.
    pub differing: AtomicU64,
    /// The same that weren't answered.
    pub unanswered: AtomicU64,
}

impl Counts {
    /// Counts how a comparison ended.
    pub(super) fn note_comparison<K>(&self, answer: &Answer<K>) {
        let count = match answer {
            Answer::Verified { buckets: None, .. } => &self.same,
            Answer::Verified { buckets: Some(_), .. } => &self.differing,
            _ => &self.unanswered,
        };
        count.fetch_add(1, Relaxed);
    }

    /// Counts what data of a peer did.
    pub(super) fn note_outcome(&self, outcome: &Outcome) {
        let is_refuted = |taken: &Taken| matches!(taken, Taken::Merged(Merged { refuted: true, .. }));
        let refuted = outcome.taken.iter().filter(|(_, taken)| is_refuted(taken)).count();
        if let Ok(refuted @ 1..) = u64::try_from(refuted) {
            self.refuted.fetch_add(refuted, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        distro::verify::{BUCKETS, Buckets},
        model::registry::Place,
    };

    #[test]
    fn comparisons_count_by_how_they_end() {
        let counts = Counts::default();
        let verified = |buckets| Answer::<u32>::Verified { boot: 1, missed: None, buckets };
        for answer in [verified(None), verified(Some(Buckets(Box::new([0; BUCKETS])))), Answer::Failed] {
            counts.note_comparison(&answer);
        }
        assert_eq!(
            [&counts.same, &counts.differing, &counts.unanswered].map(|count| count.load(Relaxed)),
            [1; 3]
        );
    }

    #[test]
    fn only_what_was_known_better_counts_as_refuted() {
        let (counts, key) = (Counts::default(), Place { namespace: "public", name: "G@@a" }.to_key());
        let merged = |refuted| (key.clone(), Taken::Merged(Merged { refuted, ..Merged::default() }));
        counts.note_outcome(&Outcome { taken: vec![merged(true), merged(false)], ..Outcome::default() });
        assert_eq!(counts.refuted.load(Relaxed), 1);
    }
}
