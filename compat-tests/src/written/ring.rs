//! This program as a member of the server's ring: what members say to each other, in both directions.
//!
//! Services are named so that the hash gives them to this member or to the server, as a case needs. What this member owns it
//! takes away itself, since nobody else may.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use md5::{Digest as _, Md5};

use super::Bench;
use super::case::Written;
use super::distro::{SPREAD, eventually, healthy_members, owner_of};
use super::single::is_member;
use crate::facts::{Client, Level, Need};
use crate::json::{Json, parse};
use crate::member::{Heard, Member, as_member};
use crate::target::{Response, Target, escaped};

/// What the keys of ephemeral lists begin with.
const PREFIX: &str = "com.alibaba.nacos.naming.iplist.ephemeral.";

/// A member compares every 5 s; this is three times that.
pub const ROUND: Duration = Duration::from_secs(15);

/// The fields of an instance in a datum, in the order in which a 1.4.8 server writes them; without those that may be
/// missing: `app` after `marked`, `instanceIdGenerator` where there is metadata.
const FIELDS: [&str; 15] = [
    "instanceId",
    "ip",
    "port",
    "weight",
    "healthy",
    "enabled",
    "ephemeral",
    "clusterName",
    "serviceName",
    "metadata",
    "lastBeat",
    "marked",
    "instanceHeartBeatInterval",
    "instanceHeartBeatTimeOut",
    "ipDeleteTimeout",
];

const RING: Written = Written {
    id: "ring/report",
    says: "Members report to each other: ours is taken, and theirs comes in the form that 1.x members read.",
    source: "Nacos 1.4.8 core module, member report task; compat-tests/wire/member.json",
    family: "membership",
    level: Level::Cluster,
    needs: &[Need::Member],
    clients: &[],
    weight: 1,
    seconds: 5,
    run: report,
};

pub const DISTRO: Written = Written {
    id: "ring/datum-out",
    says: "What is registered comes to other members as a datum with all fields in order, and what goes as an empty one.",
    source: "Nacos 1.4.8 naming module, distro protocol; compat-tests/wire/distro.json",
    family: "Distro",
    clients: &Client::ALL,
    weight: 3,
    run: datum_out,
    ..RING
};

pub const CASES: [Written; 9] = [
    RING,
    DISTRO,
    Written {
        id: "ring/datum-in",
        says: "A datum of its owner is listed, falsely said to be gzip as it is, and an empty one empties the list.",
        run: datum_in,
        ..DISTRO
    },
    Written {
        id: "ring/checksum",
        says: "Every 5 s a member sends the MD5 of each list that it owns, and of no other.",
        clients: &[],
        weight: 1,
        seconds: 8,
        run: checksum,
        ..DISTRO
    },
    Written {
        id: "ring/pull",
        says: "A list whose checksum differs is fetched from its owner, and one that doesn't isn't.",
        seconds: 6,
        run: pull,
        ..DISTRO
    },
    Written {
        id: "ring/snapshot",
        says: "A member that starts gets all data, and single ones by their keys.",
        run: snapshot,
        ..DISTRO
    },
    Written {
        id: "ring/forward",
        says: "A write for another member's service comes to that member as it is and its answer back, a read doesn't.",
        source: "Nacos 1.4.8 naming module, distro filter; compat-tests/wire/forward.json",
        run: forward,
        ..DISTRO
    },
    Written {
        id: "ring/loop-guard",
        says: "What another member passed on is refused where it is nobody's business here.",
        source: "Nacos 1.4.8 naming module, distro filter; compat-tests/wire/forward.json",
        clients: &[],
        weight: 1,
        run: loop_guard,
        ..DISTRO
    },
    Written {
        id: "ring/hash-vectors",
        says: "The owner of every name that was recorded is the member that Java's hash picks.",
        source: "Nacos 1.4.8 naming module, distro mapper; compat-tests/wire/distro-hash.json",
        clients: &[],
        weight: 1,
        seconds: 8,
        run: hash_vectors,
        ..DISTRO
    },
];

/// The member that this program is.
pub fn member<'a>(bench: &Bench<'a>) -> Result<&'a Member> {
    bench.member.context("this program is no member")
}

