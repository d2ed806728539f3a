//! The program as a person or a script runs it: what it prints and its exit codes.

#![allow(clippy::unwrap_used)] // a test's helpers are tests, too

mod fake;

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

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
    assert_eq!((code, stdout.lines().last()), (0, Some("1 cases: 1 as expected, 0 different")));
}

#[test]
fn a_difference_gives_1_and_is_named_with_its_place() {
    let (code, stdout, stderr) = play(ONE, &ONE.replace("1.0", "1"));
    assert_eq!(code, 1, "{stderr}");
    let lines: Vec<&str> = stdout.lines().map(str::trim_end).collect();
    assert_eq!(lines[0], "DIFFERENT stated/one");
    assert_eq!(lines[1], "  one");
    assert!(lines[2].starts_with("  step 0: GET /a?t"), "{stdout}");
    assert_eq!(&lines[3..6], ["    body /weight", "      want 1.0", "      got  1"]);
    assert_eq!(lines.last(), Some(&"1 cases: 0 as expected, 1 different"));
}

#[test]
fn a_difference_where_the_recording_has_a_fault_gives_0_and_is_named() {
    let fault = ONE.replacen("\"steps\"", "\"fault\": \"imp-1: rather 1\", \"steps\"", 1);
    let (code, stdout, _) = play(&fault, &ONE.replace("1.0", "1"));
    assert_eq!(code, 0);
    assert!(stdout.starts_with("not counted stated/one\n  imp-1: rather 1\n"), "{stdout}");
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
    assert!(stderr.contains("--only \"no such scenario\"; --list shows them all"), "{stderr}");
    let (code, _, stderr) = nobody(&["--level", "safe", "--only", "^beat-timing/"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("at the level safe; ") && stderr.contains("try --level core"), "{stderr}");
    for (arguments, why) in [
        (&["--peer", "http://127.0.0.1:1"][..], "--peer is for --level cluster"),
        (&["--member", "127.0.0.1:1", "--level", "full"], "--member is for --level cluster"),
        (&["--context", "/a b"], "--context \"/a b\" is no path"),
        (&["--only", "("], "--only"),
    ] {
        let (code, _, stderr) = nobody(arguments);
        assert!(code == 2 && stderr.contains(why), "{arguments:?}: {stderr}");
    }
    assert_eq!(nobody(&["--jobs", "0"]).0, 2);
}

/// Something that listens, and answers what was sent as `answer` says; nobody listens any more once that is `None`.
fn listener(mut answer: impl FnMut(&str) -> Option<Vec<u8>> + Send + 'static) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        loop {
            let (mut stream, _) = listener.accept().unwrap();
            let mut data = [0; 8192];
            let count = stream.read(&mut data).unwrap_or(0);
            if count == 0 {
                continue; // only looked whether anybody listens
            }
            let Some(bytes) = answer(&String::from_utf8_lossy(&data[..count])) else { break };
            let _ = stream.write_all(&bytes);
        }
    });
    url
}

/// Answers everything the same way.
fn always(answer: &'static [u8]) -> String {
    listener(|_| Some(answer.to_vec()))
}

fn http(head: &str, body: &str) -> Option<Vec<u8>> {
    Some(format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes())
}

#[test]
fn a_target_that_is_no_such_server_gives_2_and_one_line_that_says_what_it_is() {
    let cases: [(&[u8], &str); 7] = [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", "this is no Nacos 1.x server"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "this is no Nacos 1.x server"),
        (
            b"HTTP/1.1 302 Found\r\nLocation: http://a/b\r\nContent-Length: 0\r\n\r\n",
            "redirects to http://a/b",
        ),
        (b"\x15\x03\x01\x00\x02\x02\x16", "speaks TLS"),
        (b"SSH-2.0-x\r\n", "doesn't speak HTTP"),
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno", "wants a login: give --auth"),
        (b"HTTP/1.1 503 x\r\nContent-Length: 6\r\n\r\nisn't!", "says that it isn't UP"),
    ];
    for (answer, what) in cases {
        let (code, stdout, stderr) = run(&always(answer), &[]);
        assert_eq!((code, &*stdout), (2, ""), "{stderr}");
        assert!(stderr.contains(what) && stderr.lines().count() == 1, "{what}: {stderr}");
    }
    let (code, _, stderr) = run("https://127.0.0.1", &[]);
    assert!(code == 2 && stderr.contains("is TLS"), "{stderr}");
}

