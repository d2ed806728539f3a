//! Refuses what two nodes would pass to each other for ever, and what nobody waits for any more.
//!
//! A node that gets a peer's request for a service that it doesn't own sees the cluster otherwise than that peer. A 1.x
//! peer is told so with a 400, as it expects; but a node that leaves does what a proven member sends it, since its peers
//! find out late that it owns nothing any more, and would tell their clients of the 400. A Nacre peer counts hops, so
//! that its request may go on once more: two nodes seldom disagree for longer than a request takes. What would go back
//! to the peer that it comes from is marked, to be done here.
//!
//! The headers of Nacre's own count for proven peers alone: of anybody else they are taken away here, and inner layers
//! and endpoints may believe those that are left. A peer's request gets back the agent of the client that sent it.
//!
//! Place in the stack: inside [`crate::distro_filter`], outside [`crate::forward`]. Source: Nacos 1.4.8 naming module,
//! distro filter; compat file `forward`, exchanges `loop_guard` and `guard_lowercase`.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::Either;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use parking_lot::Mutex;
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    Call, Facts, V1Response,
    distro_filter::{Addressed, Whose},
    lateness::{Lateness, Sent},
    refusal::{self, State, unavailable_in},
};

/// What a server writes into the `User-Agent` of every call to a peer; other letters' case is another text.
pub const PEER_MARK: &[u8] = b"Nacos-Server";
/// Tells that the caller is Nacre: the number of its protocol.
pub static PEER: HeaderName = HeaderName::from_static("x-nacre-peer");
/// How many Nacre nodes have passed a request on.
pub static HOPS: HeaderName = HeaderName::from_static("x-nacre-hops");
/// The client's `User-Agent`, on a request that was passed on.
pub static AGENT: HeaderName = HeaderName::from_static("x-nacre-agent");
/// When a request was passed on, or the ages in a member's data were read: [`Sent`].
pub static SENT: HeaderName = HeaderName::from_static("x-nacre-sent");
/// The address of the node that passed a request on.
pub static SOURCE: HeaderName = HeaderName::from_static("request-source");

/// Among Nacre nodes a request is passed on so often at most.
pub const MOST_HOPS: u8 = 2;

/// Knows who may be believed, and how errors look.
pub trait Guard<F>: Clone {
    /// Whether the caller has been proven to be a member.
    fn is_peer(&self, call: &Call<F>) -> bool;

    /// This node's monotonic clock, in milliseconds.
    fn now_ms(&self) -> u64;

    /// The error document of the reference's framework; it leaves undressed.
    fn error_document(&self, call: &Call<F>, status: StatusCode, message: &str) -> V1Response;

    /// Whether this node goes, and owns nothing any more: members may not know that yet.
    fn is_leaving(&self) -> bool;

    /// Told of each request that is refused, before it is answered.
    fn note_refusal(&self, call: &Call<F>, why: Refused);
}

/// Why a peer's request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The service isn't ours, and it is a 1.x server's, or of one that isn't proven.
    Redirect,
    /// The service isn't ours either, and it has been passed on as often as may be.
    Hops,
    /// It comes too late.
    Late,
}

/// Adds [`LoopGuard`] to a stack; what it makes knows the clocks of peers together.
#[derive(Clone, Debug)]
pub struct LoopGuardLayer<G> {
    shared: Arc<Shared<G>>,
}

/// In one piece, since every request clones the stack of layers.
#[derive(Debug)]
struct Shared<G> {
    guard: G,
    lateness: Mutex<Lateness>,
}

impl<G> LoopGuardLayer<G> {
    /// Asks `guard`.
    pub fn new(guard: G) -> Self {
        Self { shared: Arc::new(Shared { guard, lateness: Mutex::default() }) }
    }
}

impl<S, G> Layer<S> for LoopGuardLayer<G> {
    type Service = LoopGuard<S, G>;

    fn layer(&self, inner: S) -> Self::Service {
        LoopGuard { inner, shared: Arc::clone(&self.shared) }
    }
}

/// Answers what must not be passed on or done; counts hops.
#[derive(Debug)]
pub struct LoopGuard<S, G> {
    inner: S,
    shared: Arc<Shared<G>>,
}

