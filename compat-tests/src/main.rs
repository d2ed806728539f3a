//! `compat-tests URL`: plays cases against a server and tells what differs.
//!
//! Exit code 0: all as expected; 1: something differs; 2: it couldn't be tried to its end, the reason is on stderr.

use std::io::{ErrorKind, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Parser, ValueEnum};
use regex::Regex;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use compat_tests::agree::{AGREES, disagreement};
use compat_tests::cases::{Library, list};
use compat_tests::facts::{Level, Need};
use compat_tests::greet::{Greeting, greet, logged_in};
use compat_tests::member::Member;
use compat_tests::progress::Progress;
use compat_tests::replay::Options;
use compat_tests::report::{Run, html, json, junit, text};
use compat_tests::run::Pauses;
use compat_tests::secrets::Secrets;
use compat_tests::session::Session;
use compat_tests::shuffle::fresh_seed;
use compat_tests::stop::Stop;
use compat_tests::target::Target;

/// Is the server at this URL a Nacos 1.x naming server?
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Where it is: http://HOST:PORT (a path such as /nacos is left out, see --context)
    #[arg(required_unless_present = "list")]
    url: Option<String>,
    /// Files of scenarios to play in place of the cases that come with this program
    files: Vec<PathBuf>,
    /// Another member of the server's cluster, for cases that need several; may be repeated
    #[arg(long, value_name = "URL")]
    peer: Vec<String>,
    /// The address of this machine at which this program joins the cluster; the server's list must have it
    #[arg(long, value_name = "IP:PORT")]
    member: Option<SocketAddr>,
    /// Logs in by this name and password
    #[arg(long, value_name = "USER:PASSWORD")]
    auth: Option<String>,
    /// Only cases whose id (SUITE/NAME) has a match of this expression
    #[arg(long, value_name = "PATTERN")]
    only: Option<Regex>,
    /// How far to go; core if not named (with --list: all)
    #[arg(long, value_enum)]
    level: Option<Level>,
    /// What is written to stdout
    #[arg(long, value_enum, default_value_t = Format::Text)]
    report: Format,
    /// The path before /v1, if it isn't /nacos; / for none
    #[arg(long, value_name = "PATH", default_value = "/nacos")]
    context: String,
    /// Prints ids, sentences and sources of the cases in place of playing them
    #[arg(long)]
    list: bool,
    /// How many cases at a time
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

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Json,
    Junit,
    Html,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let (stop, secrets) = (Stop::default(), Secrets::default());
    arguments.auth.iter().for_each(|login| secrets.keep_login(login));
    match run(&arguments, &stop, &secrets) {
        Ok(code) => code,
        Err(error) => {
            let why = match stop.reason() {
                Some(why) => format!("the run ended before it had begun: {why}"),
                None => format!("{error:#}"),
            };
            eprintln!("compat-tests: {}", secrets.hidden(&why));
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments, stop: &Stop, secrets: &Secrets) -> Result<ExitCode> {
    let own_files = !arguments.files.is_empty();
    let library =
        if own_files { Library::of_files(&arguments.files)? } else { Library::own(arguments.improved)? };
    // Without a level named, the list shows what there is at any.
    let level = if own_files || arguments.list { arguments.level } else { Some(arguments.level()) };
    let cases = library.cases(level.filter(|_| !own_files), arguments.only.as_ref());
    if cases.is_empty() {
        bail!("{}", nothing_chosen(&library, arguments));
    }
    if arguments.list {
        say(&list(&cases))?;
        return Ok(ExitCode::SUCCESS);
    }
    arguments.fit_together()?;
    let url = arguments.url.as_deref().context("no URL is given")?;
    stop_at_signals(stop)?;
    let meet = |url: &str, anything: bool| meet(url, arguments, anything, stop, secrets);
    let Greeting { target, mut has, login, members } = meet(url, own_files)?;
    stands_alone(arguments, members)?;
    let peers = arguments
        .peer
        .iter()
        .map(|peer| Ok(meet(peer, false).with_context(|| format!("--peer {peer}"))?.target));
    let peers = peers.collect::<Result<Vec<_>>>()?;
    if !peers.is_empty() {
        has.push(Need::Peers);
    }
    let member = join(arguments.member, &target, &peers)?;
    has.extend(member.iter().map(|_| Need::Member));

    let seed = arguments.seed.unwrap_or_else(fresh_seed);
    eprintln!("{} cases, order by --seed {seed}", cases.len());
    let progress = Progress::of(cases.len());
    let options = Options {
        jobs: usize::from(arguments.jobs),
        key_order: !arguments.no_order,
        pauses: if arguments.no_pauses { Pauses::NoneAfterWrites } else { Pauses::AsRecorded },
        seed,
    };
    let session = Session {
        target,
        peers,
        member,
        back_door: None,
        has,
        login,
        heeds_needs: !own_files,
        options,
        progress: &progress,
    };
    let begin = Instant::now();
    let outcome = progress.during(|| session.run(cases));
    let level =
        if own_files { "own files".to_owned() } else { format!("{:?}", arguments.level()).to_lowercase() };
    let mut run = Run { url: url.to_owned(), level, seed, took: begin.elapsed(), outcome };
    run.hide(secrets);
    report(&run, arguments)?;
    Ok(exit_code(&run))
}

impl Arguments {
    fn level(&self) -> Level {
        self.level.unwrap_or(Level::Core)
    }

    /// Refuses what would otherwise silently do nothing.
    fn fit_together(&self) -> Result<()> {
        let cluster = self.level() == Level::Cluster;
        ensure!(cluster || self.peer.is_empty(), "--peer is for --level cluster");
        ensure!(cluster || self.member.is_none(), "--member is for --level cluster");
        ensure!(
            self.files.is_empty() || !self.improved,
            "--improved names cases that come with this program, and files of your own are given"
        );
        let odd = |letter: char| letter.is_whitespace() || letter.is_control() || "?#".contains(letter);
        ensure!(!self.context.contains(odd), "--context {:?} is no path", self.context);
        Ok(())
    }
}

/// Why there is nothing to play.
fn nothing_chosen(library: &Library, arguments: &Arguments) -> String {
    let Some(only) = &arguments.only else { return "there are no cases in these files".to_owned() };
    let elsewhere = library.cases(None, Some(only));
    let least = elsewhere.iter().map(|case| case.facts.level).min();
    let what = format!("no case has an id with a match of --only {:?}", only.as_str());
    match least.map(|level| format!("{level:?}").to_lowercase()) {
        Some(level) => {
            let own = format!("{:?}", arguments.level()).to_lowercase();
            format!(
                "{what} at the level {own}; {} have at other levels: try --level {level}",
                elsewhere.len()
            )
        }
        None => format!("{what}; --list shows them all"),
    }
}

/// Writes to stdout; that nobody reads it to its end is no error.
fn say(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("can't write to stdout"),
        _ => Ok(()),
    }
}

