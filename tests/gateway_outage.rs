//! A gateway outlives its registry: kill -9 of the legacy server under load, and its return without data.
//!
//! A second Nacre stands in for the legacy server; it comes back on the same port with nothing in memory.

#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::disallowed_methods, reason = "a load has its pace")]

mod support;

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use support::{
    http::{authority, call},
    server::{Home, Server},
};

const SERVICES: usize = 5;
const INSTANCES: usize = 60;
/// As clients of 1.x do.
const BEAT_PERIOD: Duration = Duration::from_secs(5);
const STATUSES: &str = "/v1/ns/instance/statuses";
const KNOWN: &str = r#""code":10200"#;

/// An instance of the load: its service and port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Instance(usize, usize);

impl Instance {
    fn nth(n: usize) -> Self {
        Self(n % SERVICES, 1_000 + n)
    }

    fn query(self) -> String {
        let Self(service, port) = self;
        format!("serviceName=DEFAULT_GROUP%40%40s{service}&ip=10.0.0.7&port={port}&clusterName=DEFAULT")
    }

    fn register(self, url: &str) -> (u16, String) {
        let metadata = r#"&metadata=%7B%22zone%22%3A%22a%22%7D"#;
        call(url, "POST", &format!("/v1/ns/instance?{}{metadata}", self.query())).unwrap()
    }

    fn deregister(self, url: &str) -> (u16, String) {
        call(url, "DELETE", &format!("/v1/ns/instance?{}", self.query())).unwrap()
    }

    /// A short beat, as modern Java clients send.
    fn beat(self, url: &str) -> (u16, String) {
        call(url, "PUT", &format!("/v1/ns/instance/beat?{}", self.query())).unwrap()
    }
}

fn list(url: &str, service: usize) -> (u16, String) {
    call(url, "GET", &format!("/v1/ns/instance/list?serviceName=DEFAULT_GROUP%40%40s{service}")).unwrap()
}

/// The instances that a list shows, and their metadata's zone.
fn shown(service: usize, list: &str) -> BTreeSet<Instance> {
    let list: serde_json::Value = serde_json::from_str(list).unwrap();
    let hosts = list["hosts"].as_array().unwrap().iter();
    hosts
        .map(|host| {
            assert_eq!(host["metadata"]["zone"], "a", "{host}");
            Instance(service, usize::try_from(host["port"].as_u64().unwrap()).unwrap())
        })
        .collect()
}

fn all_shown(url: &str) -> BTreeSet<Instance> {
    (0..SERVICES).flat_map(|service| shown(service, &list(url, service).1)).collect()
}

/// Clients that beat and read until they are stopped.
struct Load<'a> {
    gateway: &'a str,
    stopped: AtomicBool,
    beats: AtomicU64,
    /// What no reader may ever miss.
    stable: BTreeSet<Instance>,
    wrong: Mutex<Vec<String>>,
}

impl Load<'_> {
    fn note(&self, wrong: String) {
        self.wrong.lock().push(wrong);
    }

    /// Each instance once a period, in turn.
    fn beat(&self) {
        let pause = BEAT_PERIOD / u32::try_from(self.stable.len()).unwrap();
        for instance in self.stable.iter().cycle() {
            if self.stopped.load(Relaxed) {
                return;
            }
            let began = Instant::now();
            let (status, body) = instance.beat(self.gateway);
            if status != 200 || !body.contains(KNOWN) {
                self.note(format!("beat of {instance:?}: {status} {body}"));
            }
            self.beats.fetch_add(1, Relaxed);
            thread::sleep(pause.saturating_sub(began.elapsed())); // the load's pace
        }
    }

    /// Each service a few times a second.
    fn read(&self) {
        for service in (0..SERVICES).cycle() {
            if self.stopped.load(Relaxed) {
                return;
            }
            let (status, body) = list(self.gateway, service);
            if status != 200 {
                self.note(format!("list of s{service}: {status} {body}"));
                continue;
            }
            let shown = shown(service, &body);
            let of_service = self.stable.iter().filter(|instance| instance.0 == service);
            let missing: Vec<_> = of_service.filter(|instance| !shown.contains(instance)).collect();
            if !missing.is_empty() {
                self.note(format!("list of s{service} lacks {missing:?}"));
            }
            thread::sleep(Duration::from_millis(40)); // the load's pace
        }
    }
}

/// Stops the load when the test ends, by a failure too.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// The instances that a server has, read by an entry that no client of the load calls.
fn all_known(url: &str) -> BTreeSet<Instance> {
    let statuses = |service| {
        let (_, body) =
            call(url, "GET", &format!("{STATUSES}?key=public%23%23DEFAULT_GROUP%40%40s{service}")).unwrap();
        let answer = serde_json::from_str::<serde_json::Value>(&body).unwrap_or_default();
        let ips = answer["ips"].as_array().cloned().unwrap_or_default().into_iter();
        ips.map(move |text| {
            let port = text.as_str().unwrap().split([':', '_']).nth(1).unwrap().parse().unwrap();
            Instance(service, port)
        })
        .collect::<Vec<_>>()
    };
    (0..SERVICES).flat_map(statuses).collect()
}

