//! Kept connections to one server: taken for an exchange, given back after it.
//!
//! An HTTP/1.1 connection has no task of its own. Who exchanges a request over it drives it, in the task of the client's
//! connection, so that a byte of the server wakes the one who passes it on and nobody else. While it is kept nobody
//! drives it; it is looked at before it is taken, and one whose server has closed it is never given out. HTTP/2
//! connections are shared by many exchanges and have a task each.
//!
//! Nothing is sent twice here: what an exchange that fails means is for the caller ([`crate::resend`]).

mod connection;
mod origin;
mod shared;

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::Instant};

pub use self::origin::{Connect, ConnectFault, Origin, Protocol, Scheme, Stream, Upload};
use self::shared::{Http2, MOST_CONNECTIONS};
pub(crate) use self::{
    connection::{Alarm, Http1},
    shared::Place,
};

/// The bounds of one server's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Unused connections that are kept; at it, one that comes free is closed.
    pub max_idle: usize,
    /// How long an unused connection is kept. Must be below the time after which the server closes it.
    pub keep: Duration,
    /// Exchanges at once; at it, others wait.
    pub max_in_flight: usize,
    /// Exchanges that wait; at it, others are refused.
    pub max_waiting: usize,
    /// Bytes of an answer's head; a longer one is no answer.
    pub max_head_bytes: usize,
}

impl Default for Bounds {
    /// As for an app: its idle time is unknown, so 4 s.
    fn default() -> Self {
        Self {
            max_idle: 64,
            keep: Duration::from_secs(4),
            max_in_flight: 1_024,
            max_waiting: 1_024,
            max_head_bytes: 64 << 10,
        }
    }
}

/// One server; clones share its connections, which end when the last clone is dropped and what is under way is over.
pub struct Upstream<C: Connect, B: Upload> {
    shared: Arc<Shared<C, B>>,
}

impl<C: Connect, B: Upload> Clone for Upstream<C, B> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<C: Connect, B: Upload> std::fmt::Debug for Upstream<C, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Upstream").field(&self.shared.origin).finish()
    }
}

type Idle<C, B> = VecDeque<Box<Http1<<C as Connect>::Stream, B>>>;

struct Shared<C: Connect, B: Upload> {
    origin: Arc<Origin>,
    connector: C,
    bounds: Bounds,
    /// The one that was used last is at the end.
    idle: Mutex<Idle<C, B>>,
    /// The one that was made first is at the beginning.
    http2: Mutex<Vec<Http2<C::Stream, B>>>,
    /// Held while a connection of HTTP/2 is made: those who wait may all have room on it.
    connecting: tokio::sync::Mutex<()>,
    room: Semaphore,
    waiting: AtomicUsize,
    connected: AtomicU64,
}

/// How a server's connections are used now, and how many there have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readings {
    /// Exchanges under way.
    pub in_flight: usize,
    /// Exchanges that wait for one of them to end.
    pub waiting: usize,
    /// Kept connections.
    pub idle: usize,
    /// Connections that were made so far.
    pub connected: u64,
}

/// Why there is no connection for an exchange. Nothing was sent.
#[derive(Debug)]
pub(crate) enum NoConnection {
    /// As many as may are under way and wait, or none ended in time.
    Full,
    /// None could be made.
    Connect(ConnectFault),
}

