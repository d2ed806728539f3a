//! Writes through filter, guard and forwarder with a fake cluster, a fake client and paused time.

use std::{
    collections::VecDeque,
    future::pending,
    net::SocketAddr,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
};

use futures_util::future::{BoxFuture, FutureExt as _};
use http::HeaderValue;
use tower::{Layer as _, ServiceExt as _, service_fn};

use super::*;
use crate::{
    Facts, V1Body,
    distro_filter::{DistroFilterLayer, Ownership, Standstill},
    forward::ForwardLayer,
    outgoing::Parameters,
};

const BOUNDS: Bounds =
    Bounds { max_in_flight: 20, timeout: Duration::from_secs(2), suspect_after: Duration::from_millis(30) };
const OTHER: &str = "10.0.0.2:8848";
const THIRD: &str = "10.0.0.3:8848";

#[derive(Clone, Copy, Debug)]
struct Write;

impl Facts for Write {
    fn is_dressed(&self) -> bool {
        true
    }
    fn is_naming(&self) -> bool {
        true
    }
    fn reads_body(&self) -> bool {
        true
    }
    fn is_forwarded(&self) -> bool {
        true
    }
}

/// A cluster whose owners are what a test says: the first, and after each refusal the next.
#[derive(Clone)]
struct Cluster(Arc<Told>);

struct Told {
    owners: parking_lot::Mutex<VecDeque<Owner>>,
    happened: parking_lot::Mutex<Vec<String>>,
    listed: parking_lot::Mutex<Vec<&'static str>>,
    passed_on: parking_lot::Mutex<Vec<(u64, Option<u16>)>>,
    /// A call of ours that was passed on waits for this.
    prepares: bool,
    /// For so long, in milliseconds, a write waits until its owner of 1.x has what it lacks.
    brings_ms: AtomicU64,
    leaves: AtomicBool,
    /// Of one more parameter.
    parameter_bytes: AtomicUsize,
}

impl Cluster {
    fn new(owners: impl IntoIterator<Item = Owner>) -> Self {
        Self::preparing(owners, false)
    }

    fn preparing(owners: impl IntoIterator<Item = Owner>, prepares: bool) -> Self {
        Self(Arc::new(Told {
            owners: parking_lot::Mutex::new(owners.into_iter().collect()),
            happened: parking_lot::Mutex::default(),
            listed: parking_lot::Mutex::new(vec![OTHER, THIRD]),
            passed_on: parking_lot::Mutex::default(),
            prepares,
            brings_ms: AtomicU64::new(0),
            leaves: AtomicBool::new(false),
            parameter_bytes: AtomicUsize::new(0),
        }))
    }

    fn happens(&self, what: impl Into<String>) {
        self.0.happened.lock().push(what.into());
    }

    fn happened(&self) -> Vec<String> {
        std::mem::take(&mut self.0.happened.lock())
    }
}

impl Ownership<Write> for Cluster {
    fn owner(&self, _: &Call<Write>) -> Owner {
        self.0.owners.lock().front().cloned().unwrap()
    }
}

impl Parameters<Write> for Cluster {
    fn parameters(&self, call: &Call<Write>, each: &mut dyn FnMut(&str, &str)) {
        match self.0.parameter_bytes.load(Relaxed) {
            0 => {}
            bytes => each("metadata", &"x".repeat(bytes)),
        }
        for pair in call.head.uri.query().unwrap_or_default().split('&') {
            let (name, value) = pair.split_once('=').unwrap();
            each(name, value);
        }
    }
}

impl Members for Cluster {
    fn is_listed(&self, address: &str) -> bool {
        self.0.listed.lock().contains(&address)
    }
    fn refused(&self, address: &str) {
        self.happens(format!("refused {address}"));
        self.passes_over();
    }
    fn serves_nobody(&self, address: &str) {
        self.happens(format!("{address} serves nobody"));
        self.passes_over();
    }
    fn answers(&self, address: &str) {
        self.happens(format!("{address} answers"));
    }
    fn now_ms(&self) -> u64 {
        7
    }
    fn note(&self, note: Note<'_>) {
        self.happens(format!("{note:?}"));
    }
}

impl Cluster {
    /// The first owner is none any more.
    fn passes_over(&self) {
        let mut owners = self.0.owners.lock();
        if owners.len() > 1 {
            owners.pop_front();
        }
    }
}

impl Writes<Write> for Cluster {
    fn is_believed(&self, _: &Call<Write>) -> bool {
        false
    }
    fn prepare(&self, _: &Call<Write>) -> Option<BoxFuture<'static, ()>> {
        let cluster = self.clone();
        self.0.prepares.then(|| async move { cluster.happens("prepared") }.boxed())
    }
    fn brings_first(&self, _: &Call<Write>, owner: &str) -> Option<BoxFuture<'static, ()>> {
        let (cluster, owner) = (self.clone(), owner.to_owned());
        let brings = async move {
            tokio::time::sleep(Duration::from_millis(cluster.0.brings_ms.load(Relaxed))).await;
            cluster.happens(format!("brought to {owner}"));
        };
        self.0.prepares.then(|| brings.boxed())
    }

    fn passed_on(&self, _: &Call<Write>, came_ms: u64, answer: Option<&V1Response>) {
        self.0.passed_on.lock().push((came_ms, answer.map(|answer| answer.status().as_u16())));
    }
    fn stand_in(&self, _: &Call<Write>, why: StandIn) -> Option<Box<dyn FnOnce() + Send>> {
        self.happens(format!("stands in: {why:?}"));
        let cluster = self.clone();
        Some(Box::new(move || cluster.happens("pushed")))
    }
}

