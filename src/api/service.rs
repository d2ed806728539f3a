//! `/v1/ns/service`: making, changing, removing and reading definitions of services, and finding services by name.
//!
//! Source: Nacos 1.4.8 naming module, service controller; compat files `service-*`. That a refused update changes
//! nothing and that names with an empty part are refused is ours (compat cases marked imp-4, imp-8).

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use serde::Serialize;

use super::{
    Api, V1Call,
    params::Params,
    peers::{self, is_listed},
    reply::{Refusal, Reply},
    routes::{Outcome, Pending},
};
use crate::{
    base::java,
    cluster,
    cp::{Change, GoneInstance, Scope},
    model::{
        Definition, Metadata, Registry, Service, ServiceKey,
        cluster::HealthChecker,
        name::{self, DEFAULT_GROUP, NameError, group_part, service_part},
        pattern::NamePattern,
        registry::Place,
        selector::{ListSelector, Selector},
        service::Threshold,
    },
};

fn read_metadata(text: &str) -> Result<Metadata, Refusal> {
    if text.trim().is_empty() {
        return Ok(Metadata::default());
    }
    Ok(text.parse()?)
}

fn read_selector(text: &str) -> Result<Selector, Refusal> {
    if text.trim().is_empty() {
        return Ok(Selector::default());
    }
    Ok(Selector::read(text)?)
}

/// POST: makes a service without instances.
pub fn create(api: &Api, call: &V1Call) -> Result<Pending, Refusal> {
    let params = Params::of(call);
    let protect_threshold = params.typed_float("protectThreshold", 0.0)?;
    let key = ServiceKey::new(params.typed_namespace(), &params.typed_name()?);
    check_absent(&api.registry, &key)?;
    let definition = Definition {
        protect_threshold,
        metadata: read_metadata(params.typed_or("metadata", ""))?,
        selector: read_selector(params.typed_or("selector", ""))?,
        clusters: Vec::new(),
        explicit: true,
        made_by_request: true,
        durable: true,
    };
    api.registry.limits().check_metadata(&definition.metadata)?;
    if key.name.trim().is_empty() {
        return Err(NameError::Characters(key.name.to_string()).into());
    }
    api.registry.check_creatable(key.place())?;
    let stored = api.cp.submit(Scope::service(&key), move |applied| {
        check_absent(&applied.registry, &key)?;
        Ok::<_, Refusal>((vec![Change::Service(key, Box::new(definition))], ()))
    });
    Ok(Pending::Later(Box::pin(async move { stored.await.map(|()| Reply::OK) })))
}

fn check_absent(registry: &Registry, key: &ServiceKey) -> Result<(), Refusal> {
    if registry.get(key.place()).is_none() {
        return Ok(());
    }
    Err(Refusal::illegal(format_args!("specified service already exists, serviceName : {}", key.name)))
}

/// PUT: gives a service another threshold, metadata and selector; what isn't given of these is reset.
pub fn update(api: &Api, call: &V1Call) -> Result<Pending, Refusal> {
    let params = Params::of(call);
    let key = ServiceKey::new(&params.namespace(), &params.service_name()?);
    let protect_threshold = java::parse_float(&params.required("protectThreshold")?).unwrap_or(0.0);
    let unknown = |key: &ServiceKey| Refusal::failed(format_args!("service {} not found!", key.name));
    api.registry.get(key.place()).ok_or_else(|| unknown(&key))?;
    let metadata = read_metadata(&params.optional("metadata").unwrap_or_default())?;
    let selector = read_selector(&params.optional("selector").unwrap_or_default())?;
    api.registry.limits().check_metadata(&metadata)?;
    let stored = api.cp.submit(Scope::service(&key), move |applied| {
        let service = applied.registry.get(key.place()).ok_or_else(|| unknown(&key))?;
        let mut definition = Definition::clone(&service.state().definition);
        definition.protect_threshold = protect_threshold;
        definition.metadata = metadata;
        definition.selector = selector;
        definition.explicit = true;
        definition.settle();
        Ok::<_, Refusal>((vec![Change::Service(key, Box::new(definition))], ()))
    });
    Ok(Pending::Later(Box::pin(async move { stored.await.map(|()| Reply::OK) })))
}

/// DELETE: removes a service with all its instances.
pub fn remove(api: &Api, call: &V1Call) -> Result<Pending, Refusal> {
    let params = Params::of(call);
    let key = ServiceKey::new(params.typed_namespace(), &params.typed_name()?);
    let unknown = |key: &ServiceKey| {
        Refusal::illegal(format_args!("specified service not exist, serviceName : {}", key.name))
    };
    api.registry.get(key.place()).ok_or_else(|| unknown(&key))?;
    let stored = api.cp.submit(Scope::service(&key), move |applied| {
        let service = applied.registry.get(key.place()).ok_or_else(|| unknown(&key))?;
        let instances =
            service.state().persistent.iter().map(|instance| GoneInstance::of(&instance.key())).collect();
        Ok::<_, Refusal>((vec![Change::NoService(key, instances)], ()))
    });
    Ok(Pending::Later(Box::pin(async move { stored.await.map(|()| Reply::OK) })))
}

