//! The HTTP client of calls to other servers: pooled, with limits in time and size, and errors that say what to do.
//!
//! A call that finds a connection closed which had served others before is sent again on the next: a server may close
//! an idle connection at the moment of its reuse. So a call may reach the other side twice, and everything that is
//! sent this way must stand that. How many calls go to one server at a time is bounded by who calls.

use std::{error::Error, io, net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{
    HeaderValue, Request, Response, Uri,
    header::{CONTENT_LENGTH, HOST},
    uri::PathAndQuery,
};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{
        self,
        connect::{CaptureConnection, capture_connection},
    },
    rt::{TokioExecutor, TokioTimer},
};

use super::{
    connector::{ConnectError, Connector, Exchange, Via},
    long_target, net,
};

/// How a client connects and what it keeps.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// The address to connect from; any, where it is none of this host's.
    pub from: Option<IpAddr>,
    /// Until a connection stands; counts within a call's own limit.
    pub connect_timeout: Duration,
    /// How long an unused connection is kept. Nacos 1.x closes them after 60 s.
    pub idle_timeout: Duration,
    /// Unused connections that are kept for one server.
    pub max_idle: usize,
    /// Ways round.
    pub via: Via,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            from: None,
            connect_timeout: Duration::from_secs(2),
            idle_timeout: Duration::from_secs(20),
            max_idle: 32,
            via: Via::new(),
        }
    }
}

/// How often a call is sent at most: several unused connections may have been closed in one moment.
const MOST_ATTEMPTS: u32 = 4;
/// Bytes that an answer's head may have.
const MAX_HEAD: usize = 128 << 10;

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Nobody is there: nothing was sent.
    #[error("refused or unreachable")]
    Refused(#[source] io::Error),
    /// Closed or reset before the first byte of an answer: whoever was there has ended. It may have acted.
    #[error("closed without an answer")]
    Closed,
    /// No whole answer in time. It may act still.
    #[error("no answer in time")]
    TimedOut,
    /// What came isn't a whole HTTP answer.
    #[error("the answer is broken")]
    Broken(#[source] Box<dyn Error + Send + Sync>),
    /// The answer's body is longer than the caller takes.
    #[error("the answer is too large")]
    TooLarge,
    /// This host can't: no files or ports left, or no such address. Says nothing of the other side; nothing was sent.
    #[error("the call can't be made: {0}")]
    Impossible(#[source] Box<dyn Error + Send + Sync>),
}

/// The client; clones share their connections.
#[derive(Clone, Debug)]
pub struct Client {
    inner: legacy::Client<Connector, Full<Bytes>>,
    connector: Connector,
}

impl Client {
    /// A client without connections; makes them as calls come.
    #[must_use]
    pub fn new(settings: ClientSettings) -> Self {
        let connector = Connector {
            from: settings.from.filter(|address| net::is_of_this_host(*address)),
            timeout: settings.connect_timeout,
            via: Arc::new(settings.via),
        };
        let inner = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(settings.idle_timeout)
            .pool_max_idle_per_host(settings.max_idle)
            .http1_max_buf_size(MAX_HEAD)
            .build(connector.clone());
        Self { inner, connector }
    }

    /// Sends `request`, whose URI is a path, to the server `to` (`host:port`); gives the answer, whatever its status.
    ///
    /// `timeout` is for all of it; the answer's body may have `max_answer` bytes. A `Host` header is added where there
    /// is none. Dropping the future closes the connection.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn send(
        &self,
        to: &str,
        request: Request<Bytes>,
        timeout: Duration,
        max_answer: usize,
    ) -> Result<Response<Bytes>, CallError> {
        let answering = async { collect(self.send_until_fresh(to, request).await?, max_answer).await };
        tokio::time::timeout(timeout, answering).await.unwrap_or(Err(CallError::TimedOut))
    }

    /// Like [`Self::send`], for an answer whose body the caller reads as it comes, and bounds in time and size; `timeout` is
    /// for the head.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn open(
        &self,
        to: &str,
        request: Request<Bytes>,
        timeout: Duration,
    ) -> Result<Response<Incoming>, CallError> {
        let answering = self.send_until_fresh(to, request);
        tokio::time::timeout(timeout, answering).await.unwrap_or(Err(CallError::TimedOut))
    }

    /// Like [`Self::send`], with a path and a query that are longer than a URI can be (64 KiB) in the place of the
    /// request's. Takes a connection of its own and sends once.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn send_long(
        &self,
        to: &str,
        request: Request<Bytes>,
        target: &str,
        timeout: Duration,
        max_answer: usize,
    ) -> Result<Response<Bytes>, CallError> {
        let server = absolute(to, request.uri()).map_err(|error| CallError::Impossible(error.into()))?;
        if !long_target::is_target(target) {
            return Err(CallError::Impossible("the target isn't encoded".into()));
        }
        let mut request = request.map(Full::new);
        let host = HeaderValue::from_str(to).map_err(|error| CallError::Impossible(error.into()))?;
        request.headers_mut().entry(HOST).or_insert(host);
        let answering = async {
            let stream = self.connector.connect(&server).await.map_err(unconnected)?;
            let exchange = stream.tap.clone();
            match long_target::send(stream, request, target).await {
                Ok(answer) => collect(answer, max_answer).await,
                Err(error) if exchange.has_begun() => Err(CallError::Broken(error.into())),
                Err(_) => Err(CallError::Closed),
            }
        };
        tokio::time::timeout(timeout, answering).await.unwrap_or(Err(CallError::TimedOut))
    }

    /// Sends until a connection answers, or one fails that nobody had used before.
    async fn send_until_fresh(
        &self,
        to: &str,
        request: Request<Bytes>,
    ) -> Result<Response<Incoming>, CallError> {
        let mut request = request.map(Full::new);
        *request.uri_mut() =
            absolute(to, request.uri()).map_err(|error| CallError::Impossible(error.into()))?;
        let mut attempts = 1;
        loop {
            let mut request = request.clone();
            let captured = capture_connection(&mut request);
            let error = match self.inner.request(request).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let exchange = exchange(&captured);
            let error = reason(error, &exchange);
            if !(matches!(error, CallError::Closed) && exchange.is_reused() && attempts < MOST_ATTEMPTS) {
                return Err(error);
            }
            attempts += 1;
        }
    }
}

