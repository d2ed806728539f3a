//! Outcomes of recordings for a person to read: every difference with what was sent, wanted and got, then a summary.

use std::fmt::Write as _;

use crate::order::LeftOut;
use crate::replay::{Outcome, StepDifference, Verdict};

/// Longer texts are cut.
const MOST_LETTERS: usize = 1500;

/// All outcomes of a run.
#[derive(Debug, Default)]
pub struct Report {
    /// In the order of suites and names.
    pub outcomes: Vec<Outcome>,
    /// What wasn't played.
    pub left_out: Vec<LeftOut>,
}

impl Report {
    /// A report, sorted.
    pub fn new(mut outcomes: Vec<Outcome>, left_out: Vec<LeftOut>) -> Self {
        outcomes.sort_by(|a, b| (&a.suite, &a.scenario).cmp(&(&b.suite, &b.scenario)));
        Self { outcomes, left_out }
    }

    /// How many scenarios make the server fail.
    pub fn counted(&self) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.counts()).count()
    }

    /// How many were as expected.
    pub fn same(&self) -> usize {
        self.outcomes.iter().filter(|outcome| matches!(outcome.verdict, Verdict::Same)).count()
    }

    /// Every difference. `faults`: also those that don't count; else only their names.
    pub fn differences(&self, faults: bool) -> String {
        let mut text = String::new();
        for outcome in &self.outcomes {
            describe(outcome, faults, &mut text);
        }
        text
    }

    /// How many of what, in a few lines.
    pub fn summary(&self) -> String {
        let (all, same, counted) = (self.outcomes.len(), self.same(), self.counted());
        let mut text = format!("{all} scenarios: {same} as expected, {counted} different");
        let excused = all - same - counted;
        if excused > 0 {
            let _ = write!(text, ", {excused} different where the recording has a fault (not counted)");
        }
        text.push('\n');
        for suite in &self.left_out {
            let _ =
                writeln!(text, "not played: {} ({} scenarios): {}", suite.suite, suite.scenarios, suite.why);
        }
        text
    }
}

fn describe(outcome: &Outcome, faults: bool, text: &mut String) {
    let label = if outcome.counts() { "DIFFERENT" } else { "not counted" };
    let name = format!("{} {}/{}", label, outcome.suite, outcome.scenario);
    match &outcome.verdict {
        Verdict::Same => {}
        Verdict::Broke { step, sent, why, before } => {
            let _ = writeln!(text, "{name}: could not be played beyond step {step}");
            before.iter().for_each(|step| describe_step(step, text));
            indented(text, "  ", sent);
            indented(text, "    ", why);
        }
        Verdict::Differs(steps) => {
            let _ = writeln!(text, "{name}");
            if let Some(reason) = outcome.fault.as_ref().or(outcome.improves.as_ref()) {
                indented(text, "  ", reason);
            }
            if outcome.counts() || faults {
                steps.iter().for_each(|step| describe_step(step, text));
            }
        }
    }
}

fn describe_step(step: &StepDifference, text: &mut String) {
    indented(text, "  ", &format!("step {}: {}", step.step, step.sent));
    for difference in &step.differences {
        let _ = writeln!(text, "    {}", difference.place);
        indented(text, "      want ", &difference.want);
        indented(text, "      got  ", &difference.got);
    }
}

/// Writes a text cut to [`MOST_LETTERS`], its further lines indented like the first.
pub fn indented(text: &mut String, lead: &str, what: &str) {
    let cut: String = what.chars().take(MOST_LETTERS).collect();
    let rest = what.chars().count() - cut.chars().count();
    let further = format!("\n{}", " ".repeat(lead.len()));
    let _ = write!(text, "{lead}{}", cut.trim_end().replace('\n', &further));
    if rest > 0 {
        let _ = write!(text, " … ({rest} more letters)");
    }
    text.push('\n');
}
