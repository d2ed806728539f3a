//! Keeps many events of a kind from filling the log: so many lines a second, then none until the next.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Lines of one second.
const MOST_LINES: u32 = 100;
const PERIOD: Duration = Duration::from_secs(1);

/// Counts the lines of one kind.
#[derive(Debug, Default)]
pub struct Burst(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    since: Option<Instant>,
    lines: u32,
    unlogged: u64,
}

impl Burst {
    /// Whether an event at `now` gets its line; with it comes how many before it, since the last line, got none, where some
    /// didn't: a field of the line, which isn't there where all did.
    pub fn pass(&self, now: Instant) -> Option<Option<u64>> {
        let mut counts = self.0.lock();
        if counts.since.is_none_or(|since| now.saturating_duration_since(since) >= PERIOD) {
            counts.since = Some(now);
            counts.lines = 0;
        }
        if counts.lines == MOST_LINES {
            counts.unlogged += 1;
            return None;
        }
        counts.lines += 1;
        Some(Some(std::mem::take(&mut counts.unlogged)).filter(|unlogged| *unlogged > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_cut_and_the_next_second_tells_by_how_much() {
        let (burst, start) = (Burst::default(), Instant::now());
        let passed = |ms| burst.pass(start + Duration::from_millis(ms));
        let lines = (0..1_000).filter(|ms| passed(*ms) == Some(None)).count();
        assert_eq!(lines, 100);
        assert_eq!([passed(1_000), passed(1_001)], [Some(Some(900)), Some(None)]);
    }
}
