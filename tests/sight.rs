//! What a person sees of a running server: metrics, probes, log lines.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use support::{
    http::{authority, call, exchange},
    server::{Home, Server},
};

/// What takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Status line, headers and body of a path as it stands, outside the context path too.
fn get(url: &str, path: &str) -> String {
    let head = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    String::from_utf8(exchange(authority(url), head.as_bytes()).unwrap()).unwrap()
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

/// The value of a series, by its exact name and labels.
fn value<'a>(page: &'a str, series: &str) -> Option<&'a str> {
    page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))
}

#[test]
fn metrics_count_requests_and_what_is_registered() {
    let server = Server::start();
    let url = server.url();
    let ok =
        |method: &str, path: &str| assert_eq!(call(url, method, path).unwrap().0, 200, "{method} {path}");
    ok("POST", "/v1/ns/instance?serviceName=a&ip=10.0.0.1&port=80");
    ok("POST", "/v1/ns/instance?serviceName=a&ip=10.0.0.2&port=80&healthy=false");
    ok("POST", "/v1/ns/instance?serviceName=b&ip=10.0.0.1&port=80&ephemeral=false");
    for _ in 0..3 {
        ok("GET", "/v1/ns/instance/list?serviceName=a");
    }
    ok("PUT", "/v1/ns/instance/beat?serviceName=a&ip=10.0.0.1&port=80");
    ok("PUT", "/v1/ns/instance/beat?serviceName=a&ip=10.0.0.9&port=80");
    assert_eq!(call(url, "GET", "/v1/ns/instance/list").unwrap().0, 400);
    assert_eq!(call(url, "GET", "/v1/ns/nothing").unwrap().0, 501);
    let answer = get(url, "/metrics");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{answer}");
    let list = r#"nacre_requests_total{method="GET",endpoint="/v1/ns/instance/list""#;
    let histogram = r#"{method="GET",endpoint="/v1/ns/instance/list""#;
    for (series, wanted) in [
        (format!(r#"{list},status="2xx"}}"#), "3"),
        (format!(r#"{list},status="4xx"}}"#), "1"),
        (format!("nacre_request_duration_seconds_count{histogram}}}"), "4"),
        (format!(r#"nacre_request_duration_seconds_bucket{histogram},le="+Inf"}}"#), "4"),
        (r#"nacre_requests_total{method="any",endpoint="unknown",status="5xx"}"#.into(), "1"),
        ("nacre_services".into(), "2"),
        (r#"nacre_instances{kind="ephemeral"}"#.into(), "2"),
        (r#"nacre_healthy_instances{kind="ephemeral"}"#.into(), "1"),
        (r#"nacre_instances{kind="persistent"}"#.into(), "1"),
        (r#"nacre_beats_total{result="renewed"}"#.into(), "1"),
        (r#"nacre_beats_total{result="unknown"}"#.into(), "1"),
        ("nacre_store_up".into(), "1"),
        ("nacre_store_writes_total".into(), "1"),
        ("nacre_ready".into(), "1"),
    ] {
        assert_eq!(value(body(&answer), &series), Some(wanted), "{series}\n{answer}");
    }
    let connections: u64 = value(body(&answer), "nacre_connections").unwrap().parse().unwrap();
    assert!(connections >= 1);
}

#[test]
fn the_metrics_of_nacos_are_there_when_asked_for() {
    let server = Server::start();
    let answer = get(server.url(), "/nacos/actuator/prometheus");
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    let server = Server::start_in(Home::new(), &["management.endpoints.web.exposure.include=*"]);
    call(server.url(), "POST", "/v1/ns/instance?serviceName=a&ip=10.0.0.1&port=80").unwrap();
    let answer = get(server.url(), "/nacos/actuator/prometheus");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("content-type: text/plain;version=0.0.4;charset=utf-8\r\n"), "{answer}");
    let monitor = r#"nacos_monitor{module="naming",name="ipCount"}"#;
    assert_eq!(value(body(&answer), monitor), Some("1.0"), "{answer}");
    assert_eq!(value(body(&answer), "nacre_services"), Some("1"), "{answer}");
}

#[test]
fn a_server_in_order_is_alive_and_ready() {
    let server = Server::start();
    let answer = get(server.url(), "/livez");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert_eq!(body(&answer), "ok");
    let answer = get(server.url(), "/readyz");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert_eq!(body(&answer), "naming: up\nstore: up\n");
}

#[test]
fn a_server_that_stops_says_so() {
    let server = Server::start();
    let authority = authority(server.url()).to_owned();
    let mut probe = TcpStream::connect(&authority).unwrap();
    probe.set_read_timeout(Some(PATIENCE)).unwrap();
    // A head that isn't over is a request under way, which a stopping server finishes.
    probe.write_all(b"GET /readyz HTTP/1.1\r\nHost: test\r\n").unwrap();
    // A second connection shows that the first one has been accepted.
    get(server.url(), "/livez");
    server.terminate();
    let end = Instant::now() + PATIENCE;
    while TcpStream::connect(&authority).is_ok() {
        assert!(Instant::now() < end, "it still takes connections");
    }
    probe.write_all(b"\r\n").unwrap();
    let mut answer = String::new();
    probe.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{answer:?}");
    assert_eq!(body(&answer), "naming: draining\nstore: up\n");
    let (status, home) = server.ended();
    assert!(status.success(), "{status}\n{}", home.stderr());
    assert!(home.stderr().contains("stopping"), "{}", home.stderr());
}

#[test]
fn a_store_that_fails_is_told_and_naming_goes_on() {
    let server = Server::start_limited(Home::new(), &[], 8 << 20);
    let url = server.url();
    let filler = "x".repeat(50_000);
    let write = |index: usize| {
        let path = format!(
            "/v1/ns/instance?serviceName=a&ip=10.0.0.1&port={index}&ephemeral=false&metadata=a%3D{filler}"
        );
        call(url, "POST", &path).unwrap()
    };
    let refused = (1..1_000).map(write).find(|(status, _)| *status != 200).expect("its files can't grow");
    assert_eq!(refused.0, 500, "{}", refused.1);
    let answer = get(url, "/readyz");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let (naming, store) = body(&answer).split_once('\n').unwrap();
    assert_eq!(naming, "naming: up");
    assert!(store.starts_with("store: failing since 20"), "{answer}");
    let page = get(url, "/metrics");
    assert_eq!(value(&page, "nacre_store_up"), Some("0"), "{page}");
    assert_eq!(value(&page, "nacre_ready"), Some("1"), "{page}");
    assert_ne!(value(&page, "nacre_store_failures_total"), Some("0"), "{page}");
    let ephemeral = call(url, "POST", "/v1/ns/instance?serviceName=b&ip=10.0.0.1&port=80").unwrap();
    assert_eq!(ephemeral, (200, "ok".into()));
}

#[test]
fn an_access_log_shows_each_request_but_no_secret() {
    let settings = ["server.tomcat.accesslog.enabled=true", "nacre.log.format=json", "nacre.log.level=error"];
    let server = Server::start_in(Home::new(), &settings);
    call(server.url(), "GET", "/v1/ns/instance/list?serviceName=a&accessToken=hush&pass%77ord=hush").unwrap();
    let (status, home) = server.stop();
    assert!(status.success());
    let lines: Vec<serde_json::Value> =
        home.stderr().lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert_eq!(lines.len(), 1, "{}", home.stderr());
    let line = &lines[0];
    assert_eq!(line["target"], "access");
    assert_eq!(line["method"], "GET");
    assert_eq!(line["uri"], "/nacos/v1/ns/instance/list?serviceName=a&accessToken=***&pass%77ord=***");
    assert_eq!(line["status"], 200);
    assert_eq!(line["agent"], "-");
    assert!(line["bytes"].as_u64().unwrap() > 0);
    assert!(line["took_us"].is_u64() && line["peer"].as_str().unwrap().starts_with("127.0.0.1:"));
}

#[test]
fn a_level_can_be_changed_at_run_time() {
    let server = Server::start();
    let set = |query: &str| call(server.url(), "PUT", &format!("/v1/ns/operator/log?{query}")).unwrap();
    assert_eq!(set("logName=naming-main&logLevel=ERROR"), (200, "ok".into()));
    assert_eq!(set("logName=nothing&logLevel=INFO"), (200, "ok".into()));
    call(server.url(), "POST", "/v1/ns/instance?serviceName=quiet&ip=10.0.0.1&port=80").unwrap();
    assert_eq!(set("logName=naming-main&logLevel=INFO"), (200, "ok".into()));
    call(server.url(), "POST", "/v1/ns/instance?serviceName=loud&ip=10.0.0.1&port=80").unwrap();
    let (_, home) = server.stop();
    let logged = home.stderr();
    assert!(!logged.contains("@@quiet") && logged.contains("@@loud"), "{logged}");
}

#[test]
fn a_node_that_an_operator_took_down_is_not_ready() {
    let server = Server::start();
    let set = |status: &str| {
        // A node that takes no writes takes them from its peers, this one too.
        let head = format!(
            "PUT /nacos/v1/ns/operator/switches?entry=overriddenServerStatus&value={status} HTTP/1.1\r\n\
             Host: test\r\nUser-Agent: Nacos-Server:v1.4.8\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        let answer = exchange(authority(server.url()), head.as_bytes()).unwrap();
        assert_eq!(body(&String::from_utf8(answer).unwrap()), "ok");
    };
    set("READ_ONLY");
    let answer = get(server.url(), "/readyz");
    assert!(answer.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{answer}");
    assert_eq!(body(&answer), "naming: READ_ONLY\nstore: up\n");
    assert_eq!(value(&get(server.url(), "/metrics"), "nacre_ready"), Some("0"));
    assert!(get(server.url(), "/livez").starts_with("HTTP/1.1 200 "));
    set("UP");
    assert_eq!(body(&get(server.url(), "/readyz")), "naming: up\nstore: up\n");
}

#[test]
fn without_an_access_log_requests_leave_no_line_and_settings_do() {
    let server = Server::start_in(Home::new(), &["spring.application.name=x", "nacre.log.level=trace"]);
    call(server.url(), "GET", "/v1/ns/instance/list?serviceName=a").unwrap();
    let (_, home) = server.stop();
    assert!(!home.stderr().contains("/v1/ns/instance/list"), "{}", home.stderr());
    assert!(home.stderr().contains("accepted without effect: spring.application.name"), "{}", home.stderr());
}
