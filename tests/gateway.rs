//! A node in front of a legacy cluster: what belongs there goes there, and comes back as it was said.

#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::disallowed_methods, reason = "another process can only be asked again")]

mod support;

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use support::{
    http::{authority, call},
    legacy::{Legacy, gateway, ok, say},
    server::{Home, Server, refused},
};

/// Asks until an answer is so.
fn until(server: &Server, path: &str, is_so: impl Fn(u16, &str) -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let (status, body) = call(server.url(), "GET", path).unwrap();
        if is_so(status, &body) {
            return;
        }
        assert!(Instant::now() < end, "{path}: {status} {body}");
        thread::sleep(Duration::from_millis(20)); // what another process sees can't be waited for
    }
}

/// The text of a page outside the context path.
fn page(server: &Server, path: &str) -> String {
    say(server, &format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"))
}

#[test]
fn what_belongs_to_the_legacy_cluster_goes_there_and_the_rest_stays() {
    let legacy = Legacy::start(|_| Some(ok("of the legacy server")));
    let server = gateway(&[&legacy.address], &[]);
    for (method, path) in [
        ("GET", "/v1/cs/configs?dataId=a%20b&group=g"),
        ("POST", "/v1/auth/login"),
        ("GET", "/v1/console/namespaces"),
        ("GET", "/"),
        ("DELETE", "/v2/cs/config"),
        ("GET", "/v3/console/core/namespace/list"),
        ("GET", "/console-ui/public/main.js"),
    ] {
        let (status, body) = call(server.url(), method, path).unwrap();
        assert_eq!((status, body.as_str()), (200, "of the legacy server"), "{method} {path}");
        let asked = legacy.asked().pop().unwrap();
        assert!(asked.starts_with(&format!("{method} /nacos{path} HTTP/1.1\r\n")), "{asked}");
    }
    let count = legacy.asked().len();
    for (path, text) in [
        ("/v1/ns/instance/list?serviceName=a", "hosts"),
        ("/v1/core/cluster/nodes", "127.0.0.1"),
        ("/v1/console/health/readiness", "OK"),
        ("/v1/core/unknown", "Not Found"),
        ("/v1/ns/unknown", "no such api"),
    ] {
        let (_, body) = call(server.url(), "GET", path).unwrap();
        assert!(body.contains(text), "{path}: {body}");
    }
    assert_eq!(legacy.asked().len(), count);
    let ready = page(&server, "/readyz");
    assert!(ready.contains("\nlegacy: up\n"), "{ready}");
    let metrics = page(&server, "/metrics");
    let name = &legacy.address;
    assert!(
        metrics
            .contains(&format!("nacre_legacy_answers_total{{server=\"{name}\",status=\"2xx\"}} {count}\n")),
        "{metrics}"
    );
}

#[test]
fn a_head_goes_on_with_its_credentials_and_says_for_whom() {
    let legacy = Legacy::start(|_| Some(ok("yes")));
    let server = gateway(&[&legacy.address], &["nacre.forwarded.trust=127.0.0.0/8"]);
    let answer = say(
        &server,
        "POST /nacos/v1/cs/configs?accessToken=t1 HTTP/1.1\r\nHost: a.example\r\nAuthorization: Bearer t2\r\n\
         Cookie: a=b\r\nX-Forwarded-For: 10.1.1.1\r\nConnection: close, X-Mine\r\nX-Mine: 1\r\n\
         Content-Length: 3\r\n\r\nabc",
    );
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("x-legacy: 1\r\n"), "{answer}");
    let asked = legacy.asked().pop().unwrap();
    for part in [
        "POST /nacos/v1/cs/configs?accessToken=t1 HTTP/1.1\r\n",
        "host: a.example\r\n",
        "authorization: Bearer t2\r\n",
        "cookie: a=b\r\n",
        "x-forwarded-for: 10.1.1.1, 127.0.0.1\r\n",
        "x-nacre-hops: 1\r\n",
        "content-length: 3\r\n",
    ] {
        assert!(asked.contains(part), "{part} in {asked}");
    }
    assert!(asked.ends_with("\r\n\r\nabc") && !asked.contains("x-mine"), "{asked}");
}

#[test]
fn a_client_takes_away_nothing_that_is_said_of_it_by_naming_it_in_connection() {
    let legacy = Legacy::start(|_| Some(ok("yes")));
    for (naming, path) in [("native", "/v1/cs/configs"), ("legacy", "/v1/ns/service")] {
        let server = gateway(&[&legacy.address], &[&format!("nacre.legacy.naming={naming}")]);
        let answer = say(
            &server,
            &format!(
                "GET /nacos{path} HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-For: 10.1.1.1\r\nX-Nacre-Hops: 1\r\n\
                 Connection: close, X-Forwarded-For, X-Forwarded-Host, X-Nacre-Hops\r\n\r\n"
            ),
        );
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let asked = legacy.asked().into_iter().rfind(|asked| asked.contains(path)).unwrap();
        let fields = ["x-forwarded-for: 127.0.0.1", "x-forwarded-host: a.example", "x-nacre-hops: 1"];
        for field in fields {
            assert!(asked.contains(&format!("{field}\r\n")), "{field} in {asked}");
        }
    }
}

