//! Merging: what is newer wins, whatever the order and however often it comes; and nodes that have compared are alike.

use std::sync::Arc;

use proptest::prelude::*;

use super::{
    Entry, Extent, Gone, Instance, InstanceKey, Limits, Place, Registry, Service,
    change::Changes,
    gone::Cause,
    instance::{Description, InstanceId},
    merge::{Judge, ListFor, Merged, Replaced},
    name::NameError,
    service::Beaten,
};
use crate::base::clock::{Millis, Reading};

const PLACE: Place<'static> = Place { namespace: "public", name: "G@@s" };
/// Now on all monotonic clocks.
const NOW: Millis = Millis(1_000_000);
const MERGED: Merged =
    Merged { changed: false, ours_is_newer: false, belated: None, refuted: false, refused: None };

/// A node whose wall clock shows this.
struct Node {
    registry: Registry,
    changes: Arc<Changes>,
}

impl Node {
    fn new(wall_ms: u64) -> Self {
        let changes = Arc::new(Changes::default());
        let registry = Registry::new(Arc::clone(&changes), Limits::default());
        Self { registry: registry.shared(Reading { now: NOW, wall_ms }), changes }
    }

    fn service(&self) -> Arc<Service> {
        self.registry.get(PLACE).unwrap()
    }

    fn merge(&self, entries: Vec<Entry>, complete: bool) -> Merged {
        let extent = if complete { Extent::Whole } else { Extent::News };
        self.registry.merge(PLACE, entries, &extent, Judge::Another, NOW).unwrap()
    }

    fn register(&self, ip: &str, weight: f64) {
        let described = Description { weight, ..Description::new(ip, 80, "C") };
        self.registry.register(PLACE, &described, NOW).unwrap();
    }

    fn deregister(&self, ip: &str) {
        self.registry.deregister(PLACE, key(ip), NOW).unwrap();
    }

    /// All that it knows, for another node.
    fn entries(&self, newer_than: Option<u64>) -> Vec<Entry> {
        let state = self.registry.get(PLACE).map(|service| service.state());
        state.iter().flat_map(|state| state.entries(newer_than)).map(|entry| entry.to_entry()).collect()
    }

    /// All that it knows as texts.
    fn shown(&self) -> Vec<String> {
        self.entries(None).iter().map(text).collect()
    }

    /// How many services wait to be told of: to subscribers, to peers.
    fn reports(&self) -> (usize, usize) {
        let mut local = 0;
        while self.changes.try_next_local().is_some() {
            local += 1;
        }
        let changed = self
            .registry
            .get(PLACE)
            .is_some_and(|service| service.announced.swap(false, std::sync::atomic::Ordering::AcqRel));
        (usize::from(changed), local)
    }
}

fn text(entry: &Entry) -> String {
    match entry {
        Entry::Alive(instance) => {
            format!("{} {} {:?} {}", instance.ip(), instance.stamp(), instance.weight, instance.healthy())
        }
        Entry::Gone(gone) => {
            format!("{} {} {}", gone.ip, gone.stamp, if gone.has_left() { "left" } else { "silent" })
        }
    }
}

fn key(ip: &str) -> InstanceKey<'_> {
    InstanceKey { ip, port: 80, cluster: "C" }
}

/// An instance of weight 1 that beat a second ago.
fn instance(ip: &str, stamp: u64) -> Instance {
    let mut instance = Instance::new(Description::new(ip, 80, "C"), InstanceId::Simple, NOW.minus(1_000));
    instance.set_stamp(stamp);
    instance
}

fn alive(ip: &str, stamp: u64) -> Entry {
    Entry::Alive(instance(ip, stamp))
}

/// The same, silent for this long.
fn silent(ip: &str, stamp: u64, ms: u64) -> Entry {
    let instance = instance(ip, stamp);
    instance.beat(NOW.minus(ms));
    Entry::Alive(instance)
}

fn left(ip: &str, stamp: u64) -> Entry {
    Entry::Gone(Gone::of(&key(ip), stamp, NOW.minus(10), Cause::Left))
}

fn expired(ip: &str, stamp: u64) -> Entry {
    let cause = Cause::Silent { last_beat: NOW.minus(40_000) };
    Entry::Gone(Gone::of(&key(ip), stamp, NOW.minus(10), cause))
}

#[test]
fn an_age_that_nobody_can_tell_exactly_keeps_nothing_out() {
    for (silent_ms, is_taken) in [(13_000, true), (20_000, true), (20_001, false)] {
        let node = Node::new(1_000);
        let metadata = "preserved.ip.delete.timeout=8000".parse().unwrap();
        let described = Description { metadata, ..Description::new("a", 80, "C") };
        let mut brisk = Instance::new(described, InstanceId::Simple, NOW.minus(silent_ms));
        brisk.set_stamp(5);
        assert_eq!(node.merge(vec![Entry::Alive(brisk)], true).changed, is_taken, "{silent_ms}");
    }
}

#[test]
fn the_newer_record_wins_and_what_is_known_already_makes_no_revision() {
    let node = Node::new(5_000);
    assert_eq!(node.merge(vec![alive("a", 7), alive("b", 3)], true), Merged { changed: true, ..MERGED });
    assert_eq!(node.shown(), ["a 7 1.0 true", "b 3 1.0 true"]);
    assert_eq!(node.reports(), (1, 0));
    let before = node.service().state();
    assert_eq!(node.merge(vec![alive("b", 3), alive("a", 7)], true), MERGED);
    assert_eq!(node.merge(vec![alive("a", 7)], false), MERGED);
    assert!(Arc::ptr_eq(&before, &node.service().state()));
    assert_eq!(node.reports(), (0, 0));
    let mut heavy = instance("a", 8);
    heavy.weight = 2.0;
    heavy.set_healthy(false);
    assert_eq!(node.merge(vec![Entry::Alive(heavy)], false), Merged { changed: true, ..MERGED });
    assert_eq!(node.merge(vec![alive("a", 7)], false), Merged { ours_is_newer: true, ..MERGED });
    let merged = Merged { changed: true, belated: Some(2), ..MERGED };
    assert_eq!(node.merge(vec![alive("d", 9), left("e", 8), left("f", 2)], false), merged);
    assert_eq!(node.merge(vec![left("d", 9), left("f", 2)], false), Merged { belated: Some(9), ..merged });
    assert_eq!(node.shown(), ["a 8 2.0 false", "b 3 1.0 true", "d 9 left", "e 8 left", "f 2 left"]);
    assert_eq!(node.service().state().highest_stamp, 9);
}

