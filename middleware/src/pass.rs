//! The one exchange that passes a request on: a clean head goes over a kept connection, both bodies stream.
//!
//! What comes in is clean ([`crate::hygiene`], [`crate::framing`]); hyper frames it anew. Nothing is added to a head but
//! its framing. Bodies are read as the other side takes them, one frame at a time. An exchange is tried once: whoever
//! chose the server decides by [`Failure`] and [`crate::resend`] what else is done; a request that can be sent again comes
//! back with it.

mod answer;
mod body;
mod failure;
mod head;

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use http::{Method, Request, Response, StatusCode, header};
use hyper::{body::Incoming, client::conn::TrySendError};
use tokio::time::Instant;

pub use self::{
    answer::{Answer, Broken, Tunnel},
    body::Sending,
    failure::{Failure, Fault},
};
use self::{
    body::{Lent, Returned, Shared},
    head::{Copy, for_http1, for_http2},
};
use crate::{
    pool::{Alarm, Connect, Leased, Line, NoConnection, Place, Upload, Upstream},
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
    match lease(upstream, plan).await {
        Ok(leased) => pass_over(leased, request, plan).await,
        Err(fault) => Err(Failure::unsent(fault, request)),
    }
}

/// A connection to `upstream` for one exchange: a kept one, or a new one.
///
/// # Errors
/// There is none, see [`Fault::Full`] and [`Fault::Connect`].
pub async fn lease<C, B>(
    upstream: &Upstream<C, Sending<B>>,
    plan: Plan,
) -> Result<Leased<C, Sending<B>>, Fault>
where
    C: Connect,
    B: Upload,
{
    upstream.lease(plan.max_idle, plan.wait, plan.connect).await.map_err(|none| match none {
        NoConnection::Full => Fault::Full,
        NoConnection::Connect(fault) => Fault::Connect(fault),
    })
}

/// As [`pass`], over a connection that somebody has taken for it.
///
/// # Errors
/// As of [`pass`].
pub async fn pass_over<C, B>(
    mut leased: Leased<C, Sending<B>>,
    request: Request<B>,
    plan: Plan,
) -> Result<Response<Answer<C, B>>, Failure<B>>
where
    C: Connect,
    B: Upload,
{
    let is_http2 = matches!(leased.line, Some(Line::Http2(_)));
    let (mut head, body) = request.into_parts();
    // Over HTTP/2 a server says what it hasn't processed, which may go again whatever it is.
    let copy = (is_http2 || is_idempotent(&head.method)).then(|| Copy::of(&head));
    let asks_upgrade = head.headers.contains_key(header::UPGRADE);
    head.extensions.clear();
    let (sending, lent) = Sending::new(body);
    let request =
        if is_http2 { for_http2(head, leased.origin().scheme.as_str()) } else { for_http1(head, &sending) };
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
        Some(Line::Http2(place)) => over_http2(place, request, &lent, times).await,
        None => unreachable!("a lease begins with a connection"),
    };
    // A stream's end says nothing of its connection, which others share.
    let reused = leased.is_reused() && !is_http2;
    match sent {
        Ok(answer) => {
            Answer::new(answer, leased, lent.into_shared(), plan.idle, asks_upgrade).await.map_err(|fault| {
                Failure { fault, progress: Progress::AnswerBegun, reused, request: None, begun: None }
            })
        }
        Err(Unanswered { fault, progress, request: returned }) => {
            // What hyper holds of the body comes back when the connection is dropped.
            drop(leased);
            let mut failure = Failure { fault, progress, reused, request: None, begun: None };
            match (returned, copy) {
                (Some(request), _) => failure.request = Some(Box::new(lent.take_back(*request))),
                (None, Some(copy)) if progress != Progress::AnswerBegun => {
                    // A task of its own sends the body of a stream.
                    let waits = if is_http2 && progress == Progress::NothingSent {
                        GIVE_BACK
                    } else {
                        Duration::ZERO
                    };
                    match lent.returned(waits).await {
                        Some(Returned { body, was_read: false }) => {
                            failure.request = Some(Box::new(copy.into_request(body)));
                        }
                        Some(Returned { body, was_read: true }) if progress == Progress::NothingSent => {
                            failure.begun = Some(Box::new(copy.into_request(body)));
                        }
                        _ => {}
                    }
                }
                _ => {}
            }
            Err(failure)
        }
    }
}

/// How long a stream that the server has refused may take to end: as long as a task waits for its turn.
const GIVE_BACK: Duration = Duration::from_secs(1);

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

async fn over_http2<B: Upload>(
    place: &mut Place<Sending<B>>,
    request: Request<Sending<B>>,
    lent: &Lent<B>,
    times: Times,
) -> Result<Response<Incoming>, Unanswered<B>> {
    let mut answering = std::pin::pin!(place.sender.try_send_request(request));
    let mut alarm = Alarm::default();
    let answered = std::future::poll_fn(|cx| {
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
    .await;
    match &answered {
        Ok(_) => place.heard(),
        Err(Unanswered { fault: Fault::TimedOut, .. }) => place.was_silent_since(times.sent),
        Err(_) => {}
    }
    answered
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
    let progress = match () {
        () if has_begun => Progress::AnswerBegun,
        () if was_not_processed(&error) => Progress::NothingSent,
        () => Progress::Sent,
    };
    let is_clients = lent.shared().is_some_and(Shared::is_broken);
    let fault = match () {
        () if is_clients => Fault::BrokenClient,
        () if has_begun || error.is_parse() => Fault::Broken(failure::with_cause(&error)),
        () => Fault::Closed,
    };
    Unanswered { fault, progress, request: None }
}

/// Whether the server says that it has done nothing for this stream: it has refused it, or it ends the connection and named an
/// earlier stream as the last one that it takes. Source: RFC 9113, 8.7.
fn was_not_processed(error: &hyper::Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<h2::Error>());
    cause.is_some_and(|cause| {
        cause.is_remote()
            && (cause.is_go_away() || cause.is_reset() && cause.reason() == Some(h2::Reason::REFUSED_STREAM))
    })
}

/// Whether an answer of this status may be one.
fn is_final(status: StatusCode, asks_upgrade: bool) -> bool {
    !status.is_informational() || status == StatusCode::SWITCHING_PROTOCOLS && asks_upgrade
}

type SharedUpload = Option<Arc<Shared>>;
