//! What is sent, against what a real member was recorded sending; and what answers are taken for.

use std::collections::BTreeSet;

use percent_encoding::percent_decode_str;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::*;
use crate::{
    base::client::CallError,
    cluster::{Evidence, NacreMark},
    config::{Sources, load},
};

/// A recorded exchange.
#[derive(Clone, Debug, Deserialize)]
struct Exchange {
    name: String,
    request: String,
    headers: Vec<(String, String)>,
    body: String,
    status: String,
    response_body: String,
}

impl Exchange {
    fn find(name: &str) -> Self {
        let files = ["distro", "member", "service"].map(|file| {
            let path = format!("{}/compat-tests/wire/{file}.json", env!("CARGO_MANIFEST_DIR"));
            serde_json::from_str::<Vec<Self>>(&std::fs::read_to_string(path).unwrap()).unwrap()
        });
        files.into_iter().flatten().find(|exchange| exchange.name == name).unwrap()
    }

    fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Method, path, parameters as a set, body.
    fn compared(&self) -> (String, String, BTreeSet<(String, String)>, String) {
        let mut words = self.request.split(' ');
        let (method, target) = (words.next().unwrap(), words.next().unwrap());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let decode = |text: &str| percent_decode_str(text).decode_utf8().unwrap().into_owned();
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let parameters = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let parameters = parameters.map(|(name, value)| (decode(name), decode(value))).collect();
        (method.to_owned(), path.to_owned(), parameters, self.body.clone())
    }

    fn status(&self) -> &str {
        self.status.split(' ').nth(1).unwrap()
    }
}

/// A member that notes one request and answers as told.
struct Member {
    address: Address,
    request: tokio::task::JoinHandle<Exchange>,
}

impl Member {
    async fn start(status: &str, answer: &str) -> Self {
        Self::start_with(&format!("{status} x\r\nContent-Length: {}\r\n\r\n{answer}", answer.len())).await
    }

    /// Answers with what follows `HTTP/1.1 `.
    async fn start_with(answer: &str) -> Self {
        let listener = TcpListener::bind("127.0.20.1:0").await.unwrap();
        let address = Address::new(&listener.local_addr().unwrap().to_string());
        let answer = format!("HTTP/1.1 {answer}");
        let request = tokio::spawn(async move {
            let mut stream = listener.accept().await.unwrap().0;
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap();
            let mut lines = head.trim_end().split("\r\n");
            let request = lines.next().unwrap().to_owned();
            let headers = lines.map(|line| line.split_once(": ").unwrap());
            let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            let (name, status, response_body) = (String::new(), String::new(), String::new());
            let mut seen = Exchange { name, request, headers, body: String::new(), status, response_body };
            let length = seen.header("content-length").map_or(0, |length| length.parse().unwrap());
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            seen.body = String::from_utf8(body).unwrap();
            seen
        });
        Self { address, request }
    }
}

fn settings(set: &[&str]) -> Settings {
    let set = set.iter().map(ToString::to_string).collect();
    let sources = Sources { set, ..Sources::default() };
    load(&sources, &|_| Err(std::io::ErrorKind::NotFound.into())).unwrap().settings
}

/// The calls of a member that is listed as this.
fn peers(own: &str) -> Peers {
    Peers::new(Address::new(own), 1, &settings(&[]))
}

/// Makes the call against a member that answers as recorded; what it saw must equal the recorded request.
async fn check<T>(name: &str, call: impl AsyncFnOnce(Address, Exchange) -> T) -> T {
    let recorded = Exchange::find(name);
    let member = Member::start(recorded.status(), &recorded.response_body).await;
    let outcome = call(member.address, recorded.clone()).await;
    let seen = member.request.await.unwrap();
    assert_eq!(seen.compared(), recorded.compared(), "{name}");
    assert_eq!(seen.header("x-nacre-peer"), Some("1"), "{name}");
    assert_eq!(seen.header("user-agent"), Some("Nacos-Server:v1.4.8"), "{name}");
    assert_eq!(seen.header("client-version"), Some("1.4.8"), "{name}");
    assert_eq!(seen.header("content-encoding"), None, "{name}");
    let json = (!seen.body.is_empty()).then_some("application/json;charset=UTF-8");
    assert_eq!(seen.header("content-type"), json, "{name}");
    outcome
}

