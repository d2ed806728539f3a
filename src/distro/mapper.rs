//! Who is responsible for a service.
//!
//! Pure. Source: Nacos 1.4.8 naming module, distro mapper; vectors `distro-hash`.

use crate::{
    base::{
        hash::{fnv, mix},
        java,
    },
    cluster::{Address, Mapping, Standing, View},
};

/// Who answers for the writes of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner<'a> {
    /// This node.
    Here,
    /// That member.
    Peer(&'a Address),
    /// Nobody that this node knows: it has been removed from the list, or there is no member that is up.
    Nobody,
}

/// The owner of the service with this grouped name; the namespace is of no account.
#[must_use]
pub fn owner<'a>(view: &'a View, name: &str) -> Owner<'a> {
    if view.standing == Standing::Alone {
        return Owner::Here;
    }
    match index(&view.ring, view.mapping, name) {
        None => Owner::Nobody,
        Some(index) if Some(index) == view.own_index => Owner::Here,
        Some(index) => Owner::Peer(&view.ring[index]),
    }
}

/// The owner of the service with this grouped name in a ring that another member sees.
#[must_use]
pub fn owner_in<'a>(ring: &'a [Address], mapping: Mapping, name: &str) -> Option<&'a Address> {
    index(ring, mapping, name).map(|index| &ring[index])
}

/// Which services change their owner when a node joins members of 1.x, which spread them by the number of members.
#[derive(Debug)]
pub struct Joining<'a> {
    own: &'a Address,
    before: Vec<Address>,
    after: Vec<Address>,
}

impl<'a> Joining<'a> {
    /// Of the node `own`, where these own all so far.
    #[must_use]
    pub fn new(own: &'a Address, owners: impl Iterator<Item = Address>) -> Self {
        let mut before: Vec<Address> = owners.collect();
        before.sort_unstable();
        let mut after = before.clone();
        after.push(own.clone());
        after.sort_unstable();
        Self { own, before, after }
    }

    /// Who owns the service with this grouped name until now. Nothing where it goes from one of them to another: if they haven't
    /// noticed that this node was away, that one has owned it all the time.
    #[must_use]
    pub fn owner_so_far(&self, name: &str) -> Option<&Address> {
        let (before, after) = self.owners(name);
        before.filter(|before| after == Some(self.own) || after == Some(*before))
    }

    /// Whether the service with this grouped name stays with its owner.
    #[must_use]
    pub fn stays(&self, name: &str) -> bool {
        let (before, after) = self.owners(name);
        before == after
    }

    /// Who owned the service with this grouped name, if nobody counted this node among the owners.
    #[must_use]
    pub fn owner_before(&self, name: &str) -> Option<&Address> {
        owner_in(&self.before, Mapping::Modulo, name)
    }

    fn owners(&self, name: &str) -> (Option<&Address>, Option<&Address>) {
        (self.owner_before(name), owner_in(&self.after, Mapping::Modulo, name))
    }
}

fn index(ring: &[Address], mapping: Mapping, name: &str) -> Option<usize> {
    match mapping {
        Mapping::Modulo => modulo(ring.len(), name),
        Mapping::Rendezvous => rendezvous(ring, name),
    }
}

/// Hash and modulo of Nacos 1.x.
fn modulo(count: usize, name: &str) -> Option<usize> {
    let remainder = i64::from(java::hash(name)) % i64::from(i32::MAX);
    usize::try_from(remainder.unsigned_abs()).ok()?.checked_rem(count)
}

/// The place of the member whose hash together with the name is the highest.
fn rendezvous(ring: &[Address], name: &str) -> Option<usize> {
    let weight = |address: &Address| mix(fnv(address.as_str().bytes()) ^ fnv(name.bytes()).rotate_left(32));
    (0..ring.len()).max_by_key(|&index| (weight(&ring[index]), index))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{MemberState, Peer};

    #[test]
    fn who_joins_takes_over_from_each_and_what_goes_from_one_to_another_has_no_sure_owner() {
        let address = |n: u32| Address::new(&format!("10.0.0.{n}:8848"));
        let own = address(2);
        let joining = Joining::new(&own, [address(3), address(1)].into_iter());
        let view = |own: u32, peers: &[u32]| {
            let peers = peers.iter().map(|n| Peer::new(address(*n), MemberState::Up)).collect();
            View::new(address(own), Standing::Serving, peers, Mapping::Modulo)
        };
        let (before, after) = (view(1, &[3]), view(2, &[1, 3]));
        let mut counts = [0; 3];
        for name in (0..600).map(|n| format!("G@@{n}")) {
            let so_far = if owner(&before, &name) == Owner::Here { address(1) } else { address(3) };
            let (is_taken_over, stays) =
                (owner(&after, &name) == Owner::Here, owner(&after, &name) == Owner::Peer(&so_far));
            let expected = (is_taken_over || stays).then_some(&so_far);
            assert_eq!((joining.owner_so_far(&name), joining.stays(&name)), (expected, stays), "{name}");
            counts[if is_taken_over { 0 } else { 1 + usize::from(stays) }] += 1;
        }
        assert!(counts.iter().all(|count| *count > 100), "{counts:?}");
        assert_eq!(Joining::new(&own, std::iter::empty()).owner_so_far("G@@s"), None);
    }
}
