//! Two nodes of ours and a member of 1.x that isn't: a second implementation of the peer wire, a program that
//! `NACRE_FAKE_MEMBER` names. Without it these tests do nothing, and say so.
//!
//! The program takes `--addr`, `--conf` and `--status-first`, says `ready` when it listens, and is told its faults by
//! `GET /ctl`.

use std::{
    collections::BTreeSet,
    env,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::Value;
use tokio::time::sleep;

use crate::support::{
    cluster::{Cluster, Place},
    http::Ask,
    lists::{hosts, instance, services},
};

const OURS: [Place; 2] = [0, 1];
/// The place of the foreign member.
const THEIRS: Place = 2;
const ALL: [Place; 3] = [0, 1, 2];
/// For both sides to hold each other for UP.
const UP: Duration = Duration::from_secs(6);
/// For a write to be on all members: 1.x sends after 2 s, else its verify repairs.
const EQUAL: Duration = Duration::from_secs(12);
/// For a silent member to be DOWN by the rules of 1.x.
const DOWN: Duration = Duration::from_secs(30);

/// The foreign member; killed when dropped.
struct Foreign(Child);

impl Foreign {
    fn start(cluster: &Cluster, program: &str) -> Self {
        let mut child = Command::new("python3")
            .arg(program)
            .args(["--addr", &cluster.at(THEIRS).to_string(), "--status-first", "5", "--conf"])
            .arg(cluster.node(THEIRS).cluster_conf())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("ready "), "{program} says {line:?}");
        Self(child)
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Name of the program, unless there is none.
fn program() -> Option<String> {
    let program = env::var("NACRE_FAKE_MEMBER").ok();
    if program.is_none() {
        println!("SKIPPED: NACRE_FAKE_MEMBER names no program, so nothing is tried against a member of 1.x");
    }
    program
}

async fn started(program: &str) -> (Cluster, Foreign) {
    let mut cluster = Cluster::new(3, &["nacre.peer.networks=127.0.0.0/8"]);
    cluster.list_everywhere(&ALL);
    for place in OURS {
        cluster.start(place).await;
    }
    let foreign = Foreign::start(&cluster, program);
    (cluster, foreign)
}

async fn control(cluster: &Cluster, query: &str) -> Value {
    let target = format!("/ctl?{query}");
    let answer = cluster.http.ask(cluster.at(THEIRS), Ask::new("GET", &target)).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// The foreign member holds these, and no others, for UP.
async fn they_agree(cluster: &Cluster, places: &[Place]) -> bool {
    let state = control(cluster, "").await;
    let members = state["members"].as_array().unwrap().iter();
    let up =
        members.filter(|member| member["state"] == "UP").map(|member| member["address"].as_str().unwrap());
    up.map(str::to_owned).collect::<BTreeSet<_>>()
        == places.iter().map(|place| cluster.at(*place).to_string()).collect()
}

/// Ours hold the foreign member for DOWN.
async fn they_are_down(cluster: &Cluster) -> bool {
    let at = cluster.at(THEIRS).to_string();
    for place in OURS {
        let nodes = cluster.ok(place, "GET", "/v1/core/cluster/nodes").await.json();
        let nodes = nodes["data"].as_array().unwrap();
        if !nodes.iter().any(|node| node["address"] == *at && node["state"] == "DOWN") {
            return false;
        }
    }
    true
}

async fn both_up(cluster: &Cluster) {
    let took = cluster.agreed(&OURS.iter().chain(&[THEIRS]).copied().collect::<Vec<_>>(), UP).await;
    cluster
        .until("up on their side", UP.saturating_sub(took), async || they_agree(cluster, &ALL).await)
        .await;
}

/// All members list the same of each service, `count` hosts.
async fn all_equal(cluster: &Cluster, places: &[Place], services: &[String], count: usize) -> bool {
    for service in services {
        let first = hosts(cluster, places[0], service).await;
        if first.as_ref().map(BTreeSet::len) != Some(count) {
            return false;
        }
        for place in &places[1..] {
            if hosts(cluster, *place, service).await != first {
                return false;
            }
        }
    }
    true
}

async fn register(cluster: &Cluster, through: &[Place], services: &[String], ip: &str) {
    for (number, service) in services.iter().enumerate() {
        cluster.ok(through[number % through.len()], "POST", &instance(service, ip)).await;
    }
}

#[tokio::test]
async fn a_member_of_1x_and_ours_are_one_ring() {
    let Some(program) = program() else { return };
    let (mut cluster, foreign) = started(&program).await;
    both_up(&cluster).await;
    let services = services("mixed");
    // Each service through each member: most of these are forwarded, to and fro.
    for (turn, ip) in ["10.0.0.1", "10.0.0.2", "10.0.0.3"].iter().enumerate() {
        let through = [turn, (turn + 1) % 3, (turn + 2) % 3];
        register(&cluster, &through, &services, ip).await;
    }
    cluster.until("equal", EQUAL, async || all_equal(&cluster, &ALL, &services, 3).await).await;
    let counters = control(&cluster, "").await["counters"].clone();
    assert!(counters["forwarded"].as_u64() > Some(0), "{counters}");
    assert_eq!(counters["forward_failed"].as_u64().unwrap_or(0), 0, "{counters}");
    assert_eq!(counters["loop_guard"].as_u64().unwrap_or(0), 0, "{counters}");
    // Ours goes and comes back.
    cluster.kill(1);
    cluster.until("noticed by them", DOWN, async || they_agree(&cluster, &[0, 2]).await).await;
    cluster.agreed(&[0, THEIRS], DOWN).await;
    register(&cluster, &[0, THEIRS], &services, "10.0.0.4").await;
    cluster.until("equal", EQUAL, async || all_equal(&cluster, &[0, THEIRS], &services, 4).await).await;
    cluster.start(1).await;
    cluster.ready(1).await;
    assert!(all_equal(&cluster, &[0, 1], &services, 4).await, "not all loaded before it was ready");
    both_up(&cluster).await;
    cluster.until("equal", EQUAL, async || all_equal(&cluster, &ALL, &services, 4).await).await;
    // Theirs goes and comes back.
    drop(foreign);
    cluster.agreed(&OURS, DOWN).await;
    register(&cluster, &OURS, &services, "10.0.0.5").await;
    let _foreign = Foreign::start(&cluster, &program);
    both_up(&cluster).await;
    cluster.until("equal", EQUAL, async || all_equal(&cluster, &ALL, &services, 5).await).await;
}

#[tokio::test]
async fn a_dead_clients_instance_goes_from_all_members_and_a_beating_one_stays() {
    let Some(program) = program() else { return };
    let (cluster, _foreign) = started(&program).await;
    both_up(&cluster).await;
    let (services, mut turn) = (services("beaten"), 0);
    let path = |method: &str, service: &str, ip: &str| {
        let entry = if method == "PUT" { "/beat" } else { "" };
        format!("/v1/ns/instance{entry}?serviceName={service}&ip={ip}&port=80&clusterName=DEFAULT")
    };
    for service in &services {
        for ip in ["10.0.0.1", "10.0.0.2"] {
            cluster.ok(turn % 3, "POST", &path("POST", service, ip)).await;
            turn += 1;
        }
    }
    cluster.until("equal", EQUAL, async || all_equal(&cluster, &ALL, &services, 2).await).await;
    for _ in 0..9 {
        sleep(Duration::from_secs(5)).await;
        for service in &services {
            let answer = cluster.ok(turn % 3, "PUT", &path("PUT", service, "10.0.0.1")).await;
            assert!(answer.text().contains("10200"), "{service}: {}", answer.text());
            turn += 1;
        }
    }
    let living = BTreeSet::from([("\"10.0.0.1\":80".to_owned(), true)]);
    for place in ALL {
        for service in &services {
            assert_eq!(hosts(&cluster, place, service).await.as_ref(), Some(&living), "{service} at {place}");
        }
    }
}

#[tokio::test]
async fn a_member_of_1x_that_lies_or_hangs_harms_nobody() {
    let Some(program) = program() else { return };
    let (cluster, _foreign) = started(&program).await;
    both_up(&cluster).await;
    let services = services("harmed");
    register(&cluster, &ALL, &services, "10.0.0.1").await;
    register(&cluster, &ALL, &services, "10.0.0.2").await;
    cluster.until("equal", EQUAL, async || all_equal(&cluster, &ALL, &services, 2).await).await;
    let mut ours = Vec::new();
    for service in &services {
        let target = format!("/ctl/owner?service=DEFAULT_GROUP@@{service}");
        let owner = cluster.http.ask(cluster.at(THEIRS), Ask::new("GET", &target)).await.unwrap().text();
        if owner != cluster.at(THEIRS).to_string() {
            ours.push(service.clone());
        }
    }
    assert!(!ours.is_empty() && ours.len() < services.len());
    for lie in ["data=stale", "data=null", "checksum=wrong", "verify=all", "report=noext"] {
        control(&cluster, lie).await;
        for _ in 0..12 {
            sleep(Duration::from_millis(500)).await;
            assert!(all_equal(&cluster, &OURS, &ours, 2).await, "{lie}");
        }
        control(&cluster, "reset=1").await;
    }
    both_up(&cluster).await;
    cluster.until("equal", EQUAL, async || all_equal(&cluster, &ALL, &services, 2).await).await;
    // One that reports would stay up by the rules of 1.x, whatever it answers.
    control(&cluster, "fault.all=hang&report=off").await;
    // A suspicious one is an owner still.
    cluster.until("held for down", DOWN, async || they_are_down(&cluster).await).await;
    register(&cluster, &OURS, &services, "10.0.0.3").await;
    cluster.until("equal", EQUAL, async || all_equal(&cluster, &OURS, &services, 3).await).await;
    control(&cluster, "reset=1").await;
    // What hung goes on for as long as it was told to.
    cluster.until("up again", DOWN, async || they_agree(&cluster, &ALL).await).await;
    cluster.agreed(&ALL, DOWN).await;
    cluster
        .until("equal", Duration::from_secs(70), async || all_equal(&cluster, &ALL, &services, 3).await)
        .await;
    for place in OURS {
        let lines = cluster.node(place).stderr().lines().count();
        assert!(lines < 400, "{lines} lines were logged");
    }
}
