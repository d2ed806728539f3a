//! A run must leave a server as it found it, however it ends: it is ended by signals in the middle of each level, and two are
//! started at once.

use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::golden::HttpRequest;
use crate::json::{Json, parse};
use crate::restore;
use crate::target::Target;

/// Levels, and after how many seconds of a run which signal comes.
const ENDINGS: [(&str, &str, u64); 9] = [
    ("safe", "INT", 1),
    ("core", "INT", 2),
    ("core", "TERM", 12),
    ("core", "HUP", 30),
    ("full", "TERM", 5),
    ("full", "INT", 45),
    ("full", "HUP", 60),
    ("full", "TERM", 70),
    ("full", "INT", 80),
];

/// So long a run may take to tidy up.
const TIDY: Duration = Duration::from_secs(120);

/// Within this time a removal has to be visible.
const VISIBLE: Duration = Duration::from_secs(20);

/// Tries it by the program beside this one; tells how often the server wasn't as before, or the run ended otherwise than it should.
///
/// # Errors
/// If the server can't be asked, or the program can't be started.
pub fn hygiene(url: &str) -> Result<usize> {
    let server = Target::parse(url)?;
    let before = snapshot(&server)?;
    let mut wrong = 0;
    let mut tell = |what: &str, ended_well: bool, how: &str| -> Result<()> {
        let end = Instant::now() + VISIBLE;
        let mut after = snapshot(&server)?;
        while after != before && Instant::now() < end {
            thread::sleep(Duration::from_millis(500)); // asking is the only way to learn of it
            after = snapshot(&server)?;
        }
        let as_before = after == before;
        println!("{what}: {how}, {}", if as_before { "as before" } else { "NOT AS BEFORE" });
        if !as_before {
            println!("  before {before}\n  after  {after}");
        }
        wrong += usize::from(!(as_before && ended_well));
        Ok(())
    };
    for (level, signal, seconds) in ENDINGS {
        let mut run = start(url, level)?;
        thread::sleep(Duration::from_secs(seconds));
        let ended_before = run.try_wait()?.is_some();
        let sent = Command::new("kill").args(["-s", signal, &run.id().to_string()]).status()?;
        ensure!(ended_before || sent.success(), "the signal couldn't be sent");
        let began = Instant::now();
        let status = ended(run)?;
        let well = ended_before || status.code() == Some(2);
        let how = format!("{}, {} s after the signal", shown(status), began.elapsed().as_secs());
        tell(&format!("{level}, {signal} after {seconds} s"), well, &how)?;
    }
    let runs = [start(url, "core")?, start(url, "core")?];
    let statuses = runs.into_iter().map(ended).collect::<Result<Vec<_>>>()?;
    let well = statuses.iter().all(|status| status.code() == Some(0));
    let how: Vec<String> = statuses.into_iter().map(shown).collect();
    tell("two runs of core at once", well, &how.join(" and "))?;
    Ok(wrong)
}

fn start(url: &str, level: &str) -> Result<Child> {
    let program = std::env::current_exe()?.with_file_name("compat-tests");
    let shown = program.display().to_string();
    let mut command = Command::new(program);
    command.args([url, "--level", level]).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().with_context(|| format!("can't start {shown}"))
}

fn ended(mut run: Child) -> Result<ExitStatus> {
    let end = Instant::now() + TIDY + TIDY;
    loop {
        if let Some(status) = run.try_wait()? {
            return Ok(status);
        }
        if Instant::now() > end {
            run.kill()?;
        }
        thread::sleep(Duration::from_millis(100));
    }
}

fn shown(status: ExitStatus) -> String {
    status.code().map_or_else(|| status.to_string(), |code| format!("exit code {code}"))
}

/// Services by namespace, namespaces, switches.
fn snapshot(server: &Target) -> Result<String> {
    let ask = |path: &str| -> Result<Json> {
        let answer = server.send(&HttpRequest::new("GET", path, Duration::from_secs(30)))?;
        ensure!(answer.status == 200, "{path} was answered {}", answer.status);
        parse(&answer.body).ok().with_context(|| format!("{path} wasn't answered by JSON"))
    };
    let names = ask("/nacos/v1/ns/service/names")?;
    let services = match names.get("services") {
        Some(Json::Object(spaces)) => spaces.clone(),
        _ => Vec::new(),
    };
    // A namespace of which somebody spoke once may stay, without a service.
    let in_order = |(space, names): (String, Json)| match names {
        Json::List(mut names) if !names.is_empty() => {
            names.sort();
            Some(format!("{space}: {}", Json::List(names)))
        }
        _ => None,
    };
    let mut services: Vec<String> = services.into_iter().filter_map(in_order).collect();
    services.sort();
    let spaces = match ask("/nacos/v1/console/namespaces")?.get("data") {
        Some(Json::List(spaces)) => {
            spaces.iter().filter_map(|one| Some(one.get("namespace")?.written())).collect()
        }
        _ => Vec::new(),
    };
    let switches = restore::unset_alike(&restore::switches(server)?);
    Ok(format!("services {services:?}, namespaces {spaces:?}, switches {switches}"))
}
