//! Host names that clients give as their address, and the task that resolves them.
//!
//! Off the way of the question: the client is taken at once, and a name that turns out to be unresolvable or
//! forbidden is refused at the next question. Look-ups run on a few threads of their own, since the system's resolver
//! blocks and can't be cancelled; one that takes too long counts as failed, whatever comes later.
//! Source: Nacos 1.4.8 naming module resolves while it answers; compat case `push/client-ip-name`.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr, ToSocketAddrs as _},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::{
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt as _},
};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::{
    Push,
    subscriber::{Subscriber, Target},
    targets,
};
use crate::base::clock::{Clock, Millis};

/// A look-up that takes longer counts as failed.
const TIME_OUT: Duration = Duration::from_secs(5);
/// Look-ups at a time, and so threads.
const MOST_LOOKUPS: usize = 8;
/// A name is looked up anew after this many milliseconds, by the next question.
const ANEW_AFTER_MS: u64 = 60_000;
/// A refused name is tried again after this many milliseconds, by the next question.
const RETRY_AFTER_MS: u64 = 30_000;
/// For this many milliseconds what a look-up gave serves all who ask for the same name.
const KEPT_MS: u64 = 10_000;
/// Names whose result is kept, at most.
const MOST_KEPT: usize = 1_024;

/// A host by its name.
#[derive(Debug)]
pub struct HostName {
    /// The name, as given.
    pub host: Box<str>,
    /// The port there.
    pub port: u16,
    resolution: Mutex<Resolution>,
    /// A packet couldn't be sent since the address wasn't known yet.
    missed: AtomicBool,
}

#[derive(Clone, Copy, Debug)]
enum Resolution {
    /// Waits for its first look-up.
    Asked,
    /// It stood for this address at that time.
    Address(IpAddr, Millis),
    /// At that time it couldn't be resolved or mustn't be sent to.
    Refused(Millis),
}

/// What a question finds about a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Packets go there, or will.
    Taken,
    /// They don't.
    Refused,
    /// It must be looked up.
    Ask,
}

impl HostName {
    pub(super) fn new(host: &str, port: u16) -> Self {
        let missed = AtomicBool::new(false);
        Self { host: host.into(), port, resolution: Mutex::new(Resolution::Asked), missed }
    }

    pub(super) fn address(&self) -> Option<SocketAddr> {
        match *self.resolution.lock() {
            Resolution::Address(ip, _) => Some(SocketAddr::new(ip, self.port)),
            Resolution::Asked | Resolution::Refused(_) => None,
        }
    }

    pub(super) fn is_known(&self) -> bool {
        !matches!(*self.resolution.lock(), Resolution::Asked)
    }

    pub(super) fn look(&self, now: Millis) -> Look {
        let mut resolution = self.resolution.lock();
        match *resolution {
            Resolution::Address(ip, at) if now.since(at) > ANEW_AFTER_MS => {
                // Until the next look-up this counts as new, so one question of many asks.
                *resolution = Resolution::Address(ip, now);
                Look::Ask
            }
            Resolution::Refused(at) if now.since(at) > RETRY_AFTER_MS => {
                *resolution = Resolution::Asked;
                Look::Ask
            }
            Resolution::Asked | Resolution::Address(..) => Look::Taken,
            Resolution::Refused(_) => Look::Refused,
        }
    }

    pub(super) fn refuse(&self, now: Millis) {
        *self.resolution.lock() = Resolution::Refused(now);
    }

    /// Notes that a packet would have been sent.
    pub(super) fn miss(&self) {
        self.missed.store(true, Ordering::Release);
    }

    fn note(&self, address: Option<IpAddr>, now: Millis) {
        let resolution = address.map_or(Resolution::Refused(now), |ip| Resolution::Address(ip, now));
        *self.resolution.lock() = resolution;
    }
}

type Found = Result<Arc<[IpAddr]>, ()>;
/// How a name is looked up: the system's way, but in tests.
pub(super) type Lookup = Arc<dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync>;

/// The system's resolver.
pub(super) fn system(host: &str) -> io::Result<Vec<IpAddr>> {
    Ok((host, 0).to_socket_addrs()?.map(|address| address.ip().to_canonical()).collect())
}

