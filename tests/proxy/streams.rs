//! Streams of HTTP/2 on either side: windows that nobody opens, ends that come early, farewells.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};

use super::{
    hostile::{PREFACE, frame},
    support::{
        Bounds, Front, Instance, RULES, front, front_bounded, instance, named, raw, said, status, until,
    },
};

/// Says `/quick` at once, and all else without end.
async fn endless() -> Instance {
    instance(|request| async move {
        if request.uri().path() == "/quick" {
            return said("quick");
        }
        let pieces = futures_util::stream::unfold((), async |()| {
            tokio::task::yield_now().await;
            Some((Ok::<_, Infallible>(Frame::data(Bytes::from_static(&[b'x'; 16 << 10]))), ()))
        });
        Response::new(StreamBody::new(pieces).boxed())
    })
    .await
}

fn in_flight(front: &Front) -> u64 {
    let shown = serde_json::to_value(front.proxy.shown()).unwrap();
    shown["rules"][0]["destinations"][0]["inFlight"].as_u64().unwrap()
}

fn get(path: &str) -> Request<()> {
    Request::get(format!("http://a{path}")).body(()).unwrap()
}

#[tokio::test]
async fn a_client_that_gives_no_window_holds_no_place_for_ever() {
    let mut bounds = Bounds::default();
    bounds.patience.write = Duration::from_secs(1);
    let front = front_bounded(&format!("{RULES}max-per-instance = 1\n"), bounds).await;
    let endless = endless().await;
    front.register(endless.address);
    let stream = TcpStream::connect(front.address).await.unwrap();
    let builder = h2::client::Builder::new().initial_window_size(0).clone();
    let (sender, connection) = builder.handshake::<_, Bytes>(stream).await.unwrap();
    tokio::spawn(connection);
    let (answer, _) = sender.ready().await.unwrap().send_request(get("/"), true).unwrap();
    let _unread = answer.await.unwrap();
    assert_eq!(status(&front.get("/quick").await), 503, "the instance is full");
    until("its place is free", || in_flight(&front) == 0).await;
    assert_eq!(status(&front.get("/quick").await), 200);
}

#[tokio::test]
async fn streams_that_nobody_reads_hold_up_no_other_of_their_instance() {
    let front = front(&format!("{RULES}protocol = \"h2c\"\n")).await;
    let endless = endless().await;
    front.register(endless.address);
    let mut unread = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(front.address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        unread.push(stream);
    }
    until("all are under way", || in_flight(&front) == 8).await;
    // Until what the kernel holds for them is full, and after that.
    for _ in 0..40 {
        let answer = timeout(Duration::from_secs(2), front.get("/quick")).await.expect("it is held up");
        assert_eq!(status(&answer), 200);
        sleep(Duration::from_millis(25)).await;
    }
}

/// What a server does with each stream of HTTP/2.
type Does = fn(u32, Request<h2::RecvStream>, h2::server::SendResponse<Bytes>);

/// An instance of HTTP/2 that does as it is told with each stream, by its number from 0 on; and how many there were.
async fn streams(does: Does) -> (std::net::SocketAddr, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, count) = (listener.local_addr().unwrap(), Arc::new(AtomicU32::new(0)));
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let counted = Arc::clone(&counted);
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                while let Some(Ok((request, answering))) = connection.accept().await {
                    does(counted.fetch_add(1, Relaxed), request, answering);
                }
            });
        }
    });
    (address, count)
}

fn answer(mut answering: h2::server::SendResponse<Bytes>, text: Bytes) {
    let mut body = answering.send_response(Response::new(()), false).unwrap();
    body.send_data(text, true).unwrap();
}

#[tokio::test]
async fn an_instance_that_resets_its_streams_is_tried_no_more_than_the_rule_says_and_is_ejected() {
    let resets: Does = |number, _, mut answering| {
        if number == 0 {
            answer(answering, Bytes::new());
        } else {
            answering.send_reset(h2::Reason::INTERNAL_ERROR);
        }
    };
    let rules = format!("{RULES}protocol = \"h2c\"\nretries = 1\neject-after = 3\n");
    let front = front(&rules).await;
    let (bad, count) = streams(resets).await;
    front.register(bad);
    assert_eq!(status(&front.get("/").await), 200);
    assert_eq!(status(&front.get("/").await), 502);
    assert_eq!(count.load(Relaxed), 3, "once, and one retry");
    let good = named().await;
    front.register(good.address);
    for _ in 0..6 {
        assert_eq!(status(&front.get("/").await), 200);
    }
    let shown = serde_json::to_value(front.proxy.shown()).unwrap();
    let instances = shown["rules"][0]["destinations"][0]["instances"].as_array().unwrap();
    let one = instances.iter().find(|one| one["address"] == bad.to_string()).unwrap();
    assert_eq!(one["ejected"]["reason"], "closed", "{shown}");
}

