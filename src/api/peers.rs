//! The entries for members alone, as the route table names them: who may call them, and how large a body they bring.
//!
//! They replace whole lists, hand out everything, or say who is a member. In a cluster they answer proven members; on
//! a node that serves alone, which has no peers, callers from its own host. What clients and consoles of 1.x call as
//! well (`instance/statuses`, `operator/...`) answers anybody. Ours; Nacos 1.4.8 answers anybody everywhere.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use http::{HeaderMap, request::Parts};
use nacre_middleware::{
    collect::Allowance,
    lateness::Sent,
    loop_guard::{PEER, SENT, SOURCE},
    refusal::State,
};
use serde_json::Value;

use super::{Api, V1Call, node::check_own_host, params::Params, reply::Refusal, routes::Row};
use crate::{
    base::clock::Reading,
    cluster::{Address, Standing, View, document},
    distro::{Distro, handle::LONGEST_WAY_MS, trust::Sender},
};

/// Whether a request with these headers comes from a proven member; never while there are none.
#[must_use]
pub fn is_member(api: &Api, peer: SocketAddr, headers: &HeaderMap) -> bool {
    let view = api.cluster.view_guard();
    view.standing != Standing::Alone && api.doorkeeper.proves(&view, peer.ip(), headers)
}

/// Lets a call pass whose row is for members alone.
///
/// # Errors
/// 403 for all others. Where the caller says that it is a listed member, the operator is told what would admit it.
pub fn check(api: &Api, call: &V1Call) -> Result<(), Refusal> {
    let view = api.cluster.view_guard();
    if view.standing == Standing::Alone {
        return check_own_host(call.peer).map_err(|refusal| refusal.in_state(State::Alone));
    }
    if api.doorkeeper.proves(&view, call.peer.ip(), &call.head.headers) || parts(api, &view, call) {
        return Ok(());
    }
    let caller = call.peer.ip().to_canonical();
    if let Some(member) = claimed(call).filter(|member| is_listed(&view, member)) {
        api.doorkeeper.refused(caller, member.as_str(), Instant::now());
    }
    Err(Refusal::forbidden(format_args!("{caller} is the address of no member; see nacre.peer.networks")))
}

/// Whether a call brings data of one that was a member a moment ago, and says whose they are: what says nothing is taken for
/// the whole list of a member of 1.x.
fn parts(api: &Api, view: &View, call: &V1Call) -> bool {
    call.facts.brings_data()
        && sender(call).is_some_and(|sender| sender.is_nacre && view.parting.contains(&sender.address))
        && api.doorkeeper.sees_part(view, call.peer.ip())
}

fn named(call: &V1Call) -> Option<Address> {
    call.head.headers.get(&SOURCE)?.to_str().ok().map(Address::new)
}

/// The member that sent a call, as far as its headers say. 1.4.8 doesn't name itself where it sends data, others that speak its
/// wire do.
#[must_use]
pub fn sender(call: &V1Call) -> Option<Sender> {
    let is_nacre = call.head.headers.contains_key(&PEER);
    named(call).map(|address| Sender { address, is_nacre })
}

/// When a member wrote a call: ages in it count from then. The row has been found to be for members alone.
///
/// # Errors
/// 503 where it was under way for longer than anybody waits; the state in a header tells a member whose clock stood still.
pub fn written(distro: &Distro, source: Option<&Address>, call: &V1Call) -> Result<Reading, Refusal> {
    let sent = call.head.headers.get(&SENT).and_then(|sent| Sent::read(sent.as_bytes()));
    let too_long = || {
        let text = format_args!("what this brings was under way for more than {LONGEST_WAY_MS} ms");
        Refusal::unavailable(text).in_state(State::Late)
    };
    distro.written_at(source, sent).ok_or_else(too_long)
}

/// Whether a member of this address is listed; the node itself counts as one.
#[must_use]
pub fn is_listed(view: &View, address: &Address) -> bool {
    *address == view.own || view.peer(address).is_some()
}

/// Refuses what somebody sends in the name of one that isn't another listed member.
///
/// # Errors
/// 403.
pub fn check_listed(view: &View, source: &Address) -> Result<(), Refusal> {
    match view.peer(source) {
        Some(_) => Ok(()),
        None => Err(Refusal::forbidden(format_args!("{source} is no other listed member"))),
    }
}

/// Refuses data in the name of one that is no other listed member, and wasn't one a moment ago.
///
/// # Errors
/// 403.
pub fn check_known(view: &View, source: &Address) -> Result<(), Refusal> {
    if view.takes_data_of(source) { Ok(()) } else { check_listed(view, source) }
}

