//! Whether a peer is sent another request: bulkhead, suspicion and breaker in one, for one peer.
//!
//! Pure: told of times and outcomes, it says what to do. A peer is *suspect* while requests are under way to it and
//! nothing has come back from it for a while; then, where somebody can stand in for it, no more than
//! [`PATIENT`] requests wait for it at all and all others are taken from it, since each of them would be slow. It is
//! *open* after as many failures in a row, time-outs or answers that aren't whole, until an answer closes it again.
//!
//! ```text
//! closed ── silent for a while ──► suspect ── 3 failures in a row ──► open ── an answer, also to a probe ──► closed
//!    ▲                                │
//!    └────────── an answer ───────────┘
//! ```
//!
//! Who hangs hangs with probes, too; who cuts its answers to requests may answer probes well. So after such a one a
//! probe's answer closes it only after a pause, which doubles as long as no request is answered, and the next failure
//! opens it at once.

use std::time::{Duration, Instant};

/// How many requests may wait for a silent peer, and how many failures in a row open the breaker.
pub const PATIENT: u32 = 3;
/// For how long probes aren't believed at most, where answers weren't whole.
const LONGEST_DISBELIEF: Duration = Duration::from_secs(32);
/// One request goes to an open peer that nobody can stand in for in this time.
const TRIAL_EVERY: Duration = Duration::from_secs(1);
/// How often the membership is told that a peer answers.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// The bounds of what is sent to one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Requests that may be under way to it at once; more are refused.
    pub max_in_flight: u32,
    /// How long a request may take.
    pub timeout: Duration,
    /// How long a peer that usually answers at once may say nothing before it is suspect.
    ///
    /// Four times its usual time to answer counts where that is more, and never more than half of `timeout`.
    pub suspect_after: Duration,
}

/// What to do with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Send it; the ticket goes back with its end.
    Go(Ticket),
    /// As many as may are under way.
    Full,
    /// The peer doesn't answer; with somebody to stand in for it, let that one do it.
    Unanswering,
}

/// Stands for a request under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    sent: Instant,
    /// It waits for a silent peer; of the silence with this number.
    patient_in: Option<u32>,
}

impl Ticket {
    /// When it was given.
    #[must_use]
    pub fn sent(&self) -> Instant {
        self.sent
    }

    /// The same for a request that has waited before it was sent, which is no silence of the peer's.
    #[must_use]
    pub fn sent_at(self, sent: Instant) -> Self {
        Self { sent, ..self }
    }

    /// Whether it waits for a silent peer to the end of its time.
    #[must_use]
    pub fn is_patient(&self) -> bool {
        self.patient_in.is_some()
    }
}

/// What to do with a request that has waited for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The peer answers others: look again after another while.
    LookAgain,
    /// Wait to the end.
    Wait,
    /// Give it up; whoever stands in for the peer does it.
    Recall,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With an answer, whatever it said.
    Answered,
    /// Its time was over.
    TimedOut,
    /// With something that isn't a whole answer: cut, too large, or no HTTP.
    Spoilt,
    /// It couldn't be sent, or the connection ended before an answer's first byte.
    Broken,
    /// It was taken from the peer.
    Recalled,
    /// Whoever had sent it didn't wait any longer.
    Abandoned,
}

/// What an end has changed, for those who must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The peer is open from now on.
    Opened,
    /// The peer isn't open any more.
    Closed,
    /// The peer answers, which nobody has been told for some time.
    Answers,
}

/// The requests to one peer.
#[derive(Debug)]
pub struct Breaker {
    bounds: Bounds,
    in_flight: u32,
    /// Requests that wait for the silent peer.
    patient: u32,
    /// The number of this silence; an answer ends it.
    silence: u32,
    /// Since the last answer: time-outs and answers that weren't whole.
    failures: u32,
    /// An answer wasn't whole since the last one to a request that was.
    is_spoilt: bool,
    /// For how long probes aren't believed once it is open; nothing but where answers weren't whole.
    disbelief: Duration,
    /// The last answer, or the first request after a pause.
    heard: Instant,
    told: Option<Instant>,
    /// Usual time to answer.
    usual: Duration,
    /// While open: when the next trial may go.
    open: Option<Instant>,
    /// While open: from when on a probe's answer closes it.
    believes_from: Instant,
}