/// One definition, fields in wire order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Detail<'a> {
    name: &'a str,
    namespace_id: &'a str,
    protect_threshold: Threshold,
    metadata: &'a Metadata,
    selector: &'a Selector,
    group_name: &'a str,
    clusters: Vec<ClusterDetail<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ClusterDetail<'a> {
    name: &'a str,
    health_checker: Option<&'a HealthChecker>,
    metadata: &'a Metadata,
}

/// GET: the definition of a service.
pub fn detail(api: &Api, call: &V1Call) -> Outcome {
    let params = Params::of(call);
    let (name, namespace) = (params.typed_name()?, params.typed_namespace());
    let state = find(api, namespace, &name)?.state();
    let clusters = state.definition.clusters_in_order();
    let clusters = clusters.into_iter().map(|cluster| ClusterDetail {
        name: &cluster.name,
        health_checker: cluster.health_checker.as_ref(),
        metadata: &cluster.metadata,
    });
    Ok(Reply::json(&Detail {
        name: service_part(&name),
        namespace_id: namespace,
        protect_threshold: Threshold(state.definition.protect_threshold),
        metadata: &state.definition.metadata,
        selector: &state.definition.selector,
        group_name: group_part(&name),
        clusters: clusters.collect(),
    }))
}

/// The service of this name.
///
/// # Errors
/// 500 where it isn't there.
pub(super) fn find(api: &Api, namespace: &str, name: &str) -> Result<Arc<Service>, Refusal> {
    let service = api.registry.get(Place { namespace, name });
    service.ok_or_else(|| Refusal::failed(format_args!("service {name} is not found!")))
}

/// One page of names.
#[derive(Serialize)]
struct Page<'a> {
    doms: Vec<&'a str>,
    count: usize,
}

/// The group that means all of them.
const ALL_GROUPS: &str = "*";

/// GET list: names of a group, page by page.
pub fn list(api: &Api, call: &V1Call) -> Outcome {
    let params = Params::of(call);
    let number = |text: &str| java::parse_int(text).unwrap_or(0);
    let page_number = number(&params.required("pageNo")?);
    let page_size = number(&params.required("pageSize")?);
    let group = params.optional("groupName").unwrap_or(DEFAULT_GROUP.into());
    let mut services = api.registry.in_namespace(&params.namespace());
    if services.is_empty() {
        return Ok(Reply::json(&Page { doms: Vec::new(), count: 0 }));
    }
    if group != ALL_GROUPS {
        services.retain(|service| name::is_in_group(&service.key.name, &group));
    }
    if let Some(text) = params.optional("selector") {
        let selector = ListSelector::read(&text)?;
        services.retain(|service| selector.selects(&service.state()));
    }
    let shown = page(&services, page_number, page_size)?.iter().map(|service| match &*group {
        ALL_GROUPS => &*service.key.name,
        _ => service_part(&service.key.name),
    });
    Ok(Reply::json(&Page { doms: shown.collect(), count: services.len() }))
}

/// The entries of a page; a number below 1 means the first one.
///
/// # Source
/// Nacos 1.4.8 naming module, paging of names. Its 32-bit product wraps, so that for an enormous size every other page
/// is the first one; compat case `service-list/list-page-edges`.
fn page<T>(entries: &[T], number: i32, size: i32) -> Result<&[T], Refusal> {
    let Ok(size_unsigned) = usize::try_from(size) else {
        return Err(Refusal::illegal(format_args!(
            "Param 'pageSize' is illegal, it can't be negative: {size}"
        )));
    };
    let start = number.wrapping_sub(1).wrapping_mul(size).max(0);
    let start = usize::try_from(start).unwrap_or(0).min(entries.len());
    let end = start.saturating_add(size_unsigned).min(entries.len());
    Ok(&entries[start..end])
}

/// Names by namespace, and how many namespaces.
#[derive(Serialize)]
struct Names {
    services: BTreeMap<Arc<str>, BTreeSet<String>>,
    count: usize,
}

/// GET names: the names that an expression is found in, without their groups.
pub fn names(api: &Api, call: &V1Call) -> Outcome {
    let params = Params::of(call);
    let namespace = Some(params.typed_or("namespaceId", "")).filter(|id| !id.trim().is_empty());
    let shown = api.shows(params.typed_boolean("responsibleOnly")?);
    let pattern = NamePattern::anywhere(params.typed_or("expr", ""))?;
    let mut services: BTreeMap<Arc<str>, BTreeSet<String>> = BTreeMap::new();
    api.registry.for_each(|service| {
        let ServiceKey { namespace: id, name } = &service.key;
        if namespace.is_none_or(|wanted| *wanted == **id) {
            let names = services.entry(Arc::clone(id)).or_default();
            if pattern.matches(name) && shown(name) {
                names.insert(service_part(name).into());
            }
        }
    });
    match namespace {
        Some(id) if services.is_empty() => Err(Refusal::failed(format_args!("namespace {id} is not found!"))),
        _ => Ok(Reply::json(&Names { count: services.len(), services })),
    }
}