#[test]
fn the_list_of_cases_needs_no_server() {
    let output = Command::new(env!("CARGO_BIN_EXE_compat-tests")).arg("--list").output().unwrap();
    let list = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert!(list.starts_with("auth-login/login\n    A login gives a token"), "{list}");
    assert!(
        list.contains("\n    Nacos 1.4.8 naming module, push service [core, weight 3; Java 1.4.x, "),
        "{list}"
    );
    assert!(list.contains("; needs authentication]\n"), "{list}");
    for level in ["[safe,", "[core,", "[full,", "[cluster,"] {
        assert!(list.contains(level), "{level}");
    }
    let safe = Command::new(env!("CARGO_BIN_EXE_compat-tests")).args(["--list", "--level", "safe"]).output();
    let safe = String::from_utf8(safe.unwrap().stdout).unwrap();
    assert!(safe.contains("[safe,") && !safe.contains("[core,"), "{safe}");
}

/// A server that answers every list of instances under `context` as a naming server does, and everything else 404; after
/// so many requests nobody listens any more.
fn naming_server(context: &'static str, requests: usize) -> String {
    let mut answered = 0;
    listener(move |request| {
        answered += 1;
        let list = request.contains(&format!(" {context}/v1/ns/instance/list?"));
        let (status, body) = if list { ("200 OK", r#"{"hosts":[]}"#) } else { ("404 x", "") };
        if answered > requests {
            None
        } else {
            http(&format!("{status}\r\nContent-Type: application/json"), body)
        }
    })
}

#[test]
fn a_server_that_dies_half_way_gives_2_and_what_was_learned_until_then() {
    let (code, stdout, stderr) = run(&naming_server("/nacos", 40), &["--level", "safe", "--jobs", "2"]);
    assert_eq!(code, 2, "{stderr}");
    let why = "the run ended before its end: the server doesn't answer any more";
    assert!(stderr.contains(why) && stdout.contains(why), "{stderr}{stdout}");
    assert!(stdout.contains("\nby family\n") && stdout.contains("DIFFERENT "), "{stdout}");
    assert!(stdout.contains("not played: "), "{stdout}");
}

#[test]
fn a_server_that_hangs_half_way_gives_2_within_a_minute() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let list = r#"{"hosts":[]}"#;
        let mut held = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            if held.len() < 20 {
                let _ = stream.read(&mut [0; 8192]);
                let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{list}", list.len());
                held.push(None);
            } else {
                held.push(Some(stream));
            }
        }
    });
    let begin = Instant::now();
    let (code, stdout, stderr) = run(&url, &["--level", "safe"]);
    assert_eq!(code, 2, "{stderr}");
    let why = "the run ended before its end: the server doesn't answer any more";
    assert!(stderr.contains(why) && stdout.contains("not played: "), "{stderr}{stdout}");
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
}

#[test]
fn a_server_under_another_context_path_is_told_from_none_at_all() {
    let (code, stdout, stderr) = run(&naming_server("", 100), &[]);
    assert_eq!((code, &*stdout), (2, ""), "{stderr}");
    assert!(
        stderr.contains("nothing of Nacos stands under /nacos, but under /: give --context /"),
        "{stderr}"
    );
    let (code, _, stderr) = run(&naming_server("/naming", 100), &[]);
    assert!(code == 2 && stderr.contains("if it stands under another path, give --context PATH"), "{stderr}");
    let only = ["--context", "/naming", "--only", "^http-bytes/short-connections$"];
    assert_eq!(run(&naming_server("/naming", 1_000), &only).0, 0);
}

#[test]
fn a_member_that_cannot_be_one_gives_2_and_the_reason() {
    let join =
        |member: &str| run(&naming_server("/nacos", 1_000), &["--level", "cluster", "--member", member]);
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let (code, _, stderr) = join(&taken.local_addr().unwrap().to_string());
    assert!(code == 2 && stderr.contains("can't listen as the member 127.0.0.1:"), "{stderr}");
    let peer = ["--level", "cluster", "--peer", "http://127.0.0.1:1"];
    let (code, _, stderr) = run(&naming_server("/nacos", 9), &peer);
    assert!(
        code == 2 && stderr.contains("--peer http://127.0.0.1:1: can't connect to 127.0.0.1:1"),
        "{stderr}"
    );
    assert_eq!(join("no address").0, 2);
}

