//! The toy keeps its promises in calm, and breaks each when it is told to.

use super::{
    faults::Plan,
    toy::{Flaw, Toy, with},
    world::{Outcome, World},
};

fn calm(seed: u64) -> Plan {
    Plan { at_once: 0, ..Plan::of_seed(seed) }
}

/// The promises that some seeds with this flaw break.
fn broken(flaw: Flaw, seeds: u64, plan: impl Fn(u64) -> Plan) -> Vec<&'static str> {
    let run = |seed| with(flaw, || World::<Toy>::run(seed, plan(seed), false));
    let mut broken: Vec<_> =
        (0..seeds).filter_map(|seed| run(seed).violation.map(|found| found.promise)).collect();
    broken.sort_unstable();
    broken.dedup();
    broken
}

fn told(outcome: &Outcome) -> String {
    let services = outcome.violation.iter().filter_map(|found| found.service).collect();
    format!("{:?}\n{}", outcome.violation, outcome.history.tell(&services, 200))
}

#[test]
fn calm_runs_break_no_promise() {
    for seed in 0..4 {
        let outcome = World::<Toy>::run(seed, calm(seed), true);
        assert!(outcome.violation.is_none(), "{}", told(&outcome));
    }
}

#[test]
fn a_run_repeats_itself() {
    let run = |seed| World::<Toy>::run(seed, Plan::of_seed(seed), true).history.digest();
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

#[test]
fn every_promise_can_be_seen_broken() {
    for (flaw, promises, is_calm) in [
        (Flaw::SendsNothing, &["late", "refused"][..], true),
        (Flaw::ExpiresSoon, &["missing"], true),
        (Flaw::ExpiresNever, &["overdue"], true),
        (Flaw::ForgetsWhoLeft, &["still there"], true),
        (Flaw::TakesOlder, &["older", "risen", "missing"], true),
        (Flaw::CallsStrangers, &["stranger"], true),
        (Flaw::Hoards, &["unbounded"], true),
        (Flaw::RefusesAll, &["refused"], true),
        (Flaw::NeverServes, &["idle", "refused"], true),
        (Flaw::KeepsTheDark, &["ring"], false),
        (Flaw::StartsEmpty, &["incomplete start"], false),
    ] {
        let found = broken(flaw, 6, |seed| if is_calm { calm(seed) } else { Plan::of_seed(seed) });
        assert!(promises.iter().any(|promise| found.contains(promise)), "{flaw:?}: {found:?}");
    }
}
