//! What is remembered of a legacy cluster's naming, and what is answered by it while no server does.
//!
//! Pure: who asks, sends and logs is [`handle`](super::handle). Source: ours.

use std::collections::HashMap;

use bytes::Bytes;
use http::{Response, header};
use memchr::memmem;

use super::{
    asking::Failed,
    beaten::Beaten,
    callers::{Caller, Callers, Right},
    handle::Bounds,
    kept::{Arrived, Effect, Kept, Turn, Which},
    outage::Outage,
    pace::Pace,
    question::{Answered, Question, Refused, Sent, What},
    stale::{self, Answer, Host, HostKey, ListKey, Lists},
};
use crate::{base::clock::Millis, model::ServiceKey};

/// All that is remembered.
pub(super) struct Memory {
    pub outage: Outage,
    pub pace: Pace,
    pub lists: Lists,
    pub beaten: Beaten,
    pub kept: Kept<Write>,
    pub callers: Callers,
    /// Writes that were sent since the outage.
    pub replayed: u64,
    /// Writes that are under way, by instance; as many as requests may be.
    writing: HashMap<Which, Writes>,
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
    /// The one that came last of those that the registry has taken.
    taken: Option<u64>,
}

/// What is done with a request before a server is asked.
pub(super) enum Before {
    Ask,
    Answered(Answered),
    /// What is kept of the instance of a beat is sent in its place.
    InPlace(Box<Turn<Write>>),
    /// What is kept of its instance is sent first.
    First(Box<Turn<Write>>),
}

