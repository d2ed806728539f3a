//! The order of the layers.

use std::convert::Infallible;

use bytes::Bytes;
use http_body::Body;
use tower::ServiceBuilder;
use tower_service::Service;

use crate::{
    Call, Facts, V1Response,
    access_log::AccessLogLayer,
    collect::{Allowance, CollectLayer, Limits, Routed},
    envelope::EnvelopeLayer,
    record::{RecordLayer, Recorder},
    traffic_revise::{Traffic, TrafficReviseLayer},
};

/// What happens to a request, outermost first. Change the order only with the order test, `tests/order.rs`.
pub fn stack<F, B, R, A, T, S>(
    access_log: bool,
    recorder: R,
    limits: Limits,
    allowance: A,
    traffic: T,
    endpoints: S,
) -> impl Service<Routed<F, B>, Response = V1Response, Error = Infallible, Future: Send> + Clone
where
    F: Facts,
    B: Body<Data = Bytes, Error: Send> + Send + Unpin + 'static,
    R: Recorder<F> + Send,
    A: Allowance<F> + Send,
    T: Traffic<F> + Send + 'static,
    S: Service<Call<F>, Response = V1Response, Error = Infallible, Future: Send> + Clone + Send + 'static,
{
    ServiceBuilder::new()
        .option_layer(access_log.then_some(AccessLogLayer)) // a line per answer
        .layer(RecordLayer::new(recorder)) // counts answers, refusals of inner layers included
        .layer(CollectLayer::new(limits, allowance)) // whole body in memory, capped; from here on a Call
        .layer(EnvelopeLayer) // dresses whatever is answered below; refuses preflights
        .layer(TrafficReviseLayer::new(traffic)) // what the switches shut: limited addresses, a node that isn't up
        .service(endpoints)
}
