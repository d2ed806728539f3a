//! Requests that servers read differently: refused, or passed on in one form. A raw instance sees every byte that goes on.

use super::support::{RULES, front, raw, status};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// What follows `POST / HTTP/1.1`, and what is refused with it.
const REFUSED: &[&str] = &[
    "Host: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "Host: a\r\nContent-Length: 3, 3\r\n\r\nabc",
    "Host: a\r\nContent-Length: +3\r\n\r\nabc",
    "Host: a\r\nContent-Length: -3\r\n\r\nabc",
    "Host: a\r\nContent-Length: 0x3\r\n\r\nabc",
    "Host: a\r\nContent-Length: 3 3\r\n\r\nabc",
    "Host: a\r\nContent-Length:\r\n\r\nabc",
    "Host: a\r\nContent-Length: three\r\n\r\nabc",
    "Host: a\r\nContent-Length: 99999999999999999999\r\n\r\nabc",
    "Host: a\r\nContent-Length : 3\r\n\r\nabc",
    "Host: a\r\nContent-Length\t: 3\r\n\r\nabc",
    "Host: a\r\n Content-Length: 3\r\n\r\nabc",
    "Host: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "Host: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "Host: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "Host: a\r\nTransfer-Encoding: identity\r\n\r\nabc",
    "Host: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "Host: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "Host: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "Host: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "Host: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "Host: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n",
    "Host: a\r\nTransfer-Encoding: chunked;a=b\r\n\r\n0\r\n\r\n",
    "Host: a\r\nTransfer_Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n",
    "Host: a\r\nX: a\r\n b\r\n\r\n",
    "Host: a\r\nX: a\r\n\tb\r\n\r\n",
    "Host: a\r\nX: a\rb\r\n\r\n",
    "Host: a\r\nX: a\0b\r\n\r\n",
    "Host: a\r\nX y: 1\r\n\r\n",
    "Host: a\r\n: 1\r\n\r\n",
    "Host: a\r\nX\r\n\r\n",
    "Host: a\r\nX(: 1\r\n\r\n",
    "Host: a\r\nX\0: 1\r\n\r\n",
    "Content-Length: 0\r\n\r\n",
    "Host:\r\nContent-Length: 0\r\n\r\n",
    "Host: a\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
    "Host: a\r\nHost: b\r\nContent-Length: 0\r\n\r\n",
    "Host: a b\r\nContent-Length: 0\r\n\r\n",
    "Host: a/b\r\nContent-Length: 0\r\n\r\n",
    "Host: u@a\r\nContent-Length: 0\r\n\r\n",
    "Host: a:80:80\r\nContent-Length: 0\r\n\r\n",
    "Host: [::1\r\nContent-Length: 0\r\n\r\n",
];

/// Whole requests that are refused.
const WHOLE: &[&str] = &[
    "POST  / HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST /\r\nHost: a\r\n\r\n",
    "POST HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST / HTTP/1.2\r\nHost: a\r\n\r\n",
    "POST / HTTP/0.9\r\nHost: a\r\n\r\n",
    "POST / http/1.1\r\nHost: a\r\n\r\n",
    "POST\t/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST /a b HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST /\x01 HTTP/1.1\r\nHost: a\r\n\r\n",
    "PO(ST / HTTP/1.1\r\nHost: a\r\n\r\n",
    "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n",
    "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET * HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET a HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /a/../b HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /a/%2e%2e/b HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /public/..%2fadmin HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /public/..%5Cadmin HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /public/..%3bx/admin HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /a%00 HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
];

#[tokio::test]
async fn what_is_read_in_two_ways_is_not_passed_on() {
    let front = front(RULES).await;
    let (address, read) = raw(&[OK]).await;
    front.register(address);
    let posts = REFUSED.iter().map(|rest| format!("POST / HTTP/1.1\r\n{rest}"));
    let all: Vec<String> = posts.chain(WHOLE.iter().map(|whole| (*whole).to_owned())).collect();
    assert!(all.len() >= 60, "{}", all.len());
    for request in all {
        // Behind it one that must not be taken for a part of it, or for one of its own.
        let smuggled = format!("{request}GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");
        let answer = front.say(smuggled.as_bytes()).await;
        if answer.is_empty() {
            // Closed without a word, as a version that isn't HTTP may be.
            continue;
        }
        assert!((400..=505).contains(&status(&answer)), "{request:?}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{request:?}: {answer}");
    }
    let passed = read.lock();
    let texts: Vec<_> = passed.iter().map(|bytes| String::from_utf8_lossy(bytes)).collect();
    assert!(texts.is_empty(), "passed on: {texts:?}");
}

/// What may pass: the rest of a POST, and the framing and the body that the instance sees.
const PASSED: &[(&str, &str, &str)] = &[
    ("Host: a\r\nContent-Length: 3\r\n\r\nabc", "content-length: 3", "abc"),
    ("Host: a\r\nContent-Length: 003\r\n\r\nabc", "content-length: 3", "abc"),
    (
        "Host: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "transfer-encoding: chunked",
        "3\r\nabc\r\n0\r\n\r\n",
    ),
    (
        "Host: a\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "transfer-encoding: chunked",
        "3\r\nabc\r\n0\r\n\r\n",
    ),
    (
        "Host: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\n\r\n",
        "transfer-encoding: chunked",
        "3\r\nabc\r\n0\r\n\r\n",
    ),
    ("Host: a\r\nConnection: content-length\r\nContent-Length: 3\r\n\r\nabc", "content-length: 3", "abc"),
    ("Host: a\r\nContent-Length: 0\r\n\r\n", "content-length: 0", ""),
    // Two of one length, or a length beside chunks, are read as one, and the connection of the latter ends behind it.
    ("Host: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", "content-length: 3", "abc"),
    (
        "Host: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
        "transfer-encoding: chunked",
        "0\r\n\r\n",
    ),
    (
        "Host: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
        "transfer-encoding: chunked",
        "0\r\n\r\n",
    ),
];

#[tokio::test]
async fn what_passes_has_one_framing() {
    for (rest, framing, body) in PASSED {
        let front = front(RULES).await;
        let (address, read) = raw(&[OK]).await;
        front.register(address);
        let request = format!("POST / HTTP/1.1\r\nConnection: close\r\n{rest}");
        let answer = front.say(request.as_bytes()).await;
        assert_eq!(status(&answer), 200, "{rest:?}: {answer}");
        let whole = || read.lock().first().is_some_and(|bytes| bytes.ends_with(body.as_bytes()));
        super::support::until("the body has come", whole).await;
        let sent = String::from_utf8(read.lock()[0].clone()).unwrap();
        let (head, rest) = sent.split_once("\r\n\r\n").unwrap();
        let framings: Vec<_> = head
            .lines()
            .map(str::to_lowercase)
            .filter(|line| line.starts_with("content-length") || line.starts_with("transfer-encoding"))
            .collect();
        assert_eq!((framings.as_slice(), rest), ([(*framing).to_owned()].as_slice(), *body), "{request:?}");
    }
}

#[tokio::test]
async fn a_post_that_was_read_is_never_sent_again_and_a_get_is() {
    let front = front(RULES).await;
    let (address, read) = raw(&[""]).await;
    front.register(address);
    let answer =
        front.say(b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc").await;
    assert_eq!((status(&answer), read.lock().len()), (502, 1), "{answer}");
    assert_eq!(status(&front.get("/").await), 502);
    assert_eq!(read.lock().len(), 4, "once, and two retries");
}
