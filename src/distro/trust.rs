//! What the word of a peer counts for.
//!
//! Pure. What Nacre members tell is stamped, so the only question is who judges the silence of instances. Lists of members of
//! 1.x say nothing of when they were written: their owner's are whole, and of what others have only what nobody here knows.

use super::mapper::{Owner, owner};
use crate::{
    cluster::{Address, View},
    model::merge::{Judge, ListFor},
};

/// A member that sends data and says who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Its address.
    pub address: Address,
    /// It shows that it is Nacre.
    pub is_nacre: bool,
}

/// Who judges the silence of the instances of a service with this owner, of which `from` tells, if it says who it is.
///
/// `is_newcomer`: whether that came to the ring a moment ago; `is_long`: whether this node, where it is the owner, has been that for
/// so long that all that live have beaten here. Of a node that serves; while it loads it shows what others show.
#[must_use]
pub fn judge(
    owner: Owner<'_>,
    from: Option<&Address>,
    is_newcomer: bool,
    is_long: impl FnOnce() -> bool,
) -> Judge {
    match owner {
        Owner::Here if is_long() => Judge::Here,
        _ if from.is_some() && is_newcomer => Judge::Nobody,
        Owner::Peer(owner) if from == Some(owner) => Judge::Teller,
        Owner::Here | Owner::Peer(_) | Owner::Nobody => Judge::Another,
    }
}

/// What a list without stamps of the service with this grouped name counts for, where `from` tells; 1.4.8 doesn't say who it is when
/// it sends its own.
///
/// `is_latest`: whether the list of an owner of 1.x can't be older than what is here. A Nacre member sends such lists, too, as
/// long as it doesn't know that this node is one.
#[must_use]
pub fn list_for(
    view: &View,
    name: &str,
    from: Option<&Address>,
    is_latest: impl FnOnce() -> bool,
) -> ListFor {
    let is_of_legacy = |owner: &Address| view.peer(owner).is_some_and(|peer| peer.nacre.is_none());
    match owner(view, name) {
        // What it asked for before it stood still.
        _ if view.standing.is_loading() => ListFor::Copy,
        Owner::Here => ListFor::News,
        Owner::Peer(owner) if is_of_legacy(owner) && from.is_none_or(|from| from == owner) && is_latest() => {
            ListFor::Whole
        }
        Owner::Peer(_) | Owner::Nobody => ListFor::Hearsay,
    }
}

/// The same of what a node that loads has asked for: it takes what anybody has, and of what it knows the owner that one's list.
///
/// `owner`: of the service, by all members that say so, if they say the same; `is_loaded`: whether the data of that are here; `awaits`: whether
/// something is being brought to `from`, which its list can't have yet.
#[must_use]
pub fn list_for_load(
    owner: Option<&Address>,
    from: &Address,
    is_loaded: impl FnOnce(&Address) -> bool,
    awaits: impl FnOnce() -> bool,
) -> ListFor {
    match owner {
        Some(owner) if owner == from => {
            if awaits() {
                ListFor::Copy
            } else {
                ListFor::Latest
            }
        }
        Some(owner) if is_loaded(owner) => ListFor::Beats,
        _ => ListFor::Copy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Mapping, MemberState, Peer, Standing};

    fn address(n: u32) -> Address {
        Address::new(&format!("10.0.0.{n}:8848"))
    }

    /// Of member 1, beside 2 and 3 of 1.x and 4 of Nacre.
    fn view(standing: Standing) -> View {
        let mut peers = [2, 3, 4].map(|n| Peer::new(address(n), MemberState::Up));
        peers[2].nacre = Some(1);
        View::new(address(1), standing, peers.to_vec(), Mapping::Modulo)
    }

    /// A service of that owner.
    fn name(view: &View, of: Owner<'_>) -> String {
        (0..100).map(|n| format!("G@@{n}")).find(|name| owner(view, name) == of).unwrap()
    }

    #[test]
    fn a_newcomer_judges_no_silence_and_a_long_owner_does_whoever_tells() {
        let (owner, other) = (address(2), address(3));
        for (of, from, is_newcomer, is_long, expected) in [
            (Owner::Here, Some(&other), true, true, Judge::Here),
            (Owner::Here, Some(&other), true, false, Judge::Nobody),
            (Owner::Here, Some(&other), false, false, Judge::Another),
            (Owner::Here, None, false, false, Judge::Another),
            (Owner::Peer(&owner), Some(&owner), true, false, Judge::Nobody),
            (Owner::Peer(&owner), Some(&owner), false, false, Judge::Teller),
            (Owner::Peer(&owner), Some(&other), true, false, Judge::Nobody),
            (Owner::Peer(&owner), Some(&other), false, false, Judge::Another),
            (Owner::Peer(&owner), None, false, false, Judge::Another),
            (Owner::Nobody, None, false, false, Judge::Another),
        ] {
            let is = judge(of, from, is_newcomer, || is_long);
            assert_eq!(is, expected, "{of:?} {from:?} {is_newcomer} {is_long}");
        }
    }

    #[test]
    fn what_the_owner_of_1x_tells_is_its_whole_list_and_what_another_member_does_is_hearsay() {
        let view = view(Standing::Serving);
        let of = |owner: Owner<'_>| name(&view, owner);
        let told = |name: &str, from: Option<u32>, is_latest| {
            list_for(&view, name, from.map(address).as_ref(), || is_latest)
        };
        let legacy = of(Owner::Peer(&address(2)));
        assert_eq!(told(&legacy, Some(2), true), ListFor::Whole);
        assert_eq!(told(&legacy, None, true), ListFor::Whole, "1.4.8 doesn't say who it is");
        assert_eq!(told(&legacy, Some(2), false), ListFor::Hearsay, "something waits for it");
        assert_eq!(told(&legacy, Some(3), true), ListFor::Hearsay);
        assert_eq!(told(&legacy, Some(4), true), ListFor::Hearsay);
        let nacre = of(Owner::Peer(&address(4)));
        assert_eq!([None, Some(2), Some(4)].map(|from| told(&nacre, from, true)), [ListFor::Hearsay; 3]);
        let ours = of(Owner::Here);
        assert_eq!([None, Some(2), Some(4)].map(|from| told(&ours, from, true)), [ListFor::News; 3]);
    }

    #[test]
    fn a_node_that_loads_takes_what_anybody_has_until_the_owner_tells() {
        let told = |owner: Option<u32>, from, is_loaded, awaits| {
            list_for_load(owner.map(address).as_ref(), &address(from), |_| is_loaded, || awaits)
        };
        assert_eq!(told(None, 2, true, false), ListFor::Copy, "nobody says so, or not all the same");
        assert_eq!(told(Some(3), 2, false, false), ListFor::Copy);
        assert_eq!(told(Some(3), 2, true, false), ListFor::Beats);
        assert_eq!(told(Some(2), 2, false, false), ListFor::Latest);
        assert_eq!(told(Some(2), 2, true, true), ListFor::Copy, "it is being brought something");
        for standing in [Standing::Starting, Standing::Comparing] {
            let view = view(standing);
            let legacy = name(&view, Owner::Peer(&address(2)));
            assert_eq!(list_for(&view, &legacy, Some(&address(2)), || true), ListFor::Copy);
        }
    }
}
