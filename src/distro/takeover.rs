//! What changes for the instances of services whose owner changed.
//!
//! Beats go to the owner alone, so a new one can't judge by the beats that it knows: living instances have three beats'
//! time to show themselves. Those of an owner that tells nobody of beats (1.x) count as just beaten, once.

use std::{collections::VecDeque, sync::Arc};

use super::{
    mapper::{Arrival, Owner, owner},
    silence,
};
use crate::{
    base::{
        clock::Millis,
        mutant::{self, Mutant},
    },
    cluster::{Address, Standing, View},
    model::{Registry, Service, ServiceKey},
};

/// How long a new owner judges nobody, in milliseconds: three beats.
pub const GRACE_MS: u64 = 15_000;

/// How long a member counts as one that has just come to the ring, in milliseconds: as long as a call to another takes.
const NEWCOMER_MS: u64 = 3_000;

/// Views that are remembered; beyond it the oldest counts as another owner.
const MOST_FORMER: usize = 64;

/// For how long the node has owned what it owns: the view that counts, and those of the last [`GRACE_MS`].
///
/// It knows a view when it is told of it, so whoever hears of one earlier can't take the node for an owner of long standing.
#[derive(Debug)]
pub struct Tenure {
    /// What was before isn't known.
    since: Millis,
    /// Since when the node has its data.
    serves_since: Millis,
    /// Since when it stands as it does.
    stands_since: Millis,
    current: Arc<View>,
    /// When each ended, oldest first.
    former: VecDeque<(Millis, Arc<View>)>,
}

impl Tenure {
    /// Of a node that owns nothing yet.
    #[must_use]
    pub fn new(view: Arc<View>, now: Millis) -> Self {
        Self { since: now, serves_since: now, stands_since: now, current: view, former: VecDeque::new() }
    }

    /// This view counts from now on.
    pub fn see(&mut self, view: Arc<View>, now: Millis) {
        let before = std::mem::replace(&mut self.current, view);
        if before.standing != self.current.standing {
            self.stands_since = now;
        }
        if before.standing == Standing::Starting && self.current.standing != Standing::Starting {
            self.serves_since = now;
        }
        if before.ring == self.current.ring && before.mapping == self.current.mapping {
            return;
        }
        self.former.retain(|(ended, _)| now.since(*ended) <= GRACE_MS);
        self.former.push_back((now, before));
        if self.former.len() > MOST_FORMER
            && let Some((ended, _)) = self.former.pop_front()
        {
            self.since = ended;
        }
    }

    /// Whether the node has its data since a moment ago. Beats of which it was told before that are forgotten.
    #[must_use]
    pub fn is_new(&self, now: Millis) -> bool {
        now.since(self.serves_since) <= GRACE_MS
    }

    /// Whether the node has served for so many milliseconds without a break.
    #[must_use]
    pub fn has_served(&self, ms: u64, now: Millis) -> bool {
        self.current.standing == Standing::Serving && now.since(self.stands_since) >= ms
    }

    /// Whether a member came to the ring a moment ago, or isn't in it. What it calls silent may have beaten to others that
    /// it couldn't ask, and they have yet to say so.
    #[must_use]
    pub fn is_newcomer(&self, member: &Address, now: Millis) -> bool {
        now.since(self.since) <= NEWCOMER_MS
            || !self.last(NEWCOMER_MS, now).all(|view| view.ring.contains(member))
    }

    /// Whether the node has owned a service for so long that all its living instances have beaten here. A change of
    /// other services' owners doesn't matter: rings can change more often than that for a long time.
    #[must_use]
    pub fn is_long(&self, name: &str, now: Millis) -> bool {
        now.since(self.since) > GRACE_MS
            && self.last(GRACE_MS, now).all(|view| owner(view, name) == Owner::Here)
    }

