//! Gathers the body of a request, up to a size and within a time.
//!
//! Place in the stack: inside the route lookup (facts say whether a body is read at all), outside everything that
//! reads parameters. A body over the limit is answered 413, one that doesn't come in time 408; both close the
//! connection, since the rest of the body would be taken for the next request.

use std::{convert::Infallible, future::Future, net::SocketAddr, pin::Pin, time::Duration};

use bytes::{Bytes, BytesMut};
use futures_util::future::{Either, Ready, ready};
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::BodyExt as _;
use tower_layer::Layer;
use tower_service::Service;

use crate::{Call, Facts, V1Body, V1Response};

/// The limits of [`Collect`].
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest body that is read, in bytes.
    pub max_body_bytes: usize,
    /// How long the whole body may take after the head.
    pub body_timeout: Duration,
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

/// Adds [`Collect`] to a stack.
#[derive(Clone, Copy, Debug)]
pub struct CollectLayer {
    limits: Limits,
}

impl CollectLayer {
    /// Reads bodies within `limits`.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits }
    }
}

impl<S> Layer<S> for CollectLayer {
    type Service = Collect<S>;

    fn layer(&self, inner: S) -> Collect<S> {
        Collect { inner, limits: self.limits }
    }
}

/// Turns a [`Routed`] request into a [`Call`].
#[derive(Clone, Debug)]
pub struct Collect<S> {
    inner: S,
    limits: Limits,
}

type Boxed = Pin<Box<dyn Future<Output = Result<V1Response, Infallible>> + Send>>;

impl<S, F, B> Service<Routed<F, B>> for Collect<S>
where
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
        if body.is_end_stream() || !facts.reads_body() {
            // What isn't read here is dropped: the connection is closed if the client goes on sending it.
            return Either::Left(self.inner.call(Call { head, body: Bytes::new(), peer, facts }));
        }
        let Limits { max_body_bytes, body_timeout } = self.limits;
        if body.size_hint().lower() > max_body_bytes as u64 {
            return Either::Right(Either::Right(ready(Ok(refusal(Refused::TooLarge(max_body_bytes))))));
        }
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        Either::Right(Either::Left(Box::pin(async move {
            let gathered = tokio::time::timeout(body_timeout, gather(body, max_body_bytes)).await;
            match gathered.unwrap_or(Err(Refused::TooSlow)) {
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
    Broken,
}

async fn gather<B: Body<Data = Bytes> + Unpin>(mut body: B, limit: usize) -> Result<Bytes, Refused> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Refused::Broken)?.into_data() else { continue };
        if first.len() + rest.len() + data.len() > limit {
            return Err(Refused::TooLarge(limit));
        }
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
        Refused::Broken => (StatusCode::BAD_REQUEST, "caused: the body can not be read;".into()),
    };
    let mut response = Response::new(V1Body::sized(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain;charset=UTF-8"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
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
        fn label(&self) -> &'static str {
            "test"
        }
    }

    /// Sends `body` through a layer with a limit of 8 bytes to a service that sends it back.
    async fn send<B>(body: B, reads: bool) -> (u16, Bytes)
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Send,
    {
        let echo = service_fn(async |call: Call<Reads>| Ok(Response::new(V1Body::sized(call.body))));
        let limits = Limits { max_body_bytes: 8, body_timeout: Duration::from_secs(3) };
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let routed = Routed { request: Request::new(body), peer, facts: Reads(reads) };
        let response = CollectLayer::new(limits).layer(echo).oneshot(routed).await.unwrap();
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
    async fn a_body_that_nobody_reads_is_dropped() {
        assert_eq!(send(Full::from("a=1"), false).await, (200, Bytes::new()));
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_413_with_and_without_a_length() {
        assert_eq!(send(Full::from("123456789"), true).await.0, 413);
        assert_eq!(send(frames(&["12345", "6789"]), true).await.0, 413);
        assert_eq!(send(frames(&["12345", "678"]), true).await.0, 200);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_comes_is_408() {
        let never = http_body_util::StreamBody::new(futures_util::stream::pending::<
            Result<http_body::Frame<Bytes>, Infallible>,
        >());
        assert_eq!(send(never, true).await.0, 408);
    }
}
