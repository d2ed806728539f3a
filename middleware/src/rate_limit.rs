//! Refuses what an address asks too often: 429, by the head alone.
//!
//! Place in the stack: inside what counts answers, outside all that reads bodies or hands out permits, so that a refused
//! request costs next to nothing. Without limits the layer isn't there. Source: ours.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    net::{IpAddr, SocketAddr},
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use futures_util::future::Either;
use http::{HeaderValue, Request, StatusCode, header};
use parking_lot::Mutex;
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    V1Response,
    collect::Routed,
    limits::{Buckets, Class},
    refusal::refusal,
};

/// Requests a second of one address, by class; 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Beats.
    pub beat: u32,
    /// Requests that change nothing.
    pub read: u32,
    /// Requests that may change something.
    pub write: u32,
}

/// Says whose a request is and what kind of work.
pub trait Counted<F>: Clone {
    /// Of which client, and of which class; nothing for what is never refused.
    fn count<B>(&self, request: &Request<B>, peer: SocketAddr, facts: F) -> Option<(IpAddr, Class)>;

    /// One was refused.
    fn refused(&self, address: IpAddr, class: Class);
}

/// Adds [`RateLimit`] to a stack; what it makes shares its buckets.
#[derive(Clone, Debug)]
pub struct RateLimitLayer<C> {
    counted: C,
    buckets: Arc<[Option<Mutex<Buckets>>; 3]>,
}

impl<C> RateLimitLayer<C> {
    /// Limits by these rates what `counted` says; nothing where there is no limit at all.
    #[must_use]
    pub fn new(rates: Rates, counted: C) -> Option<Self> {
        let Rates { beat, read, write } = rates;
        let buckets = [beat, read, write].map(|rate| Buckets::new(rate).map(Mutex::new));
        buckets.iter().any(Option::is_some).then(|| Self { counted, buckets: Arc::new(buckets) })
    }
}

impl<S, C: Clone> Layer<S> for RateLimitLayer<C> {
    type Service = RateLimit<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimit { inner, counted: self.counted.clone(), buckets: Arc::clone(&self.buckets) }
    }
}

/// Answers 429 to what comes too often; lets all else through.
#[derive(Clone, Debug)]
pub struct RateLimit<S, C> {
    inner: S,
    counted: C,
    buckets: Arc<[Option<Mutex<Buckets>>; 3]>,
}

impl<S, C, F, B> Service<Routed<F, B>> for RateLimit<S, C>
where
    S: Service<Routed<F, B>, Response = V1Response, Error = Infallible>,
    C: Counted<F>,
    F: Copy,
{
    type Response = V1Response;
    type Error = Infallible;
    type Future = Either<S::Future, Ready<Result<V1Response, Infallible>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, routed: Routed<F, B>) -> Self::Future {
        if let Some((address, class)) = self.counted.count(&routed.request, routed.peer, routed.facts)
            && let Some(buckets) = &self.buckets[class as usize]
            && let Err(wait) = buckets.lock().take(address, Instant::now())
        {
            self.counted.refused(address, class);
            return Either::Right(ready(Ok(too_often(class, wait))));
        }
        Either::Left(self.inner.call(routed))
    }
}

fn too_often(class: Class, wait: Duration) -> V1Response {
    let text = format!("too many requests of this address (class {}), please try again later", class.label());
    let mut response = refusal(StatusCode::TOO_MANY_REQUESTS, &text);
    // Whole seconds; never 0, which would mean at once.
    let seconds = wait.as_millis().div_ceil(1_000).max(1);
    if let Ok(seconds) = HeaderValue::try_from(seconds.to_string()) {
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    response
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use http::{Method, Response};
    use tower::{ServiceExt as _, service_fn};

    use super::*;
    use crate::V1Body;

    /// Counts what changes nothing as a read, and nothing of `127.0.0.1`.
    #[derive(Clone, Default)]
    struct ByMethod(Arc<Mutex<Vec<(IpAddr, Class)>>>);

    impl Counted<()> for ByMethod {
        fn count<B>(&self, request: &Request<B>, peer: SocketAddr, (): ()) -> Option<(IpAddr, Class)> {
            let class = if request.method() == Method::GET { Class::Read } else { Class::Write };
            (!peer.ip().is_loopback()).then_some((peer.ip(), class))
        }

        fn refused(&self, address: IpAddr, class: Class) {
            self.0.lock().push((address, class));
        }
    }

    fn stack(
        rates: Rates,
        counted: ByMethod,
    ) -> Option<impl Service<Routed<(), ()>, Response = V1Response, Error = Infallible> + Clone> {
        let inner = service_fn(async |_: Routed<(), ()>| Ok(Response::new(V1Body::sized("done"))));
        Some(RateLimitLayer::new(rates, counted)?.layer(inner))
    }

    fn request(method: Method, peer: &str) -> Routed<(), ()> {
        let request = Request::builder().method(method).uri("/a").body(()).unwrap();
        Routed { request, peer: format!("{peer}:1").parse().unwrap(), facts: () }
    }

    #[test]
    fn without_limits_there_is_no_layer() {
        assert!(stack(Rates::default(), ByMethod::default()).is_none());
    }

    #[test]
    fn what_comes_too_often_is_told_when_to_come_back_and_all_else_passes() {
        let counted = ByMethod::default();
        let stack = stack(Rates { read: 1, ..Rates::default() }, counted.clone()).unwrap();
        let ask = |method: Method, peer: &str| {
            let answer = stack.clone().oneshot(request(method, peer)).now_or_never().unwrap().unwrap();
            let retry_after =
                answer.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
            (answer.status().as_u16(), retry_after)
        };
        assert_eq!(ask(Method::GET, "10.0.0.1"), (200, None));
        assert_eq!(ask(Method::GET, "10.0.0.1"), (429, Some("1".into())));
        assert_eq!(ask(Method::GET, "10.0.0.2"), (200, None));
        for _ in 0..3 {
            assert_eq!(ask(Method::PUT, "10.0.0.1").0, 200, "no limit is set for writes");
            assert_eq!(ask(Method::GET, "127.0.0.1").0, 200, "not counted");
        }
        assert_eq!(*counted.0.lock(), [("10.0.0.1".parse().unwrap(), Class::Read)]);
    }
}
