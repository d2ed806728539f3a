//! `/v1/ns/instance/metadata/batch`: changes the metadata of many instances of a service at once.
//!
//! Where both kinds are meant, the persistent ones come first, and only when they are durable the ephemeral ones
//! follow. Source: Nacos 1.4.8 naming module, instance controller; compat file `instance-metadata-batch`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    Api, V1Call,
    params::Params,
    reply::{Refusal, Reply},
    routes::{Outcome, Pending},
};
use crate::{
    base::{
        clock::Millis,
        jackson::{self, Scalar},
    },
    cp::{Change, Scope},
    model::{
        Instance, InstanceKey, Instances, Limits, Registry, ServiceKey,
        metadata::{self, Entries},
        name::DEFAULT_CLUSTER,
        registry::Place,
    },
};

/// PUT: adds entries to the metadata of the chosen instances, or puts them in the place of those of the same keys.
pub fn update(api: &Api, call: &V1Call) -> Result<Pending, Refusal> {
    operate(api, &Params::of(call), Action::Merge)
}

/// DELETE: removes the keys that `metadata` names from the chosen instances.
pub fn remove(api: &Api, call: &V1Call) -> Result<Pending, Refusal> {
    operate(api, &Params::of(call), Action::Remove)
}

fn operate(api: &Api, params: &Params<'_>, action: Action) -> Result<Pending, Refusal> {
    let (namespace, name) = (params.namespace(), params.service_name()?);
    let batch = Arc::new(Batch::read(params, action)?);
    let place = Place { namespace: &namespace, name: &name };
    let Some(service) = api.registry.get(place) else { return updated(Vec::new()).map(Pending::Done) };
    let state = service.state();
    // Before anything is changed of the one kind, the other could refuse it.
    batch.outcome(&state.ephemeral, true, api.registry.limits())?;
    if !batch.finds_any(&state.persistent) {
        return updated(change_ephemeral(&api.registry, place, &batch, api.clock.now())?).map(Pending::Done);
    }
    let (key, registry, stored) = (place.to_key(), Arc::clone(&api.registry), Arc::clone(&batch));
    let clock = api.clock.clone();
    let stored = api.cp.submit(Scope::service(&key), {
        let key = key.clone();
        move |applied| changes_of_persistent(&applied.registry, &key, &stored)
    });
    Ok(Pending::Later(Box::pin(async move {
        let mut names = stored.await?;
        names.extend(change_ephemeral(&registry, key.place(), &batch, clock.now())?);
        updated(names)
    })))
}

fn change_ephemeral(
    registry: &Registry,
    place: Place<'_>,
    batch: &Batch,
    now: Millis,
) -> Result<Vec<String>, Refusal> {
    let Some(service) = registry.get(place) else { return Ok(Vec::new()) };
    let names = registry.write(&service, now, |draft| {
        let (names, new) = batch.outcome(draft.ephemeral(), true, registry.limits())?;
        new.into_iter().for_each(|instance| draft.put(instance));
        Ok(names)
    });
    names.unwrap_or(Ok(Vec::new()))
}

fn changes_of_persistent(
    registry: &Registry,
    key: &ServiceKey,
    batch: &Batch,
) -> Result<(Vec<Change>, Vec<String>), Refusal> {
    let Some(service) = registry.get(key.place()) else { return Ok(Default::default()) };
    let (names, new) = batch.outcome(&service.state().persistent, false, registry.limits())?;
    let change = |instance| Change::Instance(key.clone(), Box::new(instance));
    Ok((new.into_iter().map(change).collect(), names))
}

#[derive(Serialize)]
struct Updated {
    updated: Vec<String>,
}

fn updated(updated: Vec<String>) -> Outcome {
    Ok(Reply::json(&Updated { updated }))
}

/// What happens to the metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Merge,
    Remove,
}

/// Which instances are meant.
#[derive(Debug, PartialEq)]
enum Chosen {
    AllOf { ephemeral: bool },
    These(Vec<Target>),
}

/// One instance that is meant.
#[derive(Debug, PartialEq)]
struct Target {
    ip: String,
    port: i32,
    cluster: String,
    ephemeral: bool,
}

/// A request, read.
#[derive(Debug)]
struct Batch {
    action: Action,
    entries: Entries,
    chosen: Chosen,
}

