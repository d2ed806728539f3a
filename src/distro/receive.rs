//! Takes what members send and answer into the registry, and sees to it that what is better here gets back to them.

use std::sync::Arc;

use super::{
    accept::{self, AcceptError, Outcome, Taken},
    batch,
    handle::{Distro, FAULTY_DATA},
    mapper::{Owner, owner},
    trust::{self, Sender},
};
use crate::{
    base::clock::{Millis, Reading},
    cluster::{Address, View},
    model::{
        ServiceKey,
        merge::{Judge, ListFor},
    },
};

impl Distro {
    /// Takes data: what Nacre members stamped is merged, lists of 1.x are taken for what they are. `from`: who tells, if it says so.
    fn take(
        &self,
        view: &View,
        from: Option<&Address>,
        batch: Vec<batch::Read>,
        list_for: impl Fn(&ServiceKey) -> ListFor,
        now: Millis,
    ) -> Outcome {
        let is_newcomer = from.is_some_and(|from| self.is_newcomer(from, now));
        let judge = |key: &ServiceKey| match view.standing.is_loading() {
            true => Judge::Teller,
            false => trust::judge(owner(view, &key.name), from, is_newcomer, || self.judges(key, now)),
        };
        let outcome = accept::take(&self.0.lists.0, batch, judge, list_for, now);
        self.taken(&outcome);
        outcome
    }

    /// Takes lists that a member of 1.x was asked for since it owns them.
    pub(super) fn take_lists(&self, from: &Address, batch: Vec<batch::Read>, now: Millis) -> Outcome {
        let view = self.0.cluster.view();
        // What was written a moment ago may not be in the outbox yet.
        self.hand_changes(now);
        self.take(&view, Some(from), batch, |key| self.list_for_pulled(&view, from, key), now)
    }

    /// What the list counts for that a member of 1.x was asked for. It may have lost the service meanwhile, or be brought what
    /// isn't in the list yet.
    pub(super) fn list_for_pulled(&self, view: &View, from: &Address, key: &ServiceKey) -> ListFor {
        trust::list_for(view, &key.name, Some(from), || {
            let core = self.0.core.lock();
            **core.view() == *view && core.pulls_latest(from, key, self.0.clock.now())
        })
    }

    /// Whether something of a service is being brought to its owner, or will be as soon as the driver has seen that it is the owner: a
    /// list of it can't have that yet.
    fn awaits_its_owner(&self, view: &View, key: &ServiceKey) -> bool {
        let Owner::Peer(owner) = owner(view, &key.name) else { return false };
        let core = self.0.core.lock();
        **core.view() != *view || core.awaits(owner, key, self.0.clock.now())
    }

    /// Takes what a member answered that was asked for all that it has, or for some. Where this node serves by now, the list of an
    /// owner of 1.x may be older than what has been told since: it only adds, and [`Self::send_better`] asks for it anew.
    pub(super) fn take_answer(&self, from: &Address, batch: Vec<batch::Read>, now: Millis) -> Outcome {
        let view = self.0.cluster.view();
        if !view.standing.is_loading() {
            let list_for = |key: &ServiceKey| trust::list_for(&view, &key.name, Some(from), || false);
            return self.take(&view, Some(from), batch, list_for, now);
        }
        let rings = Arc::clone(&self.0.rings.lock());
        let (loaded, is_sure) = {
            let core = self.0.core.lock();
            // One that hasn't told yet, or is cut from who tells, may take itself for the owner.
            (core.loaded_from(), core.has_all_rings(|address| rings.has(address)))
        };
        let list_for = |key: &ServiceKey| {
            let awaits = || self.0.core.lock().awaits(from, key, now);
            // Who has just started may have loaded a part.
            let is_here = || self.0.lists.0.get(key.place()).is_some();
            let is_loaded = |owner: &Address| loaded.contains(owner) && is_here();
            let owner = is_sure.then(|| rings.owner(&key.name)).flatten();
            trust::list_for_load(owner, from, is_loaded, awaits)
        };
        self.take(&view, Some(from), batch, list_for, now)
    }

