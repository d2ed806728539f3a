//! Rules of the instance side that no recording shows: other values, both kinds at one address, refused changes.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "support/in_process.rs"]
#[allow(dead_code, reason = "each test uses a part of it")]
mod in_process;

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::Full;
use in_process::{Node, start};
use nacre::api::routes::Row;
use nacre_middleware::{V1Response, collect::Routed};
use serde_json::Value;
use tower_service::Service;

const INSTANCE: &str = "/v1/ns/instance";
const BATCH: &str = "/v1/ns/instance/metadata/batch";
const JAVA: &str = "Nacos-Java-Client:v1.4.8";
const OK: (u16, &str) = (200, "ok");

/// A node that answers.
trait Answers: Service<Routed<Row, Full<Bytes>>, Response = V1Response, Error = Infallible> {}
impl<S: Service<Routed<Row, Full<Bytes>>, Response = V1Response, Error = Infallible>> Answers for S {}

/// Asks for an entry of one instance; the answer's text is shown whole.
async fn ask<S: Answers>(node: &mut Node<S>, method: &str, query: &str) -> (u16, String) {
    node.ask(method, &format!("{INSTANCE}?{query}")).await
}

/// Sends what must succeed.
async fn done<S: Answers>(node: &mut Node<S>, method: &str, query: &str) {
    let answer = ask(node, method, query).await;
    assert_eq!((answer.0, &*answer.1), OK, "{method} {query}");
}

/// The hosts of `serviceName=s`, sorted: kind, address, cluster, weight, health, metadata.
async fn hosts<S: Answers>(node: &mut Node<S>) -> Vec<String> {
    let (_, text) = node.ask("GET", &format!("{INSTANCE}/list?serviceName=s")).await;
    let list: Value = serde_json::from_str(&text).unwrap();
    let host = |host: &Value| {
        let kind = if host["ephemeral"] == true { "e" } else { "p" };
        let ip = host["ip"].as_str().unwrap();
        let cluster = host["clusterName"].as_str().unwrap();
        let [port, weight, healthy, metadata] =
            ["port", "weight", "healthy", "metadata"].map(|key| &host[key]);
        format!("{kind} {ip}:{port} {cluster} {weight} {healthy} {metadata}")
    };
    let mut hosts: Vec<_> = list["hosts"].as_array().unwrap().iter().map(host).collect();
    hosts.sort_unstable();
    hosts
}

