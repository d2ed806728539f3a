//! Reads every list of every node over and over and judges each; keeps what was wrong, for how long.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::time::sleep;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    cluster::{Place, ring},
    fleet,
    http::{Ask, Http},
    truth::{Findings, Id, Poll, Truth},
};

/// A node that is asked for a list answers within this, or not at all.
const LIMIT: Duration = Duration::from_secs(2);
/// Between two looks at who a node holds for UP.
const LOOK: Duration = Duration::from_millis(250);

/// What can be wrong with a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wrong {
    Empty,
    Shrunken,
    Late,
    Unhealthy,
    Risen,
    Overdue,
    Foreign,
}

impl Wrong {
    pub const ALL: [Self; 7] =
        [Self::Empty, Self::Shrunken, Self::Late, Self::Unhealthy, Self::Risen, Self::Overdue, Self::Foreign];
}

/// A list of one node that was wrong for a while.
#[derive(Clone, Debug)]
pub struct Episode {
    pub node: Place,
    pub service: usize,
    pub wrong: Wrong,
    /// When the first wrong list was asked for, and when the last one was there.
    pub from: Instant,
    pub to: Instant,
    pub ids: BTreeSet<Id>,
    over: bool,
}

/// What was seen so far.
#[derive(Default)]
pub struct Seen {
    /// Lists that were answered 200.
    pub lists: u64,
    /// Answers that were no list, by status.
    pub other: BTreeMap<(Place, u16), u64>,
    /// No answer.
    pub unanswered: u64,
    pub episodes: Vec<Episode>,
    /// Whom each node held for UP, and since when.
    pub rings: Vec<(Instant, Place, BTreeSet<String>)>,
    last: BTreeMap<(Place, usize, Wrong), usize>,
}

impl Seen {
    fn judged(&mut self, poll: &Poll<'_>, findings: &Findings) {
        self.lists += 1;
        let foreign: Vec<Id> = vec![0; findings.foreign];
        let missing = if findings.empty { &Vec::new() } else { &findings.missing };
        let nothing = if findings.empty { &findings.missing } else { &Vec::new() };
        for (wrong, ids) in [
            (Wrong::Empty, nothing),
            (Wrong::Shrunken, missing),
            (Wrong::Late, &findings.late),
            (Wrong::Unhealthy, &findings.unhealthy),
            (Wrong::Risen, &findings.risen),
            (Wrong::Overdue, &findings.overdue),
            (Wrong::Foreign, &foreign),
        ] {
            self.note(poll, wrong, ids);
        }
    }

    fn note(&mut self, poll: &Poll<'_>, wrong: Wrong, ids: &[Id]) {
        let (node, service, key) = (poll.node, poll.service, (poll.node, poll.service, wrong));
        let open = self.last.get(&key).copied().filter(|index| !self.episodes[*index].over);
        match (open, ids.is_empty()) {
            (None, true) => {}
            (Some(index), true) => {
                self.episodes[index].over = true;
                self.episodes[index].to = poll.got;
            }
            (Some(index), false) => {
                self.episodes[index].to = poll.got;
                self.episodes[index].ids.extend(ids);
            }
            (None, false) => {
                self.last.insert(key, self.episodes.len());
                let (from, to, ids) = (poll.sent, poll.got, ids.iter().copied().collect());
                self.episodes.push(Episode { node, service, wrong, from, to, ids, over: false });
            }
        }
    }
}

/// One reader per node, and one that looks at its ring; they end when dropped.
pub struct Pollers {
    pub seen: Arc<Mutex<Seen>>,
    polled: Arc<Mutex<BTreeSet<Place>>>,
    stop: CancellationToken,
}

impl Pollers {
    /// Reads all lists of each node once in `round`.
    pub fn start(
        http: &Http,
        at: &[SocketAddr],
        truth: &Arc<Mutex<Truth>>,
        services: usize,
        round: Duration,
    ) -> Self {
        let (seen, polled) = <(Arc<Mutex<Seen>>, Arc<Mutex<BTreeSet<Place>>>)>::default();
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        for (node, &at) in at.iter().enumerate() {
            let reader = Reader {
                http: http.clone(),
                node,
                at,
                truth: Arc::clone(truth),
                seen: Arc::clone(&seen),
                polled: Arc::clone(&polled),
                lists: (0..services).map(|_| List::default()).collect(),
            };
            let pause = round / u32::try_from(services).unwrap();
            let watching = reader.watcher();
            tasks.spawn(stop.clone().run_until_cancelled_owned(reader.read(pause)));
            tasks.spawn(stop.clone().run_until_cancelled_owned(watching));
        }
        Self { seen, polled, stop }
    }

