//! A run for a person at a terminal.

use std::fmt::Write as _;

use super::bytes::Parting;
use super::replayed::indented;
use super::run::Run;
use crate::facts::Client;
use crate::finding::{Fate, Finding};
use crate::notice::{is_unseen, noticed_by};
use crate::replay::StepDifference;
use crate::score::{Score, Tally};
use crate::shown::other_type;

/// As many failures are named behind a score, and things that were left behind.
const MOST_NAMED: usize = 3;

/// What stands before the sentences of failures.
const NOT_SO: &str = "not so";

/// The weight of what a client stops working without.
const STOPS: u32 = 3;

/// As many differences of a step are shown.
const MOST_SHOWN: usize = 8;

/// Differences, then scores, then what wasn't played. `excused`: also the differences that don't count.
pub fn text(run: &Run, excused: bool) -> String {
    let mut text = String::new();
    for finding in &run.outcome.findings {
        describe(finding, excused, &mut text);
    }
    let score = Score::of(&run.outcome.findings);
    let _ = writeln!(text, "{} at level {}, {} s", run.url, run.level, run.took.as_secs());
    text.push_str("by family\n");
    for (family, tally) in &score.families {
        line(family, tally, NOT_SO, &mut text);
    }
    if score.clients.iter().any(|(_, tally)| tally.played > 0) {
        text.push_str("by client\n");
        for (client, tally) in &score.clients {
            let heavy = tally.failed.iter().any(|finding| finding.facts.weight == STOPS);
            let label = if heavy { "stops working without" } else { NOT_SO };
            line(client.title(), tally, label, &mut text);
        }
    }
    line("all", &score.all, NOT_SO, &mut text);
    for ((not_offered, why), cases) in run.not_played() {
        let what = if not_offered { "not offered" } else { "not played" };
        let _ = writeln!(text, "{what}: {cases} cases: {why}");
    }
    for left in run.outcome.left_behind.iter().take(MOST_NAMED) {
        let _ = writeln!(text, "left behind: {left}");
    }
    if run.outcome.left_behind.len() > MOST_NAMED {
        let _ = writeln!(text, "left behind: {} more", run.outcome.left_behind.len() - MOST_NAMED);
    }
    if let Some(why) = &run.outcome.cut_off {
        let _ = writeln!(text, "the run ended before its end: {why}");
    }
    let _ = writeln!(text, "{}", run.summary());
    text
}

/// A score in one line, with the heaviest failures under that label.
fn line(name: &str, tally: &Tally<'_>, label: &str, text: &mut String) {
    let percent = tally.percent().map_or_else(|| "–".to_owned(), |percent| format!("{percent} %"));
    let _ = write!(text, "  {name:<28} {percent:>6} of {} cases", tally.cases);
    if tally.not_offered > 0 {
        let _ = write!(text, ", {} more not offered", tally.not_offered);
    }
    if tally.better > 0 {
        let _ = write!(text, ", {} of them right where the recording has a fault", tally.better);
    }
    if tally.faulty > 0 {
        let _ = write!(text, ", {} of them with the fault of the recording", tally.faulty);
    }
    if tally.untold > 0 {
        let _ = write!(text, ", {} more not told", tally.untold);
    }
    if name != "all" && !tally.failed.is_empty() {
        let named: Vec<&str> =
            tally.failed.iter().take(MOST_NAMED).map(|f| f.facts.says.trim_end_matches('.')).collect();
        let more = tally.failed.len().saturating_sub(MOST_NAMED);
        let more = if more > 0 { format!("; {more} more") } else { String::new() };
        let _ = write!(text, "; {label}: {}{more}", named.join("; "));
    }
    text.push('\n');
}

fn describe(finding: &Finding, excused: bool, text: &mut String) {
    let facts = &finding.facts;
    match &finding.fate {
        Fate::Differs(steps) => {
            let _ = writeln!(text, "DIFFERENT {}", facts.id);
            indented(text, "  ", &facts.says);
            if let Some(whom) = whom(finding) {
                indented(text, "  ", &whom);
            }
            steps.iter().for_each(|step| describe_step(step, text));
        }
        Fate::Excused { why, steps } => {
            let _ = writeln!(text, "not counted {}", facts.id);
            indented(text, "  ", why);
            if excused {
                steps.iter().for_each(|step| describe_step(step, text));
            }
        }
        Fate::Broke { step, sent, why, before } => {
            let _ = writeln!(text, "DIFFERENT {}: could not be played beyond step {step}", facts.id);
            before.iter().for_each(|step| describe_step(step, text));
            indented(text, "  ", sent);
            indented(text, "    ", why);
        }
        Fate::Faulty { why } if excused || !finding.facts.fault_breaks.is_empty() => {
            let _ = writeln!(text, "WITH ITS FAULT {}", facts.id);
            indented(text, "  not so: ", &facts.says);
            indented(
                text,
                "  ",
                &whom(finding).unwrap_or_else(|| "no client is known to break on it".to_owned()),
            );
            indented(text, "  ", why);
        }
        Fate::Better { why } if excused => {
            let _ = writeln!(text, "right {}", facts.id);
            indented(text, "  ", why);
        }
        Fate::Same | Fate::Faulty { .. } | Fate::Better { .. } | Fate::NotOffered(_) | Fate::NotPlayed(_) => {
        }
    }
}

/// Who notices a failure or a fault, if clients depend on what the case shows.
pub fn whom(finding: &Finding) -> Option<String> {
    let noticed: Vec<&str> = noticed_by(finding).into_iter().map(Client::title).collect();
    if finding.facts.clients.is_empty() {
        None
    } else if matches!(finding.fate, Fate::Faulty { .. }) {
        (!noticed.is_empty()).then(|| format!("breaks {}", noticed.join(", ")))
    } else if !noticed.is_empty() {
        Some(format!("matters to {}", noticed.join(", ")))
    } else if is_unseen(finding) {
        Some("no client looks at what differs".to_owned())
    } else if finding
        .fate
        .steps()
        .iter()
        .flat_map(|step| &step.differences)
        .any(|one| other_type(one).is_some())
    {
        Some("no client that was tried notices, but one that decodes by types may break".to_owned())
    } else {
        Some("whether a client notices can't be told from this".to_owned())
    }
}

/// A step: what was sent, what differs, and the bytes around each place.
pub fn describe_step(step: &StepDifference, text: &mut String) {
    indented(text, "  ", &format!("step {}: {}", step.step, step.sent));
    for difference in step.differences.iter().take(MOST_SHOWN) {
        let _ = writeln!(text, "    {}", difference.place);
        indented(text, "      want ", &difference.want);
        indented(text, "      got  ", &difference.got);
        let long = difference.want.len().min(difference.got.len()) > 60;
        if let Some(parting) = Parting::of(&difference.want, &difference.got).filter(|_| long) {
            let _ = writeln!(text, "      they part at byte {}", parting.at);
            let _ = writeln!(text, "        want {}", parting.want);
            let _ = writeln!(text, "        got  {}", parting.got);
        }
    }
    if step.differences.len() > MOST_SHOWN {
        let _ = writeln!(text, "    {} more differences", step.differences.len() - MOST_SHOWN);
    }
}
