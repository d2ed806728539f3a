//! What must hold, always: the judge sees every list of every node after each event that may have changed it.
//!
//! Terms. A node *shows* an instance while it serves and its list holds it. Two nodes *hear* each other while both serve
//! and calls pass in both directions. An instance *beats for* a node while its client wants it, and has had beats
//! acknowledged without a longer gap than [`longest_gap`](super::truth::longest_gap), by nodes that the node hears.
//!
//! - `missing`: what a node shows and what beats for it stays shown.
//! - `incomplete start`: a node that begins to serve shows what a node has shown that it heard since its start.
//! - `late`: 2 s after its registration every node shows it; during faults, a node that has heard the owner for 10 s
//!   shows what the owner has shown for 10 s, unless it removed that less than 10 s ago, which is
//!   for `missing` to judge.
//! - `overdue`: what is dead isn't shown 10 s after its delete time-out (40 s as clients are by default), or 25 s after
//!   its owner changed, whichever is later.
//! - `still there`: what was deregistered isn't shown 2 s later, 10 s during faults.
//! - `risen`: what a node showed no more, and what no node showed any more, isn't shown again without a word of its client.
//! - `older`: a version that a node shows is never followed by an older one.
//! - `unhealthy`: what beats for a node and for its owner isn't shown unhealthy, as long as the nodes agree about that. Beats
//!   that its deputies take an owner must ask for, and over links that take seconds it has no answer in time.
//! - `unequal`: 10 s after healing all nodes show the same, and what is true; what is dead and past its delete time-out, as
//!   far as copies know, doesn't count.
//! - `stranger`: no call to who isn't listed.
//! - `unbounded`: what is kept besides instances has a bound.
//! - `ring`: who can't be reached is no owner after 12 s; who can is one after 10 s.
//! - `clock`: nothing is stamped further ahead than the fastest clock was.
//! - `idle`: a node that runs serves after 20 s.
//! - `refused`: with no fault for 15 s no client is refused.

use nacre::distro::silence;

use super::{
    coverage::Coverage,
    faults::Plan,
    reach::Reach,
    seam::{At, Fleet, MS, NEVER, NodeId, SECOND, Seen, Sizes, Spec, Wish},
    truth::{Ack, Fact, Truth, Will, Write},
};

/// A promise that was broken.
#[derive(Clone, Debug)]
pub struct Violation {
    /// When.
    pub at: At,
    /// Which.
    pub promise: &'static str,
    /// About which service.
    pub service: Option<usize>,
    /// What is wrong.
    pub text: String,
}

/// How one node has shown one instance in this life of its process.
#[derive(Clone, Copy, Debug)]
struct Showing {
    /// Shown since then; [`NEVER`] while it isn't.
    since: At,
    /// When it was last seen going; 0 if never.
    went: At,
    version: u32,
}

const UNSEEN: Showing = Showing { since: NEVER, went: 0, version: 0 };

/// What the judge knows of a node.
#[derive(Debug)]
struct Watched {
    serves: bool,
    /// When its process began, or it ceased to serve.
    started: At,
    /// When it began to serve.
    begun: At,
    /// Since when it calls itself an owner; [`NEVER`] while it doesn't.
    owns: At,
    showings: Vec<Showing>,
    lists: Vec<Vec<Seen>>,
    /// Who owns each service, as it sees it.
    owners: Vec<Option<NodeId>>,
    /// Since when it sees it so.
    owners_since: Vec<At>,
    ring: Vec<NodeId>,
    members: Vec<NodeId>,
    members_since: At,
    /// What was due before it read them is done in the same moment.
    members_before: Vec<NodeId>,
    compares: bool,
    /// What it showed again while it compared: it takes from each what it has, one after the other.
    rose: Vec<usize>,
}

/// What the judge is told with every question.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    /// The world's time.
    pub now: At,
    /// All services and instances.
    pub fleet: &'a Fleet,
    /// What is true.
    pub truth: &'a Truth,
    /// Who hears whom.
    pub reach: &'a Reach,
}

/// Watches all promises of one run.
#[derive(Debug)]
pub struct Judge {
    watched: Vec<Watched>,
    /// When the owner of a service last changed in any node's eyes.
    owner_changed: Vec<At>,
    /// When nodes last disagreed about the owner of a service.
    split: Vec<At>,
    /// Since when no node shows an unwanted instance; [`NEVER`] while one does.
    gone: Vec<At>,
    /// From when until when faults last.
    troubles: Vec<(At, At)>,
    /// By how many milliseconds the stamps of each node are off: its clock was at its start, or it follows another's since.
    clocks: Vec<i64>,
    /// How far the fastest clock of a process was ahead.
    fastest_clock: i64,
    /// When all faults have ended for good.
    healed: At,
    unequal_since: Vec<At>,
    members: Vec<NodeId>,
    /// Since when each is on that list.
    listed_since: Vec<At>,
    /// When the links between two were good last.
    last_clear: Vec<Vec<At>>,
    /// The first that was found.
    pub verdict: Option<Violation>,
    /// Counts.
    pub coverage: Coverage,
}

