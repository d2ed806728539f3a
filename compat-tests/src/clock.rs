//! The times of a scenario as this program saw them: how long it really waited, and how late it was. No I/O but the clock.
//!
//! A server acts somewhere between the sending of a request and its answer. So a time that must not be too short counts
//! from the sending, one that must not be too long from the answer, and what answers and a busy machine took beyond
//! the recorded pauses isn't the server's.

use std::time::{Duration, Instant};

/// What is lost beyond this between two requests can change what a correct server does: the closest scenario beats every
/// 1.8 s and has instances that live for 3 s.
const MOST_LOST: Duration = Duration::from_millis(1000);

/// Pauses from here on keep the rhythm that was recorded: what answers took is taken off them, up to a third. Shorter ones
/// wait for a write to be done, and stay as they are.
const RHYTHM: Duration = Duration::from_millis(900);

/// A moment, as exactly as it is known.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// The server did what was asked last not before this.
    earliest: Instant,
    /// And had done it by this.
    latest: Instant,
    /// How much had been lost until then.
    lost: Duration,
}

impl Moment {
    /// How long ago it is at most.
    pub fn most(&self) -> Duration {
        self.earliest.elapsed()
    }
}

/// The times of one scenario.
#[derive(Debug)]
pub struct Clock {
    /// When the last request was sent or, if anything was awaited since, when that was over.
    touched: Instant,
    /// What was to be waited since then.
    planned: Duration,
    /// What answers and oversleeping took so far, beyond what was taken off pauses.
    lost: Duration,
    /// The longest answer so far.
    longest: Duration,
    /// What was lost between two requests, at most.
    worst: Duration,
}

impl Default for Clock {
    fn default() -> Self {
        let (touched, zero) = (Instant::now(), Duration::ZERO);
        Self { touched, planned: zero, lost: zero, longest: zero, worst: zero }
    }
}

impl Clock {
    /// This moment, in which the last request is done.
    pub fn moment(&self) -> Moment {
        Moment { earliest: self.touched.min(Instant::now()), latest: Instant::now(), lost: self.lost }
    }

    /// A request was sent at `begin` and is answered now.
    pub fn asked(&mut self, begin: Instant) {
        let took = begin.elapsed();
        self.lost += took;
        self.longest = self.longest.max(took);
        self.gap();
        self.touched = begin;
    }

    /// One of many looks was begun then and is over: nothing hangs on how long it took.
    pub fn looked(&mut self, begin: Instant) {
        self.longest = self.longest.max(begin.elapsed());
        self.planned = Duration::ZERO;
        self.touched = begin;
    }

    /// Something was awaited and came, or didn't.
    pub fn heard(&mut self) {
        self.planned = Duration::ZERO;
        self.touched = Instant::now();
    }

    /// How long to pause where so long was paused in the recording.
    pub fn pause(&self, wait: Duration) -> Duration {
        if wait < RHYTHM { wait } else { wait - self.lost.min(wait / 3) }
    }

    /// A pause was begun then, and is over.
    pub fn slept(&mut self, begin: Instant, wait: Duration) {
        self.lost = (self.lost + begin.elapsed()).saturating_sub(wait);
        self.planned += wait;
    }

    /// Until when something must have happened that may take so long from `start` on.
    pub fn end(&self, start: Moment, timeout: Duration) -> Instant {
        start.latest + timeout + self.lost.saturating_sub(start.lost) + 2 * self.longest
    }

    /// Whether so much was lost, between two requests or in all, that a correct server may have acted otherwise than was recorded.
    pub fn late(&self) -> bool {
        self.worst > MOST_LOST || self.lost > MOST_LOST
    }

    fn gap(&mut self) {
        let between = self.touched.elapsed();
        self.worst = self.worst.max(between.saturating_sub(self.planned));
        self.planned = Duration::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ago(ms: u64) -> Instant {
        Instant::now().checked_sub(Duration::from_millis(ms)).unwrap()
    }

    #[test]
    fn a_window_opens_with_the_sending_and_closes_later_by_what_was_lost() {
        let mut clock = Clock { touched: ago(5_000), planned: Duration::from_secs(5), ..Clock::default() };
        clock.asked(ago(400));
        let registered = clock.moment();
        assert!(registered.most() >= Duration::from_millis(400));
        assert!(!clock.late());
        clock.slept(ago(1_300), Duration::from_secs(1));
        assert_eq!(clock.pause(Duration::from_millis(800)), Duration::from_millis(800));
        assert!(clock.pause(Duration::from_secs(3)) < Duration::from_millis(2_400));
        let end = clock.end(registered, Duration::from_secs(2));
        let left = end.duration_since(registered.latest);
        assert!((3_100..3_200).contains(&left.as_millis()), "{left:?}");
    }

    #[test]
    fn what_is_lost_between_two_requests_is_noticed() {
        let mut clock = Clock { touched: ago(3_000), ..Clock::default() };
        clock.slept(ago(2_900), Duration::from_millis(1_800));
        clock.asked(ago(100));
        assert!(clock.late());
    }
}
