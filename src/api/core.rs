//! `/v1/core`: the members, and what operators ask of the core.
//!
//! Source: Nacos 1.4.8 core module, cluster and ops controllers; compat files `core-cluster`, `core-ops`. Ours: reports
//! are answered 404 while the node can't serve, which changes nothing at a peer.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use http::{HeaderValue, StatusCode};
use nacre_middleware::{V1Body, V1Response, loop_guard::PEER, refusal};
use serde::Serialize;
use serde_json::{Value, value::RawValue};

use super::{
    Api, V1Call, body,
    member::{self, ShownMembers},
    params::Params,
    peers::{self, is_listed},
    reply::{self, Refusal, Reply},
    routes::{Outcome, Pending},
};
use crate::{
    cluster::{
        Address, Peers, Standing,
        document::{self, ReportError},
        peer,
    },
    config::LookupType,
};

/// The envelope of the core's answers, fields in wire order.
#[derive(Serialize)]
struct RestResult<'a, T> {
    code: u16,
    message: Option<&'a str>,
    data: Option<T>,
}

impl<T> RestResult<'_, T> {
    fn of(data: T) -> Self {
        Self { code: 200, message: None, data: Some(data) }
    }
}

fn success(data: impl Serialize) -> Outcome {
    Ok(Reply::json(&RestResult::of(data)))
}

/// A failure that is told with status 200.
fn failure(code: u16, message: &str) -> Outcome {
    Ok(Reply::json(&RestResult::<()> { code, message: Some(message), data: None }))
}

/// GET cluster/self.
pub fn own_member(api: &Api, _: &V1Call) -> Outcome {
    success(ShownMembers::own(api).documents().next())
}

/// GET cluster/nodes: the members whose address begins with `keyword`.
pub fn nodes(api: &Api, call: &V1Call) -> Outcome {
    let params = Params::of(call);
    let keyword = params.get("keyword").filter(|keyword| !keyword.trim().is_empty()).unwrap_or_default();
    let members = ShownMembers::of(api);
    let shown =
        members.documents().zip(members.addresses()).filter(|(_, address)| address.starts_with(keyword));
    success(shown.map(|(document, _)| document).collect::<Vec<_>>())
}

/// GET cluster/simple/nodes.
pub fn simple_nodes(api: &Api, _: &V1Call) -> Outcome {
    success(ShownMembers::of(api).addresses().collect::<Vec<_>>())
}

/// GET cluster/health: the state of this member, which the switches don't touch.
pub fn health(api: &Api, _: &V1Call) -> Outcome {
    success(member::own_state(api.cluster.view_guard().standing))
}

/// POST cluster/report: a member tells that it is there, and is told whether this node has it in its list. What others
/// say changes nothing.
pub fn report(api: &Api, call: &V1Call) -> Outcome {
    let view = api.cluster.view_guard();
    let standing = view.standing;
    if matches!(standing, Standing::Starting | Standing::Comparing | Standing::Removed) {
        return Ok(Reply::Whole(Box::new(not_ready(standing, &view.own))));
    }
    drop(view);
    let note = |refusal: &Refusal| peers::note_malformed(api, call, refusal);
    let body: &RawValue = body::json(call).inspect_err(note)?;
    let mut report = match document::read(body.get().as_bytes()) {
        Ok(report) => report,
        Err(error @ ReportError::Illegal) => {
            note(&Refusal::illegal(&error));
            return failure(400, &error.to_string());
        }
        Err(error) => return Err(Refusal::failed(error)).inspect_err(note),
    };
    // The time of the receiver, as in the reference.
    report.extend_info.insert("lastRefreshTime".to_owned(), api.clock.wall_ms().into());
    let listed = api.cluster.reported(&report, api.clock.now());
    let answer = RestResult::of(if listed { "true" } else { "false" });
    if standing == Standing::Alone && !call.head.headers.contains_key(&PEER) {
        return Ok(Reply::json(&answer));
    }
    let mut answer = reply::json_response(&call.head, &answer);
    peer::sign(answer.headers_mut(), &api.cluster.view_guard().own);
    if standing == Standing::Alone {
        // A Nacre member that has this node on its list must not take it for an owner.
        refusal::mark(&mut answer, refusal::State::Alone);
    }
    Ok(Reply::Whole(Box::new(answer)))
}

