//! Trials of this program itself, against a server that is known to be right: does it leave a slow one alone (`slow`),
//! does it find what is wrong (`mutants`), and does it leave the server as it was (`hygiene`)?

mod draw;
mod hurts;
mod hygiene;
mod invisible;
mod mutants;
mod slow;
mod table;

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::between::Relay;
use crate::cases::Playable;
use crate::greet::greet;
use crate::progress::Progress;
use crate::replay::Options;
use crate::run::Pauses;
use crate::session::{Outcome, Session};
use crate::target::Target;

pub use hygiene::hygiene;
pub use mutants::{Tried, mutants};
pub use slow::{Slowness, slow};
pub use table::table;

/// The cases that need nothing waited for: what else they wait, they wait for answers.
const SHORT: Duration = Duration::from_secs(3);

/// Whether a case is done without waiting.
fn is_short(case: &Playable<'_>) -> bool {
    case.waits() < SHORT
}

/// Plays cases through a relay. What they made is taken away by the straight way.
fn play(relay: &Relay, server: &Target, cases: Vec<Playable<'_>>, options: Options) -> Result<Outcome> {
    let through = Target::parse(&format!("http://{}", relay.address()))?.under(server.context());
    // What the server has is asked by the straight way: a wrong one could say that it has nothing to be tried.
    let has = greet(server.clone(), None)?.has;
    let progress = Progress::of(cases.len());
    let session = Session {
        target: through,
        peers: Vec::new(),
        member: None,
        back_door: Some(server.clone()),
        has,
        login: None,
        heeds_needs: true,
        options,
        progress: &progress,
    };
    let outcome = session.run(cases);
    ensure!(
        outcome.cut_off.is_none(),
        "the run ended before its end: {}",
        outcome.cut_off.unwrap_or_default()
    );
    Ok(outcome)
}

fn options(jobs: usize, seed: u64) -> Options {
    Options { jobs, key_order: true, pauses: Pauses::AsRecorded, seed }
}
