//! `/nacre/peer`: what Nacre members say to each other beside the wire of 1.x.
//!
//! For members alone, as the route table says. Ours; Nacos 1.4.8 knows none of it.

use serde::Deserialize;

use super::{
    Api, V1Call, body, distro, peers,
    reply::{Refusal, Reply},
    routes::{Outcome, Pending},
};
use crate::{
    cluster::Address,
    distro::{
        Distro,
        documents::{Ask, Keys, Verify},
        exchange::Exchange,
    },
};

/// PUT verify: an owner compares what it owns with what is here, and tells who is late with beats.
pub fn verify(api: &Api, call: &V1Call) -> Outcome {
    let (distro, asked) = read(api, call, |asked: &Verify| &asked.source)?;
    let written = peers::written(distro, Some(&Address::new(&asked.source)), call)?;
    Ok(Reply::json(&distro.verify(&asked, written.now)))
}

/// PUT keys: an owner compares the keys of some buckets.
pub fn keys(api: &Api, call: &V1Call) -> Outcome {
    let (distro, asked) = read(api, call, |asked: &Keys| &asked.source)?;
    Ok(Reply::json(&distro.keys(asked)))
}

/// PUT ask: an owner asks for younger beats of silent instances; waits where others are to be asked, too.
pub fn ask(api: &Api, call: &V1Call) -> Result<Pending, Refusal> {
    let (distro, asked) = read(api, call, |asked: &Ask| &asked.source)?;
    if asked.unreached.is_empty() {
        return Ok(Pending::Done(Reply::json(&distro.heard(&asked))));
    }
    let exchange = Exchange { distro: distro.clone(), peers: api.peers.clone() };
    Ok(Pending::Later(Box::pin(async move { Ok(Reply::json(&exchange.heard(&asked).await)) })))
}

/// What another member asks, which names itself as its `source`, and the protocol that knows the answer.
fn read<'a, 'c, Q: Deserialize<'c>>(
    api: &'a Api,
    call: &'c V1Call,
    source: impl Fn(&Q) -> &str,
) -> Result<(&'a Distro, Q), Refusal> {
    let Some(distro) = distro::at_work(api)? else {
        return Err(Refusal::forbidden("this server has no members beside it"));
    };
    let asked: Q = body::json(call).inspect_err(|refusal| peers::note_malformed(api, call, refusal))?;
    peers::check_listed(&api.cluster.view_guard(), &Address::new(source(&asked)))?;
    Ok((distro, asked))
}
