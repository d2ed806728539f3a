//! Addresses of names: instances may be registered by name, and a name's address changes when its host is replaced.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long an address counts.
const TTL: Duration = Duration::from_secs(10);
/// Names that are kept; at it, those that are older than [`TTL`] go, then all.
const MOST_NAMES: usize = 10_000;
/// How long a name server may take.
const LIMIT: Duration = Duration::from_secs(3);

/// What names are known to stand for.
#[derive(Debug, Default)]
pub struct Names(Mutex<HashMap<Box<str>, Arc<Name>>>);

/// Whoever asks first looks it up, others wait for it.
#[derive(Debug, Default)]
struct Name(tokio::sync::Mutex<Option<(IpAddr, Instant)>>);

impl Names {
    /// The address of an instance.
    ///
    /// # Errors
    /// There is none, or the name server doesn't answer.
    pub async fn address(&self, host: &str, port: u16) -> io::Result<SocketAddr> {
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(SocketAddr::new(ip.to_canonical(), port));
        }
        let name = self.name(host);
        let mut known = name.0.lock().await;
        if let Some((ip, at)) = *known
            && at.elapsed() < TTL
        {
            return Ok(SocketAddr::new(ip, port));
        }
        let looking = tokio::time::timeout(LIMIT, tokio::net::lookup_host((host, port)));
        let found = looking
            .await
            .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "no answer of a name server"))?;
        let all: Vec<SocketAddr> = found?.collect();
        // The one that was taken stays while it is among them.
        let before = known.map(|(ip, _)| ip);
        let kept = all.iter().find(|address| Some(address.ip()) == before);
        let first = || all.iter().find(|address| address.is_ipv4()).or(all.first());
        let address = kept.or_else(first).ok_or_else(|| io::Error::other("the name has no address"))?;
        *known = Some((address.ip(), Instant::now()));
        Ok(*address)
    }

    fn name(&self, host: &str) -> Arc<Name> {
        let mut names = self.0.lock();
        if let Some(name) = names.get(host) {
            return Arc::clone(name);
        }
        if names.len() >= MOST_NAMES {
            let is_young = |name: &Arc<Name>| {
                name.0.try_lock().map_or(true, |known| known.is_some_and(|(_, at)| at.elapsed() < TTL))
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
        assert!(names.0.lock().is_empty());
        assert!(names.address("localhost", 80).await.unwrap().ip().is_loopback());
        assert_eq!(names.0.lock().len(), 1);
        assert!(names.address("no such name", 80).await.is_err());
    }

    #[test]
    fn names_are_bounded() {
        let names = Names::default();
        for at in 0..MOST_NAMES + 5 {
            let _ = names.name(&at.to_string());
        }
        assert!(names.0.lock().len() <= MOST_NAMES);
    }
}
