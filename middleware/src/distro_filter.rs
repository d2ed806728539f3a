//! Finds out whose a write is: this node's, a peer's, or at the moment nobody's.
//!
//! Place in the stack: inside all that refuses a request on its head alone, outside [`crate::loop_guard`] and
//! [`crate::forward`], which act on what it finds. A node without members passes everything on after one look.
//! Source: Nacos 1.4.8 naming module, distro filter. Ours: where nobody can be responsible it answers 503 instead of
//! taking the write as its own.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::Either;
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    Call, Facts, V1Response,
    refusal::{State, unavailable_in},
};

/// Who does the write that a call is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// This node, which has no members to share with.
    Alone,
    /// This node.
    Here,
    /// A member.
    Peer(Target),
    /// Nobody, as this node sees it.
    Nobody(Standstill),
}

/// The member that owns a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `host:port` as listed.
    pub address: Arc<str>,
    /// It has shown that it is Nacre, so that more than the 1.x wire may be used.
    pub is_nacre: bool,
    /// So have all listed members: this node may stand in for one of them.
    pub all_nacre: bool,
}

/// Why nobody does a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standstill {
    /// In the header `X-Nacre-State`.
    pub state: State,
    /// Between `caused: ` and `;`.
    pub text: &'static str,
}

/// Knows who owns what.
pub trait Ownership<F>: Clone {
    /// Who does the write that this call is about; called for forwarded routes only.
    ///
    /// A call that names no service is this node's: its endpoint refuses it as ever.
    fn owner(&self, call: &Call<F>) -> Owner;
}

/// A call on its way past the layers that care whose it is.
#[derive(Debug)]
pub struct Addressed<F> {
    /// The request.
    pub call: Call<F>,
    /// Whose it is.
    pub whose: Whose,
    /// How many Nacre nodes have passed it on so far; 0 until [`crate::loop_guard`] has looked, and of a client.
    pub hops: u8,
    /// For how long from its coming on nobody else does what it asks for, where the peer that passed it on says so.
    pub left: Option<Duration>,
}

/// Whose a call is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// No layer has to look at it.
    Plain,
    /// This node's.
    Ours,
    /// A member's.
    Theirs(Target),
    /// The Nacre member's that has passed it on: each of the two takes the other for the owner.
    Senders(Target),
    /// A member's since this node began to leave. The server that has passed it on can't know that; it is done here.
    Left,
}

/// Adds [`DistroFilter`] to a stack.
#[derive(Clone, Debug)]
pub struct DistroFilterLayer<O> {
    ownership: O,
}

impl<O> DistroFilterLayer<O> {
    /// Asks `ownership` about each call of a forwarded route.
    pub fn new(ownership: O) -> Self {
        Self { ownership }
    }
}

impl<S, O: Clone> Layer<S> for DistroFilterLayer<O> {
    type Service = DistroFilter<S, O>;

    fn layer(&self, inner: S) -> Self::Service {
        DistroFilter { inner, ownership: self.ownership.clone() }
    }
}

/// Turns a [`Call`] into an [`Addressed`] one; answers those that are nobody's.
#[derive(Clone, Debug)]
pub struct DistroFilter<S, O> {
    inner: S,
    ownership: O,
}

impl<S, O, F> Service<Call<F>> for DistroFilter<S, O>
where
    S: Service<Addressed<F>, Response = V1Response, Error = Infallible>,
    O: Ownership<F>,
    F: Facts,
{
    type Response = V1Response;
    type Error = Infallible;
    type Future = Either<S::Future, Ready<Result<V1Response, Infallible>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call<F>) -> Self::Future {
        let whose = if call.facts.is_forwarded() {
            match self.ownership.owner(&call) {
                Owner::Alone => Whose::Plain,
                Owner::Here => Whose::Ours,
                Owner::Peer(target) => Whose::Theirs(target),
                Owner::Nobody(standstill) => return Either::Right(ready(Ok(standstill.answer()))),
            }
        } else {
            Whose::Plain
        };
        Either::Left(self.inner.call(Addressed { call, whose, hops: 0, left: None }))
    }
}

impl Standstill {
    pub(crate) fn answer(self) -> V1Response {
        unavailable_in(self.state, self.text)
    }
}
