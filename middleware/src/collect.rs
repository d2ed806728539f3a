//! Gathers the body of a request, up to a size and within a time.
//!
//! Place in the stack: inside the route lookup (facts say whether a body is read at all), outside everything that
//! reads parameters. A body over the limit is answered 413, one that doesn't come in time 408, one that comes while all
//! bodies together take too much memory 503; all close the connection, since the rest of the body would be taken for
//! the next request. These answers are bare: they are given before the request is looked at, as hyper's own to a head
//! that it can't read.

use std::{
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use futures_util::future::{Either, Ready, ready};
use http::{HeaderValue, Request, Response, StatusCode, header, request::Parts};
use http_body::Body;
use http_body_util::BodyExt as _;
use tower_layer::Layer;
use tower_service::Service;

use crate::{Call, Facts, V1Body, V1Response, loop_guard::HOPS};

/// The limits of [`Collect`].
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest body that is read, in bytes.
    pub max_body_bytes: usize,
    /// How long the whole body may take after the head.
    pub body_timeout: Duration,
    /// Most bytes of all bodies that are being read or answered, together.
    pub max_collecting_bytes: usize,
}

/// Lets some callers bring larger bodies, known before anything is read.
pub trait Allowance<F>: Clone {
    /// Bytes that the body of this request may have; `usual` is what it may have of anybody.
    fn max_body_bytes(&self, head: &Parts, peer: SocketAddr, facts: F, usual: usize) -> usize;
}

/// Nobody may bring more than others.
impl<F> Allowance<F> for () {
    fn max_body_bytes(&self, _: &Parts, _: SocketAddr, _: F, usual: usize) -> usize {
        usual
    }
}

/// A request whose route has been looked up and whose body hasn't been read.
#[derive(Debug)]
pub struct Routed<F, B> {
    /// Head and unread body.
    pub request: Request<B>,
    /// Who opened the connection.
    pub peer: SocketAddr,
    /// What the route table says.
    pub facts: F,
}

/// Adds [`Collect`] to a stack; what it makes counts its bodies together.
#[derive(Clone, Debug)]
pub struct CollectLayer<A> {
    limits: Limits,
    allowance: A,
    collecting: Arc<AtomicUsize>,
}

impl<A> CollectLayer<A> {
    /// Reads bodies within `limits`, and larger ones of whom `allowance` lets.
    #[must_use]
    pub fn new(limits: Limits, allowance: A) -> Self {
        Self { limits, allowance, collecting: Arc::default() }
    }
}

impl<S, A: Clone> Layer<S> for CollectLayer<A> {
    type Service = Collect<S, A>;

    fn layer(&self, inner: S) -> Collect<S, A> {
        let collecting = Arc::clone(&self.collecting);
        Collect { inner, limits: self.limits, allowance: self.allowance.clone(), collecting }
    }
}

/// Turns a [`Routed`] request into a [`Call`].
#[derive(Clone, Debug)]
pub struct Collect<S, A> {
    inner: S,
    limits: Limits,
    allowance: A,
    collecting: Arc<AtomicUsize>,
}

/// A body's share of the bytes that all may take; given back when it is dropped.
struct Share {
    collecting: Arc<AtomicUsize>,
    bytes: usize,
    most: usize,
}

