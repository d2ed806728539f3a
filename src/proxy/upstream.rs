//! One address that requests go to, and what is known of it, whichever services and rules name it.

use std::{
    collections::HashMap,
    fmt,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;

use nacre_middleware::{
    pass::Sending,
    pool::{self, Bounds, Origin, Scheme},
};

use super::{
    eject::{self, Failures},
    load::enter,
    outbound::Connector,
    rule::{Ejection, Protocol},
    upload::Upload,
};
use crate::base::{clock::Millis, hash};

/// An address and a port.
pub struct Upstream {
    /// An IP address, IPv6 without brackets, or a name, as it is registered.
    pub host: Box<str>,
    /// From 1 on.
    pub port: u16,
    /// Where it is, if the host is an address.
    pub address: Option<SocketAddr>,
    /// Of both.
    pub hash: u64,
    /// From when on slow start counts.
    since: AtomicU64,
    in_flight: AtomicU32,
    /// What became of requests.
    pub counts: Counts,
    /// Something is in `failures`; a look at this alone costs no lock.
    has_failed: AtomicBool,
    ejected_until: AtomicU64,
    failures: Mutex<(Failures, Option<&'static str>)>,
    /// Connections, by what they are.
    pools: Mutex<Vec<(Way, Pool)>>,
}

/// Kept connections of one kind.
pub type Pool = pool::Upstream<Connector, Sending<Upload>>;

/// What tells kinds of connections to one address and port apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// What is spoken.
    pub protocol: Protocol,
    /// The name in the certificate, if it isn't the address.
    pub tls_name: Option<Box<str>>,
    /// What the name stands for now.
    pub address: SocketAddr,
}

/// Kinds of connections to one upstream at most; at it, the oldest kind goes.
const MOST_WAYS: usize = 8;
/// Connections that are kept for one kind.
const MOST_IDLE: usize = 256;
/// Held by whoever decides about an ejection.
static EJECTING: Mutex<()> = Mutex::new(());

/// What became of requests, since the instance came.
#[derive(Debug, Default)]
pub struct Counts {
    /// That were sent to it.
    pub requests: AtomicU64,
    /// That failed, or were answered 502, 503 or 504.
    pub failures: AtomicU64,
    /// How often it was ejected.
    pub ejections: AtomicU64,
}

impl fmt::Debug for Upstream {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Upstream({self})")
    }
}

impl fmt::Display for Upstream {
    /// `host:port`, as in a URL.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(out, "[{}]:{}", self.host, self.port)
        } else {
            write!(out, "{}:{}", self.host, self.port)
        }
    }
}

impl Upstream {
    fn new(host: &str, port: u16, now: Millis) -> Self {
        Self {
            host: host.into(),
            port,
            address: host.parse().ok().map(|ip: IpAddr| SocketAddr::new(ip.to_canonical(), port)),
            hash: hash::mix(hash::fnv(host.bytes().chain([0]).chain(port.to_be_bytes()))),
            since: AtomicU64::new(now.0),
            in_flight: AtomicU32::new(0),
            counts: Counts::default(),
            has_failed: AtomicBool::new(false),
            ejected_until: AtomicU64::new(0),
            failures: Mutex::default(),
            pools: Mutex::default(),
        }
    }

    /// The connections that go this way.
    #[must_use]
    pub fn pool(&self, way: &Way, connector: &Connector) -> Pool {
        let mut pools = self.pools.lock();
        if let Some((_, pool)) = pools.iter().find(|(known, _)| known == way) {
            return pool.clone();
        }
        // A name that stands for another address now has no connections to the former one.
        pools.retain(|(known, _)| known.address == way.address);
        if pools.len() >= MOST_WAYS {
            pools.remove(0);
        }
        let (scheme, protocol) = match way.protocol {
            Protocol::Http1 => (Scheme::Http, pool::Protocol::Http1),
            Protocol::Http2 => (Scheme::Http, pool::Protocol::Http2),
            Protocol::Https1 => (Scheme::Https, pool::Protocol::Http1),
            Protocol::Https2 => (Scheme::Https, pool::Protocol::Http2),
        };
        let authority = match &way.tls_name {
            Some(name) => format!("{name}:{}", self.port),
            None => self.to_string(),
        };
        let origin = Origin { scheme, authority: authority.into(), address: Some(way.address), protocol };
        // How many may be under way says each rule; nobody waits here.
        let bounds = Bounds {
            max_idle: MOST_IDLE,
            max_in_flight: u32::MAX as usize,
            max_waiting: 0,
            ..Bounds::default()
        };
        let pool = Pool::new(origin, connector.clone(), bounds);
        pools.push((way.clone(), pool.clone()));
        pool
    }

