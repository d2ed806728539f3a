//! What is counted of the legacy servers, and told in the log: once for each server and kind in a while.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
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

/// What all legacy servers have in common.
#[derive(Debug, Default)]
pub struct Together {
    /// How many are down.
    down: AtomicU64,
    /// Times that the last that was well went down.
    all_down: AtomicU64,
    lines: Seldom,
}

impl Together {
    /// How often the last server that was well has gone down so far.
    pub fn all_down(&self) -> u64 {
        self.all_down.load(Relaxed)
    }
}

/// One legacy server, as it is seen.
#[derive(Debug)]
pub struct Server {
    /// `host:port`.
    pub name: Box<str>,
    pub health: Health,
    together: Arc<Together>,
    /// How many servers there are.
    count: u64,
    /// A request is under way to it though it is down.
    is_tried: AtomicBool,
    answers: [AtomicU64; CLASSES.len()],
    failures: [AtomicU64; Fault::KINDS.len()],
    ends: [AtomicU64; ENDS.len()],
}

/// A request to a server that is down; while there is one, no other goes there.
#[derive(Debug)]
pub struct Trial<'a>(&'a Server);

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        self.0.is_tried.store(false, Relaxed);
    }
}

impl Server {
    /// These servers, as nobody has seen them yet.
    pub fn all(names: &[String]) -> Arc<[Self]> {
        let together = Arc::<Together>::default();
        let server = |name: &String| Self {
            name: name.as_str().into(),
            health: Health::default(),
            together: Arc::clone(&together),
            count: names.len() as u64,
            is_tried: AtomicBool::new(false),
            answers: Default::default(),
            failures: Default::default(),
            ends: Default::default(),
        };
        names.iter().map(server).collect()
    }

    /// What it has in common with the others.
    pub fn together(&self) -> &Together {
        &self.together
    }

    /// Leave to ask it though it is down: where no server is well one may be so only seemingly. Nothing where somebody has it.
    pub fn try_anyway(&self) -> Option<Trial<'_>> {
        (!self.is_tried.swap(true, Relaxed)).then_some(Trial(self))
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
        let Some(turn) = self.health.saw(sign) else { return };
        let Together { down, all_down, lines } = &*self.together;
        let (server, now) = (&*self.name, Instant::now());
        match turn {
            Turn::Down => {
                if down.fetch_add(1, Relaxed) + 1 == self.count {
                    all_down.fetch_add(1, Relaxed);
                }
                if let Some(unlogged) = lines.pass(&[server, "down"], now) {
                    tracing::warn!(server, unlogged, "a legacy server is down: it gets no requests");
                }
            }
            Turn::Up => {
                down.fetch_sub(1, Relaxed);
                if let Some(unlogged) = lines.pass(&[server, "up"], now) {
                    tracing::info!(server, unlogged, "a legacy server is up again");
                }
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Arc<[Server]> {
        Server::all(&["a:1".to_owned(), "b:1".to_owned()])
    }

    #[test]
    fn one_that_is_down_for_its_probes_comes_back_by_them_alone() {
        let server = &two()[0];
        for _ in 0..3 {
            server.saw(Sign::Fails);
        }
        server.answered(StatusCode::OK);
        assert!(!server.health.is_up());
        server.saw(Sign::Answers);
        assert!(server.health.is_up());
    }

    #[test]
    fn an_answer_that_says_that_it_cannot_serve_says_nothing_good_of_it() {
        let server = &two()[0];
        for _ in 0..3 {
            server.saw(Sign::Fails);
            server.answered(StatusCode::SERVICE_UNAVAILABLE);
        }
        assert!(!server.health.is_up());
        let server = &two()[1];
        for _ in 0..3 {
            server.saw(Sign::Fails);
            server.answered(StatusCode::NOT_FOUND);
        }
        assert!(server.health.is_up());
    }

    #[test]
    fn it_is_known_how_often_all_were_down_at_once() {
        let servers = two();
        let counted = |number: usize, sign| {
            servers[number].saw(sign);
            servers[0].together().all_down()
        };
        assert_eq!(counted(0, Sign::Refuses), 0);
        assert_eq!(counted(0, Sign::Answers), 0);
        assert_eq!(counted(1, Sign::Refuses), 0);
        assert_eq!(counted(0, Sign::Refuses), 1);
        assert_eq!(counted(0, Sign::Refuses), 1);
        assert_eq!(counted(1, Sign::Answers), 1);
        assert_eq!(counted(1, Sign::Refuses), 2);
    }

    #[test]
    fn one_request_at_a_time_tries_a_server_that_is_down() {
        let server = &two()[0];
        let trial = server.try_anyway();
        assert!(trial.is_some() && server.try_anyway().is_none());
        drop(trial);
        assert!(server.try_anyway().is_some());
    }
}
