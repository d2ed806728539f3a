//! `/v1/ns/instance`: registering, removing, updating, reading and listing instances, and their beats.
//!
//! Source: Nacos 1.4.8 naming module, instance controller; compat files `instance-*`, `list`, `beat`.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;

use super::{
    Api, Named, V1Call,
    agent::Agent,
    params::{self, Params},
    reply::{Refusal, Reply},
    routes::{Outcome, Pending},
};
use crate::{
    cp::{Change, Gone, Scope},
    model::{
        Metadata, State,
        instance::{Description, HIGHEST_WEIGHT, Instance, InstanceKey, wants_counted_id},
        list::{self, Echo, Shape},
        name::DEFAULT_CLUSTER,
        registry::Place,
        service::Beaten,
    },
};

/// The parameters that describe an instance, read and checked.
struct Described<'a> {
    ip: Cow<'a, str>,
    port: i32,
    cluster: Cow<'a, str>,
    weight: f64,
    enabled: bool,
    healthy: bool,
    ephemeral: bool,
    app: Option<Cow<'a, str>>,
}

impl<'a> Described<'a> {
    /// Reads all but the metadata, in the reference's order of checks.
    fn read(api: &Api, params: &'a Params<'_>) -> Result<Self, Refusal> {
        let ip = params.required("ip")?;
        let port = params::integer(&params.required("port")?)?;
        let enabled = params.optional("enabled").or_else(|| params.optional("enable"));
        let weight = params.optional("weight").map_or(Ok(1.0), |weight| params::double(&weight))?;
        let truth = |name: &str| params.optional(name).map(|word| params::is_true_word(&word));
        let default_ephemeral = || api.switches.load().default_instance_ephemeral;
        Ok(Self {
            ip,
            port,
            cluster: cluster_with_alias(params),
            weight,
            enabled: enabled.is_none_or(|word| params::is_true_word(&word)),
            healthy: truth("healthy").unwrap_or(true),
            ephemeral: truth("ephemeral").unwrap_or_else(default_ephemeral),
            app: params.optional("app"),
        })
    }

    fn key(&self) -> InstanceKey<'_> {
        InstanceKey { ip: &self.ip, port: self.port, cluster: &self.cluster }
    }

    fn with_metadata(&self, metadata: Metadata) -> Description<'_> {
        Description {
            key: self.key(),
            weight: self.weight,
            enabled: self.enabled,
            healthy: self.healthy,
            ephemeral: self.ephemeral,
            metadata,
            app: self.app.as_deref(),
        }
    }
}

/// `clusterName`, or `cluster` where that is blank, or `DEFAULT`.
fn cluster_with_alias<'a>(params: &'a Params<'_>) -> Cow<'a, str> {
    let given = params.optional("clusterName").or_else(|| params.optional("cluster"));
    given.unwrap_or(Cow::Borrowed(DEFAULT_CLUSTER))
}

/// Refuses weights outside 0 to 10,000, and what isn't a number.
fn check_weight(weight: f64) -> Result<(), Refusal> {
    if (0.0..=HIGHEST_WEIGHT).contains(&weight) {
        return Ok(());
    }
    Err(Refusal::failed("instance format invalid: The weights range from 0.0 to 10000.0"))
}

fn read_metadata(params: &Params<'_>) -> Result<Metadata, Refusal> {
    Ok(params.optional("metadata").map_or(Ok(Metadata::default()), |text| text.parse())?)
}

/// POST: registers, replacing an entry of the same key as a whole.
pub fn register(api: &Api, call: &V1Call) -> Result<Pending, Refusal> {
    let params = Params::of(call);
    let named = Named::read(&params)?;
    let described = Described::read(api, &params)?;
    let metadata = read_metadata(&params)?;
    check_weight(described.weight)?;
    put(api, named.place(), &described.with_metadata(metadata))
}

fn put(api: &Api, place: Place<'_>, description: &Description<'_>) -> Result<Pending, Refusal> {
    if description.ephemeral {
        api.registry.register(place, description, api.clock.now())?;
        return Ok(Pending::Done(Reply::OK));
    }
    let (key, owned) = (place.to_key(), Owned::of(description));
    // A counted id depends on the other instances of the service.
    let scope = match wants_counted_id(&description.metadata) {
        true => Scope::service(&key),
        false => Scope::instance(&key, &description.key),
    };
    let stored = api.cp.submit(scope, move |applied| {
        let instance = applied.registry.prepare(key.place(), owned.describe(), applied.clock.now())?;
        Ok((vec![Change::Instance(key, Box::new(instance))], ()))
    });
    Ok(Pending::Later(Box::pin(async move { stored.await.map(|()| Reply::OK) })))
}

