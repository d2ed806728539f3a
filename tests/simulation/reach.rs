//! Since when which nodes can hear of each other: what the promises to hold are measured against.

use super::{
    network::Network,
    seam::{At, NEVER, NodeId},
};

/// What is known of a node's process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pulse {
    /// There is a process, and it doesn't stand still.
    pub is_awake: bool,
    /// It answers clients.
    pub serves: bool,
}

/// Since when pairs of nodes have been on such terms; [`NEVER`] where they aren't.
#[derive(Debug)]
pub struct Reach {
    nodes: usize,
    /// Links alone: all calls pass both ways in time.
    links_clear: Vec<At>,
    /// Both serve and the links are clear.
    clear: Vec<At>,
    /// Both serve and calls pass both ways, perhaps slowly, perhaps not all.
    passable: Vec<At>,
    /// The first can't reach the second by any call.
    dark: Vec<At>,
    /// Serves and doesn't stand still.
    serving: Vec<At>,
    /// Runs and doesn't stand still.
    awake: Vec<At>,
}

fn note(since: &mut At, holds: bool, now: At) {
    if !holds {
        *since = NEVER;
    } else if *since == NEVER {
        *since = now;
    }
}

impl Reach {
    /// Nobody hears of anybody.
    pub fn new(nodes: usize) -> Self {
        let pairs = vec![NEVER; nodes * nodes];
        let each = vec![NEVER; nodes];
        Self {
            nodes,
            links_clear: pairs.clone(),
            clear: pairs.clone(),
            passable: pairs.clone(),
            dark: pairs,
            serving: each.clone(),
            awake: each,
        }
    }

    /// Something about links or processes may have changed.
    pub fn refresh(&mut self, now: At, network: &Network, pulses: &[Pulse]) {
        for (node, pulse) in pulses.iter().enumerate() {
            note(&mut self.serving[node], pulse.serves && pulse.is_awake, now);
            note(&mut self.awake[node], pulse.is_awake, now);
        }
        for one in 0..self.nodes {
            for other in 0..self.nodes {
                let pair = one * self.nodes + other;
                let serve = self.serving[one] != NEVER && self.serving[other] != NEVER;
                let is_clear = one == other || network.is_clear(one, other);
                let is_passable = one == other || network.is_passable(one, other);
                note(&mut self.links_clear[pair], is_clear, now);
                note(&mut self.clear[pair], serve && is_clear, now);
                note(&mut self.passable[pair], serve && is_passable, now);
                let is_dark = self.awake[other] == NEVER || (one != other && network.is_dark(one, other));
                note(&mut self.dark[pair], is_dark, now);
            }
        }
    }

    /// Since when the links between the two are clear, whatever their processes do.
    pub fn links_clear(&self, one: NodeId, other: NodeId) -> At {
        self.links_clear[one * self.nodes + other]
    }

    /// Since when the two serve and hear each other at once.
    pub fn clear(&self, one: NodeId, other: NodeId) -> At {
        self.clear[one * self.nodes + other]
    }

    /// Since when the two serve and hear each other somehow.
    pub fn passable(&self, one: NodeId, other: NodeId) -> At {
        self.passable[one * self.nodes + other]
    }

    /// Since when the first can't reach the second.
    pub fn dark(&self, one: NodeId, other: NodeId) -> At {
        self.dark[one * self.nodes + other]
    }

    /// Since when a node serves.
    pub fn serving(&self, node: NodeId) -> At {
        self.serving[node]
    }

    /// Since when it runs and doesn't stand still.
    pub fn awake(&self, node: NodeId) -> At {
        self.awake[node]
    }
}
