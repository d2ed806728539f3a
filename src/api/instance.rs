//! `/v1/ns/instance`: registering, removing, updating and reading single instances.
//!
//! What is persistent goes through the store, the rest straight to the registry. Source: Nacos 1.4.8 naming module,
//! instance controller; compat files `instance-*`.

use std::{
    borrow::Cow,
    sync::{Arc, Once},
};

use http::Method;
use serde::Serialize;

use super::{
    Api, Named, V1Call,
    agent::Agent,
    params::{self, Params},
    reply::{Refusal, Reply},
    routes::{Outcome, Pending},
};
use crate::{
    base::{clock::Millis, java},
    cp::{self, Change, GoneInstance, Scope},
    model::{
        Limits, Metadata, Registry, ServiceKey, State,
        instance::{
            Description, HIGHEST_WEIGHT, Instance, InstanceId, InstanceKey, IpAndPort, stored_weight,
            wants_counted_id,
        },
        name::{self, DEFAULT_CLUSTER, DEFAULT_NAMESPACE, NameError},
        registry::Place,
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
        let truth = |name: &str| params.optional(name).map(|word| java::is_true_word(&word));
        let default_ephemeral = || api.switches.load().default_instance_ephemeral;
        Ok(Self {
            ip,
            port,
            cluster: cluster_with_alias(params),
            weight,
            enabled: enabled.is_none_or(|word| java::is_true_word(&word)),
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

/// Hands the instance that PUT or PATCH names to `take`; nothing where they would be refused.
pub(super) fn changed<T>(params: &Params<'_>, take: impl FnOnce(&InstanceKey<'_>) -> T) -> Option<T> {
    let (ip, cluster) = (params.optional("ip")?, cluster_with_alias(params));
    let port = params::integer(&params.optional("port")?).ok()?;
    Some(take(&InstanceKey { ip: &ip, port, cluster: &cluster }))
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

/// The service, the instance and whether it is ephemeral, of a registration or deregistration that this server would take.
///
/// # Errors
/// The refusal of what it wouldn't.
pub(super) fn examine(api: &Api, call: &V1Call) -> Result<(ServiceKey, GoneInstance, bool), Refusal> {
    let params = Params::of(call);
    let named = Named::read(&params)?;
    let described = Described::read(api, &params)?;
    name::check_cluster(&described.cluster)?;
    if call.facts.method != Method::DELETE {
        read_metadata(&params)?;
        check_weight(described.weight)?;
    }
    Ok((named.place().to_key(), GoneInstance::of(&described.key()), described.ephemeral))
}

/// Told once: a Nacos would connect to them.
static UNCHECKED: Once = Once::new();

fn put(api: &Api, place: Place<'_>, description: &Description<'_>) -> Result<Pending, Refusal> {
    if description.ephemeral {
        api.registry.register(place, description, api.clock.now())?;
        return Ok(Pending::Done(Reply::OK));
    }
    UNCHECKED.call_once(|| {
        tracing::warn!(
            "persistent instances keep the health that they were registered with: this version checks none"
        );
    });
    let (key, owned) = (place.to_key(), Arc::new(Owned::of(description)));
    let scope = match registers_alone(&api.registry, place, description) {
        true => Scope::instance(&key, &description.key),
        false => Scope::service(&key),
    };
    let cp = api.cp.clone();
    let stored = store(&cp, scope, key.clone(), Arc::clone(&owned));
    Ok(Pending::Later(Box::pin(async move {
        if !stored.await? {
            let _ = store(&cp, Scope::service(&key), key, owned).await?;
        }
        Ok(Reply::OK)
    })))
}

/// Whether registering changes nothing but the instance: its cluster is known and durable, and its id isn't counted
/// among the other instances of the service.
fn registers_alone(registry: &Registry, place: Place<'_>, description: &Description<'_>) -> bool {
    let definition = registry.get(place).map(|service| Arc::clone(&service.state().definition));
    definition.is_some_and(|known| known.durable && known.cluster(description.key.cluster).is_some())
        && !wants_counted_id(&description.metadata)
}

/// Stores a persistent instance, and the definition of its service where that changes with it.
///
/// Tells whether it did: within the scope of the instance alone it doesn't where the definition changes.
fn store(
    cp: &cp::Handle,
    scope: Scope,
    key: ServiceKey,
    owned: Arc<Owned>,
) -> impl Future<Output = Result<bool, Refusal>> + Send + use<> {
    let alone = matches!(scope, Scope::Instance { .. });
    cp.submit(scope, move |applied| {
        let prepared = applied.registry.prepare(key.place(), owned.describe(), applied.clock.now())?;
        if alone && prepared.definition.is_some() {
            return Ok((vec![], false));
        }
        let definition = prepared.definition.map(|new| Change::Service(key.clone(), Box::new(new)));
        let instance = Change::Instance(key, Box::new(prepared.instance));
        Ok((definition.into_iter().chain([instance]).collect(), true))
    })
}

/// A description that can wait for the store.
struct Owned {
    at: GoneInstance,
    app: Option<String>,
    rest: Description<'static>,
}

impl Owned {
    fn of(description: &Description<'_>) -> Self {
        let Description { key, weight, enabled, healthy, ephemeral, ref metadata, app } = *description;
        let rest = Description::new("", 0, "");
        let rest = Description { weight, enabled, healthy, ephemeral, metadata: metadata.clone(), ..rest };
        Self { at: GoneInstance::of(&key), app: app.map(Into::into), rest }
    }

    fn describe(&self) -> Description<'_> {
        Description { key: self.at.key(), app: self.app.as_deref(), ..self.rest.clone() }
    }
}

/// DELETE: removes one kind; an instance that isn't there is no error, and of the persistent ones none to store.
pub fn deregister(api: &Api, call: &V1Call) -> Result<Pending, Refusal> {
    let params = Params::of(call);
    let described = Described::read(api, &params)?;
    let named = Named::read(&params)?;
    let key = described.key();
    if described.ephemeral {
        api.registry.deregister(named.place(), key, api.clock.now())?;
        return Ok(Pending::Done(Reply::OK));
    }
    api.cp.check_alone()?;
    if api.registry.get(named.place()).is_none() {
        // Not by way of the registry: what somebody registers in this moment must go through the store, or stay.
        return Ok(Pending::Done(Reply::OK));
    }
    name::check_cluster(key.cluster)?;
    let (service, gone) = (named.place().to_key(), GoneInstance::of(&key));
    let stored = api.cp.submit(Scope::instance(&service, &key), move |applied| {
        let state = applied.registry.get(service.place()).map(|service| service.state());
        let known = state.is_some_and(|state| state.persistent.contains(&gone.key()));
        Ok::<_, Refusal>((if known { vec![Change::NoInstance(service, gone)] } else { vec![] }, ()))
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
    let InstanceKey { ip, port, .. } = description.key;
    if (IpAndPort { ip, port }).is_in(service.state().of_kind(description.ephemeral)) {
        return Ok(());
    }
    let wanted = Instance::new(description.clone(), InstanceId::Simple, api.clock.now());
    Err(Refusal::failed(format_args!("instance not exist: {}", wanted.describe())))
}

/// What a PATCH changes; what isn't given stays as it is.
struct Patch {
    metadata: Option<Metadata>,
    app: Option<Box<str>>,
    weight: Option<f64>,
    healthy: Option<bool>,
    enabled: Option<bool>,
}

impl Patch {
    /// Reads and checks it, in the reference's order.
    fn read(params: &Params<'_>) -> Result<Self, Refusal> {
        let truth = |name: &str| params.optional(name).map(|word| java::is_true_word(&word));
        let patch = Self {
            metadata: params.optional("metadata").map(|text| text.parse()).transpose()?,
            app: params.optional("app").map(|app| Box::from(&*app)),
            weight: params.optional("weight").map(|weight| params::double(&weight)).transpose()?,
            healthy: truth("healthy"),
            enabled: truth("enabled"),
        };
        patch.weight.map_or(Ok(()), check_weight)?;
        Ok(patch)
    }

    /// Refuses what is too long.
    fn check(&self, limits: &Limits) -> Result<(), NameError> {
        if let Some(app) = &self.app {
            limits.check_name("app", app)?;
        }
        self.metadata.as_ref().map_or(Ok(()), |metadata| Ok(limits.check_metadata(metadata)?))
    }

    /// The new value of an instance; it counts as having just beaten.
    fn apply(&self, known: &Instance, now: Millis) -> Instance {
        let mut instance = known.copy();
        instance.beat(now);
        if let Some(metadata) = &self.metadata {
            instance.set_metadata(metadata.clone());
        }
        if let Some(app) = &self.app {
            instance.set_app(app);
        }
        instance.weight = self.weight.map_or(instance.weight, stored_weight);
        instance.enabled = self.enabled.unwrap_or(instance.enabled);
        instance.set_healthy(self.healthy.unwrap_or(instance.healthy()));
        instance
    }
}

/// The instance at exactly this place, a persistent one before an ephemeral one.
pub(super) fn find<'a>(state: &'a State, key: &InstanceKey<'_>) -> Option<&'a Arc<Instance>> {
    key.find_in(&state.persistent).or_else(|| key.find_in(&state.ephemeral))
}

/// PATCH: changes what is given of an instance of either kind.
pub fn patch(api: &Api, call: &V1Call) -> Result<Pending, Refusal> {
    let params = Params::of(call);
    let named = Named::read(&params)?;
    let ip = params.required("ip")?;
    let port = params::integer(&params.required("port")?)?;
    let cluster = cluster_with_alias(&params);
    let key = InstanceKey { ip: &ip, port, cluster: &cluster };
    let not_found = || Refusal::illegal("instance not found");
    let service = api.registry.get(named.place()).ok_or_else(not_found)?;
    let ephemeral = find(&service.state(), &key).ok_or_else(not_found)?.ephemeral;
    let patch = Patch::read(&params)?;
    patch.check(api.registry.limits())?;
    if !ephemeral {
        return Ok(patch_stored(api, named.place().to_key(), &key, patch));
    }
    let now = api.clock.now();
    let patched = api.registry.write(&service, now, |draft| {
        let known = key.find_in(draft.ephemeral())?;
        let patched = patch.apply(known, now);
        draft.put(patched);
        Some(())
    });
    patched.ok().flatten().ok_or_else(not_found)?;
    Ok(Pending::Done(Reply::OK))
}

fn patch_stored(api: &Api, service: ServiceKey, key: &InstanceKey<'_>, patch: Patch) -> Pending {
    let (scope, at) = (Scope::instance(&service, key), GoneInstance::of(key));
    let stored = api.cp.submit(scope, move |applied| {
        let state = applied.registry.get(service.place()).map(|service| service.state());
        let known = state.as_ref().and_then(|state| at.key().find_in(&state.persistent));
        let known = known.ok_or_else(|| Refusal::illegal("instance not found"))?;
        let patched = patch.apply(known, applied.clock.now());
        Ok((vec![Change::Instance(service, Box::new(patched))], ()))
    });
    Pending::Later(Box::pin(async move { stored.await.map(|()| Reply::OK) }))
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
    let found = find(&state, &InstanceKey { ip: &ip, port, cluster: &cluster });
    let instance = found.ok_or_else(|| no_instance(&state, &cluster, name))?;
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

/// Why an instance isn't found in a known service.
fn no_instance(state: &State, cluster: &str, service: &str) -> Refusal {
    if state.instances().any(|instance| instance.cluster() == cluster) {
        return Refusal::failed("no matched ip found!");
    }
    Refusal::failed(format_args!("no ips found for cluster {cluster} in service {service}"))
}

/// GET statuses: the health of all instances of the service that `key` names (`[namespace##]group@@service`).
pub fn statuses(api: &Api, call: &V1Call) -> Outcome {
    let params = Params::of(call);
    let (namespace, name) = read_key(params.typed("key", "String")?)?;
    name::check_format(name)?;
    let service = api.registry.get(Place { namespace, name });
    let service = service.ok_or_else(|| Refusal::failed(format_args!("service: {name} not found.")))?;
    let status =
        |instance: &Arc<Instance>| format!("{}:{}_{}", instance.ip(), instance.port, instance.healthy());
    Ok(Reply::json(&Statuses { ips: service.state().instances().map(status).collect() }))
}

#[derive(Serialize)]
struct Statuses {
    ips: Vec<String>,
}

/// Namespace and name of a key; of more than two parts the first two count.
fn read_key(key: &str) -> Result<(&str, &str), Refusal> {
    let Some((namespace, rest)) = key.split_once("##") else { return Ok((DEFAULT_NAMESPACE, key)) };
    if rest.chars().all(|letter| letter == '#') {
        return Err(Refusal::failed("the key has no service behind its namespace"));
    }
    Ok((namespace, rest.split("##").next().unwrap_or(rest)))
}
