//! What members know of beats that others get: an owner tells who is late, and asks before it judges.
//!
//! Pure but for the cells of the instances. A beat is done by the owner alone, and a copy that takes over must know about
//! how old the last one is: those that the owner doesn't call late are in time. Only news are told, so that nothing is
//! said of a thousand instances that are all in time, or all late for hours. That a copy knows all that was said before is
//! found out by a digest of all that are late: without it those who aren't named would be taken for living.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    claim::Claim,
    data::{Data as _, Told},
    documents::{Beats, Named, Room, Silences, Silent, read_buckets, write_buckets},
    lists::Lists,
    verify::{self, Buckets, Differing},
};
use crate::{
    base::{
        clock::Millis,
        hash::mix,
        mutant::{self, Mutant},
        numbers::{Folding, Numbers},
    },
    cluster::Address,
    model::{Instance, Registry, Service, ServiceKey, instance::LATE_MS},
};

/// What a copy takes for the age of the last beat of an instance that isn't late: that, and the longest way of the news.
pub const IN_TIME_MS: u64 = LATE_MS + 3_000;

/// Which of the services that `owned` says have instances that became late, or came back, since `told` was said; those for
/// which so many bytes have room. The rest isn't in `told` afterwards, so it is news the next time, too.
#[must_use]
pub fn news(
    registry: &Registry,
    owned: &dyn Fn(&ServiceKey) -> bool,
    told: &mut Told,
    now: Millis,
    most_bytes: usize,
) -> Beats {
    let mut beats = Beats { anew: told.parts.is_empty(), ..Beats::default() };
    beats.anew_in = std::mem::take(&mut told.anew);
    if mutant::is(Mutant::LatenessUntold) {
        return beats;
    }
    let (mut known, mut newly) = (Vec::with_capacity(told.parts.len()), Vec::new());
    let mut lates = Buckets::default();
    let mut room = Room(most_bytes);
    registry.for_each(|service| {
        if !owned(&service.key) {
            return;
        }
        let (state, hash) = (service.state(), Lists::hash(&service.key));
        for instance in &state.ephemeral {
            let age_ms = now.since(instance.last_beat());
            let is_late = age_ms > LATE_MS;
            if !is_late && told.parts.is_empty() {
                continue;
            }
            let id = id(hash, instance);
            let was_late = told.parts.contains(&id);
            let is_said = is_late == was_late || {
                let list = if is_late { &mut beats.late } else { &mut beats.back };
                room.add(list, &service.key, Silent::new(&instance.key(), age_ms))
            };
            beats.more |= !is_said;
            // What the other knows after it.
            if if is_said { is_late } else { was_late } {
                lates.add(verify::bucket_of(hash), id);
                if was_late { &mut known } else { &mut newly }.push(id);
            }
        }
    });
    // As it was for most of the time.
    if !newly.is_empty() || known.len() != told.parts.len() {
        let mut parts = Numbers::with_capacity_and_hasher(known.len() + newly.len(), Folding::default());
        parts.extend(known.into_iter().chain(newly));
        told.parts = Arc::new(parts);
    }
    beats.lates.0 = lates.root();
    beats.buckets = told.is_doubted.then(|| write_buckets(&lates));
    beats
}

/// An instance of a service with this hash, in 64 bits, of which the first eight are the service's bucket. Whatever is
/// written of it: data and news of silence reach a copy in any order.
fn id(service: u64, instance: &Instance) -> u64 {
    service & BUCKET | mix(service ^ instance.key_hash()) & !BUCKET
}

/// The bits of a hash that say the bucket.
const BUCKET: u64 = 0xff << 56;

/// How much of what an owner has to say of silence is known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// All: those that weren't named are [`in_time`], of the services that the owner has as they are here; of an instance
    /// that it lacks it says nothing.
    All,
    /// All but what is in these buckets, which ascend; that should be said anew.
    But(Vec<u8>),
    /// All that was said; more is to come.
    SoFar,
    /// Something was missed, and it can't be told in which buckets.
    Less,
}

