//! Who calls, where a proxy stands between.
//!
//! Pure. Ours: Nacos 1.4.8 believes such headers of everybody where it looks at them at all.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderValue};

use super::{Api, V1Call};
use crate::cluster::Standing;

/// The address of the client of a call; members of the cluster and those that the settings name are believed.
#[must_use]
pub fn caller_of(api: &Api, call: &V1Call) -> IpAddr {
    caller_by(api, &call.head.headers, call.peer)
}

/// The same of a request with these headers.
#[must_use]
pub fn caller_by(api: &Api, headers: &HeaderMap, peer: SocketAddr) -> IpAddr {
    let networks = &api.settings.http.trusted_forwarders;
    caller(headers, peer.ip(), |address| {
        networks.iter().any(|network| network.contains(address)) || {
            let view = api.cluster.view_guard();
            view.standing != Standing::Alone && api.doorkeeper.knows(&view, address)
        }
    })
}

/// The address of the client: of the connection's peer, or, where that is trusted, what it says.
///
/// `X-Forwarded-For` is read from its end, as each proxy appends who called it: the first address that isn't trusted
/// is the caller. Where there is none, `X-Real-IP` counts. What isn't an address ends the reading.
fn caller(headers: &HeaderMap, peer: IpAddr, is_trusted: impl Fn(IpAddr) -> bool) -> IpAddr {
    let peer = peer.to_canonical();
    let says_something = || headers.contains_key("x-forwarded-for") || headers.contains_key("x-real-ip");
    if !says_something() || !is_trusted(peer) {
        return peer;
    }
    let forwarded = headers.get_all("x-forwarded-for");
    let texts = forwarded.iter().rev().filter_map(|value| value.to_str().ok());
    let mut hops =
        texts.flat_map(|text| text.rsplit(',')).map(str::trim).filter(|hop| !hop.is_empty()).peekable();
    if hops.peek().is_none() {
        let real = headers.get("x-real-ip").map(HeaderValue::to_str);
        return real.and_then(Result::ok).and_then(read).unwrap_or(peer);
    }
    let mut believed = peer;
    for hop in hops {
        let Some(address) = read(hop) else { break };
        believed = address;
        if !is_trusted(address) {
            break;
        }
    }
    believed
}

/// An address, with or without brackets and port.
fn read(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare =
        text.strip_prefix('[').and_then(|text| text.split_once(']')).map_or(text, |(address, _)| address);
    let address = bare.parse().or_else(|_| bare.parse().map(|address: std::net::SocketAddr| address.ip()));
    address.ok().map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::config::{Network, Sources, load};

    fn trusted() -> Vec<Network> {
        let set = vec!["nacre.forwarded.trust=10.0.0.0/8,fd00::/8".to_string()];
        let sources = Sources { set, ..Sources::default() };
        let loaded = load(&sources, &|_| Err(io::ErrorKind::NotFound.into())).unwrap();
        loaded.settings.http.trusted_forwarders
    }

    fn of(peer: &str, headers: &[(&'static str, &str)]) -> String {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let trusted = trusted();
        let is_trusted = |address| trusted.iter().any(|network| network.contains(address));
        caller(&map, peer.parse().unwrap(), is_trusted).to_string()
    }

    #[test]
    fn only_the_trusted_are_believed() {
        let headers = [("x-forwarded-for", "198.51.100.1"), ("x-real-ip", "198.51.100.2")];
        assert_eq!(of("192.0.2.1", &headers), "192.0.2.1");
        assert_eq!(of("10.0.0.1", &headers), "198.51.100.1");
        assert_eq!(of("::ffff:10.0.0.1", &headers), "198.51.100.1");
        assert_eq!(of("10.0.0.1", &headers[1..]), "198.51.100.2");
        assert_eq!(of("10.0.0.1", &[]), "10.0.0.1");
    }

    #[test]
    fn what_a_client_wrote_itself_before_the_proxies_is_not_believed() {
        let forged = "8.8.8.8, 198.51.100.1, 10.0.0.2";
        assert_eq!(of("10.0.0.1", &[("x-forwarded-for", forged)]), "198.51.100.1");
        let lines = [("x-forwarded-for", "8.8.8.8"), ("x-forwarded-for", "198.51.100.1, fd00::1")];
        assert_eq!(of("10.0.0.1", &lines), "198.51.100.1");
    }

    #[test]
    fn among_trusted_ones_the_first_is_the_caller() {
        assert_eq!(of("10.0.0.1", &[("x-forwarded-for", "10.0.0.9, 10.0.0.2")]), "10.0.0.9");
    }

    #[test]
    fn what_is_no_address_ends_the_reading() {
        assert_eq!(of("10.0.0.1", &[("x-forwarded-for", "8.8.8.8, unknown, 10.0.0.2")]), "10.0.0.2");
        assert_eq!(of("10.0.0.1", &[("x-forwarded-for", "unknown"), ("x-real-ip", "8.8.8.8")]), "10.0.0.1");
        assert_eq!(of("10.0.0.1", &[("x-real-ip", "nonsense")]), "10.0.0.1");
        assert_eq!(of("10.0.0.1", &[("x-forwarded-for", "[2001:db8::1]:443")]), "2001:db8::1");
        assert_eq!(of("10.0.0.1", &[("x-forwarded-for", "198.51.100.1:5060,")]), "198.51.100.1");
    }
}
