//! `/v1/ns/catalog`: what a console shows of services, their clusters and instances.
//!
//! Source: Nacos 1.4.8 naming module, catalog controller; compat files `catalog-*`.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use bytes::Bytes;
use http::StatusCode;
use serde::{Serialize, Serializer};

use super::{
    Api, V1Call,
    params::Params,
    reply::{self, Refusal, Reply},
    routes::Outcome,
    service::find,
};
use crate::{
    base::java,
    distro::whole_instance::WholeInstance,
    model::{
        Instance, Metadata, Service, State,
        cluster::HealthChecker,
        name::{group_part, service_part},
        pattern::NamePattern,
        registry::Place,
        selector::Selector,
        service::Threshold,
    },
};

/// A service with its clusters, fields in wire order.
#[derive(Serialize)]
struct ServiceWithClusters<'a> {
    service: ServiceDetail<'a>,
    clusters: Vec<ClusterDetail<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ServiceDetail<'a> {
    name: &'a str,
    protect_threshold: Threshold,
    group_name: &'a str,
    selector: &'a Selector,
    metadata: &'a Metadata,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ClusterDetail<'a> {
    service_name: &'a str,
    name: &'a str,
    health_checker: Option<&'a HealthChecker>,
    default_port: i32,
    default_check_port: i32,
    #[serde(rename = "useIPPort4Check")]
    use_instance_port: bool,
    metadata: &'a Metadata,
    sitegroup: &'static str,
    #[serde(rename = "defCkport")]
    check_port: i32,
    empty: bool,
    #[serde(rename = "defIPPort")]
    own_default_port: i32,
}

/// Two ports of a cluster that are shown and that nothing ever changes.
const FIXED_PORT: i32 = 80;

/// GET service: a definition with its clusters.
pub fn service(api: &Api, call: &V1Call) -> Outcome {
    let params = Params::of(call);
    let Ok(name) = params.typed_name() else {
        let response = reply::text_response(&call.head, StatusCode::INTERNAL_SERVER_ERROR, Bytes::new());
        return Ok(Reply::Whole(Box::new(response)));
    };
    let state = find(api, params.typed_namespace(), &name)?.state();
    let filled: HashSet<&str> = state.instances().map(|instance| instance.cluster()).collect();
    let clusters = state.definition.clusters_in_order().into_iter().map(|cluster| ClusterDetail {
        service_name: &name,
        name: &cluster.name,
        health_checker: cluster.health_checker.as_ref(),
        default_port: FIXED_PORT,
        default_check_port: FIXED_PORT,
        use_instance_port: cluster.use_instance_port,
        metadata: &cluster.metadata,
        sitegroup: "",
        check_port: cluster.check_port,
        empty: !filled.contains(&*cluster.name),
        own_default_port: cluster.default_port,
    });
    let clusters = clusters.collect();
    Ok(Reply::json(&ServiceWithClusters { service: ServiceDetail::of(&state, &name), clusters }))
}

impl<'a> ServiceDetail<'a> {
    fn of(state: &'a State, name: &'a str) -> Self {
        Self {
            name: service_part(name),
            protect_threshold: Threshold(state.definition.protect_threshold),
            group_name: group_part(name),
            selector: &state.definition.selector,
            metadata: &state.definition.metadata,
        }
    }
}

/// GET services: a page of those that the filters leave, as counts or with their instances.
pub fn services(api: &Api, call: &V1Call) -> Outcome {
    let params = Params::of(call);
    let with_instances = params.typed_boolean("withInstances")?;
    let (number, size) = (params.typed_integer("pageNo")?, params.typed_integer("pageSize")?);
    let only_filled = params.typed_boolean("hasIpCount")?;
    let (group, name) = (params.typed_or("groupNameParam", ""), params.typed_or("serviceNameParam", ""));
    let pattern = NamePattern::of_parts(group, name)?;
    let mut found = api.registry.in_namespace(params.typed_namespace());
    found.retain(|service| pattern.matches(&service.key.name));
    if with_instances {
        let shown = page(&found, i64::from(number), size);
        let states: Vec<_> = shown.iter().map(|service| (service, service.state())).collect();
        let details = states.iter().map(|(service, state)| WithInstances::of(service, state));
        return Ok(Reply::json(&details.collect::<Vec<_>>()));
    }
    let instance = params.typed_or("instance", "").trim();
    if only_filled || !instance.is_empty() {
        found.retain(|service| has_instance(&service.state(), instance));
    }
    let shown = page(&found, i64::from(number) - 1, size);
    let count = if shown.is_empty() { 0 } else { found.len() };
    let service_list = shown.iter().map(|service| Counts::of(service)).collect();
    Ok(Reply::json(&ServicePage { service_list, count }))
}

