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

/// Keys and digests of some buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<K> {
    /// Numbers of the buckets, ascending.
    pub buckets: Vec<u8>,
    /// All keys that the sender owns in them, with their digests.
    pub keys: Vec<(K, u64)>,
}

/// What a receiver does about a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differing<K> {
    /// Keys that it lacks or has otherwise: the sender pushes them whole.
    pub wanted: Vec<K>,
    /// Keys of the sender that it has and the sender doesn't: it pushes them to the sender.
    pub unknown_there: Vec<K>,
}

impl Buckets {
    /// Those of the keys that `belongs` lets through.
    #[must_use]
    pub fn of<D: Data>(data: &D, belongs: &dyn Fn(&D::Key) -> bool) -> Self {
        let mut buckets = Box::new([0_u64; BUCKETS]);
        data.each(&mut |key, digest| {
            if digest != 0 && belongs(key) {
                let hash = D::hash(key);
                let bucket = &mut buckets[bucket_of(hash)];
                *bucket = bucket.wrapping_add(mix(hash ^ digest.rotate_left(17)));
            }
        });
        Self(buckets)
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
    /// The keys of these buckets that `belongs` lets through.
    #[must_use]
    pub fn of<D: Data<Key = K>>(data: &D, buckets: Vec<u8>, belongs: &dyn Fn(&K) -> bool) -> Self {
        let mut keys = Vec::new();
        data.each(&mut |key, digest| {
            if digest != 0 && is_in::<D>(&buckets, key) && belongs(key) {
                keys.push((key.clone(), digest));
            }
        });
        Self { buckets, keys }
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
        Differing { wanted, unknown_there }
    }
}

fn is_in<D: Data>(buckets: &[u8], key: &D::Key) -> bool {
    u8::try_from(bucket_of(D::hash(key))).is_ok_and(|number| buckets.binary_search(&number).is_ok())
}

fn bucket_of(hash: u64) -> usize {
    usize::from(hash.to_be_bytes()[0])
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
        let page = Page::of(&owner, differing, &is_even);
        assert!(page.keys.len() < 30 && page.keys.iter().all(|(key, _)| is_even(key)));
        let Differing { wanted, unknown_there } = page.compare(&copy, &is_even);
        assert_eq!((wanted, unknown_there), (vec![10, 20], vec![3_000]));
    }

    #[test]
    fn keys_are_spread_over_the_buckets() {
        let buckets = Buckets::of(&numbers(10_000), &|_| true);
        assert!(buckets.0.iter().all(|digest| *digest != 0));
    }
}
