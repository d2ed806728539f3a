//! What the protocol must know of the data that it keeps alike on all members.
//!
//! The protocol never holds data: it decides which keys go to whom and when, and whoever drives it reads the newest data
//! when a call is made. Instance lists are the data that ships; tests bring others.

use std::{fmt::Debug, hash::Hash, sync::Arc};

use crate::base::{clock::Millis, numbers::Numbers};

/// What a peer has been told of late parts.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Those that it knows for late, by hashes of key and part whose first byte is the bucket of the key; shared by all
    /// peers that know the same, as nearly always.
    pub parts: Arc<Numbers>,
    /// Buckets, ascending, in which it knew others: it is to forget those, and all in them is said anew.
    pub anew: Vec<u8>,
    /// It knew others somewhere, or may have missed something: it is said what to compare bucket by bucket.
    pub is_doubted: bool,
}

impl Told {
    /// The peer knows nothing: all is said anew.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The peer answers in which buckets it knows others, if in any; in none of them where it couldn't tell.
    pub fn answered(&mut self, missed: Option<Vec<u8>>) {
        self.is_doubted = missed.is_some();
        self.anew = missed.unwrap_or_default();
        self.anew.sort_unstable();
        self.anew.dedup();
        let Self { parts, anew, .. } = self;
        if !anew.is_empty() {
            Arc::make_mut(parts).retain(|part| anew.binary_search(&part.to_be_bytes()[0]).is_err());
        }
    }

    /// Whether what is said next is the same for both; of two that say no they may still be alike, which costs time alone.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let is_same =
            Arc::ptr_eq(&self.parts, &other.parts) || self.parts.is_empty() && other.parts.is_empty();
        is_same && self.anew == other.anew && self.is_doubted == other.is_doubted
    }
}

/// Data under keys, each a set of stamped parts.
pub trait Data {
    /// Names a datum.
    type Key: Clone + Ord + Hash + Debug;
    /// What is said to a peer about the silence of parts; empty where nothing changed.
    type Beats: Clone + Debug;

    /// The text by which the owner of a key is found.
    fn name(key: &Self::Key) -> &str;

    /// A hash of the key that is the same on every member.
    fn hash(key: &Self::Key) -> u64;

    /// How many bytes a key and its digest take in a document, about.
    fn bytes(key: &Self::Key) -> usize {
        Self::name(key).len() + 32
    }

    /// Calls `each` with every key that has parts, and the digest of those.
    fn each(&self, each: &mut dyn FnMut(&Self::Key, u64));

    /// The digest of the parts under a key; that of a datum without parts, or of none, is 0.
    fn digest(&self, key: &Self::Key) -> u64;

    /// Which parts of the keys that `owned` says became late or came back since `told` was said; brings `told` up to date.
    /// What doesn't fit into a document isn't said, nor is it in `told`, so that it is said next time.
    fn beats(&self, owned: &dyn Fn(&Self::Key) -> bool, told: &mut Told, now: Millis) -> Self::Beats;
}