async fn post(front: &Front) -> String {
    front.say(b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 7\r\n\r\none two").await
}

#[tokio::test]
async fn a_call_that_the_instance_has_refused_goes_again_with_its_body() {
    let refuses_one: Does = |number, request, mut answering| {
        if number == 0 {
            return answering.send_reset(h2::Reason::REFUSED_STREAM);
        }
        tokio::spawn(async move {
            let mut body = request.into_body();
            let mut text = Vec::new();
            while let Some(data) = body.data().await {
                text.extend_from_slice(&data.unwrap());
            }
            answer(answering, text.into());
        });
    };
    let front = front(&format!("{RULES}protocol = \"h2c\"\n")).await;
    let (address, count) = streams(refuses_one).await;
    front.register(address);
    let answer = post(&front).await;
    assert!(status(&answer) == 200 && answer.contains("one two"), "{answer}");
    assert_eq!(count.load(Relaxed), 2);
}

/// Reads one frame: kind, flags, stream, payload.
async fn read_frame(stream: &mut TcpStream) -> (u8, u8, u32, Vec<u8>) {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.unwrap();
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload).await.unwrap();
    (head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]]), payload)
}

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

/// Reads frames up to one of this kind.
async fn frame_of(stream: &mut TcpStream, wanted: u8) -> (u32, Vec<u8>) {
    loop {
        let (kind, _, number, payload) = read_frame(stream).await;
        if kind == wanted {
            return (number, payload);
        }
    }
}

#[tokio::test]
async fn a_call_that_meets_the_farewell_of_its_instance_goes_again_over_another_connection() {
    let front = front(&format!("{RULES}protocol = \"h2c\"\n")).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    front.register(listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let (mut leaving, _) = listener.accept().await.unwrap();
        leaving.read_exact(&mut [0; PREFACE.len()]).await.unwrap();
        leaving.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
        let (number, _) = frame_of(&mut leaving, HEADERS).await;
        assert_eq!(number, 1);
        // It takes no stream, not even the first.
        leaving.write_all(&frame(GOAWAY, 0, 0, &[0; 8])).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let mut connection = h2::server::handshake(stream).await.unwrap();
        while let Some(Ok((request, answering))) = connection.accept().await {
            tokio::spawn(async move {
                let data = request.into_body().data().await.unwrap().unwrap();
                answer(answering, data);
            });
        }
    });
    let answer = post(&front).await;
    assert!(status(&answer) == 200 && answer.contains("one two"), "{answer}");
    serving.abort();
}

#[tokio::test]
async fn a_request_that_meets_the_farewell_to_an_idle_client_is_finished() {
    let mut bounds = Bounds::default();
    (bounds.patience.idle, bounds.patience.write) = (Duration::from_millis(200), Duration::from_millis(300));
    let front = front_bounded(RULES, bounds).await;
    let slow = instance(|_| async {
        sleep(Duration::from_millis(1_500)).await;
        said("at last")
    })
    .await;
    front.register(slow.address);
    let mut stream = TcpStream::connect(front.address).await.unwrap();
    stream.write_all(PREFACE).await.unwrap();
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
    // The farewell is there, and isn't answered, as if it were still on its way.
    frame_of(&mut stream, GOAWAY).await;
    let head = [0x82, 0x86, 0x84, 0x41, 0x01, b'a'];
    stream.write_all(&frame(HEADERS, 1 | 4, 1, &head)).await.unwrap();
    let answered = timeout(Duration::from_secs(10), frame_of(&mut stream, HEADERS)).await;
    assert_eq!(answered.expect("an answer").0, 1);
}

#[tokio::test]
async fn cookies_that_a_client_sends_apart_reach_the_instance_in_one_line() {
    let front = front(RULES).await;
    let (address, read) = raw(&["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"]).await;
    front.register(address);
    let client: hyper_util::client::legacy::Client<_, Full<Bytes>> =
        hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new())
            .http2_only(true)
            .build_http();
    let request = Request::get(format!("http://{}/", front.address))
        .header("cookie", "a=1")
        .header("cookie", "b=2")
        .body(Full::default())
        .unwrap();
    assert_eq!(client.request(request).await.unwrap().status(), 200);
    let sent = String::from_utf8(read.lock()[0].clone()).unwrap().to_lowercase();
    assert!(sent.contains("\r\ncookie: a=1; b=2\r\n") && sent.matches("cookie").count() == 1, "{sent}");
}
