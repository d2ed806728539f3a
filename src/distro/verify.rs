//! Comparing the data of an owner with the copies of a peer, coarse first.
//!
//! Pure. Keys fall into 256 buckets by their hash; a bucket's digest and the digest of all buckets don't depend on any
//! order. Where the latter differ the buckets are compared, and where those differ the keys in them, so that equal data
//! cost a few bytes. For Nacre members; members of Nacos 1.x send all their keys each time.

use std::collections::BTreeMap;

use super::data::Data;
use crate::base::hash::mix;

/// Count of buckets.
pub const BUCKETS: usize = 256;

/// The digests of all buckets of a set of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buckets(pub Box<[u64; BUCKETS]>);

impl Default for Buckets {
    fn default() -> Self {
        Self(Box::new([0; BUCKETS]))
    }
}

/// Keys and digests of some buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<K> {
    /// Numbers of the buckets, ascending.
    pub buckets: Vec<u8>,
    /// All keys that the sender owns in them, with their digests.
    pub keys: Vec<(K, u64)>,
    /// Other buckets that differ are on other pages.
    pub is_part: bool,
}

/// What a receiver does about a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differing<K> {
    /// Keys that it lacks or has otherwise: the sender pushes them whole.
    pub wanted: Vec<K>,
    /// Keys of the sender that it has and the sender doesn't: it pushes them to the sender.
    pub unknown_there: Vec<K>,
    /// The buckets that were compared, where others may differ as well; nothing where all others are equal.
    pub within: Option<Vec<u8>>,
}

impl Buckets {
    /// Those of the keys that `belongs` lets through.
    #[must_use]
    pub fn of<D: Data>(data: &D, belongs: &dyn Fn(&D::Key) -> bool) -> Self {
        let mut buckets = Self::default();
        data.each(&mut |key, digest| {
            if digest != 0 && belongs(key) {
                let hash = D::hash(key);
                buckets.add(bucket_of(hash), mix(hash ^ digest.rotate_left(17)));
            }
        });
        buckets
    }

    /// Adds something to a bucket, in any order.
    pub fn add(&mut self, bucket: u8, what: u64) {
        let bucket = &mut self.0[usize::from(bucket)];
        *bucket = bucket.wrapping_add(what);
    }

    /// The digest of all of them.
    #[must_use]
    pub fn root(&self) -> u64 {
        let numbered = self.0.iter().zip(1_u64..);
        numbered.fold(0, |root, (bucket, number)| root.wrapping_add(mix(bucket.wrapping_mul(number * 2 + 1))))
    }

    /// The numbers of those that differ.
    #[must_use]
    pub fn differing(&self, other: &Self) -> Vec<u8> {
        let pairs = self.0.iter().zip(other.0.iter()).zip(0_u8..=u8::MAX);
        pairs.filter(|((one, other), _)| one != other).map(|(_, number)| number).collect()
    }
}

impl<K: Clone + Ord> Page<K> {
    /// The keys of these buckets that `belongs` lets through, on pages of so many bytes; a bucket is never parted, and may be
    /// longer.
    #[must_use]
    pub fn all_of<D: Data<Key = K>>(
        data: &D,
        buckets: &[u8],
        belongs: &dyn Fn(&K) -> bool,
        most_bytes: usize,
    ) -> Vec<Self> {
        let mut keys: BTreeMap<u8, (Vec<(K, u64)>, usize)> =
            buckets.iter().map(|number| (*number, (Vec::new(), 0))).collect();
        data.each(&mut |key, digest| {
            let bucket = keys.get_mut(&bucket_of(D::hash(key)));
            if let Some((keys, bytes)) = bucket.filter(|_| digest != 0 && belongs(key)) {
                keys.push((key.clone(), digest));
                *bytes += D::bytes(key);
            }
        });
        let (mut pages, mut room) = (Vec::<Self>::new(), 0);
        for (number, (keys, bytes)) in keys {
            match pages.last_mut().filter(|_| bytes <= room) {
                Some(page) => {
                    page.buckets.push(number);
                    page.keys.extend(keys);
                    room -= bytes;
                }
                None => {
                    pages.push(Self { buckets: vec![number], keys, is_part: false });
                    room = most_bytes.saturating_sub(bytes);
                }
            }
        }
        let is_part = pages.len() > 1;
        pages.iter_mut().for_each(|page| page.is_part = is_part);
        pages
    }

    /// What the receiver does, whose `data` are compared; `of_sender` says which keys it takes for the sender's.
    #[must_use]
    pub fn compare<D: Data<Key = K>>(&self, data: &D, of_sender: &dyn Fn(&K) -> bool) -> Differing<K> {
        let listed: BTreeMap<&K, u64> = self.keys.iter().map(|(key, digest)| (key, *digest)).collect();
        let wanted = listed.iter().filter(|(key, digest)| data.digest(key) != **digest);
        let wanted = wanted.map(|(key, _)| (*key).clone()).collect();
        let mut unknown_there = Vec::new();
        data.each(&mut |key, digest| {
            if digest != 0 && is_in::<D>(&self.buckets, key) && !listed.contains_key(key) && of_sender(key) {
                unknown_there.push(key.clone());
            }
        });
        Differing { wanted, unknown_there, within: self.is_part.then(|| self.buckets.clone()) }
    }
}

