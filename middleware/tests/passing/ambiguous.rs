//! Requests that two servers could read in two ways: refused, or written anew in one.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    sync::Notify,
};

use crate::front::{PLAN, front, say, upstream};

/// A server that notes every byte, and answers whenever nothing has come for a moment or a request has ended.
struct Noting {
    address: SocketAddr,
    noted: Arc<Mutex<Vec<u8>>>,
    ended: Arc<Notify>,
}

impl Noting {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (noted, ended) = (Arc::<Mutex<Vec<u8>>>::default(), Arc::<Notify>::default());
        let (notes, ends) = (Arc::clone(&noted), Arc::clone(&ended));
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let (notes, ends) = (Arc::clone(&notes), Arc::clone(&ends));
                tokio::spawn(async move {
                    let mut buffer = [0; 4_096];
                    while let Ok(count) = stream.read(&mut buffer).await {
                        if count == 0 {
                            break;
                        }
                        notes.lock().extend_from_slice(&buffer[..count]);
                        let is_whole = is_whole(&notes.lock());
                        if is_whole {
                            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                            let _ = stream.write_all(answer).await;
                        }
                    }
                    ends.notify_one();
                });
            }
        });
        Self { address, noted, ended }
    }
}

/// Whether all that was noted are whole requests, read by the strictest reader: one length or one `chunked`.
fn is_whole(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") else { return false };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_ascii_lowercase();
        bytes = &bytes[end + 4..];
        let of = |name: &str| -> Vec<&str> {
            head.split("\r\n").skip(1).filter_map(|line| line.strip_prefix(name)).collect()
        };
        let (lengths, codings) = (of("content-length: "), of("transfer-encoding: "));
        match (&lengths[..], &codings[..]) {
            ([], []) => {}
            ([length], []) => {
                let length: usize = length.parse().unwrap();
                if bytes.len() < length {
                    return false;
                }
                bytes = &bytes[length..];
            }
            ([], ["chunked"]) => {
                let Some(end) = bytes.windows(5).position(|part| part == b"0\r\n\r\n") else { return false };
                bytes = &bytes[end + 5..];
            }
            both => panic!("ambiguous: {both:?} in {head}"),
        }
    }
    true
}

/// What must become of a request.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// Nothing of it reaches the server; the client is told 4xx, or the connection is closed.
    Refused,
    /// The server gets these bytes, but for the fields that a gateway adds.
    Arrives(&'static str),
}

use Fate::{Arrives, Refused};

/// What arrives of a request with a body of `abc`, or none.
const SIZED: &str = "POST /a HTTP/1.1\r\nhost: h\r\ncontent-length: 3\r\n\r\nabc";
const CHUNKED: &str =
    "POST /a HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
const BARE: &str = "GET /a HTTP/1.1\r\nhost: h\r\n\r\n";
const LENGTHLESS: &str = "POST /a HTTP/1.1\r\nhost: h\r\n\r\n";

