//! All cases that a run could play: recorded and written ones, each with its facts.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use regex::Regex;

use crate::facts::{Facts, Level};
use crate::golden::{self, Suite};
use crate::index::Index;
use crate::order::{Case, rank};
use crate::replay::waits;
use crate::written::{self, Written};

/// Scenarios and their facts as they lie on the disk.
pub struct Library {
    suites: Vec<Suite>,
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
}

impl Library {
    /// The cases that come with this program; `improved` gives those that state something better than was recorded.
    ///
    /// # Errors
    /// If the files of the source tree can't be read.
    pub fn own(improved: bool) -> Result<Self> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = here.join(if improved { "improved" } else { "golden" });
        let suites = golden::load_folder(&folder)
            .context("no files were named and those of the source tree can't be read")?;
        Self::of(suites, own_index()?, !improved)
    }

    /// The cases of these files alone.
    ///
    /// # Errors
    /// If one can't be read.
    pub fn of_files(files: &[impl AsRef<Path>]) -> Result<Self> {
        let suites = files.iter().map(|file| golden::load(file.as_ref())).collect::<Result<_>>()?;
        Self::of(suites, own_index().unwrap_or_default(), false)
    }

    fn of(mut suites: Vec<Suite>, index: Index, written: bool) -> Result<Self> {
        index.ease(&mut suites)?;
        Ok(Self { suites, index, written })
    }

    /// The cases of a level whose id has a match; without a level, of all.
    pub fn cases(&self, level: Option<Level>, only: Option<&Regex>) -> Vec<Playable<'_>> {
        let recorded = self.suites.iter().flat_map(|suite| {
            suite.scenarios.iter().map(|scenario| Playable {
                facts: self.index.facts(&suite.name, scenario),
                steps: Steps::Recorded(Case { suite: &suite.name, scenario }),
            })
        });
        let written = written::all().into_iter().filter(|_| self.written);
        let written =
            written.map(|written| Playable { facts: written.facts(), steps: Steps::Written(written) });
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
        text.push_str(&format!(
            "{}\n    {}\n    {} [{level}, weight {}{clients}]\n",
            facts.id, facts.says, facts.source, facts.weight
        ));
    }
    text
}
