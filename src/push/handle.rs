//! The handle through which endpoints subscribe clients and see what pushes came to.
//!
//! Writes the subscribers and the queue of names to resolve; sends nothing. Source: Nacos 1.4.8 naming module, push
//! service; compat files `push`, `service-subscribers`, `operator-state`. The rule of targets and the bounds are ours.

use std::{
    io::Read as _,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::{
    Stats,
    payload::{Gauge, Packet},
    resolver::{self, HostName},
    subscriber::{Asked, Details, Host, Subscriber, Target},
    subscribers::{NotTaken, Subscribers},
    targets,
    unacked::Unacked,
};
use crate::{
    base::clock::Millis,
    config::{PushSettings, PushTargets},
    model::{ServiceKey, registry::Place},
};

/// Packets are kept for sending again as long as all of them have at most this many bytes.
const MOST_UNACKED_BYTES: usize = 64 << 20;
/// Names that wait to be resolved, at most; a further one isn't subscribed.
const MOST_WAITING_NAMES: usize = 1_024;
/// What [`Push::state`] tells of packets ends at this many bytes.
const MOST_DETAIL_BYTES: u64 = 4 << 20;

/// Subscribes clients. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Push(pub(super) Arc<Shared>);

#[derive(Debug)]
pub(super) struct Shared {
    pub settings: PushSettings,
    pub subscribers: Subscribers,
    pub unacked: Mutex<Unacked>,
    pub stats: Stats,
    pub gauge: Gauge,
    names: mpsc::Sender<Arc<Subscriber>>,
    /// Taken by the task that resolves.
    pub waiting_names: Mutex<Option<mpsc::Receiver<Arc<Subscriber>>>>,
}

/// A list that was asked for with a `udpPort`, by an agent that understands pushes.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The service; it need not exist.
    pub place: Place<'a>,
    /// Names separated by commas, or empty for all clusters.
    pub clusters: &'a str,
    /// `dom` and `serviceName` shall carry the group.
    pub grouped: bool,
    /// The whole agent text.
    pub agent: &'a str,
    /// The application that the client says it is; may be empty.
    pub app: &'a str,
    /// Where packets shall go, as given: an address, a host name, or empty for the caller.
    pub host: &'a str,
    /// The port there, as given.
    pub port: i32,
    /// Where the question came from.
    pub caller: IpAddr,
}

/// What `GET /operator/push/state` shows.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Packets of which no failure is known: `total` without those that wait or failed.
    pub succeed: u64,
    /// Packets sent since the start.
    pub total: u64,
    /// The packets that wait for their acknowledgement and those that failed last, as JSON texts.
    pub packets: Vec<String>,
}

impl Push {
    /// Without subscribers. Nothing is sent until a [`super::Sender`] runs with it.
    #[must_use]
    pub fn new(settings: &PushSettings) -> Self {
        let lifetime_ms = u64::try_from(settings.subscription.as_millis()).unwrap_or(u64::MAX);
        let (names, waiting_names) = mpsc::channel(MOST_WAITING_NAMES);
        Self(Arc::new(Shared {
            subscribers: Subscribers::new(settings.max_subscribers, lifetime_ms),
            unacked: Mutex::new(Unacked::new(settings.max_unacked, MOST_UNACKED_BYTES)),
            stats: Stats::default(),
            gauge: Gauge::default(),
            settings: settings.clone(),
            names,
            waiting_names: Mutex::new(Some(waiting_names)),
        }))
    }

    /// Subscribes who asks, or renews the subscription; false where it isn't taken: by the rule of targets, at a
    /// bound, or since the port or the host can't be one.
    ///
    /// A host name is resolved later; until then it counts as taken.
    #[must_use]
    pub fn subscribe(&self, question: &Question<'_>, now: Millis) -> bool {
        let taken = self.try_subscribe(question, now);
        if !taken {
            self.0.stats.refused.count();
        }
        taken
    }

