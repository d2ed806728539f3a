//! The means of these tests, tried on a node that is alone: what it shows is right, and what isn't is found.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use parking_lot::Mutex;

use crate::support::{
    cluster::Cluster,
    fleet::Fleet,
    poller::{Pollers, Wrong},
    truth::Truth,
};

const SERVICES: usize = 5;

#[tokio::test]
async fn a_fleet_finds_the_lists_of_a_node_right_and_sees_what_it_forgets() {
    let mut cluster = Cluster::new(1, &[]);
    cluster.start(0).await;
    let (truth, at) = (Arc::new(Mutex::new(Truth::new(SERVICES, 1))), vec![cluster.at(0)]);
    let fleet = Fleet::new(cluster.http.clone(), at.clone(), Arc::clone(&truth));
    fleet.spread_over(&[0]);
    fleet.join(SERVICES, 4).await;
    let pollers = Pollers::start(&cluster.http, &at, &truth, SERVICES, Duration::from_millis(50));
    pollers.read(&[0]);
    let changing = fleet.change(50.0);
    cluster.until("polled", Duration::from_secs(20), async || pollers.seen.lock().lists > 200).await;
    drop(changing);
    assert_eq!(truth.lock().alive(), SERVICES * 4);
    assert!(pollers.seen.lock().episodes.is_empty(), "{:?}", pollers.seen.lock().episodes);
    assert!(fleet.calls().failed.lock().is_empty());
    // It comes back without anything.
    cluster.kill(0);
    cluster.start(0).await;
    cluster
        .until("found out", Duration::from_secs(20), async || {
            let seen = pollers.seen.lock();
            let lost =
                seen.episodes.iter().filter(|found| matches!(found.wrong, Wrong::Empty | Wrong::Shrunken));
            lost.map(|found| found.service).collect::<BTreeSet<_>>().len() == SERVICES
        })
        .await;
    fleet.stop().await;
}
