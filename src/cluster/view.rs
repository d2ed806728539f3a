//! What one node holds for true about the cluster at one moment: immutable, replaced as a whole.
//!
//! Pure.

use super::{Address, MemberState};
use crate::config::Mapping;

/// What the node itself is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// No list of members: it owns everything.
    Alone,
    /// Listed, and its data aren't loaded yet: takes no requests, sends no report.
    Starting,
    /// One of the owners.
    Serving,
    /// One of the owners until it stood still: answers reads, takes no writes until it has seen what it missed.
    Comparing,
    /// Goes in order: answers what comes, owns nothing any more.
    Leaving,
    /// No longer listed: sends nothing, takes no writes.
    Removed,
}

impl Standing {
    /// Whether it fetches what the others have before it takes part.
    #[must_use]
    pub fn is_loading(self) -> bool {
        matches!(self, Self::Starting | Self::Comparing)
    }
}

/// A listed member other than the node itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Where it is.
    pub address: Address,
    /// Whether it answers.
    pub state: MemberState,
    /// The number of the protocol among Nacre nodes, of a member that has shown that it is one.
    pub nacre: Option<u32>,
    /// It has said that its data aren't loaded yet.
    pub starting: bool,
    /// It has said that it goes in order: it answers what comes, and owns nothing any more.
    pub leaving: bool,
    /// It is DOWN only since most call it slow: this node reaches it, and goes on to bring it what is new.
    pub outvoted: bool,
    /// The node at its address is called otherwise: it is another member, or none of this list.
    pub is_another: bool,
}

impl Peer {
    /// A member that nothing has been heard of but this state.
    #[must_use]
    pub fn new(address: Address, state: MemberState) -> Self {
        Self {
            address,
            state,
            nacre: None,
            starting: false,
            leaving: false,
            outvoted: false,
            is_another: false,
        }
    }

    /// Whether services may be its own.
    #[must_use]
    pub fn may_own(&self) -> bool {
        self.state != MemberState::Down && !self.starting && !self.leaving
    }
}

/// The cluster as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The node itself.
    pub own: Address,
    /// What it does.
    pub standing: Standing,
    /// The owners of services, sorted as text: those up or suspicious, the node itself while it serves.
    pub ring: Vec<Address>,
    /// Where in the ring the node stands.
    pub own_index: Option<usize>,
    /// All listed members but the node itself, sorted as text.
    pub peers: Vec<Peer>,
    /// Nacre members that were taken off the list a moment ago. They may not have heard of it, and what they wrote until
    /// then is taken.
    pub parting: Vec<Address>,
    /// How services are spread.
    pub mapping: Mapping,
    /// See [`Self::is_all_nacre`].
    all_nacre: bool,
}

impl Peer {
    /// Whether it is a Nacre member that can be reached and has its data.
    #[must_use]
    pub fn is_nacre_at_work(&self) -> bool {
        self.nacre.is_some() && (self.state != MemberState::Down || self.outvoted) && !self.starting
    }
}

impl View {
    /// A node without members.
    #[must_use]
    pub fn alone(own: Address) -> Self {
        Self {
            ring: vec![own.clone()],
            own,
            standing: Standing::Alone,
            own_index: Some(0),
            peers: Vec::new(),
            parting: Vec::new(),
            mapping: Mapping::Modulo,
            all_nacre: true,
        }
    }

    /// A view of these `peers`; works out the ring.
    #[must_use]
    pub fn new(own: Address, standing: Standing, mut peers: Vec<Peer>, mapping: Mapping) -> Self {
        peers.sort_unstable_by(|one, other| one.address.cmp(&other.address));
        let owners = peers.iter().filter(|peer| peer.may_own());
        let mut ring: Vec<Address> = owners.map(|peer| peer.address.clone()).collect();
        if matches!(standing, Standing::Alone | Standing::Serving) {
            ring.push(own.clone());
        }
        ring.sort_unstable();
        let own_index = ring.iter().position(|address| *address == own);
        let all_nacre = peers.iter().all(|peer| peer.nacre.is_some() || peer.state == MemberState::Down);
        Self { own, standing, ring, own_index, peers, parting: Vec::new(), mapping, all_nacre }
    }

    /// The same, without the node itself among the owners.
    #[must_use]
    pub fn without_own(mut self) -> Self {
        self.ring.retain(|address| *address != self.own);
        self.own_index = None;
        self
    }

    /// The same, with these that were members a moment ago.
    #[must_use]
    pub fn with_parting(self, parting: Vec<Address>) -> Self {
        Self { parting, ..self }
    }

    /// Whether data that this one sends are taken: of a peer, or of one that was a peer a moment ago.
    #[must_use]
    pub fn takes_data_of(&self, address: &Address) -> bool {
        self.peer(address).is_some() || self.parting.contains(address)
    }

    /// The peer of this address.
    #[must_use]
    pub fn peer(&self, address: &Address) -> Option<&Peer> {
        self.place(address.as_str()).map(|index| &self.peers[index])
    }

    /// Whether the peer of this address has shown that it is Nacre.
    #[must_use]
    pub fn is_nacre(&self, address: &Address) -> bool {
        self.peer(address).is_some_and(|peer| peer.nacre.is_some())
    }

    /// Whether a peer has this address.
    #[must_use]
    pub fn lists(&self, address: &str) -> bool {
        self.place(address).is_some()
    }

    fn place(&self, address: &str) -> Option<usize> {
        self.peers.binary_search_by(|peer| peer.address.as_str().cmp(address)).ok()
    }

    /// The members that this node can't reach, or that most can't in time; those that are known for Nacre come first, since
    /// whoever is told of them takes only so many. Others may reach them, and know whether they are Nacre: this node doesn't, of
    /// one that was listed anew while a link was cut. Not those that are there under another name.
    pub fn unreached(&self) -> impl Iterator<Item = &Address> {
        let unreached = |is_nacre: bool| {
            let unreached =
                self.peers.iter().filter(|peer| peer.state == MemberState::Down && !peer.is_another);
            unreached.filter(move |peer| peer.nacre.is_some() == is_nacre)
        };
        unreached(true).chain(unreached(false)).map(|peer| &peer.address)
    }

    /// Whether every listed member has shown that it is Nacre, but for those that are down: they do nothing that the others
    /// would have to mind.
    #[must_use]
    pub fn is_all_nacre(&self) -> bool {
        self.all_nacre
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_members_out_of_reach_those_known_for_nacre_come_first_and_none_by_a_second_name() {
        let address = |n: u32| Address::new(&format!("10.0.0.{n}:8848"));
        let down = |n| Peer::new(address(n), MemberState::Down);
        let nacre = |peer| Peer { nacre: Some(1), ..peer };
        let peers = vec![
            down(2),
            Peer { is_another: true, ..nacre(down(3)) },
            nacre(down(4)),
            nacre(Peer::new(address(5), MemberState::Up)),
            down(6),
            nacre(down(7)),
        ];
        let view = View::new(address(1), Standing::Serving, peers, Mapping::Modulo);
        assert!(view.unreached().eq(&[4, 7, 2, 6].map(address)));
    }
}
