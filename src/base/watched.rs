//! A client's connection that notes what its client does, so that one that does nothing, or too little, can be closed.
//!
//! A connection of HTTP/1.1 that has begun a head must end it in time; one of either version without a request is closed after
//! its idle time; one that takes no byte of an answer for too long is cut off, and so is one that takes few: it has its patience
//! but once, so that no answer is held for long by who reads it slowly. The same holds for each stream of HTTP/2, whose client
//! may give it no room while it takes others. Between these, while a request is under way, its own times count. One timer a
//! connection looks at it when its time could have ended, so that a request costs none.

use std::{
    io,
    sync::{
        Arc, Weak,
        atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    task::Poll,
    time::Duration,
};

use nacre_middleware::tapped::{Tap, Tapped};
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long a client may take for what.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Without a request.
    pub idle: Duration,
    /// For a head of HTTP/1.1, from its first byte.
    pub head: Duration,
    /// Without taking a byte of its answer; also by how much it may be behind `least_rate`.
    pub write: Duration,
    /// Bytes a second of an answer that it must take while it has more to take; not 0.
    pub least_rate: u64,
}

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Nothing was asked: it may end in order.
    Idle,
    /// The client is too slow.
    Slow,
}

/// A watched connection.
pub type Watched<S> = Tapped<S, Notes>;

/// Watches `stream`.
#[must_use]
pub fn watch<S>(stream: S) -> (Watched<S>, Arc<Conduct>) {
    let conduct = Conduct::new();
    (Tapped { stream, tap: Notes(Arc::clone(&conduct)) }, conduct)
}

/// What a client is doing since when. Times are milliseconds from `start`; plus one where 0 stands for none.
#[derive(Debug)]
pub struct Conduct {
    start: Instant,
    /// Requests under way.
    requests: AtomicU32,
    /// The end of the last request, or the beginning of the connection.
    idle_since: AtomicU64,
    /// The first byte since then, plus one.
    head_since: AtomicU64,
    /// When a write began to wait, plus one.
    blocked_since: AtomicU64,
    /// What was written of what there is to write.
    written: Arrears,
    /// See [`PREFACE`].
    first_bytes: AtomicU8,
    /// What bodies of answers have given that the client hasn't taken yet.
    untaken: Mutex<Vec<Weak<Untaken>>>,
}

/// What a client has taken since it wasn't up to date any more.
#[derive(Debug, Default)]
struct Arrears {
    /// Plus one.
    since: AtomicU64,
    bytes: AtomicU64,
}

impl Arrears {
    fn begin(&self, now: u64) {
        if self.since.load(Relaxed) == 0 {
            self.bytes.store(0, Relaxed);
            self.since.store(now, Relaxed);
        }
    }

    fn take(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    fn end(&self) {
        self.since.store(0, Relaxed);
    }

    /// For how long after its patience it has paid.
    fn paid(&self, least_rate: u64) -> Duration {
        Duration::from_millis(self.bytes.load(Relaxed).saturating_mul(1_000) / least_rate.max(1))
    }
}

/// A piece of a body that waits for its client, and what went before.
#[derive(Debug, Default)]
struct Untaken {
    /// When the piece was given, plus one.
    since: AtomicU64,
    given: Arrears,
}

/// Bodies that are looked through for those that have ended when one more comes; there are as many live ones as streams.
const MOST_UNTAKEN: usize = 16;
/// How a connection of HTTP/2 begins; no method of HTTP/1.1 does.
const PREFACE: &[u8] = b"PRI";
const IS_HTTP1: u8 = u8::MAX;

impl Conduct {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            requests: AtomicU32::new(0),
            idle_since: AtomicU64::new(0),
            head_since: AtomicU64::new(0),
            blocked_since: AtomicU64::new(0),
            written: Arrears::default(),
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

    fn at(&self, ms: u64, patience: Duration) -> Instant {
        self.start + Duration::from_millis(ms) + patience
    }

