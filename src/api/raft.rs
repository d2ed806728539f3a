//! `/v1/ns/raft`: the consensus protocol of servers before 1.4, which nobody speaks any more.
//!
//! Source: Nacos 1.4.8 naming module, raft controller once the old protocol has ended; compat file `operator-state`.

use super::{Api, V1Call, reply::Refusal, routes::Outcome};

/// Every method and path: 500.
pub fn stopped(_: &Api, _: &V1Call) -> Outcome {
    Err(Refusal::failed("old raft protocol already stop"))
}
