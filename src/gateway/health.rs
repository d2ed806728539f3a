//! Whether a legacy server is well: by the ends of requests, and by probes.
//!
//! A server is taken for well until it refuses a connection, or fails [`PATIENCE`] times in a row. Then it gets no
//! requests while another is well; an answer, also to a probe, brings it back. Requests read one flag.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// Failures in a row after which a server isn't well: time-outs, and answers that are none.
const PATIENCE: u32 = 3;

/// What is seen of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// It answered as one that serves.
    Answers,
    /// Nobody is there.
    Refuses,
    /// It took too long, or didn't answer as it should.
    Fails,
}

/// What a sign has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It isn't well from now on.
    Down,
    /// It is well again.
    Up,
}

/// One server's health.
#[derive(Debug)]
pub struct Health {
    is_up: AtomicBool,
    failures: AtomicU32,
}

impl Default for Health {
    fn default() -> Self {
        Self { is_up: AtomicBool::new(true), failures: AtomicU32::new(0) }
    }
}

impl Health {
    /// Whether it gets requests.
    pub fn is_up(&self) -> bool {
        self.is_up.load(Relaxed)
    }

    /// Takes note of a sign; tells what it changes, to one of those who see it at a time.
    pub fn saw(&self, sign: Sign) -> Option<Turn> {
        match sign {
            Sign::Answers => {
                // Nearly always both are so already: nothing is written to memory that other threads read.
                if self.failures.load(Relaxed) > 0 {
                    self.failures.store(0, Relaxed);
                }
                (!self.is_up() && !self.is_up.swap(true, Relaxed)).then_some(Turn::Up)
            }
            Sign::Fails if self.failures.fetch_add(1, Relaxed) + 1 < PATIENCE => None,
            Sign::Fails | Sign::Refuses => self.is_up.swap(false, Relaxed).then_some(Turn::Down),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_refuses_is_down_at_once_and_one_that_fails_after_three_times_in_a_row() {
        let health = Health::default();
        assert_eq!(health.saw(Sign::Refuses), Some(Turn::Down));
        assert_eq!(health.saw(Sign::Refuses), None);
        assert_eq!(health.saw(Sign::Answers), Some(Turn::Up));
        assert_eq!(health.saw(Sign::Answers), None);
        for _ in 0..2 {
            assert_eq!([Sign::Fails, Sign::Fails, Sign::Answers].map(|sign| health.saw(sign)), [None; 3]);
        }
        assert_eq!([Sign::Fails; 3].map(|sign| health.saw(sign)), [None, None, Some(Turn::Down)]);
        assert!(!health.is_up());
    }
}
