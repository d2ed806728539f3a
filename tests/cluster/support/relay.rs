//! A link between two nodes that can be cut, slowed and made one-way: a TCP relay for one ordered pair.
//!
//! The caller connects to the relay, the relay connects onward *from the caller's own IP*, so that whoever proves
//! callers by their address sees no difference. What a relay is told concerns the requests of its direction alone; the
//! other direction has a relay of its own.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// What becomes of the requests of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// They pass.
    Open,
    /// Nobody listens, and open connections are reset: as of a process that has died.
    Refused,
    /// Connections are accepted and nothing passes, either way: as on a line that was cut. What was
    /// held back goes on when the passage opens again, as after retransmission.
    Hanging,
    /// Requests arrive, answers don't come back.
    Unanswered,
    /// Everything takes this much longer, each way.
    Slow(Duration),
}

/// What passed a relay since its start, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// From the caller.
    pub requests: u64,
    /// Back to it.
    pub answers: u64,
}

/// The link from one node to another; ends when dropped.
pub struct Relay {
    listens: SocketAddr,
    passage: watch::Sender<Passage>,
    requests: Arc<AtomicU64>,
    answers: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Relay {
    /// Listens on any free port of `at`, for a caller of the address `caller`; open.
    pub async fn start(at: IpAddr, caller: IpAddr, target: SocketAddr) -> io::Result<Self> {
        let listener = listen(SocketAddr::new(at, 0))?;
        let listens = listener.local_addr()?;
        let (passage, told) = watch::channel(Passage::Open);
        let (requests, answers) = <(Arc<AtomicU64>, Arc<AtomicU64>)>::default();
        let link =
            Link { caller, target, told, requests: Arc::clone(&requests), answers: Arc::clone(&answers) };
        let task = tokio::spawn(link.run(listener));
        Ok(Self { listens, passage, requests, answers, task })
    }

    /// Where the caller connects to.
    pub fn listens(&self) -> SocketAddr {
        self.listens
    }

    /// Changes what becomes of requests, those under way included.
    pub fn set(&self, passage: Passage) {
        self.passage.send_replace(passage);
    }

    /// Bytes so far.
    pub fn traffic(&self) -> Traffic {
        Traffic { requests: self.requests.load(Relaxed), answers: self.answers.load(Relaxed) }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Listens where a socket may have listened a moment ago.
pub fn listen(at: SocketAddr) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(at)?;
    socket.listen(1024)
}

#[derive(Clone)]
struct Link {
    caller: IpAddr,
    target: SocketAddr,
    told: watch::Receiver<Passage>,
    requests: Arc<AtomicU64>,
    answers: Arc<AtomicU64>,
}

impl Link {
    async fn run(mut self, first: TcpListener) {
        let at = first.local_addr().unwrap();
        let mut listener = Some(first);
        loop {
            if *self.told.borrow_and_update() == Passage::Refused {
                listener = None;
                if self.told.changed().await.is_err() {
                    return;
                }
                continue;
            }
            let listening = listener.get_or_insert_with(|| listen(at).unwrap());
            tokio::select! {
                accepted = listening.accept() => {
                    if let Ok((stream, _)) = accepted {
                        tokio::spawn(self.clone().carry(stream));
                    }
                }
                changed = self.told.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Carries one connection to its end, or until connections are refused.
    async fn carry(self, from: TcpStream) {
        let (mut gone, ways) = (self.told.clone(), self.clone());
        let _ = SockRef::from(&from).set_linger(Some(Duration::ZERO)); // dropped is reset
        let carried = async {
            let mut to = ways.onward().await?;
            let _ = to.set_nodelay(true);
            let _ = SockRef::from(&to).set_linger(Some(Duration::ZERO));
            let mut from = from;
            let _ = from.set_nodelay(true);
            let (read_from, write_from) = from.split();
            let (read_to, write_to) = to.split();
            let request = pump(read_from, write_to, &ways.requests, ways.told.clone(), Way::Request);
            let answer = pump(read_to, write_from, &ways.answers, ways.told.clone(), Way::Answer);
            tokio::try_join!(request, answer)?;
            // Both have said that they are at their end: nothing is left to be reset.
            for stream in [&from, &to] {
                let _ = SockRef::from(stream).set_linger(None);
            }
            Ok::<_, io::Error>(())
        };
        tokio::select! {
            _ = carried => {}
            _ = gone.wait_for(|passage| *passage == Passage::Refused) => {}
        }
    }

    async fn onward(&self) -> io::Result<TcpStream> {
        let mut told = self.told.clone();
        // An error means that the relay has gone; the task is about to be dropped.
        let _ = told.wait_for(|passage| *passage != Passage::Hanging).await;
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(self.caller, 0))?;
        socket.connect(self.target).await
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Request,
    Answer,
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    count: &AtomicU64,
    mut told: watch::Receiver<Passage>,
    way: Way,
) -> io::Result<()> {
    let holds = |passage: &Passage| {
        *passage == Passage::Hanging || (*passage == Passage::Unanswered && way == Way::Answer)
    };
    let mut buffer = vec![0; 16 << 10];
    loop {
        let length = from.read(&mut buffer).await?;
        let passage = *told.wait_for(|passage| !holds(passage)).await.map_err(io::Error::other)?;
        if let Passage::Slow(longer) = passage {
            tokio::time::sleep(longer).await;
        }
        if length == 0 {
            return to.shutdown().await;
        }
        count.fetch_add(length as u64, Relaxed);
        to.write_all(&buffer[..length]).await?;
    }
}