#[test]
fn the_same_record_under_a_newer_stamp_is_no_change_that_a_list_shows() {
    let node = Node::new(5_000);
    node.merge(vec![alive("a", 7)], true);
    node.reports();
    let (before, checksum) = (node.service().state().digest(), node.service().state().revision);
    assert_eq!(node.merge(vec![alive("a", 9)], true), MERGED);
    assert_eq!((node.shown(), node.reports()), (vec!["a 9 1.0 true".to_owned()], (0, 0)));
    assert_ne!((node.service().state().digest(), node.service().state().revision), (before, checksum));
}

#[test]
fn what_is_gone_stays_gone_for_older_news() {
    let node = Node::new(5_000);
    node.merge(vec![alive("a", 3)], true);
    assert_eq!(node.merge(vec![left("a", 5)], false), Merged { changed: true, ..MERGED });
    for stamp in [4, 5] {
        assert_eq!(node.merge(vec![alive("a", stamp)], false), Merged { ours_is_newer: true, ..MERGED });
    }
    assert_eq!(node.shown(), ["a 5 left"]);
    assert_eq!(node.merge(vec![left("a", 4)], false), Merged { ours_is_newer: true, ..MERGED });
    assert_eq!(node.merge(vec![alive("a", 6)], false), Merged { changed: true, ..MERGED });
    assert_eq!(node.shown(), ["a 6 1.0 true"]);
}

#[test]
fn what_is_gone_is_remembered_also_where_it_was_never_known() {
    let node = Node::new(5_000);
    assert_eq!(node.merge(vec![left("a", 5)], true), MERGED);
    assert_eq!(node.merge(vec![alive("a", 4)], true), Merged { ours_is_newer: true, ..MERGED });
    assert_eq!(node.shown(), ["a 5 left"]);
    assert!(!node.service().state().may_go(), "not before the tombstone is forgotten");
    assert_eq!(node.registry.prune_gone(&node.service(), NOW.minus(10), 100), 0);
    assert_eq!(node.registry.prune_gone(&node.service(), NOW, 100), 1);
    assert!(node.service().state().may_go() && node.reports() == (0, 0));
    assert_eq!(node.service().state().highest_stamp, 5);
}

#[test]
fn the_tombstones_of_all_services_together_are_bounded_and_the_oldest_go_first() {
    let node = Node::new(1);
    let place = |name| Place { namespace: "public", name };
    for n in 0..24 {
        let (name, now, ip) = (["G@@a", "G@@b"][n % 2], NOW.plus(n as u64), format!("10.0.0.{n}"));
        node.registry.register(place(name), &Description::new(&ip, 80, "C"), now).unwrap();
        node.registry.deregister(place(name), key(&ip), now).unwrap();
    }
    assert_eq!(node.registry.bound_gone(24), 0);
    assert_eq!(node.registry.bound_gone(16), 10, "an eighth of the bound is free again");
    let left = ["G@@a", "G@@b"].map(|name| {
        let state = node.registry.get(place(name)).unwrap().state();
        state.gone.iter().map(|gone| gone.at.since(NOW)).min().map(|oldest| (oldest, state.gone.len()))
    });
    assert_eq!(left, [Some((10, 7)), Some((11, 7))]);
    assert_eq!(node.registry.bound_gone(16), 0);
}

#[test]
fn nothing_worth_remembering_makes_no_service() {
    let node = Node::new(5_000);
    assert_eq!(node.merge(Vec::new(), true), MERGED);
    assert_eq!(node.merge(vec![silent("a", 5, 30_001)], true), MERGED);
    assert!(node.registry.is_empty());
    node.registry.set_expires(false);
    assert_eq!(node.merge(vec![silent("a", 5, 30_001)], true), Merged { changed: true, ..MERGED });
    let alone = Registry::new(Arc::default(), Limits::default());
    assert_eq!(alone.merge(PLACE, vec![left("a", 5)], &Extent::Whole, Judge::Another, NOW), Ok(MERGED));
    assert!(alone.is_empty());
}

#[test]
fn what_has_been_silent_for_too_long_is_not_taken_anew_but_kept_where_it_is() {
    let node = Node::new(5_000);
    node.merge(vec![alive("a", 5)], true);
    assert!(node.merge(vec![silent("b", 5, 30_001), silent("c", 5, 30_000)], false).changed);
    assert_eq!(node.merge(vec![silent("a", 6, 90_000)], false), MERGED);
    assert_eq!(node.shown(), ["a 6 1.0 true", "c 5 1.0 true"]);
    let mut marked = instance("d", 1);
    marked.marked = true;
    marked.beat(Millis(0));
    node.merge(vec![Entry::Alive(marked)], false);
    assert_eq!(node.shown().len(), 3, "time does nothing to a marked one");
}

#[test]
fn what_the_owner_has_is_taken_however_long_it_has_been_silent() {
    let merge =
        |node: &Node, told| node.registry.merge(PLACE, told, &Extent::Whole, Judge::Teller, NOW).unwrap();
    let (copy, other) = (Node::new(5_000), Node::new(5_000));
    assert_eq!(merge(&copy, vec![silent("a", 5, 90_000)]), Merged { changed: true, ..MERGED });
    assert_eq!(copy.shown(), ["a 5 1.0 true"]);
    let state = copy.service().state();
    assert!(state.ephemeral.get(&key("a")).unwrap().is_overdue(NOW), "and is as old as it was");
    // What is known to be gone is another matter.
    other.merge(vec![expired("a", 6)], true);
    assert_eq!(merge(&other, vec![silent("a", 5, 90_000)]), Merged { ours_is_newer: true, ..MERGED });
    assert_eq!(other.shown(), ["a 6 silent"]);
}

