//! The address by which others know this node.
//!
//! [`choose`] decides from the rules and a list of interfaces; [`find`] asks the machine for that list.
//! Source: Nacos 1.4.8 system module, own address; differences: single-label host names pass, an
//! ignored interface doesn't hide those behind it.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs as _},
};

use super::settings::OwnAddressRules;

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
    // min_by_key takes the first of equals: the primary address of the interface. A link-local address
    // means nothing without its zone.
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

fn bracketed(address: IpAddr) -> String {
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