/// Without a fault for this long the world is calm.
pub const CALM: At = 15 * SECOND;
/// So long news of a write may wait for the answer to the call before, and be under way, over links that change the order.
const NEWS: At = 300 * MS;
/// Of the last beat of an instance that isn't late those that aren't its owner know only that it isn't longer ago.
const ABOUT: At = silence::IN_TIME_MS * MS;
/// How long a member list takes to be read everywhere.
pub const LIST_DELAY: At = 2 * SECOND;

/// How long what is dead may be shown after its owner changed: the new one may take it for one that beat 13 s before.
fn after_a_move(spec: &Spec) -> At {
    (spec.delete_ms * 1_000).saturating_sub(5 * SECOND).max(25 * SECOND)
}

impl Judge {
    /// A judge of a run as planned, in which faults last from when until when `troubles` says.
    pub fn new(plan: &Plan, fleet: &Fleet, troubles: Vec<(At, At)>) -> Self {
        let nodes = plan.nodes;
        let watched = || Watched {
            serves: false,
            started: 0,
            begun: 0,
            owns: NEVER,
            showings: vec![UNSEEN; fleet.specs.len()],
            lists: vec![Vec::new(); fleet.services.len()],
            owners: vec![None; fleet.services.len()],
            owners_since: vec![0; fleet.services.len()],
            ring: Vec::new(),
            members: Vec::new(),
            members_since: 0,
            members_before: Vec::new(),
            compares: false,
            rose: Vec::new(),
        };
        Self {
            watched: (0..nodes).map(|_| watched()).collect(),
            owner_changed: vec![0; fleet.services.len()],
            split: vec![0; fleet.services.len()],
            gone: vec![NEVER; fleet.specs.len()],
            troubles,
            clocks: vec![0; nodes],
            fastest_clock: 0,
            healed: plan.healed,
            unequal_since: vec![NEVER; fleet.services.len()],
            members: Vec::new(),
            listed_since: vec![0; nodes],
            last_clear: vec![vec![0; nodes]; nodes],
            verdict: None,
            coverage: Coverage::default(),
        }
    }

    /// Says that a promise is broken; the first one counts.
    pub fn accuse(&mut self, now: At, promise: &'static str, service: Option<usize>, text: String) {
        if self.verdict.is_none() {
            self.verdict = Some(Violation { at: now, promise, service, text });
        }
    }

    /// The list that all nodes are about to read.
    pub fn listed(&mut self, now: At, members: &[NodeId]) {
        for node in members.iter().filter(|node| !self.members.contains(node)) {
            self.listed_since[*node] = now;
        }
        self.members = members.to_vec();
    }

    /// A process was started, or is gone.
    pub fn process(&mut self, scene: Scene<'_>, node: NodeId) {
        let watched = &mut self.watched[node];
        watched.started = scene.now;
        watched.serves = false;
        watched.showings.fill(UNSEEN);
        watched.lists.iter_mut().for_each(Vec::clear);
        watched.owners.fill(None);
        watched.ring.clear();
        watched.owns = NEVER;
        watched.rose.clear();
        for instance in 0..self.gone.len() {
            self.note_gone(scene, instance);
        }
    }

    /// A process begins whose clock is so many milliseconds off.
    pub fn begins_with_clock(&mut self, node: NodeId, off_ms: i64) {
        self.clocks[node] = off_ms;
        self.fastest_clock = self.fastest_clock.max(off_ms);
    }

    /// What a process writes is stamped so many milliseconds off. By more than any clock was it never is, but for what many writes
    /// in one moment count up.
    pub fn has_clock(&mut self, now: At, node: NodeId, off_ms: i64) {
        self.clocks[node] = off_ms;
        if off_ms > self.fastest_clock + 1_000 {
            let text =
                format!("{node} stamps {off_ms} ms ahead, the fastest clock is {} ms", self.fastest_clock);
            self.accuse(now, "clock", None, text);
        }
    }

    /// By how many milliseconds what a node writes is stamped off.
    pub fn clock(&self, node: NodeId) -> i64 {
        self.clocks[node]
    }

