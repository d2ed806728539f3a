//! What three nodes at rest cost: 10,000 services of 10 instances that need no beats; bytes on the wire of each pair,
//! counted by the relays between them, and processor time.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, sleep_until},
};

use crate::{
    THREE, number,
    support::{
        cluster::{Cluster, Place},
        http::Ask,
        lists::instance,
        node::PATIENCE,
        table::Table,
    },
};

const SERVICES: usize = 10_000;
const EACH: usize = 10;
const AT_ONCE: usize = 64;
const PAIRS: [(Place, Place); 3] = [(0, 1), (0, 2), (1, 2)];

pub async fn run() {
    let (seconds, services) = (number("SECONDS", 60), number("SERVICES", SERVICES as u32) as usize);
    let mut cluster = Cluster::relayed(3, &[]).await;
    cluster.list_everywhere(&THREE);
    for place in THREE {
        cluster.start(place).await;
    }
    cluster.agreed(&THREE, PATIENCE).await;
    let cluster = Arc::new(cluster);
    let start = Instant::now();
    register(&cluster, services).await;
    println!("registered {} instances in {:.1} s", services * EACH, start.elapsed().as_secs_f64());
    settled(&cluster).await;
    let mut table = Table::new(&[
        "", "0-1 B/s", "0-2 B/s", "1-2 B/s", "CPU 0 %", "CPU 1 %", "CPU 2 %", "MiB 0", "MiB 1", "MiB 2",
    ]);
    measure(&cluster, &mut table, "at rest", seconds, None).await;
    measure(&cluster, &mut table, "one change a second", seconds, Some(services)).await;
    println!("{table}");
}

async fn register(cluster: &Arc<Cluster>, services: usize) {
    let (mut tasks, busy) = (JoinSet::new(), Arc::new(Semaphore::new(AT_ONCE)));
    for number in 0..services * EACH {
        let permit = Arc::clone(&busy).acquire_owned().await.unwrap();
        let cluster = Arc::clone(cluster);
        tasks.spawn(async move {
            let (service, host) = (number % services, number / services);
            let path = instance(&format!("steady-{service}"), &format!("10.0.0.{}", host + 1));
            let target = format!("/nacos{path}");
            let ask = Ask::new("POST", &target).within(PATIENCE);
            let answer = cluster.http.ask(cluster.at(number % 3), ask).await.unwrap();
            assert_eq!(answer.status, 200, "{}", answer.text());
            drop(permit);
        });
        while tasks.try_join_next().is_some() {}
    }
    tasks.join_all().await;
}

/// Bytes of both directions of a pair, requests and answers.
fn bytes(cluster: &Cluster, (one, other): (Place, Place)) -> u64 {
    let (there, back) = (cluster.traffic(one, other), cluster.traffic(other, one));
    there.requests + there.answers + back.requests + back.answers
}

/// Waits until twice 10 s pass with little on the wire: that all are late, since nobody beats, is told after the first.
async fn settled(cluster: &Cluster) {
    let mut quiet = 0;
    while quiet < 2 {
        let before = PAIRS.map(|pair| bytes(cluster, pair));
        sleep(Duration::from_secs(10)).await;
        let passed =
            PAIRS.map(|pair| bytes(cluster, pair)).iter().zip(before).map(|(now, before)| now - before).max();
        println!("in ten seconds at most {} bytes of a pair", passed.unwrap());
        quiet = if passed < Some(1 << 20) { quiet + 1 } else { 0 };
    }
}

async fn measure(
    cluster: &Arc<Cluster>,
    table: &mut Table,
    name: &str,
    seconds: u32,
    changing: Option<usize>,
) {
    let before =
        (PAIRS.map(|pair| bytes(cluster, pair)), THREE.map(|place| cluster.node(place).processor_time()));
    let start = Instant::now();
    for second in 0..seconds {
        sleep_until((start + second * Duration::from_secs(1)).into()).await;
        if let Some(services) = changing {
            let service = format!("steady-{}", second as usize * 7 % services);
            let path = format!("{}&weight={}", instance(&service, "10.0.0.1"), second + 2);
            cluster.ok(0, "POST", &path).await;
        }
    }
    sleep_until((start + seconds * Duration::from_secs(1)).into()).await;
    let took = start.elapsed().as_secs_f64();
    let mut cells = vec![name.to_owned()];
    for (pair, before) in PAIRS.into_iter().zip(before.0) {
        #[allow(clippy::cast_precision_loss)]
        let passed = (bytes(cluster, pair) - before) as f64;
        cells.push(format!("{:.0}", passed / took));
    }
    for (place, before) in THREE.into_iter().zip(before.1) {
        let used = cluster.node(place).processor_time() - before;
        cells.push(format!("{:.2}", 100.0 * used.as_secs_f64() / took));
    }
    cells.extend(THREE.map(|place| format!("{:.0}", cluster.node(place).memory())));
    table.row(cells);
}
