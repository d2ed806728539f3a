//! What the server under test connects to by itself: targets of its health checks, on 127.0.0.1.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU16, Ordering},
};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use socket2::{Domain, Socket, Type};

use super::deadline::Deadline;
use super::wire::latin1;

/// How long one who asks may take for it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Longest request head that an [`HttpTarget`] reads.
const MAX_HEAD: usize = 65_536;

/// A TCP port that accepts and closes, or never answers an attempt to connect.
#[derive(Debug)]
pub struct TcpTarget {
    port: u16,
    /// Accepting: told to stop by a flag and one more connection.
    stop: Option<Arc<AtomicBool>>,
    /// Full: the listener with an empty queue, and the attempts that fill it. Held, never read.
    _full: Vec<Socket>,
}

impl TcpTarget {
    /// Opens a port (0: any). `full`: nobody accepts and the queue is filled, so further attempts time out.
    ///
    /// # Errors
    /// If the port can't be had.
    pub fn open(port: u16, full: bool) -> Result<Self> {
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        if full {
            return Self::full(address);
        }
        let listener = listen(address)?;
        let port = listener.local_addr()?.port();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        thread::spawn(move || {
            for stream in listener.incoming() {
                drop(stream);
                if stopped.load(Ordering::SeqCst) {
                    break;
                }
            }
        });
        Ok(Self { port, stop: Some(stop), _full: Vec::new() })
    }

    fn full(address: SocketAddrV4) -> Result<Self> {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        listener.set_reuse_address(true)?;
        listener.bind(&SocketAddr::V4(address).into()).with_context(|| format!("can't bind {address}"))?;
        listener.listen(0)?;
        let bound = listener.local_addr()?;
        let port = bound.as_socket_ipv4().context("a socket of IPv4 has no such address")?.port();
        let mut sockets = vec![listener];
        for _ in 0..4 {
            let filler = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            filler.set_nonblocking(true)?;
            let _ = filler.connect(&bound); // in progress, which is all it is for
            sockets.push(filler);
        }
        Ok(Self { port, stop: None, _full: sockets })
    }

    /// Its number.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for TcpTarget {
    fn drop(&mut self) {
        if let Some(stop) = &self.stop {
            stop.store(true, Ordering::SeqCst);
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
            let _ = TcpStream::connect_timeout(&address, Duration::from_secs(1)); // wakes the accept
            wait_until_refused(address);
        }
    }
}

/// An HTTP server that answers every request with one status, and remembers the first.
#[derive(Debug)]
pub struct HttpTarget {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    status: AtomicU16,
    headers: Vec<(String, String)>,
    delay: Duration,
    stop: AtomicBool,
    seen: Mutex<Option<String>>,
}

impl HttpTarget {
    /// Opens one on any free port.
    ///
    /// # Errors
    /// If no port can be had.
    pub fn open(status: u16, headers: Vec<(String, String)>, delay: Duration) -> Result<Self> {
        let listener = listen(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            status: AtomicU16::new(status),
            headers,
            delay,
            stop: AtomicBool::new(false),
            seen: Mutex::new(None),
        });
        let server = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if server.stop.load(Ordering::SeqCst) {
                    break;
                }
                let Ok(stream) = stream else { continue };
                let server = Arc::clone(&server);
                thread::spawn(move || server.answer(stream));
            }
        });
        Ok(Self { port, shared })
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Changes the status of later answers.
    pub fn set_status(&self, status: u16) {
        self.shared.status.store(status, Ordering::SeqCst);
    }

    /// The first request as JSON (`line`, `headers`), or `null`.
    pub fn seen(&self) -> String {
        let seen = self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.clone().unwrap_or_else(|| "null".to_owned())
    }
}

impl Drop for HttpTarget {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let _ = TcpStream::connect_timeout(&address, Duration::from_secs(1));
        wait_until_refused(address);
    }
}

impl Shared {
    fn answer(&self, mut stream: TcpStream) {
        let deadline = Deadline::after(PATIENCE);
        let mut data = Vec::new();
        let mut piece = [0; 4096];
        let end = loop {
            if let Some(end) = data.windows(4).position(|four| four == b"\r\n\r\n") {
                break end;
            }
            let left = deadline.left();
            if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
                return;
            }
            match stream.read(&mut piece) {
                Ok(count) if count > 0 && data.len() < MAX_HEAD => data.extend_from_slice(&piece[..count]),
                _ => return,
            }
        };
        let seen = describe(&latin1(&data[..end]));
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(seen);
        thread::sleep(self.delay);
        let mut answer = format!("HTTP/1.0 {} -\r\n", self.status.load(Ordering::SeqCst));
        for (name, value) in &self.headers {
            answer.push_str(&format!("{name}: {value}\r\n"));
        }
        answer.push_str("Content-Length: 2\r\n\r\nup");
        let _ = stream.write_all(answer.as_bytes()); // the checker may have given up: the scenario's business
        let _ = stream.shutdown(Shutdown::Write);
    }
}

/// `{"line": "GET / HTTP/1.1", "headers": {"host": "x"}}`, spaced like this, since masks rely on it.
fn describe(head: &str) -> String {
    let mut lines = head.split("\r\n");
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let line = quoted(lines.next().unwrap_or_default());
    let headers: Vec<String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| format!("{}: {}", quoted(&name.trim().to_lowercase()), quoted(value.trim())))
        .collect();
    format!(r#"{{"line": {line}, "headers": {{{}}}}}"#, headers.join(", "))
}

/// A listener that may take over a port from a connection that is still being closed.
fn listen(address: SocketAddrV4) -> Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::V4(address).into()).with_context(|| format!("can't bind {address}"))?;
    socket.listen(64)?;
    Ok(socket.into())
}

/// The listening thread closes its socket when it ends; what a scenario does next needs the port closed.
fn wait_until_refused(address: SocketAddr) {
    for _ in 0..100 {
        if TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connects(port: u16) -> bool {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        TcpStream::connect_timeout(&address, Duration::from_millis(300)).is_ok()
    }

    #[test]
    fn a_closed_port_refuses_and_can_be_opened_again() {
        let open = TcpTarget::open(0, false).unwrap();
        let port = open.port();
        assert!(connects(port));
        drop(open);
        assert!(!connects(port));
        let again = TcpTarget::open(port, false).unwrap();
        assert!(connects(again.port()));
    }

    #[test]
    fn a_full_port_lets_attempts_time_out() {
        let full = TcpTarget::open(0, true).unwrap();
        assert!(!connects(full.port()));
    }

    #[test]
    fn an_http_target_answers_its_status_and_remembers_the_first_request() {
        let target = HttpTarget::open(503, vec![("X-A".to_owned(), "b".to_owned())], Duration::ZERO).unwrap();
        assert_eq!(target.seen(), "null");
        target.set_status(404);
        let mut stream = TcpStream::connect(("127.0.0.1", target.port())).unwrap();
        stream.write_all(b"GET /up HTTP/1.1\r\nHost: \"x\"\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "HTTP/1.0 404 -\r\nX-A: b\r\nContent-Length: 2\r\n\r\nup");
        assert_eq!(target.seen(), r#"{"line": "GET /up HTTP/1.1", "headers": {"host": "\"x\""}}"#);
    }
}
