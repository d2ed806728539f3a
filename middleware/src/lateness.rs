//! How long what a peer sent was on its way, and whether that peer has already given it up.
//!
//! A node that was frozen, or whose network was, finds such requests when it wakes, and an instance that was deregistered
//! meanwhile would rise from one of them. The sender writes down on its monotonic clock when it sent a request and
//! how long it is sure to wait. The clocks of two processes differ by an amount that hardly changes: the least difference
//! between sending and receiving that was seen is that amount and the shortest way. What is above it, the
//! request spent waiting.
//!
//! A clock that stood still, as that of a virtual machine which was paused, is another clock afterwards; so the least
//! difference is one of the last minutes in which the sender was heard.
//!
//! The other way round, a difference that falls by much is no request that came quicker: the own clock has stood still.
//!
//! Pure. A sender whose process is new starts anew, and its first request is never late; what then still comes from the one
//! before always is. A sender that is told so before its time is over knows that its clock stood still, and may take another
//! number for its process.

use std::{collections::HashMap, fmt, sync::Arc};

/// How fast the least difference may rise, so that clocks may drift: 1 ms in so many.
const DRIFT: u64 = 1_000;
/// How long a least difference counts, at least, before a later one that is higher takes its place.
const WINDOW_MS: u64 = 60_000;
/// The same as a number of requests: what a link held back comes in a burst, and says nothing of clocks.
const WINDOW_REQUESTS: u32 = 16;
/// By so much the least difference falls, in milliseconds, when the own clock has stood still.
const STOOD_MS: i128 = 2_000;
/// Former processes of a sender that are remembered: one that is started several times in a moment leaves requests of each on
/// the way.
const FORMER: usize = 4;
/// Senders that are known at once; beyond, the one that was silent for the longest time is forgotten.
const MOST_SENDERS: usize = 1_024;
/// Longer texts aren't from us.
const LONGEST_STAMP: usize = 64;

/// When a request was sent: `PROCESS.MS.PATIENCE_MS` in the header `X-Nacre-Sent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// A number that the sender's process drew at its start.
    pub process: u64,
    /// Milliseconds on the sender's monotonic clock.
    pub at_ms: u64,
    /// For so many milliseconds nobody else does what the request asks for.
    pub patience_ms: u64,
}

impl Sent {
    /// Reads a header.
    #[must_use]
    pub fn read(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= LONGEST_STAMP)?;
        let mut parts = text.splitn(3, '.');
        let process = u64::from_str_radix(parts.next()?, 16).ok()?;
        let mut number = || parts.next()?.parse().ok();
        Some(Self { process, at_ms: number()?, patience_ms: number()? })
    }
}

impl fmt::Display for Sent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:x}.{}.{}", self.process, self.at_ms, self.patience_ms)
    }
}

/// What is known of the clocks of senders.
#[derive(Debug, Default)]
pub struct Lateness {
    senders: HashMap<Arc<str>, Sender>,
    /// The own clock has stood still since that was asked last.
    stood: bool,
}

/// How far two clocks were apart when a request came, its way included.
#[derive(Clone, Copy, Debug)]
struct Difference {
    /// Own clock less the sender's, in milliseconds.
    ms: i128,
    /// When that was seen, on the own clock.
    at_ms: u64,
}

impl Difference {
    fn of(sent: Sent, now_ms: u64) -> Self {
        Self { ms: i128::from(now_ms) - i128::from(sent.at_ms), at_ms: now_ms }
    }

    /// What it may have become since, by the clocks' drift.
    fn drifted(self, now_ms: u64) -> i128 {
        self.ms + i128::from(now_ms.saturating_sub(self.at_ms) / DRIFT)
    }
}

#[derive(Clone, Copy, Debug)]
struct Sender {
    process: u64,
    /// Those before, the last one first. What still comes from it is of a time that nobody can tell.
    former: [Option<u64>; FORMER],
    /// The least that was seen.
    least: Difference,
    /// The least since the window began.
    coming: Difference,
    began_ms: u64,
    requests: u32,
    /// Requests in all windows.
    heard: u32,
    last_ms: u64,
}

impl Sender {
    fn new(process: u64, former: [Option<u64>; FORMER], seen: Difference) -> Self {
        let (began_ms, last_ms) = (seen.at_ms, seen.at_ms);
        Self { process, former, least: seen, coming: seen, began_ms, requests: 0, heard: 0, last_ms }
    }

