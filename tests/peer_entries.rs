//! What members, and those who say that they are, are answered by a node that has members.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "support/in_process.rs"]
#[allow(dead_code, reason = "each test uses a part of it")]
mod in_process;

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    io,
    sync::Arc,
};

use bytes::Bytes;
use http_body_util::Full;
use in_process::{Node, read, start_among, start_as};
use nacre::{
    api::routes::Row,
    base::clock::{Clock, Millis},
    cluster::{Address, Cluster, MemberReport, NacreMark, Standing, document, lookup},
    config::{Settings, Sources, load},
    distro::Distro,
    membership,
};
use nacre_middleware::{V1Response, collect::Routed};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use tokio_util::sync::CancellationToken;
use tower_service::Service;

const OWN: &str = "10.0.0.1:8848";
const B: &str = "10.0.0.2:8848";
const C: &str = "nacos-2.nacos:8849";
/// Begins the MD5 of the three, each with a line feed behind it.
const LIST: &str = "4f97cd4dbdf86636";

fn at(text: &str) -> Address {
    Address::new(text)
}

/// What a Nacre node of this address reports.
fn nacre(address: &str) -> MemberReport {
    MemberReport::of_nacre(&at(address), NacreMark { protocol: 1, ..NacreMark::default() })
}

fn settings(set: &[&str]) -> Settings {
    let sources = Sources { set: set.iter().map(ToString::to_string).collect(), ..Sources::default() };
    load(&sources, &|_| Err(io::ErrorKind::NotFound.into())).unwrap().settings
}

/// Members of which the own one does this; the second is up and Nacre, the third hasn't been heard of.
async fn cluster(standing: Standing) -> Cluster {
    watched(standing).await.0
}

/// The same, with what reads the list.
async fn watched(standing: Standing) -> (Cluster, lookup::Watch) {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(&[&format!("nacos.member.list={OWN},{B},{C}")]);
    settings.config_dir = folder.path().to_owned();
    let settings = Arc::new(settings);
    let found = lookup::find(&settings, at(OWN)).await.unwrap().unwrap();
    let (cluster, watch) = Cluster::new(found, &settings, Clock::set(1_796_000_000_000));
    cluster.reported(&nacre(B), Millis(0));
    // Among Nacre nodes a report alone makes nobody an owner.
    cluster.answered(&at(B), Millis(0));
    match standing {
        Standing::Removed => cluster.drop_members(&[at(OWN)]),
        standing => cluster.set_standing(standing),
    }
    assert_eq!(cluster.view().standing, standing);
    (cluster, watch)
}

trait Stack: Service<Routed<Row, Full<Bytes>>, Response = V1Response, Error = Infallible> + Clone + Send {}
impl<S> Stack for S where
    S: Service<Routed<Row, Full<Bytes>>, Response = V1Response, Error = Infallible> + Clone + Send
{
}

/// A node among these members, asked by the second.
fn node(cluster: Cluster, set: &[&str]) -> Node<impl Stack + use<>> {
    let mut node = start_as(cluster, settings(set), Arc::new(tempfile::tempdir().unwrap()), None);
    node.caller = "10.0.0.2:50000".parse().unwrap();
    node
}

async fn serving() -> Node<impl Stack> {
    node(cluster(Standing::Serving).await, &[])
}

/// The same, and it exchanges data with the others.
async fn exchanging() -> Node<impl Stack> {
    exchanging_in(cluster(Standing::Serving).await)
}

fn exchanging_in(cluster: Cluster) -> Node<impl Stack> {
    let rhythm = membership::rhythm(&Settings::default());
    let protocol = move |cluster, registry, changes, clock| {
        Some(Distro::new(cluster, registry, changes, clock, rhythm, 1))
    };
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let mut node = start_among(cluster, settings(&[]), folder, None, protocol);
    node.caller = "10.0.0.2:50000".parse().unwrap();
    node
}

