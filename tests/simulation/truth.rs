//! What is true of every instance, whatever any node thinks: what its client wanted, sent and was told.

use std::collections::{BTreeMap, VecDeque};

use super::seam::{At, Fleet, NEVER, NodeId, SECOND, Spec};

/// A register, beat or update that was answered well.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// When the client had the answer.
    pub at: At,
    /// The node that the client asked.
    pub via: NodeId,
    /// The node that applied it.
    pub by: NodeId,
}

/// How the client stands to its instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Will {
    /// It was never there.
    Unborn,
    /// The client wants it to be there.
    Wanted,
    /// It has asked for its removal, and has no answer yet.
    Leaving,
    /// It has asked for its removal and that was acknowledged then, applied by that node.
    Left(At, NodeId),
    /// It asked for its removal without success and doesn't ask again; whether it was removed is unknown.
    Unsure,
    /// The client vanished without a word.
    Dead,
}

/// Of one instance.
#[derive(Clone, Debug)]
pub struct Fact {
    /// How its client stands to it.
    pub will: Will,
    /// Since when.
    pub since: At,
    /// The last few acknowledgements of this life, oldest first.
    pub acks: VecDeque<Ack>,
    /// When a node last got a request about it, from the client or from another node that passed it on.
    pub last_word: At,
    /// When the client last sent what could bring it into being.
    pub last_birth: At,
    /// Acknowledged since then, in this life.
    pub born: At,
    /// The version that the client asked for last.
    pub version: u32,
    /// The first version of this life.
    pub first_version: u32,
    /// The version that was last acknowledged, when it was asked for, and by whom it was applied.
    pub acked: (u32, At, NodeId),
    /// When each node last got a request to write, as [`Fact::last_word`].
    pub asked: BTreeMap<NodeId, At>,
    /// The last two writes that were acknowledged, older first.
    pub writes: [Write; 2],
}

/// A write that was acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Write {
    /// The node that did it.
    pub by: NodeId,
    /// When that got the request: it was done then or later.
    pub asked: At,
    /// When the client had the answer: it was done before.
    pub acked: At,
}

impl Default for Fact {
    fn default() -> Self {
        Self {
            will: Will::Unborn,
            since: 0,
            acks: VecDeque::new(),
            last_word: 0,
            last_birth: 0,
            born: NEVER,
            version: 0,
            first_version: 0,
            acked: (0, 0, 0),
            asked: BTreeMap::new(),
            writes: [Write::default(); 2],
        }
    }
}

impl Fact {
    /// The client is of another mind from now on.
    pub fn turn(&mut self, will: Will, now: At) {
        self.will = will;
        self.since = now;
        if will == Will::Wanted {
            self.first_version = self.version + 1;
            self.acks.clear();
            self.born = NEVER;
        }
    }

    /// Notes that a node has acknowledged a write.
    pub fn written(&mut self, now: At, by: NodeId) {
        let asked = self.asked.get(&by).copied().unwrap_or(now);
        self.writes = [self.writes[1], Write { by, asked, acked: now }];
    }

    /// Notes an acknowledgement.
    pub fn acknowledge(&mut self, ack: Ack) {
        if self.born == NEVER {
            self.born = ack.at;
        }
        if self.acks.len() == 64 {
            self.acks.pop_front();
        }
        self.acks.push_back(ack);
    }

    /// Nobody wants it there, whatever became of the request to remove it.
    pub fn is_unwanted(&self) -> bool {
        matches!(self.will, Will::Left(..) | Will::Unsure | Will::Dead)
    }

    /// From when on it counts as silent: the client's last word, and nothing of it under way any more.
    pub fn silent_since(&self) -> At {
        self.since.max(self.last_word)
    }

    /// Whether the client has beaten without a gap for `span` until now, as far as its acknowledgements `count`.
    pub fn has_beaten(&self, spec: &Spec, span: At, now: At, count: impl Fn(&Ack) -> bool) -> bool {
        if self.will != Will::Wanted || self.born == NEVER {
            return false;
        }
        let gap = longest_gap(spec);
        let mut until = now;
        for ack in self.acks.iter().rev().filter(|ack| count(ack)) {
            if until - ack.at > gap {
                return false;
            }
            until = ack.at;
            if now - until >= span {
                return true;
            }
        }
        // All of its life is shorter than the span.
        until == self.born
    }
}

/// The longest time between two acknowledged beats of a client that still counts as beating.
pub fn longest_gap(spec: &Spec) -> At {
    (2 * spec.interval_ms * 1_000 + 3 * SECOND).min(spec.delete_ms * 1_000 * 4 / 5)
}

/// Of all instances.
#[derive(Debug)]
pub struct Truth {
    /// By number of the instance.
    pub facts: Vec<Fact>,
}

impl Truth {
    /// Nothing has happened.
    pub fn new(fleet: &Fleet) -> Self {
        Self { facts: vec![Fact::default(); fleet.specs.len()] }
    }
}