    fn try_subscribe(&self, question: &Question<'_>, now: Millis) -> bool {
        let Some(port) = u16::try_from(question.port).ok().filter(|port| *port > 0) else { return false };
        let Some(host) = read_host(question.host, question.caller) else { return false };
        if let Host::Ip(target) = host
            && !targets::is_allowed(self.targets(), target, question.caller)
        {
            return false;
        }
        let Question { place, clusters, agent, .. } = *question;
        let asked = Asked { place, clusters, host, port, agent };
        if let Some(taken) = self.0.subscribers.renew(&asked, now, |known| self.is_still_taken(known, now)) {
            return taken;
        }
        let target = match host {
            Host::Ip(ip) => Target::Address(SocketAddr::new(ip, port)),
            Host::Name(name) => Target::Name(HostName::new(name, port)),
        };
        let details =
            Details { target, grouped: question.grouped, app: question.app, caller: question.caller };
        match self.0.subscribers.add(&asked, details, now) {
            Ok(subscriber) => match &subscriber.target {
                Target::Address(_) => true,
                Target::Name(named) => named.is_known() || self.resolve(named, &subscriber, now),
            },
            Err(NotTaken::Full | NotTaken::TooManyShapes | NotTaken::TooLong) => false,
        }
    }

    fn targets(&self) -> PushTargets {
        self.0.settings.targets
    }

    /// Whether a known subscriber gets pushes; names are resolved anew from time to time.
    fn is_still_taken(&self, subscriber: &Arc<Subscriber>, now: Millis) -> bool {
        match &subscriber.target {
            Target::Address(_) => true,
            Target::Name(named) => match named.look(now) {
                resolver::Look::Taken => true,
                resolver::Look::Refused => false,
                resolver::Look::Ask => self.resolve(named, subscriber, now),
            },
        }
    }

    fn resolve(&self, named: &HostName, subscriber: &Arc<Subscriber>, now: Millis) -> bool {
        let waits = self.0.names.try_send(Arc::clone(subscriber)).is_ok();
        if !waits {
            named.refuse(now);
        }
        waits
    }

    /// Calls `each` with every subscriber whose time isn't over, in no order.
    pub fn for_each_subscriber(&self, now: Millis, each: impl FnMut(&Arc<Subscriber>)) {
        self.0.subscribers.for_each_live(now, each);
    }

    /// How many subscribers there are.
    #[must_use]
    pub fn subscriber_count(&self) -> usize {
        self.0.subscribers.len()
    }

    /// How many packets wait for their acknowledgement.
    #[must_use]
    pub fn waiting_count(&self) -> usize {
        self.0.unacked.lock().len()
    }

    /// Whether anybody listens to this service.
    #[must_use]
    pub fn has_audience(&self, service: &ServiceKey) -> bool {
        self.0.subscribers.has_audience(service)
    }

    /// Counters since the start.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.0.stats
    }

    /// What `GET /operator/push/state` shows; the packets only where `detail` is wanted, and no more than some MiB.
    #[must_use]
    pub fn state(&self, detail: bool) -> State {
        let unacked = self.0.unacked.lock();
        let total = self.0.stats.sent.get();
        let succeed = total.saturating_sub(unacked.failed() + unacked.len() as u64);
        let packets: Vec<Arc<Packet>> =
            if detail { unacked.packets().cloned().collect() } else { Vec::new() };
        drop(unacked);
        State { succeed, total, packets: texts(&packets) }
    }

    /// Forgets the packets that failed.
    pub fn forget_failed(&self) {
        self.0.unacked.lock().forget_failed();
    }
}

