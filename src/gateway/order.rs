//! Which servers are asked for a request, in turn.
//!
//! Pure. The server of the session first, if it is well; then the others that are well, in an order that the caller's
//! address gives: the same for all its requests, and spread over the servers for all callers.

use std::net::IpAddr;

use smallvec::SmallVec;

use crate::base::hash::{fnv, mix};

/// Numbers of servers.
pub type Order = SmallVec<[usize; 4]>;

/// The servers for a request of `caller`; empty where none is well.
///
/// - `servers`: how many there are.
/// - `session`: who has the session that the request belongs to.
pub fn order(servers: usize, caller: IpAddr, session: Option<usize>, is_up: impl Fn(usize) -> bool) -> Order {
    let mut order: Order = (0..servers).filter(|server| is_up(*server)).collect();
    if order.len() > 1 {
        let address = match caller.to_canonical() {
            IpAddr::V4(address) => fnv(address.octets()),
            IpAddr::V6(address) => fnv(address.octets()),
        };
        // The highest weight of a server and the address together: a server that goes moves none but its own.
        let weight = |server: usize| mix(address ^ mix(server as u64 + 1));
        order.sort_by_key(|server| std::cmp::Reverse((session == Some(*server), weight(*server))));
    }
    order
}

/// The server for a request where none is well: the first of all.
pub fn last_resort(servers: usize, caller: IpAddr, session: Option<usize>) -> Option<usize> {
    order(servers, caller, session, |_| true).first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(number: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, number])
    }

    #[test]
    fn callers_are_spread_and_each_keeps_its_server() {
        let mut counts = [0; 3];
        for number in 0..=255 {
            let all = order(3, caller(number), None, |_| true);
            assert_eq!(all, order(3, caller(number), None, |_| true));
            counts[all[0]] += 1;
            // Without its second server it keeps its first; without its first the second comes.
            assert_eq!(order(3, caller(number), None, |server| server != all[1])[0], all[0]);
            assert_eq!(order(3, caller(number), None, |server| server != all[0])[0], all[1]);
        }
        assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
    }

    #[test]
    fn a_session_goes_before_and_who_isnt_well_isnt_asked() {
        for session in 0..3 {
            assert_eq!(order(3, caller(1), Some(session), |_| true)[0], session);
            assert!(!order(3, caller(1), Some(session), |server| server != session).contains(&session));
        }
        assert!(order(3, caller(1), Some(1), |_| false).is_empty());
    }
}
