//! Wrong servers, one wrong thing each, made of a right one by a relay: the cases of the family must find it, and must
//! say whom it hurts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Result, anyhow, ensure};

use super::draw::{Mutant, Shown, all, draw, pushes};
use super::hurts::hurt;
use super::invisible::invisible;
use super::{is_short, options, play};
use crate::between::{How, Manner, Relay};
use crate::cases::{Library, Playable};
use crate::facts::{Client, Level, Need};
use crate::finding::Finding;
use crate::notice::noticed_by;
use crate::target::Target;

/// So many wrong servers are tried at a time.
const AT_ONCE: usize = 3;

/// So many, where most of the time is waiting for pushes.
const WAITING_AT_ONCE: usize = 6;

/// So many cases at a time of each.
const JOBS: usize = 8;

/// A wrong server and what was said of it.
#[derive(Debug)]
pub struct Tried {
    /// What was wrong.
    pub mutant: Mutant,
    /// How often that was in an answer.
    pub met: u64,
    /// The cases that failed.
    pub failed: Vec<String>,
    /// The clients that lost something in the score.
    pub clients: BTreeSet<Client>,
}

impl Tried {
    /// Whether the family failed.
    pub fn found(&self) -> bool {
        !self.failed.is_empty()
    }

    /// The rule by which it needn't be found, unless it was.
    pub fn excuse(&self) -> Option<&'static str> {
        if self.found() { None } else { invisible(&self.mutant.change) }
    }

    /// Whether a client is known to be hurt.
    pub fn hurts(&self) -> bool {
        !hurt(&self.mutant.change).is_empty()
    }

    /// Clients that are known to be hurt, and weren't named.
    pub fn unnamed(&self) -> Vec<Client> {
        hurt(&self.mutant.change).into_iter().filter(|client| !self.clients.contains(client)).collect()
    }
}

/// Tries `count` of them, or all whose description has the text `only`; `quick` leaves out pushes that are late or lost, and
/// families with cases that need the server for themselves; what a right server showed, and what became of
/// each.
///
/// # Errors
/// If the server can't be asked or isn't right itself.
pub fn mutants(
    server: &Target,
    count: usize,
    seed: u64,
    only: Option<&str>,
    quick: bool,
) -> Result<(Shown, Vec<Tried>)> {
    let library = Library::own(false)?;
    let shown = survey(server, &library, seed, quick)?;
    let drawn = match only {
        None if quick => {
            let at_once = |mutant: &Mutant| !mutant.change.how.is_of_pushes();
            let drawn = draw(&shown, count + How::OF_PUSHES.len(), seed);
            drawn.into_iter().filter(at_once).take(count).collect()
        }
        None => draw(&shown, count, seed),
        Some(only) => {
            let any = all(&shown).into_iter().chain(pushes());
            any.filter(|mutant| mutant.change.to_string().contains(only)).collect()
        }
    };
    // What needs the server for itself comes after the others, and what waits first.
    let needs_all = |mutant: &Mutant| cases(&library, mutant).iter().any(|case| case.alone().is_some());
    let (alone, shared): (Vec<_>, Vec<_>) = drawn.into_iter().partition(needs_all);
    let (long, short): (Vec<_>, Vec<_>) =
        shared.into_iter().partition(|mutant| mutant.change.how.is_of_pushes());
    let all = long.len() + short.len() + alone.len();
    let (tried, done) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    for (some, at_once) in [(long, WAITING_AT_ONCE), (short, AT_ONCE), (alone, 1)] {
        side_by_side(some, at_once, |mutant| {
            let one = try_one(server, &library, mutant, seed)?;
            let nth = done.fetch_add(1, Ordering::SeqCst) + 1;
            eprintln!("{nth} of {all}: {}", line(&one));
            tried.lock().unwrap_or_else(PoisonError::into_inner).push(one);
            Ok(())
        })?;
    }
    let mut tried = tried.into_inner().unwrap_or_default();
    tried.sort_by(|one, other| one.mutant.cmp(&other.mutant));
    Ok((shown, tried))
}

