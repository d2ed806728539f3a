//! When an instance that fails gets nothing for a while.
//!
//! Pure. Failures in a row lead to it; for how long doubles each time. Who comes back is on trial: the first thing that
//! happens decides whether it goes again or is as good as others. How many may be out at a time says [`may_eject`]: where
//! most fail it's the way to them that fails, and the rest would get too much.

use std::time::Duration;

use super::rule::Ejection;
use crate::base::clock::Millis;

/// The first time is doubled so often at most.
const MOST_DOUBLINGS: u32 = 5;
/// No ejection lasts longer than so many times the first.
const MOST_TIMES: u32 = 30;

/// What is known of an instance's failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// Since the last success.
    pub in_a_row: u32,
    /// Ejections without a success after them.
    pub ejections: u32,
    /// Until when it gets nothing; long ago for never.
    pub ejected_until: Millis,
}

impl Failures {
    /// Whether it gets nothing.
    #[must_use]
    pub fn is_ejected(&self, now: Millis) -> bool {
        now < self.ejected_until
    }

    /// It has answered. Answers of requests that were under way when it was ejected say nothing.
    pub fn succeeded(&mut self, now: Millis) {
        if !self.is_ejected(now) {
            *self = Self::default();
        }
    }

    /// It has failed; gives how long it gets nothing from now on, where that's so. `may_eject` is asked only then.
    pub fn failed(
        &mut self,
        now: Millis,
        rule: &Ejection,
        may_eject: impl FnOnce() -> bool,
    ) -> Option<Duration> {
        if self.is_ejected(now) {
            return None;
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        let is_on_trial = self.ejections > 0;
        if !(is_on_trial || self.in_a_row >= rule.after?.get()) || rule.after.is_none() || !may_eject() {
            return None;
        }
        let factor = (1 << self.ejections.min(MOST_DOUBLINGS)).min(MOST_TIMES);
        let lasts = rule.time.saturating_mul(factor);
        self.ejections = self.ejections.saturating_add(1);
        self.in_a_row = 0;
        self.ejected_until = now.plus(u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX));
        Some(lasts)
    }
}

/// Whether one more of `all` instances may be ejected, of which `ejected` are.
#[must_use]
pub fn may_eject(ejected: usize, all: usize, share_percent: u32) -> bool {
    let one_more = ejected + 1;
    one_more < all && (ejected == 0 || one_more * 100 <= all * share_percent as usize)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use proptest::prelude::*;

    use super::*;

    const RULE: Ejection =
        Ejection { after: NonZeroU32::new(3), time: Duration::from_secs(10), share_percent: 50 };

    fn seconds(lasts: Option<Duration>) -> Option<u64> {
        lasts.map(|lasts| lasts.as_secs())
    }

    #[test]
    fn failures_in_a_row_eject_and_each_time_for_longer() {
        let (mut failures, mut now) = (Failures::default(), Millis(1_000_000));
        let fail = |failures: &mut Failures, now| seconds(failures.failed(now, &RULE, || true));
        assert_eq!((fail(&mut failures, now), fail(&mut failures, now)), (None, None));
        failures.succeeded(now);
        assert_eq!((fail(&mut failures, now), fail(&mut failures, now)), (None, None));
        assert_eq!(fail(&mut failures, now), Some(10));
        // What was under way before.
        failures.succeeded(now.plus(9_999));
        assert_eq!(fail(&mut failures, now), None);
        assert!(failures.is_ejected(now.plus(9_999)) && !failures.is_ejected(now.plus(10_000)));
        for expected in [20, 40, 80, 160, 300, 300] {
            now = failures.ejected_until;
            assert_eq!(fail(&mut failures, now), Some(expected));
        }
        now = failures.ejected_until;
        failures.succeeded(now);
        assert_eq!(failures, Failures::default());
    }

    #[test]
    fn a_share_stays_and_the_last_one_always_does() {
        for (ejected, all, share, expected) in [
            (0, 1, 100, false),
            (0, 2, 0, true),
            (1, 2, 100, false),
            (0, 10, 10, true),
            (1, 10, 10, false),
            (4, 10, 50, true),
            (5, 10, 50, false),
            (8, 10, 100, true),
            (9, 10, 100, false),
        ] {
            assert_eq!(may_eject(ejected, all, share), expected, "{ejected} of {all}, {share} %");
        }
        let mut failures = Failures { in_a_row: 2, ..Failures::default() };
        assert_eq!(failures.failed(Millis(5), &RULE, || false), None);
        assert!(!failures.is_ejected(Millis(5)));
        // The next failure asks again.
        assert!(failures.failed(Millis(5), &RULE, || true).is_some());
    }

    #[test]
    fn where_the_rule_says_never_nobody_is_ejected() {
        let mut failures = Failures::default();
        let never = Ejection { after: None, ..RULE };
        assert!((0..1_000).all(|_| failures.failed(Millis(5), &never, || true).is_none()));
        failures.ejections = 1;
        assert!(failures.failed(Millis(5), &never, || true).is_none());
    }

    proptest! {
        #[test]
        fn never_more_than_the_share_are_out(all in 1_usize..40, share in 0_u32..=100) {
            let mut ejected = 0;
            while may_eject(ejected, all, share) {
                ejected += 1;
            }
            prop_assert!(ejected < all);
            prop_assert!(ejected <= 1.max(all * share as usize / 100));
        }
    }
}
