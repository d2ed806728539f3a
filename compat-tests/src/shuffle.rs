//! Chance: the order of scenarios (repeatable by its seed) and tokens that keep runs apart.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// A seed that no earlier run had, from the random state that the standard library gives each map.
pub fn fresh_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A service name prefix for one run of one scenario: `t` and seven letters.
pub fn run_token() -> String {
    let mut state = fresh_seed();
    let letters = (0..7).map(|_| char::from(b'a' + (next(&mut state) % 26) as u8));
    std::iter::once('t').chain(letters).collect()
}

/// Shuffles; the same seed gives the same order.
pub fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut state = seed;
    for at in (1..items.len()).rev() {
        items.swap(at, (next(&mut state) % (at as u64 + 1)) as usize);
    }
}

/// SplitMix64: small, and good enough to mix an order.
pub(crate) fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_an_order_and_loses_nothing() {
        let order = |seed| {
            let mut items: Vec<u32> = (0..50).collect();
            shuffle(&mut items, seed);
            items
        };
        assert_eq!(order(7), order(7));
        assert_ne!(order(7), order(8));
        let mut sorted = order(7);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..50).collect::<Vec<u32>>());
    }

    #[test]
    fn tokens_differ() {
        assert_ne!(run_token(), run_token());
        assert_eq!(run_token().len(), 8);
    }
}