#[test]
fn who_uploads_a_byte_now_and_then_is_told_that_it_is_too_slow() {
    let legacy = Legacy::start(|_| Some(ok("all of it")));
    let server = gateway(&[&legacy.address], &["nacre.legacy.timeout-ms=1000"]);
    let mut client = TcpStream::connect(authority(server.url())).unwrap();
    let head = "POST /nacos/v1/cs/configs HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n";
    client.write_all(head.as_bytes()).unwrap();
    client.set_read_timeout(Some(Duration::from_millis(100))).unwrap(); // the pace of the client
    let (started, mut answer) = (Instant::now(), [0; 12]);
    while client.read_exact(&mut answer).is_err() {
        assert!(started.elapsed() < Duration::from_secs(30), "it goes on for ever");
        client.write_all(b"x").unwrap();
    }
    assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 408");
}

#[test]
fn a_node_that_stops_sends_those_who_poll_through_it_to_another() {
    let legacy = Legacy::start(|_| {
        loop {
            thread::park(); // nothing changes
        }
    });
    let server = gateway(&[&legacy.address], &[]);
    let mut client = TcpStream::connect(authority(server.url())).unwrap();
    let poll = "POST /nacos/v1/cs/configs/listener HTTP/1.1\r\nHost: a\r\nLong-Pulling-Timeout: 30000\r\n\
                Content-Length: 2\r\n\r\na=";
    client.write_all(poll.as_bytes()).unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    while legacy.asked().is_empty() {
        assert!(Instant::now() < end, "the poll doesn't arrive");
        thread::yield_now();
    }
    server.terminate();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("connection: close\r\n"), "{answer}");
    assert_eq!(server.ended().0.code(), Some(0));
}

#[test]
fn a_long_poll_is_given_the_time_that_it_asks_for_and_no_other_request() {
    // A poll that lasts longer than the time of other requests.
    let legacy = Legacy::start(|_| {
        thread::sleep(Duration::from_millis(900)); // the length of the poll
        Some(ok("changed"))
    });
    let server = gateway(&[&legacy.address], &["nacre.legacy.timeout-ms=300"]);
    let poll = |header: &str| {
        say(
            &server,
            &format!(
                "POST /nacos/v1/cs/configs/listener HTTP/1.1\r\nHost: a\r\n{header}Content-Length: 2\r\n\
                 Connection: close\r\n\r\na="
            ),
        )
    };
    let answer = poll("Long-Pulling-Timeout: 30000\r\n");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("changed"), "{answer}");
    let answer = poll("");
    assert!(answer.starts_with("HTTP/1.1 504") && answer.contains(&legacy.address), "{answer}");
}

#[test]
fn another_server_is_asked_where_one_is_gone_and_503_where_all_are() {
    // An address that nobody else calls from, so that its port stays free.
    let gone = TcpListener::bind("127.0.97.1:0").unwrap().local_addr().unwrap().to_string();
    let legacy = Legacy::start(|_| Some(ok("here")));
    let server = gateway(&[&gone, &legacy.address], &[]);
    for _ in 0..5 {
        let post = call(server.url(), "POST", "/v1/cs/configs").unwrap();
        assert_eq!(post, (200, "here".into()));
    }
    until(&server, "/v1/cs/configs", |status, _| status == 200);
    let end = Instant::now() + Duration::from_secs(30);
    while !page(&server, "/readyz").contains(&format!("\nlegacy: DOWN: {gone}\n")) {
        assert!(Instant::now() < end, "{}", page(&server, "/readyz"));
    }
    let alone = gateway(&[&gone], &[]);
    until(&alone, "/v1/cs/configs", |status, _| status == 503);
    let answer = page(&alone, "/nacos/v1/cs/configs");
    assert!(
        answer.contains("retry-after: 1\r\n") && answer.contains("none of the legacy servers"),
        "{answer}"
    );
    // Naming doesn't depend on it.
    assert!(page(&alone, "/readyz").starts_with("HTTP/1.1 200"));
    // It comes back.
    let listener = TcpListener::bind(&gone).unwrap();
    Legacy::serve(listener, |_| Some(ok("back")));
    until(&alone, "/v1/cs/configs", |status, body| status == 200 && body == "back");
}

#[test]
fn a_post_that_was_read_is_never_sent_twice_and_a_get_is() {
    let first = Legacy::start(|_| None);
    let second = Legacy::start(|_| None);
    let server = gateway(&[&first.address, &second.address], &[]);
    let (status, body) = call(server.url(), "POST", "/v1/cs/configs").unwrap();
    assert_eq!(status, 502, "{body}");
    assert!(body.contains("closed without an answer"), "{body}");
    assert_eq!(first.asked().len() + second.asked().len(), 1);
    let (status, _) = call(server.url(), "GET", "/v1/cs/configs").unwrap();
    assert_eq!(status, 502);
    assert_eq!(
        (first.asked().len().max(1), second.asked().len().max(1)),
        (first.asked().len(), second.asked().len())
    );
    assert_eq!(first.asked().len() + second.asked().len(), 3);
    let log = server.stderr();
    assert!(log.contains("could not be passed on to a legacy server"), "{log}");
}