impl Memory {
    /// Remembers nothing yet.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            outage: Outage::default(),
            pace: Pace::default(),
            lists: Lists::new(bounds.stale),
            beaten: Beaten::new(bounds.stale),
            kept: Kept::new(bounds.max_kept),
            callers: Callers::default(),
            replayed: 0,
            writing: HashMap::new(),
        }
    }

    /// Whether it may matter: there is an outage, or was one just now, or something is kept.
    pub fn is_disturbed(&self, now: Millis) -> bool {
        self.outage.is_away() || self.outage.is_settling(now) || !self.kept.is_empty()
    }

    /// A write of this instance begins.
    pub fn begins(&mut self, which: &Which) {
        self.writing.entry(which.clone()).or_default().under_way += 1;
    }

    /// One is over.
    pub fn ends(&mut self, which: &Which) {
        if let Some(writes) = self.writing.get_mut(which) {
            writes.under_way -= 1;
            if writes.under_way == 0 {
                self.writing.remove(which);
            }
        }
    }

    /// What is answered without asking, since something of the instance is still to be sent; and what a short beat says more
    /// while the registry may have lost its instance.
    pub fn before(&mut self, question: &Question, sent: &mut Sent, arrival: u64, now: Millis) -> Before {
        let is_away = self.outage.is_away();
        match &question.what {
            What::Beat { service, host, is_light } => {
                if let Some((which, effect)) = self.kept_of(service, host) {
                    let is_sent = effect == Effect::Registers && !is_away;
                    let turn = if is_sent { self.kept.begin(&which) } else { None };
                    return match (effect, turn) {
                        (_, Some(turn)) => Before::InPlace(Box::new(turn)),
                        (Effect::Registers, None) => Before::Answered(Answered::Known(None)),
                        (Effect::Deregisters, None) => Before::Answered(Answered::Unknown),
                    };
                }
                if *is_light
                    && let Some(known) = self.lists.host(service, host, now).filter(|known| known.ephemeral)
                    // The first one that is answered again finds out that the registry is back.
                    && self.outage.may_lack(known.beats_every(), now)
                {
                    sent.tell_all(service, host, known);
                }
                Before::Ask
            }
            What::Write(which, effect) if self.kept.effect(which).is_some() => {
                let write = Write { sent: sent.clone(), caller: question.caller };
                match self.keep(which, *effect, write, arrival) {
                    // Whoever may is let by the registry, if it is there.
                    Answered::Refused(Refused::Stranger) if !is_away => Before::Ask,
                    answered => Before::Answered(answered),
                }
            }
            What::Change { service, host } => {
                let Some((which, _)) = self.kept_of(service, host) else { return Before::Ask };
                let turn = if is_away { None } else { self.kept.begin(&which) };
                let not_now = || Before::Answered(Answered::Refused(Refused::Away));
                turn.map_or_else(not_now, |turn| Before::First(Box::new(turn)))
            }
            What::Write(..) | What::List(_) | What::Other => Before::Ask,
        }
    }

    /// What is kept of an instance, whichever kind it is of.
    fn kept_of(&self, service: &ServiceKey, host: &HostKey) -> Option<(Which, Effect)> {
        if self.kept.is_empty() {
            return None;
        }
        let of_kind = |ephemeral| Which { service: service.clone(), host: host.clone(), ephemeral };
        let kept = |which: Which| self.kept.effect(&which).map(|effect| (which, effect));
        [true, false].map(of_kind).into_iter().find_map(kept)
    }

    /// A server has answered; `hosts` are those of a list, where somebody has read them.
    pub fn heard(
        &mut self,
        question: Question,
        response: Response<Bytes>,
        hosts: Option<HashMap<HostKey, Host>>,
        arrival: u64,
        now: Millis,
    ) -> Answered {
        if !response.status().is_success() {
            return Answered::Registry(response);
        }
        match question.what {
            What::List(key) => {
                self.callers.admit(question.caller, Right::Reads);
                return self.listed(key, response, hosts, now);
            }
            What::Write(which, effect) => {
                self.callers.admit(question.caller, Right::Writes);
                if let Some(writes) = self.writing.get_mut(&which) {
                    writes.taken = writes.taken.max(Some(arrival));
                }
                self.kept.overtaken(&which, arrival);
                self.is_taken(&which, effect, now);
            }
            What::Beat { service, host, .. } => {
                self.callers.admit(question.caller, Right::Writes);
                match memmem::find(response.body(), b"20404") {
                    None => self.beaten.note(&service, &host, now),
                    Some(_) => self.beaten.forget(&service, &host),
                }
            }
            What::Change { .. } | What::Other => {}
        }
        Answered::Registry(response)
    }

    /// The registry has taken a write.
    pub fn is_taken(&mut self, which: &Which, effect: Effect, now: Millis) {
        match effect {
            Effect::Registers => self.beaten.note(&which.service, &which.host, now),
            Effect::Deregisters => {
                self.beaten.forget(&which.service, &which.host);
                if self.outage.is_settling(now) {
                    self.lists.remove_host(&which.service, &which.host);
                }
            }
        }
    }

    /// A list that a server has answered.
    fn listed(
        &mut self,
        key: ListKey,
        mut response: Response<Bytes>,
        hosts: Option<HashMap<HostKey, Host>>,
        now: Millis,
    ) -> Answered {
        let settling = self.outage.is_settling(now);
        if settling || !self.kept.is_empty() {
            let hosts = hosts.unwrap_or_else(|| stale::hosts_of(response.body()));
            let may_lack = |host: &Host| self.outage.may_lack(host.beats_every(), now);
            if settling
                && self.lists.has_more(&key, &hosts, may_lack, now)
                && let Some(last) = self.lists.last(&key, now)
            {
                return Answered::Stale(last);
            }
            // Who has left is listed no more, though the registry has yet to hear of it.
            let has_left = |host: &HostKey| {
                self.kept_of(&key.service, host).is_some_and(|(_, effect)| effect == Effect::Deregisters)
            };
            let body = stale::without_hosts(std::mem::take(response.body_mut()), &hosts, has_left);
            *response.body_mut() = body;
        }
        let media_type = response.headers().get(header::CONTENT_TYPE).cloned();
        let answer = Answer { media_type, body: response.body().clone() };
        self.lists.remember(key, answer, now);
        Answered::Registry(response)
    }

    /// No server has answered.
    pub fn unheard(
        &mut self,
        question: Question,
        sent: Sent,
        failed: Failed,
        arrival: u64,
        now: Millis,
    ) -> Answered {
        let refused = Answered::Refused(failed.refused);
        match question.what {
            What::List(_) if !self.callers.knows(question.caller, Right::Reads) => {
                Answered::Refused(Refused::Stranger)
            }
            What::List(key) => self.lists.last(&key, now).map_or(refused, Answered::Stale),
            What::Beat { service, host, .. } => match self.lists.host(&service, &host, now) {
                Some(known) => Answered::Known(Some(known.metadata.clone())),
                None if self.beaten.knows(&service, &host, now) => Answered::Known(None),
                None if self.outage.is_away() => Answered::Unknown,
                // The registry is there, and may know it: it beats again.
                None => refused,
            },
            // It isn't sent again: who can't know whether it was done is told so.
            What::Write(..) if matches!(failed.refused, Refused::Full | Refused::Doubtful) => refused,
            What::Write(which, effect) => {
                self.keep(&which, effect, Write { sent, caller: question.caller }, arrival)
            }
            What::Change { .. } | What::Other => failed.said.map_or(refused, Answered::Registry),
        }
    }

    fn keep(&mut self, which: &Which, effect: Effect, write: Write, arrival: u64) -> Answered {
        let caller = write.caller;
        let is_others = self.kept.write(which).is_some_and(|kept| kept.caller != caller);
        if !self.callers.knows(caller, Right::Writes) || (is_others && !self.callers.lets_anybody(caller)) {
            return Answered::Refused(Refused::Stranger);
        }
        // The registry has taken one that came later.
        if self.writing.get(which).is_some_and(|writes| writes.taken > Some(arrival)) {
            return Answered::Kept;
        }
        let bytes = write.sent.bytes();
        if self.kept.keep(which, Arrived { arrival, effect, write, bytes }).is_err() {
            return Answered::Refused(Refused::NoRoom);
        }
        if self.kept.effect(which) == Some(Effect::Deregisters) {
            self.lists.remove_host(&which.service, &which.host);
            self.beaten.forget(&which.service, &which.host);
        }
        Answered::Kept
    }
}
