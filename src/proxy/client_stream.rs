//! The stream of a client's connection, which notes what it does, so that one that does nothing can be closed.
//!
//! A connection of HTTP/1.1 that has begun a head must end it in time; one of either version without a request is closed after
//! its idle time; one that takes no byte of an answer for too long is cut off. Between these, while a request is under way, its
//! own times count.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Instant,
};

/// How long a client may take for what.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Without a request.
    pub idle: Duration,
    /// For a head of HTTP/1.1, from its first byte.
    pub head: Duration,
    /// Without taking a byte of an answer.
    pub write: Duration,
}

/// What a connection is doing since when.
#[derive(Debug)]
pub struct Conduct {
    start: Instant,
    /// Requests under way.
    requests: AtomicU32,
    /// Milliseconds from `start` to the end of the last request, or to the connection.
    idle_since: AtomicU64,
    /// The same plus one for the first byte since then, or 0.
    head_since: AtomicU64,
    /// The same for the moment when a write began to wait.
    blocked_since: AtomicU64,
    /// See [`PREFACE`].
    first_bytes: AtomicU8,
    /// When each body gave a piece that hasn't been taken yet, as the times above.
    untaken: Mutex<Vec<Weak<AtomicU64>>>,
}

/// Bodies that are looked through for those that have ended when one more comes; there are as many live ones as streams.
const MOST_UNTAKEN: usize = 16;
/// How a connection of HTTP/2 begins; no method of HTTP/1.1 does.
const PREFACE: &[u8] = b"PRI";
const IS_HTTP1: u8 = u8::MAX;

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Nothing was asked: it may end in order.
    Idle,
    /// The client is too slow.
    Slow,
}

impl Conduct {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            requests: AtomicU32::new(0),
            idle_since: AtomicU64::new(0),
            head_since: AtomicU64::new(0),
            blocked_since: AtomicU64::new(0),
            first_bytes: AtomicU8::new(0),
            untaken: Mutex::default(),
        })
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// A request is under way until what this gives is dropped.
    pub fn request(self: &Arc<Self>) -> UnderWay {
        self.requests.fetch_add(1, Relaxed);
        self.head_since.store(0, Relaxed);
        UnderWay(Arc::clone(self))
    }

    /// Whether a request is under way.
    #[must_use]
    pub fn has_requests(&self) -> bool {
        self.requests.load(Relaxed) > 0
    }

    fn oldest_untaken(&self) -> Option<u64> {
        let mut untaken = self.untaken.lock();
        untaken.retain(|since| since.strong_count() > 0);
        let times = untaken.iter().filter_map(Weak::upgrade).map(|since| since.load(Relaxed));
        times.filter(|since| *since > 0).min()
    }

    fn is_http2(&self) -> bool {
        usize::from(self.first_bytes.load(Relaxed)) == PREFACE.len()
    }

    /// Looks at the first bytes, which may come one by one.
    fn note_first(&self, bytes: &[u8]) {
        let mut seen = self.first_bytes.load(Relaxed);
        for byte in bytes {
            match PREFACE.get(usize::from(seen)) {
                Some(expected) if expected == byte => seen += 1,
                Some(_) => seen = IS_HTTP1,
                None => break,
            }
        }
        self.first_bytes.store(seen, Relaxed);
    }

    fn deadline(&self, patience: Patience) -> Option<(Instant, Lost)> {
        let at = |ms: u64, patience: Duration| self.start + Duration::from_millis(ms) + patience;
        let blocked = self.blocked_since.load(Relaxed);
        if blocked > 0 {
            return Some((at(blocked - 1, patience.write), Lost::Slow));
        }
        if self.has_requests() {
            // A stream of HTTP/2 whose client gives no room blocks nothing else.
            return self.oldest_untaken().map(|since| (at(since - 1, patience.write), Lost::Slow));
        }
        let head = self.head_since.load(Relaxed);
        if head > 0 && !self.is_http2() {
            return Some((at(head - 1, patience.head), Lost::Slow));
        }
        Some((at(self.idle_since.load(Relaxed), patience.idle), Lost::Idle))
    }

    /// Ready when the client has been idle or slow for too long.
    pub async fn lost_patience(&self, patience: Patience) -> Lost {
        // What the connection does may change at any time, and with it what there is to wait for.
        let look_again = patience.idle.min(patience.head).min(patience.write);
        loop {
            let now = Instant::now();
            match self.deadline(patience) {
                Some((deadline, lost)) if deadline <= now => return lost,
                deadline => {
                    let look = now + look_again;
                    tokio::time::sleep_until(deadline.map_or(look, |(deadline, _)| deadline.min(look))).await;
                }
            }
        }
    }
}

/// A body of an answer on this connection.
#[derive(Debug)]
pub struct Giving {
    conduct: Arc<Conduct>,
    since: Arc<AtomicU64>,
}

impl Giving {
    /// The client has room for more.
    pub fn asked(&self) {
        self.since.store(0, Relaxed);
    }

    /// A piece was given, and waits until the client has room for it.
    pub fn given(&self) {
        self.since.store(self.conduct.now_ms() + 1, Relaxed);
    }
}

