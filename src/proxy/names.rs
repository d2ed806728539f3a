//! Addresses of names: instances may be registered by name, and a name's address changes when its host is replaced.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr, ToSocketAddrs as _},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::Instant};

/// How long an address counts.
const TTL: Duration = Duration::from_secs(10);
/// Names that are kept; at it, those that are older than [`TTL`] go, then all.
const MOST_NAMES: usize = 10_000;
/// How long a name server may take.
const LIMIT: Duration = Duration::from_secs(3);

/// Lookups at a time: one that hangs keeps a thread that the store and files need, too.
const MOST_LOOKUPS: usize = 32;
/// How long a name that couldn't be looked up isn't looked up again.
const PAUSE: Duration = Duration::from_secs(1);

/// What names are known to stand for.
#[derive(Debug)]
pub struct Names {
    known: Mutex<HashMap<Box<str>, Arc<Name>>>,
    lookups: Arc<Semaphore>,
}

impl Default for Names {
    fn default() -> Self {
        Self { known: Mutex::default(), lookups: Arc::new(Semaphore::new(MOST_LOOKUPS)) }
    }
}

/// Whoever asks first looks it up, others wait for it.
type Name = tokio::sync::Mutex<Looked>;

#[derive(Debug, Default)]
struct Looked {
    address: Option<(IpAddr, Instant)>,
    failed: Option<(io::ErrorKind, Instant)>,
}

impl Names {
    /// The address of an instance; the one that was known where the name server doesn't answer.
    ///
    /// # Errors
    /// None is known, and there is none, or the name server doesn't answer.
    pub async fn address(&self, host: &str, port: u16) -> io::Result<SocketAddr> {
        if let Ok(ip) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
            return Ok(SocketAddr::new(ip.to_canonical(), port));
        }
        let name = self.name(host);
        let mut looked = name.lock().await;
        let before = looked.address;
        if let Some((ip, at)) = before
            && at.elapsed() < TTL
        {
            return Ok(SocketAddr::new(ip, port));
        }
        let found = match looked.failed {
            Some((kind, at)) if at.elapsed() < PAUSE => Err(kind.into()),
            _ => self.look_up(host, before.map(|(ip, _)| ip)).await,
        };
        match (found, before) {
            (Ok(ip), _) => {
                *looked = Looked { address: Some((ip, Instant::now())), failed: None };
                Ok(SocketAddr::new(ip, port))
            }
            (Err(error), before) => {
                if looked.failed.is_none_or(|(_, at)| at.elapsed() >= PAUSE) {
                    looked.failed = Some((error.kind(), Instant::now()));
                }
                before.map(|(ip, _)| SocketAddr::new(ip, port)).ok_or(error)
            }
        }
    }

    /// The address of a name; the one before while it is among them.
    async fn look_up(&self, host: &str, before: Option<IpAddr>) -> io::Result<IpAddr> {
        let late = || io::Error::new(io::ErrorKind::TimedOut, "no answer of a name server");
        let lookups = Arc::clone(&self.lookups);
        let host = host.to_owned();
        let looking = async {
            let permit = lookups.acquire_owned().await.map_err(io::Error::other)?;
            let looking = tokio::task::spawn_blocking(move || {
                // Until it has ended, however long nobody waits for it any more.
                let _permit = permit;
                (&*host, 0).to_socket_addrs().map(|all| all.map(|address| address.ip()).collect::<Vec<_>>())
            });
            looking.await.unwrap_or_else(|error| Err(error.into()))
        };
        let all = tokio::time::timeout(LIMIT, looking).await.map_err(|_| late())??;
        let kept = all.iter().find(|ip| Some(**ip) == before);
        let first = || all.iter().find(|ip| ip.is_ipv4()).or(all.first());
        kept.or_else(first).copied().ok_or_else(|| io::Error::other("the name has no address"))
    }

    fn name(&self, host: &str) -> Arc<Name> {
        let mut names = self.known.lock();
        if let Some(name) = names.get(host) {
            return Arc::clone(name);
        }
        if names.len() >= MOST_NAMES {
            let is_young = |name: &Arc<Name>| {
                name.try_lock()
                    .map_or(true, |looked| looked.address.is_some_and(|(_, at)| at.elapsed() < TTL))
            };
            names.retain(|_, name| is_young(name));
            if names.len() >= MOST_NAMES {
                names.clear();
            }
        }
        Arc::clone(names.entry(host.into()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_is_itself_and_a_name_is_looked_up_once() {
        let names = Names::default();
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert_eq!(names.address("10.0.0.1", 80).await.unwrap(), at("10.0.0.1:80"));
        assert_eq!(names.address("::1", 80).await.unwrap(), at("[::1]:80"));
        assert!(names.known.lock().is_empty());
        assert!(names.address("localhost", 80).await.unwrap().ip().is_loopback());
        assert_eq!(names.known.lock().len(), 1);
        assert!(names.address("no such name", 80).await.is_err());
        // What is known goes on being used while it can't be looked up.
        let known = Looked { address: Some(([10, 0, 0, 9].into(), Instant::now())), failed: None };
        *names.name("no such name").lock().await = known;
        tokio::time::pause();
        tokio::time::advance(TTL * 2).await;
        let failed = Some((io::ErrorKind::TimedOut, Instant::now()));
        names.name("no such name").lock().await.failed = failed;
        assert_eq!(names.address("no such name", 80).await.unwrap(), at("10.0.0.9:80"));
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
