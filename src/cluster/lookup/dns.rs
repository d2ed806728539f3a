//! The list as a name's addresses: the members are all that a headless service, or a name with several A records, has.
//!
//! The members are IP addresses of the family of the own one, each with the same port. Ours: Nacos 1.x has plug-ins for
//! that, which write `cluster.conf`.

use std::{
    io,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use tokio::task::JoinHandle;

use super::list::List;
use crate::cluster::Address;

/// How long a look may take. The system's resolver goes on after it; the next look waits for the same answer.
const LIMIT: Duration = Duration::from_secs(5);

/// A name, and the look at it that is under way.
#[derive(Debug)]
pub struct Dns {
    name: String,
    port: u16,
    is_ipv6: bool,
    pub(super) pause: Duration,
    looking: Option<JoinHandle<io::Result<Vec<SocketAddr>>>>,
}

impl Dns {
    /// The members are `name`'s addresses with `port`, of the family of the node's own address.
    #[must_use]
    pub fn new(name: String, port: u16, own: &Address, pause: Duration) -> Self {
        Self { name, port, is_ipv6: is_ipv6(own), pause, looking: None }
    }

    /// What is looked at, for a person.
    #[must_use]
    pub fn place(&self) -> String {
        format!("the DNS name {}", self.name)
    }

    /// Asks the system's resolver.
    ///
    /// # Errors
    /// Why there are no addresses.
    pub async fn read(&mut self) -> Result<List, String> {
        let (name, port) = (self.name.clone(), self.port);
        let looking = self.looking.get_or_insert_with(|| {
            tokio::spawn(async move { Ok(tokio::net::lookup_host((name, port)).await?.collect()) })
        });
        let Ok(outcome) = tokio::time::timeout(LIMIT, looking).await else {
            return Err(format!("no answer within {} s", LIMIT.as_secs()));
        };
        self.looking = None;
        let addresses = outcome.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        Ok(self.list(&addresses))
    }

    fn list(&self, addresses: &[SocketAddr]) -> List {
        let of_family = addresses.iter().map(|address| address.ip().to_canonical());
        let of_family = of_family.filter(|address| address.is_ipv6() == self.is_ipv6);
        let mut members: Vec<Address> = of_family.map(|address| member(address, self.port)).collect();
        members.sort_unstable();
        members.dedup();
        List { members, ..List::default() }
    }
}

fn is_ipv6(own: &Address) -> bool {
    let bare = own.host().trim_start_matches('[').trim_end_matches(']');
    bare.parse::<Ipv6Addr>().is_ok()
}

fn member(address: IpAddr, port: u16) -> Address {
    Address::new(&SocketAddr::new(address, port).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dns(own: &str) -> Dns {
        Dns::new("localhost".into(), 8848, &Address::new(own), Duration::from_secs(1))
    }

    #[test]
    fn the_members_are_of_the_own_family_and_once() {
        let answer: Vec<SocketAddr> =
            ["10.0.0.9:8848", "10.0.0.10:8848", "10.0.0.9:8848", "[fd00::1]:8848", "[::ffff:10.0.0.8]:8848"]
                .map(|text| text.parse().unwrap())
                .to_vec();
        let texts =
            |own| -> Vec<String> { dns(own).list(&answer).members.iter().map(ToString::to_string).collect() };
        assert_eq!(texts("10.0.0.9:8848"), ["10.0.0.10:8848", "10.0.0.8:8848", "10.0.0.9:8848"]);
        assert_eq!(texts("[fd00::1]:8848"), ["[fd00::1]:8848"]);
    }

    #[tokio::test]
    async fn a_name_is_resolved() {
        let list = dns("127.0.0.1:8848").read().await.unwrap();
        assert_eq!(list.members, [Address::new("127.0.0.1:8848")]);
    }

    #[tokio::test]
    async fn a_name_that_nobody_has_says_why() {
        let own = Address::new("127.0.0.1:1");
        let mut dns = Dns::new("no-such-name.invalid".into(), 1, &own, Duration::from_secs(1));
        assert!(!dns.read().await.unwrap_err().is_empty());
    }
}