    /// Whether another node was asked for another write before the last one that was acknowledged, who did the last one
    /// couldn't know of that, since they didn't hear each other or no news is that fast, and their clocks may show the two in
    /// the other order: nobody can tell then.
    ///
    /// A full beat is such a write: it registers the instance where it isn't known. So is one that the client had no answer to,
    /// which may have been done all the same. Where several nodes have done the last one, it holds of each.
    fn is_undecidable(&self, scene: Scene<'_>, instance: usize) -> bool {
        let fact = &scene.truth.facts[instance];
        let Some(last) = fact.written else { return false };
        // Where the last one may not have come there yet, those before it show.
        let is_news = scene.now < last.done.saturating_add(NEWS);
        let is_same = |write: &&Write| {
            let is_last = (write.wish, write.version) == (last.wish, last.version);
            write.is_acked && (is_last || is_news && write.wish != Wish::Beat)
        };
        let mut same = fact.asked.iter().filter(is_same).copied().chain([last]);
        same.any(|after| self.is_misordered(scene, fact, after)) || self.is_belated(fact, last)
    }

    /// The same for one write and those before it.
    fn is_misordered(&self, scene: Scene<'_>, fact: &Fact, after: Write) -> bool {
        let is_earlier = |before: &&Write| {
            before.asked <= after.asked
                && before.by != after.by
                && (before.wish, before.version) != (after.wish, after.version)
        };
        fact.asked.iter().filter(is_earlier).any(|before| {
            let apart = after.asked.saturating_sub(before.done);
            let apart_ms = i64::try_from(apart / 1_000).unwrap_or(i64::MAX);
            (scene.reach.clear(before.by, after.by) > before.asked || apart < NEWS)
                && self.clocks[before.by].max(before.clock_ms) - after.clock_ms > apart_ms - 20
        })
    }

    /// Whether an earlier write came once more to a node after the last one, over a link that has been no good for as long as
    /// that node's process runs: so it can't tell how long what comes by it has been under way.
    fn is_belated(&self, fact: &Fact, after: Write) -> bool {
        let is_other = |one: &Write, other: Write| (one.wish, one.version) != (other.wish, other.version);
        fact.asked.iter().filter(|late| late.asked > after.asked && is_other(late, after)).any(|late| {
            let same = || fact.asked.iter().filter(|one| !is_other(one, *late));
            same().any(|took| {
                let started = self.watched[took.by].started;
                same().any(|sent| sent.by != took.by && self.last_clear[sent.by][took.by] < started)
            })
        })
    }

    /// A node has read this list.
    pub fn has_read(&mut self, now: At, node: NodeId, members: &[NodeId]) {
        let watched = &mut self.watched[node];
        watched.members_before = std::mem::replace(&mut watched.members, members.to_vec());
        watched.members_since = now;
    }

    /// A node makes a call.
    pub fn calls(&mut self, now: At, from: NodeId, to: NodeId, what: impl FnOnce() -> String) {
        let Watched { members, members_since, members_before, .. } = &self.watched[from];
        let is_listed = members.contains(&to) || *members_since == now && members_before.contains(&to);
        if !is_listed {
            self.accuse(now, "stranger", None, format!("{from} calls {to}, which isn't listed: {}", what()));
        }
    }

    /// A node's view is another one.
    pub fn views(
        &mut self,
        now: At,
        node: NodeId,
        ring: Vec<NodeId>,
        owner: impl Fn(usize) -> Option<NodeId>,
    ) {
        let watched = &mut self.watched[node];
        for (service, known) in watched.owners.iter_mut().enumerate() {
            let new = owner(service);
            if *known != new {
                self.owner_changed[service] = now;
                *known = new;
                watched.owners_since[service] = now;
            }
        }
        let owns = ring.contains(&node);
        watched.owns = if owns { watched.owns.min(now) } else { NEVER };
        watched.ring = ring;
    }

    /// A node serves from now on, or no more.
    pub fn serves(
        &mut self,
        scene: Scene<'_>,
        node: NodeId,
        serves: bool,
        list: impl Fn(usize, &mut Vec<Seen>),
    ) {
        if self.watched[node].serves == serves {
            return;
        }
        self.watched[node].serves = serves;
        if !serves {
            // As good as gone: what it shows later it has learnt anew.
            return self.process(scene, node);
        }
        self.watched[node].begun = scene.now;
        for service in 0..scene.fleet.services.len() {
            let mut seen = Vec::new();
            list(service, &mut seen);
            self.shows(scene, node, service, &seen);
        }
        for instance in 0..scene.fleet.specs.len() {
            self.check_start(scene, node, instance);
        }
    }