/// Whether a key falls into one of these buckets, which ascend.
pub(super) fn is_in<D: Data>(buckets: &[u8], key: &D::Key) -> bool {
    buckets.binary_search(&bucket_of(D::hash(key))).is_ok()
}

/// The bucket of a key with this hash.
pub(super) fn bucket_of(hash: u64) -> u8 {
    hash.to_be_bytes()[0]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{
        base::{clock::Millis, hash::fnv},
        distro::data::Told,
    };

    /// Keys with digests, and nothing else.
    #[derive(Clone, Default)]
    struct Numbers(BTreeMap<u32, u64>);

    impl Data for Numbers {
        type Key = u32;
        type Beats = ();

        fn name(_: &u32) -> &str {
            ""
        }

        fn hash(key: &u32) -> u64 {
            mix(fnv(key.to_be_bytes()))
        }

        fn each(&self, each: &mut dyn FnMut(&u32, u64)) {
            self.0.iter().for_each(|(key, digest)| each(key, *digest));
        }

        fn digest(&self, key: &u32) -> u64 {
            self.0.get(key).copied().unwrap_or(0)
        }

        fn beats(&self, _: &dyn Fn(&u32) -> bool, _: &mut Told, _: Millis) {}
    }

    fn numbers(count: u32) -> Numbers {
        Numbers((0..count).map(|key| (key, u64::from(key) + 1)).collect())
    }

    fn is_even(key: &u32) -> bool {
        key.is_multiple_of(2)
    }

    #[test]
    fn equal_data_have_equal_roots_and_any_difference_shows() {
        let data = numbers(1_000);
        let root = |data: &Numbers| Buckets::of(data, &is_even).root();
        let mut other = data.clone();
        other.0.insert(7, 99);
        assert_eq!(root(&data), root(&other), "not among those that belong");
        other.0.insert(2_000, 0);
        assert_eq!(root(&data), root(&other), "nothing is under it");
        other.0.insert(8, 99);
        assert_ne!(root(&data), root(&other));
        // Two keys that changed their digests.
        let mut swapped = data.clone();
        swapped.0.extend([(2, 5), (4, 3)]);
        assert_ne!(root(&data), root(&swapped));
    }

    #[test]
    fn the_differing_keys_are_found_both_ways() {
        let (owner, mut copy) = (numbers(1_000), numbers(1_000));
        copy.0.remove(&10);
        copy.0.insert(20, 1_234);
        copy.0.insert(3_000, 5);
        copy.0.insert(3_001, 5);
        let (ours, theirs) = (Buckets::of(&owner, &is_even), Buckets::of(&copy, &is_even));
        let differing = ours.differing(&theirs);
        assert!((1..=3).contains(&differing.len()), "{differing:?}");
        let pages = Page::all_of(&owner, &differing, &is_even, usize::MAX);
        let [page] = &pages[..] else { panic!("{pages:?}") };
        assert!(page.keys.len() < 30 && page.keys.iter().all(|(key, _)| is_even(key)));
        let Differing { wanted, unknown_there, within } = page.compare(&copy, &is_even);
        assert_eq!((wanted, unknown_there, within), (vec![10, 20], vec![3_000], None));
    }

    #[test]
    fn what_does_not_fit_on_a_page_is_on_others_and_each_says_how_far_it_goes() {
        let (owner, copy, all) = (numbers(10_000), Numbers::default(), |_: &u32| true);
        let differing = Buckets::of(&owner, &all).differing(&Buckets::of(&copy, &all));
        // 32 bytes a key, some 39 keys a bucket.
        let pages = Page::all_of(&owner, &differing, &all, 32 * 1_000);
        assert!((10..=12).contains(&pages.len()), "{}", pages.len());
        let (mut keys, mut buckets) = (Vec::new(), Vec::new());
        for page in &pages {
            assert!(page.is_part && page.keys.len() <= 1_000);
            assert!(page.keys.iter().all(|(key, _)| is_in::<Numbers>(&page.buckets, key)));
            let found = page.compare(&copy, &all);
            assert_eq!(found.within.as_ref(), Some(&page.buckets));
            buckets.extend(&page.buckets);
            keys.extend(found.wanted);
        }
        keys.sort_unstable();
        assert_eq!((keys, buckets), ((0..10_000).collect(), differing.clone()));
        let least = Page::all_of(&owner, &differing, &all, 1);
        assert!(least.len() == 256 && least.iter().all(|page| page.buckets.len() == 1));
    }

    #[test]
    fn keys_are_spread_over_the_buckets() {
        let buckets = Buckets::of(&numbers(10_000), &|_| true);
        assert!(buckets.0.iter().all(|digest| *digest != 0));
    }
}
