//! What is persistent is shown by the node that starts again as it was shown before: every byte, every order.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "support/in_process.rs"]
#[allow(dead_code, reason = "each test uses a part of it")]
mod in_process;

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::Full;
use in_process::{Node, start, start_in};
use nacre::api::routes::Row;
use nacre_middleware::{V1Response, collect::Routed};
use tower_service::Service;

/// Writes that leave rich data; each is answered `ok` or `true`. `Aa` and `BB` have one hash in Java, so that their
/// order is that of their arrival, also where a hash map orders them.
const WRITES: [(&str, &str); 34] = [
    ("POST", "/v1/ns/service?serviceName=made&protectThreshold=0.123456789&metadata=b%3D1,a%3D2"),
    ("POST", "/v1/ns/instance?serviceName=made&ip=10.0.0.9&port=80&ephemeral=false&clusterName=z&weight=0.1"),
    (
        "POST",
        "/v1/ns/instance?serviceName=made&ip=10.0.0.8&port=80&ephemeral=false&clusterName=BB&weight=3.3333333333333335",
    ),
    (
        "POST",
        "/v1/ns/instance?serviceName=made&ip=10.0.0.1&port=80&ephemeral=false&clusterName=Aa&weight=6074.123456789013",
    ),
    ("POST", "/v1/ns/instance?serviceName=made&ip=10.0.0.2&port=80&ephemeral=false&clusterName=gone"),
    ("DELETE", "/v1/ns/instance?serviceName=made&ip=10.0.0.2&port=80&ephemeral=false&clusterName=gone"),
    (
        "PUT",
        "/v1/ns/cluster?serviceName=made&clusterName=b&checkPort=81&useInstancePort4Check=false&healthChecker=%7B%22type%22:%22NONE%22%7D&metadata=x%3Dy",
    ),
    (
        "POST",
        "/v1/ns/instance?serviceName=made&ip=10.0.0.3&port=80&ephemeral=false&clusterName=b&metadata=k%3Dv&enabled=false&app=shop",
    ),
    ("PUT", "/v1/ns/health?serviceName=made&ip=10.0.0.3&port=80&clusterName=b&healthy=false"),
    // An ephemeral instance makes a cluster before a persistent one does; it leaves, its cluster stays.
    ("POST", "/v1/ns/instance?serviceName=made&ip=10.0.0.4&port=80&clusterName=y"),
    ("POST", "/v1/ns/instance?serviceName=made&ip=10.0.0.5&port=80&ephemeral=false&clusterName=c"),
    ("DELETE", "/v1/ns/instance?serviceName=made&ip=10.0.0.4&port=80&clusterName=y"),
    // A service that a registration made.
    (
        "POST",
        "/v1/ns/instance?serviceName=implicit&ip=10.0.0.9&port=80&ephemeral=false&clusterName=BB&weight=0.30000000000000004",
    ),
    ("POST", "/v1/ns/instance?serviceName=implicit&ip=10.0.0.1&port=80&ephemeral=false&clusterName=Aa"),
    ("POST", "/v1/ns/instance?serviceName=implicit&ip=10.0.0.2&port=80&ephemeral=false&clusterName=gone"),
    ("DELETE", "/v1/ns/instance?serviceName=implicit&ip=10.0.0.2&port=80&ephemeral=false&clusterName=gone"),
    (
        "POST",
        "/v1/ns/instance?serviceName=implicit&ip=10.0.0.7&port=80&ephemeral=false&clusterName=Aa&metadata=preserved.instance.id.generator%3Dsnowflake",
    ),
    (
        "PATCH",
        "/v1/ns/instance?serviceName=implicit&ip=10.0.0.1&port=80&clusterName=Aa&weight=12.300000000000001",
    ),
    // One that ephemeral instances made, then also has a persistent one.
    ("POST", "/v1/ns/instance?serviceName=mixed&ip=10.0.0.1&port=80&clusterName=BB"),
    ("POST", "/v1/ns/instance?serviceName=mixed&ip=10.0.0.1&port=80&clusterName=Aa"),
    ("POST", "/v1/ns/instance?serviceName=mixed&ip=10.0.0.2&port=80&clusterName=Aa&ephemeral=false"),
    ("DELETE", "/v1/ns/instance?serviceName=mixed&ip=10.0.0.1&port=80&clusterName=BB"),
    ("DELETE", "/v1/ns/instance?serviceName=mixed&ip=10.0.0.1&port=80&clusterName=Aa"),
    // Empty ones of both makings, and one that is changed.
    ("POST", "/v1/ns/service?serviceName=bare&protectThreshold=NaN"),
    ("POST", "/v1/ns/instance?serviceName=left&ip=10.0.0.1&port=80&ephemeral=false&clusterName=q"),
    ("DELETE", "/v1/ns/instance?serviceName=left&ip=10.0.0.1&port=80&ephemeral=false&clusterName=q"),
    ("PUT", "/v1/ns/service?serviceName=mixed&protectThreshold=0.7&metadata=m%3Dn"),
    ("POST", "/v1/console/namespaces?customNamespaceId=zebra&namespaceName=Z&namespaceDesc=first"),
    ("POST", "/v1/console/namespaces?customNamespaceId=ape&namespaceName=A&namespaceDesc=second"),
    ("POST", "/v1/console/namespaces?customNamespaceId=mole&namespaceName=M&namespaceDesc=third"),
    ("PUT", "/v1/console/namespaces?namespace=zebra&namespaceShowName=Zz&namespaceDesc=edited"),
    ("DELETE", "/v1/console/namespaces?namespaceId=ape"),
    ("POST", "/v1/console/namespaces?customNamespaceId=bee&namespaceName=B&namespaceDesc=fourth"),
    ("PUT", "/v1/ns/operator/switches?entry=distroThreshold&value=0.12345679"),
];

