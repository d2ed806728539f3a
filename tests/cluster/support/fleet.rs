//! Clients as real ones of v1 are: each registers its instance, beats every 5 s at one node, goes to the next where a
//! call fails, and registers again where it is told that nobody knows it.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    sync::{Semaphore, oneshot},
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    cluster::Place,
    http::{Answer, Ask, Http, Unanswered},
    truth::{Id, Truth},
};

const PERIOD: Duration = Duration::from_secs(5);
/// Real ones have 3 s to connect and up to 50 s to read; with those a beat to a frozen node would outlast the instance.
const LIMIT: Duration = Duration::from_secs(3);
/// Between two rounds of a registration that no node takes.
const PAUSE: Duration = Duration::from_millis(500);
/// Registrations and deregistrations under way at once.
const AT_ONCE: usize = 32;
/// Young enough to be taken for one that registered during the fault at hand.
const YOUNG: Duration = Duration::from_secs(20);

/// Why a call has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Why {
    Unanswered(Unanswered),
    Status(u16),
}

/// A call that has failed.
#[derive(Clone, Debug)]
pub struct Failure {
    pub at: Instant,
    pub client: Id,
    pub node: Place,
    /// Whether that node was the one with the fault.
    pub at_the_faulty: bool,
    pub why: Why,
    /// What it said, where it said something.
    pub text: String,
}

/// What was called and what became of it.
#[derive(Default)]
pub struct Calls {
    pub done: AtomicU64,
    /// Beats that were answered 20404: the client registers again.
    pub unknown: AtomicU64,
    pub failed: Mutex<Vec<Failure>>,
    /// Nodes with a fault now.
    pub faulty: Mutex<BTreeSet<Place>>,
}

/// The nodes that clients may call.
#[derive(Default)]
struct Doors {
    open: Vec<Place>,
    /// Goes up where clients are to spread anew.
    spread: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Leaves,
    Dies,
}

/// All clients; a cheap handle.
#[derive(Clone)]
pub struct Fleet(Arc<Shared>);

struct Shared {
    http: Http,
    at: Vec<SocketAddr>,
    truth: Arc<Mutex<Truth>>,
    calls: Arc<Calls>,
    doors: Mutex<Doors>,
    /// Those that live, in the order of their making.
    living: Mutex<Vec<(Id, Instant, oneshot::Sender<End>)>>,
    busy: Semaphore,
    stopped: CancellationToken,
    tasks: TaskTracker,
}

impl Fleet {
    /// Nobody yet. `at`: where the nodes are, by their places.
    pub fn new(http: Http, at: Vec<SocketAddr>, truth: Arc<Mutex<Truth>>) -> Self {
        Self(Arc::new(Shared {
            http,
            at,
            truth,
            calls: Arc::default(),
            doors: Mutex::default(),
            living: Mutex::default(),
            busy: Semaphore::new(AT_ONCE),
            stopped: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }))
    }

    pub fn calls(&self) -> &Arc<Calls> {
        &self.0.calls
    }

    /// From now on clients call these nodes, spread evenly.
    pub fn spread_over(&self, nodes: &[Place]) {
        let mut doors = self.0.doors.lock();
        doors.open = nodes.to_vec();
        doors.spread += 1;
    }

    /// From now on clients may also call these nodes; they stay where they are as long as that answers.
    pub fn may_call(&self, nodes: &[Place]) {
        self.0.doors.lock().open = nodes.to_vec();
    }

    /// Adds clients and waits until all of them are registered.
    pub async fn join(&self, services: usize, each: usize) {
        let instances = (0..each).flat_map(|_| 0..services);
        let waiting: Vec<_> = instances.map(|service| self.add(service)).collect();
        for registered in waiting {
            let _ = registered.await;
        }
    }

    /// Adds one client.
    fn add(&self, service: usize) -> oneshot::Receiver<()> {
        let (registered, is_registered) = oneshot::channel();
        let (end, told) = oneshot::channel();
        let id = self.0.truth.lock().new_instance(service);
        self.0.living.lock().push((id, Instant::now(), end));
        let client = Client { shared: Arc::clone(&self.0), id, service, home: 0, spread: 0 };
        let stopped = self.0.stopped.clone();
        self.0.tasks.spawn(stopped.run_until_cancelled_owned(client.live(registered, told)));
        is_registered
    }

    /// From now on, `rate` times a second, one leaves or dies and another comes, until the guard is dropped.
    /// One of ten dies; every second one is one that came lately.
    pub fn change(&self, rate: f64) -> tokio_util::sync::DropGuard {
        let (fleet, stop) = (self.clone(), self.0.stopped.child_token());
        let guard = stop.clone().drop_guard();
        self.0.tasks.spawn(stop.run_until_cancelled_owned(async move {
            let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
            loop {
                sleep(Duration::from_secs_f64(1.0 / rate)).await;
                fleet.replace_one(&mut dice);
            }
        }));
        guard
    }

