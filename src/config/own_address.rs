//! The address by which others know this node.
//!
//! [`choose`] decides from the rules and a list of interfaces; [`find`] asks the machine for that list.
//! Source: Nacos 1.4.8 system module, own address; differences: single-label host names pass, an
//! ignored interface doesn't hide those behind it.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs as _},
};

use super::settings::{OwnAddressRules, Settings};

/// One address of one interface, in the order in which the kernel names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name, e.g. `eth0`.
    pub name: String,
    /// The kernel's number of it; lower ones are asked first.
    pub index: u32,
    /// Whether it is up and running.
    pub is_up: bool,
    /// The address.
    pub address: IpAddr,
}

/// What the machine calls itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostName {
    /// The name, e.g. `nacos-0`.
    pub name: String,
    /// The long form of it, e.g. `nacos-0.nacos.default.svc.cluster.local`, if there is one.
    pub canonical: Option<String>,
    /// What the name resolves to.
    pub address: Option<IpAddr>,
}

/// The own address, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnAddress {
    /// IPv4 address, IPv6 address in brackets, or host name; without port.
    pub host: String,
    /// What gave it.
    pub found_by: FoundBy,
}

/// What gave the own address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundBy {
    /// A setting. It never changes while the node runs.
    Setting,
    /// The machine's name.
    HostName,
    /// The interface of this name.
    Interface(String),
    /// No interface was suitable: what the machine's name resolves to, at worst 127.0.0.1. Others
    /// may not reach it.
    LastResort,
}

/// A node that listens on one address alone is reached by no other: that is the own one, unless a setting names it or asks
/// for the machine's name.
pub(super) fn follow_listener(settings: &mut Settings) {
    let rules = &mut settings.own_address;
    let listens_on = settings.server.address.filter(|address| !address.is_unspecified());
    if rules.given.is_none() && !rules.prefer_hostname {
        rules.given = listens_on.map(bracketed);
    }
}

/// Decides by the rules. `host` is only asked when the name is needed, since that may ask DNS.
pub fn choose(
    rules: &OwnAddressRules,
    interfaces: &[Interface],
    host: impl FnOnce() -> HostName,
) -> OwnAddress {
    if let Some(given) = &rules.given {
        return OwnAddress { host: given.clone(), found_by: FoundBy::Setting };
    }
    if rules.prefer_hostname {
        let host = host();
        if !host.name.is_empty() {
            // A canonical name "localhost" says nothing to others.
            let long = host.canonical.filter(|long| !long.eq_ignore_ascii_case("localhost"));
            return OwnAddress { host: long.unwrap_or(host.name), found_by: FoundBy::HostName };
        }
    } else if let Some(found) = first_suitable(rules, interfaces) {
        let found_by = FoundBy::Interface(found.name.clone());
        return OwnAddress { host: bracketed(found.address), found_by };
    } else {
        let address = host().address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        return OwnAddress { host: bracketed(address), found_by: FoundBy::LastResort };
    }
    OwnAddress { host: Ipv4Addr::LOCALHOST.to_string(), found_by: FoundBy::LastResort }
}

fn first_suitable<'a>(rules: &OwnAddressRules, interfaces: &'a [Interface]) -> Option<&'a Interface> {
    let ignored = |interface: &Interface| {
        rules.ignored_interfaces.iter().any(|pattern| pattern.matches_whole(&interface.name))
    };
    let suitable = interfaces.iter().filter(|interface| {
        interface.is_up
            && interface.address.is_ipv6() == rules.prefer_ipv6
            && !interface.address.is_loopback()
            && !ignored(interface)
            && passes(rules, interface.address)
    });
    // The reference takes the last address of an interface in Java's order, which is the kernel's from its
    // end; so the kernel's first, the primary one, which `min_by_key` gives among equals. A link-local
    // address means nothing without its zone.
    suitable.min_by_key(|interface| (is_link_local(interface.address), interface.index))
}

fn passes(rules: &OwnAddressRules, address: IpAddr) -> bool {
    if rules.only_site_local {
        return match address {
            IpAddr::V4(address) => address.is_private(),
            IpAddr::V6(address) => address.is_unique_local() || is_old_site_local(address),
        };
    }
    let text = address.to_string();
    let preferred = &rules.preferred_networks;
    preferred.is_empty()
        || preferred.iter().any(|pattern| pattern.matches_whole(&text) || text.starts_with(pattern.as_str()))
}

