//! The facts of the recorded cases: one file a suite beside the recordings, in `golden/index`.

use std::collections::BTreeMap;
use std::{fs, path::Path};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::facts::{Client, Facts, Level, Need};
use crate::golden::{Scenario, Step, Suite};

/// The facts of all suites by their names.
#[derive(Debug, Default)]
pub struct Index(BTreeMap<String, SuiteIndex>);

/// What a file says: of the suite, and of each case what is otherwise or beyond that.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SuiteIndex {
    family: String,
    source: String,
    level: Level,
    #[serde(default)]
    needs: Vec<Need>,
    cases: BTreeMap<String, CaseIndex>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseIndex {
    says: String,
    level: Option<Level>,
    #[serde(default)]
    needs: Vec<Need>,
    #[serde(default)]
    clients: Vec<Client>,
    /// Whom the fault of the recording breaks; must be said where it has one and clients depend on the case.
    fault_breaks: Option<Vec<Client>>,
    weight: Option<u32>,
    /// Where the recording has an order that real servers don't keep: as `unordered` of every step.
    #[serde(default)]
    unordered: Vec<String>,
    /// What the recording was lucky with: steps that are done before the one of that index, and not compared.
    #[serde(default)]
    before: BTreeMap<usize, Vec<Step>>,
}

impl Index {
    /// Reads every `.json` file of a folder.
    ///
    /// # Errors
    /// If the folder or a file can't be read or isn't in the format; an unknown key is an error.
    pub fn load(folder: &Path) -> Result<Self> {
        let shown = folder.display();
        let mut suites = BTreeMap::new();
        for entry in fs::read_dir(folder).with_context(|| format!("can't read the folder {shown}"))? {
            let path = entry?.path();
            let file = path.display();
            let text = fs::read_to_string(&path).with_context(|| format!("can't read {file}"))?;
            let suite: SuiteIndex = serde_json::from_str(&text)
                .with_context(|| format!("{file} is not in the format of an index"))?;
            let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            suites.insert(name, suite);
        }
        Ok(Self(suites))
    }

    /// The facts of a scenario. One that states something better than the recording is known by its own sentence;
    /// one in a file of somebody's own has no facts but its name, and is played at every level.
    pub fn facts(&self, suite: &str, scenario: &Scenario) -> Facts {
        let about = || scenario.about.clone().unwrap_or_else(|| scenario.name.clone());
        let id = format!("{suite}/{}", scenario.name);
        let Some(index) = self.0.get(suite) else {
            return Facts {
                id,
                says: about(),
                source: "a file of one's own".to_owned(),
                family: suite.to_owned(),
                level: Level::Safe,
                needs: Vec::new(),
                clients: Vec::new(),
                fault_breaks: Vec::new(),
                weight: 1,
            };
        };
        let case = index.cases.get(&scenario.name);
        let says = case.filter(|_| scenario.improves.is_none()).map(|case| case.says.clone());
        let mut needs = index.needs.clone();
        needs.extend(case.iter().flat_map(|case| &case.needs));
        Facts {
            id,
            says: says.unwrap_or_else(about),
            source: index.source.clone(),
            family: index.family.clone(),
            level: case.and_then(|case| case.level).unwrap_or(index.level),
            needs,
            clients: case.map(|case| case.clients.clone()).unwrap_or_default(),
            fault_breaks: case.and_then(|case| case.fault_breaks.clone()).unwrap_or_default(),
            weight: case.and_then(|case| case.weight).unwrap_or(1),
        }
    }

    /// Takes from recordings what they have by chance. What states something better than a recording stays as it is.
    ///
    /// # Errors
    /// If something is to be done before a step that there isn't.
    pub fn ease(&self, suites: &mut [Suite]) -> Result<()> {
        for suite in suites {
            let Some(index) = self.0.get(&suite.name) else { continue };
            for scenario in suite.scenarios.iter_mut().filter(|scenario| scenario.improves.is_none()) {
                let Some(case) = index.cases.get(&scenario.name) else { continue };
                let steps = scenario.steps.len();
                for (at, before) in &case.before {
                    let id = format!("{}/{}", suite.name, scenario.name);
                    let Some(step) = scenario.steps.get_mut(*at) else {
                        bail!("{id} has {steps} steps, and the index something before its step {at}");
                    };
                    step.before.clone_from(before);
                }
                for step in &mut scenario.steps {
                    step.rules.unordered.extend_from_slice(&case.unordered);
                }
            }
        }
        Ok(())
    }

    /// Whether it says of a case whom the fault of its recording breaks.
    pub fn tells_whom_a_fault_breaks(&self, suite: &str, case: &str) -> bool {
        let case = self.0.get(suite).and_then(|suite| suite.cases.get(case));
        case.is_some_and(|case| case.fault_breaks.is_some())
    }

    /// Names of suites and cases that the index has.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|(suite, index)| index.cases.keys().map(move |case| (&**suite, &**case)))
    }
}
