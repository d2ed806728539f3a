//! All cases that a run could play: recorded and written ones, each with its facts.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use regex::Regex;

use crate::facts::{Facts, Level};
use crate::golden::{self, Scenario, Suite};
use crate::index::Index;
use crate::order::{Case, rank};
use crate::replay::waits;
use crate::written::{self, Written};

/// Scenarios and their facts as they lie on the disk.
pub struct Library {
    suites: Vec<Suite>,
    /// What is right where a recording has a fault: scenarios of the same suites and names.
    right: Vec<Suite>,
    index: Index,
    written: bool,
}

/// What is done in a case.
#[derive(Clone, Copy)]
pub enum Steps<'a> {
    /// A scenario is played.
    Recorded(Case<'a>),
    /// A function of this program is called.
    Written(Written),
}

/// A case that can be played.
#[derive(Clone)]
pub struct Playable<'a> {
    /// What is known of it.
    pub facts: Facts,
    /// What it does.
    pub steps: Steps<'a>,
    /// What is right in place of what was recorded, where that has a fault.
    pub right: Option<Case<'a>>,
}

impl Library {
    /// The cases that come with this program; `improved` gives those that state something better than was recorded.
    ///
    /// # Errors
    /// If the files of the source tree can't be read.
    pub fn own(improved: bool) -> Result<Self> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let load = |folder: &str| {
            golden::load_folder(&here.join(folder))
                .context("no files were named and those of the source tree can't be read")
        };
        let right = load("improved")?;
        match improved {
            true => Self::of(right, Vec::new(), own_index()?, false),
            false => Self::of(load("golden")?, right, own_index()?, true),
        }
    }

    /// The cases of these files alone.
    ///
    /// # Errors
    /// If one can't be read.
    pub fn of_files(files: &[impl AsRef<Path>]) -> Result<Self> {
        let suites = files.iter().map(|file| golden::load(file.as_ref())).collect::<Result<_>>()?;
        Self::of(suites, Vec::new(), own_index().unwrap_or_default(), false)
    }

    fn of(mut suites: Vec<Suite>, right: Vec<Suite>, index: Index, written: bool) -> Result<Self> {
        index.ease(&mut suites)?;
        Ok(Self { suites, right, index, written })
    }

    /// What is right in place of a recording with a fault.
    fn right_of(&self, suite: &str, recorded: &Scenario) -> Option<Case<'_>> {
        recorded.fault.as_ref()?;
        let suite = self.right.iter().find(|known| known.name == suite)?;
        let scenario = suite.scenarios.iter().find(|stated| stated.name == recorded.name)?;
        Some(Case { suite: &suite.name, scenario })
    }

    /// The cases of a level whose id has a match; without a level, of all.
    pub fn cases(&self, level: Option<Level>, only: Option<&Regex>) -> Vec<Playable<'_>> {
        let recorded = self.suites.iter().flat_map(|suite| {
            suite.scenarios.iter().map(|scenario| {
                let right = self.right_of(&suite.name, scenario);
                // Where the recording has a fault, its sentence isn't what one wants of a server.
                let sentence = right.map_or(scenario, |right| right.scenario);
                Playable {
                    facts: self.index.facts(&suite.name, sentence),
                    steps: Steps::Recorded(Case { suite: &suite.name, scenario }),
                    right,
                }
            })
        });
        let written = written::all().into_iter().filter(|_| self.written);
        let written = written.map(|written| Playable {
            facts: written.facts(),
            steps: Steps::Written(written),
            right: None,
        });
        recorded
            .chain(written)
            .filter(|case| level.is_none_or(|level| level.plays(case.facts.level)))
            .filter(|case| only.is_none_or(|only| only.is_match(&case.facts.id)))
            .collect()
    }
}

impl Playable<'_> {
    /// About how long it waits for something other than an answer.
    pub fn waits(&self) -> Duration {
        match self.steps {
            Steps::Recorded(recorded) => waits(recorded.scenario),
            Steps::Written(written) => written.waits(),
        }
    }

    /// Its place among the cases that need the whole server for themselves, if it does.
    pub fn alone(&self) -> Option<usize> {
        match self.steps {
            Steps::Recorded(case) => rank(case.suite),
            Steps::Written(_) => None,
        }
    }
}

/// The index of the recordings that come with this program.
///
/// # Errors
/// If a file of it can't be read.
pub fn own_index() -> Result<Index> {
    Index::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/index"))
}

/// Ids, sentences and sources, as documentation.
pub fn list(cases: &[Playable<'_>]) -> String {
    let mut text = String::new();
    for Playable { facts, .. } in cases {
        let clients: Vec<&str> = facts.clients.iter().map(|client| client.title()).collect();
        let clients = if clients.is_empty() { String::new() } else { format!("; {}", clients.join(", ")) };
        let level = format!("{:?}", facts.level).to_lowercase();
        let needs: Vec<String> = facts.needs.iter().map(ToString::to_string).collect();
        let needs = if needs.is_empty() { String::new() } else { format!("; needs {}", needs.join(", ")) };
        text.push_str(&format!(
            "{}\n    {}\n    {} [{level}, weight {}{clients}{needs}]\n",
            facts.id, facts.says, facts.source, facts.weight
        ));
    }
    text
}
