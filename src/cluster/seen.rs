//! What one node has seen of one member, and which state follows.
//!
//! Pure. The rules are those of the [roster](super::roster).

use std::borrow::Cow;

use super::{Address, MemberReport, MemberState, NacreMark, Standing, member::PROTOCOL};
use crate::base::{
    clock::Millis,
    mutant::{self, Mutant},
};

/// How a member answered a report of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// 200 with the code 200.
    Answered {
        /// We are in its list.
        known: bool,
        /// The number that it gave with `X-Nacre-Peer`; none says nothing.
        nacre: Option<u32>,
    },
    /// By a Nacre node that is called otherwise than it is listed here, whatever else it says.
    Another(Address),
    /// 403: it doesn't take us for a member, as if we weren't in its list.
    Stranger,
    /// 404 or 501.
    NotReady {
        /// It said `X-Nacre-State: starting`.
        starting: bool,
    },
    /// Refused, or closed without a byte of an answer: nobody is there.
    Refused,
    /// A Nacre node that serves alone. It owns nothing, and that it doesn't list this node says nothing.
    Alone,
    /// Anything else: no answer in time, another status, something else than JSON, another code in it.
    Failed,
    /// This node couldn't call it: for the state the same.
    Impossible,
}

/// Why a member is DOWN whose reports say that it is well.
const UNREACHED: &str = "it refuses connections, or no way leads to it";
const CLOSES_CALLS: &str = "it answers reports, and closes other calls without an answer";
/// How long such a member stays DOWN the second time; then twice as long each time.
const FIRST_PAUSE_MS: u64 = 1_000;
/// The longest of these pauses: who is well again is an owner within ten seconds.
const LONGEST_PAUSE_MS: u64 = 5_000;
/// One that was well for that long begins anew.
const FORGIVEN_MS: u64 = 30_000;

/// The rules that hold at the moment, for all members alike.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// All listed members have shown that they are Nacre nodes.
    pub is_damped: bool,
    /// A member that was heard of is one of 1.x, or may be.
    pub is_mixed: bool,
    /// Failures in a row that a member may have.
    pub fail_access_count: u32,
    /// At this age of its last answer a Nacre member that also failed twice is DOWN.
    pub silent_ms: u64,
}

/// A listed member other than the node itself, as the node has seen it.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub report: Option<MemberReport>,
    pub state: MemberState,
    why: &'static str,
    /// How the node that answers at this address calls itself, where that is another name.
    pub called: Option<Address>,
    pub failures: u32,
    pub nacre: Option<u32>,
    pub starting: bool,
    /// It said so to our last report.
    pub says_it_starts: bool,
    /// Our last report to it, or another call of ours, was answered.
    pub answers: bool,
    pub knows_us: Option<bool>,
    /// It has had us on its list.
    pub has_known_us: bool,
    /// It answered our last report 403.
    pub forbids_us: bool,
    pub last_answer: Millis,
    pub due: Millis,
    pub in_flight: bool,
    /// How often in a row it was UP and then closed another call without an answer, though it answers reports.
    closures: u32,
    /// When the last of that was.
    closed: Millis,
    /// Until then an answer to a report doesn't make it UP.
    held_until: Millis,
    /// What the report under way, or the last one that was answered, said of the node.
    pub sent: Option<Standing>,
    pub told: Option<Standing>,
}

impl Seen {
    pub fn new(now: Millis) -> Self {
        Self {
            report: None,
            state: MemberState::Down,
            why: "listed, not heard of yet",
            called: None,
            failures: 0,
            nacre: None,
            starting: false,
            says_it_starts: false,
            answers: false,
            knows_us: None,
            has_known_us: false,
            forbids_us: false,
            last_answer: now,
            due: now,
            in_flight: false,
            closures: 0,
            closed: now,
            held_until: now,
            sent: None,
            told: None,
        }
    }

    fn set(&mut self, state: MemberState, why: &'static str) {
        (self.state, self.why, self.called) = (state, why, None);
    }

