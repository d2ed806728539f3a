//! Addresses of names: instances may be registered by name, and a name's address changes when its host is replaced.
//!
//! A name is looked up by one task at a time, however many ask and however soon they give up; where that takes long, or fails,
//! the address that was known goes on being used.

use std::{
    collections::HashMap,
    fmt, io,
    net::{IpAddr, SocketAddr, ToSocketAddrs as _},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};

/// How long an address counts.
const TTL: Duration = Duration::from_secs(10);
/// Names that are kept; at it, those that are older than [`TTL`] go, then all.
const MOST_NAMES: usize = 10_000;
/// Lookups at a time: one that hangs keeps a thread that the store and files need, too.
const MOST_LOOKUPS: usize = 32;
/// How long a name that couldn't be looked up isn't looked up again, and how long a lookup is waited for.
const PAUSE: Duration = Duration::from_secs(1);

type Resolve = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// What names are known to stand for.
pub struct Names {
    known: Mutex<HashMap<Box<str>, Arc<Name>>>,
    lookups: Arc<Semaphore>,
    resolve: Arc<Resolve>,
}

impl fmt::Debug for Names {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Names({})", self.known.lock().len())
    }
}

impl Default for Names {
    /// As the system resolves them.
    fn default() -> Self {
        Self::new(|host| Ok((host, 0).to_socket_addrs()?.map(|address| address.ip()).collect()))
    }
}

#[derive(Debug, Default)]
struct Name {
    looked: Mutex<Looked>,
    /// A lookup has ended.
    news: Notify,
}

#[derive(Debug, Default)]
struct Looked {
    address: Option<(IpAddr, Instant)>,
    failed: Option<(io::ErrorKind, Instant)>,
    /// A lookup is under way.
    since: Option<Instant>,
}

/// What is to be done for an address.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    Known(IpAddr),
    Failed(io::ErrorKind),
    /// Somebody looks it up.
    Wait,
    /// It is to be looked up.
    Anew,
}

impl Looked {
    fn look(&self, now: Instant) -> Look {
        let known = self.address.map(|(ip, _)| Look::Known(ip));
        if let Some((ip, at)) = self.address
            && now - at < TTL
        {
            return Look::Known(ip);
        }
        match (self.failed, self.since) {
            (Some((kind, at)), _) if now - at < PAUSE => known.unwrap_or(Look::Failed(kind)),
            (_, Some(since)) if now - since >= PAUSE => {
                known.unwrap_or(Look::Failed(io::ErrorKind::TimedOut))
            }
            (_, Some(_)) => Look::Wait,
            (_, None) => Look::Anew,
        }
    }
}

impl Names {
    fn new(resolve: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static) -> Self {
        Self {
            known: Mutex::default(),
            lookups: Arc::new(Semaphore::new(MOST_LOOKUPS)),
            resolve: Arc::new(resolve),
        }
    }

    /// The address of a host that is registered by name, within `limit`.
    ///
    /// # Errors
    /// None is known, and there is none, or the name server doesn't answer in time.
    pub async fn address(&self, host: &str, port: u16, limit: Duration) -> io::Result<SocketAddr> {
        let name = self.name(host);
        let end = Instant::now() + limit.min(PAUSE);
        loop {
            let mut news = pin!(name.news.notified());
            // From before the look on, so that none is missed.
            news.as_mut().enable();
            let look = {
                let mut looked = name.looked.lock();
                let now = Instant::now();
                let look = looked.look(now);
                if look == Look::Anew {
                    looked.since = Some(now);
                }
                look
            };
            match look {
                Look::Known(ip) => return Ok(SocketAddr::new(ip, port)),
                Look::Failed(kind) => return Err(kind.into()),
                Look::Wait => {}
                Look::Anew => self.look_up(host, &name),
            }
            if tokio::time::timeout_at(end, news).await.is_err() {
                let known = name.looked.lock().address.map(|(ip, _)| SocketAddr::new(ip, port));
                return known
                    .ok_or_else(|| io::Error::new(io::ErrorKind::TimedOut, "no answer of a name server"));
            }
        }
    }

    /// Looks a name up, in a task of its own: whoever asked may give up long before the system does.
    fn look_up(&self, host: &str, name: &Arc<Name>) {
        let (lookups, resolve) = (Arc::clone(&self.lookups), Arc::clone(&self.resolve));
        let (host, name) = (host.to_owned(), Arc::clone(name));
        tokio::spawn(async move {
            let _permit = lookups.acquire().await;
            let resolving = tokio::task::spawn_blocking(move || resolve(&host));
            let found = resolving.await.unwrap_or_else(|error| Err(error.into()));
            let now = Instant::now();
            let mut looked = name.looked.lock();
            looked.since = None;
            match found.map(|all| chosen(&all, looked.address.map(|(ip, _)| ip))) {
                Ok(Some(ip)) => (looked.address, looked.failed) = (Some((ip, now)), None),
                Ok(None) => looked.failed = Some((io::ErrorKind::NotFound, now)),
                Err(error) => looked.failed = Some((error.kind(), now)),
            }
            drop(looked);
            name.news.notify_waiters();
        });
    }

