//! Passing clients' requests on: the table of the middleware's forwarder over its breaker, without its tasks.

use std::collections::{BTreeMap, BTreeSet};

use nacre::{
    base::{
        clock::{Millis, Reading},
        mutant::{self, Mutant},
    },
    distro::mapper::{self, Owner},
    model::{InstanceKey, Place, instance::Description, name::DEFAULT_CLUSTER, service::Beaten},
};
use nacre_middleware::{
    breaker::{self, Admission, Bounds, Breaker, End, Turn, Verdict},
    lateness::Sent,
    loop_guard::MOST_HOPS,
    refusal,
};

use super::{
    messages::{Answer, Call},
    nacre_node::{NacreNode, Pending, address, node_at},
    seam::{CallFault, ClientAnswer, ClientRequest, Fleet, NodeId, OutboxOf, Ticket, Wish},
};

/// As by default.
const BOUNDS: Bounds = Bounds {
    max_in_flight: 100,
    timeout: std::time::Duration::from_secs(2),
    suspect_after: std::time::Duration::from_millis(30),
};
/// Milliseconds that a request may take.
pub const LIMIT_MS: u64 = 2_000;
/// A peer refuses what is so much younger than the time at which this node may do it itself.
const MARGIN_MS: u64 = 5;
/// To the owner and to the next one.
const MOST_SENDS: u8 = 2;

/// A request on its way to an owner.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    /// Who waits for the answer.
    ticket: Ticket,
    /// What for.
    pub request: ClientRequest,
    /// How many nodes passed it on before this one.
    hops: u8,
    /// To whom.
    to: NodeId,
    sends: u8,
    leave: Option<breaker::Ticket>,
    /// When it came.
    came: Millis,
    /// Who sent it waits until then.
    until: Millis,
}

impl Passed {
    /// A request that came then and goes to `to` first, and for whose answer its sender waits until then.
    pub fn new(
        ticket: Ticket,
        request: ClientRequest,
        hops: u8,
        to: NodeId,
        (came, until): (Millis, Millis),
    ) -> Self {
        Self { ticket, request, hops, to, sends: 0, leave: None, came, until }
    }

    /// Tells its sender that it is too late for it, if it is.
    fn is_refused(&self, now: Millis, out: &mut OutboxOf<NacreNode>) -> bool {
        let is_late = now > self.until;
        match self.ticket {
            _ if !is_late => {}
            Ticket::Client { .. } => tell(self.ticket, ClientAnswer::Refused, out),
            Ticket::Node { .. } => {
                out.answers.push((self.ticket, Answer::NotNow(refusal::State::Late)));
            }
        }
        is_late
    }
}

/// When requests under way are looked at.
#[derive(Debug, Default)]
pub struct Forwards {
    looks: BTreeSet<(Millis, u64)>,
    by_id: BTreeMap<u64, Millis>,
}

impl Forwards {
    fn look(&mut self, id: u64, at: Millis) {
        self.looks.insert((at, id));
        self.by_id.insert(id, at);
    }

    fn forget(&mut self, id: u64) {
        if let Some(at) = self.by_id.remove(&id) {
            self.looks.remove(&(at, id));
        }
    }

    /// When the next is looked at.
    pub fn next(&self) -> Option<Millis> {
        self.looks.first().map(|(at, _)| *at)
    }

    /// None is under way that is looked at.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }
}

impl NacreNode {
    /// Sends a request to its owner, or does what is to be done instead; nothing where that takes time.
    pub fn pass_on(
        &mut self,
        at: Reading,
        mut passed: Passed,
        out: &mut OutboxOf<Self>,
    ) -> Option<ClientAnswer> {
        let (now, has_deputy) = (self.instant(at.now), self.view.is_all_nacre());
        let breaker = self.breakers.entry(passed.to).or_insert_with(|| Breaker::new(BOUNDS, now));
        match breaker.admit(now, has_deputy) {
            Admission::Go(leave) => passed.leave = Some(leave),
            Admission::Unanswering if has_deputy => return Some(self.apply(at, passed.request)),
            Admission::Full | Admission::Unanswering => return Some(ClientAnswer::Refused),
        }
        let patience_ms = u64::try_from(breaker.patience().as_millis()).unwrap();
        let surely = if has_deputy { patience_ms.saturating_sub(MARGIN_MS) } else { LIMIT_MS };
        let surely = surely.min(passed.until.since(at.now));
        let sent = Sent { process: self.process, at_ms: at.now.0, patience_ms: surely };
        passed.sends += 1;
        let call = Call::Forward { request: passed.request, hops: passed.hops + 1, sent };
        let id = self.call(passed.to, call, LIMIT_MS, Pending::Forward(passed), out);
        self.forwards.look(id, at.now.plus(patience_ms));
        None
    }

