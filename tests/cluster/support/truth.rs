//! What lists must hold, from what the clients did, and what is wrong with a list that a node gave. Pure.
//!
//! - An instance that the node had listed, and whose client still beats, is never missing there.
//! - A new one is on all nodes that can be reached within 2 s, 10 s during faults.
//! - A deregistered one never comes back.
//! - A dead client's one is gone 40 s after its death or 25 s after the last change of its owner, whichever is later.
//! - A registration that was acknowledged less than 0.2 s before a kill may be missing until its client's next beat.

use std::time::{Duration, Instant};

use super::cluster::Place;

/// Number of an instance; never used again.
pub type Id = u32;

/// For a new instance to be on all nodes, where nothing is wrong.
pub const CALM: Duration = Duration::from_secs(2);
/// The same during faults.
pub const FAULTY: Duration = Duration::from_secs(10);
const AFTER_DEATH: Duration = Duration::from_secs(40);
const AFTER_MOVE: Duration = Duration::from_secs(25);
const BEFORE_KILL: Duration = Duration::from_millis(200);
/// An instance that a node hasn't listed so long after its registration isn't late but missing.
const LATE: Duration = Duration::from_secs(30);

/// How an instance ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Its client deregistered it: since when, and when that was acknowledged.
    Left { since: Instant, done: Option<Instant> },
    /// Its client fell silent.
    Died { at: Instant },
}

#[derive(Clone, Debug)]
struct Record {
    service: usize,
    /// The first acknowledgement, since then it must be listed.
    acknowledged: Option<Instant>,
    last: Option<Instant>,
    end: Option<End>,
    /// May be missing until its next acknowledgement.
    excused: bool,
}

/// What a node has shown of an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Seen {
    #[default]
    Never,
    Listed,
    /// It was missing after its end.
    Gone,
}

#[derive(Clone, Debug, Default)]
struct Shown {
    /// Since when the node could be reached without a break.
    reachable: Option<Instant>,
    seen: Vec<Seen>,
}

/// A list as a node gave it.
#[derive(Clone, Copy, Debug)]
pub struct Poll<'a> {
    pub node: Place,
    pub service: usize,
    /// When it was asked for, and when it was there.
    pub sent: Instant,
    pub got: Instant,
    /// Each with its health; none for one that isn't ours.
    pub hosts: &'a [(Option<Id>, bool)],
}

/// What is wrong with a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// It holds nothing, and must hold something.
    pub empty: bool,
    /// What the node had listed, or must know by now, of clients that beat.
    pub missing: Vec<Id>,
    /// What is new and should be there by now.
    pub late: Vec<Id>,
    /// Shown unhealthy though its client beats.
    pub unhealthy: Vec<Id>,
    /// Deregistered or dead, gone, and back.
    pub risen: Vec<Id>,
    /// Deregistered or dead, and still there.
    pub overdue: Vec<Id>,
    /// Hosts that no client of ours registered.
    pub foreign: usize,
}

/// All instances that ever were.
#[derive(Debug)]
pub struct Truth {
    records: Vec<Record>,
    services: Vec<Vec<Id>>,
    nodes: Vec<Shown>,
    /// How long new data may take now.
    grace: Duration,
    /// The last time that some node's ring changed.
    moved: Option<Instant>,
}

impl Truth {
    pub fn new(services: usize, nodes: usize) -> Self {
        Self {
            records: Vec::new(),
            services: vec![Vec::new(); services],
            nodes: vec![Shown::default(); nodes],
            grace: CALM,
            moved: None,
        }
    }

    /// A new instance that nobody knows yet.
    pub fn new_instance(&mut self, service: usize) -> Id {
        let id = Id::try_from(self.records.len()).unwrap();
        self.records.push(Record { service, acknowledged: None, last: None, end: None, excused: false });
        self.services[service].push(id);
        id
    }

    /// The service that it is of.
    pub fn service(&self, id: Id) -> usize {
        self.records[id as usize].service
    }

    /// A registration or a beat was answered.
    pub fn acknowledged(&mut self, id: Id, now: Instant) {
        let record = &mut self.records[id as usize];
        record.acknowledged.get_or_insert(now);
        record.last = Some(now);
        record.excused = false;
    }

    /// Its client is about to deregister it.
    pub fn leaves(&mut self, id: Id, now: Instant) {
        self.records[id as usize].end = Some(End::Left { since: now, done: None });
    }

    /// Its deregistration was acknowledged.
    pub fn left(&mut self, id: Id, now: Instant) {
        if let Some(End::Left { done, .. }) = &mut self.records[id as usize].end {
            *done = Some(now);
        }
    }

    /// Its client fell silent.
    pub fn died(&mut self, id: Id, now: Instant) {
        self.records[id as usize].end = Some(End::Died { at: now });
    }

    /// A node is about to be killed: what was acknowledged just before may be lost.
    pub fn kill(&mut self, now: Instant) {
        let just = |at: Instant| now.saturating_duration_since(at) < BEFORE_KILL;
        for record in &mut self.records {
            match record.end {
                None if record.last == record.acknowledged && record.last.is_some_and(just) => {
                    record.excused = true;
                }
                Some(End::Left { done: Some(done), .. }) if just(done) => {
                    record.end = Some(End::Died { at: done });
                }
                _ => {}
            }
        }
    }