#[test]
fn what_has_been_silent_for_too_long_is_removed_for_all_by_the_owner() {
    let (owner, copy) = (Node::new(5_000), Node::new(5_000));
    copy.merge(vec![alive("a", 5_007)], true);
    copy.service().state().ephemeral.get(&key("a")).unwrap();
    let told = vec![silent("a", 5_007, 30_001), silent("b", 6, 30_000)];
    let merged = owner.registry.merge(PLACE, told, &Extent::Whole, Judge::Here, NOW).unwrap();
    assert_eq!(merged, Merged { changed: true, ..MERGED });
    assert_eq!(owner.shown(), ["b 6 1.0 true", "a 5008 silent"]);
    assert_eq!(owner.reports(), (1, 1), "peers are told");
    // Who knows of a younger beat than was told says so.
    copy.merge(owner.entries(None), false);
    assert_eq!(copy.shown(), ["a 5009 1.0 true", "b 6 1.0 true"]);
    owner.merge(copy.entries(None), false);
    assert_eq!(owner.shown(), copy.shown());
}

#[test]
fn what_the_owner_removes_for_a_silence_that_it_is_told_of_ends_no_later_writing() {
    let (owner, copy) = (Node::new(5_000), Node::new(5_000));
    copy.merge(vec![left("a", 5_005), alive("b", 5_005)], true);
    let told = vec![silent("a", 5_001, 30_001), silent("b", 5_001, 30_001)];
    owner.registry.merge(PLACE, told, &Extent::Whole, Judge::Here, NOW).unwrap();
    assert_eq!(owner.shown(), ["a 5002 silent", "b 5002 silent"]);
    copy.merge(owner.entries(None), false);
    assert_eq!(copy.shown(), ["b 5005 1.0 true", "a 5005 left"]);
    owner.merge(copy.entries(None), false);
    assert_eq!(owner.shown(), copy.shown());
}

#[test]
fn the_later_beat_counts_whoever_wins() {
    let node = Node::new(5_000);
    let beat = || NOW.since(node.service().state().ephemeral.get(&key("a")).unwrap().last_beat());
    node.merge(vec![silent("a", 5, 9_000)], true);
    for (stamp, ms, known) in
        [(5, 20_000, 9_000), (4, 7_000, 7_000), (5, 6_500, 7_000), (6, 20_000, 7_000), (7, 2_000, 2_000)]
    {
        node.merge(vec![silent("a", stamp, ms)], false);
        assert_eq!(beat(), known, "{stamp} {ms}");
    }
    let future = instance("b", 5);
    future.beat(NOW.plus(50_000));
    node.merge(vec![Entry::Alive(future)], false);
    assert_eq!(node.service().state().ephemeral.get(&key("b")).unwrap().last_beat(), NOW);
    assert!(!node.service().hear_beat(&key("a"), NOW.minus(1_500)));
    assert!(node.service().hear_beat(&key("a"), NOW.minus(1_000)) && beat() == 1_000);
    assert!(!node.service().hear_beat(&key("c"), NOW));
}

#[test]
fn who_beats_after_it_has_left_lives_again_whatever_the_clocks_show() {
    for (left_ms, lives) in [(1_000, false), (7_000, false), (7_001, true)] {
        let node = Node::new(1_000);
        node.merge(vec![alive("a", 5)], true);
        let told = Entry::Gone(Gone::of(&key("a"), 9, NOW.minus(left_ms), Cause::Left));
        let merged = Merged { changed: !lives, refuted: lives, ..MERGED };
        assert_eq!(node.merge(vec![told], false), merged, "{left_ms}");
        assert_eq!(node.service().state().len(), usize::from(lives));
        if lives {
            let mut later = instance("a", 11);
            later.weight = 2.0;
            assert!(node.merge(vec![Entry::Alive(later)], false).changed, "what was written since is newer");
        }
    }
}

#[test]
fn what_does_not_know_of_a_removal_never_refutes_it_however_young_it_looks() {
    for cause in [Cause::Left, Cause::Silent { last_beat: NOW.minus(50_000) }] {
        let node = Node::new(1_000);
        let gone = Gone::of(&key("a"), 9, NOW.minus(20_000), cause);
        node.merge(vec![Entry::Gone(gone)], false);
        assert_eq!(node.merge(vec![alive("a", 5)], false), Merged { ours_is_newer: true, ..MERGED });
        assert_eq!(node.service().state().len(), 0, "a link held it back");
    }
}

#[test]
fn nor_does_a_beat_that_nobody_has_heard_of() {
    let cause = Cause::Silent { last_beat: NOW.minus(31_000) };
    for legacy_is_first in [true, false] {
        let node = Node::new(5_000);
        let legacy = || {
            let copy = Instance::new(Description::new("a", 80, "C"), InstanceId::Simple, NOW.minus(60_000));
            node.registry.replace_by_legacy(PLACE, &[copy], ListFor::Copy, NOW).unwrap();
        };
        let owner = || node.merge(vec![Entry::Gone(Gone::of(&key("a"), 4_000, NOW, cause))], true);
        if legacy_is_first {
            legacy();
            assert_eq!(node.shown(), ["a 1 1.0 true"]);
        }
        assert!(!owner().refuted);
        legacy();
        assert_eq!(node.shown(), ["a 4000 silent"]);
    }
}

#[test]
fn an_older_description_that_beats_is_better_than_none_but_not_than_a_later_one() {
    let [older, later, without] = [5_000; 3].map(Node::new);
    older.merge(vec![alive("a", 5_007)], true);
    let mut heavy = instance("a", 5_020);
    heavy.weight = 2.0;
    later.merge(vec![Entry::Alive(heavy)], true);
    // Who took the later one removed it for its silence, since its beats went elsewhere.
    let last_beat = NOW.minus(20_000);
    let removed = || Gone::of(&key("a"), 5_030, NOW, Cause::Silent { last_beat }).of_writing(5_020);
    without.merge(vec![Entry::Gone(removed())], false);
    assert!(older.merge(vec![Entry::Gone(removed())], false).refuted);
    assert_eq!(older.shown(), ["a 5031 1.0 true"]);
    without.merge(older.entries(None), true);
    assert_eq!(without.shown(), older.shown(), "it beats");
    assert_eq!(later.merge(older.entries(None), true), Merged { ours_is_newer: true, ..MERGED });
    for node in [&older, &without] {
        node.merge(later.entries(None), true);
        assert_eq!(node.shown(), later.shown(), "an acknowledged change isn't lost while anybody has it");
    }
}

