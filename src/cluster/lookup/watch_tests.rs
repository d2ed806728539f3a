//! Lists that change, from the file or server to the view. Where only files are read, time is virtual.

use std::{fs, path::Path, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    time::Instant,
};

use super::*;
use crate::{
    base::clock::Clock,
    cluster::{MemberReport, NacreMark, Standing, document::Document, lookup},
    config::{AddressServerSettings, DnsName},
};

const OWN: &str = "10.0.0.1:8848";

fn settings(folder: &Path, change: impl FnOnce(&mut Settings)) -> Arc<Settings> {
    let mut settings = Settings { config_dir: folder.to_owned(), ..Settings::default() };
    settings.membership.lookup = Lookup::File;
    change(&mut settings);
    Arc::new(settings)
}

/// A node that reads its list until the token is dropped.
async fn node(settings: &Arc<Settings>, own: &str) -> (Cluster, tokio_util::sync::DropGuard) {
    let found = lookup::find(settings, Address::new(own)).await.unwrap().expect("members");
    let (cluster, watch) = Cluster::new(found, settings, Clock::set(0));
    let stopped = CancellationToken::new();
    tokio::spawn(watch.run(cluster.clone(), stopped.clone()));
    (cluster, stopped.drop_guard())
}

fn peers(cluster: &Cluster) -> Vec<String> {
    cluster.view().peers.iter().map(|peer| peer.address.to_string()).collect()
}

/// Waits for the next view; tells how long that took.
async fn changed(cluster: &Cluster) -> Duration {
    let (mut changes, start) = (cluster.changes(), Instant::now());
    tokio::time::timeout(Duration::from_secs(60), changes.changed()).await.expect("a change").unwrap();
    start.elapsed()
}

/// Waits until what is shown of the lookup is so.
async fn shown(cluster: &Cluster, is_so: impl Fn(&LookupShown) -> bool) -> LookupShown {
    let looking = async {
        loop {
            let shown = cluster.lookup().expect("a list");
            if is_so(&shown) {
                return shown;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), looking).await.expect("it is shown")
}

#[tokio::test(start_paused = true)]
async fn a_changed_file_counts_within_two_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cluster.conf");
    fs::write(&path, "10.0.0.1\n10.0.0.2 # B\n").unwrap();
    let (cluster, _running) = node(&settings(folder.path(), |_| {}), OWN).await;
    assert_eq!(
        (peers(&cluster), cluster.view().standing),
        (vec!["10.0.0.2:8848".into()], Standing::Starting)
    );
    fs::write(&path, "10.0.0.1\n10.0.0.3\n10.0.0.2").unwrap();
    let took = changed(&cluster).await;
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(peers(&cluster), ["10.0.0.2:8848", "10.0.0.3:8848"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "10.0.0.1\n10.0.0.3\n10.0.0.2", "never written to");
}

#[tokio::test(start_paused = true)]
async fn raft_ports_of_the_list_are_shown_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cluster.conf");
    fs::write(&path, "10.0.0.1:8848?raft_port=5\n10.0.0.2\n").unwrap();
    let (cluster, _running) = node(&settings(folder.path(), |_| {}), OWN).await;
    let shown = || -> Vec<String> {
        let ports = cluster.members().into_iter().map(|member| {
            let document = serde_json::to_value(Document::of(&member, "UP")).unwrap();
            document["extendInfo"]["raftPort"].as_str().unwrap().to_owned()
        });
        ports.collect()
    };
    assert_eq!(
        (shown(), &cluster.own_report().extend_info["raftPort"]),
        (vec!["5".into(), "7848".into()], &"5".into())
    );
    fs::write(&path, "10.0.0.1\n10.0.0.2?raft_port=6\n").unwrap();
    let taken = async {
        while shown() != ["7848", "6"] {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(2), taken).await.expect("within two seconds");
    let report = MemberReport::of_nacre(&Address::new("10.0.0.2:8848"), NacreMark::default());
    assert!(cluster.reported(&report, Clock::set(0).now()));
    assert_eq!(shown(), ["7848", "7848"], "what a member says of itself counts");
}

#[tokio::test(start_paused = true)]
async fn a_file_in_two_halves_is_one_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cluster.conf");
    fs::write(&path, "10.0.0.1\n10.0.0.2\n10.0.0.3\n").unwrap();
    let (cluster, _running) = node(&settings(folder.path(), |_| {}), OWN).await;
    cluster.set_standing(Standing::Serving);
    let mut changes = cluster.changes();
    for half in ["", "10.0.0.2\n10.0.0.4", "10.0.0.2\n10.0.0.4\n10.0.0.1\n"] {
        fs::write(&path, half).unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(changes.has_changed().unwrap());
    assert_eq!(*changes.borrow_and_update(), 2, "the standing and the list");
    assert_eq!((peers(&cluster).len(), cluster.view().standing), (2, Standing::Serving));
}

#[tokio::test(start_paused = true)]
async fn a_broken_file_keeps_the_list_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cluster.conf");
    fs::write(&path, "10.0.0.1\n10.0.0.2\n").unwrap();
    let (cluster, _running) = node(&settings(folder.path(), |_| {}), OWN).await;
    for (text, trouble) in [
        ("10.0.0.1\n10.0.0.3:x\n", "line 2: \"10.0.0.3:x\" is no address of a member"),
        ("", "it names nobody"),
        ("<html>", "line 1: \"<html>\" is no address of a member"),
    ] {
        fs::write(&path, text).unwrap();
        let shown =
            shown(&cluster, |shown| shown.trouble.as_ref().is_some_and(|said| said.starts_with(trouble)))
                .await;
        assert_eq!((shown.kind, shown.place), ("file", path.display().to_string()));
        assert_eq!(peers(&cluster), ["10.0.0.2:8848"]);
    }
    fs::remove_file(&path).unwrap();
    shown(&cluster, |shown| shown.trouble.as_deref() == Some("there is no such file")).await;
    fs::write(&path, "10.0.0.1\n10.0.0.2\n").unwrap();
    shown(&cluster, |shown| shown.trouble.is_none()).await;
    assert_eq!(peers(&cluster), ["10.0.0.2:8848"]);
}

