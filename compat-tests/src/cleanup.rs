//! Takes away what a case has made: instances, then their service, then namespaces of the run's name.
//!
//! Works through the entries that clients and the console use, whatever the case did and however it ended; only what
//! bears the token of the run is touched, or, for a case of fixed names, what its own requests named.

use std::thread;
use std::time::Duration;

use crate::golden::HttpRequest;
use crate::json::{Json, parse};
use crate::ledger::{Ledger, ServiceKey};
use crate::target::{Target, escaped};

/// As often a service is tried; a server may answer before a removal is done.
const TRIES: usize = 6;

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(250);

/// Takes everything away; gives what couldn't be.
pub fn take_away(target: &Target, ledger: &Ledger, token: &str, fixed: bool) -> Vec<String> {
    let mut left = Vec::new();
    let mut services = ledger.services(token, fixed);
    for namespace in ledger.namespaces() {
        services.extend(found(target, namespace, token));
    }
    services.sort();
    services.dedup();
    for service in services {
        let mut answer = None;
        let mut unanswered = 0;
        for attempt in 0..TRIES {
            if attempt > 0 {
                thread::sleep(PAUSE); // asking again is the only way to learn of it
            }
            answer = ask_to_go(target, &service);
            if answer.is_some() {
                // Not every server shows all of them, such as disabled ones, to consoles.
                ledger.instances(&service).for_each(|instance| remove(target, &service, instance));
            }
            // What is out of service can't be done a moment later either; no answer may have been one that was lost.
            let status = answer.as_ref().map(|(status, _)| *status);
            unanswered += usize::from(status == Some(0));
            if status.is_none_or(|status| status == 503) || unanswered > 1 {
                break;
            }
        }
        if let Some((status, body)) = answer {
            left.push(remains(&service, &format!("deleting it was answered {status} {}", body.trim())));
        }
    }
    if ledger.has_namespaces() {
        left.extend(namespaces(target, token));
    }
    left
}

/// What may be there still of a case whose server nobody can ask to take it away.
pub fn not_taken_away(ledger: &Ledger, token: &str, fixed: bool) -> Vec<String> {
    ledger.services(token, fixed).iter().map(|service| remains(service, "nobody answers")).collect()
}

fn remains(ServiceKey { namespace, group, name }: &ServiceKey, why: &str) -> String {
    format!("service {group}@@{name} of the namespace {namespace:?}: {why}")
}

/// What the console's search finds under the token: a request may be read otherwise than its letters suggest.
fn found(target: &Target, namespace: &str, token: &str) -> Vec<ServiceKey> {
    let mut keys = Vec::new();
    for parameter in ["serviceNameParam", "groupNameParam"] {
        let path = format!(
            "/nacos/v1/ns/catalog/services?{parameter}={token}&namespaceId={}&pageNo=1&pageSize=500",
            escaped(namespace)
        );
        let page = ask(target, "GET", &path).and_then(|(_, body)| parse(&body).ok());
        let list = page.as_ref().and_then(|page| page.get("serviceList")).map(items).unwrap_or_default();
        keys.extend(list.iter().filter_map(|service| {
            let (group, name) = (text(service, "groupName")?, text(service, "name")?);
            let ours = group.contains(token) || name.contains(token);
            ours.then(|| ServiceKey { namespace: namespace.to_owned(), group, name })
        }));
    }
    keys
}

/// Asks the instances of a service and itself to go; what that was answered, or `None` if it isn't there.
fn ask_to_go(target: &Target, service: &ServiceKey) -> Option<(u16, String)> {
    let named = named(service);
    let nobody = || (0, "no answer".to_owned());
    let (status, body) = match ask(target, "GET", &format!("/nacos/v1/ns/service?{named}")) {
        None => return Some(nobody()),
        Some(answer) => answer,
    };
    if status != 200 {
        return None;
    }
    let detail = parse(&body).ok();
    let clusters = detail.as_ref().and_then(|detail| detail.get("clusters")).map(items).unwrap_or_default();
    for cluster in clusters.iter().filter_map(|cluster| text(cluster, "name")) {
        for instance in instances(target, service, &cluster) {
            remove(target, service, &instance);
        }
    }
    Some(ask(target, "DELETE", &format!("/nacos/v1/ns/service?{named}")).unwrap_or_else(nobody))
}

fn remove(target: &Target, service: &ServiceKey, instance: &str) {
    ask(target, "DELETE", &format!("/nacos/v1/ns/instance?{}&{instance}", named(service)));
}

/// The parameters that name a service, as consoles have them: not every server reads a group in the name wherever it stands.
fn named(service: &ServiceKey) -> String {
    let ServiceKey { namespace, group, name } = service;
    let (group, name) = if group.is_empty() || name.contains("@@") {
        // Together: the separator in the name would be taken for the group's.
        (String::new(), escaped(&format!("{group}@@{name}")))
    } else {
        (format!("&groupName={}", escaped(group)), escaped(name))
    };
    format!("serviceName={name}{group}&namespaceId={}", escaped(namespace))
}

/// The parameters that name each instance of a cluster.
fn instances(target: &Target, service: &ServiceKey, cluster: &str) -> Vec<String> {
    let grouped = format!("{}@@{}", service.group, service.name);
    let path = format!(
        "/nacos/v1/ns/catalog/instances?serviceName={}&clusterName={}&namespaceId={}&pageNo=1&pageSize=1000",
        escaped(&grouped),
        escaped(cluster),
        escaped(&service.namespace)
    );
    let list = ask(target, "GET", &path).and_then(|(_, body)| parse(&body).ok());
    let list = list.as_ref().and_then(|page| page.get("list")).map(items).unwrap_or_default();
    let named = |instance: &Json| {
        let ephemeral = !matches!(instance.get("ephemeral"), Some(Json::Bool(false)));
        let (ip, Json::Number(port)) = (text(instance, "ip")?, instance.get("port")?) else { return None };
        let cluster = escaped(cluster);
        Some(format!("ip={}&port={port}&clusterName={cluster}&ephemeral={ephemeral}", escaped(&ip)))
    };
    list.iter().filter_map(named).collect()
}

fn namespaces(target: &Target, token: &str) -> Vec<String> {
    let list = ask(target, "GET", "/nacos/v1/console/namespaces").and_then(|(_, body)| parse(&body).ok());
    let list = list.as_ref().and_then(|list| list.get("data")).map(items).unwrap_or_default();
    let mut left = Vec::new();
    for id in list.iter().filter(|item| item.to_string().contains(token)).filter_map(|i| text(i, "namespace"))
    {
        let path = format!("/nacos/v1/console/namespaces?namespaceId={}", escaped(&id));
        if ask(target, "DELETE", &path).is_none_or(|(status, _)| status != 200) {
            left.push(format!("namespace {id}"));
        }
    }
    left
}

fn ask(target: &Target, method: &str, path: &str) -> Option<(u16, String)> {
    let request = HttpRequest::new(method, path, Duration::from_secs(10));
    target.send(&request).ok().map(|answer| (answer.status, answer.body))
}

fn items(list: &Json) -> Vec<Json> {
    match list {
        Json::List(items) => items.clone(),
        _ => Vec::new(),
    }
}

fn text(object: &Json, key: &str) -> Option<String> {
    match object.get(key)? {
        Json::Text(text) => Some(text.clone()),
        _ => None,
    }
}
