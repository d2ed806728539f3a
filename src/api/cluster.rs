//! `/v1/ns/cluster`: how the instances of a cluster are checked, and its metadata.
//!
//! Source: Nacos 1.4.8 naming module, cluster controller; compat file `cluster-update`. That a refused update makes no
//! cluster is ours (compat cases marked imp-4).

use super::{
    Api, V1Call,
    params::Params,
    reply::{Refusal, Reply},
    routes::Pending,
};
use crate::{
    base::java,
    cp::{Change, Scope},
    model::{
        Definition, Metadata, ServiceKey,
        cluster::{HealthChecker, Update},
    },
};

/// PUT: changes a cluster of a known service, making it where there is none.
pub fn update(api: &Api, call: &V1Call) -> Result<Pending, Refusal> {
    let params = Params::of(call);
    let cluster = params.required("clusterName")?.into_owned();
    let key = ServiceKey::new(&params.namespace(), &params.service_name()?);
    let check_port = java::parse_int(&params.required("checkPort")?).unwrap_or(0);
    let unknown = |key: &ServiceKey| Refusal::failed(format_args!("service not found:{}", key.name));
    api.registry.get(key.place()).ok_or_else(|| unknown(&key))?;
    let use_instance_port = java::is_true_word(&params.required("useInstancePort4Check")?);
    let health_checker = HealthChecker::read(&params.required("healthChecker")?).map_err(Refusal::failed)?;
    let metadata = params.optional("metadata").map_or(Ok(Metadata::default()), |text| text.parse())?;
    let update = Update { check_port, use_instance_port, health_checker, metadata };
    let stored = api.cp.submit(Scope::service(&key), move |applied| {
        let service = applied.registry.get(key.place()).ok_or_else(|| unknown(&key))?;
        let mut definition = Definition::clone(&service.state().definition);
        definition.update_cluster(&cluster, update, applied.registry.limits())?;
        definition.explicit = true;
        Ok::<_, Refusal>((vec![Change::Service(key, Box::new(definition))], ()))
    });
    Ok(Pending::Later(Box::pin(async move { stored.await.map(|()| Reply::OK) })))
}
