//! The proxy of a whole server: settings, the file of rules, registration over HTTP, and what people see.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use super::{
    server_support::server::{Home, Server, refused},
    support::{named, status},
};

fn say(to: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(stream, "{request} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Where the proxy says that it serves.
fn proxy_of(server: &Server) -> SocketAddr {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let said = server.stderr();
        let line = said.lines().find(|line| line.contains("the proxy serves"));
        if let Some(address) = line.and_then(|line| line.split("address=").nth(1)?.split(' ').next()) {
            return address.parse().unwrap();
        }
        assert!(Instant::now() < end, "{said}");
        std::thread::yield_now();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_are_read_again_and_all_is_shown() {
    let home = Home::new();
    let rules = home.data().join("proxy.toml");
    fs::create_dir_all(home.data()).unwrap();
    fs::write(&rules, "[[rule]]\nname = \"one\"\npath = \"/one\"\nservice = \"orders\"\n").unwrap();
    let file = format!("nacre.proxy.rules={}", rules.display());
    let settings = ["nacre.proxy.listen=127.0.0.1:0", &file, "nacre.proxy.access-log=full"];
    let server = Server::start_in(home, &settings);
    let proxy = proxy_of(&server);
    let node: SocketAddr =
        server.url().trim_start_matches("http://").split('/').next().unwrap().parse().unwrap();
    let instance = named().await;
    assert_eq!(status(&say(proxy, "GET /one")), 503);
    let port = instance.address.port();
    let registration =
        format!("POST /nacos/v1/ns/instance?serviceName=orders&ip=127.0.0.1&port={port}&ephemeral=true");
    assert_eq!(status(&say(node, &registration)), 200);
    let answer = say(proxy, "GET /one?token=secret");
    assert!(status(&answer) == 200 && answer.ends_with(&port.to_string()), "{answer}");
    assert_eq!(status(&say(proxy, "GET /two")), 404);
    let until = |what: &str, holds: &dyn Fn() -> bool| {
        let end = Instant::now() + Duration::from_secs(20);
        while !holds() {
            assert!(Instant::now() < end, "not in time: {what}\n{}", server.stderr());
            std::thread::yield_now();
        }
    };
    fs::write(&rules, "[[rule]]\nname = \"two\"\npath = \"/two\"\nservice = \"orders\"\n").unwrap();
    until("the new rules count", &|| status(&say(proxy, "GET /two")) == 200);
    assert_eq!(status(&say(proxy, "GET /one")), 404);
    fs::write(&rules, "[[rule]]\nname = \"three\"\nservise = \"orders\"\n").unwrap();
    until("the mistake is told", &|| server.stderr().contains("line 3: servise: there is no such key here"));
    assert_eq!(status(&say(proxy, "GET /two")), 200);
    let shown = say(node, "GET /nacre/proxy");
    assert!(shown.contains("\"name\":\"two\"") && shown.contains("servise"), "{shown}");
    assert!(shown.contains(&format!("\"address\":\"127.0.0.1:{port}\"")), "{shown}");
    let metrics = say(node, "GET /metrics");
    for line in [
        "nacre_proxy_requests_total{rule=\"two\",status=\"2xx\"}",
        "nacre_proxy_refusals_total{kind=\"no_rule\"}",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    assert!(
        metrics.contains(&format!("nacre_proxy_instance_requests_total{{instance=\"127.0.0.1:{port}\"}}"))
    );
    let said = server.stderr();
    let line =
        said.lines().find(|line| line.contains("proxy_access") && line.contains("/one?token=...")).unwrap();
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!((&line["status"], &line["rule"]), (&200.into(), &"one".into()), "{line}");
    assert!(!said.contains("secret"));
    let deregistration = registration.replace("POST", "DELETE");
    assert_eq!(status(&say(node, &deregistration)), 200);
    assert_eq!(status(&say(proxy, "GET /two")), 503);
    let (ended, _) = server.stop();
    assert!(ended.success());
}

#[test]
fn where_naming_is_left_to_legacy_servers_the_proxy_says_that_it_has_nobody() {
    let settings = [
        "nacre.proxy.listen=127.0.0.1:0",
        "nacre.legacy.naming=legacy",
        // Nobody listens there.
        "nacre.legacy.servers=127.0.0.1:9",
    ];
    let server = Server::start_in(Home::new(), &settings);
    let warned = server.stderr().contains("so the proxy has none to pass requests on to");
    server.stop();
    assert!(warned);
}

#[test]
fn a_mistake_in_the_rules_stops_the_start() {
    let home = Home::new();
    fs::create_dir_all(home.data()).unwrap();
    let rules = home.data().join("rules.toml");
    fs::write(&rules, "[[rule]]\nname = \"a\"\n").unwrap();
    let file = format!("nacre.proxy.rules={}", rules.display());
    let (status, said) = refused(&home.data(), &["nacre.proxy.listen=127.0.0.1:0", &file]);
    assert!(!status.success());
    let told = format!("nacre.proxy.rules: {}: line 1: service: a rule must name one", rules.display());
    assert!(said.contains(&told), "{said}");
    for (settings, told) in [
        (&["nacre.proxy.listen=8080"][..], "nacre.proxy.listen: expected an IP address and a port"),
        (&["nacre.proxy.tls.listen=127.0.0.1:0"], "nacre.proxy.tls.listen: certificates are needed"),
        (
            &["nacre.proxy.listen=127.0.0.1:0", "nacre.proxy.access-log=some"],
            "expected off, full, or sampled",
        ),
    ] {
        let (status, said) = refused(&home.data(), settings);
        assert!(!status.success() && said.contains(told), "{said}");
    }
}
