//! What other modules hold of the cluster: the view, and the doors by which they tell what they saw of members.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::{
    Address, MemberCounts, MemberReport, MemberState, NacreMark, Probe, Roster, RosterSettings, ShownMember,
    Standing, View,
    condition::{Condition, behind_text, conditions, forbidden_text, moved_text},
    log,
    lookup::{Found, LookupShown, LookupSwitchError, RaftPorts, Watch},
    member::PROTOCOL,
};
use crate::{
    base::{
        burst::{Burst, Seldom},
        clock::{Clock, Millis},
    },
    config::{LookupType, Settings},
};

/// The cluster as this node sees it; cheap to clone.
#[derive(Clone, Debug)]
pub struct Cluster(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    view: ArcSwap<View>,
    /// How many views there were; bumped with each new one.
    changes: watch::Sender<u64>,
    clock: Clock,
    /// None: the node serves alone.
    members: Option<Clustered>,
    /// The address that the node would have now, where that is another one.
    moved: Mutex<Option<String>>,
    /// A member whose data can't be taken, since this node's clock is behind by so much; while the node loads.
    behind: Mutex<Option<(Address, Duration)>>,
}

/// What only a node with members has.
#[derive(Debug)]
struct Clustered {
    roster: Mutex<Roster>,
    lookup: Mutex<LookupShown>,
    switcher: super::lookup::Switcher,
    /// Somebody may have to be reported to sooner than was thought.
    wake: Notify,
    /// A report was answered, or not.
    heard: Notify,
    /// Of the log.
    lines: Burst,
    /// Of the log, about members with persistent data.
    persistent_lines: Seldom,
}

impl Cluster {
    /// A node that serves alone.
    #[must_use]
    pub fn alone(own: Address, clock: Clock) -> Self {
        Self::with(View::alone(own), clock, None)
    }

    /// A node that starts among these members. What gives the list from now on comes with it.
    #[must_use]
    pub fn new(found: Found, settings: &Settings, clock: Clock) -> (Self, Watch) {
        let Found { own, members, raft_ports, watch } = found;
        let mut roster = Roster::new(own, RosterSettings::from(settings));
        roster.set_raft_ports(raft_ports);
        roster.relist(&members, clock.now());
        let (view, lookup) = (roster.view(), Mutex::new(watch.shown()));
        let (roster, switcher) = (Mutex::new(roster), watch.switcher());
        let (wake, heard) = (Notify::new(), Notify::new());
        let (lines, persistent_lines) = (Burst::default(), Seldom::default());
        let members = Clustered { roster, lookup, switcher, wake, heard, lines, persistent_lines };
        (Self::with(view, clock, Some(members)), watch)
    }

    fn with(view: View, clock: Clock, members: Option<Clustered>) -> Self {
        let (view, moved, behind) = (ArcSwap::from_pointee(view), Mutex::default(), Mutex::default());
        Self(Arc::new(Shared { view, changes: watch::Sender::new(0), clock, members, moved, behind }))
    }

    /// The view as it is now, to keep.
    #[must_use]
    pub fn view(&self) -> Arc<View> {
        self.0.view.load_full()
    }

    /// The view as it is now, for a moment: costs less than [`Self::view`].
    #[must_use]
    pub fn view_guard(&self) -> arc_swap::Guard<Arc<View>> {
        self.0.view.load()
    }

    /// Changes with each new view; the number is that of the views before.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// A report came in; tells whether its sender is listed. Only then it counts.
    pub fn reported(&self, report: &MemberReport, now: Millis) -> bool {
        let told = self.change(|roster| {
            let before = roster.persistent_of(&report.address);
            let is_listed = roster.reported(report, now);
            (is_listed, before, roster.persistent_of(&report.address))
        });
        let Some((is_listed, before, count)) = told else {
            return report.address == self.view_guard().own;
        };
        if before == 0 && count > 0 {
            self.warn_of_persistent(&report.address, count);
        }
        is_listed
    }

    /// A call to a member was refused, or closed without a byte of an answer: it is DOWN at once.
    pub fn refused(&self, address: &Address, now: Millis) {
        self.change(|roster| roster.refused(address, now));
    }

    /// A call to a member was answered. Costs nothing for one that is up.
    pub fn answered(&self, address: &Address, now: Millis) {
        let view = self.view_guard();
        let is_up = view.peer(address).is_none_or(|peer| peer.state == MemberState::Up);
        if !is_up || view.standing.is_loading() {
            drop(view);
            self.change(|roster| roster.answered(address, now));
        }
    }

    /// A member has shown in an answer that it is Nacre, before it was reported to.
    pub fn shown_nacre(&self, address: &Address, protocol: u32) {
        self.change(|roster| roster.shown_nacre(address, protocol));
    }

    /// A member answered a call as that of a stranger.
    pub fn forbidden(&self, address: &Address) {
        self.change(|roster| tell_if_forbidden(roster, address, |roster| roster.forbidden(address)));
    }

