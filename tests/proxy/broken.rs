//! Answers that begin well and end too early.

use std::{net::SocketAddr, sync::Arc};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::support::{Front, RULES, front, named, status};

/// An instance that says this to each request, and then ends the connection, or says nothing more.
async fn says(text: &'static str, ends: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut read = Vec::new();
                while !read.ends_with(b"\r\n\r\n") {
                    if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
                        return;
                    }
                }
                stream.write_all(text.as_bytes()).await.unwrap();
                if !ends {
                    let _ = stream.read_to_end(&mut read).await;
                }
            });
        }
    });
    address
}

fn ejection(front: &Front, of: SocketAddr) -> Option<String> {
    let shown = serde_json::to_value(front.proxy.shown()).unwrap();
    let instances = shown["rules"][0]["destinations"][0]["instances"].as_array().unwrap().clone();
    let one = instances.into_iter().find(|one| one["address"] == of.to_string()).unwrap();
    one.get("ejected").map(|ejected| ejected["reason"].as_str().unwrap().to_owned())
}

/// Why an instance is ejected that answers so, beside one that does well; and the lines that were logged.
async fn ejected_for(text: &'static str, ends: bool) -> (Option<String>, String) {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt().with_writer(lines.clone()).with_ansi(false).finish();
    let logging = tracing::subscriber::set_default(subscriber);
    let front = front(&format!("{RULES}idle-timeout = \"100ms\"\n")).await;
    let (good, bad) = (named().await, says(text, ends).await);
    front.register(good.address);
    front.register(bad);
    for _ in 0..14 {
        // What breaks off may do so before its head was sent.
        let answer = front.get("/").await;
        assert!(answer.is_empty() || status(&answer) == 200, "{answer}");
    }
    drop(logging);
    let lines = String::from_utf8(lines.0.lock().clone()).unwrap();
    (ejection(&front, bad), lines)
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl tracing_subscriber::fmt::MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn an_instance_whose_answers_break_off_is_told_of_once_and_ejected() {
    let (ejected, lines) = ejected_for("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", true).await;
    assert_eq!(ejected.as_deref(), Some("answer_cut"));
    assert_eq!(lines.matches("a request has no whole answer of an instance").count(), 1, "{lines}");
    assert!(lines.contains("kind=\"answer_cut\""), "{lines}");
}

#[tokio::test]
async fn an_instance_whose_answers_stop_before_their_end_is_ejected() {
    let (ejected, _) = ejected_for("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", false).await;
    assert_eq!(ejected.as_deref(), Some("answer_stopped"));
}

#[tokio::test]
async fn events_that_do_not_come_say_nothing_against_their_instance() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    let (ejected, lines) = ejected_for(head, false).await;
    assert_eq!(ejected, None, "{lines}");
}

#[tokio::test]
async fn an_upload_that_breaks_off_says_nothing_against_its_instance() {
    let front = front(RULES).await;
    let good = named().await;
    front.register(good.address);
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc";
    let bad = says(head, false).await;
    front.register(bad);
    for _ in 0..14 {
        let mut stream = TcpStream::connect(front.address).await.unwrap();
        stream.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n").await.unwrap();
        let mut begun = [0; 12];
        stream.read_exact(&mut begun).await.unwrap();
        drop(stream);
    }
    assert_eq!(ejection(&front, bad), None);
}
