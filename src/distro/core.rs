//! The protocol by which members keep their data alike: what is to be said to whom, and when.
//!
//! Pure: it is told of changes, answers and the time, and gives out what is to be done; whoever drives it makes the calls
//! and touches the data. One instance a node. Source: Nacos 1.4.8 naming module, distro protocol, for members of 1.x;
//! ours among Nacre members.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    calls::{Action, Answer, Call, UnderWay},
    comparison::{ComparedData, Comparison, Subject},
    data::Data,
    line::{Line, Rhythm},
    load::{LEAST_COMPARING_MS, Load, Loaded},
    outbox::{Pace, Sent},
    questions::{Questions, SettledQuestion},
};
use crate::{
    base::{
        clock::Millis,
        hash::{fnv, mix},
        mutant::{self, Mutant},
    },
    cluster::{Address, MemberState, Peer, Standing, View},
};

/// A node that wasn't driven for longer than this stood still, in milliseconds: its peers have gone on without it. As long
/// as they wait for an answer, so that nobody waits for a request that was left lying.
pub const STILL_MS: u64 = 2_000;
/// How often the protocol wants to be driven at least, to notice that, in milliseconds.
const HEARTBEAT_MS: u64 = 500;
/// A peer whose answer to that was no good is asked again after this, and about others while its answer is still to come, in
/// milliseconds: one over a slow link must have the time to answer before nobody waits for it any more.
const ASK_AGAIN_MS: u64 = 500;
/// For so long a node that is no member any more goes on to bring the others what it wrote until then, in milliseconds; they
/// take it for longer.
pub const PARTING_MS: u64 = 5_000;
/// Keys in one pull from a member of 1.x.
const PULL_BATCH: usize = 1_000;

/// The protocol of one node.
#[derive(Debug)]
pub struct Core<D: Data> {
    rhythm: Rhythm,
    view: Arc<View>,
    lines: BTreeMap<Address, Line<D::Key>>,
    load: Option<Load>,
    questions: Questions<D::Key>,
    next_round: Millis,
    /// Until when the others are brought what this node wrote while it was a member; nothing while it is one.
    parts_until: Option<Millis>,
    driven: Option<Millis>,
    /// The clock stood still since the protocol was driven.
    clock_stood: bool,
    /// When it was noticed last that the node stood still.
    stood_still_until: Option<Millis>,
    calls: BTreeMap<u64, (Address, UnderWay<D::Key>)>,
    last_id: u64,
}

impl<D: Data> Core<D> {
    /// The protocol of a node that sees this.
    #[must_use]
    pub fn new(rhythm: Rhythm, view: Arc<View>, now: Millis) -> Self {
        let mut core = Self {
            rhythm,
            view: Arc::new(View::alone(view.own.clone())),
            lines: BTreeMap::new(),
            load: None,
            questions: Questions::default(),
            next_round: now.plus(rhythm.verify_ms),
            parts_until: None,
            driven: None,
            clock_stood: false,
            stood_still_until: None,
            calls: BTreeMap::new(),
            last_id: 0,
        };
        core.see(view, now);
        core
    }

    /// The cluster as it looked when the protocol was told last.
    #[must_use]
    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// The cluster looks like this now.
    pub fn see(&mut self, view: Arc<View>, now: Millis) {
        let before = std::mem::replace(&mut self.view, view);
        let view = Arc::clone(&self.view);
        self.lines.retain(|address, _| view.peer(address).is_some() || mutant::is(Mutant::EndlessRetry));
        self.part(before.standing, now);
        // With one that is listed anew all begins anew: what was sent to it before is answered, but not what will be.
        self.calls.retain(|_, (to, _)| self.lines.contains_key(to));
        self.send_round(&before, now);
        for peer in &view.peers {
            let line = self.lines.entry(peer.address.clone()).or_insert_with(Line::new);
            let was_at_work = before.peer(&peer.address).is_some_and(Peer::is_nacre_at_work);
            if peer.is_nacre_at_work() && !was_at_work {
                // It may have started anew meanwhile.
                line.forget_known();
                line.outbox.hurry(now);
            }
            let was_up = before.peer(&peer.address).is_some_and(|peer| peer.state != MemberState::Down);
            if peer.nacre.is_none() && peer.state != MemberState::Down && !was_up {
                // It may own again what was written in its place.
                line.outbox.hurry(now);
            }
        }
        let has_stood_still = self.has_stood_still(now);
        match view.standing {
            Standing::Starting | Standing::Comparing => match &mut self.load {
                Some(load) => load.relist(&view.peers, now),
                None if view.standing == Standing::Comparing || has_stood_still => {
                    self.load = Some(Load::after_standstill(&view.peers, now));
                }
                None => self.load = Some(Load::new(&view.peers, now)),
            },
            Standing::Removed | Standing::Alone => {
                self.load = None;
                self.questions.clear();
                if self.parts_until.is_none() {
                    self.lines.clear();
                }
            }
            Standing::Serving | Standing::Leaving => self.load = None,
        }
        self.questions.see(&view);
    }