    fn taken(&self, outcome: &Outcome) {
        self.0.counts.note_outcome(outcome);
        let belated = outcome.taken.iter().filter_map(|(key, taken)| match taken {
            Taken::Merged(merged) => Some((key, merged.belated?)),
            Taken::Replaced(_) => None,
        });
        let mut belated = belated.peekable();
        if belated.peek().is_some() {
            let mut core = self.0.core.lock();
            belated.for_each(|(key, stamp)| core.came_belated(key, stamp));
        }
    }

    /// Takes what a member sent (a map of keys and data as JSON), key by key; 1.4.8 doesn't say which of its members it is. To
    /// members that are `unreached` by it what it sent is handed on. `written`: see [`Self::written_at`].
    ///
    /// # Errors
    /// The body is no such map at all.
    pub fn receive(
        &self,
        sender: Option<&Sender>,
        unreached: &[Address],
        written: Reading,
        body: &[u8],
    ) -> Result<Outcome, serde_json::Error> {
        let now = self.0.clock.now();
        let view = self.0.cluster.view();
        let from = sender.map(|sender| &sender.address);
        let list_for =
            |key: &ServiceKey| trust::list_for(&view, &key.name, from, || !self.awaits_its_owner(&view, key));
        let outcome = self.take(&view, from, batch::read(body, written)?, list_for, now);
        self.hand_on(unreached, &outcome, now);
        match sender {
            Some(sender) => self.send_whole(&sender.address, self.better_here(&outcome)),
            None => self.send_to_all(self.better_here(&outcome)),
        }
        Ok(outcome)
    }

    fn hand_on(&self, to: &[Address], outcome: &Outcome, now: Millis) {
        if to.is_empty() {
            return;
        }
        let known =
            |key: &ServiceKey| Some((key.clone(), self.0.lists.0.get(key.place())?.state().fingerprint()));
        let taken: Vec<_> = outcome.taken.iter().filter_map(|(key, _)| known(key)).collect();
        let mut core = self.0.core.lock();
        to.iter().for_each(|to| core.hand_on(to, taken.iter().cloned(), now));
        drop(core);
        self.0.woken.notify_one();
    }

    /// Sends a peer what is better here than what it told. Of what it owns as a member of 1.x it knows best, and is asked.
    pub(super) fn send_better(&self, from: &Address, outcome: &Outcome) {
        self.send_whole(from, self.better_here(outcome));
        let view = self.0.cluster.view();
        let is_its_own = |(key, taken): &&(ServiceKey, Taken)| {
            matches!(taken, Taken::Replaced(replaced) if replaced.ours_differs)
                && owner(&view, &key.name) == Owner::Peer(from)
        };
        self.pull(from, outcome.taken.iter().filter(is_its_own).map(|(key, _)| key.clone()));
    }

    /// The services of which this node knows better than the peer whose data came to this. Of lists without stamps those of its
    /// own: what it has of others are copies, too.
    fn better_here(&self, outcome: &Outcome) -> impl Iterator<Item = ServiceKey> {
        let view = self.0.cluster.view();
        let is_better = move |(key, taken): &&(ServiceKey, Taken)| match taken {
            Taken::Merged(merged) => merged.ours_is_newer,
            Taken::Replaced(replaced) => replaced.ours_differs && owner(&view, &key.name) == Owner::Here,
        };
        outcome.taken.iter().filter(is_better).map(|(key, _)| key.clone())
    }

    /// Notes what was wrong with data of a peer, and sends it what is better here.
    pub(super) fn note_outcome(&self, from: &Address, outcome: &Outcome) {
        self.send_better(from, outcome);
        if let Some(error) = first_fault(outcome) {
            self.note_failure(from, FAULTY_DATA, &error);
        }
    }
}