#[derive(Serialize)]
struct ChecksumAnswer<'a> {
    checksum: &'a str,
}

/// PUT checksum: the checksum of a service as it is now, health included.
pub fn checksum(api: &Api, call: &V1Call) -> Outcome {
    let params = Params::of(call);
    let (namespace, name) = (params.namespace(), params.service_name()?);
    let service = api.registry.get(Place { namespace: &namespace, name: &name });
    let service = service.ok_or_else(|| Refusal::failed(format_args!("serviceName not found: {name}")))?;
    service.refresh_checksum();
    Ok(Reply::json(&ChecksumAnswer { checksum: service.state().checksum(&name) }))
}

/// POST status: a peer reports the checksums of its services, so that this node may ask for what differs.
///
/// Only a listed member may report; a report in the own name is read and has no effect.
pub fn status(api: &Api, call: &V1Call) -> Outcome {
    let report =
        StatusReport::read(&call.body).inspect_err(|refusal| peers::note_malformed(api, call, refusal))?;
    if !is_listed(&api.cluster.view_guard(), &cluster::Address::new(&report.client_ip)) {
        return Err(Refusal::failed(format_args!("ip: {} is not in serverlist", report.client_ip)));
    }
    if let (Some(distro), Some(sent)) = (&api.distro, Checksums::read(&report.statuses)) {
        distro.compare_health(
            &cluster::Address::new(&report.client_ip),
            &sent.namespace_id,
            &sent.service_name_to_checksum,
        );
    }
    match serde_json::from_str(&report.statuses) {
        Ok(serde_json::Value::Null) => Ok(Reply::Text("fail".into())),
        // What can't be read is left out silently, as the reference does: the peer reports again in some seconds.
        Ok(_) | Err(_) => Ok(Reply::OK),
    }
}

/// What a status report says of the services of one namespace.
#[derive(Debug, PartialEq, Eq, serde::Deserialize)]
struct Checksums {
    #[serde(rename = "namespaceId")]
    namespace_id: String,
    #[serde(rename = "serviceName2Checksum")]
    service_name_to_checksum: HashMap<String, String>,
}

impl Checksums {
    fn read(statuses: &str) -> Option<Self> {
        serde_json::from_str(statuses).ok()
    }
}

/// The body of a status report.
#[derive(Debug, PartialEq, Eq)]
struct StatusReport {
    /// JSON text of the checksums.
    statuses: String,
    /// Address and port of the peer.
    client_ip: String,
}

impl StatusReport {
    fn read(body: &[u8]) -> Result<Self, Refusal> {
        let body = String::from_utf8_lossy(body);
        let json =
            java::url_decode(&body).ok_or_else(|| Refusal::illegal("the report is not URL-encoded"))?;
        let value: serde_json::Value = serde_json::from_str(&json)
            .map_err(|error| Refusal::failed(format_args!("the report can not be read: {error}")))?;
        let text = |field: &str| match value.get(field) {
            None => Err(Refusal::failed(format_args!("the report has no {field}"))),
            Some(serde_json::Value::String(text)) => Ok(text.clone()),
            Some(other) => Ok(other.to_string()),
        };
        Ok(Self { statuses: text("statuses")?, client_ip: text("clientIP")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_cut_as_the_reference_cuts_them() {
        let entries = [1, 2, 3, 4, 5];
        let cut = |number, size| page(&entries, number, size).unwrap().to_vec();
        assert_eq!(cut(1, 2), [1, 2]);
        assert_eq!(cut(3, 2), [5]);
        assert!(cut(4, 2).is_empty() && cut(1, 0).is_empty());
        assert_eq!((cut(0, 2), cut(-1, 2), cut(i32::MIN, 2)), (vec![1, 2], vec![1, 2], vec![1, 2]));
        assert_eq!((cut(1, i32::MAX), cut(3, i32::MAX)), (entries.to_vec(), entries.to_vec()));
        assert!(page(&entries, 1, -1).is_err());
    }

    #[test]
    fn the_checksums_of_a_status_report_are_those_of_a_namespace() {
        let read = |text: &str| Checksums::read(text);
        let sent = r#"{"namespaceId":"public","serviceName2Checksum":{"G@@s":"1f"},"later":1}"#;
        let checksums = HashMap::from([("G@@s".to_owned(), "1f".to_owned())]);
        let expected = Checksums { namespace_id: "public".into(), service_name_to_checksum: checksums };
        assert_eq!(read(sent), Some(expected));
        for other in
            ["{}", "null", "x", r#"{"namespaceId":"a"}"#, r#"{"namespaceId":1,"serviceName2Checksum":{}}"#]
        {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn a_status_report_is_decoded_first() {
        let read = |body: &str| StatusReport::read(body.as_bytes());
        let expected = StatusReport { statuses: "{}".into(), client_ip: "a:1".into() };
        assert_eq!(read("%7B%22statuses%22%3A%22%7B%7D%22%2C%22clientIP%22%3A%22a%3A1%22%7D"), Ok(expected));
        for wrong in ["", "abc", "{}", r#"{"statuses":"{}"}"#, "[]", "%zz"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
