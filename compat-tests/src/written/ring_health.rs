//! How health comes to other members of the ring: each tells the checksums of its services, and who sees them otherwise
//! asks for the health of their instances. In both directions.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::Bench;
use super::case::Written;
use super::distro::{SPREAD, eventually};
use super::ring::{
    DISTRO, ROUND, ask, heard, key_of, list_path, lists, member, name_of, name_of_server, put,
};
use crate::facts::Client;
use crate::json::{Json, parse};
use crate::member::Heard;
use crate::target::escaped;

/// A server begins with these reports a minute after its start.
const FIRST: Duration = Duration::from_secs(80);

/// An instance is looked at every 5 s and unhealthy after 15 s of silence; this has room for a slow machine.
const SILENCE: Duration = Duration::from_secs(35);

const OUT: Written = Written {
    id: "ring/status-out",
    says: "Every 5 s a member tells the checksums of its services, which change with health, and answers for the health.",
    source: "Nacos 1.4.8 naming module, service manager, status reports; compat-tests/wire/service.json",
    clients: &Client::ALL,
    weight: 2,
    seconds: 30,
    run: status_out,
    ..DISTRO
};

pub const CASES: [Written; 2] = [
    OUT,
    Written {
        id: "ring/status-in",
        says: "The health of a service whose checksum differs is fetched from its owner and shown, else it isn't fetched.",
        seconds: 4,
        run: status_in,
        ..OUT
    },
];

/// What a status report says of the service, if it does.
fn checksum_in(report: &Heard, name: &str) -> Option<String> {
    let is_report = report.method == "POST" && report.path == "/v1/ns/service/status";
    let Some(Json::Text(statuses)) = parse(&report.body).ok().filter(|_| is_report)?.get("statuses").cloned()
    else {
        return None;
    };
    match parse(&statuses).ok()?.get("serviceName2Checksum")?.get(&format!("DEFAULT_GROUP@@{name}"))? {
        Json::Text(checksum) => Some(checksum.clone()),
        _ => None,
    }
}

fn status_out(bench: &mut Bench<'_>) -> Result<()> {
    let own = member(bench)?.name();
    let ours = name_of(bench, &own, "ours")?;
    put(bench, &key_of(&ours), &["10.0.0.1"])?;
    let name = name_of_server(bench, "status")?;
    let named = |ip: &str| format!("serviceName={name}&ip={ip}&port=80");
    for ip in ["10.0.0.1", "10.0.0.2"] {
        bench.ask("POST", &format!("instance?{}", named(ip)))?;
    }
    lists(bench, &name, 2)?;
    // One is kept alive, the other not. Where the server has just started, both are until it begins to report.
    let beat = |bench: &mut Bench<'_>, ips: &[&str]| {
        ips.iter().try_for_each(|ip| bench.ask("PUT", &format!("instance/beat?{}", named(ip))).map(drop))
    };
    let began = Instant::now();
    let mut came = None;
    while came.is_none() && began.elapsed() < FIRST {
        came = heard(bench, &name, Duration::from_secs(4), |one| checksum_in(one, &name).is_some())?;
        beat(bench, &["10.0.0.1", "10.0.0.2"])?;
    }
    bench.step("the report of checksums that the server sends");
    let Some(came) = came else {
        bench.holds(false, "report", "one within 80 s", &"none");
        return put(bench, &key_of(&ours), &[]);
    };
    is_report(bench, &came, &name, &ours);
    let before = checksum_in(&came, &name).unwrap_or_default();
    statuses(bench, &name, &["10.0.0.1:80_true", "10.0.0.2:80_true"])?;
    let silent_since = Instant::now();
    let unhealthy = "10.0.0.1:80_false";
    let path = format!("instance/statuses?key={}", escaped(&format!("public##DEFAULT_GROUP@@{name}")));
    let mut turned = false;
    let mut last_beat = Instant::now();
    while !turned && silent_since.elapsed() < SILENCE {
        bench.target.stop().wait(Duration::from_secs(1))?;
        let sent = Instant::now();
        beat(bench, &["10.0.0.2"])?;
        if last_beat.elapsed() > Duration::from_secs(10) {
            bench.lost_time(); // it was silent for too long itself
        }
        last_beat = sent;
        turned = ask(bench, "GET", &path, None)?.body.contains(unhealthy);
    }
    statuses(bench, &name, &[unhealthy, "10.0.0.2:80_true"])?;
    let other = |one: &Heard| checksum_in(one, &name).is_some_and(|checksum| checksum != before);
    let came = heard(bench, &name, ROUND, other)?;
    bench.step("the report of checksums after an instance became unhealthy");
    bench.holds_in_time(came.is_some(), "checksum", "another than before", &before);
    put(bench, &key_of(&ours), &[])
}