/// Whether there is any instance, or one with this `ip` or `ip:port` where that isn't empty.
fn has_instance(state: &State, address: &str) -> bool {
    let (ip, port) = match address.rsplit_once(':') {
        Some((ip, port)) => (ip, java::parse_int(port)),
        None => (address, None),
    };
    let is_it = |instance: &Instance| {
        address.is_empty() || instance.ip() == address || (instance.ip() == ip && port == Some(instance.port))
    };
    state.instances().any(|instance| is_it(instance))
}

/// The entries of the page with this index.
///
/// # Source
/// Nacos 1.4.8 naming module, paging of services: a size that takes everything shows everything on every page, one
/// below 1 shows one entry; compat case `catalog-services/services-paging`.
fn page<T>(entries: &[T], index: i64, size: i32) -> &[T] {
    let all = entries.len();
    if usize::try_from(size).is_ok_and(|size| size >= all) {
        return entries;
    }
    let start =
        usize::try_from(index.saturating_mul(i64::from(size)).max(0)).map_or(all, |start| start.min(all));
    let length = usize::try_from(size).unwrap_or(0).max(1);
    &entries[start..(start + length).min(all)]
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ServicePage<'a> {
    service_list: Vec<Counts<'a>>,
    count: usize,
}

/// A service as numbers, fields in wire order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Counts<'a> {
    name: &'a str,
    group_name: &'a str,
    cluster_count: usize,
    ip_count: usize,
    healthy_instance_count: usize,
    trigger_flag: &'static str,
}

impl<'a> Counts<'a> {
    fn of(service: &'a Service) -> Self {
        let state = service.state();
        let healthy = state.instances().filter(|instance| instance.healthy()).count();
        Self {
            name: service_part(&service.key.name),
            group_name: group_part(&service.key.name),
            cluster_count: state.definition.clusters.len(),
            ip_count: state.len(),
            healthy_instance_count: healthy,
            trigger_flag: match is_triggered(healthy, state.len(), state.definition.protect_threshold) {
                true => "true",
                false => "false",
            },
        }
    }
}

/// Whether protection shows as active; never without instances.
///
/// # Source
/// Nacos 1.4.8 naming module: 64-bit arithmetic here, while lists use 32 bits.
fn is_triggered(healthy: usize, all: usize, threshold: f32) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "the reference divides floats as well")]
    let share = healthy as f64 / all as f64;
    share <= f64::from(threshold)
}

/// A service with its instances, fields in wire order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WithInstances<'a> {
    service_name: &'a str,
    group_name: &'a str,
    cluster_map: ClusterMap<'a>,
    metadata: &'a Metadata,
}

/// Clusters by name, in order.
struct ClusterMap<'a>(Vec<(&'a str, Hosts<'a>)>);

#[derive(Serialize)]
struct Hosts<'a> {
    hosts: Vec<Host<'a>>,
}

#[derive(Serialize)]
struct Host<'a> {
    valid: bool,
    metadata: &'a Metadata,
    port: i32,
    ip: &'a str,
    weight: f64,
    enabled: bool,
}

impl Serialize for ClusterMap<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, hosts)| (name, hosts)))
    }
}

impl<'a> WithInstances<'a> {
    fn of(service: &'a Service, state: &'a State) -> Self {
        let mut by_cluster: HashMap<&str, Vec<Host<'a>>> = HashMap::new();
        for instance in state.instances() {
            by_cluster.entry(instance.cluster()).or_default().push(Host::of(instance));
        }
        let clusters = state.definition.clusters_in_order().into_iter().map(|cluster| {
            let hosts = by_cluster.remove(&*cluster.name).unwrap_or_default();
            (&*cluster.name, Hosts { hosts })
        });
        let mut clusters: Vec<_> = clusters.collect();
        // The reference copies them into a map with a small table.
        java::hash_map_order_from(8, &mut clusters, |(name, _)| name);
        Self {
            service_name: service_part(&service.key.name),
            group_name: group_part(&service.key.name),
            cluster_map: ClusterMap(clusters),
            metadata: &state.definition.metadata,
        }
    }
}