    /// Gives back the answer to what was passed on, and notes that the instance of a beat lives.
    fn give_back(&self, passed: &Passed, answer: ClientAnswer, out: &mut OutboxOf<Self>) {
        let request = passed.request;
        let is_heard = request.wish == Wish::Beat && answer != ClientAnswer::Unknown;
        if is_heard
            && !mutant::is(Mutant::BeatsUnheard)
            && let Some(service) = self.registry.get(self.key_of(request).place())
        {
            let spec = &self.fleet.specs[request.instance];
            let key = InstanceKey { ip: &spec.ip, port: spec.port, cluster: DEFAULT_CLUSTER };
            service.overhear(&key, passed.came);
        }
        tell(passed.ticket, answer, out);
    }

    /// Looks at requests that have waited for long.
    pub fn forwards_due(&mut self, at: Reading, out: &mut OutboxOf<Self>) {
        while let Some((due, id)) = self.forwards.looks.first().copied().filter(|(due, _)| *due <= at.now) {
            self.forwards.looks.remove(&(due, id));
            let (now, has_deputy) = (self.instant(at.now), self.view.is_all_nacre());
            let Some(Pending::Forward(passed)) = self.pending.get_mut(&id) else {
                self.forwards.forget(id);
                continue;
            };
            let (Some(breaker), Some(leave)) = (self.breakers.get_mut(&passed.to), &mut passed.leave) else {
                continue;
            };
            if now >= leave.sent() + BOUNDS.timeout {
                let passed = *passed;
                self.pending.remove(&id);
                self.forwarded(at, id, passed, Err(CallFault::TimedOut), out);
                continue;
            }
            match breaker.outlasted(now, leave, has_deputy) {
                Verdict::Wait => _ = self.forwards.by_id.remove(&id),
                Verdict::LookAgain => {
                    let patience = u64::try_from(breaker.patience().as_millis()).unwrap();
                    self.forwards.look(id, at.now.plus(patience));
                }
                Verdict::Recall => {
                    let passed = *passed;
                    self.pending.remove(&id);
                    self.forwards.forget(id);
                    self.end(at, &passed, End::Recalled);
                    if !passed.is_refused(at.now, out) {
                        let answer = self.apply(at, passed.request);
                        tell(passed.ticket, answer, out);
                    }
                }
            }
        }
    }

    fn end(&mut self, at: Reading, passed: &Passed, end: End) {
        let now = self.instant(at.now);
        let (Some(breaker), Some(leave)) = (self.breakers.get_mut(&passed.to), passed.leave) else { return };
        let turn = breaker.ended(now, leave, end);
        self.turned(at, passed.to, turn);
    }

    fn turned(&mut self, at: Reading, peer: NodeId, turn: Option<Turn>) {
        match turn {
            None => return,
            Some(Turn::Opened | Turn::Closed) => self.note_slow(at),
            Some(Turn::Answers) => {}
        }
        let is_loading = self.roster.standing().is_loading();
        if turn != Some(Turn::Opened) && !is_loading {
            self.heard_from(peer, at);
        }
    }

    /// A peer answered a probe.
    pub fn answers(&mut self, at: Reading, peer: NodeId) {
        let now = self.instant(at.now);
        if let Some(breaker) = self.breakers.get_mut(&peer) {
            let turn = breaker.answered(now);
            self.turned(at, peer, turn);
        }
    }

    /// A request that was passed on has ended.
    pub fn forwarded(
        &mut self,
        at: Reading,
        id: u64,
        passed: Passed,
        outcome: Result<Answer, CallFault>,
        out: &mut OutboxOf<Self>,
    ) {
        self.forwards.forget(id);
        self.end(
            at,
            &passed,
            match outcome {
                Ok(_) => End::Answered,
                Err(CallFault::TimedOut) => End::TimedOut,
                Err(CallFault::Refused | CallFault::Closed) => End::Broken,
            },
        );
        let is_answered = matches!(outcome, Ok(Answer::Told(_)) | Err(CallFault::TimedOut));
        if !is_answered && passed.is_refused(at.now, out) {
            return;
        }
        let answer = match outcome {
            Ok(Answer::Told(answer)) => Some(answer),
            Ok(Answer::NotNow(refusal::State::Late | refusal::State::Disagreeing)) => {
                Some(self.apply(at, passed.request))
            }
            Ok(Answer::NotNow(refusal::State::Starting | refusal::State::Removed))
            | Err(CallFault::Refused | CallFault::Closed) => self.gone(at, passed, out),
            Ok(_) | Err(CallFault::TimedOut) => Some(ClientAnswer::Refused),
        };
        if let Some(answer) = answer {
            self.give_back(&passed, answer, out);
        }
    }

