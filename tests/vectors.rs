//! Hashes and checksums that the real server gave, against ours.
//!
//! `compat-tests/wire` holds them: for checksums also the requests that made the service, which are sent here.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "support/in_process.rs"]
#[allow(dead_code, reason = "each test uses a part of it")]
mod in_process;

use std::{collections::BTreeMap, fs, path::Path};

use nacre::base::java;
use serde::Deserialize;
use serde_json::Value;

fn read<T: for<'de> Deserialize<'de>>(file: &str) -> Vec<T> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("compat-tests/wire").join(file);
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[derive(Deserialize)]
struct Hash {
    service: String,
    #[serde(rename = "hashCode")]
    hash_code: i32,
}

#[test]
fn names_hash_as_in_java() {
    let vectors: Vec<Hash> = read("distro-hash.json");
    assert!(vectors.len() > 100);
    for Hash { service, hash_code } in vectors {
        assert_eq!(java::hash(&service), hash_code, "{service}");
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