/// The packets' texts, as many as fit into the bound.
fn texts(packets: &[Arc<Packet>]) -> Vec<String> {
    let mut texts = Vec::new();
    let mut left = MOST_DETAIL_BYTES;
    for packet in packets {
        let mut text = Vec::new();
        let read = match packet.bytes() {
            bytes @ [0x1f, 0x8b, ..] => flate2::read::GzDecoder::new(bytes).take(left).read_to_end(&mut text),
            bytes => bytes.take(left).read_to_end(&mut text),
        };
        left = left.saturating_sub(text.len() as u64);
        if left == 0 || read.is_err() {
            break;
        }
        texts.push(String::from_utf8_lossy(&text).into_owned());
    }
    texts
}

/// A host as a client names it; nothing where it can't be one.
fn read_host(text: &str, caller: IpAddr) -> Option<Host<'_>> {
    if text.is_empty() {
        return Some(Host::Ip(caller.to_canonical()));
    }
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return Some(Host::Ip(ip.to_canonical()));
    }
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    (text.len() <= 253 && text.bytes().all(is_letter)).then_some(Host::Name(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(change: impl FnOnce(&mut PushSettings)) -> Push {
        let mut settings = PushSettings::default();
        change(&mut settings);
        Push::new(&settings)
    }

    fn question<'a>(host: &'a str, port: i32) -> Question<'a> {
        Question {
            place: Place { namespace: "public", name: "G@@a" },
            clusters: "",
            grouped: true,
            agent: "Nacos-Java-Client:v1.4.8",
            app: "shop",
            host,
            port,
            caller: IpAddr::from([198, 51, 100, 7]),
        }
    }

    fn addresses(push: &Push) -> Vec<String> {
        let mut addresses = Vec::new();
        push.for_each_subscriber(Millis(0), |subscriber| addresses.push(subscriber.target.text()));
        addresses.sort();
        addresses
    }

    #[test]
    fn ports_and_hosts_that_can_not_be_are_refused() {
        let push = push(|_| ());
        for port in [0, -5, 65_536, 70_000, i32::MAX] {
            assert!(!push.subscribe(&question("127.0.0.1", port), Millis(0)), "{port}");
        }
        for host in ["8.8.8.8", "0.0.0.0", "a b", "x/y", "[::1", "ü", &"a".repeat(254)] {
            assert!(!push.subscribe(&question(host, 80), Millis(0)), "{host}");
        }
        assert_eq!((push.subscriber_count(), push.stats().refused.get()), (0, 12));
    }

    #[test]
    fn addresses_in_any_spelling_are_one_subscriber() {
        let push = push(|_| ());
        for host in ["127.0.0.1", "::ffff:127.0.0.1", "[::ffff:127.0.0.1]"] {
            assert!(push.subscribe(&question(host, 80), Millis(0)), "{host}");
        }
        assert!(push.subscribe(&question("::1", 65_535), Millis(0)));
        assert_eq!(addresses(&push), ["127.0.0.1:80", "::1:65535"]);
    }

    #[test]
    fn no_host_means_the_caller() {
        let push = push(|settings| settings.targets = PushTargets::Caller);
        assert!(push.subscribe(&question("", 80), Millis(0)));
        assert!(!push.subscribe(&question("127.0.0.1", 80), Millis(0)));
        assert_eq!(addresses(&push), ["198.51.100.7:80"]);
    }

    #[test]
    fn at_the_bound_a_client_is_not_taken() {
        let push = push(|settings| settings.max_subscribers = 1);
        assert!(push.subscribe(&question("127.0.0.1", 80), Millis(0)));
        assert!(!push.subscribe(&question("127.0.0.1", 81), Millis(0)));
        assert!(push.subscribe(&question("127.0.0.1", 80), Millis(0)));
    }

    #[test]
    fn names_wait_in_a_queue_that_ends() {
        let push = push(|_| ());
        for index in 0..MOST_WAITING_NAMES {
            assert!(push.subscribe(&question(&format!("host-{index}"), 80), Millis(0)));
        }
        assert!(!push.subscribe(&question("one-more", 80), Millis(0)));
        assert!(!push.subscribe(&question("one-more", 80), Millis(0)));
        assert!(push.subscribe(&question("host-1", 80), Millis(0)));
    }
}
