//! What is found out over all data when members compare.
//!
//! Pure. With 10,000 services of 10 instances it takes milliseconds, and some tens of them where much has changed: too
//! long for those who have something to tell the [protocol](super::core) meanwhile. So that says what it wants to know,
//! who drives it finds it out without holding it up, and gives it what came out.

use std::sync::Arc;

use super::{
    bodies::BODY_BYTES,
    calls::Call,
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
pub struct ComparedData<D: Data> {
    /// What is to be said, to whom.
    pub(super) calls: Vec<(Address, Call<D>)>,
    /// What each Nacre member has been told of silence then.
    pub(super) told: Vec<(Address, Told)>,
}

impl Comparison {
    /// Finds it out.
    #[must_use]
    pub fn over<D: Data>(self, data: &D, now: Millis) -> ComparedData<D> {
        let Self { view, subject } = self;
        let owned = |key: &D::Key| mapper::owner(&view, D::name(key)) == Owner::Here;
        let (mut calls, mut told) = (Vec::new(), Vec::new());
        match subject {
            Subject::Round { nacre, legacy } => {
                let root = if nacre.is_empty() { 0 } else { Buckets::of(data, &owned).root() };
                let mut news = News { data, owned: &owned, now, said: Vec::new() };
                for (peer, told_before) in nacre {
                    let (beats, told_now) = news.since(told_before);
                    calls.push((peer.clone(), Call::Verify { view: Arc::clone(&view), root, beats }));
                    told.push((peer, told_now));
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
        ComparedData { calls, told }
    }
}

/// The news of silence for all members: found once for those that have been told the same.
struct News<'a, D: Data> {
    data: &'a D,
    owned: &'a dyn Fn(&D::Key) -> bool,
    now: Millis,
    /// What members had been told, what they are told now, and what they know with it.
    said: Vec<(Told, D::Beats, Told)>,
}

impl<D: Data> News<'_, D> {
    fn since(&mut self, told: Told) -> (D::Beats, Told) {
        if let Some((_, beats, known)) = self.said.iter().find(|(before, ..)| before.is_same(&told)) {
            return (beats.clone(), known.clone());
        }
        let mut known = told.clone();
        let beats = self.data.beats(self.owned, &mut known, self.now);
        // From here on they are told the same.
        if let Some((.., other)) = self.said.iter().find(|(.., other)| other.parts == known.parts) {
            known.parts = Arc::clone(&other.parts);
        }
        self.said.push((told, beats.clone(), known.clone()));
        (beats, known)
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Silence alone: that of one part, which is late.
    #[derive(Default)]
    struct Silent {
        looked: Cell<u32>,
    }

    impl Data for Silent {
        type Key = u32;
        type Beats = Vec<u64>;

        fn name(_: &u32) -> &str {
            ""
        }

        fn hash(key: &u32) -> u64 {
            u64::from(*key)
        }

        fn each(&self, _: &mut dyn FnMut(&u32, u64)) {}

        fn digest(&self, _: &u32) -> u64 {
            0
        }

        fn beats(&self, _: &dyn Fn(&u32) -> bool, told: &mut Told, _: Millis) -> Vec<u64> {
            self.looked.set(self.looked.get() + 1);
            let news = [7].into_iter().filter(|part| !told.parts.contains(part)).collect();
            told.parts = Arc::new([7].into_iter().collect());
            news
        }
    }

    #[test]
    fn news_are_found_once_for_all_who_know_the_same_and_apart_for_one_who_missed_some() {
        let data = Silent::default();
        let round = |told: Vec<Told>| -> (Vec<Vec<u64>>, Vec<Told>) {
            let mut news = News { data: &data, owned: &|_| true, now: Millis(0), said: Vec::new() };
            told.into_iter().map(|told| news.since(told)).unzip()
        };
        let (beats, mut told) = round(vec![Told::default(); 3]);
        assert_eq!((beats, data.looked.take()), (vec![vec![7]; 3], 1));
        // The second has missed what is in bucket 0, so it is told anew, and knows the same as the others afterwards.
        told[1].answered(Some(vec![0]));
        let (beats, mut told) = round(told);
        assert_eq!((beats, data.looked.take()), (vec![vec![], vec![7], vec![]], 2));
        told.iter_mut().for_each(|told| told.answered(None));
        let (beats, _) = round(told);
        assert_eq!((beats, data.looked.take()), (vec![Vec::new(); 3], 1));
    }
}
