//! Puts the layers around the endpoints: adapters that tell them what they must know.
//!
//! Their order stands in `middleware/src/stack.rs`.

use std::{
    convert::Infallible,
    future::{Ready, ready},
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
    legacy_forward::PassOn,
    legacy_naming::LegacyNamingLayer,
    outgoing::{Outgoing, Own},
    rate_limit::{RateLimitLayer, Rates},
    record::Recorder,
};
use tower_service::Service;

use crate::{
    api::{
        Api, V1Call,
        legacy_naming::LegacyNaming,
        ownership::Ownership,
        peers::{self, Bodies},
        rate::ByCaller,
        reply,
        routes::{Handler, Pending, Row},
        traffic::Gate,
    },
    base::client::{CallError, Client},
    config::LimitSettings,
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
    let address = HeaderValue::try_from(&*api.own_address);
    let address = address.expect("an own address is a host's address or name in ASCII, and a port");
    let bounds = Bounds {
        max_in_flight: u32::try_from(settings.max_per_peer).unwrap_or(u32::MAX),
        timeout: settings.timeout,
        suspect_after: SUSPECT_AFTER,
    };
    let client = PeerClient::new(api.peers.client().clone(), settings.timeout);
    let own = Own { address, process: api.peers.process(), headers: api.peers.headers().clone() };
    Forwarder::new(ownership, client, own, bounds)
}

/// The client of peer calls, as the layers want it.
#[derive(Clone, Debug)]
pub struct PeerClient(Arc<(Client, Duration)>);

impl PeerClient {
    /// Sends by way of `client`; `timeout` is for a whole call.
    #[must_use]
    pub fn new(client: Client, timeout: Duration) -> Self {
        Self(Arc::new((client, timeout)))
    }
}

impl Service<Outgoing> for PeerClient {
    type Response = Response<Bytes>;
    type Error = Fault;
    type Future = BoxFuture<'static, Result<Response<Bytes>, Fault>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, outgoing: Outgoing) -> Self::Future {
        let shared = Arc::clone(&self.0);
        async move {
            let (client, timeout) = (&shared.0, shared.1);
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
        error @ (CallError::Broken(_) | CallError::TooLarge) => Fault::Broken(with_cause(&error)),
        error @ CallError::Impossible(_) => Fault::Impossible(error.to_string()),
    }
}

fn with_cause(error: &CallError) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    format!("{error}{}", cause.unwrap_or_default())
}

/// The layers, in the order of [`nacre_middleware::stack`], around the endpoints of the route table.
pub fn v1<B, P>(
    api: Arc<Api>,
    gateway: Option<P>,
    limits: Limits,
    forwarder: Forwarder,
) -> impl Service<Routed<Row, B>, Response = V1Response, Error = Infallible, Future: Send> + Clone
where
    B: Body<Data = Bytes, Error: Send> + Send + Unpin + 'static,
    P: PassOn<B> + Send,
{
    let access_log = api.settings.server.access_log;
    let (meter, mut gate) = (Meter(api.sight.meters), Gate::new(Arc::clone(&api.switches)));
    if api.distro.is_some() && api.settings.naming.data_warmup {
        gate = gate.shut_while_loading(api.cluster.clone());
    }
    let bodies = Bodies(Arc::clone(&api));
    let naming = api.legacy_naming.clone();
    let naming = naming.map(|naming| LegacyNamingLayer::new(LegacyNaming::new(Arc::clone(&api), naming)));
    let LimitSettings { beat, read, write } = api.settings.limit;
    let rate_limit = RateLimitLayer::new(Rates { beat, read, write }, ByCaller(Arc::clone(&api)));
    let endpoints = Endpoints { api };
    nacre_middleware::stack(
        access_log, meter, rate_limit, gateway, limits, bodies, naming, gate, forwarder, endpoints,
    )
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

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use http::Request;
    use nacre_middleware::{
        Call,
        distro_filter::Target,
        lateness::Sent,
        outgoing::{Parameters, to_legacy, to_nacre},
    };

    use super::*;
    use crate::{
        cluster::{Address, Peers},
        config::Settings,
    };

    struct Nothing;

    impl Parameters<()> for Nothing {
        fn parameters(&self, _: &Call<()>, _: &mut dyn FnMut(&str, &str)) {}
    }

    #[test]
    fn what_is_wrong_with_an_answer_is_told_from_what_is_wrong_here() {
        let broken = || CallError::Broken("cut".into());
        for (error, expected) in [
            (CallError::Closed, Fault::Closed),
            (CallError::TimedOut, Fault::TimedOut),
            (broken(), Fault::Broken("the answer is broken: cut".into())),
            (CallError::TooLarge, Fault::Broken("the answer is too large".into())),
            (
                CallError::Impossible("no files".into()),
                Fault::Impossible("the call can't be made: no files".into()),
            ),
        ] {
            assert_eq!(fault(error), expected);
        }
    }

    /// What says who called, on a client's request as it goes on with the headers of calls to members.
    fn passed_on(is_nacre: bool, client: &[(&str, &str)]) -> Vec<(&'static str, Option<String>)> {
        let peers = Peers::new(Address::new("10.0.0.1:8848"), 1, &Settings::default());
        let address = HeaderValue::from_static("10.0.0.1:8848");
        let own = Own { address, process: peers.process(), headers: peers.headers().clone() };
        let mut request = Request::put("/nacos/v1/ns/instance/beat?serviceName=a");
        for (name, value) in client {
            request = request.header(*name, *value);
        }
        let (head, body) = request.body(Bytes::new()).unwrap().into_parts();
        let call = Call { head, body, peer: SocketAddr::from(([10, 0, 0, 9], 1)), facts: () };
        let target = Target { address: "10.0.0.2:8848".into(), is_nacre, all_nacre: is_nacre };
        let sent = Sent { process: 1, at_ms: 1, patience_ms: 1 };
        let outgoing = match is_nacre {
            true => to_nacre(&call, &target, &own, 1, sent, false),
            false => to_legacy(&call, &Nothing, &target, &own, false).unwrap(),
        };
        let headers = outgoing.request.headers();
        let shown = ["user-agent", "client-version", "x-nacre-agent", "x-nacre-peer", "request-source"];
        shown.map(|name| (name, headers.get(name).map(|value| value.to_str().unwrap().to_owned()))).to_vec()
    }

    #[test]
    fn a_nacre_owner_learns_what_client_it_is_and_one_of_1x_that_a_server_calls() {
        let client = [("user-agent", "Nacos-Java-Client:v1.4.2"), ("client-version", "1.4.2")];
        let expected = |version: Option<&str>, agent: Option<&str>| {
            [
                ("user-agent", Some("Nacos-Server:v1.4.8")),
                ("client-version", version),
                ("x-nacre-agent", agent),
                ("x-nacre-peer", Some("1")),
                ("request-source", Some("10.0.0.1:8848")),
            ]
            .map(|(name, value)| (name, value.map(str::to_owned)))
        };
        assert_eq!(passed_on(true, &client), expected(Some("1.4.2"), Some("Nacos-Java-Client:v1.4.2")));
        assert_eq!(passed_on(true, &[]), expected(None, None));
        assert_eq!(passed_on(false, &client), expected(Some("1.4.8"), None));
    }
}
