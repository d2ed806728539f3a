//! Loading the data of the others: at the start, and after the node stood still.
//!
//! Pure. All peers that can be reached are asked, since the first that answers may have slept, too; what they have is
//! merged. Source: Nacos 1.4.8 naming module, distro load task, which takes the first answer.

use std::collections::BTreeMap;

use crate::{
    base::{
        clock::Millis,
        mutant::{self, Mutant},
    },
    cluster::{Address, Peer},
};

/// How long a peer may be silent before a node that has loaded from nobody goes on without it, in milliseconds.
const SILENCE_MS: u64 = 10_000;
/// The same where it has loaded from another, and for a peer that is asked once more.
const PATIENCE_MS: u64 = 3_000;
/// Data that were loaded longer ago are loaded once more before the node serves, in milliseconds.
const FRESH_MS: u64 = 500;
/// How long a node compares at least after it stood still, in milliseconds: until what lay in its sockets has been read.
pub(super) const LEAST_COMPARING_MS: u64 = 1_000;
/// Pause between two tries at one peer, in milliseconds.
const RETRY_MS: u64 = 500;
/// The same at one whose data are of another time, at first and after a while: all of them come each time, and clocks aren't set
/// right in moments.
const CLOCK_RETRY_MS: std::ops::RangeInclusive<u64> = 3_000..=30_000;
/// How long such a peer may be silent before it counts as one that always was, in milliseconds: it has data, and a node
/// without them would show empty lists.
const CLOCK_SILENCE_MS: u64 = 60_000;

/// How an attempt to load from a peer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loaded {
    /// What it has is merged.
    Merged,
    /// It has nothing, as a member of 1.x that has just started and hasn't loaded yet.
    Empty,
    /// It says that it is starting itself.
    Starting,
    /// It doesn't take this node for a member.
    Unknown,
    /// Its port is shut.
    Refused,
    /// What it has can't be taken, since this node's clock is far behind: it is asked until the clock is right.
    OfAnotherTime,
    /// No answer, or none that can be used.
    Failed,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    last: Option<Loaded>,
    under_way: bool,
    /// When to ask again; while a request is under way, when to try another beside it.
    next: Millis,
    /// How many requests have gone without an answer.
    unanswered: u32,
    /// When it was last asked.
    asked: Millis,
    /// When the newest of its data that are here was asked for.
    merged: Millis,
    /// When it last answered, or failed to.
    heard: Millis,
    /// When it first and when it last told what is of another time.
    of_another_time: Option<(Millis, Millis)>,
    /// How it answered when it was asked once more, last.
    anew: Option<Loaded>,
    /// It takes its time to answer, while what others have told grows old.
    is_slow: bool,
    /// It is a member of 1.x, whose data say nothing of when they were written: they are compared with those of all others when
    /// these are here.
    is_legacy: bool,
    /// It was asked since all are asked once more.
    asked_again: bool,
}

impl Asked {
    fn is_merged(&self) -> bool {
        self.last == Some(Loaded::Merged)
    }

    /// Whether its data are here, and were here before those of others.
    fn is_uncompared(&self) -> bool {
        self.is_legacy && self.is_merged() && !self.asked_again && !self.is_slow
    }
}

/// A load that lasts until enough peers have answered.
#[derive(Debug)]
pub struct Load {
    began: Millis,
    not_before: Millis,
    peers: BTreeMap<Address, Asked>,
    /// Since when the data of one peer are here.
    merged_at: Option<Millis>,
    /// Since when peers are asked once more for what they heard meanwhile.
    again: Option<Millis>,
}

impl Load {
    /// A load from `peers` that begins now.
    #[must_use]
    pub fn new(peers: &[Peer], now: Millis) -> Self {
        let mut load =
            Self { began: now, not_before: now, peers: BTreeMap::new(), merged_at: None, again: None };
        load.relist(peers, now);
        load
    }

