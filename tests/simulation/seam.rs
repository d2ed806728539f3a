//! The seam between the world and the nodes that it drives.
//!
//! A node owns no clock, socket or task: it is told what arrived and what time it is, and leaves in an [`Outbox`] what
//! it wants sent. Time in the world is in microseconds since its beginning; a node sees its own clocks.

use std::{fmt::Debug, sync::Arc};

use nacre::base::clock::{Millis, Reading};

/// Microseconds since the beginning of the world.
pub type At = u64;
/// Microseconds of one millisecond.
pub const MS: At = 1_000;
/// Microseconds of one second.
pub const SECOND: At = 1_000_000;
/// Later than everything that happens.
pub const NEVER: At = At::MAX;

/// Which node.
pub type NodeId = usize;

/// One of the instances that clients register; the same number for every life of it.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Index of its service.
    pub service: usize,
    /// Its address.
    pub ip: String,
    /// Its port; tells which instance it is ([`Fleet::of_port`]).
    pub port: i32,
    /// What its client leaves between beats, in milliseconds.
    pub interval_ms: u64,
    /// Silence after which it is unhealthy.
    pub unhealthy_ms: u64,
    /// Silence after which it is removed.
    pub delete_ms: u64,
    /// Its client sends full beats, which register what is unknown; all others send light ones.
    pub full_beats: bool,
}

/// All services and instances of a world.
#[derive(Debug)]
pub struct Fleet {
    /// Grouped names.
    pub services: Vec<String>,
    /// By number of the instance.
    pub specs: Vec<Spec>,
}

/// The port of instance 0.
const FIRST_PORT: i32 = 1_000;

impl Fleet {
    /// The port of an instance.
    pub fn port(instance: usize) -> i32 {
        FIRST_PORT + i32::try_from(instance).unwrap()
    }

    /// The instance with this port.
    pub fn of_port(port: i32) -> usize {
        usize::try_from(port - FIRST_PORT).unwrap()
    }

    /// The service of this name.
    pub fn service(&self, name: &str) -> usize {
        self.services.iter().position(|known| known == name).unwrap()
    }
}

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// POST instance.
    Register,
    /// PUT beat.
    Beat,
    /// PUT instance.
    Update,
    /// DELETE instance.
    Deregister,
}

/// A client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientRequest {
    /// About which instance.
    pub instance: usize,
    /// What.
    pub wish: Wish,
    /// The version in the instance's metadata; grows with every life and update.
    pub version: u32,
    /// The instance's weight.
    pub weight: u32,
}

/// What a client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAnswer {
    /// 200; the node that applied it, which only the simulation knows.
    Done(NodeId),
    /// 200 with the code 20404: register again.
    Unknown,
    /// Any other status; the client asks the next node.
    Refused,
}

/// Why a call has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFault {
    /// Nobody listens there.
    Refused,
    /// Reset or closed before a byte of the answer; the request may have been carried out.
    Closed,
    /// No answer within the limit.
    TimedOut,
}

/// Who waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ticket {
    /// A client; answers to former attempts are too late.
    Client {
        /// Which.
        client: usize,
        /// Its attempt.
        attempt: u32,
    },
    /// A node.
    Node {
        /// Which.
        node: NodeId,
        /// How often it had been started.
        life: u32,
        /// Its number for the call.
        call: u64,
    },
}

/// A call that a node wants made.
#[derive(Debug)]
pub struct Outgoing<C> {
    /// The node's number for it, unique in its life.
    pub id: u64,
    /// To whom.
    pub to: NodeId,
    /// What.
    pub call: C,
    /// Milliseconds until it counts as unanswered.
    pub limit_ms: u64,
}

/// What a node wants sent.
#[derive(Debug)]
pub struct Outbox<C, A> {
    /// Calls to other nodes.
    pub calls: Vec<Outgoing<C>>,
    /// Answers to other nodes.
    pub answers: Vec<(Ticket, A)>,
    /// Answers to clients.
    pub told: Vec<(Ticket, ClientAnswer)>,
}

impl<C, A> Default for Outbox<C, A> {
    fn default() -> Self {
        Self { calls: Vec::new(), answers: Vec::new(), told: Vec::new() }
    }
}