#[test]
fn a_registration_that_was_read_is_never_sent_twice_either() {
    let [first, second] =
        [(); 2].map(|()| Legacy::start(|request| request.starts_with("GET").then(|| ok("{}"))));
    let server = gateway(&[&first.address, &second.address], &["nacre.legacy.naming=legacy"]);
    let path = "/v1/ns/instance?serviceName=a&ip=10.0.0.7&port=1";
    let (status, body) = call(server.url(), "POST", path).unwrap();
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("may have been done, or not"), "{body}");
    let posts = || {
        let asked = [&first, &second].map(Legacy::asked).concat();
        asked.iter().filter(|request| request.starts_with("POST")).count()
    };
    assert_eq!(posts(), 1);
    // It isn't kept, so nothing is left to be sent.
    assert!(!page(&server, "/readyz").contains("registrations wait"), "{}", page(&server, "/readyz"));
    // A DELETE is as done once.
    assert_eq!(call(server.url(), "DELETE", path).unwrap(), (200, "ok".into()));
    assert_eq!(posts(), 1);
}

#[test]
fn a_long_body_streams_both_ways_though_it_is_longer_than_this_node_takes_itself() {
    let legacy = Legacy::start(|request| {
        let (_, body) = request.split_once("\r\n\r\n").unwrap();
        Some(ok(body))
    });
    let server = gateway(&[&legacy.address], &[]);
    let body = "0123456789abcdef".repeat(1 << 20);
    assert!(body.len() > 10 << 20);
    let head = format!(
        "POST /nacos/v1/cs/configs HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let answer = say(&server, &(head + &body));
    let (head, back) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(back.len(), body.len());
    assert!(back == body);
}

#[test]
fn what_could_be_read_in_two_ways_is_refused_or_arrives_in_one() {
    let legacy = Legacy::start(|_| Some(ok("yes")));
    let server = gateway(&[&legacy.address], &[]);
    for (head, body) in [
        ("Content-Length: 3\r\nContent-Length: 4\r\n", "abcd"),
        ("Content-Length: +3\r\n", "abc"),
        ("Content-Length: 3, 3\r\n", "abc"),
        ("Content-Length:\r\n", "abc"),
        ("Transfer-Encoding: xchunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
        ("Transfer-Encoding: gzip, chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
        ("Transfer-Encoding : chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
        ("Transfer-Encoding:\r\n chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
        ("Host: b\r\n", ""),
        ("X: a\rb\r\n", ""),
        ("X\r\n", ""),
    ] {
        let request =
            format!("POST /nacos/v1/cs/configs HTTP/1.1\r\nHost: a\r\n{head}Connection: close\r\n\r\n{body}");
        let answer = say(&server, &request);
        assert!(answer.starts_with("HTTP/1.1 4"), "{head}: {answer}");
    }
    assert_eq!(legacy.asked(), [""; 0]);
    let both = "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n";
    let request = format!(
        "POST /nacos/v1/cs/configs HTTP/1.1\r\nHost: a\r\n{both}\r\n3\r\nabc\r\n0\r\n\r\nGET /nacos/v1/cs/x HTTP/1.1\r\n"
    );
    let answer = say(&server, &request);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("connection: close"), "{answer}");
    let asked = legacy.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    let (head, body) = asked[0].split_once("\r\n\r\n").unwrap();
    assert!(head.contains("transfer-encoding: chunked") && !head.contains("content-length"), "{head}");
    assert_eq!(body, "3\r\nabc\r\n0\r\n\r\n");
}

#[test]
fn gateways_that_lead_to_each_other_answer_508() {
    let ports = [2, 3].map(|host| TcpListener::bind((format!("127.0.97.{host}"), 0)).unwrap());
    let ports = ports.map(|listener| listener.local_addr().unwrap().port());
    let servers = [0, 1].map(|number| {
        let (own, other) = (number, 1 - number);
        let address = format!("127.0.97.{}", own + 2);
        gateway(
            &[&format!("127.0.97.{}:{}", other + 2, ports[other])],
            &[
                &format!("server.port={}", ports[own]),
                &format!("server.address={address}"),
                &format!("nacos.server.ip={address}"),
            ],
        )
    });
    // The first was there before the second, and holds it for down until it looks again.
    until(&servers[0], "/v1/cs/configs", |status, body| {
        assert!([503, 508].contains(&status), "{status} {body}");
        status == 508
    });
}

#[test]
fn a_node_that_names_itself_does_not_start() {
    let home = Home::new();
    let port = TcpListener::bind("127.0.97.4:0").unwrap().local_addr().unwrap().port();
    let (status, said) = refused(
        &home.data(),
        &[
            &format!("server.port={port}"),
            "server.address=127.0.97.4",
            &format!("nacre.legacy.servers=10.0.0.1:8848,127.0.97.4:{port}"),
        ],
    );
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("names this node itself"), "{said}");
}
