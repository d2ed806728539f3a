//! How well a server did: by family of endpoints and by client, each case with its weight. No I/O.

use std::collections::BTreeMap;

use crate::facts::Client;
use crate::finding::{Fate, Finding};

/// Weights passed and played, and what failed.
#[derive(Debug, Default, Clone)]
pub struct Tally<'a> {
    /// Sum of the weights of cases that were as is right.
    pub passed: u32,
    /// Sum of the weights of cases that were played.
    pub played: u32,
    /// How many cases were played.
    pub cases: usize,
    /// How many are about something that the server doesn't offer.
    pub not_offered: usize,
    /// What failed, the heaviest first.
    pub failed: Vec<&'a Finding>,
}

impl<'a> Tally<'a> {
    fn add(&mut self, finding: &'a Finding) {
        self.not_offered += usize::from(matches!(finding.fate, Fate::NotOffered(_)));
        if finding.fate.counts() {
            self.cases += 1;
            self.played += finding.facts.weight;
        }
        if finding.fate.passed() {
            self.passed += finding.facts.weight;
        } else if finding.fate.failed() {
            self.failed.push(finding);
        }
    }

    /// Per cent, never rounded up to 100; `None` if nothing was played.
    pub fn percent(&self) -> Option<u32> {
        (self.played > 0).then(|| self.passed * 100 / self.played)
    }
}

/// The scores of a run.
#[derive(Debug, Default)]
pub struct Score<'a> {
    /// Everything.
    pub all: Tally<'a>,
    /// By family.
    pub families: BTreeMap<&'a str, Tally<'a>>,
    /// By client, in the order of [`Client::ALL`].
    pub clients: Vec<(Client, Tally<'a>)>,
}

impl<'a> Score<'a> {
    /// Adds up.
    pub fn of(findings: &'a [Finding]) -> Self {
        let mut score =
            Self { clients: Client::ALL.map(|client| (client, Tally::default())).into(), ..Self::default() };
        for finding in findings {
            score.all.add(finding);
            score.families.entry(&finding.facts.family).or_default().add(finding);
            let concerned =
                score.clients.iter_mut().filter(|(client, _)| finding.facts.clients.contains(client));
            concerned.for_each(|(_, tally)| tally.add(finding));
        }
        let heaviest_first = |tally: &mut Tally<'_>| {
            tally.failed.sort_by_key(|finding| std::cmp::Reverse(finding.facts.weight));
        };
        score.families.values_mut().for_each(heaviest_first);
        score.clients.iter_mut().for_each(|(_, tally)| heaviest_first(tally));
        heaviest_first(&mut score.all);
        score
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::facts::{Facts, Level};

    fn finding(id: &str, clients: &[Client], weight: u32, fate: Fate) -> Finding {
        let facts = Facts {
            id: id.to_owned(),
            says: id.to_owned(),
            source: String::new(),
            family: "push".to_owned(),
            level: Level::Core,
            needs: Vec::new(),
            clients: clients.to_vec(),
            weight,
        };
        Finding { facts, took: Duration::ZERO, fate }
    }

    #[test]
    fn weights_count_and_a_failure_is_never_rounded_away() {
        let broken = || Fate::Differs(Vec::new());
        let mut findings: Vec<Finding> =
            (0..400).map(|at| finding(&at.to_string(), &[Client::Java14], 3, Fate::Same)).collect();
        findings.push(finding("light", &[Client::Go], 1, broken()));
        findings.push(finding("heavy", &[Client::Go, Client::Java14], 3, broken()));
        findings.push(finding("kept", &[Client::Go], 4, Fate::Same));
        findings.push(finding("lacks", &[Client::Go], 9, Fate::NotOffered("x")));
        let score = Score::of(&findings);
        let of = |client| &score.clients.iter().find(|(known, _)| *known == client).unwrap().1;
        assert_eq!(of(Client::Java14).percent(), Some(99));
        assert_eq!((of(Client::Go).percent(), of(Client::Go).not_offered), (Some(50), 1));
        let failed: Vec<&str> = of(Client::Go).failed.iter().map(|finding| &*finding.facts.id).collect();
        assert_eq!(failed, ["heavy", "light"]);
        assert_eq!(of(Client::Dubbo).percent(), None);
        assert_eq!(score.families["push"].cases, 403);
    }
}