    /// How long new data may take from now on.
    pub fn set_grace(&mut self, grace: Duration) {
        self.grace = grace;
    }

    /// Some node's ring has changed.
    pub fn moved(&mut self, now: Instant) {
        self.moved = Some(now);
    }

    /// From now on this node can be reached.
    pub fn reachable(&mut self, node: Place, now: Instant) {
        self.nodes[node].reachable = Some(now);
    }

    /// A new process serves at this node's address: what ended before must not be with it.
    pub fn restarted(&mut self, node: Place, now: Instant) {
        self.reachable(node, now);
        self.nodes[node].seen.resize(self.records.len(), Seen::Never);
        for (seen, record) in self.nodes[node].seen.iter_mut().zip(&self.records) {
            if matches!(record.end, Some(End::Left { done: Some(done), .. }) if done + CALM < now) {
                *seen = Seen::Gone;
            }
        }
    }

    /// No node runs any more: nobody can know what was registered.
    pub fn all_stopped(&mut self) {
        for record in &mut self.records {
            record.acknowledged = None;
            record.last = None;
        }
        self.nodes.iter_mut().for_each(|node| node.seen.clear());
    }

    /// What became of an instance, seen from this moment: for who looks for the cause of a wrong list.
    pub fn story(&self, id: Id, now: Instant) -> String {
        let Some(record) = self.records.get(id as usize) else { return format!("{id}: not ours") };
        let ago = |at: Instant| match now.checked_duration_since(at) {
            Some(ago) => format!("{:.2} s before", ago.as_secs_f64()),
            None => format!("{:.2} s after", (at - now).as_secs_f64()),
        };
        let when = |at: Option<Instant>| at.map_or_else(|| "never".to_owned(), ago);
        let end = match record.end {
            None => "lives".to_owned(),
            Some(End::Left { since, done }) => {
                format!("leaves {}, acknowledged {}", ago(since), when(done))
            }
            Some(End::Died { at }) => format!("died {}", ago(at)),
        };
        format!("{id}: registered {}, last beat {}, {end}", when(record.acknowledged), when(record.last))
    }

    /// Counts clients that beat.
    pub fn alive(&self) -> usize {
        self.records.iter().filter(|record| record.end.is_none() && record.acknowledged.is_some()).count()
    }

    /// The longest that a client which is alive has been without an acknowledgement.
    pub fn longest_silence(&self, now: Instant) -> Duration {
        let alive = self.records.iter().filter(|record| record.end.is_none());
        let silence = alive.filter_map(|record| Some(now.saturating_duration_since(record.last?)));
        silence.max().unwrap_or_default()
    }

    /// What is wrong with a list.
    pub fn judge(&mut self, poll: Poll<'_>) -> Findings {
        let Self { records, services, nodes, grace, moved } = self;
        let node = &mut nodes[poll.node];
        let mut findings = Findings::default();
        node.seen.resize(records.len(), Seen::Never);
        let known = |id: Id| records.get(id as usize).is_some_and(|record| record.service == poll.service);
        findings.foreign = poll.hosts.iter().filter(|(id, _)| !id.is_some_and(known)).count();
        let reachable = |at: Instant| node.reachable.map_or(at, |since| since.max(at));
        let mut must = 0;
        for &id in &services[poll.service] {
            let record = &records[id as usize];
            let shown = poll.hosts.iter().find(|host| host.0 == Some(id)).map(|host| host.1);
            let seen = &mut node.seen[id as usize];
            match (record.end, shown) {
                (None, Some(healthy)) => {
                    must += 1;
                    *seen = Seen::Listed;
                    if !healthy {
                        findings.unhealthy.push(id);
                    }
                }
                (None, None) => {
                    let Some(since) = record.acknowledged.filter(|_| !record.excused) else { continue };
                    let overdue = poll.sent > reachable(since) + *grace;
                    if *seen == Seen::Listed || poll.sent > reachable(since) + LATE {
                        must += 1;
                        findings.missing.push(id);
                    } else if overdue {
                        must += 1;
                        findings.late.push(id);
                    }
                }
                (Some(end), Some(_)) => {
                    let until = match end {
                        End::Left { done, .. } => done.map(|done| reachable(done) + *grace),
                        End::Died { at } => {
                            let moved = moved.map_or(at, |moved| moved + AFTER_MOVE);
                            Some((at + AFTER_DEATH).max(moved).max(reachable(at) + *grace))
                        }
                    };
                    let acknowledged =
                        !matches!(end, End::Left { done, .. } if done.is_none_or(|done| done >= poll.sent));
                    if *seen == Seen::Gone && acknowledged {
                        findings.risen.push(id);
                    } else if until.is_some_and(|until| poll.sent > until) {
                        findings.overdue.push(id);
                    }
                }
                (Some(end), None) => {
                    let expected = |since: Instant| poll.sent > reachable(since) + *grace;
                    let gone = match end {
                        End::Left { since, .. } => since <= poll.got,
                        // What came to its end before the node could know it may yet come, as to all the others.
                        End::Died { .. } => *seen != Seen::Never || record.acknowledged.is_some_and(expected),
                    };
                    if gone {
                        *seen = Seen::Gone;
                    }
                }
            }
        }
        findings.empty = poll.hosts.is_empty() && must > 0;
        findings
    }
}
