//! How much of its weight a new instance has.
//!
//! Pure. Caches that are cold and code that isn't compiled yet take a while; until then it gets less.

use std::time::Duration;

use crate::base::clock::Millis;

/// What it begins with.
const LEAST: f64 = 0.1;

/// The part of its weight that an instance has at `now` which is known since `since`, from a tenth on evenly more.
#[must_use]
pub fn factor(now: Millis, since: Millis, lasts: Duration) -> f64 {
    let lasts = lasts.as_secs_f64() * 1_000.0;
    #[expect(clippy::cast_precision_loss, reason = "an hour of milliseconds is exact")]
    let age = now.since(since) as f64;
    if age >= lasts { 1.0 } else { LEAST + (1.0 - LEAST) * age / lasts }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_with_a_tenth_and_has_all_at_the_end() {
        let since = Millis(1_000);
        for (age, lasts, percent) in
            [(0, 10_000, 10), (5_000, 10_000, 55), (9_999, 10_000, 99), (10_000, 10_000, 100), (0, 0, 100)]
        {
            let factor = factor(since.plus(age), since, Duration::from_millis(lasts));
            assert_eq!((factor * 100.0 + 1e-9).floor() as i32, percent, "{age}");
        }
    }
}