    /// What a node has begun with.
    fn check_start(&mut self, scene: Scene<'_>, node: NodeId, instance: usize) {
        let fact = &scene.truth.facts[instance];
        let started = self.watched[node].started;
        let spec = &scene.fleet.specs[instance];
        // What a node took before its start, or was off the list, it has forgotten, and the others needn't know of it.
        let hears = |ack: &Ack| {
            let is_heard = ack.via == node || scene.reach.links_clear(node, ack.via) < started;
            is_heard && [ack.via, ack.by].iter().all(|taker| ack.at > self.watched[*taker].started)
        };
        let beats = fact.born < started && fact.has_beaten(spec, spec.delete_ms * 1_000, scene.now, hears);
        if !beats
            || self.watched[node].showings[instance].since != NEVER
            || self.is_undecidable(scene, instance)
        {
            return;
        }
        let is_witness = |witness: &NodeId| {
            *witness != node
                && self.watched[*witness].showings[instance].since < started.saturating_sub(SECOND)
                && self.watched[*witness].showings[instance].version >= fact.first_version
                && scene.reach.serving(*witness) < started.saturating_sub(SECOND)
                && scene.reach.links_clear(node, *witness) < started
                && self.members.contains(witness)
        };
        let Some(witness) = (0..self.watched.len()).find(is_witness) else { return };
        let service = spec.service;
        let text = format!("{node} begins to serve without {instance}, which {witness} shows");
        self.accuse(scene.now, "incomplete start", Some(service), text);
    }

    /// The list of a service on a node may be another one.
    pub fn shows(&mut self, scene: Scene<'_>, node: NodeId, service: usize, list: &[Seen]) {
        if !self.watched[node].serves {
            return;
        }
        let before = std::mem::replace(&mut self.watched[node].lists[service], list.to_vec());
        let (mut old, mut new) = (before.iter().peekable(), list.iter().peekable());
        loop {
            match (old.peek(), new.peek()) {
                (None, None) => return,
                (Some(was), Some(is)) if was.instance == is.instance => {
                    self.changes(scene, node, service, **was, **is);
                    old.next();
                    new.next();
                }
                (Some(was), is) if is.is_none_or(|is| was.instance < is.instance) => {
                    self.goes(scene, node, service, was.instance);
                    old.next();
                }
                (_, Some(is)) => {
                    self.comes(scene, node, service, **is);
                    new.next();
                }
                (Some(_), None) => unreachable!("taken by the arm above"),
            }
        }
    }

    /// A node compares its data since it stood still, or not any more: then nothing is left of what rose meanwhile.
    pub fn compares(&mut self, scene: Scene<'_>, node: NodeId, compares: bool) {
        let watched = &mut self.watched[node];
        let has_ended = std::mem::replace(&mut watched.compares, compares) && !compares;
        if !has_ended {
            return;
        }
        for instance in std::mem::take(&mut watched.rose) {
            let fact = &scene.truth.facts[instance];
            let is_shown = self.watched[node].showings[instance].since != NEVER;
            if is_shown && matches!(fact.will, Will::Left(..)) && !self.is_undecidable(scene, instance) {
                let text = format!("{node} has compared and shows {instance} again, {:?}", fact.will);
                self.accuse(scene.now, "risen", Some(scene.fleet.specs[instance].service), text);
            }
        }
    }

    fn comes(&mut self, scene: Scene<'_>, node: NodeId, service: usize, is: Seen) {
        let (fact, showing) =
            (&scene.truth.facts[is.instance], &mut self.watched[node].showings[is.instance]);
        let went = showing.went;
        let before = std::mem::replace(&mut showing.version, is.version);
        showing.since = scene.now;
        let gone = std::mem::replace(&mut self.gone[is.instance], NEVER);
        // One that is dead may be taken for it too early, and be corrected. Of one that has left a node must have heard.
        let due = fact.silent_since() + scene.fleet.specs[is.instance].delete_ms * 1_000;
        let is_over = match fact.will {
            Will::Left(at, by) => {
                let heard = scene.reach.clear(node, by);
                // After a cut each has to see that the other is there again before it tells it anything.
                heard.saturating_add(3 * SECOND) <= at && self.watched[by].started < at
                    || scene.now > heard.saturating_add(10 * SECOND)
            }
            _ => fact.is_unwanted() && scene.now > due,
        };
        let is_over = is_over && !self.is_undecidable(scene, is.instance);
        if is_over && self.watched[node].compares {
            self.watched[node].rose.push(is.instance);
        } else if is_over {
            let (instance, will) = (is.instance, fact.will);
            // Of one that is dead without a word the others may tell a while longer than this node; how long, `overdue` says.
            if went > fact.last_birth && matches!(fact.will, Will::Left(..)) {
                let text = format!("{node} shows {instance} again, gone since {went}, {will:?}");
                self.accuse(scene.now, "risen", Some(service), text);
            } else if gone > fact.last_birth
                && scene.now > gone.saturating_add(5 * SECOND)
                && self.watched[node].begun < scene.now
            {
                let text = format!("{node} shows {instance}, which nobody showed since {gone}, {will:?}");
                self.accuse(scene.now, "risen", Some(service), text);
            }
        } else if is.version < before
            && fact.will == Will::Wanted
            && self.is_known_from(scene, node, is.instance, before)
        {
            self.accuse_older(scene, node, service, before, is);
        }
    }

