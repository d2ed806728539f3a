//! `/nacre/drain`: what the command `nacre drain` sends. Ours; Nacos 1.4.8 has nothing like it.

use super::{
    Api, V1Call,
    node::is_of_own_host,
    reply::{Refusal, Reply},
    routes::Outcome,
};

/// What a proxy adds to a request that it passes on.
const PASSED_ON: [&str; 4] = ["forwarded", "via", "x-forwarded-for", "x-real-ip"];

/// PUT: the node leaves its members in order, then stops, as at a SIGTERM. Told again it does nothing new.
///
/// For callers on the own host alone, by no proxy that shows itself: like a signal it needs no password, and unlike most
/// entries it can't be undone. A page in a browser can't send it: no browser sends a PUT to another site unasked.
pub fn drain(api: &Api, call: &V1Call) -> Outcome {
    let caller = call.peer.ip().to_canonical();
    if !is_of_own_host(caller) {
        return Err(Refusal::forbidden(format_args!(
            "a node is drained from its own host only, not from {caller}"
        )));
    }
    if let Some(header) = PASSED_ON.iter().find(|header| call.head.headers.contains_key(**header)) {
        return Err(Refusal::forbidden(format_args!(
            "a node is drained by whoever is on its own host; this request came by a proxy ({header})"
        )));
    }
    api.node.drain.cancel();
    Ok(Reply::Text("draining".into()))
}
