//! What the rest of the server holds of the protocol.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use nacre_middleware::lateness::{Lateness, Sent};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{
    claim::{Claim, Claims},
    core::{Core, STILL_MS},
    counts::Counts,
    documents::{Ask, Heard, Keys, Named, Verified, Verify, Wanted},
    line::Rhythm,
    lists::Lists,
    mapper::{Owner, Rings, owner},
    silence::{self, Understood},
    takeover::Tenure,
    verify::Buckets,
};
use crate::{
    base::clock::{Clock, Millis, Reading},
    cluster::{Address, Cluster, View},
    model::{Registry, ServiceKey, change::Changes},
};

/// A service whose silent instances may be judged.
#[derive(Clone, Debug)]
pub struct Settled {
    /// Which.
    pub key: ServiceKey,
    /// When the members were asked.
    pub asked: Millis,
    /// All of them have answered, and had their data for long.
    pub by_all: bool,
}

/// What members send may be on its way for so long, in milliseconds: longer than any of them waits for an answer.
pub const LONGEST_WAY_MS: u64 = 10_000;

/// How long a write waits for what its owner is to be brought first: that member takes it within milliseconds where it is well, and
/// one that writes isn't to wait for much longer than usual where it isn't.
const BROUGHT: Duration = Duration::from_millis(500);

/// The protocol of a node that has members beside it; cheap to clone.
#[derive(Clone)]
pub struct Distro(pub(super) Arc<Inner>);

pub(super) struct Inner {
    /// This node.
    pub own: Address,
    pub cluster: Cluster,
    pub lists: Lists,
    pub clock: Clock,
    /// Tells what was written here.
    pub changes: Arc<Changes>,
    pub core: Mutex<Core<Lists>>,
    /// Something is to be done earlier than the driver thinks.
    pub woken: Notify,
    /// A call has ended, or the cluster is another one: there may be nothing left to be brought to anybody.
    pub flushed: Notify,
    /// Tells one run of this node from another.
    boot: u64,
    /// When the protocol was driven last.
    driven: AtomicU64,
    /// What members said of the ring, while the node loads beside some of 1.x.
    pub rings: Mutex<Arc<Rings>>,
    pub health: super::legacy::Health,
    pub fetches: super::exchange::Fetches,
    pub counts: Counts,
    /// What went wrong with members lately.
    failures: Mutex<Failures>,
    understood: Mutex<Understood>,
    /// How long what members send is on its way.
    lateness: Mutex<Lateness>,
    tenure: Mutex<Tenure>,
    claims: Mutex<Claims>,
    settled: Mutex<VecDeque<Settled>>,
    any_settled: Notify,
}

impl Distro {
    /// The protocol over `registry`, not driven yet; `boot` is random.
    #[must_use]
    pub fn new(
        cluster: Cluster,
        registry: Arc<Registry>,
        changes: Arc<Changes>,
        clock: Clock,
        rhythm: Rhythm,
        boot: u64,
    ) -> Self {
        let (view, now) = (cluster.view(), clock.now());
        let own = view.own.clone();
        Self(Arc::new(Inner {
            core: Mutex::new(Core::new(rhythm, Arc::clone(&view), now)),
            own,
            cluster,
            lists: Lists(registry),
            clock,
            changes,
            woken: Notify::new(),
            flushed: Notify::new(),
            boot,
            driven: AtomicU64::new(now.0),
            rings: Mutex::default(),
            health: super::legacy::Health::default(),
            fetches: super::exchange::Fetches::default(),
            counts: Counts::default(),
            failures: Mutex::default(),
            understood: Mutex::default(),
            lateness: Mutex::default(),
            tenure: Mutex::new(Tenure::new(view, now)),
            claims: Mutex::default(),
            settled: Mutex::default(),
            any_settled: Notify::new(),
        }))
    }

    /// Whether this node answers for the instances of a service.
    #[must_use]
    pub fn owns(&self, key: &ServiceKey) -> bool {
        owner(&self.0.cluster.view(), &key.name) == Owner::Here
    }

    /// Whether this node looks for silent instances of a service.
    #[must_use]
    pub fn looks_after(&self, key: &ServiceKey, now: Millis) -> bool {
        self.0.claims.lock().look_after(&self.0.cluster.view_guard(), key, now)
    }