    fn replace_one(&self, dice: &mut Dice) {
        let (id, _, end) = {
            let mut living = self.0.living.lock();
            let young = living.iter().rev().take_while(|(_, since, _)| since.elapsed() < YOUNG).count();
            let range = if dice.below(2) == 0 && young > 0 { young } else { living.len() };
            let index = living.len() - 1 - dice.below(range);
            living.remove(index)
        };
        let service = self.0.truth.lock().service(id);
        let _ = end.send(if dice.below(10) == 0 { End::Dies } else { End::Leaves });
        drop(self.add(service));
    }

    /// Ends all clients without a word.
    pub async fn stop(&self) {
        self.0.stopped.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}

struct Client {
    shared: Arc<Shared>,
    id: Id,
    service: usize,
    home: Place,
    spread: u64,
}

impl Client {
    async fn live(mut self, registered: oneshot::Sender<()>, mut told: oneshot::Receiver<End>) {
        // Spreads the beats of clients that came together.
        let mut next = Instant::now() + PERIOD.mul_f64(f64::from(self.id % 97) / 97.0);
        self.until_taken("POST", "/v1/ns/instance").await;
        let _ = registered.send(());
        let end = loop {
            tokio::select! {
                () = tokio::time::sleep_until(next.into()) => {}
                end = &mut told => break end,
            }
            next += PERIOD;
            self.beat().await;
        };
        let now = Instant::now();
        match end {
            Ok(End::Leaves) => {
                self.shared.truth.lock().leaves(self.id, now);
                self.until_taken("DELETE", "/v1/ns/instance").await;
                self.shared.truth.lock().left(self.id, Instant::now());
            }
            Ok(End::Dies) | Err(_) => self.shared.truth.lock().died(self.id, now),
        }
    }

    async fn until_taken(&mut self, method: &str, path: &str) {
        loop {
            let answer = {
                let shared = Arc::clone(&self.shared);
                let _busy = shared.busy.acquire().await;
                self.call(method, path).await
            };
            if answer.is_some() {
                break;
            }
            sleep(PAUSE).await;
        }
        if method == "POST" {
            self.shared.truth.lock().acknowledged(self.id, Instant::now());
        }
    }

    async fn beat(&mut self) {
        let Some(answer) = self.call("PUT", "/v1/ns/instance/beat").await else { return };
        if answer.body.windows(5).any(|part| part == b"20404") {
            self.shared.calls.unknown.fetch_add(1, Relaxed);
            self.until_taken("POST", "/v1/ns/instance").await;
        } else {
            self.shared.truth.lock().acknowledged(self.id, Instant::now());
        }
    }

    /// Tries each node once, from the one that answered last time on.
    async fn call(&mut self, method: &str, path: &str) -> Option<Answer> {
        let (ip, service) = (address(self.id), self.service);
        let target = format!(
            "/nacos{path}?serviceName={}&ip={ip}&port={PORT}&clusterName=DEFAULT&ephemeral=true",
            name(service)
        );
        for node in self.order() {
            self.home = node;
            let ask = Ask::new(method, &target).within(LIMIT);
            let outcome = self.shared.http.ask(self.shared.at[node], ask).await;
            self.shared.calls.done.fetch_add(1, Relaxed);
            let (why, text) = match outcome {
                Ok(answer) if answer.status == 200 => return Some(answer),
                Ok(answer) => (Why::Status(answer.status), answer.text()),
                Err(why) => (Why::Unanswered(why), String::new()),
            };
            let calls = &self.shared.calls;
            let at_the_faulty = calls.faulty.lock().contains(&node);
            let at = Instant::now();
            calls.failed.lock().push(Failure { at, client: self.id, node, at_the_faulty, why, text });
        }
        None
    }

    /// The nodes to try.
    fn order(&mut self) -> Vec<Place> {
        let doors = self.shared.doors.lock();
        let mut order = doors.open.clone();
        if self.spread != doors.spread {
            self.spread = doors.spread;
            self.home = order[self.id as usize % order.len()];
        }
        let first = order.iter().position(|node| *node >= self.home).unwrap_or(0);
        order.rotate_left(first);
        order
    }
}

/// Of every instance.
pub const PORT: u16 = 8080;

/// The IP of an instance: its number.
pub fn address(id: Id) -> String {
    let [_, one, two, three] = id.to_be_bytes();
    format!("10.{one}.{two}.{three}")
}

/// The instance with this IP, if it is one of ours.
pub fn instance(ip: &str) -> Option<Id> {
    let mut parts = ip.strip_prefix("10.")?.split('.').map(str::parse::<u8>);
    let mut part = || parts.next()?.ok();
    Some(Id::from_be_bytes([0, part()?, part()?, part()?]))
}

/// The name of a service.
pub fn name(service: usize) -> String {
    format!("fleet-{service}")
}

/// A few even numbers from a known beginning.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}
