//! The one seam to sockets: binding, and a stream that knows whether its client keeps up.
//!
//! A connection is in one of three phases: idle between requests, in the head of a request, or busy with an answer. Each
//! has its own patience; a client that takes no byte of an answer has another, and one that takes few has it but once,
//! so that no answer is held for long by who reads it slowly. One timer per connection looks at the
//! phase when it could have ended, so that a request costs no timer.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpSocket, TcpStream},
    time::Instant,
};

/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 4096;

/// Listens on `address`, or on all addresses of both families.
///
/// # Errors
/// As the operating system says: in use, not ours, not allowed.
pub fn listen(address: Option<IpAddr>, port: u16) -> io::Result<TcpListener> {
    match address {
        Some(address) => bind(SocketAddr::new(address, port), false),
        // A host without IPv6 can't make such a socket at all.
        None => bind(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port), true).or_else(|error| match error
            .kind()
        {
            io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied => Err(error),
            _ => bind(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port), false),
        }),
    }
}

fn bind(address: SocketAddr, both_families: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if both_families {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Connects to `to`, from the address `from` where it is of the same family, at any port.
///
/// # Errors
/// As the operating system says; see [`is_unreachable`] for what says that nobody is there.
pub async fn connect(to: SocketAddr, from: Option<IpAddr>) -> io::Result<TcpStream> {
    let socket = if to.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    if let Some(from) = from.filter(|from| from.is_ipv4() == to.is_ipv4()) {
        socket.bind(SocketAddr::new(from, 0))?;
    }
    let stream = socket.connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Whether a failure to connect means that nobody listens there, and not that this host has no files or ports left.
#[must_use]
pub fn is_unreachable(error: &io::Error) -> bool {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable,
        NetworkUnreachable,
    };
    matches!(
        error.kind(),
        ConnectionRefused
            | ConnectionReset
            | ConnectionAborted
            | BrokenPipe
            | HostUnreachable
            | NetworkUnreachable
    )
}

/// Whether an address is one of this host's: whether a socket can be bound to it.
#[must_use]
pub fn is_of_this_host(address: IpAddr) -> bool {
    !address.is_unspecified() && std::net::UdpSocket::bind(SocketAddr::new(address, 0)).is_ok()
}

/// Bytes a second of an answer that a client must take beyond its patience. A list of 15 MB may take four minutes.
const LEAST_RATE: u64 = 64 << 10;

/// How long a client may take for what.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Between two requests.
    pub idle: Duration,
    /// From the first byte of a head to its last.
    pub head: Duration,
    /// Without taking a byte of its answer; also by how much it may be behind `LEAST_RATE`.
    pub write: Duration,
}

/// What a connection is doing since when; shared by its stream, its service and its timer.
#[derive(Debug)]
pub struct Progress {
    start: Instant,
    /// Phase in the two lowest bits, above it the milliseconds since `start`.
    phase: AtomicU64,
    /// Milliseconds since `start` plus one when a write began to wait, or 0.
    blocked: AtomicU64,
    /// The same of the first write that waited since all had been written.
    behind: AtomicU64,
    /// Bytes that were taken since then.
    taken: AtomicU64,
}

const IDLE: u64 = 0;
const HEAD: u64 = 1;
const BUSY: u64 = 2;
const ANSWERED: u64 = 3;

impl Progress {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            phase: AtomicU64::new(IDLE),
            blocked: AtomicU64::new(0),
            behind: AtomicU64::new(0),
            taken: AtomicU64::new(0),
        })
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn enter(&self, phase: u64) {
        self.phase.store(self.elapsed_ms() << 2 | phase, Relaxed);
    }

    fn phase(&self) -> u64 {
        self.phase.load(Relaxed) & 3
    }

    /// A whole head was read, and is being answered.
    pub fn request_began(&self) {
        self.phase.store(BUSY, Relaxed);
    }

    /// The answer is ready; when it has been written, the connection is idle again.
    pub fn request_answered(&self) {
        self.phase.store(ANSWERED, Relaxed);
    }

    /// A write begins to wait for the client.
    fn blocks(&self) {
        let now = self.elapsed_ms() + 1;
        if self.behind.load(Relaxed) == 0 {
            self.taken.store(0, Relaxed);
            self.behind.store(now, Relaxed);
        }
        self.blocked.store(now, Relaxed);
    }

    /// When the client's time is over, as far as it can be told now; nothing while it is our turn.
    fn deadline(&self, patience: Patience) -> Option<Instant> {
        let at = |ms: u64, patience: Duration| self.start + Duration::from_millis(ms) + patience;
        let blocked = self.blocked.load(Relaxed);
        if blocked > 0 {
            let paid_ms = self.taken.load(Relaxed).saturating_mul(1_000) / LEAST_RATE;
            let behind = self.behind.load(Relaxed);
            let all = at(behind.saturating_sub(1), patience.write + Duration::from_millis(paid_ms));
            return Some(at(blocked - 1, patience.write).min(all));
        }
        let phase = self.phase.load(Relaxed);
        match phase & 3 {
            IDLE => Some(at(phase >> 2, patience.idle)),
            HEAD => Some(at(phase >> 2, patience.head)),
            _ => None,
        }
    }

    /// Ready when the client has been too slow.
    pub async fn lost_patience(&self, patience: Patience) {
        // What the connection does may change at any time, and with it what there is to wait for.
        let look_again = patience.idle.min(patience.head).min(patience.write);
        loop {
            let now = Instant::now();
            match self.deadline(patience) {
                Some(deadline) if deadline <= now => return,
                deadline => {
                    let look = now + look_again;
                    tokio::time::sleep_until(deadline.map_or(look, |deadline| deadline.min(look))).await;
                }
            }
        }
    }
}

