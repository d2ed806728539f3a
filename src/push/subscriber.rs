//! One who listens: a service (which need not exist), the clusters it asked for, an address and an agent.
//!
//! Pure: times come in as arguments. Source: Nacos 1.4.8 naming module, push clients; compat files `push`,
//! `service-subscribers`.

use std::{
    hash::{Hash, Hasher},
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use equivalent::Equivalent;

use super::resolver::HostName;
use crate::{
    base::clock::Millis,
    model::{Place, ServiceKey},
};

/// A question that subscribes, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The service.
    pub place: Place<'a>,
    /// Names separated by commas, or empty for all clusters.
    pub clusters: &'a str,
    /// Where the packets shall go.
    pub host: Host<'a>,
    /// The port there.
    pub port: u16,
    /// The whole agent text.
    pub agent: &'a str,
}

/// A host as a client names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host<'a> {
    /// By its address.
    Ip(IpAddr),
    /// By a name that must be resolved.
    Name(&'a str),
}

/// One who listens.
#[derive(Debug)]
pub struct Subscriber {
    /// To what.
    pub service: ServiceKey,
    /// The clusters asked for.
    pub clusters: Arc<str>,
    /// `dom` and `serviceName` carry the group.
    pub grouped: bool,
    /// Its agent text.
    pub agent: Box<str>,
    /// The application that it says it is; may be empty.
    pub app: Box<str>,
    /// Where it called from.
    pub caller: IpAddr,
    /// Where its packets go.
    pub target: Target,
    /// [`Millis`] of its last question, or [`GONE`].
    asked_at: AtomicU64,
    /// `lastRefTime` of the newest packet that was sent to it; 0 before the first.
    pub(super) newest_packet: AtomicU64,
}

/// In the place of the last question: it was swept, and can't be renewed any more.
const GONE: u64 = u64::MAX;

/// Where packets go.
#[derive(Debug)]
pub enum Target {
    /// To this address.
    Address(SocketAddr),
    /// To what a name stands for.
    Name(HostName),
}

impl Target {
    /// The host as the client named it.
    #[must_use]
    pub fn host(&self) -> Host<'_> {
        match self {
            Self::Address(address) => Host::Ip(address.ip()),
            Self::Name(named) => Host::Name(&named.host),
        }
    }

    /// The port there.
    #[must_use]
    pub fn port(&self) -> u16 {
        match self {
            Self::Address(address) => address.port(),
            Self::Name(named) => named.port,
        }
    }

    /// The address, as far as it is known.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Address(address) => Some(*address),
            Self::Name(named) => named.address(),
        }
    }

    /// The host as lists of subscribers show it: its address, or the name until that is known.
    #[must_use]
    pub fn host_text(&self) -> String {
        match (self.address(), self) {
            (Some(address), _) => address.ip().to_string(),
            (None, Self::Name(named)) => named.host.to_string(),
            (None, Self::Address(address)) => address.ip().to_string(),
        }
    }

    /// Host and port with a colon between, as lists of subscribers show them.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}:{}", self.host_text(), self.port())
    }
}

impl Subscriber {
    /// One who asks now; the names come as all who listen to the same share them.
    pub(super) fn new(
        service: ServiceKey,
        clusters: Arc<str>,
        asked: &Asked<'_>,
        details: Details<'_>,
        now: Millis,
    ) -> Self {
        Self {
            service,
            clusters,
            grouped: details.grouped,
            agent: asked.agent.into(),
            app: details.app.into(),
            caller: details.caller,
            target: details.target,
            asked_at: AtomicU64::new(now.0),
            newest_packet: AtomicU64::new(0),
        }
    }

    /// The question that it asks again and again.
    pub(super) fn asked(&self) -> Asked<'_> {
        Asked {
            place: self.service.place(),
            clusters: &self.clusters,
            host: self.target.host(),
            port: self.target.port(),
            agent: &self.agent,
        }
    }

    /// Whether it asked within `lifetime_ms`.
    pub(super) fn is_live(&self, now: Millis, lifetime_ms: u64) -> bool {
        let asked_at = self.asked_at.load(Ordering::Acquire);
        asked_at != GONE && now.since(Millis(asked_at)) <= lifetime_ms
    }

    /// Whether it was swept.
    pub(super) fn is_gone(&self) -> bool {
        self.asked_at.load(Ordering::Acquire) == GONE
    }

    /// Notes a question; false when it was swept meanwhile.
    pub(super) fn renew(&self, now: Millis) -> bool {
        let later = |asked_at| (asked_at != GONE).then_some(now.0.max(asked_at));
        self.asked_at.fetch_update(Ordering::AcqRel, Ordering::Acquire, later).is_ok()
    }

    /// Marks it as swept, and tells whether it wasn't before.
    pub(super) fn end(&self) -> bool {
        self.asked_at.swap(GONE, Ordering::AcqRel) != GONE
    }

    /// Marks it as swept if its last question is too old.
    pub(super) fn expire(&self, now: Millis, lifetime_ms: u64) -> bool {
        let expired =
            |asked_at| (asked_at != GONE && now.since(Millis(asked_at)) > lifetime_ms).then_some(GONE);
        self.asked_at.fetch_update(Ordering::AcqRel, Ordering::Acquire, expired).is_ok()
    }
}

impl PartialEq for Asked<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.port == other.port
            && self.host == other.host
            && self.place == other.place
            && self.clusters == other.clusters
            && self.agent == other.agent
    }
}

impl Hash for Asked<'_> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.place.hash(hasher);
        self.clusters.hash(hasher);
        self.host.hash(hasher);
        self.port.hash(hasher);
        self.agent.hash(hasher);
    }
}

/// What a new subscriber has besides its question.
#[derive(Debug)]
pub struct Details<'a> {
    /// Where its packets go; host and port as in the question.
    pub target: Target,
    /// `dom` and `serviceName` carry the group.
    pub grouped: bool,
    /// The application that it says it is.
    pub app: &'a str,
    /// Where it called from.
    pub caller: IpAddr,
}

/// A subscriber as a key of itself.
#[derive(Clone)]
pub(super) struct Entry(pub Arc<Subscriber>);

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.0.asked() == other.0.asked()
    }
}

impl Eq for Entry {}

impl Hash for Entry {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.0.asked().hash(hasher);
    }
}

impl Equivalent<Entry> for Asked<'_> {
    fn equivalent(&self, entry: &Entry) -> bool {
        *self == entry.0.asked()
    }
}
