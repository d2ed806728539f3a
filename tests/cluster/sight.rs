//! What a person sees of the cluster, and how one takes a node out of it.

use std::{
    net::SocketAddr,
    process::{Command, Output},
    time::Duration,
};

use crate::support::{
    cluster::{Cluster, Place},
    http::Ask,
    lists::{all_list, instance, services},
    node::PATIENCE,
};

/// For a change of the ring to be noticed by all.
const NOTICED: Duration = Duration::from_secs(10);

/// Status and text of a path outside the context path.
async fn get(cluster: &Cluster, place: Place, path: &str) -> (u16, String) {
    let answer = cluster.http.ask(cluster.at(place), Ask::new("GET", path)).await.unwrap();
    (answer.status, answer.text())
}

/// The line of `/readyz` about this part.
async fn line(cluster: &Cluster, place: Place, part: &str) -> Option<String> {
    let (status, text) = get(cluster, place, "/readyz").await;
    assert_eq!(status, 200, "{text}");
    text.lines().find_map(|line| Some(line.strip_prefix(part)?.strip_prefix(": ")?.to_owned()))
}

/// The value of a series of `/metrics`.
async fn metric(cluster: &Cluster, place: Place, series: &str) -> Option<u64> {
    let (_, page) = get(cluster, place, "/metrics").await;
    page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

/// Runs `nacre drain` for a node.
fn drain(at: SocketAddr) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nacre"));
    command.args(["drain", "--url", &format!("http://{at}/nacos")]).env_clear().output().unwrap()
}

#[tokio::test]
async fn a_member_that_dies_is_a_line_and_the_node_stays_ready() {
    let mut cluster = Cluster::started(2, &[]).await;
    let counted = |line: &str| {
        line.contains(": serving ") && line.contains(" members=2 list=") && line.ends_with("cluster.conf")
    };
    cluster.until("logged", NOTICED, async || cluster.node(0).stderr().lines().any(counted)).await;
    let in_order = "naming: up\nstore: up\nring: up\nmembers: up\nmember list: up\nmapping: up\nown address: up\n\
                    persistent data: up\n";
    assert_eq!(get(&cluster, 0, "/readyz").await, (200, in_order.to_owned()));
    let (up, waiting) =
        (r#"nacre_members{state="up"}"#, format!(r#"nacre_distro_waiting{{member="{}"}}"#, cluster.at(1)));
    for (series, wanted) in [
        (up, 1),
        (r#"nacre_members_marked{mark="nacre"}"#, 1),
        ("nacre_ring_size", 2),
        ("nacre_ring_owner", 1),
        (&waiting, 0),
    ] {
        assert_eq!(metric(&cluster, 0, series).await, Some(wanted), "{series}");
    }
    let compared = async || {
        metric(&cluster, 0, r#"nacre_distro_comparisons_total{result="same"}"#).await.is_some_and(|n| n > 0)
    };
    cluster.until("compared", NOTICED, compared).await;
    cluster.kill(1);
    let down = format!("{} DOWN: it refuses connections, or no way leads to it", cluster.at(1));
    let told = async || line(&cluster, 0, "members").await == Some(down.clone());
    cluster.until("told", NOTICED, told).await;
    for service in services("kept") {
        cluster.ok(0, "POST", &instance(&service, "10.0.0.1")).await;
    }
    for (series, wanted) in [
        (up, 0),
        (r#"nacre_members{state="down"}"#, 1),
        ("nacre_ring_size", 1),
        (&waiting, 12),
        ("nacre_ready", 1),
    ] {
        assert_eq!(metric(&cluster, 0, series).await, Some(wanted), "{series}");
    }
}

#[tokio::test]
async fn data_of_one_member_s_store_are_told_at_start_and_by_all() {
    let mut cluster = Cluster::new(2, &[]);
    cluster.start(0).await;
    cluster.ok(0, "POST", "/v1/ns/service?serviceName=made").await;
    cluster.ok(0, "POST", "/v1/ns/instance?serviceName=kept&ip=10.0.0.1&port=80&ephemeral=false").await;
    cluster.stop(0).await;
    let has_warned = |cluster: &Cluster, place| {
        let said = cluster.node(place).stderr();
        said.lines()
            .any(|line| line.contains("WARN") && line.contains("persistent") && line.contains("count=2"))
    };
    assert!(!has_warned(&cluster, 0), "alone it holds what it may");
    cluster.list_everywhere(&[0, 1]);
    for place in [0, 1] {
        cluster.start(place).await;
    }
    cluster.agreed(&[0, 1], PATIENCE).await;
    assert!(has_warned(&cluster, 0));
    let holds = format!("{} holds persistent data that aren't shared: 2 in all", cluster.at(0));
    for place in [0, 1] {
        let told = async || line(&cluster, place, "persistent data").await == Some(holds.clone());
        cluster.until("told", NOTICED, told).await;
        assert!(has_warned(&cluster, place), "{}", cluster.node(place).stderr());
    }
}

#[tokio::test]
async fn a_node_without_the_others_data_is_not_ready_and_can_be_drained() {
    let mut cluster = Cluster::new(2, &[]);
    cluster.list_everywhere(&[0, 1]);
    // Until it has looked ten seconds for the other.
    cluster.start(0).await;
    let (status, text) = get(&cluster, 0, "/readyz").await;
    assert_eq!(status, 503, "{text}");
    assert!(text.starts_with("naming: loading\n"), "{text}");
    assert!(text.contains("\nring: the data of the other members aren't loaded yet\n"), "{text}");
    assert_eq!(metric(&cluster, 0, "nacre_ready").await, Some(0));
    assert!(drain(cluster.at(0)).status.success());
    assert!(cluster.node_mut(0).ended().await.success());
}

#[tokio::test]
async fn a_drained_node_hands_over_before_its_port_is_shut() {
    let mut cluster = Cluster::started(3, &[]).await;
    let services = services("drained");
    for service in &services {
        cluster.ok(2, "POST", &instance(service, "10.0.0.1")).await;
    }
    let by_proxy = Ask::new("PUT", "/nacre/drain").with(&[("x-forwarded-for", "192.0.2.1")], "");
    let refused = cluster.http.ask(cluster.at(2), by_proxy).await.unwrap();
    assert_eq!(refused.status, 403, "{}", refused.text());
    let at = cluster.at(2);
    let drained = drain(at);
    assert!(drained.status.success(), "{drained:?}");
    let said = String::from_utf8(drained.stdout).unwrap();
    assert_eq!(said, format!("{at} has left and takes no connections any more\n"));
    let status = cluster.node_mut(2).ended().await;
    assert!(status.success(), "{status}\n{}", cluster.node(2).stderr());
    assert!(cluster.node(2).stderr().contains("drained from its own host"));
    assert!(all_list(&cluster, &services, 1).await);
    for (number, service) in services.iter().enumerate() {
        cluster.ok(number % 2, "POST", &instance(service, "10.0.0.2")).await;
    }
    cluster.agreed(&[0, 1], NOTICED).await;
    let again = drain(at);
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    let said = String::from_utf8(again.stderr).unwrap();
    assert!(
        said.starts_with(&format!("nacre drain: {at}: refused or unreachable; does the node run")),
        "{said}"
    );
}