impl Breaker {
    /// One that has sent nothing yet.
    #[must_use]
    pub fn new(bounds: Bounds, now: Instant) -> Self {
        Self {
            bounds,
            in_flight: 0,
            patient: 0,
            silence: 0,
            failures: 0,
            is_spoilt: false,
            disbelief: Duration::ZERO,
            heard: now,
            told: None,
            usual: Duration::ZERO,
            open: None,
            believes_from: now,
        }
    }

    /// Whether the peer is called slow: its breaker is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// How long a request waits before [`Breaker::outlasted`] is asked about it.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.bounds.suspect_after.max(self.usual * 4).min(self.bounds.timeout / 2)
    }

    fn is_suspect(&self, now: Instant) -> bool {
        self.in_flight > 0 && now.saturating_duration_since(self.heard) >= self.patience()
    }

    /// Asks for leave to send a request. `has_deputy`: somebody can stand in for the peer.
    pub fn admit(&mut self, now: Instant, has_deputy: bool) -> Admission {
        if self.in_flight >= self.bounds.max_in_flight {
            return Admission::Full;
        }
        if let Some(next_trial) = &mut self.open {
            if has_deputy || now < *next_trial {
                return Admission::Unanswering;
            }
            *next_trial = now + TRIAL_EVERY;
        } else if has_deputy && self.is_suspect(now) && self.in_flight + self.failures >= PATIENT {
            return Admission::Unanswering;
        }
        if self.in_flight == 0 {
            self.heard = self.heard.max(now);
        }
        self.in_flight += 1;
        Admission::Go(Ticket { sent: now, patient_in: None })
    }

    /// Asks what to do with a request that has waited for [`Breaker::patience`].
    pub fn outlasted(&mut self, now: Instant, ticket: &mut Ticket, has_deputy: bool) -> Verdict {
        match () {
            () if ticket.is_patient() => Verdict::Wait,
            () if self.open.is_some() && has_deputy => Verdict::Recall,
            () if self.open.is_none() && !self.is_suspect(now) => Verdict::LookAgain,
            () if has_deputy && self.patient + self.failures >= PATIENT => Verdict::Recall,
            () => {
                self.patient += 1;
                ticket.patient_in = Some(self.silence);
                Verdict::Wait
            }
        }
    }

    /// Takes note of how a request ended.
    pub fn ended(&mut self, now: Instant, ticket: Ticket, end: End) -> Option<Turn> {
        self.in_flight = self.in_flight.saturating_sub(1);
        let in_silence = ticket.patient_in == Some(self.silence);
        if in_silence {
            self.patient = self.patient.saturating_sub(1);
        }
        match end {
            End::Answered => {
                let took = now.saturating_duration_since(ticket.sent);
                self.usual = if self.usual.is_zero() { took } else { (self.usual * 7 + took) / 8 };
                (self.is_spoilt, self.disbelief) = (false, Duration::ZERO);
                self.heard_of(now)
            }
            End::TimedOut => self.failed(now),
            End::Spoilt => {
                self.is_spoilt = true;
                self.failed(now)
            }
            // Of a peer that says nothing, that is no better than a time-out.
            End::Abandoned if in_silence => self.failed(now),
            End::Broken | End::Recalled | End::Abandoned => None,
        }
    }

    /// Takes note of an answer to a probe, which isn't counted as under way.
    pub fn answered(&mut self, now: Instant) -> Option<Turn> {
        if self.is_open() && now < self.believes_from {
            return None;
        }
        let turn = self.heard_of(now);
        if self.is_spoilt {
            self.failures = PATIENT - 1;
        }
        turn
    }

    fn heard_of(&mut self, now: Instant) -> Option<Turn> {
        self.heard = self.heard.max(now);
        self.failures = 0;
        self.patient = 0;
        self.silence = self.silence.wrapping_add(1);
        let is_news = self.told.is_none_or(|told| now.saturating_duration_since(told) >= TOLD_EVERY);
        let closed = self.open.take().is_some();
        if closed || is_news {
            self.told = Some(now);
        }
        match (closed, is_news) {
            (true, _) => Some(Turn::Closed),
            (false, true) => Some(Turn::Answers),
            (false, false) => None,
        }
    }

    fn failed(&mut self, now: Instant) -> Option<Turn> {
        self.failures = self.failures.saturating_add(1);
        if self.failures < PATIENT || self.open.is_some() {
            return None;
        }
        self.open = Some(now + TRIAL_EVERY);
        if self.is_spoilt {
            self.disbelief = (self.disbelief * 2).clamp(TRIAL_EVERY, LONGEST_DISBELIEF);
        }
        self.believes_from = now + self.disbelief;
        Some(Turn::Opened)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        max_in_flight: 100,
        timeout: Duration::from_secs(2),
        suspect_after: Duration::from_millis(30),
    };

    /// A peer, and the time in milliseconds since it was first thought of.
    struct Peer {
        breaker: Breaker,
        start: Instant,
    }

    impl Peer {
        fn new() -> Self {
            let start = Instant::now();
            Self { breaker: Breaker::new(BOUNDS, start), start }
        }

        fn at(&self, ms: u64) -> Instant {
            self.start + Duration::from_millis(ms)
        }

        fn send(&mut self, ms: u64, has_deputy: bool) -> Ticket {
            match self.breaker.admit(self.at(ms), has_deputy) {
                Admission::Go(ticket) => ticket,
                other => panic!("{other:?} at {ms} ms"),
            }
        }

        fn end(&mut self, ms: u64, ticket: Ticket, end: End) -> Option<Turn> {
            self.breaker.ended(self.at(ms), ticket, end)
        }

        fn ask(&mut self, ms: u64, ticket: &mut Ticket) -> Verdict {
            self.breaker.outlasted(self.at(ms), ticket, true)
        }

        fn is_refused(&mut self, ms: u64, has_deputy: bool) -> bool {
            self.breaker.admit(self.at(ms), has_deputy) == Admission::Unanswering
        }

        /// Three requests that nobody answers.
        fn hang(&mut self, ms: u64, has_deputy: bool) -> Option<Turn> {
            let tickets = [0, 1, 2].map(|_| self.send(ms, has_deputy));
            tickets.map(|ticket| self.end(ms + 2_000, ticket, End::TimedOut))[2]
        }
    }

    #[test]
    fn three_time_outs_in_a_row_open_it_and_an_answer_closes_it() {
        let mut peer = Peer::new();
        for end in [End::TimedOut, End::TimedOut, End::Answered, End::TimedOut, End::TimedOut] {
            let ticket = peer.send(0, true);
            assert_ne!(peer.end(10, ticket, end), Some(Turn::Opened));
        }
        let ticket = peer.send(10, true);
        assert_eq!(peer.end(2_010, ticket, End::TimedOut), Some(Turn::Opened));
        assert!(peer.breaker.is_open() && peer.is_refused(60_000, true));
        let answered = peer.at(60_000);
        assert_eq!(peer.breaker.answered(answered), Some(Turn::Closed));
        assert!(!peer.breaker.is_open());
        peer.send(60_001, true);
    }

    #[test]
    fn answers_that_are_not_whole_open_it_and_probes_are_believed_ever_later() {
        let mut peer = Peer::new();
        for (end, turn) in [(End::Spoilt, None), (End::TimedOut, None), (End::Spoilt, Some(Turn::Opened))] {
            let ticket = peer.send(0, true);
            assert_eq!(peer.end(0, ticket, end), turn);
        }
        let mut opened_ms = 0;
        for pause_ms in [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 32_000] {
            let (early, late) = (peer.at(opened_ms + pause_ms - 1), peer.at(opened_ms + pause_ms));
            assert_eq!(peer.breaker.answered(early), None);
            assert!(peer.breaker.is_open());
            assert_eq!(peer.breaker.answered(late), Some(Turn::Closed));
            opened_ms += pause_ms;
            let ticket = peer.send(opened_ms, true);
            assert_eq!(peer.end(opened_ms, ticket, End::Spoilt), Some(Turn::Opened), "one is enough");
        }
        let late = peer.at(opened_ms + 32_000);
        assert_eq!(peer.breaker.answered(late), Some(Turn::Closed));
        // An answer to a request makes it as it was.
        let ticket = peer.send(200_000, true);
        peer.end(200_001, ticket, End::Answered);
        for turn in [None, None, Some(Turn::Opened)] {
            let ticket = peer.send(200_002, true);
            assert_eq!(peer.end(200_002, ticket, End::Spoilt), turn);
        }
        let late = peer.at(201_002);
        assert_eq!(peer.breaker.answered(late), Some(Turn::Closed));
    }

    #[test]
    fn what_was_not_sent_or_is_gone_says_nothing() {
        let mut peer = Peer::new();
        for _ in 0..10 {
            let ticket = peer.send(0, true);
            assert_eq!(peer.end(0, ticket, End::Broken), None);
        }
        assert!(!peer.breaker.is_open());
    }

    #[test]
    fn without_a_deputy_one_request_a_second_goes_to_an_open_peer() {
        let mut peer = Peer::new();
        assert_eq!(peer.hang(0, false), Some(Turn::Opened));
        assert!(peer.is_refused(2_999, false));
        let trial = peer.send(3_000, false);
        assert!(peer.is_refused(3_999, false));
        let another = peer.send(4_000, false);
        assert_eq!(peer.end(5_000, trial, End::TimedOut), None);
        assert_eq!(peer.end(5_500, another, End::Answered), Some(Turn::Closed));
        assert!(!peer.is_refused(5_500, false));
    }

    #[test]
    fn a_peer_that_was_never_heard_is_sent_as_many_as_may_until_it_is_suspect() {
        let mut peer = Peer::new();
        for _ in 0..100 {
            peer.send(0, true);
        }
        assert_eq!(peer.breaker.admit(peer.at(0), true), Admission::Full);
    }

    #[test]
    fn of_the_requests_to_a_silent_peer_three_wait_and_the_others_are_recalled() {
        let mut peer = Peer::new();
        // 167 requests a second.
        let mut tickets: Vec<Ticket> = (0..5).map(|number| peer.send(number * 6, true)).collect();
        assert!(peer.is_refused(30, true));
        let verdicts: Vec<Verdict> = (0..5)
            .zip(&mut tickets)
            .map(|(number, ticket)| {
                peer.breaker.outlasted(peer.start + Duration::from_millis(30 + number * 6), ticket, true)
            })
            .collect();
        use Verdict::{Recall, Wait};
        assert_eq!(verdicts, [Wait, Wait, Wait, Recall, Recall]);
        for ticket in &tickets[3..] {
            assert_eq!(peer.end(60, *ticket, End::Recalled), None);
        }
        assert!(peer.is_refused(1_000, true));
        // Between the first time-out and the third no other request takes its place.
        assert_eq!(peer.end(2_000, tickets[0], End::TimedOut), None);
        assert!(peer.is_refused(2_001, true));
        assert_eq!(peer.end(2_006, tickets[1], End::TimedOut), None);
        assert!(peer.is_refused(2_007, true));
        assert_eq!(peer.end(2_012, tickets[2], End::TimedOut), Some(Turn::Opened));
        assert!(peer.is_refused(2_013, true));
    }

    #[test]
    fn in_all_no_more_than_three_requests_wait_for_a_peer_that_hangs() {
        for gap in [1, 2, 5, 6, 10, 29, 30, 31, 100, 700, 1_000, 2_500] {
            let (mut peer, mut under_way, mut slow) = (Peer::new(), Vec::<(u64, Ticket)>::new(), 0);
            let answered = peer.send(0, true);
            peer.end(1, answered, End::Answered);
            for ms in 1..20_000 {
                let due = |(sent, ticket): &(u64, Ticket)| {
                    ms - sent == if ticket.is_patient() { 2_000 } else { 30 }
                };
                for (sent, mut ticket) in under_way.extract_if(.., |entry| due(entry)).collect::<Vec<_>>() {
                    if ticket.is_patient() {
                        slow += 1;
                        peer.end(ms, ticket, End::TimedOut);
                        continue;
                    }
                    match peer.ask(ms, &mut ticket) {
                        Verdict::Wait => under_way.push((sent, ticket)),
                        Verdict::Recall => _ = peer.end(ms, ticket, End::Recalled),
                        Verdict::LookAgain => panic!("nothing was heard"),
                    }
                }
                if ms % gap == 0
                    && let Admission::Go(ticket) = peer.breaker.admit(peer.at(ms), true)
                {
                    under_way.push((ms, ticket));
                }
            }
            assert_eq!(
                (slow, under_way.len(), peer.breaker.is_open()),
                (3, 0, true),
                "a request every {gap} ms"
            );
        }
    }

    #[test]
    fn while_others_are_answered_a_slow_request_waits() {
        let mut peer = Peer::new();
        let mut slow = peer.send(0, true);
        for ms in [10, 20, 29] {
            let quick = peer.send(ms, true);
            peer.end(ms + 1, quick, End::Answered);
        }
        assert_eq!(peer.ask(30, &mut slow), Verdict::LookAgain);
        assert_eq!(peer.ask(59, &mut slow), Verdict::LookAgain);
        assert_eq!(peer.ask(60, &mut slow), Verdict::Wait);
        // An answer forgives those that waited.
        let quick = peer.send(70, true);
        peer.end(71, quick, End::Answered);
        let mut tickets = [0, 1, 2].map(|_| peer.send(72, true));
        assert_eq!(tickets.each_mut().map(|ticket| peer.ask(102, ticket)), [Verdict::Wait; 3]);
        assert_eq!(peer.end(110, slow, End::Answered), None);
        assert!(!peer.breaker.is_open());
    }

    #[test]
    fn a_peer_that_takes_its_time_is_given_more_before_it_is_suspect() {
        let mut peer = Peer::new();
        for turn in 0..50 {
            let ticket = peer.send(turn * 100, true);
            peer.end(turn * 100 + 40, ticket, End::Answered);
        }
        assert_eq!(peer.breaker.patience(), Duration::from_millis(160));
        for turn in 50..100 {
            let ticket = peer.send(turn * 2_000, true);
            peer.end(turn * 2_000 + 1_900, ticket, End::Answered);
        }
        assert_eq!(peer.breaker.patience(), Duration::from_secs(1));
    }

    #[test]
    fn clients_that_give_up_sooner_than_we_do_open_it_all_the_same() {
        let mut peer = Peer::new();
        let mut tickets = [0, 1, 2].map(|_| peer.send(0, true));
        for ticket in &mut tickets {
            assert_eq!(peer.ask(30, ticket), Verdict::Wait);
        }
        let turns = tickets.map(|ticket| peer.end(500, ticket, End::Abandoned));
        assert_eq!(turns, [None, None, Some(Turn::Opened)]);
        let mut peer = Peer::new();
        let tickets = [0, 1, 2].map(|_| peer.send(0, true));
        assert_eq!(tickets.map(|ticket| peer.end(5, ticket, End::Abandoned)), [None; 3]);
    }

    #[test]
    fn the_membership_is_told_of_answers_once_a_second() {
        let mut peer = Peer::new();
        let told: Vec<bool> = (0..25)
            .map(|turn| {
                let ticket = peer.send(turn * 100, true);
                peer.end(turn * 100, ticket, End::Answered) == Some(Turn::Answers)
            })
            .collect();
        let at: Vec<usize> = (0..25).filter(|turn| told[*turn]).collect();
        assert_eq!(at, [0, 10, 20]);
    }
}
