//! What the requests of a case may have made on the server, read off the requests themselves. No I/O.

use std::collections::BTreeSet;

use regex::Regex;

use crate::target::escaped;

/// A service as its parameters name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceKey {
    /// The namespace; empty for the public one.
    pub namespace: String,
    /// The group.
    pub group: String,
    /// The name within the group.
    pub name: String,
}

/// Services and instances that requests may have made, and whether a namespace may be among what they made.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    services: BTreeSet<ServiceKey>,
    /// By service: the parameters that name an instance.
    instances: BTreeSet<(ServiceKey, String)>,
    namespaces: bool,
}

impl Ledger {
    /// Notes a request. `target` is path and query, `body` whatever was sent behind the head.
    pub fn note(&mut self, method: &str, target: &str, body: &str) {
        if matches!(method, "GET" | "HEAD" | "OPTIONS") && !target.contains("/api/") {
            return;
        }
        self.namespaces |= target.contains("/console/namespaces");
        let (_, query) = target.split_once('?').unwrap_or((target, ""));
        let mut pairs = pairs(query);
        if !body.starts_with('{') {
            pairs.extend(self::pairs(body));
        }
        let first = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.trim());
        let group = first("groupName").filter(|group| !group.is_empty());
        let namespace = first("namespaceId").unwrap_or_default();
        for key in ["serviceName", "dom"] {
            for (_, name) in pairs.iter().filter(|(name, _)| name == key) {
                let (group, name) = match name.trim().split_once("@@") {
                    Some((group, name)) => (group, name),
                    None => (group.unwrap_or(GROUP), name.trim()),
                };
                let service = self.add(namespace, group, name);
                // Not every server trims.
                let raw =
                    |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
                if let Some(namespace) = raw("namespaceId").filter(|raw| *raw != namespace) {
                    self.add(namespace, group, name);
                }
                if let (Some(ip), Some(port)) = (first("ip"), first("port")) {
                    let named = [("clusterName", "DEFAULT"), ("ephemeral", "true")]
                        .map(|(name, usual)| format!("&{name}={}", escaped(first(name).unwrap_or(usual))));
                    let instance = format!("ip={}&port={}{}", escaped(ip), escaped(port), named.concat());
                    self.instances.insert((service, instance));
                }
            }
        }
        let datum = Regex::new(r#"iplist\.(?:ephemeral\.)?([^#"]*)##([^@"]*)@@([^"\\]*)"#)
            .expect("a literal pattern");
        for key in datum.captures_iter(body) {
            self.add(&key[1], &key[2], &key[3]);
        }
    }

    fn add(&mut self, namespace: &str, group: &str, name: &str) -> ServiceKey {
        let namespace = if namespace == "public" { "" } else { namespace };
        let [namespace, group, name] = [namespace, group, name].map(str::to_owned);
        let key = ServiceKey { namespace, group, name };
        self.services.insert(key.clone());
        key
    }

    /// The instances of a service, each by the parameters that name it.
    pub fn instances(&self, service: &ServiceKey) -> impl Iterator<Item = &str> {
        self.instances.iter().filter(move |(of, _)| of == service).map(|(_, named)| &**named)
    }

    /// Services with the run's token in their name, group or namespace; with `all` the others, too.
    pub fn services(&self, token: &str, all: bool) -> Vec<ServiceKey> {
        let ours = |key: &&ServiceKey| {
            all || [&key.namespace, &key.group, &key.name].iter().any(|part| part.contains(token))
        };
        self.services.iter().filter(ours).filter(|key| !key.name.is_empty()).cloned().collect()
    }

    /// The namespaces of all of them, the public one as an empty text.
    pub fn namespaces(&self) -> BTreeSet<&str> {
        self.services.iter().map(|key| &*key.namespace).collect()
    }

    /// Whether a namespace may have been made.
    pub fn has_namespaces(&self) -> bool {
        self.namespaces
    }
}

/// The group of a service that names none.
const GROUP: &str = "DEFAULT_GROUP";

fn pairs(text: &str) -> Vec<(String, String)> {
    let decode = |text: &str| decoded(&text.replace('+', " "));
    let pair = |pair: &str| pair.split_once('=').map(|(name, value)| (decode(name), decode(value)));
    text.split('&').filter_map(pair).collect()
}

/// A text with its percent escapes resolved.
pub fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let escape = bytes.get(at + 1..at + 3).and_then(|two| std::str::from_utf8(two).ok());
        match escape.and_then(|two| u8::from_str_radix(two, 16).ok()).filter(|_| *byte == b'%') {
            Some(escaped) => (out.push(escaped), at += 3).1,
            None => (out.push(*byte), at += 1).1,
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(method: &str, target: &str, body: &str) -> Vec<String> {
        let mut ledger = Ledger::default();
        ledger.note(method, target, body);
        let shown = |key: ServiceKey| format!("{}/{}/{}", key.namespace, key.group, key.name);
        ledger.services("tabc", false).into_iter().map(shown).collect()
    }

    #[test]
    fn services_are_found_in_query_form_and_datum() {
        assert_eq!(names("POST", "/i?serviceName=g%40%40tabc&namespaceId=n", ""), ["n/g/tabc"]);
        assert_eq!(names("PUT", "/i?groupName=tabc", "serviceName=a&beat={}"), ["/tabc/a"]);
        assert_eq!(names("GET", "/v1/ns/api/regService?dom=tabc", ""), ["/DEFAULT_GROUP/tabc"]);
        let datum = r#"{"com.alibaba.nacos.naming.iplist.ephemeral.public##G@@tabc":{"value":1}}"#;
        assert_eq!(names("PUT", "/distro/datum", datum), ["/G/tabc"]);
    }

    #[test]
    fn an_instance_is_known_by_what_it_was_registered_with() {
        let mut ledger = Ledger::default();
        ledger.note("POST", "/i?serviceName=a&ip=10.0.0.1&enabled=false", "port=80&clusterName=c 1");
        ledger.note("DELETE", "/i?serviceName=b&ip=10.0.0.2&port=81&ephemeral=false", "");
        ledger.note("PUT", "/v1/ns/service?serviceName=a", "");
        let service =
            |name: &str| ledger.services("", true).into_iter().find(|key| key.name == name).unwrap();
        let instances = |name| ledger.instances(&service(name)).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(instances("a"), ["ip=10.0.0.1&port=80&clusterName=c+1&ephemeral=true"]);
        assert_eq!(instances("b"), ["ip=10.0.0.2&port=81&clusterName=DEFAULT&ephemeral=false"]);
    }

    #[test]
    fn what_only_reads_or_names_something_of_others_makes_nothing() {
        assert_eq!(names("GET", "/i?serviceName=tabc", ""), [""; 0]);
        assert_eq!(names("POST", "/i?serviceName=orders", ""), [""; 0]);
    }
}
