//! The one exchange that passes a request on: a clean head goes over a kept connection, both bodies stream.
//!
//! What comes in is clean ([`crate::hygiene`], [`crate::framing`]); hyper frames it anew. Nothing is added to a head but
//! its framing. Bodies are read as the other side takes them, one frame at a time. An exchange is tried once: whoever
//! chose the server decides by [`Failure`] and [`crate::resend`] what else is done; a request that can be sent again comes
//! back with it.

mod answer;
mod body;
mod failure;

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header,
    uri::{Authority, PathAndQuery, Scheme as UriScheme},
};
use http_body::Body;
use hyper::{body::Incoming, client::conn::TrySendError};
use tokio::time::Instant;

use self::body::{Lent, Shared};
pub use self::{
    answer::{Answer, Broken, Tunnel},
    body::Sending,
    failure::{Failure, Fault},
};
use crate::{
    pool::{Alarm, Connect, Leased, Line, NoConnection, Upload, Upstream},
    resend::{Progress, is_idempotent},
};

/// Times of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How long a new connection may take.
    pub connect: Duration,
    /// How long it may wait for a place among those under way.
    pub wait: Duration,
    /// From the request's last byte to the answer's head.
    pub response: Duration,
    /// Between two pieces of a body, of the request as of the answer.
    pub idle: Duration,
    /// The longest that a kept connection may have been idle to be used; nothing asks for a new one.
    pub max_idle: Duration,
}

/// How long a kept connection may have been idle for a request that can't be sent again.
///
/// Its server may close it in the same moment. One that has just been used hasn't reached any usual idle time.
pub const MAX_IDLE_ONCE: Duration = Duration::from_millis(200);

impl Plan {
    /// The same for a request of this method: one that can't be sent again takes a connection that has just been used.
    #[must_use]
    pub fn of(mut self, method: &Method) -> Self {
        if !is_idempotent(method) {
            self.max_idle = self.max_idle.min(MAX_IDLE_ONCE);
        }
        self
    }

    /// The same over a new connection.
    #[must_use]
    pub fn afresh(mut self) -> Self {
        self.max_idle = Duration::ZERO;
        self
    }
}

/// Sends `request` to `upstream`; gives the answer when its head is there.
///
/// The request's URI is a path and a query, or has an authority, which then counts as its `Host`. Dropping the future or
/// the answer's body ends the exchange, and closes its connection.
///
/// # Errors
/// See [`Fault`]. The request comes back where it wasn't sent, or is idempotent and its body is whole.
pub async fn pass<C, B>(
    upstream: &Upstream<C, Sending<B>>,
    request: Request<B>,
    plan: Plan,
) -> Result<Response<Answer<C, B>>, Failure<B>>
where
    C: Connect,
    B: Upload,
{
    let mut leased = match upstream.lease(plan.max_idle, plan.wait, plan.connect).await {
        Ok(leased) => leased,
        Err(NoConnection::Full) => return Err(Failure::unsent(Fault::Full, request)),
        Err(NoConnection::Connect(fault)) => return Err(Failure::unsent(Fault::Connect(fault), request)),
    };
    let (mut head, body) = request.into_parts();
    let copy = is_idempotent(&head.method).then(|| Copy::of(&head));
    let asks_upgrade = head.headers.contains_key(header::UPGRADE);
    head.extensions.clear();
    let (sending, lent) = Sending::new(body);
    let request = match &leased.line {
        Some(Line::Http2(_)) => for_http2(head, upstream.origin().scheme.as_str()),
        _ => for_http1(head, &sending),
    };
    let request = match request {
        Ok(head) => Request::from_parts(head, sending),
        Err(head) => {
            // Its host can't be one: framing was not looked at.
            let request = Request::from_parts(*head, sending);
            return Err(Failure::unsent(Fault::Broken("no host".into()), lent.take_back(request)));
        }
    };
    let times = Times { sent: Instant::now(), plan };
    let sent = match &mut leased.line {
        Some(Line::Http1(_)) => over_http1(&mut leased, request, &lent, times).await,
        Some(Line::Http2(sender)) => {
            let answering = sender.try_send_request(request);
            over_http2(answering, &lent, times).await
        }
        None => unreachable!("a lease begins with a connection"),
    };
    // A stream's end says nothing of its connection, which others share.
    let reused = leased.reused && matches!(leased.line, Some(Line::Http1(_)));
    match sent {
        Ok(answer) => Answer::new(answer, leased, lent.into_shared(), plan.idle, asks_upgrade)
            .await
            .map_err(|fault| Failure { fault, progress: Progress::AnswerBegun, reused, request: None }),
        Err(Unanswered { fault, progress, request: returned }) => {
            // What hyper holds of the body comes back when the connection is dropped.
            drop(leased);
            let request = match returned {
                Some(request) => Some(Box::new(lent.take_back(*request))),
                None if progress == Progress::AnswerBegun => None,
                None => copy.and_then(|copy| Some(Box::new(copy.into_request(lent.take_body()?)))),
            };
            Err(Failure { fault, progress, reused, request })
        }
    }
}

