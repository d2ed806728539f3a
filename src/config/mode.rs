//! Whether this node serves alone, and if not, where it learns who the members are.
//!
//! Pure. Order of Nacos 1.4.8: the standalone flag, the lookup type, `cluster.conf` or a member list, an address server.
//! Without any of them Nacos asks a public address server; this server then serves alone. `nacre.member.dns`, which
//! nobody sets by accident, counts before the files.

use super::cluster_settings::{Lookup, LookupType, MembershipSettings};

/// The ways to say who the members are, for somebody who said none.
pub const WAYS: &str = "name the members: one host:port a line in CONFIG-FOLDER/cluster.conf, or nacos.member.list=HOST:PORT,... \
    (NACOS_SERVERS), or nacre.member.dns=NAME:PORT, or address.server.domain=HOST; \
    or let it serve alone with nacos.standalone=true (MODE=standalone)";

/// Where the members come from.
///
/// `has_cluster_conf`: whether a `cluster.conf` lies in the config folder and names a member.
///
/// # Errors
/// A cluster is asked for and nothing names its members.
pub(super) fn choose(said: &MembershipSettings, has_cluster_conf: bool) -> Result<Lookup, NoMembers> {
    let has_list = has_cluster_conf || !said.member_list.is_empty();
    let no_members = |key, what| Err(NoMembers { key, reason: format!("{what}; {WAYS}") });
    match (said.standalone, said.lookup_type) {
        (Some(true), _) => Ok(Lookup::Standalone),
        (_, Some(LookupType::AddressServer)) => Ok(Lookup::AddressServer),
        (_, Some(LookupType::File)) if has_list => Ok(Lookup::File),
        (_, Some(LookupType::File)) => {
            no_members("nacos.core.member.lookup.type", "there is neither a cluster.conf nor a member list")
        }
        _ if said.dns.is_some() => Ok(Lookup::Dns),
        _ if has_list => Ok(Lookup::File),
        _ if said.address_server.domain.is_some() => Ok(Lookup::AddressServer),
        (Some(false), None) => {
            no_members("nacos.standalone", "asks for a cluster, and nothing names its members")
        }
        (None, None) => Ok(Lookup::Standalone),
    }
}

/// Who asked for a cluster without members, and what helps.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoMembers {
    /// The key of this name.
    pub key: &'static str,
    /// What is wrong and what helps.
    pub reason: String,
}

/// The keys that name members and aren't heard, since another way counts. An operator may have forgotten one of them.
pub(super) fn unheard(
    said: &MembershipSettings,
    lookup: Lookup,
    has_cluster_conf: bool,
) -> Vec<(&'static str, &'static str)> {
    let mut keys = Vec::new();
    let counting = match lookup {
        Lookup::Standalone => return keys,
        Lookup::File if has_cluster_conf => "has no effect, since cluster.conf names the members",
        Lookup::File => "has no effect, since nacos.member.list names the members",
        Lookup::AddressServer => "has no effect, since an address server names the members",
        Lookup::Dns => "has no effect, since nacre.member.dns names the members",
    };
    if said.dns.is_some() && lookup != Lookup::Dns {
        keys.push(("nacre.member.dns", counting));
    }
    if !said.member_list.is_empty() && (lookup != Lookup::File || has_cluster_conf) {
        keys.push(("nacos.member.list", counting));
    }
    if said.address_server.domain.is_some() && lookup != Lookup::AddressServer {
        keys.push(("address.server.domain", counting));
    }
    keys
}

