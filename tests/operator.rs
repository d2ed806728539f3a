//! What an operator sets is there after a restart, but for what was set on one node alone.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use support::{
    http::{authority, call, exchange},
    server::Server,
};

/// A change of a switch that must be taken.
fn set(server: &Server, rest: &str) {
    let answer = call(server.url(), "PUT", &format!("/v1/ns/operator/switches?{rest}")).unwrap();
    assert_eq!(answer, (200, "ok".into()), "{rest}");
}

/// Whether the table of the switches has this text in it.
fn shows(server: &Server, text: &str) -> bool {
    let (status, table) = call(server.url(), "GET", "/v1/ns/operator/switches").unwrap();
    assert_eq!(status, 200, "{table}");
    table.contains(text)
}

#[test]
fn switches_survive_a_kill_but_not_what_was_altered_for_a_look() {
    let server = Server::start();
    set(&server, "entry=defaultCacheMillis&value=4000");
    set(&server, "entry=limitedUrlMap&value=/nacos/v1/ns/nothing:404");
    set(&server, "entry=check&value=false&debug=true");
    assert!(
        shows(&server, r#""defaultCacheMillis":4000"#) && shows(&server, r#""healthCheckEnabled":false"#)
    );
    let server = Server::start_in(server.kill(), &[]);
    assert!(shows(&server, r#""defaultCacheMillis":4000"#) && shows(&server, r#""healthCheckEnabled":true"#));
    let (_, list) = call(server.url(), "GET", "/v1/ns/instance/list?serviceName=a").unwrap();
    assert!(list.contains(r#""cacheMillis":4000"#), "{list}");
    assert_eq!(call(server.url(), "GET", "/v1/ns/nothing").unwrap(), (404, String::new()));
}

#[test]
fn a_stored_change_ends_what_was_altered_for_a_look() {
    let server = Server::start();
    set(&server, "entry=check&value=false&debug=true");
    set(&server, "entry=pushEnabled&value=false");
    assert!(shows(&server, r#""healthCheckEnabled":true"#) && shows(&server, r#""pushEnabled":false"#));
    // Setting what the store has already ends it too.
    set(&server, "entry=check&value=false&debug=true");
    set(&server, "entry=pushEnabled&value=false");
    assert!(shows(&server, r#""healthCheckEnabled":true"#));
}

#[test]
fn a_node_that_was_taken_down_stays_down_and_peers_can_take_it_up() {
    let server = Server::start();
    set(&server, "entry=overriddenServerStatus&value=DOWN");
    let server = Server::start_in(server.kill(), &[]);
    let refused = (503, "server is DOWNnow, please try again later!".to_string());
    let list = "/v1/ns/instance/list?serviceName=a";
    assert_eq!(call(server.url(), "GET", list).unwrap(), refused);
    let up = "PUT /nacos/v1/ns/operator/switches?entry=overriddenServerStatus&value=null HTTP/1.1\r\n\
              Host: test\r\nUser-Agent: Nacos-Server\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let answer = exchange(authority(server.url()), up.as_bytes()).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(call(server.url(), "GET", list).unwrap().0, 200);
}

#[test]
fn an_answer_that_ends_the_connection_leaves_although_more_was_sent() {
    let server = Server::start();
    let two = "GET /nacos/v1/ns/instance/list HTTP/1.1\r\nHost: test\r\n\r\n\
               GET /nacos/v1/core/cluster/health HTTP/1.1\r\nHost: test\r\n\r\n";
    let answer = exchange(authority(server.url()), two.as_bytes()).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    assert!(
        answer.starts_with("HTTP/1.1 400 ") && answer.ends_with("caused: Param 'serviceName' is required.;")
    );
    let nonsense = exchange(authority(server.url()), b"NONSENSE\r\n\r\n").unwrap();
    assert!(nonsense.starts_with(b"HTTP/1.1 400 "), "{}", String::from_utf8_lossy(&nonsense));
}

#[test]
fn namespaces_survive_a_kill() {
    let server = Server::start();
    let path = "/v1/console/namespaces";
    let made =
        call(server.url(), "POST", &format!("{path}?customNamespaceId=n1&namespaceName=one&namespaceDesc=d"));
    assert_eq!(made.unwrap(), (200, "true".into()));
    let made = call(server.url(), "POST", &format!("{path}?customNamespaceId=n2&namespaceName=two"));
    assert_eq!(made.unwrap(), (200, "true".into()));
    assert_eq!(
        call(server.url(), "DELETE", &format!("{path}?namespaceId=n2")).unwrap(),
        (200, "true".into())
    );
    let server = Server::start_in(server.kill(), &[]);
    let one = call(server.url(), "GET", &format!("{path}?show=all&namespaceId=n1")).unwrap();
    let expected = r#"{"namespace":"n1","namespaceShowName":"one","quota":200,"configCount":0,"type":2,"namespaceDesc":"d"}"#;
    assert_eq!(one, (200, expected.into()));
    let exists =
        call(server.url(), "GET", &format!("{path}?checkNamespaceIdExist=true&customNamespaceId=n2"));
    assert_eq!(exists.unwrap(), (200, "false".into()));
}
