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

use std::{
    convert::Infallible,
    future::poll_fn,
    pin::pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};
use http::{Request, Response, StatusCode};
use tokio::sync::Notify;
use tower_service::Service;

use crate::{
    Call, V1Response,
    breaker::{Admission, Bounds, End, Ticket, Turn, Verdict},
    distro_filter::{Owner, Ownership, Target},
    lateness::Sent,
    outgoing::{self, MOST_LINE_BYTES, Outgoing, Own, Parameters, TooLong},
    peers::{Peer, Peers},
    refusal::{State, refusal, unavailable, unavailable_in},
};

/// How often an open Nacre peer is asked whether it answers again.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// What it is asked for: an entry of Nacre's own that always answers.
const PROBE_PATH: &str = "/livez";
/// A peer refuses what is so much younger than the time at which this node may do it itself: for the clocks' grain.
const MARGIN: Duration = Duration::from_millis(5);
/// To the owner, and to the next one.
const MOST_SENDS: usize = 2;

/// Why a request to a peer has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nobody is there.
    Refused,
    /// The connection ended before the first byte of an answer. A client that keeps connections must have tried a new one.
    Closed,
    /// No answer in time.
    TimedOut,
    /// What came isn't a whole answer, or is too large; how, for people.
    Broken(String),
    /// This host can't send it, which says nothing of the peer; why, for people.
    Impossible(String),
}

/// Knows the cluster, and takes note of what becomes of requests to its members.
pub trait Members: Clone + Send + Sync + 'static {
    /// Whether this is the address of a member.
    fn is_listed(&self, address: &str) -> bool;

    /// A member takes no connections: it is gone, and owns nothing from now on.
    fn refused(&self, address: &str);

    /// A Nacre member answers that it serves nobody at the moment: it is starting, or removed, and owns nothing.
    fn serves_nobody(&self, address: &str);

    /// A member answers; told once a second at most.
    fn answers(&self, address: &str);

    /// This node's monotonic clock, in milliseconds.
    fn now_ms(&self) -> u64;

    /// What happened, for logs and metrics.
    fn note(&self, note: Note<'_>);
}

/// Knows the writes that are passed on.
pub trait Writes<F>: Ownership<F> + Parameters<F> {
    /// Whether the caller is believed what `X-Forwarded-For` says.
    fn is_believed(&self, call: &Call<F>) -> bool;

    /// What must be done before a write of our own that a Nacre peer has passed on, if anything.
    ///
    /// The peer may know what this node doesn't yet: a beat for an instance that is unknown here waits for its datum.
    fn prepare(&self, call: &Call<F>) -> Option<BoxFuture<'static, ()>>;

    /// What must be done before a write is sent to an `owner` of 1.x, if anything; it ends soon.
    ///
    /// Such a one takes what comes later for newer: what is to be brought to it of the service comes first, or it would undo the write.
    fn brings_first(&self, call: &Call<F>, owner: &str) -> Option<BoxFuture<'static, ()>>;

    /// Called with the answer to a write that came at `came_ms` of [`Members::now_ms`] and isn't done here; with nothing where
    /// its sender gave it up before there was one.
    ///
    /// That it came says something, unless the owner says otherwise: who sends a beat lives, whether or not the owner gets to
    /// hear of it.
    fn passed_on(&self, call: &Call<F>, came_ms: u64, answer: Option<&V1Response>);

    /// Called before this node does a write that is another's; what it gives is run when it has been done well.
    fn stand_in(&self, call: &Call<F>, why: StandIn) -> Option<Box<dyn FnOnce() + Send>>;
}

/// Why this node does a write that is another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandIn {
    /// The owner doesn't answer, or sent it here; all members are Nacre and merge what both do.
    Deputy,
    /// Two members disagree about the owner, and some member is 1.x: it must be pushed to all, whoever owns it.
    Disagreement,
}

/// What became of a write that was another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The owner's answer went back.
    Relayed,
    /// This node stood in for an owner that doesn't answer.
    Deputy,
    /// The owner was gone, and this node is the next.
    Moved,
    /// The members disagree; done here.
    Settled,
    /// The members disagree; 503.
    Disagreed,
    /// No answer in time; 503.
    TimedOut,
    /// The owner is known not to answer; 503.
    Unanswering,
    /// As many as may were under way; 503.
    Full,
    /// Neither the owner nor the next one took it, or there is none; 503.
    Unreachable,
    /// It doesn't fit into a request to a 1.x member; 413.
    TooLarge,
}

impl Outcome {
    /// All.
    pub const ALL: [Self; 10] = [
        Self::Relayed,
        Self::Deputy,
        Self::Moved,
        Self::Settled,
        Self::Disagreed,
        Self::TimedOut,
        Self::Unanswering,
        Self::Full,
        Self::Unreachable,
        Self::TooLarge,
    ];