/// Tells whether the text of a `cluster.conf` names anybody: a `#` ends what counts of a line.
pub(super) fn names_a_member(cluster_conf: &str) -> bool {
    let text = cluster_conf.strip_prefix('\u{feff}').unwrap_or(cluster_conf);
    let addresses = text.lines().map(|line| line.split('#').next().unwrap_or(""));
    addresses.flat_map(|line| line.split(',')).any(|address| !address.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{AddressServerSettings, DnsName};

    const FILE: Option<LookupType> = Some(LookupType::File);
    const SERVER: Option<LookupType> = Some(LookupType::AddressServer);

    fn said(standalone: Option<bool>, lookup_type: Option<LookupType>, named: &[&str]) -> MembershipSettings {
        let list = named.contains(&"list").then(|| "a:1".to_owned());
        let dns = named.contains(&"dns").then(|| DnsName { name: "n".to_owned(), port: None });
        let domain = named.contains(&"domain").then(|| "d".to_owned());
        MembershipSettings {
            standalone,
            lookup_type,
            member_list: list.into_iter().collect(),
            dns,
            address_server: AddressServerSettings { domain, ..AddressServerSettings::default() },
            ..MembershipSettings::default()
        }
    }

    #[test]
    fn the_ways_count_in_order() {
        for (standalone, lookup_type, named, chosen) in [
            (None, None, &[][..], Some(Lookup::Standalone)),
            (Some(true), None, &[], Some(Lookup::Standalone)),
            (Some(true), SERVER, &["conf", "list", "dns", "domain"], Some(Lookup::Standalone)),
            (Some(false), None, &[], None),
            (Some(false), None, &["conf"], Some(Lookup::File)),
            (Some(false), None, &["list"], Some(Lookup::File)),
            (Some(false), None, &["dns"], Some(Lookup::Dns)),
            (Some(false), None, &["domain"], Some(Lookup::AddressServer)),
            (Some(false), SERVER, &[], Some(Lookup::AddressServer)),
            (None, FILE, &[], None),
            (None, FILE, &["dns", "domain"], None),
            (None, FILE, &["conf", "dns", "domain"], Some(Lookup::File)),
            (None, FILE, &["list"], Some(Lookup::File)),
            (None, SERVER, &["conf", "list", "dns"], Some(Lookup::AddressServer)),
            (None, None, &["conf", "list", "dns", "domain"], Some(Lookup::Dns)),
            (None, None, &["conf", "list", "domain"], Some(Lookup::File)),
            (None, None, &["list"], Some(Lookup::File)),
            (None, None, &["domain"], Some(Lookup::AddressServer)),
        ] {
            let found = choose(&said(standalone, lookup_type, named), named.contains(&"conf"));
            assert_eq!(found.ok(), chosen, "{standalone:?} {lookup_type:?} {named:?}");
        }
    }

    #[test]
    fn a_cluster_without_members_is_told_how_to_name_them() {
        let refused = choose(&said(Some(false), None, &[]), false).unwrap_err();
        assert_eq!(refused.key, "nacos.standalone");
        for way in ["cluster.conf", "nacos.member.list", "nacre.member.dns", "address.server.domain"] {
            assert!(refused.reason.contains(way), "{}", refused.reason);
        }
        let refused = choose(&said(None, FILE, &["dns"]), false).unwrap_err();
        assert_eq!(refused.key, "nacos.core.member.lookup.type");
    }

    #[test]
    fn what_is_not_heard_is_named() {
        let all = said(None, None, &["list", "dns", "domain"]);
        let keys_beside = |lookup, has_cluster_conf| -> Vec<&str> {
            unheard(&all, lookup, has_cluster_conf).into_iter().map(|(key, _)| key).collect()
        };
        let keys = |lookup| keys_beside(lookup, false);
        assert_eq!(keys(Lookup::Standalone), [""; 0]);
        assert_eq!(keys(Lookup::File), ["nacre.member.dns", "address.server.domain"]);
        let unheard_beside = ["nacre.member.dns", "nacos.member.list", "address.server.domain"];
        assert_eq!(keys_beside(Lookup::File, true), unheard_beside);
        assert_eq!(keys(Lookup::Dns), ["nacos.member.list", "address.server.domain"]);
        assert_eq!(keys(Lookup::AddressServer), ["nacre.member.dns", "nacos.member.list"]);
    }
}