const SERVICES: [&str; 5] = ["made", "implicit", "mixed", "bare", "left"];

/// All that is shown.
async fn shown<S>(node: &mut Node<S>) -> Vec<String>
where
    S: Service<Routed<Row, Full<Bytes>>, Response = V1Response, Error = Infallible>,
{
    let mut targets: Vec<(&str, String)> = [
        "/v1/console/namespaces",
        "/v1/ns/operator/switches",
        "/v1/ns/service/list?pageNo=1&pageSize=100",
        "/v1/ns/catalog/services?pageNo=1&pageSize=100",
        "/v1/ns/catalog/services?pageNo=0&pageSize=100&withInstances=true",
    ]
    .map(|target| ("GET", target.to_string()))
    .into();
    for service in SERVICES {
        for entry in ["service", "catalog/service", "instance/list", "catalog/rt/service"] {
            targets.push(("GET", format!("/v1/ns/{entry}?serviceName={service}")));
        }
        targets.push(("PUT", format!("/v1/ns/service/checksum?serviceName={service}")));
        for cluster in ["z", "BB", "Aa", "b", "c", "gone", "q"] {
            targets.push((
                "GET",
                format!(
                    "/v1/ns/catalog/instances?serviceName={service}&clusterName={cluster}&pageNo=1&pageSize=9"
                ),
            ));
        }
    }
    let mut shown = Vec::new();
    for (method, target) in targets {
        let (status, text) = node.ask(method, &target).await;
        shown.push(format!("{method} {target}: {status} {text}"));
    }
    shown
}

#[tokio::test]
async fn a_node_shows_after_a_restart_what_it_showed_before() {
    let mut node = start();
    for (method, target) in WRITES {
        let answer = node.ask(method, target).await;
        assert!(answer.0 == 200 && matches!(&*answer.1, "ok" | "true"), "{method} {target}: {answer:?}");
    }
    let before = shown(&mut node).await;
    assert!(before.iter().any(|text| text.contains("\"weight\":6074.123456789013,")), "{before:#?}");
    let mut node = start_in(node.stop().await);
    for (before, after) in before.iter().zip(shown(&mut node).await) {
        assert_eq!(*before, after);
    }
}