    /// Begins or ends the time in which a node that is no member any more brings the others what it wrote.
    fn part(&mut self, before: Standing, now: Millis) {
        match (before, self.view.standing) {
            (Standing::Serving | Standing::Leaving, Standing::Removed) => {
                self.parts_until = Some(now.plus(PARTING_MS));
            }
            (Standing::Removed, Standing::Removed) => {}
            (Standing::Removed, _) => {
                self.parts_until = None;
                self.lines.clear();
            }
            _ => self.parts_until = None,
        }
    }

    /// What waits for a Nacre member that can't be reached any more goes to the others, which may reach it.
    fn send_round(&mut self, before: &View, now: Millis) {
        let (rhythm, view) = (self.rhythm, Arc::clone(&self.view));
        let was_reached = |peer: &Peer| peer.is_nacre_at_work() && !peer.outvoted;
        for unreached in view.unreached().filter(|address| before.peer(address).is_some_and(was_reached)) {
            let Some(line) = self.lines.get(unreached) else { continue };
            let keys: Vec<D::Key> = line.outbox.keys().cloned().collect();
            // Those of 1.x hand nothing on.
            let is_asked = |address: &Address| {
                address != unreached && view.peer(address).is_some_and(|peer| peer.nacre.is_some())
            };
            for (address, line) in self.lines.iter_mut().filter(|(address, _)| is_asked(address)) {
                let pace = rhythm.pace(view.peer(address));
                keys.iter().for_each(|key| line.put(key, false, now, pace));
            }
        }
    }

    /// This node has written to a key; every peer is to know.
    pub fn changed(&mut self, key: &D::Key, now: Millis) {
        let forgets = mutant::is(Mutant::ForgetsTheAbsent);
        for (address, line) in &mut self.lines {
            let peer = self.view.peer(address);
            if !forgets || peer.is_some_and(Peer::is_nacre_at_work) {
                line.put(key, false, now, self.rhythm.pace(peer));
            }
        }
    }

    /// A peer lacks something of these keys: they are sent to it whole.
    pub fn lacks(&mut self, peer: &Address, keys: impl IntoIterator<Item = D::Key>, now: Millis) {
        let pace = self.rhythm.pace(self.view.peer(peer));
        self.put_whole(peer, keys, now, pace);
    }

    /// The same at once, however short a time ago they were sent to it: it may own them now, and would take what comes after
    /// the first writes of others for newer than those.
    pub fn hand_over(&mut self, peer: &Address, keys: impl IntoIterator<Item = D::Key>, now: Millis) {
        let pace = self.rhythm.pace(self.view.peer(peer));
        self.put_whole(peer, keys, now, Pace { merge_ms: 0, ..pace });
    }

    fn put_whole(&mut self, peer: &Address, keys: impl IntoIterator<Item = D::Key>, now: Millis, pace: Pace) {
        if let Some(line) = self.lines.get_mut(peer) {
            for key in keys {
                line.put(&key, true, now, pace);
            }
        }
    }

    /// Something of this key was taken from a peer under this stamp, which isn't the highest here.
    ///
    /// Two nodes that take each other's services for their own write at once; whoever gets the later record first
    /// would think that those who have confirmed that have the earlier one, too, and not hand it on to one that its writer
    /// can't reach.
    pub fn came_belated(&mut self, key: &D::Key, stamp: u64) {
        self.lines.values_mut().for_each(|line| line.outbox.came_belated(key, stamp));
    }

