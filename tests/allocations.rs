//! The hottest requests allocate next to nothing: neither parameters nor answers are copied around.
//!
//! Counted from the request as the connection hands it over to the answer as it takes it, on the thread that serves.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "support/in_process.rs"]
#[allow(dead_code, reason = "each test uses a part of it")]
mod in_process;

use std::convert::Infallible;

use allocation_counter::{AllocationInfo, measure};
use bytes::Bytes;
use http_body_util::Full;
use in_process::Node;
use nacre::api::routes::Row;
use nacre_middleware::{V1Response, collect::Routed};
use tower_service::Service;

const JAVA: &[(&str, &str)] =
    &[("user-agent", "Nacos-Java-Client:v1.4.8"), ("accept-encoding", "gzip,deflate,sdch")];
const SERVICE: &str = "serviceName=DEFAULT_GROUP%40%40shop&namespaceId=public";

/// Registers this many instances in one service.
fn fill<S>(node: &mut Node<S>, instances: usize)
where
    S: Service<Routed<Row, Full<Bytes>>, Response = V1Response, Error = Infallible>,
{
    let metadata = "%7B%22preserved.heart.beat.interval%22%3A%225000%22%2C%22zone%22%3A%22a%22%7D";
    for number in 0..instances {
        let ip = format!("ip=10.0.{}.{}", number / 250, number % 250);
        let target = format!("/v1/ns/instance?{SERVICE}&{ip}&port=8080&metadata={metadata}");
        let request = node.request("POST", &target, JAVA);
        assert_eq!(node.send_now(request).status(), 200);
    }
}

/// What serving this request for the second time allocates; its answer must contain `expected`.
fn counted(instances: usize, method: &str, target: &str, expected: &str) -> AllocationInfo {
    counted_by(in_process::start(), instances, method, target, expected)
}

/// The same of this node.
fn counted_by<S>(
    mut node: Node<S>,
    instances: usize,
    method: &str,
    target: &str,
    expected: &str,
) -> AllocationInfo
where
    S: Service<Routed<Row, Full<Bytes>>, Response = V1Response, Error = Infallible>,
{
    fill(&mut node, instances);
    let mut counts = AllocationInfo::default();
    // The first time fills what is kept, and leaves its headers' memory to the second.
    for _ in 0..2 {
        let mut request = Some(node.request(method, target, JAVA));
        let mut response = None;
        counts = measure(|| response = request.take().map(|request| node.send_now(request)));
        let (head, body) = response.unwrap().into_parts();
        assert_eq!(head.status, 200);
        let text = String::from_utf8_lossy(body.bytes()).into_owned();
        assert!(text.contains(expected), "{text}");
        node.spare = head.headers;
        node.spare.clear();
    }
    counts
}

#[test]
fn in_a_cluster_a_light_beat_of_an_own_service_allocates_no_more_than_on_a_node_alone() {
    let node = in_process::start_as_survivor();
    let target = format!("/v1/ns/instance/beat?{SERVICE}&clusterName=DEFAULT&ip=10.0.0.7&port=8080");
    let counts = counted_by(node, 10, "PUT", &target, "\"code\":10200");
    assert_eq!(counts.count_total, 1, "{counts:?}");
}

#[test]
fn a_light_beat_allocates_its_service_name_alone() {
    let target = format!("/v1/ns/instance/beat?{SERVICE}&clusterName=DEFAULT&ip=10.0.0.7&port=8080");
    let counts = counted(20, "PUT", &target, r#"{"clientBeatInterval":5000,"code":10200"#);
    assert_eq!(counts.count_total, 1, "{counts:?}");
}

#[test]
fn a_full_beat_allocates_its_service_name_and_its_decoded_text() {
    let beat = "%7B%22cluster%22%3A%22DEFAULT%22%2C%22ip%22%3A%2210.0.0.7%22%2C%22metadata%22%3A%7B%22a%22%3A%22b%22\
                %7D%2C%22port%22%3A8080%2C%22scheduled%22%3Afalse%2C%22serviceName%22%3A%22DEFAULT_GROUP%40%40shop\
                %22%2C%22weight%22%3A1.0%7D";
    let target = format!("/v1/ns/instance/beat?{SERVICE}&beat={beat}");
    let counts = counted(20, "PUT", &target, r#"{"clientBeatInterval":5000,"code":10200"#);
    assert_eq!(counts.count_total, 2, "{counts:?}");
}

#[test]
fn a_beat_costs_the_same_in_a_large_service() {
    let target = format!("/v1/ns/instance/beat?{SERVICE}&clusterName=DEFAULT&ip=10.0.3.7&port=8080");
    let counts = counted(5_000, "PUT", &target, "10200");
    assert_eq!(counts.count_total, 1, "{counts:?}");
}

#[test]
fn a_list_allocates_its_service_name_and_its_answer() {
    let target =
        format!("/v1/ns/instance/list?{SERVICE}&clusters=&udpPort=0&clientIP=127.0.0.1&healthyOnly=false");
    let counts = counted(10, "GET", &target, r#""ip":"10.0.0.7""#);
    assert_eq!(counts.count_total, 2, "{counts:?}");
}

#[test]
fn a_long_list_is_not_copied() {
    let target = format!("/v1/ns/instance/list?{SERVICE}");
    let counts = counted(2_000, "GET", &target, r#""ip":"10.0.3.7""#);
    assert_eq!(counts.count_total, 3, "{counts:?}");
    assert!(counts.bytes_total < 1_000, "{counts:?}");
}

#[test]
fn a_registration_allocates_no_more_in_a_large_service() {
    let target = format!("/v1/ns/instance?{SERVICE}&ip=10.0.0.7&port=8080&weight=1.0&ephemeral=true");
    let small = counted(10, "POST", &target, "ok");
    let large = counted(5_000, "POST", &target, "ok");
    // One more level of the tree of instances for each factor of some ten.
    assert!(small.count_total <= 12 && large.count_total <= small.count_total + 4, "{small:?} {large:?}");
}

#[test]
fn an_instance_takes_a_few_hundred_bytes() {
    let mut node = in_process::start();
    fill(&mut node, 10);
    let counts = measure(|| fill(&mut node, 5_000));
    let bytes = counts.bytes_current / 4_990;
    assert!(bytes < 450, "{bytes} bytes an instance");
}