    fn name(&self, host: &str) -> Arc<Name> {
        let mut names = self.known.lock();
        if let Some(name) = names.get(host) {
            return Arc::clone(name);
        }
        if names.len() >= MOST_NAMES {
            let is_young = |name: &Arc<Name>| {
                let looked = name.looked.lock();
                looked.since.is_some() || looked.address.is_some_and(|(_, at)| at.elapsed() < TTL)
            };
            names.retain(|_, name| is_young(name));
            if names.len() >= MOST_NAMES {
                names.clear();
            }
        }
        Arc::clone(names.entry(host.into()).or_default())
    }
}

/// The one before while it is among them, else the first, of IPv4 where there is one.
fn chosen(all: &[IpAddr], before: Option<IpAddr>) -> Option<IpAddr> {
    let kept = all.iter().find(|ip| Some(**ip) == before);
    kept.or_else(|| all.iter().find(|ip| ip.is_ipv4())).or(all.first()).copied()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    const LIMIT: Duration = Duration::from_millis(500);
    const IP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 9));

    #[tokio::test]
    async fn a_name_is_looked_up_once() {
        let names = Names::default();
        for _ in 0..2 {
            assert!(names.address("localhost", 80, LIMIT).await.unwrap().ip().is_loopback());
        }
        assert_eq!(names.known.lock().len(), 1);
        assert!(names.address("no such name", 80, LIMIT).await.is_err());
    }

    #[tokio::test]
    async fn where_the_name_server_hangs_all_are_told_in_time_and_one_lookup_is_under_way() {
        let (lookups, (release, held)) = (Arc::new(AtomicUsize::new(0)), std::sync::mpsc::channel::<()>());
        let (count, held) = (Arc::clone(&lookups), Mutex::new(held));
        let names = Arc::new(Names::new(move |_| {
            count.fetch_add(1, Relaxed);
            let _ = held.lock().recv();
            Ok(vec![IP])
        }));
        let start = Instant::now();
        for _ in 0..2 {
            let asking: Vec<_> = (0..20)
                .map(|_| {
                    let names = Arc::clone(&names);
                    tokio::spawn(async move { names.address("dead", 80, LIMIT).await })
                })
                .collect();
            for asked in asking {
                assert_eq!(asked.await.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
            }
        }
        assert!(start.elapsed() < LIMIT * 5, "{:?}", start.elapsed());
        assert_eq!(lookups.load(Relaxed), 1);
        drop(release);
        // What came late is known from then on.
        while names.address("dead", 80, LIMIT).await.is_err() {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn what_was_known_is_used_where_a_lookup_fails_or_takes_long() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let failed = |at| Some((io::ErrorKind::NotFound, at));
        let known = Some((IP, start));
        for (address, failed, since, expected) in [
            (None, None, None, Look::Anew),
            (known, None, None, Look::Anew),
            (Some((IP, after(11))), None, None, Look::Known(IP)),
            (known, failed(after(20)), None, Look::Known(IP)),
            (known, failed(after(19)), None, Look::Anew),
            (None, failed(after(20)), None, Look::Failed(io::ErrorKind::NotFound)),
            (known, failed(after(19)), Some(after(20)), Look::Wait),
            (known, None, Some(after(19)), Look::Known(IP)),
            (None, None, Some(after(19)), Look::Failed(io::ErrorKind::TimedOut)),
        ] {
            let looked = Looked { address, failed, since };
            assert_eq!(looked.look(after(20)), expected, "{looked:?}");
        }
    }

    #[test]
    fn an_address_stays_while_the_name_stands_for_it() {
        let six = IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1_u16]);
        let other = IpAddr::from([10, 0, 0, 1]);
        assert_eq!(chosen(&[six, other, IP], Some(IP)), Some(IP));
        assert_eq!(chosen(&[six, other], Some(IP)), Some(other));
        assert_eq!((chosen(&[six], None), chosen(&[], None)), (Some(six), None));
    }

    #[test]
    fn names_are_bounded() {
        let names = Names::default();
        for at in 0..MOST_NAMES + 5 {
            let _ = names.name(&at.to_string());
        }
        assert!(names.known.lock().len() <= MOST_NAMES);
    }
}
