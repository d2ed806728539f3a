//! Puts the layers around the endpoints: adapters that tell them what they must know.
//!
//! Their order stands in `middleware/src/stack.rs`.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    hash::{BuildHasher as _, Hasher as _, RandomState},
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::future::{BoxFuture, Either, FutureExt as _};
use http::{HeaderValue, Response, StatusCode};
use http_body::Body;
use nacre_middleware::{
    V1Response,
    breaker::Bounds,
    collect::{Limits, Routed},
    forwarder::{self, Fault},
    outgoing::{Outgoing, Own},
    record::Recorder,
};
use tower_service::Service;

use crate::{
    api::{
        Api, V1Call,
        ownership::Ownership,
        peers::{self, Bodies},
        reply,
        routes::{Handler, Pending, Row},
        traffic::Gate,
    },
    base::client::{CallError, Client},
    observe::Meters,
};

/// Passes writes on to their owners; clones share connections and what is known of the members.
pub type Forwarder = forwarder::Forwarder<Ownership, PeerClient>;

/// How long a member that usually answers at once may say nothing before it is suspect.
///
/// With what the node does then, a write that isn't one of the three that wait is answered within 50 ms.
const SUSPECT_AFTER: Duration = Duration::from_millis(30);
/// Bytes of an answer to a write: names of changed instances at most.
const MAX_ANSWER: usize = 16 << 20;

/// Makes the part that passes writes on, over the connections of all calls to members.
#[must_use]
pub fn forwarder(api: &Api, ownership: Ownership) -> Forwarder {
    let settings = &api.settings.forward;
    let address = HeaderValue::try_from(&*api.own_address).unwrap_or(HeaderValue::from_static("unknown"));
    let process = RandomState::new().build_hasher().finish();
    let bounds = Bounds {
        max_in_flight: u32::try_from(settings.max_per_peer).unwrap_or(u32::MAX),
        timeout: settings.timeout,
        suspect_after: SUSPECT_AFTER,
    };
    let client = PeerClient { client: api.peers.client().clone(), timeout: settings.timeout };
    Forwarder::new(ownership, client, Own { address, process, headers: api.peers.headers().clone() }, bounds)
}

/// The client of peer calls, as the layers want it.
#[derive(Clone, Debug)]
pub struct PeerClient {
    client: Client,
    timeout: Duration,
}

impl Service<Outgoing> for PeerClient {
    type Response = Response<Bytes>;
    type Error = Fault;
    type Future = BoxFuture<'static, Result<Response<Bytes>, Fault>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, outgoing: Outgoing) -> Self::Future {
        let Self { client, timeout } = self.clone();
        async move {
            let Outgoing { to, request, long_target } = outgoing;
            let answer = match long_target {
                None => client.send(&to, request, timeout, MAX_ANSWER).await,
                Some(target) => client.send_long(&to, request, &target, timeout, MAX_ANSWER).await,
            };
            answer.map_err(fault)
        }
        .boxed()
    }
}

fn fault(error: CallError) -> Fault {
    match error {
        CallError::Refused(_) => Fault::Refused,
        CallError::Closed => Fault::Closed,
        CallError::TimedOut => Fault::TimedOut,
        error @ (CallError::Broken(_) | CallError::TooLarge | CallError::Impossible(_)) => {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            Fault::Other(format!("{error}{}", cause.unwrap_or_default()))
        }
    }
}

/// The layers, in the order of [`nacre_middleware::stack`], around the endpoints of the route table.
pub fn v1<B>(
    api: Arc<Api>,
    limits: Limits,
    forwarder: Forwarder,
) -> impl Service<Routed<Row, B>, Response = V1Response, Error = Infallible, Future: Send> + Clone
where
    B: Body<Data = Bytes, Error: Send> + Send + Unpin + 'static,
{
    let access_log = api.settings.server.access_log;
    let (meter, mut gate) = (Meter(api.sight.meters), Gate::new(Arc::clone(&api.switches)));
    if api.distro.is_some() && api.settings.naming.data_warmup {
        gate = gate.shut_while_loading(api.cluster.clone());
    }
    let bodies = Bodies(Arc::clone(&api));
    nacre_middleware::stack(access_log, meter, limits, bodies, gate, forwarder, Endpoints { api })
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
