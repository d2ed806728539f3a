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
