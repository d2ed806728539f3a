//! What a member calls its own.

use super::mapper::owner_in;
use crate::{
    cluster::{Address, Mapping, View, lookup::list::MOST_MEMBERS},
    model::ServiceKey,
};

/// What a member calls its own, by the ring that it sees; the one that this node sees where it doesn't tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The member.
    pub source: Address,
    ring: Vec<Address>,
    mapping: Mapping,
}

impl Claim {
    /// Of the member with this address. A ring of more members than a list may have counts as none.
    #[must_use]
    pub fn new(view: &View, source: &str, ring: &[String]) -> Self {
        let told: Vec<Address> = ring.iter().map(|text| Address::new(text)).collect();
        let ring = if told.is_empty() || told.len() > MOST_MEMBERS { view.ring.clone() } else { told };
        Self { source: Address::new(source), ring, mapping: view.mapping }
    }

    /// Whether it is about this service.
    #[must_use]
    pub fn holds(&self, key: &ServiceKey) -> bool {
        owner_in(&self.ring, self.mapping, &key.name) == Some(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{MemberState, Peer, Standing};

    #[test]
    fn a_claim_goes_by_the_ring_of_who_makes_it() {
        let address = |n: u32| Address::new(&format!("10.0.0.{n}:8848"));
        let peers = [2, 3].map(|n| Peer::new(address(n), MemberState::Up)).to_vec();
        let view = View::new(address(1), Standing::Serving, peers, Mapping::Modulo);
        let keys: Vec<_> = (0..60).map(|n| ServiceKey::new("public", &format!("G@@{n}"))).collect();
        let held = |ring: &[String]| {
            let claim = Claim::new(&view, "10.0.0.2:8848", ring);
            keys.iter().filter(|key| claim.holds(key)).count()
        };
        let all = held(&[]);
        assert!((5..40).contains(&all));
        let ring = [1, 2, 3].map(|n| address(n).to_string());
        assert_eq!(held(&ring), all);
        assert!(held(&ring[..2]) > all, "it doesn't reach the third");
        assert_eq!((held(&ring[1..2]), held(&ring[..1])), (60, 0));
    }
}
