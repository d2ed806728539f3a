//! A subscriber's UDP port: receives pushes and acknowledges them.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::wire::gunzip;
use crate::golden::Ack;
use crate::json::{self, Json};
use crate::stop::Stop;

/// How soon waiting notices that the run is over.
const LOOK: Duration = Duration::from_millis(200);

/// A bound port on 127.0.0.1.
#[derive(Debug)]
pub struct Port {
    socket: UdpSocket,
    peer: Option<SocketAddr>,
    /// The case that has it, if pushes for others are to be passed over.
    case: Option<Case>,
}

/// What tells a push for this case from one for another.
#[derive(Debug)]
struct Case {
    /// What its names begin with.
    run: String,
    /// All that it asks for, which may have names of other forms.
    asks: String,
}

/// A received datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Datagram {
    /// Whether it was compressed.
    pub gzip: bool,
    /// Its text.
    pub body: String,
}

impl Port {
    /// Binds any free port.
    ///
    /// # Errors
    /// If none can be had.
    pub fn open() -> Result<Self> {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).context("can't bind a UDP port")?;
        Ok(Self { socket, peer: None, case: None })
    }

    /// Passes over what is for other cases than the one whose names begin with `run` and which sends the requests `asks`: the
    /// system may give a port again that another case, or an earlier run, had subscribed with.
    #[must_use]
    pub fn of_case(self, run: &str, asks: &str) -> Self {
        let case = Case { run: run.to_owned(), asks: asks.to_owned() };
        Self { case: Some(case), ..self }
    }

    /// Its number.
    ///
    /// # Errors
    /// If the system won't tell.
    pub fn number(&self) -> Result<u16> {
        Ok(self.socket.local_addr()?.port())
    }

    /// Receives one datagram, or (draining) all that come within `timeout` and answers the last.
    ///
    /// # Errors
    /// If the run is over, a datagram is no text, or one to be acknowledged has no `lastRefTime` to name.
    pub fn receive(
        &mut self,
        timeout: Duration,
        ack: Ack,
        drain: bool,
        stop: &Stop,
    ) -> Result<Option<Datagram>> {
        let deadline = Instant::now() + timeout;
        let mut last = None;
        self.peer = None;
        let mut space = vec![0; 65536];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(last);
            }
            ensure!(stop.reason().is_none(), "the run is over");
            self.socket.set_read_timeout(Some(left.min(LOOK)))?;
            let (count, peer) = match self.socket.recv_from(&mut space) {
                Ok(received) => received,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
                Err(error) => return Err(error).context("can't receive a datagram"),
            };
            let datagram = decode(&space[..count])?;
            if self.case.as_ref().is_some_and(|case| case.is_not_of(&datagram.body)) {
                continue;
            }
            self.peer = Some(peer);
            if let Some(answer) = acknowledgement(&datagram.body, ack)? {
                self.socket.send_to(answer.as_bytes(), peer)?;
            }
            last = Some(datagram);
            if !drain {
                return Ok(last);
            }
        }
    }

    /// Sends a text to the sender of the last datagram.
    ///
    /// # Errors
    /// If the last reception got none.
    pub fn answer(&self, body: &str) -> Result<()> {
        let peer = self.peer.context("no datagram was received before, so there is nobody to send to")?;
        self.socket.send_to(body.as_bytes(), peer)?;
        Ok(())
    }
}

impl Case {
    /// Whether a push names a service of another case: one whose name begins as [`run_token`](crate::shuffle::run_token) has
    /// it, and nothing of this one.
    fn is_not_of(&self, push: &str) -> bool {
        let token = |name: &str| name.as_bytes().get(..TOKEN).is_some_and(is_token);
        let mut others = push.split("@@").skip(1).filter(|name| token(name)).peekable();
        !push.contains(&self.run)
            && others.peek().is_some()
            && others.all(|name| !self.asks.contains(&name[..TOKEN]))
    }
}

/// How long a token of a run is.
const TOKEN: usize = 8;

fn is_token(letters: &[u8]) -> bool {
    letters.first() == Some(&b't') && letters.iter().all(u8::is_ascii_lowercase)
}

fn decode(data: &[u8]) -> Result<Datagram> {
    let gzip = data.starts_with(&[0x1f, 0x8b]);
    let bytes = if gzip { gunzip(data).context("a datagram isn't gzip")? } else { data.to_vec() };
    let body = String::from_utf8(bytes).context("a datagram isn't text")?;
    Ok(Datagram { gzip, body })
}

fn acknowledgement(body: &str, ack: Ack) -> Result<Option<String>> {
    if ack == Ack::No {
        return Ok(None);
    }
    let value = json::parse(body).ok().context("a datagram to be acknowledged isn't JSON")?;
    let Some(Json::Number(time)) = value.get("lastRefTime") else {
        anyhow::bail!("a datagram to be acknowledged has no lastRefTime");
    };
    let quote = if ack == Ack::Text { "\"" } else { "" };
    Ok(Some(format!(r#"{{"type": "push-ack", "lastRefTime": {quote}{time}{quote}, "data": ""}}"#)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_repeats_the_time_as_it_was_spelled() {
        let body = r#"{"type":"dom","lastRefTime":12}"#;
        let answer = acknowledgement(body, Ack::Number).unwrap().unwrap();
        assert_eq!(answer, r#"{"type": "push-ack", "lastRefTime": 12, "data": ""}"#);
        assert!(acknowledgement(body, Ack::Text).unwrap().unwrap().contains("\"12\""));
        assert_eq!(acknowledgement(body, Ack::No).unwrap(), None);
        assert!(acknowledgement("x", Ack::Text).is_err());
    }

    #[test]
    fn what_is_pushed_for_another_case_is_told_by_its_name() {
        let push = |name: &str| format!(r#"{{"data":"{{\"hosts\":[],\"name\":\"G@@{name}\"}}"}}"#);
        let asks = "GET /list?serviceName=transport-orders".to_owned();
        let case = Case { run: "tabcdefg".to_owned(), asks };
        for other in ["tzjjpphx", "tzjjpphx-1"] {
            assert!(case.is_not_of(&push(other)), "{other}");
        }
        for own in ["tabcdefg", "tabcdefg-1", "orders", "transport-orders", "tax"] {
            assert!(!case.is_not_of(&push(own)), "{own}");
        }
        assert!(!case.is_not_of("{}"));
    }
}
