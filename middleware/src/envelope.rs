//! The headers that every answer of a controller carries, CORS included, and when a connection ends.
//!
//! Place in the stack: outside all that answers but for `collect`, so that refusals of inner layers are dressed as well.
//! What `collect` refuses leaves bare: its request was never looked at, and its connection ends.
//! Source: Nacos 1.4.8 as served by its container; compat files `http-headers`, `http-wire`, `instance-http`.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Version, header, request::Parts,
};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::{Call, Facts, V1Body, V1Response};

/// In the extensions of an answer: it leaves as it is, though its route's answers are dressed.
///
/// For layers inside that answer where the reference does it before its controllers' headers are set.
#[derive(Clone, Copy, Debug)]
pub struct Bare;

/// Adds [`Envelope`] to a stack.
#[derive(Clone, Copy, Debug, Default)]
pub struct EnvelopeLayer;

impl<S> Layer<S> for EnvelopeLayer {
    type Service = Envelope<S>;

    fn layer(&self, inner: S) -> Envelope<S> {
        Envelope { inner }
    }
}

/// Dresses answers; answers preflights itself.
#[derive(Clone, Debug)]
pub struct Envelope<S> {
    inner: S,
}

impl<S, F> Service<Call<F>> for Envelope<S>
where
    S: Service<Call<F>, Response = V1Response, Error = Infallible>,
    F: Facts,
{
    type Response = V1Response;
    type Error = Infallible;
    type Future = EnvelopeFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call<F>) -> Self::Future {
        let origin = call.head.headers.get(header::ORIGIN);
        let close = call.head.version == Version::HTTP_10;
        let refused = origin.and_then(|origin| preflight(&call.head, origin, call.facts));
        if let Some(response) = refused {
            return EnvelopeFuture {
                inner: None,
                dress: Some(Dress { response: Some(response), ..Dress::default() }),
            };
        }
        let foreign = origin.filter(|origin| !is_own(&call.head, origin)).cloned();
        let dressed = call.facts.is_dressed();
        let dress = Dress { origin: foreign.filter(|_| dressed), dressed, close, response: None };
        EnvelopeFuture { inner: Some(self.inner.call(call)), dress: Some(dress) }
    }
}

#[derive(Debug, Default)]
struct Dress {
    origin: Option<HeaderValue>,
    dressed: bool,
    close: bool,
    response: Option<V1Response>,
}

pin_project! {
    /// The answer of the inner service, dressed.
    pub struct EnvelopeFuture<F> {
        #[pin]
        inner: Option<F>,
        dress: Option<Dress>,
    }
}

impl<F> Future for EnvelopeFuture<F>
where
    F: Future<Output = Result<V1Response, Infallible>>,
{
    type Output = Result<V1Response, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut response = match this.inner.as_pin_mut() {
            Some(inner) => match ready!(inner.poll(cx)) {
                Ok(response) => response,
                Err(never) => match never {},
            },
            None => {
                return Poll::Ready(Ok(this
                    .dress
                    .take()
                    .and_then(|dress| dress.response)
                    .unwrap_or_default()));
            }
        };
        if let Some(dress) = this.dress.take() {
            dress.put_on(&mut response);
        }
        Poll::Ready(Ok(response))
    }
}

impl Dress {
    fn put_on(self, response: &mut V1Response) {
        let status = response.status();
        let bare = response.extensions().get::<Bare>().is_some();
        let headers = response.headers_mut();
        if self.dressed && !bare {
            vary(headers);
            headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("script-src 'self'"));
        }
        if let Some(origin) = self.origin.filter(|_| !bare) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
        if self.close || ends_connection(status) {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

/// The statuses after which the reference closes a connection.
fn ends_connection(status: StatusCode) -> bool {
    matches!(status.as_u16(), 400 | 408 | 411 | 413 | 414 | 417 | 500 | 501 | 503)
}

/// Three lines, as the reference writes them.
fn vary(headers: &mut HeaderMap) {
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    headers.append(header::VARY, HeaderValue::from_static("Access-Control-Request-Method"));
    headers.append(header::VARY, HeaderValue::from_static("Access-Control-Request-Headers"));
}

/// Whether the page that asks comes from this server, so that no CORS header is needed.
fn is_own(head: &Parts, origin: &HeaderValue) -> bool {
    let host = head.headers.get(header::HOST).map(HeaderValue::as_bytes);
    let origin = origin.as_bytes();
    let authority = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
    authority.is_some() && authority == host
}

/// The answer to a preflight, or the refusal of an empty origin.
///
/// Under the naming path every preflight is refused, since the reference's naming filter answers it before its CORS
/// filter sees it.
fn preflight<F: Facts>(head: &Parts, origin: &HeaderValue, facts: F) -> Option<V1Response> {
    let wanted = head.headers.get(header::ACCESS_CONTROL_REQUEST_METHOD);
    let is_preflight = head.method == Method::OPTIONS && wanted.is_some();
    let is_empty = origin.is_empty() && facts.is_dressed();
    if !is_preflight && !is_empty {
        return None;
    }
    let known = |method: &HeaderValue| {
        let known = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"];
        known.iter().any(|name| name.as_bytes() == method.as_bytes())
    };
    let mut response = Response::new(V1Body::default());
    vary(response.headers_mut());
    match wanted.filter(|method| known(method)) {
        Some(method) if is_preflight && !facts.is_naming() && !origin.is_empty() => {
            let asked = head.headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS);
            allow(response.headers_mut(), origin, method, asked);
        }
        _ => {
            *response.status_mut() = StatusCode::FORBIDDEN;
            *response.body_mut() = V1Body::sized("Invalid CORS request");
        }
    }
    Some(response)
}

fn allow(headers: &mut HeaderMap, origin: &HeaderValue, method: &HeaderValue, asked: Option<&HeaderValue>) {
    let mut put = |name: HeaderName, value: HeaderValue| headers.insert(name, value);
    put(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    put(header::ACCESS_CONTROL_ALLOW_METHODS, method.clone());
    put(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    put(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("18000"));
    if let Some(asked) = asked.and_then(|asked| asked.to_str().ok()) {
        let names: Vec<&str> = asked.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        if let Ok(value) = HeaderValue::from_str(&names.join(", ")) {
            put(header::ACCESS_CONTROL_ALLOW_HEADERS, value);
        }
    }
}