/// A TCP stream that notes its client's progress.
#[derive(Debug)]
pub struct Watched {
    stream: TcpStream,
    progress: Arc<Progress>,
}

impl Watched {
    /// Watches `stream`.
    #[must_use]
    pub fn new(stream: TcpStream) -> (Self, Arc<Progress>) {
        let progress = Progress::new();
        (Self { stream, progress: Arc::clone(&progress) }, progress)
    }

    /// Notes how a write went.
    fn written(&self, outcome: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let Progress { blocked, taken, .. } = &*self.progress;
        match &outcome {
            Poll::Pending if blocked.load(Relaxed) == 0 => self.progress.blocks(),
            Poll::Pending => {}
            Poll::Ready(bytes) => {
                blocked.store(0, Relaxed);
                taken.fetch_add(bytes.as_ref().map_or(0, |bytes| *bytes as u64), Relaxed);
            }
        }
        outcome
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        if buffer.filled().len() > before && self.progress.phase() == IDLE {
            self.progress.enter(HEAD);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Watched {
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
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.progress.behind.store(0, Relaxed);
        if self.progress.phase() == ANSWERED {
            self.progress.enter(IDLE);
        }
        Poll::Ready(Ok(()))
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

    /// A watched stream and its client, and when the connection was made.
    async fn connected() -> (Watched, Arc<Progress>, TcpStream) {
        let listener = listen(Some(Ipv4Addr::LOCALHOST.into()), 0).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (watched, progress) = Watched::new(listener.accept().await.unwrap().0);
        (watched, progress, client)
    }

    /// Seconds until patience is lost, under a paused clock.
    async fn lasts(progress: &Progress) -> u64 {
        let start = Instant::now();
        progress.lost_patience(PATIENCE).await;
        start.elapsed().as_secs()
    }

    #[tokio::test]
    async fn an_idle_connection_lasts_its_time_and_a_slow_head_another() {
        let (mut watched, progress, mut client) = connected().await;
        client.write_all(b"GET").await.unwrap();
        let mut buffer = [0; 3];
        watched.read_exact(&mut buffer).await.unwrap();
        tokio::time::pause();
        assert_eq!(lasts(&progress).await, 20);
        progress.request_began();
        progress.request_answered();
        watched.flush().await.unwrap();
        assert_eq!(lasts(&progress).await, 60);
    }

    #[tokio::test]
    async fn a_client_that_never_reads_is_given_up() {
        let (mut watched, progress, _client) = connected().await;
        progress.request_began();
        let bytes = vec![0; 1 << 20];
        // Until the kernel takes no more.
        while std::future::poll_fn(|cx| match Pin::new(&mut watched).poll_write(cx, &bytes) {
            Poll::Pending => Poll::Ready(false),
            Poll::Ready(outcome) => Poll::Ready(outcome.is_ok()),
        })
        .await
        {}
        tokio::time::pause();
        let lasted = lasts(&progress).await;
        assert!((29..=30).contains(&lasted), "{lasted}");
    }

    /// Seconds until a client is given up of which each write waits `secs` and then takes `bytes`.
    async fn lasts_taking(bytes: usize, secs: u64) -> u64 {
        let (watched, progress, _client) = connected().await;
        progress.request_began();
        tokio::time::pause();
        let reading = async {
            loop {
                assert!(watched.written(Poll::Pending).is_pending());
                tokio::time::sleep(Duration::from_secs(secs)).await;
                assert!(watched.written(Poll::Ready(Ok(bytes))).is_ready());
            }
        };
        tokio::select! {
            lasted = lasts(&progress) => lasted,
            () = tokio::time::sleep(Duration::from_secs(3_600)) => 3_600,
            () = reading => unreachable!("it reads on"),
        }
    }

    #[tokio::test]
    async fn a_client_that_takes_a_byte_now_and_then_is_given_up_too() {
        let lasted = lasts_taking(1, 29).await;
        assert!((29..=31).contains(&lasted), "{lasted}");
    }

    #[tokio::test]
    async fn a_client_at_half_the_least_rate_is_given_up_after_twice_its_patience() {
        let lasted = lasts_taking(32 << 10, 1).await;
        assert!((57..=61).contains(&lasted), "{lasted}");
    }

    #[tokio::test]
    async fn a_client_at_the_least_rate_reads_to_the_end() {
        assert_eq!(lasts_taking(64 << 10, 1).await, 3_600);
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_blocks_is_noticed_while_the_idle_time_runs() {
        let progress = Progress::new();
        let blocks_after_a_while = async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            progress.request_began();
            progress.blocks();
            std::future::pending::<()>().await;
        };
        let lasted = tokio::select! {
            lasted = lasts(&progress) => lasted,
            () = blocks_after_a_while => unreachable!("it never ends"),
        };
        assert_eq!(lasted, 33);
    }

    #[tokio::test]
    async fn a_connection_comes_from_the_address_that_was_asked_for() {
        let listener = listen(Some([127, 0, 20, 1].into()), 0).unwrap();
        let to = listener.local_addr().unwrap();
        let _stream = connect(to, Some([127, 0, 20, 2].into())).await.unwrap();
        assert_eq!(listener.accept().await.unwrap().1.ip(), IpAddr::from([127, 0, 20, 2]));
        drop(listener);
        assert!(is_unreachable(&connect(to, None).await.unwrap_err()));
        // An address of documentation: no host has it.
        let strange = connect(to, Some([192, 0, 2, 1].into())).await.unwrap_err();
        assert!(!is_unreachable(&strange), "{strange}");
    }

    #[test]
    fn the_addresses_of_this_host_are_known() {
        assert!(is_of_this_host([127, 0, 20, 7].into()));
        assert!(!is_of_this_host([192, 0, 2, 1].into()));
        assert!(!is_of_this_host([0, 0, 0, 0].into()));
    }

    #[tokio::test]
    async fn both_families_are_served_where_no_address_is_given() {
        let listener = listen(None, 0).unwrap();
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        let taken = listen(None, port).map(|_| ()).map_err(|error| error.kind());
        assert_eq!(taken, Err(io::ErrorKind::AddrInUse));
    }
}
