//! The order of the layers, and the adapters that tell them what they must know.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::future::{BoxFuture, Either, FutureExt as _};
use http_body::Body;
use nacre_middleware::{
    V1Response,
    collect::{CollectLayer, Limits, Routed},
    envelope::EnvelopeLayer,
    traffic_revise::TrafficReviseLayer,
};
use tower::ServiceBuilder;
use tower_service::Service;

use crate::api::{
    Api, V1Call, reply,
    routes::{Handler, Pending, Row},
    traffic::Gate,
};

/// What happens to a request, outermost first. Change the order only with the order test.
pub fn v1<B>(
    api: Arc<Api>,
    limits: Limits,
) -> impl Service<Routed<Row, B>, Response = V1Response, Error = Infallible, Future: Send> + Clone
where
    B: Body<Data = Bytes, Error: Send> + Send + Unpin + 'static,
{
    let gate = Gate::new(Arc::clone(&api.switches));
    ServiceBuilder::new()
        .layer(CollectLayer::new(limits)) // whole body in memory, capped; from here on a Call
        .layer(EnvelopeLayer) // dresses whatever is answered below; refuses preflights
        .layer(TrafficReviseLayer::new(gate)) // what the switches shut: limited addresses, a node that isn't up
        .service(Endpoints { api })
}

/// Calls the endpoint of the route.
#[derive(Clone)]
struct Endpoints {
    api: Arc<Api>,
}

impl Service<V1Call> for Endpoints {
    type Response = V1Response;
    type Error = Infallible;
    type Future =
        Either<Ready<Result<V1Response, Infallible>>, BoxFuture<'static, Result<V1Response, Infallible>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: V1Call) -> Self::Future {
        let outcome = match call.facts.handler {
            Handler::Now(endpoint) => endpoint(&self.api, &call),
            Handler::Stores(endpoint) => match endpoint(&self.api, &call) {
                Ok(Pending::Done(reply)) => Ok(reply),
                Ok(Pending::Later(outcome)) => {
                    return Either::Right(
                        async move { Ok(reply::respond(&call.head, outcome.await)) }.boxed(),
                    );
                }
                Err(refusal) => Err(refusal),
            },
        };
        Either::Left(ready(Ok(reply::respond(&call.head, outcome))))
    }
}
