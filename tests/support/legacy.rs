//! A raw server in the place of a legacy one, and a node in front of it.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
};

use parking_lot::Mutex;

use super::{
    http::{authority, exchange},
    server::{Home, Server},
};

/// A legacy server that notes what it is asked, and answers as it is told.
pub struct Legacy {
    /// `host:port`.
    pub address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

/// Given a request, the answer; nothing where the connection is to be closed without one.
pub type Answers = fn(&str) -> Option<String>;

impl Legacy {
    /// On an address of its own.
    pub fn start(answers: Answers) -> Self {
        Self::serve(TcpListener::bind("127.0.0.1:0").unwrap(), answers)
    }

    /// There.
    pub fn serve(listener: TcpListener, answers: Answers) -> Self {
        let address = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, all) = (stream.unwrap(), Arc::clone(&all));
                thread::spawn(move || serve(stream, &all, answers));
            }
        });
        Self { address, asked }
    }

    /// Requests that aren't probes.
    pub fn asked(&self) -> Vec<String> {
        let asked = self.asked.lock();
        asked.iter().filter(|request| !request.contains("/health/readiness ")).cloned().collect()
    }
}

fn serve(mut stream: TcpStream, asked: &Mutex<Vec<String>>, answers: Answers) {
    let mut read = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        while let Some(length) = whole(&read) {
            let request = String::from_utf8_lossy(&read[..length]).into_owned();
            read.drain(..length);
            asked.lock().push(request.clone());
            let is_probe = request.contains("/health/readiness ");
            let answer = if is_probe { Some(ok("up")) } else { answers(&request) };
            let Some(answer) = answer else {
                // Closed with what was read: in order.
                return;
            };
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(count) => read.extend_from_slice(&buffer[..count]),
        }
    }
}

/// How long the first request is, if it is whole.
fn whole(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(4).position(|part| part == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    if head.contains("transfer-encoding: chunked") {
        let rest = &bytes[end..];
        return Some(end + rest.windows(5).position(|part| part == b"0\r\n\r\n")? + 5);
    }
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
    let length: usize = length.map_or(0, |length| length.parse().unwrap());
    (bytes.len() >= end + length).then_some(end + length)
}

/// An answer with this body.
pub fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nX-Legacy: 1\r\n\r\n{body}", body.len())
}

/// A node in front of these servers.
pub fn gateway(servers: &[&str], settings: &[&str]) -> Server {
    let servers = format!("nacre.legacy.servers={}", servers.join(","));
    let all: Vec<&str> = [servers.as_str()].into_iter().chain(settings.iter().copied()).collect();
    Server::start_in(Home::new(), &all)
}

/// An answer to raw bytes whose last request says that it is the last.
pub fn say(server: &Server, bytes: &str) -> String {
    let answer = exchange(authority(server.url()), bytes.as_bytes()).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}