/// Requests from the first byte to the last; each is followed by nothing.
const REQUESTS: &[(&str, &str, Fate)] = &[
    // What is usual arrives as it came.
    ("plain", "GET /a HTTP/1.1\r\nHost: h\r\n\r\n", Arrives(BARE)),
    ("a length", "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc", Arrives(SIZED)),
    (
        "chunks",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        Arrives(CHUNKED),
    ),
    (
        "chunks in capitals",
        "POST /a HTTP/1.1\r\nHost: h\r\nTRANSFER-ENCODING: CHUNKED\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        Arrives(CHUNKED),
    ),
    (
        "a chunk's extension",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\n\r\n",
        Arrives(CHUNKED),
    ),
    (
        "a chunk in two",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n03\r\nabc\r\n00\r\n\r\n",
        Arrives(CHUNKED),
    ),
    (
        "trailers that nobody asked for",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nContent-Length: 5\r\nX: y\r\n\r\n",
        Arrives(CHUNKED),
    ),
    // Both, or several.
    (
        "length and chunks",
        "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        Arrives(CHUNKED),
    ),
    (
        "chunks and length",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        Arrives(CHUNKED),
    ),
    (
        "length around chunks",
        "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        Arrives(CHUNKED),
    ),
    (
        "a broken length after chunks",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: x\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        Arrives(CHUNKED),
    ),
    (
        "two lengths",
        "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        Refused,
    ),
    (
        "two equal lengths",
        "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        Arrives(SIZED),
    ),
    (
        "equal lengths that look different",
        "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 03\r\n\r\nabc",
        Arrives(SIZED),
    ),
    ("lengths in one field", "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3, 3\r\n\r\nabc", Refused),
    (
        "two different ones in one field",
        "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3, 4\r\n\r\nabcd",
        Refused,
    ),
    // Lengths.
    ("signed", "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: +3\r\n\r\nabc", Refused),
    ("negative", "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: -3\r\n\r\nabc", Refused),
    ("empty", "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length:\r\n\r\nabc", Refused),
    ("blank", "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length:   \r\n\r\nabc", Refused),
    ("hexadecimal", "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 0x3\r\n\r\nabc", Refused),
    ("a blank inside", "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3 0\r\n\r\nabc", Refused),
    ("a fraction", "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3.0\r\n\r\nabc", Refused),
    (
        "too long a number",
        "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551619\r\n\r\nabc",
        Refused,
    ),
    ("quoted", "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: \"3\"\r\n\r\nabc", Refused),
    ("blanks around", "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: \t 3 \t\r\n\r\nabc", Arrives(SIZED)),
    (
        "zeros before",
        "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 0000000000000000003\r\n\r\nabc",
        Arrives(SIZED),
    ),
    (
        "a length of nothing",
        "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
        Arrives("POST /a HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n"),
    ),
    ("no length", "POST /a HTTP/1.1\r\nHost: h\r\n\r\n", Arrives(LENGTHLESS)),
    (
        "named by Connection",
        "POST /a HTTP/1.1\r\nHost: h\r\nConnection: Content-Length, close\r\nContent-Length: 3\r\n\r\nabc",
        Arrives(SIZED),
    ),
    (
        "an underscore",
        "POST /a HTTP/1.1\r\nHost: h\r\nContent_Length: 9\r\nContent-Length: 3\r\n\r\nabc",
        Arrives("POST /a HTTP/1.1\r\nhost: h\r\ncontent_length: 9\r\ncontent-length: 3\r\n\r\nabc"),
    ),
    // Codings.
    (
        "an unknown coding",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        Refused,
    ),
    (
        "identity",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity\r\nContent-Length: 3\r\n\r\nabc",
        Refused,
    ),
    (
        "chunked first",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, gzip\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        Refused,
    ),
    (
        "compressed, too",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        Refused,
    ),
    (
        "chunked twice",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        Refused,
    ),
    (
        "chunked in two fields",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        Refused,
    ),
    (
        "identity after chunked",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        Refused,
    ),
    (
        "an empty coding",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        Refused,
    ),
    (
        "quoted chunked",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \"chunked\"\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        Refused,
    ),
    (
        "chunked with a parameter",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked;q=1\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        Refused,
    ),
    (
        "a tab behind",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\t\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        Arrives(CHUNKED),
    ),
    (
        "a tab before",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\tchunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        Arrives(CHUNKED),
    ),
    (
        "a vertical tab",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \x0bchunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        Refused,
    ),
    (
        "a comma behind",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked,\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        Refused,
    ),
    (
        "a comma before",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: ,chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        Refused,
    ),
    (
        "of HTTP/1.0",
        "POST /a HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        Refused,
    ),
    (
        "a blank before the colon",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding : chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        Refused,
    ),
    (
        "a tab before the colon",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding\t: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        Refused,
    ),
    (
        "a blank before the name",
        "POST /a HTTP/1.1\r\nHost: h\r\n Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        Refused,
    ),
    (
        "a folded coding",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\n chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        Refused,
    ),
    (
        "an underscore for a dash",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer_Encoding: chunked\r\n\r\n",
        Arrives("POST /a HTTP/1.1\r\nhost: h\r\ntransfer_encoding: chunked\r\n\r\n"),
    ),
    (
        "in a GET",
        "GET /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        Arrives("GET /a HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
    ),
    (
        "a GET with a length",
        "GET /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
        Arrives("GET /a HTTP/1.1\r\nhost: h\r\ncontent-length: 3\r\n\r\nabc"),
    ),
    // Lines.
    ("a folded line", "GET /a HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n", Refused),
    (
        "a bare CR in a value",
        "GET /a HTTP/1.1\r\nHost: h\r\nX: a\rTransfer-Encoding: chunked\r\n\r\n",
        Refused,
    ),
    ("a bare CR at the end", "GET /a HTTP/1.1\r\nHost: h\r\rX: a\r\n\r\n", Refused),
    ("a NUL in a value", "GET /a HTTP/1.1\r\nHost: h\r\nX: a\0b\r\n\r\n", Refused),
    ("a NUL in a name", "GET /a HTTP/1.1\r\nHost: h\r\nX\0: a\r\n\r\n", Refused),
    ("no colon", "GET /a HTTP/1.1\r\nHost: h\r\nX\r\n\r\n", Refused),
    ("no name", "GET /a HTTP/1.1\r\nHost: h\r\n: a\r\n\r\n", Refused),
    ("bare LF", "GET /a HTTP/1.1\nHost: h\n\n", Arrives(BARE)),
    ("bare LF in between", "POST /a HTTP/1.1\r\nHost: h\nContent-Length: 3\r\n\r\nabc", Arrives(SIZED)),
    ("an empty line before", "\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n", Arrives(BARE)),
    // Chunks.
    (
        "a chunk without a size",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n\r\nabc\r\n0\r\n\r\n",
        Refused,
    ),
    (
        "a chunk's signed size",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n+3\r\nabc\r\n0\r\n\r\n",
        Refused,
    ),
    (
        "a chunk's size with 0x",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n",
        Refused,
    ),
    (
        "a chunk's size that is too large",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000003\r\nabc\r\n0\r\n\r\n",
        Refused,
    ),
    (
        "a chunk without its end",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcX0\r\n\r\n",
        Refused,
    ),
    (
        "a chunk's size that ends in LF",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n",
        Refused,
    ),
    // Targets and hosts.
    ("no host", "GET /a HTTP/1.1\r\n\r\n", Refused),
    ("two hosts", "GET /a HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", Refused),
    ("an empty host", "GET /a HTTP/1.1\r\nHost:\r\n\r\n", Refused),
    ("a host with a path", "GET /a HTTP/1.1\r\nHost: h/b\r\n\r\n", Refused),
    ("a host with a user", "GET /a HTTP/1.1\r\nHost: u@h\r\n\r\n", Refused),
    ("hosts in one field", "GET /a HTTP/1.1\r\nHost: h, i\r\n\r\n", Refused),
    ("a whole URI", "GET http://h/a HTTP/1.1\r\nHost: h\r\n\r\n", Arrives(BARE)),
    ("a whole URI of another host", "GET http://i/a HTTP/1.1\r\nHost: h\r\n\r\n", Refused),
    ("a whole URI with a user", "GET http://u@h/a HTTP/1.1\r\nHost: h\r\n\r\n", Refused),
    ("another scheme", "GET ftp://h/a HTTP/1.1\r\nHost: h\r\n\r\n", Refused),
    ("a tunnel", "CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n\r\n", Refused),
    ("no path", "GET a HTTP/1.1\r\nHost: h\r\n\r\n", Refused),
    ("only a query", "GET ?a HTTP/1.1\r\nHost: h\r\n\r\n", Refused),
    ("an asterisk", "GET * HTTP/1.1\r\nHost: h\r\n\r\n", Refused),
    ("no target", "GET  HTTP/1.1\r\nHost: h\r\n\r\n", Refused),
    ("a blank in the target", "GET /a b HTTP/1.1\r\nHost: h\r\n\r\n", Refused),
    ("another version", "GET /a HTTP/1.2\r\nHost: h\r\n\r\n", Refused),
    ("no version", "GET /a\r\nHost: h\r\n\r\n", Refused),
    ("a fragment", "GET /a#b HTTP/1.1\r\nHost: h\r\n\r\n", Arrives(BARE)),
    ("HTTP/1.0", "GET /a HTTP/1.0\r\nHost: h\r\n\r\n", Arrives(BARE)),
];

