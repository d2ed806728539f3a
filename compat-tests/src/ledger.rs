//! What the requests of a case may have made on the server, read off the requests themselves. No I/O.

use std::collections::BTreeSet;

use regex::Regex;

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

/// Services that requests may have made, and whether a namespace may be among what they made.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    services: BTreeSet<ServiceKey>,
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
                self.add(namespace, group, name);
            }
        }
        let datum = Regex::new(r#"iplist\.(?:ephemeral\.)?([^#"]*)##([^@"]*)@@([^"\\]*)"#)
            .expect("a literal pattern");
        for key in datum.captures_iter(body) {
            self.add(&key[1], &key[2], &key[3]);
        }
    }

    fn add(&mut self, namespace: &str, group: &str, name: &str) {
        let namespace = if namespace == "public" { "" } else { namespace };
        self.services.insert(ServiceKey {
            namespace: namespace.to_owned(),
            group: group.to_owned(),
            name: name.to_owned(),
        });
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
    fn what_only_reads_or_names_something_of_others_makes_nothing() {
        assert_eq!(names("GET", "/i?serviceName=tabc", ""), [""; 0]);
        assert_eq!(names("POST", "/i?serviceName=orders", ""), [""; 0]);
    }
}
