//! The order of the layers.

use std::convert::Infallible;

use bytes::Bytes;
use http::Response;
use http_body::Body;
use tower::ServiceBuilder;
use tower_service::Service;

use crate::{
    Call, Facts, V1Response,
    access_log::AccessLogLayer,
    collect::{Allowance, CollectLayer, Limits, Routed},
    distro_filter::DistroFilterLayer,
    envelope::EnvelopeLayer,
    forward::ForwardLayer,
    forwarder::{Fault, Forwarder, Members, Writes},
    legacy_forward::{LegacyForwardLayer, PassOn},
    legacy_naming::{Legacy, LegacyNamingLayer},
    loop_guard::{Guard, LoopGuardLayer},
    outgoing::Outgoing,
    rate_limit::{Counted, RateLimitLayer},
    record::{RecordLayer, Recorder},
    traffic_revise::{Traffic, TrafficReviseLayer},
};

/// What happens to a request, outermost first. Change the order only with the order test, `tests/order.rs`.
#[expect(clippy::too_many_arguments, reason = "each layer is told what it must know")]
pub fn stack<F, B, R, W, P, A, L, T, M, C, S>(
    access_log: bool,
    recorder: R,
    rate_limit: Option<RateLimitLayer<W>>,
    gateway: Option<P>,
    limits: Limits,
    allowance: A,
    legacy_naming: Option<LegacyNamingLayer<L>>,
    traffic: T,
    forwarder: Forwarder<M, C>,
    endpoints: S,
) -> impl Service<Routed<F, B>, Response = V1Response, Error = Infallible, Future: Send> + Clone
where
    F: Facts + Sync,
    B: Body<Data = Bytes, Error: Send> + Send + Unpin + 'static,
    R: Recorder<F> + Send,
    W: Counted<F> + Send,
    P: PassOn<B> + Send,
    A: Allowance<F> + Send,
    L: Legacy<F> + Send + 'static,
    T: Traffic<F> + Send + 'static,
    M: Members + Writes<F> + Guard<F>,
    C: Service<Outgoing, Response = Response<Bytes>, Error = Fault, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static,
    S: Service<Call<F>, Response = V1Response, Error = Infallible, Future: Send> + Clone + Send + 'static,
{
    let members = forwarder.members().clone();
    ServiceBuilder::new()
        .option_layer(access_log.then_some(AccessLogLayer)) // a line per answer
        .layer(RecordLayer::new(recorder)) // counts answers, refusals of inner layers included
        .option_layer(rate_limit) // what its address asks too often
        .option_layer(gateway.map(LegacyForwardLayer::new)) // not ours: streamed to the legacy cluster
        .layer(CollectLayer::new(limits, allowance)) // whole body in memory, capped; from here on a Call
        .layer(EnvelopeLayer) // dresses whatever is answered below; refuses preflights
        .option_layer(legacy_naming) // naming, where the legacy cluster answers it
        .layer(TrafficReviseLayer::new(traffic)) // what the switches shut: limited addresses, a node that isn't up
        .layer(DistroFilterLayer::new(members.clone())) // whose the write is; refuses what is nobody's
        .layer(LoopGuardLayer::new(members)) // what members would pass to each other for ever
        .layer(ForwardLayer::new(forwarder)) // to the owner; what is ours, or becomes ours, goes on
        .service(endpoints)
}
