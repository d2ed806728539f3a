//! Many seeds, on two threads; a failing one is run once more to be told.

use std::{
    env, fs,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use super::{
    coverage::Coverage,
    faults::Plan,
    invariants::Violation,
    seam::SimNode,
    world::{Outcome, World},
};

/// Threads that run seeds side by side.
pub const THREADS: u64 = 2;
/// Seeds between two notes of the progress.
const BLOCK: u64 = 200;
/// Lines of a history that are printed.
const LINES: usize = 400;

/// A number from the environment.
pub fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// A seed that broke a promise.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Which.
    pub seed: u64,
    /// How.
    pub violation: Violation,
}

/// Runs `seeds` until one fails; tells all that failed until then, and what was met.
pub fn run_all<N: SimNode>(
    seeds: std::ops::Range<u64>,
    plan: impl Fn(u64) -> Plan + Sync,
) -> (Vec<Failure>, Coverage) {
    let (next, stop) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let run = || {
        let (mut failures, mut coverage) = (Vec::new(), Coverage::default());
        while !stop.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                break;
            }
            let outcome = World::<N>::run(seed, plan(seed), false);
            coverage.add(&outcome.coverage);
            if let Some(violation) = outcome.violation {
                failures.push(Failure { seed, violation });
                stop.store(env::var_os("ALL").is_none(), Ordering::Relaxed);
            }
        }
        (failures, coverage)
    };
    let (mut failures, mut coverage) = (Vec::new(), Coverage::default());
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(run)).collect();
        for thread in threads {
            let (failed, met) = thread.join().unwrap();
            failures.extend(failed);
            coverage.add(&met);
        }
    });
    failures.sort_by_key(|failure| failure.seed);
    (failures, coverage)
}

/// A seed's verdict and history.
pub fn tell<N: SimNode>(seed: u64, plan: Plan) -> (Outcome, String) {
    let outcome = World::<N>::run(seed, plan, true);
    let services = outcome.violation.iter().filter_map(|found| found.service).collect();
    let lines = number("LINES").map_or(LINES, |lines| usize::try_from(lines).unwrap());
    let mut text = outcome.history.tell(&services, lines);
    if let Some(Violation { at, promise, service, text: what }) = &outcome.violation {
        text += &format!("seed {seed} breaks `{promise}` at {at} us, service {service:?}: {what}\n");
    }
    text += &format!("SEED={seed} runs it alone\n");
    (outcome, text)
}

/// Runs what the environment asks for, or seeds 0 to `count`; panics with the history of the first that fails.
pub fn hold<N: SimNode>(count: u64, plan: impl Fn(u64) -> Plan + Sync) {
    if let Some(seed) = number("SEED") {
        let (outcome, text) = tell::<N>(seed, plan(seed));
        println!("{text}");
        assert!(outcome.violation.is_none(), "seed {seed} breaks a promise");
        return;
    }
    let first = number("FIRST").unwrap_or(0);
    let end = first + number("SEEDS").unwrap_or(count);
    let (mut from, mut coverage, mut failed) = (first, Coverage::default(), Vec::new());
    let progress = env::var("PROGRESS").ok();
    if let Some(file) = &progress {
        let noted = fs::read_to_string(file).ok().and_then(|text| text.trim().parse::<u64>().ok());
        from = noted.unwrap_or(first).max(first);
    }
    while from < end {
        let until = (from + BLOCK).min(end);
        let (failures, met) = run_all::<N>(from..until, &plan);
        coverage.add(&met);
        failed.extend(failures);
        if !failed.is_empty() && env::var_os("ALL").is_none() {
            break;
        }
        from = until;
        if let Some(file) = &progress {
            fs::write(file, format!("{from}\n")).unwrap();
        }
    }
    println!("{}", coverage.table());
    for Failure { seed, violation } in &failed {
        println!(
            "seed {seed}: `{}` {}",
            violation.promise,
            violation.text.lines().next().unwrap_or_default()
        );
    }
    if let Some(Failure { seed, .. }) = failed.first() {
        let (_, text) = tell::<N>(*seed, plan(*seed));
        panic!("{text}{} of the seeds fail", failed.len());
    }
    if end - first >= 200 && from == end && progress.is_none() {
        assert!(coverage.missing().is_empty(), "faults that never came: {:?}", coverage.missing());
    }
}
