//! Who may call the entries of members: they replace whole lists, and nothing in the protocol says who calls.
//!
//! Pure. A caller is a member where its connection comes from the address of a listed one, or from a network that the
//! operator named, or where it carries the header with the secret of all members. Loopback is no exception: a proxy
//! on the same host would open the door to everybody. Ours; Nacos 1.4.8 answers anybody.

use std::{
    collections::HashMap,
    hash::Hash,
    net::IpAddr,
    time::{Duration, Instant},
};

use http::{HeaderMap, HeaderName};
use subtle::ConstantTimeEq as _;

use super::{Address, View};
use crate::config::{ClusterSettings, Network, Secret};

/// A line is logged once in this time for each caller.
const QUIET: Duration = Duration::from_secs(60);
/// Callers that are remembered for that; while there are more within that time, further ones get no line.
const MOST_CALLERS: usize = 1_024;

/// The addresses behind the names among the members' addresses, as they were last resolved.
pub type Resolved = HashMap<Box<str>, Vec<IpAddr>>;

/// What proves a member besides its address.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    networks: Vec<Network>,
    identity: Option<(HeaderName, Secret)>,
}

impl From<&ClusterSettings> for Rules {
    fn from(settings: &ClusterSettings) -> Self {
        let name = settings.identity_key.as_ref().and_then(|name| name.parse().ok());
        let identity = name.zip(settings.identity_value.clone());
        Self { networks: settings.peer_networks.clone(), identity }
    }
}

impl Rules {
    /// Whether a request with these headers, from a connection of `caller`, is a member's.
    #[must_use]
    pub fn prove(&self, view: &View, resolved: &Resolved, caller: IpAddr, headers: &HeaderMap) -> bool {
        self.know(view, resolved, caller) || self.bears_secret(headers)
    }

    /// Whether connections from `caller` are members'.
    #[must_use]
    pub fn know(&self, view: &View, resolved: &Resolved, caller: IpAddr) -> bool {
        let caller = caller.to_canonical();
        let mut listed = view.peers.iter().map(|peer| &peer.address).chain([&view.own]);
        listed.any(|address| is_at(address, resolved, caller))
            || self.networks.iter().any(|network| network.contains(caller))
    }

    /// Compares in a time that doesn't tell how much of a value was right.
    fn bears_secret(&self, headers: &HeaderMap) -> bool {
        let Some((name, secret)) = &self.identity else { return false };
        let secret = secret.reveal().as_bytes();
        !secret.is_empty() && headers.get_all(name).iter().any(|value| value.as_bytes().ct_eq(secret).into())
    }
}

/// Whether connections from `caller` are those of one that was a member a moment ago.
#[must_use]
pub fn is_parting(view: &View, resolved: &Resolved, caller: IpAddr) -> bool {
    let caller = caller.to_canonical();
    view.parting.iter().any(|address| is_at(address, resolved, caller))
}

fn is_at(address: &Address, resolved: &Resolved, caller: IpAddr) -> bool {
    match literal(address.host()) {
        Some(address) => address == caller,
        None => resolved.get(address.host()).is_some_and(|addresses| addresses.contains(&caller)),
    }
}

/// The IP address that a host is, in brackets or not.
#[must_use]
pub fn literal(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.parse().ok().map(|address: IpAddr| address.to_canonical())
}

/// Which refusals are worth a line, by caller or by caller and kind.
#[derive(Debug)]
pub struct Refusals<K = IpAddr> {
    told: HashMap<K, Instant>,
}

impl<K> Default for Refusals<K> {
    fn default() -> Self {
        Self { told: HashMap::new() }
    }
}

