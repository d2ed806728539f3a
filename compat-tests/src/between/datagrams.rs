//! Pushes and acknowledgements through a relay: each UDP port that a subscriber names is replaced by one of the relay's.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use regex::Regex;

use super::change::{How, Lost, Resend};
use super::relay::Shared;

/// How much later what is sent again comes, where it is to come too late.
const RESENT_LATE: Duration = Duration::from_secs(6);

/// What is compressed begins with this; so is what is larger than 1 KiB.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// How soon a carrier notices that it is over.
const LOOK: Duration = Duration::from_millis(200);

/// The relay's ports by those of the subscribers.
#[derive(Debug, Default)]
pub(super) struct Datagrams(Mutex<BTreeMap<u16, u16>>);

impl Datagrams {
    /// A request with the ports of subscribers replaced.
    pub fn asked_by(&self, shared: &Arc<Shared>, text: &str) -> String {
        if !text.contains("udpPort=") {
            return text.to_owned();
        }
        let named = Regex::new(r"udpPort=(\d{1,5})\b").expect("a literal pattern");
        let replaced = named.replace_all(text, |found: &regex::Captures<'_>| {
            let port = found[1].parse().ok().filter(|port| *port > 0);
            port.and_then(|port| self.port_for(shared, port))
                .map_or_else(|| found[0].to_owned(), |port| format!("udpPort={port}"))
        });
        replaced.into_owned()
    }

    /// An answer in which subscribers have their own ports again.
    pub fn as_asked(&self, text: &str) -> String {
        let ports = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ports.iter().fold(text.to_owned(), |text, (asked, ours)| {
            text.replace(&format!("\"port\":{ours},"), &format!("\"port\":{asked},"))
                .replace(&format!("\"port\":{ours}}}"), &format!("\"port\":{asked}}}"))
                .replace(&format!(":{ours}\""), &format!(":{asked}\""))
        })
    }

    fn port_for(&self, shared: &Arc<Shared>, asked: u16) -> Option<u16> {
        let mut ports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(port) = ports.get(&asked) {
            return Some(*port);
        }
        let to_server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
        let to_client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
        for socket in [&to_server, &to_client] {
            socket.set_read_timeout(Some(LOOK)).ok()?;
        }
        let port = to_server.local_addr().ok()?.port();
        ports.insert(asked, port);
        let pusher = Arc::new(Mutex::new(None));
        let carrier = Carrier { shared: Arc::clone(shared), to_server, to_client, pusher };
        let acknowledging = carrier.again().ok()?;
        thread::spawn(move || carrier.pushes(SocketAddr::from((Ipv4Addr::LOCALHOST, asked))));
        thread::spawn(move || acknowledging.acknowledgements());
        Some(port)
    }
}

/// Carries what comes to one port.
struct Carrier {
    shared: Arc<Shared>,
    to_server: UdpSocket,
    to_client: UdpSocket,
    /// Whom acknowledgements go to.
    pusher: Arc<Mutex<Option<SocketAddr>>>,
}

impl Carrier {
    fn again(&self) -> std::io::Result<Self> {
        Ok(Self {
            shared: Arc::clone(&self.shared),
            to_server: self.to_server.try_clone()?,
            to_client: self.to_client.try_clone()?,
            pusher: Arc::clone(&self.pusher),
        })
    }

    fn over(&self) -> bool {
        self.shared.stop.load(Ordering::SeqCst)
    }

    fn pushes(&self, client: SocketAddr) {
        let how = self.shared.manner.change.as_ref().map(|change| change.how);
        let (mut space, mut sent) = (vec![0; 65536], Vec::new());
        while !self.over() {
            let Ok((count, from)) = self.to_server.recv_from(&mut space) else { continue };
            *self.pusher.lock().unwrap_or_else(PoisonError::into_inner) = Some(from);
            let data = space[..count].to_vec();
            thread::sleep(self.shared.lateness());
            let again = sent.contains(&data);
            if !again {
                sent.push(data.clone());
            }
            let copies = match how.and_then(|how| fate(how, sent.len(), again, &data)) {
                None => vec![self.shared.push(&data)],
                Some(fate) => {
                    self.shared.count_change();
                    fate.copies(data)
                }
            };
            for data in copies {
                let _ = self.to_client.send_to(&data, client); // it may have gone
            }
        }
    }

    fn acknowledgements(&self) {
        let deaf =
            self.shared.manner.change.as_ref().map(|change| change.how) == Some(How::Resend(Resend::Unasked));
        let mut space = vec![0; 65536];
        while !self.over() {
            let Ok((count, _)) = self.to_client.recv_from(&mut space) else { continue };
            if deaf {
                self.shared.count_change();
                continue;
            }
            thread::sleep(self.shared.lateness());
            let pusher = *self.pusher.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(pusher) = pusher {
                let _ = self.to_server.send_to(&space[..count], pusher);
            }
        }
    }
}

/// What is done with a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Later(Duration),
    Lost,
    Damaged,
    Twice,
}

impl Fate {
    /// What is sent in its place; where it comes later, this waits.
    fn copies(self, data: Vec<u8>) -> Vec<Vec<u8>> {
        match self {
            Self::Later(wait) => {
                thread::sleep(wait);
                vec![data]
            }
            Self::Lost => Vec::new(),
            Self::Damaged => vec![data[..data.len() / 2].to_vec()],
            Self::Twice => vec![data.clone(), data],
        }
    }
}

/// What is done with the `nth` push of a subscription, which may be one that is sent `again`; nothing special is `None`.
fn fate(how: How, nth: usize, again: bool, data: &[u8]) -> Option<Fate> {
    let lost = |is_lost: bool| is_lost.then_some(Fate::Lost);
    let resent = |fate: Fate| again.then_some(fate);
    match how {
        How::PushLate(seconds) => Some(Fate::Later(Duration::from_secs(seconds))),
        How::PushLost(Lost::All) => Some(Fate::Lost),
        How::PushLost(Lost::First) => lost(nth == 1),
        How::PushLost(Lost::Later) => lost(nth > 1),
        How::PushLost(Lost::Second) => lost(nth.is_multiple_of(2)),
        How::PushLost(Lost::Large) => lost(data.starts_with(&GZIP)),
        How::Resend(Resend::Missing) => resent(Fate::Lost),
        How::Resend(Resend::Damaged) => resent(Fate::Damaged),
        How::Resend(Resend::Late) => resent(Fate::Later(RESENT_LATE)),
        How::Resend(Resend::Double) => resent(Fate::Twice),
        How::Resend(Resend::Unasked) | How::Dropped | How::Retyped | How::Altered => None,
    }
}