    /// Whether somebody whom a node has heard for 10 s shows this version or a later one. What it removed for its silence, cut
    /// off from the client, it has forgotten; of the versions that others have any is better than none.
    fn is_known_from(&self, scene: Scene<'_>, node: NodeId, instance: usize, version: u32) -> bool {
        (0..self.watched.len()).any(|other| {
            let showing = self.watched[other].showings[instance];
            let hears = scene.now > scene.reach.clear(node, other).saturating_add(10 * SECOND);
            showing.since != NEVER && showing.version >= version && hears
        })
    }

    fn goes(&mut self, scene: Scene<'_>, node: NodeId, service: usize, instance: usize) {
        let showing = &mut self.watched[node].showings[instance];
        showing.since = NEVER;
        showing.went = scene.now;
        let version = showing.version;
        self.note_gone(scene, instance);
        let (fact, spec) = (&scene.truth.facts[instance], &scene.fleet.specs[instance]);
        // What it showed was of a former life, or nobody can tell its silence in time.
        let is_undecidable = self.is_undecidable(scene, instance);
        if version < fact.first_version || self.is_too_brisk(scene, spec) || is_undecidable {
            return;
        }
        let span = spec.delete_ms * 1_000;
        let hears = |ack: &Ack| scene.reach.passable(node, ack.via) <= scene.now.saturating_sub(span);
        if fact.has_beaten(spec, span, scene.now, hears) {
            let last = fact.acks.back().copied();
            let text = format!("{node} shows {instance} no more, which beats, last {last:?}");
            self.accuse(scene.now, "missing", Some(service), text);
        }
    }

    fn changes(&mut self, scene: Scene<'_>, node: NodeId, service: usize, was: Seen, is: Seen) {
        let fact = &scene.truth.facts[is.instance];
        self.watched[node].showings[is.instance].version = is.version;
        if is.version < was.version && fact.will == Will::Wanted {
            self.accuse_older(scene, node, service, was.version, is);
        }
        if was.healthy && !is.healthy {
            let spec = &scene.fleet.specs[is.instance];
            // One with short time-outs turns ill while its beats wait for a hung owner.
            let is_brisk = spec.unhealthy_ms <= 10_000 && self.calm_since(scene.now) == NEVER;
            if was.version < fact.first_version || self.is_split(scene, service) || is_brisk {
                return;
            }
            let span = spec.unhealthy_ms * 1_000;
            let passable = |node, via| scene.reach.passable(node, via) <= scene.now.saturating_sub(span);
            // It is the owner that judges, and it may not have heard the beats.
            let owner = self.watched[node].owners[service];
            // And a life begins with the health of the former one, until its owner hears a beat.
            if is.version > was.version && fact.born.saturating_add(span) > scene.now {
                return;
            }
            let hears =
                |ack: &Ack| passable(node, ack.via) && owner.is_none_or(|owner| passable(owner, ack.via));
            let last = fact.acks.back().copied();
            if 2 * spec.interval_ms < spec.unhealthy_ms && fact.has_beaten(spec, span, scene.now, hears) {
                let text = format!("{node} shows {} as unhealthy, which beats, last {last:?}", is.instance);
                self.accuse(scene.now, "unhealthy", Some(service), text);
            }
        }
    }

    /// Members hear of beats that don't come to them every five seconds only: where they disagree about the owner, they
    /// can't judge one whose time-outs are as short.
    fn is_too_brisk(&self, scene: Scene<'_>, spec: &Spec) -> bool {
        spec.delete_ms <= 20_000 && self.is_split(scene, spec.service)
    }

    /// Whether nodes disagree about the owner of a service, or did so a moment ago.
    fn is_split(&self, scene: Scene<'_>, service: usize) -> bool {
        self.disagrees(scene, service) || self.split[service] + 20 * SECOND > scene.now
    }

    /// Whether two nodes that serve take others for the owner of a service.
    fn disagrees(&self, scene: Scene<'_>, service: usize) -> bool {
        let serving = (0..self.watched.len()).filter(|node| scene.reach.serving(*node) != NEVER);
        let mut owners = serving.map(|node| self.watched[node].owners[service]);
        let first = owners.next();
        owners.any(|owner| Some(owner) != first)
    }

    fn accuse_older(&mut self, scene: Scene<'_>, node: NodeId, service: usize, before: u32, is: Seen) {
        // What the node showed may be a write that its client has no answer to yet.
        let fact = &scene.truth.facts[is.instance];
        let mut shown = fact.asked.iter().filter(|write| write.version == before);
        let is_unordered = shown.any(|write| self.is_misordered(scene, fact, *write));
        if is_unordered || self.is_undecidable(scene, is.instance) {
            return;
        }
        let text = format!("{node} showed version {before} of {}, and shows {} now", is.instance, is.version);
        self.accuse(scene.now, "older", Some(service), text);
    }

    fn is_shown(&self, instance: usize) -> bool {
        self.watched.iter().any(|watched| watched.showings[instance].since != NEVER)
    }