/// A description that can wait for the store.
struct Owned {
    at: Gone,
    app: Option<String>,
    rest: Description<'static>,
}

impl Owned {
    fn of(description: &Description<'_>) -> Self {
        let Description { key, weight, enabled, healthy, ephemeral, ref metadata, app } = *description;
        let rest = Description::new("", 0, "");
        let rest = Description { weight, enabled, healthy, ephemeral, metadata: metadata.clone(), ..rest };
        Self { at: Gone::of(&key), app: app.map(Into::into), rest }
    }

    fn describe(&self) -> Description<'_> {
        Description { key: self.at.key(), app: self.app.as_deref(), ..self.rest.clone() }
    }
}

/// DELETE: removes one kind; an instance that isn't there is no error.
pub fn deregister(api: &Api, call: &V1Call) -> Result<Pending, Refusal> {
    let params = Params::of(call);
    let described = Described::read(api, &params)?;
    let named = Named::read(&params)?;
    let key = described.key();
    if described.ephemeral || api.registry.get(named.place()).is_none() {
        api.registry.deregister(named.place(), key, described.ephemeral)?;
        return Ok(Pending::Done(Reply::OK));
    }
    crate::model::name::check_cluster(key.cluster)?;
    let (service, gone) = (named.place().to_key(), Gone::of(&key));
    let stored = api.cp.submit(Scope::instance(&service, &key), move |_| {
        Ok::<_, Refusal>((vec![Change::NoInstance(service, gone)], ()))
    });
    Ok(Pending::Later(Box::pin(async move { stored.await.map(|()| Reply::OK) })))
}

/// PUT: registers, but for modern Java clients, whose address must be there.
pub fn update(api: &Api, call: &V1Call) -> Result<Pending, Refusal> {
    let params = Params::of(call);
    let named = Named::read(&params)?;
    let described = Described::read(api, &params)?;
    let metadata = read_metadata(&params)?;
    check_weight(described.weight)?;
    let description = described.with_metadata(metadata);
    if Agent::of(&call.head.headers).is_modern_java()? {
        check_exists(api, &named, &description)?;
    }
    put(api, named.place(), &description)
}

/// The same ip, port and kind must be there, in any cluster.
fn check_exists(api: &Api, named: &Named<'_>, description: &Description<'_>) -> Result<(), Refusal> {
    let Some(service) = api.registry.get(named.place()) else {
        let Named { namespace, name } = named;
        return Err(Refusal::failed(format_args!(
            "service not found, namespace: {namespace}, service: {name}"
        )));
    };
    let state = service.state();
    let same = |known: &Instance| known.ip() == description.key.ip && known.port == description.key.port;
    if state.of_kind(description.ephemeral).iter().any(|known| same(known)) {
        return Ok(());
    }
    let wanted =
        Instance::new(description.clone(), crate::model::instance::InstanceId::Simple, api.clock.now());
    Err(Refusal::failed(format_args!("instance not exist: {}", wanted.describe())))
}

/// One instance, fields in wire order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Detail<'a> {
    service: &'a str,
    ip: &'a str,
    port: i32,
    cluster_name: &'a str,
    weight: f64,
    healthy: bool,
    instance_id: Option<String>,
    metadata: &'a Metadata,
}

/// GET: one instance with its own health, disabled ones too.
pub fn detail(api: &Api, call: &V1Call) -> Outcome {
    let params = Params::of(call);
    let named = Named::read(&params)?;
    let ip = params.required("ip")?;
    let port = params::integer(&params.required("port")?)?;
    let cluster = params.optional("clusterName").unwrap_or(Cow::Borrowed(DEFAULT_CLUSTER));
    let name = &*named.name;
    let service = api.registry.get(named.place());
    let service = service.ok_or_else(|| Refusal::failed(format_args!("no service {name} found!")))?;
    let state = service.state();
    let mut of_cluster = state.instances().filter(|instance| instance.cluster() == cluster).peekable();
    if of_cluster.peek().is_none() {
        return Err(Refusal::failed(format_args!("no ips found for cluster {cluster} in service {name}")));
    }
    let found = of_cluster.find(|instance| instance.ip() == ip && instance.port == port);
    let instance = found.ok_or_else(|| Refusal::failed("no matched ip found!"))?;
    Ok(Reply::json(&Detail {
        service: name,
        ip: instance.ip(),
        port: instance.port,
        cluster_name: instance.cluster(),
        weight: instance.weight,
        healthy: instance.healthy(),
        instance_id: instance.id_text(name),
        metadata: &instance.metadata,
    }))
}

