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
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::Response;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    asking::{Asking, Failed, Servers},
    callers::Caller,
    counts::{By, Counts},
    kept::Which,
    memory::{Before, Memory},
    outage::Turn,
    question::{Answered, Question, Refused, Sent, What},
    replay::Sending,
    stale,
    standing::Standing,
};
use crate::base::{burst::Seldom, clock::Clock};

/// Answers naming requests; clones share everything.
#[derive(Clone)]
pub struct Naming(Arc<Inner>);

pub(super) struct Inner {
    pub asking: Asking,
    pub memory: Mutex<Memory>,
    /// There may be something to send.
    pub keeps: Notify,
    /// What is remembered may matter.
    is_disturbed: AtomicBool,
    /// Requests so far, as they came.
    arrivals: AtomicU64,
    pub clock: Clock,
    pub counts: Counts,
    pub rejections: Seldom,
    turns: Seldom,
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

impl Naming {
    /// Before these servers.
    #[must_use]
    pub fn new(servers: Arc<dyn Servers>, bounds: Bounds, clock: Clock) -> Self {
        Self(Arc::new(Inner {
            asking: Asking::new(servers, bounds.patience),
            memory: Mutex::new(Memory::new(bounds)),
            keeps: Notify::new(),
            is_disturbed: AtomicBool::new(false),
            arrivals: AtomicU64::new(0),
            clock,
            counts: Counts::default(),
            rejections: Seldom::default(),
            turns: Seldom::default(),
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
        let answered = match inner.before(&question, &mut sent, arrival) {
            Before::Ask => inner.ask(question, sent, arrival).await,
            Before::Answered(answered) => answered,
            // Instead of the beat, so it costs the registry nothing more.
            Before::InPlace(turn) => match inner.send(*turn).await {
                Sending::Rejected => Answered::Unknown,
                Sending::Taken | Sending::Waits | Sending::Nobody => Answered::Known(None),
            },
            Before::First(turn) => match inner.send(*turn).await {
                Sending::Taken | Sending::Rejected => inner.ask(question, sent, arrival).await,
                Sending::Waits | Sending::Nobody => Answered::Refused(Refused::Away),
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

/// A write that is under way; while it is, others of its instance are told apart by when they came.
struct Writing<'a> {
    inner: &'a Inner,
    which: Which,
}

impl<'a> Writing<'a> {
    fn of(inner: &'a Inner, question: &Question) -> Option<Self> {
        let What::Write(which, _) = &question.what else { return None };
        inner.memory.lock().begins(which);
        Some(Self { inner, which: which.clone() })
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.inner.memory.lock().ends(&self.which);
    }
}

impl Inner {
    fn before(&self, question: &Question, sent: &mut Sent, arrival: u64) -> Before {
        if !self.is_disturbed.load(Relaxed) {
            return Before::Ask;
        }
        let before = self.memory.lock().before(question, sent, arrival, self.clock.now());
        if matches!(before, Before::Answered(Answered::Kept)) {
            self.has_kept();
        }
        before
    }

    async fn ask(&self, question: Question, sent: Sent, arrival: u64) -> Answered {
        match self.asking.ask(&question, &sent).await {
            Ok(response) => self.heard(question, response, arrival),
            Err(failed) => self.unheard(question, sent, failed, arrival),
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
        // They may have gone and come back without a request that saw it, and have lost what lives by beats.
        if self.asking.were_all_down() {
            self.is_away(&mut memory, true);
        }
        self.is_back(&mut memory);
        memory.heard(question, response, hosts, arrival, now)
    }

    /// Notes that the cluster is there, and tells people where it wasn't.
    pub fn is_back(&self, memory: &mut Memory) {
        let now = self.clock.now();
        if let Some(Turn::Returned(away)) = memory.outage.answered(now) {
            memory.replayed = 0;
            let (away_s, kept) = (away.as_secs(), memory.kept.len());
            if let Some(unlogged) = self.turns.pass(&["back"], Instant::now()) {
                tracing::info!(away_s, kept, unlogged, "a legacy server answers again");
            }
            self.keeps.notify_one();
        }
        self.calm_down(memory);
    }

    /// Notes whether what is remembered may matter still.
    pub fn calm_down(&self, memory: &mut Memory) {
        let disturbed = memory.is_disturbed(self.clock.now());
        if disturbed != self.is_disturbed.load(Relaxed) {
            self.is_disturbed.store(disturbed, Relaxed);
            if !disturbed {
                memory.lists.forget_hosts();
            }
        }
    }

    /// No server has answered.
    fn unheard(&self, question: Question, sent: Sent, failed: Failed, arrival: u64) -> Answered {
        let mut memory = self.memory.lock();
        let says_so = match question.what {
            // Any server can read, whoever owns it.
            What::List(_) => failed.refused != Refused::Full,
            What::Beat { .. } | What::Write(..) => {
                matches!(failed.refused, Refused::TimedOut | Refused::Doubtful)
            }
            // It may have much to do.
            What::Change { .. } | What::Other => false,
        };
        if failed.nobody || says_so {
            self.is_away(&mut memory, failed.nobody);
        }
        let answered = memory.unheard(question, sent, failed, arrival, self.clock.now());
        drop(memory);
        if matches!(answered, Answered::Kept) {
            self.has_kept();
        }
        answered
    }

    /// A request has got no answer, by which it is `sure` that nobody is there, or not.
    pub fn is_away(&self, memory: &mut Memory, sure: bool) {
        if let Some(Turn::Left) = memory.outage.unanswered(self.clock.now(), sure) {
            memory.pace.pause();
            self.counts.outages.fetch_add(1, Relaxed);
            self.is_disturbed.store(true, Relaxed);
            let lists = memory.lists.len();
            if let Some(unlogged) = self.turns.pass(&["away"], Instant::now()) {
                tracing::warn!(
                    lists,
                    unlogged,
                    "no legacy server answers: the last lists are served, registrations are kept until one is back"
                );
            }
        }
    }

    fn has_kept(&self) {
        self.is_disturbed.store(true, Relaxed);
        self.keeps.notify_one();
    }
}

#[cfg(test)]
#[path = "handle_tests.rs"]
mod tests;
