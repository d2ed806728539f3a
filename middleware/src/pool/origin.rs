//! Where a server is, and how one connects to it.

use std::{error::Error, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http_body::Body;
use tokio::io::{AsyncRead, AsyncWrite};
use tower::{ServiceExt as _, util::Oneshot};
use tower_service::Service;

/// A server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// With TLS or without.
    pub scheme: Scheme,
    /// `host:port`; the host is what a certificate must be for.
    pub authority: Box<str>,
    /// Where the host is, if somebody has looked already; else the connector resolves it.
    pub address: Option<SocketAddr>,
    /// What it speaks.
    pub protocol: Protocol,
}

impl Origin {
    /// One without TLS that speaks HTTP/1.1.
    #[must_use]
    pub fn plain(authority: &str) -> Self {
        let address = authority.parse().ok();
        Self { scheme: Scheme::Http, authority: authority.into(), address, protocol: Protocol::Http1 }
    }
}

/// A request's body as it can be passed on: any body of bytes, of which one task reads.
pub trait Upload:
    Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static
{
}

impl<B> Upload for B where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static
{
}

/// With TLS or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Without.
    Http,
    /// With.
    Https,
}

impl Scheme {
    /// As a URI spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// What a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 from the first byte.
    Http2,
    /// What TLS agrees on.
    Negotiated,
}

/// What a connector makes.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {
    /// Whether TLS has agreed on HTTP/2.
    fn has_negotiated_http2(&self) -> bool {
        false
    }

    /// Whether there is something to be read now, its end included, by the system's own word: what the runtime has been told
    /// of it may be older.
    fn has_news(&self) -> bool {
        false
    }
}

impl Stream for tokio::net::TcpStream {
    fn has_news(&self) -> bool {
        let mut byte = [std::mem::MaybeUninit::uninit()];
        let looked = socket2::SockRef::from(self).peek(&mut byte);
        !looked.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    }
}

impl Stream for tokio::io::DuplexStream {}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectFault {
    /// Nobody is there: refused, or unreachable.
    #[error("no connection: {0}")]
    Refused(String),
    /// Its name has no address, or nobody can say which now.
    #[error("no connection: its name has no address: {0}")]
    Unresolved(String),
    /// Nothing was heard in time.
    #[error("no connection in time")]
    TimedOut,
    /// Somebody is there who isn't the one, or speaks otherwise.
    #[error("no connection that can be trusted: {0}")]
    Untrusted(String),
    /// This host can't: no files or ports left. Says nothing of the server.
    #[error("this host can't connect: {0}")]
    Impossible(String),
}

impl ConnectFault {
    pub(super) fn broken(error: &hyper::Error) -> Self {
        Self::Untrusted(error.to_string())
    }
}

/// Connects to servers: any tower service of the right kind.
pub trait Connect: Clone + Send + Sync + 'static {
    /// What it makes.
    type Stream: Stream;
    /// A connection being made.
    type Connecting: Future<Output = Result<Self::Stream, ConnectFault>> + Send;

    /// Begins to connect.
    fn connect(&self, to: &Arc<Origin>) -> Self::Connecting;
}

impl<T, S> Connect for T
where
    T: Service<Arc<Origin>, Response = S, Error = ConnectFault, Future: Send> + Clone + Send + Sync + 'static,
    S: Stream,
{
    type Stream = S;
    type Connecting = Oneshot<T, Arc<Origin>>;

    fn connect(&self, to: &Arc<Origin>) -> Self::Connecting {
        self.clone().oneshot(Arc::clone(to))
    }
}
