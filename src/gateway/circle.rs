//! Finds a gateway that names itself, before it passes requests to itself.
//!
//! Pure but for asking the machine whether an address is its own. What can't be seen at the start, such as a name or a
//! forwarder that leads back here, is found by the count of hops.

use std::net::IpAddr;

use crate::config::LegacyServer;

/// The node stands on its own list of legacy servers.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "nacre.legacy.servers names this node itself ({0}): requests would go in a circle; name the legacy servers alone"
)]
pub struct NamesItself(String);

/// Looks for this node among `servers`.
///
/// - `own`: how others call it, `host:port`.
/// - `port`: where it listens, on `listens`, or on all addresses of the host.
/// - `is_of_host`: whether an address is the machine's.
///
/// # Errors
/// [`NamesItself`] with the entry.
pub fn check(
    servers: &[LegacyServer],
    own: &str,
    (listens, port): (Option<IpAddr>, u16),
    is_of_host: impl Fn(IpAddr) -> bool,
) -> Result<(), NamesItself> {
    for server in servers {
        let authority = server.authority();
        let address = server.host.trim_matches(['[', ']']).parse::<IpAddr>().ok();
        let address =
            address.or_else(|| (server.host == "localhost").then_some(IpAddr::from([127, 0, 0, 1])));
        let reaches_here = address.is_some_and(|address| {
            let address = address.to_canonical();
            match listens {
                Some(listens) if !listens.is_unspecified() => address == listens,
                _ => address.is_unspecified() || is_of_host(address),
            }
        });
        if authority.eq_ignore_ascii_case(own) || server.port == port && reaches_here {
            return Err(NamesItself(authority));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_itself(host: &str, port: u16, listens: Option<&str>) -> bool {
        let servers = [LegacyServer { host: host.into(), port }];
        let listens = listens.map(|address| address.parse().unwrap());
        let is_of_host = |address: IpAddr| address.is_loopback() || address == IpAddr::from([10, 0, 0, 1]);
        check(&servers, "node.example:8848", (listens, 8848), is_of_host).is_err()
    }

    #[test]
    fn a_node_finds_itself_by_name_and_by_address() {
        assert!(names_itself("Node.example", 8848, None));
        assert!(names_itself("10.0.0.1", 8848, None));
        assert!(names_itself("localhost", 8848, None));
        assert!(names_itself("[::1]", 8848, None));
        assert!(names_itself("10.0.0.1", 8848, Some("10.0.0.1")));
    }

    #[test]
    fn others_on_the_same_host_are_others() {
        assert!(!names_itself("10.0.0.1", 8849, None));
        assert!(!names_itself("10.0.0.2", 8848, None));
        assert!(!names_itself("127.0.0.2", 8848, Some("127.0.0.1")));
        assert!(!names_itself("node.example", 8849, None));
    }
}