    /// Why it has its state, for a person who looks at the node `own`.
    pub fn why(&self, own: &Address) -> Cow<'static, str> {
        const CURE: &str =
            "a node counts once, by the name that it finds for itself in its own list of members";
        match &self.called {
            None => self.why.into(),
            Some(called) if called == own => {
                format!("it is this node, {own}, under a second name; {CURE}").into()
            }
            Some(called) => format!("the node there calls itself {called}; {CURE}").into(),
        }
    }

    /// The node at this address is called otherwise: it is another member, listed twice, or one that others list
    /// differently. Two members of one node would be two owners, of which it knows but one.
    pub fn is_another(&mut self, called: Address) {
        (self.answers, self.starting) = (false, false);
        self.set(MemberState::Down, "");
        self.called = Some(called);
        // Only a Nacre node says so; one of 1.x would be sent data while it is DOWN.
        self.nacre = self.nacre.or(Some(PROTOCOL));
    }

    pub fn up(&mut self, why: &'static str) {
        self.failures = 0;
        self.set(MemberState::Up, why);
    }

    pub fn gone(&mut self, why: &'static str) {
        (self.answers, self.starting) = (false, false);
        self.failures = self.failures.saturating_add(1);
        self.set(MemberState::Down, why);
    }

    /// Another call to it was refused, or closed without an answer. The first time it is DOWN until it answers the next report,
    /// and each time that such an answer turns out to be no help for a growing pause. Tells whether it was the first time.
    ///
    /// What is closed while it is DOWN already is of the same moment, and doesn't count again.
    pub fn closed_call(&mut self, now: Millis) -> bool {
        if self.state == MemberState::Down {
            if self.called.is_none() {
                let is_held = self.closures > 1 && now < self.held_until;
                self.gone(if is_held { CLOSES_CALLS } else { UNREACHED });
            }
            return self.closures <= 1;
        }
        let is_forgiven = now.since(self.closed.max(self.held_until)) >= FORGIVEN_MS;
        self.closures = if is_forgiven { 1 } else { self.closures.saturating_add(1) };
        self.closed = now;
        let Some(again) = self.closures.checked_sub(2) else {
            self.gone(UNREACHED);
            return true;
        };
        let pause = FIRST_PAUSE_MS.saturating_mul(2_u64.saturating_pow(again)).min(LONGEST_PAUSE_MS);
        self.held_until = now.plus(pause);
        self.gone(CLOSES_CALLS);
        false
    }

    /// It is known why it closed calls: it ended, or starts. Its next good answer counts at once.
    fn forgive(&mut self, now: Millis) {
        (self.closures, self.held_until) = (0, now);
    }

    /// Nothing came from it since it was listed. It may be one of 1.x, and owns nothing until it shows itself.
    pub fn is_unheard_of(&self) -> bool {
        self.state == MemberState::Down && self.report.is_none() && self.knows_us.is_none()
    }

    pub fn mark(&self) -> Option<&NacreMark> {
        self.report.as_ref()?.nacre.as_ref()
    }

    pub fn is_leaving(&self) -> bool {
        self.mark().is_some_and(|mark| mark.leaving)
    }

    pub fn calls_slow(&self, accused: &Address) -> bool {
        self.mark().is_some_and(|mark| mark.slow.contains(accused))
    }

    /// It answered another call than a report 403.
    pub fn forbidden(&mut self) {
        self.forbids_us = true;
        if self.is_unheard_of() {
            self.why = "it answers, but not this node";
        }
    }

    /// It answered our report so.
    pub fn probed(&mut self, probe: Probe, rules: Rules, now: Millis) {
        self.says_it_starts = matches!(probe, Probe::NotReady { starting: true });
        match probe {
            Probe::Answered { known, nacre } => {
                self.forbids_us = false;
                self.answered(known, nacre, rules, now);
            }
            Probe::Another(called) => self.is_another(called),
            Probe::Stranger => {
                self.forbids_us = true;
                self.answered(false, None, rules, now);
            }
            Probe::NotReady { starting: true } => {
                self.forgive(now);
                (self.starting, self.answers, self.last_answer) = (true, false, now);
                self.nacre = self.nacre.or(Some(PROTOCOL));
            }
            Probe::NotReady { starting: false } => {}
            Probe::Refused => {
                self.forgive(now);
                self.gone(UNREACHED);
            }
            Probe::Alone => {
                (self.knows_us, self.forbids_us) = (None, false);
                self.gone(
                    "it serves alone, its own list names no members: give it the list, and start it anew",
                );
            }
            Probe::Failed => self.failed(rules, now),
            Probe::Impossible => {
                self.failed(rules, now);
                self.why = "this node can't call it: is its name found here?";
            }
        }
    }

    fn answered(&mut self, known: bool, nacre: Option<u32>, rules: Rules, now: Millis) {
        (self.answers, self.starting) = (true, false);
        (self.knows_us, self.told) = (Some(known), self.sent);
        self.has_known_us |= known;
        self.last_answer = now;
        self.nacre = nacre.or(self.nacre);
        if rules.is_damped && now < self.held_until {
            self.answers = false;
        } else {
            self.up("it answers");
        }
    }

    fn failed(&mut self, rules: Rules, now: Millis) {
        self.answers = false;
        if mutant::is(Mutant::NobodyGoesDown) {
            return;
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures > rules.fail_access_count || self.is_silent(rules, now) {
            self.set(MemberState::Down, "it doesn't answer reports");
        } else if self.called.is_none() && (self.state != MemberState::Down || rules.is_mixed) {
            // As 1.x does, also with one that was DOWN since it refused, or that never showed itself: owners must be the same.
            self.set(MemberState::Suspicious, "it didn't answer the last report");
        }
    }

    /// Time has passed: one that only needed to be silent a while longer is DOWN.
    pub fn look(&mut self, rules: Rules, now: Millis) {
        if self.state == MemberState::Suspicious && self.is_silent(rules, now) {
            self.set(MemberState::Down, "it doesn't answer reports");
        }
    }

    /// When [`Self::look`] would find it silent, if nothing else happens.
    pub fn silent_at(&self, rules: Rules) -> Option<Millis> {
        let is_doubted = rules.is_damped && self.state == MemberState::Suspicious && self.failures >= 2;
        is_doubted.then(|| self.last_answer.plus(rules.silent_ms))
    }

    fn is_silent(&self, rules: Rules, now: Millis) -> bool {
        rules.is_damped && self.failures >= 2 && now.since(self.last_answer) >= rules.silent_ms
    }
}
