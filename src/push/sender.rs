//! The pushing task: notes what changed, waits until it is due, sends it, hears acknowledgements, sends again.
//!
//! One task does it all, so nothing is locked while it decides; between portions of packets it takes in the
//! acknowledgements that came, lest they overflow the socket's buffer, and lets other tasks run.
//! Source: Nacos 1.4.8 naming module, push service; compat file `push`.

use std::{collections::HashSet, io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    Push,
    payload::{self, Content, Packet, TooLarge},
    resolver,
    schedule::Schedule,
    socket::PushSocket,
    subscriber::{Subscriber, Target},
    subscribers::Group,
    unacked::{self, Kept, MOST_ACK_BYTES},
};
use crate::{
    base::clock::{Clock, Millis},
    model::{
        Registry, Service, ServiceKey,
        change::Changes,
        list::{Echo, Shape},
        switches::Switchboard,
    },
};

/// Packets that are sent before the acknowledgements that came are taken in.
const PORTION: usize = 32;
/// Portions before other tasks get their turn.
const PORTIONS_IN_A_ROW: usize = 4;
/// Acknowledgements that are taken in before something else gets its turn.
const MOST_ACKS_IN_A_ROW: usize = 128;
/// Milliseconds between two looks for subscribers whose time is over.
const SWEEP_MS: u64 = 5_000;
/// How long one push waits in all for a system that takes no more packets; what isn't sent by then is dropped.
const MOST_WAITING: Duration = Duration::from_millis(500);
/// Services whose list was too large and reported as such, at most; then they are reported anew.
const MOST_REPORTED: usize = 1_000;
/// Subscribers whose name was resolved after they missed a packet, at most.
const MOST_MISSED: usize = 1_024;

/// The pushing task.
pub struct Sender {
    /// Subscribers, packets that wait, counters.
    pub push: Push,
    /// The time.
    pub clock: Clock,
    /// The newest state of each service.
    pub registry: Arc<Registry>,
    /// What changed. Nobody else may take the changed services from it.
    pub changes: Arc<Changes>,
    /// Whether there are pushes, and how long clients may keep a list.
    pub switches: Arc<Switchboard>,
    /// Where packets leave.
    pub socket: PushSocket,
}

impl Sender {
    /// Pushes until `stopped`. Packets that wait for their acknowledgement then are given up.
    pub async fn run(self, stopped: CancellationToken) {
        let (missed, resolved) = mpsc::channel(MOST_MISSED);
        let names = resolver::run(self.push.clone(), self.clock.clone(), Arc::new(resolver::system), missed);
        let settings = &self.push.0.settings;
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let schedule = Schedule::new(ms(settings.first_delay), ms(settings.interval));
        let sweep_at = self.clock.now().plus(SWEEP_MS);
        let pushing =
            Pushing { last_number: 0, reported: HashSet::new(), schedule, sweep_at, resolved, sender: self };
        tokio::select! {
            () = stopped.cancelled() => {}
            () = names => {}
            () = pushing.run() => {}
        }
    }
}

struct Pushing {
    sender: Sender,
    schedule: Schedule,
    /// `lastRefTime` of the newest packet.
    last_number: u64,
    /// Services whose list was too large, so that each is reported once.
    reported: HashSet<ServiceKey>,
    sweep_at: Millis,
    /// Subscribers that missed a packet since their name wasn't resolved yet.
    resolved: mpsc::Receiver<Arc<Subscriber>>,
}

impl Pushing {
    async fn run(mut self) {
        loop {
            let unacked_due = self.sender.push.0.unacked.lock().next_due();
            let next = [self.schedule.next_due(), unacked_due].into_iter().flatten().min();
            let next = next.map_or(self.sweep_at, |next| next.min(self.sweep_at));
            let wait = Duration::from_millis(next.since(self.now()));
            tokio::select! {
                service = self.sender.changes.next_changed() => self.note(service),
                Some(subscriber) = self.resolved.recv() => self.make_good(&subscriber).await,
                readable = self.sender.socket.readable() => match readable {
                    Ok(()) => self.take_acks(),
                    // Nothing to hear for a while, but a reason not to ask again at once.
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                },
                () = tokio::time::sleep(wait) => {}
            }
            self.push_due().await;
            self.resend_due().await;
            self.sweep();
        }
    }