/// What is needed to send a head again.
struct Copy {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
}

impl Copy {
    fn of(head: &http::request::Parts) -> Self {
        Self { method: head.method.clone(), uri: head.uri.clone(), headers: head.headers.clone() }
    }

    fn into_request<B>(self, body: B) -> Request<B> {
        let mut request = Request::new(body);
        *request.method_mut() = self.method;
        *request.uri_mut() = self.uri;
        *request.headers_mut() = self.headers;
        request
    }
}

type Head = http::request::Parts;

/// Path and query, and a `Host`; a body without a length goes in chunks whatever the method.
fn for_http1<B: Body>(mut head: Head, body: &Sending<B>) -> Result<Head, Box<Head>> {
    head.version = Version::HTTP_11;
    if let Some(authority) = head.uri.authority() {
        let host = HeaderValue::from_str(authority.as_str());
        let Ok(host) = host else { return Err(Box::new(head)) };
        head.headers.insert(header::HOST, host);
        head.uri = head.uri.path_and_query().cloned().map(Uri::from).unwrap_or_default();
    }
    head.headers.remove(header::TRANSFER_ENCODING);
    join_cookies(&mut head.headers);
    if let Some(length) = body.length() {
        let announced = head.headers.get(header::CONTENT_LENGTH).map(|length| length.to_str());
        let is_right = match announced {
            None => length == 0,
            Some(announced) => announced.is_ok_and(|announced| is_plain(announced, length)),
        };
        if !is_right {
            head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        }
        return Ok(head);
    }
    head.headers.remove(header::CONTENT_LENGTH);
    // hyper sends no body with a GET unless it is told to.
    head.headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    Ok(head)
}

/// One line for all cookies, which clients of HTTP/2 may send apart. Source: RFC 9113, 8.2.3.
fn join_cookies(headers: &mut HeaderMap) {
    let mut lines = headers.get_all(header::COOKIE).iter();
    let (Some(first), Some(second)) = (lines.next(), lines.next()) else { return };
    let mut joined = first.as_bytes().to_vec();
    for line in std::iter::once(second).chain(lines) {
        joined.extend_from_slice(b"; ");
        joined.extend_from_slice(line.as_bytes());
    }
    if let Ok(joined) = HeaderValue::from_bytes(&joined) {
        headers.insert(header::COOKIE, joined);
    }
}

/// Whether this is how everybody writes that number.
fn is_plain(text: &str, number: u64) -> bool {
    text.parse() == Ok(number) && (text.len() == 1 || !text.starts_with(['0', '+']))
}

/// A whole URI, and no fields of HTTP/1.1.
fn for_http2(mut head: Head, scheme: &'static str) -> Result<Head, Box<Head>> {
    head.version = Version::HTTP_2;
    head.headers.remove(header::TRANSFER_ENCODING);
    head.headers.remove(header::CONNECTION);
    head.headers.remove(header::UPGRADE);
    let host = head.headers.remove(header::HOST);
    let of_host = || Authority::try_from(host.as_ref()?.as_bytes()).ok();
    let Some(authority) = head.uri.authority().cloned().or_else(of_host) else { return Err(Box::new(head)) };
    let target = head.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    let scheme = if scheme == "https" { UriScheme::HTTPS } else { UriScheme::HTTP };
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(scheme);
    parts.authority = Some(authority);
    parts.path_and_query = Some(target);
    match Uri::from_parts(parts) {
        Ok(uri) => {
            head.uri = uri;
            Ok(head)
        }
        Err(_) => Err(Box::new(head)),
    }
}

/// When the wait for a head is over.
#[derive(Clone, Copy)]
struct Times {
    sent: Instant,
    plan: Plan,
}

