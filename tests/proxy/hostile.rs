//! Clients of HTTP/2 that mean no good, beside one that does.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::support::{Front, RULES, front, named};

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A frame of HTTP/2.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// `GET http://a/`, from the static table but for the host.
const HEAD: &[u8] = &[0x82, 0x86, 0x84, 0x41, 0x01, b'a'];
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Sends frames until the proxy ends the connection or has taken all; tells whether it ended it.
async fn floods(front: &Front, frames: impl Iterator<Item = Vec<u8>>) -> bool {
    let stream = TcpStream::connect(front.address).await.unwrap();
    let (mut from, mut to) = stream.into_split();
    let reading = tokio::spawn(async move {
        let mut buffer = [0; 65_536];
        while from.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
    });
    to.write_all(PREFACE).await.unwrap();
    to.write_all(&frame(4, 0, 0, &[])).await.unwrap();
    for frame in frames {
        if reading.is_finished() || to.write_all(&frame).await.is_err() {
            return true;
        }
    }
    let ended = tokio::time::timeout(Duration::from_secs(5), reading).await;
    ended.is_ok()
}

/// Answers that a client who means well gets meanwhile, and the longest that one took.
async fn goes_on(front: &Front, flood: impl Future<Output = bool>) -> (u32, Duration, bool) {
    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    let mut flood = std::pin::pin!(flood);
    let (mut answers, mut slowest) = (0, Duration::ZERO);
    loop {
        let began = tokio::time::Instant::now();
        let request = Request::get(format!("http://{}/", front.address)).body(Full::default()).unwrap();
        let asking = async {
            assert_eq!(client.request(request).await.unwrap().status(), 200);
        };
        let mut asking = std::pin::pin!(asking);
        let mut ended = None;
        tokio::select! {
            biased;
            () = asking.as_mut() => {}
            outcome = flood.as_mut() => ended = Some(outcome),
        }
        if let Some(ended) = ended {
            asking.await;
            return (answers + 1, slowest.max(began.elapsed()), ended);
        }
        answers += 1;
        slowest = slowest.max(began.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_are_reset_at_once_end_their_connection_and_harm_nobody() {
    let front = front(RULES).await;
    let instance = named().await;
    front.register(instance.address);
    let resets = (0..20_000_u32).map(|number| {
        let stream = number * 2 + 1;
        let mut bytes = frame(1, END_STREAM | END_HEADERS, stream, HEAD);
        bytes.extend(frame(3, 0, stream, &8_u32.to_be_bytes()));
        bytes
    });
    let (answers, slowest, ended) = goes_on(&front, floods(&front, resets)).await;
    println!("{answers} answers meanwhile, the slowest after {slowest:?}; ended: {ended}");
    assert!(answers > 0 && slowest < Duration::from_secs(5), "{answers} {slowest:?}");
    let shown = || serde_json::to_value(front.proxy.shown()).unwrap();
    super::support::until("nothing is left under way", || {
        shown()["rules"][0]["destinations"][0]["inFlight"] == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_without_end_ends_its_connection_and_harms_nobody() {
    let front = front(RULES).await;
    let instance = named().await;
    front.register(instance.address);
    // A literal field, again and again, in frames that never end the head.
    let mut field = vec![0x00, 0x01, b'x', 0x7f, 0x80, 0x7d];
    field.extend([b'y'; 16_000 - 6]);
    let opening = std::iter::once(frame(1, 0, 1, HEAD));
    let going_on = (0..2_000).map(move |_| frame(9, 0, 1, &field));
    let (answers, slowest, ended) = goes_on(&front, floods(&front, opening.chain(going_on))).await;
    println!("{answers} answers meanwhile, the slowest after {slowest:?}");
    assert!(ended, "it may go on for ever");
    assert!(answers > 0 && slowest < Duration::from_secs(5), "{answers} {slowest:?}");
}

#[tokio::test]
async fn a_head_that_is_too_long_is_431() {
    let front = front(RULES).await;
    let head = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "y".repeat(100_000));
    let answer = front.say(head.as_bytes()).await;
    assert_eq!(super::support::status(&answer), 431, "{answer}");
}
