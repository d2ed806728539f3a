//! What one server shows at once, where a recording can't say it: answers that are about all services, of which a case
//! must find its own.

use std::time::Duration;

use anyhow::Result;

use super::Bench;
use super::case::Written;
use super::ring::{fields, is_as_written, list_in};
use crate::facts::{Client, Level};
use crate::json::{Json, parse};
use crate::target::escaped;

const NAMES: Written = Written {
    id: "single/names",
    says: "The names of all services come by namespace, with the count of namespaces.",
    source: "Nacos 1.4.8 naming module, service controller",
    family: "service list",
    level: Level::Core,
    needs: &[],
    clients: &[],
    weight: 1,
    seconds: 1,
    run: names,
};

pub const CASES: [Written; 6] = [
    NAMES,
    Written {
        id: "single/metadata",
        says: "A list has the metadata of every host as they were registered, in any script.",
        source: "Nacos 1.4.8 naming module, instance controller; every client hands them to its caller",
        family: "instance list",
        clients: &Client::ALL,
        weight: 2,
        run: metadata,
        ..NAMES
    },
    Written {
        id: "single/old-names",
        says: "The old entry gives the names of all services by namespace, with their count.",
        source: "Nacos 1.4.8 naming module, old API",
        family: "old API",
        run: old_names,
        ..NAMES
    },
    Written {
        id: "single/snapshot",
        says: "Among all data is a service's list with every field in its order, and single ones come by their keys.",
        source: "Nacos 1.4.8 naming module, distro protocol; compat-tests/wire/distro.json",
        family: "Distro",
        run: snapshot,
        ..NAMES
    },
    Written {
        id: "single/self",
        says: "A server describes itself as a member: address, state, version.",
        source: "Nacos 1.4.8 core module, cluster controller; compat-tests/wire/member.json",
        family: "membership",
        level: Level::Safe,
        run: own_description,
        ..NAMES
    },
    Written {
        id: "single/namespaces",
        says: "Each namespace comes with its name, kind, quota and a count of configurations.",
        source: "Nacos 1.4.8 console module, namespace controller",
        family: "console",
        level: Level::Safe,
        run: namespaces,
        ..NAMES
    },
];

/// A service in a namespace of the case's own, and that namespace's entry in an answer of names by namespaces.
fn named_in(bench: &mut Bench<'_>, path: &str, field: &str, order: &str) -> Result<Json> {
    let run = bench.run;
    bench.ask("POST", &format!("instance?serviceName={run}&ip=10.0.0.1&port=80&namespaceId={run}"))?;
    let end = std::time::Instant::now() + Duration::from_secs(2);
    loop {
        let answer = bench.ask("GET", &path.replace("RUN", run))?;
        let body = parse(&answer.body).unwrap_or(Json::Null);
        let own = body.get(field).and_then(|spaces| spaces.get(run)).map(Json::written);
        if own.is_none() && std::time::Instant::now() < end {
            bench.target.stop().wait(Duration::from_millis(100))?; // a 1.x server answers before it is done
            continue;
        }
        bench.same("status", &200, &answer.status);
        bench.same("names", &format!("[\"{run}\"]"), &own.unwrap_or_default());
        bench.same("fields", &order, &fields(&body).join(","));
        let count = body.get("count").map_or("nothing", Json::kind);
        bench.same("count", &"a number", &count);
        let spaces = body.get(field).cloned().unwrap_or(Json::Null);
        bench.same("kind", &"an object", &spaces.kind());
        let lists = match &spaces {
            Json::Object(pairs) => pairs.iter().all(|(_, names)| is_list_of_texts(names)),
            _ => false,
        };
        bench.holds(lists, "names of every namespace", "a list of texts", &spaces);
        return Ok(body);
    }
}

fn is_list_of_texts(value: &Json) -> bool {
    matches!(value, Json::List(items) if items.iter().all(|item| matches!(item, Json::Text(_))))
}

