//! Sets of numbers that are hashes already.

use std::{
    collections::HashSet,
    hash::{BuildHasher, Hasher, RandomState},
};

/// A set of numbers that are hashes already, which needs no strong hash of its own. Who could choose numbers that fall
/// together doesn't know the key of the set.
pub type Numbers = HashSet<u64, Folding>;

/// Hashes numbers in a few cycles, otherwise in each set.
#[derive(Clone, Debug)]
pub struct Folding(u64);

impl Default for Folding {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0_u64))
    }
}

impl BuildHasher for Folding {
    type Hasher = Folded;

    fn build_hasher(&self) -> Folded {
        Folded(self.0)
    }
}

/// See [`Folding`].
#[derive(Debug)]
pub struct Folded(u64);

impl Hasher for Folded {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        let [low, high] = {
            let wide = u128::from(self.0 ^ number) * 0x9e37_79b9_7f4a_7c15;
            [wide as u64, (wide >> 64) as u64]
        };
        self.0 = low ^ high;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_share_bits_spread() {
        let folding = Folding::default();
        for shift in [0, 8, 40, 52] {
            let hashes: Vec<u64> = (0..1_000_u64).map(|n| folding.hash_one(n << shift)).collect();
            for bits in [0, 57] {
                let places: HashSet<u64> = hashes.iter().map(|hash| hash >> bits & 0x7f).collect();
                assert!(places.len() > 100, "{shift} {bits} {}", places.len());
            }
        }
        assert_ne!(Folding::default().hash_one(1_u64), Folding::default().hash_one(1_u64));
    }
}
