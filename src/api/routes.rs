//! THE route table: what each (method, path) is, known from the head of a request alone.
//!
//! Everything that must know a route's facts before its endpoint runs reads the row. Paths are exact; one trailing
//! slash and escaped letters make no difference. Source: Nacos 1.4.8, its controllers' mappings and the filters before
//! them; compat files `http-routing`, `instance-http`, `legacy`.

use std::{borrow::Cow, collections::HashMap};

use futures_util::future::BoxFuture;
use http::{Method, Request};
use nacre_middleware::Facts;

use super::{
    Api, V1Call, auth, beat, catalog, cluster, console, core, distro, drain, heads, health, instance, legacy,
    list, member, metadata_batch, nacre, observe, operator, proxy, push_state, raft,
    reply::{Refusal, Reply},
    service, subscribers, unrouted, web,
};
use crate::observe::requests::Label;

/// What an endpoint gives back.
pub type Outcome = Result<Reply, Refusal>;

/// An answer, at once or after something has become durable.
pub enum Pending {
    /// At once.
    Done(Reply),
    /// When this is ready.
    Later(BoxFuture<'static, Outcome>),
}

/// The function behind a route.
#[derive(Clone, Copy)]
pub enum Handler {
    /// Answers at once.
    Now(fn(&Api, &V1Call) -> Outcome),
    /// May have to wait, for the store in most cases.
    Waits(fn(&Api, &V1Call) -> Result<Pending, Refusal>),
}

/// Where a path lies, which decides how unknown ones and wrong methods are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// Under `/v1/ns` of the context path.
    Naming,
    /// Elsewhere under the context path.
    Context,
    /// Outside the context path.
    Outside,
}

/// A row of the table.
pub struct Route {
    /// Method.
    pub method: Method,
    /// Path behind the context path (for [`Area::Outside`]: the whole path).
    pub path: &'static str,
    /// Where the path lies.
    pub area: Area,
    /// Carries the headers of a controller's answer.
    pub dressed: bool,
    /// For members of the cluster alone; see [`super::peers`].
    pub of_peers: bool,
    /// In a cluster, only the owner of the service does it.
    pub forwarded: bool,
    /// Belongs to the legacy cluster behind this node, where there is one; the endpoint is for where there is none.
    pub legacy: bool,
    /// The endpoint.
    pub handler: Handler,
}

