//! A small seeded generator, so that a seed gives the same run everywhere and always.

/// SplitMix64: one number is a step and a mix; streams of different labels have nothing in common.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream with this label of a seed. What one part draws never changes what another part gets.
    pub fn new(seed: u64, label: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ label.rotate_left(40));
        random.next();
        random
    }

    /// 64 random bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 on, below `count`; 0 where that is 0.
    pub fn below(&mut self, count: u64) -> u64 {
        self.next().checked_rem(count).unwrap_or(0)
    }

    /// A number from `least` to `most`, both included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least) + 1)
    }

    /// True in `permille` of 1,000 cases.
    pub fn chance(&mut self, permille: u64) -> bool {
        permille > 0 && self.below(1_000) < permille
    }

    /// An index below `len`.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap()
    }

    /// One of `all`, which has at least one.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.index(all.len())]
    }

    /// Puts `all` into a random order.
    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for last in (1..all.len()).rev() {
            all.swap(last, self.index(last + 1));
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_numbers() {
    let draw = |seed, label| {
        let mut random = Random::new(seed, label);
        (0..5).map(|_| random.below(1_000)).collect::<Vec<_>>()
    };
    assert_eq!(draw(7, 1), draw(7, 1));
    assert_ne!(draw(7, 1), draw(7, 2));
    assert_ne!(draw(7, 1), draw(8, 1));
}
