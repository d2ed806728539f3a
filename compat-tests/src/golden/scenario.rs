//! Scenarios ready to be run: one action a step, expressions compiled, contradictions refused.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde::de::{Deserialize, Deserializer, Error as _};

use super::action::{Action, action};
use super::expected::{Expected, ExpectedRaw, expected};
use super::text::{ScenarioText, StepText};
use crate::mask::Mask;

/// The scenarios of one file.
#[derive(Debug, Clone)]
pub struct Suite {
    /// The file's name without `.json`.
    pub name: String,
    /// In the order of the file.
    pub scenarios: Vec<Scenario>,
}

/// A conversation with a server, with what it answered.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Unique in its suite.
    pub name: String,
    /// What it shows.
    pub about: Option<String>,
    /// What the server needs beyond the usual start.
    pub server: Option<String>,
    /// Present if the recorded behaviour had better not be copied; says what is right instead.
    pub fault: Option<String>,
    /// Present if this scenario states better behaviour than was recorded; the identifier of the improvement.
    pub improves: Option<String>,
    /// Uses fixed service names: runs once per server.
    pub fixed: bool,
    /// In order.
    pub steps: Vec<Step>,
}

/// One step.
#[derive(Debug, Clone)]
pub struct Step {
    /// What is done.
    pub action: Action,
    /// How its answer is compared.
    pub rules: Rules,
    /// The mark from which the time of this step counts; without one, from its beginning.
    pub since: Option<String>,
    /// What may come back: any of these. Empty: not compared.
    pub expected: Vec<Expected>,
    /// Done before it and not compared: what the recording took for granted. From the index, never from a recording.
    pub before: Vec<Step>,
}

impl<'de> Deserialize<'de> for Step {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        step(StepText::deserialize(deserializer)?, false)
            .map_err(|error| D::Error::custom(format!("{error:#}")))
    }
}

/// How answers are compared.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Keys, or paths with `*` for any index, whose values are compared by kind only.
    pub volatile: Vec<String>,
    /// Keys or paths of lists without order, or of objects whose keys have none.
    pub unordered: Vec<String>,
    /// Applied to bodies before comparing.
    pub masks: Vec<Mask>,
    /// Leaves out the body.
    pub ignore_body: bool,
    /// Leaves out the media type.
    pub ignore_type: bool,
    /// Headers that are compared too, in lower case.
    pub headers: Vec<String>,
    /// The answer must not come earlier.
    pub min: Option<Duration>,
}

/// Reads the scenarios of a file.
///
/// # Errors
/// If the file can't be read or isn't in the format; the message names the file, the scenario and the step.
pub fn load(file: &Path) -> Result<Suite> {
    let shown = file.display();
    let text = fs::read_to_string(file).with_context(|| format!("can't read {shown}"))?;
    let texts: Vec<ScenarioText> =
        serde_json::from_str(&text).with_context(|| format!("{shown} is not in the format of scenarios"))?;
    let name = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let scenarios = texts
        .into_iter()
        .map(|text| {
            let named = format!("{shown}: scenario {:?}", text.name);
            scenario(text).context(named)
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Suite { name, scenarios })
}

/// Reads every `.json` file of a folder, by name.
///
/// # Errors
/// As [`load`]; also if the folder can't be read or has no such file.
pub fn load_folder(folder: &Path) -> Result<Vec<Suite>> {
    let shown = folder.display();
    let entries = fs::read_dir(folder).with_context(|| format!("can't read the folder {shown}"))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("can't read the folder {shown}"))?.path();
        if path.extension().is_some_and(|ext| ext == "json") {
            files.push(path);
        }
    }
    ensure!(!files.is_empty(), "no .json file in {shown}");
    files.sort();
    files.iter().map(|file| load(file)).collect()
}

fn scenario(text: ScenarioText) -> Result<Scenario> {
    let fixed = text.fixed;
    let steps = text
        .steps
        .into_iter()
        .enumerate()
        .map(|(at, text)| step(text, fixed).with_context(|| format!("step {at}")))
        .collect::<Result<_>>()?;
    Ok(Scenario {
        name: text.name,
        about: text.about,
        server: text.server,
        fault: text.fault,
        improves: text.improves,
        fixed,
        steps,
    })
}

fn step(mut text: StepText, fixed: bool) -> Result<Step> {
    let mut answers = Vec::new();
    for answer in text.response.take().into_iter().chain(std::mem::take(&mut text.or)) {
        answers.push(expected(answer)?);
    }
    let mut volatile = std::mem::take(&mut text.volatile);
    if !fixed && !volatile.iter().any(|key| key == "checksum") {
        volatile.push("checksum".to_owned()); // it covers the service's name, which differs from run to run
    }
    let masks = text.mask.iter().map(|(pattern, to)| Mask::new(pattern, to)).collect::<Result<_>>()?;
    let rules = Rules {
        volatile,
        unordered: std::mem::take(&mut text.unordered),
        masks,
        ignore_body: text.ignore_body,
        ignore_type: text.ignore_type,
        headers: std::mem::take(&mut text.compare_headers),
        min: text.min_ms.map(Duration::from_millis),
    };
    let since = text.since.take();
    let mut action = action(text)?;
    if let Action::Raw(exchange) = &mut action {
        // A slow server may be silent between two of them.
        exchange.responses = exchange.responses.max(least_responses(&answers));
    }
    Ok(Step { action, rules, since, expected: answers, before: Vec::new() })
}

/// As many whole responses every answer that is right has.
fn least_responses(answers: &[Expected]) -> usize {
    let is_final =
        |one: &&ExpectedRaw| matches!(one, ExpectedRaw::Response(response) if !response.status.accepts(100));
    let counts = answers.iter().map(|answer| match answer {
        Expected::Raw { responses, .. } => responses.iter().filter(is_final).count(),
        _ => 0,
    });
    counts.min().unwrap_or_default()
}
