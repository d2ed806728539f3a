//! What an answer is an answer to, and the family of endpoints that this belongs to. No I/O.

/// The name of what is pushed.
const PUSH: &str = "push";

/// The entries of the naming API and their families: methods, and the path behind the context.
const ENTRIES: [(&str, &str, &str); 48] = [
    ("GET", "/v1/ns/instance/list", "instance list"),
    ("PUT", "/v1/ns/instance/beat", "beat"),
    ("GET", "/v1/ns/instance/statuses", "instance"),
    ("PUT DELETE", "/v1/ns/instance/metadata/batch", "instance"),
    ("GET POST PUT PATCH DELETE", "/v1/ns/instance", "instance"),
    ("GET", "/v1/ns/service/list", "service list"),
    ("GET", "/v1/ns/service/names", "service list"),
    ("POST", "/v1/ns/service/status", "Distro"),
    ("PUT", "/v1/ns/service/checksum", "service"),
    ("GET", "/v1/ns/service/subscribers", "service"),
    ("GET POST PUT DELETE", "/v1/ns/service", "service"),
    ("GET", "/v1/ns/catalog/services", "catalog"),
    ("GET", "/v1/ns/catalog/service", "catalog"),
    ("GET", "/v1/ns/catalog/instances", "catalog"),
    ("GET", "/v1/ns/catalog/rt/service", "catalog"),
    ("PUT", "/v1/ns/cluster", "cluster"),
    ("PUT POST", "/v1/ns/health", "health checks"),
    ("PUT POST", "/v1/ns/health/instance", "health checks"),
    ("GET", "/v1/ns/health/server", "health checks"),
    ("GET", "/v1/ns/health/checkers", "health checks"),
    ("GET PUT", "/v1/ns/operator/switches", "switches"),
    ("GET", "/v1/ns/operator/metrics", "operator"),
    ("GET", "/v1/ns/operator/servers", "operator"),
    ("GET", "/v1/ns/operator/push/state", "operator"),
    ("PUT", "/v1/ns/operator/log", "operator"),
    ("GET", "/v1/ns/operator/distro/server", "operator"),
    ("GET", "/v1/ns/operator/distro/status", "operator"),
    ("GET", "/v1/ns/operator/server/status", "operator"),
    ("GET", "/v1/ns/operator/cluster/state", "operator"),
    ("GET PUT", "/v1/ns/distro/datum", "Distro"),
    ("GET", "/v1/ns/distro/datums", "Distro"),
    ("PUT", "/v1/ns/distro/checksum", "Distro"),
    ("GET", "/v1/ns/api/srvIPXT", "old API"),
    ("GET", "/v1/ns/api/allDomNames", "old API"),
    ("GET", "/v1/ns/api/clientBeat", "old API"),
    ("GET", "/v1/core/cluster/self", "membership"),
    ("GET", "/v1/core/cluster/nodes", "membership"),
    ("GET", "/v1/core/cluster/simple/nodes", "membership"),
    ("GET", "/v1/core/cluster/health", "membership"),
    ("POST", "/v1/core/cluster/report", "membership"),
    ("POST", "/v1/core/cluster/server/leave", "membership"),
    ("POST", "/v1/core/cluster/switch/lookup", "membership"),
    ("GET", "/v1/core/ops/idInfo", "operator"),
    ("PUT", "/v1/core/ops/log", "operator"),
    ("GET POST PUT DELETE", "/v1/console/namespaces", "console"),
    ("GET", "/v1/console/server/state", "console"),
    ("GET", "/v1/console/health/readiness", "console"),
    ("POST", "/v1/auth/login", "auth"),
];

/// Whatever else was asked: wrong methods, unknown paths, pages.
const OTHER: &str = "no entry";

/// What an answer is an answer to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// `METHOD PATH`, the path behind the context and without its query; or [`Kind::push`].
    pub entry: String,
    /// Whether it was a refusal (a status from 400 on).
    pub refused: bool,
}

impl Kind {
    /// Of the answer to a request for `target` under the context path `context`.
    pub fn of(method: &str, target: &str, context: &str, status: u16) -> Self {
        let path = target.split('?').next().unwrap_or_default();
        let path = path.strip_prefix(context).unwrap_or("");
        let known = ENTRIES
            .iter()
            .any(|(methods, known, _)| *known == path && methods.split(' ').any(|one| one == method));
        let entry = if known { format!("{method} {path}") } else { OTHER.to_owned() };
        Self { entry, refused: status >= 400 }
    }

    /// Of what is sent to subscribers.
    pub fn push() -> Self {
        Self { entry: PUSH.to_owned(), refused: false }
    }

    /// The family that it belongs to.
    pub fn family(&self) -> &'static str {
        if *self == Self::push() {
            return PUSH;
        }
        let path = self.entry.split_once(' ').map_or("", |(_, path)| path);
        let known = ENTRIES.iter().find(|(_, known, _)| *known == path);
        known.map_or("HTTP", |(_, _, family)| family)
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}{}", self.entry, if self.refused { ", refused" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_known_by_its_method_and_path() {
        let kind = Kind::of("GET", "/nacos/v1/ns/instance/list?a=b", "/nacos", 200);
        assert_eq!((kind.to_string(), kind.family()), ("GET /v1/ns/instance/list".into(), "instance list"));
        let kind = Kind::of("PUT", "/nacos/v1/ns/instance", "/nacos", 400);
        assert_eq!((kind.to_string(), kind.family()), ("PUT /v1/ns/instance, refused".into(), "instance"));
        assert_eq!(Kind::of("GET", "/else", "/nacos", 404).family(), "HTTP");
        assert_eq!(Kind::of("FOO", "/nacos/v1/ns/instance", "/nacos", 405).to_string(), "no entry, refused");
        assert_eq!(Kind::push().family(), "push");
    }
}