impl<'a> Host<'a> {
    fn of(instance: &'a Instance) -> Self {
        Self {
            valid: instance.healthy(),
            metadata: &instance.metadata,
            port: instance.port,
            ip: instance.ip(),
            weight: instance.weight,
            enabled: instance.enabled,
        }
    }
}

fn of_cluster<'a>(state: &'a State, cluster: &str) -> impl Iterator<Item = &'a Arc<Instance>> {
    state.instances().filter(move |instance| instance.cluster() == cluster)
}

#[derive(Serialize)]
struct InstancePage<'a> {
    list: Vec<WholeInstance<'a>>,
    count: usize,
}

/// GET instances: a page of the instances of one cluster.
pub fn instances(api: &Api, call: &V1Call) -> Outcome {
    let params = Params::of(call);
    let (name, cluster) = (params.typed_name()?, params.typed("clusterName", "String")?);
    let (number, size) = (params.typed_integer("pageNo")?, params.typed_integer("pageSize")?);
    let state = find(api, params.typed_namespace(), &name)?.state();
    if state.definition.cluster(cluster).is_none() {
        return Err(Refusal::failed(format_args!("cluster {cluster} is not found!")));
    }
    let found: Vec<_> = of_cluster(&state, cluster).collect();
    let (Ok(number), Ok(size)) = (usize::try_from(number), usize::try_from(size)) else {
        return Err(Refusal::illegal(format_args!("a page can't be negative: {number} of {size}")));
    };
    let end = number.saturating_mul(size).min(found.len());
    let start = number.saturating_sub(1).saturating_mul(size).min(end);
    let at = api.clock.reading();
    let list = found[start..end].iter().map(|instance| WholeInstance::of(instance, &name, at));
    Ok(Reply::json(&InstancePage { list: list.collect(), count: found.len() }))
}

#[derive(Serialize)]
struct CheckTimes<'a> {
    clusters: Vec<ClusterCheckTimes<'a>>,
}

/// How long checks took, in milliseconds.
#[derive(Serialize)]
struct ClusterCheckTimes<'a> {
    name: &'a str,
    #[serde(rename = "checkRTBest")]
    best: i64,
    #[serde(rename = "checkRTWorst")]
    worst: i64,
    #[serde(rename = "checkRTNormalized")]
    normalized: i64,
}

/// What stands for the usual time of a check before there was one; the reference draws from 2 to 7 seconds.
const UNCHECKED_NORMALIZED_MS: i64 = 2_000;

/// GET rt/service: how long the checks of each cluster take.
pub fn check_times(api: &Api, call: &V1Call) -> Outcome {
    let params = Params::of(call);
    let (namespace, name) = (params.namespace(), params.service_name()?);
    let service = api.registry.get(Place { namespace: &namespace, name: &name });
    let state = service.ok_or_else(|| Refusal::illegal("request service doesn't exist"))?.state();
    let clusters = state.definition.clusters_in_order().into_iter().map(|cluster| ClusterCheckTimes {
        name: &cluster.name,
        best: i64::MAX,
        worst: 0,
        normalized: UNCHECKED_NORMALIZED_MS,
    });
    Ok(Reply::json(&CheckTimes { clusters: clusters.collect() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_services_are_cut_as_the_reference_cuts_them() {
        let entries = [1, 2, 3, 4, 5];
        assert_eq!(page(&entries, 0, 2), [1, 2]);
        assert_eq!(page(&entries, 2, 2), [5]);
        assert!(page(&entries, 3, 2).is_empty());
        assert_eq!(page(&entries, -1, 2), [1, 2]);
        assert_eq!((page(&entries, 0, 0), page(&entries, 0, -1)), (&[1][..], &[1][..]));
        assert_eq!(page(&entries, 7, 5), entries);
        assert!(page(&entries, i64::from(i32::MAX), 4).is_empty());
        assert!(page::<i32>(&[], 0, 1).is_empty() && page::<i32>(&[], 3, -1).is_empty());
    }

    #[test]
    fn protection_is_never_active_without_instances() {
        assert!(!is_triggered(0, 0, 1.0));
        assert!(is_triggered(1, 2, 0.5) && is_triggered(0, 1, 0.0));
        assert!(!is_triggered(1, 2, 0.4) && !is_triggered(1, 2, f32::NAN));
        // 0.7 in 32 bits is a little below 7/10.
        assert!(!is_triggered(7, 10, 0.7));
    }
}