#[tokio::test]
async fn a_form_is_read_after_the_query_and_a_lone_percent_sign_stands_for_itself() {
    let mut node = start();
    let form = "serviceName=other&ip=10.0.0.1&port=80&weight=2&metadata=%7B%22rate%22%3A%2250%%22%7D";
    let answer = node.ask_with_form("POST", &format!("{INSTANCE}?serviceName=s&weight=3"), form).await;
    assert_eq!(answer, (200, "ok".into()));
    assert_eq!(hosts(&mut node).await, [r#"e 10.0.0.1:80 DEFAULT 3.0 true {"rate":"50%"}"#]);
    for form in ["serviceName=s&ip=10.0.0.1&port=80", "--X"] {
        let request = format!("{INSTANCE}?serviceName=s");
        let mut request =
            node.request("POST", &request, &[("content-type", "multipart/form-data; boundary=X")]);
        *request.body_mut() = Full::from(form);
        let response = node.send(request).await;
        let answer = in_process::read(response).await;
        assert_eq!(answer, (400, "caused: Param 'ip' is required.;".into()));
    }
}

#[tokio::test]
async fn the_first_of_a_repeated_parameter_counts() {
    let mut node = start();
    done(&mut node, "POST", "serviceName=s&ip=10.0.0.2&ip=10.0.0.1&port=81&port=80&weight=5&weight=7").await;
    let form = "ip=10.0.0.9&port=90&weight=1&weight=2";
    node.ask_with_form("PUT", &format!("{INSTANCE}?serviceName=s&ip=10.0.0.3&port=82"), form).await;
    let expected = ["e 10.0.0.2:81 DEFAULT 5.0 true {}", "e 10.0.0.3:82 DEFAULT 1.0 true {}"];
    assert_eq!(hosts(&mut node).await, expected);
}

#[tokio::test]
async fn a_refused_patch_changes_nothing_of_either_kind() {
    let mut node = start();
    for kind in ["true", "false"] {
        let port = if kind == "true" { 80 } else { 81 };
        let address = format!("serviceName=s&ip=10.0.0.1&port={port}");
        done(&mut node, "POST", &format!("{address}&ephemeral={kind}&weight=2&metadata=a%3Db")).await;
        let weights = "caused: instance format invalid: The weights range from 0.0 to 10000.0;";
        for weight in ["-0.5", "10000.5", "NaN", "Infinity"] {
            let query = format!("{address}&healthy=false&metadata=c%3Dd&weight={weight}");
            assert_eq!(ask(&mut node, "PATCH", &query).await, (500, weights.into()));
        }
        let answer = ask(&mut node, "PATCH", &format!("{address}&weight=9&metadata=x")).await;
        assert_eq!(answer, (500, "caused: metadata format incorrect:x;".into()));
        let answer = ask(&mut node, "PATCH", &format!("{address}&enabled=no&weight=heavy")).await;
        assert_eq!(answer, (400, "caused: For input string: \"heavy\";".into()));
    }
    let expected =
        [r#"e 10.0.0.1:80 DEFAULT 2.0 true {"a":"b"}"#, r#"p 10.0.0.1:81 DEFAULT 2.0 true {"a":"b"}"#];
    assert_eq!(hosts(&mut node).await, expected);
}

#[tokio::test]
async fn a_patch_changes_what_it_names_of_the_one_instance() {
    let mut node = start();
    for (cluster, kind) in [("A", "true"), ("B", "true"), ("A", "false")] {
        let query = format!("serviceName=s&ip=10.0.0.1&port=80&clusterName={cluster}&ephemeral={kind}");
        done(&mut node, "POST", &query).await;
    }
    done(&mut node, "PATCH", "serviceName=s&ip=10.0.0.1&port=80&cluster=B&weight=0.001&healthy=off").await;
    // Of the two in A the persistent one is found first.
    done(&mut node, "PATCH", "serviceName=s&ip=10.0.0.1&port=80&clusterName=A&metadata=%7B%22k%22%3A1.50%7D")
        .await;
    let expected = [
        "e 10.0.0.1:80 A 1.0 true {}",
        "e 10.0.0.1:80 B 0.01 false {}",
        r#"p 10.0.0.1:80 A 1.0 true {"k":"1.50"}"#,
    ];
    assert_eq!(hosts(&mut node).await, expected);
    let answer = ask(&mut node, "PATCH", "serviceName=s&ip=10.0.0.1&port=80&clusterName=C&weight=x").await;
    assert_eq!(answer, (400, "caused: instance not found;".into()));
    done(&mut node, "DELETE", "serviceName=s&ip=10.0.0.1&port=80&clusterName=A").await;
    assert_eq!(hosts(&mut node).await, [expected[1], expected[2]]);
}

#[tokio::test]
async fn a_patch_counts_as_a_beat_and_keeps_the_id() {
    let mut node = start();
    let metadata = "metadata=%7B%22preserved.instance.id.generator%22%3A%22Snowflake%22%7D";
    done(&mut node, "POST", &format!("serviceName=s&ip=a&port=1&{metadata}")).await;
    done(&mut node, "POST", &format!("serviceName=s&ip=b&port=2&{metadata}")).await;
    node.clock.advance(14_000);
    done(&mut node, "PATCH", "serviceName=s&ip=b&port=2&metadata=%7B%7D").await;
    let service = node.registry.in_namespace("public").pop().unwrap();
    let state = service.state();
    let silence: Vec<u64> =
        state.instances().map(|instance| node.clock.now().since(instance.last_beat())).collect();
    assert_eq!(silence, [14_000, 0]);
    let (_, detail) = ask(&mut node, "GET", "serviceName=s&ip=b&port=2").await;
    assert!(detail.contains(r#""instanceId":"1","metadata":{}"#), "{detail}");
}

#[tokio::test]
async fn any_ip_is_an_address_and_a_port_of_zero_is_a_port() {
    let mut node = start();
    for (ip, port) in
        [("%5B2001%3Adb8%3A%3A1%5D", 443), ("2001%3Adb8%3A%3A1", 443), ("host.name", 0), ("%20", -7)]
    {
        let address = format!("serviceName=s&ip={ip}&port={port}");
        done(&mut node, "POST", &address).await;
        done(&mut node, "PATCH", &format!("{address}&weight=2")).await;
        let answer = node.ask_as(JAVA, "PUT", &format!("{INSTANCE}?{address}&weight=3")).await;
        assert_eq!(answer, (200, "ok".into()));
        let (status, detail) = ask(&mut node, "GET", &address).await;
        assert_eq!(status, 200, "{detail}");
        let (_, beat) = node.ask("PUT", &format!("{INSTANCE}/beat?{address}")).await;
        assert_eq!(beat, r#"{"clientBeatInterval":5000,"code":10200,"lightBeatEnabled":true}"#);
    }
    let expected = [
        "e 2001:db8::1:443 DEFAULT 3.0 true {}",
        "e :-7 DEFAULT 3.0 true {}",
        "e [2001:db8::1]:443 DEFAULT 3.0 true {}",
        "e host.name:0 DEFAULT 3.0 true {}",
    ];
    assert_eq!(hosts(&mut node).await, expected);
    let (_, statuses) = node.ask("GET", &format!("{INSTANCE}/statuses?key=DEFAULT_GROUP%40%40s")).await;
    assert!(statuses.contains(r#""host.name:0_true""#), "{statuses}");
}

#[tokio::test]
async fn a_put_of_a_java_client_needs_the_address_in_any_cluster_but_of_its_kind() {
    let mut node = start();
    let put = |rest: &str| format!("{INSTANCE}?serviceName=s&ip=10.0.0.1{rest}");
    let unknown = "caused: service not found, namespace: n, service: DEFAULT_GROUP@@s;";
    let answer = node.ask_as(JAVA, "PUT", &put("&port=80&namespaceId=n")).await;
    assert_eq!(answer, (500, unknown.into()));
    done(&mut node, "POST", "serviceName=s&ip=10.0.0.1&port=80&clusterName=B").await;
    assert_eq!(node.ask_as(JAVA, "PUT", &put("&port=80&clusterName=C&weight=2")).await.0, 200);
    for (rest, named) in [
        ("&port=8&clusterName=B", "10.0.0.1:8:unknown:B_1.0_true_false_B"),
        ("&port=80&ephemeral=false&weight=0.5", "10.0.0.1:80:unknown:DEFAULT_0.5_true_false_DEFAULT"),
        ("&port=0&healthy=false", "10.0.0.1:unknown:DEFAULT_1.0_false_false_DEFAULT"),
    ] {
        let answer = node.ask_as(JAVA, "PUT", &put(rest)).await;
        assert_eq!(answer, (500, format!("caused: instance not exist: {named};")));
    }
    let expected = ["e 10.0.0.1:80 B 1.0 true {}", "e 10.0.0.1:80 C 2.0 true {}"];
    assert_eq!(hosts(&mut node).await, expected);
}

#[tokio::test]
async fn a_beat_makes_ephemeral_instances_with_an_address_only() {
    let mut node = start();
    let unknown = (200, r#"{"clientBeatInterval":5000,"code":20404}"#.to_string());
    let beat = |beat: &str| format!("{INSTANCE}/beat?serviceName=s&beat={beat}");
    for text in [
        "%7B%22ip%22%3A%2210.0.0.1%22%2C%22port%22%3A80%2C%22ephemeral%22%3Afalse%7D",
        "%7B%22port%22%3A80%7D",
        "%7B%22ip%22%3A%22%22%7D",
        "null",
    ] {
        assert_eq!(node.ask("PUT", &beat(text)).await, unknown, "{text}");
    }
    assert!(node.registry.is_empty());
    for wrong in
        ["%7B", "1", "%5B%5D", "%7B%22ip%22%3A%7B%7D%7D", "%7B%22ip%22%3A%22a%22%2C%22weight%22%3A-1%7D"]
    {
        let (status, text) = node.ask("PUT", &beat(wrong)).await;
        assert_eq!(status, 500, "{wrong}");
        assert!(text.starts_with("caused: the beat can not be read: ") && text.len() < 200, "{text}");
    }
    assert!(node.registry.is_empty());
    let (_, text) = node.ask("PUT", &beat("%7B%22ip%22%3A%2210.0.0.1%22%2C%22port%22%3A80%7D")).await;
    assert!(text.contains("10200"), "{text}");
    let (_, text) = node
        .ask(
            "PUT",
            &beat(
                "%7B%22ip%22%3A%22b%22%2C%22port%22%3A1%2C%22metadata%22%3Anull%2C%22weight%22%3A%22%22%7D",
            ),
        )
        .await;
    assert!(text.contains("10200"), "{text}");
    assert_eq!(hosts(&mut node).await, ["e 10.0.0.1:80 DEFAULT 1.0 true {}", "e b:1 DEFAULT 1.0 true {}"]);
}

#[tokio::test]
async fn a_beat_heals_its_own_instance_alone() {
    let mut node = start();
    for query in ["port=80", "port=81", "port=80&clusterName=B", "port=80&ephemeral=false&clusterName=P"] {
        done(&mut node, "POST", &format!("serviceName=s&ip=10.0.0.1&healthy=false&{query}")).await;
    }
    done(&mut node, "POST", "serviceName=s&ip=10.0.0.2&port=80").await;
    for cluster in ["DEFAULT", "P"] {
        let (_, text) = node
            .ask("PUT", &format!("{INSTANCE}/beat?serviceName=s&ip=10.0.0.1&port=80&clusterName={cluster}"))
            .await;
        assert!(text.contains("10200"), "{text}");
    }
    let expected = [
        "e 10.0.0.1:80 B 1.0 false {}",
        "e 10.0.0.1:80 DEFAULT 1.0 true {}",
        "e 10.0.0.1:81 DEFAULT 1.0 false {}",
        "e 10.0.0.2:80 DEFAULT 1.0 true {}",
        "p 10.0.0.1:80 P 1.0 false {}",
    ];
    assert_eq!(hosts(&mut node).await, expected);
}

#[tokio::test]
async fn weights_and_metadata_that_nothing_can_hold_are_refused_or_empty() {
    let mut node = start();
    let weights =
        (500, "caused: instance format invalid: The weights range from 0.0 to 10000.0;".to_string());
    for method in ["POST", "PUT"] {
        for weight in ["NaN", "-1", "10000.1", "1e9"] {
            let query = format!("serviceName=s&ip=a&port=1&weight={weight}");
            assert_eq!(ask(&mut node, method, &query).await, weights);
        }
    }
    assert!(node.registry.is_empty());
    done(&mut node, "POST", "serviceName=s&ip=a&port=1&weight=-0&metadata=null").await;
    assert_eq!(hosts(&mut node).await, ["e a:1 DEFAULT -0.0 true {}"]);
}

#[tokio::test]
async fn names_that_are_lost_or_too_long_make_nothing() {
    let mut node = start();
    let long = "x".repeat(512 - "DEFAULT_GROUP@@".len());
    let names = ["g%40%40%40%40x".to_string(), format!("{long}x"), "s&namespaceId=a%23%23b".into()];
    for name in &names {
        for entry in ["?ip=a&port=1", "/beat?beat=%7B%22ip%22%3A%22a%22%2C%22port%22%3A1%7D"] {
            let method = if entry.starts_with('/') { "PUT" } else { "POST" };
            let (status, text) = node.ask(method, &format!("{INSTANCE}{entry}&serviceName={name}")).await;
            assert_eq!(status, 400, "{text}");
            assert!(text.starts_with("caused: Param '"), "{text}");
        }
        let (status, _) = node.ask("GET", &format!("{INSTANCE}/list?serviceName={name}")).await;
        assert_eq!(status, 200);
        done(&mut node, "DELETE", &format!("ip=a&port=1&serviceName={name}")).await;
    }
    assert!(node.registry.is_empty());
    done(&mut node, "POST", &format!("serviceName={long}&ip=a&port=1")).await;
}

#[tokio::test]
async fn a_batch_changes_the_chosen_of_both_kinds() {
    let mut node = start();
    for query in ["ip=a&port=1", "ip=a&port=1&clusterName=B", "ip=a&port=1&ephemeral=false", "ip=b&port=0"] {
        done(&mut node, "POST", &format!("serviceName=s&{query}&metadata=k%3D1%2Cl%3D2")).await;
    }
    let instances = r#"[{"ip":"a","port":"1","ephemeral":true},{"ip":"b","port":0.5,"clusterName":"DEFAULT"},
        {"ip":"a","port":1,"ephemeral":"false"},{"ip":"a","port":1,"x":[{}]},{"ip":"a","port":2},{"port":1},null]"#;
    let instances: String = instances.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let query = format!("serviceName=s&instances={instances}");
    let (_, text) =
        node.ask("PUT", &format!("{BATCH}?{query}&metadata=%7B%22l%22%3A%22x%22%2C%22m%22%3Anull%7D")).await;
    let expected = r#"{"updated":["a:1:unknown:DEFAULT:persist","a:1:unknown:DEFAULT:ephemeral","b:unknown:DEFAULT:ephemeral","a:1:unknown:DEFAULT:ephemeral"]}"#;
    assert_eq!(text, expected);
    let (_, text) =
        node.ask("DELETE", &format!("{BATCH}?serviceName=s&consistencyType=persist&metadata=k%3Dz")).await;
    assert_eq!(text, r#"{"updated":["a:1:unknown:DEFAULT:persist"]}"#);
    let expected = [
        r#"e a:1 B 1.0 true {"k":"1","l":"2"}"#,
        r#"e a:1 DEFAULT 1.0 true {"k":"1","l":"x"}"#,
        r#"e b:0 DEFAULT 1.0 true {"k":"1","l":"x"}"#,
        r#"p a:1 DEFAULT 1.0 true {"l":"x"}"#,
    ];
    assert_eq!(hosts(&mut node).await, expected);
}

#[tokio::test]
async fn a_batch_that_cant_be_stored_changes_nothing() {
    let mut node = start();
    for query in ["ip=a&port=1", "ip=b&port=1&ephemeral=false"] {
        done(&mut node, "POST", &format!("serviceName=s&{query}")).await;
    }
    node.cp.stop().await;
    let instances = "%5B%7B%22ip%22%3A%22a%22%2C%22port%22%3A1%7D%2C%7B%22ip%22%3A%22b%22%2C%22port%22%3A1%2C%22ephemeral%22%3Afalse%7D%5D";
    let (status, _) =
        node.ask("PUT", &format!("{BATCH}?serviceName=s&metadata=k%3Dv&instances={instances}")).await;
    assert_eq!(status, 503);
    assert_eq!(ask(&mut node, "PATCH", "serviceName=s&ip=b&port=1&weight=2").await.0, 503);
    assert_eq!(hosts(&mut node).await, ["e a:1 DEFAULT 1.0 true {}", "p b:1 DEFAULT 1.0 true {}"]);
    // What isn't stored goes on.
    let (_, text) =
        node.ask("PUT", &format!("{BATCH}?serviceName=s&metadata=k%3Dv&consistencyType=ephemeral")).await;
    assert_eq!(text, r#"{"updated":["a:1:unknown:DEFAULT:ephemeral"]}"#);
}

#[tokio::test]
async fn the_oldest_entries_know_one_group_only() {
    let mut node = start();
    done(&mut node, "POST", "serviceName=s&ip=a&port=1").await;
    done(&mut node, "POST", "serviceName=s&groupName=G&ip=b&port=2").await;
    done(&mut node, "POST", "serviceName=t&namespaceId=n&ip=c&port=3").await;
    let (_, list) = node.ask("GET", "/v1/ns/api/srvIPXT?dom=%20s%20&groupName=G&serviceName=x").await;
    assert!(list.contains(r#""ip":"a""#) && list.contains(r#""name":"DEFAULT_GROUP@@s""#), "{list}");
    let known = r#"{"clientBeatInterval":5000,"code":10200,"lightBeatEnabled":true}"#;
    for (query, code) in
        [("dom=s&ip=a&port=1&serviceName=x", "10200"), ("dom=s&groupName=G&ip=b&port=2", "20404")]
    {
        let (status, text) = node.ask("GET", &format!("/v1/ns/api/clientBeat?{query}")).await;
        assert!(status == 200 && text.contains(code), "{text}");
    }
    let answer = node.ask("GET", "/v1/ns/api/clientBeat?serviceName=s&ip=a&port=1").await;
    assert_eq!(answer, (400, "caused: Param 'dom' is required.;".into()));
    assert_eq!(node.ask("PUT", "/v1/ns/api/beat?serviceName=s&ip=a&port=1").await.1, known);
    let names = "/v1/ns/api/allDomNames";
    assert_eq!(node.ask("GET", names).await.1, r#"{"count":2,"doms":{"public":["s"],"n":["t"]}}"#);
    assert_eq!(node.ask_as("Nacos-DNS:v1.0.1", "GET", names).await.1, r#"{"count":1,"doms":["s"]}"#);
    assert_eq!(node.ask_as("Nacos-DNS", "GET", names).await.1, r#"{"count":1,"doms":["s"]}"#);
    assert_eq!(node.ask_as("Nacos-DNS:v1", "GET", names).await.0, 500);
}

#[tokio::test]
async fn odd_keys_and_agents_get_a_clear_text() {
    let mut node = start();
    done(&mut node, "POST", "serviceName=s&ip=a&port=1").await;
    for key in ["%23%23", "n%23%23", "n%23%23%23%23"] {
        let (status, text) = node.ask("GET", &format!("{INSTANCE}/statuses?key={key}")).await;
        assert_eq!((status, &*text), (500, "caused: the key has no service behind its namespace;"));
    }
    let (_, text) =
        node.ask("GET", &format!("{INSTANCE}/statuses?key=public%23%23DEFAULT_GROUP%40%40s%23%23x")).await;
    assert_eq!(text, r#"{"ips":["a:1_true"]}"#);
    for (method, target) in [("GET", "/list?serviceName=s"), ("PUT", "?serviceName=s&ip=a&port=1&weight=7")] {
        let (status, text) =
            node.ask_as("Nacos-Java-Client:v1", method, &format!("{INSTANCE}{target}")).await;
        assert_eq!((status, &*text), (500, "caused: the version of the agent can not be read: 1;"));
    }
    assert_eq!(hosts(&mut node).await, ["e a:1 DEFAULT 1.0 true {}"]);
}

#[tokio::test]
async fn entries_of_an_instance_are_served_under_api_but_not_the_other_way_round() {
    let mut node = start();
    let status = async |node: &mut Node<_>, method, path| node.ask(method, &format!("/v1/ns/{path}")).await.0;
    assert_eq!(status(&mut node, "POST", "api?serviceName=s&ip=a&port=1").await, 200);
    assert_eq!(status(&mut node, "PATCH", "api/?serviceName=s&ip=a&port=1").await, 200);
    assert_eq!(status(&mut node, "PUT", "api/metadata/batch?serviceName=s&metadata=a%3Db").await, 200);
    for (method, path) in [
        ("GET", "instance/srvIPXT?dom=s"),
        ("GET", "instance/allDomNames"),
        ("PUT", "api/clientBeat?dom=s"),
        ("POST", "api/metadata/batch"),
        ("GET", "api/beat"),
        ("HEAD", "api/list?serviceName=s"),
        ("GET", "api/regService"),
        ("GET", "api/srvIPXT/more"),
        ("GET", "apis"),
    ] {
        assert_eq!(status(&mut node, method, path).await, 501, "{method} {path}");
    }
}

#[tokio::test]
async fn removing_a_persistent_instance_that_is_not_there_writes_nothing() {
    let mut node = start();
    done(&mut node, "POST", "serviceName=s&ip=a&port=80&ephemeral=false").await;
    let before = node.cp.stats();
    for query in [
        "serviceName=s&ip=b&port=80&ephemeral=false",
        "serviceName=s&ip=a&port=80&clusterName=other&ephemeral=false",
        "serviceName=unknown&ip=a&port=80&ephemeral=false",
    ] {
        done(&mut node, "DELETE", query).await;
    }
    assert_eq!(node.cp.stats(), before);
    assert_eq!(node.registry.len(), 1);
    done(&mut node, "DELETE", "serviceName=s&ip=a&port=80&ephemeral=false").await;
    assert_eq!(node.cp.stats().jobs, before.jobs + 1);
}

#[tokio::test]
async fn what_is_as_long_as_its_limit_is_taken_and_more_is_a_400() {
    let mut node = start();
    let (most, more) = ("a".repeat(512), "a".repeat(513));
    let (much, too_much) = (format!("k={}", "v".repeat(60_000)), format!("k={}", "v".repeat(1 << 20)));
    for ephemeral in ["true", "false"] {
        let form = |ip: &str, cluster: &str, app: &str, metadata: &str| {
            format!(
                "serviceName=s&port=80&ephemeral={ephemeral}&ip={ip}&clusterName={cluster}&app={app}&metadata={}",
                metadata.replace('=', "%3D")
            )
        };
        let taken = node.ask_with_form("POST", INSTANCE, &form(&most, &most, &most, &much)).await;
        assert_eq!((taken.0, &*taken.1), OK);
        for (form, what) in [
            (form(&more, "A", "x", ""), "ip"),
            (form("a", &more, "x", ""), "clusterName"),
            (form("a", "A", &more, ""), "app"),
            (form("a", "A", "x", &too_much), "metadata"),
        ] {
            let (status, text) = node.ask_with_form("POST", INSTANCE, &form).await;
            assert_eq!(status, 400, "{what}: {text}");
            let start = format!("caused: Param '{what}' is illegal, it may have ");
            assert!(text.starts_with(&start), "{text}");
        }
        // Changes of a known one obey the same bounds, and a batch may not add up to more.
        let place = format!("serviceName=s&port=80&ip={most}&clusterName={most}");
        let patch = format!("{place}&metadata={}", too_much.replace('=', "%3D"));
        assert_eq!(node.ask_with_form("PATCH", INSTANCE, &patch).await.0, 400);
        assert_eq!(node.ask_with_form("PATCH", INSTANCE, &format!("{place}&app={more}")).await.0, 400);
        let kind = if ephemeral == "true" { "ephemeral" } else { "persist" };
        let batch =
            format!("serviceName=s&consistencyType={kind}&metadata=l%3D{}", "v".repeat((1 << 20) - 60_000));
        assert_eq!(node.ask_with_form("PUT", BATCH, &batch).await.0, 400);
    }
    let beat = format!("serviceName=s&beat=%7B%22ip%22:%22{more}%22,%22port%22:80%7D");
    assert_eq!(node.ask_with_form("PUT", "/v1/ns/instance/beat", &beat).await.0, 400);
    let service = format!("serviceName=t&metadata={}", too_much.replace('=', "%3D"));
    assert_eq!(node.ask_with_form("POST", "/v1/ns/service", &service).await.0, 400);
    let service = format!("serviceName=s&protectThreshold=0&metadata={}", too_much.replace('=', "%3D"));
    assert_eq!(node.ask_with_form("PUT", "/v1/ns/service", &service).await.0, 400);
    let (status, text) =
        node.ask_with_form("POST", INSTANCE, &format!("serviceName=s&ip=a&port=80&namespaceId={more}")).await;
    assert_eq!((status, text.contains("Param 'namespaceId' is illegal, it may have 512")), (400, true));
    assert_eq!(node.registry.len(), 1);
}

#[tokio::test]
async fn a_service_takes_a_thousand_clusters() {
    let mut node = start();
    for number in 0..1_000 {
        done(&mut node, "POST", &format!("serviceName=s&ip=a&port=80&clusterName=c{number}")).await;
    }
    for query in [
        "POST serviceName=s&ip=a&port=80&clusterName=more",
        "POST serviceName=s&ip=a&port=80&clusterName=more&ephemeral=false",
        "DELETE serviceName=s&ip=a&port=80&clusterName=more",
    ] {
        let (method, query) = query.split_once(' ').unwrap();
        let (status, text) = ask(&mut node, method, query).await;
        assert_eq!((status, text.contains("has 1000 clusters")), (400, true), "{method} {query}: {text}");
    }
    let cluster = "serviceName=s&clusterName=more&checkPort=80&useInstancePort4Check=true&healthChecker=%7B%22type%22:%22TCP%22%7D";
    assert_eq!(node.ask("PUT", &format!("/v1/ns/cluster?{cluster}")).await.0, 400);
    done(&mut node, "POST", "serviceName=s&ip=b&port=80&clusterName=c999&ephemeral=false").await;
}

#[tokio::test]
async fn beats_do_not_heal_a_marked_instance() {
    let mut node = start();
    let key = "com.alibaba.nacos.naming.iplist.ephemeral.public##DEFAULT_GROUP@@s";
    for (marked, healed) in [(true, false), (false, true)] {
        let datum = format!(
            r#"{{"{key}":{{"key":"{key}","value":{{"instanceList":[{{"ip":"m{marked}","port":80,"healthy":false,"marked":{marked}}}]}}}}}}"#
        );
        let mut request = node.request("PUT", "/v1/ns/distro/datum", &[("content-type", "application/json")]);
        *request.body_mut() = Full::from(datum);
        assert_eq!(in_process::read(node.send(request).await).await, (200, "ok".into()));
        let beat = format!("/v1/ns/instance/beat?serviceName=s&ip=m{marked}&port=80");
        assert_eq!(node.ask("PUT", &beat).await.0, 200);
        let (_, text) = ask(&mut node, "GET", &format!("serviceName=s&ip=m{marked}&port=80")).await;
        assert!(text.contains(&format!("\"healthy\":{healed}")), "{text}");
    }
}

#[tokio::test]
async fn a_beat_keeps_an_ephemeral_instance_beside_a_persistent_one_of_the_same_address() {
    let mut node = start();
    let at = "serviceName=twins&ip=10.0.0.1&port=80";
    for kind in ["true", "false"] {
        assert_eq!(node.ask("POST", &format!("/v1/ns/instance?{at}&ephemeral={kind}")).await.0, 200);
    }
    node.clock.advance(14_000);
    let (_, body) = node.ask("PUT", &format!("/v1/ns/instance/beat?{at}")).await;
    assert!(body.contains("10200"), "{body}");
    let service = node
        .registry
        .get(nacre::model::registry::Place { namespace: "public", name: "DEFAULT_GROUP@@twins" });
    let state = service.unwrap().state();
    assert!(state.ephemeral.iter().all(|instance| instance.last_beat() == node.clock.now()));
}

#[tokio::test]
async fn removing_a_persistent_instance_of_an_unknown_service_is_ok_and_makes_nothing() {
    let mut node = start();
    let path = "/v1/ns/instance?serviceName=none&ip=10.0.0.1&port=80&ephemeral=false";
    assert_eq!(node.ask("DELETE", path).await, (200, "ok".into()));
    assert!(node.registry.is_empty());
}
