//! What one node thinks of every listed member: up, suspicious or down, starting, leaving, slow.
//!
//! Pure: no clock, no I/O, and the same inputs give the same states. It is told the list, what members report, how they
//! answer our own reports, and what others saw of them; it says to whom to report next, and what follows for the ring.
//!
//! Two sets of rules. Where a member is one of Nacos 1.x, or may be, those of 1.x hold to the letter, since all members
//! must come to the same ring, but for the last row: only a Nacre node says how it is called, and no ring has it twice then.
//!
//! | event | effect |
//! | --- | --- |
//! | our report is answered | UP |
//! | a report comes from it | UP, even if it can't be reached |
//! | our report is refused, or another call | DOWN at once |
//! | our report fails otherwise | SUSPICIOUS, and DOWN at the fourth time in a row |
//! | our report is answered 404 or 501 | nothing |
//! | our report, or our call for its data, is answered by a Nacre node that has another name | DOWN at once, and reports that fail afterwards change nothing |
//!
//! Where all listed members that were ever heard of have shown that they are Nacre nodes the ring is *damped*: a report makes its sender UP
//! only if our last report to it was answered too, else it makes us report at once; a member that hangs is DOWN within
//! 10 s; one that most call slow counts as DOWN, unless so many are called slow that most of those that are up, or all,
//! would own nothing: then it isn't they who are slow.
//!
//! Source: Nacos 1.4.8 core module, member manager and report task; the table was seen on a cluster of three.

mod shown;
mod slow;

use std::collections::{BTreeMap, BTreeSet};

pub use self::shown::ShownMember;
use super::{
    Address, Mapping, MemberReport, MemberState, Standing,
    lookup::RaftPorts,
    seen::{Probe, Rules, Seen},
};
use crate::{
    base::{
        clock::Millis,
        mutant::{self, Mutant},
    },
    config::{MemberMeta, Settings},
};

/// What the rules depend on.
#[derive(Clone, Debug)]
pub struct RosterSettings {
    /// Failures in a row that a member may have.
    pub fail_access_count: u32,
    /// Milliseconds from a report to a member to the next.
    pub report_interval_ms: u64,
    /// Milliseconds that a member may take to answer one.
    pub report_timeout_ms: u64,
    /// How the node would spread services.
    pub mapping: Mapping,
    /// What the node tells of itself besides.
    pub meta: MemberMeta,
}

impl From<&Settings> for RosterSettings {
    fn from(settings: &Settings) -> Self {
        let ms = |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self {
            fail_access_count: settings.membership.fail_access_count,
            report_interval_ms: ms(settings.cluster.report_interval),
            report_timeout_ms: ms(settings.cluster.report_timeout),
            mapping: settings.distro.mapping,
            meta: settings.membership.meta.clone(),
        }
    }
}

/// From a report to a member that is leaving to the next: its end is near, and is to be seen.
const LEAVING_MS: u64 = 500;
/// At this age of its last answer a Nacre member that also failed twice is DOWN.
const SILENT_MS: u64 = 8_000;
/// Where nobody asked for the next report for that long beyond the interval, the node itself had stopped.
const OWN_PAUSE_MS: u64 = 3_000;
/// For so long what a Nacre member writes is taken after it was taken off the list: its own list may change a moment later, and
/// it notices within a few reports that the others don't list it any more. Tombstones are kept much longer, so that nothing
/// that went meanwhile comes back with it.
pub const PARTING_MS: u64 = 10_000;

/// All listed members as one node sees them.
#[derive(Clone, Debug)]
pub struct Roster {
    own: Address,
    standing: Standing,
    /// Removed by the others: they answer, and none of them lists the node, though its own list does.
    disowned: bool,
    settings: RosterSettings,
    members: BTreeMap<Address, Seen>,
    /// Nacre members that were taken off the list less than [`PARTING_MS`] ago, and when. Lists don't come faster than one a
    /// second, so it holds some of them at most.
    parting: BTreeMap<Address, Millis>,
    /// As the list tells them; of this node or others.
    raft_ports: RaftPorts,
    /// Members that don't answer this node's forwards in time.
    slow: Vec<Address>,
    persistent: u64,
    asked: Option<Millis>,
}

