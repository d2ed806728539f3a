//! Connections of HTTP/2 to a server, of which each carries many exchanges.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use nacre_middleware::{
    pass::{Failure, Fault, Plan, Sending, pass},
    pool::{Bounds, ConnectFault, Origin, Protocol, Upstream},
    resend::Progress,
};
use tokio::{io::DuplexStream, sync::watch, time::Instant};
use tower_service::Service;

const PLAN: Plan = Plan {
    connect: Duration::from_secs(1),
    wait: Duration::ZERO,
    response: Duration::from_secs(60),
    idle: Duration::from_secs(60),
    max_idle: Duration::from_secs(4),
};

type Answering = h2::server::SendResponse<Bytes>;

/// A server that is told of each request by the number of its connection, and how the connections end.
#[derive(Clone)]
struct Server {
    most_streams: u32,
    does: fn(usize, &Request<h2::RecvStream>, Answering) -> Does,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
    ended: watch::Sender<usize>,
}

/// What becomes of the connection after a request.
enum Does {
    GoOn,
    /// Nothing is read or written any more.
    Die,
}

impl Server {
    fn new(most_streams: u32, does: fn(usize, &Request<h2::RecvStream>, Answering) -> Does) -> Self {
        let ended = watch::Sender::new(0);
        Self { most_streams, does, connections: Arc::default(), requests: Arc::default(), ended }
    }

    async fn serve(self, stream: DuplexStream, number: usize) {
        let mut builder = h2::server::Builder::new();
        let handshake = builder.max_concurrent_streams(self.most_streams).handshake::<_, Bytes>(stream);
        let mut connection = handshake.await.unwrap();
        while let Some(Ok((request, answering))) = connection.accept().await {
            self.requests.fetch_add(1, Relaxed);
            match (self.does)(number, &request, answering) {
                Does::GoOn => {}
                Does::Die => std::future::pending().await,
            }
        }
        self.ended.send_modify(|ended| *ended += 1);
    }
}

/// Connects to it.
impl Service<Arc<Origin>> for Server {
    type Response = DuplexStream;
    type Error = ConnectFault;
    type Future = std::future::Ready<Result<DuplexStream, ConnectFault>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectFault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Arc<Origin>) -> Self::Future {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let number = self.connections.fetch_add(1, Relaxed);
        tokio::spawn(self.clone().serve(theirs, number));
        std::future::ready(Ok(ours))
    }
}

type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

fn upstream(server: &Server) -> Upstream<Server, Sending<Body>> {
    let origin = Origin { protocol: Protocol::Http2, ..Origin::plain("server:80") };
    let bounds = Bounds { max_in_flight: 10_000, max_waiting: 0, ..Bounds::default() };
    Upstream::new(origin, server.clone(), bounds)
}

fn get(path: &str) -> Request<Body> {
    Request::get(format!("http://server{path}")).body(Full::default().boxed_unsync()).unwrap()
}

fn answer(mut answering: Answering, text: &'static str) {
    let mut body = answering.send_response(Response::new(()), false).unwrap();
    body.send_data(Bytes::from_static(text.as_bytes()), true).unwrap();
}

/// Answers `/quick`, and keeps everything else waiting.
fn quick_or_never(_: usize, request: &Request<h2::RecvStream>, answering: Answering) -> Does {
    if request.uri().path() == "/quick" {
        answer(answering, "ok");
    } else {
        // Dropped it would be reset.
        std::mem::forget(answering);
    }
    Does::GoOn
}

/// Begins a request that hangs, and waits until the server has it.
async fn hang(to: &Upstream<Server, Sending<Body>>, server: &Server) {
    let before = server.requests.load(Relaxed);
    let to = to.clone();
    tokio::spawn(async move { pass(&to, get("/slow"), PLAN).await.map(drop) });
    let arrives = async {
        while server.requests.load(Relaxed) == before {
            tokio::task::yield_now().await;
        }
    };
    arrives.await;
}

