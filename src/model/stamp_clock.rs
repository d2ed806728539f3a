//! The clock that stamps are taken from: the node's own, or that of a member which is ahead.
//!
//! Of two writes for one instance by members that don't hear each other the later one is to win. The stamps of a service
//! only count up from the highest that was seen; where a member's clock is ahead that says nothing of the time. So the clock
//! goes on from the latest stamp of any service. It loses what it is ahead by slowly, since clocks are put right and many
//! writes at once run ahead of the time, too.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use crate::base::{
    clock::{Millis, Reading},
    mutant::{self, Mutant},
};

/// It follows a stamp that is ahead of the own clock by this at most, in milliseconds. Members take stamps that are ahead by a
/// day, so where no two clocks differ by more than the rest of it, all take what is stamped here.
const MOST_FOLLOWED_MS: i64 = 60 * 60 * 1_000;
/// While it is ahead it loses a millisecond in so many: a second in a quarter of an hour, an hour in forty days. By that much it
/// falls behind a faster clock that it doesn't hear.
const LOSES_ONE_IN: i64 = 1_000;

/// See the module; shared by all writers.
#[derive(Debug)]
pub(super) struct StampClock {
    /// What makes wall time of monotonic time, in milliseconds.
    own_ms: AtomicI64,
    /// The same for the slower time of [`slow`] and the clock that is followed.
    followed_ms: AtomicI64,
}

impl StampClock {
    /// Of a node whose clocks show this.
    pub fn new(at: Reading) -> Self {
        Self { own_ms: AtomicI64::new(offset_ms(at)), followed_ms: AtomicI64::new(i64::MIN) }
    }

    /// The node's clocks show this now: somebody may have put the wall clock right. Stamps of a service never go back with it; what
    /// is followed goes back to what may be followed by that clock.
    pub fn read(&self, at: Reading) {
        self.own_ms.store(offset_ms(at), Relaxed);
        self.followed_ms.fetch_min(self.furthest(at.now).saturating_sub(slow(at.now)), Relaxed);
    }

    /// A member has given this stamp, or this node has.
    ///
    /// Whoever gave it read a clock that shows whole milliseconds, as this one does: the two may begin at any moment, so that it is
    /// ahead by all but one of them for sure. If each node followed to the last one, all would drive each other on without end.
    pub fn follow(&self, stamp: u64, now: Millis) {
        if mutant::is(Mutant::StampsUnfollowed) {
            return;
        }
        let at_least = signed(stamp).saturating_sub(1);
        let followed_ms = at_least.min(self.furthest(now)) - slow(now);
        // What isn't ahead is by far the most, and all writers read the cell.
        if followed_ms > self.followed_ms.load(Relaxed) && at_least > self.own(now) {
            self.followed_ms.fetch_max(followed_ms, Relaxed);
        }
    }

    /// The least stamp of a write at `now`.
    pub fn least_stamp(&self, now: Millis) -> u64 {
        u64::try_from(self.own(now).max(self.followed(now))).unwrap_or(0).max(1)
    }

    /// By how many milliseconds it is ahead of the node's own clock.
    pub fn ahead_ms(&self, now: Millis) -> i64 {
        self.followed(now).saturating_sub(self.own(now)).max(0)
    }

    fn furthest(&self, now: Millis) -> i64 {
        self.own(now).saturating_add(MOST_FOLLOWED_MS)
    }

    fn own(&self, now: Millis) -> i64 {
        signed(now.0).saturating_add(self.own_ms.load(Relaxed))
    }

    fn followed(&self, now: Millis) -> i64 {
        slow(now).saturating_add(self.followed_ms.load(Relaxed))
    }
}

/// A time that loses.
fn slow(now: Millis) -> i64 {
    signed(now.0) - signed(now.0) / LOSES_ONE_IN
}

fn offset_ms(at: Reading) -> i64 {
    signed(at.wall_ms) - signed(at.now.0)
}

fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Millis = Millis(1 << 40);

    fn after(ms: u64) -> Millis {
        START.plus(ms)
    }

    fn clock() -> StampClock {
        StampClock::new(Reading { now: START, wall_ms: 1_796_000_000_000 })
    }

    #[test]
    fn it_is_the_own_clock_until_a_stamp_is_ahead() {
        let clock = clock();
        assert_eq!((clock.least_stamp(START), clock.ahead_ms(START)), (1_796_000_000_000, 0));
        for stamp in [1, 1_795_999_999_999, 1_796_000_000_000, 1_796_000_000_001] {
            clock.follow(stamp, START);
        }
        assert_eq!((clock.least_stamp(after(5)), clock.ahead_ms(after(5))), (1_796_000_000_005, 0));
    }

    #[test]
    fn it_goes_on_from_a_stamp_that_is_ahead_and_loses_that_slowly() {
        let clock = clock();
        clock.follow(1_796_000_600_001, START);
        assert_eq!(clock.least_stamp(after(4_000)), 1_796_000_603_996);
        assert_eq!(clock.ahead_ms(after(1_000_000)), 599_000);
        clock.follow(1_796_001_300_001, after(1_000_000));
        assert_eq!(clock.ahead_ms(after(1_000_000)), 599_000, "an older one says nothing");
        clock.follow(1_796_001_600_001, after(1_000_000));
        assert_eq!(clock.ahead_ms(after(1_000_000)), 600_000);
        assert_eq!(clock.ahead_ms(after(700_000_000)), 0);
        assert_eq!(clock.least_stamp(after(700_000_000)), 1_796_700_000_000);
    }

    /// Milliseconds of two nodes begin at different moments, so that each finds the other ahead at some of them.
    #[test]
    fn nodes_whose_clocks_are_the_same_do_not_drive_each_other_on() {
        // Half a millisecond each: one node's clock changes at even ones, the other's at odd ones.
        let clocks = [clock(), clock()];
        let now = |node: usize, half: u64| after((half + node as u64) / 2);
        for half in 0..2_000 {
            let stamps = [0, 1].map(|node| clocks[node].least_stamp(now(node, half)));
            clocks[0].follow(stamps[1], now(0, half));
            clocks[1].follow(stamps[0], now(1, half));
        }
        assert_eq!([0, 1].map(|node| clocks[node].ahead_ms(now(node, 2_000))), [0, 0]);
    }

    #[test]
    fn it_is_put_right_with_the_wall_clock() {
        let clock = clock();
        clock.read(Reading { now: after(10), wall_ms: 1_795_000_000_000 });
        assert_eq!(clock.least_stamp(after(15)), 1_795_000_000_005);
    }

    #[test]
    fn what_it_follows_goes_back_with_the_wall_clock() {
        const TWO_DAYS_MS: u64 = 172_800_000;
        let clock = clock();
        clock.follow(1_796_000_000_006, START);
        let right = Reading { now: after(10_000), wall_ms: 1_796_000_010_000 - TWO_DAYS_MS };
        clock.read(right);
        assert_eq!(clock.ahead_ms(right.now), MOST_FOLLOWED_MS);
        assert_eq!(clock.ahead_ms(after(1_010_000)), MOST_FOLLOWED_MS - 1_000, "and loses that");
        clock.read(Reading { now: after(1_010_000), wall_ms: 1_796_001_010_000 });
        assert_eq!(clock.least_stamp(after(1_010_000)), 1_796_001_010_000);
    }

    #[test]
    fn it_follows_no_further_than_an_hour_and_never_overflows() {
        let clock = clock();
        for stamp in [1_796_003_600_001, 1_796_080_000_000, u64::MAX] {
            clock.follow(stamp, START);
            assert_eq!(clock.ahead_ms(START), 3_600_000);
        }
        assert_eq!(clock.least_stamp(START), 1_796_003_600_000);
        clock.follow(u64::MAX, Millis(u64::MAX));
        assert!(clock.least_stamp(Millis(u64::MAX)) > 0 && clock.least_stamp(Millis(0)) > 0);
    }
}