impl Roster {
    /// A node that starts and has not been given a list yet. `own` is spelled as the list spells it.
    #[must_use]
    pub fn new(own: Address, settings: RosterSettings) -> Self {
        Self {
            own,
            standing: Standing::Starting,
            disowned: false,
            settings,
            members: BTreeMap::new(),
            parting: BTreeMap::new(),
            raft_ports: RaftPorts::new(),
            slow: Vec::new(),
            persistent: 0,
            asked: None,
        }
    }

    /// The node itself.
    #[must_use]
    pub fn own(&self) -> &Address {
        &self.own
    }

    /// What the node is doing.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// Takes over a valid list, which may lack the node itself. New members are DOWN, known ones stay as they are.
    ///
    /// Not listed: [`Standing::Removed`]. Listed again: [`Standing::Starting`], since others have gone on meanwhile.
    pub fn relist(&mut self, listed: &[Address], now: Millis) {
        let listed: BTreeSet<&Address> = listed.iter().collect();
        self.parting.retain(|address, _| !listed.contains(address));
        for (address, member) in self.members.extract_if(.., |address, _| !listed.contains(address)) {
            if member.nacre.is_some() {
                self.parting.insert(address, now);
            }
        }
        for &address in listed.iter().filter(|address| **address != &self.own) {
            self.members.entry(address.clone()).or_insert_with(|| Seen::new(now));
        }
        match (self.standing, listed.contains(&self.own)) {
            (_, false) => (self.standing, self.disowned) = (Standing::Removed, false),
            (Standing::Removed, true) if !self.disowned => self.start_anew(),
            (_, true) => {}
        }
    }

    /// A member again: what the others did meanwhile is loaded first.
    fn start_anew(&mut self) {
        let starts = if mutant::is(Mutant::ReturnsUnloaded) { Standing::Serving } else { Standing::Starting };
        (self.standing, self.disowned) = (starts, false);
        for member in self.members.values_mut() {
            // What they said of this node was said of the member that it isn't any more.
            member.answers = false;
            member.knows_us = member.knows_us.filter(|_| mutant::is(Mutant::OldWordsCount));
        }
    }

    /// Looks at what the members that answer say of this node. One that none of them lists is none, whatever its own list
    /// says: they go on without it, and what it wrote would come back with it. It goes on asking until one lists it, or none
    /// answers that doesn't.
    fn judge_own(&mut self) {
        let answering = self.members.values().filter(|member| {
            // One that was loaded from, or reports, hasn't been asked yet: it may be the one that lists it.
            member.answers || member.state == MemberState::Up && member.knows_us.is_none()
        });
        let mut knows_us = answering.map(|member| member.knows_us).peekable();
        let is_disowned = knows_us.peek().is_some() && knows_us.all(|knows_us| knows_us == Some(false));
        match self.standing {
            Standing::Serving if is_disowned && self.is_taken_off() => {
                (self.standing, self.disowned) = (Standing::Removed, true);
            }
            // Also where who said so is gone: others may have heard the same of it.
            Standing::Removed if self.disowned && !is_disowned => self.start_anew(),
            _ => {}
        }
    }

    /// Whether those that don't list this node show that it was taken off: one of them had it on its list, or they are most of
    /// all members. A single one that never knew it may be the one whose list is wrong. One that starts may list it.
    fn is_taken_off(&self) -> bool {
        let strangers =
            || self.members.values().filter(|member| member.answers && member.knows_us == Some(false));
        let is_most = strangers().count() > self.members.len() / 2;
        let starts = self.members.values().any(|member| member.says_it_starts);
        !starts && (is_most || strangers().any(|member| member.has_known_us))
    }

    /// Whether the node's own list has it, and nobody else's.
    #[must_use]
    pub fn is_disowned(&self) -> bool {
        self.disowned
    }

    /// The addresses of the list, the own one among them while it is listed.
    #[must_use]
    pub fn listed(&self) -> Vec<Address> {
        let own = (self.standing != Standing::Removed || self.disowned).then_some(&self.own);
        let all: BTreeSet<&Address> = self.members.keys().chain(own).collect();
        all.into_iter().cloned().collect()
    }

