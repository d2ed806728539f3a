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
#[derive(Debug, Clone)]
pub enum Fate {
    /// All as expected.
    Same,
    /// All as recorded where the recording has a fault: compatible with the real server, but some clients may break on it.
    Faulty {
        /// What is right in place of what was recorded.
        why: String,
    },
    /// As is right where the recording has a fault.
    Better {
        /// What is right in place of what was recorded.
        why: String,
    },
    /// Not in these steps.
    Differs(Vec<StepDifference>),
    /// Not in these, which isn't counted: the recording has a fault, and nothing states what is right.
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
        /// What differed in the steps before.
        before: Vec<StepDifference>,
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
            (Verdict::Same, None) => Self::Same,
            (Verdict::Same, Some(why)) => Self::Faulty { why },
            (Verdict::Differs(steps), None) => Self::Differs(steps),
            (Verdict::Differs(steps), Some(why)) => Self::Excused { why, steps },
            (Verdict::Broke { step, sent, why, before }, _) => Self::Broke { step, sent, why, before },
        }
    }

    /// Whether the server did as recorded or as is right. What is excused may be right, or wrong in a way of its own.
    pub fn passed(&self) -> bool {
        matches!(self, Self::Same | Self::Faulty { .. } | Self::Better { .. })
    }

    /// Whether it makes the server fail.
    pub fn failed(&self) -> bool {
        matches!(self, Self::Differs(_) | Self::Broke { .. })
    }

    /// What differed, in the steps that were done.
    pub fn steps(&self) -> &[StepDifference] {
        match self {
            Self::Differs(steps) | Self::Excused { steps, .. } | Self::Broke { before: steps, .. } => steps,
            _ => &[],
        }
    }

    /// Whether it counts in a score.
    pub fn counts(&self) -> bool {
        self.passed() || self.failed()
    }
}

/// Of these differences those that no time brings about: what they say holds however late it was.
pub fn without_time(steps: &[StepDifference]) -> Vec<StepDifference> {
    let lasting = |step: &StepDifference| {
        let mut step = step.clone();
        step.differences.retain(|one| !one.hangs_on_time);
        (!step.differences.is_empty()).then_some(step)
    };
    steps.iter().filter_map(lasting).collect()
}

/// All of these and of those, step by step; what is in both once. Names of the two tries may differ in what was sent only.
pub fn joined(mut these: Vec<StepDifference>, those: Vec<StepDifference>) -> Vec<StepDifference> {
    for step in those {
        match these.iter_mut().find(|known| known.step == step.step) {
            None => these.push(step),
            Some(known) => {
                let new = step.differences.into_iter().filter(|one| !known.differences.contains(one));
                let new: Vec<_> = new.collect();
                known.differences.extend(new);
            }
        }
    }
    these.sort_by_key(|step| step.step);
    these
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Difference;

    fn step(step: usize, differences: Vec<Difference>) -> StepDifference {
        StepDifference {
            step,
            sent: "GET /".to_owned(),
            differences,
            want: String::new(),
            got: String::new(),
            refused: false,
        }
    }

    fn places(steps: &[StepDifference]) -> Vec<(usize, Vec<&str>)> {
        let places = steps.iter().map(|step| step.differences.iter().map(|one| &*one.place).collect());
        steps.iter().map(|step| step.step).zip(places).collect()
    }

    #[test]
    fn what_no_time_brings_about_is_kept_of_every_try() {
        let status = || Difference::new("status", &200, &500);
        let health = || Difference::new("body /hosts/0/healthy", &true, &false).of_time();
        let weight = || Difference::new("body /hosts/0/weight", &"1.0", &"2.0");
        let first = without_time(&[step(1, vec![health(), status()]), step(3, vec![health()])]);
        assert_eq!(places(&first), [(1, vec!["status"])]);
        let second = without_time(&[step(0, vec![weight()]), step(1, vec![status(), weight()])]);
        let all = joined(first, second);
        assert_eq!(
            places(&all),
            [(0, vec!["body /hosts/0/weight"]), (1, vec!["status", "body /hosts/0/weight"])]
        );
    }
}
