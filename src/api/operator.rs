//! `/v1/ns/operator` (and `/v1/ns/ops`): switches, metrics, members, what old peers ask.
//!
//! Source: Nacos 1.4.8 naming module, operator controller; compat files `operator-*`.

use serde::Serialize;

use super::{
    Api, V1Call,
    member::ShownMembers,
    node::split_address,
    params::{self, Params},
    peers::is_listed,
    reply::{Refusal, Reply},
    routes::{Outcome, Pending},
};
use crate::{
    base::java,
    cluster::{Address, View, document::Document},
    cp::{Change, Scope, WriteError},
    distro::mapper::Owner,
    model::{
        registry::Place,
        switches::{SwitchError, Switches},
    },
};

/// The name that the table of the switches has among the reference's services.
const SWITCHES_NAME: &str = "00-00---000-NACOS_SWITCH_DOMAIN-000---00-00";

/// Why a switch isn't set for good among members, and what can be done.
const NOT_FOR_ALL: &str = "switches can't be changed for all nodes of a cluster: this version keeps them on one node only; with \
    debug=true a switch is changed on the node that is asked, until its next start";

#[derive(Serialize)]
struct SwitchesDocument<'a> {
    #[serde(flatten)]
    switches: &'a Switches,
    name: &'static str,
    checksum: Option<&'static str>,
}

/// GET switches.
pub fn switches(api: &Api, _: &V1Call) -> Outcome {
    let switches = api.switches.load();
    Ok(Reply::json(&SwitchesDocument { switches: &switches, name: SWITCHES_NAME, checksum: None }))
}

impl From<SwitchError> for Refusal {
    fn from(error: SwitchError) -> Self {
        match error {
            SwitchError::Value(_) => Self::illegal(error),
            SwitchError::Batch(_) => Self::failed(error),
        }
    }
}

/// Why a switch wasn't set.
struct NotSet(Refusal);

impl From<SwitchError> for NotSet {
    fn from(error: SwitchError) -> Self {
        Self(error.into())
    }
}

impl From<WriteError> for NotSet {
    fn from(error: WriteError) -> Self {
        Self(match error {
            WriteError::Members => Refusal::unavailable(NOT_FOR_ALL),
            error => error.into(),
        })
    }
}

/// PUT switches: sets one entry for good, or with `debug=true` on this node alone until the next change.
pub fn set_switch(api: &Api, call: &V1Call) -> Result<Pending, Refusal> {
    let params = Params::of(call);
    let debug = params.typed_boolean("debug")?;
    let entry = params.typed("entry", "String")?.to_string();
    let value = params.typed("value", "String")?.to_string();
    if debug {
        api.switches.alter_here(|switches| switches.set(&entry, &value))?;
        return Ok(Pending::Done(Reply::OK));
    }
    let stored = api.cp.submit(Scope::Everything, move |applied| {
        let before = applied.switches.stored();
        let mut switches = Switches::clone(&before);
        switches.set(&entry, &value)?;
        let holds = switches == *before && switches == **applied.switches.load();
        let change = || Change::Switches(Box::new(switches));
        Ok::<_, NotSet>((if holds { vec![] } else { vec![change()] }, ()))
    });
    Ok(Pending::Later(Box::pin(async move {
        stored.await.map(|()| Reply::OK).map_err(|NotSet(refusal)| refusal)
    })))
}

/// Figures of the node, fields in wire order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metrics {
    status: &'static str,
    service_count: usize,
    instance_count: usize,
    raft_notify_task_count: u32,
    responsible_service_count: usize,
    responsible_instance_count: usize,
    cpu: f32,
    load: f32,
    mem: f32,
}

/// GET metrics.
pub fn metrics(api: &Api, _: &V1Call) -> Outcome {
    let (mut services, mut instances) = (0, 0);
    let (mut own_services, mut own_instances) = (0, 0);
    let view = api.cluster.view_guard();
    api.registry.for_each(|service| {
        let count = service.state().len();
        services += 1;
        instances += count;
        if api.owner(&view, &service.key.name) == Owner::Here {
            own_services += 1;
            own_instances += count;
        }
    });
    let busyness = api.node.machine.busyness(api.clock.now());
    Ok(Reply::json(&Metrics {
        status: api.switches.load().status().word(),
        service_count: services,
        instance_count: instances,
        raft_notify_task_count: 0,
        responsible_service_count: own_services,
        responsible_instance_count: own_instances,
        cpu: busyness.cpu,
        load: busyness.load,
        mem: busyness.mem,
    }))
}

