//! The whole stack with fake traits: who answers first in each conflict, who is counted, what is dressed.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    convert::Infallible,
    io,
    net::{IpAddr, SocketAddr},
    sync::mpsc::{self, Receiver, Sender},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, request::Parts};
use http_body_util::Full;
use nacre_middleware::{
    Call, Facts, V1Body, V1Response,
    breaker::Bounds,
    collect::{Limits, Routed},
    distro_filter::{Owner, Ownership, Standstill, Target},
    envelope::Bare,
    forwarder::{Fault, Forwarder, Members, Note, StandIn, Writes},
    legacy_forward::PassOn,
    legacy_naming::{self, LegacyNamingLayer},
    limits::Class,
    loop_guard::{Guard, Refused},
    outgoing::{Outgoing, Own, Parameters},
    rate_limit::{Counted as Counts, RateLimitLayer, Rates},
    record::Recorder,
    refusal::State,
    stack,
    traffic_revise::Traffic,
};
use tower::{Layer as _, ServiceExt as _, service_fn};

/// A dressed naming entry that reads a body.
#[derive(Clone, Copy)]
struct Entry;

impl Facts for Entry {
    fn is_dressed(&self) -> bool {
        true
    }
    fn is_naming(&self) -> bool {
        true
    }
    fn reads_body(&self) -> bool {
        true
    }
    fn is_forwarded(&self) -> bool {
        true
    }
}

/// A legacy cluster that nobody has.
#[derive(Clone)]
enum Legacy {}

impl PassOn<Full<Bytes>> for Legacy {
    type Future = std::future::Ready<Result<V1Response, Infallible>>;

    fn pass_on(&self, _: Request<Full<Bytes>>, _: SocketAddr) -> Self::Future {
        match *self {}
    }
}

#[derive(Clone)]
struct Counted(Sender<u16>);

impl Recorder<Entry> for Counted {
    fn answered(&self, _: Entry, status: StatusCode, _: Instant) {
        self.0.send(status.as_u16()).unwrap();
    }
}

/// Shuts requests that say so: an address, or the node, which answers barely.
#[derive(Clone)]
struct Gate;

impl Traffic<Entry> for Gate {
    fn refusal(&self, head: &Parts, _: Entry) -> Option<V1Response> {
        let mut response = Response::new(V1Body::sized("shut"));
        if head.headers.contains_key("x-shut") {
            *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
        } else if head.headers.contains_key("x-down") {
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            response.extensions_mut().insert(Bare);
        } else {
            return None;
        }
        Some(response)
    }
}

/// A member of a cluster in which a request says whose it is.
#[derive(Clone)]
struct Member;

impl Ownership<Entry> for Member {
    fn owner(&self, call: &Call<Entry>) -> Owner {
        match call.head.headers.get("x-owner").map(HeaderValue::as_bytes) {
            None => Owner::Here,
            Some(b"") => Owner::Nobody(Standstill { state: State::Ownerless, text: "nobody's" }),
            Some(address) => Owner::Peer(Target {
                address: std::str::from_utf8(address).unwrap().into(),
                is_nacre: true,
                all_nacre: true,
            }),
        }
    }
}

impl Parameters<Entry> for Member {
    fn parameters(&self, _: &Call<Entry>, _: &mut dyn FnMut(&str, &str)) {}
}

impl Writes<Entry> for Member {
    fn is_believed(&self, _: &Call<Entry>) -> bool {
        false
    }
    fn prepare(&self, _: &Call<Entry>) -> Option<BoxFuture<'static, ()>> {
        None
    }
    fn brings_first(&self, _: &Call<Entry>, _: &str) -> Option<BoxFuture<'static, ()>> {
        None
    }

    fn passed_on(&self, _: &Call<Entry>, _: u64, _: Option<&V1Response>) {}
    fn stand_in(&self, _: &Call<Entry>, _: StandIn) -> Option<Box<dyn FnOnce() + Send>> {
        None
    }
}

