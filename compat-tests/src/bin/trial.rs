//! `trial slow URL`, `trial mutants URL`, `trial hygiene URL`: tries compat-tests itself against a server that is known to be right.
//!
//! Exit code 0: it did as it should; 1: it didn't; 2: it couldn't be tried.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Parser, Subcommand};

use compat_tests::shuffle::fresh_seed;
use compat_tests::target::Target;
use compat_tests::trial::{Slowness, hygiene, mutants, slow, table};

/// Is compat-tests itself to be trusted? Tried against a server that is known to be right.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    trial: Trial,
}

#[derive(Subcommand)]
enum Trial {
    /// Plays the cases of the level full against the server made slow: nothing may fail
    Slow {
        /// Where it is: http://HOST:PORT
        url: String,
        /// Every answer, push and acknowledgement comes later by up to so many milliseconds
        #[arg(long, default_value_t = 300)]
        delay: u64,
        /// So many cores are kept busy
        #[arg(long, default_value_t = 2)]
        busy: usize,
        /// Runs of all cases
        #[arg(long, default_value_t = 5)]
        runs: usize,
        /// Runs of the cases about pushes and beats
        #[arg(long, default_value_t = 20)]
        again: usize,
        /// Repeats an earlier trial
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Ends runs by signals in the middle of each level, and starts two at once: the server must be as before
    Hygiene {
        /// Where it is: http://HOST:PORT
        url: String,
    },
    /// Plays the cases against wrong servers, made of the server by changing one thing: each must be found
    Mutants {
        /// Where it is: http://HOST:PORT
        url: String,
        /// How many are drawn
        #[arg(long, default_value_t = 300)]
        count: usize,
        /// Repeats an earlier trial
        #[arg(long)]
        seed: Option<u64>,
        /// Not drawn, but all whose line in the table has this text
        #[arg(long, value_name = "TEXT")]
        only: Option<String>,
        /// Leaves out what takes long: late and lost pushes, and what needs the server for itself
        #[arg(long)]
        quick: bool,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().trial) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("trial: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(trial: Trial) -> Result<bool> {
    match trial {
        Trial::Slow { url, delay, busy, runs, again, seed } => {
            let seed = seed.unwrap_or_else(fresh_seed);
            println!("seed {seed}");
            let how = Slowness { delay: Duration::from_millis(delay), busy, runs, again, seed };
            let failed = slow(&Target::parse(&url)?, &how)?;
            println!("{failed} false failures");
            Ok(failed == 0)
        }
        Trial::Hygiene { url } => {
            let wrong = hygiene(&url)?;
            println!("{wrong} times not as it should be");
            Ok(wrong == 0)
        }
        Trial::Mutants { url, count, seed, only, quick } => {
            let seed = seed.unwrap_or_else(fresh_seed);
            println!("seed {seed}");
            let begin = Instant::now();
            let (seen, tried) = mutants(&Target::parse(&url)?, count, seed, only.as_deref(), quick)?;
            let (table, good) = table(&seen, &tried, begin.elapsed());
            print!("{table}");
            Ok(good)
        }
    }
}
