//! Reports over a scripted network, in short intervals of real time.

use std::sync::Arc;

use parking_lot::Mutex;

use super::*;
use crate::{
    base::clock::{Clock, Millis},
    cluster::{Standing, lookup},
    config::{Lookup, Settings},
};

const OWN: &str = "127.0.10.1:8848";
const B: &str = "127.0.10.2:8848";

/// A node among these members, whose list is in the settings.
async fn node(listed: &[&str]) -> Cluster {
    let mut settings = Settings { config_dir: "/nowhere".into(), ..Settings::default() };
    settings.membership.lookup = Lookup::File;
    settings.membership.member_list = listed.iter().map(|&text| text.to_owned()).collect();
    settings.cluster.report_interval = Duration::from_millis(100);
    let settings = Arc::new(settings);
    let found = lookup::find(&settings, Address::new(OWN)).await.unwrap().expect("members");
    Cluster::new(found, &settings, Clock::system()).0
}

/// Answers all reports alike; remembers them.
#[derive(Clone)]
struct Scripted {
    answer: Arc<Mutex<Option<Probe>>>,
    reports: Arc<Mutex<Vec<(Address, MemberReport)>>>,
}

impl Scripted {
    /// None: it never answers.
    fn new(answer: Option<Probe>) -> Self {
        Self { answer: Arc::new(Mutex::new(answer)), reports: Arc::default() }
    }

    fn count(&self) -> usize {
        self.reports.lock().len()
    }
}

impl Reporter for Scripted {
    async fn report(&self, to: &Address, report: &MemberReport) -> Probe {
        self.reports.lock().push((to.clone(), report.clone()));
        let answer = self.answer.lock().clone();
        match answer {
            Some(probe) => probe,
            None => std::future::pending().await,
        }
    }
}

const UP: Probe = Probe::Answered { known: true, nacre: Some(1) };

/// Runs the reports until `done` is true of the views and reports.
async fn run_until(cluster: &Cluster, scripted: &Scripted, done: impl Fn() -> bool) {
    let mut changes = cluster.changes();
    let looking = async {
        while !done() {
            let change = tokio::time::timeout(Duration::from_millis(20), changes.changed());
            let _ = change.await;
        }
    };
    tokio::select! {
        () = run(cluster.clone(), scripted.clone(), CancellationToken::new()) => panic!("it ended by itself"),
        outcome = tokio::time::timeout(Duration::from_secs(20), looking) => outcome.expect("it happens"),
    }
}

#[tokio::test]
async fn members_that_answer_are_up_and_reported_to_again_and_again() {
    let (cluster, scripted) = (node(&[OWN, B]).await, Scripted::new(Some(UP)));
    cluster.set_standing(Standing::Serving);
    run_until(&cluster, &scripted, || scripted.count() == 4).await;
    let view = cluster.view();
    assert_eq!((view.ring.len(), view.own_index), (2, Some(0)));
    assert_eq!(cluster.counts().up, 1);
    let (to, report) = scripted.reports.lock()[0].clone();
    assert_eq!((to.as_str(), report.address.as_str()), (B, OWN));
    assert!(report.extend_info["lastRefreshTime"].as_u64().is_some());
    assert!(!report.nacre.unwrap().starting);
}

#[tokio::test]
async fn a_node_that_starts_reports_nothing_until_it_serves() {
    let (cluster, scripted) = (node(&[OWN, B]).await, Scripted::new(Some(UP)));
    let running = tokio::spawn(run(cluster.clone(), scripted.clone(), CancellationToken::new()));
    cluster.answered(&Address::new(B), Millis(0));
    assert_eq!((cluster.view().ring.len(), scripted.count()), (1, 0), "the other one alone");
    cluster.set_standing(Standing::Serving);
    cluster.has_told().await;
    assert!(!scripted.reports.lock()[0].1.nacre.as_ref().unwrap().starting);
    running.abort();
}

#[tokio::test]
async fn a_member_that_hangs_is_reported_to_once_at_a_time() {
    let (cluster, scripted) = (node(&[OWN, B]).await, Scripted::new(None));
    cluster.set_standing(Standing::Serving);
    run_until(&cluster, &scripted, || scripted.count() == 1).await;
    let running = tokio::spawn(run(cluster.clone(), scripted.clone(), CancellationToken::new()));
    for _ in 0..10 {
        cluster.refused(&Address::new(B), Millis(0));
        tokio::task::yield_now().await;
    }
    assert_eq!(scripted.count(), 1);
    running.abort();
}

#[tokio::test]
async fn a_report_of_a_damped_member_is_answered_with_one_at_once() {
    let (cluster, scripted) = (node(&[OWN, B]).await, Scripted::new(Some(UP)));
    cluster.set_standing(Standing::Serving);
    run_until(&cluster, &scripted, || cluster.counts().up == 1).await;
    cluster.refused(&Address::new(B), Millis(0));
    assert_eq!(cluster.counts().down, 1);
    let mark = crate::cluster::NacreMark { protocol: 1, ..Default::default() };
    assert!(cluster.reported(&MemberReport::of_nacre(&Address::new(B), mark), cluster.clock().now()));
    assert_eq!(cluster.counts().down, 1, "not by its word alone");
    run_until(&cluster, &scripted, || cluster.counts().up == 1).await;
}

#[tokio::test]
async fn who_leaves_waits_until_all_know() {
    let (cluster, scripted) = (node(&[OWN, B, "127.0.10.3:8848"]).await, Scripted::new(Some(UP)));
    let running = tokio::spawn(run(cluster.clone(), scripted.clone(), CancellationToken::new()));
    cluster.set_standing(Standing::Serving);
    let mut changes = cluster.changes();
    while cluster.counts().up < 2 {
        changes.changed().await.unwrap();
    }
    scripted.reports.lock().clear();
    cluster.set_standing(Standing::Leaving);
    cluster.has_told().await;
    let told =
        scripted.reports.lock().iter().filter(|(_, report)| report.nacre.as_ref().unwrap().leaving).count();
    assert_eq!((told, cluster.view().own_index), (2, None));
    running.abort();
}

#[tokio::test]
async fn members_that_are_dropped_are_gone_until_the_list_changes() {
    let cluster = node(&[OWN, B, "127.0.10.3:8848"]).await;
    cluster.drop_members(&[Address::new(B), Address::new("27.0.10.3:8848")]);
    let addresses: Vec<_> = cluster.members().into_iter().map(|member| member.address.to_string()).collect();
    assert_eq!(addresses, [OWN, "127.0.10.3:8848"]);
    cluster.drop_members(&[Address::new(OWN)]);
    assert_eq!(cluster.view().standing, Standing::Removed);
}

#[tokio::test]
async fn a_node_alone_knows_itself() {
    let cluster = Cluster::alone(Address::new(OWN), Clock::system());
    cluster.set_standing(Standing::Leaving);
    cluster.has_told().await;
    cluster.refused(&Address::new(B), Millis(0));
    assert_eq!(cluster.view().standing, Standing::Alone);
    assert_eq!((cluster.members().len(), cluster.conditions().len()), (1, 0));
    assert_eq!(cluster.own_report().version.as_deref(), Some("1.4.8"));
    assert!(cluster.reported(&cluster.own_report(), Millis(0)));
    assert!(!cluster.reported(&MemberReport::of_nacre(&Address::new(B), Default::default()), Millis(0)));
    let switched = cluster.switch_lookup(crate::config::LookupType::File).await;
    assert_eq!(switched, Err(crate::cluster::LookupSwitchError::Alone));
}