    /// The views of the last so many milliseconds, which are at most [`GRACE_MS`].
    fn last(&self, ms: u64, now: Millis) -> impl Iterator<Item = &Arc<View>> {
        let last = self.former.iter().filter(move |(ended, _)| now.since(*ended) <= ms);
        last.map(|(_, view)| view).chain([&self.current])
    }
}

/// Looks at all services after the view changed. Tells how many this node has taken over.
pub fn take_over(registry: &Registry, before: &View, after: &View, now: Millis) -> u64 {
    let mut taken = 0;
    registry.for_each(|service| {
        let (was, is) = (owner(before, &service.key.name), owner(after, &service.key.name));
        if was == is {
            return;
        }
        let former = match was {
            Owner::Peer(address) => before.peer(address),
            Owner::Here | Owner::Nobody => None,
        };
        let from_legacy = former.is_some_and(|peer| peer.nacre.is_none());
        if is == Owner::Here {
            if !mutant::is(Mutant::LostGrace) {
                service.give_grace(now.plus(GRACE_MS));
            }
            taken += 1;
            if from_legacy {
                renew_once(service, now);
            }
        }
        if former.is_some_and(|peer| peer.nacre.is_some()) {
            silence::forget_late(service);
        }
    });
    taken
}

/// What members of 1.x are to be sent when the list of members or the ring has changed: all that this node owned until then.
///
/// One of them may own it now, and judges by the beats that it was told of with the last list, which may be as old as the
/// registration: without news it removes living instances.
#[must_use]
pub fn handed_over(registry: &Registry, before: &View, after: &View) -> Vec<ServiceKey> {
    let is_legacy = |view: &View| view.peers.iter().any(|peer| peer.nacre.is_none());
    let listed = |view: &View| view.peers.iter().map(|peer| peer.address.clone()).collect::<Vec<_>>();
    // A node that stood still has old data; its members have gone on without it.
    if after.standing.is_loading() {
        return Vec::new();
    }
    if !is_legacy(after) || before.ring == after.ring && listed(before) == listed(after) {
        return Vec::new();
    }
    with_instances(registry, |name| owner(before, name) == Owner::Here)
}

/// What a member of 1.x is to be sent when this node has come to its ring, for the same reason: what has another owner by that. Not
/// what was its own, which it has newer, and would take what it is sent for newer still.
#[must_use]
pub fn moved(registry: &Registry, arrival: &Arrival, to: &Address) -> Vec<ServiceKey> {
    with_instances(registry, |name| arrival.is_news_to(to, name))
}

/// The services with ephemeral instances whose grouped names are wanted.
fn with_instances(registry: &Registry, is_wanted: impl Fn(&str) -> bool) -> Vec<ServiceKey> {
    let mut keys = Vec::new();
    registry.for_each(|service| {
        if is_wanted(&service.key.name) && !service.state().ephemeral.is_empty() {
            keys.push(service.key.clone());
        }
    });
    keys
}

