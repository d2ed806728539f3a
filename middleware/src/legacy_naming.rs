//! Hands naming requests to a legacy cluster, where that answers them.
//!
//! Place in the stack: inside what dresses answers, which are left as they came; outside what the switches of this node
//! shut and all that looks for an owner among its members, since both speak of its own data. On a node that answers
//! naming by itself the layer isn't there. Source: ours.

use std::{
    convert::Infallible,
    task::{Context, Poll},
};

use futures_util::future::{BoxFuture, Either};
use tower_layer::Layer;
use tower_service::Service;

use crate::{Call, V1Response};

/// Answers what belongs to a legacy cluster.
pub trait Legacy<F>: Clone {
    /// The answer to a call that is the cluster's, with [`crate::envelope::Bare`] where it isn't this node's own.
    ///
    /// # Errors
    /// The call, which is this node's.
    fn answer(&self, call: Call<F>) -> Result<BoxFuture<'static, V1Response>, Box<Call<F>>>;
}

/// Adds [`LegacyNaming`] to a stack.
#[derive(Clone, Debug)]
pub struct LegacyNamingLayer<L> {
    legacy: L,
}

impl<L> LegacyNamingLayer<L> {
    /// Asks `legacy` first.
    #[must_use]
    pub fn new(legacy: L) -> Self {
        Self { legacy }
    }
}

impl<S, L: Clone> Layer<S> for LegacyNamingLayer<L> {
    type Service = LegacyNaming<S, L>;

    fn layer(&self, inner: S) -> Self::Service {
        LegacyNaming { inner, legacy: self.legacy.clone() }
    }
}

/// Answers what is the legacy cluster's, and lets all else through.
#[derive(Clone, Debug)]
pub struct LegacyNaming<S, L> {
    inner: S,
    legacy: L,
}

type Answering = futures_util::future::Map<BoxFuture<'static, V1Response>, fn(V1Response) -> Answer>;
type Answer = Result<V1Response, Infallible>;

impl<S, L, F> Service<Call<F>> for LegacyNaming<S, L>
where
    S: Service<Call<F>, Response = V1Response, Error = Infallible>,
    L: Legacy<F>,
{
    type Response = V1Response;
    type Error = Infallible;
    type Future = Either<S::Future, Answering>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call<F>) -> Self::Future {
        match self.legacy.answer(call) {
            Ok(answer) => Either::Right(futures_util::FutureExt::map(answer, Ok)),
            Err(call) => Either::Left(self.inner.call(*call)),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use http::{Request, Response};
    use tower::{ServiceExt as _, service_fn};

    use super::*;
    use crate::V1Body;

    /// Takes what lies under `/theirs`.
    #[derive(Clone)]
    struct Theirs;

    impl Legacy<()> for Theirs {
        fn answer(&self, call: Call<()>) -> Result<BoxFuture<'static, V1Response>, Box<Call<()>>> {
            if !call.head.uri.path().starts_with("/theirs") {
                return Err(Box::new(call));
            }
            Ok(std::future::ready(Response::new(V1Body::sized("legacy"))).boxed())
        }
    }

    #[test]
    fn what_is_the_clusters_is_answered_by_it_and_the_rest_goes_on() {
        let inner = service_fn(async |_: Call<()>| Ok(Response::new(V1Body::sized("own"))));
        let stack = LegacyNamingLayer::new(Theirs).layer(inner);
        for (path, by) in [("/theirs/a", "legacy"), ("/ours", "own")] {
            let (head, ()) = Request::get(path).body(()).unwrap().into_parts();
            let call = Call { head, body: Default::default(), peer: ([10, 0, 0, 1], 1).into(), facts: () };
            let answer = stack.clone().oneshot(call).now_or_never().unwrap().unwrap();
            assert_eq!(answer.body().bytes(), by);
        }
    }
}