/// A row of the table, as it travels with a request.
#[derive(Clone, Copy)]
pub struct Row(pub &'static Route);

impl std::ops::Deref for Row {
    type Target = Route;

    fn deref(&self) -> &Route {
        self.0
    }
}

impl Row {
    /// The number of the row among all, for meters: the place of its label in [`labels`].
    #[must_use]
    pub fn number(self) -> usize {
        let number_of_special = || special::LABELS.iter().position(|label| *label == self.path);
        // What is no endpoint comes last; its rows share a number where they share a label.
        ROUTES
            .element_offset(self.0)
            .or_else(|| Some(ROUTES.len() + number_of_special()?))
            .unwrap_or(usize::MAX)
    }

    /// Whether what it brings is merged instance by instance, so that it is good even a moment after its sender was a member.
    #[must_use]
    pub fn brings_data(self) -> bool {
        self.method == Method::PUT && self.path == DATUM
    }
}

/// The labels of all rows for meters, in the order of [`Row::number`].
pub fn labels() -> impl Iterator<Item = Label> {
    let routes = ROUTES.iter().map(|route| Label::of(&route.method, route.path));
    routes.chain(special::LABELS.map(|endpoint| Label { method: "any", endpoint }))
}

impl Facts for Row {
    fn is_dressed(&self) -> bool {
        self.0.dressed
    }

    fn is_naming(&self) -> bool {
        self.0.area == Area::Naming
    }

    fn reads_body(&self) -> bool {
        // Only few GET entries do; for the others a body on a GET would be read in vain.
        self.method != Method::GET || self.path == DATUM
    }

    fn is_forwarded(&self) -> bool {
        self.forwarded
    }

    fn is_legacy(&self) -> bool {
        self.legacy
    }
}

/// Where members bring data, and ask for some.
const DATUM: &str = "/v1/ns/distro/datum";

const fn naming(method: Method, path: &'static str, handler: Handler) -> Route {
    Route {
        method,
        path,
        area: Area::Naming,
        dressed: true,
        of_peers: false,
        forwarded: false,
        legacy: false,
        handler,
    }
}

/// A write that the owner of the service does. Source: Nacos 1.4.8 naming module, the entries that its distro filter
/// finds marked; compat file `forward`.
const fn owned(method: Method, path: &'static str, handler: Handler) -> Route {
    Route {
        method,
        path,
        area: Area::Naming,
        dressed: true,
        of_peers: false,
        forwarded: true,
        legacy: false,
        handler,
    }
}

const fn context(method: Method, path: &'static str, handler: Handler) -> Route {
    Route {
        method,
        path,
        area: Area::Context,
        dressed: true,
        of_peers: false,
        forwarded: false,
        legacy: false,
        handler,
    }
}

const fn outside(method: Method, path: &'static str, handler: Handler) -> Route {
    Route {
        method,
        path,
        area: Area::Outside,
        dressed: false,
        of_peers: false,
        forwarded: false,
        legacy: false,
        handler,
    }
}

/// What only members of the cluster may call: it changes what is registered or who is a member, or hands all out.
const fn of_peers(mut route: Route) -> Route {
    route.of_peers = true;
    route
}

/// What a legacy cluster behind this node has, where there is one: its config centre's console, its users.
const fn legacy(mut route: Route) -> Route {
    route.legacy = true;
    route
}

use Handler::{Now, Waits};

/// Every endpoint. `/v1/ns/ops/...` is served as `/v1/ns/operator/...`, `/v1/ns/api/...` as `/v1/ns/instance/...`.
static ROUTES: &[Route] = &[
    owned(Method::POST, "/v1/ns/instance", Waits(instance::register)),
    owned(Method::DELETE, "/v1/ns/instance", Waits(instance::deregister)),
    owned(Method::PUT, "/v1/ns/instance", Waits(instance::update)),
    naming(Method::GET, "/v1/ns/instance", Now(instance::detail)),
    owned(Method::PATCH, "/v1/ns/instance", Waits(instance::patch)),
    naming(Method::GET, "/v1/ns/instance/statuses", Now(instance::statuses)),
    naming(Method::GET, "/v1/ns/instance/list", Now(list::list)),
    owned(Method::PUT, "/v1/ns/instance/beat", Now(beat::beat)),
    owned(Method::PUT, "/v1/ns/instance/metadata/batch", Waits(metadata_batch::update)),
    owned(Method::DELETE, "/v1/ns/instance/metadata/batch", Waits(metadata_batch::remove)),
    naming(Method::GET, "/v1/ns/api/srvIPXT", Now(legacy::srv_ipxt)),
    owned(Method::GET, "/v1/ns/api/clientBeat", Now(legacy::client_beat)),
    naming(Method::GET, "/v1/ns/api/allDomNames", Now(legacy::all_dom_names)),
    naming(Method::POST, "/v1/ns/service", Waits(service::create)),
    naming(Method::PUT, "/v1/ns/service", Waits(service::update)),
    naming(Method::DELETE, "/v1/ns/service", Waits(service::remove)),
    naming(Method::GET, "/v1/ns/service", Now(service::detail)),
    naming(Method::GET, "/v1/ns/service/list", Now(service::list)),
    naming(Method::GET, "/v1/ns/service/names", Now(service::names)),
    naming(Method::PUT, "/v1/ns/service/checksum", Now(service::checksum)),
    of_peers(naming(Method::POST, "/v1/ns/service/status", Now(service::status))),
    naming(Method::GET, "/v1/ns/service/subscribers", Now(subscribers::list)),
    naming(Method::GET, "/v1/ns/catalog/service", Now(catalog::service)),
    naming(Method::GET, "/v1/ns/catalog/services", Now(catalog::services)),
    naming(Method::GET, "/v1/ns/catalog/instances", Now(catalog::instances)),
    naming(Method::GET, "/v1/ns/catalog/rt/service", Now(catalog::check_times)),
    naming(Method::PUT, "/v1/ns/cluster", Waits(cluster::update)),
    owned(Method::PUT, "/v1/ns/health", Waits(health::update)),
    owned(Method::PUT, "/v1/ns/health/instance", Waits(health::update)),
    naming(Method::GET, "/v1/ns/health/server", Now(health::server)),
    // The reference's first filter knows this path, its framework doesn't.
    naming(Method::GET, "/v1/ns/healthcheckers", Now(unrouted::not_found)),
    naming(Method::POST, "/v1/ns/raft/vote", Now(raft::stopped)),
    naming(Method::POST, "/v1/ns/raft/beat", Now(raft::stopped)),
    naming(Method::GET, "/v1/ns/raft/peer", Now(raft::stopped)),
    naming(Method::PUT, "/v1/ns/raft/datum/reload", Now(raft::stopped)),
    naming(Method::GET, "/v1/ns/raft/datum", Now(raft::stopped)),
    naming(Method::POST, "/v1/ns/raft/datum", Now(raft::stopped)),
    naming(Method::DELETE, "/v1/ns/raft/datum", Now(raft::stopped)),
    naming(Method::POST, "/v1/ns/raft/datum/commit", Now(raft::stopped)),
    naming(Method::DELETE, "/v1/ns/raft/datum/commit", Now(raft::stopped)),
    naming(Method::GET, "/v1/ns/raft/state", Now(raft::stopped)),
    naming(Method::GET, "/v1/ns/raft/leader", Now(raft::stopped)),
    naming(Method::GET, "/v1/ns/raft/listeners", Now(raft::stopped)),
    naming(Method::GET, "/v1/ns/operator/switches", Now(operator::switches)),
    naming(Method::PUT, "/v1/ns/operator/switches", Waits(operator::set_switch)),
    naming(Method::GET, "/v1/ns/operator/metrics", Now(operator::metrics)),
    naming(Method::GET, "/v1/ns/operator/servers", Now(operator::servers)),
    naming(Method::GET, "/v1/ns/operator/distro/status", Now(operator::distro_status)),
    naming(Method::GET, "/v1/ns/operator/distro/server", Now(operator::distro_server)),
    naming(Method::GET, "/v1/ns/operator/cluster/state", Now(operator::cluster_state)),
    naming(Method::GET, "/v1/ns/operator/server/status", Now(operator::server_status)),
    naming(Method::GET, "/v1/ns/operator/push/state", Now(push_state::show)),
    naming(Method::PUT, "/v1/ns/operator/log", Now(operator::log)),
    of_peers(naming(Method::PUT, DATUM, Now(distro::put_datum))),
    of_peers(naming(Method::GET, DATUM, Now(distro::get_datum))),
    of_peers(naming(Method::GET, "/v1/ns/distro/datums", Now(distro::get_datums))),
    of_peers(naming(Method::PUT, "/v1/ns/distro/checksum", Now(distro::put_checksum))),
    context(Method::GET, "/v1/core/cluster/self", Now(core::own_member)),
    context(Method::GET, "/v1/core/cluster/nodes", Now(core::nodes)),
    context(Method::GET, "/v1/core/cluster/simple/nodes", Now(core::simple_nodes)),
    context(Method::GET, "/v1/core/cluster/health", Now(core::health)),
    of_peers(context(Method::POST, "/v1/core/cluster/report", Now(core::report))),
    of_peers(context(Method::POST, "/v1/core/cluster/server/leave", Waits(core::leave))),
    context(Method::POST, "/v1/core/cluster/switch/lookup", Waits(core::switch_lookup)),
    context(Method::GET, "/v1/core/ops/idInfo", Now(core::id_info)),
    context(Method::PUT, "/v1/core/ops/log", Now(core::log)),
    context(Method::POST, "/v1/core/ops/raft", Now(core::raft)),
    legacy(context(Method::GET, "/v1/console/namespaces", Now(console::namespaces))),
    legacy(context(Method::POST, "/v1/console/namespaces", Waits(console::create))),
    legacy(context(Method::PUT, "/v1/console/namespaces", Waits(console::edit))),
    legacy(context(Method::DELETE, "/v1/console/namespaces", Waits(console::remove))),
    legacy(context(Method::GET, "/v1/console/server/state", Now(console::server_state))),
    context(Method::GET, "/v1/console/health/liveness", Now(console::health)),
    context(Method::GET, "/v1/console/health/readiness", Now(console::health)),
    legacy(context(Method::POST, "/v1/auth/login", Now(auth::login))),
    legacy(context(Method::POST, "/v1/auth/users/login", Now(auth::login))),
    context(Method::GET, "/serverlist", Now(member::server_list)),
    legacy(context(Method::GET, "/", Now(web::welcome))),
    legacy(context(Method::GET, "/index.html", Now(web::page))),
    context(Method::GET, "/actuator", Now(web::actuator)),
    context(Method::GET, "/actuator/health", Now(web::actuator_health)),
    of_peers(outside(Method::PUT, "/nacre/peer/verify", Now(nacre::verify))),
    of_peers(outside(Method::PUT, "/nacre/peer/keys", Now(nacre::keys))),
    of_peers(outside(Method::PUT, "/nacre/peer/ask", Waits(nacre::ask))),
    outside(Method::PUT, "/nacre/drain", Now(drain::drain)),
    outside(Method::GET, "/nacre/proxy", Now(proxy::shown)),
    outside(Method::GET, "/livez", Now(observe::livez)),
    outside(Method::GET, "/readyz", Now(observe::readyz)),
    outside(Method::GET, "/metrics", Waits(observe::metrics)),
];

/// Only there where a setting asks for it: elsewhere its path is as unknown as any other.
static PROMETHEUS: Route = context(Method::GET, "/actuator/prometheus", Waits(observe::prometheus));

/// Below the context path: what stays with this node beside naming, also where it has a legacy cluster behind it.
const OWN: [&str; 4] = ["/v1/core", "/v1/console/health", "/actuator", "/serverlist"];

fn is_below(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The same endpoint under an older prefix.
const ALIASES: [(&str, &str); 2] = [("/v1/ns/operator/", "/v1/ns/ops/"), ("/v1/ns/instance", "/v1/ns/api")];

/// Rows for what is no endpoint.
mod special {
    use super::{Area, Handler::Now, Method, Route, heads::Fault, legacy, unrouted};

    /// The row that answers a head with this fault.
    pub fn of(fault: Fault) -> &'static Route {
        match fault {
            Fault::Malformed => &BAD_REQUEST,
            Fault::Expectation => &EXPECTATION,
            Fault::Trace => &TRACE,
            Fault::StrangeMethod => &STRANGE,
            Fault::RefusedPath => &MALICIOUS,
        }
    }

    /// The row of a path that has these, for any other method.
    pub fn of_other_methods(rows: &[&'static Route]) -> &'static Route {
        if rows.iter().any(|route| route.legacy) { &LEGACY_METHOD } else { &METHOD }
    }

    const fn row(area: Area, path: &'static str, dressed: bool, handler: super::Handler) -> Route {
        // The method is of no account here; GET leaves bodies unread.
        Route {
            method: Method::GET,
            path,
            area,
            dressed,
            of_peers: false,
            forwarded: false,
            legacy: false,
            handler,
        }
    }

    /// The labels of these rows and of [`super::PROMETHEUS`], each once.
    pub const LABELS: [&str; 6] =
        ["unknown", "wrong-method", "root", "refused-path", "bad-request", "/actuator/prometheus"];

    pub static NAMING: Route = row(Area::Naming, "unknown", false, Now(unrouted::no_such_api));
    pub static CONTEXT: Route = legacy(row(Area::Context, "unknown", true, Now(unrouted::not_found)));
    pub static OWN_CONTEXT: Route = row(Area::Context, "unknown", true, Now(unrouted::not_found));
    pub static OUTSIDE: Route = row(Area::Outside, "unknown", false, Now(unrouted::outside));
    pub static METHOD: Route = row(Area::Context, "wrong-method", true, Now(unrouted::wrong_method));
    /// A wrong method here may be a right one there.
    pub static LEGACY_METHOD: Route =
        legacy(row(Area::Context, "wrong-method", true, Now(unrouted::wrong_method)));
    pub static ROOT: Route = legacy(row(Area::Context, "root", true, Now(unrouted::root)));
    pub static MALICIOUS: Route = row(Area::Context, "refused-path", false, Now(unrouted::refused_path));
    pub static BAD_REQUEST: Route = row(Area::Outside, "bad-request", false, Now(unrouted::bad_request));
    pub static EXPECTATION: Route = row(Area::Outside, "bad-request", false, Now(unrouted::expectation));
    pub static TRACE: Route = row(Area::Outside, "wrong-method", false, Now(unrouted::trace));
    pub static STRANGE: Route = row(Area::Outside, "wrong-method", false, Now(unrouted::strange_method));

    #[cfg(test)]
    pub static ALL: [&Route; 12] = [
        &NAMING,
        &CONTEXT,
        &OWN_CONTEXT,
        &OUTSIDE,
        &METHOD,
        &LEGACY_METHOD,
        &ROOT,
        &MALICIOUS,
        &BAD_REQUEST,
        &EXPECTATION,
        &TRACE,
        &STRANGE,
    ];
}

/// The table with the context path in front, for looking up.
pub struct Table {
    context: Box<str>,
    rows: HashMap<Box<str>, Vec<&'static Route>>,
}

impl Table {
    /// The table under this context path (`/nacos`, or empty for none).
    #[must_use]
    pub fn new(context: &str) -> Self {
        let mut rows: HashMap<Box<str>, Vec<&'static Route>> = HashMap::new();
        for route in ROUTES {
            let prefix = if route.area == Area::Outside { "" } else { context };
            let mut add = |path: String| rows.entry(path.into()).or_default().push(route);
            add([prefix, route.path].concat());
            for (own, alias) in ALIASES {
                if let Some(rest) = route.path.strip_prefix(own) {
                    add([prefix, alias, rest].concat());
                }
            }
        }
        Self { context: context.into(), rows }
    }

    /// With `/actuator/prometheus` below the context path, if so.
    #[must_use]
    pub fn with_prometheus(mut self, exposed: bool) -> Self {
        if exposed {
            let path = [&*self.context, PROMETHEUS.path].concat();
            self.rows.entry(path.into()).or_default().push(&PROMETHEUS);
        }
        self
    }

    /// The row of a request.
    #[must_use]
    pub fn find<B>(&self, request: &Request<B>) -> Row {
        Row(self.find_route(request))
    }

    fn find_route<B>(&self, request: &Request<B>) -> &'static Route {
        if let Some(fault) = heads::fault_of_head(request) {
            return special::of(fault);
        }
        let path = request.uri().path();
        match self.rows.get(path) {
            Some(rows) => self.of_method(rows, request.method(), path),
            None => self.find_unusual(request.method(), path),
        }
    }

    fn of_method(&self, rows: &[&'static Route], method: &Method, path: &str) -> &'static Route {
        if let Some(route) = rows.iter().find(|route| route.method == *method) {
            return route;
        }
        match self.area(path) {
            Area::Naming => &special::NAMING,
            _ if *method == Method::HEAD => {
                let get = rows.iter().find(|route| route.method == Method::GET);
                get.copied().unwrap_or_else(|| special::of_other_methods(rows))
            }
            Area::Context if *method == Method::OPTIONS => self.unknown(path),
            Area::Context => special::of_other_methods(rows),
            Area::Outside => &special::OUTSIDE,
        }
    }

    /// Paths that aren't in the table as they stand.
    fn find_unusual(&self, method: &Method, path: &str) -> &'static Route {
        if let Some(fault) = heads::fault_of_path(path) {
            return special::of(fault);
        }
        let decoded: Cow<'_, str> = percent_encoding::percent_decode_str(path).decode_utf8_lossy();
        if *decoded == *self.context {
            return &special::ROOT;
        }
        let trimmed = decoded.strip_suffix('/').unwrap_or(&decoded);
        if let Some(rows) = self.rows.get(trimmed) {
            return self.of_method(rows, method, &decoded);
        }
        match self.area(&decoded) {
            Area::Naming => &special::NAMING,
            Area::Context => self.unknown(&decoded),
            Area::Outside => &special::OUTSIDE,
        }
    }

    /// The row of what is no endpoint below the context path: a legacy cluster may know it, but for what is this node's.
    fn unknown(&self, path: &str) -> &'static Route {
        let rest = path.strip_prefix(&*self.context).unwrap_or(path);
        if OWN.iter().any(|own| is_below(rest, own)) { &special::OWN_CONTEXT } else { &special::CONTEXT }
    }

    fn area(&self, path: &str) -> Area {
        match path.strip_prefix(&*self.context) {
            Some(rest) if is_below(rest, "/v1/ns") => Area::Naming,
            Some(rest) if rest.is_empty() || rest.starts_with('/') => Area::Context,
            _ => Area::Outside,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(method: &str, path: &str) -> &'static str {
        let request = Request::builder().method(method).uri(path).header("host", "a").body(()).unwrap();
        Table::new("/nacos").find(&request).path
    }

    #[test]
    fn a_route_is_found_by_method_and_path() {
        assert_eq!(label("GET", "/nacos/v1/ns/instance/list?serviceName=a"), "/v1/ns/instance/list");
        assert_eq!(label("GET", "/nacos/v1/ns/instance/list/"), "/v1/ns/instance/list");
        assert_eq!(label("GET", "/nacos/v1/ns/instance/%6cist"), "/v1/ns/instance/list");
        assert_eq!(label("GET", "/nacos/v1/ns/api/list"), "/v1/ns/instance/list");
        assert_eq!(label("POST", "/nacos/v1/ns/instance/list"), "unknown");
        assert_eq!(label("HEAD", "/nacos/v1/ns/instance/list"), "unknown");
        assert_eq!(label("GET", "/nacos/v1/ns/Instance/list"), "unknown");
    }

    #[test]
    fn odd_paths_are_refused() {
        for path in ["/nacos//v1/ns", "/nacos/v1/ns/instance;x=1/list", "/nacos/./v1", "/nacos/v1/../v1"] {
            assert_eq!(label("GET", path), "refused-path", "{path}");
        }
        assert_eq!(label("GET", "/nacos/v1/ns/service%2Flist"), "bad-request");
    }

    #[test]
    fn the_writes_of_instances_are_the_owners_and_nothing_else() {
        let rows: Vec<String> = ROUTES
            .iter()
            .filter(|route| route.forwarded)
            .map(|route| format!("{} {}", route.method, &route.path["/v1/ns".len()..]))
            .collect();
        assert_eq!(
            rows,
            [
                "POST /instance",
                "DELETE /instance",
                "PUT /instance",
                "PATCH /instance",
                "PUT /instance/beat",
                "PUT /instance/metadata/batch",
                "DELETE /instance/metadata/batch",
                "GET /api/clientBeat",
                "PUT /health",
                "PUT /health/instance",
            ]
        );
        assert!(special::ALL.iter().all(|route| !route.forwarded));
    }

    #[test]
    fn each_row_has_a_number_and_a_label_of_its_own() {
        let all: Vec<Label> = labels().collect();
        for (number, label) in all.iter().enumerate() {
            assert_eq!(all.iter().position(|other| other == label), Some(number), "{label:?}");
        }
        for route in ROUTES.iter().chain(special::ALL).chain([&PROMETHEUS]) {
            let label = all.get(Row(route).number()).copied();
            assert_eq!(label.map(|label| label.endpoint), Some(route.path));
        }
    }

    #[test]
    fn the_old_metrics_are_served_where_a_setting_asks_for_them() {
        let request = || Request::get("/nacos/actuator/prometheus").header("host", "a").body(()).unwrap();
        assert_eq!(Table::new("/nacos").find(&request()).path, "unknown");
        let table = Table::new("/nacos").with_prometheus(true);
        assert_eq!(table.find(&request()).path, "/actuator/prometheus");
    }

    #[test]
    fn ours_lie_outside_the_context_path() {
        for path in ["/livez", "/readyz", "/metrics"] {
            assert_eq!(label("GET", path), path);
            assert_eq!(label("HEAD", path), path);
            assert_eq!(label("POST", path), "unknown");
            assert_eq!(label("GET", &format!("/nacos{path}")), "unknown");
        }
    }

    #[test]
    fn these_rows_are_for_members_alone() {
        let rows: Vec<String> = ROUTES
            .iter()
            .filter(|route| route.of_peers)
            .map(|route| format!("{} {}", route.method, route.path))
            .collect();
        assert_eq!(
            rows,
            [
                "POST /v1/ns/service/status",
                "PUT /v1/ns/distro/datum",
                "GET /v1/ns/distro/datum",
                "GET /v1/ns/distro/datums",
                "PUT /v1/ns/distro/checksum",
                "POST /v1/core/cluster/report",
                "POST /v1/core/cluster/server/leave",
                "PUT /nacre/peer/verify",
                "PUT /nacre/peer/keys",
                "PUT /nacre/peer/ask",
            ]
        );
    }

    #[test]
    fn what_a_legacy_cluster_has_is_everything_but_naming_core_and_health() {
        let is_legacy = |method: &str, path: &str| {
            let uri = format!("/nacos{path}");
            let request = Request::builder().method(method).uri(uri).header("host", "a").body(()).unwrap();
            Table::new("/nacos").find(&request).legacy
        };
        for (method, path) in [
            ("GET", "/v1/cs/configs?dataId=a"),
            ("POST", "/v1/cs/configs/listener"),
            ("POST", "/v1/auth/login"),
            ("GET", "/v1/auth/login"),
            ("HEAD", "/v1/auth/login"),
            ("POST", "/v1/auth/users/login"),
            ("DELETE", "/v1/auth/roles"),
            ("GET", "/v1/console/namespaces"),
            ("PATCH", "/v1/console/namespaces"),
            ("GET", "/v1/console/server/state"),
            ("OPTIONS", "/v1/cs/configs"),
            ("GET", ""),
            ("GET", "/"),
            ("HEAD", "/index.html"),
            ("GET", "/console-ui/public/css/console1412.css"),
            ("GET", "/v2/ns/instance/list"),
            ("GET", "/v3/console/core/namespace/list"),
        ] {
            assert!(is_legacy(method, path), "{method} {path}");
        }
        for (method, path) in [
            ("GET", "/v1/ns/instance/list"),
            ("POST", "/v1/ns/instance/list"),
            ("GET", "/v1/ns/unknown"),
            ("GET", "/v1/core/cluster/nodes"),
            ("POST", "/v1/core/cluster/nodes"),
            ("OPTIONS", "/v1/core/cluster/nodes"),
            ("GET", "/v1/core/unknown"),
            ("GET", "/v1/console/health"),
            ("GET", "/actuator/prometheus"),
            ("GET", "/v1/console/health/readiness"),
            ("GET", "/actuator/health"),
            ("GET", "/serverlist"),
            ("TRACE", "/v1/cs/configs"),
            ("GET", "/v1/cs//configs"),
        ] {
            assert!(!is_legacy(method, path), "{method} {path}");
        }
        let request = Request::get("/nacossy/v1/cs/configs").header("host", "a").body(()).unwrap();
        assert!(!Table::new("/nacos").find(&request).legacy);
    }

    #[test]
    fn no_row_stands_twice() {
        let table = Table::new("/nacos");
        for (path, rows) in &table.rows {
            for row in rows {
                assert_eq!(rows.iter().filter(|other| other.method == row.method).count(), 1, "{path}");
            }
        }
    }
}