    /// Whether so small a difference, after all that were seen, can't come from a shorter way.
    fn shows_standstill(&self, seen: Difference) -> bool {
        self.heard >= WINDOW_REQUESTS && self.least.drifted(seen.at_ms) - seen.ms > STOOD_MS
    }

    /// How many milliseconds more than the clocks' own difference this one is, which is remembered.
    fn above(&mut self, seen: Difference) -> i128 {
        let now_ms = seen.at_ms;
        (self.requests, self.last_ms) = (self.requests.saturating_add(1), now_ms);
        self.heard = self.heard.saturating_add(1);
        if self.requests > WINDOW_REQUESTS && now_ms.saturating_sub(self.began_ms) > WINDOW_MS {
            (self.least, self.coming, self.began_ms, self.requests) = (self.coming, seen, now_ms, 0);
        }
        for known in [&mut self.least, &mut self.coming] {
            if seen.ms <= known.drifted(now_ms) {
                *known = seen;
            }
        }
        seen.ms - self.least.drifted(now_ms)
    }
}

impl Lateness {
    /// How many milliseconds a request of `sender` that is received at `now_ms`, on the own monotonic clock, was on its way
    /// beyond the shortest way; no end of them for one of its last few processes.
    pub fn waited_ms(&mut self, sender: &str, sent: Sent, now_ms: u64) -> u64 {
        let seen = Difference::of(sent, now_ms);
        match self.senders.get_mut(sender) {
            Some(known) if known.process == sent.process => {
                self.stood |= known.shows_standstill(seen);
                u64::try_from(known.above(seen)).unwrap_or(0)
            }
            Some(known) if known.former.contains(&Some(sent.process)) => u64::MAX,
            known => {
                let former = known.map_or([None; FORMER], |known| {
                    let mut former = known.former;
                    former.rotate_right(1);
                    former[0] = Some(known.process);
                    former
                });
                self.remember(sender, Sender::new(sent.process, former, seen));
                0
            }
        }
    }

    /// For how many milliseconds from now on nobody else does what a request of `sender` asks for that is received at `now_ms`,
    /// on the own monotonic clock; nothing where it comes too late.
    pub fn left_ms(&mut self, sender: &str, sent: Sent, now_ms: u64) -> Option<u64> {
        sent.patience_ms.checked_sub(self.waited_ms(sender, sent, now_ms))
    }

    /// Whether the own clock has stood still since this was asked last, as far as those of senders show it. A link on which
    /// all took long until now looks the same.
    pub fn take_standstill(&mut self) -> bool {
        std::mem::take(&mut self.stood)
    }

