//! Planted faults: each is found by a seed that a sound cluster passes.
//!
//! `MUTANT` is one alone by its name, `SEEDS` how many seeds are tried for each when the table is made anew
//! (`-- --ignored mutants_are_searched_for --nocapture`).

use std::{
    env,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use nacre::base::mutant::{self, Mutant};
use parking_lot::Mutex;

use super::{
    faults::Plan,
    invariants::Violation,
    nacre_node::NacreNode,
    runs::{THREADS, number},
    world::World,
};

/// Seeds that are tried for a fault.
const SEEDS: u64 = 1_000;

/// The first seed that finds each fault, and the promise that it sees broken. The last three take rarer luck than the first
/// thousand seeds have.
const FOUND: &[(Mutant, u64, &str)] = &[
    (Mutant::StaleOverwrite, 0, "older"),
    (Mutant::AbsenceRemoves, 0, "incomplete start"),
    (Mutant::EndlessRetry, 0, "stranger"),
    (Mutant::LostGrace, 18, "unhealthy"),
    (Mutant::NoOrder, 204, "still there"),
    (Mutant::NoTombstones, 0, "risen"),
    (Mutant::TombstoneLoses, 0, "risen"),
    (Mutant::VerifyFindsNothing, 4, "late"),
    (Mutant::ShallowDigest, 105, "unequal"),
    (Mutant::LoadsFromFirst, 68, "incomplete start"),
    (Mutant::JudgesUnasked, 25, "missing"),
    (Mutant::HandsOnNothing, 181, "late"),
    (Mutant::StandstillUnnoticed, 0, "risen"),
    (Mutant::HealthWithoutStamp, 0, "unequal"),
    (Mutant::ForgetsTheAbsent, 52, "still there"),
    (Mutant::StampsByClockAlone, 50, "missing"),
    (Mutant::ReportsMakeOwners, 6, "ring"),
    (Mutant::LatenessUntold, 0, "overdue"),
    (Mutant::LeavesUnstamped, 0, "still there"),
    (Mutant::SilenceUnrefuted, 62, "missing"),
    (Mutant::NoRetry, 61, "still there"),
    (Mutant::NobodyGoesDown, 0, "ring"),
    (Mutant::MissedNewsUnnoticed, 2, "overdue"),
    (Mutant::ReturnsUnloaded, 0, "incomplete start"),
    (Mutant::StampsUnfollowed, 14_238, "missing"),
    (Mutant::BeatsUnheard, 10_183, "missing"),
    (Mutant::OldWordsCount, 12_889, "idle"),
];

fn run(mutant: Option<Mutant>, seed: u64) -> Option<Violation> {
    mutant::with(mutant, || World::<NacreNode>::run(seed, Plan::of_seed(seed), false).violation)
}

/// Calls `each` with all of `items`, several at a time; gives what it gave, in their order.
fn side_by_side<T: Sync, R: Send>(items: &[T], each: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let Some(item) = items.get(number) else { return };
        let result = each(item);
        results.lock().push((number, result));
    };
    thread::scope(|scope| (0..THREADS).for_each(|_| _ = scope.spawn(work)));
    let mut results = results.into_inner();
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

#[test]
fn mutants_are_found_by_their_seeds() {
    let wrong = side_by_side(FOUND, |&(mutant, seed, promise)| {
        let (faulty, sound) = (run(Some(mutant), seed), run(None, seed));
        let found = faulty.as_ref().map(|violation| violation.promise);
        (found != Some(promise) || sound.is_some())
            .then(|| format!("{mutant:?}, seed {seed}: {found:?} instead of {promise}, sound: {sound:?}\n"))
    });
    let wrong: String = wrong.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{wrong}Where the protocol is another one on purpose, make the table anew.");
}

#[test]
#[ignore = "a search of minutes; makes the table above"]
fn mutants_are_searched_for() {
    let (named, seeds) = (env::var("MUTANT").ok(), number("SEEDS").unwrap_or(SEEDS));
    let all: Vec<_> = mutant::ALL
        .iter()
        .filter(|one| named.as_ref().is_none_or(|name| format!("{one:?}") == *name))
        .collect();
    side_by_side(&all, |&&mutant| {
        let finds = |seed: u64| {
            let violation = run(Some(mutant), seed)?;
            run(None, seed).is_none().then_some((seed, violation))
        };
        match (0..seeds).find_map(finds) {
            Some((seed, violation)) => {
                let what = violation.text.lines().next().unwrap_or_default();
                println!("    (Mutant::{mutant:?}, {seed}, {:?}), // {what}", violation.promise);
            }
            None => println!("    // {mutant:?} isn't found by {seeds} seeds"),
        }
    });
}