fn names(bench: &mut Bench<'_>) -> Result<()> {
    let run = bench.run;
    bench.ask("POST", &format!("instance?serviceName={run}&ip=10.0.0.1&port=80"))?;
    named_in(bench, "service/names", "services", "services,count")?;
    let found = named_in(bench, "service/names?expr=RUN", "services", "services,count")?;
    let public = found.get("services").and_then(|spaces| spaces.get("public")).map(Json::written);
    bench.same("names of the public namespace", &format!("[\"{run}\"]"), &public.unwrap_or_default());
    Ok(())
}

fn old_names(bench: &mut Bench<'_>) -> Result<()> {
    let run = bench.run;
    bench.ask("POST", &format!("instance?serviceName={run}&ip=10.0.0.1&port=80"))?;
    let all = named_in(bench, "api/allDomNames", "doms", "count,doms")?;
    let doms = match all.get("doms") {
        Some(Json::Object(spaces)) => spaces.clone(),
        _ => Vec::new(),
    };
    let names = |list: &Json| if let Json::List(names) = list { names.len() } else { 0 };
    let sum: usize = doms.iter().map(|(_, list)| names(list)).sum();
    bench.same("count", &sum, &all.get("count").map(Json::written).unwrap_or_default());
    Ok(())
}

fn metadata(bench: &mut Bench<'_>) -> Result<()> {
    let values = r#"{"k":"v","空":"値 1&2"}"#;
    bench.register("10.0.0.1", &format!("&metadata={}", escaped(values)))?;
    let path = format!("instance/list?serviceName={}", bench.run);
    let end = std::time::Instant::now() + Duration::from_secs(2);
    loop {
        let hosts = Bench::hosts(&bench.ask("GET", &path)?.body);
        if hosts.is_empty() && std::time::Instant::now() < end {
            bench.target.stop().wait(Duration::from_millis(100))?; // a 1.x server answers before it is done
            continue;
        }
        // The pairs of a map have no order.
        let sorted = |value: Option<&Json>| match value {
            Some(Json::Object(pairs)) => {
                let mut pairs = pairs.clone();
                pairs.sort();
                Json::Object(pairs).written()
            }
            other => format!("{other:?}"),
        };
        let got = sorted(hosts.first().and_then(|host| host.get("metadata")));
        bench.same("metadata", &sorted(parse(values).ok().as_ref()), &got);
        return Ok(());
    }
}

