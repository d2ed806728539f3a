//! The machine that a simulated node runs on: its process, its clocks, and what waits for it.

use std::collections::VecDeque;

use nacre::base::clock::{Millis, Reading};

use super::{
    random::Random,
    reach::Pulse,
    seam::{At, CallFault, ClientRequest, MS, NEVER, NodeId, SimNode, Ticket},
};

/// Milliseconds since 1970 at the beginning of the world.
const BEGINNING_WALL_MS: u64 = 1_795_982_718_087;

/// A request that has arrived.
pub enum Waiting<N: SimNode> {
    /// Of a client.
    Client(Ticket, ClientRequest),
    /// Of a node.
    Node(NodeId, Ticket, N::Call),
}

impl<N: SimNode> Waiting<N> {
    /// Who waits.
    pub fn ticket(&self) -> Ticket {
        match self {
            Self::Client(ticket, _) | Self::Node(_, ticket, _) => *ticket,
        }
    }

    /// The client's request that it is or carries.
    pub fn about(&self) -> Option<ClientRequest> {
        match self {
            Self::Client(_, request) => Some(*request),
            Self::Node(_, _, call) => N::carried(call),
        }
    }
}

/// One machine.
pub struct Host<N: SimNode> {
    /// The process.
    pub node: Option<N>,
    /// How often it was started or ended.
    pub life: u32,
    /// It stands still.
    pub is_frozen: bool,
    /// It was told to leave.
    pub is_leaving: bool,
    /// Started again so long after it has left.
    pub again_after: Option<At>,
    /// It served when last looked at.
    pub serves: bool,
    /// The view when last looked at.
    pub view: u64,
    /// The list that it has read.
    pub members: Vec<NodeId>,
    /// Milliseconds that its wall clock is off.
    pub skew_ms: i64,
    /// The same as its process has read it at its start.
    pub clock_ms: i64,
    /// Requests that wait while it stands still.
    pub backlog: VecDeque<Waiting<N>>,
    /// Answers that do.
    pub unheard: Vec<(u64, Result<N::Answer, CallFault>)>,
    /// Requests that it has, without an answer yet.
    pub open: Vec<Ticket>,
    /// Its own calls.
    pub pending: Vec<u64>,
    /// When it is woken next.
    pub wake_at: At,
    started: At,
    monotonic_ms: u64,
}

impl<N: SimNode> Host<N> {
    /// A machine without a process.
    pub fn new(random: &mut Random) -> Self {
        let skew_ms = i64::try_from(random.below(400)).unwrap_or(0) - 200;
        Self {
            node: None,
            life: 0,
            is_frozen: false,
            is_leaving: false,
            again_after: None,
            serves: false,
            view: u64::MAX,
            members: Vec::new(),
            skew_ms,
            clock_ms: skew_ms,
            backlog: VecDeque::new(),
            unheard: Vec::new(),
            open: Vec::new(),
            pending: Vec::new(),
            wake_at: NEVER,
            started: 0,
            monotonic_ms: 0,
        }
    }

    /// A process begins; its monotonic clock starts anywhere.
    pub fn begin(&mut self, now: At, random: &mut Random) {
        self.life += 1;
        self.started = now;
        self.monotonic_ms = (1 << 40) + random.below(1 << 20);
        self.wake_at = NEVER;
        self.view = u64::MAX;
        self.serves = false;
        self.is_leaving = false;
    }

    /// The process is gone; tells whose requests it had.
    pub fn end(&mut self) -> Vec<Ticket> {
        self.node = None;
        self.life += 1;
        self.is_frozen = false;
        self.serves = false;
        self.pending.clear();
        self.unheard.clear();
        let mut broken = std::mem::take(&mut self.open);
        broken.extend(self.backlog.drain(..).map(|waiting| waiting.ticket()));
        broken
    }

    /// It has answered this.
    pub fn answered(&mut self, ticket: Ticket) {
        if let Some(place) = self.open.iter().position(|open| *open == ticket) {
            self.open.swap_remove(place);
        }
    }

    /// What its clocks show.
    pub fn reading(&self, now: At) -> Reading {
        let wall_ms = (BEGINNING_WALL_MS + now / MS).saturating_add_signed(self.skew_ms);
        Reading { now: Millis(self.monotonic_ms + (now - self.started) / MS), wall_ms }
    }

    /// The moment when its monotonic clock shows this.
    pub fn at(&self, moment: Millis) -> At {
        self.started + moment.0.saturating_sub(self.monotonic_ms) * MS
    }

    /// Whether it lives.
    pub fn pulse(&self) -> Pulse {
        let is_awake = self.node.is_some() && !self.is_frozen;
        Pulse { is_awake, serves: self.serves }
    }
}
