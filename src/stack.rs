//! Puts the layers around the endpoints: adapters that tell them what they must know.
//!
//! Their order stands in `middleware/src/stack.rs`.

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
    collect::{Limits, Routed},
    record::Recorder,
};
use tower_service::Service;

use crate::{
    api::{
        Api, V1Call,
        peers::{self, Bodies},
        reply,
        routes::{Handler, Pending, Row},
        traffic::Gate,
    },
    observe::Meters,
};

/// The layers, in the order of [`nacre_middleware::stack`], around the endpoints of the route table.
pub fn v1<B>(
    api: Arc<Api>,
    limits: Limits,
) -> impl Service<Routed<Row, B>, Response = V1Response, Error = Infallible, Future: Send> + Clone
where
    B: Body<Data = Bytes, Error: Send> + Send + Unpin + 'static,
{
    let access_log = api.settings.server.access_log;
    let (meter, gate) = (Meter(api.sight.meters), Gate::new(Arc::clone(&api.switches)));
    let bodies = Bodies(Arc::clone(&api));
    nacre_middleware::stack(access_log, meter, limits, bodies, gate, Endpoints { api })
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
        if call.facts.of_peers
            && let Err(refusal) = peers::check(&self.api, &call)
        {
            return Either::Left(ready(Ok(reply::respond(&mut call.head, Err(refusal)))));
        }
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