/// Resolves the names of new subscribers until nobody can ask any more.
///
/// Those who missed a packet meanwhile are given to `missed`; where that is full they wait for the next change.
pub(super) async fn run(push: Push, clock: Clock, lookup: Lookup, missed: mpsc::Sender<Arc<Subscriber>>) {
    let names = push.0.waiting_names.lock().take();
    let mut names = names.expect("one task runs with a handle, so nobody took this before");
    let threads = Arc::new(Semaphore::new(MOST_LOOKUPS));
    let mut lookups = FuturesUnordered::new();
    let mut under_way: HashMap<Box<str>, Vec<Arc<Subscriber>>> = HashMap::new();
    let mut kept: HashMap<Box<str>, (Found, Millis)> = HashMap::new();
    loop {
        tokio::select! {
            Some((host, found)) = lookups.next() => {
                let now = clock.now();
                if kept.len() >= MOST_KEPT {
                    kept.retain(|_, (_, at)| now.since(*at) <= KEPT_MS);
                }
                if kept.len() < MOST_KEPT {
                    kept.insert(Box::clone(&host), (Found::clone(&found), now));
                }
                for subscriber in under_way.remove(&host).unwrap_or_default() {
                    deliver(&push, &subscriber, &found, now, &missed);
                }
            }
            subscriber = names.recv(), if under_way.len() < MOST_LOOKUPS => {
                let Some(subscriber) = subscriber else { return };
                let Target::Name(named) = &subscriber.target else { continue };
                let now = clock.now();
                if let Some((found, at)) = kept.get(&named.host)
                    && now.since(*at) <= KEPT_MS
                {
                    deliver(&push, &subscriber, found, now, &missed);
                } else if let Some(waiting) = under_way.get_mut(&named.host) {
                    waiting.push(subscriber);
                } else {
                    lookups.push(look_up(Box::clone(&named.host), Arc::clone(&lookup), Arc::clone(&threads)));
                    under_way.insert(Box::clone(&named.host), vec![subscriber]);
                }
            }
        }
    }
}

/// One look-up on a thread of its own, which keeps its permit until the system answers it, however late.
fn look_up(host: Box<str>, lookup: Lookup, threads: Arc<Semaphore>) -> BoxFuture<'static, (Box<str>, Found)> {
    let searched = Box::clone(&host);
    let search = async move {
        let permit = threads.acquire_owned().await.map_err(|_| ())?;
        let (answer, answered) = oneshot::channel();
        let search = move || {
            // Nobody waits any more where it took too long.
            let _ = answer.send(lookup(&searched));
            drop(permit);
        };
        std::thread::Builder::new().name("push-resolve".into()).spawn(search).map_err(|_| ())?;
        let addresses = answered.await.map_err(|_| ())?.map_err(|_| ())?;
        Ok(addresses.into())
    };
    Box::pin(async move { (host, tokio::time::timeout(TIME_OUT, search).await.unwrap_or(Err(()))) })
}

