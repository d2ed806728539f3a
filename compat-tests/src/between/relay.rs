//! Listens in front of a server and carries everything between it and who asks, in the manner that it is given.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::change::Change;
use super::datagrams::Datagrams;
use super::kind::Kind;
use super::line::Line;
use super::message::{Answer, Datagram};
use super::place::{Place, places};
use crate::json::parse;
use crate::shuffle::next;

/// How a relay carries.
#[derive(Debug, Clone, Default)]
pub struct Manner {
    /// Every answer, push and acknowledgement comes later by up to this, which chance decides.
    pub delay: Duration,
    /// This is done.
    pub change: Option<Change>,
    /// Every answer is taken apart and put together again, also where nothing is changed.
    pub rewrite: bool,
}

/// The kinds of answers that came by, with all their places, and how often each came.
pub type Seen = BTreeMap<Kind, (usize, BTreeSet<Place>)>;

/// A relay; it ends when this is dropped.
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// What all its connections share.
pub(super) struct Shared {
    pub server: SocketAddr,
    /// Where it listens itself.
    pub port: u16,
    pub context: String,
    pub manner: Manner,
    pub datagrams: Datagrams,
    /// What the server calls itself, and what it is called by who asks this relay.
    pub names: (String, String),
    pub stop: AtomicBool,
    seen: Mutex<Seen>,
    changed: AtomicU64,
    chance: AtomicU64,
}

impl Relay {
    /// Listens on a free port of 127.0.0.1 for a server and its context path.
    ///
    /// # Errors
    /// If no port can be had.
    pub fn open(server: SocketAddr, context: &str, manner: Manner, seed: u64) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port can be had")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            server,
            port: address.port(),
            context: context.to_owned(),
            manner,
            datagrams: Datagrams::default(),
            names: (server.to_string(), address.to_string()),
            stop: AtomicBool::new(false),
            seen: Mutex::default(),
            changed: AtomicU64::new(0),
            chance: AtomicU64::new(seed),
        });
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if serving.stop.load(Ordering::SeqCst) {
                    break;
                }
                let Ok(stream) = stream else { continue };
                let shared = Arc::clone(&serving);
                thread::spawn(move || connect(&shared, stream));
            }
        });
        Ok(Self { address, shared })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What came by so far.
    pub fn seen(&self) -> Seen {
        self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How often the change was done.
    pub fn changed(&self) -> u64 {
        self.shared.changed.load(Ordering::SeqCst)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1)); // wakes the accept
    }
}

fn connect(shared: &Arc<Shared>, client: TcpStream) {
    match TcpStream::connect_timeout(&shared.server, Duration::from_secs(10)) {
        Ok(server) => Line::carry(shared, client, server),
        Err(_) => drop(client.shutdown(Shutdown::Both)), // as if nobody listened
    }
}

impl Shared {
    /// How much later the next thing comes.
    pub fn lateness(&self) -> Duration {
        if self.manner.delay.is_zero() {
            return Duration::ZERO;
        }
        let step = 0x9E37_79B9_7F4A_7C15;
        let mut state = self.chance.fetch_add(step, Ordering::SeqCst);
        let most = u64::try_from(self.manner.delay.as_millis()).unwrap_or(u64::MAX).max(1);
        Duration::from_millis(next(&mut state) % most)
    }

    /// The bytes of an answer in this manner.
    pub fn answer(&self, method: &str, target: &str, mut answer: Answer) -> Vec<u8> {
        let kind = Kind::of(method, target, &self.context, answer.status);
        self.note(&kind, &answer);
        answer.replace_in_headers(&self.names.0, &self.names.1);
        if let Some(text) = answer.text() {
            let mut here = text.replace(&self.names.0, &self.names.1);
            if target.contains("/cluster/") || target.contains("/servers") {
                let port = |port: u16| format!("\"port\":{port},");
                here = here.replace(&port(self.server.port()), &port(self.port));
            }
            if target.contains("/subscribers") {
                here = self.datagrams.as_asked(&here);
            }
            if here != text {
                answer.set_text(&here);
            }
        }
        if self.manner.change.as_ref().is_some_and(|change| change.to_answer(&kind, &mut answer)) {
            self.changed.fetch_add(1, Ordering::SeqCst);
        } else if self.manner.rewrite {
            let body = answer.text().and_then(|text| parse(&text).ok());
            if let Some(body) = body {
                answer.set_text(&body.written());
            }
        }
        answer.written()
    }

    /// The bytes of a push in this manner.
    pub fn push(&self, data: &[u8]) -> Vec<u8> {
        let mut push = Datagram::read(data);
        let body = push.text().and_then(|text| parse(&text).ok());
        if let Some(body) = &body {
            self.see(Kind::push(), places(body));
        }
        if self.manner.change.as_ref().is_some_and(|change| change.to_push(&mut push)) {
            self.count_change();
            return push.written();
        }
        match body {
            Some(body) if self.manner.rewrite => {
                push.set_text(&body.written());
                push.written()
            }
            _ => data.to_vec(),
        }
    }

    /// The change was done once more.
    pub fn count_change(&self) {
        self.changed.fetch_add(1, Ordering::SeqCst);
    }

    fn note(&self, kind: &Kind, answer: &Answer) {
        let mut found = BTreeSet::from([Place::Status, Place::MediaType]);
        if let Some(text) = answer.text().filter(|text| !text.is_empty()) {
            match parse(&text) {
                Ok(body) => found.extend(places(&body)),
                Err(_) => drop(found.insert(Place::Text)),
            }
        }
        self.see(kind.clone(), found);
    }

    fn see(&self, kind: Kind, places: BTreeSet<Place>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = seen.entry(kind).or_default();
        entry.0 += 1;
        entry.1.extend(places);
    }
}
