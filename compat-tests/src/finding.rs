//! What a run found out about one case.

use std::time::Duration;

use crate::facts::Facts;
use crate::replay::{StepDifference, Verdict};

/// A case and what came of it.
#[derive(Debug)]
pub struct Finding {
    /// What is known of the case.
    pub facts: Facts,
    /// How long it took.
    pub took: Duration,
    /// What came of it.
    pub fate: Fate,
}

/// What came of a case.
#[derive(Debug)]
pub enum Fate {
    /// All as expected.
    Same,
    /// Not in these steps.
    Differs(Vec<StepDifference>),
    /// Not in these, which isn't counted.
    Excused {
        /// What is right in place of what was recorded.
        why: String,
        /// The steps.
        steps: Vec<StepDifference>,
    },
    /// It couldn't be played to its end: no answer.
    Broke {
        /// Index of the step.
        step: usize,
        /// What was sent.
        sent: String,
        /// Why, with causes.
        why: String,
    },
    /// The server doesn't have what this is about.
    NotOffered(&'static str),
    /// It wasn't, or not to its end; says nothing about the server.
    NotPlayed(&'static str),
}

impl Fate {
    /// What a verdict means for a scenario with that fault.
    pub fn of(verdict: Verdict, fault: Option<String>) -> Self {
        match (verdict, fault) {
            (Verdict::Same, _) => Self::Same,
            (Verdict::Differs(steps), None) => Self::Differs(steps),
            (Verdict::Differs(steps), Some(why)) => Self::Excused { why, steps },
            (Verdict::Broke { step, sent, why }, _) => Self::Broke { step, sent, why },
        }
    }

    /// Whether the server did as is right. What is excused may be right, or wrong in a way of its own.
    pub fn passed(&self) -> bool {
        matches!(self, Self::Same)
    }

    /// Whether it makes the server fail.
    pub fn failed(&self) -> bool {
        matches!(self, Self::Differs(_) | Self::Broke { .. })
    }

    /// Whether it counts in a score.
    pub fn counts(&self) -> bool {
        self.passed() || self.failed()
    }
}