    fn now(&self) -> Millis {
        self.sender.clock.now()
    }

    fn note(&mut self, service: Arc<Service>) {
        if self.sender.push.has_audience(&service.key) {
            let now = self.now();
            self.schedule.changed(service, now);
        }
    }

    async fn push_due(&mut self) {
        while let Some(service) = self.schedule.take_due(self.now()) {
            if !self.sender.switches.load().push_enabled {
                continue;
            }
            let groups = self.sender.push.0.subscribers.audience(&service.key, self.now());
            let mut patience = Patience::default();
            for group in groups {
                self.push_group(&service, &group, &mut patience).await;
                tokio::task::yield_now().await;
            }
        }
    }

    /// Sends the newest list to those who get the same.
    async fn push_group(&mut self, service: &Arc<Service>, group: &Group, patience: &mut Patience) {
        let Some(packet) = self.build(service, &group.clusters, group.grouped) else { return };
        for (index, portion) in group.subscribers.chunks(PORTION).enumerate() {
            if index > 0 && index % PORTIONS_IN_A_ROW == 0 {
                tokio::task::yield_now().await;
            }
            let sent = self.send_portion(&packet, portion, patience).await;
            self.keep(&packet, &sent);
            self.take_acks();
        }
    }

    /// Sends to one who couldn't be reached when the others got theirs.
    async fn make_good(&mut self, subscriber: &Arc<Subscriber>) {
        let Some(service) = self.sender.registry.get(subscriber.service.place()) else { return };
        let group = Group {
            clusters: Arc::clone(&subscriber.clusters),
            grouped: subscriber.grouped,
            subscribers: vec![Arc::clone(subscriber)],
        };
        self.push_group(&service, &group, &mut Patience::default()).await;
    }

    /// The packet that shows the newest state; nothing where that is too large for one.
    fn build(&mut self, service: &Arc<Service>, clusters: &str, grouped: bool) -> Option<Arc<Packet>> {
        self.last_number = self.sender.clock.nanos().max(self.last_number + 1);
        let shape = Shape { clusters, healthy_only: false, grouped };
        let echo = Echo {
            cache_millis: self.sender.switches.load().default_push_cache_millis,
            wall_ms: self.sender.clock.wall_ms(),
            env: "",
        };
        let newest = self.sender.registry.get(service.key.place());
        let shown = newest.as_ref().unwrap_or(service);
        let state = shown.state();
        let shows = if newest.is_some() { Content::State(&state) } else { Content::Gone(&state) };
        match payload::build(shown, shows, shape, echo, self.last_number) {
            Ok(bytes) => Some(Packet::new(bytes, self.last_number, &self.sender.push.0.gauge)),
            Err(TooLarge) => {
                self.report(service, state.len());
                None
            }
        }
    }

    fn report(&mut self, service: &Service, instances: usize) {
        self.sender.push.stats().too_large.count();
        if self.reported.contains(&service.key) {
            return;
        }
        if self.reported.len() >= MOST_REPORTED {
            self.reported.clear();
        }
        self.reported.insert(service.key.clone());
        tracing::warn!(service = %service.key, instances, "too large to be pushed: its clients see changes when they ask");
    }