/// The form of a report, which names the service but none that isn't the server's.
fn is_report(bench: &mut Bench<'_>, came: &Heard, name: &str, ours: &str) {
    let body = parse(&came.body).unwrap_or(Json::Null);
    let sender = body.get("clientIP").map_or("nothing", Json::kind);
    bench.same("clientIP", &"a text", &sender);
    let media = came.header("content-type");
    bench.holds(media.starts_with("application/json"), "media type", "JSON", &media);
    let sum = checksum_in(came, name).unwrap_or_default();
    let is_md5 = sum.len() == 32 && sum.bytes().all(|byte| byte.is_ascii_hexdigit());
    bench.holds(is_md5, "checksum", "an MD5 in hexadecimal", &sum);
    bench.holds(!came.body.contains(ours), "services", "none of this member's", &came.body);
    bench.holds(
        came.body.contains(r#"\"namespaceId\":\"public\""#),
        "namespaceId",
        "the namespace as a text",
        &came.body,
    );
}

/// The health that the server tells a member who asks for it.
fn statuses(bench: &mut Bench<'_>, name: &str, want: &[&str]) -> Result<()> {
    let key = escaped(&format!("public##DEFAULT_GROUP@@{name}"));
    let answer = ask(bench, "GET", &format!("instance/statuses?key={key}&encoding=UTF-8&nofix=1"), None)?;
    bench.same("status", &200, &answer.status);
    let mut got = match parse(&answer.body).ok().as_ref().and_then(|body| body.get("ips")) {
        Some(Json::List(ips)) => ips.iter().map(Json::written).collect(),
        _ => vec![answer.body.clone()],
    };
    got.sort();
    let want = format!("\"{}\"", want.join("\",\""));
    let got = got.join(",");
    let addresses = |ips: &str| ips.replace("_true", "").replace("_false", "");
    bench.same("ips", &addresses(&want), &addresses(&got));
    bench.holds_in_time(want == got, "ips", &want, &got);
    Ok(())
}

fn status_in(bench: &mut Bench<'_>) -> Result<()> {
    let own = member(bench)?;
    let name = name_of(bench, &own.name(), "health")?;
    let key = key_of(&name);
    put(bench, &key, &["10.0.0.1", "10.0.0.2"])?;
    lists(bench, &name, 2)?;
    let of_health = format!("public##DEFAULT_GROUP@@{name}");
    // Who isn't named is unhealthy, too.
    for (told, healthy) in
        [(&["10.0.0.1:80_false", "10.0.0.2:80_true"][..], "10.0.0.2"), (&["10.0.0.1:80_true"], "10.0.0.1")]
    {
        own.see(&of_health, told);
        let before = asked(bench, &of_health)?;
        tell(bench, &name, "0123456789abcdef0123456789abcdef")?;
        let end = Instant::now() + SPREAD;
        while asked(bench, &of_health)? == before && Instant::now() < end {
            bench.target.stop().wait(Duration::from_millis(100))?;
        }
        let after = asked(bench, &of_health)?;
        bench.holds(
            after > before,
            "fetched",
            "the health, by GET instance/statuses?key=NAMESPACE##GROUP@@NAME",
            &"nothing",
        );
        let target = bench.target.clone();
        let right = |body: &str| healthy_of(body) == [healthy];
        let body = eventually(bench, &target, &list_path(&name), right)?;
        bench.same("healthy", &healthy, &healthy_of(&body).join(","));
    }
    // A report makes the server count anew: what it then shows is what it compares with.
    let shown = shown_checksum(bench, &name)?;
    tell(bench, &name, &shown)?;
    bench.target.stop().wait(Duration::from_secs(1))?;
    let before = asked(bench, &of_health)?;
    let shown = shown_checksum(bench, &name)?;
    tell(bench, &name, &shown)?;
    bench.target.stop().wait(Duration::from_secs(2))?;
    bench.same("fetched after the same checksum", &before, &asked(bench, &of_health)?);
    put(bench, &key, &[])
}

/// Tells the server the checksum of a service as its owner does.
fn tell(bench: &mut Bench<'_>, name: &str, checksum: &str) -> Result<()> {
    let own = member(bench)?.name();
    let statuses = format!(
        "{{\"namespaceId\":\"public\",\"serviceName2Checksum\":{{\"DEFAULT_GROUP@@{name}\":\"{checksum}\"}}}}"
    );
    let body = format!("{{\"clientIP\":\"{own}\",\"statuses\":{}}}", Json::Text(statuses).written());
    let answer = ask(bench, "POST", "service/status", Some(body))?;
    bench.same("status", &200, &answer.status);
    bench.same("body", &"ok", &answer.body);
    Ok(())
}

/// How often this member was asked for the health of a service.
fn asked(bench: &Bench<'_>, key: &str) -> Result<usize> {
    let is_question =
        |one: &&Heard| one.method == "GET" && one.parameters().get("key").is_some_and(|asked| asked == key);
    let all = member(bench)?.heard("/v1/ns/instance/statuses");
    Ok(all.iter().filter(is_question).count())
}

/// The ips of healthy hosts.
fn healthy_of(list: &str) -> Vec<String> {
    let healthy = |host: &Json| match (host.get("healthy"), host.get("ip")) {
        (Some(Json::Bool(true)), Some(Json::Text(ip))) => Some(ip.clone()),
        _ => None,
    };
    Bench::hosts(list).iter().filter_map(healthy).collect()
}

fn shown_checksum(bench: &mut Bench<'_>, name: &str) -> Result<String> {
    let list = bench.ask("GET", &list_path(name))?;
    match parse(&list.body).ok().as_ref().and_then(|list| list.get("checksum")) {
        Some(Json::Text(checksum)) => Ok(checksum.clone()),
        other => anyhow::bail!("a list without a checksum: {other:?}"),
    }
}