    fn note_gone(&mut self, scene: Scene<'_>, instance: usize) {
        if self.is_shown(instance) {
            self.gone[instance] = NEVER;
        } else if self.gone[instance] == NEVER {
            self.gone[instance] = scene.now;
        }
    }

    /// Looks at all that time alone can break; now and then.
    pub fn look(&mut self, scene: Scene<'_>) {
        for (one, others) in self.last_clear.iter_mut().enumerate() {
            for (other, at) in others.iter_mut().enumerate() {
                if scene.reach.links_clear(one, other) != NEVER {
                    *at = scene.now;
                }
            }
        }
        for service in 0..self.split.len() {
            if self.disagrees(scene, service) {
                self.split[service] = scene.now;
            }
        }
        for instance in 0..scene.fleet.specs.len() {
            match scene.truth.facts[instance].will {
                Will::Unborn | Will::Leaving => {}
                Will::Wanted => self.look_for_late(scene, instance),
                Will::Left(at, by) => {
                    self.look_for_left(scene, instance, at, by);
                    self.look_for_dead(scene, instance);
                }
                Will::Unsure | Will::Dead => self.look_for_dead(scene, instance),
            }
        }
        self.look_at_beginners(scene);
        self.look_at_rings(scene);
        if scene.now >= self.healed + 10 * SECOND {
            self.look_for_differences(scene);
        }
    }

    /// Since when no fault has been under way; [`NEVER`] while one is.
    fn undisturbed_since(&self, now: At) -> At {
        let begun = self.troubles.iter().filter(|(start, _)| *start <= now);
        begun.fold(0, |since, (_, end)| if *end >= now { NEVER } else { since.max(*end) })
    }

    fn calm_since(&self, now: At) -> At {
        let since = self.undisturbed_since(now).saturating_add(CALM);
        if since <= now { since } else { NEVER }
    }

    fn look_for_late(&mut self, scene: Scene<'_>, instance: usize) {
        let (fact, spec, now) = (&scene.truth.facts[instance], &scene.fleet.specs[instance], scene.now);
        let service = spec.service;
        let beats = fact.born != NEVER && fact.has_beaten(spec, 10 * SECOND, now, |_| true);
        if !beats || self.is_too_brisk(scene, spec) || self.is_undecidable(scene, instance) {
            return;
        }
        let calm = self.calm_since(now);
        for node in 0..self.watched.len() {
            let watched = &self.watched[node];
            if watched.showings[instance].since != NEVER
                || scene.reach.serving(node) == NEVER
                || !self.members.contains(&node)
            {
                continue;
            }
            if calm <= fact.born && now > fact.born + 2 * SECOND {
                let text =
                    format!("{node} doesn't show {instance}, registered {} us ago in calm", now - fact.born);
                return self.accuse(now, "late", Some(service), text);
            }
            let since = |at: At| at.saturating_add(10 * SECOND);
            let is_known = |owner: &NodeId| {
                let other = &self.watched[*owner];
                other.owners[service] == Some(*owner)
                    && now > since(other.owners_since[service])
                    && now > since(other.showings[instance].since)
                    // It may have shown a former life until now.
                    && now > since(fact.born)
                    && other.showings[instance].version >= fact.first_version
                    && now > since(scene.reach.clear(node, *owner))
                    // It may have removed it a moment ago, rightly: where no beat comes to. Of that `missing` tells.
                    && now > since(watched.showings[instance].went)
                    && now > since(watched.members_since)
                    && now > since(other.members_since)
                    && watched.members.contains(owner)
                    && other.members.contains(&node)
            };
            if let Some(owner) = (0..self.watched.len()).find(is_known) {
                let text = format!("{node} doesn't show {instance}, which its owner {owner} shows");
                return self.accuse(now, "late", Some(service), text);
            }
        }
    }

    fn look_for_left(&mut self, scene: Scene<'_>, instance: usize, left: At, by: NodeId) {
        let (now, service) = (scene.now, scene.fleet.specs[instance].service);
        let calm = self.calm_since(now);
        for node in 0..self.watched.len() {
            let watched = &self.watched[node];
            if watched.showings[instance].since == NEVER || !self.members.contains(&node) {
                continue;
            }
            let limit = if calm <= left { 2 * SECOND } else { 10 * SECOND };
            // Who applied it may have forgotten it since, even before the client had the answer.
            let asked = scene.truth.facts[instance].written.map_or(left, |write| write.asked);
            if self.watched[by].started > left.min(asked) || self.is_undecidable(scene, instance) {
                return;
            }
            let heard = scene.reach.clear(node, by).max(watched.members_since).max(left);
            // Who wasn't on its list then, and noticed nothing of that, hears of it when the owner compares.
            let relisted = self.watched[by].members_since;
            let heard =
                if relisted > left { heard.max(relisted).max(self.owner_changed[service]) } else { heard };
            if now > heard.saturating_add(limit) && self.watched[by].members.contains(&node) {
                let text = format!("{node} shows {instance}, deregistered at {left} by {by}");
                return self.accuse(now, "still there", Some(service), text);
            }
        }
    }