impl Batch {
    fn read(params: &Params<'_>, action: Action) -> Result<Self, Refusal> {
        let text = params.required("metadata")?;
        let entries = metadata::parse_entries(&text)?;
        let chosen = match params.optional("consistencyType").as_deref() {
            // The word `null` is no metadata at all, and then nothing happens.
            _ if metadata::is_null(&text) => Chosen::These(Vec::new()),
            Some("ephemeral") => Chosen::AllOf { ephemeral: true },
            Some("persist") => Chosen::AllOf { ephemeral: false },
            Some(_) => Chosen::These(Vec::new()),
            None => {
                Chosen::These(params.optional("instances").map_or(Vec::new(), |text| read_targets(&text)))
            }
        };
        Ok(Self { action, entries, chosen })
    }

    /// The chosen ones among the instances of one kind; one that is listed twice comes twice.
    fn choose<'a>(
        &'a self,
        instances: &'a Instances,
        ephemeral: bool,
    ) -> Box<dyn Iterator<Item = &'a Arc<Instance>> + 'a> {
        match &self.chosen {
            Chosen::AllOf { ephemeral: wanted } if *wanted == ephemeral => Box::new(instances.iter()),
            Chosen::AllOf { .. } => Box::new(std::iter::empty()),
            Chosen::These(targets) => {
                let of_kind = targets.iter().filter(move |target| target.ephemeral == ephemeral);
                Box::new(of_kind.filter_map(|target| target.find(instances)))
            }
        }
    }

    fn finds_any(&self, persistent: &Instances) -> bool {
        self.choose(persistent, false).next().is_some()
    }

    /// What is reported, and the new values of the chosen instances of one kind, each once.
    fn outcome(
        &self,
        instances: &Instances,
        ephemeral: bool,
        limits: &Limits,
    ) -> Result<(Vec<String>, Vec<Instance>), Refusal> {
        let kind = if ephemeral { "ephemeral" } else { "persist" };
        let names = self.choose(instances, ephemeral).map(|chosen| format!("{}:{kind}", chosen.key().text()));
        let once: Instances = self.choose(instances, ephemeral).cloned().collect();
        let new: Vec<Instance> = once.iter().map(|instance| self.apply(instance)).collect();
        new.iter().try_for_each(|instance| limits.check_metadata(&instance.metadata))?;
        Ok((names.collect(), new))
    }

    fn apply(&self, known: &Instance) -> Instance {
        let mut instance = known.copy();
        instance.set_metadata(match self.action {
            Action::Merge => known.metadata.merged(&self.entries),
            Action::Remove => known.metadata.without(&self.entries),
        });
        instance
    }
}

impl Target {
    fn find<'a>(&self, instances: &'a Instances) -> Option<&'a Arc<Instance>> {
        InstanceKey { ip: &self.ip, port: self.port, cluster: &self.cluster }.find_in(instances)
    }
}

/// The instances that a JSON array names; a text that isn't one names none.
fn read_targets(text: &str) -> Vec<Target> {
    serde_json::from_str::<Vec<Option<ListedInstance<'_>>>>(text)
        .ok()
        .and_then(|listed| listed.iter().flatten().map(ListedInstance::target).collect::<Result<_, _>>().ok())
        .unwrap_or_default()
}

/// An element of the array, with its fields as they came.
#[derive(Default)]
struct ListedInstance<'a> {
    ip: Scalar<'a>,
    port: Scalar<'a>,
    cluster: Scalar<'a>,
    ephemeral: Scalar<'a>,
}

impl<'de: 'a, 'a> Deserialize<'de> for ListedInstance<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        jackson::read_fields(deserializer, |listed: &mut Self, field, value| match field {
            "ip" => listed.ip = value,
            "port" => listed.port = value,
            "clusterName" => listed.cluster = value,
            "ephemeral" => listed.ephemeral = value,
            _ => {}
        })
    }
}

impl ListedInstance<'_> {
    fn target(&self) -> Result<Target, jackson::WrongKind> {
        Ok(Target {
            ip: self.ip.text()?.unwrap_or_default().into_owned(),
            port: self.port.integer()?.unwrap_or(0),
            cluster: self.cluster.text()?.unwrap_or(DEFAULT_CLUSTER.into()).into_owned(),
            ephemeral: self.ephemeral.boolean()?.unwrap_or(true),
        })
    }
}