/// Tells the operator what couldn't be read of what a member sent to the entry that it called.
pub fn note_malformed(api: &Api, call: &V1Call, refusal: &Refusal) {
    if api.cluster.view_guard().standing != Standing::Alone {
        let caller = call.peer.ip().to_canonical();
        api.doorkeeper.malformed(caller, call.facts.path, refusal.text(), Instant::now());
    }
}

/// The member that a call says it comes from: the source of checksums or in a header, the sender of a report, of statuses
/// or of what only Nacre nodes say.
fn claimed(call: &V1Call) -> Option<Address> {
    if let Some(source) = Params::of(call).get("source") {
        return Some(Address::new(source));
    }
    if let Some(named) = named(call) {
        return Some(named);
    }
    let body = Some(&call.body).filter(|body| body.len() <= document::MAX_BYTES)?;
    let body: Value = serde_json::from_slice(body).ok()?;
    let names = ["address", "clientIP", "source"];
    names.iter().find_map(|name| body.get(name)?.as_str()).map(Address::new)
}

/// Lets proven members bring what the settings say, since they send the data of many services at once.
#[derive(Clone)]
pub struct Bodies(pub Arc<Api>);

impl Allowance<Row> for Bodies {
    fn max_body_bytes(&self, head: &Parts, peer: SocketAddr, row: Row, usual: usize) -> usize {
        if row.of_peers && is_member(&self.0, peer, &head.headers) {
            self.0.settings.most_peer_bytes().max(usual)
        } else {
            usual
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;
    use crate::{
        api::routes::Table,
        cluster::{Mapping, MemberState, Peer},
    };

    fn claim(target: &str, body: &str) -> Option<String> {
        claim_with(Request::put(target).header("host", "a"), body)
    }

    fn claim_with(request: http::request::Builder, body: &str) -> Option<String> {
        let request = request.body(()).unwrap();
        let facts = Table::new("/nacos").find(&request);
        let (head, ()) = request.into_parts();
        let body = body.to_owned().into();
        let call = V1Call { head, body, peer: SocketAddr::from(([192, 0, 2, 1], 5)), facts };
        claimed(&call).map(|address| address.to_string())
    }

    #[test]
    fn a_call_says_in_five_ways_whose_it_is() {
        let ours = Some("10.0.0.2:8848".to_owned());
        assert_eq!(claim("/nacos/v1/ns/distro/checksum?source=10.0.0.2:8848", "{}"), ours);
        assert_eq!(claim("/nacos/v1/core/cluster/report", r#"{"ip":"a","address":"10.0.0.2:8848"}"#), ours);
        let statuses = r#"{"clientIP":"10.0.0.2:8848","statuses":"{}"}"#;
        assert_eq!(claim("/nacos/v1/ns/service/status", statuses), ours);
        assert_eq!(claim("/nacre/peer/verify", r#"{"source":"10.0.0.2:8848","root":"1"}"#), ours);
        let datum = Request::put("/nacos/v1/ns/distro/datum").header("Request-Source", "10.0.0.2:8848");
        assert_eq!(claim_with(datum, "{}"), ours);
    }

    #[test]
    fn what_is_sent_in_the_name_of_no_other_member_is_refused() {
        let (own, peer) = (Address::new("10.0.0.1:8848"), Address::new("10.0.0.2:8848"));
        let peers = vec![Peer::new(peer.clone(), MemberState::Down)];
        let parting = Address::new("10.0.0.4:8848");
        let view = View::new(own.clone(), Standing::Serving, peers, Mapping::Modulo);
        let view = view.with_parting(vec![parting.clone()]);
        assert!(check_listed(&view, &peer).is_ok() && check_listed(&view, &parting).is_err());
        assert!(check_known(&view, &peer).is_ok() && check_known(&view, &parting).is_ok());
        assert!(check_known(&view, &own).is_err());
        for other in [own, Address::new("10.0.0.3:8848")] {
            let refusal = check_listed(&view, &other).unwrap_err();
            assert_eq!(refusal.text(), format!("{other} is no other listed member"));
        }
    }

    #[test]
    fn others_say_nothing() {
        for body in ["", "{}", "nonsense", r#"{"address":5}"#, "[1]"] {
            assert_eq!(claim("/nacos/v1/ns/distro/datum", body), None, "{body}");
        }
        let long = format!(r#"{{"address":"a:1","x":"{}"}}"#, "x".repeat(document::MAX_BYTES));
        assert_eq!(claim("/nacos/v1/ns/distro/datum", &long), None);
    }
}
