//! A run as every report needs it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::finding::{Fate, Finding};
use crate::session::Outcome;

/// What was run and what came of it.
#[derive(Debug)]
pub struct Run {
    /// The server.
    pub url: String,
    /// The level, or what was played in its place.
    pub level: String,
    /// The order.
    pub seed: u64,
    /// How long it took.
    pub took: Duration,
    /// What was found out.
    pub outcome: Outcome,
}

impl Run {
    /// How many cases were as expected, excused and different.
    pub fn counts(&self) -> (usize, usize, usize) {
        let count = |what: fn(&Fate) -> bool| self.outcome.findings.iter().filter(|f| what(&f.fate)).count();
        (
            count(|fate| matches!(fate, Fate::Same)),
            count(|fate| matches!(fate, Fate::Excused { .. })),
            count(Fate::failed),
        )
    }

    /// Cases that failed.
    pub fn failed(&self) -> impl Iterator<Item = &Finding> {
        self.outcome.findings.iter().filter(|finding| finding.fate.failed())
    }

    /// How many cases weren't played, by the reason and whether the server doesn't offer it.
    pub fn not_played(&self) -> BTreeMap<(bool, &'static str), usize> {
        let mut reasons = BTreeMap::new();
        for finding in &self.outcome.findings {
            match finding.fate {
                Fate::NotOffered(why) => *reasons.entry((true, why)).or_default() += 1,
                Fate::NotPlayed(why) => *reasons.entry((false, why)).or_default() += 1,
                _ => {}
            }
        }
        reasons
    }

    /// In one line: how many cases, how many as expected.
    pub fn summary(&self) -> String {
        let (same, excused, failed) = self.counts();
        let mut line = format!("{} cases: {same} as expected, {failed} different", same + excused + failed);
        if excused > 0 {
            line.push_str(&format!(", {excused} different where the recording has a fault (not counted)"));
        }
        line
    }
}