/// Greets the server; one that only files of somebody's own are played against may be anything that listens.
fn meet(
    url: &str,
    arguments: &Arguments,
    anything: bool,
    stop: &Stop,
    secrets: &Secrets,
) -> Result<Greeting> {
    let target = Target::parse(url)?.under(&arguments.context).of_run(stop, secrets);
    if anything {
        target.probe()?;
        let target = match &arguments.auth {
            Some(auth) => logged_in(target, auth)?.0,
            None => target,
        };
        return Ok(Greeting { target, has: Vec::new(), login: None, members: 1 });
    }
    greet(target, arguments.auth.as_deref())
}

/// Says what becomes of cases for a server alone where the server isn't: a score of them would say nothing about it.
fn stands_alone(arguments: &Arguments, members: usize) -> Result<()> {
    let level = match arguments.level() {
        Level::Core => "core",
        Level::Full => "full",
        Level::Safe | Level::Cluster => return Ok(()),
    };
    if members < 2 {
        return Ok(());
    }
    let what = format!(
        "the server is one of {members} members of a cluster, and the level {level} is for one that stands alone: \
         persistent data, times, counts and its description of itself differ"
    );
    ensure!(
        arguments.only.is_some(),
        "{what}; play --level cluster with --peer URL for each other member, or choose cases by --only PATTERN"
    );
    eprintln!("{what}");
    Ok(())
}

/// Joins the cluster at that address, if one is given, and waits for members that have just started.
fn join(address: Option<SocketAddr>, target: &Target, peers: &[Target]) -> Result<Option<Member>> {
    if address.is_none() && peers.is_empty() {
        return Ok(None);
    }
    let all: Vec<Target> = std::iter::once(target).chain(peers).cloned().collect();
    let member = address.map(|address| Member::open(address, &all)).transpose()?;
    if let Some(joined) = &member {
        all.iter().try_for_each(|server| joined.join(server))?;
    }
    if let Some(each) = disagreement(&all, AGREES)? {
        eprintln!("after {} s, members still differ in who is healthy: {each}", AGREES.as_secs());
    }
    Ok(member)
}

/// Ctrl-C ends the run in an orderly way; a second one at once.
fn stop_at_signals(stop: &Stop) -> Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let interrupted = stop.interrupted();
        signal_hook::flag::register_conditional_shutdown(signal, 2, Arc::clone(interrupted))?;
        signal_hook::flag::register(signal, Arc::clone(interrupted))?;
    }
    Ok(())
}

fn report(run: &Run, arguments: &Arguments) -> Result<()> {
    say(&match arguments.report {
        Format::Text => text(run, arguments.verbose),
        Format::Json => json(run),
        Format::Junit => junit(run),
        Format::Html => html(run),
    })
}

fn exit_code(run: &Run) -> ExitCode {
    let counts = run.counts();
    if let Some(why) = &run.outcome.cut_off {
        eprintln!("compat-tests: the run ended before its end: {why}");
        ExitCode::from(2)
    } else if counts.failed > 0 {
        ExitCode::from(1)
    } else if counts.played() == 0 {
        let reasons = run.not_played();
        let most = reasons.iter().max_by_key(|(_, cases)| **cases);
        let why = most.map(|((_, why), _)| format!(": {why}")).unwrap_or_default();
        eprintln!("compat-tests: none of the chosen cases could be played{why}");
        ExitCode::from(2)
    } else {
        ExitCode::SUCCESS
    }
}