#[derive(Serialize)]
struct Servers<'a> {
    servers: Vec<Document<'a>>,
}

/// GET servers: the members; with `healthy` only those that are UP.
pub fn servers(api: &Api, call: &V1Call) -> Outcome {
    let healthy = Params::of(call).typed_boolean("healthy")?;
    let members = ShownMembers::of(api);
    let servers = if healthy { members.up().collect() } else { members.documents().collect() };
    Ok(Reply::json(&Servers { servers }))
}

#[derive(Serialize)]
struct DistroStatus<'a> {
    status: Vec<Document<'a>>,
}

/// GET distro/status.
pub fn distro_status(api: &Api, call: &V1Call) -> Outcome {
    match Params::of(call).get("action") {
        None | Some("" | "view") => {
            let members = ShownMembers::of(api);
            Ok(Reply::json(&DistroStatus { status: members.documents().collect() }))
        }
        Some(_) => Ok(Reply::fixed("{}")),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Responsible<'a> {
    responsible_server: &'a str,
}

/// GET distro/server: who is responsible for a service.
pub fn distro_server(api: &Api, call: &V1Call) -> Outcome {
    let params = Params::of(call);
    let name = params.typed_name()?;
    let place = Place { namespace: params.typed_namespace(), name: &name };
    if api.registry.get(place).is_none() {
        return Err(Refusal::illegal("service not found"));
    }
    let view = api.cluster.view_guard();
    Ok(Reply::json(&Responsible { responsible_server: responsible(api, &view, &name) }))
}

/// The address of a service's owner; empty where there is none.
fn responsible<'a>(api: &'a Api, view: &'a View, name: &str) -> &'a str {
    match api.owner(view, name) {
        Owner::Here => &api.own_address,
        Owner::Peer(address) => address.as_str(),
        Owner::Nobody => "",
    }
}

/// The state of the raft that servers before 1.4 had, fields in wire order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OldRaft<'a> {
    ip: &'a str,
    term: i32,
    leader_due_ms: u32,
    heartbeat_due_ms: u32,
    state: &'static str,
}

/// GET cluster/state: what a member without that raft shows.
pub fn cluster_state(api: &Api, _: &V1Call) -> Outcome {
    let ip = &*api.own_address;
    Ok(Reply::json(&OldRaft {
        ip,
        term: -1,
        leader_due_ms: 15_000,
        heartbeat_due_ms: 5_000,
        state: "FOLLOWER",
    }))
}

/// GET server/status: takes note of an old peer's report, which only a member may send.
pub fn server_status(api: &Api, call: &V1Call) -> Outcome {
    let params = Params::of(call);
    let reports = params.typed("serverStatus", "String")?;
    for report in reports.split("\r\n") {
        // `site#ip:port#millis#weight`; what has fewer parts is passed over.
        let parts: Vec<&str> = report.split('#').collect();
        let [_, address, millis, _, ..] = parts[..] else { continue };
        check_member(api, address)?;
        java::parse_long(millis).ok_or_else(|| Refusal::not_a_number(millis))?;
    }
    Ok(Reply::OK)
}

fn check_member(api: &Api, address: &str) -> Result<(), Refusal> {
    if is_listed(&api.cluster.view_guard(), &Address::new(address)) {
        return Ok(());
    }
    if split_address(address).is_none() {
        let port = address.rsplit_once(':').map_or("", |(_, port)| port);
        params::integer(port)?;
    }
    Err(Refusal::illegal(format_args!("server: {address} is not in serverlist")))
}

/// PUT log: sets the level of a logger; names and levels that mean nothing here change nothing.
pub fn log(api: &Api, call: &V1Call) -> Outcome {
    let params = Params::of(call);
    api.sight.set_level(params.typed("logName", "String")?, params.typed("logLevel", "String")?);
    Ok(Reply::OK)
}