    /// Sends `packet` to each whose address is known; gives back whom it went to, and where.
    async fn send_portion<'s>(
        &self,
        packet: &Packet,
        portion: &'s [Arc<Subscriber>],
        patience: &mut Patience,
    ) -> Vec<(&'s Arc<Subscriber>, SocketAddr)> {
        let mut sent = Vec::with_capacity(portion.len());
        for subscriber in portion {
            match (subscriber.target.address(), &subscriber.target) {
                (Some(address), _) => {
                    if self.send(packet, address, patience).await {
                        sent.push((subscriber, address));
                    }
                }
                (None, Target::Name(named)) => named.miss(),
                (None, Target::Address(_)) => {}
            }
        }
        self.sender.push.stats().sent.add(sent.len() as u64);
        sent
    }

    /// Tells whether the system took it.
    async fn send(&self, packet: &Packet, to: SocketAddr, patience: &mut Patience) -> bool {
        loop {
            match self.sender.socket.try_send(packet.bytes(), to) {
                Ok(()) => return true,
                Err(error) if is_full(&error) && patience.is_left() => {
                    patience.wait(&self.sender.socket).await;
                }
                Err(error) => {
                    self.sender.push.stats().unsendable.count();
                    tracing::debug!(%to, %error, "a push isn't sent");
                    return false;
                }
            }
        }
    }

    /// Notes that these packets wait for their acknowledgement.
    fn keep(&self, packet: &Arc<Packet>, sent: &[(&Arc<Subscriber>, SocketAddr)]) {
        let now = self.now();
        let stats = self.sender.push.stats();
        let mut unacked = self.sender.push.0.unacked.lock();
        for (subscriber, address) in sent {
            match unacked.put(subscriber, *address, packet, now) {
                Kept::Yes => {}
                Kept::InPlaceOfAnOlder => stats.failed.count(),
                Kept::No => stats.sent_once.count(),
            }
        }
    }

    /// Takes in the acknowledgements that came, so many at a time.
    fn take_acks(&self) {
        let stats = self.sender.push.stats();
        let mut buffer = [0; MOST_ACK_BYTES + 1];
        for _ in 0..MOST_ACKS_IN_A_ROW {
            let (length, from) = match self.sender.socket.try_receive(&mut buffer) {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Of an earlier packet to somebody, on some systems; the next datagram may be a good one.
                Err(_) => continue,
            };
            let number = unacked::read_ack(&buffer[..length]);
            let now = self.now();
            let took_ms = number.and_then(|number| self.sender.push.0.unacked.lock().ack(from, number, now));
            let Some(took_ms) = took_ms else {
                stats.strange_acks.count();
                continue;
            };
            stats.acked.count();
            stats.acked_ms.add(took_ms);
            stats.slowest_ack_ms.raise_to(took_ms);
        }
    }

    /// Sends again what nobody acknowledged, once; what was sent twice has failed.
    async fn resend_due(&mut self) {
        let stats = self.sender.push.stats();
        let mut patience = Patience::default();
        loop {
            let now = self.now();
            let overdue = self.sender.push.0.unacked.lock().take_overdue(now, PORTION);
            stats.failed.add(overdue.given_up as u64);
            if overdue.resend.is_empty() && overdue.given_up == 0 {
                return;
            }
            for (address, packet) in overdue.resend {
                if self.send(&packet, address, &mut patience).await {
                    stats.resent.count();
                }
            }
            self.take_acks();
            tokio::task::yield_now().await;
        }
    }

    fn sweep(&mut self) {
        let now = self.now();
        if now < self.sweep_at {
            return;
        }
        self.sweep_at = now.plus(SWEEP_MS);
        let subscribers = &self.sender.push.0.subscribers;
        if self.sender.switches.load().push_enabled {
            subscribers.sweep(now);
        } else {
            subscribers.clear();
        }
    }
}

/// The system holds as many packets as it can.
fn is_full(error: &io::Error) -> bool {
    const ENOBUFS: i32 = 105;
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(ENOBUFS)
}

/// How long one push still waits for the system to take more.
struct Patience {
    left: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { left: MOST_WAITING }
    }
}

impl Patience {
    fn is_left(&self) -> bool {
        !self.left.is_zero()
    }

    async fn wait(&mut self, socket: &PushSocket) {
        let from = Instant::now();
        // Where the system says it takes more and then doesn't, this is what slows the loop down.
        let pause = tokio::time::sleep(Duration::from_millis(1));
        let _ = tokio::time::timeout(self.left, async { tokio::join!(socket.writable(), pause) }).await;
        self.left = self.left.saturating_sub(from.elapsed().max(Duration::from_millis(1)));
    }
}
