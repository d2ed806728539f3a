//! Rules at work: what a request's head leads to.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use parking_lot::Mutex;

use super::{
    matching::{Asked, Matcher},
    path, pick,
    rule::{Balance, Condition, Destination, PathPattern, Policy, PrefixChange, Rule, Rules, Share},
    table::{Backends, Selection, Table},
    wheel::Wheel,
};
use crate::{
    base::{clock::Millis, hash},
    model::{ServiceKey, name, registry::Place},
};

/// Services that are called by convention, at most; at it, all are forgotten and found again.
const MOST_BY_CONVENTION: usize = 10_000;
/// The name of all of them in log and metrics; no rule of a file can have it.
pub const BY_CONVENTION: &str = "(by-convention)";

/// The rules of a file, ready for requests.
#[derive(Debug)]
pub struct Routes {
    rules: Vec<Arc<Rule>>,
    matcher: Matcher,
    routes: Vec<Arc<Route>>,
    convention: Option<Convention>,
}

#[derive(Debug)]
struct Convention {
    policy: Policy,
    counts: Arc<RuleCounts>,
    routes: Mutex<HashMap<Box<str>, Arc<Route>>>,
}

/// A rule, ready for requests.
#[derive(Debug)]
pub struct Route {
    /// What it says.
    pub rule: Arc<Rule>,
    /// Its destinations with their weights.
    pub parts: Vec<(f64, Backends)>,
    hashes: Vec<u64>,
    turns: Mutex<Wheel>,
    /// What became of its requests.
    pub counts: Arc<RuleCounts>,
}

/// What became of a rule's requests, since the process began.
#[derive(Debug, Default)]
pub struct RuleCounts {
    /// Answers by class of status, 1xx first.
    pub answers: [AtomicU64; 5],
    /// Attempts after the first.
    pub retries: AtomicU64,
    /// Microseconds from the head to the end of the answer, of all together.
    pub took_us: AtomicU64,
}

impl RuleCounts {
    /// An answer of this status has ended.
    pub fn answered(&self, status: u16, took: Duration) {
        let class = usize::from((status / 100).clamp(1, 5) - 1);
        self.answers[class].fetch_add(1, Relaxed);
        self.took_us.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }
}

impl Routes {
    /// The routes of these rules, which go on counting where those `before` were.
    #[must_use]
    pub fn new(rules: Rules, by_convention: bool, table: &Table, now: Millis, before: Option<&Self>) -> Self {
        let Rules { rules, defaults } = rules;
        let counts = |name: &str| {
            let known =
                before.and_then(|before| before.routes.iter().find(|route| *route.rule.name == *name));
            known.map(|route| Arc::clone(&route.counts)).unwrap_or_default()
        };
        let routes: Vec<_> = rules
            .iter()
            .map(|rule| Arc::new(Route::new(Arc::clone(rule), table, counts(&rule.name))))
            .collect();
        // While those before still hold what is known of the instances.
        for (_, backends) in routes.iter().flat_map(|route| &route.parts) {
            let _ = backends.selection(table, now);
        }
        let convention = by_convention.then(|| {
            let before = before.and_then(|before| before.convention.as_ref());
            Convention::new(defaults, before, table, now)
        });
        Self { matcher: Matcher::new(&rules), rules, routes, convention }
    }

    /// The route of a request.
    #[must_use]
    pub fn find(&self, table: &Table, asked: Asked<'_>) -> Option<Arc<Route>> {
        match self.matcher.find(&self.rules, asked) {
            Some(at) => Some(Arc::clone(&self.routes[at])),
            None => self.convention.as_ref()?.find(table, asked.path),
        }
    }

    /// All routes of the file, in its order.
    #[must_use]
    pub fn all(&self) -> &[Arc<Route>] {
        &self.routes
    }

    /// What became of requests by convention, where there is one.
    #[must_use]
    pub fn by_convention(&self) -> Option<&RuleCounts> {
        self.convention.as_ref().map(|convention| &*convention.counts)
    }
}

impl Convention {
    /// What is known of the instances that were called by convention `before` goes on being known.
    fn new(policy: Policy, before: Option<&Self>, table: &Table, now: Millis) -> Self {
        let Some(before) = before else {
            return Self { policy, counts: Arc::default(), routes: Mutex::default() };
        };
        let counts = Arc::clone(&before.counts);
        let known = before.routes.lock().clone();
        if policy == before.policy {
            return Self { policy, counts, routes: Mutex::new(known) };
        }
        let anew = |(segment, route): (Box<str>, Arc<Route>)| {
            let rule = Rule { policy: policy.clone(), ..(*route.rule).clone() };
            let route = Arc::new(Route::new(Arc::new(rule), table, Arc::clone(&counts)));
            for (_, backends) in &route.parts {
                let _ = backends.selection(table, now);
            }
            (segment, route)
        };
        let routes = Mutex::new(known.into_iter().map(anew).collect());
        Self { policy, counts, routes }
    }

