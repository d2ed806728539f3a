//! `/v1/ns/health`: setting the health of instances that nothing checks, and the greeting of the server.
//!
//! Source: Nacos 1.4.8 naming module, health controller; compat file `health`.

use std::{borrow::Cow, sync::Arc};

use serde::Serialize;

use super::{
    Api, V1Call,
    params::{self, Params},
    reply::{Refusal, Reply},
    routes::{Outcome, Pending},
};
use crate::{
    base::java,
    cp::{Change, GoneInstance, Scope},
    model::{
        InstanceKey, Service, ServiceKey, cluster::HealthChecker, name::DEFAULT_CLUSTER, registry::Place,
    },
};

/// PUT, also as `/instance`: sets the health of one instance of a cluster with the checker `NONE`; one that isn't there
/// is no error.
pub fn update(api: &Api, call: &V1Call) -> Result<Pending, Refusal> {
    let params = Params::of(call);
    let healthy = params.optional("healthy").or_else(|| params.optional("valid"));
    let healthy = java::is_true_word(&healthy.ok_or_else(|| Refusal::missing("healthy"))?);
    let (namespace, name) = (params.namespace(), params.service_name()?);
    let ip = params.required("ip")?;
    let port = params::integer(&params.required("port")?)?;
    let cluster = params.optional("clusterName").unwrap_or(Cow::Borrowed(DEFAULT_CLUSTER));
    let service = api.registry.get(Place { namespace: &namespace, name: &name });
    let service = service.ok_or_else(|| Refusal::failed(format_args!("service {name} is not found!")))?;
    check_unchecked(&service, &cluster)?;
    let key = InstanceKey { ip: &ip, port, cluster: &cluster };
    match super::instance::find(&service.state(), &key) {
        None => Ok(Pending::Done(Reply::OK)),
        Some(instance) if instance.ephemeral => {
            api.registry.set_health_of(&service, &key, healthy, api.clock.now());
            Ok(Pending::Done(Reply::OK))
        }
        Some(_) => Ok(store(api, &service.key, &key, healthy)),
    }
}

/// Nothing but callers may decide the health of the cluster's instances.
fn check_unchecked(service: &Arc<Service>, cluster: &str) -> Result<(), Refusal> {
    let name = &service.key.name;
    let state = service.state();
    match state.definition.cluster(cluster).map(|cluster| &cluster.health_checker) {
        Some(Some(HealthChecker::None)) => Ok(()),
        Some(Some(_)) => {
            Err(Refusal::illegal(format_args!("health check is still working, service: {name}")))
        }
        Some(None) => Err(Refusal::failed(format_args!("cluster {cluster} has no health checker"))),
        None => Err(Refusal::failed(format_args!("cluster {cluster} is not found!"))),
    }
}

/// Lets the health of a persistent instance outlive this process.
fn store(api: &Api, service: &ServiceKey, instance: &InstanceKey<'_>, healthy: bool) -> Pending {
    let (service, gone) = (service.clone(), GoneInstance::of(instance));
    let stored = api.cp.submit(Scope::instance(&service, instance), move |applied| {
        let known = applied.registry.get(service.place());
        let known = known.and_then(|known| known.state().persistent.get(&gone.key()).cloned());
        let changes = known.filter(|known| known.healthy() != healthy).map(|known| {
            let mut copy = known.copy();
            copy.set_healthy(healthy);
            Change::Instance(service, Box::new(copy))
        });
        Ok::<_, Refusal>((changes.into_iter().collect(), ()))
    });
    Pending::Later(Box::pin(async move { stored.await.map(|()| Reply::OK) }))
}

#[derive(Serialize)]
struct Greeting {
    msg: String,
}

/// GET server: that it is there.
pub fn server(api: &Api, _: &V1Call) -> Outcome {
    let (services, port) = (api.registry.len(), api.own_address.rsplit(':').next().unwrap_or_default());
    let msg =
        format!("Hello! I am Nacos-Naming and healthy! total services: raft {services}, local port:{port}");
    Ok(Reply::json(&Greeting { msg }))
}
