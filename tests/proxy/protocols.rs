//! What passes besides plain requests: gRPC, WebSocket, events, large bodies, HTTP/2, TLS.

use std::{
    convert::Infallible,
    fs,
    future::{Ready, ready},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use bytes::{Buf as _, BufMut as _, Bytes};
use futures_util::{SinkExt as _, StreamExt as _};
use http::{Request, Response, Uri, Version};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_tungstenite::tungstenite::Message;
use tonic::{
    Code, Status,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    server::{ServerStreamingService, UnaryService},
};

use super::support::{Instance, RULES, front, instance, named, said, until};

/// Messages as they are.
#[derive(Clone, Copy, Default)]
struct Plain;

impl Codec for Plain {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(item);
        Ok(())
    }
}

impl Decoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// Says what was said, or refuses.
#[derive(Clone, Copy)]
struct Echo;

impl UnaryService<Bytes> for Echo {
    type Response = Bytes;
    type Future = Ready<Result<tonic::Response<Bytes>, Status>>;

    fn call(&mut self, request: tonic::Request<Bytes>) -> Self::Future {
        let said = request.into_inner();
        ready(if said == "bad" {
            let mut status = Status::invalid_argument("no such word");
            status.metadata_mut().insert("x-why", "it is bad".parse().unwrap());
            Err(status)
        } else {
            Ok(tonic::Response::new(said))
        })
    }
}

type Words = Pin<Box<dyn futures_util::Stream<Item = Result<Bytes, Status>> + Send>>;

impl ServerStreamingService<Bytes> for Echo {
    type Response = Bytes;
    type ResponseStream = Words;
    type Future = Ready<Result<tonic::Response<Words>, Status>>;

    fn call(&mut self, request: tonic::Request<Bytes>) -> Self::Future {
        let word = request.into_inner();
        let words = (0..3).map(move |_| Ok(word.clone())).chain([Err(Status::aborted("that is all"))]);
        ready(Ok(tonic::Response::new(Box::pin(futures_util::stream::iter(words)))))
    }
}

async fn echo() -> Instance {
    instance(|request| async move {
        let mut grpc = tonic::server::Grpc::new(Plain);
        let answer = match request.uri().path() {
            "/test.Echo/Say" => grpc.unary(Echo, request).await,
            _ => grpc.server_streaming(Echo, request).await,
        };
        answer.map(|body| {
            let body = body.map_err(|status| panic!("{status}"));
            http_body_util::combinators::BoxBody::new(SyncBody(parking_lot::Mutex::new(Box::pin(body))))
        })
    })
    .await
}

/// Lets a body be shared between threads.
struct SyncBody<B>(parking_lot::Mutex<Pin<Box<B>>>);

impl<B: http_body::Body> http_body::Body for SyncBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.0.get_mut().as_mut().poll_frame(cx)
    }
}

#[tokio::test]
async fn grpc_passes_with_its_trailers() {
    let front = front(&format!("{RULES}protocol = \"h2c\"\n")).await;
    let echo = echo().await;
    front.register(echo.address);
    let channel = tonic::transport::Channel::from_shared(format!("http://{}", front.address)).unwrap();
    let mut client = tonic::client::Grpc::new(channel.connect().await.unwrap());
    let say = |text: &'static str| tonic::Request::new(Bytes::from_static(text.as_bytes()));
    let path = |path: &'static str| http::uri::PathAndQuery::from_static(path);
    client.ready().await.unwrap();
    let answer = client.unary(say("hello"), path("/test.Echo/Say"), Plain).await.unwrap();
    assert_eq!(answer.into_inner(), "hello");
    client.ready().await.unwrap();
    let refused = client.unary(say("bad"), path("/test.Echo/Say"), Plain).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::InvalidArgument, "no such word"));
    assert_eq!(refused.metadata().get("x-why").unwrap(), "it is bad");
    client.ready().await.unwrap();
    let answer = client.server_streaming(say("hi"), path("/test.Echo/Repeat"), Plain).await.unwrap();
    let words: Vec<Result<Bytes, Status>> = answer.into_inner().collect().await;
    assert_eq!(words.iter().flatten().collect::<Vec<_>>(), ["hi"; 3]);
    // The status comes in trailers, behind the messages.
    assert_eq!(words[3].as_ref().unwrap_err().message(), "that is all");
}

