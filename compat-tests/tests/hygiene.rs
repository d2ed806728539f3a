//! However a run ends, the server is as it was found, or it is said what isn't.

#![allow(clippy::disallowed_types, reason = "threads without a runtime: std's own locks will do")]
#![allow(clippy::disallowed_methods, reason = "the moment of a signal is awaited by looking")]
#![allow(clippy::unwrap_used)] // a test's helpers are tests, too

mod keeper;

use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use keeper::Keeper;

/// Starts the program against that server.
fn start(keeper: &Keeper, arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_compat-tests"))
        .arg(keeper.url())
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Waits until it is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < end, "{what} didn't come");
        thread::sleep(Duration::from_millis(10));
    }
}

fn texts(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_signal_in_the_middle_of_a_level_leaves_the_server_as_it_was() {
    // At how many requests it comes: among many cases, and among those that set switches.
    for (level, name, only, after) in [
        ("core", "INT", "^(instance|catalog|push)", 150),
        ("core", "TERM", "^(service|core-console)", 400),
        ("full", "HUP", "^operator-switches/", 40),
        ("full", "INT", "^operator-switch-effects/", 25),
        ("safe", "TERM", "", 40),
    ] {
        let keeper = Keeper::open();
        let before = keeper.snapshot();
        keeper.hold_answers_after(Some(after));
        let child = start(&keeper, &["--level", level, "--only", only]);
        until("the middle of the level", || keeper.requests() > after);
        let changed = keeper.snapshot() != before;
        assert!(changed || level == "safe" || keeper.has_made_something(), "{level}: nothing was made yet");
        signal(&child, name);
        keeper.hold_answers_after(None);
        let begin = Instant::now();
        let (code, stdout, stderr) = texts(child.wait_with_output().unwrap());
        assert_eq!(code, Some(2), "{level} {name}: {stderr}");
        assert!(begin.elapsed() < Duration::from_secs(40), "{level} {name}: {:?}", begin.elapsed());
        assert!(stderr.contains("the run ended before its end: interrupted"), "{stderr}");
        assert!(stdout.contains("by family") && stdout.contains("the run ended before"), "{stdout}");
        assert_eq!(keeper.snapshot(), before, "{level} {name}: {stdout}");
        assert!(!stdout.contains("left behind"), "{level} {name}: {stdout}");
    }
}

#[test]
fn a_signal_while_the_server_is_greeted_ends_the_run_at_once() {
    let keeper = Keeper::open();
    keeper.hold_answers_after(Some(0));
    let child = start(&keeper, &["--level", "full"]);
    until("the greeting", || keeper.requests() > 0);
    signal(&child, "INT");
    let begin = Instant::now();
    let (code, stdout, stderr) = texts(child.wait_with_output().unwrap());
    assert_eq!((code, &*stdout), (Some(2), ""), "{stderr}");
    assert!(stderr.contains("ended before it had begun: interrupted"), "{stderr}");
    assert!(begin.elapsed() < Duration::from_secs(7), "{:?}", begin.elapsed());
}

#[test]
fn what_a_server_that_dies_may_keep_is_named() {
    let keeper = Keeper::open();
    let child = start(&keeper, &["--level", "full", "--only", "^operator-switches/", "--report", "junit"]);
    until("a changed switch", || keeper.has_set_switches());
    keeper.die();
    let (code, stdout, stderr) = texts(child.wait_with_output().unwrap());
    assert_eq!(code, Some(2), "{stderr}");
    let why = "the server doesn&#39;t answer any more";
    assert!(stdout.contains(&format!("<error message=\"{why}\" type=\"cut off\"/>")), "{stdout}");
    let keeper = Keeper::open();
    let child = start(&keeper, &["--level", "full", "--only", "^operator-switches/"]);
    until("a changed switch", || keeper.has_set_switches());
    keeper.die();
    let (code, stdout, _) = texts(child.wait_with_output().unwrap());
    assert_eq!(code, Some(2));
    assert!(stdout.contains("left behind: the switches or the status"), "{stdout}");
}

#[test]
fn two_runs_at_once_leave_nothing_and_disturb_nobody() {
    let keeper = Keeper::open();
    let before = keeper.snapshot();
    let only = ["--only", "^(instance-register|service-crud|core-console|list)/"];
    let results = || {
        let (one, other) = (start(&keeper, &only), start(&keeper, &only));
        let [one, other] = [one, other].map(|child| texts(child.wait_with_output().unwrap()));
        (one.1, other.1)
    };
    let names = |report: &str| -> Vec<String> {
        let failed = report.lines().filter(|line| line.starts_with("DIFFERENT "));
        failed.map(str::to_owned).collect()
    };
    let (one, other) = results();
    assert_eq!(names(&one), names(&other));
    assert!(!one.contains("left behind") && !other.contains("left behind"), "{one}{other}");
    assert_eq!(keeper.snapshot(), before);
}
