//! The checksum that a list shows: MD5 of the definition's text and of one text per instance.
//!
//! Pure. Source: Nacos 1.4.8 naming module, service checksum; compat file `list-checksum`, vectors in
//! `compat-tests/wire/service-checksum.json`.

use std::{fmt::Write as _, sync::OnceLock};

use md5::{Digest, Md5};

use super::{
    State,
    cluster::{Cluster, HealthChecker},
    service::Threshold,
};
use crate::base::json;

/// A checksum that is computed by whoever asks first.
#[derive(Debug, Default)]
pub struct Checksum(OnceLock<Box<str>>);

impl Checksum {
    /// 32 hexadecimal digits for `state` of the service `name`.
    pub(super) fn get(&self, name: &str, state: &State) -> &str {
        self.0.get_or_init(|| compute(name, state))
    }
}

/// The text is digested in pieces of about this size.
const PIECE_BYTES: usize = 8 << 10;

fn compute(name: &str, state: &State) -> Box<str> {
    let mut digest = Md5::new();
    digest.update(head(name, state));
    let mut text = Vec::with_capacity(PIECE_BYTES + 128);
    let mut add = |instance: &super::Instance| {
        push_instance(&mut text, instance);
        if text.len() >= PIECE_BYTES {
            digest.update(&text);
            text.clear();
        }
    };
    if state.persistent.is_empty() || state.ephemeral.is_empty() {
        state.instances().for_each(|instance| add(instance));
    } else {
        // Both kinds together in one order; equal keys are ordered by what follows in the text.
        let mut both: Vec<_> = state.instances().collect();
        both.sort_by(|one, other| one.cmp(other).then_with(|| one.describe().cmp(&other.describe())));
        both.into_iter().for_each(|instance| add(instance));
    }
    digest.update(&text);
    let mut hex = String::with_capacity(32);
    for byte in digest.finalize() {
        let _ = write!(hex, "{byte:02x}");
    }
    hex.into()
}

/// `ip:port_weight_healthy_cluster,`
fn push_instance(out: &mut Vec<u8>, instance: &super::Instance) {
    out.extend_from_slice(instance.ip().as_bytes());
    out.push(b':');
    json::push_number(out, instance.port);
    out.push(b'_');
    super::list::push_weight(out, instance.weight);
    out.push(b'_');
    json::push_truth(out, instance.healthy());
    out.push(b'_');
    out.extend_from_slice(instance.cluster().as_bytes());
    out.push(b',');
}

/// The definition's part of the text.
fn head(name: &str, state: &State) -> Vec<u8> {
    let definition = &state.definition;
    let clusters = definition.clusters_in_order();
    let invalid = state.instances().filter(|instance| !instance.healthy()).count();
    let mut out = Vec::with_capacity(256);
    out.extend_from_slice(format!("{{\"invalidIPCount\":{invalid},\"name\":").as_bytes());
    json::push_string(&mut out, name);
    out.extend_from_slice(
        format!(",\"ipCount\":{},\"owners\":[],\"protectThreshold\":", state.len()).as_bytes(),
    );
    out.extend_from_slice(&json::to_bytes(&Threshold(definition.protect_threshold)));
    out.extend_from_slice(b",\"clusters\":[");
    for (index, cluster) in clusters.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        push_cluster(&mut out, cluster);
    }
    out.extend_from_slice(b"]}");
    out
}

fn push_cluster(out: &mut Vec<u8>, cluster: &Cluster) {
    out.extend_from_slice(b"{\"healthChecker\":");
    push_checker(out, cluster.health_checker.as_ref());
    let Cluster { default_port, check_port, use_instance_port, .. } = cluster;
    out.extend_from_slice(
        format!(",\"defIPPort\":{default_port},\"defCkport\":{check_port},\"name\":").as_bytes(),
    );
    json::push_string(out, &cluster.name);
    out.extend_from_slice(
        format!(",\"useIPPort4Check\":{use_instance_port},\"sitegroup\":\"\"}}").as_bytes(),
    );
}

/// A checker without its type, which this text leaves out.
fn push_checker(out: &mut Vec<u8>, checker: Option<&HealthChecker>) {
    match checker {
        None => out.extend_from_slice(b"null"),
        Some(HealthChecker::Tcp | HealthChecker::None) => out.extend_from_slice(b"{}"),
        Some(HealthChecker::Http { path, headers, expected_response_code }) => {
            out.extend_from_slice(b"{\"path\":");
            json::push_string(out, path);
            out.extend_from_slice(b",\"headers\":");
            json::push_string(out, headers);
            out.extend_from_slice(format!(",\"expectedResponseCode\":{expected_response_code}}}").as_bytes());
        }
        Some(HealthChecker::Mysql { user, pwd, cmd }) => {
            out.push(b'{');
            for (key, value) in [("user", user), ("pwd", pwd), ("cmd", cmd)] {
                let Some(value) = value else { continue };
                if out.last() != Some(&b'{') {
                    out.push(b',');
                }
                json::push_string(out, key);
                out.push(b':');
                json::push_string(out, value);
            }
            out.push(b'}');
        }
    }
}