    fn look_for_dead(&mut self, scene: Scene<'_>, instance: usize) {
        let (fact, spec, now) = (&scene.truth.facts[instance], &scene.fleet.specs[instance], scene.now);
        let service = spec.service;
        let due = fact.silent_since() + spec.delete_ms * 1_000 + 10 * SECOND;
        let moved = self.owner_changed[service] + after_a_move(spec);
        if now <= due.max(moved) {
            return;
        }
        for node in 0..self.watched.len() {
            let watched = &self.watched[node];
            if watched.showings[instance].since == NEVER || scene.reach.serving(node) == NEVER {
                continue;
            }
            let Some(owner) = watched.owners[service] else { continue };
            // Who disagrees about the owner can't be told by it.
            if self.watched[owner].owners[service] != Some(owner) {
                continue;
            }
            let heard = scene.reach.clear(node, owner).max(watched.members_since);
            if now > heard.saturating_add(10 * SECOND) {
                let silent = (now - fact.silent_since()) / 1_000;
                let text = format!("{node} shows {instance}, {:?}, silent for {silent} ms", fact.will);
                return self.accuse(now, "overdue", Some(service), text);
            }
        }
    }

    /// A node that has just begun to serve may have missed what others are about to tell it; not for long.
    fn look_at_beginners(&mut self, scene: Scene<'_>) {
        let now = scene.now;
        for node in 0..self.watched.len() {
            let (begun, serves) = (self.watched[node].begun, scene.reach.serving(node) != NEVER);
            if !serves || now < begun + SECOND / 2 || now >= begun + SECOND {
                continue;
            }
            for instance in 0..scene.fleet.specs.len() {
                let (fact, service) = (&scene.truth.facts[instance], scene.fleet.specs[instance].service);
                let shown = |other: NodeId| self.watched[other].showings[instance].since;
                let nobody_else = (0..self.watched.len()).all(|other| other == node || shown(other) == NEVER);
                // A load that gets no answer is tried again after three seconds.
                let clear = |other: NodeId| scene.reach.clear(node, other).saturating_add(3 * SECOND);
                let hears = |other: NodeId| other != node && clear(other) <= begun;
                // Who removed it tells of it; what others saw going while a node waits for the last answer to its load only
                // the one tells it who removed it. Who began anew since has forgotten it.
                let knows = |other: NodeId| {
                    let Watched { started, showings, .. } = &self.watched[other];
                    let went = showings[instance].went;
                    match fact.will {
                        Will::Left(at, by) if by == other => {
                            *started < fact.written.map_or(at, |write| write.asked)
                        }
                        _ => went != 0 && went + 5 * SECOND < begun,
                    }
                };
                let known = (0..self.watched.len()).any(|other| hears(other) && knows(other));
                if fact.is_unwanted() && shown(node) == begun && nobody_else && known && fact.since < begun {
                    let text =
                        format!("{node} has begun to show {instance}, {:?}, which nobody shows", fact.will);
                    return self.accuse(now, "risen", Some(service), text);
                }
            }
        }
    }

    fn look_at_rings(&mut self, scene: Scene<'_>) {
        let now = scene.now;
        let since = |at: At, span: At| now > at.saturating_add(span * SECOND);
        for node in 0..self.watched.len() {
            let watched = &self.watched[node];
            let is_listed = self.members.contains(&node) && watched.members.contains(&node);
            if !is_listed {
                continue;
            }
            let awake = scene.reach.awake(node).max(watched.members_since);
            // One that the others hadn't listed is none, whatever its own list says.
            let awake = awake.max(self.listed_since[node].saturating_add(LIST_DELAY));
            if since(awake, 20) && scene.reach.serving(node) == NEVER {
                let text = format!("{node} runs since {awake} and doesn't serve");
                return self.accuse(now, "idle", None, text);
            }
            if !since(scene.reach.serving(node).max(watched.owns), 12) {
                continue;
            }
            for other in (0..self.watched.len()).filter(|&other| other != node) {
                let is_owner = watched.ring.contains(&other);
                // One that stood still answers, as it comes to, what it was asked before its links were cut.
                let came_to = Some(scene.reach.awake(other)).filter(|awake| *awake != NEVER).unwrap_or(0);
                if is_owner && since(scene.reach.dark(node, other).max(came_to), 12) {
                    let text = format!("{node} holds {other} for an owner, which it can't reach");
                    return self.accuse(now, "ring", None, text);
                }
                let agree = self.members.contains(&other)
                    && watched.members.contains(&other)
                    && self.watched[other].members.contains(&node)
                    && since(watched.members_since.max(self.watched[other].members_since), 10);
                if !is_owner
                    && agree
                    && since(self.undisturbed_since(now).max(scene.reach.clear(node, other)), 10)
                {
                    let text = format!("{node} doesn't hold {other} for an owner, which it reaches");
                    return self.accuse(now, "ring", None, text);
                }
            }
        }
    }

