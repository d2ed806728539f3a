//! `compat-tests URL`: replays recordings against a server and tells what differs.
//!
//! Exit code 0: all as expected; 1: something differs; 2: it couldn't be tried, the reason is on stderr.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use regex::Regex;

use compat_tests::golden::{self, Suite};
use compat_tests::order::plan;
use compat_tests::replay::{Options, replay, replay_in_order};
use compat_tests::report::Report;
use compat_tests::restore;
use compat_tests::run::Pauses;
use compat_tests::shuffle::fresh_seed;
use compat_tests::target::Target;

/// Is the server at this URL a Nacos 1.x naming server?
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Where it is: http://HOST:PORT (a path such as /nacos is left out)
    url: String,
    /// Files of scenarios; without any, all that come with this program and are offered
    files: Vec<PathBuf>,
    /// Only scenarios whose SUITE/NAME has a match of this expression
    #[arg(long)]
    only: Option<Regex>,
    /// How many scenarios at a time
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Don't compare the order of keys in JSON objects
    #[arg(long)]
    no_order: bool,
    /// Leave out recorded pauses of up to 300 ms (after writes)
    #[arg(long)]
    no_pauses: bool,
    /// Repeats the order of an earlier run
    #[arg(long)]
    seed: Option<u64>,
    /// Play the statements of better behaviour in place of the recordings
    #[arg(long)]
    improved: bool,
    /// Show the differences that aren't counted, too
    #[arg(short, long)]
    verbose: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("compat-tests: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    let target = Target::parse(&arguments.url)?;
    let suites = suites(arguments)?;
    let plan = plan(&suites, arguments.only.as_ref(), !arguments.files.is_empty());
    ensure!(!plan.is_empty() || !plan.left_out.is_empty(), "no scenario is chosen by these arguments");
    target.probe()?;
    // What answers otherwise is no such server, as the scenarios will show; files of somebody's own may need anything.
    ensure!(
        !arguments.files.is_empty() || restore::is_up(&target).unwrap_or(true),
        "the server says that it isn't UP, so it refuses what is played"
    );
    let options = Options {
        jobs: usize::from(arguments.jobs),
        key_order: !arguments.no_order,
        pauses: if arguments.no_pauses { Pauses::NoneAfterWrites } else { Pauses::AsRecorded },
        seed: arguments.seed.unwrap_or_else(fresh_seed),
    };
    eprintln!("{} scenarios, order by --seed {}", plan.len(), options.seed);
    let mut outcomes = replay(&target, &plan.shared, &options);
    for suite in &plan.alone {
        outcomes.extend(replay_in_order(&target, suite, &options));
    }
    if !plan.alone.is_empty() && restore::put_status_back(&target)? {
        eprintln!("a scenario had taken the server out of service; its status is put back");
    }
    let report = Report::new(outcomes, plan.left_out);
    print!("{}{}", report.differences(arguments.verbose), report.summary());
    Ok(if report.counted() == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn suites(arguments: &Arguments) -> Result<Vec<Suite>> {
    if !arguments.files.is_empty() {
        return arguments.files.iter().map(|file| golden::load(file)).collect();
    }
    let folder = if arguments.improved { "improved" } else { "golden" };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    golden::load_folder(&folder).context("no files were named and those of the source tree can't be read")
}
