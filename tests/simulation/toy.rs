//! The least node that keeps all promises while nothing goes wrong, with flaws to be switched on: shows that the world
//! works and that each promise can be seen broken.
//!
//! Everybody owns everything: a write is applied where it arrives and sent to all, and all compare everything often.

use std::{cell::Cell, collections::BTreeMap, sync::Arc};

use nacre::base::clock::{Millis, Reading};

use super::seam::{
    CallFault, ClientAnswer, ClientRequest, Fleet, NodeId, OutboxOf, Outgoing, Seen, Setup, SimNode, Sizes,
    Ticket, Wish,
};

/// What is wrong with all toys of this thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    None,
    SendsNothing,
    ExpiresSoon,
    ExpiresNever,
    ForgetsWhoLeft,
    TakesOlder,
    CallsStrangers,
    Hoards,
    KeepsTheDark,
    RefusesAll,
    StartsEmpty,
    NeverServes,
}

thread_local! {
    static FLAW: Cell<Flaw> = const { Cell::new(Flaw::None) };
}

/// Runs `action` with this flaw in all toys of the thread.
pub fn with<T>(flaw: Flaw, action: impl FnOnce() -> T) -> T {
    FLAW.set(flaw);
    let result = action();
    FLAW.set(Flaw::None);
    result
}

fn has(flaw: Flaw) -> bool {
    FLAW.get() == flaw
}

#[derive(Clone, Copy, Debug)]
pub struct Record {
    stamp: (u64, NodeId),
    is_there: bool,
    version: u32,
    weight: u32,
    /// When it last beat, or when it went.
    beat: Millis,
}

/// All that a node knows; beat times as ages.
#[derive(Clone, Debug)]
pub struct Push(Vec<(usize, Record)>, Vec<u64>);

pub struct Toy {
    own: NodeId,
    fleet: Arc<Fleet>,
    members: Vec<NodeId>,
    records: BTreeMap<usize, Record>,
    next: Millis,
    calls: u64,
    serves: bool,
    started: Millis,
    unanswered: usize,
    heard: BTreeMap<NodeId, Millis>,
    asked: BTreeMap<u64, NodeId>,
    view: u64,
    changed: Vec<usize>,
    has_left: bool,
}

impl Toy {
    fn whole(&self, at: Reading) -> Push {
        let records = if has(Flaw::SendsNothing) { &BTreeMap::new() } else { &self.records };
        let records: Vec<_> = records.iter().map(|(instance, record)| (*instance, *record)).collect();
        let ages = records.iter().map(|(_, record)| at.now.since(record.beat)).collect();
        Push(records, ages)
    }

    fn send(&mut self, at: Reading, out: &mut OutboxOf<Self>) {
        let mut to: Vec<_> = self.members.iter().copied().filter(|member| *member != self.own).collect();
        if has(Flaw::CallsStrangers) && !self.members.contains(&6) {
            to.push(6);
        }
        for to in to {
            self.calls += 1;
            self.asked.insert(self.calls, to);
            out.calls.push(Outgoing { id: self.calls, to, call: self.whole(at), limit_ms: 1_000 });
        }
    }

    fn merge(&mut self, at: Reading, push: Push) {
        for ((instance, theirs), age) in push.0.into_iter().zip(push.1) {
            let theirs = Record { beat: at.now.minus(age), ..theirs };
            let delete_ms = self.fleet.specs[instance].delete_ms;
            let ours = self.records.get(&instance).copied();
            let is_newer = ours.is_none_or(|ours| theirs.stamp > ours.stamp || has(Flaw::TakesOlder));
            if is_newer && (!theirs.is_there || age <= delete_ms || ours.is_some_and(|ours| ours.is_there)) {
                self.records.insert(instance, theirs);
                self.changed.push(self.fleet.specs[instance].service);
            } else if let Some(ours) = self.records.get_mut(&instance)
                && ours.is_there
                && theirs.is_there
            {
                ours.beat = ours.beat.max(theirs.beat);
            }
        }
    }

    fn write(&mut self, at: Reading, request: ClientRequest) {
        let before = self.records.get(&request.instance).map_or(0, |record| record.stamp.0);
        let stamp = ((before + 1).max(at.wall_ms), self.own);
        let is_there = request.wish != Wish::Deregister;
        let (version, weight) = (request.version, request.weight);
        let record = Record { stamp, is_there, version, weight, beat: at.now };
        self.records.insert(request.instance, record);
        if !is_there && has(Flaw::ForgetsWhoLeft) {
            self.records.remove(&request.instance);
        }
        self.changed.push(self.fleet.specs[request.instance].service);
    }

