//! Connections of the [client](super::client): where to, where from, and whether an answer has begun.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_util::future::{BoxFuture, FutureExt as _};
use http::Uri;
use hyper_util::{
    client::legacy::connect::{Connected, Connection},
    rt::TokioIo,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
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
                Err(_) => self.connect_to_one_of(tokio::net::lookup_host(target).await?).await,
            }
        };
        match tokio::time::timeout(self.timeout, connecting).await {
            Ok(stream) => Ok(Observed { stream: stream?, exchange: Exchange::default() }),
            Err(_) => Err(ConnectError::TimedOut),
        }
    }

    /// The first of a name's addresses that answers; else what the last one said.
    async fn connect_to_one_of(&self, addresses: impl Iterator<Item = SocketAddr>) -> io::Result<TcpStream> {
        let mut outcome = Err(io::Error::new(io::ErrorKind::HostUnreachable, "the name has no address"));
        for address in addresses {
            outcome = net::connect(address, self.from).await;
            if outcome.is_ok() {
                break;
            }
        }
        outcome
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

    fn written(&self) {
        // Nearly always nothing was read: no need to write to memory that another thread reads.
        if self.0.begun.load(Relaxed) {
            self.0.begun.store(false, Relaxed);
            self.0.reused.store(true, Relaxed);
        }
    }

    fn read(&self) {
        self.0.begun.store(true, Relaxed);
    }
}

/// A stream that notes what comes.
#[derive(Debug)]
pub struct Observed {
    stream: TcpStream,
    exchange: Exchange,
}

impl Observed {
    /// What has come over it.
    #[must_use]
    pub fn exchange(&self) -> &Exchange {
        &self.exchange
    }
}

impl Connection for Observed {
    fn connected(&self) -> Connected {
        Connected::new().extra(self.exchange.clone())
    }
}

impl AsyncRead for Observed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        if buffer.filled().len() > before {
            self.exchange.read();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Observed {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.exchange.written();
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.exchange.written();
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
