//! `/nacre/proxy`: the reverse proxy to whoever looks at it. Ours; Nacos 1.4.8 has nothing like it.

use super::{
    Api, V1Call,
    reply::{Refusal, Reply},
    routes::Outcome,
};

/// GET: its rules and instances, and which of them get nothing and why.
pub fn shown(api: &Api, _: &V1Call) -> Outcome {
    match &api.proxy {
        Some(proxy) => Ok(Reply::json(&proxy.shown())),
        None => Err(Refusal::illegal("there is no proxy: nacre.proxy.listen isn't set")),
    }
}