    /// Closes connections that nobody has used for their time.
    pub fn sweep(&self) {
        let pools: Vec<Pool> = self.pools.lock().iter().map(|(_, pool)| pool.clone()).collect();
        pools.iter().for_each(Pool::sweep);
    }

    /// Closes a connection of each kind that nobody uses now.
    pub fn close_idle_ones(&self) {
        let pools: Vec<Pool> = self.pools.lock().iter().map(|(_, pool)| pool.clone()).collect();
        for pool in pools {
            pool.close_an_idle_one();
        }
    }

    /// From when on slow start counts.
    #[must_use]
    pub fn since(&self) -> Millis {
        Millis(self.since.load(Relaxed))
    }

    /// It may be sent requests again, from now on.
    pub fn is_back(&self, now: Millis) {
        self.since.store(now.0, Relaxed);
    }

    /// Requests under way.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Relaxed)
    }

    /// Whether it gets nothing for its failures.
    #[must_use]
    pub fn is_ejected(&self, now: Millis) -> bool {
        now.0 < self.ejected_until.load(Relaxed)
    }

    /// For how many milliseconds more it gets nothing, and why; where that's so.
    #[must_use]
    pub fn ejection(&self, now: Millis) -> Option<(u64, &'static str)> {
        let (failures, reason) = *self.failures.lock();
        failures.is_ejected(now).then(|| (failures.ejected_until.since(now), reason.unwrap_or_default()))
    }

    /// It has answered as it should.
    pub fn succeeded(&self, now: Millis) {
        if self.has_failed.load(Relaxed) {
            let mut failures = self.failures.lock();
            failures.0.succeeded(now);
            self.has_failed.store(failures.0 != Failures::default(), Relaxed);
        }
    }

    /// It has failed for this reason; `others` are those that take its requests.
    pub fn failed<'u>(
        &'u self,
        now: Millis,
        reason: &'static str,
        rule: &Ejection,
        others: impl Iterator<Item = &'u Self>,
    ) {
        self.counts.failures.fetch_add(1, Relaxed);
        let mut failures = self.failures.lock();
        self.has_failed.store(true, Relaxed);
        let mut ejecting = None;
        let may_eject = || {
            // One at a time: two that fail at once see each other.
            ejecting = Some(EJECTING.lock());
            let (mut ejected, mut all) = (0, 1);
            for other in others.filter(|other| !std::ptr::eq(*other, self)) {
                all += 1;
                ejected += usize::from(other.is_ejected(now));
            }
            eject::may_eject(ejected, all, rule.share_percent)
        };
        if let Some(lasts) = failures.0.failed(now, rule, may_eject) {
            failures.1 = Some(reason);
            self.ejected_until.store(failures.0.ejected_until.0, Relaxed);
            drop(ejecting);
            self.counts.ejections.fetch_add(1, Relaxed);
            tracing::warn!(instance = %self, reason, ?lasts, "an instance fails and gets no requests for a while");
        }
    }
}

/// A request under way to an instance.
#[derive(Debug)]
pub struct Slot(Arc<Upstream>);

impl Slot {
    /// Counts one more until it is dropped; none where there are `most`.
    #[must_use]
    pub fn enter(upstream: &Arc<Upstream>, most: u32) -> Option<Self> {
        enter(&upstream.in_flight, most).then(|| Self(Arc::clone(upstream)))
    }

    /// The instance.
    #[must_use]
    pub fn upstream(&self) -> &Arc<Upstream> {
        &self.0
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Relaxed);
    }
}

/// All upstreams that somebody holds: one for each address and port.
#[derive(Debug, Default)]
pub struct Upstreams(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    by_address: HashMap<(Box<str>, u16), Weak<Upstream>>,
    /// Entries from which on those that nobody holds are taken out.
    look_at: usize,
}