impl<S: Clone, G> Clone for LoopGuard<S, G> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<S, G, F> Service<Addressed<F>> for LoopGuard<S, G>
where
    S: Service<Addressed<F>, Response = V1Response, Error = Infallible>,
    G: Guard<F>,
    F: Facts,
{
    type Response = V1Response;
    type Error = Infallible;
    type Future = Either<S::Future, Ready<Result<V1Response, Infallible>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut addressed: Addressed<F>) -> Self::Future {
        if addressed.whose == Whose::Plain {
            return Either::Left(self.inner.call(addressed));
        }
        let Addressed { call, whose, hops, left } = &mut addressed;
        let is_theirs = matches!(whose, Whose::Theirs(_));
        let guard = &self.shared.guard;
        let refused = match self.sender(call) {
            Sender::Nacre { hops: passed } => {
                *hops = passed;
                let in_time = self.time_left(call);
                restore_agent(&mut call.head.headers);
                let is_senders = call_back(whose, &call.head.headers);
                match in_time {
                    Err(late) => Some(late),
                    Ok(time) => {
                        *left = time;
                        (is_theirs && !is_senders && passed >= MOST_HOPS).then_some(Refused::Hops)
                    }
                }
            }
            Sender::Server if is_theirs && guard.is_leaving() && guard.is_peer(call) => {
                *whose = Whose::Left;
                None
            }
            Sender::Server => is_theirs.then_some(Refused::Redirect),
            Sender::Client => None,
        };
        match refused {
            None => Either::Left(self.inner.call(addressed)),
            Some(why) => Either::Right(ready(Ok(self.refuse(&addressed.call, why)))),
        }
    }
}

/// Who sent a request.
enum Sender {
    /// A proven Nacre peer that passes on what a client, or another one, sent.
    Nacre { hops: u8 },
    /// A server by its own word.
    Server,
    /// Anybody else.
    Client,
}

impl<S, G> LoopGuard<S, G> {
    fn sender<F>(&self, call: &mut Call<F>) -> Sender
    where
        G: Guard<F>,
    {
        let agent = call.head.headers.get(header::USER_AGENT).map(HeaderValue::as_bytes);
        let is_server =
            agent.is_some_and(|agent| agent.windows(PEER_MARK.len()).any(|part| part == PEER_MARK));
        let headers = &call.head.headers;
        if is_server
            && headers.contains_key(&HOPS)
            && headers.contains_key(&PEER)
            && self.shared.guard.is_peer(call)
        {
            return Sender::Nacre { hops: hops(&call.head.headers) };
        }
        for name in [&HOPS, &AGENT, &SENT] {
            call.head.headers.remove(name);
        }
        if is_server { Sender::Server } else { Sender::Client }
    }

    /// For how long nobody else does what a peer's call asks for, where that says so.
    fn time_left<F>(&self, call: &Call<F>) -> Result<Option<Duration>, Refused>
    where
        G: Guard<F>,
    {
        let headers = &call.head.headers;
        let sent = headers.get(&SENT).and_then(|sent| Sent::read(sent.as_bytes()));
        let source = headers.get(&SOURCE).and_then(|source| source.to_str().ok());
        let (Some(sent), Some(source)) = (sent, source) else { return Ok(None) };
        let left_ms = self.shared.lateness.lock().left_ms(source, sent, self.shared.guard.now_ms());
        left_ms.map(|left_ms| Some(Duration::from_millis(left_ms))).ok_or(Refused::Late)
    }

    fn refuse<F>(&self, call: &Call<F>, why: Refused) -> V1Response
    where
        G: Guard<F>,
    {
        self.shared.guard.note_refusal(call, why);
        match why {
            Refused::Redirect => {
                let message =
                    format!("receive invalid redirect request from peer {}", call.peer.ip().to_canonical());
                self.shared.guard.error_document(call, StatusCode::BAD_REQUEST, &message)
            }
            Refused::Hops => {
                let message = "the members disagree about the owner of this service, please try again later";
                let mut response =
                    self.shared.guard.error_document(call, StatusCode::SERVICE_UNAVAILABLE, message);
                refusal::mark(&mut response, State::Disagreeing);
                response
            }
            Refused::Late => unavailable_in(State::Late, "the request came when its sender had given it up"),
        }
    }
}

