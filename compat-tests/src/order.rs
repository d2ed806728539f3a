//! Which scenarios may share a server, and which aren't played yet. No I/O.
//!
//! Most live in service names of their own and run side by side. Those that change or count what belongs to
//! the whole server (switches, states, a wipe) need one of their own.

use regex::Regex;

use crate::golden::{Scenario, Suite};

/// Suites that need a server of their own, in the order in which they can follow each other on one server.
const ALONE: [&str; 5] =
    ["operator-state", "operator-switches", "operator-switch-effects", "operator-zz-masters", "distro-wipe"];

/// Leaves the server it was played against in an odd state, so it comes last.
const LAST: &str = "operator-zz-status-nonsense";

/// Prefix of the suite's name, and why it isn't played.
const NOT_OFFERED: [(&str, &str); 3] = [
    ("auth-", "authentication is not offered yet"),
    ("authwhite-", "authentication is not offered yet"),
    ("health-check", "health checks of persistent instances are not offered yet"),
];

/// One scenario and the suite that it is from.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// The suite's name.
    pub suite: &'a str,
    /// The scenario.
    pub scenario: &'a Scenario,
}

/// A suite that isn't played.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Its name.
    pub suite: String,
    /// How many scenarios it has.
    pub scenarios: usize,
    /// Why.
    pub why: &'static str,
}

/// What is played how.
#[derive(Debug, Default)]
pub struct Plan<'a> {
    /// Side by side, in any order, against one server.
    pub shared: Vec<Case<'a>>,
    /// Each suite alone and in order: against a server of its own, or one after the other after `shared`.
    pub alone: Vec<Vec<Case<'a>>>,
    /// Not at all.
    pub left_out: Vec<LeftOut>,
}

impl Plan<'_> {
    /// How many scenarios are played.
    pub fn len(&self) -> usize {
        self.shared.len() + self.alone.iter().map(Vec::len).sum::<usize>()
    }

    /// Whether there is nothing to play.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Sorts suites by what they need. `only` picks scenarios by `suite/name`; `all` plays what isn't offered yet, too.
pub fn plan<'a>(suites: &'a [Suite], only: Option<&Regex>, all: bool) -> Plan<'a> {
    let mut plan = Plan::default();
    let mut alone = Vec::new();
    for suite in suites {
        let chosen = |scenario: &&Scenario| {
            only.is_none_or(|only| only.is_match(&format!("{}/{}", suite.name, scenario.name)))
        };
        let cases: Vec<Case<'a>> = suite
            .scenarios
            .iter()
            .filter(chosen)
            .map(|scenario| Case { suite: &suite.name, scenario })
            .collect();
        let reason = NOT_OFFERED.iter().find(|(prefix, _)| suite.name.starts_with(prefix));
        match reason {
            _ if cases.is_empty() => {}
            Some((_, why)) if !all => {
                plan.left_out.push(LeftOut { suite: suite.name.clone(), scenarios: cases.len(), why });
            }
            _ => match rank(&suite.name) {
                Some(rank) => alone.push((rank, cases)),
                None => plan.shared.extend(cases),
            },
        }
    }
    alone.sort_by_key(|(rank, _)| *rank);
    plan.alone = alone.into_iter().map(|(_, cases)| cases).collect();
    plan
}

/// Whether a suite needs a server of its own, and its place among those that do.
pub fn rank(suite: &str) -> Option<usize> {
    if suite == LAST {
        return Some(ALONE.len());
    }
    ALONE.iter().position(|name| *name == suite)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suite(name: &str) -> Suite {
        let scenario = |name: &str| Scenario {
            name: name.to_owned(),
            about: None,
            server: None,
            fault: None,
            improves: None,
            fixed: false,
            steps: Vec::new(),
        };
        Suite { name: name.to_owned(), scenarios: vec![scenario("a"), scenario("b")] }
    }

    #[test]
    fn what_touches_the_whole_server_comes_alone_and_the_worst_last() {
        let names = ["beat", LAST, "distro-wipe", "operator-state", "auth-login", "health-check", "health"];
        let suites: Vec<Suite> = names.iter().map(|name| suite(name)).collect();
        let plan = plan(&suites, None, false);
        let alone: Vec<&str> = plan.alone.iter().map(|cases| cases[0].suite).collect();
        assert_eq!(alone, ["operator-state", "distro-wipe", LAST]);
        assert_eq!(plan.shared.len(), 4);
        assert_eq!(plan.len(), 10);
        let left_out: Vec<&str> = plan.left_out.iter().map(|suite| suite.suite.as_str()).collect();
        assert_eq!(left_out, ["auth-login", "health-check"]);
    }

    #[test]
    fn scenarios_are_picked_by_suite_and_name() {
        let suites = [suite("beat"), suite("auth-login")];
        let only = Regex::new("^beat/b$").unwrap();
        let picked = plan(&suites, Some(&only), false);
        assert_eq!((picked.len(), picked.left_out.len()), (1, 0));
        assert_eq!(plan(&suites, None, true).shared.len(), 4);
    }
}