impl Share {
    /// Takes more, as the bytes come: a length that was only announced takes no room from others.
    fn grow(&mut self, bytes: usize) -> Result<(), Refused> {
        self.bytes += bytes;
        if self.collecting.fetch_add(bytes, Ordering::Relaxed) + bytes > self.most {
            return Err(Refused::TooMany(self.most));
        }
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.collecting.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Header fields that a request of a client has at most. The reader of heads takes 100, and a member that passes a request on
/// adds some: so it means the same whichever node it comes to.
const MOST_FIELDS: usize = 90;

type Boxed = Pin<Box<dyn Future<Output = Result<V1Response, Infallible>> + Send>>;

impl<S, A, F, B> Service<Routed<F, B>> for Collect<S, A>
where
    A: Allowance<F>,
    S: Service<Call<F>, Response = V1Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    F: Facts,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Send,
{
    type Response = V1Response;
    type Error = Infallible;
    type Future = Either<S::Future, Either<Boxed, Ready<Result<V1Response, Infallible>>>>;

    fn poll_ready(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, routed: Routed<F, B>) -> Self::Future {
        let Routed { request, peer, facts } = routed;
        let (head, body) = request.into_parts();
        if head.headers.len() > MOST_FIELDS && !head.headers.contains_key(&HOPS) {
            return Either::Right(Either::Right(ready(Ok(refusal(Refused::TooManyFields)))));
        }
        if body.is_end_stream() || !facts.reads_body() {
            // What isn't read here is dropped: the connection is closed if the client goes on sending it.
            return Either::Left(self.inner.call(Call { head, body: Bytes::new(), peer, facts }));
        }
        let Limits { max_body_bytes, body_timeout, max_collecting_bytes } = self.limits;
        let max_body_bytes = self.allowance.max_body_bytes(&head, peer, facts, max_body_bytes);
        if body.size_hint().lower() > max_body_bytes as u64 {
            return Either::Right(Either::Right(ready(Ok(refusal(Refused::TooLarge(max_body_bytes))))));
        }
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let mut share =
            Share { collecting: Arc::clone(&self.collecting), bytes: 0, most: max_collecting_bytes };
        Either::Right(Either::Left(Box::pin(async move {
            let gathering = gather(body, max_body_bytes, &mut share);
            let gathered = tokio::time::timeout(body_timeout, gathering).await;
            match gathered.unwrap_or(Err(Refused::TooSlow)) {
                // The share is held until the answer is there, as the body is.
                Ok(body) => inner.call(Call { head, body, peer, facts }).await,
                Err(refused) => Ok(refusal(refused)),
            }
        })))
    }
}

#[derive(Clone, Copy)]
enum Refused {
    TooLarge(usize),
    TooSlow,
    TooMany(usize),
    TooManyFields,
    Broken,
}

async fn gather<B: Body<Data = Bytes> + Unpin>(
    mut body: B,
    limit: usize,
    share: &mut Share,
) -> Result<Bytes, Refused> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Refused::Broken)?.into_data() else { continue };
        if first.len() + rest.len() + data.len() > limit {
            return Err(Refused::TooLarge(limit));
        }
        share.grow(data.len())?;
        if first.is_empty() {
            first = data;
        } else {
            rest.extend_from_slice(&data);
        }
    }
    if rest.is_empty() {
        return Ok(first);
    }
    let mut whole = BytesMut::with_capacity(first.len() + rest.len());
    whole.extend_from_slice(&first);
    whole.extend_from_slice(&rest);
    Ok(whole.freeze())
}

