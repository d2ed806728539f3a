//! Accepts clients' connections, of HTTP/1.1 and HTTP/2, with TLS or without, and serves them until told to stop.
//!
//! Place in the flow: socket -> (TLS) -> hyper -> [`super::exchange`]. At the bound of open connections, tunnels among them,
//! one more of each door waits here and further ones in the kernel's queue. Stopping: no new connection, requests under way are finished within the grace period.

use std::{convert::Infallible, pin::pin, sync::Arc, time::Duration};

use hyper::{Request, body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Proxy, exchange::Caller, finish::Finish, tls::Certificates};
use crate::base::watched::{self, Lost, Patience};

/// Pause after an accept that failed for want of file descriptors.
const OUT_OF_FILES: Duration = Duration::from_millis(50);
/// Streams of one connection at a time.
const MOST_STREAMS: u32 = 128;
/// Streams that a client has reset and that aren't cleared away yet; at it the connection ends.
const MOST_RESETS: usize = 32;
/// Bytes that one stream may send before they are taken.
const STREAM_WINDOW: u32 = 64 << 10;
/// The same for all streams of a connection.
const CONNECTION_WINDOW: u32 = 256 << 10;
/// Bytes of one stream's answer that are held until the client takes them.
const SEND_BUFFER: usize = 64 << 10;
/// How long a connection of HTTP/2 with streams may be silent until it is asked whether anybody is there, and then again.
const PING_AFTER: Duration = Duration::from_secs(20);
const PING_LIMIT: Duration = Duration::from_secs(20);

/// A listener and what its connections speak.
pub struct Door {
    /// Bound.
    pub listener: TcpListener,
    /// With TLS.
    pub certificates: Option<Arc<Certificates>>,
}

/// What all doors share.
pub struct Server {
    /// Answers requests.
    pub proxy: Arc<Proxy>,
    /// Times of clients.
    pub patience: Patience,
    /// Connections at most.
    pub room: Arc<Semaphore>,
}

impl Server {
    /// Serves all doors until `stopped`, then lets what is under way end within `grace`.
    pub async fn run(self, doors: Vec<Door>, stopped: CancellationToken, grace: Duration) {
        let server = Arc::new(self);
        let connections = TaskTracker::new();
        let accepting = TaskTracker::new();
        for door in doors {
            accepting.spawn(Arc::clone(&server).accept(door, connections.clone(), stopped.clone()));
        }
        accepting.close();
        accepting.wait().await;
        connections.close();
        let tunnels = &server.proxy.tunnels;
        tunnels.close();
        let ended = async {
            connections.wait().await;
            tunnels.wait().await;
        };
        if tokio::time::timeout(grace, ended).await.is_err() {
            let (open, tunnels) = (connections.len(), tunnels.len());
            tracing::warn!(open, tunnels, "connections of the proxy cut off at the end of the grace period");
        }
        server.proxy.cut.cancel();
    }

    async fn accept(self: Arc<Self>, door: Door, connections: TaskTracker, stopped: CancellationToken) {
        let Door { listener, certificates } = door;
        loop {
            let accepted = tokio::select! {
                () = stopped.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            let (stream, address) = match accepted {
                // IPv4 clients of a socket of both families show as mapped addresses.
                Ok((stream, peer)) => (stream, peer.ip().to_canonical()),
                Err(error) => {
                    tracing::warn!(%error, "a connection to the proxy could not be accepted");
                    tokio::time::sleep(OUT_OF_FILES).await;
                    continue;
                }
            };
            // Accepted before there is room: else the door that waits for a client would have the room that another needs.
            let room = Arc::clone(&self.room).acquire_owned();
            let place = tokio::select! {
                () = stopped.cancelled() => return,
                place = room => Arc::new(place.expect("the semaphore is never closed")),
            };
            // Where it fails, answers only leave later.
            let _ = stream.set_nodelay(true);
            let (server, stopped) = (Arc::clone(&self), stopped.clone());
            let Some(certificates) = &certificates else {
                let caller = Caller { address, scheme: "http", place };
                connections.spawn(async move { server.serve(stream, caller, stopped).await });
                continue;
            };
            // As of now: certificates may be others for the next one.
            let acceptor = certificates.acceptor();
            let caller = Caller { address, scheme: "https", place };
            connections.spawn(async move { server.serve_tls(stream, caller, acceptor, stopped).await });
        }
    }

    async fn serve_tls(
        &self,
        stream: TcpStream,
        caller: Caller,
        acceptor: TlsAcceptor,
        stopped: CancellationToken,
    ) {
        let address = caller.address;
        let shaking = tokio::time::timeout(self.patience.head, acceptor.accept(stream));
        // In a box that goes with it.
        let shaken = tokio::select! {
            () = stopped.cancelled() => return,
            shaken = Box::pin(shaking) => shaken,
        };
        match shaken {
            Ok(Ok(stream)) => Box::pin(self.serve(stream, caller, stopped)).await,
            Ok(Err(error)) => tracing::debug!(client = %address, %error, "no TLS connection"),
            Err(_) => tracing::debug!(client = %address, "no TLS connection in time"),
        }
    }

    /// Serves a client's connection until it ends; one that is idle ends when told to stop.
    pub async fn serve<S>(&self, stream: S, caller: Caller, stopped: CancellationToken)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let _open = self.proxy.counts.connection();
        let address = caller.address;
        let (stream, conduct) = watched::watch(stream);
        let proxy = &self.proxy;
        let entry = service_fn(|request: Request<Incoming>| {
            let finish = Box::new(Finish::new(proxy, conduct.request()));
            let (proxy, caller) = (Arc::clone(proxy), caller.clone());
            // In a box that goes with the request: hyper keeps room for it as long as the connection lasts.
            Box::pin(async move { Ok::<_, Infallible>(proxy.answer(request, caller, finish).await) })
        });
        let max_head = self.proxy.settings.max_head_bytes;
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(None)
            .max_buf_size(max_head)
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(MOST_STREAMS)
            .max_pending_accept_reset_streams(MOST_RESETS)
            .max_local_error_reset_streams(MOST_RESETS)
            .max_header_list_size(u32::try_from(max_head).unwrap_or(u32::MAX))
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(SEND_BUFFER)
            .keep_alive_interval(PING_AFTER)
            .keep_alive_timeout(PING_LIMIT);
        // Made where it stays: one that is moved leaves its place empty, in the task of each connection.
        let mut connection = pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), entry));
        let mut lost_patience = pin!(conduct.lost_patience(self.patience));
        let mut is_ending = false;
        loop {
            tokio::select! {
                // Biased: a request is looked at before the clock.
                biased;
                outcome = connection.as_mut() => {
                    if let Err(error) = outcome {
                        tracing::debug!(client = %address, %error, "a connection of the proxy ended");
                    }
                    return;
                }
                () = stopped.cancelled(), if !is_ending => {
                    is_ending = true;
                    connection.as_mut().graceful_shutdown();
                }
                why = lost_patience.as_mut() => {
                    if why == Lost::Slow || is_ending {
                        tracing::debug!(client = %address, "a connection of the proxy closed: the client is too slow");
                        return;
                    }
                    is_ending = true;
                    connection.as_mut().graceful_shutdown();
                    // Who doesn't answer the farewell is left; a request that met it on its way is finished.
                    let Patience { idle, write, .. } = self.patience;
                    lost_patience.set(conduct.lost_patience(Patience { idle: idle + write, ..self.patience }));
                }
            }
        }
    }
}