/// Fields that the front adds; they are the same for all.
fn without_added(noted: &str) -> String {
    let added = ["x-nacre-hops: 1\r\n", "x-forwarded-for: 127.0.0.1\r\n", "x-forwarded-proto: http\r\n"];
    let mut text = noted.to_owned();
    for field in added {
        text = text.replace(field, "");
    }
    let is_hosts = |line: &&str| !line.starts_with("x-forwarded-host: ");
    text.split_inclusive("\r\n").filter(is_hosts).collect()
}

#[tokio::test]
async fn a_request_arrives_in_one_reading_or_not_at_all() {
    assert!(REQUESTS.len() >= 60, "{}", REQUESTS.len());
    for (name, request, fate) in REQUESTS {
        let server = Noting::start().await;
        let front = front(upstream(server.address), PLAN).await;
        // A client that asks no more, so that the front closes; what it refuses it closes by itself.
        let mut stream = tokio::net::TcpStream::connect(front).await.unwrap();
        let _ = stream.write_all(request.as_bytes()).await;
        let answer = first_answer(&mut stream).await;
        drop(stream);
        let noted = String::from_utf8(server.noted.lock().clone()).unwrap();
        match fate {
            Refused => {
                let is_refused =
                    answer.is_empty() || answer.starts_with("HTTP/1.1 4") || answer.starts_with("HTTP/1.0 4");
                let body_began = noted.is_empty() || !is_whole(noted.as_bytes());
                assert!(is_refused && body_began, "{name}: {answer}\n{noted}");
                // Of a body that turns out to be broken, the head has gone: then the connection was cut before its end.
                if !noted.is_empty() {
                    tokio::time::timeout(Duration::from_secs(5), server.ended.notified()).await.expect(name);
                }
            }
            Arrives(expected) => {
                assert_eq!(without_added(&noted), *expected, "{name}: {answer}");
                assert!(answer.contains(" 200 OK"), "{name}: {answer}");
            }
        }
    }
}