    /// Whether this node judges silent instances about which the members were asked.
    #[must_use]
    pub fn may_judge(&self, settled: &Settled, now: Millis) -> bool {
        let is_new = self.0.tenure.lock().is_new(now);
        self.0.claims.lock().may_judge(&self.0.cluster.view_guard(), settled, is_new, now)
    }

    /// Whether this node has answered for the instances of a service for so long that all that live have beaten here.
    #[must_use]
    pub fn judges(&self, key: &ServiceKey, now: Millis) -> bool {
        self.0.tenure.lock().is_long(&key.name, now)
    }

    /// Whether this node has served for so many milliseconds without a break.
    pub(super) fn has_served(&self, ms: u64) -> bool {
        self.0.tenure.lock().has_served(ms, self.0.clock.now())
    }

    /// Whether a member has been in the ring for so short a time that it can't have heard of the beats of all that live.
    pub(super) fn is_newcomer(&self, member: &Address, now: Millis) -> bool {
        self.0.tenure.lock().is_newcomer(member, now)
    }

    /// The cluster looks like this from now on.
    pub(super) fn see(&self, view: Arc<View>, now: Millis) {
        self.0.claims.lock().see(&view);
        self.0.understood.lock().retain_members(|member| view.peer(member).is_some());
        self.0.failures.lock().retain_members(|member| view.peer(member).is_some());
        self.0.tenure.lock().see(view, now);
    }

    /// Asks those that may know of beats of the silent instances of a service that this node looks after, as its owner or in
    /// the owner's place; [`Distro::next_settled`] gives it when they have answered.
    pub fn ask(&self, key: &ServiceKey) {
        self.0.core.lock().ask(key, self.0.clock.now());
        self.0.woken.notify_one();
    }

    /// The next service whose silent instances may be judged; waits for one. One caller at a time.
    pub async fn next_settled(&self) -> Settled {
        loop {
            if let Some(settled) = self.0.settled.lock().pop_front() {
                return settled;
            }
            self.0.any_settled.notified().await;
        }
    }

    pub(super) fn settle(&self, settled: Settled) {
        self.0.settled.lock().push_back(settled);
        self.0.any_settled.notify_one();
    }

    /// Whether what is read from a socket now may have lain there while the process stood still: whoever sent it has
    /// given it up and gone elsewhere.
    #[must_use]
    pub fn may_be_stale(&self, now: Millis) -> bool {
        now.since(Millis(self.0.driven.load(Ordering::Relaxed))) > STILL_MS
    }

    pub(super) fn drives(&self, now: Millis) {
        self.0.driven.store(now.0, Ordering::Relaxed);
    }

    /// A member sent something of these services of which this node knows better: it gets them whole.
    pub fn send_whole(&self, to: &Address, keys: impl IntoIterator<Item = ServiceKey>) {
        let mut keys = keys.into_iter().peekable();
        if keys.peek().is_none() {
            return;
        }
        self.0.core.lock().lacks(to, keys, self.0.clock.now());
        self.0.woken.notify_one();
    }

    /// Tells the protocol what was written here. Tells whether that was anything: the driver has something to do then, and
    /// finds nothing any more that would wake it.
    pub(super) fn take_changes(&self, now: Millis) -> bool {
        let mut core = self.0.core.lock();
        let mut any = false;
        while let Some(service) = self.0.changes.try_next_local() {
            core.changed(&service.key, now);
            any = true;
        }
        any
    }

    /// The same for whoever isn't the driver.
    pub(super) fn hand_changes(&self, now: Millis) {
        if self.take_changes(now) {
            self.0.woken.notify_one();
        }
    }

    /// Whether the driver has yet to tell the protocol of the cluster as it is: what follows from that isn't in any outbox.
    pub(super) fn is_behind(&self, core: &Core<Lists>) -> bool {
        let view = self.0.cluster.view_guard();
        !Arc::ptr_eq(core.view(), &view) && **core.view() != **view
    }

    /// Ready when every member that can be reached has all that this node wrote.
    pub async fn flushed(&self) {
        loop {
            let flushed = self.0.flushed.notified();
            self.hand_changes(self.0.clock.now());
            {
                let core = self.0.core.lock();
                if !self.is_behind(&core) && core.is_flushed() {
                    return;
                }
            }
            flushed.await;
        }
    }

