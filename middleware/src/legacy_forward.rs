//! Passes on what belongs to a legacy cluster behind this node, by the facts of its route alone.
//!
//! Place in the stack: outside `collect`, since bodies stream there and back; it has times of its own. Without a legacy
//! cluster it isn't there, and its routes are answered as ever.

use std::{
    convert::Infallible,
    net::SocketAddr,
    task::{Context, Poll},
};

use futures_util::future::Either;
use http::Request;
use tower_layer::Layer;
use tower_service::Service;

use crate::{Facts, V1Response, collect::Routed};

/// Passes requests on.
pub trait PassOn<B>: Clone {
    /// The answer, whatever came of it.
    type Future: Future<Output = Result<V1Response, Infallible>> + Send;

    /// Passes a request of `peer` on.
    fn pass_on(&self, request: Request<B>, peer: SocketAddr) -> Self::Future;
}

/// Adds [`LegacyForward`] to a stack.
#[derive(Clone, Debug)]
pub struct LegacyForwardLayer<P> {
    gateway: P,
}

impl<P> LegacyForwardLayer<P> {
    /// Passes on by way of `gateway`.
    pub fn new(gateway: P) -> Self {
        Self { gateway }
    }
}

impl<S, P: Clone> Layer<S> for LegacyForwardLayer<P> {
    type Service = LegacyForward<S, P>;

    fn layer(&self, inner: S) -> Self::Service {
        LegacyForward { inner, gateway: self.gateway.clone() }
    }
}

/// Passes on what is the legacy cluster's; lets the rest through.
#[derive(Clone, Debug)]
pub struct LegacyForward<S, P> {
    inner: S,
    gateway: P,
}

impl<S, P, F, B> Service<Routed<F, B>> for LegacyForward<S, P>
where
    S: Service<Routed<F, B>, Response = V1Response, Error = Infallible>,
    P: PassOn<B>,
    F: Facts,
{
    type Response = V1Response;
    type Error = Infallible;
    type Future = Either<S::Future, P::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, routed: Routed<F, B>) -> Self::Future {
        if routed.facts.is_legacy() {
            return Either::Right(self.gateway.pass_on(routed.request, routed.peer));
        }
        Either::Left(self.inner.call(routed))
    }
}
