//! Connections to instances: by TCP, with TLS around it where a rule says so.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use nacre_middleware::pool::{ConnectFault, Origin, Protocol, Scheme, Stream};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName},
};
use tower_service::Service;

use crate::base::net;

/// Makes connections; clones share what is trusted, and the bound.
#[derive(Clone)]
pub struct Connector {
    http1: TlsConnector,
    http2: TlsConnector,
    room: Arc<Semaphore>,
}

impl Connector {
    /// Instances with TLS must show certificates of these authorities. There are `most` connections at a time, kept ones and
    /// those of tunnels among them; one more is [`ConnectFault::Impossible`].
    #[must_use]
    pub fn new(trusted: RootCertStore, most: usize) -> Self {
        let trusted = Arc::new(trusted);
        let with = |protocol: &[u8]| {
            let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()
                .expect("ring knows the usual versions")
                .with_root_certificates(Arc::clone(&trusted))
                .with_no_client_auth();
            config.alpn_protocols = vec![protocol.to_vec()];
            TlsConnector::from(Arc::new(config))
        };
        let room = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
        Self { http1: with(b"http/1.1"), http2: with(b"h2"), room }
    }

    /// Whether there are as many connections as may be.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.room.available_permits() == 0
    }
}

impl Service<Arc<Origin>> for Connector {
    type Response = Outbound;
    type Error = ConnectFault;
    type Future = BoxFuture<'static, Result<Outbound, ConnectFault>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectFault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, origin: Arc<Origin>) -> Self::Future {
        let tls = match (origin.scheme, origin.protocol) {
            (Scheme::Http, _) => None,
            (Scheme::Https, Protocol::Http2) => Some(self.http2.clone()),
            (Scheme::Https, Protocol::Http1 | Protocol::Negotiated) => Some(self.http1.clone()),
        };
        let place = Arc::clone(&self.room).try_acquire_owned();
        Box::pin(async move {
            let Ok(place) = place else {
                return Err(ConnectFault::Impossible("there are as many connections as may be".into()));
            };
            let outbound = |way| Outbound { way, _place: place };
            let Some(address) = origin.address else {
                return Err(ConnectFault::Impossible("the name has no address".into()));
            };
            let stream = net::connect(address, None).await.map_err(|error| of_io(&error))?;
            let Some(tls) = tls else { return Ok(outbound(Way::Plain(stream))) };
            let name = server_name(&origin.authority).map_err(ConnectFault::Untrusted)?;
            let stream = tls
                .connect(name, stream)
                .await
                .map_err(|error| ConnectFault::Untrusted(error.to_string()))?;
            // An instance that doesn't agree speaks HTTP/1.1.
            if origin.protocol == Protocol::Http2 && stream.get_ref().1.alpn_protocol() != Some(b"h2") {
                return Err(ConnectFault::Untrusted("the instance doesn't speak HTTP/2".into()));
            }
            Ok(outbound(Way::Tls(Box::new(stream))))
        })
    }
}

fn of_io(error: &io::Error) -> ConnectFault {
    match error.kind() {
        io::ErrorKind::TimedOut => ConnectFault::TimedOut,
        _ if net::is_unreachable(error) => ConnectFault::Refused(error.to_string()),
        _ => ConnectFault::Impossible(error.to_string()),
    }
}

/// The name that a certificate must be for: of `name:port`.
fn server_name(authority: &str) -> Result<ServerName<'static>, String> {
    let name = authority.rsplit_once(':').map_or(authority, |(name, _)| name);
    let name = name.trim_matches(['[', ']']).to_owned();
    ServerName::try_from(name).map_err(|error| error.to_string())
}

/// A connection to an instance.
#[derive(Debug)]
pub struct Outbound {
    way: Way,
    /// Among all that there may be.
    _place: OwnedSemaphorePermit,
}

#[derive(Debug)]
enum Way {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream for Outbound {
    fn has_news(&self) -> bool {
        match &self.way {
            Way::Plain(stream) => stream.has_news(),
            Way::Tls(stream) => stream.get_ref().0.has_news(),
        }
    }
}

impl AsyncRead for Outbound {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.get_mut().way {
            Way::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Way::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Outbound {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().way {
            Way::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Way::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().way {
            Way::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            Way::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.way {
            Way::Plain(stream) => stream.is_write_vectored(),
            Way::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().way {
            Way::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Way::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().way {
            Way::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Way::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
