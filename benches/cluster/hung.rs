//! A member that owns a third accepts and never answers, for a minute, again and again beside calm minutes: what
//! becomes of requests for its services and for those of others, of memory, of what was written meanwhile.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    task::JoinSet,
    time::{sleep, sleep_until},
};

use crate::{
    THREE, ms, number, owner_of, quantile,
    support::{
        cluster::{Cluster, Place},
        http::Ask,
        node::PATIENCE,
        table::Table,
    },
};

/// To the services of the hung member, and as many to those of the others.
const PER_SECOND: u32 = 500;
/// Of the requests, one in so many is a write of new data, the others are beats.
const WRITES: u32 = 10;
const HUNG: Place = 2;
const SOUND: [Place; 2] = [0, 1];
const SERVICES_EACH: usize = 50;
/// A write for the hung owner that takes longer is a slow one.
const SLOW: Duration = Duration::from_millis(50);
/// How long a client waits.
const LIMIT: Duration = Duration::from_secs(10);
/// What lives without beats for the whole run.
const LONG: &str =
    "%22preserved.heart.beat.timeout%22:%223600000%22,%22preserved.ip.delete.timeout%22:%223600000%22";

/// One request.
struct Done {
    node: Place,
    for_hung: bool,
    is_write: bool,
    took: Duration,
    ok: bool,
}

struct Bench {
    cluster: Cluster,
    for_hung: Vec<String>,
    for_others: Vec<String>,
    done: Mutex<Vec<Done>>,
    /// By service, the last number that was acknowledged.
    written: Mutex<HashMap<String, u32>>,
}

pub async fn run() {
    let (pairs, seconds) = (number("PAIRS", 5), number("SECONDS", 60));
    let cluster = Cluster::started(3, &[]).await;
    let owned = |owned: bool| {
        let names = (0..).map(|number| format!("hung-{number}"));
        let mine = names.filter(|name| (owner_of(&cluster, name) == HUNG) == owned);
        mine.take(SERVICES_EACH).collect::<Vec<_>>()
    };
    let (for_hung, for_others) = (owned(true), owned(false));
    let (done, written) = (Mutex::default(), Mutex::default());
    let bench = Arc::new(Bench { cluster, for_hung, for_others, done, written });
    for service in bench.for_hung.iter().chain(&bench.for_others) {
        bench.cluster.ok(0, "POST", &write(service, 0)).await;
    }
    sleep(Duration::from_secs(5)).await;
    let mut table = Table::new(&[
        "",
        "others: p50 ms",
        "p99",
        "max",
        "failed",
        "for it: p50",
        "p99",
        "max",
        "failed",
        "slow writes",
        "MiB",
    ]);
    let mut p99 = [Vec::new(), Vec::new()];
    for pair in 0..pairs {
        for is_hung in [false, true] {
            let name = if is_hung { "hung" } else { "calm" };
            if is_hung {
                bench.cluster.node(HUNG).freeze();
            }
            load(&bench, seconds).await;
            if is_hung {
                bench.cluster.node(HUNG).thaw();
            }
            let done = std::mem::take(&mut *bench.done.lock());
            p99[usize::from(is_hung)].push(report(&bench, &mut table, format!("{} {name}", pair + 1), &done));
            if is_hung {
                bench.cluster.agreed(&THREE, PATIENCE).await;
                sleep(Duration::from_secs(5)).await;
                println!("pair {}: {} writes lost", pair + 1, lost(&bench).await);
            }
        }
    }
    println!("{table}");
    let [calm, hung] = p99.map(|mut values| quantile(&mut values, 0.5).as_secs_f64());
    println!("p99 for other owners, median of hung over median of calm: {:.2}", hung / calm);
}

fn write(service: &str, number: u32) -> String {
    format!(
        "/v1/ns/instance?serviceName={service}&ip=10.0.0.1&port=80&metadata=%7B{LONG},%22number%22:%22{number}%22%7D"
    )
}

async fn load(bench: &Arc<Bench>, seconds: u32) {
    let (start, mut tasks) = (Instant::now(), JoinSet::new());
    for tick in 0..seconds * PER_SECOND {
        sleep_until((start + tick * Duration::from_secs(1) / PER_SECOND).into()).await;
        for for_hung in [true, false] {
            tasks.spawn(request(Arc::clone(bench), tick, for_hung));
        }
        while tasks.try_join_next().is_some() {}
    }
    tasks.join_all().await;
}

async fn request(bench: Arc<Bench>, tick: u32, for_hung: bool) {
    let services = if for_hung { &bench.for_hung } else { &bench.for_others };
    let service = &services[tick as usize / WRITES as usize % SERVICES_EACH];
    let node = SOUND[tick as usize / 3 % 2];
    let is_write = tick.is_multiple_of(WRITES);
    // Goes up for each service, over all minutes.
    let number = if is_write { bench.written.lock().get(service).copied().unwrap_or(0) + 1 } else { 0 };
    let target = match is_write {
        true => format!("/nacos{}", write(service, number)),
        false => format!("/nacos/v1/ns/instance/beat?serviceName={service}&ip=10.0.0.1&port=80"),
    };
    let start = Instant::now();
    let ask = Ask::new(if is_write { "POST" } else { "PUT" }, &target).within(LIMIT);
    let answer = bench.cluster.http.ask(bench.cluster.at(node), ask).await;
    let ok = answer.is_ok_and(|answer| answer.status == 200);
    if is_write && ok {
        bench.written.lock().insert(service.clone(), number);
    }
    bench.done.lock().push(Done { node, for_hung, is_write, took: start.elapsed(), ok });
}

/// Writes one row; gives p99 of requests for the services of others.
fn report(bench: &Bench, table: &mut Table, name: String, done: &[Done]) -> Duration {
    let took = |for_hung: bool| -> Vec<Duration> {
        done.iter().filter(|one| one.for_hung == for_hung).map(|one| one.took).collect()
    };
    let failed = |for_hung: bool| done.iter().filter(|one| one.for_hung == for_hung && !one.ok).count();
    let slow = SOUND.map(|node| {
        let slow = |one: &&Done| one.node == node && one.for_hung && one.is_write && one.took > SLOW;
        done.iter().filter(slow).count()
    });
    let (mut others, mut hung) = (took(false), took(true));
    let p99 = quantile(&mut others, 0.99);
    table.row([
        name,
        ms(quantile(&mut others, 0.5)),
        ms(p99),
        ms(quantile(&mut others, 1.0)),
        failed(false).to_string(),
        ms(quantile(&mut hung, 0.5)),
        ms(quantile(&mut hung, 0.99)),
        ms(quantile(&mut hung, 1.0)),
        failed(true).to_string(),
        format!("{} + {}", slow[0], slow[1]),
        SOUND.map(|node| format!("{:.0}", bench.cluster.node(node).memory())).join(" + "),
    ]);
    p99
}

/// Counts the services that some node shows with an older number than the last that was acknowledged.
async fn lost(bench: &Bench) -> usize {
    let written = bench.written.lock().clone();
    let mut lost = 0;
    for (service, number) in written {
        for node in THREE {
            let path = format!("/v1/ns/instance/list?serviceName={service}");
            let list = bench.cluster.ok(node, "GET", &path).await.json();
            let shown = list["hosts"][0]["metadata"]["number"].as_str().and_then(|text| text.parse().ok());
            lost += usize::from(shown.is_none_or(|shown: u32| shown < number));
        }
    }
    lost
}
