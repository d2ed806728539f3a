//! One Nacre node: the real registry, roster, protocol and breakers, wired as the server wires them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use nacre::{
    base::clock::{Millis, Reading},
    cluster::{Address, Peer, Probe, Roster, RosterSettings, Standing, View},
    config::{Mapping, MemberMeta, Settings},
    distro::{
        Claim, Claims, Settled,
        calls::{self, Action},
        core::{Core, STILL_MS},
        documents::Silences,
        handle::LONGEST_WAY_MS,
        lists::Lists,
        load::Loaded,
        mapper::{self, Owner},
        outbox, silence, takeover, trust,
    },
    membership,
    model::{Limits, Registry, ServiceKey, change::Changes, merge::Judge},
};
use nacre_middleware::{
    breaker::Breaker,
    lateness::{Lateness, Sent},
    refusal,
};

use super::{
    forwarding::{self, Forwards},
    keeper::Keeper,
    messages::{Answer, Call, Datum, loaded},
    seam::{
        CallFault, ClientAnswer, ClientRequest, Fleet, NodeId, OutboxOf, Outgoing, Seen, Setup, SimNode,
        Sizes, Ticket, Wish,
    },
};

/// Milliseconds that a call of the protocol may take.
const PEER_LIMIT_MS: u64 = 3_000;
/// Milliseconds that a question may take that is handed on.
const HAND_ON_LIMIT_MS: u64 = 1_500;
/// Milliseconds that a load may take.
const LOAD_LIMIT_MS: u64 = 30_000;
/// Milliseconds that a report may take.
const REPORT_LIMIT_MS: u64 = 2_500;
/// Namespace of all services.
const NAMESPACE: &str = "public";

/// What a call of this node is for.
pub enum Pending {
    Report(NodeId),
    Probe(NodeId),
    Forward(forwarding::Passed),
    /// Of the protocol, with its number there; and the highest stamps, where it is a push.
    Core {
        id: u64,
        to: NodeId,
        stamps: Vec<Option<u64>>,
        asked: Millis,
    },
    /// A beat that waits for the datum of the node that passed it on.
    Fetch {
        ticket: Ticket,
        request: ClientRequest,
        asked: Millis,
        /// Who passed it on waits until then.
        until: Millis,
    },
    /// A question of another node, handed on.
    Question {
        number: u64,
        asked: Millis,
    },
}

/// A question of another node that is handed on.
struct Question {
    ticket: Ticket,
    silent: Silences,
    waits_for: usize,
}

/// A node.
pub struct NacreNode {
    pub own: NodeId,
    pub fleet: Arc<Fleet>,
    pub registry: Arc<Registry>,
    pub changes: Arc<Changes>,
    pub lists: Lists,
    pub roster: Roster,
    pub view: Arc<View>,
    pub core: Core<Lists>,
    pub keeper: Keeper,
    pub breakers: BTreeMap<NodeId, Breaker>,
    pub lateness: Lateness,
    pub forwards: Forwards,
    pub pending: BTreeMap<u64, Pending>,
    pub process: u64,
    pub epoch: Instant,
    next_call: u64,
    view_number: u64,
    core_due: Option<Millis>,
    probe_due: Option<Millis>,
    report_due: Option<Millis>,
    changed: BTreeSet<usize>,
    is_leaving: bool,
    driven: Millis,
    tenure: takeover::Tenure,
    understood: silence::Understood,
    claims: Claims,
    questions: BTreeMap<u64, Question>,
    last_question: u64,
    boot: u64,
}

/// The address of a node.
pub fn address(node: NodeId) -> Address {
    static ALL: LazyLock<Vec<Address>> =
        LazyLock::new(|| (1..=16).map(|number| Address::new(&format!("10.0.0.{number}:8848"))).collect());
    ALL[node].clone()
}

/// The node at an address.
pub fn node_at(address: &Address) -> NodeId {
    let number = address.host().rsplit('.').next().unwrap();
    number.parse::<usize>().unwrap() - 1
}

/// The key of a service.
pub fn service_key(fleet: &Fleet, service: usize) -> ServiceKey {
    ServiceKey::new(NAMESPACE, &fleet.services[service])
}