    /// Ready when nothing of a service is being brought to a member any more, or in half a second at most; nothing where that is so now.
    /// What waits is sent at once.
    pub fn brought(&self, to: &Address, service: &ServiceKey) -> Option<impl Future<Output = ()> + use<>> {
        // What was written a moment ago may not be in the outbox yet.
        self.hand_changes(self.0.clock.now());
        self.brings(to, service).then(|| {
            let (distro, to, service) = (self.clone(), to.clone(), service.clone());
            async move {
                let brought = async {
                    loop {
                        let flushed = distro.0.flushed.notified();
                        if !distro.brings(&to, &service) {
                            return;
                        }
                        flushed.await;
                    }
                };
                // One that takes nothing now shall not hold up who writes.
                let _ = tokio::time::timeout(BROUGHT, brought).await;
            }
        })
    }

    /// Whether something of a service is being brought to a member, or may have to be; if so, before all else.
    fn brings(&self, to: &Address, service: &ServiceKey) -> bool {
        let now = self.0.clock.now();
        let mut core = self.0.core.lock();
        let brings = self.is_behind(&core) || core.awaits(to, service, now);
        if brings && core.hurry(to, service) {
            self.0.woken.notify_one();
        }
        brings
    }

    /// How many services wait for a member, for each of them.
    #[must_use]
    pub fn waiting(&self) -> Vec<(Address, usize)> {
        self.0.core.lock().waiting().map(|(address, count)| (address.clone(), count)).collect()
    }

    /// What was counted so far.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.0.counts
    }

    /// Every member gets these services whole.
    pub fn send_to_all(&self, keys: impl IntoIterator<Item = ServiceKey>) {
        let mut keys = keys.into_iter().peekable();
        if keys.peek().is_none() {
            return;
        }
        let (mut core, now) = (self.0.core.lock(), self.0.clock.now());
        for key in keys {
            core.changed(&key, now);
        }
        self.0.woken.notify_one();
    }

    /// Logs what went wrong with a member and what follows, once a minute for each of them and each kind of failure.
    pub(super) fn note_failure(&self, member: &Address, kind: &'static str, reason: &str) {
        if self.0.failures.lock().pass(member, kind, self.0.clock.now()) {
            tracing::warn!(%member, reason, "{}", what_follows(kind));
        }
    }

    /// The clock has stood still, so the beats that are known here are older than they look, and refute nothing that others say.
    pub(super) fn doubt_beats(&self) {
        self.0.lists.0.for_each(|service| {
            service.state().ephemeral.iter().for_each(|instance| instance.set_doubted());
        });
    }

    /// When a request of `source` was written, from whose clock `sent` is: ages in it count from then. A link may hold
    /// requests back for as long as it likes, and what has gone meanwhile would look alive. Nothing where that was so long ago
    /// that nobody waits for an answer: the sender's clock stood still, or it is gone.
    #[must_use]
    pub fn written_at(&self, source: Option<&Address>, sent: Option<Sent>) -> Option<Reading> {
        let at = self.0.clock.reading();
        let (Some(source), Some(sent)) = (source, sent) else { return Some(at) };
        let (waited_ms, stood) = {
            let mut lateness = self.0.lateness.lock();
            (lateness.waited_ms(source.as_str(), sent, at.now.0), lateness.take_standstill())
        };
        if stood {
            self.doubt_beats();
        }
        (waited_ms <= LONGEST_WAY_MS).then(|| at.earlier(waited_ms))
    }

    /// An owner compares what it owned when it wrote this with what is here, and tells of silence.
    #[must_use]
    pub fn verify(&self, asked: &Verify, written: Millis) -> Verified {
        let (view, now) = (self.0.cluster.view(), written);
        let claim = Claim::new(&view, &asked.source, &asked.ring);
        let of_source = |key: &ServiceKey| claim.holds(key);
        let known = silence::hear(&self.0.lists.0, &asked.beats, &of_source, now);
        let missed = known.missed();
        let buckets = Buckets::of(&self.0.lists, &of_source);
        let differ = buckets.root() != asked.root.0;
        let mut understood = self.0.understood.lock();
        // Looked at behind the lock: whoever leaves the list is forgotten behind it, too. Claims know themselves whose count.
        if self.0.cluster.view_guard().peer(&claim.source).is_some() {
            self.0.claims.lock().heard(&claim, self.0.clock.now());
            understood.verified(&self.0.lists.0, &claim, (&known, !differ), now);
        }
        drop(understood);
        Verified::new(self.0.boot, missed, differ.then_some(&buckets))
    }

    /// An owner compares the keys of some buckets. What it lacks is sent to it.
    #[must_use]
    pub fn keys(&self, asked: Keys) -> Wanted {
        let claim = Claim::new(&self.0.cluster.view(), &asked.source, &asked.ring);
        let of_source = |key: &ServiceKey| claim.holds(key);
        let differing = asked.into_page().compare(&self.0.lists, &of_source);
        self.0.understood.lock().compared(&self.0.lists.0, &claim, &differing);
        self.send_whole(&claim.source, differing.unknown_there);
        Wanted { want: differing.wanted.into_iter().map(Named).collect() }
    }

    /// An owner asks whether younger beats are known here.
    #[must_use]
    pub fn heard(&self, asked: &Ask) -> Heard {
        let now = self.0.clock.now();
        let beats = silence::younger(&self.0.lists.0, &asked.silent, now);
        Heard { beats, new: self.0.tenure.lock().is_new(now) }
    }
}