impl crate::loop_guard::Guard<Write> for Cluster {
    fn is_peer(&self, call: &Call<Write>) -> bool {
        call.peer.port() == 1
    }
    fn now_ms(&self) -> u64 {
        Members::now_ms(self)
    }
    fn error_document(&self, _: &Call<Write>, status: StatusCode, message: &str) -> V1Response {
        let mut response = Response::new(V1Body::sized(message.to_owned()));
        *response.status_mut() = status;
        response
    }
    fn is_leaving(&self) -> bool {
        self.0.leaves.load(Relaxed)
    }
    fn note_refusal(&self, _: &Call<Write>, _: crate::loop_guard::Refused) {}
}

/// What a peer does with a request.
#[derive(Clone, Debug)]
enum Does {
    /// Answers after so long.
    Answer(Duration, u16, &'static [(&'static str, &'static str)], &'static str),
    Fail(Fault),
    /// Fails after so long.
    FailAfter(Duration, Fault),
    /// Never says anything.
    Hang,
}

const OK: Does = Does::Answer(Duration::from_millis(1), 200, &[("content-type", "text/plain")], "ok");

type Script = Arc<dyn Fn(&Outgoing) -> Does + Send + Sync>;

/// A client that does what a script says and keeps what it was given.
#[derive(Clone)]
struct Wire {
    script: Script,
    sent: Arc<parking_lot::Mutex<Vec<Outgoing>>>,
}

impl Wire {
    fn new(script: impl Fn(&Outgoing) -> Does + Send + Sync + 'static) -> Self {
        Self { script: Arc::new(script), sent: Arc::default() }
    }

    /// Where requests went to.
    fn targets(&self) -> Vec<String> {
        self.sent.lock().iter().map(|sent| sent.to.to_string()).collect()
    }
}

impl Service<Outgoing> for Wire {
    type Response = Response<Bytes>;
    type Error = Fault;
    type Future = BoxFuture<'static, Result<Response<Bytes>, Fault>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Fault>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, outgoing: Outgoing) -> Self::Future {
        let does = (self.script)(&outgoing);
        self.sent.lock().push(outgoing);
        async move {
            match does {
                Does::Answer(after, status, headers, body) => {
                    tokio::time::sleep(after).await;
                    let mut answer = Response::builder().status(status);
                    for (name, value) in headers {
                        answer = answer.header(*name, *value);
                    }
                    Ok(answer.body(Bytes::from_static(body.as_bytes())).unwrap())
                }
                Does::Fail(fault) => Err(fault),
                Does::FailAfter(after, fault) => {
                    tokio::time::sleep(after).await;
                    Err(fault)
                }
                Does::Hang => pending().await,
            }
        }
        .boxed()
    }
}

fn peer(address: &str, is_nacre: bool, all_nacre: bool) -> Owner {
    Owner::Peer(Target { address: address.into(), is_nacre, all_nacre })
}

fn nacre(address: &str) -> Owner {
    peer(address, true, true)
}

fn legacy(address: &str) -> Owner {
    peer(address, false, false)
}

/// A node of the three layers.
struct Node {
    cluster: Cluster,
    wire: Wire,
    forwarder: Forwarder<Cluster, Wire>,
}

impl Node {
    fn new(cluster: Cluster, script: impl Fn(&Outgoing) -> Does + Send + Sync + 'static) -> Self {
        let wire = Wire::new(script);
        let own = Own {
            address: HeaderValue::from_static("10.0.0.1:8848"),
            process: Arc::new(AtomicU64::new(10)),
            headers: http::HeaderMap::new(),
        };
        let forwarder = Forwarder::new(cluster.clone(), wire.clone(), own, BOUNDS);
        Self { cluster, wire, forwarder }
    }

