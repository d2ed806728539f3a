//! Instances that live without beats, and what nodes list of them.

use std::collections::BTreeSet;

use super::cluster::{Cluster, Place};

/// Lives long without beats.
const LONG: &str = "metadata=%7B%22preserved.heart.beat.timeout%22:%22600000%22,%22preserved.ip.delete.timeout%22:%22600000%22%7D";

/// Path and query that register it.
pub fn instance(service: &str, ip: &str) -> String {
    format!("/v1/ns/instance?serviceName={service}&ip={ip}&port=80&{LONG}")
}

/// How many hosts a node lists; none where it gives no list.
pub async fn listed(cluster: &Cluster, place: Place, service: &str) -> Option<usize> {
    let answer =
        cluster.ask(place, "GET", &format!("/v1/ns/instance/list?serviceName={service}")).await.ok()?;
    (answer.status == 200).then(|| answer.json()["hosts"].as_array().map_or(0, Vec::len))
}

/// Whether every node that runs lists this many of each service.
pub async fn all_list(cluster: &Cluster, services: &[String], count: usize) -> bool {
    for place in cluster.running() {
        for service in services {
            if listed(cluster, place, service).await != Some(count) {
                return false;
            }
        }
    }
    true
}

/// Names enough that each of a few nodes owns some.
pub fn services(prefix: &str) -> Vec<String> {
    (0..12).map(|number| format!("{prefix}-{number}")).collect()
}

/// Each host of a list with its health; none where the node gives no list.
pub async fn hosts(cluster: &Cluster, place: Place, service: &str) -> Option<BTreeSet<(String, bool)>> {
    let path = format!("/v1/ns/instance/list?serviceName={service}");
    let answer = cluster.ask(place, "GET", &path).await.ok().filter(|answer| answer.status == 200)?.json();
    let hosts = answer["hosts"].as_array()?.iter();
    let shown = hosts.map(|host| (format!("{}:{}", host["ip"], host["port"]), host["healthy"] == true));
    Some(shown.collect())
}
