//! Takes what members send and answer into the registry, and sees to it that what is better here gets back to them.

use super::{
    accept::{self, AcceptError, Outcome, Part, Sender, Taken},
    batch::{self, Content},
    handle::{Distro, FAULTY_DATA},
    mapper::{Owner, owner},
};
use crate::{
    base::clock::{Millis, Reading},
    cluster::{Address, View},
    model::ServiceKey,
};

impl Distro {
    /// Takes data: what Nacre members stamped is merged, lists of 1.x take the place of ours or, of services of ours, add to
    /// them. `teller`: see [`Part::of`].
    fn take<'a>(
        &self,
        teller: impl Fn(&View, &ServiceKey) -> Option<&'a Address>,
        batch: Vec<batch::Read>,
        now: Millis,
    ) -> Outcome {
        let view = self.0.cluster.view();
        let part = |key: &ServiceKey| {
            let teller = teller(&view, key);
            let is_newcomer = teller.is_some_and(|teller| self.is_newcomer(teller, now));
            Part::in_view(&view, key, teller, is_newcomer, || self.judges(key, now))
        };
        let outcome = accept::take(&self.0.lists.0, batch, part, now);
        self.taken(&outcome);
        outcome
    }

    /// Takes lists that the owner of 1.x was asked for.
    pub(super) fn take_lists(&self, batch: Vec<batch::Read>, now: Millis) -> Outcome {
        self.take(|_, _| None, batch, now)
    }

    /// Takes what a member answered. Where this node serves, the list of an owner of 1.x may be older than what has been told
    /// since: it is asked for it anew, unless something waits for it. What such a list lacks may have gone, or have come since.
    pub(super) fn take_answer(&self, from: &Address, batch: Vec<batch::Read>, now: Millis) -> Outcome {
        let view = self.0.cluster.view();
        let is_of_owner = |(_, read): &batch::Read| {
            let list = read.as_ref().ok().filter(|datum| matches!(datum.content, Content::List(_)));
            list.is_some_and(|datum| owner(&view, &datum.service.name) == Owner::Peer(from))
        };
        let (anew, others): (Vec<_>, Vec<_>) =
            batch.into_iter().partition(|read| !view.standing.is_loading() && is_of_owner(read));
        let outcome = self.take(|_, _| Some(from), others, now);
        let anew = anew.into_iter().filter_map(|(_, read)| Some(read.ok()?.service));
        self.pull(from, anew);
        outcome
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
        let teller = |view: &View, key: &ServiceKey| sender.and_then(|sender| sender.tells_of(view, key));
        let outcome = self.take(teller, batch::read(body, written)?, now);
        self.hand_on(unreached, &outcome, now);
        match sender {
            Some(sender) => self.send_whole(&sender.address, better_here(&outcome)),
            None => self.send_to_all(better_here(&outcome)),
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

    /// Sends a peer what is better here than what it told.
    pub(super) fn send_better(&self, from: &Address, outcome: &Outcome) {
        self.send_whole(from, better_here(outcome));
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

/// The services of which this node knows better than the peer whose data came to this.
fn better_here(outcome: &Outcome) -> impl Iterator<Item = ServiceKey> {
    let is_better = |taken: &Taken| match taken {
        Taken::Merged(merged) => merged.ours_is_newer,
        Taken::Replaced(replaced) => replaced.ours_differs,
    };
    outcome.taken.iter().filter(move |(_, taken)| is_better(taken)).map(|(key, _)| key.clone())
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Arc};

    use super::*;
    use crate::{
        base::clock::Clock,
        cluster::{Cluster, MemberReport, NacreMark, Standing, lookup},
        config::{Sources, load},
        distro::{
            core::{Action, Call, Rhythm},
            key,
        },
        model::{Limits, Registry, change::Changes, instance::Description},
    };

    const OWN: &str = "10.0.0.1:8848";
    const LEGACY: &str = "10.0.0.2:8848";

    /// A node in a ring with one member of 1.x.
    async fn beside_legacy() -> Distro {
        let folder = tempfile::tempdir().unwrap();
        let set = vec![format!("nacos.member.list={OWN},{LEGACY}")];
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
        let rhythm = Rhythm {
            merge_ms: 50,
            legacy_merge_ms: 1_000,
            gather_ms: 5,
            batch: 1_000,
            retry_cap_ms: 3_000,
            verify_ms: 5_000,
        };
        Distro::new(cluster, Arc::new(registry), changes, clock, rhythm, 1)
    }

    fn pulled(distro: &Distro) -> Vec<ServiceKey> {
        let actions = distro.0.core.lock().poll(distro.0.clock.now());
        let pulled = actions.into_iter().filter_map(|action| match action {
            Action::Call { call: Call::Pull(keys), .. } => Some(keys),
            _ => None,
        });
        pulled.flatten().collect()
    }

    #[tokio::test]
    async fn the_list_of_an_owner_of_1x_that_may_be_old_is_asked_for_anew_and_takes_nothing() {
        let distro = beside_legacy().await;
        let (view, legacy, now) = (distro.0.cluster.view(), Address::new(LEGACY), distro.0.clock.now());
        let service = |of: Owner<'_>| {
            let mut keys = (0..100).map(|n| ServiceKey::new("public", &format!("G@@{n}")));
            keys.find(|key| owner(&view, &key.name) == of).unwrap()
        };
        let (theirs, ours) = (service(Owner::Peer(&legacy)), service(Owner::Here));
        for key in [&theirs, &ours] {
            let known = Description::new("10.9.9.8", 80, "DEFAULT");
            distro.0.lists.0.register(key.place(), &known, now).unwrap();
        }
        let list = |key: &ServiceKey| {
            let key = key::of(key.place());
            format!(r#""{key}":{{"key":"{key}","value":{{"instanceList":[{{"ip":"10.9.9.9","port":80}}]}}}}"#)
        };
        let body = format!("{{{},{}}}", list(&theirs), list(&ours));
        let batch = || batch::read(body.as_bytes(), distro.0.clock.reading()).unwrap();
        let ips = |key: &ServiceKey| {
            let state = distro.0.lists.0.get(key.place()).unwrap().state();
            state.ephemeral.iter().map(|one| one.ip().to_owned()).collect::<Vec<_>>()
        };
        distro.take_answer(&legacy, batch(), now);
        assert_eq!(ips(&theirs), ["10.9.9.8"], "it may have come since");
        assert_eq!(ips(&ours), ["10.9.9.8", "10.9.9.9"]);
        assert_eq!(pulled(&distro), std::slice::from_ref(&theirs));
        distro.take_lists(batch(), now);
        assert_eq!(ips(&theirs), ["10.9.9.9"]);

        // What waits for it can't be in its list.
        distro.send_whole(&legacy, [theirs.clone()]);
        distro.take_answer(&legacy, batch(), now);
        assert_eq!(pulled(&distro), []);
        distro.pull(&legacy, [ServiceKey::new("a,b", &theirs.name)]);
        assert_eq!(pulled(&distro), [], "it would be asked for as two");
        // A node that loads has several answers to take together.
        distro.0.cluster.set_standing(Standing::Starting);
        distro.0.lists.0.register(theirs.place(), &Description::new("10.9.9.8", 80, "DEFAULT"), now).unwrap();
        distro.take_answer(&legacy, batch(), now);
        assert_eq!(ips(&theirs), ["10.9.9.8", "10.9.9.9"]);
    }
}
