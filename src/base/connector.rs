//! Connections of the [client](super::client): where to, where from, and whether an answer has begun.

use std::{
    collections::HashMap,
    io,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::{BoxFuture, FutureExt as _};
use http::Uri;
use hyper_util::rt::TokioIo;
use nacre_middleware::tapped::{Tap, Tapped};
use tokio::net::TcpStream;
use tower_service::Service;

use super::net;

/// Ways round: for an authority (`host:port`) the one to connect to instead, for tests and tunnels.
pub type Via = HashMap<Box<str>, Box<str>>;

/// Connects as the client needs it.
#[derive(Clone, Debug)]
pub struct Connector {
    /// The address to connect from, which must be one of this host's.
    pub from: Option<IpAddr>,
    /// Until the connection stands, the name's resolving included.
    pub timeout: Duration,
    /// Ways round.
    pub via: Arc<Via>,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The system, or the other host, says no.
    #[error("no connection: {0}")]
    Failed(#[from] io::Error),
    /// Nothing was heard in time.
    #[error("no connection in time")]
    TimedOut,
}

impl Connector {
    /// Connects to the authority of `to`.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect(&self, to: &Uri) -> Result<Observed, ConnectError> {
        let authority = to.authority().map_or("", |authority| authority.as_str());
        let target = self.via.get(authority).map_or(authority, |via| via);
        let connecting = async {
            match target.parse() {
                Ok(address) => net::connect(address, self.from).await,
                Err(_) => net::connect_to_one_of(tokio::net::lookup_host(target).await?, self.from).await,
            }
        };
        match tokio::time::timeout(self.timeout, connecting).await {
            Ok(stream) => Ok(Observed { stream: stream?, tap: Exchange::default() }),
            Err(_) => Err(ConnectError::TimedOut),
        }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Observed>;
    type Error = ConnectError;
    type Future = BoxFuture<'static, Result<Self::Response, ConnectError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let connector = self.clone();
        async move { connector.connect(&to).await.map(TokioIo::new) }.boxed()
    }
}

/// What has come over a connection: tells an answer that was cut from one that never began.
///
/// A request is written when the answer before it has been read, so that each write after a read begins one.
#[derive(Clone, Debug, Default)]
pub struct Exchange(Arc<Phases>);

#[derive(Debug, Default)]
struct Phases {
    /// Something was read since the last write.
    begun: AtomicBool,
    /// Something was written after an answer.
    reused: AtomicBool,
}

impl Exchange {
    /// Whether the connection had served another request before.
    #[must_use]
    pub fn is_reused(&self) -> bool {
        self.0.reused.load(Relaxed)
    }

    /// Whether an answer to the request has begun.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.0.begun.load(Relaxed)
    }
}

impl<S> Tap<S> for Exchange {
    fn has_read(&self, _: &[u8]) {
        self.0.begun.store(true, Relaxed);
    }

    fn writes(&self) {
        // Nearly always nothing was read: no need to write to memory that another thread reads.
        if self.0.begun.load(Relaxed) {
            self.0.begun.store(false, Relaxed);
            self.0.reused.store(true, Relaxed);
        }
    }
}

/// A stream that notes what comes.
pub type Observed = Tapped<TcpStream, Exchange>;