/// A name in this case that the hash gives to `owner`.
pub fn name_of(bench: &mut Bench<'_>, owner: &str, purpose: &str) -> Result<String> {
    let ring = healthy_members(bench)?;
    let names = (0..10_000).map(|at| format!("{}-{purpose}{at}", bench.run));
    let mut owned = names.filter(|name| owner_of(&format!("DEFAULT_GROUP@@{name}"), &ring) == owner);
    owned.next().with_context(|| format!("{owner} owns nothing in the ring {ring:?}"))
}

/// A name that the server itself owns.
pub fn name_of_server(bench: &mut Bench<'_>, purpose: &str) -> Result<String> {
    let answer = bench.ask_core("self")?;
    let data = parse(&answer.body).ok().and_then(|answer| answer.get("data").cloned());
    let address = match data.as_ref().and_then(|data| data.get("address")) {
        Some(Json::Text(address)) => address.clone(),
        _ => bench.target.authority().to_owned(),
    };
    name_of(bench, &address, purpose)
}

/// The key of a service's list.
pub fn key_of(name: &str) -> String {
    format!("{PREFIX}public##DEFAULT_GROUP@@{name}")
}

/// An instance as a 1.4.8 member writes it.
fn instance(name: &str, ip: &str) -> String {
    format!(
        "{{\"instanceId\":\"{ip}#80#DEFAULT#DEFAULT_GROUP@@{name}\",\"ip\":\"{ip}\",\"port\":80,\"weight\":2.5,\
         \"healthy\":true,\"enabled\":true,\"ephemeral\":true,\"clusterName\":\"DEFAULT\",\
         \"serviceName\":\"DEFAULT_GROUP@@{name}\",\"metadata\":{{\"k\":\"v\"}},\"lastBeat\":{},\"marked\":false,\
         \"instanceHeartBeatInterval\":5000,\"instanceHeartBeatTimeOut\":15000,\"ipDeleteTimeout\":30000}}",
        millis()
    )
}

fn millis() -> u128 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_millis()
}

fn datum(key: &str, instances: &str) -> String {
    format!("{{\"key\":\"{key}\",\"value\":{{\"instanceList\":[{instances}]}},\"timestamp\":1}}")
}

/// The checksum of instances of [`instance`].
fn checksum_of(ips: &[&str]) -> String {
    let mut ips = ips.to_vec();
    ips.sort_by_key(|ip| format!("{ip}:80"));
    md5(&ips.iter().map(|ip| format!("{ip}:80_2.5_true_true_DEFAULT_k:v,,")).collect::<String>())
}