impl Times {
    fn deadline(self, upload: Option<&Shared>) -> Instant {
        match upload {
            None => self.sent + self.plan.response,
            Some(upload) if upload.has_ended() => upload.moved().max(self.sent) + self.plan.response,
            Some(upload) => upload.moved().max(self.sent) + self.plan.idle,
        }
    }

    /// Who has let the time pass.
    fn late(upload: Option<&Shared>) -> Fault {
        match upload {
            Some(upload) if !upload.has_ended() && upload.waits_for_client() => Fault::SlowClient,
            _ => Fault::TimedOut,
        }
    }
}

/// Why there is no answer's head.
struct Unanswered<B> {
    fault: Fault,
    progress: Progress,
    /// What was never written.
    request: Option<Box<Request<Sending<B>>>>,
}

async fn over_http1<C, B>(
    leased: &mut Leased<C, Sending<B>>,
    request: Request<Sending<B>>,
    lent: &Lent<B>,
    times: Times,
) -> Result<Response<Incoming>, Unanswered<B>>
where
    C: Connect,
    B: Upload,
{
    let Some(Line::Http1(connection)) = &mut leased.line else { unreachable!("asked for by the caller") };
    connection.begins();
    let answering = connection.sender.try_send_request(request);
    let mut answering = std::pin::pin!(answering);
    std::future::poll_fn(|cx| {
        // It is driven before it is asked, so nobody else need wake the one who asks.
        let driven = connection.poll_drive(cx);
        let mut asking = Context::from_waker(Waker::noop());
        match answering.as_mut().poll(&mut asking) {
            Poll::Ready(Ok(answer)) => return Poll::Ready(Ok(answer)),
            Poll::Ready(Err(error)) => {
                let error = unanswered(error, connection.has_begun(), lent);
                return Poll::Ready(Err(error));
            }
            Poll::Pending => {}
        }
        if driven.is_ready() {
            let progress = if connection.has_begun() { Progress::AnswerBegun } else { Progress::Sent };
            return Poll::Ready(Err(Unanswered { fault: Fault::Closed, progress, request: None }));
        }
        let upload = lent.shared();
        std::task::ready!(connection.alarm.poll(times.deadline(upload), cx));
        let progress = if connection.has_begun() { Progress::AnswerBegun } else { Progress::Sent };
        Poll::Ready(Err(Unanswered { fault: Times::late(upload), progress, request: None }))
    })
    .await
}

async fn over_http2<B>(
    answering: impl Future<Output = Result<Response<Incoming>, TrySendError<Request<Sending<B>>>>>,
    lent: &Lent<B>,
    times: Times,
) -> Result<Response<Incoming>, Unanswered<B>> {
    let mut answering = std::pin::pin!(answering);
    let mut alarm = Alarm::default();
    std::future::poll_fn(|cx| {
        match answering.as_mut().poll(cx) {
            Poll::Ready(Ok(answer)) => return Poll::Ready(Ok(answer)),
            Poll::Ready(Err(error)) => return Poll::Ready(Err(unanswered(error, false, lent))),
            Poll::Pending => {}
        }
        let upload = lent.shared();
        std::task::ready!(alarm.poll(times.deadline(upload), cx));
        let fault = Times::late(upload);
        Poll::Ready(Err(Unanswered { fault, progress: Progress::Sent, request: None }))
    })
    .await
}

fn unanswered<B>(
    mut error: TrySendError<Request<Sending<B>>>,
    has_begun: bool,
    lent: &Lent<B>,
) -> Unanswered<B> {
    if let Some(request) = error.take_message() {
        let request = Some(Box::new(request));
        return Unanswered { fault: Fault::Closed, progress: Progress::NothingSent, request };
    }
    let error = error.into_error();
    let progress = if has_begun { Progress::AnswerBegun } else { Progress::Sent };
    let is_clients = lent.shared().is_some_and(Shared::is_broken);
    let fault = match () {
        () if is_clients => Fault::BrokenClient,
        () if has_begun || error.is_parse() => Fault::Broken(failure::with_cause(&error)),
        () => Fault::Closed,
    };
    Unanswered { fault, progress, request: None }
}

/// Whether an answer of this status may be one.
fn is_final(status: StatusCode, asks_upgrade: bool) -> bool {
    !status.is_informational() || status == StatusCode::SWITCHING_PROTOCOLS && asks_upgrade
}

type SharedUpload = Option<Arc<Shared>>;
