//! Replays a folder of scenarios, with as many servers as their order rules ask for.

use std::{path::Path, thread};

use compat_tests::{
    golden::{Suite, load_folder},
    order::{Case, plan},
    replay::{Options, Outcome, replay, replay_in_order},
    report::Report,
    run::Pauses,
    shuffle::fresh_seed,
    target::Target,
};

use super::server::Server;

/// Something that answers at a URL while it is held.
pub trait Serves {
    /// `http://127.0.0.1:PORT/nacos`
    fn url(&self) -> &str;
}

impl Serves for Server {
    fn url(&self) -> &str {
        Server::url(self)
    }
}

/// The scenarios in a folder of compat-tests.
pub fn suites(folder: &str) -> Vec<Suite> {
    load_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("compat-tests").join(folder)).unwrap()
}

/// Replays the scenarios without the pauses that were made after writes: an answer of ours comes when the
/// write is visible. Fails, naming every difference, if any of them counts.
pub fn replay_all(suites: &[Suite]) -> Report {
    replay_all_against(suites, Server::start, &[])
}

/// The same against what `start` starts. Those named must differ, and no others.
pub fn replay_all_against<S: Serves>(
    suites: &[Suite],
    start: impl Fn() -> S + Sync,
    differing: &[&str],
) -> Report {
    let plan = plan(suites, None, false);
    let options = Options { jobs: 48, key_order: true, pauses: Pauses::NoneAfterWrites, seed: fresh_seed() };
    println!("order by seed {}", options.seed);
    let start = &start;
    let outcomes = thread::scope(|scope| {
        let alone = plan.alone.iter().map(|cases| {
            let options = &options;
            scope.spawn(move || against_a_new(start, |target| replay_in_order(target, cases, options)))
        });
        let alone: Vec<_> = alone.collect();
        let mut outcomes = against_a_new(start, |target| replay(target, &plan.shared, &options));
        outcomes.extend(alone.into_iter().flat_map(|thread| thread.join().unwrap()));
        outcomes
    });
    let report = Report::new(outcomes, plan.left_out);
    print!("{}", report.summary());
    let counted = report.outcomes.iter().filter(|outcome| outcome.counts());
    let mut counted: Vec<String> =
        counted.map(|outcome| format!("{}/{}", outcome.suite, outcome.scenario)).collect();
    counted.sort_unstable();
    assert_eq!(counted, differing, "\n{}\n{}", report.differences(false), report.summary());
    report
}

fn against_a_new<S: Serves>(
    start: impl Fn() -> S,
    play: impl FnOnce(&Target) -> Vec<Outcome>,
) -> Vec<Outcome> {
    let server = start();
    play(&Target::parse(server.url()).unwrap())
}

/// What a case is known by: its suite and its name.
pub fn name(case: &Case<'_>) -> String {
    format!("{}/{}", case.suite, case.scenario.name)
}
