//! Beats over time: when silence counts, and that beats keep many alive at every look.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::Bench;
use super::case::Written;
use crate::facts::{Client, Level};
use crate::json::Json;

/// As many instances beat at once.
const MANY: usize = 60;

/// How often a client beats.
const INTERVAL: Duration = Duration::from_secs(5);

const ALIVE: Written = Written {
    id: "beat-windows/kept-alive",
    says: "Beats every 5 s keep sixty instances healthy at every look for 22 s.",
    source: "Nacos 1.4.8 naming module, client beat check task: unhealthy after 15 s of silence",
    family: "beat",
    level: Level::Core,
    needs: &[],
    clients: &Client::ALL,
    weight: 3,
    seconds: 23,
    run: kept_alive,
};

pub const CASES: [Written; 2] = [
    ALIVE,
    Written {
        id: "beat-windows/silence",
        says: "Silence counts from 15 s to 24 s as unhealthy and from 30 s to 39 s as gone, with one alive beside it.",
        source: "Nacos 1.4.8 naming module, client beat check task: 15 s and 30 s, looked at every 5 s",
        run: silence,
        seconds: 36,
        ..ALIVE
    },
];

fn beat(bench: &mut Bench<'_>, ip: &str) -> Result<()> {
    let path = format!("instance/beat?serviceName={}&ip={ip}&port=80&clusterName=DEFAULT", bench.run);
    let answer = bench.ask("PUT", &path)?;
    bench.holds(answer.body.contains("\"code\":10200"), "body", "code 10200", &answer.body);
    Ok(())
}

/// The health of every instance by its ip.
fn look(bench: &mut Bench<'_>) -> Result<Vec<(String, bool)>> {
    let answer = bench.ask("GET", &format!("instance/list?serviceName={}", bench.run))?;
    let health = |host: &Json| match (host.get("ip"), host.get("healthy")) {
        (Some(Json::Text(ip)), Some(Json::Bool(healthy))) => Some((ip.clone(), *healthy)),
        _ => None,
    };
    Ok(Bench::hosts(&answer.body).iter().filter_map(health).collect())
}

fn kept_alive(bench: &mut Bench<'_>) -> Result<()> {
    let ips: Vec<String> = (1..=MANY).map(|at| format!("10.0.0.{at}")).collect();
    for ip in &ips {
        bench.register(ip, "")?;
    }
    let begin = Instant::now();
    let mut next = begin + INTERVAL;
    while begin.elapsed() < Duration::from_secs(22) {
        if Instant::now() >= next {
            next += INTERVAL;
            for ip in &ips {
                beat(bench, ip)?;
            }
        }
        let healthy = look(bench)?.iter().filter(|(_, healthy)| *healthy).count();
        let place = format!("healthy after {} s", begin.elapsed().as_secs());
        bench.same(&place, &MANY, &healthy);
        bench.target.stop().wait(Duration::from_millis(500))?;
    }
    Ok(())
}

fn silence(bench: &mut Bench<'_>) -> Result<()> {
    bench.register("10.0.0.1", "")?;
    let silent_since = Instant::now();
    for alive in 2..=4 {
        bench.register(&format!("10.0.0.{alive}"), "")?;
    }
    let mut next = silent_since + INTERVAL;
    let (mut unhealthy, mut gone) = (None, None);
    while gone.is_none() && silent_since.elapsed() < Duration::from_secs(45) {
        if Instant::now() >= next {
            next += INTERVAL;
            for alive in 2..=4 {
                beat(bench, &format!("10.0.0.{alive}"))?;
            }
        }
        let seen = look(bench)?;
        let now = silent_since.elapsed();
        match seen.iter().find(|(ip, _)| ip == "10.0.0.1") {
            Some((_, false)) => unhealthy = unhealthy.or(Some(now)),
            Some((_, true)) => {}
            None => gone = Some(now),
        }
        bench.target.stop().wait(Duration::from_millis(200))?;
    }
    let shown =
        |time: Option<Duration>| time.map_or_else(|| "never".to_owned(), |time| format!("{time:.1?}"));
    let within = |time: Option<Duration>, from, to| {
        time.is_some_and(|time| (Duration::from_secs(from)..=Duration::from_secs(to)).contains(&time))
    };
    bench.step("an instance that stays silent");
    bench.holds(within(unhealthy, 15, 24), "unhealthy", "after 15 to 24 s", &shown(unhealthy));
    bench.holds(within(gone, 30, 39), "gone", "after 30 to 39 s", &shown(gone));
    Ok(())
}
