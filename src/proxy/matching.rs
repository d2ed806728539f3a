//! Finds the rule of a request by its head.
//!
//! Pure. Rules count in the order of their file, the first whose conditions all hold is taken; an index by host keeps the
//! rules of other hosts out of the way.

use std::{collections::HashMap, sync::Arc};

use http::{HeaderMap, Method};

use super::{
    path,
    rule::{Condition, HeaderCondition, HostPattern, PathPattern, Rule},
};

/// What a rule is found by.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Without port, in any case.
    pub host: &'a str,
    /// In the form that [`path::normalized`] gives.
    pub path: &'a str,
    /// Of the request.
    pub method: &'a Method,
    /// Of the request.
    pub headers: &'a HeaderMap,
}

/// Rules and where to look first.
#[derive(Debug, Default)]
pub struct Matcher {
    /// Numbers of rules for each host that a rule names, rules for others that fit it among them.
    by_host: HashMap<Box<str>, Vec<usize>>,
    /// Those of rules that are for hosts which nobody names.
    others: Vec<usize>,
}

impl Matcher {
    /// An index of these rules.
    #[must_use]
    pub fn new(rules: &[Arc<Rule>]) -> Self {
        let mut by_host: HashMap<Box<str>, Vec<usize>> = HashMap::new();
        let named = rules.iter().flat_map(|rule| &rule.condition.hosts);
        for host in named {
            if let HostPattern::Exact(host) = host {
                by_host.entry(host.clone()).or_default();
            }
        }
        for (host, fitting) in &mut by_host {
            let fits = |rule: &Arc<Rule>| fits_host(&rule.condition, host);
            fitting.extend(rules.iter().enumerate().filter(|(_, rule)| fits(rule)).map(|(at, _)| at));
        }
        let is_open = |rule: &Arc<Rule>| {
            let hosts = &rule.condition.hosts;
            hosts.is_empty() || hosts.iter().any(|host| matches!(host, HostPattern::Below(_)))
        };
        let others = rules.iter().enumerate().filter(|(_, rule)| is_open(rule)).map(|(at, _)| at).collect();
        Self { by_host, others }
    }

    /// The number of the first of `rules`, of which this was made, that the request is for.
    #[must_use]
    pub fn find(&self, rules: &[Arc<Rule>], asked: Asked<'_>) -> Option<usize> {
        let lower;
        let host = if asked.host.bytes().any(|byte| byte.is_ascii_uppercase()) {
            lower = asked.host.to_ascii_lowercase();
            &lower
        } else {
            asked.host
        };
        // The root's dot changes nothing.
        let host = host.strip_suffix('.').unwrap_or(host);
        let asked = Asked { host, ..asked };
        let candidates = self.by_host.get(host).unwrap_or(&self.others);
        candidates.iter().copied().find(|at| holds(&rules[*at].condition, asked))
    }
}

fn holds(condition: &Condition, asked: Asked<'_>) -> bool {
    let Condition { path, methods, headers, .. } = condition;
    let fits_path = match path {
        PathPattern::Exact(exact) => **exact == *asked.path,
        PathPattern::Prefix(prefix) => path::has_prefix(asked.path, prefix),
    };
    fits_path
        && fits_host(condition, asked.host)
        && (methods.is_empty() || methods.contains(asked.method))
        && headers.iter().all(|(name, wanted)| match wanted {
            HeaderCondition::Present => asked.headers.contains_key(name),
            HeaderCondition::Value(value) => asked.headers.get_all(name).iter().any(|has| has == value),
        })
}

fn fits_host(condition: &Condition, host: &str) -> bool {
    let fits = |pattern: &HostPattern| match pattern {
        HostPattern::Exact(exact) => **exact == *host,
        HostPattern::Below(suffix) => host.len() > suffix.len() && host.ends_with(&**suffix),
    };
    condition.hosts.is_empty() || condition.hosts.iter().any(fits)
}

