//! Wall and monotonic time, read in one place so that tests can set both.
//!
//! Decisions never ask for the time: they take `now` as an argument, and only edges hold a [`Clock`].

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Instant, SystemTime, UNIX_EPOCH},
};

/// Milliseconds on the monotonic clock, counted from some moment before the program's first reading.
///
/// Never runs backwards and says nothing about the date; ages and deadlines are differences of two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(pub u64);

impl Millis {
    /// This moment and `ms` milliseconds more.
    #[must_use]
    pub fn plus(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// This moment `ms` milliseconds earlier.
    #[must_use]
    pub fn minus(self, ms: u64) -> Self {
        Self(self.0.saturating_sub(ms))
    }

    /// Milliseconds from `earlier` until this moment; 0 when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Where the time comes from: the system, or a test.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System { start: Instant },
    Set(Arc<SetTime>),
}

#[derive(Debug)]
struct SetTime {
    monotonic_ms: AtomicU64,
    wall_ms: AtomicU64,
}

/// Added to every monotonic reading, so that "an hour before the start" is still a positive number.
const HEAD_START_MS: u64 = 1 << 40;

impl Clock {
    /// The system's clocks.
    #[must_use]
    pub fn system() -> Self {
        Self(Source::System { start: Instant::now() })
    }

    /// A clock that stands still until [`Clock::advance`] moves it; starts at `wall_ms` since 1970.
    #[must_use]
    pub fn set(wall_ms: u64) -> Self {
        let time = SetTime { monotonic_ms: AtomicU64::new(HEAD_START_MS), wall_ms: AtomicU64::new(wall_ms) };
        Self(Source::Set(Arc::new(time)))
    }

    /// Moves a set clock by `ms`; the system's clock moves by itself.
    pub fn advance(&self, ms: u64) {
        if let Source::Set(time) = &self.0 {
            time.monotonic_ms.fetch_add(ms, Ordering::Relaxed);
            time.wall_ms.fetch_add(ms, Ordering::Relaxed);
        }
    }

    /// Now on the monotonic clock.
    #[must_use]
    pub fn now(&self) -> Millis {
        Millis(match &self.0 {
            Source::System { start } => {
                HEAD_START_MS + u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
            }
            Source::Set(time) => time.monotonic_ms.load(Ordering::Relaxed),
        })
    }

    /// A monotonic reading in nanoseconds, for the counters that the v1 push packets carry.
    #[must_use]
    pub fn nanos(&self) -> u64 {
        match &self.0 {
            Source::System { start } => {
                HEAD_START_MS * 1_000_000 + u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
            }
            Source::Set(time) => time.monotonic_ms.load(Ordering::Relaxed) * 1_000_000,
        }
    }

    /// Milliseconds since 1970, as `lastRefTime` and `timestamp` show them.
    #[must_use]
    pub fn wall_ms(&self) -> u64 {
        match &self.0 {
            Source::System { .. } => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX)),
            Source::Set(time) => time.wall_ms.load(Ordering::Relaxed),
        }
    }

    /// Both clocks as they stand.
    #[must_use]
    pub fn reading(&self) -> Reading {
        Reading { now: self.now(), wall_ms: self.wall_ms() }
    }
}

/// Both clocks at one moment, for decisions that turn one time into the other.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// The monotonic one.
    pub now: Millis,
    /// Milliseconds since 1970.
    pub wall_ms: u64,
}

impl Reading {
    /// The wall time of a monotonic moment, as far as the wall clock hasn't been moved in between.
    #[must_use]
    pub fn wall_ms_of(self, moment: Millis) -> u64 {
        self.wall_ms.saturating_add(moment.since(self.now)).saturating_sub(self.now.since(moment))
    }

    /// What both clocks showed `ms` milliseconds earlier, as far as the wall clock hasn't been moved since.
    ///
    /// For reading what somebody wrote then: its ages and dates become moments, and its stamps must be possible by the wall
    /// clock. Nothing is written by such a reading: whoever makes a stamp takes the monotonic moment of the write itself, and the
    /// wall time that the registry derives from it.
    #[must_use]
    pub fn earlier(self, ms: u64) -> Self {
        Self { now: self.now.minus(ms), wall_ms: self.wall_ms.saturating_sub(ms) }
    }
}

/// A date as the reference's error objects show it: `2026-11-29T20:08:54.802+00:00`.
#[must_use]
pub fn date_text(wall_ms: u64) -> String {
    let time = UNIX_EPOCH + std::time::Duration::from_millis(wall_ms);
    let text = humantime::format_rfc3339_millis(time).to_string();
    text.replace('Z', "+00:00")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_end_in_their_offset() {
        assert_eq!(date_text(1_795_982_718_087), "2026-11-29T20:05:18.087+00:00");
    }

    #[test]
    fn a_set_clock_moves_when_told() {
        let clock = Clock::set(1_000);
        let before = clock.now();
        clock.advance(500);
        assert_eq!(clock.now().since(before), 500);
        assert_eq!(clock.wall_ms(), 1_500);
        assert_eq!(clock.reading().wall_ms_of(before), 1_000);
    }
}
