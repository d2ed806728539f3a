//! What clients are told, and what instances are told of them.

use super::support::{RULES, client, front, front_with, instance, named, raw, said, status, until};
use http_body_util::BodyExt as _;
use nacre::config::ProxySettings;
use tokio_rustls::rustls::RootCertStore;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[tokio::test]
async fn what_no_rule_is_for_is_404_and_says_so() {
    let front =
        front("[[rule]]\nname = \"a\"\nhost = \"a.example\"\npath = \"/a\"\nservice = \"orders\"").await;
    for request in ["GET /a HTTP/1.1\r\nHost: b.example", "GET /b HTTP/1.1\r\nHost: a.example"] {
        let answer = front.say(format!("{request}\r\nConnection: close\r\n\r\n").as_bytes()).await;
        assert_eq!(status(&answer), 404, "{answer}");
        assert!(answer.contains("no rule of this proxy is for this host and path"), "{answer}");
    }
}

#[tokio::test]
async fn a_service_without_instances_is_503_with_retry_after() {
    let front = front(RULES).await;
    let answer = front.get("/a").await;
    assert_eq!(status(&answer), 503);
    assert!(answer.contains("retry-after: 1") && answer.contains("no instance"), "{answer}");
}

#[tokio::test]
async fn what_instances_do_wrong_has_its_status_and_the_number_of_the_request() {
    for (answers, expected) in [
        (&["<html>lies</html>\r\n\r\n"][..], 502),
        (&["HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello"], 502),
        (&[""], 502),
    ] {
        let front = front(&format!("{RULES}retries = 0\n")).await;
        let (address, _) = raw(answers).await;
        front.register(address);
        let answer = front.get("/a").await;
        assert_eq!(status(&answer), expected, "{answer}");
        let id = answer.lines().find_map(|line| line.strip_prefix("x-request-id: ")).unwrap();
        assert!(answer.ends_with(&format!("\nrequest {id}\n")), "{answer}");
    }
}

#[tokio::test]
async fn one_that_nobody_reaches_is_502_and_one_that_is_silent_504() {
    let front = front(&format!("{RULES}retries = 0\nresponse-timeout = \"100ms\"\n")).await;
    let gone = named().await;
    let nobody = gone.address;
    drop(gone);
    front.register(nobody);
    until("the port is closed", || std::net::TcpStream::connect(nobody).is_err()).await;
    assert_eq!(status(&front.get("/a").await), 502);
    front.deregister(nobody);
    let silent = instance(|_| std::future::pending()).await;
    front.register(silent.address);
    let answer = front.get("/a").await;
    assert_eq!(status(&answer), 504, "{answer}");
}

#[tokio::test]
async fn headers_of_the_connection_stay_and_the_client_is_named() {
    let front = front(RULES).await;
    let (address, read) = raw(&[OK]).await;
    front.register(address);
    let answer = front
        .say(
            b"GET /a?b=c HTTP/1.1\r\nHost: Shop.example:81\r\nConnection: close, X-Secret\r\nX-Secret: 1\r\n\
              Keep-Alive: 5\r\nProxy-Authorization: x\r\nTE: gzip\r\nX-Forwarded-For: 6.6.6.6\r\n\
              X-Forwarded-Proto: https\r\nX-Forwarded-Prefix: /evil\r\nX-Forwarded-Port: 1\r\nX-Real-IP: 6.6.6.6\r\n\
              X-Request-Id: forged\r\nAuthorization: kept\r\n\r\n",
        )
        .await;
    assert!(answer.ends_with("ok"), "{answer}");
    let sent = String::from_utf8(read.lock()[0].clone()).unwrap().to_lowercase();
    assert!(sent.starts_with("get /a?b=c http/1.1\r\n"), "{sent}");
    let sent = format!("\r\n{sent}");
    for kept in [
        "host: shop.example:81\r\n",
        "authorization: kept\r\n",
        "x-forwarded-for: 127.0.0.1\r\n",
        "x-forwarded-proto: http\r\n",
        "x-forwarded-host: shop.example:81\r\n",
    ] {
        let kept = format!("\r\n{kept}");
        assert_eq!(sent.matches(&kept).count(), 1, "{kept} {sent}");
    }
    for gone in [
        "x-secret",
        "keep-alive",
        "proxy-authorization",
        "te:",
        "6.6.6.6",
        "forged",
        "connection: close",
        "evil",
        "-port",
        "real-ip",
    ] {
        assert!(!sent.contains(gone), "{gone} {sent}");
    }
}