/// Does it with all of them, so many at once.
fn side_by_side<T: Send>(items: Vec<T>, at_once: usize, work: impl Fn(T) -> Result<()> + Sync) -> Result<()> {
    let queue = Mutex::new(items.into_iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    thread::scope(|scope| {
        let worker = || {
            while let Some(item) = next() {
                work(item)?;
            }
            Ok(())
        };
        let threads: Vec<_> = (0..at_once).map(|_| scope.spawn(worker)).collect();
        let ended = |one: thread::ScopedJoinHandle<'_, Result<()>>| {
            one.join().unwrap_or_else(|_| Err(anyhow!("a trial broke off")))
        };
        threads.into_iter().try_for_each(ended)
    })
}

/// One line about it.
pub fn line(tried: &Tried) -> String {
    let verdict = match (&tried.failed[..], tried.met) {
        ([], 0) => "never met".to_owned(),
        ([], met) => format!("NOT FOUND, met {met} times"),
        ([first, ..], _) => format!("found by {first} and {} more", tried.failed.len() - 1),
    };
    let excuse = tried.excuse().map(|rule| format!(" (by rule: {rule})")).unwrap_or_default();
    format!("{} [{}]: {verdict}{excuse}", tried.mutant.change, tried.mutant.family)
}

/// Sees what a right server answers in the cases of each family that don't wait. Every answer is taken apart and put
/// together on the way, which must be noticed by no case.
fn survey(server: &Target, library: &Library, seed: u64, quick: bool) -> Result<Shown> {
    let mut families: BTreeMap<String, Vec<Playable<'_>>> = BTreeMap::new();
    for case in library.cases(Some(Level::Full), None).into_iter().filter(is_tried) {
        families.entry(case.facts.family.clone()).or_default().push(case);
    }
    let (alone, shared): (Vec<_>, Vec<_>) =
        families.into_iter().partition(|(_, cases)| cases.iter().any(|case| case.alone().is_some()));
    let alone = if quick { Vec::new() } else { alone };
    let shown = Mutex::new(Shown::new());
    for (some, at_once) in [(shared, WAITING_AT_ONCE), (alone, 1)] {
        side_by_side(some, at_once, |(family, cases)| {
            let manner = Manner { rewrite: true, ..Manner::default() };
            let relay = Relay::open(server.address(), server.context(), manner, seed)?;
            let outcome = play(&relay, server, cases, options(JOBS, seed))?;
            let wrong = outcome.findings.iter().filter(|one| one.fate.failed());
            let wrong: Vec<&str> = wrong.map(|one| &*one.facts.id).collect();
            ensure!(wrong.is_empty(), "the server isn't right as it is: {}", wrong.join(", "));
            shown.lock().unwrap_or_else(PoisonError::into_inner).insert(family, relay.seen());
            Ok(())
        })?;
    }
    Ok(shown.into_inner().unwrap_or_default())
}

/// Whether a case takes part: it doesn't wait.
fn is_tried(case: &Playable<'_>) -> bool {
    is_short(case) && !case.facts.needs.contains(&Need::HealthChecks)
}

/// The cases of the family that don't wait; for what is sent again those that wait for it, too.
fn cases<'a>(library: &'a Library, mutant: &Mutant) -> Vec<Playable<'a>> {
    let waiting = matches!(mutant.change.how, How::Resend(_));
    let mut cases = library.cases(Some(Level::Full), None);
    cases.retain(|case| case.facts.family == mutant.family && (waiting || is_tried(case)));
    cases
}

fn try_one(server: &Target, library: &Library, mutant: Mutant, seed: u64) -> Result<Tried> {
    let manner = Manner { change: Some(mutant.change.clone()), ..Manner::default() };
    let relay = Relay::open(server.address(), server.context(), manner, seed)?;
    let jobs = if mutant.change.how.is_of_pushes() { 4 * JOBS } else { JOBS };
    let outcome = play(&relay, server, cases(library, &mutant), options(jobs, seed))?;
    let failed: Vec<&Finding> = outcome.findings.iter().filter(|finding| finding.fate.failed()).collect();
    let clients = failed.iter().flat_map(|finding| noticed_by(finding)).collect();
    let failed = failed.iter().map(|finding| finding.facts.id.clone()).collect();
    Ok(Tried { mutant, met: relay.changed(), failed, clients })
}