impl Upstreams {
    /// The upstream of this address, made at `now` where nobody holds one.
    #[must_use]
    pub fn get(&self, host: &str, port: u16, now: Millis) -> Arc<Upstream> {
        // Addresses of IPv6 may be registered as they stand in a URL.
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let mut known = self.0.lock();
        let entry = known.by_address.entry((host.into(), port)).or_default();
        if let Some(upstream) = entry.upgrade() {
            return upstream;
        }
        let upstream = Arc::new(Upstream::new(host, port, now));
        *entry = Arc::downgrade(&upstream);
        if known.by_address.len() > known.look_at {
            known.by_address.retain(|_, upstream| upstream.strong_count() > 0);
            known.look_at = known.by_address.len() * 2 + 64;
        }
        upstream
    }

    /// Those that somebody holds, by address.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Upstream>> {
        let mut all: Vec<_> = self.0.lock().by_address.values().filter_map(Weak::upgrade).collect();
        all.sort_unstable_by(|one, other| (&one.host, one.port).cmp(&(&other.host, other.port)));
        all
    }
}

#[cfg(test)]
mod tests {
    use std::{num::NonZeroU32, time::Duration};

    use super::*;

    #[test]
    fn an_address_has_one_upstream_for_as_long_as_somebody_holds_it() {
        let upstreams = Upstreams::default();
        let one = upstreams.get("10.0.0.1", 80, Millis(5));
        assert!(Arc::ptr_eq(&one, &upstreams.get("10.0.0.1", 80, Millis(9))));
        assert!(!Arc::ptr_eq(&one, &upstreams.get("10.0.0.1", 81, Millis(9))));
        assert_eq!(upstreams.all().len(), 1);
        for port in 1..10_000 {
            let _ = upstreams.get("10.0.0.2", port, Millis(9));
        }
        assert!(upstreams.0.lock().by_address.len() < 200);
        drop(one);
        assert_eq!(upstreams.get("10.0.0.1", 80, Millis(11)).since(), Millis(11));
        let (plain, bracketed) =
            (upstreams.get("fd00::1", 80, Millis(11)), upstreams.get("[fd00::1]", 80, Millis(11)));
        assert!(Arc::ptr_eq(&plain, &bracketed));
        assert_eq!(bracketed.to_string(), "[fd00::1]:80");
    }

    #[test]
    fn slots_are_bounded_and_come_back() {
        let upstream = Upstreams::default().get("a", 1, Millis(1));
        let slots = [Slot::enter(&upstream, 2), Slot::enter(&upstream, 2)];
        assert!(slots.iter().all(Option::is_some) && Slot::enter(&upstream, 2).is_none());
        drop(slots);
        assert_eq!(upstream.in_flight(), 0);
    }

    #[test]
    fn of_two_that_fail_at_once_one_is_out() {
        let rule = Ejection { after: NonZeroU32::new(1), time: Duration::from_secs(10), share_percent: 100 };
        for round in 1..200 {
            let upstreams = Upstreams::default();
            let both = [upstreams.get("a", 1, Millis(1)), upstreams.get("a", 2, Millis(1))];
            let (now, start) = (Millis(round * 100_000), std::sync::Barrier::new(2));
            std::thread::scope(|scope| {
                for one in &both {
                    scope.spawn(|| {
                        start.wait();
                        one.failed(now, "refused", &rule, both.iter().map(|one| &**one));
                    });
                }
            });
            assert_eq!(both.iter().filter(|one| one.is_ejected(now)).count(), 1);
        }
    }

    #[test]
    fn one_that_fails_is_out_and_the_last_one_never() {
        let upstreams = Upstreams::default();
        let rule = Ejection { after: NonZeroU32::new(2), time: Duration::from_secs(10), share_percent: 100 };
        let (one, other) = (upstreams.get("a", 1, Millis(1)), upstreams.get("a", 2, Millis(1)));
        let now = Millis(100_000);
        for _ in 0..4 {
            one.failed(now, "refused", &rule, [&*one, &*other].into_iter());
            other.failed(now, "refused", &rule, [&*one, &*other].into_iter());
        }
        assert_eq!(one.ejection(now.plus(1_000)), Some((9_000, "refused")));
        assert!(one.is_ejected(now) && !other.is_ejected(now));
        let later = now.plus(10_000);
        assert!(!one.is_ejected(later) && one.ejection(later).is_none());
        one.succeeded(later);
        one.failed(later, "refused", &rule, [&*one, &*other].into_iter());
        assert!(!one.is_ejected(later), "a success ended the trial");
    }
}
