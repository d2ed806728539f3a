//! What is true of every instance, whatever any node thinks: what its client wanted, sent and was told.

use std::collections::VecDeque;

use super::seam::{At, ClientRequest, Fleet, NEVER, NodeId, SECOND, Spec, Wish};

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
    /// Writes that nodes were asked for, those asked last at the end; one for each node, wish and version.
    pub asked: Vec<Write>,
    /// The last write that was acknowledged.
    pub written: Option<Write>,
}

/// A write that a node was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    /// The node.
    pub by: NodeId,
    /// What for.
    pub wish: Wish,
    /// Of this version.
    pub version: u32,
    /// When it got the request last, as [`Fact::last_word`]: it was done then or later, if at all.
    pub asked: At,
    /// When it was done at the latest.
    pub done: At,
    /// By how many milliseconds the node's stamps were off then, at least.
    pub clock_ms: i64,
    /// The client was told that it was done.
    pub is_acked: bool,
}

/// Writes that are remembered of an instance.
const MOST_ASKED: usize = 48;
/// So long a node waits for another that it asked to do a write, before it does that itself or refuses it.
const STANDS_IN: At = 2 * SECOND;

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
            asked: Vec::new(),
            written: None,
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

    /// Notes that a node was asked for what may write.
    pub fn ask(&mut self, now: At, (by, clock_ms): (NodeId, i64), request: ClientRequest) {
        let ClientRequest { wish, version, .. } = request;
        self.asked.retain(|write| (write.by, write.wish, write.version) != (by, wish, version));
        if self.asked.len() == MOST_ASKED {
            self.asked.remove(0);
        }
        self.asked.push(Write {
            by,
            wish,
            version,
            asked: now,
            done: now + STANDS_IN,
            clock_ms,
            is_acked: false,
        });
    }

    /// Notes that the client has been told by `via` that a write was done by `by`.
    pub fn wrote(&mut self, now: At, via: NodeId, by: NodeId, (wish, version): (Wish, u32)) {
        // Who passed it on hasn't done it.
        self.asked.retain(|write| via == by || (write.by, write.wish, write.version) != (via, wish, version));
        let mut asked = self.asked.iter_mut().rev();
        let known = asked.find(|write| (write.by, write.wish, write.version) == (by, wish, version));
        let written = match known {
            Some(write) => {
                write.done = write.done.min(now);
                write.is_acked = true;
                *write
            }
            None => Write { by, wish, version, asked: now, done: now, clock_ms: 0, is_acked: true },
        };
        if wish != Wish::Beat {
            self.written = Some(written);
        }
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
