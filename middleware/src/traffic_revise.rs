//! Refuses requests that the node doesn't take at the moment.
//!
//! Two reasons: the node's status (not up yet, taken down, read only), and addresses that an operator has shut by the
//! switch `limitedUrlMap`. Place in the stack: outside the endpoints and all that changes something, inside the
//! envelope. Source: Nacos 1.4.8 naming module, traffic revision; compat file `operator-switch-effects`.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    task::{Context, Poll},
};

use futures_util::future::Either;
use http::request::Parts;
use tower_layer::Layer;
use tower_service::Service;

use crate::{Call, Facts, V1Response};

/// Knows what the node takes.
pub trait Traffic<F>: Clone {
    /// The answer to a request that isn't taken, or nothing.
    fn refusal(&self, head: &Parts, facts: F) -> Option<V1Response>;
}

/// Adds [`TrafficRevise`] to a stack.
#[derive(Clone, Debug)]
pub struct TrafficReviseLayer<T> {
    traffic: T,
}

impl<T> TrafficReviseLayer<T> {
    /// Asks `traffic` about every request.
    pub fn new(traffic: T) -> Self {
        Self { traffic }
    }
}

impl<S, T: Clone> Layer<S> for TrafficReviseLayer<T> {
    type Service = TrafficRevise<S, T>;

    fn layer(&self, inner: S) -> Self::Service {
        TrafficRevise { inner, traffic: self.traffic.clone() }
    }
}

/// Answers what [`Traffic`] refuses; lets everything else through.
#[derive(Clone, Debug)]
pub struct TrafficRevise<S, T> {
    inner: S,
    traffic: T,
}

impl<S, T, F> Service<Call<F>> for TrafficRevise<S, T>
where
    S: Service<Call<F>, Response = V1Response, Error = Infallible>,
    T: Traffic<F>,
    F: Facts,
{
    type Response = V1Response;
    type Error = Infallible;
    type Future = Either<S::Future, Ready<Result<V1Response, Infallible>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call<F>) -> Self::Future {
        match self.traffic.refusal(&call.head, call.facts) {
            Some(response) => Either::Right(ready(Ok(response))),
            None => Either::Left(self.inner.call(call)),
        }
    }
}