const OWN: &str = "127.0.0.32:29148";

#[tokio::test]
async fn a_report_is_sent_as_recorded_and_the_answer_understood() {
    let listed = check("report_real_to_real", async |to, recorded| {
        let report = document::read(recorded.body.as_bytes()).unwrap();
        peers(OWN).report(&to, &report).await.unwrap()
    })
    .await;
    assert_eq!(listed, ReportAnswer { listed: true, called: None, nacre: None });
}

#[tokio::test]
async fn a_report_says_the_version_in_a_header_and_the_answer_the_protocol() {
    let answer = r#"{"code":200,"message":null,"data":"false"}"#;
    let head = format!(
        "200 x\r\nX-Nacre-Peer: 3\r\nX-Nacre-Member: 127.0.20.9:1\r\nContent-Length: {}\r\n\r\n",
        answer.len()
    );
    let member = Member::start_with(&[&head, answer].concat()).await;
    let report = MemberReport::of_nacre(&Address::new(OWN), NacreMark::default());
    let answer = peers(OWN).report(&member.address, &report).await.unwrap();
    assert_eq!(
        answer,
        ReportAnswer { listed: false, called: Some(Address::new("127.0.20.9:1")), nacre: Some(3) }
    );
    assert_eq!(member.request.await.unwrap().header("nacos-server"), Some("1.4.8"));
}

#[tokio::test]
async fn data_are_put_as_recorded_but_for_the_false_gzip_header() {
    for name in ["datum_put", "datum_put_batch", "datum_put_empty_list", "datum_put_metadata"] {
        let answer = check(name, async |to, recorded| {
            peers(OWN).put_data(&to, recorded.body.into(), &[], 7).await.unwrap()
        })
        .await;
        assert_eq!(answer, "ok", "{name}");
    }
}