    fn expire(&mut self, at: Reading) {
        for (instance, record) in &mut self.records {
            let spec = &self.fleet.specs[*instance];
            let limit = if has(Flaw::ExpiresSoon) { spec.delete_ms / 5 } else { spec.delete_ms };
            if record.is_there && at.now.since(record.beat) > limit && !has(Flaw::ExpiresNever) {
                record.is_there = false;
                record.stamp.0 += 1;
                self.changed.push(spec.service);
            }
        }
    }
}

impl SimNode for Toy {
    type Call = Push;
    type Answer = Push;

    fn start(setup: Setup, at: Reading) -> Self {
        let unanswered = setup.members.len() - 1;
        Self {
            own: setup.node,
            fleet: setup.fleet,
            members: setup.members,
            records: BTreeMap::new(),
            next: at.now,
            calls: 0,
            serves: has(Flaw::StartsEmpty),
            started: at.now,
            unanswered,
            heard: BTreeMap::new(),
            asked: BTreeMap::new(),
            view: 0,
            changed: Vec::new(),
            has_left: false,
        }
    }

    fn asked(&mut self, at: Reading, ticket: Ticket, request: ClientRequest, out: &mut OutboxOf<Self>) {
        let known = self.records.get(&request.instance).is_some_and(|record| record.is_there);
        let answer = if !self.serves || has(Flaw::RefusesAll) {
            ClientAnswer::Refused
        } else if request.wish == Wish::Beat && known {
            self.records.get_mut(&request.instance).unwrap().beat = at.now;
            ClientAnswer::Done(self.own)
        } else if request.wish == Wish::Beat {
            ClientAnswer::Unknown
        } else {
            self.write(at, request);
            self.send(at, out);
            ClientAnswer::Done(self.own)
        };
        out.told.push((ticket, answer));
    }

    fn called(&mut self, at: Reading, _: NodeId, ticket: Ticket, call: Self::Call, out: &mut OutboxOf<Self>) {
        self.merge(at, call);
        out.answers.push((ticket, self.whole(at)));
    }

    fn answered(
        &mut self,
        at: Reading,
        id: u64,
        outcome: Result<Self::Answer, CallFault>,
        _: &mut OutboxOf<Self>,
    ) {
        let peer = self.asked.remove(&id);
        if let Ok(push) = outcome {
            self.merge(at, push);
            self.view += u64::from(peer.and_then(|peer| self.heard.insert(peer, at.now)).is_none());
        }
        self.unanswered = self.unanswered.saturating_sub(1);
        self.serves |= self.unanswered == 0 && !has(Flaw::NeverServes);
    }

    fn wake(&mut self, at: Reading, out: &mut OutboxOf<Self>) {
        self.expire(at);
        self.send(at, out);
        self.serves |= at.now.since(self.started) > 5_000 && !has(Flaw::NeverServes);
        self.next = at.now.plus(1_000);
        if !has(Flaw::KeepsTheDark) {
            let count = self.heard.len();
            self.heard.retain(|_, heard| at.now.since(*heard) < 8_000);
            self.view += u64::from(count != self.heard.len());
        }
    }

    fn next_wake(&self) -> Option<Millis> {
        Some(self.next)
    }

    fn listed(&mut self, _: Reading, members: &[NodeId], _: &mut OutboxOf<Self>) {
        self.members = members.to_vec();
        self.heard.retain(|peer, _| members.contains(peer));
        self.view += 1;
    }

    fn leave(&mut self, at: Reading, out: &mut OutboxOf<Self>) {
        self.send(at, out);
        self.has_left = true;
    }

    fn has_left(&self) -> bool {
        self.has_left
    }

    fn serves(&self) -> bool {
        self.serves
    }

    fn view_number(&self) -> u64 {
        self.view
    }

    fn ring(&self) -> Vec<NodeId> {
        self.heard.keys().copied().chain([self.own]).collect()
    }

    fn owner(&self, _: usize) -> Option<NodeId> {
        Some(self.own)
    }

    fn take_changed(&mut self, changed: &mut Vec<usize>) {
        changed.append(&mut self.changed);
        changed.sort_unstable();
        changed.dedup();
    }

    fn list(&self, service: usize, list: &mut Vec<Seen>) {
        let here = self
            .records
            .iter()
            .filter(|(instance, record)| record.is_there && self.fleet.specs[**instance].service == service);
        list.extend(here.map(|(instance, record)| Seen {
            instance: *instance,
            version: record.version,
            weight: record.weight,
            healthy: true,
        }));
    }

    fn sizes(&self, _: Reading) -> Sizes {
        Sizes { tasks: if has(Flaw::Hoards) { 1 << 20 } else { 0 }, ..Sizes::default() }
    }

    fn carried(_: &Self::Call) -> Option<ClientRequest> {
        None
    }

    fn concerns(_: &Self::Call, _: &Fleet) -> Vec<usize> {
        Vec::new()
    }
}