/// A node that isn't ready, or isn't a member any more: a 1.x peer thinks of it as before.
fn not_ready(standing: Standing, own: &Address) -> V1Response {
    let media_type = HeaderValue::from_static("text/plain;charset=UTF-8");
    let text = V1Body::sized("caused: this node takes no reports now;");
    let mut answer = reply::typed_response(StatusCode::NOT_FOUND, media_type, text);
    if standing != Standing::Removed {
        refusal::mark(&mut answer, refusal::State::Starting);
        peer::sign(answer.headers_mut(), own);
    }
    answer
}

/// POST cluster/server/leave: these are no members any more, until the list changes.
///
/// With `notifyOtherMembers`, which is the default, all others are told before the answer.
pub fn leave(api: &Api, call: &V1Call) -> Result<Pending, Refusal> {
    let params = Params::of(call);
    let notify = params.get("notifyOtherMembers").is_none_or(|text| text.trim().is_empty())
        || params.typed_boolean("notifyOtherMembers")?;
    let leaving: Vec<String> = body::json(call)?;
    let leaving: BTreeSet<Address> = leaving.iter().map(|address| Address::new(address)).collect();
    let leaving: Vec<Address> = leaving.into_iter().collect();
    let view = api.cluster.view();
    for member in leaving.iter().filter(|address| is_listed(&view, address)) {
        tracing::info!(%member, caller = %call.peer.ip(), "told that a member leaves");
    }
    api.cluster.drop_members(&leaving);
    let done = || RestResult::of("ok");
    let others = view.peers.iter().map(|peer| peer.address.clone());
    let others: Vec<Address> = others.filter(|address| notify && !leaving.contains(address)).collect();
    if others.is_empty() {
        return Ok(Pending::Done(Reply::json(&done())));
    }
    let peers = api.peers.clone();
    Ok(Pending::Later(Box::pin(async move {
        tell_of_leave(&peers, &others, &leaving).await;
        Ok(Reply::json(&done()))
    })))
}

/// Tells all `others` at once; whoever can't be told finds out by itself.
async fn tell_of_leave(peers: &Peers, others: &[Address], leaving: &[Address]) {
    let telling = others.iter().map(async |to| {
        if let Err(error) = peers.leave(to, leaving, false).await {
            tracing::info!(%to, %error, "a member could not be told that others leave: it finds out by its own list");
        }
    });
    join_all(telling).await;
}

/// POST cluster/switch/lookup: the list of members comes from there until the next start. Always 200, success without
/// data.
pub fn switch_lookup(api: &Api, call: &V1Call) -> Result<Pending, Refusal> {
    let to = match Params::of(call).typed("type", "String")? {
        "file" => LookupType::File,
        "address-server" => LookupType::AddressServer,
        other => {
            let text =
                format!("The addressing mode exists : {other}, just support : [[file, address-server]]");
            return failure(500, &text).map(Pending::Done);
        }
    };
    let cluster = api.cluster.clone();
    Ok(Pending::Later(Box::pin(async move {
        match cluster.switch_lookup(to).await {
            Ok(()) => success(()),
            Err(error) => failure(500, &error.to_string()),
        }
    })))
}

/// The generators of ids that the reference has; nothing here draws ids from them.
const ID_GENERATORS: [&str; 9] = [
    "role-id",
    "permissions_id",
    "config-history-id",
    "config-info-id",
    "namespace-id",
    "user-id",
    "app-configdata-relation-subs",
    "config-beta-id",
    "config-tag-relation-id",
];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct IdInfo {
    current_id: u64,
    worker_id: u32,
}

/// The generators as an object, in the reference's order.
struct IdInfos;

impl Serialize for IdInfos {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(ID_GENERATORS.map(|name| (name, IdInfo { current_id: 0, worker_id: 1 })))
    }
}

/// GET ops/idInfo.
pub fn id_info(_: &Api, _: &V1Call) -> Outcome {
    success(IdInfos)
}

/// PUT ops/log: sets the level of a logger; names and levels that mean nothing here change nothing.
pub fn log(api: &Api, call: &V1Call) -> Outcome {
    let params = Params::of(call);
    api.sight.set_level(params.typed("logName", "String")?, params.typed("logLevel", "String")?);
    Ok(Reply::Text("200".into()))
}

/// POST ops/raft: there is no raft group that could be told anything.
pub fn raft(_: &Api, call: &V1Call) -> Outcome {
    let _command: serde_json::Map<String, Value> = body::json(call)?;
    failure(500, "this server runs alone, it has no raft group")
}
