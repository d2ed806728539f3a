//! What the hot paths cost, without sockets: parameters, lists, beats, registrations in services of several sizes.
//!
//! `cargo bench --bench naming`.

#![allow(clippy::unwrap_used, reason = "a bench")]
#![allow(missing_docs, reason = "a bench")]

#[path = "../tests/support/in_process.rs"]
#[allow(dead_code, reason = "each user uses a part of it")]
mod in_process;

use std::convert::Infallible;

use bytes::Bytes;
use divan::{Bencher, black_box};
use http_body_util::Full;
use in_process::Node;
use nacre::{
    api::{params::Params, routes::Row},
    health::beat::Beat,
    model::{Metadata, instance::Description, registry::Place},
};
use nacre_middleware::{V1Response, collect::Routed};
use tower_service::Service;

const SIZES: [usize; 3] = [10, 1_000, 50_000];
const JAVA: &[(&str, &str)] =
    &[("user-agent", "Nacos-Java-Client:v1.4.8"), ("accept-encoding", "gzip,deflate,sdch")];
const SERVICE: &str = "serviceName=DEFAULT_GROUP%40%40shop&namespaceId=public";
const PLACE: Place<'static> = Place { namespace: "public", name: "DEFAULT_GROUP@@shop" };

fn main() {
    divan::main();
}

fn ip(number: usize) -> String {
    format!("10.{}.{}.{}", number / 62_500, number / 250 % 250, number % 250)
}

/// Registers this many instances in one service.
fn fill<S>(node: &Node<S>, instances: usize)
where
    S: Service<Routed<Row, Full<Bytes>>, Response = V1Response, Error = Infallible>,
{
    let metadata: Metadata = r#"{"zone":"a"}"#.parse().unwrap();
    for number in 0..instances {
        let ip = ip(number);
        let described = Description { metadata: metadata.clone(), ..Description::new(&ip, 8080, "DEFAULT") };
        node.registry.register(PLACE, &described, node.clock.now()).unwrap();
    }
}

/// Sends the same request again and again to a node with a service of this size.
fn serve(bencher: Bencher<'_, '_>, size: usize, method: &str, target: &str) {
    serve_by(in_process::start(), bencher, size, method, target);
}

fn serve_by<S>(mut node: Node<S>, bencher: Bencher<'_, '_>, size: usize, method: &str, target: &str)
where
    S: Service<Routed<Row, Full<Bytes>>, Response = V1Response, Error = Infallible>,
{
    fill(&node, size);
    bencher.bench_local(|| {
        let request = node.request(method, target, JAVA);
        let mut response = node.send_now(request);
        node.spare = std::mem::take(response.headers_mut());
        node.spare.clear();
        response
    });
}

#[divan::bench]
fn parameters_of_a_beat(bencher: Bencher<'_, '_>) {
    let query = format!("{SERVICE}&clusterName=DEFAULT&ip=10.0.0.7&port=8080");
    bencher.bench_local(|| Params::read(black_box(&query), b"").service_name().map(|name| name.len()));
}

#[divan::bench]
fn text_of_a_full_beat() -> Option<i32> {
    let text = r#"{"cluster":"DEFAULT","ip":"10.0.0.7","metadata":{"zone":"a"},"port":8080,"scheduled":false,"serviceName":"DEFAULT_GROUP@@shop","weight":1.0}"#;
    Beat::read(black_box(text)).unwrap().map(|beat| beat.port)
}

#[divan::bench]
fn metadata_text() -> Metadata {
    black_box(r#"{"preserved.register.source":"SPRING_CLOUD","zone":"a"}"#).parse().unwrap()
}

/// The request alone: what the next ones contain besides serving.
#[divan::bench]
fn nothing_but_a_request(bencher: Bencher<'_, '_>) {
    let mut node = in_process::start();
    let target = format!("/v1/ns/instance/list?{SERVICE}&clusters=&udpPort=0&healthyOnly=false");
    bencher.bench_local(|| {
        let mut request = node.request("GET", &target, JAVA);
        node.spare = std::mem::take(request.headers_mut());
        node.spare.clear();
        request
    });
}

#[divan::bench(args = SIZES)]
fn list_again(bencher: Bencher<'_, '_>, size: usize) {
    let target = format!("/v1/ns/instance/list?{SERVICE}&clusters=&udpPort=0&healthyOnly=false");
    serve(bencher, size, "GET", &target);
}

#[divan::bench(args = SIZES)]
fn list_after_a_change(bencher: Bencher<'_, '_>, size: usize) {
    let mut node = in_process::start();
    fill(&node, size);
    let target = format!("/v1/ns/instance/list?{SERVICE}&clusters=&udpPort=0&healthyOnly=false");
    bencher.bench_local(|| {
        node.registry
            .register(PLACE, &Description::new("10.0.0.7", 8080, "DEFAULT"), node.clock.now())
            .unwrap();
        let request = node.request("GET", &target, JAVA);
        node.send_now(request)
    });
}

#[divan::bench(args = SIZES)]
fn light_beat(bencher: Bencher<'_, '_>, size: usize) {
    let target = format!("/v1/ns/instance/beat?{SERVICE}&clusterName=DEFAULT&ip=10.0.0.7&port=8080");
    serve(bencher, size, "PUT", &target);
}

/// The same in a cluster: whose the service is is found out first.
#[divan::bench(args = SIZES)]
fn light_beat_of_a_member(bencher: Bencher<'_, '_>, size: usize) {
    let target = format!("/v1/ns/instance/beat?{SERVICE}&clusterName=DEFAULT&ip=10.0.0.7&port=8080");
    serve_by(in_process::start_as_survivor(), bencher, size, "PUT", &target);
}

#[divan::bench(args = SIZES)]
fn register_again(bencher: Bencher<'_, '_>, size: usize) {
    let rest = "ip=10.0.0.7&port=8080&weight=1.0&enable=true&healthy=true&ephemeral=true&clusterName=DEFAULT";
    let target = format!("/v1/ns/instance?{SERVICE}&{rest}&metadata=%7B%22zone%22%3A%22a%22%7D");
    serve(bencher, size, "POST", &target);
}

/// Ever other ones, spread over the whole service.
#[divan::bench(args = SIZES)]
fn register_and_deregister(bencher: Bencher<'_, '_>, size: usize) {
    let node = in_process::start();
    fill(&node, size);
    let mut number = 0;
    bencher.bench_local(|| {
        number = (number + 7_919) % size;
        let ip = ip(number);
        let described = Description::new(&ip, 9090, "DEFAULT");
        node.registry.register(PLACE, &described, node.clock.now()).unwrap();
        node.registry.deregister(PLACE, described.key, node.clock.now()).unwrap()
    });
}
