//! The world: one queue of events in order of virtual time, and all that they act on. Single-threaded; the same seed
//! gives the same run.

use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc};

use super::{
    clients::{self, Client, Move, PATIENCE, Temper},
    coverage::Coverage,
    faults::{Act, Plan, Script, Step, Trouble},
    history::History,
    host::{Host, Waiting},
    invariants::{Judge, LIST_DELAY, Scene, Violation},
    network::{CLIENT_GROUPS, Fate, Network},
    random::Random,
    reach::{Pulse, Reach},
    seam::{
        At, CallFault, ClientAnswer, Fleet, MS, NEVER, NodeId, OutboxOf, SECOND, Setup, SimNode, Ticket, Wish,
    },
    truth::Truth,
};

/// Clients of a run, each with an instance.
pub const CLIENTS: usize = 200;
/// Services of a run.
pub const SERVICES: usize = 50;
/// A node that was told to leave is killed after this.
const LEAVE_LIMIT: At = 10 * SECOND;
/// The number of a call whose answer nobody gets.
const NOBODYS: u64 = u64::MAX;
/// Between two looks of the judge.
const LOOK: At = 500 * MS;

/// Something that happens.
enum Event<N: SimNode> {
    Wake(NodeId, u32),
    Request(NodeId, Waiting<N>),
    Answer(NodeId, u32, u64, Result<N::Answer, CallFault>),
    Told(usize, u32, NodeId, Result<ClientAnswer, CallFault>),
    Turn(usize, At),
    Step(usize),
    Read(NodeId, u32),
    Kill(NodeId, u32),
    Start(NodeId),
    Look,
}

/// What is to happen, in order of time; the earliest first, of the same moment the one that was put first.
struct Queue<N: SimNode> {
    order: BinaryHeap<Reverse<(At, u64, usize)>>,
    /// The events themselves, which are too large to be moved about in a heap.
    events: Vec<Option<Event<N>>>,
    free: Vec<usize>,
    number: u64,
}

impl<N: SimNode> Queue<N> {
    fn new() -> Self {
        Self { order: BinaryHeap::new(), events: Vec::new(), free: Vec::new(), number: 0 }
    }

    fn put(&mut self, at: At, event: Event<N>) {
        self.number += 1;
        let place = self.free.pop().unwrap_or_else(|| {
            self.events.push(None);
            self.events.len() - 1
        });
        self.events[place] = Some(event);
        self.order.push(Reverse((at, self.number, place)));
    }

