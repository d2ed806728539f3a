//! Clients as those of v1 are: they register, beat, and ask the next server after any error; they leave, die and return.
//!
//! One instance each, one request at a time. A light beat that is answered with 20404 is followed by a registration, a
//! full beat describes the instance. Source: Nacos 1.x Java client, naming proxy and beat reactor.

use super::{
    random::Random,
    seam::{At, CallFault, ClientAnswer, ClientRequest, Fleet, MS, NEVER, NodeId, SECOND, Spec, Wish},
    truth::{Ack, Fact, Will},
};

/// A client waits this long for an answer.
pub const PATIENCE: At = 3 * SECOND;

/// What a client does next of its own will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Update,
    Deregister,
    Die,
    Return,
}

/// A request that goes from node to node until one takes it.
#[derive(Clone, Copy, Debug)]
struct Errand {
    wish: Wish,
    /// Where in the list it is now.
    place: usize,
    /// How many nodes were asked.
    tried: usize,
}

/// What a client wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Send this to that node.
    Send(NodeId, ClientRequest),
    /// Ask again then.
    TurnAt(At),
}

/// One client.
#[derive(Debug)]
pub struct Client {
    instance: usize,
    interval: At,
    /// Starts each request at a node of its choice, not where the last one succeeded.
    roams: bool,
    place: usize,
    /// Grows with every try; answers to former ones are too late.
    pub attempt: u32,
    errand: Option<Errand>,
    is_registered: bool,
    version: u32,
    weight: u32,
    next_beat: At,
    change: Option<Change>,
    change_at: At,
    random: Random,
}

/// How lively the clients are.
#[derive(Clone, Copy, Debug)]
pub struct Temper {
    /// Changes begin then, and the last one comes before that.
    pub from: At,
    /// No change from here on.
    pub until: At,
    /// The mean time between two changes of a client.
    pub mean: At,
}

impl Client {
    /// A client that registers some time in the first seconds.
    pub fn new(instance: usize, spec: &Spec, mut random: Random, temper: Temper) -> Self {
        let late = random.chance(200);
        let birth = if late {
            random.between(temper.from, temper.until.max(temper.from))
        } else {
            random.between(SECOND, 9 * SECOND)
        };
        Self {
            instance,
            interval: spec.interval_ms * MS,
            roams: random.chance(700),
            place: random.index(1 << 16),
            attempt: 0,
            errand: None,
            is_registered: false,
            version: 0,
            weight: 1,
            next_beat: NEVER,
            change: Some(Change::Return),
            change_at: birth,
            random,
        }
    }

    /// When it acts next of its own will.
    pub fn next_turn(&self) -> At {
        self.next_beat.min(self.change_at)
    }

    /// Its moment has come.
    pub fn turn(&mut self, now: At, nodes: &[NodeId], temper: Temper, fact: &mut Fact) -> Move {
        if self.errand.is_some() || now < self.next_turn() {
            return Move::TurnAt(if self.errand.is_some() { NEVER } else { self.next_turn() });
        }
        if now >= self.change_at {
            let change = self.change.take();
            self.plan(now, temper, change);
            match change {
                Some(Change::Return) if !self.is_registered => {
                    self.is_registered = true;
                    self.version += 1;
                    fact.turn(Will::Wanted, now);
                    return self.begin(Wish::Register, nodes, now, fact);
                }
                Some(Change::Update) if self.is_registered => {
                    self.version += 1;
                    self.weight = u32::try_from(self.random.between(1, 100)).unwrap();
                    return self.begin(Wish::Update, nodes, now, fact);
                }
                Some(Change::Deregister) if self.is_registered => {
                    self.stop_beating();
                    fact.turn(Will::Leaving, now);
                    return self.begin(Wish::Deregister, nodes, now, fact);
                }
                Some(Change::Die) if self.is_registered => {
                    self.stop_beating();
                    fact.turn(Will::Dead, now);
                }
                _ => {}
            }
        } else if self.is_registered {
            self.next_beat = now + self.interval;
            return self.begin(Wish::Beat, nodes, now, fact);
        }
        Move::TurnAt(self.next_turn())
    }

    fn stop_beating(&mut self) {
        self.is_registered = false;
        self.next_beat = NEVER;
        self.attempt += 1;
    }

