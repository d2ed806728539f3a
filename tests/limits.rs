//! Rate limits of one client address, as a client and an operator see them.

mod support;

use std::time::{Duration, Instant};

use support::{
    http::{authority, call, exchange},
    server::{Home, Server},
};

/// The whole answer to a request outside the context path.
fn look(url: &str, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    let answer = exchange(authority(url), request.as_bytes()).expect("the server answers");
    String::from_utf8(answer).expect("it is text")
}

#[test]
fn who_asks_too_often_is_refused_by_class_and_the_rest_goes_on() {
    let server = Server::start_in(Home::new(), &["nacre.limit.read=1", "nacre.limit.write=100"]);
    let url = server.url();
    let list = "/v1/ns/instance/list?serviceName=a";
    assert_eq!(call(url, "GET", list).unwrap().0, 200, "the first has a full bucket");
    // The second or a later one, as fast as this machine asks.
    let end = Instant::now() + Duration::from_secs(60);
    let refused = loop {
        let answer = look(url, &format!("/nacos{list}"));
        if !answer.starts_with("HTTP/1.1 200 ") {
            break answer;
        }
        assert!(Instant::now() < end, "never refused");
    };
    assert!(refused.starts_with("HTTP/1.1 429 "), "{refused}");
    assert!(refused.contains("\r\nretry-after: 1\r\n"), "{refused}");
    let text = "caused: too many requests of this address (class read), please try again later;";
    assert!(refused.ends_with(text), "{refused}");
    // Another class has its own bucket, and one without a limit none.
    let instance = "serviceName=a&ip=10.0.0.1&port=1";
    assert_eq!(call(url, "POST", &format!("/v1/ns/instance?{instance}")).unwrap().0, 200);
    for _ in 0..20 {
        assert_eq!(call(url, "PUT", &format!("/v1/ns/instance/beat?{instance}")).unwrap().0, 200);
    }
    // Probes and metrics are never refused.
    for _ in 0..10 {
        assert!(look(url, "/readyz").starts_with("HTTP/1.1 200 "));
    }
    let metrics = look(url, "/metrics");
    assert!(metrics.contains("\nnacre_limited_requests_total{class=\"read\"} 1\n"), "{metrics}");
    assert_eq!(server.stderr().matches("an address makes too many requests").count(), 1);
}