fn texts(view: &View) -> Vec<String> {
    view.ring.iter().map(ToString::to_string).collect()
}

fn addresses(nodes: &[NodeId]) -> Vec<Address> {
    nodes.iter().map(|node| address(*node)).collect()
}

impl NacreNode {
    /// Makes a call.
    pub fn call(
        &mut self,
        to: NodeId,
        call: Call,
        limit_ms: u64,
        pending: Pending,
        out: &mut OutboxOf<Self>,
    ) -> u64 {
        self.next_call += 1;
        self.pending.insert(self.next_call, pending);
        out.calls.push(Outgoing { id: self.next_call, to, call, limit_ms });
        self.next_call
    }

    /// The service of a request.
    pub fn key_of(&self, request: ClientRequest) -> ServiceKey {
        service_key(&self.fleet, self.fleet.specs[request.instance].service)
    }

    /// Looks at the cluster anew after something may have changed.
    pub fn review(&mut self, at: Reading) {
        self.report_due = self.roster.next_due();
        let view = self.roster.view();
        if view == *self.view {
            return;
        }
        let view = Arc::new(view);
        if self.view.standing == Standing::Removed && view.standing == Standing::Starting {
            self.registry.forget_ephemeral();
        }
        self.tenure.see(Arc::clone(&view), at.now);
        self.claims.see(&view);
        takeover::take_over(&self.registry, &self.view, &view, at.now);
        self.view = Arc::clone(&view);
        self.core.see(view, at.now);
        self.view_number += 1;
    }

    /// A member has answered something else than a report.
    pub fn heard_from(&mut self, node: NodeId, at: Reading) {
        self.roster.answered(&address(node), at.now);
        match self.roster.standing() {
            Standing::Starting | Standing::Comparing => self.review(at),
            // It may have to be reported to, and nothing else.
            _ => self.report_due = self.roster.next_due(),
        }
    }

    /// Carries out all that is due, after whatever happened.
    pub fn drive(&mut self, at: Reading, out: &mut OutboxOf<Self>) {
        self.driven = at.now;
        self.report(at, out);
        self.forwards_due(at, out);
        self.probe(at, out);
        while let Some(service) = self.changes.try_next_made() {
            self.keeper.made(&service);
        }
        for key in self.keeper.due(&self.view, &self.claims, at.now) {
            self.core.ask(&key, at.now);
        }
        self.take_changes(at);
        for _ in 0..8 {
            let actions = self.core.poll(at.now);
            if actions.is_empty() {
                break;
            }
            // Nothing more is due after calls alone.
            let may_be_more = actions.iter().any(|action| !matches!(action, Action::Call { .. }));
            self.act(actions, at, out);
            self.take_changes(at);
            if !may_be_more {
                break;
            }
        }
        self.core_due = self.core.next(at.now);
        self.keeper.prune(&self.core, at.now);
    }

    fn take_changes(&mut self, at: Reading) {
        while let Some(service) = self.changes.try_next_local() {
            self.changed.insert(self.fleet.service(&service.key.name));
            self.core.changed(&service.key, at.now);
        }
        while let Some(service) = self.changes.try_next_changed() {
            self.changed.insert(self.fleet.service(&service.key.name));
        }
    }

    fn act(&mut self, actions: Vec<Action<Lists>>, at: Reading, out: &mut OutboxOf<Self>) {
        for action in actions {
            match action {
                Action::Call { id, to, call } => self.say(id, node_at(&to), call, at, out),
                Action::Compare(comparison) => {
                    let compared = comparison.over(&self.lists, at.now);
                    let actions = self.core.compared(compared);
                    self.act(actions, at, out);
                }
                Action::Settled { key, asked, by_all } => {
                    if self.view.standing == Standing::Serving {
                        let settled = Settled { key, asked, by_all };
                        let (known, is_new) = ((&*self.view, &self.claims), self.tenure.is_new(at.now));
                        self.keeper.settle(known, &settled, is_new, at.now);
                    }
                }
                Action::Ready { loaded_from, .. } => {
                    for address in loaded_from {
                        self.roster.answered(&address, at.now);
                    }
                    let standing = if self.is_leaving { Standing::Leaving } else { Standing::Serving };
                    self.roster.set_standing(standing, at.now);
                    self.review(at);
                    self.report(at, out);
                }
                Action::LoadsAnew => {}
                Action::StoodStill { .. } => {
                    self.roster.set_standing(Standing::Comparing, at.now);
                    self.review(at);
                }
            }
        }
    }

