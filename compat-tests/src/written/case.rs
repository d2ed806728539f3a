//! The list of written cases.

use std::time::Duration;

use anyhow::Result;

use super::{Bench, beat, distro, http, push, ring, ring_health, single};
use crate::facts::{Client, Facts, Level, Need};
use crate::finding::Fate;

/// A case in code: its facts, and a function that notes what isn't as it should be.
#[derive(Debug, Clone, Copy)]
pub struct Written {
    /// `SUITE/NAME`.
    pub id: &'static str,
    /// One sentence that is true of a server that passes.
    pub says: &'static str,
    /// Where the behaviour is from.
    pub source: &'static str,
    /// The group of endpoints.
    pub family: &'static str,
    /// The level from which on it is played.
    pub level: Level,
    /// What it needs.
    pub needs: &'static [Need],
    /// Whom a failure breaks.
    pub clients: &'static [Client],
    /// How much.
    pub weight: u32,
    /// About how many seconds it takes.
    pub seconds: u64,
    /// What it does.
    pub run: fn(&mut Bench<'_>) -> Result<()>,
}

/// All written cases.
pub fn all() -> Vec<Written> {
    [
        &push::CASES[..],
        &beat::CASES,
        &http::CASES,
        &distro::CASES,
        &ring::CASES,
        &ring_health::CASES,
        &single::CASES,
    ]
    .concat()
}

impl Written {
    /// What is known of it.
    pub fn facts(&self) -> Facts {
        Facts {
            id: self.id.to_owned(),
            says: self.says.to_owned(),
            source: self.source.to_owned(),
            family: self.family.to_owned(),
            level: self.level,
            needs: self.needs.to_vec(),
            clients: self.clients.to_vec(),
            fault_breaks: Vec::new(),
            weight: self.weight,
        }
    }

    /// Plays it; tells also whether time was lost that it counts on.
    pub fn play(&self, mut bench: Bench<'_>) -> (Fate, bool) {
        let result = (self.run)(&mut bench);
        let late = bench.is_late();
        let (step, sent, found) = bench.end();
        let fate = match result {
            Err(error) => Fate::Broke { step, sent, why: format!("{error:#}"), before: found },
            Ok(()) if found.is_empty() => Fate::Same,
            Ok(()) => Fate::Differs(found),
        };
        (fate, late)
    }

    /// About how long it waits.
    pub fn waits(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}
