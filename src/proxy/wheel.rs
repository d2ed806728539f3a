//! Smooth weighted round robin: who is next of some that have weights.
//!
//! Pure. Each has a moment when it is due; the earliest is taken, and is due again one divided by its weight later. So each gets
//! its share of any stretch of turns to within one, in O(log n) a turn, and weights may change at any time. Who is passed over
//! loses its turn: it doesn't catch up afterwards.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
};

/// Whose turn it is among members that are known by their numbers from 0 on.
#[derive(Clone, Debug, Default)]
pub struct Wheel {
    /// By when they are due.
    turns: BinaryHeap<Reverse<Turn>>,
    /// When the last one was due.
    now: f64,
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    due: f64,
    member: usize,
}

impl PartialEq for Turn {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Turn {}

impl PartialOrd for Turn {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Turn {
    fn cmp(&self, other: &Self) -> Ordering {
        self.due.total_cmp(&other.due).then(self.member.cmp(&other.member))
    }
}

/// No weight counts as less, so that no turn lies beyond what numbers hold.
const LEAST_WEIGHT: f64 = 1e-6;

/// Members that are passed over before all are looked at.
const MANY: usize = 16;

fn span(weight: f64) -> f64 {
    1.0 / weight.max(LEAST_WEIGHT)
}

impl Wheel {
    /// A wheel of members with these weights; `wait` gives the part of its span that each waits for its first turn, from 0 to 1.
    #[must_use]
    pub fn new(weights: impl IntoIterator<Item = f64>, mut wait: impl FnMut(usize) -> f64) -> Self {
        let turn = |(member, weight)| Reverse(Turn { due: span(weight) * wait(member), member });
        Self { turns: weights.into_iter().enumerate().map(turn).collect(), now: 0.0 }
    }

    /// The next member that is admitted, with the weights as they are now; none where nobody is.
    pub fn next(
        &mut self,
        weight: impl Fn(usize) -> f64,
        mut admits: impl FnMut(usize) -> bool,
    ) -> Option<usize> {
        let mut passed_over = Vec::new();
        let mut found = None;
        let mut looks_at_all = true;
        while let Some(Reverse(turn)) = self.turns.pop() {
            if admits(turn.member) {
                self.now = self.now.max(turn.due);
                found = Some(turn.member);
                passed_over.push(turn.member);
                break;
            }
            passed_over.push(turn.member);
            // Where it seems that nobody is, one look at all is cheaper than to take them out one by one.
            if looks_at_all && passed_over.len() >= MANY {
                looks_at_all = false;
                if !self.turns.iter().any(|Reverse(turn)| admits(turn.member)) {
                    break;
                }
            }
        }
        for member in passed_over {
            self.turns.push(Reverse(Turn { due: self.now + span(weight(member)), member }));
        }
        found
    }

    /// For each member the part of its span that it still has to wait, from 0 to 1: what a new wheel goes on with.
    #[must_use]
    pub fn waits(&self, weight: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut waits = vec![0.0; self.turns.len()];
        for Reverse(Turn { due, member }) in &self.turns {
            waits[*member] = ((due - self.now) / span(weight(*member))).clamp(0.0, 1.0);
        }
        waits
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn turns(wheel: &mut Wheel, weights: &[f64], turns: usize) -> Vec<usize> {
        (0..turns).map(|_| wheel.next(|at| weights[at], |_| true).unwrap()).collect()
    }

    fn counts(turns: &[usize], members: usize) -> Vec<usize> {
        (0..members).map(|at| turns.iter().filter(|turn| **turn == at).count()).collect()
    }

    #[test]
    fn a_hundred_thousand_turns_go_by_weight() {
        let weights = [1.0, 2.0, 7.0];
        let mut wheel = Wheel::new(weights, |_| 0.5);
        let counts = counts(&turns(&mut wheel, &weights, 100_000), 3);
        for (count, expected) in counts.iter().zip([10_000_usize, 20_000, 70_000]) {
            assert!(count.abs_diff(expected) <= 1, "{counts:?}");
        }
    }

    #[test]
    fn nobody_waits_while_another_has_all_its_turns() {
        let weights = [5.0, 1.0, 1.0];
        let mut wheel = Wheel::new(weights, |_| 1.0);
        let turns = turns(&mut wheel, &weights, 70);
        assert!(turns.windows(7).all(|window| window.iter().any(|turn| *turn != 0)), "{turns:?}");
    }

    #[test]
    fn who_was_passed_over_does_not_catch_up() {
        let weights = [1.0, 1.0];
        let mut wheel = Wheel::new(weights, |_| 1.0);
        for _ in 0..1_000 {
            assert_eq!(wheel.next(|at| weights[at], |at| at == 0), Some(0));
        }
        let after = counts(&turns(&mut wheel, &weights, 10), 2);
        assert!(after.iter().all(|count| (4..=6).contains(count)), "{after:?}");
        assert_eq!(wheel.next(|at| weights[at], |_| false), None);
        assert_eq!(Wheel::default().next(|_| 1.0, |_| true), None);
    }

    #[test]
    fn where_nobody_is_admitted_each_is_asked_once() {
        let mut wheel = Wheel::new(vec![1.0; 1_000], |_| 1.0);
        let mut asked = 0;
        let nobody = |_| {
            asked += 1;
            false
        };
        assert_eq!(wheel.next(|_| 1.0, nobody), None);
        assert_eq!(asked, 1_000);
        // Those at the end are found, too, and all are still there.
        for last in [999, 0, 500] {
            assert_eq!(wheel.next(|_| 1.0, |at| at == last), Some(last));
        }
        assert_eq!(wheel.turns.len(), 1_000);
    }

    #[test]
    fn a_wheel_that_goes_on_with_the_waits_of_another_starves_nobody() {
        let weights = [100.0, 1.0];
        let mut wheel = Wheel::new(weights, |_| 1.0);
        let mut light = 0;
        for _ in 0..2_020 {
            light += usize::from(wheel.next(|at| weights[at], |_| true) == Some(1));
            let waits = wheel.waits(|at| weights[at]);
            wheel = Wheel::new(weights, |at| waits[at]);
        }
        assert!((19..=21).contains(&light), "{light}");
    }

    proptest! {
        #[test]
        fn every_stretch_of_turns_goes_by_weight(
            weights in prop::collection::vec(0.01_f64..100.0, 1..8),
            waits in prop::collection::vec(0.0_f64..=1.0, 8),
            length in 1_usize..400,
        ) {
            let mut wheel = Wheel::new(weights.iter().copied(), |at| waits[at]);
            turns(&mut wheel, &weights, 50);
            let counts = counts(&turns(&mut wheel, &weights, length), weights.len());
            let all: f64 = weights.iter().sum();
            for (count, weight) in counts.iter().zip(&weights) {
                let share = weight / all * length as f64;
                // One turn of its own, and one of each other, may be early or late.
                prop_assert!((*count as f64 - share).abs() <= 1.0 + weights.len() as f64, "{counts:?} {weights:?}");
            }
        }
    }
}