impl Known {
    /// What the owner is answered: the buckets in which something was missed, if anything was.
    #[must_use]
    pub fn missed(&self) -> Option<Vec<u8>> {
        match self {
            Self::All | Self::SoFar => None,
            Self::But(buckets) => Some(buckets.clone()),
            Self::Less => Some(Vec::new()),
        }
    }
}

/// Takes what the owner of the services that `of_owner` says tells of their silence; of others it says nothing.
pub fn hear(
    registry: &Registry,
    beats: &Beats,
    of_owner: &dyn Fn(&ServiceKey) -> bool,
    now: Millis,
) -> Known {
    if beats.anew || !beats.anew_in.is_empty() {
        registry.for_each(|service| {
            let is_meant = beats.anew || verify::is_in::<Lists>(&beats.anew_in, &service.key);
            if is_meant && of_owner(&service.key) {
                forget_late(service);
            }
        });
    }
    each(registry, &beats.late, |service, silent| {
        if !of_owner(&service.key) {
            return;
        }
        if let Some(instance) = service.state().ephemeral.get(&silent.key()) {
            instance.set_late(true);
            service.hear_beat(&silent.key(), now.minus(silent.3));
        }
    });
    each(registry, &beats.back, |service, silent| {
        if !of_owner(&service.key) {
            return;
        }
        if let Some(instance) = service.state().ephemeral.get(&silent.key()) {
            instance.set_late(false);
            // At once, though something else may have been missed: of this one an old silence is known here.
            service.hear_beat(&silent.key(), now.minus(silent.3));
        }
    });
    let lates = lates(registry, of_owner);
    if lates.root() == beats.lates.0 || mutant::is(Mutant::MissedNewsUnnoticed) {
        return if beats.more { Known::SoFar } else { Known::All };
    }
    match beats.buckets.as_deref().and_then(read_buckets) {
        Some(said) if !beats.more => Known::But(said.differing(&lates)),
        _ => Known::Less,
    }
}

/// Digests of all that are known for late here.
fn lates(registry: &Registry, of: &dyn Fn(&ServiceKey) -> bool) -> Buckets {
    let mut lates = Buckets::default();
    each_service(registry, of, &mut |service| {
        let (state, mut hash) = (service.state(), None);
        for instance in state.ephemeral.iter().filter(|instance| instance.is_late()) {
            let hash = *hash.get_or_insert_with(|| Lists::hash(&service.key));
            lates.add(verify::bucket_of(hash), id(hash, instance));
        }
    });
    lates
}

/// Notes that the instances of these services which nobody calls late have beaten.
pub fn in_time(registry: &Registry, of: &dyn Fn(&ServiceKey) -> bool, now: Millis) {
    let beat = now.minus(IN_TIME_MS);
    each_service(registry, of, &mut |service| {
        let state = service.state();
        let in_time = state.ephemeral.iter().filter(|instance| !instance.is_late());
        in_time.for_each(|instance| _ = instance.hear_beat(beat));
    });
}

fn each_service(registry: &Registry, of: &dyn Fn(&ServiceKey) -> bool, each: &mut dyn FnMut(&Service)) {
    registry.for_each(|service| {
        if of(&service.key) {
            each(service);
        }
    });
}

/// The last words about silence of owners that were understood, while the comparison of their data goes on.
#[derive(Debug, Default)]
pub struct Understood(BTreeMap<Address, Words>);

#[derive(Clone, Debug)]
struct Words {
    /// What they were about: of what the owner owns since then they say nothing.
    claim: Claim,
    /// Of services in these buckets something was missed.
    missed: Vec<u8>,
    /// Who was known for late after them, as a digest: they hold for those alone.
    lates: u64,
    at: Millis,
}

