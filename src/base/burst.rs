//! Keeps many events of a kind from filling the log: so many lines a second, then none until the next; or one of each
//! subject in some seconds.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use smallvec::SmallVec;

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

/// Counts the lines of one kind by their subjects: for what may last, and is as true of the next event as of the first.
#[derive(Debug, Default)]
pub struct Seldom(Mutex<Subjects>);

#[derive(Debug, Default)]
struct Subjects {
    /// Of those whose pause isn't over, and of some whose is.
    known: HashMap<Box<[u8]>, Counts>,
    /// What further ones share.
    others: Counts,
    /// When those whose pause is over were forgotten last.
    cleaned: Option<Instant>,
}

impl Seldom {
    /// Whether an event of the subject that is named by these words at `now` gets its line; more as [`Burst::pass`].
    ///
    /// What subjects that are forgotten had untold is told with the line of the one that takes their place.
    pub fn pass(&self, subject: &[&str], now: Instant) -> Option<Option<u64>> {
        let mut key = SmallVec::<[u8; 128]>::new();
        for word in subject {
            key.extend_from_slice(word.as_bytes());
            // No UTF-8 has this byte.
            key.push(0xff);
        }
        let mut subjects = self.0.lock();
        if let Some(counts) = subjects.known.get_mut(&*key) {
            return counts.pass_seldom(now);
        }
        let mut untold = 0;
        if subjects.known.len() >= MOST_SUBJECTS && is_over(subjects.cleaned, now) {
            untold = subjects.clean(now);
        }
        let subjects = &mut *subjects;
        let counts = if subjects.known.len() < MOST_SUBJECTS {
            subjects.known.entry(Box::from(&*key)).or_default()
        } else {
            &mut subjects.others
        };
        counts.unlogged += untold;
        counts.pass_seldom(now)
    }
}

impl Subjects {
    /// Forgets those whose pause is over; tells how many events of theirs got no line. Goes through all, so no more than once in
    /// a pause.
    fn clean(&mut self, now: Instant) -> u64 {
        self.cleaned = Some(now);
        let mut untold = 0;
        self.known.retain(|_, counts| {
            let stays = !is_over(counts.since, now);
            untold += if stays { 0 } else { counts.unlogged };
            stays
        });
        if is_over(self.others.since, now) {
            untold += std::mem::take(&mut self.others.unlogged);
        }
        untold
    }
}

impl Counts {
    fn pass_seldom(&mut self, now: Instant) -> Option<Option<u64>> {
        if !is_over(self.since, now) {
            self.unlogged += 1;
            return None;
        }
        self.since = Some(now);
        Some(Some(std::mem::take(&mut self.unlogged)).filter(|unlogged| *unlogged > 0))
    }
}

fn is_over(since: Option<Instant>, now: Instant) -> bool {
    since.is_none_or(|since| now.saturating_duration_since(since) >= PAUSE)
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
        let passed = |subject: &str, ms| seldom.pass(&[subject], start + Duration::from_millis(ms));
        for subject in ["a", "b"] {
            let lines: Vec<_> = (0..25_000).filter_map(|ms| Some((ms, passed(subject, ms)?))).collect();
            assert_eq!(lines, [(0, None), (10_000, Some(9_999)), (20_000, Some(9_999))]);
        }
    }

    #[test]
    fn subjects_without_end_take_no_room_without_end() {
        let (seldom, start) = (Seldom::default(), Instant::now());
        let pass_all =
            |at| (0..5_000).filter(|number| seldom.pass(&[&number.to_string()], at).is_some()).count();
        assert_eq!((pass_all(start), seldom.0.lock().known.len()), (1_001, 1_000));
        // Nobody is looked for who could be forgotten, since that was done a moment ago.
        let soon = start + PAUSE / 2;
        assert_eq!((pass_all(soon), seldom.0.lock().cleaned), (0, Some(start)));
        // Of those that are forgotten one event each was untold, and of the others 3,999 and 4,000.
        assert_eq!(seldom.pass(&["new"], start + PAUSE), Some(Some(1_000 + 3_999 + 4_000)));
        assert_eq!(seldom.0.lock().known.len(), 1);
        assert_eq!(seldom.pass(&["new", "one"], start + PAUSE), Some(None));
    }
}
