//! What the node knows of itself, and who calls from the same host.
//!
//! Source: Nacos 1.4.8 core module, member; compat files `core-cluster`, `operator-state`. That peer entries answer the
//! own host only is ours (compat file `distro-data`, improved).

use std::net::{IpAddr, SocketAddr};

use tokio_util::sync::CancellationToken;

use super::{auth::Tokens, reply::Refusal};
use crate::base::machine::Machine;

/// A node from its start to its end.
#[derive(Debug)]
pub struct Node {
    /// When it started, in milliseconds since 1970.
    pub started_ms: u64,
    /// Tells one run of the node from another; random.
    pub boot: u64,
    /// How busy the machine is.
    pub machine: Machine,
    /// Signs what a login gets.
    pub tokens: Tokens,
    /// Cancelled when somebody on the own host wants the node to leave its members and stop.
    pub drain: CancellationToken,
}

impl Node {
    /// A node that starts now.
    ///
    /// # Errors
    /// The system gives no random bytes for the key of the tokens.
    pub fn new(started_ms: u64) -> std::io::Result<Self> {
        let mut boot = [0; 8];
        getrandom::getrandom(&mut boot)?;
        let boot = u64::from_le_bytes(boot);
        let (machine, tokens, drain) = (Machine::default(), Tokens::new()?, CancellationToken::new());
        Ok(Self { started_ms, boot, machine, tokens, drain })
    }
}

/// Host and port of `host:port`; the host may be an IPv6 address in brackets.
#[must_use]
pub fn split_address(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    Some((host, port.parse().ok().filter(|_| !host.is_empty())?))
}

/// Refuses callers from other hosts.
///
/// Peer entries hand over and replace whole lists without asking who calls; a node without members has no peers, so
/// only a person or a program on its own host has business with them. Whoever reaches the node through a proxy on
/// its host counts as being there.
///
/// # Errors
/// 403.
pub fn check_own_host(peer: SocketAddr) -> Result<(), Refusal> {
    let caller = peer.ip().to_canonical();
    if is_of_own_host(caller) {
        return Ok(());
    }
    Err(Refusal::forbidden(format_args!(
        "this server has no peers, so the entries of the peer protocol answer callers from its own host only, not {caller}"
    )))
}

/// Whether a caller of this address is on the own host.
#[must_use]
pub fn is_of_own_host(caller: IpAddr) -> bool {
    caller.is_loopback() || own_addresses().contains(&caller)
}

/// The addresses of the host's interfaces as they are now; none where the system doesn't tell.
fn own_addresses() -> Vec<IpAddr> {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    interfaces.into_iter().map(|interface| interface.ip()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_from_the_own_host_pass() {
        for own in ["127.0.0.1:5", "127.9.9.9:5", "[::1]:5", "[::ffff:127.0.0.1]:5"] {
            assert_eq!(check_own_host(own.parse().unwrap()), Ok(()), "{own}");
        }
        for address in own_addresses() {
            assert_eq!(check_own_host(SocketAddr::new(address, 5)), Ok(()), "{address}");
        }
        // Addresses of documentation: no host has them.
        for other in ["192.0.2.1:5", "[2001:db8::1]:5", "[::ffff:192.0.2.1]:5"] {
            assert!(check_own_host(other.parse().unwrap()).is_err(), "{other}");
        }
    }

    #[test]
    fn an_address_splits_at_its_last_colon() {
        assert_eq!(split_address("10.0.0.1:8848"), Some(("10.0.0.1", 8848)));
        assert_eq!(split_address("[::1]:8848"), Some(("[::1]", 8848)));
        for wrong in ["10.0.0.1", ":8848", "a:b", "a:70000", ""] {
            assert_eq!(split_address(wrong), None, "{wrong}");
        }
    }
}
