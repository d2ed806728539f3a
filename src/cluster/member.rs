//! A member: its address, its state, and what it says of itself.
//!
//! Pure. Source: Nacos 1.4.8 core module, member.

use std::{fmt, net::Ipv6Addr, sync::Arc};

use md5::{Digest as _, Md5};
use serde_json::{Map, Value};

use crate::config::Mapping;

/// The port of an address that names none.
pub const DEFAULT_PORT: u16 = 8848;

/// The version of Nacos that a member says it is. From 1.4.0 on, 1.x members leave their old protocol.
pub const VERSION: &str = "1.4.8";

/// The number of the protocol among Nacre nodes that this version speaks.
pub const PROTOCOL: u32 = 1;

/// `host:port`, spelled as the member list has it: the text is the identity, and lists are sorted by it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(Arc<str>);

impl Address {
    /// The address with this text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The address that somebody wrote so: an IPv4 address that is written as an IPv6 one is what it is.
    #[must_use]
    pub fn written(text: &str) -> Self {
        let (mapped, rest) = match text.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
            Some((inner, rest)) => (inner.parse().ok().and_then(|ip: Ipv6Addr| ip.to_ipv4_mapped()), rest),
            None => (None, ""),
        };
        mapped.map_or_else(|| Self::new(text), |ip| Self::new(&format!("{ip}{rest}")))
    }

    /// As listed.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As listed, to be kept.
    #[must_use]
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }

    /// What stands before the port: an IPv4 address, an IPv6 address in brackets, or a name.
    #[must_use]
    pub fn host(&self) -> &str {
        self.split().map_or(&*self.0, |(host, _)| host)
    }

    /// What stands behind the last colon, where that is a port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.split().map_or(DEFAULT_PORT, |(_, port)| port)
    }

    fn split(&self) -> Option<(&str, u16)> {
        let (host, port) = self.0.rsplit_once(':')?;
        Some((host, port.parse().ok()?))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// What one node thinks of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// Answers.
    Up,
    /// Failed lately; still owns services.
    Suspicious,
    /// Can't be reached, or was never; owns nothing.
    Down,
}

impl MemberState {
    /// As the wire spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Up => "UP",
            Self::Suspicious => "SUSPICIOUS",
            Self::Down => "DOWN",
        }
    }
}

/// What a Nacre node tells of itself in every report, so that others know it as one (`extendInfo.nacre`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NacreMark {
    /// The number of the protocol that it speaks (`protocol`).
    pub protocol: u32,
    /// Its data aren't loaded yet (`starting`; absent means no).
    pub starting: bool,
    /// It goes in order and owns nothing any more (`leaving`; absent means no).
    pub leaving: bool,
    /// Members that don't answer its forwards in time (`slow`; absent means none).
    pub slow: Vec<Address>,
    /// How many persistent instances and services made by requests it holds, which nobody shares (`persistent`; absent
    /// means 0).
    pub persistent: u64,
    /// How it would spread services (`mapping`: `modulo` or `rendezvous`; absent means modulo).
    pub mapping: Mapping,
    /// The digest of its list of members (`list`; absent says nothing): see [`digest_of`].
    pub list: Option<Box<str>>,
}

/// Says whether two nodes have the same list of members, given in the order of their texts.
#[must_use]
pub fn digest_of(listed: &[Address]) -> Box<str> {
    let mut digest = Md5::new();
    for address in listed {
        digest.update(address.as_str());
        digest.update("\n");
    }
    let first: u64 = digest.finalize().iter().take(8).fold(0, |first, byte| first << 8 | u64::from(*byte));
    format!("{first:016x}").into()
}

/// What a member says of itself: the body of a report, and what `/v1/core/cluster/nodes` shows of it.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberReport {
    /// `ip`: the host of its address as it spells it.
    pub ip: String,
    /// `port`.
    pub port: u16,
    /// `state`: as it sees itself, `UP`.
    pub state: String,
    /// `address`: who it is.
    pub address: Address,
    /// `extendInfo.version`: the Nacos version that it speaks. A member that never told one is older than 1.4.
    pub version: Option<String>,
    /// `extendInfo.nacre`: only a Nacre node has it.
    pub nacre: Option<NacreMark>,
    /// All other members of `extendInfo`, kept to be shown: `raftPort`, `lastRefreshTime`, `site` and whatever else.
    /// Whoever reads a report bounds its size.
    pub extend_info: Map<String, Value>,
}

impl MemberReport {
    /// What the node of this address says of itself while it serves; `mark` tells the rest.
    #[must_use]
    pub fn of_nacre(address: &Address, mark: NacreMark) -> Self {
        let raft_port = address.port().saturating_sub(1_000);
        let mut extend_info = Map::new();
        extend_info.insert("raftPort".into(), raft_port.to_string().into());
        Self {
            ip: address.host().to_owned(),
            port: address.port(),
            state: MemberState::Up.as_str().to_owned(),
            address: address.clone(),
            version: Some(VERSION.to_owned()),
            nacre: Some(mark),
            extend_info,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for (text, host, port) in [
            ("10.0.0.1:8849", "10.0.0.1", 8849),
            ("[2001:db8::1]:1", "[2001:db8::1]", 1),
            ("nacos-0.nacos:8848", "nacos-0.nacos", 8848),
            ("nacos-0", "nacos-0", 8848),
            ("nacos:x", "nacos:x", 8848),
        ] {
            let address = Address::new(text);
            assert_eq!((address.host(), address.port()), (host, port), "{text}");
        }
    }

    #[test]
    fn lists_have_one_digest_where_they_are_the_same() {
        let digest =
            |texts: &[&str]| digest_of(&texts.iter().map(|text| Address::new(text)).collect::<Vec<_>>());
        assert_eq!(digest(&["a:1", "b:1"]), digest(&["a:1", "b:1"]));
        let others = [&["a:1"][..], &["a:1b:1"], &["a:1", "b:1", "c:1"], &[]].map(digest);
        assert!(!others.contains(&digest(&["a:1", "b:1"])));
        assert_eq!(others[0].len(), 16);
    }

    #[test]
    fn an_ipv4_address_written_as_an_ipv6_one_is_what_it_is() {
        for (text, address) in [
            ("[::ffff:10.0.0.1]:8849", "10.0.0.1:8849"),
            ("[::FFFF:a00:1]:8849", "10.0.0.1:8849"),
            ("[::ffff:10.0.0.1]", "10.0.0.1"),
            ("[::10.0.0.1]:1", "[::10.0.0.1]:1"),
            ("[2001:DB8::1]:1", "[2001:DB8::1]:1"),
            ("nacos-0:1", "nacos-0:1"),
        ] {
            assert_eq!(Address::written(text).as_str(), address, "{text}");
        }
    }

    #[test]
    fn a_report_of_ours_has_what_a_1x_member_needs() {
        let report = MemberReport::of_nacre(&Address::new("10.0.0.1:8848"), NacreMark::default());
        assert_eq!(report.extend_info["raftPort"], "7848");
        assert_eq!((report.ip.as_str(), report.port, report.state.as_str()), ("10.0.0.1", 8848, "UP"));
    }
}
