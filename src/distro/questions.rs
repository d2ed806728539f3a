//! Silent parts of keys, about which peers are asked before anybody judges them: a beat may have come to a member that isn't
//! their owner.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::Hash,
};

use crate::{
    base::{
        clock::Millis,
        mutant::{self, Mutant},
    },
    cluster::{Address, Peer, View},
};

/// A peer that was asked about silent parts and doesn't answer for this long knows nothing of them, in milliseconds.
const ASK_MS: u64 = 3_000;

/// The questions that aren't settled; at most one a key.
#[derive(Debug)]
pub(super) struct Questions<K>(BTreeMap<K, Question>);

#[derive(Debug)]
struct Question {
    waits_for: BTreeSet<Address>,
    asked: Millis,
    /// Somebody who may know of beats isn't asked, or not any more.
    misses_some: bool,
}

impl Question {
    fn until(&self) -> Millis {
        self.asked.plus(ASK_MS)
    }
}

/// All that could know of younger beats of a key's parts have been asked.
#[derive(Debug)]
pub(super) struct SettledQuestion<K> {
    pub(super) key: K,
    /// When the question came up.
    pub(super) asked: Millis,
    /// Every listed member is Nacre and has answered, and had its data for long.
    pub(super) by_all: bool,
}

impl<K> Default for Questions<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Clone + Ord + Hash> Questions<K> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Parts of a key are silent; nothing new where that is asked already.
    pub(super) fn ask(&mut self, key: &K, view: &View, now: Millis) {
        if self.0.contains_key(key) {
            return;
        }
        let asks = !mutant::is(Mutant::JudgesUnasked);
        let peers = view.peers.iter().filter(|peer| asks && peer.is_nacre_at_work());
        let waits_for: BTreeSet<_> = peers.map(|peer| peer.address.clone()).collect();
        let misses_some = waits_for.len() < view.peers.len();
        self.0.insert(key.clone(), Question { waits_for, asked: now, misses_some });
    }

    /// The cluster looks like this now: those that aren't at work any more aren't waited for.
    pub(super) fn see(&mut self, view: &View) {
        for question in self.0.values_mut() {
            let before = question.waits_for.len();
            question.waits_for.retain(|address| view.peer(address).is_some_and(Peer::is_nacre_at_work));
            question.misses_some |= question.waits_for.len() < before;
        }
    }

    /// A peer has told what it knows of these; where it `is_new` that may be less than it should.
    pub(super) fn answered(&mut self, peer: &Address, keys: &[K], is_new: bool) {
        for key in keys {
            if let Some(question) = self.0.get_mut(key) {
                question.waits_for.remove(peer);
                question.misses_some |= is_new;
            }
        }
    }

    /// What a peer is still to be asked, but for what it is being asked.
    pub(super) fn open_for(&self, peer: &Address, asked: &BTreeSet<&K>) -> Vec<K> {
        let is_open =
            |key: &K, question: &Question| question.waits_for.contains(peer) && !asked.contains(key);
        let open = self.0.iter().filter(|(key, question)| is_open(key, question));
        open.map(|(key, _)| key.clone()).collect()
    }

    /// Those that are settled, which are questions no more.
    pub(super) fn settled(&mut self, now: Millis) -> Vec<SettledQuestion<K>> {
        let is_settled =
            |_: &K, question: &mut Question| question.waits_for.is_empty() || now >= question.until();
        let settled = self.0.extract_if(.., is_settled).map(|(key, question)| SettledQuestion {
            key,
            asked: question.asked,
            by_all: question.waits_for.is_empty() && !question.misses_some,
        });
        settled.collect()
    }

    /// When the first of them is settled though nobody answers.
    pub(super) fn next(&self) -> Option<Millis> {
        self.0.values().map(Question::until).min()
    }
}