    /// As a label of metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Relayed => "relayed",
            Self::Deputy => "deputy",
            Self::Moved => "moved",
            Self::Settled => "settled",
            Self::Disagreed => "disagreed",
            Self::TimedOut => "timed_out",
            Self::Unanswering => "unanswering",
            Self::Full => "full",
            Self::Unreachable => "unreachable",
            Self::TooLarge => "too_large",
        }
    }
}

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note<'a> {
    /// To a write.
    Outcome(Outcome),
    /// This peer's breaker opened: it counts as slow.
    Opened(&'a str),
    /// This peer answers again.
    Closed(&'a str),
    /// This peer isn't the owner as it sees things.
    Disagrees(&'a str),
    /// What answers in this peer's place, or the peer, sends this node elsewhere.
    Redirects(&'a str, StatusCode),
    /// A request couldn't be sent to this peer, for a reason that is one of few.
    Failed(&'a str, &'a str),
    /// The answer of this peer can't be used, for a reason that is one of few; the write may have been done.
    Spoilt(&'a str, &'a str),
}

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
        let Ok(outgoing) = self.compose(call, target, origin.hops.saturating_add(1), surely, process) else {
            return Attempt::Answer(too_large(), Outcome::TooLarge);
        };
        let sent = now();
        match underway.answer(outgoing, patience, has_deputy).await {
            Some(Ok(answer)) if target.is_nacre && is_late(&answer) && now() - sent <= surely => {
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

/// A request under way; whoever drops it before its end has abandoned it.
struct Underway<'a, M, C>
where
    M: Members,
    C: Service<Outgoing, Response = Response<Bytes>, Error = Fault> + Clone,
{
    forwarder: &'a Forwarder<M, C>,
    peer: &'a Peer,
    ticket: Option<Ticket>,
}

impl<M, C> Underway<'_, M, C>
where
    M: Members,
    C: Service<Outgoing, Response = Response<Bytes>, Error = Fault> + Clone,
{
    /// The peer's answer; nothing where the request was taken from it.
    async fn answer(
        mut self,
        outgoing: Outgoing,
        patience: Duration,
        has_deputy: bool,
    ) -> Option<Result<Response<Bytes>, Fault>> {
        let mut answering = pin!(call_ready(self.forwarder.shared.client.clone(), outgoing));
        let start = tokio::time::Instant::now();
        let deadline = start + self.forwarder.shared.timeout;
        let mut next_look = pin!(tokio::time::sleep_until(deadline.min(start + patience)));
        let answer = loop {
            tokio::select! {
                biased;
                answer = answering.as_mut() => break answer,
                () = next_look.as_mut() => {}
            }
            let now = tokio::time::Instant::now();
            if now >= deadline {
                break Err(Fault::TimedOut);
            }
            match self.outlasted(now.into_std(), has_deputy) {
                Verdict::Wait => next_look.as_mut().reset(deadline),
                Verdict::LookAgain => next_look.as_mut().reset(deadline.min(now + patience)),
                Verdict::Recall => {
                    self.end(End::Recalled);
                    return None;
                }
            }
        };
        self.end(match &answer {
            Ok(_) => End::Answered,
            Err(Fault::TimedOut) => End::TimedOut,
            Err(Fault::Broken(_)) => End::Spoilt,
            Err(Fault::Refused | Fault::Closed | Fault::Impossible(_)) => End::Broken,
        });
        Some(answer)
    }

    /// Nothing was sent until now.
    fn begins(&mut self) {
        self.ticket = self.ticket.map(|ticket| ticket.sent_at(now()));
    }

    fn outlasted(&mut self, now: Instant, has_deputy: bool) -> Verdict {
        match &mut self.ticket {
            Some(ticket) => self.peer.breaker.lock().outlasted(now, ticket, has_deputy),
            None => Verdict::Wait,
        }
    }

    fn end(&mut self, end: End) {
        if let Some(ticket) = self.ticket.take() {
            let turn = self.peer.breaker.lock().ended(now(), ticket, end);
            self.forwarder.turned(self.peer, turn);
        }
    }
}

impl<M, C> Drop for Underway<'_, M, C>
where
    M: Members,
    C: Service<Outgoing, Response = Response<Bytes>, Error = Fault> + Clone,
{
    fn drop(&mut self) {
        self.end(End::Abandoned);
    }
}

/// Waits until the client takes a request, then sends it.
async fn call_ready<C>(mut client: C, outgoing: Outgoing) -> Result<Response<Bytes>, Fault>
where
    C: Service<Outgoing, Response = Response<Bytes>, Error = Fault>,
{
    poll_fn(|cx| client.poll_ready(cx)).await?;
    client.call(outgoing).await
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