#[tokio::test(start_paused = true)]
async fn a_missing_file_means_the_list_of_the_settings() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cluster.conf");
    let list = |settings: &mut Settings| {
        settings.membership.member_list = vec!["10.0.0.1".into(), "10.0.0.9:1".into()];
    };
    let (cluster, _running) = node(&settings(folder.path(), list), OWN).await;
    assert_eq!(peers(&cluster), ["10.0.0.9:1"]);
    let from_settings = "nacos.member.list/NACOS_SERVERS";
    shown(&cluster, |shown| shown.place == from_settings).await;
    let refusal =
        lookup::find(&settings(folder.path(), list), Address::new("10.0.0.2:8848")).await.unwrap_err();
    let text = format!(
        "this node, 10.0.0.2:8848, isn't among the members in {from_settings} (10.0.0.1:8848, 10.0.0.9:1); "
    );
    assert!(refusal.to_string().starts_with(&text), "{refusal}");
    fs::write(&path, "10.0.0.1\n10.0.0.2\n").unwrap();
    changed(&cluster).await;
    assert_eq!(peers(&cluster), ["10.0.0.2:8848"]);
    shown(&cluster, |shown| shown.place == path.display().to_string()).await;
    fs::remove_file(&path).unwrap();
    changed(&cluster).await;
    assert_eq!(peers(&cluster), ["10.0.0.9:1"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_the_file_no_longer_names_is_removed_and_starts_when_named_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cluster.conf");
    fs::write(&path, "10.0.0.1\n10.0.0.2\n").unwrap();
    let (cluster, _running) = node(&settings(folder.path(), |_| {}), OWN).await;
    cluster.set_standing(Standing::Serving);
    fs::write(&path, "10.0.0.11\n10.0.0.2\n").unwrap();
    changed(&cluster).await;
    assert_eq!((cluster.view().standing, cluster.view().own_index), (Standing::Removed, None));
    fs::write(&path, "10.0.0.1\n10.0.0.2\n").unwrap();
    changed(&cluster).await;
    assert_eq!(
        (cluster.view().standing, peers(&cluster)),
        (Standing::Starting, vec!["10.0.0.2:8848".into()])
    );
}

#[tokio::test]
async fn a_start_without_a_right_list_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cluster.conf");
    let place = path.display();
    let refusal = async |text: &str| {
        fs::write(&path, text).unwrap();
        lookup::find(&settings(folder.path(), |_| {}), Address::new(OWN)).await.unwrap_err().to_string()
    };
    assert_eq!(
        refusal("10.0.0.2\n110.0.0.1:8848").await,
        format!(
            "this node, 10.0.0.1:8848, isn't among the members in {place} (10.0.0.2:8848, 110.0.0.1:8848); name it \
             there, or give the address by which the others know it with nacos.server.ip and server.port"
        )
    );
    assert_eq!(
        refusal("10.0.0.1\nhttp://10.0.0.2").await,
        format!(
            "there is no list of members in {place}: line 2: \"http://10.0.0.2\" is no address of a member: leave out \
             the scheme, HOST:PORT is enough"
        )
    );
    assert_eq!(refusal("# nobody").await, format!("there is no list of members in {place}: it names nobody"));
}

