//! Naming as a legacy cluster answers it, and what is answered in its place while none of its servers does.
//!
//! A request goes to the owner of its service, or to any other server where there is none or it doesn't answer; what is
//! read there is what the owner has, so a client sees what it wrote. While nobody answers, lists are the last good ones,
//! beats are answered by what is known, registrations are kept and sent when a server is back, at the usual pace. Then the
//! registry may have lost what lives by beats: for a beat period short beats are told with all that the last list says, and
//! a list that has become shorter isn't believed.
//!
//! Reads: the servers, by [`asking`](super::asking). Writes: nothing but what it remembers. Source: ours.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Response, header};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    asking::{Asking, Failed, Servers},
    callers::{Caller, Callers, Right},
    counts::{By, Counts},
    kept::{Arrived, Effect, Kept, Turn as Next, Which},
    outage::{Outage, SETTLING, Turn},
    pace::Pace,
    question::{Answered, Question, Refused, Sent, What},
    stale::{self, Answer, Host, HostKey, ListKey, Lists},
};
use crate::base::{burst::Seldom, clock::Clock};

/// Answers naming requests; clones share everything.
#[derive(Clone)]
pub struct Naming(Arc<Inner>);

pub(super) struct Inner {
    pub asking: Asking,
    pub memory: Mutex<Memory>,
    /// There may be something to send.
    keeps: Notify,
    /// What is remembered may matter: there is an outage, or was one just now, or something is kept.
    is_disturbed: AtomicBool,
    /// Requests so far, as they came.
    arrivals: AtomicU64,
    pub clock: Clock,
    pub counts: Counts,
    pub rejections: Seldom,
}

pub(super) struct Memory {
    pub outage: Outage,
    pub pace: Pace,
    pub lists: Lists,
    pub kept: Kept<Write>,
    /// Writes that are under way, by instance.
    writing: HashMap<Which, Writes>,
    pub callers: Callers,
    /// Writes that were sent since the outage.
    pub replayed: u64,
}

/// A write that is kept, and whose it is.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub sent: Sent,
    pub caller: Caller,
}

/// Writes of one instance that are under way.
#[derive(Debug, Default)]
struct Writes {
    under_way: u32,
    /// The one that came last of those that the registry has answered.
    answered: Option<u64>,
}

/// Bounds of what is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How long a list is good.
    pub stale: Duration,
    /// Instances of which a write is kept.
    pub max_kept: usize,
    /// How long a request may take that isn't one of those that clients make all the time.
    pub patience: Duration,
}

/// How it is with the legacy cluster, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// For how long no server has answered, where that is so.
    pub away_for: Option<Duration>,
    /// Writes that wait.
    pub kept: usize,
    /// Lists that are remembered.
    pub lists: usize,
    /// Members that own services, as far as they are known.
    pub owners: usize,
}

impl Standing {
    /// What is wrong, for a person; nothing while a server answers and nothing waits.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let waiting = match self.kept {
            0 => String::new(),
            kept => format!(", {kept} registrations wait"),
        };
        match self.away_for {
            Some(away) => {
                let s = away.as_secs();
                Some(format!("no server answers for {s} s, the last lists are served{waiting}"))
            }
            None if self.kept > 0 => Some(format!("a server answers{waiting}")),
            None => None,
        }
    }
}

impl Naming {
    /// Before these servers.
    #[must_use]
    pub fn new(servers: Arc<dyn Servers>, bounds: Bounds, clock: Clock) -> Self {
        let memory = Memory {
            outage: Outage::new(SETTLING),
            pace: Pace::default(),
            lists: Lists::new(bounds.stale),
            kept: Kept::new(bounds.max_kept),
            writing: HashMap::new(),
            callers: Callers::default(),
            replayed: 0,
        };
        Self(Arc::new(Inner {
            asking: Asking::new(servers, bounds.patience),
            memory: Mutex::new(memory),
            keeps: Notify::new(),
            is_disturbed: AtomicBool::new(false),
            arrivals: AtomicU64::new(0),
            clock,
            counts: Counts::default(),
            rejections: Seldom::default(),
        }))
    }

