//! What the protocol wants done, what it says to peers, and how that ended.

use std::sync::Arc;

use super::{
    comparison::Comparison,
    data::Data,
    load::Loaded,
    outbox::{Item, Sent},
    verify::{Buckets, Page},
};
use crate::{
    base::clock::Millis,
    cluster::{Address, View},
};

/// What is to be done.
#[derive(Debug)]
pub enum Action<D: Data> {
    /// Make a call, and tell how it ended by its number.
    Call {
        /// Its number.
        id: u64,
        /// Whom to call.
        to: Address,
        /// What to say.
        call: Call<D>,
    },
    /// All that could know of younger beats of the silent parts of a key have been asked: judge them.
    Settled {
        /// Which key.
        key: D::Key,
        /// When the question came up. Of a part that has become silent since then nobody was asked.
        asked: Millis,
        /// Every listed member is Nacre, has answered, and had its data for long: no beat that came to any is unknown here.
        by_all: bool,
    },
    /// Find this out, and give what comes out to [`Core::compared`](super::core::Core::compared) before anything else.
    Compare(Comparison),
    /// The data of the others are here.
    Ready {
        /// Those whose data were merged; they can be reached.
        loaded_from: Vec<Address>,
    },
    /// The node wasn't driven for this long.
    StoodStill {
        /// Milliseconds on its own clock.
        ms: u64,
    },
    /// The same while it loaded: what peers have told of the ring is old.
    LoadsAnew,
}

/// What is to be said to a peer.
#[derive(Debug)]
pub enum Call<D: Data> {
    /// Ask for all its data, and merge them. Answered by [`Answer::Load`].
    Load,
    /// Send the newest of these. Answered by [`Answer::Push`].
    Push(Vec<Item<D::Key>>),
    /// Compare. Answered by [`Answer::Verified`].
    Verify {
        /// As the node sees the cluster.
        view: Arc<View>,
        /// The digest of all that the node owns.
        root: u64,
        /// What is to be known of the silence of parts.
        beats: D::Beats,
    },
    /// Compare the keys of some buckets. Answered by [`Answer::Wanted`].
    Keys {
        /// As the node sees the cluster.
        view: Arc<View>,
        /// The keys.
        page: Page<D::Key>,
    },
    /// Ask for younger beats of the silent parts of these. Answered by [`Answer::Heard`].
    Ask(Vec<D::Key>),
    /// Send a member of 1.x the checksums of these, which are all that the node owns. Answered by [`Answer::Done`].
    Checksums(Vec<D::Key>),
    /// Ask a member of 1.x for these, and apply them. Answered by [`Answer::Done`].
    Pull(Vec<D::Key>),
}

/// How a call ended.
#[derive(Debug)]
pub enum Answer<K> {
    /// Of [`Call::Load`].
    Load(Loaded),
    /// Of [`Call::Push`].
    Push(Sent),
    /// Of [`Call::Verify`].
    Verified {
        /// Tells one run of the peer from another.
        boot: u64,
        /// Where it doesn't know all that was said of silence: the buckets, none if it can't tell which.
        missed: Option<Vec<u8>>,
        /// The peer's buckets where the roots differ.
        buckets: Option<Buckets>,
    },
    /// Of [`Call::Keys`]: the keys that the peer wants whole.
    Wanted(Vec<K>),
    /// To a question about silence: whether the peer has its data since a moment ago.
    Heard {
        /// What it knew before is lost.
        is_new: bool,
    },
    /// Of the others: it was done.
    Done,
    /// Of any: it wasn't.
    Failed,
}

/// What is under way.
#[derive(Debug)]
pub(super) enum UnderWay<K> {
    /// [`Call::Load`].
    Load {
        /// When.
        asked: Millis,
    },
    Push,
    Verify,
    Keys,
    Ask(Vec<K>),
    Checksums,
    Pull,
}

impl<K: Clone> UnderWay<K> {
    /// What is under way when this is said at `now`.
    pub(super) fn of<D: Data<Key = K>>(call: &Call<D>, now: Millis) -> Self {
        match call {
            Call::Load => Self::Load { asked: now },
            Call::Push(_) => Self::Push,
            Call::Verify { .. } => Self::Verify,
            Call::Keys { .. } => Self::Keys,
            Call::Ask(keys) => Self::Ask(keys.clone()),
            Call::Checksums(_) => Self::Checksums,
            Call::Pull(_) => Self::Pull,
        }
    }
}
