//! A run for programs: scores, then every case with its facts and the bytes that differ.

use serde_json::{Map, Value, json};

use super::bytes::Parting;
use super::run::Run;
use crate::finding::{Fate, Finding};
use crate::notice::noticed_by;
use crate::replay::StepDifference;
use crate::score::{Score, Tally};

/// One JSON document. Its keys may grow in number; those that are there keep their meaning.
pub fn json(run: &Run) -> String {
    let score = Score::of(&run.outcome.findings);
    let families = score.families.iter().map(|(family, tally)| ((*family).to_owned(), tallied(tally)));
    let clients = score.clients.iter().map(|(client, tally)| (client.title().to_owned(), tallied(tally)));
    let counts = run.counts();
    let document = json!({
        "url": run.url,
        "level": run.level,
        "seed": run.seed.to_string(),
        "seconds": run.took.as_secs_f64(),
        "version": env!("CARGO_PKG_VERSION"),
        "cut_off": run.outcome.cut_off,
        "left_behind": run.outcome.left_behind,
        "as_expected": counts.same,
        "right_where_recorded_wrong": counts.better,
        "with_fault": counts.faulty,
        "not_counted": counts.excused,
        "different": counts.failed,
        "score": tallied(&score.all),
        "families": families.collect::<Map<_, _>>(),
        "clients": clients.collect::<Map<_, _>>(),
        "cases": run.outcome.findings.iter().map(case).collect::<Vec<_>>(),
    });
    format!("{document:#}\n")
}

fn tallied(tally: &Tally<'_>) -> Value {
    json!({
        "percent": tally.percent(),
        "cases": tally.cases,
        "weight_passed": tally.passed,
        "weight_played": tally.played,
        "not_offered": tally.not_offered,
        "not_told": tally.untold,
        "right_where_recorded_wrong": tally.better,
        "with_fault": tally.faulty,
        "failed": tally.failed.iter().map(|finding| &finding.facts.id).collect::<Vec<_>>(),
    })
}

fn case(finding: &Finding) -> Value {
    let facts = &finding.facts;
    let (result, why, steps) = match &finding.fate {
        Fate::Same => ("same", None, None),
        Fate::Faulty { why } => ("with the recording's fault", Some(why.clone()), None),
        Fate::Better { why } => ("right where recorded wrong", Some(why.clone()), None),
        Fate::Differs(steps) => ("different", None, Some(steps)),
        Fate::Excused { why, steps } => ("not counted", Some(why.clone()), Some(steps)),
        Fate::Broke { sent, why, before, .. } => ("different", Some(format!("{sent}: {why}")), Some(before)),
        Fate::NotOffered(why) => ("not offered", Some((*why).to_owned()), None),
        Fate::NotPlayed(why) => ("not played", Some((*why).to_owned()), None),
    };
    json!({
        "id": facts.id,
        "says": facts.says,
        "source": facts.source,
        "family": facts.family,
        "level": facts.level,
        "clients": facts.clients,
        "noticed_by": if matches!(finding.fate, Fate::NotOffered(_) | Fate::NotPlayed(_)) { Vec::new() } else { noticed_by(finding) },
        "weight": facts.weight,
        "seconds": finding.took.as_secs_f64(),
        "result": result,
        "why": why,
        "steps": steps.map(|steps| steps.iter().map(step).collect::<Vec<_>>()),
    })
}

fn step(step: &StepDifference) -> Value {
    let differences = step.differences.iter().map(|difference| {
        let parting = Parting::of(&difference.want, &difference.got);
        json!({
            "place": difference.place,
            "want": difference.want,
            "got": difference.got,
            "parts_at_byte": parting.map(|parting| parting.at),
        })
    });
    json!({
        "step": step.step,
        "sent": step.sent,
        "differences": differences.collect::<Vec<_>>(),
        "want": step.want,
        "got": step.got,
    })
}
