//! How the process starts and ends: what it says, what it waits for, its exit code.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    process::Command,
    time::{Duration, Instant},
};

use support::{
    http::{authority, call},
    server::{Home, Server, refused, start_with_files},
};

/// What takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server that stops, and would go on doing so for minutes: the head of a request is under way. It was told to (SIGTERM)
/// after the moment that is given.
fn stopping() -> (Server, TcpStream, Instant) {
    let settings = ["nacre.stop.grace-ms=600000", "nacre.http.head-timeout-ms=600000"];
    let server = Server::start_in(Home::new(), &settings);
    let authority = authority(server.url()).to_owned();
    let mut under_way = TcpStream::connect(&authority).unwrap();
    under_way.write_all(b"GET /livez HTTP/1.1\r\nHost: test\r\n").unwrap();
    // A second connection shows that the first one has been accepted.
    assert_eq!(call(server.url(), "GET", "/v1/ns/service/list?pageNo=1&pageSize=1").unwrap().0, 200);
    let before = Instant::now();
    server.terminate();
    let end = before + PATIENCE;
    while TcpStream::connect(&authority).is_ok() {
        assert!(Instant::now() < end, "it still takes connections");
    }
    (server, under_way, before)
}

#[test]
fn another_signal_ends_the_process_at_once() {
    let (server, mut under_way, _) = stopping();
    let (status, home) = server.stop_by("INT");
    assert_eq!(status.code(), Some(130), "{}", home.stderr());
    assert!(home.stderr().contains("told again: ending at once"), "{}", home.stderr());
    let mut answer = Vec::new();
    let _ = under_way.read_to_end(&mut answer);
    assert_eq!(answer, b"");
}

#[test]
fn the_same_signal_ends_it_when_a_second_has_passed() {
    let (server, _under_way, before) = stopping();
    let (status, home) = server.stop_by_repeating("TERM");
    assert_eq!(status.code(), Some(143), "{}", home.stderr());
    assert!(home.stderr().contains("told again: ending at once"), "{}", home.stderr());
    let lasted = before.elapsed();
    assert!(lasted >= Duration::from_secs(1), "ended by a repetition after {lasted:?}");
}

#[test]
fn the_reason_of_a_refusal_is_the_last_line() {
    let holder = std::net::TcpListener::bind("127.0.95.1:0").unwrap();
    let port = holder.local_addr().unwrap().port();
    let reason = format!(
        "nacre doesn't start: can't listen on 127.0.95.1:{port} (server.address, server.port): another server is running \
         there; stop it, or take another port"
    );
    for format in ["text", "json"] {
        let home = Home::new();
        let settings = [
            "server.address=127.0.95.1".to_owned(),
            format!("server.port={port}"),
            format!("nacre.log.format={format}"),
        ];
        let (status, said) = refused(&home.data(), &settings.each_ref().map(String::as_str));
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(said.contains("settings file"), "{said}");
        let last = said.lines().last().unwrap();
        match format {
            "text" => assert_eq!(last, reason, "{said}"),
            _ => {
                let object: serde_json::Value = serde_json::from_str(last).expect(last);
                assert_eq!(
                    (&object["level"], &object["message"]),
                    (&"ERROR".into(), &reason.as_str().into())
                );
            }
        }
    }
}

#[test]
fn a_server_without_members_says_so_and_that_it_has_stopped() {
    let (status, home) = Server::start().stop();
    assert!(status.success());
    let said = home.stderr();
    let serving = said.lines().find(|line| line.contains("serving")).unwrap();
    // The settings that lie where the tests run are found, and the list is looked for beside them.
    let why = "why=no list of members in ./conf/cluster.conf";
    assert!(serving.contains(": serving alone ") && serving.ends_with(why), "{serving}");
    assert!(said.lines().last().unwrap().ends_with("stopped: all is in order"), "{said}");
}

