//! What goes wrong in a run: drawn from the seed, healed at the end.

use super::{
    network::CLIENT_GROUPS,
    random::Random,
    seam::{At, MS, NodeId, SECOND},
};

/// Kinds of faults, as the coverage counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// kill -9; back after a while.
    Crash,
    /// kill -9; back within a second or two.
    Restart,
    /// Leaves in order, comes back.
    OrderlyRestart,
    /// All nodes are killed, all come back.
    RestartAll,
    /// Stands still as by SIGSTOP.
    Freeze,
    /// The wall clock jumps.
    Skew,
    /// A node is added to the list and started.
    Join,
    /// Leaves in order, then it is taken from the list.
    Leave,
    /// Taken from the list while it runs, and back later.
    Remove,
    /// Owners move to and fro: a node is taken from the list and put back within seconds.
    Flicker,
    /// Calls pass in one direction only; answers pass.
    Wall,
    /// Nothing passes in one direction.
    OneWay,
    /// Nothing passes between two.
    Pair,
    /// Two groups that don't hear of each other.
    Partition,
    /// A link takes tenths of a second.
    Slow,
    /// A link takes a second or more.
    Crawl,
    /// All that a node sends crawls.
    SlowNode,
    /// A link loses.
    Lossy,
    /// A link carries calls twice.
    Doubling,
    /// All links change the order.
    Shuffling,
    /// Some clients can't reach a node.
    ClientCut,
}

/// All kinds.
pub const KINDS: [Kind; 21] = [
    Kind::Crash,
    Kind::Restart,
    Kind::OrderlyRestart,
    Kind::RestartAll,
    Kind::Freeze,
    Kind::Skew,
    Kind::Join,
    Kind::Leave,
    Kind::Remove,
    Kind::Flicker,
    Kind::Wall,
    Kind::OneWay,
    Kind::Pair,
    Kind::Partition,
    Kind::Slow,
    Kind::Crawl,
    Kind::SlowNode,
    Kind::Lossy,
    Kind::Doubling,
    Kind::Shuffling,
    Kind::ClientCut,
];

/// One change of the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// The process is gone, its connections break.
    Stop(NodeId),
    /// The process is started, with the list as it is then.
    Start(NodeId),
    /// It stands still.
    Freeze(NodeId),
    /// It goes on.
    Thaw(NodeId),
    /// Its wall clock is so many milliseconds off from now on.
    Skew(NodeId, i64),
    /// The list that every node reads within two seconds.
    List(Vec<NodeId>),
    /// It is told to leave, ends, and is started again after so long where that is said.
    Leave(NodeId, Option<At>),
    /// A link gets worse.
    Worsen(usize, usize, Trouble),
    /// And better.
    Better(usize, usize, Trouble),
}

/// What ails a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No calls.
    Wall,
    /// Nothing at all.
    Cut,
    /// So much longer.
    Slow(At),
    /// Lost out of 1,000.
    Lost(u64),
    /// Doubled out of 1,000.
    Doubled(u64),
    /// Up to so much longer.
    Shuffled(At),
}

/// A change and its moment.
#[derive(Clone, Debug)]
pub struct Step {
    /// When.
    pub at: At,
    /// What.
    pub act: Act,
    /// As part of which fault; nothing for its end.
    pub kind: Option<Kind>,
}

/// How a run is laid out.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Nodes listed at first.
    pub listed: usize,
    /// Nodes altogether.
    pub nodes: usize,
    /// Faults begin here.
    pub from: At,
    /// All faults have ended here.
    pub healed: At,
    /// The run ends here.
    pub end: At,
    /// Faults at a time.
    pub at_once: usize,
    /// Those that may be drawn.
    pub kinds: Vec<Kind>,
}

impl Plan {
    /// The plan of a seed.
    pub fn of_seed(seed: u64) -> Self {
        let mut random = Random::new(seed, 1);
        let listed = *random.pick(&[5, 5, 5, 6, 7]);
        let at_once = *random.pick(&[0, 1, 1, 1, 1, 2, 2, 2, 3, 4]);
        let healed = random.between(60, 80) * SECOND;
        // Some runs know few kinds, so that these meet each other more often.
        let mut kinds = KINDS.to_vec();
        if random.chance(500) {
            random.shuffle(&mut kinds);
            kinds.truncate(usize::try_from(random.between(1, 5)).unwrap());
        }
        Self {
            listed,
            nodes: listed + 2,
            from: 20 * SECOND,
            healed,
            end: healed + 50 * SECOND,
            at_once,
            kinds,
        }
    }
}

/// Draws the steps of a run.
#[derive(Debug)]
pub struct Script {
    random: Random,
    plan: Plan,
    /// Until when something is being done to a node's process.
    busy: Vec<At>,
    /// Who is listed from the last step on that changes it.
    members: Vec<NodeId>,
    /// Until when the list is being changed.
    list_busy: At,
    steps: Vec<Step>,
    troubles: Vec<(At, At)>,
}