/// Counts silence from now on, but for instances of which nothing has been heard since that was done before.
fn renew_once(service: &Service, now: Millis) {
    for instance in service.state().ephemeral.iter().filter(|instance| !instance.is_renewed()) {
        instance.hear_beat(now);
        instance.set_renewed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::clock::Reading,
        cluster::{Mapping, MemberState, Peer, Standing},
        model::{Limits, instance::Description, registry::Place},
    };

    const START: Millis = Millis(1_000_000);

    fn registry() -> Registry {
        let registry = Registry::new(Arc::default(), Limits::default());
        let registry = registry.shared(Reading { now: START, wall_ms: 1 });
        for number in 0..50 {
            let name = format!("G@@{number}");
            let place = Place { namespace: "public", name: &name };
            registry.register(place, &Description::new("a", 80, "DEFAULT"), START).unwrap();
        }
        registry
    }

    fn view(peers: &[(u32, MemberState, Option<u32>)]) -> View {
        view_as(Standing::Serving, peers)
    }

    fn view_as(standing: Standing, peers: &[(u32, MemberState, Option<u32>)]) -> View {
        let address = |n: u32| Address::new(&format!("10.0.0.{n}:8848"));
        let peers =
            peers.iter().map(|&(n, state, nacre)| Peer { nacre, ..Peer::new(address(n), state) }).collect();
        View::new(address(1), standing, peers, Mapping::Modulo)
    }

    /// Count of services with a grace, and of those whose instance was renewed at `now`.
    fn graced(registry: &Registry, now: Millis) -> (usize, usize) {
        let (mut graced, mut renewed) = (0, 0);
        registry.for_each(|service| {
            graced += usize::from(service.grace_until() == now.plus(GRACE_MS));
            renewed +=
                service.state().ephemeral.iter().filter(|instance| instance.last_beat() == now).count();
        });
        (graced, renewed)
    }

    #[test]
    fn a_new_owner_gives_grace_for_what_it_took_over_only() {
        let (registry, up, down) = (registry(), MemberState::Up, MemberState::Down);
        let (three, two) =
            (view(&[(2, up, Some(1)), (3, up, Some(1))]), view(&[(2, down, Some(1)), (3, up, Some(1))]));
        let now = START.plus(60_000);
        let owned = |view: &View| {
            let mut count = 0;
            registry.for_each(|service| count += usize::from(owner(view, &service.key.name) == Owner::Here));
            count
        };
        assert!(owned(&three) > 5 && owned(&two) > owned(&three));
        let taken = take_over(&registry, &three, &two, now);
        assert!(taken >= (owned(&two) - owned(&three)) as u64);
        assert_eq!(graced(&registry, now), (usize::try_from(taken).unwrap(), 0));
        assert_eq!(take_over(&registry, &two, &two, now), 0);
    }

    #[test]
    fn an_owner_judges_when_it_has_owned_the_service_for_fifteen_seconds_whatever_else_moves() {
        let up = |n| (n, MemberState::Up, Some(1));
        let (two, three) = (Arc::new(view(&[up(2)])), Arc::new(view(&[up(2), up(3)])));
        let owns = |view: &View, name: &str| owner(view, name) == Owner::Here;
        let names: Vec<_> = (0..50).map(|number| format!("G@@{number}")).collect();
        let find = |of: [bool; 2]| {
            names.iter().find(|name| [owns(&two, name), owns(&three, name)] == of).unwrap().as_str()
        };
        let (stays, comes) = (find([true, true]), find([false, true]));
        let mut tenure = Tenure::new(Arc::clone(&two), START);
        let long = |tenure: &Tenure, ms: u64| [stays, comes].map(|name| tenure.is_long(name, START.plus(ms)));
        assert_eq!(long(&tenure, 15_000), [false, false]);
        assert_eq!(long(&tenure, 15_001), [true, false]);
        tenure.see(Arc::clone(&three), START.plus(20_000));
        let same_ring = view(&[up(2), up(3)]).with_parting(vec![Address::new("10.0.0.9:8848")]);
        tenure.see(Arc::new(same_ring), START.plus(21_000));
        assert_eq!(long(&tenure, 35_000), [true, false]);
        assert_eq!(long(&tenure, 35_001), [true, true], "the ring was the same at 21,000");
        for ms in 0..=MOST_FORMER as u64 {
            let view = if ms % 2 == 0 { &two } else { &three };
            tenure.see(Arc::clone(view), START.plus(40_000 + ms));
        }
        tenure.see(Arc::clone(&three), START.plus(40_100));
        assert_eq!(tenure.former.len(), MOST_FORMER);
        assert_eq!(long(&tenure, 55_001), [false, false], "what was before is forgotten");
        assert_eq!(long(&tenure, 55_100), [true, false]);
        assert_eq!(long(&tenure, 55_101), [true, true]);
    }

    #[test]
    fn what_is_served_counts_from_the_last_time_that_the_node_had_to_compare() {
        let standing = |standing| Arc::new(view_as(standing, &[]));
        let mut tenure = Tenure::new(standing(Standing::Starting), START);
        let mut serves = Vec::new();
        for (after_ms, now) in [
            (1_000, Standing::Serving),
            (6_000, Standing::Serving),
            (7_000, Standing::Comparing),
            (8_000, Standing::Serving),
            (13_000, Standing::Leaving),
        ] {
            serves.push(tenure.has_served(5_000, START.plus(after_ms)));
            tenure.see(standing(now), START.plus(after_ms));
        }
        serves.push(tenure.has_served(5_000, START.plus(30_000)));
        assert_eq!(serves, [false, true, true, false, true, false]);
    }

    #[test]
    fn a_member_is_a_newcomer_for_three_seconds_after_it_was_not_in_the_ring() {
        let (up, down) = (MemberState::Up, MemberState::Down);
        let with = |state| Arc::new(view(&[(2, up, Some(1)), (3, state, Some(1))]));
        let mut tenure = Tenure::new(with(up), START);
        let new = |tenure: &Tenure, ms: u64| {
            ["10.0.0.2:8848", "10.0.0.3:8848"]
                .map(|member| tenure.is_newcomer(&Address::new(member), START.plus(ms)))
        };
        assert_eq!(new(&tenure, 3_000), [true, true], "who begins knows nobody");
        assert_eq!(new(&tenure, 3_001), [false, false]);
        tenure.see(with(down), START.plus(10_000));
        assert_eq!(new(&tenure, 60_000), [false, true], "it isn't in the ring");
        tenure.see(with(up), START.plus(60_000));
        assert_eq!(new(&tenure, 63_000), [false, true]);
        assert_eq!(new(&tenure, 63_001), [false, false]);
        assert!(tenure.is_newcomer(&Address::new("10.0.0.9:8848"), START.plus(63_001)));
    }

    #[test]
    fn what_comes_from_an_owner_of_1_x_counts_as_just_beaten_once() {
        let (registry, up, down) = (registry(), MemberState::Up, MemberState::Down);
        let (both, alone) = (view(&[(2, up, None)]), view(&[(2, down, None)]));
        let now = START.plus(60_000);
        let taken = usize::try_from(take_over(&registry, &both, &alone, now)).unwrap();
        assert!(taken > 5);
        assert_eq!(graced(&registry, now), (taken, taken));
        take_over(&registry, &alone, &both, now.plus(1_000));
        let again = now.plus(20_000);
        take_over(&registry, &both, &alone, again);
        assert_eq!(graced(&registry, again), (taken, 0));
        registry.for_each(|service| {
            let state = service.state();
            assert!(state.ephemeral.iter().all(|instance| !instance.is_late()), "nobody has said that");
            service.beat(&Description::new("a", 80, "DEFAULT").key, again);
        });
        take_over(&registry, &alone, &both, again);
        let later = again.plus(20_000);
        take_over(&registry, &both, &alone, later);
        assert_eq!(graced(&registry, later), (taken, taken), "they have beaten since");
    }

    #[test]
    fn members_of_1_x_get_what_was_owned_here_when_the_ring_or_the_list_changes() {
        let (registry, up, down) = (registry(), MemberState::Up, MemberState::Down);
        let before = view(&[(2, up, None)]);
        let owned = 50 - {
            let mut others = 0;
            registry
                .for_each(|service| others += usize::from(owner(&before, &service.key.name) != Owner::Here));
            others
        };
        let count = |after: &View| handed_over(&registry, &before, after).len();
        assert_eq!(count(&view(&[(2, down, None)])), owned);
        assert_eq!(count(&view(&[(2, up, None), (3, down, None)])), owned, "the list alone has changed");
        assert_eq!(count(&before), 0);
        assert_eq!(count(&view(&[(2, up, Some(1)), (3, up, Some(1))])), 0, "Nacre members know the beats");
        let becomes = |standing| count(&view_as(standing, &[(2, up, None)]));
        assert_eq!(
            [Standing::Comparing, Standing::Leaving].map(becomes),
            [0, owned],
            "what stood still may be old"
        );
    }
}
