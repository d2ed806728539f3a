//! Accepts connections and serves them until told to stop.
//!
//! Place in the flow: socket -> hyper -> route -> stack. At the bound of open connections further ones wait in the
//! kernel's queue. Stopping: no new connection, requests under way are finished within the grace period.

use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use nacre_middleware::{V1Body, V1Response, collect::Routed, pass::Broken};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt as _;
use tower_service::Service;

use crate::{
    api::routes::{Row, Table},
    base::watched::{self, Patience, UnderWay},
    config::HttpSettings,
    observe::connections::Connections,
};

/// Room for a body's first bytes behind the largest head.
const BEHIND_HEAD: usize = 128 << 10;
/// Bytes a second of an answer that a client must take beyond its patience. A list of 15 MB may take four minutes.
const LEAST_RATE: u64 = 64 << 10;
/// Pause after an accept that failed for want of file descriptors.
const OUT_OF_FILES: Duration = Duration::from_millis(50);

/// What serves a connection.
pub struct Server<S> {
    /// The stack of layers.
    pub service: S,
    /// Finds the route.
    pub table: Arc<Table>,
    /// Limits.
    pub settings: HttpSettings,
    /// Counts connections.
    pub connections: &'static Connections,
}

impl<S> Server<S>
where
    S: Service<Routed<Row, Incoming>, Response = V1Response, Error = Infallible, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static,
{
    /// Serves `listener` until `stopped`, then lets what is under way end within `grace`.
    pub async fn run(self, listener: TcpListener, stopped: CancellationToken, grace: Duration) {
        let server = Arc::new(self);
        let room = Arc::new(Semaphore::new(server.settings.max_connections));
        let connections = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                () = stopped.cancelled() => break,
                accepted = accept(&listener, &room) => accepted,
            };
            let (stream, peer, permit) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(OUT_OF_FILES).await;
                    continue;
                }
            };
            let (server, stopped) = (Arc::clone(&server), stopped.clone());
            let serving = async move {
                server.serve(stream, peer, stopped).await;
                drop(permit);
            };
            connections.spawn(serving);
        }
        drop(listener);
        connections.close();
        if tokio::time::timeout(grace, connections.wait()).await.is_err() {
            tracing::warn!(open = connections.len(), "connections cut off at the end of the grace period");
        }
    }

    async fn serve(&self, stream: TcpStream, peer: SocketAddr, stopped: CancellationToken) {
        let _open = self.connections.open();
        // Where it fails, answers only leave later.
        let _ = stream.set_nodelay(true);
        let (stream, conduct) = watched::watch(stream);
        let entry = service_fn(|request: Request<Incoming>| {
            let under_way = conduct.request();
            let facts = self.table.find(&request);
            // Waits until the stack is ready, as its contract asks; allocates nothing.
            let answer = self.service.clone().oneshot(Routed { request, peer, facts });
            async move { answer.await.map(|answer| answer.map(|body| Answering::new(body, under_way))) }
        });
        let HttpSettings { idle_timeout, head_timeout, write_timeout, max_head_bytes, .. } = self.settings;
        let patience =
            Patience { idle: idle_timeout, head: head_timeout, write: write_timeout, least_rate: LEAST_RATE };
        // Without `pipeline_flush`: it withholds answers while bytes of a further request are there, for good where
        // the answer ends the connection.
        let connection = http1::Builder::new()
            .header_read_timeout(None)
            .max_header_size(max_head_bytes)
            .max_buf_size(max_head_bytes + BEHIND_HEAD)
            .serve_connection(TokioIo::new(stream), entry);
        let mut connection = pin!(connection);
        let mut lost_patience = pin!(conduct.lost_patience(patience));
        let mut stopping = false;
        loop {
            tokio::select! {
                // Biased: a request is looked at before the clock.
                biased;
                outcome = connection.as_mut() => {
                    if let Err(error) = outcome {
                        tracing::debug!(%peer, %error, "connection ended");
                    }
                    return;
                }
                () = stopped.cancelled(), if !stopping => {
                    stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
                _ = lost_patience.as_mut() => {
                    tracing::debug!(%peer, "connection closed: the client is too slow");
                    return;
                }
            }
        }
    }
}

/// A body whose request is under way until it has ended: only then may the connection be taken for idle.
struct Answering {
    body: V1Body,
    /// Of a body that streams: all others are there as a whole.
    under_way: Option<UnderWay>,
}

impl Answering {
    fn new(body: V1Body, under_way: UnderWay) -> Self {
        let under_way = body.is_streamed().then_some(under_way);
        Self { body, under_way }
    }
}

impl Body for Answering {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if self.under_way.is_some()
            && (matches!(frame, Poll::Ready(None | Some(Err(_)))) || self.body.is_end_stream())
        {
            self.under_way = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Waits for room, then for a connection.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> std::io::Result<(TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    let permit = Arc::clone(room).acquire_owned().await.expect("the semaphore is never closed");
    let (stream, peer) = listener.accept().await?;
    // IPv4 clients of a socket of both families show as mapped addresses.
    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    Ok((stream, peer, permit))
}

#[cfg(test)]
mod tests {
    use futures_util::future::{Ready, ready};
    use http::Response;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::{base::net, observe::Meters};

    /// Is ready at the second look only, and must not be called before.
    #[derive(Clone, Default)]
    struct Slow {
        looks: u32,
    }

    impl Service<Routed<Row, Incoming>> for Slow {
        type Response = V1Response;
        type Error = Infallible;
        type Future = Ready<Result<V1Response, Infallible>>;

        fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            self.looks += 1;
            cx.waker().wake_by_ref();
            if self.looks < 2 { Poll::Pending } else { Poll::Ready(Ok(())) }
        }

        fn call(&mut self, _: Routed<Row, Incoming>) -> Self::Future {
            assert_eq!(self.looks, 2, "called before it was ready");
            ready(Ok(Response::new(V1Body::sized("in turn"))))
        }
    }

    #[tokio::test]
    async fn a_stack_is_called_when_it_is_ready() {
        let listener = net::listen(Some([127, 0, 0, 1].into()), 0).unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server {
            service: Slow::default(),
            table: Arc::new(Table::new("/nacos")),
            settings: HttpSettings::default(),
            connections: &Meters::new([].into_iter()).connections,
        };
        let stopped = CancellationToken::new();
        let serving = tokio::spawn(server.run(listener, stopped.clone(), Duration::from_secs(60)));
        let mut client = TcpStream::connect(address).await.unwrap();
        for close in ["", "Connection: close\r\n"] {
            client
                .write_all(format!("GET /livez HTTP/1.1\r\nHost: a\r\n{close}\r\n").as_bytes())
                .await
                .unwrap();
        }
        let mut answers = String::new();
        client.read_to_string(&mut answers).await.unwrap();
        assert_eq!(answers.matches("in turn").count(), 2, "{answers}");
        stopped.cancel();
        serving.await.unwrap();
    }
}