impl Script {
    /// All steps in order of time, and from when until when faults last.
    pub fn steps(plan: &Plan, random: Random) -> (Vec<Step>, Vec<(At, At)>) {
        let mut script = Self {
            random,
            plan: plan.clone(),
            busy: vec![0; plan.nodes],
            members: (0..plan.listed).collect(),
            list_busy: 0,
            steps: Vec::new(),
            troubles: Vec::new(),
        };
        for _ in 0..plan.at_once {
            let mut at = plan.from + script.random.below(5 * SECOND);
            while at < plan.healed - 3 * SECOND {
                let kind = *script.random.pick(&plan.kinds);
                let end = script.fault(kind, at);
                // A clock that jumps is no reason for anything.
                if let Some(end) = end.filter(|_| kind != Kind::Skew) {
                    script.troubles.push((at, end));
                }
                let pause = if script.random.chance(300) { 8 * SECOND } else { SECOND };
                at = end.unwrap_or(at) + script.random.between(100 * MS, pause);
            }
        }
        let mut steps = script.steps;
        steps.sort_by_key(|step| step.at);
        (steps, script.troubles)
    }

    fn put(&mut self, at: At, act: Act, kind: Option<Kind>) {
        self.steps.push(Step { at: at.min(self.plan.healed), act, kind });
    }

    fn span(&mut self, least: At, most: At) -> At {
        // Short ones more often than long ones.
        if self.random.chance(400) {
            self.random.between(least, least + (most - least) / 4)
        } else {
            self.random.between(least, most)
        }
    }

    /// A listed node whose process nobody touches at that time.
    fn idle(&mut self, at: At) -> Option<NodeId> {
        let idle: Vec<_> = self.members.iter().copied().filter(|&node| self.busy[node] <= at).collect();
        // The last one is left alone.
        (idle.len() > 1).then(|| *self.random.pick(&idle))
    }

    /// Puts a fault's steps; tells when it ends, or nothing where it can't be now.
    fn fault(&mut self, kind: Kind, at: At) -> Option<At> {
        let some = Some(kind);
        match kind {
            Kind::Crash | Kind::Restart => {
                let node = self.idle(at)?;
                let down = if kind == Kind::Crash {
                    self.span(SECOND, 40 * SECOND)
                } else {
                    self.span(50 * MS, 2 * SECOND)
                };
                let end = (at + down).min(self.plan.healed);
                self.busy[node] = end;
                self.put(at, Act::Stop(node), some);
                self.put(end, Act::Start(node), None);
                Some(end)
            }
            Kind::RestartAll => {
                // Rare, since it leaves nothing to be lost.
                if !self.random.chance(100) || self.busy.iter().any(|&busy| busy > at) {
                    return None;
                }
                let mut end = at;
                for node in self.members.clone() {
                    let stop = at + self.random.below(SECOND);
                    let start = stop + self.span(100 * MS, 5 * SECOND);
                    self.busy[node] = start;
                    self.put(stop, Act::Stop(node), some);
                    self.put(start, Act::Start(node), None);
                    end = end.max(start);
                }
                Some(end)
            }
            Kind::Freeze => {
                let node = self.idle(at)?;
                let end = (at + self.span(300 * MS, 30 * SECOND)).min(self.plan.healed);
                self.busy[node] = end;
                self.put(at, Act::Freeze(node), some);
                self.put(end, Act::Thaw(node), None);
                Some(end)
            }
            Kind::Skew => {
                let node = self.random.index(self.plan.nodes);
                let reach = *self.random.pick(&[200, 5_000, 90_000, 3_600_000]);
                let off =
                    i64::try_from(self.random.below(2 * reach)).unwrap() - i64::try_from(reach).unwrap();
                self.put(at, Act::Skew(node, off), some);
                Some(at)
            }
            Kind::OrderlyRestart => {
                let node = self.idle(at)?;
                let down = self.span(100 * MS, 10 * SECOND);
                let end = at + 12 * SECOND + down;
                if end > self.plan.healed {
                    return None;
                }
                self.busy[node] = end;
                self.put(at, Act::Leave(node, Some(down)), some);
                Some(end)
            }
            Kind::Join | Kind::Leave | Kind::Remove | Kind::Flicker => self.membership(kind, at),
            _ => self.link_fault(kind, at),
        }
    }