    /// A call of the protocol.
    fn say(&mut self, id: u64, to: NodeId, call: calls::Call<Lists>, at: Reading, out: &mut OutboxOf<Self>) {
        let mut stamps = Vec::new();
        let (call, limit_ms) = match call {
            calls::Call::Load => (Call::Load, LOAD_LIMIT_MS),
            calls::Call::Push(items) => {
                let mut data = Vec::new();
                for item in items {
                    let Some(service) = self.registry.get(item.key.place()) else {
                        stamps.push(None);
                        continue;
                    };
                    let state = service.state();
                    stamps.push(Some(state.highest_stamp));
                    data.extend(Datum::parts(&item.key, &state, item.newer_than, at.now));
                }
                let unreached = self.view.unreached().cloned().collect();
                (Call::Push { data, unreached, sent: self.sent(at) }, PEER_LIMIT_MS)
            }
            calls::Call::Verify { view, root, mut beats } => {
                // A registry has no order, and what happens must be the same each time.
                beats.late.sort_unstable_by(|(one, _), (other, _)| one.0.cmp(&other.0));
                beats.back.sort_unstable_by(|(one, _), (other, _)| one.0.cmp(&other.0));
                let (ring, beats) = (texts(&view), Arc::new(beats));
                (Call::Verify { ring, root, beats, sent: self.sent(at) }, PEER_LIMIT_MS)
            }
            calls::Call::Keys { view, mut page } => {
                page.keys.sort_unstable();
                (Call::Keys { ring: texts(&view), page }, PEER_LIMIT_MS)
            }
            calls::Call::Ask(keys) => {
                let services: Vec<_> = keys.iter().filter_map(|key| self.registry.get(key.place())).collect();
                let silent = silence::silent_of(&services, at.now);
                (Call::Ask { silent, unreached: self.view.unreached().cloned().collect() }, PEER_LIMIT_MS)
            }
            // Of a member that hasn't shown itself yet; all are Nacre.
            calls::Call::Checksums(_) | calls::Call::Pull(_) => {
                let actions = self.core.answered(id, calls::Answer::Failed, at.now);
                return self.act(actions, at, out);
            }
        };
        self.call(to, call, limit_ms, Pending::Core { id, to, stamps, asked: at.now }, out);
    }

    fn report(&mut self, at: Reading, out: &mut OutboxOf<Self>) {
        if self.report_due.is_none_or(|due| due > at.now) {
            return;
        }
        for to in self.roster.probe_due(at.now) {
            let (call, to) = (Call::Report(Box::new(self.roster.report())), node_at(&to));
            self.call(to, call, REPORT_LIMIT_MS, Pending::Report(to), out);
        }
        self.review(at);
    }

    /// Asks peers whose breakers are open whether they answer again.
    fn probe(&mut self, at: Reading, out: &mut OutboxOf<Self>) {
        let open: Vec<_> =
            self.breakers.iter().filter(|(_, one)| one.is_open()).map(|(node, _)| *node).collect();
        if open.is_empty() {
            self.probe_due = None;
            return;
        }
        if self.probe_due.is_some_and(|due| due > at.now) {
            return;
        }
        self.probe_due = Some(at.now.plus(1_000));
        for to in open {
            if self.view.peer(&address(to)).is_some() {
                self.call(to, Call::Probe, 2_000, Pending::Probe(to), out);
            }
        }
    }

    /// Tells the others whose breakers are open.
    pub fn note_slow(&mut self, at: Reading) {
        let open = self.breakers.iter().filter(|(_, one)| one.is_open());
        let open = open.map(|(node, _)| address(*node)).filter(|address| self.view.peer(address).is_some());
        let slow = open.collect();
        self.roster.set_slow(slow);
        self.review(at);
    }

    /// The moment as the breakers count it.
    pub fn instant(&self, now: Millis) -> Instant {
        self.epoch + Duration::from_millis(now.0 - (1 << 40))
    }

