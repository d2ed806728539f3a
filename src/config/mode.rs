//! Whether this node serves alone. Whatever asks for members is refused, since they would wait for it.
//!
//! Order of Nacos 1.4.8: the standalone flag, the lookup type, `cluster.conf` or a member list. Without
//! any of them Nacos asks a public address server; this server then serves alone.

use super::settings::MembershipSettings;

const CURE: &str = "this version serves alone; to let it do so set nacos.standalone=true (MODE=standalone), or remove the list";

/// What asks for a cluster, if something does.
///
/// `has_cluster_conf`: whether a `cluster.conf` lies in the config folder and names a member.
pub(super) fn refusal(said: &MembershipSettings, has_cluster_conf: bool) -> Option<Refusal> {
    let by_key = |key, reason| Some(Refusal::ByKey(key, format!("{reason}; {CURE}")));
    match said.standalone {
        Some(false) => by_key("nacos.standalone", "asks for a cluster"),
        None if said.lookup.is_some() => by_key("nacos.core.member.lookup.type", "asks for a cluster"),
        None if has_cluster_conf => {
            Some(Refusal::ByClusterConf(format!("names members of a cluster; {CURE}")))
        }
        None if !said.member_list.is_empty() => by_key("nacos.member.list", "names members of a cluster"),
        Some(true) | None => None,
    }
}

/// Who asked for a cluster, and why it can't be.
pub(super) enum Refusal {
    /// The key of this name.
    ByKey(&'static str, String),
    /// The file.
    ByClusterConf(String),
}

/// Tells whether the text of a `cluster.conf` names anybody: a `#` ends what counts of a line.
pub(super) fn names_a_member(cluster_conf: &str) -> bool {
    let text = cluster_conf.strip_prefix('\u{feff}').unwrap_or(cluster_conf);
    let addresses = text.lines().map(|line| line.split('#').next().unwrap_or(""));
    addresses.flat_map(|line| line.split(',')).any(|address| !address.trim().is_empty())
}
