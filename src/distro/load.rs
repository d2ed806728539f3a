//! Loading the data of the others: at the start, and after the node stood still.
//!
//! Pure. All peers that can be reached are asked, since the first that answers may have slept, too; what they have is
//! merged. Source: Nacos 1.4.8 naming module, distro load task, which takes the first answer.

use std::collections::BTreeMap;

use crate::{base::clock::Millis, cluster::Address};

/// How long a peer may be silent before a node that has loaded from nobody goes on without it, in milliseconds.
const SILENCE_MS: u64 = 10_000;
/// Pause between two tries at one peer, in milliseconds.
const RETRY_MS: u64 = 500;

/// How an attempt to load from a peer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loaded {
    /// What it has is merged.
    Merged,
    /// It says that it is starting itself.
    Starting,
    /// It doesn't take this node for a member.
    Unknown,
    /// Its port is shut.
    Refused,
    /// No answer, or none that can be used.
    Failed,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    last: Option<Loaded>,
    under_way: bool,
    next: Millis,
}

/// A load that lasts until enough peers have answered.
#[derive(Debug)]
pub struct Load {
    began: Millis,
    peers: BTreeMap<Address, Asked>,
}

impl Load {
    /// A load from `peers` that begins now.
    #[must_use]
    pub fn new(peers: impl Iterator<Item = Address>, now: Millis) -> Self {
        let mut load = Self { began: now, peers: BTreeMap::new() };
        load.relist(peers, now);
        load
    }

    /// Goes on with these peers: new ones are asked, those that are gone aren't waited for.
    pub fn relist(&mut self, peers: impl Iterator<Item = Address>, now: Millis) {
        let before = std::mem::take(&mut self.peers);
        let asked = |address: &Address| before.get(address).copied();
        let fresh = Asked { last: None, under_way: false, next: now };
        self.peers = peers.map(|address| (address.clone(), asked(&address).unwrap_or(fresh))).collect();
    }

    /// Whom to ask now.
    pub fn take(&mut self, now: Millis) -> Vec<Address> {
        let due = |asked: &Asked| !asked.under_way && asked.last != Some(Loaded::Merged) && asked.next <= now;
        let mut addresses = Vec::new();
        for (address, asked) in self.peers.iter_mut().filter(|(_, asked)| due(asked)) {
            asked.under_way = true;
            addresses.push(address.clone());
        }
        addresses
    }

    /// Notes how an attempt ended.
    pub fn answered(&mut self, address: &Address, outcome: Loaded, now: Millis) {
        if let Some(asked) = self.peers.get_mut(address) {
            *asked = Asked { last: Some(outcome), under_way: false, next: now.plus(RETRY_MS) };
        }
    }

    /// Whether the node has what it can get.
    ///
    /// With the data of one peer: when every other has answered, or its try has failed. Without: when all are starting as
    /// this node is, or have been silent for ten seconds; those that don't know it must come to know it.
    #[must_use]
    pub fn is_complete(&self, now: Millis) -> bool {
        let mut states = self.peers.values().map(|asked| asked.last);
        if states.clone().any(|last| last == Some(Loaded::Merged)) {
            return states.all(|last| last.is_some());
        }
        let silent = now.since(self.began) >= SILENCE_MS;
        states.all(|last| match last {
            Some(Loaded::Starting | Loaded::Merged) => true,
            Some(Loaded::Unknown) => false,
            Some(Loaded::Refused | Loaded::Failed) | None => silent,
        })
    }

    /// The peers whose data are merged.
    pub fn merged(&self) -> impl Iterator<Item = &Address> {
        let merged = self.peers.iter().filter(|(_, asked)| asked.last == Some(Loaded::Merged));
        merged.map(|(address, _)| address)
    }

    /// When something is to be done next after `now`, if no answer comes before.
    #[must_use]
    pub fn next(&self, now: Millis) -> Option<Millis> {
        let tries =
            self.peers.values().filter(|asked| !asked.under_way && asked.last != Some(Loaded::Merged));
        let silence = Some(self.began.plus(SILENCE_MS)).filter(|end| *end > now);
        tries.map(|asked| asked.next).chain(silence).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u32) -> Address {
        Address::new(&format!("10.0.0.{n}:8848"))
    }

    fn load(peers: u32) -> Load {
        let mut load = Load::new((1..=peers).map(address), Millis(1_000));
        assert_eq!(load.take(Millis(1_000)).len(), peers as usize);
        load
    }

    #[test]
    fn a_node_with_one_peer_s_data_waits_for_the_first_word_of_each_other() {
        let mut load = load(3);
        load.answered(&address(1), Loaded::Merged, Millis(1_001));
        assert!(!load.is_complete(Millis(1_001)));
        load.answered(&address(2), Loaded::Refused, Millis(1_001));
        assert!(!load.is_complete(Millis(99_000)));
        load.answered(&address(3), Loaded::Failed, Millis(4_000));
        assert!(load.is_complete(Millis(4_000)));
        assert_eq!(load.merged().count(), 1);
    }

    #[test]
    fn nodes_that_all_start_go_on_when_each_has_said_so() {
        let mut load = load(2);
        load.answered(&address(1), Loaded::Starting, Millis(1_001));
        load.answered(&address(2), Loaded::Refused, Millis(1_001));
        assert!(!load.is_complete(Millis(10_999)));
        assert_eq!(load.take(Millis(1_500)), []);
        assert_eq!(load.take(Millis(1_501)), [address(1), address(2)]);
        load.answered(&address(2), Loaded::Starting, Millis(1_502));
        assert!(load.is_complete(Millis(1_502)), "what was said before counts while it is asked again");
    }

    #[test]
    fn silence_ends_the_waiting_but_not_for_those_that_do_not_know_the_node() {
        let mut load = load(2);
        load.answered(&address(1), Loaded::Refused, Millis(1_001));
        assert!(!load.is_complete(Millis(10_999)) && load.is_complete(Millis(11_000)));
        load.answered(&address(1), Loaded::Unknown, Millis(12_000));
        assert!(!load.is_complete(Millis(99_000)));
        load.answered(&address(1), Loaded::Merged, Millis(99_000));
        load.answered(&address(2), Loaded::Unknown, Millis(99_000));
        assert!(load.is_complete(Millis(99_000)));
    }

    #[test]
    fn who_leaves_the_list_is_not_waited_for_and_who_joins_is_asked() {
        let mut load = load(2);
        load.answered(&address(1), Loaded::Merged, Millis(1_001));
        load.relist([address(1)].into_iter(), Millis(1_002));
        assert!(load.is_complete(Millis(1_002)));
        load.relist([address(1), address(3)].into_iter(), Millis(1_003));
        assert!(!load.is_complete(Millis(1_003)));
        assert_eq!(load.take(Millis(1_003)), [address(3)]);
        assert!(Load::new(std::iter::empty(), Millis(0)).is_complete(Millis(0)), "nobody to load from");
    }
}