#[test]
fn what_is_late_stays_late_when_its_health_is_told_and_not_when_it_beats() {
    for (told_ms, late) in [(1_000, true), (999, true), (0, false)] {
        let node = Node::new(1_000);
        node.merge(vec![alive("a", 5)], true);
        node.service().state().ephemeral.iter().for_each(|instance| instance.set_late(true));
        let mut ill = instance("a", 6);
        ill.set_healthy(false);
        ill.beat(NOW.minus(told_ms));
        node.merge(vec![Entry::Alive(ill)], false);
        assert!(node.service().state().ephemeral.iter().all(|instance| instance.is_late() == late));
    }
}

#[test]
fn a_later_beat_ends_lateness_only_if_it_isn_t_late_itself() {
    for (told_ms, late) in [(10_001, true), (10_000, false)] {
        let node = Node::new(1_000);
        node.merge(vec![silent("a", 5, 20_000)], true);
        node.service().state().ephemeral.iter().for_each(|instance| instance.set_late(true));
        node.merge(vec![silent("a", 5, told_ms)], false);
        let state = node.service().state();
        assert!(state.ephemeral.iter().all(|known| known.last_beat() == NOW.minus(told_ms)));
        assert!(state.ephemeral.iter().all(|known| known.is_late() == late), "{told_ms}");
    }
}

/// Two nodes with the same instance; the second one's clock is ahead, and it finds the instance ill.
fn healthy_and_ill() -> (Node, Node) {
    let (one, other) = (Node::new(1_000_000), Node::new(2_000_000));
    one.register("a", 1.0);
    other.merge(one.entries(None), true);
    other.registry.set_health(&other.service(), NOW, |_| Some(false));
    (one, other)
}

#[test]
fn health_that_was_found_without_knowing_of_a_leave_does_not_undo_it() {
    let (one, other) = healthy_and_ill();
    one.deregister("a");
    let told = other.entries(None);
    assert!(told[0].stamp() > one.entries(None)[0].stamp());
    assert_eq!(one.merge(told, true), Merged { ours_is_newer: true, ..MERGED });
    assert!(other.merge(one.entries(None), true).changed);
    assert_eq!((one.service().state().len(), other.service().state().len()), (0, 0));
}

#[test]
fn nor_an_update_and_a_silence_undoes_what_it_knew_alone() {
    for goes in [false, true] {
        let (one, other) = healthy_and_ill();
        one.register("a", 2.0);
        if goes {
            let service = other.service();
            let all: Vec<_> = service.state().ephemeral.iter().cloned().collect();
            assert_eq!(other.registry.remove_silent(&service, &all, NOW, |_| true), 1);
        }
        assert!(one.merge(other.entries(None), true).ours_is_newer);
        other.merge(one.entries(None), true);
        for node in [one, other] {
            let weights: Vec<_> = node.service().state().ephemeral.iter().map(|one| one.weight).collect();
            assert_eq!(weights, [2.0], "{goes}");
        }
    }
}

#[test]
fn what_news_of_beats_take_refutes_no_silence() {
    for (known_ms, refuted) in [(29_990, false), (24_001, false), (23_999, true), (1_000, true)] {
        let node = Node::new(1_000);
        node.merge(vec![silent("a", 5, known_ms)], true);
        let cause = Cause::Silent { last_beat: NOW.minus(30_001) };
        let told = Entry::Gone(Gone::of(&key("a"), 6, NOW.minus(1), cause));
        assert_eq!(node.merge(vec![told], false).refuted, refuted, "{known_ms}");
    }
}

#[test]
fn a_silence_is_refuted_by_a_known_beat_and_a_leave_is_not() {
    let node = Node::new(5_000);
    node.merge(vec![alive("a", 3), alive("b", 3), silent("c", 3, 30_000)], true);
    node.reports();
    let told = vec![expired("a", 9_000), left("b", 9_000), expired("c", 2)];
    let merged = Merged { changed: true, ours_is_newer: true, refuted: true, ..MERGED };
    assert_eq!(node.merge(told, false), merged);
    assert_eq!(node.shown(), ["a 9001 1.0 true", "c 3 1.0 true", "b 9000 left"]);
    assert_eq!(node.reports(), (1, 1));
    let service = node.service();
    service.state().ephemeral.get(&key("c")).unwrap().beat(NOW.minus(30_001));
    assert_eq!(
        node.merge(vec![expired("c", 4)], false),
        Merged { changed: true, belated: Some(4), ..MERGED }
    );
    assert_eq!(node.shown(), ["a 9001 1.0 true", "b 9000 left", "c 4 silent"]);
}

#[test]
fn a_beat_from_before_the_clock_stood_still_refutes_no_leave_until_the_next_one() {
    let node = Node::new(5_000);
    node.merge(vec![alive("a", 3), alive("b", 3)], true);
    for instance in &node.service().state().ephemeral {
        instance.beat(NOW);
        instance.set_doubted();
    }
    node.service().state().ephemeral.get(&key("b")).unwrap().beat(NOW);
    let left_before = |ip| Entry::Gone(Gone::of(&key(ip), 9_000, NOW.minus(30_000), Cause::Left));
    node.merge(vec![left_before("a"), left_before("b")], false);
    assert_eq!(node.shown(), ["b 9001 1.0 true", "a 9000 left"]);
}

