//! Beats over time: when silence counts, and that beats keep many alive at every look.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use super::Bench;
use super::case::Written;
use crate::facts::{Client, Level};
use crate::golden::HttpRequest;
use crate::json::Json;
use crate::target::Target;

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

/// After so much silence an instance counts as unhealthy.
const SILENCE: Duration = Duration::from_secs(15);

/// Within this time a write has to be visible.
const VISIBLE: Duration = Duration::from_secs(5);

/// As many beats are under way at once.
const AT_ONCE: usize = 8;

/// One instance and its beats as this program saw them.
struct Beating {
    ip: String,
    /// When the last one was sent that is answered; the server had it not before this.
    sent: Instant,
}

impl Beating {
    /// Whether it may have been silent for too long by now, through no fault of the server.
    fn may_be_late(&self) -> bool {
        self.sent.elapsed() >= SILENCE
    }
}

/// Registers one that beats from now on.
fn begin(bench: &mut Bench<'_>, ip: &str) -> Result<Beating> {
    let sent = Instant::now();
    bench.register(ip, "")?;
    Ok(Beating { ip: ip.to_owned(), sent })
}

/// A beat of each, several at a time.
fn beat(bench: &mut Bench<'_>, all: &mut [Beating]) -> Result<()> {
    let (target, run) = (bench.target, bench.run);
    let share = all.len().div_ceil(AT_ONCE).max(1);
    let answers: Result<Vec<Vec<String>>> = thread::scope(|scope| {
        let each = |some: &mut [Beating]| some.iter_mut().map(|one| one.beat(target, run)).collect();
        let threads: Vec<_> = all.chunks_mut(share).map(|some| scope.spawn(move || each(some))).collect();
        threads
            .into_iter()
            .map(|one| one.join().unwrap_or_else(|_| Err(anyhow!("no beat was sent"))))
            .collect()
    });
    bench.step(&format!("PUT instance/beat of {} instances", all.len()));
    for body in answers?.concat() {
        // One that was silent for too long may be gone.
        let gone = body.contains("\"code\":20404");
        bench.holds_in_time(!gone, "body", "code 10200", &body);
        bench.holds(gone || body.contains("\"code\":10200"), "body", "code 10200", &body);
    }
    Ok(())
}

impl Beating {
    fn beat(&mut self, target: &Target, run: &str) -> Result<String> {
        let path = format!(
            "/nacos/v1/ns/instance/beat?serviceName={run}&ip={}&port=80&clusterName=DEFAULT",
            self.ip
        );
        let sent = Instant::now();
        let answer = target.send(&HttpRequest::new("PUT", &path, Duration::from_secs(30)))?;
        self.sent = sent;
        Ok(answer.body)
    }
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

/// Waits until so many are listed: a 1.x server answers before a write is visible. Whatever is listed then is judged later.
fn await_listed(bench: &mut Bench<'_>, count: usize) -> Result<()> {
    let end = Instant::now() + VISIBLE;
    while look(bench)?.len() < count && Instant::now() < end {
        bench.target.stop().wait(Duration::from_millis(100))?;
    }
    Ok(())
}

fn kept_alive(bench: &mut Bench<'_>) -> Result<()> {
    let ips = (1..=MANY).map(|at| format!("10.0.0.{at}"));
    let mut all = ips.map(|ip| begin(bench, &ip)).collect::<Result<Vec<_>>>()?;
    await_listed(bench, MANY)?;
    let begin = Instant::now();
    let mut next = begin + INTERVAL;
    while begin.elapsed() < Duration::from_secs(22) {
        if Instant::now() >= next {
            next += INTERVAL;
            beat(bench, &mut all)?;
        }
        let healthy = look(bench)?.iter().filter(|(_, healthy)| *healthy).count();
        if all.iter().any(Beating::may_be_late) {
            bench.lost_time();
        }
        let place = format!("healthy after {} s", begin.elapsed().as_secs());
        bench.holds_in_time(healthy == MANY, &place, &MANY.to_string(), &healthy);
        bench.target.stop().wait(Duration::from_millis(500))?;
    }
    Ok(())
}

/// When something came to be, as far as looks can tell.
#[derive(Default)]
struct Turn {
    /// At the latest look that didn't show it, at its sending.
    not_yet: Duration,
    /// At the first that did, at its answer.
    seen: Option<Duration>,
}

impl Turn {
    /// Whether it can have been between these seconds.
    fn fits(&self, from: u64, to: u64) -> bool {
        let seen = self.seen.is_some_and(|seen| seen >= Duration::from_secs(from));
        seen && self.not_yet <= Duration::from_secs(to)
    }

    fn shown(&self) -> String {
        match self.seen {
            Some(seen) => format!("after {:.1?} to {seen:.1?}", self.not_yet),
            None => format!("not after {:.1?}", self.not_yet),
        }
    }
}

fn silence(bench: &mut Bench<'_>) -> Result<()> {
    let sent = Instant::now();
    bench.register("10.0.0.1", "")?;
    let silent = Instant::now();
    let ips = (2..=4).map(|at| format!("10.0.0.{at}"));
    let mut alive = ips.map(|ip| begin(bench, &ip)).collect::<Result<Vec<_>>>()?;
    await_listed(bench, 1 + alive.len())?;
    let mut next = silent + INTERVAL;
    let (mut unhealthy, mut gone) = (Turn::default(), Turn::default());
    while gone.seen.is_none() && silent.elapsed() < Duration::from_secs(45) {
        if Instant::now() >= next {
            next += INTERVAL;
            beat(bench, &mut alive)?;
        }
        let asked = silent.elapsed();
        let seen = look(bench)?;
        let answered = sent.elapsed();
        if alive.iter().any(Beating::may_be_late) {
            bench.lost_time(); // where all are unhealthy they are shown as healthy
        }
        let turn = match seen.iter().find(|(ip, _)| ip == "10.0.0.1") {
            Some((_, true)) => None,
            Some((_, false)) => Some(&mut unhealthy),
            None => Some(&mut gone),
        };
        match turn {
            Some(turn) => turn.seen = turn.seen.or(Some(answered)),
            None => unhealthy.not_yet = asked,
        }
        if gone.seen.is_none() {
            gone.not_yet = asked;
        }
        bench.target.stop().wait(Duration::from_millis(200))?;
    }
    bench.step("an instance that stays silent");
    bench.holds_in_time(unhealthy.fits(15, 24), "unhealthy", "after 15 to 24 s", &unhealthy.shown());
    bench.holds_in_time(gone.fits(30, 39), "gone", "after 30 to 39 s", &gone.shown());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_judged_by_what_was_seen_before_and_after_it() {
        let turn = |not_yet, seen| Turn {
            not_yet: Duration::from_millis(not_yet),
            seen: Some(Duration::from_millis(seen)),
        };
        assert!(turn(14_000, 15_200).fits(15, 24));
        assert!(turn(23_900, 26_000).fits(15, 24));
        assert!(!turn(14_000, 14_900).fits(15, 24));
        assert!(!turn(24_100, 24_300).fits(15, 24));
        assert!(!Turn::default().fits(15, 24));
    }
}