    fn look_for_differences(&mut self, scene: Scene<'_>) {
        let now = scene.now;
        for service in 0..scene.fleet.services.len() {
            // What is as good as gone may go here earlier than there: who begins doesn't take what is overdue, and of its last
            // beat those that weren't its owner know but about when it was.
            let counts = |seen: &&Seen| {
                let (fact, spec) = (&scene.truth.facts[seen.instance], &scene.fleet.specs[seen.instance]);
                let last = fact.acks.back().map_or(0, |ack| ack.at);
                !fact.is_unwanted() || now + ABOUT <= last + spec.delete_ms * 1_000
            };
            let shown = |node: NodeId| self.watched[node].lists[service].iter().filter(counts);
            let is_equal = self.members.windows(2).all(|pair| shown(pair[0]).eq(shown(pair[1])));
            let since = if is_equal { NEVER } else { self.unequal_since[service].min(now) };
            self.unequal_since[service] = since;
            if now > since.saturating_add(2 * SECOND) {
                let lists = self.members.iter().map(|node| {
                    let shown = shown(*node).map(|seen| {
                        format!(
                            " {}v{}w{}{}",
                            seen.instance,
                            seen.version,
                            seen.weight,
                            if seen.healthy { "" } else { "!" }
                        )
                    });
                    format!("\n  {node}:{}", shown.collect::<String>())
                });
                let text = format!("lists differ since {since}, after healing:{}", lists.collect::<String>());
                return self.accuse(now, "unequal", Some(service), text);
            }
        }
    }

    /// The last look of a run, when all is quiet.
    pub fn close(&mut self, scene: Scene<'_>) {
        for (instance, fact) in scene.truth.facts.iter().enumerate() {
            let spec = &scene.fleet.specs[instance];
            for node in self.members.clone() {
                let showing = self.watched[node].showings[instance];
                let seen =
                    self.watched[node].lists[spec.service].iter().find(|seen| seen.instance == instance);
                let service = Some(spec.service);
                match fact.will {
                    Will::Wanted if fact.has_beaten(spec, 20 * SECOND, scene.now, |_| true) => match seen {
                        None => {
                            let text = format!("{node} doesn't show {instance}, which beats");
                            self.accuse(scene.now, "unequal", service, text);
                        }
                        Some(seen)
                            if !seen.healthy
                                || seen.version < fact.acked.0
                                    && self.has_kept(instance, fact.acked)
                                    && !self.is_undecidable(scene, instance) =>
                        {
                            let text =
                                format!("{node} shows {seen:?}, version {} was acknowledged", fact.acked.0);
                            self.accuse(scene.now, "unequal", service, text);
                        }
                        Some(_) => {}
                    },
                    _ if fact.is_unwanted()
                        && showing.since != NEVER
                        && scene.now > fact.silent_since() + spec.delete_ms * 1_000 + 10 * SECOND
                        && scene.now > self.owner_changed[spec.service] + after_a_move(spec) =>
                    {
                        let text = format!("{node} shows {instance}, {:?} for long", fact.will);
                        self.accuse(scene.now, "unequal", service, text);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Whether who took a version still knows it: it may have ended alone, or, cut off from the others to which the client
    /// went on, have removed the instance for its silence.
    fn has_kept(&self, instance: usize, (_, asked, by): (u32, At, NodeId)) -> bool {
        let taker = &self.watched[by];
        taker.started < asked && taker.showings[instance].went < asked
    }

    /// A client was refused, or got no answer.
    pub fn refuses(&mut self, now: At, node: NodeId, service: usize, text: impl FnOnce() -> String) {
        if self.members.contains(&node) && self.calm_since(now) <= now {
            self.accuse(now, "refused", Some(service), text());
        }
    }

    /// What a node keeps.
    pub fn keeps(&mut self, scene: Scene<'_>, node: NodeId, sizes: Sizes) {
        let (instances, services) = (scene.fleet.specs.len(), scene.fleet.services.len());
        let peers = self.watched.len();
        let is_kept_long = sizes.oldest_tombstone_ms > 80_000
            && scene.now > self.undisturbed_since(scene.now).saturating_add(40 * SECOND)
            && scene.now > scene.reach.serving(node).saturating_add(40 * SECOND);
        if sizes.tombstones > instances
            // What waits may be under way, too, as it was before.
            || sizes.tasks > 2 * services * peers
            || sizes.others > 20 * instances
            || is_kept_long
        {
            self.accuse(scene.now, "unbounded", None, format!("{node} keeps {sizes:?}"));
        }
    }
}
