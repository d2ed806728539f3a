//! Several nodes on one machine: who lists whom, the links between them, their faults.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    sync::atomic::{AtomicU8, Ordering::Relaxed},
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tokio::time::sleep;

use super::{
    http::{Answer, Ask, Http, Unanswered},
    node::{Node, PATIENCE},
    relay::{Passage, Relay, Traffic},
};

/// Nodes are known by their place, from 0 on.
pub type Place = usize;

/// Several nodes, of which any may be running.
pub struct Cluster {
    pub http: Http,
    nodes: Vec<Node>,
    /// By caller and target; none where nodes reach each other directly.
    links: Vec<Vec<Option<Relay>>>,
    _folder: TempDir,
}

/// The last part of the next IP: clusters of one process live side by side.
static NEXT: AtomicU8 = AtomicU8::new(1);

impl Cluster {
    /// `count` nodes that don't run yet and list nobody, so that each is alone.
    pub fn new(count: usize, settings: &[&str]) -> Self {
        let folder = TempDir::with_prefix("nacre-cluster-").unwrap();
        let first = NEXT.fetch_add(u8::try_from(count).unwrap(), Relaxed);
        let ip = |place: usize| Ipv4Addr::new(127, 0, 60, first + u8::try_from(place).unwrap());
        let port = free_port(&(0..count).map(ip).collect::<Vec<_>>());
        let node = |place: usize| {
            let settings = settings.iter().map(ToString::to_string).collect();
            Node::new(ip(place).into(), port, folder.path().join(place.to_string()), settings)
        };
        let nodes: Vec<Node> = (0..count).map(node).collect();
        let links = (0..count).map(|_| (0..count).map(|_| None).collect()).collect();
        Self { http: Http::default(), nodes, links, _folder: folder }
    }

    /// The same, all of whose nodes reach each other by relays.
    pub async fn relayed(count: usize, settings: &[&str]) -> Self {
        let mut cluster = Self::new(count, settings);
        let relays = IpAddr::V4(Ipv4Addr::new(127, 0, 60, 254));
        for caller in 0..count {
            let mut via = Vec::new();
            for target in (0..count).filter(|target| *target != caller) {
                let at = cluster.nodes[target].at();
                let relay = Relay::start(relays, cluster.nodes[caller].at().ip(), at).await.unwrap();
                relay.set(Passage::Refused); // nobody runs yet
                via.push(format!("{at}>{}", relay.listens()));
                cluster.links[caller][target] = Some(relay);
            }
            cluster.nodes[caller].set([format!("nacre.peer.via={}", via.join(","))]);
        }
        cluster
    }