impl<K: Eq + Hash> Refusals<K> {
    /// Whether the refusal of `caller` at `now` is logged: once a minute for each, for so many at a time.
    pub fn pass(&mut self, caller: K, now: Instant) -> bool {
        let is_old = |told: &Instant| now.saturating_duration_since(*told) >= QUIET;
        if self.told.get(&caller).is_some_and(|told| !is_old(told)) {
            return false;
        }
        if self.told.len() >= MOST_CALLERS {
            self.told.retain(|_, told| !is_old(told));
        }
        let has_room = self.told.len() < MOST_CALLERS;
        if has_room {
            self.told.insert(caller, now);
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cluster::{Mapping, MemberState, Peer, Standing},
        config::{Sources, load},
    };

    /// Rules of these settings.
    fn rules(set: &[&str]) -> Rules {
        let set = set.iter().map(ToString::to_string).collect();
        let sources = Sources { set, ..Sources::default() };
        let loaded = load(&sources, &|_| Err(std::io::ErrorKind::NotFound.into())).unwrap();
        (&loaded.settings.cluster).into()
    }

    /// The view of the first, whose peers are the others.
    fn view(members: &[&str]) -> View {
        let mut addresses = members.iter().map(|text| Address::new(text));
        let own = addresses.next().unwrap();
        let peers = addresses.map(|address| Peer::new(address, MemberState::Down)).collect();
        View::new(own, Standing::Serving, peers, Mapping::Modulo)
    }

    fn proves(rules: &Rules, members: &[&str], caller: &str) -> bool {
        rules.prove(&view(members), &Resolved::new(), caller.parse().unwrap(), &HeaderMap::new())
    }

    const MEMBERS: [&str; 3] = ["10.0.0.1:8848", "10.0.0.2:8848", "[2001:db8::2]:8849"];

    #[test]
    fn a_listed_members_address_is_proof_whatever_its_state_and_port() {
        for member in ["10.0.0.1", "10.0.0.2", "2001:db8::2", "::ffff:10.0.0.2"] {
            assert!(proves(&rules(&[]), &MEMBERS, member), "{member}");
        }
        for other in ["10.0.0.20", "110.0.0.1", "2001:db8::3", "192.0.2.1"] {
            assert!(!proves(&rules(&[]), &MEMBERS, other), "{other}");
        }
    }

    #[test]
    fn who_was_a_member_a_moment_ago_is_known_as_that_alone() {
        let view = view(&MEMBERS).with_parting(["10.0.0.3:8848", "gone:8848"].map(Address::new).to_vec());
        let resolved = Resolved::from([("gone".into(), vec!["10.1.0.9".parse().unwrap()])]);
        for (caller, expected) in
            [("10.0.0.3", true), ("::ffff:10.0.0.3", true), ("10.1.0.9", true), ("10.0.0.4", false)]
        {
            let caller = caller.parse().unwrap();
            assert_eq!(is_parting(&view, &resolved, caller), expected, "{caller}");
            assert!(!rules(&[]).know(&view, &resolved, caller), "{caller}");
        }
        assert!(!is_parting(&view, &resolved, "10.0.0.2".parse().unwrap()), "it is a member");
    }

    #[test]
    fn loopback_is_proof_only_where_it_is_listed_or_named() {
        for local in ["127.0.0.1", "127.0.0.2", "::1", "::ffff:127.0.0.1"] {
            assert!(!proves(&rules(&[]), &MEMBERS, local), "{local}");
        }
        assert!(proves(&rules(&[]), &["127.0.0.1:8848", "127.0.0.2:8848"], "127.0.0.2"));
        assert!(!proves(&rules(&[]), &["127.0.0.1:8848", "127.0.0.2:8848"], "127.0.0.3"));
        let named = rules(&["nacre.peer.networks=127.0.0.0/8"]);
        assert!(proves(&named, &MEMBERS, "127.0.0.1"));
        assert!(!proves(&named, &MEMBERS, "128.0.0.1"));
    }

    #[test]
    fn a_listed_name_counts_by_its_addresses() {
        let resolved = Resolved::from([
            ("nacos-0.nacos".into(), vec!["10.1.0.1".parse().unwrap()]),
            ("gone".into(), vec!["10.1.0.9".parse().unwrap()]),
        ]);
        let view = view(&["10.0.0.1:8848", "nacos-0.nacos:8848", "nacos-1.nacos:8848"]);
        let know = |caller: &str| rules(&[]).know(&view, &resolved, caller.parse().unwrap());
        assert_eq!([know("10.1.0.1"), know("10.1.0.9"), know("10.1.0.2")], [true, false, false]);
    }

    #[test]
    fn the_secret_of_the_members_is_proof_from_anywhere() {
        let rules = rules(&[
            "nacos.core.auth.server.identity.key=Who",
            "nacos.core.auth.server.identity.value=s3cret",
        ]);
        let proves = |headers: &[(&'static str, &'static str)]| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(*name, value.parse().unwrap());
            }
            rules.prove(&view(&MEMBERS), &Resolved::new(), [192, 0, 2, 1].into(), &map)
        };
        assert!(proves(&[("who", "s3cret")]));
        assert!(proves(&[("who", "other"), ("who", "s3cret")]));
        for wrong in ["", "s3cre", "s3cret0", "S3cret"] {
            assert!(!proves(&[("who", wrong)]), "{wrong}");
        }
        assert!(!proves(&[("x-who", "s3cret")]));
        assert!(!proves(&[]));
    }

    #[test]
    fn without_a_secret_no_header_is_proof() {
        for set in [&[][..], &["nacos.core.auth.server.identity.key=who"]] {
            let mut headers = HeaderMap::new();
            headers.insert("who", "".parse().unwrap());
            let caller = [192, 0, 2, 1].into();
            assert!(!rules(set).prove(&view(&MEMBERS), &Resolved::new(), caller, &headers));
        }
    }

    #[test]
    fn each_kind_of_what_a_caller_sends_gets_its_own_line() {
        let (mut malformed, start) = (Refusals::default(), Instant::now());
        let caller = IpAddr::from([10, 0, 0, 2]);
        let passed = [("datum", 0), ("datum", 1), ("verify", 1), ("datum", 60)]
            .map(|(kind, s)| malformed.pass((caller, kind), start + Duration::from_secs(s)));
        assert_eq!(passed, [true, false, true, true]);
    }

    #[test]
    fn a_caller_gets_a_line_a_minute_and_so_many_callers_at_a_time() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        let caller = |number: u32| IpAddr::from(number.to_be_bytes());
        assert!(refusals.pass(caller(1), start));
        assert!(!refusals.pass(caller(1), start + Duration::from_secs(59)));
        assert!(refusals.pass(caller(1), start + QUIET));
        let passed = (2..5_000).filter(|number| refusals.pass(caller(*number), start + QUIET)).count();
        assert_eq!((passed, refusals.told.len()), (MOST_CALLERS - 1, MOST_CALLERS));
        assert!(refusals.pass(caller(5_000), start + QUIET * 2));
        assert_eq!(refusals.told.len(), 1);
    }
}