    /// When something that is sent now is written.
    fn sent(&self, at: Reading) -> Sent {
        Sent { process: self.process, at_ms: at.now.0, patience_ms: PEER_LIMIT_MS }
    }

    fn written_at(&mut self, from: NodeId, sent: Sent, now: Millis) -> Option<Millis> {
        let waited_ms = self.lateness.waited_ms(address(from).as_str(), sent, now.0);
        (waited_ms <= LONGEST_WAY_MS).then(|| now.minus(waited_ms))
    }

    /// Merges what `from` sent; ages of beats, and of what is gone, count from these moments.
    fn merge(&mut self, from: Option<NodeId>, datum: &Datum, ages_from: (Millis, Millis), now: Millis) {
        let place = datum.key.place();
        let is_at_work = matches!(self.view.standing, Standing::Serving | Standing::Leaving);
        let judge = if is_at_work {
            let (owner, teller) = (mapper::owner(&self.view, place.name), from.map(address));
            let is_newcomer = teller.as_ref().is_some_and(|teller| self.tenure.is_newcomer(teller, now));
            trust::judge(owner, teller.as_ref(), is_newcomer, || self.tenure.is_long(place.name, now))
        } else {
            Judge::Teller
        };
        let entries = datum.entries(ages_from);
        let merged = self.registry.merge(place, entries, &datum.extent, judge, now);
        let merged = merged.unwrap();
        if let Some(stamp) = merged.belated {
            self.core.came_belated(&datum.key, stamp);
        }
        if merged.ours_is_newer
            && let Some(from) = from
        {
            self.core.lacks(&address(from), [datum.key.clone()], now);
        }
    }

    /// What a peer's call is answered; nothing where that takes time.
    fn reply(
        &mut self,
        at: Reading,
        from: NodeId,
        ticket: Ticket,
        call: Call,
        out: &mut OutboxOf<Self>,
    ) -> Option<Answer> {
        let now = at.now;
        if let Call::Report(report) = &call {
            match self.roster.standing() {
                Standing::Starting | Standing::Comparing => {
                    return Some(Answer::NotNow(refusal::State::Starting));
                }
                Standing::Removed => return Some(Answer::NotNow(refusal::State::Removed)),
                _ => {}
            }
            let known = self.roster.reported(report, now);
            self.review(at);
            return Some(Answer::Reported { known });
        }
        if matches!(call, Call::Probe) {
            return Some(Answer::Alive);
        }
        if self.view.standing == Standing::Removed {
            return Some(Answer::NotNow(refusal::State::Removed));
        }
        let is_known = match &call {
            Call::Push { .. } => self.view.takes_data_of(&address(from)),
            _ => self.view.peer(&address(from)).is_some(),
        };
        if !is_known {
            return Some(Answer::Forbidden);
        }
        if self.view.standing == Standing::Starting {
            return Some(Answer::NotNow(refusal::State::Starting));
        }
        // Ages that lay in a socket while it stood still are too young.
        if self.view.standing == Standing::Comparing && !matches!(call, Call::Load | Call::Fetch(_)) {
            return Some(Answer::NotNow(refusal::State::Starting));
        }
        Some(match call {
            Call::Report(_) | Call::Probe => return None,
            Call::Forward { request, hops, sent } => {
                return self.passed_on(at, from, ticket, request, (hops, sent), out);
            }
            Call::Load => {
                let mut data = BTreeMap::new();
                self.registry.for_each(|service| {
                    let state = service.state();
                    data.insert(service.key.clone(), Datum::parts(&service.key, &state, None, now));
                });
                Answer::All(data.into_values().flatten().collect())
            }
            Call::Fetch(key) => {
                let service = self.registry.get(key.place());
                Answer::Fetched(service.map(|service| Datum::of(&key, &service.state(), None, now)))
            }
            Call::Push { data, unreached, sent } => {
                let Some(written) = self.written_at(from, sent, now) else {
                    return Some(Answer::NotNow(refusal::State::Late));
                };
                for datum in &data {
                    self.merge(Some(from), datum, (written, written), now);
                }
                for to in &unreached {
                    let known = data.iter().filter_map(|datum| {
                        let service = self.registry.get(datum.key.place())?;
                        Some((datum.key.clone(), service.state().fingerprint()))
                    });
                    self.core.hand_on(to, known.collect::<Vec<_>>(), now);
                }
                Answer::Taken
            }
            Call::Verify { ring, root, beats, sent } => {
                let Some(written) = self.written_at(from, sent, now) else {
                    return Some(Answer::NotNow(refusal::State::Late));
                };
                let claim = Claim::new(&self.view, address(from).as_str(), &ring);
                self.claims.heard(&claim, now);
                let now = written;
                let is_of = |key: &ServiceKey| claim.holds(key);
                let known = silence::hear(&self.registry, &beats, &is_of, now);
                let (ours, missed) =
                    (nacre::distro::verify::Buckets::of(&self.lists, &is_of), known.missed());
                self.understood.verified(&self.registry, &claim, (&known, ours.root() == root), now);
                let buckets = (ours.root() != root).then_some(ours);
                Answer::Verified { boot: self.boot, missed, buckets }
            }
            Call::Keys { ring, page } => {
                let claim = Claim::new(&self.view, address(from).as_str(), &ring);
                let is_of = |key: &ServiceKey| claim.holds(key);
                let differing = page.compare(&self.lists, &is_of);
                self.understood.compared(&self.registry, &claim, &differing);
                self.core.lacks(&address(from), differing.unknown_there, now);
                Answer::Wanted(differing.wanted)
            }
            Call::Ask { silent, unreached } => {
                self.hand_question_on(at, ticket, &silent, &unreached, out);
                if self.questions.contains_key(&self.last_question) {
                    return None;
                }
                Answer::Heard(silence::younger(&self.registry, &silent, now), self.tenure.is_new(now))
            }
        })
    }

