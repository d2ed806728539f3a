//! A run as every report needs it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::finding::{Fate, Finding};
use crate::secrets::Secrets;
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

/// How many cases went how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// As expected, by a recording or statement without a fault.
    pub same: usize,
    /// As recorded where the recording has a fault.
    pub faulty: usize,
    /// As is right where the recording has a fault.
    pub better: usize,
    /// Otherwise than recorded where the recording has a fault and nothing states what is right.
    pub excused: usize,
    /// Different.
    pub failed: usize,
}

impl Counts {
    /// All that were played.
    pub fn played(self) -> usize {
        self.same + self.faulty + self.better + self.excused + self.failed
    }
}

impl Run {
    /// Takes secrets out of whatever was sent, came, or was said of it.
    pub fn hide(&mut self, secrets: &Secrets) {
        secrets.hide(&mut self.url);
        let outcome = &mut self.outcome;
        outcome.cut_off.iter_mut().chain(&mut outcome.left_behind).for_each(|text| secrets.hide(text));
        for finding in &mut outcome.findings {
            let steps = match &mut finding.fate {
                Fate::Differs(steps) => steps,
                Fate::Excused { why, steps } => {
                    secrets.hide(why);
                    steps
                }
                Fate::Broke { sent, why, before, .. } => {
                    secrets.hide(sent);
                    secrets.hide(why);
                    before
                }
                Fate::Faulty { .. }
                | Fate::Better { .. }
                | Fate::Same
                | Fate::NotOffered(_)
                | Fate::NotPlayed(_) => continue,
            };
            for step in steps {
                for text in [&mut step.sent, &mut step.want, &mut step.got] {
                    secrets.hide(text);
                }
                for one in &mut step.differences {
                    for text in [&mut one.place, &mut one.want, &mut one.got] {
                        secrets.hide(text);
                    }
                }
            }
        }
    }

    /// How many cases went how.
    pub fn counts(&self) -> Counts {
        let count = |what: fn(&Fate) -> bool| self.outcome.findings.iter().filter(|f| what(&f.fate)).count();
        Counts {
            same: count(|fate| matches!(fate, Fate::Same)),
            faulty: count(|fate| matches!(fate, Fate::Faulty { .. })),
            better: count(|fate| matches!(fate, Fate::Better { .. })),
            excused: count(|fate| matches!(fate, Fate::Excused { .. })),
            failed: count(Fate::failed),
        }
    }

    /// Cases that went as recorded where the recording has a fault.
    pub fn faulty(&self) -> impl Iterator<Item = (&Finding, &str)> {
        self.outcome.findings.iter().filter_map(|finding| match &finding.fate {
            Fate::Faulty { why } => Some((finding, &**why)),
            _ => None,
        })
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
        let counts = self.counts();
        let mut line = format!("{} cases: {} as expected", counts.played(), counts.same);
        for (count, what) in [
            (counts.better, "right where the recording has a fault"),
            (counts.faulty, "with the fault of the recording"),
        ] {
            if count > 0 {
                line.push_str(&format!(", {count} {what}"));
            }
        }
        line.push_str(&format!(", {} different", counts.failed));
        if counts.excused > 0 {
            let excused = counts.excused;
            line.push_str(&format!(", {excused} different where the recording has a fault (not counted)"));
        }
        line
    }
}