impl Members for Member {
    fn is_listed(&self, _: &str) -> bool {
        true
    }
    fn refused(&self, _: &str) {}
    fn serves_nobody(&self, _: &str) {}
    fn answers(&self, _: &str) {}
    fn now_ms(&self) -> u64 {
        0
    }
    fn note(&self, _: Note<'_>) {}
}

impl Guard<Entry> for Member {
    fn is_peer(&self, _: &Call<Entry>) -> bool {
        false
    }
    fn now_ms(&self) -> u64 {
        0
    }
    fn error_document(&self, _: &Call<Entry>, status: StatusCode, message: &str) -> V1Response {
        let mut response = Response::new(V1Body::sized(message.to_owned()));
        *response.status_mut() = status;
        response.extensions_mut().insert(Bare);
        response
    }
    fn is_leaving(&self) -> bool {
        false
    }
    fn note_refusal(&self, _: &Call<Entry>, _: Refused) {}
}

/// Takes what says that it is a legacy cluster's.
#[derive(Clone)]
struct Elsewhere;

impl legacy_naming::Legacy<Entry> for Elsewhere {
    fn answer(&self, call: Call<Entry>) -> Result<BoxFuture<'static, V1Response>, Box<Call<Entry>>> {
        if !call.head.headers.contains_key("x-elsewhere") {
            return Err(Box::new(call));
        }
        let mut response = Response::new(V1Body::sized("theirs"));
        response.extensions_mut().insert(Bare);
        Ok(Box::pin(async { response }))
    }
}

/// Counts what says that it comes often.
#[derive(Clone)]
struct Often;

impl Counts<Entry> for Often {
    fn count<B>(&self, request: &Request<B>, peer: SocketAddr, _: Entry) -> Option<(IpAddr, Class)> {
        request.headers().contains_key("x-often").then_some((peer.ip(), Class::Write))
    }
    fn refused(&self, _: IpAddr, _: Class) {}
}

const LARGE: &str = "123456789";
const ORIGIN: (&str, &str) = ("origin", "http://a.example");
const PREFLIGHT: (&str, &str) = ("access-control-request-method", "POST");
const SHUT: (&str, &str) = ("x-shut", "");
const DOWN: (&str, &str) = ("x-down", "");
const OFTEN: (&str, &str) = ("x-often", "");
const ELSEWHERE: (&str, &str) = ("x-elsewhere", "");
const THEIRS: (&str, &str) = ("x-owner", "10.0.0.2:8848");
const NOBODYS: (&str, &str) = ("x-owner", "");
const SERVER: (&str, &str) = ("user-agent", "Nacos-Server:1.4.8");

/// What was seen of a request.
struct Seen {
    status: u16,
    headers: HeaderMap,
    /// Statuses that the recorder was told.
    counted: Vec<u16>,
    reached_endpoint: bool,
    reached_peer: bool,
}

impl Seen {
    fn is_dressed(&self) -> bool {
        self.headers.contains_key("content-security-policy") && self.headers.contains_key("vary")
    }

    fn allows_origin(&self) -> bool {
        self.headers.contains_key("access-control-allow-origin")
    }

    fn closes(&self) -> bool {
        self.headers.get("connection").is_some_and(|value| value == "close")
    }
}

async fn send(method: &str, headers: &[(&str, &str)], body: &'static str) -> Seen {
    send_to(false, method, headers, body).await
}