    /// The same, where each lists all, running and of one opinion.
    pub async fn started(count: usize, settings: &[&str]) -> Self {
        let mut cluster = Self::new(count, settings);
        let all: Vec<Place> = (0..count).collect();
        cluster.list_everywhere(&all);
        for place in 0..count {
            cluster.start(place).await;
        }
        cluster.agreed(&all, PATIENCE).await;
        cluster
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn node(&self, place: Place) -> &Node {
        &self.nodes[place]
    }

    pub fn node_mut(&mut self, place: Place) -> &mut Node {
        &mut self.nodes[place]
    }

    pub fn at(&self, place: Place) -> SocketAddr {
        self.nodes[place].at()
    }

    /// Of the processes that run.
    pub fn running(&self) -> Vec<Place> {
        (0..self.len()).filter(|place| self.nodes[*place].runs()).collect()
    }

    /// Gives one node a `cluster.conf` of these members.
    pub fn list(&self, place: Place, members: &[Place]) {
        let lines: String = members.iter().map(|member| format!("{}\n", self.at(*member))).collect();
        self.nodes[place].write_cluster_conf(&lines);
    }

    /// Gives all nodes a `cluster.conf` of these members.
    pub fn list_everywhere(&self, members: &[Place]) {
        for place in 0..self.len() {
            self.list(place, members);
        }
    }

    /// What becomes of the requests from one node to another.
    pub fn link(&self, caller: Place, target: Place, passage: Passage) {
        self.links[caller][target].as_ref().expect("a cluster with relays").set(passage);
    }

    /// What passed from one node to another so far.
    pub fn traffic(&self, caller: Place, target: Place) -> Traffic {
        self.links[caller][target].as_ref().map(Relay::traffic).unwrap_or_default()
    }

    fn links_to(&self, target: Place, passage: Passage) {
        for links in &self.links {
            if let Some(link) = &links[target] {
                link.set(passage);
            }
        }
    }

    /// Starts a node; it listens when this returns.
    pub async fn start(&mut self, place: Place) {
        self.links_to(place, Passage::Open);
        self.nodes[place].start().await;
    }

    /// Kills a node at once; its port refuses from then on.
    pub fn kill(&mut self, place: Place) {
        self.nodes[place].kill();
        self.links_to(place, Passage::Refused);
    }

    /// Ends a node in order.
    pub async fn stop(&mut self, place: Place) {
        self.nodes[place].terminate();
        let status = self.nodes[place].ended().await;
        self.links_to(place, Passage::Refused);
        assert!(status.success(), "{} ends with {status}:\n{}", self.at(place), self.nodes[place].stderr());
    }

    /// Asks a node as a client does.
    pub async fn ask(&self, place: Place, method: &str, path: &str) -> Result<Answer, Unanswered> {
        self.http.ask(self.at(place), Ask::new(method, &format!("/nacos{path}"))).await
    }

    /// Asks a node that has to answer 200.
    pub async fn ok(&self, place: Place, method: &str, path: &str) -> Answer {
        let answer = self.ask(place, method, path).await.unwrap_or_else(|why| panic!("{path}: {why:?}"));
        assert_eq!(answer.status, 200, "{} {path}: {}", self.at(place), answer.text());
        answer
    }

    /// Waits until a node says that it is ready.
    pub async fn ready(&self, place: Place) {
        self.until("ready", PATIENCE, async || {
            let answer = self.http.ask(self.at(place), Ask::new("GET", "/readyz")).await;
            answer.is_ok_and(|answer| answer.status == 200)
        })
        .await;
    }

    /// The members that a node holds for UP, by their addresses; none where it doesn't answer.
    pub async fn ring(&self, place: Place) -> BTreeSet<String> {
        ring(&self.http, self.at(place)).await.unwrap_or_default()
    }

    /// Waits until each of these nodes holds just these for UP; gives how long that took.
    pub async fn agreed(&self, places: &[Place], within: Duration) -> Duration {
        let wanted: BTreeSet<String> = places.iter().map(|place| self.at(*place).to_string()).collect();
        self.until(&format!("agreed on {wanted:?}"), within, async || {
            for place in places {
                if self.ring(*place).await != wanted {
                    return false;
                }
            }
            true
        })
        .await
    }

    /// Waits for something that can only be asked for; gives how long it took.
    pub async fn until(
        &self,
        what: &str,
        within: Duration,
        mut holds: impl AsyncFnMut() -> bool,
    ) -> Duration {
        let start = Instant::now();
        while !holds().await {
            assert!(start.elapsed() < within, "not {what} within {within:?}\n{}", self.said().await);
            sleep(Duration::from_millis(10)).await;
        }
        start.elapsed()
    }

    /// What the nodes think and the ends of their logs, for a test that has failed.
    async fn said(&self) -> String {
        let mut said = String::new();
        for place in self.running() {
            let (at, log) = (self.at(place), self.nodes[place].stderr());
            let lines: Vec<&str> = log.lines().collect();
            let end = lines[lines.len().saturating_sub(30)..].join("\n");
            said += &format!("== {at}, up: {:?}\n{end}\n", self.ring(place).await);
        }
        said
    }
}

/// The members that the node at this address holds for UP.
pub async fn ring(http: &Http, at: SocketAddr) -> Option<BTreeSet<String>> {
    let ask = Ask::new("GET", "/nacos/v1/core/cluster/nodes").within(Duration::from_secs(1));
    let answer = http.ask(at, ask).await.ok()?.json();
    let members = answer["data"].as_array()?.iter();
    let up = members.filter(|member| member["state"] == "UP");
    Some(up.filter_map(|member| Some(member["address"].as_str()?.to_owned())).collect())
}

/// A port that is free at all these addresses now.
fn free_port(ips: &[Ipv4Addr]) -> u16 {
    loop {
        let first = TcpListener::bind((ips[0], 0)).unwrap();
        let port = first.local_addr().unwrap().port();
        if ips[1..].iter().all(|ip| TcpListener::bind((*ip, port)).is_ok()) {
            return port;
        }
    }
}