/// A request of a connection.
#[derive(Debug)]
pub struct UnderWay(Arc<Conduct>);

impl UnderWay {
    /// The body of its answer.
    #[must_use]
    pub fn body(&self) -> Giving {
        let since = Arc::<AtomicU64>::default();
        let mut untaken = self.0.untaken.lock();
        if untaken.len() >= MOST_UNTAKEN {
            untaken.retain(|since| since.strong_count() > 0);
        }
        untaken.push(Arc::downgrade(&since));
        drop(untaken);
        Giving { conduct: Arc::clone(&self.0), since }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let conduct = &self.0;
        conduct.idle_since.store(conduct.now_ms(), Relaxed);
        conduct.requests.fetch_sub(1, Relaxed);
    }
}

/// A client's connection.
#[derive(Debug)]
pub struct ClientStream<S> {
    stream: S,
    conduct: Arc<Conduct>,
}

impl<S> ClientStream<S> {
    /// Watches `stream`.
    #[must_use]
    pub fn new(stream: S) -> (Self, Arc<Conduct>) {
        let conduct = Conduct::new();
        (Self { stream, conduct: Arc::clone(&conduct) }, conduct)
    }

    fn written(&self, outcome: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let blocked = &self.conduct.blocked_since;
        match &outcome {
            Poll::Pending if blocked.load(Relaxed) == 0 => blocked.store(self.conduct.now_ms() + 1, Relaxed),
            Poll::Pending => {}
            Poll::Ready(_) => blocked.store(0, Relaxed),
        }
        outcome
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ClientStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        std::task::ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let read = &buffer.filled()[before..];
        let conduct = &self.conduct;
        if !read.is_empty() {
            if usize::from(conduct.first_bytes.load(Relaxed)) < PREFACE.len() {
                conduct.note_first(read);
            }
            if conduct.requests.load(Relaxed) == 0 && conduct.head_since.load(Relaxed) == 0 {
                conduct.head_since.store(conduct.now_ms() + 1, Relaxed);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ClientStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.written(outcome)
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const PATIENCE: Patience = Patience {
        idle: Duration::from_secs(60),
        head: Duration::from_secs(20),
        write: Duration::from_secs(30),
    };

    async fn lasts(conduct: &Conduct) -> (u64, Lost) {
        let start = Instant::now();
        let lost = conduct.lost_patience(PATIENCE).await;
        (start.elapsed().as_secs(), lost)
    }

    /// A connection on which these bytes have come.
    async fn after(
        bytes: &[u8],
    ) -> (ClientStream<tokio::io::DuplexStream>, Arc<Conduct>, tokio::io::DuplexStream) {
        let (mut client, server) = tokio::io::duplex(64);
        let (mut stream, conduct) = ClientStream::new(server);
        for byte in bytes {
            client.write_all(&[*byte]).await.unwrap();
            stream.read_u8().await.unwrap();
        }
        (stream, conduct, client)
    }

    #[tokio::test(start_paused = true)]
    async fn each_kind_of_client_has_its_time() {
        let (_stream, conduct, _client) = after(b"").await;
        assert_eq!(lasts(&conduct).await, (60, Lost::Idle));
        let (_stream, conduct, _client) = after(b"POST / H").await;
        assert_eq!(lasts(&conduct).await, (20, Lost::Slow));
        // Frames between requests are no head.
        let (_stream, conduct, _client) = after(b"PRI * HTTP/2.0").await;
        assert_eq!(lasts(&conduct).await, (60, Lost::Idle));
        let (_stream, conduct, _client) = after(b"GET / HTTP/1.1\r\n\r\n").await;
        let request = conduct.request();
        let until = tokio::time::timeout(Duration::from_secs(3_600), lasts(&conduct)).await;
        assert!(until.is_err(), "a request under way has its own times");
        drop(request);
        assert_eq!(lasts(&conduct).await, (60, Lost::Idle));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_whose_client_gives_no_room_ends_its_connection() {
        let (_stream, conduct, _client) = after(b"PRI * HTTP/2.0").await;
        let (request, other) = (conduct.request(), conduct.request());
        let (stalls, goes_on) = (request.body(), other.body());
        stalls.given();
        goes_on.given();
        tokio::time::sleep(Duration::from_secs(10)).await;
        goes_on.asked();
        assert_eq!(lasts(&conduct).await, (20, Lost::Slow));
        drop(stalls);
        let until = tokio::time::timeout(Duration::from_secs(3_600), lasts(&conduct)).await;
        assert!(until.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_no_byte_is_cut_off() {
        let (mut stream, conduct, mut client) = after(b"G").await;
        let _request = conduct.request();
        let writing = tokio::spawn(async move { stream.write_all(&[0; 200]).await });
        tokio::time::sleep(Duration::from_secs(1)).await;
        client.read_exact(&mut [0; 64]).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (lasted, lost) = lasts(&conduct).await;
        assert!(lost == Lost::Slow && (29..=30).contains(&lasted), "{lasted}");
        writing.abort();
    }
}