async fn answer<S: Stack>(
    node: &mut Node<S>,
    method: &str,
    target: &str,
    headers: &[(&'static str, &'static str)],
    body: impl Into<Bytes>,
) -> V1Response {
    let mut request = node.request(method, target, headers);
    if target.starts_with("/nacre/") {
        *request.uri_mut() = target.parse().unwrap();
    }
    request.headers_mut().insert("content-type", "application/json".parse().unwrap());
    *request.body_mut() = Full::new(body.into());
    node.send(request).await
}

async fn ask<S: Stack>(node: &mut Node<S>, method: &str, target: &str, body: &str) -> (u16, String) {
    read(answer(node, method, target, &[], body.to_owned()).await).await
}

async fn get<S: Stack>(node: &mut Node<S>, target: &str) -> Value {
    let (status, body) = ask(node, "GET", target, "").await;
    assert_eq!(status, 200, "{target}: {body}");
    serde_json::from_str(&body).unwrap()
}

/// A list of a member of 1.x.
const DATUM: &str = r#"{"com.alibaba.nacos.naming.iplist.ephemeral.public##G@@x":{"key":"com.alibaba.nacos.naming.iplist.ephemeral.public##G@@x","value":{"instanceList":[]}}}"#;

/// Every row for members, with something to say.
const ROWS: [(&str, &str, &str); 10] = [
    ("POST", "/v1/core/cluster/report", r#"{"ip":"10.0.0.2","port":8848,"address":"10.0.0.2:8848"}"#),
    ("POST", "/v1/core/cluster/server/leave?notifyOtherMembers=false", "[]"),
    ("PUT", "/v1/ns/distro/datum", DATUM),
    ("GET", "/v1/ns/distro/datum", r#"{"keys":"x"}"#),
    ("GET", "/v1/ns/distro/datums", ""),
    ("PUT", "/v1/ns/distro/checksum?source=10.0.0.2:8848", "{}"),
    ("POST", "/v1/ns/service/status", r#"{"clientIP":"10.0.0.2:8848","statuses":"{}"}"#),
    ("PUT", "/nacre/peer/verify", r#"{"source":"10.0.0.2:8848","root":"0"}"#),
    ("PUT", "/nacre/peer/keys", r#"{"source":"10.0.0.2:8848","buckets":[],"keys":[]}"#),
    ("PUT", "/nacre/peer/ask", r#"{"source":"10.0.0.2:8848","silent":[]}"#),
];

#[tokio::test]
async fn the_rows_of_members_answer_members_alone() {
    for (method, target, body) in ROWS {
        for (caller, status) in [
            ("10.0.0.2:5", 200),
            ("[::ffff:10.0.0.2]:5", 200),
            ("10.0.0.1:5", 200),
            ("10.0.0.3:5", 403),
            ("127.0.0.1:5", 403),
            ("[::1]:5", 403),
        ] {
            let mut node = exchanging().await;
            node.caller = caller.parse().unwrap();
            let (seen, text) = ask(&mut node, method, target, body).await;
            assert_eq!(seen, status, "{method} {target} from {caller}: {text}");
        }
    }
    let mut node = serving().await;
    node.caller = "10.0.0.3:5".parse().unwrap();
    assert_eq!(
        ask(&mut node, "GET", "/v1/ns/distro/datums", "").await.1,
        "caused: 10.0.0.3 is the address of no member; see nacre.peer.networks;"
    );
}

#[tokio::test]
async fn nobody_is_believed_who_speaks_for_one_that_is_not_listed() {
    let mut node = exchanging().await;
    for (named, status) in [(B, 200), (C, 200), (OWN, 403), ("10.0.0.3:8848", 403)] {
        for (entry, rest) in
            [("verify", r#""root":"0""#), ("keys", r#""buckets":[],"keys":[]"#), ("ask", r#""silent":[]"#)]
        {
            let body = format!(r#"{{"source":"{named}",{rest}}}"#);
            let (seen, text) = ask(&mut node, "PUT", &format!("/nacre/peer/{entry}"), &body).await;
            assert_eq!(seen, status, "{entry} of {named}: {text}");
        }
        let headers = [("request-source", named)];
        let (seen, text) = read(answer(&mut node, "PUT", "/v1/ns/distro/datum", &headers, DATUM).await).await;
        assert_eq!(seen, status, "datum of {named}: {text}");
    }
    assert_eq!(ask(&mut node, "PUT", "/v1/ns/distro/datum", DATUM).await.0, 200, "1.x doesn't say who it is");
    let other = ask(&mut node, "PUT", "/nacre/peer/ask", r#"{"source":"10.0.0.3:8848","silent":[]}"#).await;
    assert_eq!(other.1, "caused: 10.0.0.3:8848 is no other listed member;");
}

#[tokio::test]
async fn what_the_list_of_a_member_of_1x_lacks_has_gone_where_it_is_the_owner_and_says_who_it_is() {
    let cluster = cluster(Standing::Serving).await;
    for legacy in [B, C] {
        cluster.reported(&MemberReport { nacre: None, ..nacre(legacy) }, Millis(0));
    }
    let mut node = exchanging_in(cluster);
    let mut left = BTreeMap::new();
    for number in 0..24 {
        let of = format!("com.alibaba.nacos.naming.iplist.ephemeral.public##G@@s{number}");
        for list in [r#"{"ip":"10.9.9.9","port":80}"#, ""] {
            let datum =
                format!(r#"{{"{of}":{{"key":"{of}","value":{{"instanceList":[{list}]}},"timestamp":1}}}}"#);
            let headers = [("request-source", B)];
            let answer = answer(&mut node, "PUT", "/v1/ns/distro/datum", &headers, datum).await;
            assert_eq!(answer.status(), 200);
        }
        let service = format!("serviceName=G@@s{number}");
        let owner = get(&mut node, &format!("/v1/ns/operator/distro/server?{service}")).await;
        let list = get(&mut node, &format!("/v1/ns/instance/list?{service}&healthyOnly=false")).await;
        let hosts = list["hosts"].as_array().unwrap().len();
        left.entry(owner["responsibleServer"].as_str().unwrap().to_owned())
            .or_insert_with(BTreeSet::new)
            .insert(hosts);
    }
    // Of services of its own the node judges itself, and of those of another member the teller has copies.
    let expected =
        [(OWN, 1), (B, 0), (C, 1)].map(|(owner, hosts)| (owner.to_owned(), BTreeSet::from([hosts])));
    assert_eq!(left, BTreeMap::from(expected));
}

#[tokio::test]
async fn who_was_a_member_a_moment_ago_brings_data_in_its_own_name_and_nothing_else() {
    let cluster = cluster(Standing::Serving).await;
    let mut node = exchanging_in(cluster.clone());
    cluster.drop_members(&[at(B)]);
    for (named, status) in [(Some(B), 200), (Some(C), 403), (None, 403)] {
        let named_by = named.into_iter().map(|named| ("request-source", named));
        let headers: Vec<_> = named_by.chain([("x-nacre-peer", "1")]).collect();
        let answer = answer(&mut node, "PUT", "/v1/ns/distro/datum", &headers, DATUM).await;
        assert_eq!(answer.status(), status, "{named:?}");
    }
    let (seen, _) =
        ask(&mut node, "PUT", "/nacre/peer/ask", &format!(r#"{{"source":"{B}","silent":[]}}"#)).await;
    assert_eq!(seen, 403);
}

#[tokio::test]
async fn what_a_link_held_back_is_as_old_as_it_is() {
    let mut node = exchanging().await;
    let mut put = async |ip: &str, sent: &'static str| {
        let entry =
            format!(r#"{{"ip":"{ip}","port":80,"clusterName":"DEFAULT","nacreStamp":7,"nacreAge":10}}"#);
        let of = "com.alibaba.nacos.naming.iplist.ephemeral.public##G@@s";
        let datum = format!(
            r#"{{"{of}":{{"key":"{of}","timestamp":7,"nacre":{{"complete":false,"gone":[]}},"value":{{"instanceList":[{entry}]}}}}}}"#
        );
        let headers = [("request-source", B), ("x-nacre-peer", "1"), ("x-nacre-sent", sent)];
        let answer = answer(&mut node, "PUT", "/v1/ns/distro/datum", &headers, datum).await;
        node.clock.advance(10_000);
        let state = answer.headers().get("x-nacre-state").map(|state| state.to_str().unwrap().to_owned());
        (answer.status().as_u16(), state)
    };
    assert_eq!(put("10.0.0.7", "5.1000.3000").await, (200, None));
    assert_eq!(put("10.0.0.8", "5.1500.3000").await, (200, None));
    let late = (503, Some("late".to_owned()));
    assert_eq!(put("10.0.0.9", "5.1600.3000").await, late, "nobody waits for that");
    assert_eq!(put("10.0.0.9", "6.1600.3000").await, (200, None), "its clock stood still, and it knows");
    assert_eq!(put("10.0.0.9", "5.99000.3000").await, late, "of a former process");
    let headers = [("request-source", B), ("x-nacre-peer", "1")];
    let shown = read(answer(&mut node, "GET", "/v1/ns/distro/datums", &headers, "").await).await.1;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let list = shown.as_object().unwrap().values().next().unwrap()["value"]["instanceList"].clone();
    let last_beat = |index: usize| list[index]["lastBeat"].as_u64().unwrap() - 1_795_999_999_000;
    // Of the 9.5 s 10 ms may be a drift of the clocks.
    assert_eq!((last_beat(0), last_beat(1)), (990, 1_000 + 500 + 10 - 10), "{list}");
    assert_eq!(last_beat(2), 1_000 + 30_000 - 10);
}

#[tokio::test]
async fn a_network_or_the_secret_admits_others() {
    let set = [
        "nacre.peer.networks=127.0.0.0/8",
        "nacos.core.auth.server.identity.key=who",
        "nacos.core.auth.server.identity.value=s3cret",
    ];
    for (caller, headers, status) in [
        ("127.0.0.1:5", &[][..], 200),
        ("192.0.2.1:5", &[("who", "s3cret")], 200),
        ("192.0.2.1:5", &[("who", "secret")], 403),
        ("192.0.2.1:5", &[], 403),
    ] {
        let mut node = node(cluster(Standing::Serving).await, &set);
        node.caller = caller.parse().unwrap();
        let answer = answer(&mut node, "GET", "/v1/ns/distro/datums", headers, "").await;
        assert_eq!(answer.status(), status, "{caller} {headers:?}");
    }
}

#[tokio::test]
async fn what_consoles_and_clients_ask_answers_anybody() {
    let mut node = serving().await;
    assert_eq!(ask(&mut node, "POST", "/v1/ns/service?serviceName=a", "").await.0, 200);
    node.caller = "192.0.2.1:5".parse().unwrap();
    for target in [
        "/v1/core/cluster/nodes",
        "/v1/core/cluster/self",
        "/v1/ns/operator/servers",
        "/v1/ns/operator/cluster/state",
        "/v1/ns/instance/statuses?key=public%23%23DEFAULT_GROUP@@a",
        "/serverlist",
    ] {
        assert_eq!(ask(&mut node, "GET", target, "").await.0, 200, "{target}");
    }
}

#[tokio::test]
async fn only_members_bring_large_bodies() {
    let body = format!(r#"{{"x":{{"key":"x","value":null}}}}{}"#, " ".repeat(11 << 20));
    for (caller, status) in [("10.0.0.2:5", 200), ("10.0.0.3:5", 413)] {
        let mut node = serving().await;
        node.caller = caller.parse().unwrap();
        assert_eq!(ask(&mut node, "PUT", "/v1/ns/distro/datum", &body).await.0, status, "{caller}");
        assert_eq!(ask(&mut node, "PUT", "/v1/ns/instance/beat", &body).await.0, 413, "{caller}");
    }
    let mut node = node(cluster(Standing::Serving).await, &["nacre.peer.max-body-bytes=12MB"]);
    assert_eq!(ask(&mut node, "PUT", "/v1/ns/distro/datum", &" ".repeat(13 << 20)).await.0, 413);
}

/// A report of a Nacre node.
fn report(address: &str) -> String {
    String::from_utf8(document::write(&nacre(address))).unwrap()
}

#[tokio::test]
async fn a_report_of_a_listed_member_is_taken_and_shown() {
    let mut node = serving().await;
    let body = report(C).replace(r#""raftPort""#, r#""raftMetaData":{"a":[1]},"raftPort""#);
    let answer = answer(&mut node, "POST", "/v1/core/cluster/report", &[], body).await;
    assert_eq!(answer.headers()["x-nacre-peer"], "1");
    assert_eq!(read(answer).await, (200, r#"{"code":200,"message":null,"data":"true"}"#.to_owned()));
    let expected = json!([{
        "ip": "nacos-2.nacos", "port": 8849, "state": "DOWN", "address": C, "failAccessCnt": 0,
        "extendInfo": {
            "lastRefreshTime": 1_796_000_000_000_u64, "nacre": {"protocol": 1}, "raftMetaData": {"a": [1]},
            "raftPort": "7849", "version": "1.4.8",
        },
    }]);
    assert_eq!(get(&mut node, "/v1/core/cluster/nodes?keyword=nacos").await["data"], expected);
    // All listed members have shown that they are Nacre nodes now: a report alone brings none up.
    let third = node.cluster.view().peer(&at(C)).unwrap().clone();
    assert_eq!((third.nacre, third.state.as_str()), (Some(1), "DOWN"));
}

#[tokio::test]
async fn a_report_of_another_changes_nothing() {
    let mut node = serving().await;
    let before = node.cluster.members();
    let (status, text) = ask(&mut node, "POST", "/v1/core/cluster/report", &report("10.0.0.9:8848")).await;
    assert_eq!((status, &*text), (200, r#"{"code":200,"message":null,"data":"false"}"#));
    for (body, status, text) in [
        ("{}", 200, r#"{"code":400,"message":"Node information is illegal","data":null}"#),
        (
            r#"{"ip":"","port":-1}"#,
            200,
            r#"{"code":400,"message":"Node information is illegal","data":null}"#,
        ),
        (
            r#"{"ip":"a","port":1,"address":"a:1","extendInfo":1}"#,
            500,
            "caused: JSON parse error: extendInfo is no object;",
        ),
        ("", 500, "caused: Required request body is missing;"),
    ] {
        let answer = ask(&mut node, "POST", "/v1/core/cluster/report", body).await;
        assert_eq!(answer, (status, text.to_owned()), "{body}");
    }
    assert_eq!(node.cluster.members(), before);
}

#[tokio::test]
async fn a_node_that_is_not_ready_takes_no_reports() {
    for (standing, state) in [
        (Standing::Starting, Some("starting")),
        (Standing::Comparing, Some("starting")),
        (Standing::Removed, None),
    ] {
        let mut node = node(cluster(standing).await, &[]);
        let before = node.cluster.members();
        let answer = answer(&mut node, "POST", "/v1/core/cluster/report", &[], report(C)).await;
        assert_eq!(answer.status(), 404);
        let said = answer.headers().get("x-nacre-state").map(|state| state.to_str().unwrap().to_owned());
        assert_eq!(said.as_deref(), state);
        assert_eq!(node.cluster.members(), before);
    }
    let mut node = node(cluster(Standing::Leaving).await, &[]);
    assert_eq!(ask(&mut node, "POST", "/v1/core/cluster/report", &report(C)).await.0, 200);
}

#[tokio::test]
async fn a_node_shows_its_data_from_the_end_of_its_loading_on() {
    for (standing, status, state) in [
        (Standing::Starting, 503, Some("starting")),
        (Standing::Removed, 503, Some("removed")),
        (Standing::Comparing, 200, None),
        (Standing::Serving, 200, None),
    ] {
        let mut node = node(cluster(standing).await, &[]);
        for target in ["/v1/ns/distro/datum", "/v1/ns/distro/datums"] {
            let answer = answer(&mut node, "GET", target, &[], r#"{"keys":""}"#).await;
            assert_eq!(answer.status(), status, "{standing:?} {target}");
            let said = answer.headers().get("x-nacre-state").map(|state| state.to_str().unwrap().to_owned());
            assert_eq!(said.as_deref(), state, "{standing:?} {target}");
        }
    }
}

#[tokio::test]
async fn members_are_shown_to_operators_and_clients() {
    let mut node = serving().await;
    let own = json!({
        "ip": "10.0.0.1", "port": 8848, "state": "UP", "address": OWN, "failAccessCnt": 0,
        "extendInfo": {
            "lastRefreshTime": 1_796_000_000_000_u64, "nacre": {"protocol": 1, "list": LIST}, "raftPort": "7848",
            "version": "1.4.8",
        },
    });
    let second = json!({
        "ip": "10.0.0.2", "port": 8848, "state": "UP", "address": B, "failAccessCnt": 0,
        "extendInfo": {"nacre": {"protocol": 1}, "raftPort": "7848", "version": "1.4.8"},
    });
    let third = json!({
        "ip": "nacos-2.nacos", "port": 8849, "state": "DOWN", "address": C, "failAccessCnt": 0,
        "extendInfo": {"raftPort": "7849"},
    });
    let all = json!([own, second, third]);
    assert_eq!(
        get(&mut node, "/v1/core/cluster/nodes").await,
        json!({"code": 200, "message": null, "data": all})
    );
    assert_eq!(get(&mut node, "/v1/core/cluster/nodes?keyword=10.0.0.1").await["data"], json!([own]));
    assert_eq!(get(&mut node, "/v1/core/cluster/self").await["data"], own);
    assert_eq!(get(&mut node, "/v1/core/cluster/simple/nodes").await["data"], json!([OWN, B, C]));
    assert_eq!(get(&mut node, "/v1/core/cluster/health").await["data"], "UP");
    assert_eq!(get(&mut node, "/v1/ns/operator/servers").await, json!({"servers": all}));
    assert_eq!(
        get(&mut node, "/v1/ns/operator/servers?healthy=true").await,
        json!({"servers": [own, second]})
    );
    assert_eq!(get(&mut node, "/v1/ns/operator/distro/status").await, json!({"status": all}));
    assert_eq!(get(&mut node, "/v1/ns/operator/distro/status?action=x").await, json!({}));
    let lines = ask(&mut node, "GET", "/serverlist", "").await;
    assert_eq!(lines, (200, format!("{OWN}\n{B}\n{C}\n")));
}

#[tokio::test]
async fn a_node_that_starts_or_was_removed_says_so() {
    let mut starting = node(cluster(Standing::Starting).await, &[]);
    assert_eq!(get(&mut starting, "/v1/core/cluster/health").await["data"], "STARTING");
    let own = get(&mut starting, "/v1/core/cluster/self").await;
    assert_eq!(own["data"]["state"], "STARTING");
    assert_eq!(own["data"]["extendInfo"]["nacre"], json!({"protocol": 1, "starting": true, "list": LIST}));
    let mut removed = node(cluster(Standing::Removed).await, &[]);
    assert_eq!(get(&mut removed, "/v1/core/cluster/health").await["data"], "DOWN");
    let own = get(&mut removed, "/v1/core/cluster/self").await;
    assert_eq!((&own["data"]["state"], &own["data"]["address"]), (&json!("DOWN"), &json!(OWN)));
    assert_eq!(get(&mut removed, "/v1/core/cluster/simple/nodes").await["data"], json!([B, C]));
}

#[tokio::test]
async fn a_node_without_members_lists_itself() {
    let mut node = in_process::start();
    assert_eq!(ask(&mut node, "GET", "/serverlist", "").await, (200, "127.0.0.1:8848\n".to_owned()));
    node.caller = "192.0.2.1:5".parse().unwrap();
    for (method, target, body) in ROWS {
        assert_eq!(ask(&mut node, method, target, body).await.0, 403, "{target}");
    }
}

#[tokio::test]
async fn nobody_but_the_own_host_drains_a_node() {
    let mut node = serving().await;
    for (caller, header, status) in [
        // A member of another host neither.
        ("10.0.0.2:5", "x", 403),
        ("192.0.2.1:5", "x", 403),
        ("127.0.0.1:5", "via", 403),
        ("127.0.0.1:5", "x-real-ip", 403),
        ("127.0.0.1:5", "x", 200),
        ("[::1]:5", "x", 200),
    ] {
        node.caller = caller.parse().unwrap();
        let mut request = node.request("PUT", "", &[(header, "a")]);
        *request.uri_mut() = "/nacre/drain".parse().unwrap();
        let (told, text) = read(node.send(request).await).await;
        assert_eq!(told, status, "{caller} {header}: {text}");
    }
}

#[tokio::test]
async fn who_is_responsible_is_told_by_the_ring() {
    let mut node = serving().await;
    let names: Vec<String> = (0..40).map(|number| format!("a{number}")).collect();
    for name in &names {
        assert_eq!(ask(&mut node, "POST", &format!("/v1/ns/service?serviceName={name}"), "").await.0, 200);
    }
    let view = node.cluster.view();
    let mut own = 0;
    for name in &names {
        let told = get(&mut node, &format!("/v1/ns/operator/distro/server?serviceName={name}")).await;
        let hash = nacre::base::java::hash(&format!("DEFAULT_GROUP@@{name}"));
        let index = (hash % i32::MAX).unsigned_abs() as usize % 2;
        assert_eq!(told["responsibleServer"], [OWN, B][index], "{name}");
        own += usize::from(index == 0);
    }
    assert_eq!(view.ring, [at(OWN), at(B)]);
    assert!(own > 0 && own < 40);
    let metrics = get(&mut node, "/v1/ns/operator/metrics").await;
    assert_eq!(metrics["serviceCount"], 40);
    assert_eq!(metrics["responsibleServiceCount"], own);
    let counts = async |node: &mut Node<_>, set: &str| {
        let names = get(node, &format!("/v1/ns/service/names?responsibleOnly={set}")).await;
        let doms = get(node, &format!("/v1/ns/api/allDomNames?responsibleOnly={set}")).await;
        (names["services"]["public"].as_array().unwrap().len(), doms["count"].clone())
    };
    assert_eq!(counts(&mut node, "true").await, (own, own.into()));
    assert_eq!(counts(&mut node, "false").await, (40, 40.into()));
    assert_eq!(
        ask(&mut node, "PUT", "/v1/ns/operator/switches?entry=distro&value=false&debug=true", "").await.0,
        200
    );
    for name in &names {
        let told = get(&mut node, &format!("/v1/ns/operator/distro/server?serviceName={name}")).await;
        assert_eq!(told["responsibleServer"], OWN);
    }
    assert_eq!(get(&mut node, "/v1/ns/operator/metrics").await["responsibleServiceCount"], 40);
}

#[tokio::test]
async fn only_listed_members_tell_of_themselves() {
    let mut node = serving().await;
    let statuses = |address: &str| format!(r#"{{"clientIP":"{address}","statuses":"{{}}"}}"#);
    for listed in [OWN, B, C] {
        let answer = ask(&mut node, "POST", "/v1/ns/service/status", &statuses(listed)).await;
        assert_eq!(answer, (200, "ok".to_owned()), "{listed}");
        let target = format!("/v1/ns/operator/server/status?serverStatus=unknown%23{listed}%235%231%0D%0A");
        assert_eq!(ask(&mut node, "GET", &target, "").await, (200, "ok".to_owned()), "{listed}");
    }
    let other = "10.0.0.20:8848";
    let answer = ask(&mut node, "POST", "/v1/ns/service/status", &statuses(other)).await;
    assert_eq!(answer, (500, "caused: ip: 10.0.0.20:8848 is not in serverlist;".to_owned()));
    let target = format!("/v1/ns/operator/server/status?serverStatus=unknown%23{other}%235%231%0D%0A");
    let answer = ask(&mut node, "GET", &target, "").await;
    assert_eq!(answer, (400, "caused: server: 10.0.0.20:8848 is not in serverlist;".to_owned()));
}

#[tokio::test]
async fn members_are_believed_for_whom_they_pass_requests_on() {
    let target = "/v1/ns/instance/list?serviceName=a&udpPort=5000&clientIP=8.8.8.8";
    let headers = [("x-forwarded-for", "8.8.8.8"), ("user-agent", "Nacos-Java-Client:v1.4.8")];
    for (caller, cache_millis) in [("10.0.0.2:5", 10_000), ("10.0.0.3:5", 3_000)] {
        let mut node = serving().await;
        node.caller = caller.parse().unwrap();
        let request = node.request("GET", target, &headers);
        let (_, body) = read(node.send(request).await).await;
        let list: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(list["cacheMillis"], cache_millis, "{caller}: {body}");
    }
}

#[tokio::test]
async fn who_leaves_is_no_member_and_the_others_are_told() {
    let third = TcpListener::bind("127.0.20.1:0").await.unwrap();
    let via = format!("nacre.peer.via={C}>{}", third.local_addr().unwrap());
    let mut node = node(cluster(Standing::Serving).await, &[&via]);
    let told = tokio::spawn(async move {
        let mut stream = third.accept().await.unwrap().0;
        let mut request = vec![0; 4096];
        let mut read = 0;
        while !request[..read].ends_with(b"]") {
            read += stream.read(&mut request[read..]).await.unwrap();
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
        String::from_utf8(request[..read].to_vec()).unwrap()
    });
    let leaving = format!(r#"["{B}","10.0.0.9:1"]"#);
    let answer = ask(&mut node, "POST", "/v1/core/cluster/server/leave", &leaving).await;
    assert_eq!(answer, (200, r#"{"code":200,"message":null,"data":"ok"}"#.to_owned()));
    assert_eq!(get(&mut node, "/v1/core/cluster/simple/nodes").await["data"], json!([OWN, C]));
    let told = told.await.unwrap();
    assert!(
        told.starts_with("POST /nacos/v1/core/cluster/server/leave?notifyOtherMembers=false HTTP/1.1\r\n")
    );
    assert!(told.ends_with(r#"["10.0.0.2:8848","10.0.0.9:1"]"#), "{told}");
    // It was a member when it asked, and isn't any more.
    assert_eq!(ask(&mut node, "POST", "/v1/core/cluster/server/leave", "[]").await.0, 403);
    node.caller = "10.0.0.1:5".parse().unwrap();
    let wrong = ask(&mut node, "POST", "/v1/core/cluster/server/leave?notifyOtherMembers=maybe", "[]").await;
    assert_eq!(wrong.0, 500);
}

#[tokio::test]
async fn the_lookup_is_switched_where_there_is_one() {
    let mut alone = in_process::start();
    let told = |code: u16, text: &str| (200, format!(r#"{{"code":{code},"message":"{text}","data":null}}"#));
    let switch = "/v1/core/cluster/switch/lookup?type=";
    let answer = ask(&mut alone, "POST", &format!("{switch}file"), "").await;
    assert_eq!(answer, told(500, "this node serves alone"));
    let mut node = serving().await;
    // Nobody reads the list of this one.
    let answer = ask(&mut node, "POST", &format!("{switch}address-server"), "").await;
    assert_eq!(answer, told(500, "the list of members isn't read now"));
    let answer = ask(&mut node, "POST", &format!("{switch}dns"), "").await;
    let text = "The addressing mode exists : dns, just support : [[file, address-server]]";
    assert_eq!(answer, told(500, text));
    let (cluster, watch) = watched(Standing::Serving).await;
    let stopped = CancellationToken::new();
    let _reading = stopped.clone().drop_guard();
    tokio::spawn(watch.run(cluster.clone(), stopped));
    let mut switched = self::node(cluster, &[]);
    let answer = ask(&mut switched, "POST", &format!("{switch}file"), "").await;
    assert_eq!(answer, (200, r#"{"code":200,"message":null,"data":null}"#.to_owned()));
}