    /// Who carries these credentials in this namespace.
    #[must_use]
    pub fn caller(&self, namespace: &str, credentials: &[&[u8]]) -> Caller {
        self.0.memory.lock().callers.caller(namespace, credentials)
    }

    /// What became of requests so far.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.0.counts
    }

    /// How it is with the legacy cluster.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let (now, owners) = (self.0.clock.now(), self.0.asking.owners());
        let memory = self.0.memory.lock();
        let away_for = memory.outage.away_for(now);
        Standing { away_for, kept: memory.kept.len(), lists: memory.lists.len(), owners }
    }

    /// Answers a request.
    pub async fn answer(&self, question: Question, mut sent: Sent) -> Answered {
        let inner = &self.0;
        let arrival = inner.arrivals.fetch_add(1, Relaxed);
        let _writing = Writing::of(inner, &question);
        let answered = match inner.answer_before(&question, &mut sent, arrival) {
            Before::Answered(answered) => answered,
            // Instead of the beat, so it costs the registry nothing more.
            Before::Kept(turn) => {
                inner.send(*turn).await;
                Answered::Known(None)
            }
            Before::Ask => match inner.asking.ask(&question, &sent).await {
                Ok(response) => inner.heard(question, response, arrival),
                Err(failed) => inner.unheard(question, sent, failed, arrival),
            },
        };
        inner.counts.note(match &answered {
            Answered::Registry(_) => By::Registry,
            Answered::Stale(_) => By::Stale,
            Answered::Known(_) => By::Known,
            Answered::Unknown => By::Unknown,
            Answered::Kept => By::Kept,
            Answered::Refused(_) => By::Refused,
        });
        answered
    }

    /// Asks for the members every few seconds, and when an owner doesn't answer.
    pub async fn watch_members(self, stopped: CancellationToken) {
        let inner = &self.0;
        inner.asking.watch(&stopped, || inner.is_away(&mut inner.memory.lock(), true)).await;
    }

    /// Sends what is kept, whenever a server takes it.
    pub async fn replay(self, stopped: CancellationToken) {
        while let Some(()) = stopped.run_until_cancelled(self.0.keeps.notified()).await {
            if stopped.run_until_cancelled(self.0.send_kept()).await.is_none() {
                break;
            }
        }
        let waiting = self.0.memory.lock().kept.len();
        if waiting > 0 {
            tracing::warn!(
                waiting,
                "registrations that no legacy server has taken are lost with the process"
            );
        }
    }
}

/// What is done with a request before a server is asked.
enum Before {
    Ask,
    Answered(Answered),
    /// What is kept of the instance of a beat is sent in its place.
    Kept(Box<Next<Write>>),
}

/// A write that is under way; while it is, others of its instance are told apart by when they came.
struct Writing<'a> {
    inner: &'a Inner,
    which: Which,
}

impl<'a> Writing<'a> {
    fn of(inner: &'a Inner, question: &Question) -> Option<Self> {
        let What::Write(which, _) = &question.what else { return None };
        inner.memory.lock().writing.entry(which.clone()).or_default().under_way += 1;
        Some(Self { inner, which: which.clone() })
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let mut memory = self.inner.memory.lock();
        if let Some(writes) = memory.writing.get_mut(&self.which) {
            writes.under_way -= 1;
            if writes.under_way == 0 {
                memory.writing.remove(&self.which);
            }
        }
    }
}

