//! Whether the legacy cluster is there, and for how long what it says after an outage isn't believed yet.
//!
//! Pure. After an outage a server of 1.x may have lost all that lives by beats, and learns it anew within a beat period.
//! For that time a list that has become shorter says nothing. Source: ours.

use std::time::Duration;

use crate::base::clock::Millis;

/// How long a cluster that is back may take to hear of all instances: a beat period and a little more.
pub const SETTLING: Duration = Duration::from_secs(6);
/// The longest that it is given for those that beat more seldom; after 30 s without a beat an instance is removed.
const LONGEST: Duration = Duration::from_secs(31);

/// How it is with the legacy cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// It answers.
    #[default]
    There,
    /// It doesn't, since then.
    Away(Millis),
    /// It answers again since then, and may not know all yet.
    Settling(Millis),
}

/// How long nothing must have been answered until failures say that nobody is there.
const SILENCE_MS: u64 = 2_500;
/// How many failures that takes.
const FAILURES: u32 = 3;

/// Watches the legacy cluster by what becomes of requests; one that is taken to be there at first.
#[derive(Debug, Default)]
pub struct Outage {
    state: State,
    last_answer: Millis,
    /// Since the last answer.
    failures: u32,
}

/// What has changed, for those who must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// An outage begins.
    Left,
    /// It is over; it lasted so long.
    Returned(Duration),
}

impl Outage {
    /// A server has answered.
    pub fn answered(&mut self, now: Millis) -> Option<Turn> {
        (self.last_answer, self.failures) = (now, 0);
        match self.state {
            State::Away(since) => {
                self.state = State::Settling(now);
                Some(Turn::Returned(Duration::from_millis(now.since(since))))
            }
            State::Settling(since) if has_passed(since, LONGEST, now) => {
                self.state = State::There;
                None
            }
            State::There | State::Settling(_) => None,
        }
    }

    /// No server has answered. It is `sure` that none is there where each refuses; one that is silent may be slow.
    pub fn unanswered(&mut self, now: Millis, sure: bool) -> Option<Turn> {
        self.failures = self.failures.saturating_add(1);
        let silent = self.failures >= FAILURES && now.since(self.last_answer) >= SILENCE_MS;
        if self.is_away() || !(sure || silent) {
            return None;
        }
        self.state = State::Away(now);
        Some(Turn::Left)
    }

    /// No server answers.
    #[must_use]
    pub fn is_away(&self) -> bool {
        matches!(self.state, State::Away(_))
    }

    /// For how long no server has answered, where that is so.
    #[must_use]
    pub fn away_for(&self, now: Millis) -> Option<Duration> {
        match self.state {
            State::Away(since) => Some(Duration::from_millis(now.since(since))),
            State::There | State::Settling(_) => None,
        }
    }

    /// The cluster is back for so short that it may not know all.
    #[must_use]
    pub fn is_settling(&self, now: Millis) -> bool {
        matches!(self.state, State::Settling(since) if !has_passed(since, LONGEST, now))
    }

    /// It may not know an instance that beats so often: it is away, or back for less than that and a little more.
    #[must_use]
    pub fn may_lack(&self, beats_every: Option<Duration>, now: Millis) -> bool {
        let patience = beats_every.map_or(SETTLING, |every| every.saturating_add(Duration::from_secs(1)));
        match self.state {
            State::There => false,
            State::Away(_) => true,
            State::Settling(since) => !has_passed(since, patience.clamp(SETTLING, LONGEST), now),
        }
    }
}

fn has_passed(since: Millis, time: Duration, now: Millis) -> bool {
    Duration::from_millis(now.since(since)) >= time
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_begins_and_ends_once_each() {
        let mut outage = Outage::default();
        assert_eq!(outage.answered(Millis(0)), None);
        assert_eq!(outage.unanswered(Millis(1_000), true), Some(Turn::Left));
        assert_eq!(outage.unanswered(Millis(2_000), true), None);
        assert_eq!(outage.away_for(Millis(3_000)), Some(Duration::from_secs(2)));
        assert_eq!(outage.answered(Millis(4_000)), Some(Turn::Returned(Duration::from_secs(3))));
        assert_eq!(outage.answered(Millis(4_001)), None);
        assert_eq!(outage.away_for(Millis(4_001)), None);
    }

    #[test]
    fn after_an_outage_and_only_then_it_takes_a_while_until_all_is_believed() {
        let mut outage = Outage::default();
        assert!(!outage.is_settling(Millis(0)));
        outage.unanswered(Millis(0), true);
        assert!(!outage.is_settling(Millis(0)));
        outage.answered(Millis(1_000));
        let may_lack = |outage: &Outage, every, now| outage.may_lack(every, Millis(now));
        assert!(may_lack(&outage, None, 6_999) && !may_lack(&outage, None, 7_000));
        let slow = Some(Duration::from_secs(20));
        assert!(may_lack(&outage, slow, 21_999) && !may_lack(&outage, slow, 22_000));
        let (quick, never) = (Some(Duration::from_secs(1)), Some(Duration::MAX));
        assert!(may_lack(&outage, quick, 6_999) && !may_lack(&outage, quick, 7_000));
        assert!(may_lack(&outage, never, 31_999) && !may_lack(&outage, never, 32_000));
        assert!(outage.is_settling(Millis(31_999)) && !outage.is_settling(Millis(32_000)));
        outage.answered(Millis(32_000));
        assert_eq!(outage.state, State::There);
        assert!(!may_lack(&outage, never, 32_000));
    }

    #[test]
    fn one_slow_answer_among_others_is_no_outage_and_silence_is() {
        let mut outage = Outage::default();
        for ms in (0..60_000).step_by(100) {
            assert_eq!(outage.answered(Millis(ms)), None);
            assert_eq!(outage.unanswered(Millis(ms + 50), false), None);
            assert!(!outage.is_settling(Millis(ms + 50)));
        }
        outage.answered(Millis(60_000));
        for ms in [61_000, 62_000, 62_499] {
            assert_eq!(outage.unanswered(Millis(ms), false), None);
        }
        assert_eq!(outage.unanswered(Millis(62_500), false), Some(Turn::Left));
    }

    #[test]
    fn a_cluster_that_goes_again_while_it_settles_is_away() {
        let mut outage = Outage::default();
        outage.unanswered(Millis(0), true);
        outage.answered(Millis(1_000));
        assert_eq!(outage.unanswered(Millis(2_000), true), Some(Turn::Left));
        assert!(outage.is_away() && !outage.is_settling(Millis(2_000)));
    }
}