    /// Asks those whom the asker can't reach, and this node can.
    fn hand_question_on(
        &mut self,
        at: Reading,
        ticket: Ticket,
        silent: &Silences,
        unreached: &[Address],
        out: &mut OutboxOf<Self>,
    ) {
        self.last_question += 1;
        let view = Arc::clone(&self.view);
        let reached = unreached.iter().filter(|to| view.peer(to).is_some_and(Peer::is_nacre_at_work));
        let reached: Vec<NodeId> = reached.map(node_at).collect();
        if !reached.is_empty() {
            let question = Question { ticket, silent: silent.clone(), waits_for: reached.len() };
            self.questions.insert(self.last_question, question);
        }
        for to in reached {
            let call = Call::Ask { silent: silent.clone(), unreached: Vec::new() };
            let pending = Pending::Question { number: self.last_question, asked: at.now };
            self.call(to, call, HAND_ON_LIMIT_MS, pending, out);
        }
    }

    /// One of those has answered, or not; the asker is answered after the last of them.
    fn question_answered(
        &mut self,
        at: Reading,
        (number, asked): (u64, Millis),
        outcome: Result<Answer, CallFault>,
        out: &mut OutboxOf<Self>,
    ) {
        if let Ok(Answer::Heard(silences, _)) = outcome {
            silence::take(&self.registry, &silences, asked);
        }
        let Some(question) = self.questions.get_mut(&number) else { return };
        question.waits_for -= 1;
        if question.waits_for == 0
            && let Some(Question { ticket, silent, .. }) = self.questions.remove(&number)
        {
            let (younger, is_new) =
                (silence::younger(&self.registry, &silent, at.now), self.tenure.is_new(at.now));
            out.answers.push((ticket, Answer::Heard(younger, is_new)));
        }
    }

