//! How well a server did: by family of endpoints and by client, each case with its weight. No I/O.
//!
//! A failure takes the weight of its case, but only 1 where no client sees what differs; for a client that doesn't see it,
//! it is none. What goes as a recording with a fault is compatible, so it costs nothing by family; but the client that breaks on it
//! loses the weight.

use std::collections::BTreeMap;

use crate::facts::Client;
use crate::finding::{Fate, Finding};
use crate::notice::{Effect, effect, is_unseen};

/// Weights passed and played, and what failed.
#[derive(Debug, Default, Clone)]
pub struct Tally<'a> {
    /// Sum of the weights of cases that were as is right, and of others what is left of theirs.
    pub passed: u32,
    /// Sum of the weights of cases that were played.
    pub played: u32,
    /// How many cases were played.
    pub cases: usize,
    /// How many are about something that the server doesn't offer.
    pub not_offered: usize,
    /// How many failed in what the client, whose tally it is, can't be told to notice or not; they don't count.
    pub untold: usize,
    /// Of those that passed: how many went as recorded where the recording has a fault.
    pub faulty: usize,
    /// Of those that passed: how many went as is right where the recording has a fault, be it by more than what was recorded.
    pub better: usize,
    /// What failed, the heaviest first; for a client also what has a fault that breaks it.
    pub failed: Vec<&'a Finding>,
}

impl<'a> Tally<'a> {
    /// Counts a case, which costs `lost` of its weight.
    fn add(&mut self, finding: &'a Finding, lost: u32) {
        let weight = finding.facts.weight;
        self.not_offered += usize::from(matches!(finding.fate, Fate::NotOffered(_)));
        if !finding.fate.counts() {
            return;
        }
        self.cases += 1;
        self.played += weight;
        self.passed += weight.saturating_sub(lost);
        if lost > 0 {
            self.failed.push(finding);
        } else {
            self.faulty += usize::from(matches!(finding.fate, Fate::Faulty { .. }));
            self.better += usize::from(matches!(finding.fate, Fate::Better { .. }));
        }
    }

    /// Counts a case for a client.
    fn add_for(&mut self, client: Client, finding: &'a Finding) {
        match effect(finding, client) {
            Effect::Elsewhere if finding.fate.failed() => self.untold += 1,
            Effect::Unseen => self.add(finding, 0),
            _ => self.add(finding, finding.facts.weight),
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
            let lost = match &finding.fate {
                fate if !fate.failed() => 0,
                _ if is_unseen(finding) => 1,
                _ => finding.facts.weight,
            };
            score.all.add(finding, lost);
            score.families.entry(&finding.facts.family).or_default().add(finding, lost);
            let concerned =
                score.clients.iter_mut().filter(|(client, _)| finding.facts.clients.contains(client));
            concerned.for_each(|(client, tally)| tally.add_for(*client, finding));
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
    use crate::compare::Difference;
    use crate::facts::{Facts, Level};
    use crate::replay::StepDifference;

    fn finding(id: &str, clients: &[Client], weight: u32, fate: Fate) -> Finding {
        let facts = Facts {
            id: id.to_owned(),
            says: id.to_owned(),
            source: String::new(),
            family: "push".to_owned(),
            level: Level::Core,
            needs: Vec::new(),
            clients: clients.to_vec(),
            fault_breaks: Vec::new(),
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
        let excused = Fate::Excused { why: String::new(), steps: Vec::new() };
        findings.push(finding("not counted", &[Client::Go], 9, excused));
        let score = Score::of(&findings);
        let of = |client| &score.clients.iter().find(|(known, _)| *known == client).unwrap().1;
        assert_eq!(of(Client::Java14).percent(), Some(99));
        assert_eq!((of(Client::Go).percent(), of(Client::Go).not_offered), (Some(50), 1));
        let failed: Vec<&str> = of(Client::Go).failed.iter().map(|finding| &*finding.facts.id).collect();
        assert_eq!(failed, ["heavy", "light"]);
        assert_eq!(of(Client::Dubbo).percent(), None);
        assert_eq!(score.families["push"].cases, 403);
    }

    #[test]
    fn the_fault_of_a_recording_costs_the_clients_that_break_on_it_and_what_is_right_costs_nobody() {
        let why = || "the form is read".to_owned();
        let both = [Client::Go, Client::Java11];
        let of = |fate: Fate| {
            let mut one = finding("form", &both, 3, fate);
            one.facts.fault_breaks = vec![Client::Go];
            [one, finding("list", &both, 3, Fate::Same)]
        };
        let percents = |findings: &[Finding]| {
            let score = Score::of(findings);
            let of = |client| score.clients.iter().find(|(known, _)| *known == client).unwrap().1.percent();
            (of(Client::Go).unwrap(), of(Client::Java11).unwrap(), score.all.percent().unwrap())
        };
        let (faulty, better) = (of(Fate::Faulty { why: why() }), of(Fate::Better { why: why() }));
        assert_eq!(percents(&faulty), (50, 100, 100));
        assert_eq!(percents(&better), (100, 100, 100));
        assert_eq!(percents(&of(Fate::Differs(Vec::new()))), (50, 50, 50));
        let apart = |findings: &[Finding]| {
            let score = Score::of(findings);
            let family = &score.families["push"];
            (family.cases, family.faulty, family.better, family.failed.len())
        };
        assert_eq!((apart(&faulty), apart(&better)), ((2, 1, 0, 0), (2, 0, 1, 0)));
        let score = Score::of(&faulty);
        let go = &score.clients.iter().find(|(known, _)| *known == Client::Go).unwrap().1;
        assert_eq!((go.failed.len(), go.faulty, &*go.failed[0].facts.id), (1, 0, "form"));
    }

    #[test]
    fn a_failure_that_no_client_sees_costs_1_and_one_elsewhere_tells_nothing_of_clients() {
        let differs = |sent: &str, place: &str| {
            let difference = Difference::new(place, &"a", &"b");
            Fate::Differs(vec![StepDifference {
                step: 0,
                sent: sent.into(),
                differences: vec![difference],
                want: String::new(),
                got: String::new(),
                refused: false,
            }])
        };
        let list = "GET /nacos/v1/ns/instance/list?x";
        let findings = [
            finding("seen", &[Client::Go, Client::Node], 3, differs(list, "body /hosts")),
            finding("unseen", &[Client::Go, Client::Node], 3, differs(list, "media type")),
            finding("node's", &[Client::Go, Client::Node], 3, differs(list, "body /clusters")),
            finding("elsewhere", &[Client::Go], 2, differs("GET /nacos/v1/ns/service?x", "status")),
        ];
        let score = Score::of(&findings);
        assert_eq!((score.all.passed, score.all.played, score.all.failed.len()), (2, 11, 4));
        let of = |client| &score.clients.iter().find(|(known, _)| *known == client).unwrap().1;
        let (go, node) = (of(Client::Go), of(Client::Node));
        assert_eq!((go.passed, go.played, go.failed.len(), go.untold), (6, 9, 1, 1));
        assert_eq!((node.passed, node.played, node.failed.len(), node.untold), (3, 9, 2, 0));
    }
}
