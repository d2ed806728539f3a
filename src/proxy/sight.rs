//! What people and their tools see of the proxy: `GET /nacre/proxy` and its part of `GET /metrics`.
//!
//! | name | type | labels | what it says |
//! | --- | --- | --- | --- |
//! | `nacre_proxy_requests_total` | counter | `rule`, `status` | ended answers, by class of status (`2xx`) |
//! | `nacre_proxy_seconds_total` | counter | `rule` | from the read head to the end of the answer, summed |
//! | `nacre_proxy_retries_total` | counter | `rule` | attempts after the first |
//! | `nacre_proxy_refusals_total` | counter | `kind` | answers of the proxy's own |
//! | `nacre_proxy_connections` | gauge | | open connections of clients |
//! | `nacre_proxy_tunnels` | gauge | | upgraded connections |
//! | `nacre_proxy_instance_requests_total` | counter | `instance` | requests that were sent to it |
//! | `nacre_proxy_instance_failures_total` | counter | `instance` | of these, that failed, or were answered 502, 503 or 504 |
//! | `nacre_proxy_instance_in_flight` | gauge | `instance` | requests under way |
//! | `nacre_proxy_instance_ejected` | gauge | `instance` | 1 while it gets nothing for its failures |
//!
//! There are as many rules as the file has, at most 1,000. Instances are those of the rules; the first 1,000 by address have
//! lines of their own, the rest share those of `others`.

use std::{
    fmt,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, NoLabelSet},
    metrics::MetricType,
};
use serde::Serialize;

use super::{
    Proxy, REFUSALS,
    routes::{BY_CONVENTION, Route, RuleCounts},
    rule::Balance,
};
use crate::base::clock::Millis;

/// Instances that have lines of their own, in all metrics; and in the document, of each destination.
const MOST_INSTANCES: usize = 1_000;
/// Instances in the document, those of one address in several destinations counted in each.
const MOST_SHOWN: usize = 10_000;

