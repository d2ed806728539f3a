//! To which addresses a packet may go.
//!
//! A client names its address itself, so without a rule anybody could have a third party flooded. Pure. Source:
//! Nacos 1.4.8 sends to any address; the rule is ours (`nacre.push.targets`).

use std::net::{IpAddr, Ipv4Addr};

use crate::config::PushTargets;

/// Whether a packet may go to `target`, which a client named that called from `caller`.
///
/// Never to an unspecified, multicast or broadcast address: those reach somebody else than the one who asked.
#[must_use]
pub fn is_allowed(rule: PushTargets, target: IpAddr, caller: IpAddr) -> bool {
    let target = target.to_canonical();
    if target.is_unspecified() || target.is_multicast() || target == IpAddr::V4(Ipv4Addr::BROADCAST) {
        return false;
    }
    let is_callers = target == caller.to_canonical();
    match rule {
        PushTargets::Any => true,
        PushTargets::Caller => is_callers,
        PushTargets::Private => is_callers || is_near(target),
    }
}

/// An address of a private, loopback or link-local network.
fn is_near(target: IpAddr) -> bool {
    match target {
        IpAddr::V4(target) => target.is_private() || target.is_loopback() || target.is_link_local(),
        IpAddr::V6(target) => {
            target.is_loopback() || target.is_unique_local() || target.is_unicast_link_local()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(rule: PushTargets, target: &str, caller: &str) -> bool {
        is_allowed(rule, target.parse().unwrap(), caller.parse().unwrap())
    }

    #[test]
    fn private_allows_the_caller_and_what_is_near() {
        for near in [
            "127.0.0.77",
            "10.1.2.3",
            "172.31.0.1",
            "192.168.0.1",
            "169.254.1.1",
            "::1",
            "fd00::1",
            "fe80::1",
        ] {
            assert!(allowed(PushTargets::Private, near, "198.51.100.1"), "{near}");
        }
        assert!(allowed(PushTargets::Private, "::ffff:10.0.0.1", "198.51.100.1"));
        assert!(allowed(PushTargets::Private, "198.51.100.1", "198.51.100.1"));
        assert!(allowed(PushTargets::Private, "198.51.100.1", "::ffff:198.51.100.1"));
        for far in ["198.51.100.2", "8.8.8.8", "172.32.0.1", "2001:db8::1", "100.64.0.1"] {
            assert!(!allowed(PushTargets::Private, far, "198.51.100.1"), "{far}");
        }
    }

    #[test]
    fn caller_allows_the_caller_alone() {
        assert!(allowed(PushTargets::Caller, "10.0.0.1", "10.0.0.1"));
        assert!(!allowed(PushTargets::Caller, "10.0.0.2", "10.0.0.1"));
        assert!(!allowed(PushTargets::Caller, "127.0.0.1", "10.0.0.1"));
    }

    #[test]
    fn any_allows_all_that_is_one_host() {
        assert!(allowed(PushTargets::Any, "8.8.8.8", "10.0.0.1"));
        for nobody in ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255", "::ffff:255.255.255.255"] {
            assert!(!allowed(PushTargets::Any, nobody, "10.0.0.1"), "{nobody}");
            assert!(!allowed(PushTargets::Private, nobody, nobody), "{nobody}");
        }
    }
}