    /// The same of a node that stood still.
    #[must_use]
    pub fn after_standstill(peers: &[Peer], now: Millis) -> Self {
        Self { not_before: now.plus(LEAST_COMPARING_MS), ..Self::new(peers, now) }
    }

    /// Goes on with these peers: new ones are asked, those that are gone aren't waited for.
    pub fn relist(&mut self, peers: &[Peer], now: Millis) {
        let before = std::mem::take(&mut self.peers);
        let asked = |address: &Address| before.get(address).copied();
        let fresh = Asked {
            last: None,
            under_way: false,
            next: now,
            unanswered: 0,
            asked: now,
            merged: now,
            heard: now,
            of_another_time: None,
            anew: None,
            is_slow: false,
            is_legacy: true,
            asked_again: false,
        };
        let asked =
            |peer: &Peer| Asked { is_legacy: peer.nacre.is_none(), ..asked(&peer.address).unwrap_or(fresh) };
        self.peers = peers.iter().map(|peer| (peer.address.clone(), asked(peer))).collect();
    }

    /// Whom to ask now.
    pub fn take(&mut self, now: Millis) -> Vec<Address> {
        if self.again.is_none() && now >= self.not_before && self.has_enough(now) {
            self.again = Some(now);
        }
        for asked in self.peers.values_mut().filter(|asked| self.again.is_some() && asked.is_merged()) {
            asked.is_slow |= asked.under_way && now.since(asked.asked) > FRESH_MS;
        }
        // Who failed to answer once more has been asked; whose answer came late has answered the question of then.
        let since = |asked: &Asked| {
            if self.again.is_some_and(|again| asked.asked >= again) { asked.asked } else { asked.merged }
        };
        let may_ask_again =
            |asked: &Asked| asked.is_merged() && !asked.under_way && !asked.is_slow && since(asked) < now;
        let is_old = |asked: &Asked| {
            may_ask_again(asked) && (now.since(since(asked)) > FRESH_MS || asked.is_uncompared())
        };
        // All at once: those asked later would only be fresh when the others are old.
        let again = self.again.is_some() && !self.awaits_any(now) && self.peers.values().any(is_old);
        let retries = self.hears_nobody(now);
        let due = |asked: &Asked| match asked.last {
            Some(Loaded::Merged) => again && may_ask_again(asked) || retries && asked.next <= now,
            _ => asked.next <= now,
        };
        let mut addresses = Vec::new();
        for (address, asked) in self.peers.iter_mut().filter(|(_, asked)| due(asked)) {
            // A request can hang in a connection to a peer that has long been well again; a long answer may take its time.
            // Where nobody answers any more, it is the links that are to blame.
            let doubled = if retries { 0 } else { asked.unanswered };
            let patience = PATIENCE_MS.saturating_mul(2_u64.saturating_pow(doubled));
            (asked.under_way, asked.asked, asked.next) = (true, now, now.plus(patience));
            asked.asked_again |= self.again.is_some();
            asked.unanswered = asked.unanswered.saturating_add(1);
            addresses.push(address.clone());
        }
        addresses
    }