async fn send_to(access_log: bool, method: &str, headers: &[(&str, &str)], body: &'static str) -> Seen {
    let ((recorder, counted), (calls, called)) = (mpsc::channel(), mpsc::channel());
    let (forwards, forwarded) = mpsc::channel();
    let client = service_fn(move |_: Outgoing| {
        forwards.send(()).unwrap();
        async { Ok::<_, Fault>(Response::new(Bytes::from_static(b"ok of the owner"))) }
    });
    let own = Own {
        address: HeaderValue::from_static("10.0.0.1:8848"),
        process: Default::default(),
        headers: HeaderMap::new(),
    };
    let (timeout, suspect_after) = (Duration::from_secs(2), Duration::from_millis(30));
    let forwarder = Forwarder::new(Member, client, own, Bounds { max_in_flight: 8, timeout, suspect_after });
    let endpoint = service_fn(move |_: Call<Entry>| {
        calls.send(()).unwrap();
        async { Ok::<_, Infallible>(Response::new(V1Body::sized("ok"))) }
    });
    let limits = Limits { max_body_bytes: 8, body_timeout: Duration::from_secs(3), max_collecting_bytes: 80 };
    let rate_limit = RateLimitLayer::new(Rates { write: 1, ..Rates::default() }, Often).unwrap();
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    // One of the kind has come just before.
    let before = rate_limit.layer(service_fn(async |_: Routed<Entry, ()>| {
        Ok::<_, Infallible>(Response::new(V1Body::default()))
    }));
    let request = Request::get("/").header("x-often", "").body(()).unwrap();
    before.oneshot(Routed { request, peer, facts: Entry }).await.unwrap();
    let naming = LegacyNamingLayer::new(Elsewhere);
    let stack = stack(
        access_log,
        Counted(recorder),
        Some(rate_limit),
        None::<Legacy>,
        limits,
        (),
        Some(naming),
        Gate,
        forwarder,
        endpoint,
    );
    let mut request = Request::builder().method(method).uri("/nacos/v1/ns/instance").header("host", "b");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    let response = stack.oneshot(Routed { request, peer, facts: Entry }).await.unwrap();
    let (head, _) = response.into_parts();
    let all = |statuses: Receiver<u16>| statuses.try_iter().collect();
    Seen {
        status: head.status.as_u16(),
        headers: head.headers,
        counted: all(counted),
        reached_endpoint: called.try_recv().is_ok(),
        reached_peer: forwarded.try_recv().is_ok(),
    }
}

#[tokio::test]
async fn a_request_that_nobody_refuses_is_answered_dressed() {
    let seen = send("POST", &[ORIGIN], "a=1").await;
    assert_eq!((seen.status, seen.reached_endpoint), (200, true));
    assert!(seen.is_dressed() && seen.allows_origin() && !seen.closes());
    assert_eq!(seen.counted, [200]);
}

#[tokio::test]
async fn a_large_body_is_refused_before_anything_is_looked_at_and_bare() {
    for headers in [&[ORIGIN][..], &[ORIGIN, SHUT], &[ORIGIN, DOWN], &[ORIGIN, PREFLIGHT]] {
        let seen = send("OPTIONS", headers, LARGE).await;
        assert_eq!((seen.status, seen.reached_endpoint), (413, false), "{headers:?}");
        assert!(!seen.is_dressed() && !seen.allows_origin() && seen.closes(), "{:?}", seen.headers);
        assert_eq!(seen.counted, [413]);
    }
}

#[tokio::test]
async fn what_comes_too_often_is_refused_before_its_body_is_read_and_bare() {
    for body in ["a=1", LARGE] {
        let seen = send("POST", &[ORIGIN, OFTEN, SHUT], body).await;
        assert_eq!((seen.status, seen.reached_endpoint), (429, false));
        assert!(!seen.is_dressed() && !seen.allows_origin());
        assert_eq!(seen.counted, [429]);
    }
}

#[tokio::test]
async fn what_a_legacy_cluster_answers_is_shut_by_no_switch_and_no_members_and_leaves_as_it_came() {
    for other in [ORIGIN, SHUT, DOWN, THEIRS, NOBODYS] {
        let seen = send("POST", &[ORIGIN, ELSEWHERE, other], "a=1").await;
        assert_eq!((seen.status, seen.reached_endpoint, seen.reached_peer), (200, false, false), "{other:?}");
        assert!(!seen.is_dressed() && !seen.allows_origin());
        assert_eq!(seen.counted, [200]);
    }
    assert_eq!(send("OPTIONS", &[ORIGIN, ELSEWHERE, PREFLIGHT], "").await.status, 403);
}

#[tokio::test]
async fn a_preflight_is_refused_before_a_shut_address_and_a_node_that_is_down() {
    for headers in [&[ORIGIN, PREFLIGHT][..], &[ORIGIN, PREFLIGHT, SHUT], &[ORIGIN, PREFLIGHT, DOWN]] {
        let seen = send("OPTIONS", headers, "").await;
        assert_eq!((seen.status, seen.reached_endpoint), (403, false), "{headers:?}");
        assert_eq!(seen.headers.get_all("vary").iter().count(), 3);
        assert!(!seen.is_dressed() && !seen.allows_origin());
        assert_eq!(seen.counted, [403]);
    }
}