    /// From now on these nodes are read.
    pub fn read(&self, nodes: &[Place]) {
        *self.polled.lock() = nodes.iter().copied().collect();
    }
}

impl Drop for Pollers {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The last list of a service: most are the same as the one before, but for their time.
#[derive(Default)]
struct List {
    body: Bytes,
    hosts: Vec<(Option<Id>, bool)>,
}

struct Reader {
    http: Http,
    node: Place,
    at: SocketAddr,
    truth: Arc<Mutex<Truth>>,
    seen: Arc<Mutex<Seen>>,
    polled: Arc<Mutex<BTreeSet<Place>>>,
    lists: Vec<List>,
}

impl Reader {
    async fn read(mut self, pause: Duration) {
        let mut next = Instant::now();
        loop {
            for service in 0..self.lists.len() {
                next = (next + pause).max(Instant::now());
                tokio::time::sleep_until(next.into()).await;
                if !self.polled.lock().contains(&self.node) {
                    sleep(LOOK).await;
                } else if !self.read_one(service).await {
                    sleep(LOOK).await; // it may be dead: no hurry
                }
            }
        }
    }

    async fn read_one(&mut self, service: usize) -> bool {
        let sent = Instant::now();
        let target = format!("/nacos/v1/ns/instance/list?serviceName={}", fleet::name(service));
        let answer = self.http.ask(self.at, Ask::new("GET", &target).within(LIMIT)).await;
        let got = Instant::now();
        if !self.polled.lock().contains(&self.node) {
            return true;
        }
        let answer = match answer {
            Ok(answer) if answer.status == 200 => answer,
            Ok(answer) => {
                *self.seen.lock().other.entry((self.node, answer.status)).or_default() += 1;
                return true;
            }
            Err(_) => {
                self.seen.lock().unanswered += 1;
                return false;
            }
        };
        let list = &mut self.lists[service];
        if !same_but_for_time(&list.body, &answer.body) {
            *list = List { hosts: hosts(&answer.body), body: answer.body };
        }
        let poll = Poll { node: self.node, service, sent, got, hosts: &list.hosts };
        let findings = self.truth.lock().judge(poll);
        self.seen.lock().judged(&poll, &findings);
        true
    }

    fn watcher(&self) -> impl Future<Output = ()> + use<> {
        let (http, at, node) = (self.http.clone(), self.at, self.node);
        let (truth, seen) = (Arc::clone(&self.truth), Arc::clone(&self.seen));
        async move {
            let mut last = BTreeSet::new();
            loop {
                sleep(LOOK).await;
                if let Some(ring) = ring(&http, at).await
                    && ring != last
                {
                    let now = Instant::now();
                    truth.lock().moved(now);
                    seen.lock().rings.push((now, node, ring.clone()));
                    last = ring;
                }
            }
        }
    }
}

/// Whether two lists differ in nothing but the time of their making.
pub fn same_but_for_time(one: &[u8], other: &[u8]) -> bool {
    const NAME: &[u8] = b"\"lastRefTime\":";
    const DIGITS: usize = 13;
    let cut = |text: &[u8]| text.windows(NAME.len()).rposition(|part| part == NAME).map(|at| at + NAME.len());
    match (cut(one), cut(other)) {
        (Some(at), Some(there)) => {
            one[..at] == other[..there] && one.get(at + DIGITS..) == other.get(there + DIGITS..)
        }
        _ => one == other,
    }
}

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow, default)]
    hosts: Vec<Host<'a>>,
}

#[derive(Deserialize)]
struct Host<'a> {
    ip: &'a str,
    port: u16,
    healthy: bool,
}

/// Whom a list names, and their health.
pub fn hosts(body: &[u8]) -> Vec<(Option<Id>, bool)> {
    let document: Document<'_> = serde_json::from_slice(body).unwrap();
    let id = |host: &Host<'_>| fleet::instance(host.ip).filter(|_| host.port == fleet::PORT);
    document.hosts.iter().map(|host| (id(host), host.healthy)).collect()
}