#[tokio::test]
async fn a_change_to_another_form_of_http_is_not_asked_for() {
    let front = front(RULES).await;
    let (address, read) = raw(&[OK]).await;
    front.register(address);
    for protocol in ["h2c", "websocket, H2C", "TLS/1.2"] {
        let request = format!(
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade, http2-settings\r\nUpgrade: {protocol}\r\n\
             HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        );
        let answer = front.say(request.as_bytes()).await;
        assert_eq!(answer.matches("HTTP/1.1 200").count(), 2, "{answer}");
    }
    let sent = String::from_utf8(read.lock().concat()).unwrap().to_lowercase();
    assert!(!sent.contains("upgrade") && !sent.contains("http2-settings"), "{sent}");
}

#[tokio::test]
async fn who_is_trusted_may_say_whom_it_speaks_for() {
    let settings =
        ProxySettings { trust_forwarded: vec!["127.0.0.0/8".parse().unwrap()], ..ProxySettings::default() };
    let front = front_with(RULES, settings, None, RootCertStore::empty()).await;
    let (address, read) = raw(&[OK]).await;
    front.register(address);
    let answer = front
        .say(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Forwarded-For: 6.6.6.6\r\nX-Request-Id: r-1\r\n\r\n")
        .await;
    assert!(answer.contains("x-request-id: r-1"), "{answer}");
    let sent = String::from_utf8(read.lock()[0].clone()).unwrap().to_lowercase();
    assert!(
        sent.contains("x-forwarded-for: 6.6.6.6, 127.0.0.1\r\n") && sent.contains("x-request-id: r-1"),
        "{sent}"
    );
}

#[tokio::test]
async fn a_prefix_is_taken_off_and_the_host_is_what_the_rule_says() {
    let rules = "[[rule]]\nname = \"a\"\npath = \"/orders\"\nservice = \"orders\"\nstrip-prefix = true\n\
                 host-header = \"instance\"\n";
    let front = front(rules).await;
    let (address, read) = raw(&[OK]).await;
    front.register(address);
    assert_eq!(status(&front.get("/%6Frders/1?x=%2F").await), 200);
    let sent = String::from_utf8(read.lock()[0].clone()).unwrap();
    assert!(sent.starts_with("GET /1?x=%2F HTTP/1.1\r\n"), "{sent}");
    assert!(sent.to_lowercase().contains(&format!("host: {address}\r\n")), "{sent}");
    assert_eq!(status(&front.get("/orders/../admin").await), 400);
    assert_eq!(read.lock().len(), 1);
}

#[tokio::test]
async fn a_body_that_is_too_long_is_413_announced_or_not() {
    let front = front(&format!("{RULES}max-body-bytes = 4\n")).await;
    let taker = instance(|request| async move {
        let body = request.into_body().collect().await;
        said(body.map(http_body_util::Collected::to_bytes).unwrap_or_default())
    })
    .await;
    front.register(taker.address);
    let post = |rest: &str| format!("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{rest}");
    let answer = front.say(post("Content-Length: 4\r\n\r\nfour").as_bytes()).await;
    assert!(status(&answer) == 200 && answer.ends_with("four"), "{answer}");
    let answer = front.say(post("Content-Length: 5\r\n\r\nfive!").as_bytes()).await;
    assert_eq!(status(&answer), 413, "{answer}");
    let chunks = "Transfer-Encoding: chunked\r\n\r\n3\r\nfiv\r\n2\r\ne!\r\n0\r\n\r\n";
    let answer = front.say(post(chunks).as_bytes()).await;
    assert_eq!(status(&answer), 413, "{answer}");
}

#[tokio::test]
async fn limits_of_service_and_instance_are_503_and_end_with_the_requests() {
    let (open, opened) = tokio::sync::watch::channel(false);
    let waits = move |_| {
        let mut opened = opened.clone();
        async move {
            let _ = opened.wait_for(|open| *open).await;
            said("done")
        }
    };
    let front = front(&format!("{RULES}max-per-instance = 2\nmax-per-service = 3\n")).await;
    let instances = [instance(waits.clone()).await, instance(waits).await];
    front.register(instances[0].address);
    let asking = || {
        let uri = format!("http://{}/", front.address).parse().unwrap();
        tokio::spawn(client().get(uri))
    };
    let mut under_way = vec![asking(), asking()];
    let in_flight = |count: u64| {
        let shown = serde_json::to_value(front.proxy.shown()).unwrap();
        shown["rules"][0]["destinations"][0]["inFlight"] == count
    };
    until("two are under way", || in_flight(2)).await;
    assert_eq!(status(&front.get("/").await), 503, "the only instance is full");
    front.register(instances[1].address);
    under_way.push(asking());
    until("three are under way", || in_flight(3)).await;
    let answer = front.get("/").await;
    assert!(status(&answer) == 503 && answer.contains("as many requests as it may"), "{answer}");
    open.send(true).unwrap();
    for asked in under_way {
        assert_eq!(asked.await.unwrap().unwrap().status(), 200);
    }
    until("none is under way", || in_flight(0)).await;
    assert_eq!(status(&front.get("/").await), 200);
}
