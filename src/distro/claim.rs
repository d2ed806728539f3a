//! What a member calls its own, and what members leave to others that leave it to them.

use std::collections::BTreeMap;

use super::{
    handle::Settled,
    mapper::{Owner, owner, owner_in},
    takeover::GRACE_MS,
};
use crate::{
    base::clock::Millis,
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
        self.gives(key, &self.source)
    }

    /// Whether whoever makes it takes this member for the owner of the service.
    fn gives(&self, key: &ServiceKey, to: &Address) -> bool {
        owner_in(&self.ring, self.mapping, &key.name) == Some(to)
    }
}

/// What Nacre members claimed last, with each comparison.
///
/// While a link is cut, two members can each take the other for the owner of a service, and what dies there would stay for as
/// long. The one that learns that from the other's claims judges its silent instances, after asking as an owner does.
#[derive(Debug, Default)]
pub struct Claims {
    heard: BTreeMap<Address, Heard>,
    /// Whose claims count: the ring, while this node is in it.
    ring: Vec<Address>,
}

#[derive(Debug)]
struct Heard {
    claim: Claim,
    /// Since when it has been the same, and when it was made last.
    since: Millis,
    last: Millis,
}

impl Claims {
    /// A claim counts for so long, in milliseconds: twice the usual time between two, and their way.
    const FRESH_MS: u64 = 12_000;

    /// A member has made this one. It counts for nothing while that isn't in the ring of which [`Self::see`] was told last: nobody
    /// would forget it before the next view, and with that the member may be back and begin anew.
    pub fn heard(&mut self, claim: &Claim, now: Millis) {
        if !self.ring.contains(&claim.source) {
            return;
        }
        let same = self.heard.get(&claim.source).filter(|heard| heard.claim == *claim);
        let since = same.map_or(now, |same| same.since);
        self.heard.insert(claim.source.clone(), Heard { claim: claim.clone(), since, last: now });
    }

    /// Forgets those of members that own nothing in this view, and all while this node doesn't: who comes back may know of no
    /// beat.
    pub fn see(&mut self, view: &View) {
        self.ring = if view.own_index.is_some() { view.ring.clone() } else { Vec::new() };
        self.heard.retain(|address, _| self.ring.contains(address));
    }

    /// Whether this node looks for silent instances of a service: it is the owner, or the owner has left that to it.
    #[must_use]
    pub fn look_after(&self, view: &View, key: &ServiceKey, now: Millis) -> bool {
        owner(view, &key.name) == Owner::Here || self.leave_here(view, key, now)
    }

    /// Whether this node judges silent instances about which the members were asked. As the owner, however few have answered; in
    /// its place where all have, and this node isn't new itself: beats come to either of the two.
    #[must_use]
    pub fn may_judge(&self, view: &View, settled: &Settled, is_new: bool, now: Millis) -> bool {
        owner(view, &settled.key.name) == Owner::Here
            || settled.by_all && !is_new && self.leave_here(view, &settled.key, now)
    }

    /// Whether the owner of this service leaves it to this node, and has for so long that whoever lives has beaten.
    fn leave_here(&self, view: &View, key: &ServiceKey, now: Millis) -> bool {
        let Owner::Peer(owner) = owner(view, &key.name) else { return false };
        let counts =
            |heard: &&Heard| now.since(heard.last) <= Self::FRESH_MS && now.since(heard.since) > GRACE_MS;
        view.own_index.is_some()
            && self.heard.get(owner).filter(counts).is_some_and(|heard| heard.claim.gives(key, &view.own))
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

    #[test]
    fn what_its_owner_has_left_to_this_node_for_three_beats_is_judged_here() {
        let address = |n: u32| Address::new(&format!("10.0.0.{n}:8848"));
        let peers = [2, 3].map(|n| Peer::new(address(n), MemberState::Up)).to_vec();
        let view = View::new(address(1), Standing::Serving, peers, Mapping::Modulo);
        let keys: Vec<_> = (0..60).map(|n| ServiceKey::new("public", &format!("G@@{n}"))).collect();
        let claim = |ring: &[u32]| {
            let ring: Vec<String> = ring.iter().map(|n| address(*n).to_string()).collect();
            Claim::new(&view, "10.0.0.2:8848", &ring)
        };
        // The second doesn't reach the third: of what the others take for its own it leaves some to this node.
        let (torn, whole) = (claim(&[1, 2]), claim(&[1, 2, 3]));
        let left: Vec<bool> = keys.iter().map(|key| whole.holds(key) && !torn.holds(key)).collect();
        assert!(left.contains(&true) && left.contains(&false));
        let mut claims = Claims::default();
        let left_here = |claims: &Claims, view: &View, now| -> Vec<bool> {
            keys.iter().map(|key| claims.leave_here(view, key, Millis(now))).collect()
        };
        let nothing = vec![false; 60];
        claims.see(&view);
        claims.heard(&torn, Millis(1_000));
        claims.heard(&torn, Millis(16_000));
        assert_eq!(left_here(&claims, &view, 16_000), nothing);
        assert_eq!(left_here(&claims, &view, 16_001), left);
        assert_eq!(left_here(&claims, &view, 28_000), left);
        assert_eq!(left_here(&claims, &view, 28_001), nothing, "it says so no more");
        claims.heard(&whole, Millis(28_001));
        claims.heard(&torn, Millis(28_002));
        assert_eq!(left_here(&claims, &view, 28_002), nothing, "it was otherwise meanwhile");
        claims.heard(&torn, Millis(44_000));
        assert_eq!(left_here(&claims, &view.clone().without_own(), 44_000), nothing);
        claims.see(&view);
        assert_eq!(left_here(&claims, &view, 44_000), left);
        let gone = [2, 3].map(|n| Peer::new(address(n), MemberState::Down)).to_vec();
        let gone = View::new(address(1), Standing::Serving, gone, Mapping::Modulo);
        claims.see(&gone);
        claims.see(&view);
        assert_eq!(left_here(&claims, &view, 44_000), nothing, "it may have started anew");
        for without in [&gone, &view.clone().without_own()] {
            claims.see(without);
            claims.heard(&torn, Millis(45_000));
            claims.see(&view);
            claims.heard(&torn, Millis(60_001));
            assert_eq!(left_here(&claims, &view, 60_001), nothing, "what it said then is no claim");
        }
        claims.heard(&torn, Millis(75_002));
        assert_eq!(left_here(&claims, &view, 75_002), left);
    }
}