    /// The route of `/SERVICE` and `/SERVICE/...`, where there is such a service.
    fn find(&self, table: &Table, path: &str) -> Option<Arc<Route>> {
        let segment = path.strip_prefix('/')?.split('/').next().filter(|segment| !segment.is_empty())?;
        if let Some(route) = self.routes.lock().get(segment) {
            return Some(Arc::clone(route));
        }
        let service = percent_encoding::percent_decode_str(segment).decode_utf8().ok()?;
        let grouped =
            if service.contains("@@") { service.into_owned() } else { format!("DEFAULT_GROUP@@{service}") };
        name::check_format(&grouped).ok()?;
        let _ = table.registry().get(Place { namespace: "public", name: &grouped })?;
        let destination = Destination {
            service: ServiceKey::new("public", &grouped),
            clusters: Vec::new(),
            metadata: None,
        };
        let condition =
            Condition { path: PathPattern::Prefix(format!("/{segment}").into()), ..Condition::default() };
        let rule = Rule {
            name: BY_CONVENTION.into(),
            condition,
            split: vec![Share { weight: 1.0, destination }],
            prefix: PrefixChange::Replace("".into()),
            policy: self.policy.clone(),
        };
        let route = Arc::new(Route::new(Arc::new(rule), table, Arc::clone(&self.counts)));
        let mut routes = self.routes.lock();
        if routes.len() >= MOST_BY_CONVENTION {
            routes.clear();
        }
        Some(Arc::clone(routes.entry(segment.into()).or_insert(route)))
    }
}

impl Route {
    fn new(rule: Arc<Rule>, table: &Table, counts: Arc<RuleCounts>) -> Self {
        let backends = |share: &Share| {
            let near = rule.policy.prefer_cluster.clone();
            (share.weight, Backends::new(table, share.destination.clone(), near))
        };
        let parts: Vec<_> = rule.split.iter().map(backends).collect();
        let hashes = (0..parts.len()).map(|at| hash::mix(at as u64 + 1)).collect();
        let turns = Wheel::new(parts.iter().map(|(weight, _)| *weight), |_| table.draw());
        Self { rule, parts, hashes, turns: Mutex::new(turns), counts }
    }

    /// The destination of a request, and its instances as they are now; one without any leaves its share to the others.
    ///
    /// With [`Balance::Hash`] the `key` stays with its destination.
    pub fn destination(&self, table: &Table, now: Millis, key: u64) -> (&Backends, Arc<Selection>) {
        if let [(_, only)] = &*self.parts {
            return (only, only.selection(table, now));
        }
        let selections: Vec<_> =
            self.parts.iter().map(|(_, backends)| backends.selection(table, now)).collect();
        let has_any = |at: usize| selections[at].has_any();
        let chosen = match self.rule.policy.balance {
            Balance::Hash(_) => pick::by_key(&self.hashes, key, |at| self.parts[at].0, has_any),
            _ => self.turns.lock().next(|at| self.parts[at].0, has_any),
        };
        let at = chosen.unwrap_or(0);
        (&self.parts[at].1, Arc::clone(&selections[at]))
    }

    /// The target that instances see in the place of this path, which is in compared form, and query.
    #[must_use]
    pub fn target(&self, path: &str, query: Option<&str>) -> Option<String> {
        let PrefixChange::Replace(new) = &self.rule.prefix else { return None };
        let prefix = match &self.rule.condition.path {
            PathPattern::Exact(path) | PathPattern::Prefix(path) => path,
        };
        Some(path::replaced(path, query, prefix, new))
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method};

    use super::*;
    use crate::{
        model::{InstanceKey, Registry, instance::Description},
        proxy::rules_file,
    };

    const NOW: Millis = Millis(1_000_000);

    fn table(instances: &[(&str, &str)]) -> Table {
        let registry = Arc::new(Registry::new(Arc::default(), Default::default()));
        for (service, ip) in instances {
            let place = Place { namespace: "public", name: service };
            registry.register(place, &Description::new(ip, 80, "DEFAULT"), NOW).unwrap();
        }
        Table::new(registry, 7)
    }

    fn routes(table: &Table, text: &str, before: Option<&Routes>) -> Routes {
        Routes::new(rules_file::parse(text).unwrap(), true, table, NOW, before)
    }

    fn found(routes: &Routes, table: &Table, path: &str) -> Option<Arc<Route>> {
        let headers = HeaderMap::new();
        routes.find(table, Asked { host: "a", path, method: &Method::GET, headers: &headers })
    }