impl Inner {
    /// What is answered without asking, since something of the instance is still to be sent; and what a short beat says more
    /// while the registry may have lost its instance.
    fn answer_before(&self, question: &Question, sent: &mut Sent, arrival: u64) -> Before {
        if !self.is_disturbed.load(Relaxed) {
            return Before::Ask;
        }
        let now = self.clock.now();
        let mut memory = self.memory.lock();
        match &question.what {
            What::Beat { service, host, is_light } => {
                let of_kind = |ephemeral| Which { service: service.clone(), host: host.clone(), ephemeral };
                let kept = &memory.kept;
                let turn = kept.turn_of(&of_kind(true)).or_else(|| kept.turn_of(&of_kind(false)));
                match turn {
                    Some(Next { effect: Effect::Deregisters, .. }) => {
                        return Before::Answered(Answered::Unknown);
                    }
                    Some(_) if memory.outage.is_away() => return Before::Answered(Answered::Known(None)),
                    Some(turn) => return Before::Kept(Box::new(turn)),
                    None => {}
                }
                // The first one that is answered again finds out that the registry is back.
                let may_be_lost = memory.outage.is_away() || memory.outage.is_settling(now);
                if *is_light
                    && may_be_lost
                    && let Some(known) = memory.lists.host(service, host, now).filter(|known| known.ephemeral)
                {
                    sent.tell_all(service, host, known);
                }
                Before::Ask
            }
            What::Write(which, effect) if memory.kept.effect(which).is_some() => {
                let write = Write { sent: sent.clone(), caller: question.caller };
                match self.keep(&mut memory, which, *effect, write, arrival) {
                    // Whoever may is let by the registry, if it is there.
                    Answered::Refused(Refused::Stranger) if !memory.outage.is_away() => Before::Ask,
                    answered => Before::Answered(answered),
                }
            }
            What::Write(..) | What::List(_) | What::Other => Before::Ask,
        }
    }

    /// A server has answered.
    fn heard(&self, question: Question, response: Response<Bytes>, arrival: u64) -> Answered {
        let now = self.clock.now();
        // Read before the lock is taken, which others wait for.
        let hosts = match question.what {
            What::List(_) if self.is_disturbed.load(Relaxed) => Some(stale::hosts_of(response.body())),
            _ => None,
        };
        let mut memory = self.memory.lock();
        memory.pace.note(now);
        self.is_back(&mut memory);
        if let What::Write(which, _) = &question.what {
            let writes = memory.writing.entry(which.clone()).or_default();
            writes.answered = writes.answered.max(Some(arrival));
        }
        if !response.status().is_success() {
            return Answered::Registry(response);
        }
        let settling = memory.outage.is_settling(now);
        match question.what {
            What::List(key) => {
                memory.callers.admit(question.caller, Right::Reads);
                return self.listed(&mut memory, key, response, hosts);
            }
            What::Write(which, effect) => {
                memory.callers.admit(question.caller, Right::Writes);
                if settling && effect == Effect::Deregisters {
                    memory.lists.remove_host(&which.service, &which.host);
                }
            }
            What::Beat { .. } => memory.callers.admit(question.caller, Right::Writes),
            What::Other => {}
        }
        Answered::Registry(response)
    }

    /// A list that a server has answered, with its hosts where they matter.
    fn listed(
        &self,
        memory: &mut Memory,
        key: ListKey,
        mut response: Response<Bytes>,
        hosts: Option<HashMap<HostKey, Host>>,
    ) -> Answered {
        let now = self.clock.now();
        let settling = memory.outage.is_settling(now);
        if settling || !memory.kept.is_empty() {
            let hosts = hosts.unwrap_or_else(|| stale::hosts_of(response.body()));
            if settling
                && memory.lists.has_more(&key, &hosts, now)
                && let Some(last) = memory.lists.last(&key, now)
            {
                return Answered::Stale(last);
            }
            // Who has left is listed no more, though the registry has yet to hear of it.
            let has_left = |host: &HostKey| {
                let of_kind =
                    |ephemeral| Which { service: key.service.clone(), host: host.clone(), ephemeral };
                [true, false]
                    .map(of_kind)
                    .iter()
                    .any(|which| memory.kept.effect(which) == Some(Effect::Deregisters))
            };
            let body = stale::without_hosts(std::mem::take(response.body_mut()), &hosts, has_left);
            *response.body_mut() = body;
        }
        let media_type = response.headers().get(header::CONTENT_TYPE).cloned();
        let answer = Answer { media_type, body: response.body().clone() };
        memory.lists.remember(key, answer, now);
        Answered::Registry(response)
    }

