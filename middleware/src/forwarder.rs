//! Passes writes on to the owners of their services, and knows what to do when an owner doesn't take one.
//!
//! | what comes of it | what the client gets |
//! | --- | --- |
//! | an answer | that answer |
//! | nobody is there, the connection ends before an answer's first byte, or a Nacre peer says that it serves nobody | the membership is told; the owner is worked out anew and the write goes there, or is done here; once |
//! | nothing within the time-out, or what isn't a whole answer: cut, too large, no HTTP | 503; it may have been done, so it isn't sent again |
//! | this host can't send it | 503; it says nothing of the peer |
//! | the peer is suspect or open, all members are Nacre | this node stands in for it |
//! | the peer is open, some member is 1.x | 503, but for one write a second, which is sent |
//! | as many as may are under way | 503 |
//! | it comes from the peer that owns it, which takes this node for the owner | done here; if some member is 1.x also pushed to all |
//! | a server sends it while this node leaves, which owns nothing any more | done here and pushed to all members |
//! | the peer says that it has been passed on as often as may be | done here; if some member is 1.x also pushed to all |
//! | the peer says, as one of 1.x does, that it isn't the owner | all Nacre: 503, since it doesn't take this node for a member; else done here and pushed to all members |
//! | the peer answers with a redirect, whatever it says | the same: where another server is to be asked is nothing to a client |
//! | the peer says that it came too late, in time by the clock of this node | that clock stood still: sent once more under another number |
//! | the peer says that it came too late, and did, or says so again | all Nacre: this node stands in for it; else 503 |
//! | the time is over in which nobody else does it, since a peer sent it late or this node stood still, and it would be sent to the next owner or done here in another's place | 503, which tells a peer that it came too late: that one does it; what was found out about the owner counts all the same |
//!
//! Writes name what they change, so that it makes no difference whether one is done twice.

mod underway;
mod words;

use std::{
    convert::Infallible,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, Response, StatusCode};
use tokio::sync::Notify;
use tower_service::Service;

use crate::{
    Call, V1Response,
    breaker::{Admission, Bounds, Turn},
    distro_filter::{Owner, Target},
    lateness::Sent,
    outgoing::{self, MOST_LINE_BYTES, Outgoing, Own, TooLong},
    peers::{Peer, Peers},
    refusal::{State, refusal, unavailable, unavailable_in},
};

use self::underway::{Underway, call_ready};
pub use self::words::{Fault, Members, Note, Outcome, StandIn, Writes};

/// How often an open Nacre peer is asked whether it answers again.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// What it is asked for: an entry of Nacre's own that always answers.
const PROBE_PATH: &str = "/livez";
/// A peer refuses what is so much younger than the time at which this node may do it itself: for the clocks' grain.
const MARGIN: Duration = Duration::from_millis(5);
/// By so much two nodes may reckon the same time otherwise, in whole milliseconds on either side.
const GRAIN: Duration = Duration::from_millis(3);
/// To the owner, and to the next one.
const MOST_SENDS: usize = 2;

/// Sends writes to peers; clones share connections and breakers.
#[derive(Debug)]
pub struct Forwarder<M, C> {
    /// All of it: every request clones the stack of layers.
    shared: Arc<Shared<M, C>>,
}

impl<M, C> Clone for Forwarder<M, C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

#[derive(Debug)]
struct Shared<M, C> {
    members: M,
    client: C,
    own: Own,
    timeout: Duration,
    peers: Peers,
    opened: Notify,
}

/// Where a write comes from, and how long this node may be about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// How many Nacre nodes have passed it on before.
    hops: u8,
    /// Who sent it waits until then; later it would undo what was written since.
    until: Instant,
}

impl Origin {
    /// The refusal of a write for which it is too late. A peer that still waits for it does it then.
    pub(crate) fn too_late(self) -> Option<V1Response> {
        let text = "the write has waited for too long to be done, please try again";
        let refusal = || {
            if self.hops > 0 { unavailable_in(State::Late, text) } else { unavailable(text) }
        };
        (now() >= self.until).then(refusal)
    }
}