/// The first thing that was wrong with data of a peer, if anything was.
#[must_use]
pub fn first_fault(outcome: &Outcome) -> Option<String> {
    outcome.faults().next().map(AcceptError::to_string)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, io, pin::pin};

    use futures_util::FutureExt as _;

    use super::*;
    use crate::{
        base::clock::Clock,
        cluster::{Cluster, MemberReport, NacreMark, Standing, lookup},
        config::{Sources, load},
        distro::{
            calls::{Action, Answer, Call},
            key,
            line::Rhythm,
            load::Loaded,
            outbox::Sent,
            takeover::handed_over,
        },
        model::{Limits, Registry, change::Changes, instance::Description},
    };

    const OWN: &str = "10.0.0.1:8848";
    const LEGACY: &str = "10.0.0.2:8848";
    const OTHER: &str = "10.0.0.3:8848";

    /// A node in a ring with one member of 1.x, beside another that is down.
    async fn beside_legacy() -> Distro {
        let folder = tempfile::tempdir().unwrap();
        let set = vec![format!("nacos.member.list={OWN},{LEGACY},{OTHER}")];
        let sources = Sources { set, ..Sources::default() };
        let mut settings = load(&sources, &|_| Err(io::ErrorKind::NotFound.into())).unwrap().settings;
        settings.config_dir = folder.path().to_owned();
        let settings = Arc::new(settings);
        let found = lookup::find(&settings, Address::new(OWN)).await.unwrap().unwrap();
        let clock = Clock::set(1_796_000_000_000);
        let cluster = Cluster::new(found, &settings, clock.clone()).0;
        let report = MemberReport::of_nacre(&Address::new(LEGACY), NacreMark::default());
        cluster.reported(&MemberReport { nacre: None, ..report }, Millis(0));
        cluster.set_standing(Standing::Serving);
        let changes = Arc::new(Changes::default());
        let registry = Registry::new(Arc::clone(&changes), Limits::default()).shared(clock.reading());
        Distro::new(cluster, Arc::new(registry), changes, clock, Rhythm::USUAL, 1)
    }

    /// That node, with 10.9.9.8 in a service of the member of 1.x and in one of its own.
    struct Node {
        distro: Distro,
        legacy: Address,
        theirs: ServiceKey,
        ours: ServiceKey,
    }

    impl Node {
        async fn new() -> Self {
            let (distro, legacy) = (beside_legacy().await, Address::new(LEGACY));
            let view = distro.0.cluster.view();
            let service = |of: Owner<'_>| {
                let mut keys = (0..100).map(|n| ServiceKey::new("public", &format!("G@@{n}")));
                keys.find(|key| owner(&view, &key.name) == of).unwrap()
            };
            let (theirs, ours) = (service(Owner::Peer(&legacy)), service(Owner::Here));
            for key in [&theirs, &ours] {
                let known = Description::new("10.9.9.8", 80, "DEFAULT");
                distro.0.lists.0.register(key.place(), &known, distro.0.clock.now()).unwrap();
            }
            // Long ago, so that all have it.
            while distro.0.changes.try_next_local().is_some() {}
            Self { distro, legacy, theirs, ours }
        }

        /// Lists of 1.x with 10.9.9.9 in both.
        fn lists(&self) -> Vec<batch::Read> {
            let beaten = self.distro.0.clock.reading().wall_ms - 9_000;
            self.lists_of(&format!(r#"{{"ip":"10.9.9.9","port":80,"lastBeat":{beaten}}}"#))
        }

        /// Of another service.
        fn lists_named(&self, name: &str) -> Vec<batch::Read> {
            let key = ServiceKey::new("public", &format!("G@@{name}"));
            let body = body_of(&[&key], r#"{"ip":"10.9.9.9","port":80}"#);
            batch::read(body.as_bytes(), self.distro.0.clock.reading()).unwrap()
        }

        fn lists_of(&self, instance: &str) -> Vec<batch::Read> {
            let body = body_of(&[&self.theirs, &self.ours], instance);
            batch::read(body.as_bytes(), self.distro.0.clock.reading()).unwrap()
        }

        fn answered(&self) {
            self.answered_with(self.lists());
        }

        fn answered_with(&self, lists: Vec<batch::Read>) {
            let now = self.distro.0.clock.now();
            let outcome = self.distro.take_answer(&self.legacy, lists, now);
            self.distro.send_better(&self.legacy, &outcome);
        }

        fn ips(&self, key: &ServiceKey) -> Vec<String> {
            let state = self.distro.0.lists.0.get(key.place()).unwrap().state();
            state.ephemeral.iter().map(|one| one.ip().to_owned()).collect()
        }

        /// It takes another standing, as the driver tells of it. Those that are asked for all their data then.
        fn stands(&self, standing: Standing) -> Asked<'_> {
            let (shared, now) = (&self.distro.0, self.distro.0.clock.now());
            let before = Arc::clone(shared.core.lock().view());
            shared.cluster.set_standing(standing);
            let view = shared.cluster.view();
            let handed_over = handed_over(&shared.lists.0, &before, &view);
            let mut core = shared.core.lock();
            core.see(Arc::clone(&view), now);
            core.hand_over(&self.legacy, handed_over, now);
            let asked = core.poll(now).into_iter().filter_map(|action| match action {
                Action::Call { id, to, call: Call::Load } => Some((to, id)),
                _ => None,
            });
            Asked { node: self, calls: asked.collect() }
        }

        /// What it asks the member of 1.x for now; nothing while that hasn't answered.
        fn pulled(&self) -> Vec<ServiceKey> {
            let actions = self.distro.0.core.lock().poll(self.distro.0.clock.now());
            let pulled = actions.into_iter().filter_map(|action| match action {
                Action::Call { call: Call::Pull(keys), .. } => Some(keys),
                _ => None,
            });
            pulled.flatten().collect()
        }
    }

    /// Lists of 1.x of these services, each with this instance, if any.
    fn body_of(services: &[&ServiceKey], instance: &str) -> String {
        let list = |service: &&ServiceKey| {
            let key = key::of(service.place());
            format!(r#""{key}":{{"key":"{key}","value":{{"instanceList":[{instance}]}}}}"#)
        };
        format!("{{{}}}", services.iter().map(list).collect::<Vec<_>>().join(","))
    }

    /// The members that a node which loads has asked for their data.
    struct Asked<'a> {
        node: &'a Node,
        calls: BTreeMap<Address, u64>,
    }

    impl Asked<'_> {
        fn answers(&self, member: &str, loaded: Loaded) {
            let shared = &self.node.distro.0;
            let call = self.calls[&Address::new(member)];
            shared.core.lock().answered(call, Answer::Load(loaded), shared.clock.now());
        }
    }

    const BOTH: [&str; 2] = ["10.9.9.8", "10.9.9.9"];

    #[tokio::test]
    async fn what_an_owner_of_1x_answered_may_be_old_and_is_asked_for_anew() {
        let node = Node::new().await;
        node.answered();
        assert_eq!(node.ips(&node.theirs), BOTH, "one may have come since");
        assert_eq!(node.ips(&node.ours), BOTH);
        assert_eq!(node.pulled(), std::slice::from_ref(&node.theirs));
        node.distro.take_lists(&node.legacy, node.lists(), node.distro.0.clock.now());
        assert_eq!(node.ips(&node.theirs), ["10.9.9.9"]);
        assert_eq!(node.ips(&node.ours), BOTH, "it doesn't own that any more");
    }

    fn note_ring(node: &Node, member: &Address, ring: Vec<Address>) {
        Arc::make_mut(&mut *node.distro.0.rings.lock()).note(member, Some(ring));
    }

    /// Who owns all by the member of 1.x that is asked.
    fn said(node: &Node, ring: &[&str]) {
        let ring = ring.iter().map(|text| Address::new(text)).collect();
        note_ring(node, &node.legacy, ring);
    }

    #[tokio::test]
    async fn a_node_that_loads_takes_what_the_owner_of_1x_has_but_what_was_just_written() {
        for standing in [Standing::Starting, Standing::Comparing] {
            let node = Node::new().await;
            let asked = node.stands(standing);
            node.answered();
            let both = || (BOTH.map(str::to_owned).to_vec(), BOTH.map(str::to_owned).to_vec());
            let ips = || (node.ips(&node.theirs), node.ips(&node.ours));
            assert_eq!(ips(), both(), "nobody says whose it is");
            said(&node, &[LEGACY]);
            node.answered_with(node.lists_of(""));
            assert_eq!(ips(), both(), "the other may say something else");
            asked.answers(OTHER, Loaded::Refused);
            node.answered_with(node.lists_of(""));
            let left = vec!["10.9.9.8".to_owned()];
            assert_eq!(ips(), (left.clone(), left), "copies have gone, what was written here stays");
        }
    }

    /// A node that starts, has this answer of the owner of all, and takes what another has.
    async fn loaded_from_the_owner(loaded: Loaded) -> Node {
        let (node, owner) = (Node::new().await, Address::new(OTHER));
        let asked = node.stands(Standing::Starting);
        for member in [&node.legacy, &owner] {
            note_ring(&node, member, vec![owner.clone()]);
        }
        asked.answers(OTHER, loaded);
        node.answered();
        node.answered_with(node.lists_named("unknown"));
        node
    }

    #[tokio::test]
    async fn after_a_standstill_an_owner_of_1x_has_the_last_word_of_what_was_this_nodes() {
        let node = Node::new().await;
        node.distro.0.clock.advance(10_000);
        node.stands(Standing::Comparing).answers(OTHER, Loaded::Refused);
        said(&node, &[LEGACY]);
        node.answered_with(node.lists_of(""));
        assert!(node.ips(&node.ours).is_empty() && node.ips(&node.theirs).is_empty());
        let serving = node.stands(Standing::Serving);
        assert!(serving.calls.is_empty());
        assert_eq!(node.distro.waiting(), [(node.legacy.clone(), 0), (Address::new(OTHER), 0)]);
    }

    #[tokio::test]
    async fn copies_count_where_an_owner_of_1x_has_nothing_or_says_nothing_of_a_service() {
        let unknown = ServiceKey::new("public", "G@@unknown");
        let node = loaded_from_the_owner(Loaded::Empty).await;
        assert_eq!((node.ips(&node.theirs), node.ips(&unknown).len()), (BOTH.map(Into::into).into(), 1));
        let node = loaded_from_the_owner(Loaded::Merged).await;
        assert_eq!(node.ips(&unknown), ["10.9.9.9"], "it may have loaded but a part");
        assert_eq!(node.ips(&node.theirs), ["10.9.9.8"], "it would have told of another");
    }

    #[tokio::test]
    async fn what_an_owner_of_1x_that_the_driver_has_not_seen_yet_sends_takes_nothing_away() {
        let node = Node::new().await;
        let receive_empty = || {
            let (written, body) = (node.distro.0.clock.reading(), body_of(&[&node.theirs], ""));
            node.distro.receive(None, &[], written, body.as_bytes()).unwrap();
            node.ips(&node.theirs)
        };
        // As it is while services are gone through after another view.
        node.distro.0.core.lock().see(Arc::new(View::alone(Address::new(OWN))), node.distro.0.clock.now());
        assert_eq!(receive_empty(), ["10.9.9.8"]);
        node.distro.0.core.lock().see(node.distro.0.cluster.view(), node.distro.0.clock.now());
        assert!(receive_empty().is_empty());
    }

    #[tokio::test]
    async fn of_what_nobody_missed_this_node_for_an_owner_of_1x_has_copies() {
        let node = Node::new().await;
        node.stands(Standing::Comparing).answers(OTHER, Loaded::Refused);
        node.answered();
        said(&node, &[OWN, LEGACY]);
        node.answered_with(node.lists_of(""));
        assert_eq!((node.ips(&node.theirs).len(), node.ips(&node.ours).len()), (1, 2));
    }

    #[tokio::test]
    async fn as_long_as_a_member_whose_data_are_here_has_not_told_its_ring_no_owner_is_sure() {
        let node = Node::new().await;
        let asked = node.stands(Standing::Starting);
        said(&node, &[LEGACY]);
        asked.answers(OTHER, Loaded::Merged);
        node.answered();
        node.answered_with(node.lists_of(""));
        assert_eq!(
            (node.ips(&node.theirs), node.ips(&node.ours)),
            (BOTH.map(Into::into).into(), BOTH.map(Into::into).into())
        );
        note_ring(&node, &Address::new(OTHER), vec![node.legacy.clone()]);
        node.answered_with(node.lists_of(""));
        assert_eq!((node.ips(&node.theirs).len(), node.ips(&node.ours).len()), (1, 1));
    }

    #[tokio::test]
    async fn a_list_that_was_asked_for_before_something_was_written_is_not_all() {
        let node = Node::new().await;
        node.distro.pull(&node.legacy, [node.theirs.clone()]);
        assert_eq!(node.pulled(), std::slice::from_ref(&node.theirs));
        let now = node.distro.0.clock.now();
        let written = Description::new("10.9.9.7", 80, "DEFAULT");
        node.distro.0.lists.0.register(node.theirs.place(), &written, now).unwrap();
        let actions = node.distro.0.core.lock().poll(now);
        assert!(actions.is_empty(), "not told to the driver yet");
        node.distro.take_lists(&node.legacy, node.lists(), now);
        assert_eq!(node.ips(&node.theirs), ["10.9.9.7", "10.9.9.8", "10.9.9.9"]);
    }

    #[tokio::test]
    async fn a_write_for_an_owner_of_1x_waits_until_that_has_what_is_brought_to_it() {
        let node = Node::new().await;
        assert!(node.distro.brought(&node.legacy, &node.theirs).is_none());
        node.distro.send_whole(&node.legacy, [node.theirs.clone()]);
        let mut brought = pin!(node.distro.brought(&node.legacy, &node.theirs).unwrap());
        assert!(brought.as_mut().now_or_never().is_none());
        let (shared, now) = (&node.distro.0, node.distro.0.clock.now());
        let pushed = shared.core.lock().poll(now).into_iter().find_map(|action| match action {
            Action::Call { id, call: Call::Push(_), .. } => Some(id),
            _ => None,
        });
        shared.core.lock().answered(pushed.unwrap(), Answer::Push(Sent::Taken(vec![None])), now);
        shared.flushed.notify_waiters();
        brought.await;
        assert!(node.distro.brought(&node.legacy, &node.theirs).is_none());
    }

    #[tokio::test]
    async fn what_a_write_that_is_passed_on_takes_from_the_driver_wakes_it() {
        let node = Node::new().await;
        let (shared, now) = (&node.distro.0, node.distro.0.clock.now());
        let _ = shared.woken.notified().now_or_never();
        assert!(node.distro.brought(&node.legacy, &node.theirs).is_none());
        assert!(shared.woken.notified().now_or_never().is_none(), "nothing was written");
        shared
            .lists
            .0
            .register(node.ours.place(), &Description::new("10.9.9.7", 80, "DEFAULT"), now)
            .unwrap();
        assert!(node.distro.brought(&node.legacy, &node.theirs).is_none());
        assert!(shared.woken.notified().now_or_never().is_some());
    }

    #[tokio::test]
    async fn beats_from_before_the_clock_stood_still_refute_nothing() {
        let node = Node::new().await;
        let (member, now_ms) = (Address::new(OTHER), node.distro.0.clock.now().0);
        let hear = |at_ms| {
            let sent = nacre_middleware::lateness::Sent { process: 1, at_ms, patience_ms: 2_000 };
            assert!(node.distro.written_at(Some(&member), Some(sent)).is_some());
            let state = node.distro.0.lists.0.get(node.ours.place()).unwrap().state();
            state.ephemeral.iter().all(|instance| instance.is_doubted())
        };
        for _ in 0..20 {
            assert!(!hear(now_ms));
        }
        assert!(hear(now_ms + 40_000), "so much has passed for the other");
    }

    #[tokio::test]
    async fn while_the_driver_has_not_seen_the_cluster_nothing_is_taken_for_flushed_or_brought() {
        let node = Node::new().await;
        let shared = &node.distro.0;
        shared.cluster.set_standing(Standing::Leaving);
        assert!(node.distro.flushed().now_or_never().is_none());
        let mut brought = pin!(node.distro.brought(&node.legacy, &node.theirs).unwrap());
        assert!(brought.as_mut().now_or_never().is_none());
        shared.core.lock().see(shared.cluster.view(), shared.clock.now());
        shared.flushed.notify_waiters();
        brought.await;
        node.distro.flushed().await;
    }

    #[tokio::test]
    async fn what_waits_for_an_owner_of_1x_is_not_taken_away_by_its_list() {
        let node = Node::new().await;
        node.distro.pull(&node.legacy, [ServiceKey::new("a,b", &node.theirs.name)]);
        node.distro.send_whole(&node.legacy, [node.theirs.clone()]);
        node.answered();
        assert_eq!(node.pulled(), [], "nor is it asked for, and never for what it would take for two");
        node.distro.take_lists(&node.legacy, node.lists(), node.distro.0.clock.now());
        assert_eq!(node.ips(&node.theirs), BOTH);
    }
}
