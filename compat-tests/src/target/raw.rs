//! Bytes to the server as they are, and everything that comes back.

use std::io::{ErrorKind, Read as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::Target;
use super::deadline::{Deadline, is_silence};
use super::http::latin1_bytes;
use super::wire::{MAX_BYTES, RawItem, split};
use crate::golden::RawExchange;

/// How long it may take to reach the server.
const REACHED: Duration = Duration::from_secs(10);

/// How soon one who waits notices that it is over.
const LOOK: Duration = Duration::from_millis(200);

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
    /// If the server can't be reached, is still in the middle of an answer when the time is up, or never falls silent. A reset
    /// connection is no error, it counts as closed.
    pub fn exchange(&self, exchange: &RawExchange) -> Result<RawAnswer> {
        let stream = self.connect(REACHED)?;
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
            let _ = Deadline::after(exchange.timeout).send(&mut line.stream, &latin1_bytes(&piece)?);
            if at + 1 < exchange.pieces.len() {
                line.until_silent(exchange.pause, exchange.timeout)?;
            }
        }
        let deadline = Deadline::after(exchange.timeout);
        while !line.closed && line.answers(exchange.head) < exchange.responses {
            if deadline.is_over() {
                if line.is_amid_an_answer(exchange.head) {
                    return Err(deadline.missed(line.data.len()));
                }
                break;
            }
            ensure!(!self.stop.gives_up(true), "the run is over");
            line.receive(LOOK.min(deadline.left()))?;
        }
        line.until_silent(exchange.idle, exchange.timeout)?;
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
    /// Takes what comes until nothing has for so long.
    fn until_silent(&mut self, silence: Duration, limit: Duration) -> Result<()> {
        let deadline = Deadline::after(limit + silence);
        while self.receive(silence)? {
            if deadline.is_over() {
                return Err(deadline.missed(self.data.len()));
            }
        }
        Ok(())
    }

    /// Whether anything (bytes or the end) came within `wait`.
    fn receive(&mut self, wait: Duration) -> Result<bool> {
        if self.closed {
            return Ok(false);
        }
        ensure!(self.data.len() <= MAX_BYTES, "the answer is longer than {MAX_BYTES} bytes");
        self.stream.set_read_timeout(Some(wait.max(Duration::from_millis(1))))?;
        let mut piece = [0; 65536];
        match self.stream.read(&mut piece) {
            Ok(0) => self.closed = true,
            Ok(count) => self.data.extend_from_slice(&piece[..count]),
            Err(error) if is_silence(&error) => return Ok(false),
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
                self.closed = true;
            }
            Err(error) => return Err(error).context("can't read from the raw connection"),
        }
        Ok(true)
    }

    /// Whether what came last is the beginning of a response.
    fn is_amid_an_answer(&self, head_only: bool) -> bool {
        let items = split(&self.data, head_only);
        matches!(items.last(), Some(RawItem::Garbage(text)) if text.starts_with("HTTP/1."))
    }

    fn answers(&self, head_only: bool) -> usize {
        let last = |item: &&RawItem| matches!(item, RawItem::Response { status, .. } if *status >= 200);
        split(&self.data, head_only).iter().filter(last).count()
    }
}