#[tokio::test]
async fn checksums_are_sent_as_recorded() {
    check("checksum", async |to, recorded| {
        peers(OWN).checksum(&to, recorded.body.into()).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn data_are_asked_for_as_recorded() {
    let answer = check("datum_get_keys", async |to, _| {
        let key = "com.alibaba.nacos.naming.iplist.ephemeral.public##DEFAULT_GROUP@@mc825e_1_1";
        peers(OWN).data(&to, &[key]).await.unwrap()
    })
    .await;
    assert_eq!(answer, Exchange::find("datum_get_keys").response_body);
    check("datum_get_from_foreign", async |to, recorded| {
        let body: Value = serde_json::from_str(&recorded.body).unwrap();
        let keys: Vec<&str> = body["keys"].as_str().unwrap().split(',').collect();
        peers(OWN).data(&to, &keys).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn all_data_are_asked_for_as_recorded() {
    for name in ["datums_empty", "datums_loaded", "datums_after_restart", "datums_from_foreign"] {
        let (nacre, text) = check(name, async |to, _| {
            let mut all = peers("127.0.0.34:33148").all_data(&to).await.unwrap();
            let mut text = Vec::new();
            while let Some(part) = all.next().await.unwrap() {
                text.extend_from_slice(&part);
            }
            (all.nacre, String::from_utf8(text).unwrap())
        })
        .await;
        assert_eq!((nacre, text), (None, Exchange::find(name).response_body));
    }
}

#[tokio::test]
async fn all_data_that_do_not_come_whole_or_in_time_are_a_failure_of_the_member() {
    let load = async |answer: &str, set: &[&str]| {
        let member = Member::start_with(answer).await;
        let mut all = Peers::new(Address::new(OWN), 1, &settings(set)).all_data(&member.address).await?;
        while all.next().await?.is_some() {}
        Ok::<_, PeerError>(())
    };
    let cut = load("200 x\r\nContent-Length: 9\r\n\r\n{", &[]).await.unwrap_err();
    assert!(matches!(cut, PeerError::Malformed(_)), "{cut}");
    let starting = "503 x\r\nX-Nacre-State: starting\r\nContent-Length: 0\r\n\r\n";
    assert!(matches!(load(starting, &[]).await.unwrap_err(), PeerError::Starting));
    let listener = TcpListener::bind("127.0.20.1:0").await.unwrap();
    let to = Address::new(&listener.local_addr().unwrap().to_string());
    let calls =
        Peers::new(Address::new(OWN), 1, &settings(&["nacos.core.protocol.distro.data.load.timeoutMs=200"]));
    let loading = async {
        let mut all = calls.all_data(&to).await?;
        while all.next().await?.is_some() {}
        Ok::<_, PeerError>(())
    };
    let slowly = async {
        let mut stream = listener.accept().await.unwrap().0;
        // An answer before the request would be none.
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(b"HTTP/1.1 200 x\r\nContent-Length: 9\r\n\r\n{").await.unwrap();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        loaded = loading => assert!(matches!(loaded, Err(PeerError::Silent)), "{loaded:?}"),
        () = slowly => {}
    }
}

#[tokio::test]
async fn service_checksums_are_sent_as_recorded() {
    for (name, checksums) in [
        (
            "status",
            &[
                ("DEFAULT_GROUP@@mc825e_6_0", "c7dd11a0a6ebe0234f66cc80118fa9bb"),
                ("DEFAULT_GROUP@@mc825e_3_0", "f78f43d580817dc9ef0b26e9b37c90ac"),
                ("DEFAULT_GROUP@@mc825e_0_0", "47dd2444a4a5f2be26dd92dfce5b46cb"),
            ][..],
        ),
        ("status_empty", &[]),
    ] {
        check(name, async |to, _| {
            let checksums = checksums.iter().copied();
            peers(OWN).service_status(&to, "public", checksums).await.unwrap();
        })
        .await;
    }
}

#[tokio::test]
async fn statuses_are_asked_for_as_recorded_and_read() {
    let statuses = check("statuses", async |to, _| {
        peers(OWN).statuses(&to, "public", "DEFAULT_GROUP@@mc825e_0_0").await.unwrap()
    })
    .await;
    assert_eq!(statuses, [("10.1.1.1:80".to_owned(), false)]);
    let member = Member::start("200", r#"{"ips":["a_b:1_true","[::1]:2_false","odd"]}"#).await;
    let statuses = peers(OWN).statuses(&member.address, "n", "g@@s").await.unwrap();
    assert_eq!(statuses, [("a_b:1".to_owned(), true), ("[::1]:2".to_owned(), false)]);
}

#[tokio::test]
async fn a_leave_names_the_leaving_and_whether_to_tell_others() {
    let member = Member::start("200", r#"{"code":200,"message":null,"data":"ok"}"#).await;
    let leaving = [Address::new("10.0.0.1:8848"), Address::new("10.0.0.2:8848")];
    peers(OWN).leave(&member.address, &leaving, false).await.unwrap();
    let seen = member.request.await.unwrap();
    assert_eq!(seen.request, "POST /nacos/v1/core/cluster/server/leave?notifyOtherMembers=false HTTP/1.1");
    assert_eq!(seen.body, r#"["10.0.0.1:8848","10.0.0.2:8848"]"#);
}

#[tokio::test]
async fn nacre_members_compare_outside_the_context_path() {
    let (member, other) = (Member::start("200", "{}").await, Member::start("200", "[]").await);
    let calls = Peers::new(Address::new(OWN), 1, &settings(&["server.servlet.context-path=/x"]));
    assert_eq!(calls.verify(&member.address, Bytes::from_static(b"{\"a\":1}"), 7).await.unwrap(), "{}");
    assert_eq!(calls.keys(&other.address, Bytes::from_static(b"{}")).await.unwrap(), "[]");
    let seen = member.request.await.unwrap();
    assert_eq!((&*seen.request, &*seen.body), ("PUT /nacre/peer/verify HTTP/1.1", "{\"a\":1}"));
    assert_eq!(seen.header("x-nacre-sent"), Some("1.7.3000"), "when it was written");
    assert_eq!(other.request.await.unwrap().request, "PUT /nacre/peer/keys HTTP/1.1");
}

#[tokio::test]
async fn the_own_context_path_the_own_address_and_the_identity_are_used() {
    let member = Member::start("200", "{}").await;
    let settings = settings(&[
        "server.servlet.context-path=/",
        "nacos.core.auth.server.identity.key=Identity-Key",
        "nacos.core.auth.server.identity.value=s3cret",
    ]);
    let calls = Peers::new(Address::new("[::1]:8848"), 1, &settings);
    calls.checksum(&member.address, Bytes::new()).await.unwrap();
    let seen = member.request.await.unwrap();
    assert_eq!(seen.request, "PUT /v1/ns/distro/checksum?source=%5B%3A%3A1%5D%3A8848 HTTP/1.1");
    assert_eq!(seen.header("identity-key"), Some("s3cret"));
    assert!(!format!("{:?}", calls.headers()).contains("s3cret"));
}

#[tokio::test]
async fn calls_come_from_the_own_address_and_go_by_a_way_round() {
    let listener = TcpListener::bind("127.0.20.1:0").await.unwrap();
    let via = format!("nacre.peer.via=10.255.255.1:8848>{}", listener.local_addr().unwrap());
    let calls = Peers::new(Address::new("127.0.20.8:8848"), 1, &settings(&[&via]));
    let calling =
        tokio::spawn(async move { calls.all_data(&Address::new("10.255.255.1:8848")).await.map(drop) });
    let (stream, from) = listener.accept().await.unwrap();
    assert_eq!(from.ip().to_string(), "127.0.20.8");
    drop(stream);
    assert_eq!(calling.await.unwrap().unwrap_err().evidence(), Evidence::Gone);
}

/// What a report's failure is, of a member that answers so.
async fn failure(answer: &str) -> PeerError {
    let member = Member::start_with(answer).await;
    let report = MemberReport::of_nacre(&Address::new(OWN), NacreMark::default());
    peers(OWN).report(&member.address, &report).await.unwrap_err()
}

#[tokio::test]
async fn answers_say_what_to_do() {
    for (answer, expected) in [
        ("500 x\r\nContent-Length: 2\r\n\r\nno", "the member answered 500 Internal Server Error: no"),
        ("503 x\r\nX-Nacre-State: starting\r\nContent-Length: 0\r\n\r\n", "the member is starting"),
        ("404 x\r\nX-Nacre-State: starting\r\nContent-Length: 0\r\n\r\n", "the member is starting"),
        ("404 x\r\nContent-Length: 0\r\n\r\n", "the member doesn't know this call (404 Not Found)"),
        ("501 x\r\nContent-Length: 0\r\n\r\n", "the member doesn't know this call (501 Not Implemented)"),
        ("403 x\r\nContent-Length: 1\r\n\r\nb", "the member doesn't take this node for one: b"),
        ("200 x\r\nContent-Length: 2\r\n\r\nok", "the member's answer can't be used"),
        ("200 x\r\nContent-Length: 0\r\n\r\n", "the member's answer can't be used"),
        ("200 x\r\nContent-Length: 9\r\n\r\n{", "the member's answer can't be used"),
        ("200 x\r\nContent-Length: 70000\r\n\r\n{", "the member's answer can't be used"),
        (
            "200 x\r\nContent-Length: 39\r\n\r\n{\"code\":500,\"message\":\"x\",\"data\":null}\n",
            "the member answered 500 Internal Server Error: x",
        ),
    ] {
        let error = failure(answer).await;
        assert_eq!(error.to_string(), expected, "{answer}");
        let nothing = matches!(error, PeerError::Starting | PeerError::Unknown(_));
        assert_eq!(error.evidence() == Evidence::None, nothing, "{answer}");
        assert!(nothing || error.evidence() == Evidence::Failing, "{answer}");
    }
}

#[tokio::test]
async fn whoever_is_not_there_is_gone_and_who_is_silent_only_fails() {
    let listener = TcpListener::bind("127.0.20.1:0").await.unwrap();
    let to = Address::new(&listener.local_addr().unwrap().to_string());
    let calls = Peers::new(Address::new(OWN), 1, &settings(&["nacre.report.timeout-ms=50"]));
    let report = MemberReport::of_nacre(&Address::new(OWN), NacreMark::default());
    let silent = calls.report(&to, &report).await.unwrap_err();
    assert!(matches!(silent, PeerError::Silent));
    assert_eq!(silent.evidence(), Evidence::Failing);
    drop(listener);
    let gone = calls.report(&to, &report).await.unwrap_err();
    assert!(matches!(gone, PeerError::Gone(CallError::Refused(_))));
    assert_eq!(gone.evidence(), Evidence::Gone);
    let impossible = calls.report(&Address::new("a b"), &report).await.unwrap_err();
    assert_eq!(impossible.evidence(), Evidence::None);
}