    fn send_with(&self, headers: &[(&'static str, &str)]) -> impl Future<Output = (u16, String)> + use<> {
        let cluster = self.cluster.clone();
        let endpoint = service_fn(move |call: Call<Write>| {
            cluster.happens(format!("done {}", call.head.method));
            async { Ok::<_, Infallible>(Response::new(V1Body::sized("done here"))) }
        });
        let inner = ForwardLayer::new(self.forwarder.clone()).layer(endpoint);
        let inner = crate::loop_guard::LoopGuardLayer::new(self.cluster.clone()).layer(inner);
        let stack = DistroFilterLayer::new(self.cluster.clone()).layer(inner);
        let mut request = Request::put("/nacos/v1/ns/instance?serviceName=a");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let head = request.body(()).unwrap().into_parts().0;
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        async move {
            let answer = stack.oneshot(Call { head, body: Bytes::new(), peer, facts: Write }).await.unwrap();
            (answer.status().as_u16(), String::from_utf8(answer.body().bytes().to_vec()).unwrap())
        }
    }

    async fn send(&self) -> (u16, String) {
        self.send_with(&[]).await
    }

    /// Sends a write every so often for a while; gives each status with the time it took, in milliseconds.
    async fn send_every(&self, gap: Duration, count: u32) -> Vec<(u16, u64)> {
        let start = tokio::time::Instant::now();
        let sends = (0..count).map(|number| {
            let at = start + gap * number;
            async move {
                tokio::time::sleep_until(at).await;
                let (status, _) = self.send().await;
                (status, u64::try_from(at.elapsed().as_millis()).unwrap())
            }
        });
        join_all(sends).await
    }
}

fn texts(happened: &[&str]) -> Vec<String> {
    happened.iter().map(ToString::to_string).collect()
}

#[tokio::test(start_paused = true)]
async fn the_owners_answer_goes_back() {
    let node = Node::new(Cluster::new([nacre(OTHER)]), |_| {
        Does::Answer(Duration::from_millis(1), 404, &[("content-type", "application/json")], "{}")
    });
    assert_eq!(node.send().await, (404, "{}".into()));
    assert_eq!(node.wire.targets(), [OTHER]);
    assert_eq!(node.cluster.happened(), texts(&["10.0.0.2:8848 answers", "Outcome(Relayed)"]));
    let sent = node.wire.sent.lock().remove(0).request;
    assert_eq!(
        (&sent.headers()["x-nacre-hops"], &sent.headers()["x-nacre-sent"]),
        (&HeaderValue::from_static("1"), &HeaderValue::from_static("a.7.25"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_that_leaves_does_what_a_1x_member_sends_it_and_pushes_it() {
    let node = Node::new(Cluster::new([legacy(OTHER)]), |_| OK);
    let agent = [("user-agent", "Nacos-Server:v1.4.8")];
    assert_eq!(node.send_with(&agent).await.0, 400);
    node.cluster.0.leaves.store(true, Relaxed);
    assert_eq!(node.send_with(&agent).await, (200, "done here".into()));
    assert!(node.wire.targets().is_empty());
    let happened = ["stands in: Disagreement", "done PUT", "pushed", "Outcome(Settled)"];
    assert_eq!(node.cluster.happened(), texts(&happened));
}

#[tokio::test(start_paused = true)]
async fn what_is_ours_or_nobodys_is_sent_nowhere() {
    for (owner, status, text) in [
        (Owner::Alone, 200, "done here"),
        (Owner::Here, 200, "done here"),
        (Owner::Nobody(Standstill { state: State::Removed, text: "gone" }), 503, "caused: gone;"),
    ] {
        let node = Node::new(Cluster::new([owner]), |_| OK);
        assert_eq!(node.send().await, (status, text.into()));
        assert!(node.wire.targets().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn where_nobody_is_there_it_goes_once_to_the_next_owner_or_is_done_here() {
    for fault in [Fault::Refused, Fault::Closed] {
        let gone = move |sent: &Outgoing| if *sent.to == *OTHER { Does::Fail(fault.clone()) } else { OK };
        let node = Node::new(Cluster::new([nacre(OTHER), nacre(THIRD)]), gone.clone());
        assert_eq!(node.send().await, (200, "ok".into()));
        assert_eq!(node.wire.targets(), [OTHER, THIRD]);
        assert_eq!(node.cluster.happened()[0], "refused 10.0.0.2:8848");

        let node = Node::new(Cluster::new([legacy(OTHER), Owner::Here]), gone);
        assert_eq!(node.send().await, (200, "done here".into()));
        assert_eq!(node.cluster.happened(), texts(&["refused 10.0.0.2:8848", "done PUT", "Outcome(Moved)"]));
    }
}

#[tokio::test(start_paused = true)]
async fn after_the_second_owner_it_is_a_503() {
    let node =
        Node::new(Cluster::new([nacre(OTHER), nacre(THIRD), Owner::Here]), |_| Does::Fail(Fault::Refused));
    assert_eq!(node.send().await, (200, "done here".into()));
    let node =
        Node::new(Cluster::new([nacre(OTHER), nacre(THIRD), nacre(OTHER)]), |_| Does::Fail(Fault::Refused));
    assert_eq!(node.send().await.0, 503);
    assert_eq!(node.wire.targets(), [OTHER, THIRD]);
    assert_eq!(node.cluster.happened()[2], "Outcome(Unreachable)");
}

#[tokio::test(start_paused = true)]
async fn a_nacre_owner_that_serves_nobody_yet_counts_as_gone() {
    for state in ["starting", "removed"] {
        let headers: &'static [(&str, &str)] = match state {
            "starting" => &[("x-nacre-state", "starting")],
            _ => &[("x-nacre-state", "removed")],
        };
        let node = Node::new(Cluster::new([nacre(OTHER), Owner::Here]), move |_| {
            Does::Answer(Duration::ZERO, 503, headers, "not yet")
        });
        assert_eq!(node.send().await, (200, "done here".into()), "{state}");
        assert!(node.cluster.happened().contains(&"10.0.0.2:8848 serves nobody".into()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_time_out_is_a_503_and_not_sent_again() {
    for owner in [nacre(OTHER), legacy(OTHER)] {
        let node = Node::new(Cluster::new([owner, Owner::Here]), |_| Does::Hang);
        let start = tokio::time::Instant::now();
        let (status, text) = node.send().await;
        assert_eq!((status, start.elapsed()), (503, BOUNDS.timeout));
        assert!(text.contains("has not answered in time"), "{text}");
        assert_eq!(node.wire.targets(), [OTHER]);
        assert_eq!(node.cluster.happened(), texts(&["Outcome(TimedOut)"]));
    }
}

#[tokio::test(start_paused = true)]
async fn of_500_writes_a_second_for_a_hung_owner_three_are_slow_and_the_deputy_does_the_others() {
    let hangs = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let hanging = Arc::clone(&hangs);
    let node =
        Node::new(Cluster::new([nacre(OTHER)]), move |_| if hanging.load(Relaxed) { Does::Hang } else { OK });
    assert!(
        node.send_every(Duration::from_millis(2), 500)
            .await
            .iter()
            .all(|(status, took)| (*status, *took) == (200, 1))
    );
    node.cluster.happened();
    hangs.store(true, Relaxed);
    let answers = node.send_every(Duration::from_millis(2), 30_000).await;
    let slow: Vec<_> = answers.iter().filter(|(_, took)| *took >= 50).collect();
    assert_eq!(slow, [&(503, 2_000); 3]);
    assert_eq!(answers.iter().filter(|(status, _)| *status == 200).count(), 29_997);
    let happened = node.cluster.happened();
    let count = |what: &str| happened.iter().filter(|event| *event == what).count();
    assert_eq!(count("stands in: Deputy"), 29_997);
    assert_eq!((count("done PUT"), count("pushed"), count("Outcome(Deputy)")), (29_997, 29_997, 29_997));
    assert_eq!(count(&format!("Opened({OTHER:?})")), 1);
    assert_eq!(node.forwarder.slow(), [Arc::from(OTHER)]);
    // Those that came before it was suspect, and no other.
    assert_eq!(node.wire.targets().len() - 500, 15);
}

#[tokio::test(start_paused = true)]
async fn many_writes_at_once_for_a_hung_owner_are_done_by_the_deputy_as_soon() {
    let node = Node::new(Cluster::new([nacre(OTHER)]), |_| Does::Hang);
    let answers = node.send_every(Duration::ZERO, 18).await;
    let mut took: Vec<u64> = answers.iter().map(|(_, took)| *took).collect();
    took.sort_unstable();
    assert_eq!(took, [[30; 15].as_slice(), &[2_000; 3]].concat());
}

#[tokio::test(start_paused = true)]
async fn a_probe_finds_out_that_an_open_peer_answers_again() {
    let hangs = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let hanging = Arc::clone(&hangs);
    let node =
        Node::new(Cluster::new([nacre(OTHER)]), move |_| if hanging.load(Relaxed) { Does::Hang } else { OK });
    let probing = tokio::spawn(node.forwarder.clone().probe());
    node.send_every(Duration::from_millis(1), 3).await;
    assert_eq!(node.forwarder.slow().len(), 1);
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert_eq!(node.forwarder.slow().len(), 1);
    let probes = node.wire.sent.lock().split_off(3);
    // Each waits for its time-out, then comes the next.
    assert_eq!(probes.len(), 5);
    assert!(probes.iter().all(|probe| probe.request.uri() == "/livez" && probe.request.method() == "GET"));
    node.cluster.happened();
    hangs.store(false, Relaxed);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(node.forwarder.slow().len(), 0);
    assert_eq!(node.cluster.happened(), [format!("Closed({OTHER:?})"), format!("{OTHER} answers")]);
    assert_eq!(node.send().await, (200, "ok".into()));
    probing.abort();
}

#[tokio::test(start_paused = true)]
async fn one_that_was_off_the_list_while_it_hung_begins_anew_when_it_is_back() {
    let node = Node::new(Cluster::new([nacre(OTHER)]), |_| Does::Hang);
    let probing = tokio::spawn(node.forwarder.clone().probe());
    node.send_every(Duration::ZERO, 3).await;
    assert_eq!(node.forwarder.slow().len(), 1);
    node.cluster.0.listed.lock().retain(|address| *address != OTHER);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(node.forwarder.slow().is_empty());
    node.cluster.0.listed.lock().push(OTHER);
    assert!(node.forwarder.slow().is_empty());
    assert_eq!(node.forwarder.shared.peers.open(|_| true).len(), 0);
    probing.abort();
}

#[tokio::test(start_paused = true)]
async fn an_open_peer_of_1x_that_turns_out_to_be_nacre_is_asked() {
    let hangs = Arc::new(AtomicBool::new(true));
    let hanging = Arc::clone(&hangs);
    let cluster = Cluster::new([legacy(OTHER)]);
    let node = Node::new(cluster, move |_| if hanging.load(Relaxed) { Does::Hang } else { OK });
    let probing = tokio::spawn(node.forwarder.clone().probe());
    node.send_every(Duration::ZERO, 3).await;
    assert_eq!(node.forwarder.slow().len(), 1);
    tokio::time::sleep(Duration::from_secs(3)).await;
    *node.cluster.0.owners.lock() = [nacre(OTHER)].into();
    node.send().await;
    hangs.store(false, Relaxed);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(node.forwarder.slow().is_empty());
    probing.abort();
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_late_by_a_clock_that_stood_still_is_sent_once_more_by_another() {
    let told = Arc::new(AtomicBool::new(false));
    let has_told = Arc::clone(&told);
    let node = Node::new(Cluster::new([nacre(OTHER)]), move |_| {
        let late = Does::Answer(Duration::from_millis(1), 503, &[("x-nacre-state", "late")], "");
        if has_told.swap(true, Relaxed) { OK } else { late }
    });
    assert_eq!(node.send().await, (200, "ok".into()));
    let sent = node.wire.sent.lock();
    let process = |at: usize| {
        let stamp = Sent::read(sent[at].request.headers()["x-nacre-sent"].as_bytes());
        stamp.unwrap().process
    };
    assert_eq!((sent.len(), process(0), process(1)), (2, 10, 11));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_was_late_by_both_clocks_or_nearly_changes_no_number() {
    // It says that nobody else does it for 25 ms.
    for (after_ms, targets) in [(21, 2), (23, 1), (26, 1)] {
        let late = Does::Answer(Duration::from_millis(after_ms), 503, &[("x-nacre-state", "late")], "");
        let node = Node::new(Cluster::new([nacre(OTHER)]), move |_| late.clone());
        assert_eq!(node.send().await, (200, "done here".into()));
        assert_eq!(node.wire.targets().len(), targets, "{after_ms}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_spoils_its_answers_and_is_well_to_probes_costs_a_few_writes() {
    let is_spoilt = Arc::new(AtomicBool::new(true));
    let spoils = Arc::clone(&is_spoilt);
    let node = Node::new(Cluster::new([nacre(OTHER)]), move |sent| {
        if spoils.load(Relaxed) && sent.request.uri() != PROBE_PATH {
            return Does::FailAfter(Duration::from_millis(1), Fault::Broken("cut".into()));
        }
        OK
    });
    let probing = tokio::spawn(node.forwarder.clone().probe());
    let answers = node.send_every(Duration::from_millis(10), 1_500).await;
    assert_eq!(node.cluster.happened()[0], format!("Spoilt({OTHER:?}, \"cut\")"));
    let failed = answers.iter().filter(|(status, _)| *status == 503).count();
    // Three, and one each time when a probe has closed it: after 1, 2, 4 and 8 s.
    assert!((5..=7).contains(&failed), "{failed}");
    assert_eq!(answers.iter().filter(|answer| **answer == (200, 0)).count(), 1_500 - failed);
    assert_eq!(node.forwarder.slow(), [Arc::from(OTHER)]);
    is_spoilt.store(false, Relaxed);
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert!(node.forwarder.slow().is_empty());
    node.cluster.happened();
    assert_eq!(node.send().await, (200, "ok".into()));
    assert_eq!(node.cluster.happened().last().unwrap(), "Outcome(Relayed)");
    probing.abort();
}

#[tokio::test(start_paused = true)]
async fn what_this_host_cannot_send_says_nothing_of_a_peer() {
    let node = Node::new(Cluster::new([nacre(OTHER)]), |_| Does::Fail(Fault::Impossible("no files".into())));
    assert_eq!(node.send_every(Duration::ZERO, 10).await, [(503, 0); 10]);
    assert!(node.forwarder.slow().is_empty());
    assert_eq!(node.cluster.happened()[0], format!("Failed({OTHER:?}, \"no files\")"));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_is_no_member_any_more_is_no_longer_slow() {
    let node = Node::new(Cluster::new([nacre(OTHER)]), |_| Does::Hang);
    node.send_every(Duration::ZERO, 3).await;
    assert_eq!(node.forwarder.slow().len(), 1);
    node.cluster.0.listed.lock().retain(|address| *address != OTHER);
    assert_eq!(node.forwarder.slow().len(), 0);
    *node.cluster.0.owners.lock() = [nacre(THIRD)].into();
    node.send_every(Duration::ZERO, 3).await;
    assert_eq!(node.forwarder.shared.peers.open(|_| true).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn in_a_mixed_ring_an_open_peer_means_503_at_once_but_for_one_a_second() {
    let node = Node::new(Cluster::new([legacy(OTHER)]), |_| Does::Hang);
    let first = node.send_every(Duration::ZERO, 3).await;
    assert_eq!(first, [(503, 2_000); 3]);
    let answers = node.send_every(Duration::from_millis(100), 50).await;
    assert_eq!(answers.iter().filter(|answer| **answer == (503, 0)).count(), 46);
    assert_eq!(answers.iter().filter(|answer| **answer == (503, 2_000)).count(), 4);
    assert!(!node.cluster.happened().iter().any(|event| event.contains("done")));
}

#[tokio::test(start_paused = true)]
async fn no_more_than_the_bound_are_under_way_to_one_peer() {
    let node = Node::new(Cluster::new([legacy(OTHER)]), |_| Does::Hang);
    let answers = node.send_every(Duration::ZERO, 25).await;
    assert_eq!(answers.iter().filter(|answer| **answer == (503, 2_000)).count(), 20);
    assert_eq!(answers.iter().filter(|answer| **answer == (503, 0)).count(), 5);
    let full = node.cluster.happened().iter().filter(|event| *event == "Outcome(Full)").count();
    assert_eq!(full, 5);
}

#[tokio::test(start_paused = true)]
async fn a_clients_end_gives_its_place_back() {
    let node = Node::new(Cluster::new([legacy(OTHER)]), |_| Does::Hang);
    for _ in 0..100 {
        assert!(tokio::time::timeout(Duration::from_millis(10), node.send()).await.is_err());
    }
    assert_eq!(node.wire.targets().len(), 100);
}

const REDIRECT: Does = Does::Answer(
    Duration::ZERO,
    400,
    &[("content-type", "application/json")],
    r#"{"timestamp":"2026-11-29T20:03:53.668+00:00","status":400,"error":"Bad Request","message":"receive invalid redirect request from peer 127.0.0.1","path":"/nacos/v1/ns/instance"}"#,
);

#[tokio::test(start_paused = true)]
async fn the_refusal_of_a_loop_is_not_relayed() {
    const HOPS: Does = Does::Answer(Duration::ZERO, 503, &[("x-nacre-state", "disagreeing")], "document");
    for refusal in [REDIRECT, HOPS] {
        let node = Node::new(Cluster::new([peer(OTHER, true, false)]), move |_| refusal.clone());
        assert_eq!(node.send().await, (200, "done here".into()));
    }
    let node = Node::new(Cluster::new([nacre(OTHER)]), |_| REDIRECT);
    let (status, text) = node.send().await;
    assert_eq!(status, 503);
    assert!(text.starts_with("caused: the owner of this service does not take this server"), "{text}");
    let node = Node::new(Cluster::new([nacre(OTHER)]), |_| HOPS);
    assert_eq!(node.send().await, (200, "done here".into()));
    let happened = node.cluster.happened();
    let settled =
        ["Disagrees(\"10.0.0.2:8848\")", "stands in: Deputy", "done PUT", "pushed", "Outcome(Settled)"];
    assert_eq!(happened[1..], texts(&settled));
    let node = Node::new(Cluster::new([legacy(OTHER)]), |_| REDIRECT);
    assert_eq!(node.send().await, (200, "done here".into()));
    let happened = node.cluster.happened();
    assert_eq!(
        happened[1..],
        texts(&[
            "Disagrees(\"10.0.0.2:8848\")",
            "stands in: Disagreement",
            "done PUT",
            "pushed",
            "Outcome(Settled)"
        ])
    );
    // So is each redirect, which the reference never gives to a write; but it says nothing of who owns what.
    for status in [301, 302, 304, 307, 399] {
        let elsewhere = move |_: &Outgoing| {
            Does::Answer(Duration::ZERO, status, &[("location", "http://a.example/")], "")
        };
        let node = Node::new(Cluster::new([legacy(OTHER)]), elsewhere);
        assert_eq!(node.send().await, (200, "done here".into()));
        let note = format!("Redirects({OTHER:?}, {status})");
        assert_eq!(node.cluster.happened()[1..], [std::slice::from_ref(&note), &happened[2..]].concat());
        let node = Node::new(Cluster::new([nacre(OTHER)]), elsewhere);
        let (status, text) = node.send().await;
        assert_eq!(status, 503);
        assert!(text.starts_with("caused: the owner of this service sends this server elsewhere"), "{text}");
        assert_eq!(node.cluster.happened()[1..], [note, "Outcome(Disagreed)".into()]);
    }
    // Another 400 is an answer.
    let node = Node::new(Cluster::new([legacy(OTHER)]), |_| {
        Does::Answer(Duration::ZERO, 400, &[], "caused: Param 'ip' is required.;")
    });
    assert_eq!(node.send().await, (400, "caused: Param 'ip' is required.;".into()));
}

#[tokio::test(start_paused = true)]
async fn what_came_too_late_for_the_owner_is_done_by_the_deputy() {
    const LATE: Does = Does::Answer(Duration::ZERO, 503, &[("x-nacre-state", "late")], "late");
    let node = Node::new(Cluster::new([nacre(OTHER)]), |_| LATE);
    assert_eq!(node.send().await, (200, "done here".into()));
    let node = Node::new(Cluster::new([peer(OTHER, true, false)]), |_| LATE);
    let (status, text) = node.send().await;
    assert_eq!(status, 503);
    assert!(
        text.starts_with("caused: the owner of this service takes what is sent to it for late"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_under_way_while_the_node_stood_still_is_neither_done_nor_sent_on() {
    const LATE: Does = Does::Answer(Duration::from_millis(1), 503, &[("x-nacre-state", "late")], "late");
    for does in [Does::FailAfter(Duration::from_millis(1), Fault::Closed), LATE] {
        let node = Arc::new(Node::new(Cluster::new([nacre(OTHER), nacre(THIRD)]), move |_| does.clone()));
        let sending = tokio::spawn({
            let node = Arc::clone(&node);
            async move { node.send().await }
        });
        tokio::task::yield_now().await;
        tokio::time::advance(Duration::from_secs(27)).await;
        let (status, text) = sending.await.unwrap();
        assert_eq!(status, 503);
        assert!(text.contains("waited for too long"), "{text}");
        assert_eq!(node.wire.targets(), [OTHER]);
        assert_eq!(node.cluster.happened().last().unwrap(), "Outcome(TimedOut)");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_peer_passed_on_is_done_here_only_while_that_peer_does_not_do_it_itself() {
    for (sent, status, outcome) in [("a.7.40", 200, "Outcome(Deputy)"), ("a.7.20", 503, "Outcome(TimedOut)")]
    {
        let headers = [
            ("user-agent", "Nacos-Server:v1.4.8"),
            ("x-nacre-peer", "1"),
            ("x-nacre-hops", "1"),
            ("request-source", THIRD),
            ("x-nacre-sent", sent),
        ];
        let node = Arc::new(Node::new(Cluster::new([nacre(OTHER)]), |_| Does::Hang));
        // As many as may wait for a silent owner.
        for _ in 0..3 {
            let node = Arc::clone(&node);
            tokio::spawn(async move { node.send().await });
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        let start = tokio::time::Instant::now();
        assert_eq!(node.send_with(&headers).await.0, status);
        assert_eq!(start.elapsed(), BOUNDS.suspect_after);
        let happened = node.cluster.happened();
        assert_eq!(happened.contains(&"done PUT".to_string()), status == 200);
        assert!(happened.contains(&outcome.to_string()), "{happened:?}");
        let patience = node.wire.sent.lock()[3].request.headers()["x-nacre-sent"].clone();
        assert_eq!(patience, if status == 200 { "a.7.25" } else { "a.7.20" }, "the least of all");
    }
}

#[tokio::test(start_paused = true)]
async fn a_nacre_peers_request_goes_on_with_one_hop_more() {
    let headers = [("user-agent", "Nacos-Server:v1.4.8"), ("x-nacre-peer", "1"), ("x-nacre-hops", "1")];
    let node = Node::new(Cluster::new([nacre(OTHER)]), |_| OK);
    assert_eq!(node.send_with(&headers).await, (200, "ok".into()));
    assert_eq!(node.wire.sent.lock()[0].request.headers()["x-nacre-hops"], "2");
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_a_write_that_is_not_done_here_is_told_with_when_it_came() {
    let refused = Does::Fail(Fault::Refused);
    for (owners, does, told) in [
        (vec![nacre(OTHER)], OK, vec![(7, Some(200))]),
        (vec![nacre(OTHER), nacre(THIRD)], refused.clone(), vec![(7, Some(503))]),
        (vec![nacre(OTHER), Owner::Here], refused.clone(), vec![]),
        (vec![Owner::Here], refused, vec![]),
        (vec![legacy(OTHER)], Does::Fail(Fault::TimedOut), vec![(7, Some(503))]),
    ] {
        let node = Node::new(Cluster::new(owners), move |_| does.clone());
        node.send().await;
        let passed_on = std::mem::take(&mut *node.cluster.0.passed_on.lock());
        assert_eq!(passed_on, told);
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_its_sender_gives_up_is_told_without_an_answer_unless_it_is_done_here() {
    let gone_then_hangs = |sent: &Outgoing| match &*sent.to {
        OTHER => Does::Fail(Fault::Refused),
        _ => Does::Hang,
    };
    for (owners, told) in [
        (vec![legacy(THIRD)], vec![(7, None)]),
        (vec![nacre(OTHER), legacy(THIRD)], vec![(7, None)]),
        (vec![nacre(OTHER), Owner::Here], vec![]),
    ] {
        let node = Node::new(Cluster::new(owners), gone_then_hangs);
        let sent = tokio::time::timeout(Duration::from_secs(1), node.send()).await;
        assert_eq!(sent.is_err(), !told.is_empty());
        let passed_on = std::mem::take(&mut *node.cluster.0.passed_on.lock());
        assert_eq!(passed_on, told);
    }
}

#[tokio::test(start_paused = true)]
async fn what_would_go_back_to_its_sender_is_done_here() {
    for (hops, all_nacre, why) in [("1", true, "Deputy"), ("2", true, "Deputy"), ("1", false, "Disagreement")]
    {
        let headers = [
            ("user-agent", "Nacos-Server:v1.4.8"),
            ("x-nacre-peer", "1"),
            ("x-nacre-hops", hops),
            ("request-source", OTHER),
        ];
        let node = Node::new(Cluster::new([peer(OTHER, true, all_nacre)]), |_| OK);
        assert_eq!(node.send_with(&headers).await, (200, "done here".into()));
        assert!(node.wire.targets().is_empty());
        let why = format!("stands in: {why}");
        let happened = [&format!("Disagrees({OTHER:?})"), &*why, "done PUT", "pushed", "Outcome(Settled)"];
        assert_eq!(node.cluster.happened(), happened);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_peer_passed_on_to_us_waits_for_what_the_peer_knows() {
    let headers = [("user-agent", "Nacos-Server:v1.4.8"), ("x-nacre-peer", "1"), ("x-nacre-hops", "1")];
    let node = Node::new(Cluster::preparing([Owner::Here], true), |_| OK);
    assert_eq!(node.send_with(&headers).await, (200, "done here".into()));
    assert_eq!(node.cluster.happened(), texts(&["prepared", "done PUT"]));
    assert_eq!(node.send().await, (200, "done here".into()));
    assert_eq!(node.cluster.happened(), texts(&["done PUT"]));
}

#[tokio::test(start_paused = true)]
async fn an_owner_of_1x_is_brought_what_it_lacks_before_it_is_sent_a_write() {
    for (owner, brought) in [(legacy(OTHER), true), (peer(OTHER, true, false), false)] {
        let node = Node::new(Cluster::preparing([owner], true), |_| OK);
        assert_eq!(node.send().await, (200, "ok".into()));
        let happened = node.cluster.happened();
        assert_eq!(
            happened.iter().position(|what| *what == format!("brought to {OTHER}")),
            brought.then_some(0)
        );
        assert_eq!(happened.last().unwrap(), "Outcome(Relayed)");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_waits_until_its_owner_of_1x_has_what_it_lacks() {
    let node = Arc::new(Node::new(Cluster::preparing([legacy(OTHER)], true), |_| OK));
    node.cluster.0.brings_ms.store(200, Relaxed);
    let sending = tokio::spawn({
        let node = Arc::clone(&node);
        async move { node.send().await }
    });
    tokio::time::sleep(Duration::from_millis(199)).await;
    assert!(node.wire.targets().is_empty());
    assert_eq!(sending.await.unwrap(), (200, "ok".into()));
    assert_eq!(node.wire.targets(), [OTHER]);
}

#[tokio::test(start_paused = true)]
async fn a_write_waits_for_what_its_owner_of_1x_lacks_only_as_long_as_its_sender_waits_for_it() {
    let headers = [
        ("user-agent", "Nacos-Server:v1.4.8"),
        ("x-nacre-peer", "1"),
        ("x-nacre-hops", "1"),
        ("request-source", THIRD),
        ("x-nacre-sent", "a.7.100"),
    ];
    let node = Node::new(Cluster::preparing([legacy(OTHER)], true), |_| OK);
    node.cluster.0.brings_ms.store(500, Relaxed);
    let start = tokio::time::Instant::now();
    let (status, text) = node.send_with(&headers).await;
    assert_eq!(status, 503);
    assert!(text.contains("waited for too long"), "{text}");
    assert!(start.elapsed() < Duration::from_millis(110), "{:?}", start.elapsed());
    assert!(node.wire.targets().is_empty(), "its sender may have sent it elsewhere");
    node.cluster.0.brings_ms.store(50, Relaxed);
    assert_eq!(node.send_with(&headers).await.0, 200, "that was no failure of the owner's");
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_what_is_brought_to_an_owner_of_1x_that_does_not_answer() {
    let node = Node::new(Cluster::preparing([legacy(OTHER)], true), |_| Does::Hang);
    for _ in 0..3 {
        assert_eq!(node.send().await.0, 503);
    }
    node.cluster.0.brings_ms.store(60_000, Relaxed);
    let start = tokio::time::Instant::now();
    let (status, text) = node.send().await;
    assert_eq!((status, start.elapsed()), (503, Duration::ZERO), "{text}");
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_413_and_sent_nowhere() {
    let node = Node::new(Cluster::new([legacy(OTHER)]), |_| OK);
    node.cluster.0.parameter_bytes.store(600 << 10, Relaxed);
    for _ in 0..100 {
        let (status, text) = node.send().await;
        assert_eq!(status, 413);
        assert!(text.contains("512000 bytes"), "{text}");
    }
    assert!(node.wire.targets().is_empty());
    node.cluster.0.parameter_bytes.store(100 << 10, Relaxed);
    assert_eq!(node.send().await, (200, "ok".into()));
    let long = node.wire.sent.lock()[0].long_target.as_ref().map(|target| target.len());
    assert!(long > Some(100 << 10));
}