#[test]
fn what_a_newcomer_calls_silent_stays_until_somebody_else_does_so_and_what_left_there_goes() {
    let node = Node::new(5_000);
    // Of `c` a beat is known.
    node.merge(vec![alive("a", 3), alive("b", 3), alive("c", 3)], true);
    node.service().state().ephemeral.get(&key("a")).unwrap().beat(NOW.minus(36_000));
    let told = vec![expired("a", 9_000), left("b", 9_000), expired("c", 9_000), expired("d", 9_000)];
    let merge = |told, judge| node.registry.merge(PLACE, told, &Extent::Whole, judge, NOW).unwrap();
    assert_eq!(merge(told, Judge::Nobody), Merged { changed: true, refuted: true, ..MERGED });
    assert_eq!(node.shown(), ["a 3 1.0 true", "c 9001 1.0 true", "b 9000 left", "d 9000 silent"]);
    let told = vec![expired("a", 9_000), alive("c", 9_001)];
    assert_eq!(merge(told, Judge::Another), Merged { changed: true, belated: Some(9_000), ..MERGED });
    assert_eq!(node.shown(), ["c 9001 1.0 true", "a 9000 silent", "b 9000 left", "d 9000 silent"]);
}

#[test]
fn what_a_complete_datum_lacks_is_told_to_its_sender() {
    let node = Node::new(5_000);
    node.merge(vec![alive("a", 3), alive("b", 3), alive("c", 3)], true);
    for (told, complete, newer) in [
        (vec![alive("c", 3), alive("a", 3)], true, true),
        (vec![alive("a", 3)], false, false),
        (vec![alive("a", 3), alive("b", 3), alive("c", 3), alive("d", 3)], true, false),
        (vec![], true, true),
    ] {
        assert_eq!(node.merge(told, complete).ours_is_newer, newer);
    }
    for instance in &node.service().state().ephemeral {
        instance.beat(NOW.minus(30_001));
    }
    assert!(node.merge(vec![], true).ours_is_newer, "the owner must hear of it to remove it");
    let merged = node.registry.merge(PLACE, vec![], &Extent::Whole, Judge::Here, NOW).unwrap();
    assert!(!merged.ours_is_newer, "what is about to go from here is not worth a word");
    assert_eq!(node.shown().len(), 4);
}

#[test]
fn an_instance_that_can_not_be_is_left_out() {
    let node = Node::new(5_000);
    let wrong = Instance::new(Description::new("b", 80, "C_1"), InstanceId::Simple, NOW);
    let merged = node.merge(vec![alive("a", 3), Entry::Alive(wrong), alive("c", 3)], true);
    assert_eq!(merged.refused, Some(NameError::ClusterCharacters("C_1".into())));
    assert_eq!(node.shown(), ["a 3 1.0 true", "c 3 1.0 true"]);
    let place = Place { name: "G@@/", ..PLACE };
    assert!(matches!(
        node.registry.merge(place, vec![alive("a", 3)], &Extent::Whole, Judge::Another, NOW),
        Err(NameError::Characters(_))
    ));
    assert_eq!(node.registry.len(), 1);
}

#[test]
fn each_write_is_stamped_above_all_that_is_known_and_reported_to_peers() {
    let node = Node::new(5_000);
    node.register("a", 1.0);
    let service = node.service();
    assert_eq!((node.shown(), node.reports()), (vec!["a 5000 1.0 true".to_owned()], (1, 1)));
    node.register("a", 2.0);
    node.merge(vec![alive("b", 9_000)], false);
    assert_eq!(node.reports(), (1, 1));
    node.registry.set_health(&service, NOW, |instance| Some(instance.ip() != "a"));
    assert_eq!(node.shown(), ["a 9001 2.0 false", "b 9000 1.0 true"]);
    assert_eq!(node.reports(), (1, 1));
    node.registry.set_health_unseen(&service, NOW, |_| Some(true));
    assert_eq!((node.shown()[0].as_str(), node.reports()), ("a 9002 2.0 true", (0, 1)));
    node.registry.take_health(&service, NOW, |instance| Some(instance.ip() != "b"));
    assert_eq!((node.shown()[1].as_str(), node.reports()), ("b 9003 1.0 false", (1, 0)));
    node.registry.set_health_of(&service, &key("b"), true, NOW);
    assert_eq!((node.shown()[1].as_str(), node.reports()), ("b 9004 1.0 true", (1, 1)));
    node.registry.set_health_of(&service, &key("b"), true, NOW);
    assert_eq!(node.reports(), (0, 0));
    let gone = [Arc::clone(service.state().ephemeral.get(&key("b")).unwrap())];
    assert_eq!(node.registry.remove_silent(&service, &gone, NOW, |_| false), 0);
    assert_eq!(node.reports(), (0, 0));
    assert_eq!(node.registry.remove_silent(&service, &gone, NOW, |_| true), 1);
    assert_eq!((node.shown()[1].as_str(), node.reports()), ("b 9005 silent", (1, 1)));
    node.deregister("c");
    assert_eq!((node.shown()[2].as_str(), node.reports()), ("c 9006 left", (1, 1)));
    node.register("b", 1.0);
    assert_eq!(node.shown(), ["a 9002 2.0 true", "b 9007 1.0 true", "c 9006 left"]);
}

#[test]
fn stamps_of_all_services_go_on_from_the_highest_that_a_member_gave() {
    let node = Node::new(5_000);
    node.merge(vec![alive("b", 65_001), alive("c", 7)], false);
    assert_eq!(node.registry.stamps_ahead_ms(NOW), 60_000);
    let other = Place { namespace: "public", name: "G@@other" };
    node.registry.register(other, &Description::new("x", 80, "C"), NOW.plus(4_000)).unwrap();
    assert_eq!(node.registry.get(other).unwrap().state().highest_stamp, 68_996);
}

#[test]
fn and_on_from_those_that_this_node_gave() {
    let node = Node::new(5_000);
    for weight in 0..100 {
        node.register("a", f64::from(weight));
    }
    assert_eq!(node.service().state().highest_stamp, 5_099);
    assert_eq!(
        node.registry.stamps_ahead_ms(NOW),
        98,
        "another service's come after them, but for a millisecond"
    );
}

#[test]
fn a_health_that_was_taken_back_has_another_stamp() {
    let node = Node::new(5_000);
    node.register("a", 1.0);
    let service = node.service();
    // A beat comes as soon as the health is set.
    let decide = |instance: &Instance| instance.healthy().then_some(false);
    assert_eq!(node.registry.set_health(&service, NOW, decide), 0);
    assert_eq!(node.shown(), ["a 5002 1.0 true"]);
    assert_eq!(service.state().highest_stamp, 5_002);
}