impl Words {
    /// Whether they still hold: who was late by them may have been forgotten since, with a change of the ring or by what
    /// another one says that takes itself for the owner, and would count as in time.
    fn hold(&self, registry: &Registry) -> bool {
        lates(registry, &|key| self.claim.holds(key)).root() == self.lates
    }
}

impl Understood {
    /// An owner compared the digest of its data: where that `is_equal`, what it said holds for all of them.
    pub fn verified(
        &mut self,
        registry: &Registry,
        claim: &Claim,
        (known, is_equal): (&Known, bool),
        now: Millis,
    ) {
        self.0.remove(&claim.source);
        let missed = match known {
            Known::All => Vec::new(),
            Known::But(buckets) => buckets.clone(),
            Known::SoFar | Known::Less => return,
        };
        if is_equal {
            in_time(registry, &|key| claim.holds(key) && !verify::is_in::<Lists>(&missed, key), now);
        } else {
            let lates = lates(registry, &|key| claim.holds(key)).root();
            self.0.insert(claim.source.clone(), Words { claim: claim.clone(), missed, lates, at: now });
        }
    }

    /// Forgets the words of those that are no members any more.
    pub fn retain_members(&mut self, is_member: impl Fn(&Address) -> bool) {
        self.0.retain(|source, _| is_member(source));
    }

    /// It compared the keys that may differ, or some of them: what it said holds for all others, or for the others among
    /// these. Those that differ are sent, and their beats with them.
    pub fn compared(&mut self, registry: &Registry, claim: &Claim, differing: &Differing<ServiceKey>) {
        let Differing { wanted, unknown_there, within } = differing;
        let words =
            if within.is_some() { self.0.get(&claim.source).cloned() } else { self.0.remove(&claim.source) };
        let words = words.filter(|words| words.claim == *claim && words.hold(registry));
        let Some(Words { missed, at, .. }) = words else { return };
        let differs: BTreeSet<&ServiceKey> = wanted.iter().chain(unknown_there).collect();
        let is_equal = |key: &ServiceKey| {
            within.as_ref().is_none_or(|buckets| verify::is_in::<Lists>(buckets, key))
                && !verify::is_in::<Lists>(&missed, key)
                && !differs.contains(key)
        };
        in_time(registry, &|key| claim.holds(key) && is_equal(key), at);
    }
}

/// Forgets who was called late by a former owner of this service: the new one says it anew.
pub fn forget_late(service: &Service) {
    for instance in &service.state().ephemeral {
        instance.set_late(false);
    }
}

/// The silent instances of these services, about which others are asked.
#[must_use]
pub fn silent_of<'a>(services: impl IntoIterator<Item = &'a Arc<Service>>, now: Millis) -> Silences {
    let silences = services.into_iter().map(|service| {
        let state = service.state();
        let silent = state.silent_for(now, 0).filter(|instance| is_silent(instance, now));
        let silent = silent.map(|instance| Silent::new(&instance.key(), now.since(instance.last_beat())));
        (Named(service.key.clone()), silent.collect())
    });
    silences.collect()
}

fn is_silent(instance: &Instance, now: Millis) -> bool {
    !instance.marked
        && now.since(instance.last_beat()) > instance.unhealthy_after_ms.min(instance.delete_after_ms)
}

/// Of the instances that an owner takes for silent, those of which a younger beat is known here.
#[must_use]
pub fn younger(registry: &Registry, asked: &Silences, now: Millis) -> Silences {
    let mut heard: Silences = Vec::new();
    each(registry, asked, |service, silent| {
        let state = service.state();
        let Some(instance) = state.ephemeral.get(&silent.key()) else { return };
        let age_ms = now.since(instance.last_heard());
        if age_ms < silent.3 {
            let beat = Silent::new(&silent.key(), age_ms);
            match heard.last_mut().filter(|(named, _)| named.0 == service.key) {
                Some((_, beats)) => beats.push(beat),
                None => heard.push((Named(service.key.clone()), vec![beat])),
            }
        }
    });
    heard
}

