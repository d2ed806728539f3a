//! `/v1/core`: the members, of whom a node that serves alone is the only one, and what operators ask of the core.
//!
//! Source: Nacos 1.4.8 core module, cluster and ops controllers; compat files `core-cluster`, `core-ops`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Api, V1Call, body, node::Member, params::Params, reply::Reply, routes::Outcome};

/// The envelope of the core's answers, fields in wire order.
#[derive(Serialize)]
struct RestResult<'a, T> {
    code: u16,
    message: Option<&'a str>,
    data: Option<T>,
}

fn success(data: impl Serialize) -> Outcome {
    Ok(Reply::json(&RestResult { code: 200, message: None, data: Some(data) }))
}

/// A failure that is told with status 200.
fn failure(code: u16, message: &str) -> Outcome {
    Ok(Reply::json(&RestResult::<()> { code, message: Some(message), data: None }))
}

/// GET cluster/self.
pub fn own_member(api: &Api, _: &V1Call) -> Outcome {
    success(Member::own(api))
}

/// GET cluster/nodes: the members whose address begins with `keyword`.
pub fn nodes(api: &Api, call: &V1Call) -> Outcome {
    let params = Params::of(call);
    let keyword = params.get("keyword").filter(|keyword| !keyword.trim().is_empty()).unwrap_or_default();
    let own = api.own_address.starts_with(keyword).then(|| Member::own(api));
    success(own.as_slice())
}

/// GET cluster/simple/nodes.
pub fn simple_nodes(api: &Api, _: &V1Call) -> Outcome {
    success([&*api.own_address])
}

/// GET cluster/health: the state of this member, which the switches don't touch.
pub fn health(_: &Api, _: &V1Call) -> Outcome {
    success("UP")
}

/// What a member says of itself, as far as it is looked at.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Report {
    ip: Option<String>,
    port: Option<i32>,
    address: Option<String>,
}

/// POST cluster/report: tells whether the sender is a member; nothing is taken over from it.
pub fn report(api: &Api, call: &V1Call) -> Outcome {
    let report: Report = body::json(call)?;
    let blank = |text: &Option<String>| text.as_deref().is_none_or(|text| text.trim().is_empty());
    let address = report.address.as_deref().unwrap_or_default();
    if blank(&report.ip) || blank(&report.address) || report.port.is_none_or(|port| port < 0) {
        return failure(400, "Node information is illegal");
    }
    success(if address == &*api.own_address { "true" } else { "false" })
}

/// POST cluster/server/leave: members are removed; there are none to remove.
pub fn leave(_: &Api, call: &V1Call) -> Outcome {
    Params::of(call).typed_boolean("notifyOtherMembers")?;
    let _addresses: Vec<String> = body::json(call)?;
    success("ok")
}

/// POST cluster/switch/lookup: where members are looked up is decided at start.
pub fn switch_lookup(_: &Api, call: &V1Call) -> Outcome {
    match Params::of(call).typed("type", "String")? {
        "file" | "address-server" => failure(
            500,
            "The lookup of members is chosen at start (nacos.core.member.lookup.type), not while the server runs",
        ),
        other => failure(
            500,
            &format!("The addressing mode exists : {other}, just support : [[file, address-server]]"),
        ),
    }
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
