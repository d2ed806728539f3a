//! The order of the layers, and the adapters that tell them what they must know.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use bytes::Bytes;
use futures_util::future::{BoxFuture, Either, FutureExt as _};
use http::StatusCode;
use http_body::Body;
use nacre_middleware::{
    V1Response,
    access_log::AccessLogLayer,
    collect::{CollectLayer, Limits, Routed},
    envelope::EnvelopeLayer,
    record::{RecordLayer, Recorder},
    traffic_revise::TrafficReviseLayer,
};
use tower::ServiceBuilder;
use tower_service::Service;

use crate::{
    api::{
        Api, V1Call, reply,
        routes::{Handler, Pending, Row},
        traffic::Gate,
    },
    observe::Meters,
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
        .option_layer(api.settings.server.access_log.then_some(AccessLogLayer)) // a line per answer
        .layer(RecordLayer::new(Meter(api.sight.meters))) // counts answers, refusals of inner layers included
        .layer(CollectLayer::new(limits)) // whole body in memory, capped; from here on a Call
        .layer(EnvelopeLayer) // dresses whatever is answered below; refuses preflights
        .layer(TrafficReviseLayer::new(gate)) // what the switches shut: limited addresses, a node that isn't up
        .service(Endpoints { api })
}

/// Counts answers by route.
#[derive(Clone, Copy)]
struct Meter(&'static Meters);

impl Recorder<Row> for Meter {
    fn answered(&self, row: Row, status: StatusCode, started: Instant) {
        self.0.requests.answered(row.number(), status, started.elapsed());
    }
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

    fn call(&mut self, mut call: V1Call) -> Self::Future {
        let outcome = match call.facts.handler {
            Handler::Now(endpoint) => endpoint(&self.api, &call),
            Handler::Waits(endpoint) => match endpoint(&self.api, &call) {
                Ok(Pending::Done(reply)) => Ok(reply),
                Ok(Pending::Later(outcome)) => {
                    return Either::Right(
                        async move { Ok(reply::respond(&mut call.head, outcome.await)) }.boxed(),
                    );
                }
                Err(refusal) => Err(refusal),
            },
        };
        Either::Left(ready(Ok(reply::respond(&mut call.head, outcome))))
    }
}