#[test]
fn room_for_a_thousand_connections_is_no_news() {
    let said = start_with_files(&Home::new(), 2_000).unwrap();
    assert!(!said.contains("open files"), "{said}");
    let said = start_with_files(&Home::new(), 1_000).unwrap();
    assert!(said.contains("the limit of open files leaves room for 936 connections"), "{said}");
}

#[test]
fn a_stop_ends_idle_connections_at_once() {
    let server = Server::start();
    let mut idle = TcpStream::connect(authority(server.url())).unwrap();
    idle.set_read_timeout(Some(PATIENCE)).unwrap();
    idle.write_all(b"GET /livez HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    idle.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    let (status, home) = server.stop();
    assert!(status.success());
    assert!(!home.stderr().contains("cut off"), "{}", home.stderr());
}

#[test]
fn a_server_that_is_drained_ends_like_one_that_is_terminated() {
    let server = Server::start();
    let drain = |timeout: &str| {
        let words = ["drain", "--url", server.url(), "--timeout", timeout];
        Command::new(env!("CARGO_BIN_EXE_nacre")).args(words).env_clear().output().unwrap()
    };
    let mistyped = format!("{}x", server.url().trim_end_matches("/nacos"));
    let words = ["drain", "--url", &mistyped];
    let refused = Command::new(env!("CARGO_BIN_EXE_nacre")).args(words).env_clear().output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("is no address of a node") && refused.status.code() == Some(2), "{refused:?}");
    let drained = drain("30");
    assert!(drained.status.success(), "{drained:?}");
    assert_eq!(drain("30").status.code(), Some(1), "it listens no more");
    let (status, home) = server.ended();
    assert!(status.success(), "{status}\n{}", home.stderr());
    assert!(home.stderr().contains("drained from its own host; stopping"), "{}", home.stderr());
}

#[test]
fn nobody_needs_to_read_the_ready_line() {
    let server = Server::start_unread(Home::new());
    let url = server.url().to_owned();
    assert_eq!(call(&url, "POST", "/v1/ns/instance?serviceName=a&ip=10.0.0.1&port=80").unwrap().0, 200);
    let (status, home) = server.stop();
    assert!(status.success());
    assert!(home.stderr().contains("the ready line can't be written"), "{}", home.stderr());
    assert!(!home.stderr().contains("panicked"), "{}", home.stderr());
}

#[test]
fn a_start_that_fails_leaves_the_store_alone() {
    let mut lacked_files = 0;
    // With too few files one part after the other can't be had, then it can't serve well, until it serves.
    for most_files in 4..100 {
        let home = Home::new();
        let said = match start_with_files(&home, most_files) {
            Err(said) => said,
            Ok(said) => {
                assert!(lacked_files > 0, "no start was refused for want of files");
                let warning = said.lines().find(|line| line.contains("WARN") && line.contains("open files"));
                let warning = warning.unwrap_or_else(|| panic!("it doesn't warn:\n{said}"));
                assert!(warning.contains("ulimit -n, LimitNOFILE"), "{warning}");
                return;
            }
        };
        assert!(!home.data().exists(), "its store was opened");
        let limit = format!(
            "nacre doesn't start: the limit of open files (ulimit -n) is {most_files}, and at least 80"
        );
        if said.contains(&limit) {
            lacked_files += 1;
        }
    }
    panic!("it never serves");
}

#[test]
fn stored_services_leave_one_line_at_start_and_each_new_one_its_own() {
    let server = Server::start();
    for number in 0..10 {
        let made = call(server.url(), "POST", &format!("/v1/ns/service?serviceName=s{number}")).unwrap();
        assert_eq!(made, (200, "ok".into()));
    }
    let (_, home) = server.stop();
    let made = |home: &Home| home.stderr().matches("service made").count();
    assert_eq!(made(&home), 10, "{}", home.stderr());
    let (_, home) = Server::start_in(home, &[]).stop();
    assert_eq!(made(&home), 10, "{}", home.stderr());
    assert!(home.stderr().contains("the store is loaded records=10 services=10"), "{}", home.stderr());
}