    /// A report came in. Tells whether its sender is listed; only then anything changes.
    pub fn reported(&mut self, report: &MemberReport, now: Millis) -> bool {
        if report.address == self.own {
            return self.standing != Standing::Removed;
        }
        let Some(member) = self.members.get_mut(&report.address) else { return false };
        member.nacre = report.nacre.as_ref().map(|mark| mark.protocol);
        member.starting = report.nacre.as_ref().is_some_and(|mark| mark.starting);
        member.report = Some(report.clone());
        if member.is_leaving() {
            member.due = member.due.min(now.plus(LEAVING_MS));
        }
        let is_damped = self.is_damped() && !mutant::is(Mutant::ReportsMakeOwners);
        let member = self.members.get_mut(&report.address).expect("found above");
        if !is_damped || member.answers {
            member.up("it reports");
        } else if !member.in_flight {
            member.due = now;
        }
        true
    }

    /// The members to report to now; each is given out once, until [`Self::probed`] tells how it answered.
    pub fn probe_due(&mut self, now: Millis) -> Vec<Address> {
        self.look(now);
        if !self.sends_reports() {
            return Vec::new();
        }
        let (period, standing) = (self.period_ms(), self.standing);
        let due = self.members.iter_mut().filter(|(_, member)| !member.in_flight && member.due <= now);
        due.map(|(address, member)| {
            let period = if member.is_leaving() { period.min(LEAVING_MS) } else { period };
            (member.in_flight, member.due) = (true, now.plus(period));
            member.sent = Some(standing);
            address.clone()
        })
        .collect()
    }

    /// When [`Self::probe_due`] should be asked again, if nothing else happens before.
    #[must_use]
    pub fn next_due(&self) -> Option<Millis> {
        if !self.sends_reports() {
            return None;
        }
        let rules = self.rules();
        let reports = self.members.values().filter(|member| !member.in_flight).map(|member| member.due);
        let silent = self.members.values().filter_map(|member| member.silent_at(rules));
        let parting = self.parting.values().map(|since| since.plus(PARTING_MS));
        reports.chain(silent).chain(parting).min()
    }

    /// Whether a member, for all that is known, refuses the reports of this node as those of a stranger.
    #[must_use]
    pub fn is_forbidden_by(&self, address: &Address) -> bool {
        self.members.get(address).is_some_and(|member| member.forbids_us)
    }

    /// How a member answered our report.
    pub fn probed(&mut self, address: &Address, probe: Probe, now: Millis) {
        let rules = self.rules();
        if let Some(member) = self.members.get_mut(address) {
            member.in_flight = false;
            member.probed(probe, rules, now);
        }
        self.judge_own();
    }

    /// Another call to a member was refused, or closed without a byte of an answer: nobody is there. It is reported to at
    /// once, in case it was only its connection that ended. One that answers these reports, and closes the next call again,
    /// stays DOWN for 1 s, then for 2, 4 and 5 s, unless a report shows that it is gone or starts; in a ring that isn't
    /// damped, until its next report or the next one to it.
    pub fn refused(&mut self, address: &Address, now: Millis) {
        let is_damped = self.is_damped();
        if let Some(member) = self.members.get_mut(address) {
            let is_first = member.closed_call(now);
            if !member.in_flight && (is_first || is_damped) {
                member.due = now;
            }
        }
    }

    /// Another call to a member was answered. While the node loads, and sends no reports, that makes it UP; later it
    /// only makes the node report to one that isn't.
    pub fn answered(&mut self, address: &Address, now: Millis) {
        let is_loading = self.is_loading();
        let Some(member) = self.members.get_mut(address) else { return };
        member.last_answer = now;
        if is_loading && member.called.is_none() {
            (member.answers, member.starting) = (true, false);
            member.up("it answers");
        } else if member.state != MemberState::Up && !member.in_flight {
            member.due = now;
        }
    }

    /// How the node that answers at this address calls itself, where that isn't as it is listed.
    #[must_use]
    pub fn called(&self, address: &Address) -> Option<&Address> {
        self.members.get(address)?.called.as_ref()
    }

    /// It answered another call as that of a stranger. While the node loads, and sends no reports, that is all that is heard of it.
    pub fn forbidden(&mut self, address: &Address) {
        if let Some(member) = self.members.get_mut(address) {
            member.forbidden();
        }
    }