/// How many requests of clients a server has answered.
fn answered(url: &str) -> u64 {
    let bytes = support::http::exchange(
        authority(url),
        b"GET /metrics HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n",
    );
    let text = String::from_utf8(bytes.unwrap()).unwrap();
    let counts = text.lines().filter(|line| {
        line.starts_with("nacre_requests_total{") && line.contains("/v1/ns/") && !line.contains(STATUSES)
    });
    counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// Requests a second, over a time.
fn rate(url: &str, over: Duration) -> f64 {
    let (before, began) = (answered(url), Instant::now());
    thread::sleep(over); // it is measured
    (answered(url) - before) as f64 / began.elapsed().as_secs_f64()
}

fn wait_until(what: &str, within: Duration, mut is: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < within, "not within {within:?}: {what}");
        thread::sleep(Duration::from_millis(20)); // it is asked for again
    }
    began.elapsed()
}

/// A legacy server that can be started again where it was: on an address of its own.
fn legacy(port: &str) -> Server {
    let settings = ["server.address=127.0.43.1", "nacos.server.ip=127.0.43.1", port];
    Server::start_in(Home::new(), &settings)
}

#[test]
fn a_registry_that_is_killed_under_load_is_not_missed_and_has_all_back_within_a_beat_period() {
    let first = legacy("server.port=0");
    let address = authority(first.url()).to_owned();
    let port = format!("server.port={}", address.rsplit(':').next().unwrap());
    let servers = format!("nacre.legacy.servers={address}");
    let settings = [&*servers, "nacre.legacy.naming=legacy", "nacre.legacy.stale-ms=60000"];
    let gateway = Server::start_in(Home::new(), &settings);
    let url = gateway.url();

    let stable: BTreeSet<Instance> = (0..INSTANCES).map(Instance::nth).collect();
    let (leaving, coming) = (Instance::nth(INSTANCES), Instance::nth(INSTANCES + 1));
    for instance in stable.iter().chain([&leaving]) {
        assert_eq!(instance.register(url), (200, "ok".into()));
    }
    let load = Load {
        gateway: url,
        stopped: AtomicBool::new(false),
        beats: AtomicU64::new(0),
        stable: stable.clone(),
        wrong: Mutex::default(),
    };
    // It outlives the load.
    let _second = thread::scope(|scope| {
        let _end = StopAtEnd(&load.stopped);
        scope.spawn(|| load.beat());
        scope.spawn(|| load.read());
        let usual = rate(first.url(), Duration::from_secs(5));

        drop(first.kill());
        let beats = load.beats.load(Relaxed);
        assert_eq!(coming.register(url), (200, "ok".into()));
        assert_eq!(leaving.deregister(url), (200, "ok".into()));
        let (_, body) = coming.beat(url);
        assert!(body.contains(KNOWN), "{body}");
        let (_, body) = leaving.beat(url);
        assert!(body.contains("20404"), "{body}");
        let (status, body) = list(url, 99);
        assert_eq!(status, 503, "it was never asked for: {body}");
        wait_until("beats of all instances meanwhile", BEAT_PERIOD * 6, || {
            load.beats.load(Relaxed) > beats + stable.len() as u64
        });

        let second = legacy(&port);
        let beats = load.beats.load(Relaxed);
        let mut expected = stable.clone();
        expected.insert(coming);
        let fastest = thread::scope(|scope| {
            let rates = scope
                .spawn(|| (0..6).map(|_| rate(second.url(), Duration::from_secs(1))).fold(0.0, f64::max));
            let took = wait_until("equal content", BEAT_PERIOD * 6, || all_known(second.url()) == expected);
            // A machine that is busy makes clients late, too.
            let beaten = load.beats.load(Relaxed) - beats;
            println!("equal after {took:?}, in which {beaten} of {} instances had beaten", stable.len());
            let in_two_seconds = 2 * stable.len() as u64 / BEAT_PERIOD.as_secs();
            assert!(beaten <= stable.len() as u64 + in_two_seconds, "not within a beat period");
            rates.join().unwrap()
        });
        println!("usual {usual:.1}/s, after the return at most {fastest:.1}/s");
        wait_until("the gateway shows what the server has", BEAT_PERIOD * 2, || all_shown(url) == expected);
        assert_eq!(all_shown(second.url()), expected);
        assert!(fastest <= usual * 2.0, "usual {usual:.1}/s, then {fastest:.1}/s");
        second
    });
    let wrong = load.wrong.into_inner();
    assert!(wrong.is_empty(), "{} wrong answers, such as {:#?}", wrong.len(), &wrong[..wrong.len().min(5)]);
    let said = gateway.stderr();
    for line in ["no legacy server answers", "a legacy server answers again"] {
        assert_eq!(said.matches(line).count(), 1, "{line}:\n{said}");
    }
}