#[test]
fn persistent_instances_are_no_news_for_peers() {
    let node = Node::new(5_000);
    let described = Description { ephemeral: false, ..Description::new("a", 80, "C") };
    node.registry.register(PLACE, &described, NOW).unwrap();
    node.registry.set_health(&node.service(), NOW, |_| Some(false));
    node.registry.remove_persistent(PLACE, key("a"));
    assert_eq!((node.reports(), node.shown().len()), ((1, 0), 0));
}

#[test]
fn a_service_that_goes_takes_its_instances_along_and_later_stamps_are_higher() {
    let node = Node::new(5_000);
    node.merge(vec![alive("a", 9_000), left("b", 4)], true);
    let service = node.service();
    assert!(!node.registry.remove_idle(PLACE));
    assert!(node.registry.remove(PLACE, NOW));
    assert_eq!(node.changes.try_next_local().map(|service| service.is_removed()), Some(true));
    let last: Vec<_> = service.state().entries(None).map(|entry| text(&entry.to_entry())).collect();
    assert_eq!(last, ["a 9001 left", "b 4 left"]);
    node.register("a", 1.0);
    assert_eq!(node.shown(), ["a 9002 1.0 true"]);
}

#[test]
fn a_removal_is_remembered_and_told_also_where_not_even_the_service_was_known() {
    let (one, other) = (Node::new(100), Node::new(5_000));
    one.register("a", 1.0);
    other.deregister("a");
    assert_eq!((other.shown(), other.reports()), (vec!["a 5000 left".to_owned()], (1, 1)));
    one.merge(other.entries(None), true);
    assert_eq!(one.shown(), ["a 5000 left"]);
    let unmakable = Place { namespace: "public", name: "no group" };
    assert_eq!(other.registry.deregister(unmakable, key("a"), NOW), Ok(false));
    assert!(other.registry.get(unmakable).is_none());
}

#[test]
fn a_beat_that_was_under_way_when_its_instance_left_is_known_for_that() {
    let node = Node::new(100);
    for ip in ["a", "b"] {
        node.register(ip, 1.0);
    }
    node.deregister("a");
    node.merge(vec![Entry::Gone(Gone::of(&key("b"), 9_000, NOW, Cause::Silent { last_beat: NOW }))], false);
    let beaten = |ip: &str, ms: u64| node.service().beat(&key(ip), NOW.plus(ms));
    assert!(matches!(beaten("a", 0), Beaten::JustLeft));
    assert!(matches!(beaten("a", 2_999), Beaten::JustLeft));
    assert!(matches!(beaten("a", 3_000), Beaten::Unknown));
    assert!(matches!(beaten("b", 0), Beaten::Unknown), "nobody removed it");
    node.register("a", 1.0);
    assert!(matches!(beaten("a", 0), Beaten::Ephemeral(_)));
    node.registry.replace_by_legacy(PLACE, &[], ListFor::Whole, NOW).unwrap();
    assert!(matches!(beaten("a", 0), Beaten::Unknown), "its owner may have taken it for silent");
}

#[test]
fn a_node_alone_keeps_no_tombstones_and_tells_nobody() {
    let changes = Arc::new(Changes::default());
    let registry = Registry::new(Arc::clone(&changes), Limits::default());
    assert_eq!(registry.deregister(PLACE, key("a"), NOW), Ok(false));
    assert!(registry.get(PLACE).is_none());
    registry.register(PLACE, &Description::new("a", 80, "C"), NOW).unwrap();
    registry.deregister(PLACE, key("a"), NOW).unwrap();
    registry.deregister(PLACE, key("b"), NOW).unwrap();
    let state = registry.get(PLACE).unwrap().state();
    assert!(state.gone.is_empty() && state.may_go() && changes.try_next_local().is_none());
}

#[test]
fn entries_newer_than_a_stamp_are_all_that_a_peer_lacks() {
    let (one, other) = (Node::new(5_000), Node::new(100));
    one.register("a", 1.0);
    one.register("b", 1.0);
    other.merge(one.entries(None), true);
    let known = one.service().state().highest_stamp;
    one.register("a", 3.0);
    one.deregister("b");
    let news = one.entries(Some(known));
    assert_eq!(news.iter().map(text).collect::<Vec<_>>(), ["a 5002 3.0 true", "b 5003 left"]);
    other.merge(news, false);
    assert_eq!(one.shown(), other.shown());
    assert_eq!(one.service().state().digest(), other.service().state().digest());
}

#[test]
fn a_digest_speaks_of_the_instances_that_are_there() {
    let digest = |entries: Vec<Entry>| {
        let node = Node::new(5_000);
        node.register("x", 1.0);
        node.merge(vec![left("x", 6_000)], false);
        node.merge(entries, true);
        node.service().state().digest()
    };
    assert_eq!(digest(vec![]), 0);
    assert_eq!(digest(vec![left("a", 9)]), 0);
    let one = digest(vec![alive("a", 3), alive("b", 3)]);
    assert_eq!(one, digest(vec![silent("b", 3, 9_000), alive("a", 3), left("c", 5)]));
    let mut sick = instance("b", 3);
    sick.set_healthy(false);
    for other in
        [vec![alive("a", 3)], vec![alive("a", 3), alive("b", 4)], vec![alive("a", 3), Entry::Alive(sick)]]
    {
        assert_ne!(one, digest(other));
    }
    // Every version must compute the same.
    assert_eq!(one, 15_199_807_103_212_548_780);
}