    /// Notes how the attempt ended that was made when the peer was `asked`. Where it was asked again since, the data that come
    /// so late are here like any others; but the later answer is waited for all the same, and only what was asked for since all
    /// are asked once more tells what was heard meanwhile. What was asked for by another load, before this one, says nothing.
    pub fn answered(&mut self, address: &Address, asked: Millis, outcome: Loaded, now: Millis) {
        let Some(peer) = self.peers.get_mut(address).filter(|_| asked >= self.began) else { return };
        let is_merged = outcome == Loaded::Merged;
        if is_merged {
            self.merged_at.get_or_insert(now);
            peer.merged = if peer.is_merged() { peer.merged.max(asked) } else { asked };
        }
        peer.heard = now;
        if outcome == Loaded::OfAnotherTime {
            let first = peer.of_another_time.map_or(now, |(first, _)| first);
            peer.of_another_time = Some((first, now));
        }
        if asked < peer.asked {
            if is_merged {
                peer.last = Some(outcome);
            }
            if is_merged && self.again.is_some_and(|again| asked >= again) {
                peer.anew = Some(outcome);
            }
            return;
        }
        // Who doesn't answer once more has given its data before.
        let last = peer.last.filter(|last| *last == Loaded::Merged).unwrap_or(outcome);
        let anew = self.again.map(|_| outcome);
        let is_slow = peer.is_slow || anew.is_some() && now.since(asked) > FRESH_MS;
        // It doubles.
        let of_another_time = peer.of_another_time.filter(|_| outcome == Loaded::OfAnotherTime);
        let pause_ms = of_another_time.map_or(RETRY_MS, |(first, _)| {
            now.since(first).clamp(*CLOCK_RETRY_MS.start(), *CLOCK_RETRY_MS.end())
        });
        let (next, unanswered) = (now.plus(pause_ms), 0);
        *peer = Asked { last: Some(last), under_way: false, next, unanswered, anew, is_slow, ..*peer };
    }

    /// Whether the node has what it can get, and has it fresh: what was loaded long before is asked for once more, since
    /// nobody sends changes to a node that loads. What grows old while a slow peer is waited for is asked for again; where
    /// nobody answers that has before, for ten seconds.
    #[must_use]
    pub fn is_complete(&self, now: Millis) -> bool {
        if self.again.is_none() {
            return self.peers.is_empty() && now >= self.not_before;
        }
        let has_compared = !self.peers.values().any(Asked::is_uncompared);
        self.has_enough(now) && has_compared && !self.awaits_any(now) && !self.hears_nobody(now)
    }

    /// Whether an answer of one that was asked once more is waited for.
    fn awaits_any(&self, now: Millis) -> bool {
        let waits = self.again.is_some_and(|again| now.since(again) < PATIENCE_MS);
        let awaits = |asked: &Asked| asked.is_merged() && asked.under_way && (waits || !asked.is_slow);
        self.peers.values().any(awaits)
    }

    /// Whether of those whose data are here none has answered once more, and one that isn't gone may do so yet.
    fn hears_nobody(&self, now: Millis) -> bool {
        let waits = self.again.is_some_and(|again| now.since(again) < SILENCE_MS);
        let mut merged = self.peers.values().filter(|asked| asked.is_merged());
        let is_heard =
            |asked: &Asked| asked.anew == Some(Loaded::Merged) || asked.anew.is_none() && !asked.under_way;
        let is_silent = |asked: &Asked| asked.under_way || asked.anew == Some(Loaded::Failed);
        waits && !merged.clone().any(is_heard) && merged.any(is_silent)
    }

    /// Whether enough peers have answered.
    ///
    /// With the data of one peer that has any: when every other has answered, or its try has failed; after three seconds without those
    /// that are silent or don't know this node, which nobody tells of changes before they do.
    /// Without: when all are starting as this node is, or have been silent for ten seconds; those that don't know it must
    /// come to know it, unless they have said nothing more for as long, or one that starts knows it and they don't after that time. Those whose data are of another time are waited for while
    /// they answer, and a minute more.
    fn has_enough(&self, now: Millis) -> bool {
        let mut states = self.peers.values().map(|asked| asked.last);
        if states.clone().any(|last| last == Some(Loaded::Merged)) {
            if mutant::is(Mutant::LoadsFromFirst) {
                return true;
            }
            let waited = |since: Millis| now.since(since) >= PATIENCE_MS;
            return states.all(|last| match last {
                None => waited(self.began),
                Some(Loaded::Unknown) => self.merged_at.is_some_and(waited),
                Some(_) => true,
            });
        }
        let silent = now.since(self.began) >= SILENCE_MS;
        let starts = self.peers.values().any(|asked| asked.last == Some(Loaded::Starting));
        let has_answered =
            |asked: &Asked| asked.of_another_time.is_some_and(|(_, at)| now.since(at) < CLOCK_SILENCE_MS);
        self.peers.values().all(|asked| match asked.last {
            Some(Loaded::Refused | Loaded::Failed | Loaded::OfAnotherTime) if has_answered(asked) => false,
            Some(Loaded::Starting | Loaded::Empty | Loaded::Merged) => true,
            // Their lists may be the wrong ones.
            Some(Loaded::Unknown) if starts => silent,
            Some(Loaded::Unknown) => now.since(asked.heard) >= SILENCE_MS,
            Some(Loaded::Refused | Loaded::Failed | Loaded::OfAnotherTime) | None => silent,
        })
    }

