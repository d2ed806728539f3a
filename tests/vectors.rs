//! Hashes and checksums that the real server gave, against ours.
//!
//! `compat-tests/wire` holds them: for checksums also the requests that made the service, which are sent here.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "support/in_process.rs"]
#[allow(dead_code, reason = "each test uses a part of it")]
mod in_process;

use std::{collections::BTreeMap, fs, path::Path};

use nacre::{
    base::java,
    cluster::{Address, Mapping, MemberState, Peer, Standing, View},
    distro::mapper::{self, Owner},
};
use serde::Deserialize;
use serde_json::Value;

fn read<T: for<'de> Deserialize<'de>>(file: &str) -> Vec<T> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("compat-tests/wire").join(file);
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[derive(Deserialize)]
struct Hash {
    service: String,
    members: Vec<String>,
    #[serde(rename = "hashCode")]
    hash_code: i32,
    responsible: String,
}

#[test]
fn names_hash_as_in_java_and_fall_to_the_member_that_the_real_server_names() {
    let vectors: Vec<Hash> = read("distro-hash.json");
    assert!(vectors.len() > 100);
    for Hash { service, members, hash_code, responsible } in vectors {
        assert_eq!(java::hash(&service), hash_code, "{service}");
        let owner =
            seen_by_the_first(&members, Mapping::Modulo, |view| match mapper::owner(view, &service) {
                Owner::Here => view.own.to_string(),
                Owner::Peer(address) => address.to_string(),
                Owner::Nobody => String::new(),
            });
        assert_eq!(owner, responsible, "{service} {members:?}");
    }
}

/// What `look` makes of the view of the first of `members`, all of them up.
fn seen_by_the_first<T>(members: &[String], mapping: Mapping, look: impl FnOnce(&View) -> T) -> T {
    let mut addresses = members.iter().map(|text| Address::new(text));
    let own = addresses.next().unwrap();
    let peer = |address| Peer { nacre: Some(1), ..Peer::new(address, MemberState::Up) };
    look(&View::new(own, Standing::Serving, addresses.map(peer).collect(), mapping))
}

#[test]
fn by_rendezvous_one_nth_of_the_services_moves_when_a_member_joins_or_leaves() {
    let members = |count: usize| (1..=count).map(|n| format!("10.0.0.{n}:8848")).collect::<Vec<_>>();
    let owners = |members: &[String]| -> Vec<String> {
        seen_by_the_first(members, Mapping::Rendezvous, |view| {
            let name = |n: usize| format!("DEFAULT_GROUP@@service-{n}");
            let owner = |n| match mapper::owner(view, &name(n)) {
                Owner::Peer(address) => address.to_string(),
                Owner::Here => view.own.to_string(),
                Owner::Nobody => String::new(),
            };
            (0..10_000).map(owner).collect()
        })
    };
    for count in 2..8 {
        let (fewer, more) = (owners(&members(count)), owners(&members(count + 1)));
        let moved: Vec<_> = (0..10_000).filter(|&n| fewer[n] != more[n]).collect();
        let joined = format!("10.0.0.{}:8848", count + 1);
        assert!(moved.iter().all(|&n| more[n] == joined), "only to the one that joined");
        let share = 10_000 / (count + 1);
        assert!(moved.len() * 10 <= share * 11, "{} of {share} to {count}", moved.len());
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Checksum {
    note: String,
    service: String,
    namespace_id: String,
    requests: Vec<(String, String, BTreeMap<String, Value>)>,
    checksum: String,
}

#[tokio::test]
async fn services_have_the_checksums_of_the_real_server() {
    let vectors: Vec<Checksum> = read("service-checksum.json");
    assert!(vectors.len() > 70);
    let mut node = in_process::start();
    for Checksum { note, service, namespace_id, requests, checksum } in vectors {
        for (method, path, parameters) in requests {
            let target = format!("{}?{}", path.trim_start_matches("/nacos"), query(&parameters));
            let (status, body) = node.ask(&method, &target).await;
            assert_eq!(status, 200, "{note}: {method} {target}: {body}");
        }
        let of = [("namespaceId", namespace_id), ("serviceName", service)];
        let of = BTreeMap::from(of.map(|(name, value)| (name.to_owned(), Value::from(value))));
        let (_, body) = node.ask("PUT", &format!("/v1/ns/service/checksum?{}", query(&of))).await;
        assert_eq!(body, format!("{{\"checksum\":\"{checksum}\"}}"), "{note}");
    }
}

fn query(parameters: &BTreeMap<String, Value>) -> String {
    let encode = |text: &str| {
        percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
    };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let pairs: Vec<_> =
        parameters.iter().map(|(name, value)| format!("{name}={}", encode(&text(value)))).collect();
    pairs.join("&")
}
