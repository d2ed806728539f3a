//! A server that is right but slow must not be called wrong: every answer, push and acknowledgement comes late by chance,
//! while both cores are kept busy.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::{options, play};
use crate::between::{Manner, Relay};
use crate::cases::{Library, Playable};
use crate::facts::Level;
use crate::finding::{Fate, Finding};
use crate::replay::StepDifference;
use crate::target::Target;
use crate::tries::TOO_LATE;

/// How slow, and how often it is tried.
pub struct Slowness {
    /// Every answer, push and acknowledgement comes later by up to this.
    pub delay: Duration,
    /// So many threads do nothing but keep a core busy.
    pub busy: usize,
    /// Runs of all cases.
    pub runs: usize,
    /// Runs of the cases about pushes and beats, after those.
    pub again: usize,
    /// Decides what chance does.
    pub seed: u64,
}

/// Tries it; tells how many cases failed in how many runs.
///
/// # Errors
/// If the server can't be asked.
pub fn slow(server: &Target, how: &Slowness) -> Result<usize> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..how.busy {
            scope.spawn(|| {
                let mut count = 0_u64;
                while !over.load(Ordering::Relaxed) {
                    count = std::hint::black_box(count.wrapping_add(1));
                }
            });
        }
        let failed = runs(server, how);
        over.store(true, Ordering::SeqCst);
        failed
    })
}

fn runs(server: &Target, how: &Slowness) -> Result<usize> {
    let library = Library::own(false)?;
    let mut failed = 0;
    for run in 0..how.runs + how.again {
        let cases = library.cases(Some(Level::Full), None);
        let timely = |case: &Playable<'_>| matches!(&*case.facts.family, "push" | "beat");
        let (what, cases): (_, Vec<_>) = if run < how.runs {
            ("all", cases)
        } else {
            ("push and beat", cases.into_iter().filter(timely).collect())
        };
        let seed = how.seed.wrapping_add(run as u64);
        let manner = Manner { delay: how.delay, ..Manner::default() };
        let relay = Relay::open(server.address(), server.context(), manner, seed)?;
        let begin = Instant::now();
        let outcome = play(&relay, server, cases, options(16, seed))?;
        let wrong: Vec<&Finding> = outcome.findings.iter().filter(|one| one.fate.failed()).collect();
        let played = outcome.findings.iter().filter(|one| one.fate.counts()).count();
        let late = outcome.findings.iter().filter(|one| matches!(one.fate, Fate::NotPlayed(TOO_LATE)));
        let late: Vec<&str> = late.map(|one| &*one.facts.id).collect();
        println!(
            "run {} ({what}): {} of {played} cases failed, {} couldn't be judged {late:?}, {} s",
            run + 1,
            wrong.len(),
            late.len(),
            begin.elapsed().as_secs()
        );
        for finding in &wrong {
            println!("  {}", finding.facts.id);
            match &finding.fate {
                Fate::Differs(steps) => steps.iter().for_each(tell),
                Fate::Broke { step, sent, why, before } => {
                    before.iter().for_each(tell);
                    println!("    step {step}: {sent}: {why}");
                }
                _ => {}
            }
        }
        failed += wrong.len();
    }
    Ok(failed)
}

fn tell(step: &StepDifference) {
    println!("    step {}: {}", step.step, step.sent);
    for difference in &step.differences {
        println!("      {}: want {}, got {}", difference.place, difference.want, difference.got);
    }
}
