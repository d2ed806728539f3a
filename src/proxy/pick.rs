//! Which of several is taken, by chance and load or by a key. In turn: [`super::wheel`].
//!
//! Pure: randomness comes in as numbers, loads as a function.

use crate::base::hash;

/// Takes the one with the lower load for its weight of two that are drawn by weight.
///
/// - `sums`: of each member's weight and those before it; the last is the sum of all.
/// - `load`: requests under way to a member, for its weight.
/// - `factor`: the part of its weight that counts now.
/// - `draw`: random numbers from 0 to 1, 1 excluded.
///
/// Where chance finds nobody that is admitted, all are looked at.
pub fn least_of_two(
    sums: &[f64],
    load: impl Fn(usize) -> f64,
    factor: impl Fn(usize) -> f64,
    mut draw: impl FnMut() -> f64,
    admits: impl Fn(usize) -> bool,
) -> Option<usize> {
    let all = *sums.last()?;
    let mut drawn = || {
        // Who has a part of its weight only is left aside as often.
        for _ in 0..DRAWS_BY_FACTOR {
            let point = draw() * all;
            let at = sums.partition_point(|sum| *sum <= point).min(sums.len() - 1);
            let factor = factor(at);
            if factor >= 1.0 || draw() < factor {
                return Some(at);
            }
        }
        None
    };
    let first = (0..DRAWS).filter_map(|_| drawn()).find(|at| admits(*at));
    let Some(first) = first else {
        return (0..sums.len())
            .filter(|at| admits(*at))
            .min_by(|one, other| load(*one).total_cmp(&load(*other)));
    };
    let second = (0..DRAWS).filter_map(|_| drawn()).find(|at| *at != first && admits(*at));
    // Of equals the first: where nothing is under way all get their share.
    Some(second.filter(|second| load(*second) < load(first)).unwrap_or(first))
}

/// Draws for each of the two.
const DRAWS: usize = 4;
/// Members that a draw leaves aside at most: as many as are needed where all are new.
const DRAWS_BY_FACTOR: usize = 16;

/// Takes the member that a key belongs to among those that are admitted.
///
/// Each member and the key make a number; the highest, weighed, wins. So a member that goes leaves its keys to all others, one
/// that comes takes its share from all, and no other key moves.
///
/// - `members`: a hash each.
#[must_use]
pub fn by_key(
    members: &[u64],
    key: u64,
    weight: impl Fn(usize) -> f64,
    admits: impl Fn(usize) -> bool,
) -> Option<usize> {
    let admitted = members.iter().enumerate().filter(|(at, _)| admits(*at));
    let scores = admitted.map(|(at, member)| (at, score(hash::mix(member ^ hash::mix(key)), weight(at))));
    scores.max_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(at, _)| at)
}

/// As if each weighed member were there so often as its weight says.
fn score(hashed: u64, weight: f64) -> f64 {
    -weight / unit(hashed).ln()
}

/// A number between 0 and 1, both excluded.
#[must_use]
pub fn unit(random: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
    let bits = (random >> 11) as f64;
    (bits + 0.5) / 9_007_199_254_740_992.0
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    fn sums(weights: &[f64]) -> Vec<f64> {
        let add = |sum: &mut f64, weight: &f64| {
            *sum += weight;
            Some(*sum)
        };
        weights.iter().scan(0.0, add).collect()
    }

    /// Numbers that look like chance and are the same in each run.
    fn draws() -> impl FnMut() -> f64 {
        let mut seed = 7_u64;
        move || {
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            unit(hash::mix(seed))
        }
    }

    #[test]
    fn without_load_each_gets_its_share() {
        let (sums, mut draw) = (sums(&[1.0, 2.0, 7.0]), draws());
        let mut counts = [0_u32; 3];
        for _ in 0..100_000 {
            counts[least_of_two(&sums, |_| 0.0, |_| 1.0, &mut draw, |_| true).unwrap()] += 1;
        }
        for (count, expected) in counts.iter().zip([10_000_u32, 20_000, 70_000]) {
            assert!(count.abs_diff(expected) < 1_000, "{counts:?}");
        }
    }

    #[test]
    fn who_is_slow_gets_less() {
        let (sums, mut draw) = (sums(&[1.0; 4]), draws());
        // The first never finishes anything, the others at once.
        let (stuck, mut others) = (Cell::new(0_u32), 0);
        for _ in 0..1_000 {
            let load = |at| if at == 0 { f64::from(stuck.get()) } else { 0.0 };
            match least_of_two(&sums, load, |_| 1.0, &mut draw, |_| true) {
                Some(0) => stuck.set(stuck.get() + 1),
                _ => others += 1,
            }
        }
        assert!(stuck.get() < 15 && others > 980, "{}", stuck.get());
    }

    #[test]
    fn the_only_admitted_one_is_found_however_light() {
        let (sums, mut draw) = (sums(&[1_000.0, 0.01, 1_000.0]), draws());
        assert_eq!(least_of_two(&sums, |_| 0.0, |_| 1.0, &mut draw, |at| at == 1), Some(1));
        assert_eq!(least_of_two(&sums, |_| 0.0, |_| 1.0, &mut draw, |_| false), None);
        assert_eq!(least_of_two(&[], |_| 0.0, |_| 1.0, &mut draw, |_| true), None);
    }

    #[test]
    fn who_is_new_gets_its_part_also_without_load() {
        let (sums, mut draw) = (sums(&[1.0; 4]), draws());
        let mut counts = [0_u32; 4];
        let factor = |at| if at == 0 { 0.1 } else { 1.0 };
        for _ in 0..31_000 {
            counts[least_of_two(&sums, |_| 0.0, factor, &mut draw, |_| true).unwrap()] += 1;
        }
        assert!(counts[0].abs_diff(1_000) < 150, "{counts:?}");
        // Where all are new nobody waits.
        assert!(least_of_two(&sums, |_| 0.0, |_| 0.0, &mut draw, |_| true).is_some());
    }

    fn members(count: u64) -> Vec<u64> {
        (0..count).map(|at| hash::fnv(format!("10.0.0.{at}:80").bytes())).collect()
    }

    #[test]
    fn keys_go_by_weight() {
        let members = members(3);
        let weight = |at| if at == 2 { 2.0 } else { 1.0 };
        let mut counts = [0_u32; 3];
        for key in 0..40_000 {
            counts[by_key(&members, key, weight, |_| true).unwrap()] += 1;
        }
        for (count, expected) in counts.iter().zip([10_000_u32, 10_000, 20_000]) {
            assert!(count.abs_diff(expected) < 500, "{counts:?}");
        }
    }

    proptest! {
        #[test]
        fn only_the_keys_of_who_goes_move(count in 2_u64..12, gone in 0_usize..12) {
            let members = members(count);
            let gone = gone % members.len();
            let mut moved = 0;
            for key in 0..2_000 {
                let by_key = |admits: &dyn Fn(usize) -> bool| by_key(&members, key, |_| 1.0, admits);
                let (before, after) = (by_key(&|_| true), by_key(&|at| at != gone));
                if before != after {
                    prop_assert_eq!(before, Some(gone));
                    moved += 1;
                }
            }
            // One of n, with room for chance: five standard deviations of 2,000 draws.
            let share = 2_000.0 / members.len() as f64;
            prop_assert!(f64::from(moved) <= share + 5.0 * share.sqrt(), "{moved} of {share}");
        }
    }
}
