//! Links between nodes, and between clients and nodes: how long what is sent takes, and whether it arrives.
//!
//! A link is one direction. A call goes over the link of its direction, its answer over the other one. What is cut says
//! nothing: neither side hears of it. That nobody listens is told by the world, since it is a matter of the process.

use super::{
    random::Random,
    seam::{At, MS},
};

/// Clients fall into this many groups, each with links of its own.
pub const CLIENT_GROUPS: usize = 4;

/// One direction between two parties; counts and sums, since faults may overlap.
#[derive(Clone, Copy, Debug, Default)]
pub struct Link {
    /// Calls in this direction hang before they arrive; answers pass. A firewall's rule.
    pub no_calls: u32,
    /// Nothing passes.
    pub cut: u32,
    /// Everything takes that much longer.
    pub slow: At,
    /// So many of 1,000 calls or answers are lost.
    pub lost: u64,
    /// So many of 1,000 calls arrive twice.
    pub doubled: u64,
    /// Everything takes up to that much longer, each on its own, so that the order changes.
    pub shuffled: At,
}

/// What becomes of something that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It vanishes.
    Vanishes,
    /// The connection breaks; the sender hears of it then.
    Breaks(At),
    /// It arrives then, and perhaps once more.
    Arrives(At, Option<At>),
}

/// All links.
#[derive(Debug)]
pub struct Network {
    parties: usize,
    links: Vec<Link>,
    random: Random,
}

/// Up to this delay a link counts as one over which others can be reached in time.
pub const MILD: At = 400 * MS;

impl Network {
    /// Faultless links among so many nodes and the groups of clients.
    pub fn new(nodes: usize, random: Random) -> Self {
        let parties = nodes + CLIENT_GROUPS;
        Self { parties, links: vec![Link::default(); parties * parties], random }
    }

    /// The link between two parties; clients come after the nodes.
    pub fn link(&mut self, from: usize, to: usize) -> &mut Link {
        &mut self.links[from * self.parties + to]
    }

    fn at(&self, from: usize, to: usize) -> &Link {
        &self.links[from * self.parties + to]
    }

    /// Calls pass both ways, perhaps not all of them.
    pub fn is_passable(&self, one: usize, other: usize) -> bool {
        [self.at(one, other), self.at(other, one)]
            .iter()
            .all(|link| link.no_calls == 0 && link.cut == 0 && link.slow <= MILD && link.lost <= 300)
    }

    /// Calls pass both ways, in time and all of them.
    pub fn is_clear(&self, one: usize, other: usize) -> bool {
        self.is_passable(one, other)
            && [self.at(one, other), self.at(other, one)]
                .iter()
                .all(|link| link.lost == 0 && link.slow <= 20 * MS)
    }

    /// No call of the one to the other is ever answered.
    pub fn is_dark(&self, one: usize, other: usize) -> bool {
        let (there, back) = (self.at(one, other), self.at(other, one));
        there.no_calls > 0 || there.cut > 0 || back.cut > 0
    }

    /// What becomes of a call that is sent now.
    pub fn call(&mut self, from: usize, to: usize, now: At) -> Fate {
        let link = *self.at(from, to);
        if link.no_calls > 0 || link.cut > 0 {
            return Fate::Vanishes;
        }
        let arrival = now + self.delay(link);
        if self.random.chance(link.lost) {
            return if self.random.chance(500) { Fate::Vanishes } else { Fate::Breaks(arrival) };
        }
        let again = self.random.chance(link.doubled).then(|| arrival + self.random.between(0, 300 * MS));
        Fate::Arrives(arrival, again)
    }

    /// What becomes of an answer that is sent now.
    pub fn answer(&mut self, from: usize, to: usize, now: At) -> Fate {
        let link = *self.at(from, to);
        if link.cut > 0 {
            return Fate::Vanishes;
        }
        let arrival = now + self.delay(link);
        if self.random.chance(link.lost) {
            return if self.random.chance(500) { Fate::Vanishes } else { Fate::Breaks(arrival) };
        }
        Fate::Arrives(arrival, None)
    }

    fn delay(&mut self, link: Link) -> At {
        let tail = if self.random.chance(20) { self.random.below(20 * MS) } else { 0 };
        let shuffled = if link.shuffled > 0 { self.random.below(link.shuffled) } else { 0 };
        self.random.between(100, 900) + tail + link.slow + shuffled
    }
}

#[test]
fn a_cut_link_swallows_calls_and_a_walled_one_passes_answers() {
    let mut network = Network::new(2, Random::new(1, 1));
    network.link(0, 1).no_calls += 1;
    assert_eq!(network.call(0, 1, 0), Fate::Vanishes);
    assert!(matches!(network.answer(0, 1, 0), Fate::Arrives(..)));
    assert!(matches!(network.call(1, 0, 0), Fate::Arrives(..)));
    network.link(0, 1).no_calls -= 1;
    network.link(0, 1).cut += 1;
    assert_eq!(network.answer(0, 1, 0), Fate::Vanishes);
    assert!(!network.is_passable(1, 0));
}