    fn next(&mut self) -> Option<(At, Event<N>)> {
        let Reverse((at, _, place)) = self.order.pop()?;
        self.free.push(place);
        self.events[place].take().map(|event| (at, event))
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct Outcome {
    /// The first broken promise.
    pub violation: Option<Violation>,
    /// What was met.
    pub coverage: Coverage,
    /// What happened, where it was kept.
    pub history: History,
}

/// All of a run.
pub struct World<N: SimNode> {
    now: At,
    queue: Queue<N>,
    hosts: Vec<Host<N>>,
    network: Network,
    reach: Reach,
    clients: Vec<Client>,
    /// When each client has its turn; turns planned before for another moment are of no account.
    turns: Vec<At>,
    /// Nodes that clients know of.
    known: Vec<NodeId>,
    truth: Truth,
    fleet: Arc<Fleet>,
    members: Vec<NodeId>,
    steps: Vec<Step>,
    plan: Plan,
    temper: Temper,
    judge: Judge,
    history: History,
    random: Random,
    outbox: OutboxOf<N>,
    changed: Vec<usize>,
    seed: u64,
    /// Events at this very moment.
    stands: u32,
}

impl<N: SimNode> Event<N> {
    fn word(&self) -> String {
        match self {
            Self::Wake(node, _) => format!("{node} wakes"),
            Self::Request(node, _) => format!("{node} is called"),
            Self::Answer(node, ..) => format!("{node} is answered"),
            Self::Told(client, ..) => format!("client {client} is told"),
            Self::Turn(client, _) => format!("client {client} has its turn"),
            Self::Step(_) | Self::Read(..) | Self::Kill(..) | Self::Start(_) | Self::Look => {
                "something else".to_string()
            }
        }
    }
}

impl<N: SimNode> World<N> {
    /// Runs a seed as planned.
    pub fn run(seed: u64, plan: Plan, is_told: bool) -> Outcome {
        let mut world = Self::new(seed, plan, is_told);
        while world.judge.verdict.is_none() {
            let Some((at, event)) = world.queue.next() else { break };
            if at > world.plan.end {
                break;
            }
            world.stands = if at == world.now { world.stands + 1 } else { 0 };
            assert!(world.stands < 100_000, "time stands still at {} us: {}", world.now, event.word());
            world.now = at;
            world.happens(event);
        }
        if world.judge.verdict.is_none() {
            world.judged(Judge::close);
        }
        world.judge.coverage.mark("runs", 1);
        Outcome { violation: world.judge.verdict, coverage: world.judge.coverage, history: world.history }
    }

    fn new(seed: u64, plan: Plan, is_told: bool) -> Self {
        let (steps, troubles) = Script::steps(&plan, Random::new(seed, 2));
        let fleet = Arc::new(clients::fleet(SERVICES, CLIENTS, &mut Random::new(seed, 3)));
        let temper = Temper {
            from: 12 * SECOND,
            until: plan.healed,
            mean: Random::new(seed, 4).between(8, 60) * SECOND,
        };
        let specs = fleet.specs.iter().enumerate();
        let clients: Vec<_> = specs
            .map(|(instance, spec)| {
                Client::new(instance, spec, Random::new(seed, 1_000 + instance as u64), temper)
            })
            .collect();
        let mut world = Self {
            now: 0,
            queue: Queue::new(),
            hosts: (0..plan.nodes).map(|node| Host::new(&mut Random::new(seed, 100 + node as u64))).collect(),
            network: Network::new(plan.nodes, Random::new(seed, 5)),
            reach: Reach::new(plan.nodes),
            turns: vec![NEVER; clients.len()],
            clients,
            known: (0..plan.listed).collect(),
            truth: Truth::new(&fleet),
            members: (0..plan.listed).collect(),
            judge: Judge::new(&plan, &fleet, troubles),
            history: History::new(is_told),
            random: Random::new(seed, 6),
            outbox: OutboxOf::<N>::default(),
            changed: Vec::new(),
            fleet,
            steps,
            plan,
            temper,
            seed,
            stands: 0,
        };
        world.judge.listed(0, &world.members);
        for node in 0..world.plan.listed {
            let at = world.random.below(SECOND);
            world.put(at, Event::Start(node));
        }
        for client in 0..world.clients.len() {
            let at = world.clients[client].next_turn();
            world.turn_at(client, at);
        }
        for step in 0..world.steps.len() {
            world.put(world.steps[step].at, Event::Step(step));
        }
        world.put(LOOK, Event::Look);
        world
    }

    fn put(&mut self, at: At, event: Event<N>) {
        self.queue.put(at.max(self.now), event);
    }

    fn judged<T>(&mut self, say: impl FnOnce(&mut Judge, Scene<'_>) -> T) -> T {
        let scene = Scene { now: self.now, fleet: &self.fleet, truth: &self.truth, reach: &self.reach };
        say(&mut self.judge, scene)
    }

    fn happens(&mut self, event: Event<N>) {
        match event {
            Event::Wake(node, life) => self.wake(node, life),
            Event::Request(node, waiting) => self.request(node, waiting),
            Event::Answer(node, life, id, outcome) => self.answer(node, life, id, outcome),
            Event::Told(client, attempt, via, outcome) => self.told(client, attempt, via, outcome),
            Event::Turn(client, at) => self.turn(client, at),
            Event::Step(index) => self.step(index),
            Event::Read(node, life) => self.read(node, life),
            Event::Kill(node, life) => {
                if self.hosts[node].life == life {
                    self.stop(node);
                }
            }
            Event::Start(node) => self.start(node),
            Event::Look => self.look(),
        }
    }

    fn look(&mut self) {
        self.judged(super::invariants::Judge::look);
        // One node after the other, since what they keep is counted.
        let node = usize::try_from(self.now / LOOK).unwrap() % self.hosts.len();
        let reading = self.hosts[node].reading(self.now);
        if let Some(running) = &self.hosts[node].node {
            let sizes = running.sizes(reading);
            self.judged(|judge, scene| judge.keeps(scene, node, sizes));
        }
        self.put(self.now + LOOK, Event::Look);
    }

    // Clients.

    fn turn_at(&mut self, client: usize, at: At) {
        self.turns[client] = at;
        if at != NEVER {
            self.put(at, Event::Turn(client, at));
        }
    }

    fn turn(&mut self, client: usize, at: At) {
        if self.turns[client] == at {
            let fact = &mut self.truth.facts[client];
            let next = self.clients[client].turn(self.now, &self.known, self.temper, fact);
            self.moves(client, next);
        }
    }

    fn moves(&mut self, client: usize, next: Move) {
        let (to, request) = match next {
            Move::TurnAt(at) => return self.turn_at(client, at),
            Move::Send(to, request) => (to, request),
        };
        self.turns[client] = NEVER;
        let attempt = self.clients[client].attempt;
        let service = self.fleet.specs[client].service;
        self.history.note(self.now, Some(service), || {
            format!("client {client} -> {to}: {:?} version {}", request.wish, request.version)
        });
        self.put(self.now + PATIENCE, Event::Told(client, attempt, to, Err(CallFault::TimedOut)));
        let ticket = Ticket::Client { client, attempt };
        let from = self.plan.nodes + client % CLIENT_GROUPS;
        match self.network.call(from, to, self.now) {
            Fate::Vanishes => {}
            Fate::Breaks(at) => self.put(at, Event::Told(client, attempt, to, Err(CallFault::Closed))),
            Fate::Arrives(at, _) => self.put(at, Event::Request(to, Waiting::Client(ticket, request))),
        }
    }

    fn told(&mut self, client: usize, attempt: u32, via: NodeId, outcome: Result<ClientAnswer, CallFault>) {
        if self.clients[client].attempt != attempt {
            return;
        }
        // No answer counts once.
        self.clients[client].attempt += 1;
        let service = self.fleet.specs[client].service;
        self.history.note(self.now, Some(service), || format!("client {client} <- {via}: {outcome:?}"));
        match outcome {
            Ok(ClientAnswer::Done(_)) => self.judge.coverage.mark("client requests done", 1),
            Ok(ClientAnswer::Unknown) => self.judge.coverage.mark("beats of unknown instances", 1),
            Ok(ClientAnswer::Refused) | Err(_) => {
                self.judge.coverage.mark("client requests failed", 1);
                self.judge.refuses(self.now, via, service, || format!("{client} at {via}: {outcome:?}"));
            }
        }
        let fact = &mut self.truth.facts[client];
        let next = self.clients[client].heard(outcome, via, &self.known, self.now, fact);
        self.moves(client, next);
    }

    // Nodes.

    fn start(&mut self, node: NodeId) {
        // One that isn't listed refuses to start.
        if self.hosts[node].node.is_some() || !self.members.contains(&node) {
            return;
        }
        self.hosts[node].begin(self.now, &mut self.random);
        let setup = Setup {
            node,
            seed: self.seed ^ self.random.next(),
            fleet: Arc::clone(&self.fleet),
            members: self.members.clone(),
        };
        self.history.note(self.now, None, || format!("{node} starts, listed are {:?}", setup.members));
        let (reading, members) = (self.hosts[node].reading(self.now), setup.members.clone());
        self.judged(|judge, scene| judge.process(scene, node));
        self.judge.has_read(self.now, node, &members);
        self.hosts[node].clock_ms = self.hosts[node].skew_ms;
        self.judge.begins_with_clock(node, self.hosts[node].clock_ms);
        self.hosts[node].members = members;
        self.hosts[node].node = Some(N::start(setup, reading));
        self.settle(node);
        self.refresh();
    }

    fn stop(&mut self, node: NodeId) {
        let host = &mut self.hosts[node];
        if host.node.is_none() {
            return;
        }
        let again_after = host.again_after.take();
        let broken = host.end();
        self.history.note(self.now, None, || format!("{node} is gone"));
        if let Some(pause) = again_after {
            self.put(self.now + pause, Event::Start(node));
        }
        for ticket in broken {
            self.close(node, ticket);
        }
        self.judged(|judge, scene| judge.process(scene, node));
        self.refresh();
    }

    /// Tells who waits for an answer of `node` that there will be none.
    fn close(&mut self, node: NodeId, ticket: Ticket) {
        self.fails(node, ticket, CallFault::Closed);
    }

    fn fails(&mut self, node: NodeId, ticket: Ticket, fault: CallFault) {
        let to = self.party(ticket);
        if let Fate::Arrives(at, _) | Fate::Breaks(at) = self.network.answer(node, to, self.now) {
            match ticket {
                Ticket::Client { client, attempt } => {
                    self.put(at, Event::Told(client, attempt, node, Err(fault)));
                }
                Ticket::Node { node, life, call } => {
                    self.put(at, Event::Answer(node, life, call, Err(fault)));
                }
            }
        }
    }

    fn party(&self, ticket: Ticket) -> usize {
        match ticket {
            Ticket::Client { client, .. } => self.plan.nodes + client % CLIENT_GROUPS,
            Ticket::Node { node, .. } => node,
        }
    }

    fn wake(&mut self, node: NodeId, life: u32) {
        let host = &mut self.hosts[node];
        if host.life != life || host.wake_at != self.now {
            return;
        }
        host.wake_at = NEVER;
        if host.is_frozen {
            return;
        }
        let reading = host.reading(self.now);
        let Some(running) = &mut host.node else { return };
        if running.next_wake().is_some_and(|due| due <= reading.now) {
            running.wake(reading, &mut self.outbox);
        }
        self.settle(node);
    }

    fn request(&mut self, node: NodeId, waiting: Waiting<N>) {
        let host = &mut self.hosts[node];
        if host.node.is_none() {
            return self.fails(node, waiting.ticket(), CallFault::Refused);
        }
        if host.is_frozen {
            host.backlog.push_back(waiting);
            return;
        }
        let clock_ms = self.judge.clock(node);
        if let Some(request) = waiting.about() {
            let fact = &mut self.truth.facts[request.instance];
            fact.last_word = self.now;
            // A full beat registers what isn't known.
            if request.wish != Wish::Beat || self.fleet.specs[request.instance].full_beats {
                fact.ask(self.now, (node, clock_ms), request);
            }
        }
        host.open.push(waiting.ticket());
        let reading = host.reading(self.now);
        let Some(running) = &mut host.node else { return };
        match waiting {
            Waiting::Client(ticket, request) => running.asked(reading, ticket, request, &mut self.outbox),
            Waiting::Node(from, ticket, call) => {
                running.called(reading, from, ticket, call, &mut self.outbox);
            }
        }
        self.settle(node);
    }

    fn answer(&mut self, node: NodeId, life: u32, id: u64, outcome: Result<N::Answer, CallFault>) {
        let host = &mut self.hosts[node];
        if host.life != life || !host.pending.contains(&id) {
            return;
        }
        if host.is_frozen {
            host.unheard.push((id, outcome));
            return;
        }
        host.pending.retain(|pending| *pending != id);
        if let Err(fault) = &outcome {
            self.history.note(self.now, None, || format!("{node} #{id}: {fault:?}"));
        }
        let reading = host.reading(self.now);
        let Some(running) = &mut host.node else { return };
        running.answered(reading, id, outcome, &mut self.outbox);
        self.settle(node);
    }

    /// Carries out what a node wants after something happened to it, and looks at what it shows.
    fn settle(&mut self, node: NodeId) {
        let mut outbox = std::mem::take(&mut self.outbox);
        for call in outbox.calls.drain(..) {
            self.call(node, call);
        }
        for (ticket, answer) in outbox.answers.drain(..) {
            self.reply(node, ticket, answer);
        }
        for (ticket, answer) in outbox.told.drain(..) {
            self.tell(node, ticket, answer);
        }
        self.outbox = outbox;
        self.watch(node);
        let (now, host) = (self.now, &mut self.hosts[node]);
        let due = host.node.as_ref().and_then(SimNode::next_wake);
        if let Some(at) = due.map(|due| host.at(due).max(now))
            && at < host.wake_at
        {
            host.wake_at = at;
            let life = host.life;
            self.put(at, Event::Wake(node, life));
        }
        if host_has_left(&self.hosts[node]) {
            self.stop(node);
        }
    }

    fn call(&mut self, node: NodeId, call: super::seam::Outgoing<N::Call>) {
        let (id, to, life) = (call.id, call.to, self.hosts[node].life);
        self.judge.calls(self.now, node, to, || N::describe(&call.call, &self.fleet));
        if self.history.is_kept() {
            let text = N::describe(&call.call, &self.fleet);
            let services = N::concerns(&call.call, &self.fleet);
            for service in &services {
                self.history.note(self.now, Some(*service), || format!("{node} -> {to} #{id}: {text}"));
            }
            if services.is_empty() && N::is_rare(&call.call) {
                self.history.note(self.now, None, || format!("{node} -> {to} #{id}: {text}"));
            }
        }
        self.hosts[node].pending.push(id);
        self.put(self.now + call.limit_ms * MS, Event::Answer(node, life, id, Err(CallFault::TimedOut)));
        let ticket = Ticket::Node { node, life, call: id };
        match self.network.call(node, to, self.now) {
            Fate::Vanishes => {}
            Fate::Breaks(at) => self.put(at, Event::Answer(node, life, id, Err(CallFault::Closed))),
            Fate::Arrives(at, again) => {
                let mut first = ticket;
                if let Some(again) = again {
                    self.judge.coverage.mark("calls doubled", 1);
                    let waiting = Waiting::Node(node, ticket, call.call.clone());
                    self.put(again, Event::Request(to, waiting));
                    // A client's request is sent twice only where the connection ended before an answer.
                    if N::carried(&call.call).is_some() {
                        first = Ticket::Node { node, life, call: NOBODYS };
                    }
                }
                self.put(at, Event::Request(to, Waiting::Node(node, first, call.call)));
            }
        }
    }

    fn reply(&mut self, from: NodeId, ticket: Ticket, answer: N::Answer) {
        self.hosts[from].answered(ticket);
        let Ticket::Node { node, life, call } = ticket else { return };
        match self.network.answer(from, node, self.now) {
            Fate::Vanishes => {}
            Fate::Breaks(at) => self.put(at, Event::Answer(node, life, call, Err(CallFault::Closed))),
            Fate::Arrives(at, _) => self.put(at, Event::Answer(node, life, call, Ok(answer))),
        }
    }

    fn tell(&mut self, from: NodeId, ticket: Ticket, answer: ClientAnswer) {
        self.hosts[from].answered(ticket);
        let Ticket::Client { client, attempt } = ticket else { return };
        match self.network.answer(from, self.party(ticket), self.now) {
            Fate::Vanishes => {}
            Fate::Breaks(at) => self.put(at, Event::Told(client, attempt, from, Err(CallFault::Closed))),
            Fate::Arrives(at, _) => self.put(at, Event::Told(client, attempt, from, Ok(answer))),
        }
    }

    /// Shows the judge what a node may show anew.
    fn watch(&mut self, node: NodeId) {
        let Some(running) = &mut self.hosts[node].node else { return };
        let mut changed = std::mem::take(&mut self.changed);
        changed.clear();
        running.take_changed(&mut changed);
        let (number, serves, compares) = (running.view_number(), running.serves(), running.compares());
        let host = &self.hosts[node];
        let ahead_ms =
            host.node.as_ref().map_or(0, |running| running.stamps_ahead_ms(host.reading(self.now)));
        self.judge.has_clock(self.now, node, host.clock_ms + ahead_ms);
        let is_another_view = number != self.hosts[node].view;
        self.hosts[node].view = number;
        let Some(running) = &self.hosts[node].node else { return };
        let scene = Scene { now: self.now, fleet: &self.fleet, truth: &self.truth, reach: &self.reach };
        if is_another_view {
            self.judge.coverage.mark("views", 1);
            self.history.note(self.now, None, || format!("{node} sees the ring {:?}", running.ring()));
            self.judge.views(self.now, node, running.ring(), |service| running.owner(service));
        }
        let mut list = Vec::new();
        for &service in &changed {
            list.clear();
            running.list(service, &mut list);
            self.history.note(self.now, Some(service), || {
                let shown = list.iter().map(|seen| {
                    let health = if seen.healthy { "" } else { "!" };
                    format!(" {}{health}v{}", seen.instance, seen.version)
                });
                format!("{node} shows{}", shown.collect::<String>())
            });
            self.judge.shows(scene, node, service, &list);
        }
        self.judge.compares(scene, node, compares);
        let before = self.hosts[node].serves;
        if before != serves {
            let line = if serves { "serves" } else { "doesn't serve" };
            self.history.note(self.now, None, || format!("{node} {line}"));
            self.judge.serves(scene, node, serves, |service, into| running.list(service, into));
            self.hosts[node].serves = serves;
            self.refresh();
        }
        self.changed = changed;
    }

    fn refresh(&mut self) {
        let pulses: Vec<Pulse> = self.hosts.iter().map(Host::pulse).collect();
        self.reach.refresh(self.now, &self.network, &pulses);
    }

    // Faults.

    fn step(&mut self, index: usize) {
        let Step { act, kind, .. } = self.steps[index].clone();
        if let Some(kind) = kind {
            self.judge.coverage.fault(kind);
        }
        self.history.note(self.now, None, || match kind {
            Some(kind) => format!("* {kind:?}: {act:?}"),
            None => format!("* {act:?}"),
        });
        match act {
            Act::Stop(node) => self.stop(node),
            Act::Start(node) => {
                if !self.known.contains(&node) {
                    self.known.push(node);
                }
                self.start(node);
            }
            Act::Freeze(node) => self.hosts[node].is_frozen = self.hosts[node].node.is_some(),
            Act::Thaw(node) => self.thaw(node),
            Act::Skew(node, off_ms) => self.hosts[node].skew_ms = off_ms,
            Act::List(members) => self.list(members),
            Act::Leave(node, again) => self.leave(node, again),
            Act::Worsen(from, to, trouble) => self.trouble(from, to, trouble, true),
            Act::Better(from, to, trouble) => self.trouble(from, to, trouble, false),
        }
        self.refresh();
    }

    fn trouble(&mut self, from: usize, to: usize, trouble: Trouble, is_added: bool) {
        let link = self.network.link(from, to);
        let alter = |sum: &mut u64, by: u64| *sum = if is_added { *sum + by } else { *sum - by };
        match trouble {
            Trouble::Wall => link.no_calls = if is_added { link.no_calls + 1 } else { link.no_calls - 1 },
            Trouble::Cut => link.cut = if is_added { link.cut + 1 } else { link.cut - 1 },
            Trouble::Slow(by) => alter(&mut link.slow, by),
            Trouble::Lost(by) => alter(&mut link.lost, by),
            Trouble::Doubled(by) => alter(&mut link.doubled, by),
            Trouble::Shuffled(by) => alter(&mut link.shuffled, by),
        }
    }

    fn thaw(&mut self, node: NodeId) {
        let host = &mut self.hosts[node];
        if !std::mem::take(&mut host.is_frozen) {
            return;
        }
        let (life, backlog, unheard) =
            (host.life, std::mem::take(&mut host.backlog), std::mem::take(&mut host.unheard));
        // All of it is there at once; what it looks at first is chance.
        for waiting in backlog {
            let at = self.now + self.random.below(20 * MS);
            self.put(at, Event::Request(node, waiting));
        }
        for (id, outcome) in unheard {
            let at = self.now + self.random.below(20 * MS);
            self.put(at, Event::Answer(node, life, id, outcome));
        }
        let at = self.now + self.random.below(20 * MS);
        self.hosts[node].wake_at = at;
        self.put(at, Event::Wake(node, life));
    }

    fn list(&mut self, members: Vec<NodeId>) {
        self.judge.listed(self.now, &members);
        self.members = members;
        for node in 0..self.hosts.len() {
            let at = self.now + self.random.below(LIST_DELAY);
            let life = self.hosts[node].life;
            self.put(at, Event::Read(node, life));
        }
    }

    fn read(&mut self, node: NodeId, life: u32) {
        let host = &mut self.hosts[node];
        if host.life != life {
            return;
        }
        if host.is_frozen {
            return self.put(self.now + 100 * MS, Event::Read(node, life));
        }
        let reading = host.reading(self.now);
        let Some(running) = &mut host.node else { return };
        host.members.clone_from(&self.members);
        self.judge.has_read(self.now, node, &self.members);
        self.history.note(self.now, None, || format!("{node} reads the list {:?}", self.members));
        running.listed(reading, &self.members, &mut self.outbox);
        self.settle(node);
    }

    fn leave(&mut self, node: NodeId, again: Option<At>) {
        let host = &mut self.hosts[node];
        let (reading, life) = (host.reading(self.now), host.life);
        let Some(running) = &mut host.node else { return };
        host.is_leaving = true;
        host.again_after = again;
        running.leave(reading, &mut self.outbox);
        self.settle(node);
        self.put(self.now + LEAVE_LIMIT, Event::Kill(node, life));
    }
}

fn host_has_left<N: SimNode>(host: &Host<N>) -> bool {
    host.is_leaving && host.node.as_ref().is_some_and(SimNode::has_left)
}
