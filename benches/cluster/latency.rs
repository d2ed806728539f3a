//! From a registration on one node to its being listed by the others, read every 4 ms.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{task::JoinSet, time::sleep_until};

use crate::{
    THREE, ms, number, owner_of, quantile,
    support::{
        cluster::{Cluster, Place},
        http::Ask,
        lists::instance,
        table::Table,
    },
};

const PER_SECOND: u32 = 200;
const SERVICES: u32 = 1000;
const SPACING: Duration = Duration::from_millis(4);
const LIMIT: Duration = Duration::from_secs(20);

/// One registration as one other node showed it.
struct Shown {
    node: Place,
    owner: Place,
    /// Since it was sent, and since it was acknowledged; none where it never came.
    took: Option<(Duration, Duration)>,
    /// The longest that the reader waited from one read to the next.
    spacing: Duration,
}

pub async fn run() {
    let (cluster, seconds) = (Arc::new(Cluster::started(3, &[]).await), number("SECONDS", 30));
    let (shown, mut tasks) = (Arc::new(Mutex::new(Vec::new())), JoinSet::new());
    let start = Instant::now();
    for number in 0..seconds * PER_SECOND {
        sleep_until((start + number * Duration::from_secs(1) / PER_SECOND).into()).await;
        tasks.spawn(one(Arc::clone(&cluster), number, Arc::clone(&shown)));
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    report(&shown.lock());
}

async fn one(cluster: Arc<Cluster>, number: u32, shown: Arc<Mutex<Vec<Shown>>>) {
    let service = format!("latency-{}", number % SERVICES);
    let [_, one, two, three] = number.to_be_bytes();
    let (ip, owner) = (format!("10.{one}.{two}.{three}"), owner_of(&cluster, &service));
    let sent = Instant::now();
    let target = format!("/nacos{}", instance(&service, &ip));
    let written = cluster.http.ask(cluster.at(0), Ask::new("POST", &target));
    let written = async {
        let answer = written.await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        Instant::now()
    };
    let (first, second) = (appears(&cluster, 1, &service, &ip), appears(&cluster, 2, &service, &ip));
    let (acknowledged, first, second) = tokio::join!(written, first, second);
    for (node, (at, spacing)) in [(1, first), (2, second)] {
        let took = at.map(|at| (at - sent, at.saturating_duration_since(acknowledged)));
        shown.lock().push(Shown { node, owner, took, spacing });
    }
}

async fn appears(cluster: &Cluster, node: Place, service: &str, ip: &str) -> (Option<Instant>, Duration) {
    let (target, wanted) =
        (format!("/nacos/v1/ns/instance/list?serviceName={service}"), format!("\"ip\":\"{ip}\""));
    let (start, mut last, mut spacing) = (Instant::now(), Instant::now(), Duration::ZERO);
    loop {
        let answer = cluster.http.ask(cluster.at(node), Ask::new("GET", &target)).await;
        let now = Instant::now();
        spacing = spacing.max(now - last);
        if answer.is_ok_and(|answer| answer.text().contains(&wanted)) {
            return (Some(now), spacing);
        }
        if start.elapsed() > LIMIT {
            return (None, spacing);
        }
        sleep_until((last + SPACING).into()).await;
        last = now;
    }
}

fn report(shown: &[Shown]) {
    let mut table = Table::new(&[
        "registered on node 0",
        "read",
        "never",
        "median ms",
        "p99 ms",
        "max ms",
        "after ok: median",
        "p99",
        "p99 of spacing",
    ]);
    let mut row = |name: String, is_meant: &dyn Fn(&Shown) -> bool| {
        let meant: Vec<&Shown> = shown.iter().filter(|one| is_meant(one)).collect();
        let mut since_sent: Vec<_> = meant.iter().filter_map(|one| Some(one.took?.0)).collect();
        let mut since_ok: Vec<_> = meant.iter().filter_map(|one| Some(one.took?.1)).collect();
        let mut spacing: Vec<_> = meant.iter().map(|one| one.spacing).collect();
        table.row([
            name,
            meant.len().to_string(),
            (meant.len() - since_sent.len()).to_string(),
            ms(quantile(&mut since_sent, 0.5)),
            ms(quantile(&mut since_sent, 0.99)),
            ms(quantile(&mut since_sent, 1.0)),
            ms(quantile(&mut since_ok, 0.5)),
            ms(quantile(&mut since_ok, 0.99)),
            ms(quantile(&mut spacing, 0.99)),
        ]);
    };
    row("listed by the others".into(), &|_| true);
    row("by those that aren't the owner".into(), &|one| one.node != one.owner);
    for owner in THREE {
        row(format!("owned by node {owner}, by others than it"), &|one| {
            one.owner == owner && one.node != owner
        });
    }
    println!("{table}");
}