/// What a failure of this kind means for the data, for an operator.
fn what_follows(kind: &'static str) -> &'static str {
    match kind {
        REFUSED_DATA => "a member refused data: it is sent them again when they change",
        FAULTY_DATA => "some data of a member can't be used: the rest of them counts",
        LEFT_OUT => "a member has data that this node can't take: they are left out here, all others count",
        ANOTHER_TIME => {
            "the data of a member can't be taken: while no member's can, this node doesn't serve, and goes on by itself when the clock is right"
        }
        DISPUTED => "a member compares data that aren't its own: nothing follows from that",
        "gone" => "data for a member wait until it is back, or off the list",
        _ => {
            "data can't be exchanged with a member: it is tried again until it works, or the member is off the list"
        }
    }
}

/// A member doesn't take a single datum.
pub(super) const REFUSED_DATA: &str = "refused data";
/// What a member sent is wrong in part.
pub(super) const FAULTY_DATA: &str = "faulty data";
/// A service of a member is too long.
pub(super) const LEFT_OUT: &str = "data left out";
/// This node's clock is far behind that of a member.
pub(super) const ANOTHER_TIME: &str = "another time";
/// A member takes itself for the owner of what is this node's.
pub(super) const DISPUTED: &str = "disputed";

/// Which failures of which members have been told, and when.
#[derive(Default)]
struct Failures(BTreeMap<(Address, &'static str), Millis>);

impl Failures {
    /// Time between two lines about the same, in milliseconds.
    const AGAIN_MS: u64 = 60_000;
    /// Kinds that are remembered; beyond it nothing is told until some are old.
    const MOST: usize = 1_000;

    /// Forgets what was told of those that are no members any more: of one that comes back it is news.
    fn retain_members(&mut self, is_member: impl Fn(&Address) -> bool) {
        self.0.retain(|(member, _), _| is_member(member));
    }

    /// Whether this is to be told now.
    fn pass(&mut self, member: &Address, kind: &'static str, now: Millis) -> bool {
        let kind = (member.clone(), kind);
        if self.0.get(&kind).is_some_and(|told| now.since(*told) < Self::AGAIN_MS) {
            return false;
        }
        if self.0.len() >= Self::MOST {
            self.0.retain(|_, told| now.since(*told) < Self::AGAIN_MS);
        }
        self.0.len() < Self::MOST && self.0.insert(kind, now).is_none_or(|told| now > told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_of_failure_of_a_member_is_told_once_a_minute() {
        let (one, other) = (Address::new("10.0.0.2:8848"), Address::new("10.0.0.3:8848"));
        let mut failures = Failures::default();
        let mut pass = |member: &Address, kind, now| failures.pass(member, kind, Millis(now));
        assert!(pass(&one, "refused", 1));
        assert!(pass(&one, "silent", 2) && pass(&other, "refused", 2));
        assert!(!pass(&one, "refused", 60_000));
        assert!(pass(&one, "refused", 60_001));
        assert!(!pass(&other, "refused", 60_001));
        failures.retain_members(|member| *member == other);
        let mut pass = |member: &Address, kind, now| failures.pass(member, kind, Millis(now));
        assert!(pass(&one, "refused", 60_002) && !pass(&other, "refused", 60_001), "it left the list");
        let many = (0..2_000).map(|n| Address::new(&format!("10.1.0.1:{n}")));
        assert_eq!(many.filter(|member| pass(member, "silent", 60_002)).count(), Failures::MOST - 1);
    }
}