    /// A peer has sent these keys, whose data have these fingerprints here, and can't reach another: this node hands them on, if it
    /// reaches it. Nothing twice: members that hand on to each other in a ring come to an end.
    pub fn hand_on(&mut self, to: &Address, keys: impl IntoIterator<Item = (D::Key, u64)>, now: Millis) {
        let pace = self.rhythm.pace(self.view.peer(to));
        let Some(line) = self.lines.get_mut(to) else { return };
        if self.view.peer(to).is_some_and(Peer::is_nacre_at_work) && !mutant::is(Mutant::HandsOnNothing) {
            for (key, fingerprint) in keys {
                line.outbox.hand_on(&key, fingerprint, now, pace);
            }
        }
    }

    /// A member of 1.x has other data than this node under these keys, which are its own: it is asked for them. Not for
    /// those that wait for it, since it can't have what was written here: its list would take that away. Its next
    /// checksums tell whether they still differ.
    pub fn pull(&mut self, peer: &Address, keys: impl IntoIterator<Item = D::Key>, now: Millis) {
        if let Some(Line { pulls, outbox, .. }) = self.lines.get_mut(peer) {
            pulls.extend(keys.into_iter().filter(|key| !outbox.brings(key, now)));
        }
    }

    /// Whether something of a key is being brought to a peer. What couldn't be brought to it for a minute doesn't count: it may go
    /// on so for long.
    #[must_use]
    pub fn awaits(&self, peer: &Address, key: &D::Key, now: Millis) -> bool {
        self.lines.get(peer).is_some_and(|line| line.outbox.brings(key, now))
    }

    /// What waits for a peer of a key is sent before all else, as soon as nothing is under way to it. Tells whether that is
    /// earlier than it would have been.
    pub fn hurry(&mut self, peer: &Address, key: &D::Key) -> bool {
        self.lines.get_mut(peer).is_some_and(|line| line.outbox.bring_forward(key))
    }

    /// Whether a member of 1.x is being asked for a key, and all that was to be brought to it was there before it was asked.
    #[must_use]
    pub fn pulls_latest(&self, peer: &Address, key: &D::Key, now: Millis) -> bool {
        let is_pulled = |line: &Line<D::Key>| line.pulling.as_ref().is_some_and(|keys| keys.contains(key));
        let is_latest = |line: &Line<D::Key>| is_pulled(line) && !line.outbox.brings(key, now);
        self.lines.get(peer).is_some_and(is_latest)
    }

    /// The peers that have any data and whose data are here, while the node loads.
    #[must_use]
    pub fn loaded_from(&self) -> Vec<Address> {
        self.load.iter().flat_map(Load::filled).cloned().collect()
    }

    /// While the node loads: whether all who may own anything have told the ring as they see it; see [`Load::has_all_rings`].
    #[must_use]
    pub fn has_all_rings(&self, has_told: impl Fn(&Address) -> bool) -> bool {
        let is_down =
            |address: &Address| self.view.peer(address).is_none_or(|peer| peer.state == MemberState::Down);
        self.load.as_ref().is_some_and(|load| load.has_all_rings(has_told, is_down))
    }

    /// Parts of a key are silent: asks those that may know better; [`Action::Settled`] tells when they have answered.
    pub fn ask(&mut self, key: &D::Key, now: Millis) {
        self.questions.ask(key, &self.view, now);
    }

    /// Whether a listed Nacre member may lack the newest of this key.
    #[must_use]
    pub fn is_lacking(&self, key: &D::Key) -> bool {
        let mut nacre = self.view.peers.iter().filter(|peer| peer.nacre.is_some());
        nacre.any(|peer| self.lines.get(&peer.address).is_some_and(|line| line.outbox.lacks(key)))
    }

    /// Forgets what peers have of keys that don't exist any more.
    pub fn forget_all_but(&mut self, exists: &dyn Fn(&D::Key) -> bool) {
        self.lines.values_mut().for_each(|line| line.outbox.forget_all_but(exists));
    }