fn refusal(refused: Refused) -> V1Response {
    let (status, text) = match refused {
        Refused::TooLarge(limit) => {
            (StatusCode::PAYLOAD_TOO_LARGE, format!("caused: the body has more than {limit} bytes;"))
        }
        Refused::TooSlow => (StatusCode::REQUEST_TIMEOUT, "caused: the body did not come in time;".into()),
        Refused::TooMany(most) => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!(
                "caused: the bodies of all requests have more than {most} bytes, please try again later;"
            ),
        ),
        Refused::TooManyFields => (
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            format!("caused: the request has more than {MOST_FIELDS} header fields;"),
        ),
        Refused::Broken => (StatusCode::BAD_REQUEST, "caused: the body can not be read;".into()),
    };
    let mut response = Response::new(V1Body::sized(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain;charset=UTF-8"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use tower::{ServiceExt as _, service_fn};

    use super::*;

    #[derive(Clone, Copy)]
    struct Reads(bool);

    impl Facts for Reads {
        fn is_dressed(&self) -> bool {
            true
        }
        fn is_naming(&self) -> bool {
            true
        }
        fn reads_body(&self) -> bool {
            self.0
        }
        fn is_forwarded(&self) -> bool {
            false
        }
    }

    /// Sends `body` through a layer with a limit of 8 bytes to a service that sends it back.
    async fn send<B>(body: B, reads: bool) -> (u16, Bytes)
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Send,
    {
        let echo = service_fn(async |call: Call<Reads>| Ok(Response::new(V1Body::sized(call.body))));
        let limits =
            Limits { max_body_bytes: 8, body_timeout: Duration::from_secs(3), max_collecting_bytes: 8 };
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let routed = Routed { request: Request::new(body), peer, facts: Reads(reads) };
        let response = CollectLayer::new(limits, ()).layer(echo).oneshot(routed).await.unwrap();
        (response.status().as_u16(), response.body().bytes().clone())
    }

    /// A body in frames, without a length.
    fn frames(parts: &'static [&'static str]) -> impl Body<Data = Bytes, Error = Infallible> + Send + Unpin {
        http_body_util::StreamBody::new(futures_util::stream::iter(
            parts.iter().map(|part| Ok(http_body::Frame::data(Bytes::from_static(part.as_bytes())))),
        ))
    }

    #[tokio::test]
    async fn a_body_comes_whole() {
        assert_eq!(send(Full::from("a=1"), true).await, (200, "a=1".into()));
        assert_eq!(send(frames(&["a=", "1", "&b"]), true).await, (200, "a=1&b".into()));
    }

    #[tokio::test]
    async fn a_request_of_a_client_leaves_room_for_what_members_add() {
        let echo = service_fn(async |call: Call<Reads>| Ok(Response::new(V1Body::sized(call.body))));
        let limits =
            Limits { max_body_bytes: 8, body_timeout: Duration::from_secs(3), max_collecting_bytes: 20 };
        let layer = CollectLayer::new(limits, ());
        for (fields, from_member, status) in [(90, false, 200), (91, false, 431), (91, true, 200)] {
            let mut request = Request::new(Full::from("a=1"));
            for number in u8::from(from_member)..fields {
                let value = HeaderValue::from(u16::from(number));
                request.headers_mut().append("x-a", value);
            }
            if from_member {
                request.headers_mut().insert(HOPS.clone(), HeaderValue::from_static("1"));
            }
            let peer = SocketAddr::from(([127, 0, 0, 1], 1));
            let routed = Routed { request, peer, facts: Reads(true) };
            let response = layer.layer(echo).oneshot(routed).await.unwrap();
            assert_eq!(response.status(), status, "{fields}");
        }
    }

    #[tokio::test]
    async fn a_body_that_nobody_reads_is_dropped() {
        assert_eq!(send(Full::from("a=1"), false).await, (200, Bytes::new()));
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_413_with_and_without_a_length() {
        assert_eq!(send(Full::from("123456789"), true).await.0, 413);
        assert_eq!(send(frames(&["12345", "6789"]), true).await.0, 413);
        assert_eq!(send(frames(&["12345", "678"]), true).await.0, 200);
    }

    /// Lets callers from port 2 bring 12 bytes.
    #[derive(Clone)]
    struct More;

    impl Allowance<Reads> for More {
        fn max_body_bytes(&self, _: &Parts, peer: SocketAddr, _: Reads, usual: usize) -> usize {
            if peer.port() == 2 { 12 } else { usual }
        }
    }

    #[tokio::test]
    async fn who_is_let_brings_more() {
        let echo = service_fn(async |call: Call<Reads>| Ok(Response::new(V1Body::sized(call.body))));
        let limits =
            Limits { max_body_bytes: 8, body_timeout: Duration::from_secs(3), max_collecting_bytes: 20 };
        let layer = CollectLayer::new(limits, More);
        for (port, body, status) in
            [(1, "123456789", 413), (2, "123456789", 200), (2, "1234567890abc", 413), (1, "12345678", 200)]
        {
            let peer = SocketAddr::from(([127, 0, 0, 1], port));
            let routed = Routed { request: Request::new(Full::from(body)), peer, facts: Reads(true) };
            let response = layer.layer(echo).oneshot(routed).await.unwrap();
            assert_eq!(response.status(), status, "{port} {body}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_comes_is_408() {
        let never = http_body_util::StreamBody::new(futures_util::stream::pending::<
            Result<http_body::Frame<Bytes>, Infallible>,
        >());
        assert_eq!(send(never, true).await.0, 408);
    }

    #[tokio::test]
    async fn bodies_over_the_limit_of_all_are_503_until_others_are_answered() {
        let answer = Arc::new(tokio::sync::Notify::new());
        let waiting = Arc::clone(&answer);
        let held = service_fn(move |call: Call<Reads>| {
            let waiting = Arc::clone(&waiting);
            async move {
                if call.body == "first" {
                    waiting.notified().await;
                }
                Ok(Response::new(V1Body::sized("done")))
            }
        });
        let limits =
            Limits { max_body_bytes: 8, body_timeout: Duration::from_secs(3), max_collecting_bytes: 8 };
        let stack = CollectLayer::new(limits, ()).layer(held);
        let send = |text: &'static str| {
            let (body, peer) = (Full::new(Bytes::from(text)), SocketAddr::from(([127, 0, 0, 1], 1)));
            stack.clone().oneshot(Routed { request: Request::new(body), peer, facts: Reads(true) })
        };
        let mut first = std::pin::pin!(send("first"));
        assert!(futures_util::poll!(first.as_mut()).is_pending());
        let refused = send("4444").await.unwrap();
        assert_eq!(refused.status(), 503);
        assert_eq!(refused.headers()[header::RETRY_AFTER], "1");
        assert_eq!(refused.headers()[header::CONNECTION], "close");
        assert_eq!(send("333").await.unwrap().status(), 200);
        answer.notify_one();
        assert_eq!(first.await.unwrap().status(), 200);
        assert_eq!(send("88888888").await.unwrap().status(), 200);
    }
}
