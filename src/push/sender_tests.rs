//! The pushing task over real sockets, with a clock that moves only when a test moves it.

use std::{
    io::{ErrorKind, Read as _},
    net::{SocketAddr, UdpSocket},
    sync::Arc,
    time::{Duration, Instant},
};

use flate2::read::GzDecoder;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Push, Question, Sender, open, unacked::MOST_ACK_BYTES};
use crate::{
    base::clock::Clock,
    config::PushSettings,
    model::{
        Definition, InstanceKey, Limits, Metadata, Registry, Service, ServiceKey,
        change::Changes,
        instance::Description,
        registry::Place,
        switches::{Switchboard, Switches},
    },
    push::State,
};

const PLACE: Place<'static> = Place { namespace: "public", name: "G@@a" };

struct Node {
    push: Push,
    registry: Arc<Registry>,
    changes: Arc<Changes>,
    /// A service without an audience.
    probe: Arc<Service>,
    switches: Arc<Switchboard>,
    clock: Clock,
    stopped: CancellationToken,
    task: JoinHandle<()>,
    /// Where its packets come from.
    address: SocketAddr,
}

struct Client(UdpSocket);

impl Client {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        Self(socket)
    }

    /// The packet that came, if one did: its list and its number.
    fn packet(&self) -> Option<(serde_json::Value, u64)> {
        let mut buffer = vec![0; 65_536];
        match self.0.recv(&mut buffer) {
            Ok(length) => {
                let mut text = Vec::new();
                match &buffer[..length] {
                    zipped @ [0x1f, ..] => drop(GzDecoder::new(zipped).read_to_end(&mut text).unwrap()),
                    plain => text.extend_from_slice(plain),
                }
                let packet: serde_json::Value = serde_json::from_slice(&text).unwrap();
                let list = serde_json::from_str(packet["data"].as_str().unwrap()).unwrap();
                Some((list, packet["lastRefTime"].as_u64().unwrap()))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// How many hosts the packet that came shows.
    fn hosts(&self) -> Option<usize> {
        self.packet().map(|(list, _)| list["hosts"].as_array().unwrap().len())
    }

    fn ack(&self, node: &Node, number: u64) {
        let text = format!(r#"{{"type": "push-ack", "lastRefTime":"{number}", "data":""}}"#);
        self.0.send_to(text.as_bytes(), node.address).unwrap();
    }
}

impl Node {
    async fn start() -> Self {
        let (clock, changes) = (Clock::set(1_000_000), Arc::new(Changes::default()));
        let registry = Arc::new(Registry::new(Arc::clone(&changes), Limits::default()));
        let push = Push::new(&PushSettings::default());
        let switches = Arc::new(Switchboard::default());
        let socket = open(Some([127, 0, 0, 1].into()), 0).unwrap();
        let address = socket.local_addr().unwrap();
        let stopped = CancellationToken::new();
        let sender = Sender {
            push: push.clone(),
            clock: clock.clone(),
            registry: Arc::clone(&registry),
            changes: Arc::clone(&changes),
            switches: Arc::clone(&switches),
            socket,
        };
        let task = tokio::spawn(sender.run(stopped.clone()));
        let probe = Service::new(ServiceKey::new("probe", "G@@probe"), Definition::default(), clock.now());
        let node = Self { push, registry, changes, probe, switches, clock, stopped, task, address };
        node.settle().await;
        node
    }

    fn subscribe(&self, client: &Client, clusters: &str, grouped: bool) {
        let question = Question {
            place: PLACE,
            clusters,
            grouped,
            agent: "Nacos-Java-Client:v1.4.8",
            app: "",
            host: "127.0.0.1",
            port: client.0.local_addr().unwrap().port().into(),
            caller: [127, 0, 0, 1].into(),
        };
        assert!(self.push.subscribe(&question, self.clock.now()));
    }

    fn register(&self, port: i32, cluster: &str) {
        let described = Description {
            key: InstanceKey { ip: "10.0.0.1", port, cluster },
            weight: 1.0,
            enabled: true,
            healthy: true,
            ephemeral: true,
            metadata: Metadata::default(),
            app: None,
        };
        self.registry.register(PLACE, &described, self.clock.now()).unwrap();
    }

    /// Waits until the task has done all that changes and the clock give it to do.
    ///
    /// It takes reports in their order, one a round, so when it takes the second of these it has ended a whole round
    /// after all earlier ones. Acknowledgements may still wait: see [`Node::until`].
    async fn settle(&self) {
        for _ in 0..2 {
            self.changes.changed(&self.probe);
            self.until(|| !self.probe.is_announced()).await;
        }
    }

    async fn until(&self, holds: impl Fn() -> bool) {
        let began = Instant::now();
        while !holds() {
            assert!(began.elapsed() < Duration::from_secs(10), "the task doesn't get there");
            tokio::task::yield_now().await;
        }
    }

    async fn advance(&self, ms: u64) {
        self.settle().await;
        self.clock.advance(ms);
        tokio::time::advance(Duration::from_millis(ms)).await;
        self.settle().await;
    }

    fn state(&self) -> State {
        self.push.state(false)
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_change_is_pushed_after_the_first_delay() {
    let (node, client) = (Node::start().await, Client::new());
    node.subscribe(&client, "", true);
    node.register(1, "DEFAULT");
    node.advance(199).await;
    assert!(client.packet().is_none());
    node.register(2, "DEFAULT");
    node.advance(1).await;
    assert_eq!(client.hosts(), Some(2));
    node.advance(5_000).await;
    assert!(client.packet().is_none());
}

#[tokio::test(start_paused = true)]
async fn what_keeps_changing_is_pushed_once_a_second_with_the_newest_state() {
    let (node, client) = (Node::start().await, Client::new());
    node.subscribe(&client, "", true);
    let mut pushed = Vec::new();
    for step in 0_i32..24 {
        if step < 20 {
            node.register(step, "DEFAULT");
        }
        node.advance(100).await;
        pushed.extend(client.hosts().map(|hosts| ((step + 1) * 100, hosts)));
    }
    assert_eq!(pushed, [(200, 2), (1_200, 12), (2_200, 20)]);
}

#[tokio::test(start_paused = true)]
async fn each_gets_the_list_that_it_asked_for() {
    let (node, all, of_b) = (Node::start().await, Client::new(), Client::new());
    node.subscribe(&all, "", true);
    node.subscribe(&of_b, "B", false);
    node.register(1, "A");
    node.advance(200).await;
    let (list, number) = all.packet().unwrap();
    assert_eq!(
        (&list["dom"], &list["cacheMillis"], &list["clusters"]),
        (&"G@@a".into(), &10_000.into(), &"".into())
    );
    assert_eq!(list["hosts"][0]["clusterName"], "A");
    let (list, other) = of_b.packet().unwrap();
    assert_eq!(
        (&list["dom"], &list["clusters"], &list["hosts"]),
        (&"a".into(), &"B".into(), &serde_json::json!([]))
    );
    assert_ne!(number, other);
}

#[tokio::test(start_paused = true)]
async fn without_an_ack_the_same_packet_comes_once_more_and_then_has_failed() {
    let (node, client) = (Node::start().await, Client::new());
    node.subscribe(&client, "", true);
    node.register(1, "DEFAULT");
    node.advance(200).await;
    let first = client.packet().unwrap();
    assert_eq!(node.state(), State { succeed: 0, total: 1, packets: vec![] });
    node.advance(9_999).await;
    assert!(client.packet().is_none());
    node.advance(1).await;
    assert_eq!(client.packet().unwrap(), first);
    node.advance(10_000).await;
    node.advance(10_000).await;
    assert!(client.packet().is_none());
    let stats = node.push.stats();
    assert_eq!((stats.sent.get(), stats.resent.get(), stats.failed.get(), stats.acked.get()), (1, 1, 1, 0));
    assert_eq!(node.state(), State { succeed: 0, total: 1, packets: vec![] });
    assert_eq!(node.push.state(true).packets.len(), 1);
    node.push.forget_failed();
    assert_eq!(node.push.state(true), State { succeed: 1, total: 1, packets: vec![] });
}

#[tokio::test(start_paused = true)]
async fn what_is_acknowledged_is_not_sent_again() {
    let (node, client) = (Node::start().await, Client::new());
    node.subscribe(&client, "", true);
    node.register(1, "DEFAULT");
    node.advance(200).await;
    let (_, number) = client.packet().unwrap();
    client.ack(&node, number + 1);
    client.0.send_to(b"not json", node.address).unwrap();
    client.0.send_to(&vec![b' '; 4 * MOST_ACK_BYTES], node.address).unwrap();
    Client::new().ack(&node, number);
    node.advance(50).await;
    let stats = node.push.stats();
    node.until(|| stats.strange_acks.get() == 4).await;
    assert_eq!((stats.acked.get(), node.push.waiting_count()), (0, 1));
    client.ack(&node, number);
    client.ack(&node, number);
    node.until(|| stats.strange_acks.get() == 5).await;
    assert_eq!((stats.acked.get(), stats.acked_ms.get()), (1, 50));
    assert_eq!(node.state(), State { succeed: 1, total: 1, packets: vec![] });
    node.advance(20_000).await;
    assert!(client.packet().is_none());
}

#[tokio::test(start_paused = true)]
async fn the_numbers_of_packets_grow_though_the_clock_stands() {
    let (node, one, two) = (Node::start().await, Client::new(), Client::new());
    node.subscribe(&one, "", true);
    node.subscribe(&two, "A", true);
    node.register(1, "DEFAULT");
    node.advance(200).await;
    let mut numbers = [one.packet().unwrap().1, two.packet().unwrap().1];
    numbers.sort_unstable();
    assert_eq!(numbers[1], numbers[0] + 1);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_service_is_pushed_as_emptiness_and_its_subscribers_stay() {
    let (node, client) = (Node::start().await, Client::new());
    node.register(1, "DEFAULT");
    node.subscribe(&client, "", true);
    node.advance(200).await;
    assert_eq!(client.hosts(), Some(1));
    node.advance(1_000).await;
    assert!(node.registry.remove(PLACE, node.clock.now()));
    node.advance(200).await;
    assert_eq!(client.hosts(), Some(0));
    node.advance(1_000).await;
    node.register(2, "DEFAULT");
    node.advance(200).await;
    assert_eq!(client.hosts(), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_subscription_ends_30_s_after_the_last_question() {
    let (node, silent, asking) = (Node::start().await, Client::new(), Client::new());
    node.subscribe(&silent, "", true);
    node.subscribe(&asking, "", true);
    node.advance(30_000).await;
    node.register(1, "DEFAULT");
    node.subscribe(&asking, "", true);
    node.advance(200).await;
    assert_eq!((silent.hosts(), asking.hosts()), (None, Some(1)));
    node.advance(10_000).await;
    assert_eq!(node.push.subscriber_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn switched_off_nothing_is_pushed_and_nobody_stays() {
    let (node, client) = (Node::start().await, Client::new());
    node.subscribe(&client, "", true);
    node.switches.store(Switches { push_enabled: false, ..Switches::default() });
    node.register(1, "DEFAULT");
    node.advance(5_000).await;
    assert!(client.packet().is_none());
    assert_eq!(node.push.subscriber_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_too_large_holds_up_nobody() {
    let (node, all, of_b) = (Node::start().await, Client::new(), Client::new());
    node.subscribe(&all, "", true);
    node.subscribe(&of_b, "B", true);
    node.register(1, "B");
    for port in 2..20_000 {
        node.register(port, "A");
    }
    node.advance(200).await;
    assert_eq!((all.hosts(), of_b.hosts()), (None, Some(1)));
    assert_eq!((node.push.stats().too_large.get(), node.push.stats().sent.get()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_target_that_can_not_be_sent_to_is_counted_and_holds_up_nobody() {
    let (node, client) = (Node::start().await, Client::new());
    // The node's socket is an IPv4 one in these tests.
    let question = Question {
        place: PLACE,
        clusters: "",
        grouped: true,
        agent: "Nacos-Java-Client:v1.4.8",
        app: "",
        host: "::1",
        port: 80,
        caller: [127, 0, 0, 1].into(),
    };
    assert!(node.push.subscribe(&question, node.clock.now()));
    node.subscribe(&client, "", true);
    node.register(1, "DEFAULT");
    node.advance(200).await;
    assert_eq!(client.hosts(), Some(1));
    assert_eq!((node.push.stats().unsendable.get(), node.push.stats().sent.get()), (1, 1));
    assert_eq!(node.push.waiting_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_task_ends_when_told() {
    let node = Node::start().await;
    node.stopped.cancel();
    node.task.await.unwrap();
}