impl<C: Connect, B: Upload> Upstream<C, B> {
    /// A server without connections; makes them as exchanges come.
    #[must_use]
    pub fn new(origin: Origin, connector: C, bounds: Bounds) -> Self {
        let shared = Shared {
            origin: Arc::new(origin),
            connector,
            bounds,
            idle: Mutex::default(),
            http2: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
            room: Semaphore::new(bounds.max_in_flight.min(Semaphore::MAX_PERMITS)),
            waiting: AtomicUsize::new(0),
            connected: AtomicU64::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Whose connections they are.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.shared.origin
    }

    /// How they are used.
    #[must_use]
    pub fn readings(&self) -> Readings {
        let Shared { bounds, room, waiting, idle, connected, .. } = &*self.shared;
        Readings {
            in_flight: bounds.max_in_flight.saturating_sub(room.available_permits()),
            waiting: waiting.load(Relaxed),
            idle: idle.lock().len(),
            connected: connected.load(Relaxed),
        }
    }

    /// Closes kept connections that are too old, or that the server has closed. To be called every second or so.
    pub fn sweep(&self) {
        let now = Instant::now();
        // Under the lock: each look is short, and whoever found nothing meanwhile would connect anew.
        let mut idle = self.shared.idle.lock();
        idle.retain_mut(|connection| {
            connection.idle_for(now) < self.shared.bounds.keep && connection.is_alive()
        });
        drop(idle);
        self.shared.http2.lock().retain(|connection| connection.is_kept(self.shared.bounds.keep));
    }

    /// Closes a connection that nobody uses now, the one that was used least lately; tells whether there was one.
    pub fn close_an_idle_one(&self) -> bool {
        let oldest = self.shared.idle.lock().pop_front();
        if oldest.is_some() {
            return true;
        }
        let mut http2 = self.shared.http2.lock();
        let unused = http2.iter().position(|connection| !connection.has_exchanges());
        unused.map(|at| http2.remove(at)).is_some()
    }

    /// Closes all kept connections: the server's address has changed, or nobody answers there any more.
    pub fn forget_connections(&self) {
        let idle = std::mem::take(&mut *self.shared.idle.lock());
        let http2 = std::mem::take(&mut *self.shared.http2.lock());
        drop((idle, http2));
    }

    /// A connection for one exchange: one that is kept and hasn't been idle for longer than `max_idle`, else a new one.
    ///
    /// - `wait`: how long it may wait for others to end.
    /// - `connect`: how long a new connection may take.
    pub(crate) async fn lease(
        &self,
        max_idle: Duration,
        wait: Duration,
        connect: Duration,
    ) -> Result<Leased<C, B>, NoConnection> {
        self.enter(wait).await?;
        let mut leased = Leased { upstream: self.clone(), line: None, reused: true };
        leased.line = self.kept(max_idle);
        if leased.line.is_none() {
            leased.reused = false;
            // Boxed: it is long, and over when an exchange begins, which may last.
            let connecting = tokio::time::timeout(connect, Box::pin(self.connect()));
            let late = Err(NoConnection::Connect(ConnectFault::TimedOut));
            leased.line = Some(connecting.await.unwrap_or(late)?);
        }
        Ok(leased)
    }

    /// Takes a place among those under way.
    async fn enter(&self, wait: Duration) -> Result<(), NoConnection> {
        let Shared { room, waiting, bounds, .. } = &*self.shared;
        if let Ok(permit) = room.try_acquire() {
            permit.forget();
            return Ok(());
        }
        if waiting.fetch_add(1, Relaxed) >= bounds.max_waiting {
            waiting.fetch_sub(1, Relaxed);
            return Err(NoConnection::Full);
        }
        let _waits = Waits(waiting);
        match tokio::time::timeout(wait, room.acquire()).await {
            Ok(Ok(permit)) => {
                permit.forget();
                Ok(())
            }
            _ => Err(NoConnection::Full),
        }
    }

    fn kept(&self, max_idle: Duration) -> Option<Line<C, B>> {
        let Shared { origin, idle, .. } = &*self.shared;
        if origin.protocol != Protocol::Http1
            && let Some(place) = self.place()
        {
            return Some(Line::Http2(place));
        }
        let now = Instant::now();
        loop {
            let mut connection = {
                let mut idle = idle.lock();
                if idle.back()?.idle_for(now) >= max_idle {
                    return None;
                }
                idle.pop_back()?
            };
            if connection.is_alive_now() {
                return Some(Line::Http1(connection));
            }
        }
    }

    /// Room on a connection of HTTP/2, the first of those that have some: so the others come to rest.
    fn place(&self) -> Option<Place<B>> {
        self.shared.http2.lock().iter().find_map(Http2::place)
    }

    async fn connect(&self) -> Result<Line<C, B>, NoConnection> {
        let Shared { origin, connector, connecting, http2, connected, bounds, .. } = &*self.shared;
        let _one_at_a_time = match origin.protocol {
            Protocol::Http2 => Some(connecting.lock().await),
            Protocol::Http1 | Protocol::Negotiated => None,
        };
        if let Some(place) = self.place() {
            return Ok(Line::Http2(place));
        }
        if http2.lock().len() >= MOST_CONNECTIONS {
            self.sweep();
            if http2.lock().len() >= MOST_CONNECTIONS {
                return Err(NoConnection::Full);
            }
        }
        let stream = connector.connect(origin).await.map_err(NoConnection::Connect)?;
        connected.fetch_add(1, Relaxed);
        let speaks_http2 = match origin.protocol {
            Protocol::Http1 => false,
            Protocol::Http2 => true,
            Protocol::Negotiated => stream.has_negotiated_http2(),
        };
        if !speaks_http2 {
            let connection = Http1::new(stream, bounds.max_head_bytes).await;
            return Ok(Line::Http1(connection.map_err(NoConnection::Connect)?));
        }
        let connection = Http2::new(stream, bounds.max_head_bytes).await.map_err(NoConnection::Connect)?;
        let place = connection.place().ok_or(NoConnection::Full)?;
        http2.lock().push(connection);
        Ok(Line::Http2(place))
    }
}

/// One that waits; counted until it is dropped.
struct Waits<'a>(&'a AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// What an exchange goes over.
pub(crate) enum Line<C: Connect, B: Upload> {
    Http1(Box<Http1<C::Stream, B>>),
    Http2(Place<B>),
}

/// A connection in use, and a place among those under way. Dropped before its end, an HTTP/1.1 connection is closed.
pub struct Leased<C: Connect, B: Upload> {
    upstream: Upstream<C, B>,
    /// Nothing after it was given back, or before it was there.
    pub(crate) line: Option<Line<C, B>>,
    reused: bool,
}

impl<C: Connect, B: Upload> Leased<C, B> {
    /// It has served before.
    #[must_use]
    pub fn is_reused(&self) -> bool {
        self.reused
    }

    pub(crate) fn origin(&self) -> &Origin {
        &self.upstream.shared.origin
    }

    /// The exchange is over: the connection is kept, if it can serve another.
    pub(crate) fn give_back(mut self) {
        let Some(Line::Http1(mut connection)) = self.line.take() else { return };
        if connection.becomes_idle() {
            let mut idle = self.upstream.shared.idle.lock();
            if idle.len() < self.upstream.shared.bounds.max_idle {
                idle.push_back(connection);
            } else {
                drop(idle);
            }
        }
    }
}

impl<C: Connect, B: Upload> std::fmt::Debug for Leased<C, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leased").field("upstream", &self.upstream).field("reused", &self.reused).finish()
    }
}

impl<C: Connect, B: Upload> Drop for Leased<C, B> {
    fn drop(&mut self) {
        self.upstream.shared.room.add_permits(1);
    }
}
