//! Connections of HTTP/2 to one server, each shared by as many exchanges as the server takes on one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{ConnectFault, Stream, Upload};

/// Connections to one server at most; at it, an exchange that none has room for is refused.
pub(super) const MOST_CONNECTIONS: usize = 16;
/// Exchanges on one connection, whatever the server would take: as many as [`CONNECTION_WINDOW`] has room for.
const MOST_STREAMS: usize = 1_000;
/// Bytes that a server may send of one stream ahead of who reads it.
const STREAM_WINDOW: u32 = 64 << 10;
/// The same for all streams of a connection: those that nobody reads must not hold up the others.
const CONNECTION_WINDOW: u32 = 64 << 20;
/// Bytes of one stream that wait to be sent.
const SEND_BUFFER: usize = 64 << 10;
/// A connection with streams that says nothing for so long is asked whether anybody is there.
const PING_AFTER: Duration = Duration::from_secs(10);
/// And has so long to answer.
const PING_LIMIT: Duration = Duration::from_secs(5);

type Driver<S, B> = http2::Connection<TokioIo<S>, B, TokioExecutor>;

/// A connection.
pub(super) struct Http2<S: Stream, B: Upload> {
    sender: http2::SendRequest<B>,
    use_now: Arc<UseNow>,
    /// Until it has ended.
    driver: Arc<Mutex<Option<Driver<S, B>>>>,
}

/// How a connection is used.
struct UseNow {
    start: Instant,
    streams: AtomicUsize,
    /// Streams that the server takes, as last read.
    most_streams: AtomicUsize,
    /// Milliseconds from `start` to the end of the last exchange.
    idle_since: AtomicU64,
    /// The same to the last head of an answer.
    heard: AtomicU64,
    /// Nothing new goes over it.
    is_retired: AtomicBool,
}

impl UseNow {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl<S: Stream, B: Upload> Http2<S, B> {
    /// Speaks HTTP/2 over `stream`.
    pub async fn new(stream: S, max_head_bytes: usize) -> Result<Self, ConnectFault> {
        let handshake = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(SEND_BUFFER)
            .max_header_list_size(u32::try_from(max_head_bytes).unwrap_or(u32::MAX))
            .keep_alive_interval(PING_AFTER)
            .keep_alive_timeout(PING_LIMIT)
            .handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(|error| ConnectFault::broken(&error))?;
        let use_now = Arc::new(UseNow {
            start: Instant::now(),
            streams: AtomicUsize::new(0),
            most_streams: AtomicUsize::new(connection.current_max_send_streams()),
            idle_since: AtomicU64::new(0),
            heard: AtomicU64::new(0),
            is_retired: AtomicBool::new(false),
        });
        let driver = Arc::new(Mutex::new(Some(connection)));
        // Ends when the last sender is dropped, or the server ends it.
        let driven = Arc::clone(&driver);
        tokio::spawn(async move {
            if let Err(error) = std::future::poll_fn(|cx| poll_driver(&driven, cx)).await {
                tracing::debug!(%error, "a connection of HTTP/2 ended");
            }
        });
        Ok(Self { sender, use_now, driver })
    }

    /// Room for one more exchange, if there is some.
    pub fn place(&self) -> Option<Place<B>> {
        let use_now = &self.use_now;
        if use_now.is_retired.load(Relaxed) || !self.sender.is_ready() {
            return None;
        }
        // Where it is just being driven, what was read last will do.
        if let Some(Some(driver)) = self.driver.try_lock().as_deref() {
            use_now.most_streams.store(driver.current_max_send_streams(), Relaxed);
        }
        let most = use_now.most_streams.load(Relaxed).min(MOST_STREAMS);
        let takes_one_more = |streams: usize| (streams < most).then_some(streams + 1);
        use_now.streams.fetch_update(Relaxed, Relaxed, takes_one_more).ok()?;
        Some(Place { sender: self.sender.clone(), use_now: Arc::clone(use_now) })
    }

    /// Whether it is of use: open, and used within `keep`.
    pub fn is_kept(&self, keep: Duration) -> bool {
        let use_now = &self.use_now;
        let idle = use_now.now_ms().saturating_sub(use_now.idle_since.load(Relaxed));
        let is_used = self.has_exchanges() || Duration::from_millis(idle) < keep;
        is_used && !use_now.is_retired.load(Relaxed) && !self.sender.is_closed()
    }

    /// Whether an exchange is under way.
    pub fn has_exchanges(&self) -> bool {
        self.use_now.streams.load(Relaxed) > 0
    }
}

fn poll_driver<S: Stream, B: Upload>(
    driver: &Mutex<Option<Driver<S, B>>>,
    cx: &mut Context<'_>,
) -> Poll<Result<(), hyper::Error>> {
    let mut driver = driver.lock();
    let Some(connection) = driver.as_mut() else { return Poll::Ready(Ok(())) };
    let ended = std::task::ready!(std::pin::Pin::new(connection).poll(cx));
    // Whoever holds a sender learns that it has ended.
    *driver = None;
    Poll::Ready(ended)
}

/// An exchange's place on a connection, until it is dropped.
pub(crate) struct Place<B> {
    /// Takes its request.
    pub sender: http2::SendRequest<B>,
    use_now: Arc<UseNow>,
}

impl<B> Place<B> {
    /// An answer's head has come.
    pub fn heard(&self) {
        self.use_now.heard.store(self.use_now.now_ms(), Relaxed);
    }

    /// No answer came to a request that was sent at `sent`. If none came to any other since then nobody may be there: nothing new
    /// goes over the connection.
    pub fn was_silent_since(&self, sent: Instant) {
        let sent = sent.saturating_duration_since(self.use_now.start);
        if Duration::from_millis(self.use_now.heard.load(Relaxed)) <= sent {
            self.use_now.is_retired.store(true, Relaxed);
        }
    }
}

impl<B> Drop for Place<B> {
    fn drop(&mut self) {
        self.use_now.idle_since.store(self.use_now.now_ms(), Relaxed);
        self.use_now.streams.fetch_sub(1, Relaxed);
    }
}
