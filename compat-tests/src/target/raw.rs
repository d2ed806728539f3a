//! Bytes to the server as they are, and everything that comes back.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::Target;
use super::http::latin1_bytes;
use super::wire::{MAX_BYTES, RawItem, split};
use crate::golden::RawExchange;

/// What came back over a raw connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawAnswer {
    /// In order.
    pub items: Vec<RawItem>,
    /// Whether the server closed the connection.
    pub closed: bool,
}

impl Target {
    /// Sends the pieces, waiting for silence between them, and gathers what comes back.
    ///
    /// # Errors
    /// If the server can't be reached. A reset connection is no error, it counts as closed.
    pub fn exchange(&self, exchange: &RawExchange) -> Result<RawAnswer> {
        let stream = self.connect(Duration::from_secs(10))?;
        stream.set_write_timeout(Some(Duration::from_secs(10)))?;
        let mut line = Line { stream, data: Vec::new(), closed: false };
        for (at, piece) in exchange.pieces.iter().enumerate() {
            let mut piece = piece.replace(" /nacos/", &format!(" {}/", self.context()));
            if let Some(token) = &self.token {
                let line = " HTTP/1.1\r\n";
                piece = piece.replace(line, &format!("{line}Authorization: Bearer {token}\r\n"));
            }
            if let Some((head, body)) = piece.split_once("\r\n\r\n") {
                let mut words = head.split(' ');
                self.note(words.next().unwrap_or_default(), words.next().unwrap_or_default(), body);
            }
            // The server may have closed already; what it said before that is what counts.
            let _ = line.stream.write_all(&latin1_bytes(&piece)?);
            if at + 1 < exchange.pieces.len() {
                while line.receive(exchange.pause)? {}
            }
        }
        let end = Instant::now() + exchange.timeout;
        let over = |line: &Line| line.closed || Instant::now() >= end || self.stop.has_died();
        while !over(&line) && line.answers(exchange.head) < exchange.responses {
            line.receive(Duration::from_millis(200))?;
        }
        while line.receive(exchange.idle)? {}
        let item = |item| match item {
            RawItem::Response { status, headers, body } => RawItem::Response {
                status,
                headers: self.headers_as_recorded(headers),
                body: self.as_recorded(body),
            },
            garbage @ RawItem::Garbage(_) => garbage,
        };
        let items = split(&line.data, exchange.head).into_iter().map(item).collect();
        Ok(RawAnswer { items, closed: line.closed })
    }
}

struct Line {
    stream: TcpStream,
    data: Vec<u8>,
    closed: bool,
}

impl Line {
    /// Whether anything (bytes or the end) came within `wait`.
    fn receive(&mut self, wait: Duration) -> Result<bool> {
        if self.closed || self.data.len() > MAX_BYTES {
            return Ok(false);
        }
        self.stream.set_read_timeout(Some(wait.max(Duration::from_millis(1))))?;
        let mut piece = [0; 65536];
        match self.stream.read(&mut piece) {
            Ok(0) => self.closed = true,
            Ok(count) => self.data.extend_from_slice(&piece[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Ok(false);
            }
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
                self.closed = true;
            }
            Err(error) => return Err(error).context("can't read from the raw connection"),
        }
        Ok(true)
    }

    fn answers(&self, head_only: bool) -> usize {
        let last = |item: &&RawItem| matches!(item, RawItem::Response { status, .. } if *status >= 200);
        split(&self.data, head_only).iter().filter(last).count()
    }
}