/// What came of sending a write to a peer.
enum Attempt {
    /// That is the answer.
    Answer(V1Response, Outcome),
    /// The peer is gone, and hasn't done it.
    Gone,
    /// The peer serves nobody, and hasn't done it.
    ServesNobody,
    /// The peer says that this node has given it up, which it hasn't: its clock stood still. It wasn't done.
    ClockStood,
    /// This node shall do it in the peer's place.
    StandIn(StandIn, Outcome),
}

/// What came of sending a write to its owner, and to the next one where that is gone.
enum SentOn {
    /// That is the answer.
    Answer(V1Response, Outcome),
    /// This node shall do it in the owner's place.
    StandIn(StandIn, Outcome),
    /// This node is the owner now.
    Ours,
}

/// This node does it, as the owner doesn't.
const DEPUTY: Attempt = Attempt::StandIn(StandIn::Deputy, Outcome::Deputy);

impl<M, C> Forwarder<M, C>
where
    M: Members,
    C: Service<Outgoing, Response = Response<Bytes>, Error = Fault> + Clone,
{
    /// One that has sent nothing yet. `client` must make whatever connections it needs.
    #[must_use]
    pub fn new(members: M, client: C, own: Own, bounds: Bounds) -> Self {
        let peers = Peers::new(bounds);
        let shared = Shared { members, client, own, timeout: bounds.timeout, peers, opened: Notify::new() };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn members(&self) -> &M {
        &self.shared.members
    }

    /// Of a write that comes now; `left`: for how long its sender waits, where it says so.
    pub(crate) fn origin(&self, hops: u8, left: Option<Duration>) -> Origin {
        Origin { hops, until: now() + left.unwrap_or(self.shared.timeout) }
    }

    /// The addresses of members that don't answer: what this node's reports call slow.
    #[must_use]
    pub fn slow(&self) -> Vec<Arc<str>> {
        let open = self.shared.peers.open(|address| self.members().is_listed(address));
        open.iter().map(|peer| Arc::clone(&peer.address)).collect()
    }

    /// Asks open Nacre peers once a second whether they answer again; to be run for as long as writes are passed on.
    ///
    /// No write waits for that: while a peer is open, this node stands in for it. One of 1.x that is open may turn out to be
    /// Nacre at any time.
    pub async fn probe(self) -> Infallible {
        loop {
            let open = self.shared.peers.open(|address| self.members().is_listed(address));
            let probed: Vec<_> =
                open.iter().filter(|peer| peer.is_nacre()).map(|peer| self.ask(peer)).collect();
            if open.is_empty() {
                self.shared.opened.notified().await;
            } else {
                tokio::join!(tokio::time::sleep(PROBE_EVERY), join_all(probed));
            }
        }
    }

    async fn ask(&self, peer: &Peer) {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = http::Uri::from_static(PROBE_PATH);
        request.headers_mut().clone_from(&self.shared.own.headers);
        let outgoing = Outgoing { to: Arc::clone(&peer.address), request, long_target: None };
        let answer =
            tokio::time::timeout(self.shared.timeout, call_ready(self.shared.client.clone(), outgoing)).await;
        if matches!(answer, Ok(Ok(_))) {
            let turn = peer.breaker.lock().answered(now());
            self.turned(peer, turn);
        }
    }

    /// Passes a write of `target`'s on, or does it here with `inner` where that is right.
    pub(crate) async fn pass_on<F, S>(
        &self,
        inner: S,
        call: Call<F>,
        target: Target,
        origin: Origin,
    ) -> V1Response
    where
        M: Writes<F>,
        S: Service<Call<F>, Response = V1Response, Error = Infallible>,
    {
        let came =
            Came { members: self.members(), call: &call, at_ms: self.members().now_ms(), is_over: false };
        match self.sent_on(&call, target, origin).await {
            SentOn::Answer(response, outcome) => {
                came.answered(&response);
                self.noted(response, outcome)
            }
            SentOn::StandIn(why, outcome) => {
                came.done_here();
                self.stand_in(inner, call, why, outcome).await
            }
            SentOn::Ours => {
                came.done_here();
                self.noted(done(inner, call).await, Outcome::Moved)
            }
        }
    }

    /// Sends a write to its owner, and where that is gone to the next one.
    async fn sent_on<F>(&self, call: &Call<F>, mut target: Target, origin: Origin) -> SentOn
    where
        M: Writes<F>,
    {
        let late = |refusal| SentOn::Answer(refusal, Outcome::TimedOut);
        for left in (0..MOST_SENDS).rev() {
            match self.send(call, &target, origin).await {
                Attempt::Answer(response, outcome) => return SentOn::Answer(response, outcome),
                Attempt::StandIn(why, outcome) => {
                    return origin.too_late().map_or(SentOn::StandIn(why, outcome), late);
                }
                // What is found out about the peer counts, even if it is too late for the write.
                Attempt::Gone => self.members().refused(&target.address),
                Attempt::ServesNobody => self.members().serves_nobody(&target.address),
                Attempt::ClockStood if left > 0 => {}
                Attempt::ClockStood if target.all_nacre => {
                    let here = SentOn::StandIn(StandIn::Deputy, Outcome::Deputy);
                    return origin.too_late().map_or(here, late);
                }
                Attempt::ClockStood => {
                    let text =
                        "the owner of this service takes what is sent to it for late, please try again later";
                    return SentOn::Answer(unavailable(text), Outcome::TimedOut);
                }
            }
            if let Some(refusal) = origin.too_late() {
                return late(refusal);
            }
            match self.members().owner(call) {
                Owner::Peer(next) => target = next,
                Owner::Nobody(standstill) => {
                    return SentOn::Answer(standstill.answer(), Outcome::Unreachable);
                }
                Owner::Here | Owner::Alone => return SentOn::Ours,
            }
        }
        let text =
            "neither the owner of this service nor the next one can be reached, please try again later";
        SentOn::Answer(unavailable(text), Outcome::Unreachable)
    }

    fn noted(&self, response: V1Response, outcome: Outcome) -> V1Response {
        self.members().note(Note::Outcome(outcome));
        response
    }

    /// Does a write here that a Nacre peer has passed on, and that is that peer's as this node sees it: sent back, it
    /// would only come again.
    pub(crate) async fn settle<F, S>(&self, inner: S, call: Call<F>, sender: &Target) -> V1Response
    where
        M: Writes<F>,
        S: Service<Call<F>, Response = V1Response, Error = Infallible>,
    {
        self.members().note(Note::Disagrees(&sender.address));
        let why = if sender.all_nacre { StandIn::Deputy } else { StandIn::Disagreement };
        self.stand_in(inner, call, why, Outcome::Settled).await
    }

    /// Does a write here that a server has passed on for it takes this node, which leaves, for the owner still.
    pub(crate) async fn keep<F, S>(&self, inner: S, call: Call<F>) -> V1Response
    where
        M: Writes<F>,
        S: Service<Call<F>, Response = V1Response, Error = Infallible>,
    {
        self.stand_in(inner, call, StandIn::Disagreement, Outcome::Settled).await
    }

    async fn stand_in<F, S>(&self, inner: S, call: Call<F>, why: StandIn, outcome: Outcome) -> V1Response
    where
        M: Writes<F>,
        S: Service<Call<F>, Response = V1Response, Error = Infallible>,
    {
        let then = self.members().stand_in(&call, why);
        let response = done(inner, call).await;
        if let Some(then) = then.filter(|_| response.status().is_success()) {
            then();
        }
        self.noted(response, outcome)
    }

    async fn send<F>(&self, call: &Call<F>, target: &Target, origin: Origin) -> Attempt
    where
        M: Writes<F>,
    {
        let (members, has_deputy) = (self.members(), target.all_nacre);
        let listed = |address: &str| members.is_listed(address);
        let peer = self.shared.peers.get(&target.address, target.is_nacre, now(), listed);
        let (admission, patience) = {
            let mut breaker = peer.breaker.lock();
            (breaker.admit(now(), has_deputy), breaker.patience())
        };
        let ticket = match admission {
            Admission::Go(ticket) => ticket,
            Admission::Full => {
                let text =
                    "too many requests to the owner of this service are under way, please try again later";
                return Attempt::Answer(unavailable(text), Outcome::Full);
            }
            Admission::Unanswering if has_deputy => return DEPUTY,
            Admission::Unanswering => {
                let text = "the owner of this service does not answer, please try again later";
                return Attempt::Answer(unavailable(text), Outcome::Unanswering);
            }
        };
        let mut underway = Underway { forwarder: self, peer: &peer, ticket: Some(ticket) };
        if !target.is_nacre
            && let Some(brought) = members.brings_first(call, &target.address)
        {
            // As one of those under way to it, so that no more of them wait than may.
            let _ = tokio::time::timeout_at(origin.until.into(), brought).await;
            if let Some(refusal) = origin.too_late() {
                return Attempt::Answer(refusal, Outcome::TimedOut);
            }
            underway.begins();
        }
        let surely = if has_deputy { patience.saturating_sub(MARGIN) } else { self.shared.timeout };
        let surely = surely.min(origin.until.saturating_duration_since(now()));
        let process = self.shared.own.process.load(Relaxed);
        // Before the time is read that the peer is told: who is held up in between was late.
        let sent = now();
        let Ok(outgoing) = self.compose(call, target, origin.hops.saturating_add(1), surely, process) else {
            return Attempt::Answer(too_large(), Outcome::TooLarge);
        };
        match underway.answer(outgoing, patience, has_deputy).await {
            Some(Ok(answer)) if target.is_nacre && is_late(&answer) && now() - sent + GRAIN <= surely => {
                // Once, however many say so.
                let next = process.wrapping_add(1);
                let _ = self.shared.own.process.compare_exchange(process, next, Relaxed, Relaxed);
                Attempt::ClockStood
            }
            Some(answer) => self.judge(answer, target),
            None => DEPUTY,
        }
    }

    fn compose<F>(
        &self,
        call: &Call<F>,
        target: &Target,
        hops: u8,
        surely: Duration,
        process: u64,
    ) -> Result<Outgoing, TooLong>
    where
        M: Writes<F>,
    {
        let (members, own) = (self.members(), &self.shared.own);
        let is_believed = members.is_believed(call);
        if !target.is_nacre {
            return outgoing::to_legacy(call, members, target, own, is_believed);
        }
        let patience_ms = u64::try_from(surely.as_millis()).unwrap_or(u64::MAX);
        let sent = Sent { process, at_ms: members.now_ms(), patience_ms };
        Ok(outgoing::to_nacre(call, target, own, hops, sent, is_believed))
    }

    /// What an answer, or the want of one, means for the write.
    fn judge(&self, answer: Result<Response<Bytes>, Fault>, target: &Target) -> Attempt {
        let (members, address) = (self.members(), &target.address);
        let unanswered = |text, outcome| Attempt::Answer(unavailable(text), outcome);
        let answer = match answer {
            Ok(answer) => answer,
            Err(Fault::Refused | Fault::Closed) => return Attempt::Gone,
            Err(Fault::TimedOut) => {
                let text = "the owner of this service has not answered in time, please try again later";
                return unanswered(text, Outcome::TimedOut);
            }
            Err(Fault::Broken(text)) => {
                members.note(Note::Spoilt(address, &text));
                return unanswered(FAILED, Outcome::Unreachable);
            }
            Err(Fault::Impossible(text)) => {
                members.note(Note::Failed(address, &text));
                return unanswered(FAILED, Outcome::Unreachable);
            }
        };
        match State::of(answer.headers()).filter(|_| target.is_nacre) {
            Some(State::Starting | State::Removed) => Attempt::ServesNobody,
            Some(State::Late) if target.all_nacre => DEPUTY,
            Some(State::Disagreeing) => {
                members.note(Note::Disagrees(address));
                settled(target)
            }
            _ if outgoing::is_redirect(&answer) => {
                members.note(Note::Disagrees(address));
                let text = "the owner of this service does not take this server for a member, please try again later";
                redirected(target, text)
            }
            _ if answer.status().is_redirection() => {
                members.note(Note::Redirects(address, answer.status()));
                let text = "the owner of this service sends this server elsewhere, please try again later";
                redirected(target, text)
            }
            _ => Attempt::Answer(outgoing::relayed(answer), Outcome::Relayed),
        }
    }

    fn turned(&self, peer: &Peer, turn: Option<Turn>) {
        let (members, address) = (self.members(), &peer.address);
        match turn {
            None => return,
            Some(Turn::Opened) => {
                members.note(Note::Opened(address));
                self.shared.opened.notify_one();
                return;
            }
            Some(Turn::Closed) => members.note(Note::Closed(address)),
            Some(Turn::Answers) => {}
        }
        members.answers(address);
    }
}

/// What a client is told where a request couldn't be sent or its answer can't be used.
const FAILED: &str = "the request to the owner of this service failed, please try again later";

/// What to do with a write that the owner says isn't its own. Members pass it on in a circle, since they hear of a change one
/// after the other: nobody is wrong for long.
fn settled(target: &Target) -> Attempt {
    let why = if target.all_nacre { StandIn::Deputy } else { StandIn::Disagreement };
    Attempt::StandIn(why, Outcome::Settled)
}

/// A refusal that speaks of a redirect is nothing to a client, no more than a redirect is. A Nacre member gives the one to
/// strangers alone and the other never; it wouldn't take what is written here either.
fn redirected(target: &Target, text: &str) -> Attempt {
    if target.all_nacre {
        Attempt::Answer(unavailable_in(State::Disagreeing, text), Outcome::Disagreed)
    } else {
        settled(target)
    }
}

/// A write that came and is another's; whoever drops it before its end has given it up without an answer.
struct Came<'a, M: Writes<F>, F> {
    members: &'a M,
    call: &'a Call<F>,
    at_ms: u64,
    is_over: bool,
}

impl<M: Writes<F>, F> Came<'_, M, F> {
    fn answered(mut self, answer: &V1Response) {
        self.is_over = true;
        self.members.passed_on(self.call, self.at_ms, Some(answer));
    }

    fn done_here(mut self) {
        self.is_over = true;
    }
}

impl<M: Writes<F>, F> Drop for Came<'_, M, F> {
    fn drop(&mut self) {
        if !self.is_over {
            self.members.passed_on(self.call, self.at_ms, None);
        }
    }
}

/// Does a write here.
async fn done<F, S>(mut inner: S, call: Call<F>) -> V1Response
where
    S: Service<Call<F>, Response = V1Response, Error = Infallible>,
{
    match inner.call(call).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

fn is_late(answer: &Response<Bytes>) -> bool {
    State::of(answer.headers()) == Some(State::Late)
}

fn too_large() -> V1Response {
    let text = format!(
        "the parameters have more than {MOST_LINE_BYTES} bytes, which the owner of this service can not take"
    );
    refusal(StatusCode::PAYLOAD_TOO_LARGE, &text)
}

/// The runtime's clock, which tests may stop.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[cfg(test)]
#[path = "forwarder_tests.rs"]
mod tests;