/// The document of `GET /nacre/proxy`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    /// Why the file of rules, as it is now, doesn't count.
    trouble: Option<String>,
    by_convention: bool,
    connections: u64,
    tunnels: usize,
    rules: Vec<ShownRule>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownRule {
    name: String,
    balance: &'static str,
    protocol: &'static str,
    destinations: Vec<ShownDestination>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownDestination {
    namespace: String,
    service: String,
    weight: f64,
    in_flight: u32,
    instances: Vec<ShownInstance>,
    /// Instances that aren't shown.
    left_out: usize,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownInstance {
    address: String,
    weight: f64,
    /// False for one that gets nothing new: disabled, unhealthy or without weight.
    usable: bool,
    in_flight: u32,
    requests: u64,
    failures: u64,
    /// How often it was ejected.
    ejections: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ejected: Option<ShownEjection>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownEjection {
    for_ms: u64,
    reason: &'static str,
}

impl Proxy {
    /// What there is to see.
    #[must_use]
    pub fn shown(&self) -> Shown {
        let now = self.clock.now();
        let routes = self.routes.load();
        let mut room = MOST_SHOWN;
        Shown {
            trouble: self.trouble.lock().clone(),
            by_convention: routes.by_convention().is_some(),
            connections: self.counts.open.load(Relaxed),
            tunnels: self.tunnels.len(),
            rules: routes.all().iter().map(|route| self.shown_rule(route, now, &mut room)).collect(),
        }
    }

    fn shown_rule(&self, route: &Route, now: Millis, room: &mut usize) -> ShownRule {
        let policy = &route.rule.policy;
        ShownRule {
            name: route.rule.name.to_string(),
            balance: match policy.balance {
                Balance::RoundRobin => "round-robin",
                Balance::LeastRequest => "least-request",
                Balance::Hash(_) => "hash",
            },
            protocol: policy.protocol.word(),
            destinations: route
                .parts
                .iter()
                .map(|(weight, backends)| {
                    let selection = backends.selection(&self.table, now);
                    let service = &backends.destination.service;
                    let shown = selection.members.len().min(MOST_INSTANCES).min(*room);
                    *room -= shown;
                    let instances = selection.members.iter().take(shown).map(|member| {
                        let (upstream, counts) = (&member.upstream, &member.upstream.counts);
                        let ejected = upstream.ejection(now);
                        ShownInstance {
                            address: upstream.to_string(),
                            weight: member.weight,
                            usable: member.is_usable,
                            in_flight: upstream.in_flight(),
                            requests: counts.requests.load(Relaxed),
                            failures: counts.failures.load(Relaxed),
                            ejections: counts.ejections.load(Relaxed),
                            ejected: ejected.map(|(for_ms, reason)| ShownEjection { for_ms, reason }),
                        }
                    });
                    ShownDestination {
                        namespace: service.namespace.to_string(),
                        service: service.name.to_string(),
                        weight: *weight,
                        in_flight: backends.load.in_flight(),
                        left_out: selection.members.len() - shown,
                        instances: instances.collect(),
                    }
                })
                .collect(),
        }
    }

    /// Its part of the metrics.
    #[must_use]
    pub fn collector(self: &Arc<Self>) -> Box<dyn Collector> {
        Box::new(Page(Arc::clone(self)))
    }
}

#[derive(Debug)]
struct Page(Arc<Proxy>);

const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// What an instance's lines say: requests, failures, requests under way, whether it is ejected.
type InstanceRow = (String, [u64; 4]);

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let proxy = &self.0;
        let routes = proxy.routes.load();
        let rules: Vec<(&str, &RuleCounts)> = routes
            .all()
            .iter()
            .map(|route| (&*route.rule.name, &*route.counts))
            .chain(routes.by_convention().map(|counts| (BY_CONVENTION, counts)))
            .collect();
        encode_rules(&rules, &mut encoder)?;
        let name = "nacre_proxy_refusals";
        let mut family =
            encoder.encode_descriptor(name, "Answers of the proxy's own", None, MetricType::Counter)?;
        for (kind, count) in REFUSALS.iter().zip(&proxy.counts.refused) {
            family
                .encode_family(&[("kind", *kind)])?
                .encode_counter::<NoLabelSet, _, u64>(&count.load(Relaxed), None)?;
        }
        let open = proxy.counts.open.load(Relaxed);
        encoder
            .encode_descriptor(
                "nacre_proxy_connections",
                "Open connections of clients",
                None,
                MetricType::Gauge,
            )?
            .encode_gauge(&open)?;
        let tunnels = proxy.tunnels.len() as u64;
        encoder
            .encode_descriptor("nacre_proxy_tunnels", "Upgraded connections", None, MetricType::Gauge)?
            .encode_gauge(&tunnels)?;
        encode_instances(&self.instances(), &mut encoder)
    }
}

impl Page {
    fn instances(&self) -> Vec<InstanceRow> {
        let (proxy, now) = (&self.0, self.0.clock.now());
        let upstreams = proxy.table.upstreams.all();
        let row = |upstream: &super::upstream::Upstream| {
            [
                upstream.counts.requests.load(Relaxed),
                upstream.counts.failures.load(Relaxed),
                u64::from(upstream.in_flight()),
                u64::from(upstream.is_ejected(now)),
            ]
        };
        let (own, rest) = upstreams.split_at(upstreams.len().min(MOST_INSTANCES));
        let mut rows: Vec<InstanceRow> =
            own.iter().map(|upstream| (upstream.to_string(), row(upstream))).collect();
        if !rest.is_empty() {
            let mut others = [0; 4];
            for upstream in rest {
                others.iter_mut().zip(row(upstream)).for_each(|(sum, value)| *sum += value);
            }
            rows.push(("others".to_owned(), others));
        }
        rows
    }
}

fn encode_rules(rules: &[(&str, &RuleCounts)], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "Answers by class of status";
    let mut family = encoder.encode_descriptor("nacre_proxy_requests", help, None, MetricType::Counter)?;
    for (rule, counts) in rules {
        for (class, count) in CLASSES.iter().zip(&counts.answers) {
            let count = count.load(Relaxed);
            if count > 0 {
                let labels = [("rule", *rule), ("status", *class)];
                family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
            }
        }
    }
    let help = "From the read head to the end of the answer, summed";
    let mut family = encoder.encode_descriptor("nacre_proxy_seconds", help, None, MetricType::Counter)?;
    for (rule, counts) in rules {
        let took = std::time::Duration::from_micros(counts.took_us.load(Relaxed)).as_secs_f64();
        family.encode_family(&[("rule", *rule)])?.encode_counter::<NoLabelSet, _, f64>(&took, None)?;
    }
    let help = "Attempts after the first";
    let mut family = encoder.encode_descriptor("nacre_proxy_retries", help, None, MetricType::Counter)?;
    for (rule, counts) in rules {
        let retries = counts.retries.load(Relaxed);
        family.encode_family(&[("rule", *rule)])?.encode_counter::<NoLabelSet, _, u64>(&retries, None)?;
    }
    Ok(())
}

fn encode_instances(rows: &[InstanceRow], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let families = [
        ("nacre_proxy_instance_requests", "Requests that were sent to it", MetricType::Counter),
        ("nacre_proxy_instance_failures", "Requests that failed there", MetricType::Counter),
        ("nacre_proxy_instance_in_flight", "Requests under way", MetricType::Gauge),
        ("nacre_proxy_instance_ejected", "1 while it gets nothing for its failures", MetricType::Gauge),
    ];
    for (at, (name, help, kind)) in families.into_iter().enumerate() {
        let is_counter = matches!(kind, MetricType::Counter);
        let mut family = encoder.encode_descriptor(name, help, None, kind)?;
        for (instance, values) in rows {
            let labels = [("instance", instance.as_str())];
            let mut line = family.encode_family(&labels)?;
            if is_counter {
                line.encode_counter::<NoLabelSet, _, u64>(&values[at], None)?;
            } else {
                line.encode_gauge(&values[at])?;
            }
        }
    }
    Ok(())
}