#[test]
fn the_list_of_a_1x_owner_takes_the_place_of_what_is_there() {
    let node = Node::new(5_000);
    let take = |list: &[Instance]| node.registry.replace_by_legacy(PLACE, list, ListFor::Whole, NOW).unwrap();
    let changed = Replaced { changed: true, ..Replaced::default() };
    assert_eq!(take(&[instance("a", 0), instance("b", 0)]), changed);
    assert_eq!(node.shown(), ["a 5000 1.0 true", "b 5000 1.0 true"]);
    assert_eq!(node.reports(), (1, 0), "the owner tells the others itself");
    node.registry.take_health(&node.service(), NOW, |instance| Some(instance.ip() != "a"));
    let revision = node.service().state().revision;
    assert_eq!(take(&[instance("b", 0), instance("a", 0)]), Replaced::default(), "known health stays");
    assert_eq!(node.service().state().revision, revision);
    let mut heavy = instance("a", 0);
    heavy.weight = 2.0;
    assert_eq!(take(&[heavy, instance("c", 0)]), changed);
    assert_eq!(node.shown(), ["a 5002 2.0 false", "c 5002 1.0 true", "b 5002 left"]);
    assert_eq!(take(&[]), changed);
    assert_eq!(node.shown(), ["a 5003 left", "b 5002 left", "c 5003 left"]);
    let wrong = Instance::new(Description::new("d", 80, "C_1"), InstanceId::Simple, NOW);
    assert_eq!(take(&[wrong, instance("e", 0)]).refused, Some(NameError::ClusterCharacters("C_1".into())));
    assert_eq!(node.shown()[0], "e 5004 1.0 true");
}

#[test]
fn of_the_list_of_another_an_owner_takes_what_is_new_and_tells_what_is_not_so() {
    let node = Node::new(5_000);
    node.register("a", 1.0);
    node.register("b", 1.0);
    node.deregister("b");
    node.reports();
    let take = |list: &[Instance]| {
        let replaced = node.registry.replace_by_legacy(PLACE, list, ListFor::News, NOW).unwrap();
        (replaced.changed, replaced.ours_differs)
    };
    let late = instance("c", 0);
    late.beat(NOW.minus(30_001));
    let mut heavy = instance("a", 0);
    heavy.weight = 2.0;
    assert_eq!(take(&[instance("a", 0)]), (false, false));
    assert_eq!(take(&[heavy]), (false, true));
    assert_eq!(take(&[]), (false, true));
    assert_eq!(take(&[instance("a", 0), instance("b", 0)]), (false, true), "it went after that beat");
    assert_eq!(take(&[instance("a", 0), late]), (false, true));
    assert_eq!(node.reports(), (0, 0));
    assert_eq!(take(&[instance("a", 0), instance("d", 0)]), (true, false));
    assert_eq!(node.reports(), (1, 1));
    let again = instance("b", 0);
    again.beat(NOW.plus(1));
    assert_eq!(take(&[instance("a", 0), instance("d", 0), again]), (true, false));
    assert_eq!(node.shown(), ["a 5000 1.0 true", "b 5004 1.0 true", "d 5003 1.0 true"]);
}

#[test]
fn of_a_copy_what_is_new_is_taken_whatever_the_clock_of_its_teller_shows_and_nobody_is_told() {
    let node = Node::new(5_000);
    node.register("a", 1.0);
    node.deregister("a");
    node.reports();
    let old = |ip| {
        let last_beat = NOW.minus(600_000);
        Instance::new(Description::new(ip, 80, "C"), InstanceId::Simple, last_beat)
    };
    let take = |list: &[Instance], of| node.registry.replace_by_legacy(PLACE, list, of, NOW).unwrap();
    for of in [ListFor::News, ListFor::Hearsay] {
        assert!(!take(&[old("b")], of).changed, "it would only go again");
    }
    let copied = take(&[old("a"), old("b")], ListFor::Copy);
    assert_eq!((copied.changed, copied.ours_differs), (true, true));
    assert_eq!(node.shown(), ["b 1 1.0 true", "a 5001 left"], "what a Nacre member stamped is newer");
    assert_eq!(node.reports().1, 0);
    assert!(take(&[old("b"), old("c")], ListFor::Copy).changed);
    assert_eq!(node.reports().1, 0);
    let known = node.service().state().ephemeral.iter().map(|one| one.last_beat()).collect::<Vec<_>>();
    assert_eq!(known, [NOW; 2], "they get their whole time");
    assert!(take(&[instance("d", 0)], ListFor::Hearsay).changed);
    assert_eq!((node.shown().len(), node.reports().1), (4, 0), "nobody is told of hearsay");
    assert_eq!(node.shown()[2], "d 1 1.0 true");
}

#[test]
fn what_the_owner_of_1x_has_is_all_to_a_node_that_loads_but_what_was_just_written() {
    let node = Node::new(50_000);
    let take = |list: &[Instance], of| node.registry.replace_by_legacy(PLACE, list, of, NOW).unwrap();
    let of_ago = |ip, ms| Instance::new(Description::new(ip, 80, "C"), InstanceId::Simple, NOW.minus(ms));
    let copied = [("a", 1_000), ("b", 1_000), ("silent", 60_000)];
    take(&copied.map(|(ip, ms)| of_ago(ip, ms)), ListFor::Copy);
    // A Nacre member has these; the later one may be on its way to the owner.
    node.merge(vec![alive("copied", 43_999), alive("known", 43_000), alive("written", 44_000)], false);
    node.reports();
    let of_weight = |ip, weight| {
        let mut instance = of_ago(ip, 9_000);
        instance.weight = weight;
        instance
    };
    take(&[of_weight("a", 3.0), of_weight("b", 3.0), of_weight("known", 3.0)], ListFor::Latest);
    let list = [of_weight("a", 2.0), of_weight("known", 2.0), of_ago("d", 1_000)];
    assert!(take(&list, ListFor::Latest).changed, "it is asked twice");
    let expected = [
        "a 1 2.0 true",
        "d 1 1.0 true",
        "known 43002 2.0 true",
        "written 44000 1.0 true",
        "b 2 left",
        "copied 44000 left",
        "silent 2 left",
    ];
    assert_eq!(node.shown(), expected);
    assert_eq!(node.reports().1, 0);
    let state = node.service().state();
    let last_beat = |ip| state.ephemeral.get(&key(ip)).unwrap().last_beat();
    assert_eq!(last_beat("a"), NOW.minus(1_000), "the later beat counts");
    take(&[of_ago("a", 9_000), of_ago("b", 9_000), of_ago("d", 0), of_ago("e", 0)], ListFor::Beats);
    assert_eq!(node.shown(), expected, "a copy of it");
    assert_eq!(last_beat("d"), NOW);
    take(&[of_ago("b", 9_000), of_ago("copied", 9_000)], ListFor::Latest);
    let shown = node.shown();
    assert_eq!(shown[..2], ["b 1 1.0 true", "copied 1 1.0 true"], "they are back at the owner");
    assert_eq!(shown[2], "written 44000 1.0 true");
}

