//! What is found out over all data when members compare.
//!
//! Pure. With 10,000 services of 10 instances it takes milliseconds, and some tens of them where much has changed: too
//! long for those who have something to tell the [protocol](super::core) meanwhile. So that says what it wants to know,
//! who drives it finds it out without holding it up, and gives it what came out.

use std::sync::Arc;

use super::{
    bodies::BODY_BYTES,
    core::Call,
    data::{Data, Told},
    mapper::{self, Owner},
    verify::{Buckets, Page},
};
use crate::{
    base::{
        clock::Millis,
        mutant::{self, Mutant},
    },
    cluster::{Address, View},
};

/// What the protocol wants to know.
#[derive(Debug)]
pub struct Comparison {
    /// As the node sees the cluster.
    pub(super) view: Arc<View>,
    pub(super) subject: Subject,
}

#[derive(Debug)]
pub(super) enum Subject {
    /// What all members are told of what the node owns.
    Round {
        /// Nacre members, with what each was told of silence before.
        nacre: Vec<(Address, Told)>,
        /// Members of 1.x.
        legacy: Vec<Address>,
    },
    /// The keys of the buckets in which a member differs.
    Differing {
        peer: Address,
        /// Its own.
        theirs: Buckets,
    },
}

/// What came out.
#[derive(Debug)]
pub struct Compared<D: Data> {
    /// What is to be said, to whom.
    pub(super) calls: Vec<(Address, Call<D>)>,
    /// What each Nacre member has been told of silence then.
    pub(super) told: Vec<(Address, Told)>,
}

impl Comparison {
    /// Finds it out.
    #[must_use]
    pub fn over<D: Data>(self, data: &D, now: Millis) -> Compared<D> {
        let Self { view, subject } = self;
        let owned = |key: &D::Key| mapper::owner(&view, D::name(key)) == Owner::Here;
        let (mut calls, mut told) = (Vec::new(), Vec::new());
        match subject {
            Subject::Round { nacre, legacy } => {
                let root = if nacre.is_empty() { 0 } else { Buckets::of(data, &owned).root() };
                for (peer, mut told_before) in nacre {
                    let beats = data.beats(&owned, &mut told_before, now);
                    calls.push((peer.clone(), Call::Verify { view: Arc::clone(&view), root, beats }));
                    told.push((peer, told_before));
                }
                let keys = if legacy.is_empty() { Vec::new() } else { owned_keys(data, &owned) };
                if !keys.is_empty() {
                    calls.extend(legacy.into_iter().map(|peer| (peer, Call::Checksums(keys.clone()))));
                }
            }
            Subject::Differing { peer, theirs } => {
                let mut differing = Buckets::of(data, &owned).differing(&theirs);
                if mutant::is(Mutant::VerifyFindsNothing) {
                    differing.clear();
                }
                let pages = Page::all_of(data, &differing, &owned, BODY_BYTES).into_iter();
                calls.extend(pages.map(|page| (peer.clone(), Call::Keys { view: Arc::clone(&view), page })));
            }
        }
        Compared { calls, told }
    }
}

fn owned_keys<D: Data>(data: &D, owned: &dyn Fn(&D::Key) -> bool) -> Vec<D::Key> {
    let mut keys = Vec::new();
    data.each(&mut |key, _| {
        if owned(key) {
            keys.push(key.clone());
        }
    });
    keys
}