    fn core_answered(
        &mut self,
        at: Reading,
        (to, asked): (NodeId, Millis),
        stamps: Vec<Option<u64>>,
        outcome: Result<Answer, CallFault>,
    ) -> calls::Answer<ServiceKey> {
        if let Ok(Answer::NotNow(refusal::State::Late)) = outcome {
            // Its time wasn't over: the clock by which it was written is another one for whoever got it.
            self.process = self.process.wrapping_add(1);
        }
        match outcome {
            Ok(answer @ (Answer::All(_) | Answer::NotNow(_) | Answer::Forbidden)) => {
                if let Answer::All(data) = &answer {
                    self.roster.shown_nacre(&address(to), 1);
                    self.review(at);
                    for datum in data {
                        self.merge(Some(to), datum, (asked, at.now), at.now);
                    }
                }
                if let Answer::NotNow(refusal::State::Starting) = answer {
                    self.roster.heard_starting(&address(to), at.now);
                    self.review(at);
                }
                calls::Answer::Load(loaded(&answer))
            }
            Ok(Answer::Taken) => calls::Answer::Push(outbox::Sent::Taken(stamps)),
            Ok(Answer::Verified { boot, missed, buckets }) => {
                calls::Answer::Verified { boot, missed, buckets }
            }
            Ok(Answer::Wanted(keys)) => calls::Answer::Wanted(keys),
            Ok(Answer::Heard(silences, is_new)) => {
                silence::take(&self.registry, &silences, asked);
                calls::Answer::Heard { is_new }
            }
            Ok(_) | Err(CallFault::TimedOut) => calls::Answer::Failed,
            Err(CallFault::Refused | CallFault::Closed) => calls::Answer::Load(Loaded::Refused),
        }
    }
}

impl SimNode for NacreNode {
    type Call = Call;
    type Answer = Answer;

    fn start(setup: Setup, at: Reading) -> Self {
        let changes = Arc::new(Changes::default());
        let registry = Registry::new(Arc::clone(&changes), Limits::default()).shared(at);
        let registry = Arc::new(registry);
        let settings = RosterSettings {
            fail_access_count: 3,
            report_interval_ms: 2_000,
            report_timeout_ms: 2_500,
            mapping: Mapping::Modulo,
            meta: MemberMeta::default(),
        };
        let mut roster = Roster::new(address(setup.node), settings);
        roster.relist(&addresses(&setup.members), at.now);
        let view = Arc::new(roster.view());
        let keeper = Keeper::new(&registry, &changes);
        Self {
            own: setup.node,
            fleet: setup.fleet,
            lists: Lists(Arc::clone(&registry)),
            core: Core::new(membership::rhythm(&Settings::default()), Arc::clone(&view), at.now),
            tenure: takeover::Tenure::new(Arc::clone(&view), at.now),
            registry,
            changes,
            roster,
            view,
            keeper,
            breakers: BTreeMap::new(),
            lateness: Lateness::default(),
            forwards: Forwards::default(),
            pending: BTreeMap::new(),
            process: setup.seed,
            epoch: Instant::now(),
            next_call: 0,
            view_number: 0,
            core_due: Some(at.now),
            probe_due: None,
            report_due: None,
            changed: BTreeSet::new(),
            is_leaving: false,
            driven: at.now,
            understood: silence::Understood::default(),
            claims: Claims::default(),
            questions: BTreeMap::new(),
            last_question: 0,
            boot: setup.seed,
        }
    }

    fn asked(&mut self, at: Reading, ticket: Ticket, request: ClientRequest, out: &mut OutboxOf<Self>) {
        self.wake_up(at, out);
        let until = at.now.plus(forwarding::LIMIT_MS);
        if let Some(answer) = self.wished(at, ticket, request, (0, until), out) {
            out.told.push((ticket, answer));
        }
        if request.wish != Wish::Beat {
            self.drive(at, out);
        }
    }

    fn called(
        &mut self,
        at: Reading,
        from: NodeId,
        ticket: Ticket,
        call: Self::Call,
        out: &mut OutboxOf<Self>,
    ) {
        self.wake_up(at, out);
        let is_beat = matches!(&call, Call::Forward { request, .. } if request.wish == Wish::Beat);
        if let Some(answer) = self.reply(at, from, ticket, call, out) {
            out.answers.push((ticket, answer));
        }
        if !is_beat {
            self.drive(at, out);
        }
    }