    /// Whether everybody has told who in its eyes owns what, as far as that can be had. Who isn't there, starts itself, or doesn't take
    /// this node for a member says nothing that could be missing here. Who hangs may take itself for an owner, unless it was known to be
    /// away (`is_down`) and the node goes on without it.
    pub fn has_all_rings(
        &self,
        has_told: impl Fn(&Address) -> bool,
        is_down: impl Fn(&Address) -> bool,
    ) -> bool {
        self.peers.iter().all(|(address, asked)| match asked.last {
            Some(Loaded::Refused | Loaded::Starting | Loaded::Unknown) => true,
            Some(Loaded::Failed) | None => has_told(address) || self.again.is_some() && is_down(address),
            Some(Loaded::Merged | Loaded::Empty | Loaded::OfAnotherTime) => has_told(address),
        })
    }

    /// The peers that have data, which are merged.
    pub fn filled(&self) -> impl Iterator<Item = &Address> {
        self.that(Asked::is_merged)
    }

    /// The peers whose data are merged, or that have none.
    pub fn merged(&self) -> impl Iterator<Item = &Address> {
        self.that(|asked| matches!(asked.last, Some(Loaded::Merged | Loaded::Empty)))
    }

    fn that(&self, is: impl Fn(&Asked) -> bool) -> impl Iterator<Item = &Address> {
        self.peers.iter().filter(move |(_, asked)| is(asked)).map(|(address, _)| address)
    }

    /// When something is to be done next after `now`, if no answer comes before.
    #[must_use]
    pub fn next(&self, now: Millis) -> Option<Millis> {
        let retries = self.hears_nobody(now);
        let tries = self.peers.values().filter(|asked| retries || !asked.is_merged());
        let fresh = |asked: &Asked| asked.asked.plus(FRESH_MS + 1);
        let fresh = self.peers.values().filter(|asked| asked.is_merged() && asked.under_way).map(fresh);
        let ends = [SILENCE_MS, PATIENCE_MS].map(|ms| self.began.plus(ms));
        let ends_again =
            [self.merged_at, self.again].into_iter().flatten().map(|since| since.plus(PATIENCE_MS));
        let gives_up = self.again.map(|again| again.plus(SILENCE_MS));
        let is_next =
            self.again.is_some() && !self.awaits_any(now) && self.peers.values().any(Asked::is_uncompared);
        let compares = is_next.then(|| now.plus(1));
        let ends =
            ends.into_iter().chain(ends_again).chain(gives_up).chain(compares).chain([self.not_before]);
        let unknown = self.peers.values().filter(|asked| asked.last == Some(Loaded::Unknown));
        let ends = ends.chain(unknown.map(|asked| asked.heard.plus(SILENCE_MS)));
        let clocks = self.peers.values().filter_map(|asked| asked.of_another_time);
        let ends = ends.chain(clocks.map(|(_, at)| at.plus(CLOCK_SILENCE_MS)));
        let ends = ends.chain(fresh).filter(|end| *end > now);
        tries.map(|asked| asked.next).chain(ends).min()
    }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
