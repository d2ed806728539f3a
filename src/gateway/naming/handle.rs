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
        atomic::{AtomicBool, Ordering::Relaxed},
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
    callers::{Caller, Callers},
    counts::{By, Counts},
    kept::{Effect, Kept, Which},
    outage::{Outage, SETTLING, Turn},
    pace::Pace,
    question::{Answered, Question, Refused, Sent, What},
    stale::{self, Answer, Lists},
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
    clock: Clock,
    pub counts: Counts,
    pub rejections: Seldom,
}

pub(super) struct Memory {
    pub outage: Outage,
    pub pace: Pace,
    pub lists: Lists,
    pub kept: Kept<Sent>,
    pub callers: Callers,
    /// Writes that were sent since the outage.
    pub replayed: u64,
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
            callers: Callers::default(),
            replayed: 0,
        };
        Self(Arc::new(Inner {
            asking: Asking::new(servers, bounds.patience),
            memory: Mutex::new(memory),
            keeps: Notify::new(),
            is_disturbed: AtomicBool::new(false),
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
        let answered = match inner.answer_before(&question, &mut sent) {
            Some(answered) => answered,
            None => match inner.asking.ask(&question, &sent).await {
                Ok(response) => inner.heard(question, response),
                Err(failed) => inner.unheard(question, sent, failed),
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
        self.0.asking.watch(&stopped).await;
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

impl Inner {
    /// What is answered without asking, since something of the instance is still to be sent; and what a short beat says more
    /// while the registry may have lost its instance.
    fn answer_before(&self, question: &Question, sent: &mut Sent) -> Option<Answered> {
        if !self.is_disturbed.load(Relaxed) {
            return None;
        }
        let now = self.clock.now();
        let mut memory = self.memory.lock();
        match &question.what {
            What::Beat { service, host, is_light } => {
                let mut which = Which { service: service.clone(), host: host.clone(), ephemeral: true };
                let mut effect = memory.kept.effect(&which);
                if effect.is_none() {
                    which.ephemeral = false;
                    effect = memory.kept.effect(&which);
                }
                match effect {
                    Some(Effect::Registers) => return Some(Answered::Known(None)),
                    Some(Effect::Deregisters) => return Some(Answered::Unknown),
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
                None
            }
            What::Write(which, effect) => {
                memory.kept.effect(which)?;
                Some(self.keep(&mut memory, which, *effect, sent.clone(), question.caller))
            }
            What::List(_) | What::Other => None,
        }
    }

    /// A server has answered.
    fn heard(&self, question: Question, response: Response<Bytes>) -> Answered {
        let now = self.clock.now();
        // Read before the lock is taken, which others wait for.
        let hosts = match question.what {
            What::List(_) if self.is_disturbed.load(Relaxed) => Some(stale::hosts_of(response.body())),
            _ => None,
        };
        let mut memory = self.memory.lock();
        memory.pace.note(now);
        self.is_back(&mut memory);
        let settling = memory.outage.is_settling(now);
        if !response.status().is_success() {
            return Answered::Registry(response);
        }
        memory.callers.admit(question.caller);
        match question.what {
            What::List(key) => {
                if settling
                    && hosts.is_some_and(|hosts| memory.lists.has_more(&key, &hosts, now))
                    && let Some(last) = memory.lists.last(&key, now)
                {
                    return Answered::Stale(last);
                }
                let media_type = response.headers().get(header::CONTENT_TYPE).cloned();
                let answer = Answer { media_type, body: response.body().clone() };
                memory.lists.remember(key, answer, now);
            }
            What::Write(which, Effect::Deregisters) if settling => {
                memory.lists.remove_host(&which.service, &which.host);
            }
            What::Write(..) | What::Beat { .. } | What::Other => {}
        }
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
    fn unheard(&self, question: Question, sent: Sent, failed: Failed) -> Answered {
        let now = self.clock.now();
        let mut memory = self.memory.lock();
        if failed.refused == Refused::Full {
            return Answered::Refused(Refused::Full);
        }
        // A server whose cluster has just lost an owner can't say what becomes of a write; any can read.
        if failed.nobody || matches!(question.what, What::List(_)) {
            self.is_away(&mut memory);
        }
        match question.what {
            What::List(_) if !memory.callers.knows(question.caller) => Answered::Refused(Refused::Stranger),
            What::List(key) => {
                memory.lists.last(&key, now).map_or(Answered::Refused(failed.refused), Answered::Stale)
            }
            What::Beat { service, host, .. } => match memory.lists.host(&service, &host, now) {
                Some(known) => Answered::Known(Some(known.metadata.clone())),
                None => Answered::Unknown,
            },
            What::Write(which, effect) => self.keep(&mut memory, &which, effect, sent, question.caller),
            What::Other => failed.said.map_or(Answered::Refused(failed.refused), Answered::Registry),
        }
    }

    fn is_away(&self, memory: &mut Memory) {
        if let Some(Turn::Left) = memory.outage.unanswered(self.clock.now()) {
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
        sent: Sent,
        caller: Caller,
    ) -> Answered {
        if !memory.callers.knows(caller) {
            return Answered::Refused(Refused::Stranger);
        }
        let bytes = sent.bytes();
        if memory.kept.keep(which.clone(), effect, sent, bytes).is_err() {
            return Answered::Refused(Refused::NoRoom);
        }
        if effect == Effect::Deregisters {
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
