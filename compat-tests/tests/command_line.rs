//! The program as a person or a script runs it: what it prints and its exit codes.

#![allow(clippy::unwrap_used)] // a test's helpers are tests, too

mod fake;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use compat_tests::golden::load;

const ONE: &str = r#"[{"name": "one", "steps": [
    {"request": "GET /a?${run}", "response": {"status": 200, "body": "{\"weight\":1.0}"}}]}]"#;

fn file(folder: &Path, name: &str, text: &str) -> PathBuf {
    let file = folder.join(name);
    std::fs::write(&file, text).unwrap();
    file
}

fn run(url: &str, arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_compat-tests")).arg(url).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// Plays `stated` against a server that does as `server` says.
fn play(stated: &str, server: &str) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let stated = file(folder.path(), "stated.json", stated);
    let script = load(&file(folder.path(), "server.json", server)).unwrap().scenarios.remove(0);
    run(&fake::serve(script), &[stated.to_str().unwrap()])
}

#[test]
fn a_server_that_does_as_stated_gives_0() {
    let (code, stdout, _) = play(ONE, ONE);
    assert_eq!((code, stdout.as_str()), (0, "1 scenarios: 1 as expected, 0 different\n"));
}

#[test]
fn a_difference_gives_1_and_is_named_with_its_place() {
    let (code, stdout, stderr) = play(ONE, &ONE.replace("1.0", "1"));
    assert_eq!(code, 1, "{stderr}");
    let lines: Vec<&str> = stdout.lines().map(str::trim_end).collect();
    assert_eq!(lines[0], "DIFFERENT stated/one");
    assert!(lines[1].starts_with("  step 0: GET /a?t"), "{stdout}");
    assert_eq!(&lines[2..5], ["    body /weight", "      want 1.0", "      got  1"]);
    assert_eq!(lines[5], "1 scenarios: 0 as expected, 1 different");
}

#[test]
fn a_difference_where_the_recording_has_a_fault_gives_0_and_is_named() {
    let fault = ONE.replacen("\"steps\"", "\"fault\": \"imp-1: rather 1\", \"steps\"", 1);
    let (code, stdout, _) = play(&fault, &ONE.replace("1.0", "1"));
    assert_eq!(code, 0);
    assert!(stdout.starts_with("not counted stated/one\n  imp-1: rather 1\n1 scenarios: "), "{stdout}");
}

#[test]
fn what_cannot_be_tried_gives_2_and_the_reason() {
    let nobody = |arguments: &[&str]| run("http://127.0.0.1:1", arguments);
    let (code, _, stderr) = nobody(&[]);
    assert_eq!(code, 2);
    assert!(stderr.contains("can't connect to 127.0.0.1:1"), "{stderr}");
    let (code, _, stderr) = nobody(&["no-such-file.json"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("can't read no-such-file.json"), "{stderr}");
    let (code, _, stderr) = nobody(&["--only", "no such scenario"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("no scenario is chosen"), "{stderr}");
    assert_eq!(nobody(&["--jobs", "0"]).0, 2);
    assert_eq!(run("https://127.0.0.1", &[]).0, 2);
}