    /// The node that answers at the address of a member has another name.
    pub fn is_another(&self, address: &Address, called: Address) {
        self.probed(address, Probe::Another(called));
    }

    /// A call to a member was answered with `X-Nacre-State: starting`.
    pub fn heard_starting(&self, address: &Address, now: Millis) {
        self.change(|roster| roster.heard_starting(address, now));
    }

    /// The node starts, serves or leaves from now on. Without effect while it isn't listed, or serves alone.
    pub fn set_standing(&self, standing: Standing) {
        *self.0.behind.lock() = None;
        self.change(|roster| roster.set_standing(standing, self.0.clock.now()));
    }

    /// Ready when all members that aren't DOWN have answered a report that told what the node is doing.
    pub async fn has_told(&self) {
        let Some(members) = &self.0.members else { return };
        loop {
            let heard = members.heard.notified();
            if members.roster.lock().has_told() {
                return;
            }
            heard.await;
        }
    }

    /// The members that don't answer this node's forwards in time; told to the others with the next reports.
    pub fn set_slow(&self, slow: Vec<Address>) {
        self.change(|roster| roster.set_slow(slow));
    }

    /// How many persistent instances and services made by requests the node holds; told to the others with the next
    /// reports, and to the operator. Without effect on a node that serves alone.
    pub fn set_persistent(&self, count: u64) {
        let Some(members) = &self.0.members else { return };
        members.roster.lock().set_persistent(count);
        if count > 0 {
            self.warn_of_persistent(&self.view_guard().own, count);
        }
    }

    /// Tells the operator of data that only one member has.
    fn warn_of_persistent(&self, member: &Address, count: u64) {
        let Some(members) = &self.0.members else { return };
        if members.persistent_lines.pass(&[member.as_str()], Instant::now()).is_some() {
            tracing::warn!(
                %member,
                count,
                "a member holds persistent instances or services, which members don't share: the others don't show \
                 them, and nobody can change them in a cluster"
            );
        }
    }

    /// Tells the operator that a member has another name, where the change of its state doesn't tell it: it was DOWN before.
    fn warn_of_name(&self, roster: &Roster, member: &Address) {
        let (Some(members), view) = (&self.0.members, self.view_guard()) else { return };
        let was_down = view.peer(member).is_none_or(|peer| peer.state == MemberState::Down);
        if was_down && members.lines.pass(Instant::now()).is_some() {
            tracing::warn!(%member, why = %roster.why(member), "a member is down");
        }
    }

    /// The list of members has changed; it may lack the node itself.
    pub(super) fn relist(&self, listed: &[Address], raft_ports: RaftPorts) {
        self.change(|roster| {
            roster.set_raft_ports(raft_ports);
            roster.relist(listed, self.0.clock.now());
        });
    }

    /// These are no members any more, until the list changes (`POST /v1/core/cluster/server/leave`).
    pub fn drop_members(&self, gone: &[Address]) {
        self.change(|roster| {
            let mut listed = roster.listed();
            listed.retain(|address| !gone.contains(address));
            roster.relist(&listed, self.0.clock.now());
        });
    }

    /// The list of members comes from there from now on (`POST /v1/core/cluster/switch/lookup`), until the next start.
    ///
    /// # Errors
    /// The node serves alone, there is no list, or it lacks the node: then all stays as it was.
    pub async fn switch_lookup(&self, to: LookupType) -> Result<(), LookupSwitchError> {
        match &self.0.members {
            Some(members) => members.switcher.switch(to).await,
            None => Err(LookupSwitchError::Alone),
        }
    }

    pub(super) fn set_lookup(&self, shown: LookupShown) {
        if let Some(members) = &self.0.members {
            *members.lookup.lock() = shown;
        }
    }

    /// Whether the list of members lies on this machine, where nobody makes it of the nodes that are ready.
    #[must_use]
    pub fn has_own_list(&self) -> bool {
        self.lookup().is_some_and(|lookup| lookup.is_own)
    }

    /// Where the list comes from; none for a node that serves alone.
    #[must_use]
    pub fn lookup(&self) -> Option<LookupShown> {
        self.0.members.as_ref().map(|members| members.lookup.lock().clone())
    }

    /// All listed members, the node itself among them while it is listed, sorted as text.
    #[must_use]
    pub fn members(&self) -> Vec<ShownMember> {
        let Some(members) = &self.0.members else { return vec![self.alone_shown()] };
        let mut shown = members.roster.lock().members();
        for own in shown.iter_mut().filter(|member| member.is_own) {
            own.report.iter_mut().for_each(|report| self.refresh(report));
        }
        shown
    }

    fn alone_shown(&self) -> ShownMember {
        let address = self.view_guard().own.clone();
        let mut report =
            MemberReport::of_nacre(&address, NacreMark { protocol: PROTOCOL, ..NacreMark::default() });
        self.refresh(&mut report);
        ShownMember {
            address,
            state: MemberState::Up,
            report: Some(report),
            raft_port: None,
            failures: 0,
            why: "it is this node".into(),
            knows_us: None,
            forbids_us: false,
            is_own: true,
        }
    }