    fn answered(
        &mut self,
        at: Reading,
        id: u64,
        outcome: Result<Self::Answer, CallFault>,
        out: &mut OutboxOf<Self>,
    ) {
        self.wake_up(at, out);
        let Some(pending) = self.pending.remove(&id) else { return };
        let mut drives = true;
        match pending {
            Pending::Report(to) => {
                let probe = match outcome {
                    Ok(Answer::Reported { known }) => Probe::Answered { known, nacre: Some(1) },
                    Ok(Answer::NotNow(state)) => {
                        Probe::NotReady { starting: state == refusal::State::Starting }
                    }
                    Ok(_) | Err(CallFault::TimedOut) => Probe::Failed,
                    Err(CallFault::Refused | CallFault::Closed) => Probe::Refused,
                };
                self.roster.probed(&address(to), probe, at.now);
                self.review(at);
            }
            Pending::Probe(to) => {
                if outcome.is_ok() {
                    self.answers(at, to);
                }
            }
            Pending::Forward(passed) => {
                drives = outcome.is_err() || passed.request.wish != Wish::Beat;
                self.forwarded(at, id, passed, outcome, out);
            }
            Pending::Fetch { ticket, request, asked, until } => {
                if let Ok(Answer::Fetched(Some(datum))) = outcome {
                    let from = match ticket {
                        Ticket::Node { node, .. } => Some(node),
                        Ticket::Client { .. } => None,
                    };
                    self.merge(from, &datum, (asked, at.now), at.now);
                }
                let answer = match at.now > until {
                    true => Answer::NotNow(refusal::State::Late),
                    false => Answer::Told(self.apply(at, request)),
                };
                out.answers.push((ticket, answer));
            }
            Pending::Question { number, asked } => {
                self.question_answered(at, (number, asked), outcome, out);
            }
            Pending::Core { id, to, stamps, asked } => {
                if matches!(outcome, Err(CallFault::Refused | CallFault::Closed)) {
                    self.roster.refused(&address(to), at.now);
                    self.review(at);
                } else if matches!(
                    outcome,
                    Ok(Answer::Taken | Answer::Verified { .. } | Answer::Wanted(_) | Answer::Heard(..))
                ) {
                    // Of a load it counts when the node has its data.
                    self.heard_from(to, at);
                }
                let answer = self.core_answered(at, (to, asked), stamps, outcome);
                let actions = self.core.answered(id, answer, at.now);
                self.act(actions, at, out);
            }
        }
        if drives {
            self.drive(at, out);
        }
    }

    fn wake(&mut self, at: Reading, out: &mut OutboxOf<Self>) {
        self.drive(at, out);
    }

    fn next_wake(&self) -> Option<Millis> {
        let dues = [self.core_due, self.report_due, self.keeper.next(), self.forwards.next(), self.probe_due];
        dues.into_iter().flatten().min()
    }

    fn listed(&mut self, at: Reading, members: &[NodeId], out: &mut OutboxOf<Self>) {
        self.wake_up(at, out);
        self.roster.relist(&addresses(members), at.now);
        self.review(at);
        self.drive(at, out);
    }

    fn leave(&mut self, at: Reading, out: &mut OutboxOf<Self>) {
        self.is_leaving = true;
        if self.view.standing == Standing::Serving {
            self.roster.set_standing(Standing::Leaving, at.now);
            self.review(at);
        }
        self.drive(at, out);
    }

    fn has_left(&self) -> bool {
        let reports = self.pending.values().any(|pending| matches!(pending, Pending::Report(_)));
        let serves = matches!(self.view.standing, Standing::Leaving);
        !serves || (self.core.is_flushed() && !reports && self.forwards.is_empty())
    }

    fn serves(&self) -> bool {
        matches!(self.view.standing, Standing::Serving | Standing::Comparing | Standing::Leaving)
    }

    fn view_number(&self) -> u64 {
        self.view_number
    }

    fn ring(&self) -> Vec<NodeId> {
        self.view.ring.iter().map(node_at).collect()
    }

    fn owner(&self, service: usize) -> Option<NodeId> {
        match mapper::owner(&self.view, &self.fleet.services[service]) {
            Owner::Here => Some(self.own),
            Owner::Peer(address) => Some(node_at(address)),
            Owner::Nobody => None,
        }
    }

    fn take_changed(&mut self, changed: &mut Vec<usize>) {
        while let Some(service) = self.changes.try_next_changed() {
            self.changed.insert(self.fleet.service(&service.key.name));
        }
        changed.extend(std::mem::take(&mut self.changed));
    }