    /// How many keys wait for a peer or are under way to it, for each peer.
    pub fn waiting(&self) -> impl Iterator<Item = (&Address, usize)> {
        self.lines.iter().map(|(address, line)| (address, line.outbox.len()))
    }

    /// Whether every peer that can be reached has all that this node wrote.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        let is_reached = |peer: &&Peer| is_sent_to(peer) && peer.state != MemberState::Down;
        let mut reached = self.view.peers.iter().filter(is_reached);
        reached.all(|peer| self.lines.get(&peer.address).is_none_or(|line| line.outbox.is_empty()))
    }

    /// The node stood still, and its clock doesn't show it, as that of a machine that was paused.
    pub fn clock_stood(&mut self) {
        self.clock_stood = true;
    }

    /// What is to be done at `now`.
    pub fn poll(&mut self, now: Millis) -> Vec<Action<D>> {
        let mut actions = Vec::new();
        let before = self.driven.replace(now);
        let still_ms = before.map_or(0, |before| now.since(before));
        let stood_still = std::mem::take(&mut self.clock_stood) || still_ms > STILL_MS;
        if stood_still && !self.view.peers.is_empty() && !mutant::is(Mutant::StandstillUnnoticed) {
            self.stood_still_until = Some(now);
            match self.view.standing {
                Standing::Serving => {
                    // What the others did meanwhile comes first.
                    self.next_round = now.plus(self.rhythm.verify_ms);
                    self.questions.clear();
                    actions.push(Action::StoodStill { ms: still_ms });
                    return actions;
                }
                Standing::Starting | Standing::Comparing => {
                    self.load_anew(now);
                    actions.push(Action::LoadsAnew);
                }
                Standing::Alone | Standing::Removed | Standing::Leaving => {}
            }
        }
        match self.view.standing {
            Standing::Alone | Standing::Removed => match self.parts_until {
                Some(until) if now < until => self.push(now, &mut actions),
                _ => {
                    self.parts_until = None;
                    self.lines.clear();
                }
            },
            Standing::Starting | Standing::Comparing => self.go_on_loading(now, &mut actions),
            Standing::Serving | Standing::Leaving => {
                self.push(now, &mut actions);
                self.settle(now, &mut actions);
                self.ask_peers(now, &mut actions);
                self.pull_from_legacy(now, &mut actions);
                if now >= self.next_round {
                    self.next_round = now.plus(self.rhythm.verify_ms);
                    actions.extend(self.round().map(Action::Compare));
                }
            }
        }
        actions
    }

    /// When [`Core::poll`] has something to do after `now`, if nothing happens before.
    #[must_use]
    pub fn next(&self, now: Millis) -> Option<Millis> {
        let heartbeat = now.plus(HEARTBEAT_MS);
        let next = match self.view.standing {
            Standing::Alone => return None,
            // Driven all the same, so that it knows whether it stood still when it is a member again.
            Standing::Removed => {
                self.parts_until.map(|until| self.next_send().map_or(until, |next| next.min(until)))
            }
            Standing::Starting | Standing::Comparing => self.load.as_ref().and_then(|load| load.next(now)),
            Standing::Serving | Standing::Leaving => {
                let again = self.lines.values().map(|line| line.ask_not_before);
                let again = again.filter(|at| *at > now && !self.questions.is_empty());
                let next = [self.next_send(), self.questions.next(), Some(self.next_round)];
                next.into_iter().flatten().chain(again).min()
            }
        };
        Some(next.map_or(heartbeat, |next| next.min(heartbeat)))
    }

    fn next_send(&self) -> Option<Millis> {
        let peers = self.view.peers.iter().filter(|peer| is_sent_to(peer));
        peers.filter_map(|peer| self.lines.get(&peer.address)?.outbox.next()).min()
    }

    /// A call has ended.
    pub fn answered(&mut self, id: u64, answer: Answer<D::Key>, now: Millis) -> Vec<Action<D>> {
        let mut actions = Vec::new();
        let Some((peer, call)) = self.calls.remove(&id) else { return actions };
        let pace = self.rhythm.pace(self.view.peer(&peer));
        let dice = mix(fnv(self.view.own.as_str().bytes()) ^ id);
        if let UnderWay::Load { asked } = call {
            let outcome = if let Answer::Load(outcome) = answer { outcome } else { Loaded::Failed };
            if let Some(load) = &mut self.load {
                load.answered(&peer, asked, outcome, now);
            }
            return actions;
        }
        let Some(line) = self.lines.get_mut(&peer) else { return actions };
        match (call, answer) {
            (UnderWay::Push, Answer::Push(outcome)) => line.outbox.sent(outcome, now, pace, dice),
            (UnderWay::Push, _) => line.outbox.sent(Sent::Failed, now, pace, dice),
            (UnderWay::Verify, Answer::Verified { boot, missed, buckets }) => {
                line.verifying = false;
                if line.boot.replace(boot) == Some(boot) {
                    line.told.answered(missed);
                } else {
                    line.forget_known();
                }
                if let Some(theirs) = buckets {
                    let (view, subject) = (Arc::clone(&self.view), Subject::Differing { peer, theirs });
                    actions.push(Action::Compare(Comparison { view, subject }));
                }
            }
            (UnderWay::Verify, _) => {
                line.verifying = false;
                // Whether it heard is unknown: it is to find out.
                line.told.is_doubted = true;
            }
            (UnderWay::Keys, Answer::Wanted(keys)) => {
                for key in keys {
                    line.put(&key, true, now, pace);
                }
            }
            (UnderWay::Ask(keys), Answer::Heard { is_new }) => {
                line.ask_not_before = now;
                self.questions.answered(&peer, &keys, is_new);
            }
            (UnderWay::Ask(_), _) => line.ask_not_before = now.plus(ASK_AGAIN_MS),
            (UnderWay::Checksums, _) => line.verifying = false,
            // What a pull didn't bring, the peer's next checksums ask for again.
            (UnderWay::Pull, _) => line.pulling = None,
            (UnderWay::Keys | UnderWay::Load { .. }, _) => {}
        }
        actions
    }

    fn call(&mut self, to: &Address, call: Call<D>) -> Action<D> {
        self.last_id += 1;
        // What is said while it isn't driven has no use for the time.
        let under_way = UnderWay::of(&call, self.driven.unwrap_or(Millis(0)));
        self.calls.insert(self.last_id, (to.clone(), under_way));
        Action::Call { id: self.last_id, to: to.clone(), call }
    }

    /// Whether what lay in the node's sockets while it stood still may not have been read yet.
    fn has_stood_still(&self, now: Millis) -> bool {
        let is_behind = self.driven.is_some_and(|driven| now.since(driven) > STILL_MS);
        let is_fresh = self.stood_still_until.is_some_and(|until| now.since(until) < LEAST_COMPARING_MS);
        (is_behind || is_fresh) && !mutant::is(Mutant::StandstillUnnoticed)
    }

    /// The node stood still while it loaded: what it got before is old, and so is what lies in its sockets.
    fn load_anew(&mut self, now: Millis) {
        self.calls.retain(|_, (_, call)| !matches!(call, UnderWay::Load { .. }));
        self.load = Some(Load::after_standstill(&self.view.peers, now));
    }

    fn go_on_loading(&mut self, now: Millis, actions: &mut Vec<Action<D>>) {
        let Some(load) = &mut self.load else { return };
        let asked = load.take(now);
        if load.is_complete(now) {
            let loaded_from = load.merged().cloned().collect();
            self.load = None;
            actions.push(Action::Ready { loaded_from });
            return;
        }
        let calls = asked.into_iter().map(|address| self.call(&address, Call::Load));
        actions.extend(calls);
    }

    fn push(&mut self, now: Millis, actions: &mut Vec<Action<D>>) {
        let (rhythm, view) = (self.rhythm, &self.view);
        let may_be_sent = |to: &Address| view.peer(to).map_or(mutant::is(Mutant::EndlessRetry), is_sent_to);
        let lines = self.lines.iter_mut().filter(|(to, _)| may_be_sent(to));
        let pushes = lines
            .filter_map(|(to, line)| Some((to.clone(), line.outbox.take(now, rhythm.pace(view.peer(to)))?)));
        for (to, items) in pushes.collect::<Vec<_>>() {
            let call = self.call(&to, Call::Push(items));
            actions.push(call);
        }
    }

    /// Gives out the keys whose silence may be judged.
    fn settle(&mut self, now: Millis, actions: &mut Vec<Action<D>>) {
        let settled = self.questions.settled(now).into_iter();
        actions.extend(settled.map(|SettledQuestion { key, asked, by_all }| Action::Settled {
            key,
            asked,
            by_all,
        }));
    }

    fn ask_peers(&mut self, now: Millis, actions: &mut Vec<Action<D>>) {
        if self.questions.is_empty() {
            return;
        }
        let view = Arc::clone(&self.view);
        for peer in view.peers.iter().filter(|peer| peer.is_nacre_at_work()) {
            let Some(line) = self.lines.get_mut(&peer.address).filter(|line| now >= line.ask_not_before)
            else {
                continue;
            };
            let asked = self.calls.values().filter_map(|(to, call)| match call {
                UnderWay::Ask(keys) if *to == peer.address => Some(keys),
                _ => None,
            });
            let asked: BTreeSet<&D::Key> = asked.flatten().collect();
            let keys = self.questions.open_for(&peer.address, &asked);
            if !keys.is_empty() {
                line.ask_not_before = now.plus(ASK_AGAIN_MS);
                let call = self.call(&peer.address, Call::Ask(keys));
                actions.push(call);
            }
        }
    }

    fn pull_from_legacy(&mut self, now: Millis, actions: &mut Vec<Action<D>>) {
        let view = Arc::clone(&self.view);
        for peer in &view.peers {
            let Some(line) = self.lines.get_mut(&peer.address) else { continue };
            if line.pulls.is_empty() || line.pulling.is_some() {
                continue;
            }
            let rest = line.pulls.iter().nth(PULL_BATCH).cloned();
            let rest = rest.map(|first| line.pulls.split_off(&first)).unwrap_or_default();
            let keys = std::mem::replace(&mut line.pulls, rest);
            // What was written since, too; and a member that has become Nacre compares otherwise.
            let is_asked = |key: &D::Key| peer.nacre.is_none() && !line.outbox.brings(key, now);
            let keys: BTreeSet<D::Key> = keys.into_iter().filter(is_asked).collect();
            if !keys.is_empty() {
                line.pulling = Some(keys.clone());
                let call = self.call(&peer.address, Call::Pull(keys.into_iter().collect()));
                actions.push(call);
            }
        }
    }

    /// What is to be found out to compare what the node owns with all peers.
    fn round(&mut self) -> Option<Comparison> {
        let view = Arc::clone(&self.view);
        view.own_index?;
        let (mut nacre, mut legacy) = (Vec::new(), Vec::new());
        for peer in &view.peers {
            let line = self.lines.get_mut(&peer.address).filter(|line| !line.verifying);
            match (line, peer.nacre) {
                (Some(line), Some(_)) if peer.is_nacre_at_work() => {
                    nacre.push((peer.address.clone(), std::mem::take(&mut line.told)));
                }
                (Some(_), None) => legacy.push(peer.address.clone()),
                _ => {}
            }
        }
        let is_anybody = !nacre.is_empty() || !legacy.is_empty();
        is_anybody.then_some(Comparison { view, subject: Subject::Round { nacre, legacy } })
    }

    /// What was to be found out has been; before anything else happens here.
    pub fn compared(&mut self, compared: ComparedData<D>) -> Vec<Action<D>> {
        for (peer, told) in compared.told {
            if let Some(line) = self.lines.get_mut(&peer) {
                line.told = told;
            }
        }
        let mut actions = Vec::new();
        for (peer, call) in compared.calls {
            let Some(line) = self.lines.get_mut(&peer) else { continue };
            line.verifying |= matches!(call, Call::Verify { .. } | Call::Checksums(_));
            let call = self.call(&peer, call);
            actions.push(call);
        }
        actions
    }
}

/// Whether changes are sent to a peer now: Nacre members that are away get them when they are back, members of 1.x are
/// tried whatever their state, as they do themselves.
fn is_sent_to(peer: &Peer) -> bool {
    peer.nacre.is_none() || peer.is_nacre_at_work()
}

#[cfg(test)]
#[path = "core_tests.rs"]
mod tests;