    /// Notes that the cluster is there, and tells people where it wasn't.
    pub fn is_back(&self, memory: &mut Memory) {
        let now = self.clock.now();
        if let Some(Turn::Returned(away)) = memory.outage.answered(now) {
            memory.replayed = 0;
            let (away_s, kept) = (away.as_secs(), memory.kept.len());
            tracing::info!(away_s, kept, "a legacy server answers again");
            self.keeps.notify_one();
        }
        self.calm_down(memory);
    }

    /// Notes whether what is remembered may matter still.
    pub fn calm_down(&self, memory: &Memory) {
        let (now, outage) = (self.clock.now(), &memory.outage);
        let disturbed = outage.is_away() || outage.is_settling(now) || !memory.kept.is_empty();
        if disturbed != self.is_disturbed.load(Relaxed) {
            self.is_disturbed.store(disturbed, Relaxed);
        }
    }

    /// No server has.
    fn unheard(&self, question: Question, sent: Sent, failed: Failed, arrival: u64) -> Answered {
        let now = self.clock.now();
        let mut memory = self.memory.lock();
        // A server whose cluster has just lost an owner can't say what becomes of a write; any can read.
        if failed.refused != Refused::Full && (failed.nobody || matches!(question.what, What::List(_))) {
            self.is_away(&mut memory, failed.refuse);
        }
        let refused = Answered::Refused(failed.refused);
        match question.what {
            What::List(_) if !memory.callers.knows(question.caller, Right::Reads) => {
                Answered::Refused(Refused::Stranger)
            }
            What::List(key) => memory.lists.last(&key, now).map_or(refused, Answered::Stale),
            _ if failed.refused == Refused::Full => refused,
            What::Beat { service, host, .. } => match memory.lists.host(&service, &host, now) {
                Some(known) => Answered::Known(Some(known.metadata.clone())),
                None if memory.outage.is_away() => Answered::Unknown,
                // It is there, and may know it.
                None => refused,
            },
            What::Write(which, effect) => {
                let write = Write { sent, caller: question.caller };
                self.keep(&mut memory, &which, effect, write, arrival)
            }
            What::Other => failed.said.map_or(refused, Answered::Registry),
        }
    }

    fn is_away(&self, memory: &mut Memory, sure: bool) {
        if let Some(Turn::Left) = memory.outage.unanswered(self.clock.now(), sure) {
            memory.pace.pause();
            self.counts.outages.fetch_add(1, Relaxed);
            self.is_disturbed.store(true, Relaxed);
            let lists = memory.lists.len();
            tracing::warn!(
                lists,
                "no legacy server answers: the last lists are served, registrations are kept until one is back"
            );
        }
    }

    fn keep(
        &self,
        memory: &mut Memory,
        which: &Which,
        effect: Effect,
        write: Write,
        arrival: u64,
    ) -> Answered {
        let (callers, caller) = (&memory.callers, write.caller);
        let is_others = || memory.kept.turn_of(which).is_some_and(|kept| kept.write.caller != caller);
        if !callers.knows(caller, Right::Writes)
            || (!callers.lets_anybody(caller, Right::Writes) && is_others())
        {
            return Answered::Refused(Refused::Stranger);
        }
        // The registry has taken one that came later.
        if memory.writing.get(which).is_some_and(|writes| writes.answered > Some(arrival)) {
            return Answered::Kept;
        }
        let bytes = write.sent.bytes();
        if memory.kept.keep(which, Arrived { arrival, effect, write, bytes }).is_err() {
            return Answered::Refused(Refused::NoRoom);
        }
        if memory.kept.effect(which) == Some(Effect::Deregisters) {
            memory.lists.remove_host(&which.service, &which.host);
        }
        self.is_disturbed.store(true, Relaxed);
        self.keeps.notify_one();
        Answered::Kept
    }
}

#[cfg(test)]
#[path = "handle_tests.rs"]
mod tests;