fn snapshot(bench: &mut Bench<'_>) -> Result<()> {
    let name = bench.run;
    let key = super::ring::key_of(name);
    let metadata = escaped(r#"{"k":"v"}"#);
    bench.ask(
        "POST",
        &format!("instance?serviceName={name}&ip=10.0.0.1&port=80&weight=2.5&metadata={metadata}"),
    )?;
    // Only one without metadata says how its id was made.
    bench.ask("POST", &format!("instance?serviceName={name}&ip=10.0.0.2&port=80"))?;
    let keys = format!("{{\"keys\":\"{key}\"}}");
    for (path, body) in [("distro/datums", None), ("distro/datum", Some(keys))] {
        let end = std::time::Instant::now() + Duration::from_secs(2);
        loop {
            let answer = bench.ask_with("GET", path, body.clone())?;
            let list = list_in(&answer.body, &key);
            if list.as_deref().is_none_or(|list| list.len() < 2) && std::time::Instant::now() < end {
                bench.target.stop().wait(Duration::from_millis(100))?;
                continue;
            }
            bench.same("status", &200, &answer.status);
            let datum = parse(&answer.body).ok().and_then(|all| all.get(&key).cloned()).unwrap_or(Json::Null);
            bench.same("fields", &"key,value,timestamp", &fields(&datum).join(","));
            bench.same(
                "key",
                &Json::Text(key.clone()).written(),
                &datum.get("key").map(Json::written).unwrap_or_default(),
            );
            bench.same("timestamp", &"a number", &datum.get("timestamp").map_or("nothing", Json::kind));
            match list.as_deref() {
                Some(both @ [_, _]) => {
                    let with_ip = |ip: &str| {
                        both.iter().find(|one| one.get("ip").is_some_and(|got| got.written() == ip))
                    };
                    let [one, plain] =
                        [r#""10.0.0.1""#, r#""10.0.0.2""#].map(|ip| with_ip(ip).unwrap_or(&Json::Null));
                    is_as_written(bench, one, name);
                    let generator = plain.get("instanceIdGenerator").map(Json::written).unwrap_or_default();
                    bench.same("instanceIdGenerator without metadata", &r#""simple""#, &generator);
                }
                other => bench.holds(false, "list", "the two instances", &format!("{other:?}")),
            }
            break;
        }
    }
    Ok(())
}

fn own_description(bench: &mut Bench<'_>) -> Result<()> {
    let answer = bench.ask_core("self")?;
    bench.same("status", &200, &answer.status);
    let body = parse(&answer.body).unwrap_or(Json::Null);
    bench.same("fields", &"code,message,data", &fields(&body).join(","));
    bench.same("code", &"200", &body.get("code").map(Json::written).unwrap_or_default());
    bench.same("message", &"null", &body.get("message").map(Json::written).unwrap_or_default());
    let own = body.get("data").cloned().unwrap_or(Json::Null);
    is_member(bench, &own);
    Ok(())
}

/// The form of a member's description.
pub fn is_member(bench: &mut Bench<'_>, member: &Json) {
    bench.same("fields", &"ip,port,state,extendInfo,address,failAccessCnt", &fields(member).join(","));
    let of = |name: &str| member.get(name).map(Json::written).unwrap_or_default();
    bench.same("state", &"\"UP\"", &of("state"));
    bench.same("address", &format!("\"{}:{}\"", of("ip").trim_matches('"'), of("port")), &of("address"));
    bench.same("port", &"a number", &member.get("port").map_or("nothing", Json::kind));
    bench.same("failAccessCnt", &"a number", &member.get("failAccessCnt").map_or("nothing", Json::kind));
    let info = member.get("extendInfo").cloned().unwrap_or(Json::Null);
    let text = |name: &str| matches!(info.get(name), Some(Json::Text(text)) if !text.is_empty());
    bench.holds(text("version"), "extendInfo/version", "a text", &info);
    bench.holds(text("raftPort"), "extendInfo/raftPort", "a text", &info);
    let refreshed = info.get("lastRefreshTime").map_or("nothing", Json::kind);
    bench.same("extendInfo/lastRefreshTime", &"a number", &refreshed);
}

fn namespaces(bench: &mut Bench<'_>) -> Result<()> {
    let target = bench.target.clone();
    let path = "/nacos/v1/console/namespaces";
    bench.step(&format!("GET {path}"));
    let request = crate::golden::HttpRequest::new("GET", path, Duration::from_secs(30));
    let answer = target.send(&request)?;
    bench.same("status", &200, &answer.status);
    let body = parse(&answer.body).unwrap_or(Json::Null);
    bench.same("fields", &"code,message,data", &fields(&body).join(","));
    let spaces = match body.get("data") {
        Some(Json::List(spaces)) => spaces.clone(),
        _ => Vec::new(),
    };
    bench.holds(!spaces.is_empty(), "data", "a list with the public namespace", &body);
    for space in &spaces {
        let order = "namespace,namespaceShowName,quota,configCount,type";
        bench.same("fields", &order, &fields(space).join(","));
        for (name, kind) in [
            ("namespace", "a text"),
            ("namespaceShowName", "a text"),
            ("quota", "a number"),
            ("configCount", "a number"),
            ("type", "a number"),
        ] {
            bench.same(name, &kind, &space.get(name).map_or("nothing", Json::kind));
        }
    }
    Ok(())
}
