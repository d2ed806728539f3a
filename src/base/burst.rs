//! Keeps many events of a kind from filling the log: so many lines a second, then none until the next; or one of each
//! subject in some seconds.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

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

/// From one line of a subject to its next.
const PAUSE: Duration = Duration::from_secs(10);
/// Subjects that are told apart; further ones share their lines.
const MOST_SUBJECTS: usize = 1_000;
/// What those share.
const OTHERS: &str = "";

/// Counts the lines of one kind by their subjects: for what may last, and is as true of the next event as of the first.
#[derive(Debug, Default)]
pub struct Seldom(Mutex<HashMap<Box<str>, Counts>>);

impl Seldom {
    /// Whether an event of `subject` at `now` gets its line; more as [`Burst::pass`].
    pub fn pass(&self, subject: &str, now: Instant) -> Option<Option<u64>> {
        let mut subjects = self.0.lock();
        let is_over =
            |counts: &Counts| counts.since.is_none_or(|since| now.saturating_duration_since(since) >= PAUSE);
        if subjects.len() >= MOST_SUBJECTS && !subjects.contains_key(subject) {
            subjects.retain(|_, counts| !is_over(counts));
        }
        let is_known = subjects.len() < MOST_SUBJECTS || subjects.contains_key(subject);
        let counts = subjects.entry(if is_known { subject.into() } else { OTHERS.into() }).or_default();
        if !is_over(counts) {
            counts.unlogged += 1;
            return None;
        }
        counts.since = Some(now);
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

    #[test]
    fn what_lasts_is_told_of_each_subject_once_in_ten_seconds() {
        let (seldom, start) = (Seldom::default(), Instant::now());
        let passed = |subject: &str, ms| seldom.pass(subject, start + Duration::from_millis(ms));
        for subject in ["a", "b"] {
            let lines: Vec<_> = (0..25_000).filter_map(|ms| Some((ms, passed(subject, ms)?))).collect();
            assert_eq!(lines, [(0, None), (10_000, Some(9_999)), (20_000, Some(9_999))]);
        }
    }

    #[test]
    fn subjects_without_end_take_no_room_without_end() {
        let (seldom, start) = (Seldom::default(), Instant::now());
        let lines = (0..5_000).filter(|number| seldom.pass(&number.to_string(), start).is_some()).count();
        assert_eq!((lines, seldom.0.lock().len()), (1_001, 1_001));
        assert_eq!(seldom.pass("new", start + PAUSE), Some(None));
        assert_eq!(seldom.0.lock().len(), 1);
    }
}