/// GET list: what a client may call; with `udpPort` also a subscription to pushes.
pub fn list(api: &Api, call: &V1Call) -> Outcome {
    let params = Params::of(call);
    let named = Named::read(&params)?;
    let agent = Agent::of(&call.head.headers);
    let clusters = params.optional("clusters").unwrap_or_default();
    let env = params.optional("env").unwrap_or_default();
    let truth = |name: &str| params.optional(name).is_some_and(|word| params::is_true(&word));
    let (healthy_only, is_check) = (truth("healthyOnly"), truth("isCheck"));
    let _udp_port = params.optional("udpPort").map_or(Ok(0), |port| params::integer(&port))?;
    let grouped = agent.is_modern_java()?;
    let cache_millis = api.switches.load().default_cache_millis;
    let Some(service) = api.registry.get(named.place()) else {
        return Ok(Reply::Json(list::unknown(&named.name, &clusters, cache_millis)));
    };
    let shape = Shape { clusters: &clusters, healthy_only, grouped };
    let answer = list::answer(&service, &service.state(), shape);
    if is_check && answer.any_instance {
        return Ok(Reply::fixed("{}"));
    }
    Ok(Reply::Json(answer.to_bytes(Echo { cache_millis, wall_ms: api.clock.wall_ms(), env: &env })))
}

/// PUT beat: renews an instance, or makes it from the beat's own description.
pub fn beat(api: &Api, call: &V1Call) -> Outcome {
    let params = Params::of(call);
    let body = params.optional("beat").map(|text| crate::health::beat::Beat::read(&text)).transpose();
    let body = body.map_err(Refusal::failed)?.flatten();
    let cluster = params.optional("clusterName");
    let port_parameter = params.optional("port").map_or(Ok(0), |port| params::integer(&port))?;
    let named = Named::read(&params)?;
    let cluster =
        body.as_ref().and_then(|body| body.cluster()).or(cluster.as_deref()).unwrap_or(DEFAULT_CLUSTER);
    let (ip, port) = match &body {
        Some(body) => (Cow::Borrowed(&*body.ip), body.port),
        None => (params.optional("ip").unwrap_or_default(), port_parameter),
    };
    let key = InstanceKey { ip: &ip, port, cluster };
    let now = api.clock.now();
    let service = api.registry.get(named.place());
    let found = service.as_ref().map_or(Beaten::Unknown, |service| service.beat(&key, now));
    match (found, &body) {
        (Beaten::Ephemeral(instance), _) => {
            if let Some(service) = service.as_ref().filter(|_| !instance.healthy()) {
                api.registry
                    .set_health(service, |other| (*other == *instance && other.ephemeral).then_some(true));
            }
            Ok(known(api, &instance.metadata))
        }
        (Beaten::Persistent(instance), _) => Ok(known(api, &instance.metadata)),
        (Beaten::Unknown, Some(body)) if body.makes_an_instance() => {
            let description = body.describe(cluster).map_err(Refusal::failed)?;
            api.registry.register(named.place(), &description, now)?;
            Ok(known(api, &description.metadata))
        }
        (Beaten::Unknown, _) => Ok(unknown(api)),
    }
}

/// The answer to a beat of a known instance.
fn known(api: &Api, metadata: &Metadata) -> Reply {
    let switches = api.switches.load();
    let default = switches.client_beat_interval;
    let interval = metadata.get(crate::model::instance::KEY_INTERVAL);
    let digits = interval.filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()));
    let interval = digits.and_then(|text| text.parse().ok()).unwrap_or(default);
    if interval == 5000 && switches.light_beat_enabled {
        return Reply::fixed(r#"{"clientBeatInterval":5000,"code":10200,"lightBeatEnabled":true}"#);
    }
    let light = switches.light_beat_enabled;
    let text = format!(r#"{{"clientBeatInterval":{interval},"code":10200,"lightBeatEnabled":{light}}}"#);
    Reply::Json(Bytes::from(text))
}

/// The answer that lets a client register again.
fn unknown(api: &Api) -> Reply {
    match api.switches.load().client_beat_interval {
        5000 => Reply::fixed(r#"{"clientBeatInterval":5000,"code":20404}"#),
        interval => Reply::Json(format!(r#"{{"clientBeatInterval":{interval},"code":20404}}"#).into()),
    }
}

/// The instance with this key, persistent before ephemeral.
pub(super) fn find<'a>(state: &'a State, key: &InstanceKey<'_>) -> Option<&'a std::sync::Arc<Instance>> {
    state.persistent.get(key).or_else(|| state.ephemeral.get(key))
}