/// What a node is started with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Which node it is.
    pub node: NodeId,
    /// Random bits of its own.
    pub seed: u64,
    /// All services and instances.
    pub fleet: Arc<Fleet>,
    /// The listed members, itself included.
    pub members: Vec<NodeId>,
}

/// An instance as a node's list shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen {
    /// Which.
    pub instance: usize,
    /// The version in its metadata.
    pub version: u32,
    /// Its weight.
    pub weight: u32,
    /// Its health.
    pub healthy: bool,
}

/// How much a node keeps beside the instances.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    /// Tombstones.
    pub tombstones: usize,
    /// The oldest tombstone's age in milliseconds.
    pub oldest_tombstone_ms: u64,
    /// Things to be sent, all peers together.
    pub tasks: usize,
    /// Calls and questions under way, and whatever else a core keeps.
    pub others: usize,
}

/// A node under simulation.
pub trait SimNode: Sized {
    /// What one node asks of another.
    type Call: Clone + Debug;
    /// What it is answered.
    type Answer: Clone + Debug;

    /// A process that has just been started.
    fn start(setup: Setup, at: Reading) -> Self;
    /// A client's request arrived.
    fn asked(&mut self, at: Reading, ticket: Ticket, request: ClientRequest, out: &mut OutboxOf<Self>);
    /// A call of another node arrived.
    fn called(
        &mut self,
        at: Reading,
        from: NodeId,
        ticket: Ticket,
        call: Self::Call,
        out: &mut OutboxOf<Self>,
    );
    /// A call of its own has ended.
    fn answered(
        &mut self,
        at: Reading,
        id: u64,
        outcome: Result<Self::Answer, CallFault>,
        out: &mut OutboxOf<Self>,
    );
    /// The moment that it asked for has come.
    fn wake(&mut self, at: Reading, out: &mut OutboxOf<Self>);
    /// When it wants to be woken, on its own monotonic clock.
    fn next_wake(&self) -> Option<Millis>;
    /// It has read another list of members.
    fn listed(&mut self, at: Reading, members: &[NodeId], out: &mut OutboxOf<Self>);
    /// It is told to end in order.
    fn leave(&mut self, at: Reading, out: &mut OutboxOf<Self>);
    /// Nothing is left to do before its end.
    fn has_left(&self) -> bool;

    /// Whether it answers clients.
    fn serves(&self) -> bool;
    /// Counts the changes of what it holds for true about the cluster.
    fn view_number(&self) -> u64;
    /// Whom it calls an owner; itself included where it is one.
    fn ring(&self) -> Vec<NodeId>;
    /// Who it thinks owns a service.
    fn owner(&self, service: usize) -> Option<NodeId>;
    /// Takes the services whose lists may have changed since it was last asked.
    fn take_changed(&mut self, changed: &mut Vec<usize>);
    /// The list of a service, sorted by instance.
    fn list(&self, service: usize, list: &mut Vec<Seen>);
    /// By how many milliseconds what it writes is stamped ahead of its process's clock.
    fn stamps_ahead_ms(&self, _: Reading) -> i64 {
        0
    }
    /// Whether it answers clients while it compares its data, since it stood still.
    fn compares(&self) -> bool {
        false
    }
    /// What it keeps.
    fn sizes(&self, at: Reading) -> Sizes;
    /// The client's request that a call carries, if it does.
    fn carried(call: &Self::Call) -> Option<ClientRequest>;
    /// A call in a few words, for the history.
    fn describe(call: &Self::Call, fleet: &Fleet) -> String {
        let _ = fleet;
        let mut text = format!("{call:?}");
        text.truncate(200);
        text
    }
    /// Whether a call that is about no service is told in the history.
    fn is_rare(_: &Self::Call) -> bool {
        false
    }
    /// The services that a call is about, for the history.
    fn concerns(call: &Self::Call, fleet: &Fleet) -> Vec<usize>;
}

/// The outbox of a kind of node.
pub type OutboxOf<N> = Outbox<<N as SimNode>::Call, <N as SimNode>::Answer>;