/// What comes until the body of one answer has come, or the end.
async fn first_answer(stream: &mut tokio::net::TcpStream) -> String {
    let mut answer = Vec::new();
    let mut buffer = [0; 4_096];
    loop {
        if answer.ends_with(b"\r\n\r\nok") {
            break;
        }
        let reading = tokio::time::timeout(Duration::from_secs(10), stream.read(&mut buffer)).await;
        match reading.expect("an answer or an end") {
            Ok(0) | Err(_) => break,
            Ok(count) => answer.extend_from_slice(&buffer[..count]),
        }
        if answer.starts_with(b"HTTP/1.1 4") && answer.windows(4).any(|part| part == b"\r\n\r\n") {
            break;
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// What the server gets of a request that ends in `0\r\n\r\n`, and another one behind it.
async fn two(head: &str) -> (usize, String) {
    let server = Noting::start().await;
    let front = front(upstream(server.address), PLAN).await;
    let two = format!("{head}\r\n0\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    let answers = say(front, two.as_bytes()).await;
    let noted = without_added(&String::from_utf8(server.noted.lock().clone()).unwrap());
    (answers.matches(" 200 OK").count(), noted)
}

#[tokio::test]
async fn what_follows_a_request_is_read_as_the_next_and_never_as_its_body() {
    const FIRST: &str = "POST /a HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
    let (answers, noted) = two("POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n").await;
    assert_eq!((answers, noted), (2, format!("{FIRST}GET /b HTTP/1.1\r\nhost: h\r\n\r\n")));
    // Who sends both may have been read otherwise by somebody before: the connection ends.
    let both = "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n";
    assert_eq!(two(both).await, (1, FIRST.to_owned()));
}
