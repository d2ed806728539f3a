//! A server whose answers never end costs a bounded time and a bounded space, and it is said what it does.

#![allow(clippy::unwrap_used)] // a test's helpers are tests, too
#![allow(clippy::disallowed_methods, reason = "the server that is played drips")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use compat_tests::golden::{HttpRequest, RawExchange};
use compat_tests::target::Target;

/// Answers everybody by `head`, then without end by a piece each time that so much has passed.
fn endless(head: &'static str, piece: &'static [u8], pause: Duration) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = move |mut stream: TcpStream| {
        let _ = stream.read(&mut [0; 8192]);
        let _ = stream.write_all(head.as_bytes());
        while stream.write_all(piece).is_ok() {
            thread::sleep(pause);
        }
    };
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || answer(stream.unwrap()));
        }
    });
    url
}

const DRIP: Duration = Duration::from_millis(50);

/// What takes so long on a busy machine would take for ever.
const NEVER: Duration = Duration::from_secs(30);

/// What the answer to a request that may take 3 s is said to be, and how long that took.
fn asked(url: &str) -> (String, Duration) {
    let begin = Instant::now();
    let request = HttpRequest::new("GET", "/nacos/v1/ns/x", Duration::from_secs(3));
    let error = Target::parse(url).unwrap().send(&request).unwrap_err();
    (format!("{error:#}"), begin.elapsed())
}

#[test]
fn an_answer_that_drips_is_given_up_when_its_time_is_over() {
    for head in [
        "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n",
        "HTTP/1.1 200 OK\r\nX-Endless: ",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 ",
    ] {
        let (said, took) = asked(&endless(head, b"a", DRIP));
        assert!(said.starts_with("the answer didn't end within 3 s: "), "{head}: {said}");
        assert!(took < NEVER, "{head}: {took:?}");
    }
    let (said, _) = asked(&endless("", b"", DRIP));
    assert_eq!(said, "no answer came within 3 s");
}

#[test]
fn an_answer_that_floods_is_given_up_when_it_is_too_long() {
    const FLOOD: &[u8] = &[b'a'; 1 << 20];
    let url = endless("HTTP/1.1 200 OK\r\n\r\n", FLOOD, Duration::ZERO);
    let request = HttpRequest::new("GET", "/", Duration::from_secs(60));
    let error = Target::parse(&url).unwrap().send(&request).unwrap_err();
    assert!(error.to_string().contains("the answer is longer than 67108864 bytes"), "{error:#}");
}

#[test]
fn a_raw_answer_that_drips_is_given_up_whether_it_is_awaited_or_should_be_over() {
    let exchange = RawExchange {
        pieces: vec!["GET / HTTP/1.1\r\n\r\n".to_owned()],
        pause: Duration::from_secs(3),
        idle: Duration::from_secs(3),
        timeout: Duration::from_secs(3),
        responses: 1,
        head: false,
    };
    let two =
        RawExchange { pieces: vec!["GET ".to_owned(), "/ HTTP/1.1\r\n\r\n".to_owned()], ..exchange.clone() };
    let fast = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
    let done = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let hasty = RawExchange { idle: Duration::from_millis(100), ..exchange.clone() };
    for (head, pause, exchange) in [
        (fast, DRIP, &exchange),
        (fast, Duration::from_millis(500), &hasty), // slower than what counts as silence
        (done, DRIP, &exchange),
        ("HTTP/1.1 100 Continue\r\n\r\n", DRIP, &two),
    ] {
        let begin = Instant::now();
        let error = Target::parse(&endless(head, b"a", pause)).unwrap().exchange(exchange).unwrap_err();
        let said = format!("{error:#}");
        assert!(said.starts_with("the answer didn't end within "), "{head}: {said}");
        assert!(begin.elapsed() < NEVER, "{head}: {:?}", begin.elapsed());
    }
}

#[test]
fn a_server_that_drips_from_the_beginning_gives_2_and_one_line() {
    let url = endless("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b"a", DRIP);
    let begin = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_compat-tests")).arg(&url).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(2), &b""[..]), "{stderr}");
    assert!(stderr.contains("the answer didn't end within 10 s") && stderr.lines().count() == 1, "{stderr}");
    assert!(begin.elapsed() < 2 * NEVER, "{:?}", begin.elapsed());
}