#[tokio::test]
async fn the_node_is_called_as_the_list_calls_it() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("cluster.conf"), "Nacre-0.Nacre.:8848\nnacre-1.nacre\n").unwrap();
    let settings = settings(folder.path(), |_| {});
    let found = lookup::find(&settings, Address::new("nacre-0.nacre:8848")).await.unwrap().unwrap();
    assert_eq!(found.own.as_str(), "Nacre-0.Nacre.:8848");
    let alone = Arc::new(Settings::default());
    assert!(lookup::find(&alone, Address::new(OWN)).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_name_gives_the_members() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path(), |settings| {
        settings.membership.lookup = Lookup::Dns;
        settings.membership.dns = Some(DnsName { name: "localhost".into(), port: None });
    });
    let found = lookup::find(&settings, Address::new("127.0.0.1:9001")).await.unwrap().unwrap();
    assert_eq!(found.members, [Address::new("127.0.0.1:9001")]);
    let start = Instant::now();
    let refused = lookup::find(&settings, Address::new("127.0.10.1:9001")).await.unwrap_err();
    assert!(
        matches!(&refused, LookupError::NotListed { listed, .. } if listed == "127.0.0.1:9001"),
        "{refused}"
    );
    assert!(start.elapsed() >= Duration::from_secs(9), "ten looks");
}

/// Answers every connection with what is in the cell, and counts; a `close` first, so that none is used twice.
async fn address_server(answer: Arc<parking_lot::Mutex<String>>) -> (u16, tokio::sync::watch::Receiver<u32>) {
    let listener = TcpListener::bind("127.0.10.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (answered, answers) = tokio::sync::watch::channel(0);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).await;
            let body = answer.lock().clone();
            let length = body.len();
            let text =
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
            let _ = stream.write_all(text.as_bytes()).await;
            answered.send_modify(|count| *count += 1);
        }
    });
    (port, answers)
}

fn asking(port: u16, tries: u32) -> impl FnOnce(&mut Settings) {
    move |settings| {
        settings.membership.address_server = AddressServerSettings {
            domain: Some("127.0.10.1".into()),
            port,
            tries,
            ..AddressServerSettings::default()
        };
    }
}

#[tokio::test]
async fn the_lookup_can_be_switched_while_the_node_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cluster.conf");
    fs::write(&path, "10.0.0.1\n10.0.0.2\n").unwrap();
    let answer = Arc::new(parking_lot::Mutex::new("10.0.0.3".to_owned()));
    let (port, _) = address_server(Arc::clone(&answer)).await;
    let (cluster, _running) = node(&settings(folder.path(), asking(port, 1)), OWN).await;

    let refused = cluster.switch_lookup(LookupType::AddressServer).await.unwrap_err().to_string();
    assert!(
        refused.starts_with("this node, 10.0.0.1:8848, isn't among the members in http://127.0.10.1:"),
        "{refused}"
    );
    assert_eq!((peers(&cluster), cluster.lookup().unwrap().kind), (vec!["10.0.0.2:8848".into()], "file"));

    *answer.lock() = "10.0.0.1\n10.0.0.3".to_owned();
    assert_eq!(cluster.switch_lookup(LookupType::AddressServer).await, Ok(()));
    assert_eq!(peers(&cluster), ["10.0.0.3:8848"]);
    let shown = shown(&cluster, |shown| shown.kind == "address-server").await;
    assert!(shown.server.unwrap().is_healthy);
    assert_eq!(cluster.switch_lookup(LookupType::AddressServer).await, Ok(()), "as it is already");

    assert_eq!(cluster.switch_lookup(LookupType::File).await, Ok(()));
    assert_eq!(peers(&cluster), ["10.0.0.2:8848"]);
}

#[tokio::test]
async fn an_address_server_is_asked_as_often_as_said_before_the_start_fails() {
    let folder = tempfile::tempdir().unwrap();
    let answer = Arc::new(parking_lot::Mutex::new("10.0.0.3".to_owned()));
    let (port, mut answers) = address_server(Arc::clone(&answer)).await;
    let settings = settings(folder.path(), |settings| {
        settings.membership.lookup = Lookup::AddressServer;
        asking(port, 2)(settings);
    });
    let start = Instant::now();
    let refused = lookup::find(&settings, Address::new(OWN)).await.unwrap_err();
    assert!(matches!(refused, LookupError::NotListed { .. }), "{refused}");
    assert!(start.elapsed() >= Duration::from_secs(1));
    assert_eq!(*answers.borrow_and_update(), 2);
    // It comes to its senses between the tries.
    let finding = tokio::spawn({
        let settings = Arc::clone(&settings);
        async move { lookup::find(&settings, Address::new(OWN)).await }
    });
    answers.changed().await.unwrap();
    *answer.lock() = "10.0.0.3\n10.0.0.1".to_owned();
    let found = finding.await.unwrap().unwrap().unwrap();
    assert_eq!(found.members.len(), 2);
}