    fn list(&self, service: usize, list: &mut Vec<Seen>) {
        let Some(service) = self.registry.get(service_key(&self.fleet, service).place()) else { return };
        let state = service.state();
        list.extend(state.ephemeral.iter().map(|instance| Seen {
            instance: Fleet::of_port(instance.port),
            version: forwarding::version(instance.metadata.json()),
            weight: instance.weight as u32,
            healthy: instance.healthy(),
        }));
        list.sort_unstable();
    }

    fn stamps_ahead_ms(&self, at: Reading) -> i64 {
        self.registry.stamps_ahead_ms(at.now)
    }

    fn compares(&self) -> bool {
        self.view.standing == Standing::Comparing
    }

    fn sizes(&self, at: Reading) -> Sizes {
        let (mut tombstones, mut oldest) = (0, at.now);
        self.registry.for_each(|service| {
            let state = service.state();
            tombstones += state.gone.len();
            oldest = state.gone.iter().map(|gone| gone.at).chain([oldest]).min().unwrap_or(oldest);
        });
        Sizes {
            tombstones,
            oldest_tombstone_ms: at.now.since(oldest),
            tasks: self.core.waiting().map(|(_, count)| count).sum(),
            others: self.pending.len() + self.questions.len(),
        }
    }

    fn carried(call: &Self::Call) -> Option<ClientRequest> {
        match call {
            Call::Forward { request, .. } => Some(*request),
            _ => None,
        }
    }

    fn describe(call: &Self::Call, _: &Fleet) -> String {
        match call {
            Call::Report(report) => format!("report {:?}", report.nacre.as_ref().map(|mark| &mark.slow)),
            Call::Push { data, .. } => {
                let data = data.iter().map(|datum| format!(" [{} {}]", datum.key.name, datum.describe()));
                format!("push{}", data.collect::<String>())
            }
            Call::Forward { request, hops, .. } => {
                format!("{:?} of {} hop {hops}", request.wish, request.instance)
            }
            other => {
                let mut text = format!("{other:?}");
                text.truncate(1_600);
                text
            }
        }
    }

    fn is_rare(call: &Self::Call) -> bool {
        matches!(call, Call::Load)
    }

    fn concerns(call: &Self::Call, fleet: &Fleet) -> Vec<usize> {
        let of = |key: &ServiceKey| fleet.service(&key.name);
        match call {
            Call::Push { data, .. } => data.iter().map(|datum| of(&datum.key)).collect(),
            Call::Forward { request, .. } => vec![fleet.specs[request.instance].service],
            Call::Fetch(key) => vec![of(key)],
            Call::Ask { silent, .. } => silent.iter().map(|(named, _)| of(&named.0)).collect(),
            Call::Keys { page, .. } => page.keys.iter().map(|(key, _)| of(key)).collect(),
            Call::Verify { beats, .. } => {
                beats.late.iter().chain(&beats.back).map(|(named, _)| of(&named.0)).collect()
            }
            Call::Report(_) | Call::Probe | Call::Load => Vec::new(),
        }
    }
}

impl NacreNode {
    /// Notices first of all that it has stood still, whatever wakes it.
    fn wake_up(&mut self, at: Reading, out: &mut OutboxOf<Self>) {
        if at.now.since(self.driven) > STILL_MS {
            self.drive(at, out);
        }
    }

    /// A client's wish: done here, passed on, or refused; nothing where that takes time.
    pub fn wished(
        &mut self,
        at: Reading,
        ticket: Ticket,
        request: ClientRequest,
        (hops, until): (u8, Millis),
        out: &mut OutboxOf<Self>,
    ) -> Option<ClientAnswer> {
        if !matches!(self.view.standing, Standing::Serving | Standing::Leaving) {
            return Some(ClientAnswer::Refused);
        }
        let key = self.key_of(request);
        let owner = match mapper::owner(&self.view, &key.name) {
            Owner::Here => return Some(self.apply(at, request)),
            Owner::Nobody => return Some(ClientAnswer::Refused),
            Owner::Peer(owner) => node_at(owner),
        };
        self.pass_on(at, forwarding::Passed::new(ticket, request, hops, owner, (at.now, until)), out)
    }
}