/// Takes the answer to a question about silence.
pub fn take(registry: &Registry, heard: &Silences, now: Millis) {
    each(registry, heard, |service, beat| {
        service.hear_beat(&beat.key(), now.minus(beat.3));
    });
}

fn each(registry: &Registry, silences: &Silences, mut each: impl FnMut(&Arc<Service>, &Silent)) {
    for (Named(key), silent) in silences {
        if let Some(service) = registry.get(key.place()) {
            silent.iter().for_each(|silent| each(&service, silent));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::{clock::Reading, json},
        cluster::View,
        model::{Limits, instance::Description, registry::Place},
    };

    const PLACE: Place<'static> = Place { namespace: "public", name: "G@@s" };
    const START: Millis = Millis(100_000);
    const MOST: usize = 1 << 20;

    /// Of the owner of all.
    fn claim(ring: &[&str]) -> Claim {
        let ring: Vec<String> = ring.iter().map(ToString::to_string).collect();
        Claim::new(&View::alone(Address::new("o:1")), "o:1", &ring)
    }

    /// A node with these instances, all beaten at the start.
    fn node(ips: &[&str]) -> Registry {
        let registry = Registry::new(Arc::default(), Limits::default());
        let registry = registry.shared(Reading { now: START, wall_ms: 1_000_000 });
        for ip in ips {
            registry.register(PLACE, &Description::new(ip, 80, "DEFAULT"), START).unwrap();
        }
        registry
    }

    fn named(silences: &Silences) -> Vec<(&str, u64)> {
        silences.iter().flat_map(|(_, silent)| silent).map(|silent| (&*silent.0, silent.3)).collect()
    }

    fn ages(registry: &Registry, now: Millis) -> Vec<u64> {
        let state = registry.get(PLACE).unwrap().state();
        state.ephemeral.iter().map(|instance| now.since(instance.last_beat())).collect()
    }

    fn beat(registry: &Registry, ip: &str, now: Millis) {
        registry.get(PLACE).unwrap().beat(&Description::new(ip, 80, "DEFAULT").key, now);
    }

    #[test]
    fn only_news_are_told_and_copies_know_the_beats_by_them() {
        let (owner, copy, mut told) = (node(&["a", "b"]), node(&["a", "b"]), Told::default());
        let all = |_: &ServiceKey| true;
        let mut tell = |now: Millis| {
            let beats = news(&owner, &all, &mut told, now, MOST);
            let heard = hear(&copy, &beats, &all, now) == Known::All;
            if heard {
                in_time(&copy, &all, now);
            }
            (named(&beats.late).len(), named(&beats.back).len(), heard)
        };
        beat(&owner, "a", START.plus(8_000));
        assert_eq!(tell(START.plus(10_000)), (0, 0, true));
        assert_eq!(ages(&copy, START.plus(10_000)), [10_000, 10_000]);
        assert_eq!(tell(START.plus(15_000)), (1, 0, true), "b is late");
        assert_eq!(ages(&copy, START.plus(15_000)), [13_000, 15_000]);
        beat(&owner, "a", START.plus(18_000));
        assert_eq!(tell(START.plus(20_000)), (0, 0, true), "b still is");
        assert_eq!(ages(&copy, START.plus(20_000)), [13_000, 20_000]);
        beat(&owner, "b", START.plus(24_000));
        assert_eq!(tell(START.plus(25_000)), (0, 1, true));
        assert_eq!(ages(&copy, START.plus(25_000)), [13_000, 1_000]);
        beat(&owner, "a", START.plus(60_000));
        assert_eq!(tell(START.plus(60_000)), (1, 0, true));
        owner.register(PLACE, &Description::new("b", 80, "DEFAULT"), START.plus(60_000)).unwrap();
        assert_eq!(tell(START.plus(75_000)), (1, 0, true), "that b was registered anew is told as data");
    }

    #[test]
    fn what_a_copy_missed_is_found_by_buckets_and_told_anew_alone() {
        let names = ["G@@s", "G@@t"];
        let place = |name| Place { namespace: "public", name };
        let bucket = |name| verify::bucket_of(Lists::hash(&place(name).to_key()));
        assert_ne!(bucket(names[0]), bucket(names[1]));
        let [owner, copy] = [(), ()].map(|()| {
            let node = node(&["a"]);
            for ip in ["a", "b"] {
                node.register(place(names[1]), &Description::new(ip, 80, "DEFAULT"), START).unwrap();
            }
            node
        });
        let all = |_: &ServiceKey| true;
        let (mut told, mut understood) = (Told::default(), Understood::default());
        let mut tell = |now: Millis| {
            let beats = news(&owner, &all, &mut told, now, MOST);
            let known = hear(&copy, &beats, &all, now);
            told.answered(known.missed());
            understood.verified(&copy, &claim(&["o:1"]), (&known, true), now);
            let late = beats.late.iter().map(|(named, silent)| (named.0.name.to_string(), silent.len()));
            (late.collect::<Vec<_>>(), known)
        };
        let late = |name: &str, count| (name.to_owned(), count);
        let mut at = START.plus(15_000);
        beat(&owner, "a", at);
        assert_eq!(tell(at), (vec![late(names[1], 2)], Known::All));
        // It misses one, and only the next round can find where.
        copy.get(place(names[1])).unwrap().state().ephemeral.iter().for_each(|one| one.set_late(false));
        let mut next = || {
            at = at.plus(5_000);
            beat(&owner, "a", at);
            tell(at)
        };
        assert_eq!(next(), (vec![], Known::Less));
        assert_eq!(next(), (vec![], Known::But(vec![bucket(names[1])])));
        assert_eq!(ages(&copy, START.plus(25_000)), [13_000], "of a service in another bucket");
        assert_eq!(next(), (vec![late(names[1], 2)], Known::All));
        assert_eq!(next(), (vec![], Known::All));
        let state = copy.get(place(names[1])).unwrap().state();
        assert!(state.ephemeral.iter().all(|one| one.is_late()));
    }

    #[test]
    fn what_there_is_no_room_for_is_told_the_next_time_and_nothing_follows_until_then() {
        let ips = ["a", "b", "c", "d"];
        let (owner, copy, mut told) = (node(&ips), node(&ips), Told::default());
        let (all, source) = (|_: &ServiceKey| true, claim(&["o:1"]));
        let mut understood = Understood::default();
        // Room for two.
        let most = json::length(&vec![(
            Named(ServiceKey::new("public", "G@@s")),
            ["a", "b"].map(|ip| Silent(ip.into(), 80, "DEFAULT".into(), 15_000)),
        )]);
        let mut tell = |now: Millis| {
            let beats = news(&owner, &all, &mut told, now, most);
            assert!(json::length(&beats.late).max(json::length(&beats.back)) <= most);
            let known = hear(&copy, &beats, &all, now);
            understood.verified(&copy, &source, (&known, true), now);
            let late: String = named(&beats.late).iter().map(|(ip, _)| *ip).collect();
            let back: String = named(&beats.back).iter().map(|(ip, _)| *ip).collect();
            (late, back, known)
        };
        let said = |late: &str, back: &str, known| (late.to_owned(), back.to_owned(), known);
        beat(&owner, "d", START.plus(15_000));
        assert_eq!(tell(START.plus(15_000)), said("ab", "", Known::SoFar));
        assert_eq!(ages(&copy, START.plus(15_000))[3], 15_000, "it may be one of those that come");
        assert_eq!(tell(START.plus(20_000)), said("c", "", Known::All));
        assert_eq!(ages(&copy, START.plus(20_000)), [20_000, 20_000, 20_000, 13_000]);
        for ip in ips {
            beat(&owner, ip, START.plus(25_000));
        }
        assert_eq!(tell(START.plus(25_000)), said("", "ab", Known::SoFar));
        assert_eq!(ages(&copy, START.plus(25_000)), [0, 0, 25_000, 18_000], "nothing of the others");
        assert_eq!(tell(START.plus(30_000)), said("", "c", Known::All));
        assert_eq!(ages(&copy, START.plus(30_000)), [5_000, 5_000, 5_000, 13_000]);
    }

    #[test]
    fn a_part_of_the_keys_that_differ_says_nothing_of_others() {
        let (copy, owner) = (node(&["a"]), claim(&["o:1"]));
        let now = START.plus(29_000);
        let bucket = (0..=u8::MAX)
            .find(|bucket| verify::is_in::<Lists>(&[*bucket], &ServiceKey::new("public", "G@@s")));
        let bucket = bucket.unwrap();
        let mut understood = Understood::default();
        understood.verified(&copy, &owner, (&Known::All, false), now);
        for (buckets, expected) in [(vec![bucket ^ 1], 29_000), (vec![bucket], 13_000)] {
            let differing =
                Differing { wanted: Vec::new(), unknown_there: Vec::new(), within: Some(buckets) };
            understood.compared(&copy, &owner, &differing);
            assert_eq!(ages(&copy, now), [expected]);
        }
    }

    #[test]
    fn of_services_of_others_nobody_tells_silence() {
        let (owner, copy, mut told) = (node(&["a"]), node(&["a"]), Told::default());
        let late = news(&owner, &|_| true, &mut told, START.plus(15_000), MOST);
        assert_eq!(named(&late.late), [("a", 15_000)]);
        let is_late = || copy.get(PLACE).unwrap().state().ephemeral.iter().any(|instance| instance.is_late());
        hear(&copy, &late, &|_| false, START.plus(15_000));
        assert!(!is_late());
        hear(&copy, &late, &|_| true, START.plus(15_000));
        assert!(is_late());
        beat(&owner, "a", START.plus(18_000));
        let back = news(&owner, &|_| true, &mut told, START.plus(20_000), MOST);
        hear(&copy, &back, &|_| false, START.plus(20_000));
        assert!(is_late());
        hear(&copy, &back, &|_| true, START.plus(20_000));
        assert!(!is_late());
    }

    #[test]
    fn who_has_missed_something_takes_nobody_for_living_until_it_is_said_anew() {
        let (owner, copy, mut told) = (node(&["a", "b"]), node(&["a", "b"]), Told::default());
        let all = |_: &ServiceKey| true;
        let mut understood = Understood::default();
        let mut tell = |now: Millis, told: &mut Told| {
            let known = hear(&copy, &news(&owner, &all, told, now, MOST), &all, now);
            understood.verified(&copy, &claim(&["o:1"]), (&known, true), now);
            known == Known::All
        };
        beat(&owner, "a", START.plus(12_000));
        assert!(tell(START.plus(15_000), &mut told));
        // As when the owner seems to be another one for a moment.
        forget_late(&copy.get(PLACE).unwrap());
        beat(&owner, "a", START.plus(17_000));
        assert!(!tell(START.plus(20_000), &mut told));
        assert_eq!(ages(&copy, START.plus(20_000)), [18_000, 20_000], "as known before");
        told.clear();
        assert!(tell(START.plus(25_000), &mut told));
        assert_eq!(ages(&copy, START.plus(25_000)), [13_000, 25_000]);
    }

    #[test]
    fn of_what_the_owner_lacks_or_has_otherwise_its_silence_says_nothing() {
        let (copy, owner) = (node(&["a"]), claim(&["o:1"]));
        let (now, own) = (START.plus(29_000), ServiceKey::new("public", "G@@s"));
        let age = || ages(&copy, now)[0];
        let differing = |wanted: &[ServiceKey], unknown_there: &[ServiceKey]| Differing {
            wanted: wanted.to_vec(),
            unknown_there: unknown_there.to_vec(),
            within: None,
        };
        let mut understood = Understood::default();
        let (theirs, mine) = ([own.clone()], [ServiceKey::new("public", "G@@t")]);
        for (known, wanted, unknown, expected) in [
            (Known::All, &theirs[..], &mine[..], 29_000),
            (Known::All, &mine, &theirs, 29_000),
            (Known::Less, &mine, &[], 29_000),
            (Known::SoFar, &mine, &[], 29_000),
            (Known::All, &mine, &[], 13_000),
        ] {
            understood.verified(&copy, &owner, (&known, false), now);
            assert_eq!(age(), 29_000, "not before the keys are compared");
            understood.compared(&copy, &owner, &differing(wanted, unknown));
            assert_eq!(age(), expected, "{known:?} {wanted:?} {unknown:?}");
        }
        let later = now.plus(20_000);
        understood.compared(&copy, &owner, &differing(&[], &[]));
        assert_eq!(ages(&copy, later), [33_000], "nothing was said since");
        // What it owned when it said it may not be what it owns when keys are compared.
        understood.verified(&copy, &owner, (&Known::All, false), later);
        understood.compared(&copy, &claim(&["n:1", "o:1"]), &differing(&[], &[]));
        assert_eq!(ages(&copy, later), [33_000], "others were its own");
        understood.verified(&copy, &owner, (&Known::All, false), later);
        understood.compared(&copy, &owner, &differing(&[], &[]));
        assert_eq!(ages(&copy, later.plus(2_000)), [15_000], "counted from when it was said");
    }

    #[test]
    fn who_was_late_and_is_forgotten_before_the_keys_are_compared_is_not_in_time() {
        let (copy, owner, now) = (node(&["a"]), claim(&["o:1"]), START.plus(29_000));
        let service = copy.get(PLACE).unwrap();
        let mut understood = Understood::default();
        let equal = Differing { wanted: Vec::new(), unknown_there: Vec::new(), within: None };
        let mut compare = |meanwhile: &dyn Fn()| {
            service.state().ephemeral.iter().for_each(|one| one.set_late(true));
            understood.verified(&copy, &owner, (&Known::All, false), now);
            meanwhile();
            understood.compared(&copy, &owner, &equal);
            ages(&copy, now)
        };
        assert_eq!(compare(&|| forget_late(&service)), [29_000], "the ring has changed");
        assert_eq!(compare(&|| {}), [29_000]);
    }

    #[test]
    fn what_a_former_member_said_is_forgotten_with_it() {
        let (copy, owner, now) = (node(&["a"]), claim(&["o:1"]), START.plus(29_000));
        let mut understood = Understood::default();
        let equal = Differing { wanted: Vec::new(), unknown_there: Vec::new(), within: None };
        for (is_member, age) in [(false, 29_000), (true, 13_000)] {
            understood.verified(&copy, &owner, (&Known::All, false), now);
            understood.retain_members(|member| is_member && *member == owner.source);
            understood.compared(&copy, &owner, &equal);
            assert_eq!(ages(&copy, now), [age]);
        }
    }

    #[test]
    fn whoever_knows_a_younger_beat_says_so() {
        let (owner, copy) = (node(&["a", "b", "c"]), node(&["a", "b"]));
        beat(&copy, "a", START.plus(12_000));
        let now = START.plus(16_000);
        beat(&owner, "c", now);
        let asked = silent_of([&owner.get(PLACE).unwrap()], now);
        assert_eq!(named(&asked), [("a", 16_000), ("b", 16_000)]);
        let heard = younger(&copy, &asked, now);
        assert_eq!(named(&heard), [("a", 4_000)]);
        take(&owner, &heard, now);
        assert_eq!(ages(&owner, now), [4_000, 16_000, 0]);
    }
}