    /// The owner is gone: the next one does it, or this node.
    fn gone(&mut self, at: Reading, passed: Passed, out: &mut OutboxOf<Self>) -> Option<ClientAnswer> {
        self.roster.refused(&address(passed.to), at.now);
        self.review(at);
        let key = self.key_of(passed.request);
        match mapper::owner(&self.view, &key.name) {
            Owner::Here => Some(self.apply(at, passed.request)),
            Owner::Nobody => Some(ClientAnswer::Refused),
            Owner::Peer(_) if passed.sends >= MOST_SENDS => Some(ClientAnswer::Refused),
            Owner::Peer(next) => self.pass_on(at, Passed { to: node_at(next), ..passed }, out),
        }
    }

    /// What a request that a peer passed on is answered; nothing where that takes time.
    pub fn passed_on(
        &mut self,
        at: Reading,
        from: NodeId,
        ticket: Ticket,
        request: ClientRequest,
        (hops, sent): (u8, Sent),
        out: &mut OutboxOf<Self>,
    ) -> Option<Answer> {
        let key = self.key_of(request);
        let left_ms = self.lateness.left_ms(address(from).as_str(), sent, at.now.0);
        let owner = mapper::owner(&self.view, &key.name);
        let Some(left_ms) = left_ms else { return Some(Answer::NotNow(refusal::State::Late)) };
        let until = at.now.plus(left_ms);
        if matches!(owner, Owner::Peer(_)) && hops >= MOST_HOPS {
            return Some(Answer::NotNow(refusal::State::Disagreeing));
        }
        let place = key.place();
        if owner == Owner::Here && request.wish == Wish::Beat && !self.knows(place, request) {
            let pending = Pending::Fetch { ticket, request, asked: at.now, until };
            self.call(from, Call::Fetch(key), 1_000, pending, out);
            return None;
        }
        self.wished(at, ticket, request, (hops, until), out).map(Answer::Told)
    }

    fn knows(&self, place: Place<'_>, request: ClientRequest) -> bool {
        let spec = &self.fleet.specs[request.instance];
        let key = InstanceKey { ip: &spec.ip, port: spec.port, cluster: DEFAULT_CLUSTER };
        self.registry.get(place).is_some_and(|service| service.state().ephemeral.contains(&key))
    }

    /// Does what a client asks for, as the endpoints do.
    pub fn apply(&mut self, at: Reading, request: ClientRequest) -> ClientAnswer {
        let (now, spec) = (at.now, &self.fleet.specs[request.instance]);
        let key = InstanceKey { ip: &spec.ip, port: spec.port, cluster: DEFAULT_CLUSTER };
        let (service_key, done) = (self.key_of(request), ClientAnswer::Done(self.own));
        let place = service_key.place();
        match request.wish {
            Wish::Deregister => {
                self.registry.deregister(place, key, now).unwrap();
            }
            Wish::Beat => {
                let service = self.registry.get(place);
                let beaten = service.as_ref().map_or(Beaten::Unknown, |service| service.beat(&key, now));
                match (beaten, service) {
                    (Beaten::Ephemeral(instance), Some(service)) => {
                        if !instance.healthy() {
                            self.registry.set_health_of(&service, &key, true, now);
                        }
                    }
                    (Beaten::JustLeft, _) if spec.full_beats => {}
                    _ if spec.full_beats => self.register(at, request),
                    _ => return ClientAnswer::Unknown,
                }
            }
            Wish::Register | Wish::Update => self.register(at, request),
        }
        done
    }

    fn register(&self, at: Reading, request: ClientRequest) {
        let spec = &self.fleet.specs[request.instance];
        let metadata = format!(
            r#"{{{VERSION}{}","preserved.heart.beat.interval":"{}","preserved.heart.beat.timeout":"{}","preserved.ip.delete.timeout":"{}"}}"#,
            request.version, spec.interval_ms, spec.unhealthy_ms, spec.delete_ms
        );
        let description = Description {
            weight: f64::from(request.weight),
            metadata: metadata.parse().unwrap(),
            ..Description::new(&spec.ip, spec.port, DEFAULT_CLUSTER)
        };
        let service = self.key_of(request);
        self.registry.register(service.place(), &description, at.now).unwrap();
        debug_assert_eq!(Fleet::of_port(spec.port), request.instance);
    }
}

/// What stands before the version in the metadata of an instance.
const VERSION: &str = r#""v":""#;

/// The version in the metadata of an instance.
pub fn version(metadata: &str) -> u32 {
    let (_, rest) = metadata.split_once(VERSION).unwrap_or_default();
    let digits = rest.bytes().take_while(u8::is_ascii_digit);
    digits.fold(0, |version, digit| version * 10 + u32::from(digit - b'0'))
}

fn tell(ticket: Ticket, answer: ClientAnswer, out: &mut OutboxOf<NacreNode>) {
    match ticket {
        Ticket::Client { .. } => out.told.push((ticket, answer)),
        Ticket::Node { .. } => out.answers.push((ticket, Answer::Told(answer))),
    }
}
