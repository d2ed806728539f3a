//! Whether a request that has failed may be sent once more, and how many may be.
//!
//! Pure. A server that closes a kept connection at the moment of its reuse, resets it after it has read, or goes away,
//! leaves its caller with a question: was it done? Where nothing was sent it wasn't. Where the method is idempotent it
//! makes no difference. Else nobody may ask again but the client, who knows.
//! Source: RFC 9110, 9.2.2; RFC 9112, 9.3.1.

use std::time::{Duration, Instant};

use http::Method;

/// How far an exchange had come when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Progress {
    /// Not a byte of the request was written.
    NothingSent,
    /// Some or all of the request was written, and not a byte came back.
    Sent,
    /// Something came back.
    AnswerBegun,
}

/// Whether a request of this method may be sent again after it has failed.
///
/// Its body is another matter: one that was read and not kept can't be.
#[must_use]
pub fn may_resend(method: &Method, progress: Progress) -> bool {
    match progress {
        Progress::NothingSent => true,
        Progress::Sent => is_idempotent(method),
        Progress::AnswerBegun => false,
    }
}

/// Whether doing it twice is the same as doing it once.
#[must_use]
pub fn is_idempotent(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::PUT, Method::DELETE, Method::OPTIONS, Method::TRACE].contains(method)
}

/// Tokens of one further attempt, in hundredths.
const ATTEMPT: u64 = 100;
/// Hundredths that each request adds: one attempt in five requests.
const PER_REQUEST: u64 = 20;
/// Attempts a second that are always there.
const FLOOR_PER_SECOND: u64 = 10;
/// Attempts that can be saved up.
const MOST_SAVED: u64 = 100 * ATTEMPT;

/// Bounds further attempts: a fifth of the requests, and ten a second in any case.
///
/// Else the servers that are left would get, for each one that fails, the traffic of all once more.
#[derive(Debug)]
pub struct Budget {
    saved: u64,
    requests: u64,
    filled: Instant,
}

impl Budget {
    /// One that lets ten attempts pass at once.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self { saved: FLOOR_PER_SECOND * ATTEMPT, requests: 0, filled: now }
    }

    /// Takes leave for one further attempt. `requests`: how many there have been since the beginning; a counter that
    /// needs no lock will do.
    pub fn take(&mut self, now: Instant, requests: u64) -> bool {
        let passed = now.saturating_duration_since(self.filled).min(Duration::from_secs(3_600));
        let by_time = u64::try_from(passed.as_millis()).unwrap_or(0) * FLOOR_PER_SECOND * ATTEMPT / 1_000;
        if by_time > 0 {
            self.filled = now;
        }
        let by_requests = requests.saturating_sub(self.requests).saturating_mul(PER_REQUEST);
        self.requests = self.requests.max(requests);
        self.saved = self.saved.saturating_add(by_time).saturating_add(by_requests).min(MOST_SAVED);
        let granted = self.saved >= ATTEMPT;
        if granted {
            self.saved -= ATTEMPT;
        }
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_goes_again_only_if_it_is_idempotent() {
        use Progress::{AnswerBegun, NothingSent, Sent};
        for (method, expected) in [
            (Method::GET, [true, true, false]),
            (Method::HEAD, [true, true, false]),
            (Method::PUT, [true, true, false]),
            (Method::DELETE, [true, true, false]),
            (Method::POST, [true, false, false]),
            (Method::PATCH, [true, false, false]),
            (Method::CONNECT, [true, false, false]),
        ] {
            assert_eq!(
                [NothingSent, Sent, AnswerBegun].map(|at| may_resend(&method, at)),
                expected,
                "{method}"
            );
        }
    }

    /// Attempts that are granted of `asked`.
    fn granted(budget: &mut Budget, now: Instant, requests: u64, asked: usize) -> usize {
        (0..asked).filter(|_| budget.take(now, requests)).count()
    }

    #[test]
    fn without_traffic_ten_attempts_a_second_pass() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        assert_eq!(granted(&mut budget, start, 0, 50), 10);
        assert_eq!(granted(&mut budget, start + Duration::from_millis(500), 0, 50), 5);
        // What is asked often grows no slower.
        let often = (501..=1_500).map(|ms| granted(&mut budget, start + Duration::from_millis(ms), 0, 1));
        assert_eq!(often.sum::<usize>(), 10);
    }

    #[test]
    fn with_traffic_a_fifth_of_it_passes() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        granted(&mut budget, start, 0, 10);
        assert_eq!(granted(&mut budget, start, 200, 100), 40);
        assert_eq!(granted(&mut budget, start, 200, 1), 0);
        // No more than a hundred are saved.
        assert_eq!(granted(&mut budget, start, 1_000_000, 200), 100);
    }
}