    /// An answer has shown that the member is Nacre, though nothing was reported to it yet: who loads the data of others
    /// must not serve as if they were of 1.x.
    pub fn shown_nacre(&mut self, address: &Address, protocol: u32) {
        if let Some(member) = self.members.get_mut(address) {
            (member.nacre, member.forbids_us) = (Some(protocol), false);
        }
    }

    /// Another call was answered with `X-Nacre-State: starting`.
    pub fn heard_starting(&mut self, address: &Address, now: Millis) {
        let rules = self.rules();
        if let Some(member) = self.members.get_mut(address) {
            member.probed(Probe::NotReady { starting: true }, rules, now);
        }
    }

    /// The node starts, serves or leaves from now on; the others are told at once. Without effect while it isn't listed.
    pub fn set_standing(&mut self, standing: Standing, now: Millis) {
        if self.standing == standing || self.standing == Standing::Removed {
            return;
        }
        self.standing = standing;
        for member in self.members.values_mut() {
            (member.due, member.last_answer) = (now, now);
        }
    }

    /// Whether all members that aren't DOWN have answered a report that told what the node is doing.
    #[must_use]
    pub fn has_told(&self) -> bool {
        let up = self.members.values().filter(|member| member.state != MemberState::Down);
        up.into_iter().all(|member| member.told == Some(self.standing))
    }

    /// The members that don't answer this node's forwards in time.
    pub fn set_slow(&mut self, slow: Vec<Address>) {
        self.slow = slow;
    }

    /// The raft ports that the list tells, for those that have another one than usual.
    pub fn set_raft_ports(&mut self, raft_ports: RaftPorts) {
        self.raft_ports = raft_ports;
    }

    /// How many persistent instances and services made by requests the node holds.
    pub fn set_persistent(&mut self, count: u64) {
        self.persistent = count;
    }

    /// Whether all listed members that were heard of have shown that they are Nacre nodes. One that nobody has started yet
    /// must not make a cluster of Nacre nodes behave like one of 1.x.
    #[must_use]
    pub fn is_damped(&self) -> bool {
        let mut heard = self.members.values().filter(|member| !member.is_unheard_of()).peekable();
        let is_anybody_heard = heard.peek().is_some() || self.members.is_empty();
        is_anybody_heard && heard.all(|member| member.nacre.is_some())
    }

    /// Whether a member that was heard of hasn't shown that it is a Nacre node.
    fn is_mixed(&self) -> bool {
        self.members.values().any(|member| !member.is_unheard_of() && member.nacre.is_none())
    }

    /// Whether the node isn't an owner yet, or again, since it hasn't got what the others have. It sends no reports then.
    fn is_loading(&self) -> bool {
        self.standing.is_loading()
    }

    fn sends_reports(&self) -> bool {
        matches!(self.standing, Standing::Serving | Standing::Leaving) || self.disowned
    }

    /// From a report to a member to the next. Members of 1.x report to the others in turn, one each interval, and
    /// would call a member down much later than a node that asks more often.
    fn period_ms(&self) -> u64 {
        let interval = self.settings.report_interval_ms;
        let in_turn = if self.is_damped() { 1 } else { self.members.len() };
        interval.saturating_mul(u64::try_from(in_turn).unwrap_or(u64::MAX))
    }

    fn rules(&self) -> Rules {
        let RosterSettings { fail_access_count, report_interval_ms, report_timeout_ms, .. } = self.settings;
        // Two reports may fail before, whatever their limits.
        let two_reports = report_timeout_ms.saturating_mul(2).saturating_add(report_interval_ms);
        let silent_ms = two_reports.max(SILENT_MS);
        let (is_damped, is_mixed) = (self.is_damped(), self.is_mixed());
        Rules { is_damped, is_mixed, fail_access_count, silent_ms }
    }

    /// Finds members that are silent for too long, unless it was the node itself that stood still.
    fn look(&mut self, now: Millis) {
        self.parting.retain(|_, since| now.since(*since) < PARTING_MS);
        let asked = self.asked.replace(now);
        let longest = self.period_ms().saturating_add(OWN_PAUSE_MS);
        let (has_paused, rules) = (asked.is_some_and(|asked| now.since(asked) > longest), self.rules());
        for member in self.members.values_mut() {
            if has_paused {
                member.last_answer = now;
            }
            member.look(rules, now);
        }
    }
}

#[cfg(test)]
#[path = "roster_tests.rs"]
mod tests;
