//! What there is between this node and one peer, and the pace at which it is told.

use std::{collections::BTreeSet, hash::Hash};

use super::{
    data::Told,
    outbox::{Outbox, Pace},
};
use crate::{base::clock::Millis, cluster::Peer};

/// The pace of the protocol; times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rhythm {
    /// Time between two sendings of one key to a Nacre member.
    pub merge_ms: u64,
    /// The same to one of 1.x.
    pub legacy_merge_ms: u64,
    /// Time between two requests to one peer.
    pub gather_ms: u64,
    /// Keys in one request.
    pub batch: usize,
    /// Longest pause before a request is tried again.
    pub retry_cap_ms: u64,
    /// Time between two comparisons with all peers.
    pub verify_ms: u64,
}

impl Rhythm {
    /// That of sending to `peer`.
    pub(super) fn pace(self, peer: Option<&Peer>) -> Pace {
        let Self { merge_ms, legacy_merge_ms, gather_ms, batch, retry_cap_ms, .. } = self;
        let is_nacre = peer.is_none_or(|peer| peer.nacre.is_some());
        let merge_ms = if is_nacre { merge_ms } else { legacy_merge_ms };
        Pace { merge_ms, gather_ms, batch, retry_cap_ms }
    }
}

#[cfg(test)]
impl Rhythm {
    /// That of the settings as they are without any.
    pub const USUAL: Self = Self {
        merge_ms: 50,
        legacy_merge_ms: 1_000,
        gather_ms: 5,
        batch: 1_000,
        retry_cap_ms: 3_000,
        verify_ms: 5_000,
    };
}

/// What there is between this node and one peer.
#[derive(Debug)]
pub(super) struct Line<K> {
    pub(super) outbox: Outbox<K>,
    pub(super) told: Told,
    pub(super) boot: Option<u64>,
    /// Keys to be asked of a member of 1.x.
    pub(super) pulls: BTreeSet<K>,
    pub(super) verifying: bool,
    /// Until when it isn't asked again while a question is under way or after it gave no answer.
    pub(super) ask_not_before: Millis,
    /// While it is being asked for keys: those, but for what was put into the outbox since.
    pub(super) pulling: Option<BTreeSet<K>>,
}

impl<K: Clone + Ord + Hash> Line<K> {
    pub(super) fn new() -> Self {
        Self {
            outbox: Outbox::default(),
            told: Told::default(),
            boot: None,
            pulls: BTreeSet::new(),
            verifying: false,
            ask_not_before: Millis(0),
            pulling: None,
        }
    }

    /// Notes that a key is to be sent; see [`Outbox::put`].
    pub(super) fn put(&mut self, key: &K, whole: bool, now: Millis, pace: Pace) {
        if let Some(pulling) = &mut self.pulling {
            pulling.remove(key);
        }
        self.outbox.put(key, whole, now, pace);
    }

    /// The peer may know nothing of what it was sent and told: it starts anew.
    pub(super) fn forget_known(&mut self) {
        self.told.clear();
        self.outbox.forget_confirmed();
    }
}
