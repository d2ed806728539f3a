//! One connection of HTTP/1.1, driven by whoever uses it.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use bytes::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, Sleep};

use super::{ConnectFault, Stream, Upload};
use crate::tapped::{Tap, Tapped};

/// Bytes that hyper reads of a body at once at most, beside a head.
const READ_AHEAD: usize = 64 << 10;

/// A connection without a task.
pub(crate) struct Http1<S: Stream, B: Upload> {
    /// Takes a request.
    pub sender: http1::SendRequest<B>,
    connection: http1::Connection<TokioIo<Tapped<S, Arc<Signs>>>, B>,
    signs: Arc<Signs>,
    idle_since: Instant,
    /// For whoever uses it.
    pub alarm: Alarm,
}

impl<S: Stream, B: Upload> Http1<S, B> {
    pub(super) async fn new(stream: S, max_head_bytes: usize) -> Result<Box<Self>, ConnectFault> {
        let signs = Arc::<Signs>::default();
        let stream = Tapped { stream, tap: Arc::clone(&signs) };
        let handshake = http1::Builder::new()
            .max_buf_size(max_head_bytes + READ_AHEAD)
            .max_header_size(max_head_bytes)
            .handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(|error| ConnectFault::broken(&error))?;
        Ok(Box::new(Self { sender, connection, signs, idle_since: Instant::now(), alarm: Alarm::default() }))
    }

    /// Drives it; ready when it has ended, or changed to another protocol.
    pub fn poll_drive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        // Without a shutdown: one that has changed its protocol is driven once more before its stream is taken.
        self.connection.poll_without_shutdown(cx)
    }

    /// Something has come since the last request.
    pub fn has_begun(&self) -> bool {
        self.signs.has_begun.load(Relaxed)
    }

    /// Forgets what has come.
    pub fn begins(&self) {
        self.signs.has_begun.store(false, Relaxed);
    }

    /// How long nobody has used it.
    pub fn idle_for(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.idle_since)
    }

    /// Looks for news from the server: whether it has closed the connection, or said what nobody asked for.
    pub fn is_alive(&mut self) -> bool {
        // Nobody is woken by what happens to it while it is kept.
        let mut cx = Context::from_waker(Waker::noop());
        self.poll_drive(&mut cx).is_pending() && self.sender.is_ready()
    }

    /// The same before it is used: asks the system, since on a busy machine the runtime may hear of an end some time later, and
    /// what is sent until then is lost.
    pub fn is_alive_now(&mut self) -> bool {
        self.signs.asks_system.store(true, Relaxed);
        let is_alive = self.is_alive();
        self.signs.asks_system.store(false, Relaxed);
        is_alive
    }

    /// After an exchange: whether it can serve another.
    pub fn becomes_idle(&mut self) -> bool {
        self.idle_since = Instant::now();
        self.is_alive()
    }

    /// The stream, and what was read of it behind the head, after it has changed to another protocol.
    pub fn into_stream(self) -> (S, Bytes) {
        let parts = self.connection.into_parts();
        (parts.io.into_inner().stream, parts.read_buf)
    }
}

/// A timer that is seldom set: while its time moves on it stands where it is, and looks again when it rings.
#[derive(Default)]
pub(crate) struct Alarm {
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Alarm {
    /// Ready when `deadline` has passed.
    pub fn poll(&mut self, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        loop {
            if sleep.deadline() > deadline {
                sleep.as_mut().reset(deadline);
            }
            ready!(sleep.as_mut().poll(cx));
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(deadline);
        }
    }
}

/// What a connection and its stream tell each other.
#[derive(Default)]
struct Signs {
    /// Something has come.
    has_begun: AtomicBool,
    /// Whether the stream is to be looked at anew where the runtime knows of nothing.
    asks_system: AtomicBool,
}

impl<S: Stream> Tap<S> for Arc<Signs> {
    fn has_read(&self, _: &[u8]) {
        self.has_begun.store(true, Relaxed);
    }

    fn takes_for_end(&self, stream: &S) -> bool {
        // Whatever there is, nobody asked for it: the connection ends.
        self.asks_system.load(Relaxed) && stream.has_news()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_end_is_seen_before_the_runtime_hears_of_it() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().unwrap();
        assert!(!client.has_news());
        drop(server);
        // Nothing is awaited, so no event has been looked at.
        assert!(client.has_news());
    }
}