/// The URI with the server in it, which the pool needs to see; the path alone is sent.
fn absolute(to: &str, path: &Uri) -> Result<Uri, http::Error> {
    let path = path.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    Uri::builder().scheme("http").authority(to).path_and_query(path).build()
}

/// What went over the connection of a call; nothing where there was none.
fn exchange(captured: &CaptureConnection) -> Exchange {
    let mut extras = http::Extensions::new();
    if let Some(connected) = &*captured.connection_metadata() {
        connected.get_extras(&mut extras);
    }
    extras.remove().unwrap_or_default()
}

/// Reads an answer's body, of `max` bytes at most.
///
/// # Errors
/// See [`CallError`].
pub async fn collect(answer: Response<Incoming>, max: usize) -> Result<Response<Bytes>, CallError> {
    let (head, body) = answer.into_parts();
    if head.status.is_informational() {
        return Err(CallError::Broken("it would speak another protocol".into()));
    }
    let announced = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length: u64| length > max as u64) {
        return Err(CallError::TooLarge);
    }
    match Limited::new(body, max).collect().await {
        Ok(body) => Ok(Response::from_parts(head, body.to_bytes())),
        Err(error) if error.is::<LengthLimitError>() => Err(CallError::TooLarge),
        Err(error) => Err(CallError::Broken(error)),
    }
}

/// What a failed attempt means.
///
/// Where there was no connection, `exchange` is that of one which the pool gave out before and found closed.
fn reason(error: legacy::Error, exchange: &Exchange) -> CallError {
    match error.source().and_then(|source| source.downcast_ref()) {
        Some(ConnectError::TimedOut) => CallError::TimedOut,
        Some(ConnectError::Failed(cause)) => failed(cause),
        None if exchange.has_begun() => CallError::Broken(error.into()),
        None => CallError::Closed,
    }
}

fn unconnected(error: ConnectError) -> CallError {
    match error {
        ConnectError::TimedOut => CallError::TimedOut,
        ConnectError::Failed(cause) => failed(&cause),
    }
}

/// What it means that there is no connection.
fn failed(cause: &io::Error) -> CallError {
    let error = io::Error::new(cause.kind(), cause.to_string());
    if net::is_unreachable(cause) { CallError::Refused(error) } else { CallError::Impossible(error.into()) }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