#[tokio::test]
async fn a_websocket_passes_both_ways_and_is_cut_at_the_end() {
    let front = front(RULES).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    front.register(listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        while let Some(Ok(message)) = socket.next().await {
            if message.is_text() {
                socket.send(message).await.unwrap();
            }
        }
    });
    let url = format!("ws://{}/chat", front.address);
    let (mut socket, answer) = tokio_tungstenite::connect_async(url).await.unwrap();
    assert_eq!(answer.status(), 101);
    for text in ["one", &"x".repeat(100_000)] {
        socket.send(Message::text(text)).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), Message::text(text));
    }
    let shown = || serde_json::to_value(front.proxy.shown()).unwrap();
    assert_eq!(shown()["tunnels"], 1);
    assert_eq!(shown()["rules"][0]["destinations"][0]["inFlight"], 1);
    socket.close(None).await.unwrap();
    while let Some(Ok(_)) = socket.next().await {}
    drop(socket);
    until("its places are free", || shown()["rules"][0]["destinations"][0]["inFlight"] == 0).await;
}

#[tokio::test]
async fn events_come_as_they_are_said() {
    let front = front(RULES).await;
    let (say, heard) = tokio::sync::mpsc::channel::<Bytes>(1);
    let heard = Arc::new(tokio::sync::Mutex::new(Some(heard)));
    let teller = instance(move |_| {
        let heard = Arc::clone(&heard);
        async move {
            let events = heard.lock().await.take().unwrap();
            let frames = futures_util::stream::unfold(events, async |mut events| {
                Some((Ok::<_, Infallible>(Frame::data(events.recv().await?)), events))
            });
            let mut answer = Response::new(http_body_util::BodyExt::boxed(StreamBody::new(frames)));
            answer.headers_mut().insert("content-type", "text/event-stream".parse().unwrap());
            answer
        }
    })
    .await;
    front.register(teller.address);
    let mut stream = TcpStream::connect(front.address).await.unwrap();
    stream.write_all(b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut read = String::new();
    for number in 0..3 {
        // Each must arrive before the next is said.
        say.send(Bytes::from(format!("data: {number}\n\n"))).await.unwrap();
        let mut buffer = [0; 4096];
        while !read.contains(&format!("data: {number}\n\n")) {
            let reading = tokio::time::timeout(Duration::from_secs(10), stream.read(&mut buffer));
            let count = reading.await.expect("an event came").unwrap();
            assert!(count > 0, "{read}");
            read.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
        }
    }
    assert!(read.to_lowercase().contains("content-type: text/event-stream"), "{read}");
}

/// Memory of this process that isn't swapped out.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// Runs a test of this program once more, in a process in which nothing else uses memory; tells whether this is that one.
fn runs_alone(test: &str) -> bool {
    if std::env::var_os("NACRE_TEST_ALONE").is_some() {
        return true;
    }
    let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
    alone.args(["--exact", test, "--nocapture"]).env("NACRE_TEST_ALONE", "yes");
    assert!(alone.status().unwrap().success(), "it failed alone");
    false
}

#[tokio::test]
async fn a_long_upload_waits_for_its_reader_and_takes_little_memory() {
    if !runs_alone("protocols::a_long_upload_waits_for_its_reader_and_takes_little_memory") {
        return;
    }
    // The whole form: NACRE_PROXY_UPLOAD_MIB=1024 cargo test --release --test proxy upload
    let mib: u64 = std::env::var("NACRE_PROXY_UPLOAD_MIB").map_or(64, |text| text.parse().expect("MiB"));
    let front = front(RULES).await;
    let taker = instance(|request| async move {
        let mut body = request.into_body();
        let (mut bytes, mut sum) = (0_u64, 0_u64);
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.unwrap().into_data() else { continue };
            bytes += data.len() as u64;
            sum = data.iter().fold(sum, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
            // Slower than what sends.
            if bytes % 7 == 0 {
                tokio::task::yield_now().await;
            }
        }
        said(format!("{bytes} {sum}"))
    })
    .await;
    front.register(taker.address);
    let block: Vec<u8> = (0..1_u32 << 16).map(|at| (at % 251) as u8).collect();
    let mut stream = TcpStream::connect(front.address).await.unwrap();
    let head =
        format!("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", mib << 20);
    stream.write_all(head.as_bytes()).await.unwrap();
    let (before, mut most, mut sum) = (resident(), 0, 0_u64);
    for _ in 0..mib << 4 {
        stream.write_all(&block).await.unwrap();
        sum = block.iter().fold(sum, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
        most = most.max(resident());
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with(&format!("{} {sum}", mib << 20)), "{answer}");
    let more = most.saturating_sub(before) >> 20;
    println!("{mib} MiB, {more} MiB more memory at most, of client, proxy and instance together");
    assert!(more <= 20, "{more} MiB");
}

#[tokio::test]
async fn continue_comes_when_the_instance_reads() {
    let front = front(RULES).await;
    let taker = instance(|request| async move {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        said(body)
    })
    .await;
    front.register(taker.address);
    let mut stream = TcpStream::connect(front.address).await.unwrap();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut buffer = [0; 256];
    let count =
        tokio::time::timeout(Duration::from_secs(10), stream.read(&mut buffer)).await.unwrap().unwrap();
    assert!(buffer[..count].starts_with(b"HTTP/1.1 100 Continue\r\n"));
    stream.write_all(b"body").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("body"), "{answer}");
}

#[tokio::test]
async fn http2_and_http1_meet_in_every_pair() {
    for protocol in ["http/1.1", "h2c"] {
        let front = front(&format!("{RULES}protocol = \"{protocol}\"\n")).await;
        let teller = instance(|request| async move {
            let version = format!("{:?}", request.version());
            let body = request.into_body().collect().await.unwrap().to_bytes();
            said(format!("{version} {}", body.len()))
        })
        .await;
        front.register(teller.address);
        let there = if protocol == "h2c" { "HTTP/2.0" } else { "HTTP/1.1" };
        for http2 in [true, false] {
            let client: Client<_, Full<Bytes>> =
                Client::builder(TokioExecutor::new()).http2_only(http2).build_http();
            let body = Full::new(Bytes::from(vec![1; 300_000]));
            let request = Request::post(format!("http://{}/a", front.address)).body(body).unwrap();
            let answer = client.request(request).await.unwrap();
            assert_eq!(answer.version(), if http2 { Version::HTTP_2 } else { Version::HTTP_11 });
            let said = answer.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(said, format!("{there} 300000"));
        }
    }
}

#[tokio::test]
async fn keys_of_a_cookie_stay_with_their_instance() {
    let front = front(&format!("{RULES}balance = \"hash\"\nhash-by = \"cookie:sid\"\n")).await;
    let instances = [named().await, named().await, named().await];
    instances.iter().for_each(|one| front.register(one.address));
    let ask = async |sid: u32| {
        let request =
            format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nCookie: x=1; sid={sid}\r\n\r\n");
        let answer = front.say(request.as_bytes()).await;
        answer.rsplit_once("\r\n\r\n").unwrap().1.to_owned()
    };
    let mut seen = std::collections::HashSet::new();
    for sid in 0..30 {
        let first = ask(sid).await;
        assert_eq!(ask(sid).await, first);
        seen.insert(first);
    }
    assert_eq!(seen.len(), 3);
}

#[tokio::test]
async fn at_the_end_running_requests_are_finished() {
    let front = front(RULES).await;
    let (open, opened) = tokio::sync::watch::channel(false);
    let began = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let has_begun = Arc::clone(&began);
    let slow = instance(move |_| {
        has_begun.store(true, std::sync::atomic::Ordering::Relaxed);
        let mut opened = opened.clone();
        async move {
            let _ = opened.wait_for(|open| *open).await;
            said("at last")
        }
    })
    .await;
    front.register(slow.address);
    let uri: Uri = format!("http://{}/", front.address).parse().unwrap();
    let asked = tokio::spawn(super::support::client().get(uri));
    until("it runs", || began.load(std::sync::atomic::Ordering::Relaxed)).await;
    front.stopped.cancel();
    until("nobody new is let in", || std::net::TcpStream::connect(front.address).is_err()).await;
    open.send(true).unwrap();
    let answer = asked.await.unwrap().unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "at last");
    until("it has ended", || front.serving.is_finished()).await;
}