#[tokio::test]
async fn where_a_connection_is_full_another_is_made_and_in_the_end_one_is_refused() {
    let server = Server::new(2, quick_or_never);
    let to = upstream(&server);
    for _ in 0..3 {
        hang(&to, &server).await;
    }
    assert_eq!(to.readings().connected, 2);
    assert_eq!(pass(&to, get("/quick"), PLAN).await.unwrap().status(), 200);
    assert_eq!(to.readings().connected, 2, "its place is free again");
    for _ in 3..32 {
        hang(&to, &server).await;
    }
    assert_eq!(to.readings().connected, 16);
    let refused = pass(&to, get("/quick"), PLAN).await.err().unwrap();
    assert!(matches!(refused.fault, Fault::Full), "{:?}", refused.fault);
}

#[tokio::test(start_paused = true)]
async fn a_connection_whose_server_is_gone_is_found_by_its_silence() {
    let server = Server::new(100, |_, _, answering| {
        std::mem::forget(answering);
        Does::Die
    });
    let start = Instant::now();
    let failure = pass(&upstream(&server), get("/"), PLAN).await.err().unwrap();
    assert!(matches!(failure.fault, Fault::Closed), "{:?}", failure.fault);
    assert!((15..=16).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn after_an_answer_that_never_came_nothing_new_goes_over_the_connection() {
    let server = Server::new(100, quick_or_never);
    let to = upstream(&server);
    let soon = Plan { response: Duration::from_secs(2), ..PLAN };
    let late = pass(&to, get("/slow"), soon).await.err().unwrap();
    assert!(matches!(late.fault, Fault::TimedOut));
    pass(&to, get("/quick"), PLAN).await.unwrap();
    assert_eq!(to.readings().connected, 2);
    // But over one that answers others.
    let slow = pass(&to, get("/slow"), soon);
    let quick = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        pass(&to, get("/quick"), PLAN).await.unwrap();
    };
    let (late, ()) = tokio::join!(slow, quick);
    assert!(late.is_err());
    pass(&to, get("/quick"), PLAN).await.unwrap();
    assert_eq!(to.readings().connected, 2);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_nobody_uses_is_closed_in_time() {
    let server = Server::new(100, quick_or_never);
    let to = upstream(&server);
    let answer = pass(&to, get("/quick"), PLAN).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    to.sweep();
    pass(&to, get("/quick"), PLAN).await.unwrap();
    assert_eq!(to.readings().connected, 1, "an answer was under way");
    drop(answer);
    tokio::time::sleep(Duration::from_secs(3)).await;
    to.sweep();
    assert_eq!(*server.ended.borrow(), 0);
    tokio::time::sleep(Duration::from_secs(1)).await;
    to.sweep();
    server.ended.subscribe().wait_for(|ended| *ended == 1).await.unwrap();
}

/// A POST whose body comes in pieces.
fn post() -> Request<Body> {
    let pieces = ["one ", "two"].map(|piece| Ok(Frame::data(Bytes::from(piece))));
    let body = StreamBody::new(futures_util::stream::iter(pieces)).boxed_unsync();
    Request::post("http://server/").body(body).unwrap()
}

fn is_unprocessed(failure: &Failure<Body>) -> bool {
    failure.progress == Progress::NothingSent && (failure.request.is_some() || failure.begun.is_some())
}

#[tokio::test]
async fn what_a_server_has_not_processed_comes_back_whatever_it_is() {
    let server = Server::new(100, |_, _, mut answering| {
        answering.send_reset(h2::Reason::REFUSED_STREAM);
        Does::GoOn
    });
    let failure = pass(&upstream(&server), post(), PLAN).await.err().unwrap();
    assert!(is_unprocessed(&failure), "{failure:?}");
    let empty = Request::post("http://server/").body(Full::default().boxed_unsync()).unwrap();
    let failure = pass(&upstream(&server), empty, PLAN).await.err().unwrap();
    assert!(failure.can_go_again(), "{failure:?}");
    // Any other end may come after it was done.
    let server = Server::new(100, |_, _, mut answering| {
        answering.send_reset(h2::Reason::CANCEL);
        Does::GoOn
    });
    let failure = pass(&upstream(&server), post(), PLAN).await.err().unwrap();
    assert!(failure.progress == Progress::Sent && !failure.can_go_again(), "{failure:?}");
    assert!(failure.begun.is_none() && !failure.reused);
}
