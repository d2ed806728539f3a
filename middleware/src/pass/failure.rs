//! Why an exchange gave no answer.

use http::{Request, StatusCode};

use crate::{
    pool::ConnectFault,
    resend::{Progress, may_resend},
};

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// As many exchanges as may are under way to the server and wait for it.
    #[error("as many requests as may are under way")]
    Full,
    /// There is no connection.
    #[error("{0}")]
    Connect(ConnectFault),
    /// Closed or reset before the first byte of an answer.
    #[error("closed without an answer")]
    Closed,
    /// No head of an answer in time, or the server stopped taking the request.
    #[error("no answer in time")]
    TimedOut,
    /// What came is no head of an HTTP answer, or one that is too long.
    #[error("the answer is broken: {0}")]
    Broken(String),
    /// The client stopped sending its body.
    #[error("the client was too slow")]
    SlowClient,
    /// The client's body broke off, or can't be read.
    #[error("the request's body broke off")]
    BrokenClient,
}

impl Fault {
    /// The status that tells a client of it.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Full => StatusCode::SERVICE_UNAVAILABLE,
            Self::Connect(ConnectFault::TimedOut) | Self::TimedOut => StatusCode::GATEWAY_TIMEOUT,
            Self::Connect(_) | Self::Closed | Self::Broken(_) => StatusCode::BAD_GATEWAY,
            Self::SlowClient => StatusCode::REQUEST_TIMEOUT,
            Self::BrokenClient => StatusCode::BAD_REQUEST,
        }
    }

    /// Whether it says that something is wrong with the server.
    #[must_use]
    pub fn is_upstreams(&self) -> bool {
        match self {
            Self::Full | Self::SlowClient | Self::BrokenClient => false,
            Self::Connect(fault) => !matches!(fault, ConnectFault::Impossible(_)),
            Self::Closed | Self::TimedOut | Self::Broken(_) => true,
        }
    }

    /// In one word, for meters and logs.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Connect(ConnectFault::Refused(_)) => "refused",
            Self::Connect(ConnectFault::Unresolved(_)) => "unresolved",
            Self::Connect(ConnectFault::TimedOut) => "connect_timeout",
            Self::Connect(ConnectFault::Untrusted(_)) => "untrusted",
            Self::Connect(ConnectFault::Impossible(_)) => "impossible",
            Self::Closed => "closed",
            Self::TimedOut => "timeout",
            Self::Broken(_) => "broken",
            Self::SlowClient => "slow_client",
            Self::BrokenClient => "broken_client",
        }
    }

    /// What [`Self::kind`] can say.
    pub const KINDS: [&'static str; 11] = [
        "full",
        "refused",
        "unresolved",
        "connect_timeout",
        "untrusted",
        "impossible",
        "closed",
        "timeout",
        "broken",
        "slow_client",
        "broken_client",
    ];
}

/// An exchange that gave no answer.
#[derive(Debug)]
pub struct Failure<B> {
    /// What went wrong.
    pub fault: Fault,
    /// How far it had come.
    pub progress: Progress,
    /// It went over a connection that had served before; a server may close such a one at any time.
    pub reused: bool,
    /// The request, where it is whole still.
    pub request: Option<Box<Request<B>>>,
    /// The request, where nothing was done for it but its body was read of: whoever has kept what was read may begin anew.
    pub begun: Option<Box<Request<B>>>,
}

impl<B> Failure<B> {
    /// Nothing was sent, for this reason.
    pub fn unsent(fault: Fault, request: Request<B>) -> Self {
        let request = Some(Box::new(request));
        Self { fault, progress: Progress::NothingSent, reused: false, request, begun: None }
    }

    /// Whether the request may be sent again.
    #[must_use]
    pub fn can_go_again(&self) -> bool {
        let is_clients = matches!(self.fault, Fault::SlowClient | Fault::BrokenClient);
        let method = self.request.as_ref().map(|request| request.method());
        !is_clients && method.is_some_and(|method| may_resend(method, self.progress))
    }

    /// The request, if it may be sent again; else the failure.
    ///
    /// # Errors
    /// The failure itself, where it mayn't.
    pub fn again(mut self) -> Result<Request<B>, Self> {
        match self.can_go_again().then(|| self.request.take()).flatten() {
            Some(request) => Ok(*request),
            None => Err(self),
        }
    }
}

/// An error and what caused it, in one line.
pub(super) fn with_cause(error: &dyn std::error::Error) -> String {
    let cause = error.source().map(|cause| format!(": {cause}"));
    format!("{error}{}", cause.unwrap_or_default())
}