#[tokio::test]
async fn what_is_shut_reaches_no_endpoint_and_is_dressed_unless_it_says_no() {
    for (shut, status, dressed) in [(SHUT, 429, true), (DOWN, 503, false)] {
        let seen = send("POST", &[ORIGIN, shut], "a=1").await;
        assert_eq!((seen.status, seen.reached_endpoint), (status, false));
        assert_eq!((seen.is_dressed(), seen.allows_origin()), (dressed, dressed));
        assert_eq!(seen.closes(), status == 503);
        assert_eq!(seen.counted, [status]);
    }
}

#[tokio::test]
async fn a_write_of_a_peers_is_dressed_here_and_reaches_no_endpoint() {
    let seen = send("POST", &[ORIGIN, THEIRS], "a=1").await;
    assert_eq!((seen.status, seen.reached_endpoint, seen.reached_peer), (200, false, true));
    assert!(seen.is_dressed() && seen.allows_origin() && !seen.closes());
    assert_eq!(seen.counted, [200]);
}

#[tokio::test]
async fn what_nobody_owns_is_refused_before_a_loop_is_looked_for() {
    for headers in [&[NOBODYS][..], &[NOBODYS, SERVER]] {
        let seen = send("POST", headers, "a=1").await;
        assert_eq!((seen.status, seen.reached_endpoint, seen.reached_peer), (503, false, false));
        assert!(seen.is_dressed() && seen.closes());
        assert_eq!(seen.headers["x-nacre-state"], "ownerless");
        assert_eq!(seen.counted, [503]);
    }
}

#[tokio::test]
async fn a_loop_is_refused_before_anything_is_sent_and_bare() {
    let seen = send("POST", &[THEIRS, SERVER], "a=1").await;
    assert_eq!((seen.status, seen.reached_endpoint, seen.reached_peer), (400, false, false));
    assert!(!seen.is_dressed() && seen.closes());
    let ours = send("POST", &[SERVER], "a=1").await;
    assert_eq!((ours.status, ours.reached_endpoint), (200, true));
}

#[tokio::test]
async fn a_large_body_a_preflight_and_what_is_shut_are_refused_whosever_they_are() {
    for whose in [&[][..], &[THEIRS], &[NOBODYS], &[THEIRS, SERVER]] {
        let with = |more: &[(&'static str, &'static str)]| [whose, more].concat();
        for (headers, body, status) in [
            (with(&[]), LARGE, 413),
            (with(&[ORIGIN, PREFLIGHT]), "", 403),
            (with(&[SHUT]), "a=1", 429),
            (with(&[DOWN]), "a=1", 503),
        ] {
            let method = if status == 403 { "OPTIONS" } else { "POST" };
            let seen = send(method, &headers, body).await;
            assert_eq!((seen.status, seen.reached_endpoint, seen.reached_peer), (status, false, false));
            assert!(!seen.headers.contains_key("x-nacre-state"), "{headers:?}");
        }
    }
}

#[tokio::test]
async fn refusals_leave_a_line_in_the_access_log() {
    #[derive(Clone)]
    struct Lines(Sender<Vec<u8>>);
    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.send(bytes.to_vec()).unwrap();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (lines, written) = mpsc::channel();
    let writer = Lines(lines);
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    // No other test writes such lines: one that does so in the same moment could hide them from this subscriber.
    send_to(true, "POST", &[], LARGE).await;
    send_to(true, "OPTIONS", &[ORIGIN, PREFLIGHT], "").await;
    send_to(true, "POST", &[SHUT], "").await;
    let text = String::from_utf8(written.try_iter().flatten().collect()).unwrap();
    let statuses: Vec<&str> = text.lines().map(|line| &line.split("status=").nth(1).unwrap()[..3]).collect();
    assert_eq!(statuses, ["413", "403", "429"], "{text}");
}