    #[test]
    fn a_split_goes_by_weight_and_leaves_the_share_of_an_empty_part_to_others() {
        let table = table(&[("DEFAULT_GROUP@@a", "10.0.0.1"), ("DEFAULT_GROUP@@b", "10.0.0.2")]);
        let text = "[[rule]]\nname = \"r\"\nsplit = [{ weight = 9, service = \"a\" }, { weight = 1, service = \"b\" }]";
        let routes = routes(&table, text, None);
        let route = found(&routes, &table, "/").unwrap();
        let to_b = |turns: u32| {
            let is_b = |_: &u32| {
                &*route.destination(&table, NOW, 0).0.destination.service.name == "DEFAULT_GROUP@@b"
            };
            (0..turns).filter(is_b).count()
        };
        assert_eq!(to_b(1_000), 100);
        let place = Place { namespace: "public", name: "DEFAULT_GROUP@@a" };
        let key = InstanceKey { ip: "10.0.0.1", port: 80, cluster: "DEFAULT" };
        table.registry().deregister(place, key, NOW).unwrap();
        assert_eq!(to_b(10), 10);
    }

    #[test]
    fn a_key_stays_with_its_part() {
        let table = table(&[("DEFAULT_GROUP@@a", "10.0.0.1"), ("DEFAULT_GROUP@@b", "10.0.0.2")]);
        let text = "[[rule]]\nname = \"r\"\nbalance = \"hash\"\n\
                    split = [{ weight = 3, service = \"a\" }, { weight = 1, service = \"b\" }]";
        let routes = routes(&table, text, None);
        let route = found(&routes, &table, "/").unwrap();
        let part = |key| route.destination(&table, NOW, key).0.destination.service.name.clone();
        let of_a = (0..4_000).filter(|key| &*part(*key) == "DEFAULT_GROUP@@a").count();
        assert!(of_a.abs_diff(3_000) < 150, "{of_a}");
        assert!((0..100).all(|key| part(key) == part(key)));
    }

    #[test]
    fn by_convention_the_first_segment_is_a_service_that_is_there() {
        let table = table(&[("DEFAULT_GROUP@@orders", "10.0.0.1"), ("shop@@carts", "10.0.0.2")]);
        let routes = routes(&table, "[[rule]]\nname = \"r\"\npath = \"/orders/9\"\nservice = \"x\"", None);
        let name = |path| found(&routes, &table, path).map(|route| route.rule.name.to_string());
        assert_eq!(name("/orders/1").as_deref(), Some(BY_CONVENTION));
        assert_eq!(name("/orders/9").as_deref(), Some("r"));
        assert_eq!(name("/shop%40%40carts").as_deref(), Some(BY_CONVENTION));
        assert_eq!((name("/nobody/1"), name("/"), name("/carts")), (None, None, None));
        let route = found(&routes, &table, "/orders/1").unwrap();
        assert_eq!(route.target("/orders/1", Some("a=b")).as_deref(), Some("/1?a=b"));
    }

    #[test]
    fn other_rules_leave_what_is_known_of_instances_that_are_called_by_convention() {
        let table = table(&[("DEFAULT_GROUP@@a", "10.0.0.1")]);
        let first = routes(&table, "", None);
        let route = found(&first, &table, "/a").unwrap();
        let _ = route.destination(&table, NOW, 0);
        let upstream = Arc::downgrade(&table.upstreams.all()[0]);
        drop(route);
        let same = routes(&table, "[[rule]]\nname = \"r\"\npath = \"/p\"\nservice = \"b\"", Some(&first));
        drop(first);
        assert!(upstream.upgrade().is_some());
        let other = routes(&table, "[defaults]\nretries = 5", Some(&same));
        drop(same);
        let route = found(&other, &table, "/a").unwrap();
        assert_eq!(route.rule.policy.retries, 5);
        assert!(Arc::ptr_eq(&upstream.upgrade().unwrap(), &table.upstreams.all()[0]));
    }

    #[test]
    fn other_rules_leave_what_is_known_as_it_is() {
        let table = table(&[("DEFAULT_GROUP@@a", "10.0.0.1")]);
        let one = routes(&table, "[[rule]]\nname = \"r\"\nservice = \"a\"", None);
        one.all()[0].counts.answered(200, Duration::from_millis(2));
        let upstream = Arc::downgrade(&table.upstreams.all()[0]);
        let other = routes(&table, "[[rule]]\nname = \"r\"\npath = \"/p\"\nservice = \"a\"", Some(&one));
        drop(one);
        assert_eq!(other.all()[0].counts.answers[1].load(Relaxed), 1);
        assert!(Arc::ptr_eq(&upstream.upgrade().unwrap(), &table.upstreams.all()[0]));
    }
}