    /// Draws what comes after `last`.
    fn plan(&mut self, now: At, temper: Temper, last: Option<Change>) {
        let mean = temper.mean / MS;
        let pause = MS * (self.random.between(mean / 8, mean) + self.random.below(mean));
        let goes = matches!(last, Some(Change::Deregister | Change::Die));
        self.change = Some(if goes {
            Change::Return
        } else {
            match self.random.below(10) {
                0..4 => Change::Update,
                4..7 => Change::Deregister,
                _ => Change::Die,
            }
        });
        // Some come back at once, as an application that is restarted.
        let pause = if goes && self.random.chance(400) { self.random.below(4 * SECOND) } else { pause };
        self.change_at = now.max(temper.from) + pause;
        if self.change_at >= temper.until {
            (self.change, self.change_at) = (None, NEVER);
        }
    }

    fn begin(&mut self, wish: Wish, nodes: &[NodeId], now: At, fact: &mut Fact) -> Move {
        if self.roams {
            self.place = self.random.index(1 << 16);
        }
        self.errand = Some(Errand { wish, place: self.place, tried: 0 });
        self.send(nodes, now, fact)
    }

    fn send(&mut self, nodes: &[NodeId], now: At, fact: &mut Fact) -> Move {
        let Some(errand) = self.errand else { return Move::TurnAt(self.next_turn()) };
        self.attempt += 1;
        let (instance, wish) = (self.instance, errand.wish);
        fact.version = self.version;
        if wish != Wish::Deregister {
            fact.last_birth = now;
        }
        let request = ClientRequest { instance, wish, version: self.version, weight: self.weight };
        Move::Send(nodes[errand.place % nodes.len()], request)
    }

    /// A try has ended; `via` is the node that was asked.
    pub fn heard(
        &mut self,
        outcome: Result<ClientAnswer, CallFault>,
        via: NodeId,
        nodes: &[NodeId],
        now: At,
        fact: &mut Fact,
    ) -> Move {
        let Some(errand) = self.errand else { return Move::TurnAt(self.next_turn()) };
        match outcome {
            Ok(ClientAnswer::Done(by)) => {
                self.errand = None;
                fact.wrote(now, via, by, (errand.wish, self.version));
                if errand.wish == Wish::Deregister {
                    fact.turn(Will::Left(now, by), now);
                } else {
                    if errand.wish != Wish::Beat {
                        fact.acked = (self.version, fact.last_birth, by);
                    }
                    fact.acknowledge(Ack { at: now, via, by });
                    self.next_beat = now + self.interval;
                }
                Move::TurnAt(self.next_turn())
            }
            Ok(ClientAnswer::Unknown) => match errand.wish {
                Wish::Beat => self.begin(Wish::Register, nodes, now, fact),
                _ => {
                    self.errand = None;
                    Move::TurnAt(self.next_turn())
                }
            },
            Ok(ClientAnswer::Refused) | Err(_) => self.try_next(errand, nodes, now, fact),
        }
    }

    fn try_next(&mut self, errand: Errand, nodes: &[NodeId], now: At, fact: &mut Fact) -> Move {
        let tried = errand.tried + 1;
        self.place = errand.place + 1;
        let passes = if errand.wish == Wish::Deregister { 2 } else { 1 };
        if tried < passes * nodes.len() {
            self.errand = Some(Errand { place: self.place, tried, ..errand });
            return self.send(nodes, now, fact);
        }
        self.errand = None;
        match errand.wish {
            Wish::Register => {
                // The application tries again; beats go on only where it was registered before.
                self.is_registered = false;
                self.next_beat = NEVER;
                (self.change, self.change_at) = (Some(Change::Return), now + SECOND);
            }
            Wish::Deregister => fact.turn(Will::Unsure, now),
            Wish::Beat | Wish::Update => {}
        }
        Move::TurnAt(self.next_turn())
    }
}

/// Spreads instances over services: some have many, some have one.
pub fn fleet(services: usize, instances: usize, random: &mut Random) -> Fleet {
    let names = (0..services).map(|number| format!("DEFAULT_GROUP@@service-{number}")).collect();
    let specs = (0..instances).map(|instance| {
        let service =
            if instance < services { instance } else { random.index(services).min(random.index(services)) };
        let (interval_ms, unhealthy_ms, delete_ms) = match random.below(20) {
            0 => (1_000, 4_000, 8_000),
            1 => (5_000, 30_000, 60_000),
            2 => (8_000, 20_000, 35_000),
            _ => (5_000, 15_000, 30_000),
        };
        let ip = format!("10.1.{}.{}", instance / 200, instance % 200 + 1);
        let full_beats = random.chance(400);
        Spec { service, ip, port: Fleet::port(instance), interval_ms, unhealthy_ms, delete_ms, full_beats }
    });
    let specs = specs.collect();
    Fleet { services: names, specs }
}
