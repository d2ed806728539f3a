//! Clients that send nonsense, too much, too slowly, or never read: each is turned away, the others don't notice.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use std::{
    io::{self, Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use support::{
    http::{authority, call, exchange},
    server::{Home, Server},
};

/// Much longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// The server still does its work.
fn assert_serves(server: &Server) {
    let (status, body) =
        call(server.url(), "POST", "/v1/ns/instance?serviceName=after&ip=10.0.0.1&port=80").unwrap();
    assert_eq!((status, body.as_str()), (200, "ok"));
    let (status, body) = call(server.url(), "GET", "/v1/ns/instance/list?serviceName=after").unwrap();
    assert_eq!((status, body.contains("10.0.0.1")), (200, true), "{body}");
    assert!(!server.stderr().contains("panicked"), "{}", server.stderr());
}

fn status_of(answer: &[u8]) -> u16 {
    let text = String::from_utf8_lossy(answer);
    text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(authority(server.url())).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A small generator, so that a failure can be played again.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn random_bytes_are_answered_or_cut() {
    let server = Server::start();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..200 {
        let size = usize::try_from(random.next() % 4096).unwrap();
        let mut bytes: Vec<u8> = (0..size).map(|_| random.next().to_le_bytes()[0]).collect();
        bytes.extend_from_slice(b"\r\n\r\n");
        let mut stream = connect(&server);
        // The server may have closed before all was sent.
        let _ = stream.write_all(&bytes).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Ok(_) => assert!(
                answer.is_empty() || status_of(&answer) >= 400,
                "{:?}",
                String::from_utf8_lossy(&answer)
            ),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
        }
    }
    assert_serves(&server);
}

#[test]
fn every_cut_of_a_request_leaves_nothing_behind() {
    let server = Server::start();
    let form = "serviceName=cut&ip=10.0.0.1&port=80";
    let request = format!(
        "POST /nacos/v1/ns/instance HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    );
    for end in 0..request.len() {
        connect(&server).write_all(&request.as_bytes()[..end]).unwrap();
    }
    let (_, body) = call(server.url(), "GET", "/v1/ns/instance/list?serviceName=cut").unwrap();
    assert_eq!(body, r#"{"name":"DEFAULT_GROUP@@cut","clusters":"","cacheMillis":3000,"hosts":[]}"#);
    assert_serves(&server);
}

#[test]
fn what_is_too_large_is_refused_by_name() {
    let settings = ["nacre.http.max-body-bytes=1024", "server.max-http-header-size=131072"];
    let server = Server::start_in(Home::new(), &settings);
    let authority = authority(server.url());
    let long_target =
        format!("GET /nacos/v1/ns/instance/list?x={} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(70_000));
    assert_eq!(status_of(&exchange(authority, long_target.as_bytes()).unwrap()), 414);
    let large_head = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(140_000));
    assert_eq!(status_of(&exchange(authority, large_head.as_bytes()).unwrap()), 431);
    let many_headers = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: 1\r\n".repeat(150));
    assert_eq!(status_of(&exchange(authority, many_headers.as_bytes()).unwrap()), 431);
    for head in ["Content-Length: 1025\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n401\r\n"] {
        let large = format!(
            "PUT /nacos/v1/ns/service HTTP/1.1\r\nHost: a\r\n{head}{}\r\n0\r\n\r\n",
            "a".repeat(1025)
        );
        assert_eq!(status_of(&exchange(authority, large.as_bytes()).unwrap()), 413, "{head}");
    }
    assert_serves(&server);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = Server::start();
    let requests: String = (0..100)
        .map(|k| {
            let close = if k == 99 { "Connection: close\r\n" } else { "" };
            format!("GET /nacos/v1/ns/instance/list?serviceName=p{k}x HTTP/1.1\r\nHost: a\r\n{close}\r\n")
        })
        .collect();
    let answer = exchange(authority(server.url()), requests.as_bytes()).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    let order: Vec<_> = answer.match_indices("@@p").map(|(at, mark)| &answer[at + mark.len()..]).collect();
    assert_eq!(order.len(), 100);
    for (k, rest) in order.into_iter().enumerate() {
        assert!(rest.starts_with(&format!("{k}x")), "answer {k}: {rest:.40}");
    }
}

#[test]
fn slow_heads_and_bodies_are_cut() {
    let settings = [
        "nacre.http.head-timeout-ms=300",
        "nacre.http.body-timeout-ms=300",
        "nacre.http.idle-timeout-ms=600",
    ];
    let server = Server::start_in(Home::new(), &settings);
    let mut slow_head = connect(&server);
    slow_head.write_all(b"GET /nacos/v1/ns/ins").unwrap();
    let mut slow_body = connect(&server);
    slow_body
        .write_all(b"PUT /nacos/v1/ns/service HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nab")
        .unwrap();
    let mut idle = connect(&server);
    assert_serves(&server);
    let mut answer = Vec::new();
    slow_head.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"");
    slow_body.read_to_end(&mut answer).unwrap();
    assert_eq!(status_of(&answer), 408);
    answer.clear();
    idle.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"");
}

#[test]
fn a_client_that_never_reads_is_given_up() {
    let server = Server::start_in(Home::new(), &["nacre.http.write-timeout-ms=500"]);
    for port in 1..=300 {
        call(server.url(), "POST", &format!("/v1/ns/instance?serviceName=big&ip=10.0.0.1&port={port}"))
            .unwrap();
    }
    let mut deaf = connect(&server);
    let request = "GET /nacos/v1/ns/instance/list?serviceName=big HTTP/1.1\r\nHost: a\r\n\r\n";
    // Its answers fill the kernel's buffers, nobody takes them, and the server closes. A time-out would be ours.
    let end = loop {
        if let Err(error) = deaf.write_all(request.as_bytes()) {
            break error.kind();
        }
    };
    assert!(matches!(end, io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe), "{end:?}");
    assert_serves(&server);
}

#[test]
fn a_cluster_named_thousands_of_times_is_refused() {
    let server = Server::start();
    for port in 1..=100 {
        call(
            server.url(),
            "POST",
            &format!("/v1/ns/instance?serviceName=much&ip=10.0.0.1&port={port}&clusterName=A"),
        )
        .unwrap();
    }
    let path = |clusters: &str| format!("/v1/ns/instance/list?serviceName=much&clusters={clusters}");
    let (status, body) = call(server.url(), "GET", &path(&"A,".repeat(30_000))).unwrap();
    assert_eq!(
        (status, body.as_str()),
        (400, "caused: Param 'clusters' is illegal, it names a cluster more than 2 times;")
    );
    let (status, body) = call(server.url(), "GET", &path("A,A")).unwrap();
    assert_eq!((status, body.matches("\"ip\"").count()), (200, 200));
    let many: Vec<String> = (0..8_000).map(|k| k.to_string()).collect();
    let (status, body) = call(server.url(), "GET", &path(&(many.join(",") + ",A"))).unwrap();
    assert_eq!((status, body.matches("\"ip\"").count()), (200, 100));
}

#[test]
fn a_thousand_idle_connections_are_no_burden() {
    let server = Server::start();
    let idle: Vec<_> = (0..1000).map(|_| connect(&server)).collect();
    assert_serves(&server);
    drop(idle);
    assert_serves(&server);
}

#[test]
fn a_costly_expression_costs_nothing() {
    let server = Server::start();
    let name = "a".repeat(200);
    call(server.url(), "POST", &format!("/v1/ns/instance?serviceName={name}&ip=10.0.0.1&port=80")).unwrap();
    let start = Instant::now();
    for expression in ["(a*)*b", "(a%7Ca)*b", "(a%2B)%2B%24b", "a{1000}{1000}"] {
        let path = format!("/v1/ns/service/names?namespaceId=public&expr={expression}");
        let (status, _) = call(server.url(), "GET", &path).unwrap();
        assert!(matches!(status, 200 | 400), "{expression}: {status}");
    }
    assert!(start.elapsed() < PATIENCE);
}

#[test]
fn a_stop_finishes_what_is_under_way_and_refuses_the_rest() {
    let server = Server::start();
    let mut under_way = connect(&server);
    let form = "serviceName=last&ip=10.0.0.1&port=80&ephemeral=false";
    let head = format!(
        "POST /nacos/v1/ns/instance HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n",
        form.len()
    );
    under_way.write_all(head.as_bytes()).unwrap();
    assert_serves(&server);
    let url = server.url().to_owned();
    let stopping = std::thread::spawn(move || server.stop());
    // New connections are refused as soon as the server has heard of the stop.
    let start = Instant::now();
    while TcpStream::connect(authority(&url)).is_ok() {
        assert!(start.elapsed() < PATIENCE, "still accepting");
    }
    under_way.write_all(form.as_bytes()).unwrap();
    let mut answer = Vec::new();
    under_way.read_to_end(&mut answer).unwrap();
    assert_eq!(status_of(&answer), 200);
    let (status, home) = stopping.join().unwrap();
    assert!(status.success());
    let server = Server::start_in(home, &[]);
    let (_, body) = call(server.url(), "GET", "/v1/ns/instance/list?serviceName=last").unwrap();
    assert!(body.contains("10.0.0.1"), "{body}");
}