    fn remember(&mut self, name: &str, sender: Sender) {
        if self.senders.len() >= MOST_SENDERS && !self.senders.contains_key(name) {
            let oldest = self.senders.iter().min_by_key(|(_, known)| known.last_ms);
            if let Some(oldest) = oldest.map(|(name, _)| Arc::clone(name)) {
                self.senders.remove(&oldest);
            }
        }
        self.senders.insert(name.into(), sender);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENDER: &str = "10.0.0.1:8848";

    fn sent(process: u64, at_ms: u64) -> Sent {
        Sent { process, at_ms, patience_ms: 25 }
    }

    #[test]
    fn a_stamp_reads_as_it_was_written() {
        let stamp = Sent { process: 0xfe, at_ms: 12, patience_ms: 2_000 };
        assert_eq!(stamp.to_string(), "fe.12.2000");
        assert_eq!(Sent::read(b"fe.12.2000"), Some(stamp));
        for odd in ["", "fe", "fe.12", "fe.12.", "fe.12.3.4", "fe.-1.3", "g.1.2", "1.1.99999999999999999999"]
        {
            assert_eq!(Sent::read(odd.as_bytes()), None, "{odd}");
        }
    }

    #[test]
    fn what_waited_longer_than_its_sender_is_late_whatever_the_clocks_say() {
        for (sender_ms, own_ms) in [(1_000_000, 5), (5, 1_000_000), (7, 7)] {
            let mut lateness = Lateness::default();
            let mut left =
                |at: u64, took: u64| lateness.left_ms(SENDER, sent(1, sender_ms + at), own_ms + at + took);
            assert_eq!(left(0, 12), Some(25));
            assert_eq!(left(10, 2), Some(25));
            assert_eq!(left(20, 2 + 25), Some(0));
            assert_eq!(left(30, 2 + 26), None);
            assert_eq!(left(40, 27_000), None);
            assert_eq!(left(27_100, 30), Some(25 - 1), "as much as clocks may drift in 27 s is no waiting");
        }
    }

    #[test]
    fn a_new_process_starts_anew() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.left_ms(SENDER, sent(1, 100_000), 500), Some(25));
        assert_eq!(lateness.left_ms(SENDER, sent(2, 50), 1_000), Some(25));
        assert_eq!(lateness.left_ms(SENDER, sent(2, 60), 1_036 + 100), None);
        assert_eq!(lateness.waited_ms(SENDER, sent(1, 100_500), 1_200), u64::MAX, "of the one before");
        assert_eq!(lateness.left_ms(SENDER, sent(2, 300), 1_250), Some(25), "that changed nothing");
        assert_eq!(lateness.left_ms(SENDER, sent(3, 7), 1_300), Some(25));
        assert_eq!(lateness.left_ms(SENDER, sent(2, 350), 1_300), None);
        assert_eq!(lateness.left_ms(SENDER, sent(1, 100_600), 1_300), None, "of the one before that");
        for process in 4..7 {
            assert_eq!(lateness.left_ms(SENDER, sent(process, 7), 1_300), Some(25));
        }
        assert_eq!(lateness.left_ms(SENDER, sent(3, 8), 1_301), None);
    }

    #[test]
    fn clocks_may_drift() {
        let mut lateness = Lateness::default();
        // The sender's clock loses half a millisecond a second.
        for second in 0..10_000 {
            let at = second * 1_000 - second / 2;
            assert!(lateness.left_ms(SENDER, sent(1, at), second * 1_000).is_some(), "{second}");
        }
        assert_eq!(lateness.left_ms(SENDER, sent(1, 9_999_000 - 5_000), 10_000_000 + 30), None);
    }

    #[test]
    fn a_clock_that_stood_still_is_another_after_some_minutes_but_a_burst_of_held_requests_is_not() {
        let mut lateness = Lateness::default();
        let mut waited = |sent_at: u64, received: u64| lateness.waited_ms(SENDER, sent(1, sent_at), received);
        for second in 0..100 {
            assert_eq!(waited(second * 1_000, second * 1_000), 0);
        }
        // What a link held back for ten minutes.
        for second in 100..700 {
            assert!(waited(second * 1_000, 700_000) >= 699_000 - second * 1_000, "{second}");
        }
        assert_eq!(waited(700_000, 700_000), 0);
        // The sender was paused for half a minute, which its clock doesn't show.
        let late: Vec<u64> =
            (701..1_000).map(|second| waited(second * 1_000, second * 1_000 + 30_000)).collect();
        assert!(late[..60].iter().all(|waited| *waited > 29_000), "{late:?}");
        assert!(late[150..].iter().all(|waited| *waited == 0), "{late:?}");
    }

    #[test]
    fn an_own_clock_that_stood_still_shows_by_those_of_senders() {
        let mut lateness = Lateness::default();
        let mut stood = |sent_at: u64, received: u64| {
            lateness.waited_ms(SENDER, sent(1, sent_at), received);
            lateness.take_standstill()
        };
        assert!(!stood(1_000, 1_000) && !stood(8_000, 3_000), "after few requests it may have been the way");
        for second in 10..30 {
            assert!(!stood(second * 1_000 + 5_000, second * 1_000 + second % 3 * 900), "{second}");
        }
        assert!(!stood(36_900, 30_000), "by 1.9 s");
        assert!(stood(80_000, 31_000));
        assert!(!stood(81_000, 32_000), "told once");
    }

    #[test]
    fn no_more_senders_than_the_bound_are_known() {
        let mut lateness = Lateness::default();
        for number in 0..2_000 {
            lateness.left_ms(&number.to_string(), sent(1, 0), number);
        }
        assert_eq!(lateness.senders.len(), MOST_SENDERS);
        assert!(lateness.senders.contains_key("1999") && !lateness.senders.contains_key("0"));
    }
}
