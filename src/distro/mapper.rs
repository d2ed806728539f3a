//! Who is responsible for a service.
//!
//! Pure. Source: Nacos 1.4.8 naming module, distro mapper; vectors `distro-hash`.

use std::collections::BTreeMap;

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

/// How members spread services in a ring with some of 1.x, by what they said of it when they were asked for their data.
#[derive(Clone, Debug, Default)]
pub struct Rings(BTreeMap<Address, Vec<Address>>);

impl Rings {
    /// The ring as `member` sees it, or nothing where it doesn't say.
    pub fn note(&mut self, member: &Address, ring: Option<Vec<Address>>) {
        match ring {
            Some(ring) => self.0.insert(member.clone(), ring),
            None => self.0.remove(member),
        };
    }

    /// Whether a member has told.
    #[must_use]
    pub fn has(&self, member: &Address) -> bool {
        self.0.contains_key(member)
    }

    /// Who owns the service with this grouped name, where all say the same.
    #[must_use]
    pub fn owner(&self, name: &str) -> Option<&Address> {
        let mut owners = self.0.values().map(|ring| owner_in(ring, Mapping::Modulo, name));
        let first = owners.next()??;
        owners.all(|owner| owner == Some(first)).then_some(first)
    }

    /// What `own` changes by coming to the ring as `member` sees it, or another does where that says nothing. Nothing where nobody
    /// says anything, where it is there already, since who hasn't missed it has gone on with the same owners, and to a member that the
    /// other doesn't count.
    #[must_use]
    pub fn arrival(&self, own: &Address, member: &Address) -> Option<Arrival> {
        let before = self.0.get(member).or_else(|| self.0.values().next())?.clone();
        if before.contains(own) || !before.contains(member) {
            return None;
        }
        let mut after = before.clone();
        after.push(own.clone());
        after.sort_unstable();
        Some(Arrival { before, after })
    }
}

/// A ring of 1.x to which one more member comes.
#[derive(Debug)]
pub struct Arrival {
    before: Vec<Address>,
    after: Vec<Address>,
}

impl Arrival {
    /// Whether a member gets another owner for the service with this grouped name by it, and wasn't that itself.
    #[must_use]
    pub fn is_news_to(&self, member: &Address, name: &str) -> bool {
        let [before, after] = [&self.before, &self.after].map(|ring| owner_in(ring, Mapping::Modulo, name));
        before != after && before != Some(member)
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

    fn address(n: u32) -> Address {
        Address::new(&format!("10.0.0.{n}:8848"))
    }

    fn rings(said: &[(u32, &[u32])]) -> Rings {
        let mut rings = Rings::default();
        for (member, ring) in said {
            rings.note(&address(*member), Some(ring.iter().copied().map(address).collect()));
        }
        rings
    }

    fn names() -> impl Iterator<Item = String> {
        (0..600).map(|n| format!("G@@{n}"))
    }

    #[test]
    fn only_what_all_members_of_1x_say_of_an_owner_is_sure() {
        let owned =
            |rings: &Rings, n: u32| names().filter(|name| rings.owner(name) == Some(&address(n))).count();
        let same = rings(&[(1, &[1, 3]), (3, &[1, 3])]);
        assert_eq!(owned(&same, 1) + owned(&same, 3), 600);
        let unlike = rings(&[(1, &[1, 3]), (3, &[1, 2, 3])]);
        assert!((50..200).contains(&owned(&unlike, 1)) && (50..200).contains(&owned(&unlike, 3)));
        assert_eq!(owned(&unlike, 2), 0);
        let mut none = rings(&[(1, &[])]);
        assert_eq!(none.owner("G@@s"), None);
        none.note(&address(1), None);
        assert_eq!(none.owner("G@@s"), None);
        assert!(none.arrival(&address(2), &address(1)).is_none());
    }

    #[test]
    fn who_owned_a_service_is_not_sent_it_by_one_that_joins_and_nobody_by_one_that_was_not_missed() {
        let said = rings(&[(1, &[1, 3])]);
        for member in [1, 3] {
            let arrival = said.arrival(&address(2), &address(member)).unwrap();
            let news: Vec<_> = names().filter(|name| arrival.is_news_to(&address(member), name)).collect();
            assert!((150..250).contains(&news.len()), "{}", news.len());
            assert!(news.iter().all(|name| said.owner(name) != Some(&address(member))));
        }
        assert!(rings(&[(1, &[1, 2, 3])]).arrival(&address(2), &address(3)).is_none());
        assert!(said.arrival(&address(2), &address(4)).is_none());
    }
}