#[test]
fn what_a_server_does_not_offer_is_named_apart_and_never_counted() {
    let (code, stdout, stderr) = run(&naming_server("/nacos", 1_000), &["--only", "^auth-login/"]);
    assert_eq!(code, 2, "{stderr}");
    let why = "none of the chosen cases could be played: authentication: nothing asks for a login";
    assert!(stderr.contains(why), "{stderr}");
    assert!(stdout.contains("not offered: 2 cases: authentication: nothing asks for a login"), "{stdout}");
    assert!(stdout.contains("0 cases: 0 as expected, 0 different"), "{stdout}");
}

/// A node of a cluster of three, which answers lists of instances and of nodes, and 404 else.
fn node() -> String {
    listener(|request| {
        if request.contains(" /nacos/v1/ns/instance/list?") {
            http("200 OK", r#"{"hosts":[]}"#)
        } else if request.contains(" /nacos/v1/core/cluster/nodes ") {
            let nodes = r#"{"code":200,"data":[{"ip":"10.0.0.1"},{"ip":"10.0.0.2"},{"ip":"10.0.0.3"}]}"#;
            http("200 OK", nodes)
        } else {
            http("404 x", "")
        }
    })
}

#[test]
fn a_member_of_a_cluster_is_not_scored_as_a_server_alone() {
    for level in ["core", "full"] {
        let (code, stdout, stderr) = run(&node(), &["--level", level]);
        assert_eq!((code, &*stdout), (2, ""), "{stderr}");
        let what =
            format!("one of 3 members of a cluster, and the level {level} is for one that stands alone");
        assert!(stderr.contains(&what) && stderr.lines().count() == 1, "{stderr}");
    }
    let only = ["--only", "^http-bytes/short-connections$"];
    let (code, _, stderr) = run(&node(), &only);
    assert!(code == 0 && stderr.contains("the server is one of 3 members of a cluster"), "{stderr}");
    let (code, _, stderr) = run(&node(), &[&only[..], &["--level", "safe"]].concat());
    assert!(code == 0 && !stderr.contains("members"), "{stderr}");
}

/// A server that lists instances for the one token that it gives to `nacos` with the password `right`.
fn locked_server() -> String {
    listener(|request| {
        if request.contains("/auth/login?username=nacos&password=right ") {
            http("200 OK", r#"{"accessToken":"good"}"#)
        } else if request.contains("/auth/login?") {
            http("403 Forbidden", "unknown user!")
        } else if request.contains("Bearer good") {
            http("200 OK", r#"{"name":"","clusters":"","cacheMillis":3000,"hosts":[]}"#)
        } else {
            http("403 Forbidden", r#"{"status":403}"#)
        }
    })
}

#[test]
fn a_wrong_login_gives_2_and_one_line_and_a_right_one_is_used() {
    for (auth, user) in [("nacos:wrong", "nacos"), ("who:right", "who")] {
        let (code, stdout, stderr) = run(&locked_server(), &["--auth", auth]);
        assert_eq!((code, &*stdout), (2, ""), "{stderr}");
        let refused = format!("the login as \"{user}\" is refused: 403 unknown user!");
        assert!(stderr.contains(&refused) && stderr.lines().count() == 1, "{stderr}");
    }
    let (code, _, stderr) = run(&locked_server(), &["--auth", "nobody"]);
    assert!(code == 2 && stderr.contains("--auth is not of the form USER:PASSWORD"), "{stderr}");
    let login = ["--auth", "nacos:right", "--only", "^auth-login/login$"];
    let (code, stdout, stderr) = run(&locked_server(), &login);
    assert!(
        code == 1 && stdout.contains("POST /nacos/v1/auth/login?username=nacos&password=***\n"),
        "{stdout}{stderr}"
    );
    let right = ["--auth", "nacos:right", "--only", "^list/unknown-service$"];
    let (code, stdout, stderr) = run(&locked_server(), &right);
    assert!(code < 2 && stdout.contains("\n1 cases: "), "it was played: {stdout}{stderr}");
}

/// A server that gives a token to everybody, and in everything that it says repeats what it was asked and shown.
fn telltale() -> String {
    listener(|request| {
        let echo: String = request.chars().filter(|c| !"\"\\\r\n".contains(*c)).collect();
        let body = if request.contains("/auth/login?") {
            format!(r#"{{"accessToken":"opaque-token-1","echo":"{echo}"}}"#)
        } else {
            format!(r#"{{"name":"{echo}","clusters":"","cacheMillis":"{echo}","hosts":[]}}"#)
        };
        let echo: String = echo.chars().take(500).collect();
        http(&format!("200 OK\r\nContent-Type: x/{echo}\r\nVary: {echo}"), &body)
    })
}

#[test]
fn neither_the_password_nor_a_token_is_in_any_report_or_error() {
    let auth = ["--auth", "boss:hunter 2/secret"];
    let shown = |text: &str| {
        let secrets = ["hunter", "opaque-token", "Ym9zczpodW50ZXI", "Bearer opaque", "Bearer%20opaque"];
        secrets.into_iter().find(|secret| text.contains(secret)).map(str::to_owned)
    };
    for format in ["text", "json", "junit", "html"] {
        let only = ["--only", "^(list/|auth-login/|http-wire/)", "-v", "--report", format];
        let (code, stdout, stderr) = run(&telltale(), &[&auth[..], &only].concat());
        assert_eq!(code, 1, "{stderr}");
        assert!(stdout.contains("***"), "{stdout}");
        assert_eq!((shown(&stdout), shown(&stderr)), (None, None), "{format}: {stdout}{stderr}");
    }
    let refuses: &[u8] = b"HTTP/1.1 403 x\r\nContent-Length: 28\r\n\r\nboss with hunter 2/secret? no";
    let (code, _, stderr) = run(&always(refuses), &auth);
    assert!(code == 2 && stderr.contains("is refused: 403 boss with ***"), "{stderr}");
    let (code, _, stderr) = run("http://boss:hunter2@127.0.0.1:1", &[]);
    assert!(code == 2 && stderr.contains("has a login in it") && shown(&stderr).is_none(), "{stderr}");
}

#[test]
fn files_of_ones_own_are_played_with_a_login_too() {
    let folder = tempfile::tempdir().unwrap();
    let list = r#"[{"name": "list", "steps": [{"request": "GET /nacos/v1/ns/instance/list?serviceName=${run}",
        "response": {"status": 200, "body": "{\"name\":\"\",\"clusters\":\"\",\"cacheMillis\":3000,\"hosts\":[]}"}}]}]"#;
    let file = file(folder.path(), "own.json", list);
    let file = file.to_str().unwrap();
    assert_eq!(run(&locked_server(), &[file, "--auth", "nacos:right"]).0, 0);
    assert_eq!(run(&locked_server(), &[file]).0, 1);
    let (code, _, stderr) = run(&locked_server(), &[file, "--auth", "nacos:wrong"]);
    assert!(code == 2 && stderr.contains("is refused: 403"), "{stderr}");
}

#[test]
fn one_who_reads_only_the_beginning_of_a_report_is_no_trouble() {
    use std::process::Stdio;
    let program =
        Command::new(env!("CARGO_BIN_EXE_compat-tests")).arg("--list").stdout(Stdio::piped()).spawn();
    let mut program = program.unwrap();
    let mut first = [0; 10];
    program.stdout.take().unwrap().read_exact(&mut first).unwrap();
    assert_eq!((program.wait().unwrap().code(), &first), (Some(0), b"auth-login"));
}

#[test]
fn what_a_server_says_stays_within_its_element_in_junit_and_html() {
    let folder = tempfile::tempdir().unwrap();
    let odd = ONE.replace("\"one\"", "\"o<n>&e'\"");
    let stated = file(folder.path(), "sta<ted>.json", &odd);
    let evil =
        odd.replace("{\\\"weight\\\":1.0}", "</pre></failure>]]><script>alert(1)</script>\\u0001&amp;");
    let evil = load(&file(folder.path(), "server.json", &evil)).unwrap().scenarios.remove(0);
    for format in ["junit", "html"] {
        let arguments = [stated.to_str().unwrap(), "--report", format];
        let (code, stdout, stderr) = run(&fake::serve(evil.clone()), &arguments);
        assert_eq!(code, 1, "{stderr}");
        assert!(stdout.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{stdout}");
        for left in ["<script", "]]>", "<n>", "\u{1}"] {
            assert!(!stdout.contains(left), "{format}, {left}: {stdout}");
        }
        let (opened, closed) = ("<failure", "</failure>");
        assert!(
            format == "html" || stdout.matches(opened).count() == 1 && stdout.matches(closed).count() == 1
        );
    }
}