/// Puts what was found into a subscriber's target: the first address that packets may go to, IPv4 before IPv6 as in
/// Java.
fn deliver(
    push: &Push,
    subscriber: &Arc<Subscriber>,
    found: &Found,
    now: Millis,
    missed: &mpsc::Sender<Arc<Subscriber>>,
) {
    let Target::Name(named) = &subscriber.target else { return };
    let rule = push.0.settings.targets;
    let addresses = found.as_deref().unwrap_or_default();
    let mut allowed: Vec<IpAddr> =
        addresses.iter().copied().filter(|ip| targets::is_allowed(rule, *ip, subscriber.caller)).collect();
    allowed.sort_by_key(IpAddr::is_ipv6);
    let address = allowed.first().copied();
    if found.is_err() {
        push.0.stats.unresolved.count();
        tracing::debug!(host = ?named.host, "the address of a subscriber can't be resolved");
    } else if address.is_none() {
        push.0.stats.refused.count();
        tracing::debug!(host = ?named.host, "a subscriber's address isn't one that pushes may go to");
    }
    named.note(address, now);
    if address.is_some() && named.missed.swap(false, Ordering::AcqRel) {
        // Where the queue is full the client sees the change when it asks again.
        let _ = missed.try_send(Arc::clone(subscriber));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config::PushSettings, model::registry::Place, push::Question};

    /// Look-ups of `slow` names don't end as long as what this gives second exists.
    fn lookup() -> (Lookup, std::sync::mpsc::Sender<()>) {
        let (gate, waits) = std::sync::mpsc::channel::<()>();
        let waits = Mutex::new(waits);
        let lookup = move |host: &str| match host.split('.').next() {
            Some("good") => Ok(vec!["::1".parse().unwrap(), "127.0.0.9".parse().unwrap()]),
            Some("far") => Ok(vec!["8.8.8.8".parse().unwrap()]),
            Some("slow") => {
                let _ = waits.lock().recv();
                Ok(vec!["127.0.0.10".parse().unwrap()])
            }
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        (Arc::new(lookup), gate)
    }

    fn ask(push: &Push, host: &str, now: Millis) -> bool {
        push.subscribe(
            &Question {
                place: Place { namespace: "public", name: "G@@a" },
                clusters: "",
                grouped: true,
                agent: "Nacos-Java-Client:v1.4.8",
                app: "",
                host,
                port: 80,
                caller: [127, 0, 0, 1].into(),
            },
            now,
        )
    }

    /// Asks as `host`, as if a packet had been missed at once.
    fn ask_and_miss(push: &Push, host: &str, now: Millis) {
        assert!(ask(push, host, now));
        push.for_each_subscriber(now, |subscriber| {
            if let Target::Name(named) = &subscriber.target {
                named.miss();
            }
        });
    }

    fn of(push: &Push, host: &str, now: Millis) -> Option<String> {
        let mut address = None;
        push.for_each_subscriber(now, |subscriber| {
            if let Target::Name(named) = &subscriber.target
                && *named.host == *host
            {
                address = named.address().map(|address| address.to_string());
            }
        });
        address
    }

    #[tokio::test]
    async fn names_that_hang_or_fail_hold_up_nobody() {
        let (push, clock) = (Push::new(&PushSettings::default()), Clock::set(0));
        let (lookup, slow) = lookup();
        let (missed, mut resolved) = mpsc::channel(8);
        let task = tokio::spawn(run(push.clone(), clock.clone(), lookup, missed));
        assert!(ask(&push, "slow.test", clock.now()));
        for index in 0..20 {
            assert!(ask(&push, &format!("bad.{index}.test"), clock.now()));
        }
        assert!(ask(&push, "far.test", clock.now()));
        ask_and_miss(&push, "good.test", clock.now());
        let subscriber = resolved.recv().await.unwrap();
        assert_eq!(subscriber.target.text(), "127.0.0.9:80", "IPv4 comes first");
        assert_eq!(of(&push, "slow.test", clock.now()), None);
        assert!(ask(&push, "good.test", clock.now()));
        assert!(ask(&push, "slow.test", clock.now()));
        drop(slow);
        task.abort();
    }

    #[tokio::test]
    async fn names_without_an_allowed_address_are_refused_until_they_are_tried_again() {
        let (push, clock) = (Push::new(&PushSettings::default()), Clock::set(0));
        let (missed, mut resolved) = mpsc::channel(8);
        assert!(ask(&push, "far.test", clock.now()));
        assert!(ask(&push, "bad.test", clock.now()));
        let (lookup, _open) = lookup();
        let task = tokio::spawn(run(push.clone(), clock.clone(), lookup, missed));
        while ask(&push, "far.test", clock.now()) || ask(&push, "bad.test", clock.now()) {
            tokio::task::yield_now().await;
        }
        assert_eq!((push.stats().unresolved.get()), 1);
        clock.advance(RETRY_AFTER_MS);
        assert!(!ask(&push, "far.test", clock.now()));
        clock.advance(1);
        assert!(ask(&push, "far.test", clock.now()));
        ask_and_miss(&push, "good.test", clock.now());
        resolved.recv().await.unwrap();
        task.abort();
    }

    #[test]
    fn a_name_is_looked_up_anew_by_one_question_of_many() {
        let named = HostName::new("good.test", 80);
        assert_eq!(named.look(Millis(0)), Look::Taken);
        named.note(Some([127, 0, 0, 1].into()), Millis(0));
        assert_eq!(named.look(Millis(ANEW_AFTER_MS)), Look::Taken);
        assert_eq!(named.look(Millis(ANEW_AFTER_MS + 1)), Look::Ask);
        assert_eq!(named.look(Millis(ANEW_AFTER_MS + 1)), Look::Taken);
        assert!(named.address().is_some(), "the old one serves until the new one is known");
    }
}