    /// What the node reports of itself now.
    #[must_use]
    pub fn own_report(&self) -> MemberReport {
        let own = self.0.members.as_ref().map(|members| members.roster.lock().report());
        match own {
            Some(mut report) => {
                self.refresh(&mut report);
                report
            }
            None => self.alone_shown().report.expect("it has one"),
        }
    }

    /// 1.x tells when a member last looked at itself.
    fn refresh(&self, report: &mut MemberReport) {
        report.extend_info.insert("lastRefreshTime".into(), self.0.clock.wall_ms().into());
    }

    /// The lines of `/readyz`; none for a node that serves alone where it always was.
    #[must_use]
    pub fn conditions(&self) -> Vec<Condition> {
        let moved = self.0.moved.lock().clone();
        match &self.0.members {
            Some(members) => {
                let lookup = members.lookup.lock().clone();
                let mut lines = conditions(&members.roster.lock(), Some(&lookup), moved.as_deref());
                lines.extend(self.clock_line());
                lines
            }
            None => {
                let trouble = moved.map(|moved| moved_text(self.view_guard().own.as_str(), &moved));
                trouble
                    .into_iter()
                    .map(|text| Condition { part: "own address", trouble: Some(text) })
                    .collect()
            }
        }
    }

    /// The data of this member can't be taken while the node loads, since its clock is behind by so much.
    pub fn is_behind(&self, member: &Address, behind: Duration) {
        *self.0.behind.lock() = Some((member.clone(), behind));
    }

    /// Only there where it holds the node up.
    fn clock_line(&self) -> Option<Condition> {
        let behind = self.0.behind.lock().clone().filter(|_| self.view_guard().standing.is_loading());
        let (member, behind) = behind?;
        let trouble = format!("the data of {member} can't be taken: {}", behind_text(&behind));
        Some(Condition { part: "clock", trouble: Some(trouble) })
    }

    /// How many members are how.
    #[must_use]
    pub fn counts(&self) -> MemberCounts {
        MemberCounts::of(&self.view_guard())
    }

    /// The node would have another address now, or none but its own.
    pub(super) fn set_moved(&self, moved: Option<String>) {
        let mut before = self.0.moved.lock();
        if *before == moved {
            return;
        }
        let own = self.view_guard().own.clone();
        match &moved {
            Some(moved) => tracing::warn!("{}", moved_text(own.as_str(), moved)),
            None => tracing::info!(%own, "this node has its own address again"),
        }
        *before = moved;
    }

    /// The members to report to now, and when to ask again.
    pub(super) fn probe_due(&self) -> (Vec<Address>, Option<Millis>) {
        let now = self.0.clock.now();
        let due = self.change_quietly(|roster| (roster.probe_due(now), roster.next_due()));
        due.unwrap_or_default()
    }

    /// How a member answered a report.
    pub(super) fn probed(&self, address: &Address, probe: Probe) {
        self.change_quietly(|roster| {
            let was_called = roster.called(address).cloned();
            tell_if_forbidden(roster, address, |roster| roster.probed(address, probe, self.0.clock.now()));
            if roster.called(address).is_some_and(|called| was_called.as_ref() != Some(called)) {
                self.warn_of_name(roster, address);
            }
        });
        if let Some(members) = &self.0.members {
            members.heard.notify_waiters();
        }
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Ready when somebody may have to be reported to sooner than was thought.
    pub(super) async fn woken(&self) {
        match &self.0.members {
            Some(members) => members.wake.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Changes the roster and publishes what follows; the reports are looked at anew.
    fn change<T>(&self, change: impl FnOnce(&mut Roster) -> T) -> Option<T> {
        let changed = self.change_quietly(change);
        if let Some(members) = &self.0.members {
            members.wake.notify_one();
        }
        changed
    }

    /// The same, from who looks at the reports anyhow.
    fn change_quietly<T>(&self, change: impl FnOnce(&mut Roster) -> T) -> Option<T> {
        let members = self.0.members.as_ref()?;
        // Held until the view is published, so that views come in the order of what made them.
        let mut roster = members.roster.lock();
        let outcome = change(&mut roster);
        let (before, after) = (self.0.view.load_full(), roster.view());
        if *before != after {
            log::tell(&members.lines, &before, &after, &roster);
            self.0.view.store(Arc::new(after));
            self.0.changes.send_modify(|count| *count += 1);
        }
        Some(outcome)
    }
}

/// Changes a member, and tells the operator where it doesn't take this node for one any more.
fn tell_if_forbidden(roster: &mut Roster, address: &Address, change: impl FnOnce(&mut Roster)) {
    let was_forbidden = roster.is_forbidden_by(address);
    change(roster);
    if roster.is_forbidden_by(address) && !was_forbidden {
        tracing::warn!("{}", forbidden_text(address));
    }
}
