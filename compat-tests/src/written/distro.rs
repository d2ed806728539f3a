//! What several members show together: who owns what, and that each tells of what another was told.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::Bench;
use super::case::Written;
use crate::agree::{QUESTION, up_members};
use crate::facts::{Client, Level, Need};
use crate::json::Json;
use crate::member::Member;
use crate::target::Target;

/// As many names are hashed: each member owns some of them, even of nine.
const NAMES: usize = 40;

/// Within this what one member was told is told by all: a real cluster delays changes by up to two seconds.
pub const SPREAD: Duration = Duration::from_secs(10);

const OWNER: Written = Written {
    id: "distro-cluster/owner",
    says: "Every member names the owner that Java's hash of the grouped name picks from the sorted healthy members.",
    source: "Nacos 1.4.8 naming module, distro mapper; compat-tests/wire/distro-hash.json",
    family: "Distro",
    level: Level::Cluster,
    needs: &[Need::Peers],
    clients: &[],
    weight: 1,
    seconds: 2,
    run: owner,
};

pub const CASES: [Written; 3] = [
    OWNER,
    Written {
        id: "distro-cluster/spread",
        says: "What is registered or deregistered at one member shows at every other within 10 s.",
        source: "Nacos 1.4.8 naming module, distro protocol: sync to every other member",
        clients: &Client::ALL,
        weight: 3,
        seconds: 5,
        run: spread,
        ..OWNER
    },
    Written {
        id: "distro-cluster/beat-anywhere",
        says: "Beats that come to any member keep an instance healthy at all of them.",
        source: "Nacos 1.4.8 naming module, distro filter: passed on to the owner",
        clients: &Client::ALL,
        weight: 3,
        seconds: 25,
        run: beat_anywhere,
        ..OWNER
    },
];

/// All members that were named, the target first.
fn members(bench: &Bench<'_>) -> Vec<Target> {
    std::iter::once(bench.target).chain(bench.peers).cloned().collect()
}

/// The first of these names that isn't this program's own where it is a member: it keeps no instances.
fn of_others(bench: &mut Bench<'_>, mut names: impl Iterator<Item = String>) -> Result<String> {
    let own = bench.member.map(Member::name);
    let ring = if own.is_some() { healthy_members(bench)? } else { Vec::new() };
    let others = |name: &String| own.as_ref() != Some(&owner_of(&format!("DEFAULT_GROUP@@{name}"), &ring));
    names.find(others).context("this program owns every name")
}

/// `String.hashCode` of Java, then as the distro mapper takes it.
pub fn owner_of(grouped: &str, sorted: &[String]) -> String {
    let hash =
        grouped.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    let index = (hash % i32::MAX).unsigned_abs() as usize % sorted.len().max(1);
    sorted.get(index).cloned().unwrap_or_default()
}

/// The healthy members as the server names them, sorted.
pub fn healthy_members(bench: &mut Bench<'_>) -> Result<Vec<String>> {
    Ok(up_members(&bench.ask("GET", QUESTION)?.body))
}

fn owner(bench: &mut Bench<'_>) -> Result<()> {
    let members = members(bench);
    let sorted = healthy_members(bench)?;
    bench.holds(
        sorted.len() >= members.len(),
        "members",
        "at least those that are named",
        &format!("{sorted:?}"),
    );
    let run = bench.run;
    for at in 0..NAMES {
        let name = of_others(bench, (0..).map(|more| format!("{run}-{at}-{more}")))?;
        bench.ask("POST", &format!("instance?serviceName={name}&ip=10.0.0.1&port=80"))?;
        let want = owner_of(&format!("DEFAULT_GROUP@@{name}"), &sorted);
        for member in &members {
            let path = format!("operator/distro/server?serviceName={name}");
            let named = eventually(bench, member, &path, |body| body.contains("responsibleServer"))?;
            bench.same("body", &format!("{{\"responsibleServer\":\"{want}\"}}"), &named);
        }
    }
    Ok(())
}

/// Asks until the body is right or [`SPREAD`] has passed; the last body.
pub fn eventually(
    bench: &mut Bench<'_>,
    member: &Target,
    path: &str,
    right: impl Fn(&str) -> bool,
) -> Result<String> {
    let end = Instant::now() + SPREAD;
    loop {
        let body = bench.ask_of(member, "GET", path, &[])?.body;
        if right(&body) || Instant::now() > end {
            return Ok(body);
        }
        bench.target.stop().wait(Duration::from_millis(100))?;
    }
}

fn spread(bench: &mut Bench<'_>) -> Result<()> {
    let members = members(bench);
    let run = bench.run;
    for (at, told) in members.iter().enumerate() {
        let name = of_others(bench, (0..).map(|more| format!("{run}-{at}-{more}")))?;
        let named = format!("serviceName={name}&ip=10.0.0.1&port=80");
        let list = format!("instance/list?serviceName={name}");
        for (method, hosts) in [("POST", 1), ("DELETE", 0)] {
            bench.ask_of(told, method, &format!("instance?{named}"), &[])?;
            for member in &members {
                let body = eventually(bench, member, &list, |body| Bench::hosts(body).len() == hosts)?;
                bench.same("hosts", &hosts, &Bench::hosts(&body).len());
            }
        }
    }
    Ok(())
}

fn beat_anywhere(bench: &mut Bench<'_>) -> Result<()> {
    let members = members(bench);
    let run = bench.run;
    let name = of_others(bench, (0..).map(|more| format!("{run}-{more}")))?;
    let named = format!("serviceName={name}&ip=10.0.0.1&port=80");
    let list = format!("instance/list?serviceName={name}");
    bench.ask("POST", &format!("instance?{named}"))?;
    let mut last = Instant::now();
    for round in 0..5 {
        bench.target.stop().wait(Duration::from_secs(4))?;
        let told = &members[round % members.len()];
        let sent = Instant::now();
        let answer = bench.ask_of(told, "PUT", &format!("instance/beat?{named}"), &[])?;
        let gone = answer.body.contains("\"code\":20404");
        bench.holds_in_time(!gone, "body", "code 10200", &answer.body);
        bench.holds(gone || answer.body.contains("\"code\":10200"), "body", "code 10200", &answer.body);
        let late = last.elapsed() >= Duration::from_secs(15);
        last = sent;
        if late {
            bench.lost_time(); // it was silent for longer than it may be
        }
        for member in &members {
            let body = bench.ask_of(member, "GET", &list, &[])?.body;
            let health = Bench::hosts(&body).first().and_then(|host| host.get("healthy").cloned());
            let turned = matches!(health, None | Some(Json::Bool(false)));
            let shown = health.as_ref().map_or_else(|| "no host".to_owned(), Json::written);
            bench.holds_in_time(!turned, "healthy", "true", &shown);
            bench.holds(turned || health == Some(Json::Bool(true)), "healthy", "true", &shown);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    #[test]
    fn the_owner_is_the_one_that_was_recorded() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/wire/distro-hash.json");
        let vectors = parse(&std::fs::read_to_string(file).unwrap()).unwrap();
        let Json::List(vectors) = vectors else { panic!("a list of vectors") };
        let text = |item: &Json| match item {
            Json::Text(text) => text.clone(),
            other => panic!("{other} is no text"),
        };
        for vector in &vectors {
            let Some(Json::List(sorted)) = vector.get("sorted") else { panic!("{vector}") };
            let sorted: Vec<String> = sorted.iter().map(text).collect();
            let owner = owner_of(&text(vector.get("service").unwrap()), &sorted);
            assert_eq!(owner, text(vector.get("responsible").unwrap()), "{vector}");
        }
        assert!(vectors.len() > 20);
    }
}