    fn membership(&mut self, kind: Kind, at: At) -> Option<At> {
        let some = Some(kind);
        if self.list_busy > at {
            return None;
        }
        match kind {
            Kind::Join => {
                let outside = |node: &NodeId| !self.members.contains(node) && self.busy[*node] <= at;
                let outside: Vec<_> = (0..self.plan.nodes).filter(outside).collect();
                if outside.is_empty() || self.plan.healed - at < 4 * SECOND {
                    return None;
                }
                let node = *self.random.pick(&outside);
                self.members.push(node);
                self.members.sort_unstable();
                self.put(at, Act::List(self.members.clone()), some);
                let start = at + self.random.below(3 * SECOND);
                self.busy[node] = start;
                self.list_busy = start;
                self.put(start, Act::Start(node), None);
                Some(start)
            }
            Kind::Leave => {
                if self.members.len() <= 3 || self.plan.healed - at < 15 * SECOND {
                    return None;
                }
                let node = self.idle(at)?;
                self.members.retain(|&member| member != node);
                let end = at + 13 * SECOND;
                self.busy[node] = end;
                self.list_busy = end;
                self.put(at, Act::Leave(node, None), some);
                self.put(at + 11 * SECOND, Act::List(self.members.clone()), None);
                Some(end)
            }
            _ => {
                if self.members.len() <= 3 {
                    return None;
                }
                let node = self.idle(at)?;
                let longest = if kind == Kind::Remove { 25 * SECOND } else { 4 * SECOND };
                let end = (at + self.span(500 * MS, longest)).min(self.plan.healed);
                let without = self.members.iter().copied().filter(|&member| member != node).collect();
                self.busy[node] = end;
                self.list_busy = end;
                self.put(at, Act::List(without), some);
                self.put(end, Act::List(self.members.clone()), None);
                Some(end)
            }
        }
    }

    fn link_fault(&mut self, kind: Kind, at: At) -> Option<At> {
        let end = (at + self.span(500 * MS, 35 * SECOND)).min(self.plan.healed);
        let nodes = self.plan.nodes;
        let (one, other) = (*self.random.pick(&self.members), *self.random.pick(&self.members));
        if one == other {
            return None;
        }
        let mut links = Vec::new();
        match kind {
            Kind::Wall => links.push((one, other, Trouble::Wall)),
            Kind::OneWay => links.push((one, other, Trouble::Cut)),
            Kind::Pair => {
                links.push((one, other, Trouble::Cut));
                links.push((other, one, Trouble::Cut));
            }
            Kind::Partition => {
                let side: Vec<bool> = (0..nodes).map(|_| self.random.chance(400)).collect();
                for from in 0..nodes {
                    for to in (0..nodes).filter(|&to| side[to] != side[from]) {
                        links.push((from, to, Trouble::Cut));
                    }
                }
            }
            Kind::Slow => {
                links.push((one, other, Trouble::Slow(self.random.between(30 * MS, 400 * MS))));
            }
            Kind::Crawl => {
                links.push((one, other, Trouble::Slow(self.random.between(500 * MS, 1_700 * MS))));
            }
            Kind::SlowNode => {
                let slow = Trouble::Slow(self.random.between(300 * MS, 1_700 * MS));
                links.extend((0..nodes).filter(|&to| to != one).map(|to| (one, to, slow)));
                links.extend((nodes..nodes + CLIENT_GROUPS).map(|to| (one, to, slow)));
            }
            Kind::Lossy => {
                let lost = Trouble::Lost(self.random.between(50, 600));
                links.push((one, other, lost));
                if self.random.chance(500) {
                    links.push((other, one, lost));
                }
            }
            Kind::Doubling => {
                let doubled = Trouble::Doubled(self.random.between(100, 600));
                links.extend((0..nodes).map(|to| (one, to, doubled)));
            }
            Kind::Shuffling => {
                let shuffled = Trouble::Shuffled(self.random.between(5 * MS, 60 * MS));
                for from in 0..nodes {
                    links.extend((0..nodes).map(|to| (from, to, shuffled)));
                }
            }
            Kind::ClientCut => {
                let group = nodes + self.random.index(CLIENT_GROUPS);
                links.push((group, one, Trouble::Cut));
            }
            _ => return None,
        }
        let mut kind = Some(kind);
        for (from, to, trouble) in links {
            self.put(at, Act::Worsen(from, to, trouble), kind.take());
            self.put(end, Act::Better(from, to, trouble), None);
        }
        Some(end)
    }
}

#[test]
fn every_fault_has_healed_at_the_end() {
    for seed in 0..300 {
        let plan = Plan::of_seed(seed);
        let (steps, _) = Script::steps(&plan, Random::new(seed, 2));
        let (mut stopped, mut frozen, mut links) = (vec![false; plan.nodes], vec![0; plan.nodes], 0);
        for step in &steps {
            assert!(step.at <= plan.healed);
            match &step.act {
                Act::Stop(node) => stopped[*node] = true,
                Act::Start(node) => stopped[*node] = false,
                Act::Freeze(node) => frozen[*node] += 1,
                Act::Thaw(node) => frozen[*node] -= 1,
                Act::Worsen(..) => links += 1,
                Act::Better(..) => links -= 1,
                Act::Skew(..) | Act::List(_) | Act::Leave(..) => {}
            }
        }
        assert!(frozen.iter().all(|&count| count == 0) && links == 0);
        assert!(!stopped.contains(&true), "{seed}: {stopped:?}");
    }
}