/// Whether every request that fits `later` fits `earlier`, as far as that can be told condition by condition.
#[must_use]
pub fn covers(earlier: &Condition, later: &Condition) -> bool {
    let covers_host = |host: &HostPattern| match host {
        HostPattern::Exact(name) => fits_host(earlier, name),
        HostPattern::Below(suffix) => earlier
            .hosts
            .iter()
            .any(|wider| matches!(wider, HostPattern::Below(wider) if suffix.ends_with(&**wider))),
    };
    let hosts = earlier.hosts.is_empty() || !later.hosts.is_empty() && later.hosts.iter().all(covers_host);
    let paths = match (&earlier.path, &later.path) {
        (PathPattern::Prefix(wider), PathPattern::Prefix(path) | PathPattern::Exact(path)) => {
            path::has_prefix(path, wider)
        }
        (PathPattern::Exact(one), PathPattern::Exact(other)) => one == other,
        (PathPattern::Exact(_), PathPattern::Prefix(_)) => false,
    };
    let methods = earlier.methods.is_empty()
        || !later.methods.is_empty() && later.methods.iter().all(|method| earlier.methods.contains(method));
    let is_asked = |(name, wanted): &(http::HeaderName, HeaderCondition)| {
        later
            .headers
            .iter()
            .any(|(has, value)| has == name && (*wanted == HeaderCondition::Present || value == wanted))
    };
    hosts && paths && methods && earlier.headers.iter().all(is_asked)
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use proptest::prelude::*;

    use super::*;
    use crate::proxy::rules_file;

    const RULES: &str = r#"
        [[rule]]
        name = "canary"
        host = ["shop.example.org", "*.shop.example.org"]
        path = "/orders"
        headers = { X-Canary = "yes" }
        service = "orders-canary"
        [[rule]]
        name = "write"
        host = "shop.example.org"
        path = "/orders"
        methods = ["POST", "PUT"]
        service = "orders-write"
        [[rule]]
        name = "orders"
        host = "shop.example.org"
        path = "/orders/"
        service = "orders"
        [[rule]]
        name = "ping"
        path = "/ping"
        exact = true
        service = "ping"
        [[rule]]
        name = "tenant"
        headers = { x-tenant = "*" }
        service = "tenant"
        [[rule]]
        name = "below"
        host = "*.example.org"
        service = "below"
    "#;

    /// The name of the rule for `METHOD host path header: value`.
    fn found(line: &str) -> String {
        let rules = rules_file::parse(RULES).unwrap().rules;
        let matcher = Matcher::new(&rules);
        let mut words = line.split(' ');
        let mut next = || words.next().unwrap_or_default();
        let (method, host, path) = (next().parse().unwrap(), next(), next());
        let mut headers = HeaderMap::new();
        let name = next();
        if !name.is_empty() {
            headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(next()).unwrap());
        }
        let asked = Asked { host, path, method: &method, headers: &headers };
        matcher.find(&rules, asked).map_or("none".into(), |at| rules[at].name.to_string())
    }

    #[test]
    fn the_first_rule_whose_conditions_all_hold_is_taken() {
        for (request, rule) in [
            ("GET shop.example.org /orders/1 x-canary yes", "canary"),
            ("GET eu.shop.example.org /orders x-canary yes", "canary"),
            ("GET shop.example.org /orders/1 x-canary YES", "orders"),
            ("POST shop.example.org /orders", "write"),
            ("POST SHOP.Example.ORG. /orders", "write"),
            ("GET shop.example.org /orders", "orders"),
            ("GET shop.example.org /ordersx", "below"),
            ("GET shop.example.org /ping", "ping"),
            ("GET other.test /ping", "ping"),
            ("GET other.test /ping/", "none"),
            ("GET other.test /a x-tenant t1", "tenant"),
            ("GET example.org /a", "none"),
            ("GET a.example.org /a", "below"),
            ("GET aexample.org /a", "none"),
        ] {
            assert_eq!(found(request), rule, "{request}");
        }
    }

    fn host() -> impl Strategy<Value = Vec<HostPattern>> {
        let one = prop_oneof![
            "[ab]\\.x".prop_map(|name| HostPattern::Exact(name.into())),
            prop_oneof![Just(".x"), Just(".a.x")].prop_map(|suffix| HostPattern::Below(suffix.into())),
        ];
        prop::collection::vec(one, 0..3)
    }

    prop_compose! {
        fn condition()(
            hosts in host(),
            path in prop_oneof![
                "(/[ab]){0,2}".prop_map(|path| PathPattern::Prefix(path.into())),
                "(/[ab]){1,2}".prop_map(|path| PathPattern::Exact(path.into())),
            ],
            methods in prop::collection::vec(prop_oneof![Just(Method::GET), Just(Method::PUT)], 0..2),
            header in prop::option::of(prop_oneof![
                Just(HeaderCondition::Present),
                Just(HeaderCondition::Value(HeaderValue::from_static("1"))),
            ]),
        ) -> Condition {
            let headers = header.into_iter().map(|wanted| (HeaderName::from_static("x"), wanted)).collect();
            Condition { hosts, path, methods, headers }
        }
    }

    proptest! {
        /// Both the index by host and the search for rules that get nothing leave the answer as it is.
        #[test]
        fn the_index_and_covered_rules_make_no_difference(
            conditions in prop::collection::vec(condition(), 1..6),
            host in "[ab]\\.([ab]\\.)?x",
            path in "(/[ab]){1,3}",
            method in prop_oneof![Just(Method::GET), Just(Method::PUT), Just(Method::POST)],
            header in prop::option::of("[01]"),
        ) {
            let template = rules_file::parse("[[rule]]\nname = \"a\"\nservice = \"a\"").unwrap().rules.remove(0);
            let rules: Vec<Arc<Rule>> = conditions
                .into_iter()
                .map(|condition| Arc::new(Rule { condition, ..(*template).clone() }))
                .collect();
            let mut headers = HeaderMap::new();
            if let Some(value) = header {
                headers.insert("x", HeaderValue::from_str(&value).unwrap());
            }
            let asked = Asked { host: &host, path: &path, method: &method, headers: &headers };
            let found = Matcher::new(&rules).find(&rules, asked);
            prop_assert_eq!(found, rules.iter().position(|rule| holds(&rule.condition, asked)));
            if let Some(found) = found {
                let hidden = rules[..found].iter().any(|earlier| covers(&earlier.condition, &rules[found].condition));
                prop_assert!(!hidden, "a covered rule was taken");
            }
        }
    }
}