/// fec0::/10, which Java calls site-local.
fn is_old_site_local(address: Ipv6Addr) -> bool {
    address.segments()[0] & 0xffc0 == 0xfec0
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

pub(super) fn bracketed(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// Finds the own address on this machine. May ask DNS for the machine's name; blocks meanwhile.
///
/// # Errors
/// The system doesn't tell its interfaces. Not possible when the address is given.
pub fn find(rules: &OwnAddressRules) -> io::Result<OwnAddress> {
    let needs_list = rules.given.is_none() && !rules.prefer_hostname;
    let interfaces = if needs_list { list_interfaces()? } else { Vec::new() };
    Ok(choose(rules, &interfaces, host_name))
}

fn list_interfaces() -> io::Result<Vec<Interface>> {
    let found = if_addrs::get_if_addrs()?.into_iter().map(|interface| Interface {
        index: interface.index.unwrap_or(u32::MAX),
        is_up: interface.is_oper_up(),
        address: interface.ip(),
        name: interface.name,
    });
    Ok(found.collect())
}

fn host_name() -> HostName {
    let files = ["/proc/sys/kernel/hostname", "/etc/hostname"];
    let name = files.iter().find_map(|path| fs::read_to_string(path).ok());
    let name = name.map(|name| name.trim().to_owned()).unwrap_or_default();
    let address = (name.as_str(), 0_u16).to_socket_addrs().ok().and_then(|mut all| all.next());
    let address = address.map(|address| address.ip());
    let hosts = fs::read_to_string("/etc/hosts").unwrap_or_default();
    let canonical = address.and_then(|address| canonical_name(&hosts, address));
    HostName { name, canonical, address }
}

/// The first name that a hosts file gives an address: the long one, by convention.
fn canonical_name(hosts: &str, address: IpAddr) -> Option<String> {
    let entries = hosts.lines().map(|line| line.split('#').next().unwrap_or(""));
    entries.into_iter().find_map(|entry| {
        let mut words = entry.split_whitespace();
        let is_it = words.next().and_then(|word| word.parse().ok()) == Some(address);
        words.next().filter(|_| is_it).map(str::to_owned)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::values;

    fn interface(index: u32, name: &str, address: &str) -> Interface {
        Interface { name: name.to_owned(), index, is_up: true, address: address.parse().unwrap() }
    }

    /// In the order of the kernel: loopback, one with two IPv4 addresses, others.
    fn machine() -> Vec<Interface> {
        vec![
            interface(1, "lo", "127.0.0.1"),
            interface(4, "docker0", "172.17.0.1"),
            interface(3, "eth1", "203.0.113.5"),
            interface(3, "eth1", "203.0.113.6"),
            Interface { is_up: false, ..interface(2, "eth0", "10.0.0.2") },
            interface(5, "wlan0", "192.168.1.7"),
            interface(1, "lo", "::1"),
            interface(3, "eth1", "fe80::1"),
            interface(3, "eth1", "2001:db8::5"),
            interface(5, "wlan0", "fd00::7"),
        ]
    }

    fn host() -> HostName {
        HostName {
            name: "nacos-0".to_owned(),
            canonical: Some("nacos-0.nacos.svc".to_owned()),
            address: Some([127, 0, 1, 1].into()),
        }
    }

    fn patterns(texts: &[&str]) -> Vec<values::Pattern> {
        texts.iter().map(|text| values::pattern(text).unwrap()).collect()
    }

    fn chosen(change: impl FnOnce(&mut OwnAddressRules)) -> (String, FoundBy) {
        let mut rules = OwnAddressRules::default();
        change(&mut rules);
        let OwnAddress { host, found_by } = choose(&rules, &machine(), host);
        (host, found_by)
    }

    fn by_interface(change: impl FnOnce(&mut OwnAddressRules)) -> (String, String) {
        match chosen(change) {
            (host, FoundBy::Interface(name)) => (host, name),
            other => panic!("{other:?}"),
        }
    }

    fn pair(host: &str, name: &str) -> (String, String) {
        (host.to_owned(), name.to_owned())
    }

    #[test]
    fn a_given_address_is_taken_as_it_is() {
        assert_eq!(
            chosen(|rules| {
                rules.given = Some("10.9.9.9".to_owned());
                rules.prefer_hostname = true;
            }),
            ("10.9.9.9".to_owned(), FoundBy::Setting)
        );
    }

    #[test]
    fn the_lowest_running_interface_gives_its_primary_address() {
        assert_eq!(by_interface(|_| {}), pair("203.0.113.5", "eth1"));
    }

    #[test]
    fn an_ignored_interface_does_not_hide_those_behind_it() {
        let ignored = |rules: &mut OwnAddressRules| rules.ignored_interfaces = patterns(&["eth.*", "docker"]);
        assert_eq!(by_interface(ignored), pair("172.17.0.1", "docker0"));
    }

    #[test]
    fn site_local_alone_passes_over_public_addresses_and_switches_preference_off() {
        assert_eq!(
            by_interface(|rules| {
                rules.only_site_local = true;
                rules.preferred_networks = patterns(&["192.168"]);
            }),
            pair("172.17.0.1", "docker0")
        );
    }

    #[test]
    fn a_preferred_network_is_an_expression_or_a_beginning() {
        for text in ["192.168.", r"192\.168\.\d+\.\d+", "192.168.1.7"] {
            assert_eq!(
                by_interface(|rules| rules.preferred_networks = patterns(&["10.1", text])),
                pair("192.168.1.7", "wlan0"),
                "{text}"
            );
        }
    }

    #[test]
    fn an_ipv6_address_is_bracketed_and_not_link_local_if_there_is_another() {
        assert_eq!(by_interface(|rules| rules.prefer_ipv6 = true), pair("[2001:db8::5]", "eth1"));
        assert_eq!(
            by_interface(|rules| {
                rules.prefer_ipv6 = true;
                rules.only_site_local = true;
            }),
            pair("[fd00::7]", "wlan0")
        );
        assert_eq!(
            by_interface(|rules| {
                rules.prefer_ipv6 = true;
                rules.preferred_networks = patterns(&["fe80"]);
            }),
            pair("[fe80::1]", "eth1")
        );
    }

    #[test]
    fn with_nothing_suitable_the_host_name_is_resolved() {
        let none = |rules: &mut OwnAddressRules| rules.preferred_networks = patterns(&["198.51.100."]);
        assert_eq!(chosen(none), ("127.0.1.1".to_owned(), FoundBy::LastResort));
        let unknown = choose(&OwnAddressRules::default(), &[], HostName::default);
        assert_eq!(unknown.host, "127.0.0.1");
    }

    #[test]
    fn the_host_name_is_the_long_one_unless_that_is_localhost() {
        let rules = OwnAddressRules { prefer_hostname: true, ..OwnAddressRules::default() };
        let named = |canonical: Option<&str>| {
            let host = HostName { canonical: canonical.map(str::to_owned), ..host() };
            choose(&rules, &[], || host).host
        };
        assert_eq!(named(Some("nacos-0.nacos.svc")), "nacos-0.nacos.svc");
        assert_eq!(named(Some("localhost")), "nacos-0");
        assert_eq!(named(None), "nacos-0");
        let nameless = choose(&rules, &[], HostName::default);
        assert_eq!(nameless, OwnAddress { host: "127.0.0.1".to_owned(), found_by: FoundBy::LastResort });
    }

    #[test]
    fn the_hosts_file_gives_the_long_name() {
        let hosts =
            "127.0.0.1 localhost\n# 10.1.2.3 old\n::1 ip6-localhost\n10.1.2.3\tn.svc  n # x\n10.1.2.3 m\n";
        assert_eq!(canonical_name(hosts, [10, 1, 2, 3].into()).as_deref(), Some("n.svc"));
        assert_eq!(canonical_name(hosts, [10, 1, 2, 4].into()), None);
        assert_eq!(canonical_name("10.1.2.3", [10, 1, 2, 3].into()), None);
    }

    #[test]
    fn this_machine_tells_its_interfaces() {
        let all = list_interfaces().expect("a list of interfaces");
        assert!(all.iter().any(|interface| interface.address.is_loopback()), "{all:?}");
    }
}
