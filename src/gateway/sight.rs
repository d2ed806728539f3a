//! What is counted of the legacy servers, and told in the log: once for each server and kind in a while.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Instant,
};

use http::StatusCode;
use nacre_middleware::pass::{Broken, Fault};

use super::health::{Health, Sign, Turn};
use crate::base::burst::Seldom;

/// Classes of statuses, as labels.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
/// Kinds of what ends an answer before its end.
const ENDS: [&str; 2] = ["cut", "stopped"];

/// One legacy server, as it is seen.
#[derive(Debug)]
pub struct Server {
    /// `host:port`.
    pub name: Box<str>,
    pub health: Health,
    answers: [AtomicU64; CLASSES.len()],
    failures: [AtomicU64; Fault::KINDS.len()],
    ends: [AtomicU64; ENDS.len()],
}

impl Server {
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            health: Health::default(),
            answers: Default::default(),
            failures: Default::default(),
            ends: Default::default(),
        }
    }

    /// It has answered a request.
    pub fn answered(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).clamp(1, CLASSES.len()) - 1;
        self.answers[class].fetch_add(1, Relaxed);
        // One that says that it can't serve says nothing good of itself; and one that is down for its probes comes back by
        // them alone, or it would come and go.
        let serves = !matches!(status.as_u16(), 502..=504);
        if serves && self.health.is_up() {
            self.saw(Sign::Answers);
        }
    }

    /// It gave no answer to a request.
    pub fn failed(&self, fault: &Fault, lines: &Seldom) {
        let kind = fault.kind();
        if let Some(number) = Fault::KINDS.iter().position(|known| *known == kind) {
            self.failures[number].fetch_add(1, Relaxed);
        }
        if let Some(unlogged) = lines.pass(&[&self.name, kind], Instant::now()) {
            let server = &*self.name;
            tracing::warn!(server, kind, error = %fault, unlogged, "a request could not be passed on to a legacy server");
        }
        if fault.is_upstreams() {
            self.saw(if kind == "refused" { Sign::Refuses } else { Sign::Fails });
        }
    }

    /// An answer of it broke off.
    pub fn broke_off(&self, why: &Broken, lines: &Seldom) {
        let number = match why {
            Broken::Cut(_) => 0,
            Broken::Stopped => 1,
        };
        self.ends[number].fetch_add(1, Relaxed);
        if let Some(unlogged) = lines.pass(&[&self.name, ENDS[number]], Instant::now()) {
            let (server, kind) = (&*self.name, ENDS[number]);
            tracing::warn!(server, kind, error = %why, unlogged, "the answer of a legacy server broke off");
        }
    }

    /// Something was seen of its health.
    pub fn saw(&self, sign: Sign) {
        let server = &*self.name;
        match self.health.saw(sign) {
            Some(Turn::Down) => tracing::warn!(server, "a legacy server is down: it gets no requests"),
            Some(Turn::Up) => tracing::info!(server, "a legacy server is up again"),
            None => {}
        }
    }

    /// What was counted so far, without what its connections say.
    pub fn read(&self) -> ServerReadings {
        let mut readings = ServerReadings { server: self.name.to_string(), ..ServerReadings::default() };
        readings.up = self.health.is_up();
        let counts = |labels: &[&'static str], counts: &[AtomicU64]| -> Vec<(&'static str, u64)> {
            labels.iter().zip(counts).map(|(label, count)| (*label, count.load(Relaxed))).collect()
        };
        readings.answers = counts(&CLASSES, &self.answers);
        readings.failures = counts(&Fault::KINDS, &self.failures);
        readings.failures.extend(counts(&ENDS, &self.ends));
        readings
    }
}

/// What is known of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerReadings {
    /// `host:port`.
    pub server: String,
    /// It gets requests.
    pub up: bool,
    /// Answers by class of status.
    pub answers: Vec<(&'static str, u64)>,
    /// Requests without an answer, and answers that broke off, by kind.
    pub failures: Vec<(&'static str, u64)>,
    /// Requests under way.
    pub in_flight: u64,
    /// Requests that wait.
    pub waiting: u64,
    /// Connections that are kept unused.
    pub idle: u64,
    /// Connections so far.
    pub connected: u64,
}

/// What the node shows of its legacy servers.
pub trait Sight: Send + Sync {
    /// What is known of each.
    fn read(&self) -> Vec<ServerReadings>;

    /// Which of them are down, for a person; nothing where all are up.
    fn trouble(&self) -> Option<String> {
        let servers = self.read();
        let down: Vec<&str> =
            servers.iter().filter(|server| !server.up).map(|server| server.server.as_str()).collect();
        match down.len() {
            0 => None,
            all if all == servers.len() => Some(format!("all DOWN: {}", down.join(", "))),
            _ => Some(format!("DOWN: {}", down.join(", "))),
        }
    }
}