/// Marks a call that would go back to whom it comes from; tells whether it is one.
fn call_back(whose: &mut Whose, headers: &HeaderMap) -> bool {
    let source = headers.get(&SOURCE).map(HeaderValue::as_bytes);
    match whose {
        Whose::Theirs(target) if source == Some(target.address.as_bytes()) => {
            *whose = Whose::Senders(target.clone());
            true
        }
        _ => false,
    }
}

/// A number that isn't one counts as the most.
fn hops(headers: &HeaderMap) -> u8 {
    let text = headers.get(&HOPS).and_then(|hops| hops.to_str().ok());
    text.and_then(|text| text.parse().ok()).unwrap_or(MOST_HOPS)
}

/// What an endpoint does depends on the client, whichever node it asked.
fn restore_agent(headers: &mut HeaderMap) {
    match headers.remove(&AGENT) {
        Some(agent) => _ = headers.insert(header::USER_AGENT, agent),
        None => _ = headers.remove(header::USER_AGENT),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::SocketAddr,
        sync::{
            atomic::{AtomicU64, Ordering::Relaxed},
            mpsc,
        },
    };

    use bytes::Bytes;
    use http::{Request, Response};
    use tower::{ServiceExt as _, service_fn};

    use super::*;
    use crate::{V1Body, distro_filter::Target};

    #[derive(Clone, Copy, Debug)]
    struct Write;

    impl Facts for Write {
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

    /// Believes callers from port 1; its clock shows what a test says.
    #[derive(Clone)]
    struct Trusting {
        now_ms: Arc<AtomicU64>,
        is_leaving: bool,
        refused: mpsc::Sender<Refused>,
    }

    impl Guard<Write> for Trusting {
        fn is_peer(&self, call: &Call<Write>) -> bool {
            call.peer.port() == 1
        }
        fn now_ms(&self) -> u64 {
            self.now_ms.load(Relaxed)
        }
        fn error_document(&self, _: &Call<Write>, status: StatusCode, message: &str) -> V1Response {
            let mut response = Response::new(V1Body::sized(format!("document: {message}")));
            *response.status_mut() = status;
            response
        }
        fn is_leaving(&self) -> bool {
            self.is_leaving
        }
        fn note_refusal(&self, _: &Call<Write>, why: Refused) {
            let _ = self.refused.send(why);
        }
    }

    /// What became of a request: status and body of the answer, and what the inner service was told.
    #[derive(Debug, PartialEq, Eq)]
    struct Seen {
        status: u16,
        text: String,
        state: Option<&'static str>,
        hops: Option<u8>,
        /// The headers that the guard may have changed.
        headers: Vec<(&'static str, String)>,
        refused: Option<Refused>,
    }

    fn theirs() -> Whose {
        Whose::Theirs(Target { address: "10.0.0.2:8848".into(), is_nacre: true, all_nacre: true })
    }

    /// Sends requests of one caller, each received at the time before its headers.
    async fn send_all(whose: &Whose, port: u16, requests: &[(u64, &[(&'static str, &str)])]) -> Vec<Seen> {
        let ((refusals, refused), (tell, told)) = (mpsc::channel(), mpsc::channel());
        let now = Arc::new(AtomicU64::new(0));
        let guard = Trusting { now_ms: Arc::clone(&now), is_leaving: false, refused: refusals };
        let layer = LoopGuardLayer::new(guard);
        let mut seen = Vec::new();
        for (now_ms, headers) in requests {
            let tell = tell.clone();
            let inner = service_fn(move |addressed: Addressed<Write>| {
                tell.send((addressed.hops, addressed.call.head.headers)).unwrap();
                async { Ok::<_, Infallible>(Response::new(V1Body::sized("done"))) }
            });
            now.store(*now_ms, Relaxed);
            let mut request = Request::put("/nacos/v1/ns/instance/beat?serviceName=a");
            for (name, value) in *headers {
                request = request.header(*name, *value);
            }
            let head = request.body(()).unwrap().into_parts().0;
            let peer = SocketAddr::from(([10, 0, 0, 9], port));
            let call = Call { head, body: Bytes::new(), peer, facts: Write };
            let addressed = Addressed { call, whose: whose.clone(), hops: 0, left: None };
            let response = layer.layer(inner).oneshot(addressed).await.unwrap();
            let inner = told.try_recv().ok();
            let shown = ["user-agent", "x-nacre-hops", "x-nacre-agent", "x-nacre-sent"];
            seen.push(Seen {
                status: response.status().as_u16(),
                text: String::from_utf8(response.body().bytes().to_vec()).unwrap(),
                state: State::of(response.headers()).map(State::word),
                hops: inner.as_ref().map(|(hops, _)| *hops),
                headers: inner.map_or_else(Vec::new, |(_, headers)| {
                    let text = |name| Some((name, headers.get(name)?.to_str().unwrap().to_owned()));
                    shown.into_iter().filter_map(text).collect()
                }),
                refused: refused.try_recv().ok(),
            });
        }
        seen
    }

    async fn send(whose: &Whose, port: u16, headers: &[(&'static str, &str)]) -> Seen {
        send_all(whose, port, &[(0, headers)]).await.remove(0)
    }

    fn passed(hops: u8, headers: &[(&'static str, &str)]) -> Seen {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Seen { status: 200, text: "done".into(), state: None, hops: Some(hops), headers, refused: None }
    }

    const NACRE: [(&str, &str); 3] = [
        ("user-agent", "Nacos-Server:v1.4.8"),
        ("x-nacre-peer", "1"),
        ("x-nacre-agent", "Nacos-Java-Client:v1.4.8"),
    ];

    #[tokio::test]
    async fn a_servers_request_for_a_foreign_service_is_refused_in_the_letters_of_the_reference() {
        for agent in ["Nacos-Server:v1.4.8", "xNacos-Servery"] {
            let seen = send(&theirs(), 2, &[("user-agent", agent)]).await;
            let text = "document: receive invalid redirect request from peer 10.0.0.9";
            assert_eq!((seen.status, &*seen.text, seen.hops), (400, text, None), "{agent}");
            assert_eq!(seen.refused, Some(Refused::Redirect));
        }
        for agent in ["nacos-server:1", "Nacos-Java-Client:v1.4.8"] {
            let seen = send(&theirs(), 2, &[("user-agent", agent)]).await;
            assert_eq!(seen, passed(0, &[("user-agent", agent)]));
        }
    }

    #[tokio::test]
    async fn a_servers_request_for_our_service_passes() {
        let agent = ("user-agent", "Nacos-Server:v1.4.8");
        assert_eq!(send(&Whose::Ours, 2, &[agent]).await, passed(0, &[agent]));
    }

    #[tokio::test]
    async fn a_nacre_peers_request_goes_on_once_and_has_its_clients_agent() {
        let with = |hops| [&NACRE[..], &[("x-nacre-hops", hops)]].concat();
        let seen = send(&theirs(), 1, &with("1")).await;
        assert_eq!(seen, passed(1, &[("user-agent", "Nacos-Java-Client:v1.4.8"), ("x-nacre-hops", "1")]));
        for hops in ["2", "3", "255", "256", "-1", "", "a"] {
            let seen = send(&theirs(), 1, &with(hops)).await;
            assert_eq!((seen.status, seen.state, seen.hops), (503, Some("disagreeing"), None), "{hops}");
            assert_eq!(seen.refused, Some(Refused::Hops));
            assert!(seen.text.starts_with("document: the members disagree"), "{}", seen.text);
            assert_eq!(send(&Whose::Ours, 1, &with(hops)).await.status, 200, "{hops}");
        }
        let without_agent = [NACRE[0], NACRE[1], ("x-nacre-hops", "1")];
        assert_eq!(send(&Whose::Ours, 1, &without_agent).await, passed(1, &[("x-nacre-hops", "1")]));
    }

    #[tokio::test]
    async fn what_would_go_back_to_its_sender_is_marked_whatever_its_hops() {
        for (source, hops, whose) in [
            ("10.0.0.2:8848", "1", "senders"),
            ("10.0.0.2:8848", "2", "senders"),
            ("10.0.0.3:8848", "1", "theirs"),
            ("10.0.0.3:8848", "2", "refused"),
        ] {
            let headers = [&NACRE[..], &[("x-nacre-hops", hops), ("request-source", source)]].concat();
            assert_eq!(whose_of(false, 1, theirs(), &headers).await, whose, "{source} {hops}");
        }
    }

    /// Whose a request is behind the guard.
    async fn whose_of(is_leaving: bool, port: u16, whose: Whose, headers: &[(&str, &str)]) -> String {
        let inner = service_fn(async |addressed: Addressed<Write>| {
            let whose = match addressed.whose {
                Whose::Senders(_) => "senders",
                Whose::Theirs(_) => "theirs",
                Whose::Left => "left",
                Whose::Ours | Whose::Plain => "ours",
            };
            Ok::<_, Infallible>(Response::new(V1Body::sized(whose)))
        });
        let guard = Trusting { now_ms: Arc::default(), is_leaving, refused: mpsc::channel().0 };
        let mut request = Request::put("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let head = request.body(()).unwrap().into_parts().0;
        let peer = SocketAddr::from(([10, 0, 0, 9], port));
        let call = Call { head, body: Bytes::new(), peer, facts: Write };
        let addressed = Addressed { call, whose, hops: 0, left: None };
        let response = LoopGuardLayer::new(guard).layer(inner).oneshot(addressed).await.unwrap();
        match response.status().as_u16() {
            400 | 503 => "refused".to_owned(),
            _ => String::from_utf8(response.body().bytes().to_vec()).unwrap(),
        }
    }

    #[tokio::test]
    async fn a_node_that_leaves_does_what_a_member_still_sends_it() {
        let server = [("user-agent", "Nacos-Server:v1.4.8")];
        let client = [("user-agent", "Nacos-Java-Client:v1.4.8")];
        let nacre = [&NACRE[..], &[("x-nacre-hops", "1")]].concat();
        assert_eq!(whose_of(true, 1, theirs(), &server).await, "left");
        assert_eq!(whose_of(true, 2, theirs(), &server).await, "refused", "it says that it is a server");
        assert_eq!(whose_of(false, 1, theirs(), &server).await, "refused");
        assert_eq!(whose_of(true, 2, Whose::Ours, &server).await, "ours");
        assert_eq!(whose_of(true, 2, theirs(), &client).await, "theirs");
        assert_eq!(whose_of(true, 1, theirs(), &nacre).await, "theirs", "it goes on to the next owner");
    }

    #[tokio::test]
    async fn headers_of_ours_from_anybody_else_count_for_nothing() {
        let all = [&NACRE[..], &[("x-nacre-hops", "1"), ("x-nacre-sent", "1.1.1")]].concat();
        let seen = send(&theirs(), 2, &all).await;
        assert_eq!((seen.status, seen.refused), (400, Some(Refused::Redirect)));
        assert_eq!(send(&Whose::Ours, 2, &all).await, passed(0, &NACRE[..1]));
        let client = [&[("user-agent", "a")][..], &all[1..]].concat();
        assert_eq!(send(&theirs(), 1, &client).await, passed(0, &client[..1]));
    }

    #[tokio::test]
    async fn what_a_peer_has_given_up_is_not_done() {
        let with = |sent| {
            [
                &NACRE[..],
                &[("x-nacre-hops", "1"), ("request-source", "10.0.0.9:8848"), ("x-nacre-sent", sent)],
            ]
            .concat()
        };
        let (first, second, third) = (with("a.1000.25"), with("a.1100.25"), with("a.1200.25"));
        let requests: [(u64, &[_]); 3] = [(7_000, &first), (7_100 + 26, &second), (7_200 + 25, &third)];
        let seen = send_all(&Whose::Ours, 1, &requests).await;
        let statuses: Vec<_> = seen.iter().map(|seen| (seen.status, seen.state, seen.refused)).collect();
        assert_eq!(
            statuses,
            [(200, None, None), (503, Some("late"), Some(Refused::Late)), (200, None, None)]
        );
    }

    #[tokio::test]
    async fn what_no_layer_has_to_look_at_stays_as_it_is() {
        let all = [&NACRE[..], &[("x-nacre-hops", "9")]].concat();
        let seen = send(&Whose::Plain, 2, &all).await;
        assert_eq!((seen.status, seen.headers.len()), (200, 3));
    }
}