fn md5(text: &str) -> String {
    Md5::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Asks as a member does.
pub fn ask(bench: &mut Bench<'_>, method: &str, path: &str, body: Option<String>) -> Result<Response> {
    let target = member(bench)?.calls(bench.target);
    bench.step(&format!("{method} {path}, from a member"));
    target.send(&as_member(method, &format!("/nacos/v1/ns/{path}"), body))
}

/// Puts the list of a service that this member owns, with the header of 1.4.8 that isn't true. This member holds it until
/// it puts an empty one.
pub fn put(bench: &mut Bench<'_>, key: &str, ips: &[&str]) -> Result<()> {
    let own = member(bench)?;
    let name = key.rsplit_once("@@").map_or(key, |(_, name)| name);
    let instances: Vec<String> = ips.iter().map(|ip| instance(name, ip)).collect();
    let datum = datum(key, &instances.join(","));
    let body = format!("{{\"{key}\":{datum}}}");
    let _telling = own.telling();
    if ips.is_empty() {
        own.forget(key);
    } else {
        own.hold(key, &datum, &checksum_of(ips));
    }
    let target = own.calls(bench.target);
    let mut request = as_member("PUT", "/nacos/v1/ns/distro/datum", Some(body));
    request.headers.push(("Content-Encoding".to_owned(), Some("gzip".to_owned())));
    bench.step(&format!("PUT distro/datum with {key}, from a member"));
    let answer = target.send(&request)?;
    bench.same("body", &"ok", &answer.body);
    Ok(())
}

/// The first request with the text that is as wanted, if one comes in time.
pub fn heard(
    bench: &Bench<'_>,
    text: &str,
    within: Duration,
    wanted: impl Fn(&Heard) -> bool,
) -> Result<Option<Heard>> {
    let member = member(bench)?;
    let end = Instant::now() + within;
    loop {
        let found = member.heard(text).into_iter().find(&wanted);
        if found.is_some() || Instant::now() > end {
            return Ok(found);
        }
        bench.target.stop().wait(Duration::from_millis(100))?;
    }
}

pub fn list_path(name: &str) -> String {
    format!("instance/list?serviceName={name}")
}

/// Waits until the server lists as many hosts.
pub fn lists(bench: &mut Bench<'_>, name: &str, count: usize) -> Result<Vec<Json>> {
    let target: Target = bench.target.clone();
    let body = eventually(bench, &target, &list_path(name), |body| Bench::hosts(body).len() == count)?;
    let hosts = Bench::hosts(&body);
    bench.same("hosts", &count, &hosts.len());
    Ok(hosts)
}

fn report(bench: &mut Bench<'_>) -> Result<()> {
    let own = member(bench)?;
    bench.step("POST core/cluster/report, from a member");
    let answer = own.report(bench.target)?;
    bench.same("body", &r#"{"code":200,"message":null,"data":"true"}"#, &answer.body);
    let came = heard(bench, "/v1/core/cluster/report", ROUND, |_| true)?;
    bench.step("its report to this member");
    let Some(came) = came else {
        bench.holds(false, "report", "one within 15 s", &"none");
        return Ok(());
    };
    bench.same("method", &"POST", &came.method);
    bench.holds(
        came.header("content-type").starts_with("application/json"),
        "media type",
        "JSON",
        &came.header("content-type"),
    );
    is_member(bench, &parse(&came.body).unwrap_or(Json::Null));
    Ok(())
}

/// The names of an object's fields.
pub fn fields(object: &Json) -> Vec<String> {
    match object {
        Json::Object(pairs) => pairs.iter().map(|(name, _)| name.clone()).collect(),
        _ => Vec::new(),
    }
}

/// The list of a key in the body of a PUT datum.
pub fn list_in(body: &str, key: &str) -> Option<Vec<Json>> {
    let body = parse(body).ok()?;
    match body.get(key)?.get("value")?.get("instanceList")? {
        Json::List(items) => Some(items.clone()),
        _ => None,
    }
}

fn datum_out(bench: &mut Bench<'_>) -> Result<()> {
    let name = name_of_server(bench, "out")?;
    let key = key_of(&name);
    let named = format!("instance?serviceName={name}&ip=10.0.0.1&port=80");
    bench.ask("POST", &format!("{named}&weight=2.5&metadata={}", escaped(r#"{"k":"v"}"#)))?;
    let is_datum = |one: &Heard| one.method == "PUT" && one.path == "/v1/ns/distro/datum";
    let full = |one: &Heard| is_datum(one) && list_in(&one.body, &key).is_some_and(|list| list.len() == 1);
    let came = heard(bench, &key, SPREAD, full)?;
    bench.step("the datum of what was registered");
    if let Some(came) = &came {
        let media = came.header("content-type");
        bench.holds(media.starts_with("application/json"), "media type", "JSON", &media);
        let body = parse(&came.body).unwrap_or(Json::Null);
        let datum = body.get(&key).cloned().unwrap_or(Json::Null);
        bench.same("fields", &"key,value,timestamp", &fields(&datum).join(","));
        bench.same(
            "key",
            &Json::Text(key.clone()).written(),
            &datum.get("key").map(Json::written).unwrap_or_default(),
        );
        let list = list_in(&came.body, &key).unwrap_or_default();
        is_as_written(bench, &list[0], &name);
    } else {
        bench.holds(false, "datum", "one with the instance within 10 s", &"none");
    }
    bench.ask("DELETE", &named)?;
    let empty = |one: &Heard| is_datum(one) && list_in(&one.body, &key).is_some_and(|list| list.is_empty());
    let came = heard(bench, &key, SPREAD, empty)?;
    bench.step("the datum after the instance was deregistered");
    bench.holds(came.is_some(), "datum", "one with an empty list within 10 s", &"none");
    Ok(())
}

/// An instance that came over the wire, field by field.
pub fn is_as_written(bench: &mut Bench<'_>, got: &Json, name: &str) {
    let may_miss = |field: &String| !matches!(field.as_str(), "app" | "instanceIdGenerator");
    let known: Vec<String> = fields(got).into_iter().filter(may_miss).collect();
    bench.same("fields of the instance", &FIELDS.join(","), &known.join(","));
    let beat = got.get("lastBeat").map(Json::written).unwrap_or_default();
    let is_time = beat.parse::<u64>().is_ok_and(|beat| beat > 1_000_000_000_000);
    bench.holds(is_time, "lastBeat", "milliseconds since 1970", &beat);
    for field in ["app", "instanceIdGenerator"] {
        let kind = got.get(field).map_or("a text", Json::kind);
        bench.same(field, &"a text", &kind);
    }
    let want = parse(&instance(name, "10.0.0.1")).unwrap_or(Json::Null);
    for field in FIELDS.iter().filter(|field| **field != "lastBeat") {
        let value = |of: &Json| of.get(field).map_or("(absent)".to_owned(), Json::written);
        bench.same(field, &value(&want), &value(got));
    }
}

fn datum_in(bench: &mut Bench<'_>) -> Result<()> {
    let own = member(bench)?.name();
    let name = name_of(bench, &own, "in")?;
    let key = key_of(&name);
    put(bench, &key, &["10.0.0.1"])?;
    let hosts = lists(bench, &name, 1)?;
    let of =
        |field: &str| hosts.first().and_then(|host| host.get(field)).map(Json::written).unwrap_or_default();
    bench.same("ip", &"\"10.0.0.1\"", &of("ip"));
    bench.same("weight", &"2.5", &of("weight"));
    bench.same("metadata", &r#"{"k":"v"}"#, &of("metadata"));
    put(bench, &key, &["10.0.0.1", "10.0.0.2"])?;
    lists(bench, &name, 2)?;
    put(bench, &key, &[])?;
    lists(bench, &name, 0)?;
    Ok(())
}

fn checksum(bench: &mut Bench<'_>) -> Result<()> {
    let own = member(bench)?.name();
    let ours = name_of(bench, &own, "ours")?;
    put(bench, &key_of(&ours), &["10.0.0.1"])?;
    let name = name_of_server(bench, "sum")?;
    let key = key_of(&name);
    let metadata = escaped(r#"{"k":"v"}"#);
    bench.ask(
        "POST",
        &format!("instance?serviceName={name}&ip=10.0.0.1&port=80&weight=2.5&metadata={metadata}"),
    )?;
    let is_sum = |one: &Heard| one.method == "PUT" && one.path == "/v1/ns/distro/checksum";
    let came = heard(bench, &key, ROUND, is_sum)?;
    bench.step("the comparison that the server begins");
    match came {
        None => bench.holds(false, "checksum", "one within 15 s", &"none"),
        Some(came) => {
            let source = came.parameters().get("source").cloned().unwrap_or_default();
            bench.holds(source.contains(':'), "source", "the server's address", &source);
            let sums = parse(&came.body).unwrap_or(Json::Null);
            let sum = sums.get(&key).map(Json::written).unwrap_or_default();
            bench.same("checksum", &format!("\"{}\"", checksum_of(&["10.0.0.1"])), &sum);
            bench.holds(sums.get(&key_of(&ours)).is_none(), "keys", "none of this member's", &sums);
        }
    }
    put(bench, &key_of(&ours), &[])
}

fn pull(bench: &mut Bench<'_>) -> Result<()> {
    let own = member(bench)?;
    let name = name_of(bench, &own.name(), "pull")?;
    let key = key_of(&name);
    own.hold(&key, &datum(&key, &instance(&name, "10.0.0.1")), &checksum_of(&["10.0.0.1"]));
    let path = format!("distro/checksum?source={}", escaped(&own.name()));
    // Of all that is this member's: what it left out the server would take for gone.
    let tell_all = |bench: &mut Bench<'_>| {
        let _telling = own.telling();
        ask(bench, "PUT", &path, Some(own.checksums()))
    };
    let answer = tell_all(bench)?;
    bench.same("body", &"ok", &answer.body);
    let asked = |one: &Heard| one.method == "GET" && one.path == "/v1/ns/distro/datum";
    let came = heard(bench, &key, SPREAD, asked)?;
    bench.step("what is fetched after another checksum");
    bench.holds(
        came.is_some(),
        "fetched",
        "the list, by GET distro/datum with the key in its body",
        &"nothing",
    );
    lists(bench, &name, 1)?;
    let before = own.heard(&key).iter().filter(|one| asked(one)).count();
    tell_all(bench)?;
    bench.target.stop().wait(Duration::from_secs(2))?;
    let after = own.heard(&key).iter().filter(|one| asked(one)).count();
    bench.step("what is fetched after the same checksum");
    bench.same("fetched", &before, &after);
    put(bench, &key, &[])
}

fn snapshot(bench: &mut Bench<'_>) -> Result<()> {
    let name = name_of_server(bench, "all")?;
    let key = key_of(&name);
    bench.ask(
        "POST",
        &format!(
            "instance?serviceName={name}&ip=10.0.0.1&port=80&weight=2.5&metadata={}",
            escaped(r#"{"k":"v"}"#)
        ),
    )?;
    let all = ask(bench, "GET", "distro/datums?encoding=UTF-8&nofix=1", None)?;
    bench.same("status", &200, &all.status);
    match list_in(&all.body, &key).as_deref() {
        Some([one]) => is_as_written(bench, one, &name),
        other => bench.holds(false, "list", "the one instance", &format!("{other:?}")),
    }
    let keys = format!("{{\"keys\":\"{key},{}\"}}", key_of("unknown"));
    let some = ask(bench, "GET", "distro/datum", Some(keys))?;
    bench.same("keys", &key, &fields(&parse(&some.body).unwrap_or(Json::Null)).join(","));
    match list_in(&some.body, &key).as_deref() {
        Some([one]) => is_as_written(bench, one, &name),
        other => bench.holds(false, "list", "the one instance", &format!("{other:?}")),
    }
    Ok(())
}

fn forward(bench: &mut Bench<'_>) -> Result<()> {
    let own = member(bench)?;
    let name = name_of(bench, &own.name(), "fwd")?;
    let metadata = r#"{"k":"v 1&2","中":"文"}"#;
    let address = [("serviceName", &*name), ("ip", "10.0.0.1"), ("port", "80")];
    let writes: [(&str, &str, &str, u16, &str); 5] = [
        ("POST", "instance", "weight=1.5", 200, "ok"),
        ("PUT", "instance", "enabled=true", 200, "ok"),
        ("PATCH", "instance", "weight=2", 400, "caused: as the owner says;"),
        (
            "PUT",
            "instance/beat",
            "clusterName=DEFAULT",
            200,
            r#"{"clientBeatInterval":7777,"code":10200,"lightBeatEnabled":true}"#,
        ),
        ("DELETE", "instance", "ephemeral=true", 200, "ok"),
    ];
    for (method, path, more, status, body) in writes {
        let mut query: Vec<String> = address.iter().map(|(name, value)| format!("{name}={value}")).collect();
        query.push(more.to_owned());
        query.push(format!("metadata={}", escaped(metadata)));
        let answer = bench.ask(method, &format!("{path}?{}", query.join("&")))?;
        bench.same("status", &status, &answer.status);
        bench.same("body", &body, &answer.body);
        let sent = |one: &Heard| one.method == method && one.path == format!("/v1/ns/{path}");
        let Some(came) = heard(bench, &name, Duration::from_secs(2), sent)? else {
            bench.holds(false, "passed on", "to the owner", &"nothing came");
            continue;
        };
        let parameters = came.parameters();
        let (extra_name, extra_value) = more.split_once('=').unwrap_or((more, ""));
        let wanted: BTreeMap<&str, &str> =
            address.into_iter().chain([(extra_name, extra_value), ("metadata", metadata)]).collect();
        for (name, value) in wanted {
            let got = parameters.get(name).map_or("(absent)", String::as_str);
            bench.same(&format!("parameter {name}"), &value, &got);
        }
        let agent = came.header("user-agent");
        bench.holds(agent.contains("Nacos-Server"), "user-agent", "one with Nacos-Server in it", &agent);
    }
    let read = bench.ask("GET", &list_path(&name))?;
    bench.same("status", &200, &read.status);
    bench.same("hosts", &0, &Bench::hosts(&read.body).len());
    let reads = own.heard(&name).iter().filter(|one| one.path.ends_with("/list")).count();
    bench.same("lists that were passed on", &0, &reads);
    Ok(())
}

fn loop_guard(bench: &mut Bench<'_>) -> Result<()> {
    let own = member(bench)?.name();
    let name = name_of(bench, &own, "loop")?;
    let path = format!("instance?serviceName={name}&ip=10.0.0.1&port=80");
    let target = member(bench)?.calls(bench.target);
    for agent in ["Nacos-Server:v1.4.8", "xNacos-Servery"] {
        let answer = bench.ask_of(&target, "POST", &path, &[("User-Agent", agent)])?;
        bench.same("status", &400, &answer.status);
        let told = answer.body.contains("receive invalid redirect request from peer");
        bench.holds(told, "body", "receive invalid redirect request from peer", &answer.body);
    }
    bench.same("passed on", &0, &member(bench)?.heard(&name).len());
    let answer = bench.ask_of(&target, "POST", &path, &[("User-Agent", "nacos-server:1")])?;
    bench.same("status", &200, &answer.status);
    Ok(())
}

fn hash_vectors(bench: &mut Bench<'_>) -> Result<()> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/wire/distro-hash.json");
    let text = std::fs::read_to_string(file).with_context(|| format!("can't read {file}"))?;
    let Ok(Json::List(vectors)) = parse(&text) else { anyhow::bail!("{file} is no list") };
    let plain = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "@.:_-".contains(c));
    let is_named = |name: &str| name.split_once("@@").is_some_and(|(_, name)| !name.is_empty());
    let mut names: Vec<String> = vectors
        .iter()
        .filter_map(|vector| match vector.get("service") {
            Some(Json::Text(name)) if plain(name) && is_named(name) => Some(name.clone()),
            _ => None,
        })
        .collect();
    names.sort();
    names.dedup();
    let (own, ring) = (member(bench)?.name(), healthy_members(bench)?);
    let mut ours = Vec::new();
    let target = bench.target.clone();
    for grouped in &names {
        let named = format!("serviceName={}&namespaceId={}", escaped(grouped), bench.run);
        let want = owner_of(grouped, &ring);
        if want == own {
            let key = format!("{PREFIX}{}##{grouped}", bench.run);
            put(bench, &key, &["10.0.0.1"])?;
            ours.push(key);
        } else {
            bench.ask("POST", &format!("instance?{named}&ip=10.0.0.1&port=80"))?;
        }
        let path = format!("operator/distro/server?{named}");
        let told = eventually(bench, &target, &path, |body| body.contains("responsibleServer"))?;
        bench.same("body", &format!("{{\"responsibleServer\":\"{want}\"}}"), &told);
    }
    for key in ours {
        put(bench, &key, &[])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_the_one_that_was_recorded() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/wire/distro-checksum.json");
        let vectors = parse(&std::fs::read_to_string(file).unwrap()).unwrap();
        let Json::List(vectors) = vectors else { panic!("a list of vectors") };
        for vector in &vectors {
            let text = |name: &str| match vector.get(name) {
                Some(Json::Text(text)) => text.clone(),
                other => panic!("{name}: {other:?}"),
            };
            assert_eq!(md5(&text("text")), text("checksum"));
        }
        // written as in these texts
        let one = vectors.iter().filter_map(|vector| vector.get("text")).map(Json::written);
        assert!(one.into_iter().any(|text| text.contains("_true_true_DEFAULT_") && text.ends_with(",,\"")));
    }
}
