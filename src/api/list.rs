//! `GET /v1/ns/instance/list`: what a client may call.
//!
//! The hottest read: what the answer is made of is kept with the service's state. Source: Nacos 1.4.8 naming module,
//! list of the instance controller; compat files `list`, `list-checksum`.

use super::{
    Api, Named, V1Call,
    agent::Agent,
    params::{self, Params},
    reply::{Refusal, Reply},
    routes::Outcome,
    subscribers::Subscription,
};
use crate::{
    base::java,
    model::list::{self, Echo, Shape},
};

/// GET list: what a client may call; with `udpPort` also a subscription to pushes.
pub fn list(api: &Api, call: &V1Call) -> Outcome {
    let params = Params::of(call);
    let named = Named::read(&params)?;
    list_of(api, call, &params, &named)
}

/// The list of the service that was asked for, by whatever parameter.
pub(super) fn list_of(api: &Api, call: &V1Call, params: &Params<'_>, named: &Named<'_>) -> Outcome {
    let agent = Agent::of(&call.head.headers);
    let clusters = params.optional("clusters").unwrap_or_default();
    list::check_clusters(&clusters).map_err(Refusal::illegal)?;
    let env = params.optional("env").unwrap_or_default();
    let truth = |name: &str| params.optional(name).is_some_and(|word| java::is_true(&word));
    let (healthy_only, is_check) = (truth("healthyOnly"), truth("isCheck"));
    let udp_port = params.optional("udpPort").map_or(Ok(0), |port| params::integer(&port))?;
    let grouped = agent.is_modern_java()?;
    // Before the list is read, so that no change falls between the two.
    let subscription = Subscription { udp_port, agent, clusters: &clusters, grouped };
    let cache_millis = subscription.cache_millis(api, call, params, named.place());
    let Some(service) = api.registry.get(named.place()) else {
        return Ok(Reply::Json(list::unknown(&named.name, &clusters, cache_millis)));
    };
    let shape = Shape { clusters: &clusters, healthy_only, grouped };
    let answer = list::answer(&service, &service.state(), shape);
    if is_check && answer.any_instance {
        return Ok(Reply::fixed("{}"));
    }
    let (bytes, rest) = answer.to_pieces(Echo { cache_millis, wall_ms: api.clock.wall_ms(), env: &env });
    Ok(Reply::JsonInTwo(bytes, rest))
}
