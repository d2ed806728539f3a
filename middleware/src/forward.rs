//! Sends a write to the member that owns its service; what is ours goes on to its endpoint.
//!
//! Place in the stack: innermost, since it may do a write here after all. What is done when an owner doesn't take a
//! write stands in [`crate::forwarder`]. Source: Nacos 1.4.8 naming module, distro filter; compat file `forward`. Ours:
//! a client is never told of a loop or of a dead or hung owner where the write can be done.

use std::{
    convert::Infallible,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::future::{BoxFuture, Either, FutureExt as _};
use http::Response;
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    Call, Facts, V1Response,
    distro_filter::{Addressed, Whose},
    forwarder::{Fault, Forwarder, Members, Origin, Writes},
    outgoing::Outgoing,
};

/// Adds [`Forward`] to a stack.
#[derive(Clone, Debug)]
pub struct ForwardLayer<R> {
    forwarder: R,
}

impl<M, C> ForwardLayer<Forwarder<M, C>> {
    /// Sends by way of `forwarder`.
    #[must_use]
    pub fn new(forwarder: Forwarder<M, C>) -> Self {
        Self { forwarder }
    }
}

impl<S, R: Clone> Layer<S> for ForwardLayer<R> {
    type Service = Forward<S, R>;

    fn layer(&self, inner: S) -> Self::Service {
        Forward { inner, forwarder: self.forwarder.clone() }
    }
}

/// Turns an [`Addressed`] call into a [`Call`], or into a member's answer.
#[derive(Clone, Debug)]
pub struct Forward<S, R> {
    inner: S,
    forwarder: R,
}

impl<S, M, C, F> Service<Addressed<F>> for Forward<S, Forwarder<M, C>>
where
    S: Service<Call<F>, Response = V1Response, Error = Infallible, Future: Send> + Clone + Send + 'static,
    M: Members + Writes<F>,
    C: Service<Outgoing, Response = Response<Bytes>, Error = Fault, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static,
    F: Facts + Sync,
{
    type Response = V1Response;
    type Error = Infallible;
    type Future = Either<S::Future, BoxFuture<'static, Result<V1Response, Infallible>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, addressed: Addressed<F>) -> Self::Future {
        let Addressed { call, whose, hops, left } = addressed;
        let target = match whose {
            Whose::Theirs(target) => target,
            Whose::Senders(target) => {
                let (inner, forwarder) = (self.take_inner(), self.forwarder.clone());
                return Either::Right(
                    async move { Ok(forwarder.settle(inner, call, &target).await) }.boxed(),
                );
            }
            Whose::Left => {
                let (inner, forwarder) = (self.take_inner(), self.forwarder.clone());
                return Either::Right(async move { Ok(forwarder.keep(inner, call).await) }.boxed());
            }
            Whose::Ours if hops > 0 => return self.prepared(call, self.forwarder.origin(hops, left)),
            Whose::Ours | Whose::Plain => return Either::Left(self.inner.call(call)),
        };
        let (inner, forwarder) = (self.take_inner(), self.forwarder.clone());
        let origin = forwarder.origin(hops, left);
        Either::Right(async move { Ok(forwarder.pass_on(inner, call, target, origin).await) }.boxed())
    }
}

impl<S: Clone, M, C> Forward<S, Forwarder<M, C>> {
    /// A call of ours that a peer has passed on: done at once, or when the node knows what the peer knows of it.
    fn prepared<F>(
        &mut self,
        call: Call<F>,
        origin: Origin,
    ) -> Either<S::Future, BoxFuture<'static, Result<V1Response, Infallible>>>
    where
        S: Service<Call<F>, Response = V1Response, Error = Infallible, Future: Send> + Send + 'static,
        M: Members + Writes<F>,
        C: Service<Outgoing, Response = Response<Bytes>, Error = Fault> + Clone,
        F: Facts,
    {
        let Some(ready) = self.forwarder.members().prepare(&call) else {
            return Either::Left(self.inner.call(call));
        };
        let mut inner = self.take_inner();
        let prepared = async move {
            ready.await;
            match origin.too_late() {
                Some(refusal) => Ok(refusal),
                None => inner.call(call).await,
            }
        };
        Either::Right(prepared.boxed())
    }

    /// The service that was polled ready; a clone takes its place.
    fn take_inner(&mut self) -> S {
        let clone = self.inner.clone();
        std::mem::replace(&mut self.inner, clone)
    }
}
