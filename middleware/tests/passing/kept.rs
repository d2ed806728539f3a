//! Kept connections: what is sent again, and what never.

use std::time::Duration;

use nacre_middleware::pool::Bounds;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::front::{Does::*, PLAN, Scripted, front, say, upstream, upstream_within};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
const POST: &[u8] = b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc";
const PUT: &[u8] = b"PUT /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn a_post_that_the_server_has_read_is_never_sent_twice() {
    for end in [Reset, Close] {
        let scripts: &'static [&'static [crate::front::Does]] = match end {
            Reset => &[&[ReadTo("abc"), Reset]],
            _ => &[&[ReadTo("abc"), Close]],
        };
        let server = Scripted::start(scripts).await;
        let front = front(upstream(server.address), PLAN).await;
        let answer = say(front, POST).await;
        assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
        assert_eq!(server.read().len(), 1);
    }
}

#[tokio::test]
async fn an_idempotent_request_is_sent_once_more_where_nothing_came_back() {
    for request in [GET, PUT] {
        let server = Scripted::start(&[&[ReadTo("\r\n\r\n"), Reset], &[ReadTo("\r\n\r\n"), Say(OK)]]).await;
        let front = front(upstream(server.address), PLAN).await;
        let answer = say(front, request).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let read = server.read();
        assert_eq!(read.len(), 2);
        assert_eq!(read[0], read[1]);
    }
}

#[tokio::test]
async fn nothing_is_sent_again_after_a_byte_of_an_answer() {
    let server = Scripted::start(&[&[ReadTo("\r\n\r\n"), Say("H"), Close]]).await;
    let front = front(upstream(server.address), PLAN).await;
    let answer = say(front, GET).await;
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    assert_eq!(server.read().len(), 1);
}

#[tokio::test]
async fn an_idempotent_request_whose_body_has_been_read_isnt_sent_again() {
    let server = Scripted::start(&[&[ReadTo("abc"), Reset]]).await;
    let front = front(upstream(server.address), PLAN).await;
    let put = b"PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc";
    let answer = say(front, put).await;
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    assert_eq!(server.read().len(), 1);
}

/// One request over a connection that stays open.
async fn ask(stream: &mut TcpStream, request: &[u8]) -> String {
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    let mut buffer = [0; 1_024];
    while !answer.ends_with(b"ok") {
        let count = stream.read(&mut buffer).await.unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&buffer[..count]);
    }
    String::from_utf8(answer).unwrap()
}

/// Answers every request; counts connections.
async fn counting() -> (std::net::SocketAddr, tokio::sync::watch::Receiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = tokio::sync::watch::channel(0);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            sender.send_modify(|count| *count += 1);
            tokio::spawn(async move {
                let mut buffer = [0; 4_096];
                while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {
                    let _ = stream.write_all(OK.as_bytes()).await;
                }
            });
        }
    });
    (address, receiver)
}

const KEPT_GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n";
const KEPT_POST: &[u8] = b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";

#[tokio::test]
async fn a_post_takes_a_connection_that_was_just_used_or_a_new_one() {
    let (address, connections) = counting().await;
    let to = upstream(address);
    let mut client = TcpStream::connect(front(to.clone(), PLAN).await).await.unwrap();
    ask(&mut client, KEPT_GET).await;
    ask(&mut client, KEPT_POST).await;
    ask(&mut client, KEPT_GET).await;
    assert_eq!(*connections.borrow(), 1);
    assert_eq!(to.readings().idle, 1);
    // The real clock: what counts is the time since the last use.
    tokio::time::sleep(Duration::from_millis(250)).await;
    ask(&mut client, KEPT_POST).await;
    assert_eq!(*connections.borrow(), 2);
    ask(&mut client, KEPT_GET).await;
    assert_eq!(*connections.borrow(), 2);
}

#[tokio::test]
async fn a_connection_that_the_server_has_closed_is_not_given_out() {
    let server =
        Scripted::start(&[&[ReadTo("\r\n\r\n"), Say(OK), Wait, Close], &[ReadTo("abc"), Say(OK)]]).await;
    let to = upstream(server.address);
    let mut client = TcpStream::connect(front(to.clone(), PLAN).await).await.unwrap();
    ask(&mut client, KEPT_GET).await;
    server.go.send(()).await.unwrap();
    // Until the news has come.
    while to.readings().idle > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        to.sweep();
    }
    let answer = ask(&mut client, KEPT_POST).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(server.read().len(), 2);
}

#[tokio::test]
async fn what_a_server_says_unasked_is_nobodys_answer() {
    let server = Scripted::start(&[
        &[ReadTo("\r\n\r\n"), Say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")],
        &[ReadTo("\r\n\r\n"), Say(OK)],
    ])
    .await;
    let mut client = TcpStream::connect(front(upstream(server.address), PLAN).await).await.unwrap();
    ask(&mut client, KEPT_GET).await;
    let answer = ask(&mut client, KEPT_GET).await;
    assert!(!answer.contains("forged"), "{answer}");
}

#[tokio::test]
async fn idle_connections_are_closed_in_time_and_bounded() {
    let (address, _) = counting().await;
    let bounds = Bounds { keep: Duration::from_millis(50), max_idle: 2, ..Bounds::default() };
    let to = upstream_within(address, bounds);
    let front = front(to.clone(), PLAN).await;
    let asking = (0..5).map(|_| async move { say(front, GET).await });
    for answer in futures_util::future::join_all(asking).await {
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    assert!((1..=2).contains(&to.readings().idle), "{:?}", to.readings());
    tokio::time::sleep(Duration::from_millis(60)).await;
    to.sweep();
    assert_eq!(to.readings().idle, 0);
    assert_eq!(to.readings().in_flight, 0);
}

#[tokio::test]
async fn more_than_may_be_under_way_wait_and_more_than_may_wait_are_refused() {
    let server = Scripted::start(&[&[ReadTo("\r\n\r\n"), Wait, Say(OK), Close]]).await;
    let bounds = Bounds { max_in_flight: 1, max_waiting: 1, ..Bounds::default() };
    let to = upstream_within(server.address, bounds);
    let front = front(to.clone(), PLAN).await;
    let first = tokio::spawn(say(front, GET));
    while to.readings().in_flight == 0 {
        tokio::task::yield_now().await;
    }
    let second = tokio::spawn(say(front, GET));
    while to.readings().waiting == 0 {
        tokio::task::yield_now().await;
    }
    let third = say(front, GET).await;
    assert!(third.starts_with("HTTP/1.1 503"), "{third}");
    server.go.send(()).await.unwrap();
    assert!(first.await.unwrap().starts_with("HTTP/1.1 200"));
    server.go.send(()).await.unwrap();
    assert!(second.await.unwrap().starts_with("HTTP/1.1 200"));
}