/// One thing that is told: of which instance, under which stamp, what.
type News = (usize, u64, usize);

const IPS: [&str; 3] = ["a", "b", "c"];

fn news(leaves_only: bool) -> impl Strategy<Value = News> {
    (0..IPS.len(), 1_u64..6, 0_usize..if leaves_only { 5 } else { 6 })
}

fn entry((ip, stamp, what): News) -> Entry {
    let ip = IPS[ip];
    match what {
        4 => left(ip, stamp),
        5 => expired(ip, stamp),
        what => {
            let mut instance = instance(ip, stamp);
            instance.weight = if what & 1 == 0 { 1.0 } else { 2.0 };
            instance.set_healthy(what & 2 == 0);
            Entry::Alive(instance)
        }
    }
}

/// All of `news`, each once or more, in any order, cut into any pieces.
fn deliveries(news: Vec<News>) -> impl Strategy<Value = Vec<Vec<News>>> {
    let again = prop::collection::vec(prop::sample::select(news.clone()), 0..8);
    again.prop_flat_map(move |again| {
        let all: Vec<News> = news.iter().copied().chain(again).collect();
        let cuts = prop::collection::vec(any::<bool>(), all.len());
        (Just(all).prop_shuffle(), cuts).prop_map(|(all, cuts)| {
            let mut pieces = vec![Vec::new()];
            for (news, cut) in all.into_iter().zip(cuts) {
                if cut {
                    pieces.push(Vec::new());
                }
                pieces.last_mut().unwrap().push(news);
            }
            pieces
        })
    })
}

fn delivered(pieces: &[Vec<News>]) -> Node {
    let node = Node::new(3);
    for (number, piece) in pieces.iter().enumerate() {
        node.merge(piece.iter().copied().map(entry).collect(), number % 2 == 0);
    }
    node
}

/// What a node does at random.
#[derive(Clone, Debug)]
enum Step {
    Register(usize, bool),
    Deregister(usize),
    Health(usize, bool),
    Expire(usize),
    /// Tells the node so many further all it knows, or what is newer than this.
    Tell(usize, Option<u64>),
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let ip = 0..IPS.len();
    let step = prop_oneof![
        (ip.clone(), any::<bool>()).prop_map(|(ip, heavy)| Step::Register(ip, heavy)),
        ip.clone().prop_map(Step::Deregister),
        (ip.clone(), any::<bool>()).prop_map(|(ip, healthy)| Step::Health(ip, healthy)),
        ip.prop_map(Step::Expire),
        (1_usize..3, prop::option::of(0_u64..20)).prop_map(|(to, newer)| Step::Tell(to, newer)),
    ];
    prop::collection::vec((0_usize..3, step), 0..40)
}

fn act(nodes: &[Node], at: usize, step: &Step) {
    let node = &nodes[at];
    let known = |ip: usize| {
        let service = node.registry.get(PLACE)?;
        let instance = service.state().ephemeral.get(&key(IPS[ip])).cloned()?;
        Some((service, instance))
    };
    match *step {
        Step::Register(ip, heavy) => node.register(IPS[ip], if heavy { 2.0 } else { 1.0 }),
        Step::Deregister(ip) => node.deregister(IPS[ip]),
        Step::Health(ip, healthy) => {
            if let Some((service, _)) = known(ip) {
                node.registry.set_health_of(&service, &key(IPS[ip]), healthy, NOW);
            }
        }
        Step::Expire(ip) => {
            if let Some((service, instance)) = known(ip) {
                node.registry.remove_silent(&service, &[instance], NOW, |_| true);
            }
        }
        Step::Tell(to, newer_than) => {
            let entries = node.entries(newer_than);
            nodes[(at + to) % nodes.len()].merge(entries, newer_than.is_none());
        }
    }
}

/// Lets all tell all until nobody learns anything; how many rounds that took.
fn compare(nodes: &[Node]) -> usize {
    for round in 1..10 {
        let before: Vec<_> = nodes.iter().map(Node::shown).collect();
        for (from, teller) in nodes.iter().enumerate() {
            for (to, hearer) in nodes.iter().enumerate() {
                if from != to {
                    hearer.merge(teller.entries(None), true);
                }
            }
        }
        if before == nodes.iter().map(Node::shown).collect::<Vec<_>>() {
            return round;
        }
    }
    usize::MAX
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn any_order_repetition_and_partition_give_the_same(
        (one, other) in prop::collection::vec(news(true), 1..10)
            .prop_flat_map(|news| (deliveries(news.clone()), deliveries(news))),
    ) {
        let (one, other) = (delivered(&one), delivered(&other));
        prop_assert_eq!(one.shown(), other.shown());
        prop_assert_eq!(one.service().state().digest(), other.service().state().digest());
        prop_assert_eq!(one.service().state().highest_stamp, other.service().state().highest_stamp);
        // Now each holds what the other told.
        prop_assert_eq!(one.merge(other.entries(None), true), MERGED);
    }

    #[test]
    fn nodes_that_have_compared_are_alike_whatever_each_of_them_wrote(
        told in prop::collection::vec((0_usize..3, news(false)), 0..6),
        steps in steps(),
    ) {
        let nodes = [Node::new(3), Node::new(8), Node::new(8)];
        for (at, news) in told {
            nodes[at].merge(vec![entry(news)], false);
        }
        for (at, step) in steps {
            act(&nodes, at, &step);
        }
        // One to hear, one to refute, one to hear of that, one to see that it is over.
        prop_assert!(compare(&nodes) <= 4);
        let shown = nodes[0].shown();
        for node in &nodes {
            prop_assert_eq!(&node.shown(), &shown);
            let digest = node.registry.get(PLACE).map_or(0, |service| service.state().digest());
            prop_assert_eq!(digest, nodes[0].registry.get(PLACE).map_or(0, |service| service.state().digest()));
        }
    }
}