    /// When a client that lets something wait since then is given up: at once, or for what it takes little by little.
    fn slow_at(&self, since: u64, arrears: &Arrears, patience: Patience) -> Instant {
        let paid = arrears.paid(patience.least_rate);
        let behind = arrears.since.load(Relaxed);
        self.at(since - 1, patience.write).min(self.at(behind.saturating_sub(1), patience.write + paid))
    }

    fn untaken_at(&self, patience: Patience) -> Option<Instant> {
        let mut untaken = self.untaken.lock();
        untaken.retain(|body| body.strong_count() > 0);
        let bodies = untaken.iter().filter_map(Weak::upgrade);
        let late = bodies.filter_map(|body| {
            let since = body.since.load(Relaxed);
            (since > 0).then(|| self.slow_at(since, &body.given, patience))
        });
        late.min()
    }

    /// When the client's time is over, as far as it can be told now; nothing while it is our turn.
    fn deadline(&self, patience: Patience) -> Option<(Instant, Lost)> {
        let blocked = self.blocked_since.load(Relaxed);
        if blocked > 0 {
            return Some((self.slow_at(blocked, &self.written, patience), Lost::Slow));
        }
        if self.has_requests() {
            // A stream of HTTP/2 whose client gives no room blocks nothing else.
            return self.untaken_at(patience).map(|at| (at, Lost::Slow));
        }
        let head = self.head_since.load(Relaxed);
        if head > 0 && !self.is_http2() {
            return Some((self.at(head - 1, patience.head), Lost::Slow));
        }
        Some((self.at(self.idle_since.load(Relaxed), patience.idle), Lost::Idle))
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

/// Notes what passes over a connection.
#[derive(Clone, Debug)]
pub struct Notes(Arc<Conduct>);

impl<S> Tap<S> for Notes {
    fn has_read(&self, bytes: &[u8]) {
        if usize::from(self.0.first_bytes.load(Relaxed)) < PREFACE.len() {
            self.0.note_first(bytes);
        }
        if !self.0.has_requests() && self.0.head_since.load(Relaxed) == 0 {
            self.0.head_since.store(self.0.now_ms() + 1, Relaxed);
        }
    }

    fn has_written(&self, outcome: &Poll<io::Result<usize>>) {
        let blocked = &self.0.blocked_since;
        match outcome {
            Poll::Pending if blocked.load(Relaxed) == 0 => {
                let now = self.0.now_ms() + 1;
                self.0.written.begin(now);
                blocked.store(now, Relaxed);
            }
            Poll::Pending => {}
            Poll::Ready(bytes) => {
                blocked.store(0, Relaxed);
                self.0.written.take(bytes.as_ref().map_or(0, |bytes| *bytes));
            }
        }
    }

    fn has_flushed(&self) {
        self.0.written.end();
    }
}

/// A body of an answer on this connection.
#[derive(Debug)]
pub struct Giving {
    conduct: Arc<Conduct>,
    untaken: Arc<Untaken>,
}

impl Giving {
    /// The client has room for more.
    pub fn asked(&self) {
        self.untaken.since.store(0, Relaxed);
    }

    /// There is nothing more for now: the client is up to date.
    pub fn waits(&self) {
        self.untaken.given.end();
    }

    /// A piece was given, and waits until the client has room for it.
    pub fn given(&self, bytes: usize) {
        let now = self.conduct.now_ms() + 1;
        self.untaken.given.begin(now);
        self.untaken.given.take(bytes);
        self.untaken.since.store(now, Relaxed);
    }
}

/// A request of a connection.
#[derive(Debug)]
pub struct UnderWay(Arc<Conduct>);

impl UnderWay {
    /// The body of its answer.
    #[must_use]
    pub fn body(&self) -> Giving {
        let body = Arc::<Untaken>::default();
        let mut untaken = self.0.untaken.lock();
        if untaken.len() >= MOST_UNTAKEN {
            untaken.retain(|body| body.strong_count() > 0);
        }
        untaken.push(Arc::downgrade(&body));
        drop(untaken);
        Giving { conduct: Arc::clone(&self.0), untaken: body }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let conduct = &self.0;
        conduct.idle_since.store(conduct.now_ms(), Relaxed);
        conduct.requests.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
#[path = "watched_tests.rs"]
mod tests;
