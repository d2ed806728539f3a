//! The protocol over numbers instead of instance lists.

use std::collections::BTreeMap;

use super::*;
use crate::{
    cluster::{Mapping, MemberState},
    distro::{data::Told, outbox::Item, verify::Buckets},
};

/// Numbers with digests; all belong to the owner of the empty name.
#[derive(Clone, Debug, Default)]
struct Numbers(BTreeMap<u32, u64>);

impl Data for Numbers {
    type Key = u32;
    type Beats = usize;

    fn name(_: &u32) -> &str {
        ""
    }

    fn hash(key: &u32) -> u64 {
        mix(fnv(key.to_be_bytes()))
    }

    fn each(&self, each: &mut dyn FnMut(&u32, u64)) {
        self.0.iter().for_each(|(key, digest)| each(key, *digest));
    }

    fn digest(&self, key: &u32) -> u64 {
        self.0.get(key).copied().unwrap_or(0)
    }

    fn beats(&self, _: &dyn Fn(&u32) -> bool, told: &mut Told, _: Millis) -> usize {
        // Tells once that something is late; and always what to compare, where there is doubt.
        usize::from(Arc::make_mut(&mut told.parts).insert(1)) + 10 * usize::from(told.is_doubted)
    }
}

const RHYTHM: Rhythm = Rhythm::USUAL;

fn address(n: u32) -> Address {
    Address::new(&format!("10.0.0.{n}:8848"))
}

fn nacre(n: u32, state: MemberState) -> Peer {
    Peer { nacre: Some(1), ..Peer::new(address(n), state) }
}

fn legacy(n: u32, state: MemberState) -> Peer {
    Peer { nacre: None, ..nacre(n, state) }
}

/// The view of member 1, which is first in the ring and so the owner of the empty name.
fn view(standing: Standing, peers: Vec<Peer>) -> Arc<View> {
    Arc::new(View::new(address(1), standing, peers, Mapping::Modulo))
}

fn serving(peers: Vec<Peer>) -> Core<Numbers> {
    Core::new(RHYTHM, view(Standing::Serving, peers), Millis(0))
}

/// Actions as texts.
fn said(actions: &[Action<Numbers>]) -> Vec<String> {
    let said = |action: &Action<Numbers>| match action {
        Action::Call { to, call, .. } => format!("{to} {}", word(call)),
        Action::Settled { key, asked: Millis(asked), by_all } => {
            format!("settled {key} of {asked}{}", if *by_all { " by all" } else { "" })
        }
        Action::Compare(comparison) => format!("{comparison:?}"),
        Action::Ready { loaded_from, .. } => format!("ready {}", loaded_from.len()),
        Action::StoodStill { ms } => format!("still {ms}"),
        Action::LoadsAnew => "loads anew".into(),
    };
    actions.iter().map(said).collect()
}

fn word(call: &Call<Numbers>) -> String {
    match call {
        Call::Load => "load".into(),
        Call::Push(items) => {
            let text = |item: &Item<u32>| format!("{}>{:?}", item.key, item.newer_than);
            format!("push {}", items.iter().map(text).collect::<Vec<_>>().join(" "))
        }
        Call::Verify { beats, .. } => format!("verify {beats}"),
        Call::Keys { page, .. } => {
            format!("keys {:?}", page.keys.iter().map(|(key, _)| key).collect::<Vec<_>>())
        }
        Call::Ask(keys) => format!("ask {keys:?}"),
        Call::Checksums(keys) => format!("checksums {keys:?}"),
        Call::Pull(keys) => format!("pull {keys:?}"),
    }
}

/// The number of the `n`th call among `actions`.
fn id(actions: &[Action<Numbers>], n: usize) -> u64 {
    let mut ids = actions.iter().filter_map(|action| match action {
        Action::Call { id, .. } => Some(*id),
        _ => None,
    });
    ids.nth(n).unwrap()
}

/// What is to be done, when what was to be found out has been.
fn found_out(
    core: &mut Core<Numbers>,
    data: &Numbers,
    actions: Vec<Action<Numbers>>,
    now: Millis,
) -> Vec<Action<Numbers>> {
    let each = actions.into_iter().flat_map(|action| match action {
        Action::Compare(comparison) => core.compared(comparison.over(data, now)),
        action => vec![action],
    });
    each.collect()
}

fn poll(core: &mut Core<Numbers>, data: &Numbers, now: Millis) -> Vec<Action<Numbers>> {
    let actions = core.poll(now);
    found_out(core, data, actions, now)
}

fn answered(
    core: &mut Core<Numbers>,
    id: u64,
    answer: Answer<u32>,
    data: &Numbers,
    now: Millis,
) -> Vec<Action<Numbers>> {
    let actions = core.answered(id, answer, now);
    found_out(core, data, actions, now)
}

/// What there is to do at the end of `ms` milliseconds in which the core was driven often enough.
fn driven(core: &mut Core<Numbers>, data: &Numbers, now: &mut Millis, ms: u64) -> Vec<Action<Numbers>> {
    let end = now.plus(ms);
    loop {
        let actions = poll(core, data, *now);
        if *now == end {
            return actions;
        }
        assert_eq!(said(&actions), Vec::<String>::new(), "before the end");
        *now = now.plus(1_000).min(end);
    }
}

#[test]
fn a_change_goes_to_all_at_once_but_to_nacre_members_that_are_away() {
    let data = Numbers::default();
    let peers = |state| vec![nacre(2, MemberState::Up), nacre(3, state), legacy(4, MemberState::Down)];
    let mut core = serving(peers(MemberState::Down));
    core.changed(&7, Millis(10));
    let actions = poll(&mut core, &data, Millis(10));
    assert_eq!(said(&actions), ["10.0.0.2:8848 push 7>None", "10.0.0.4:8848 push 7>None"]);
    assert!(core.is_lacking(&7));
    answered(&mut core, id(&actions, 0), Answer::Push(Sent::Taken(vec![Some(5)])), &data, Millis(11));
    assert!(core.is_lacking(&7), "the one that is away lacks it");
    core.see(view(Standing::Serving, peers(MemberState::Up)), Millis(20));
    let actions = poll(&mut core, &data, Millis(20));
    assert_eq!(said(&actions), ["10.0.0.3:8848 push 7>None"]);
    answered(&mut core, id(&actions, 0), Answer::Push(Sent::Taken(vec![Some(5)])), &data, Millis(21));
    assert!(!core.is_lacking(&7), "members of 1.x confirm nothing");
}

#[test]
fn a_member_that_is_no_longer_listed_gets_nothing_more() {
    let data = Numbers::default();
    let mut core = serving(vec![legacy(2, MemberState::Down), legacy(3, MemberState::Up)]);
    core.changed(&7, Millis(10));
    let actions = poll(&mut core, &data, Millis(10));
    core.see(view(Standing::Serving, vec![legacy(3, MemberState::Up)]), Millis(11));
    answered(&mut core, id(&actions, 0), Answer::Failed, &data, Millis(12));
    answered(&mut core, id(&actions, 1), Answer::Failed, &data, Millis(12));
    assert_eq!(said(&poll(&mut core, &data, Millis(1_500))), ["10.0.0.3:8848 push 7>None"]);
}

#[test]
fn what_a_member_was_sent_before_it_was_taken_off_the_list_is_no_news_of_what_it_is_sent_after() {
    let data = Numbers::default();
    let peers = || vec![nacre(2, MemberState::Up)];
    let mut core = serving(peers());
    core.changed(&7, Millis(10));
    let before = poll(&mut core, &data, Millis(10));
    core.see(view(Standing::Serving, Vec::new()), Millis(11));
    core.see(view(Standing::Serving, peers()), Millis(12));
    core.changed(&8, Millis(13));
    assert_eq!(said(&poll(&mut core, &data, Millis(13))), ["10.0.0.2:8848 push 8>None"]);
    answered(&mut core, id(&before, 0), Answer::Push(Sent::Taken(vec![Some(5)])), &data, Millis(14));
    assert!(core.is_lacking(&8));
}

#[test]
fn a_comparison_goes_from_root_to_keys_and_ends_in_a_push_of_the_whole() {
    let data = Numbers((0..100).map(|key| (key, 1)).collect());
    let mut core = serving(vec![nacre(2, MemberState::Up)]);
    let actions = driven(&mut core, &data, &mut Millis(0), 5_000);
    assert_eq!(said(&actions), ["10.0.0.2:8848 verify 1"]);
    let mut theirs = data.clone();
    theirs.0.remove(&42);
    let buckets = Some(Buckets::of(&theirs, &|_| true));
    let actions = answered(
        &mut core,
        id(&actions, 0),
        Answer::Verified { boot: 1, missed: None, buckets },
        &data,
        Millis(5_001),
    );
    let page = said(&actions);
    assert!(
        page.len() == 1 && page[0].starts_with("10.0.0.2:8848 keys") && page[0].contains("42"),
        "{page:?}"
    );
    answered(&mut core, id(&actions, 0), Answer::Wanted(vec![42]), &data, Millis(5_002));
    assert_eq!(said(&poll(&mut core, &data, Millis(5_002))), ["10.0.0.2:8848 push 42>None"]);
}

#[test]
fn a_peer_that_runs_anew_is_told_everything_again_and_one_that_may_have_missed_something_what_to_compare() {
    let data = Numbers([(1, 1)].into());
    let (mut core, mut now) = (serving(vec![nacre(2, MemberState::Up)]), Millis(0));
    let mut round = |answer: Answer<u32>| {
        let actions = driven(&mut core, &data, &mut now, 5_000);
        answered(&mut core, id(&actions, 0), answer, &data, now);
        said(&actions)[0].replace("10.0.0.2:8848 verify ", "")
    };
    let same = |boot| Answer::Verified { boot, missed: None, buckets: None };
    let missed = |buckets: &[u8]| Answer::Verified { boot: 2, missed: Some(buckets.to_vec()), buckets: None };
    let answers = [
        same(1),
        same(1),
        same(1),
        same(2),
        Answer::Failed,
        same(2),
        missed(&[]),
        missed(&[1]),
        missed(&[0]),
        same(2),
        same(2),
    ];
    let told: Vec<String> = answers.into_iter().map(&mut round).collect();
    // The first answer makes the run known, the fourth another one; the part's own bucket is the first.
    assert_eq!(told, ["1", "1", "0", "0", "1", "10", "0", "10", "10", "11", "0"]);
}

#[test]
fn silence_is_judged_when_all_have_answered_or_three_seconds_have_passed() {
    let data = Numbers::default();
    let away = || nacre(4, MemberState::Down);
    let mut core = serving(vec![nacre(2, MemberState::Up), nacre(3, MemberState::Suspicious), away()]);
    core.ask(&7, Millis(10));
    let actions = poll(&mut core, &data, Millis(10));
    assert_eq!(said(&actions), ["10.0.0.2:8848 ask [7]", "10.0.0.3:8848 ask [7]"]);
    answered(&mut core, id(&actions, 0), Answer::Heard { is_new: false }, &data, Millis(11));
    assert!(poll(&mut core, &data, Millis(12)).is_empty());
    answered(&mut core, id(&actions, 1), Answer::Heard { is_new: false }, &data, Millis(13));
    assert_eq!(said(&poll(&mut core, &data, Millis(13))), ["settled 7 of 10"]);
    core.ask(&8, Millis(100));
    assert_eq!(
        said(&poll(&mut core, &data, Millis(100))),
        ["10.0.0.2:8848 ask [8]", "10.0.0.3:8848 ask [8]"]
    );
    let actions = driven(&mut core, &data, &mut Millis(101), 2_999);
    assert_eq!(said(&actions), ["settled 8 of 100"]);
    core.see(view(Standing::Serving, vec![away()]), Millis(3_200));
    core.ask(&9, Millis(3_200));
    assert_eq!(said(&poll(&mut core, &data, Millis(3_200))), ["settled 9 of 3200"], "nobody to ask");
}

#[test]
fn a_question_that_one_answers_who_has_just_begun_is_not_answered_by_all() {
    let data = Numbers::default();
    for (is_new, said_of_it) in [(false, "settled 7 of 10 by all"), (true, "settled 7 of 10")] {
        let mut core = serving(vec![nacre(2, MemberState::Up), nacre(3, MemberState::Up)]);
        core.ask(&7, Millis(10));
        let actions = poll(&mut core, &data, Millis(10));
        answered(&mut core, id(&actions, 0), Answer::Heard { is_new }, &data, Millis(11));
        answered(&mut core, id(&actions, 1), Answer::Heard { is_new: false }, &data, Millis(12));
        assert_eq!(said(&poll(&mut core, &data, Millis(12))), [said_of_it]);
    }
}

#[test]
fn a_peer_that_takes_its_time_is_asked_about_others_meanwhile() {
    let data = Numbers::default();
    let mut core = serving(vec![nacre(2, MemberState::Up)]);
    core.ask(&7, Millis(10));
    let first = poll(&mut core, &data, Millis(10));
    core.ask(&8, Millis(20));
    assert!(poll(&mut core, &data, Millis(20)).is_empty() && core.next(Millis(20)) == Some(Millis(510)));
    let second = poll(&mut core, &data, Millis(510));
    assert_eq!(said(&second), ["10.0.0.2:8848 ask [8]"], "and about 7 but once");
    answered(&mut core, id(&first, 0), Answer::Heard { is_new: false }, &data, Millis(1_600));
    core.ask(&9, Millis(1_600));
    let actions = poll(&mut core, &data, Millis(1_600));
    assert_eq!(said(&actions), ["settled 7 of 10 by all", "10.0.0.2:8848 ask [9]"], "it answers again");
    answered(&mut core, id(&second, 0), Answer::Heard { is_new: false }, &data, Millis(1_700));
    assert_eq!(said(&poll(&mut core, &data, Millis(1_700))), ["settled 8 of 20 by all"]);
}

#[test]
fn one_that_is_down_by_the_voices_of_others_alone_is_brought_what_is_new() {
    let data = Numbers::default();
    let outvoted = || Peer { outvoted: true, ..nacre(2, MemberState::Down) };
    let mut core = serving(vec![nacre(2, MemberState::Up), nacre(3, MemberState::Up)]);
    core.see(view(Standing::Serving, vec![outvoted(), nacre(3, MemberState::Up)]), Millis(1));
    core.changed(&7, Millis(2));
    let actions = poll(&mut core, &data, Millis(2));
    assert_eq!(said(&actions), ["10.0.0.2:8848 push 7>None", "10.0.0.3:8848 push 7>None"]);
    for n in 0..2 {
        answered(&mut core, id(&actions, n), Answer::Push(Sent::Taken(vec![Some(1)])), &data, Millis(3));
    }
    core.see(
        view(Standing::Serving, vec![nacre(2, MemberState::Down), nacre(3, MemberState::Up)]),
        Millis(4),
    );
    core.changed(&8, Millis(60));
    assert_eq!(said(&poll(&mut core, &data, Millis(60))), ["10.0.0.3:8848 push 8>None"]);
}

#[test]
fn a_member_of_1_x_is_sent_all_own_checksums_and_never_an_empty_map() {
    let (mut core, mut now) = (serving(vec![legacy(2, MemberState::Down)]), Millis(0));
    assert!(driven(&mut core, &Numbers::default(), &mut now, 5_000).is_empty());
    let data = Numbers([(1, 1), (2, 0)].into());
    assert_eq!(said(&driven(&mut core, &data, &mut now, 5_000)), ["10.0.0.2:8848 checksums [1, 2]"]);
    core.pull(&address(2), [5, 6], Millis(0));
    assert_eq!(said(&poll(&mut core, &data, now)), ["10.0.0.2:8848 pull [5, 6]"]);
    assert!(poll(&mut core, &data, now).is_empty(), "one pull at a time, and nothing left");
}

#[test]
fn a_member_of_1x_is_not_asked_for_what_it_has_yet_to_be_sent() {
    let data = Numbers::default();
    let mut core = serving(vec![legacy(2, MemberState::Up)]);
    core.changed(&5, Millis(0));
    core.pull(&address(2), [5, 6], Millis(0));
    let actions = poll(&mut core, &data, Millis(0));
    assert_eq!(said(&actions), ["10.0.0.2:8848 push 5>None", "10.0.0.2:8848 pull [6]"]);
    answered(&mut core, id(&actions, 0), Answer::Push(Sent::Failed), &data, Millis(1));
    answered(&mut core, id(&actions, 1), Answer::Done, &data, Millis(1));
    core.pull(&address(2), [5], Millis(0));
    assert!(poll(&mut core, &data, Millis(2)).is_empty());
    let actions = poll(&mut core, &data, Millis(502));
    answered(&mut core, id(&actions, 0), Answer::Push(Sent::Taken(vec![Some(1)])), &data, Millis(503));
    core.pull(&address(2), [5], Millis(0));
    assert_eq!(said(&poll(&mut core, &data, Millis(504))), ["10.0.0.2:8848 pull [5]"]);
}

#[test]
fn a_member_that_has_become_nacre_is_not_pulled_from() {
    let mut core = serving(vec![nacre(2, MemberState::Up), legacy(3, MemberState::Up)]);
    core.pull(&address(2), [5], Millis(0));
    core.pull(&address(3), [5, 6], Millis(0));
    core.changed(&6, Millis(0));
    assert!(core.awaits(&address(3), &6, Millis(0)));
    let said = said(&core.poll(Millis(0)));
    let pulls: Vec<_> = said.iter().filter(|text| text.contains("pull")).collect();
    assert_eq!(pulls, ["10.0.0.3:8848 pull [5]"], "nor is one asked for what was written since");
}

#[test]
fn what_an_owner_of_1x_that_is_back_has_to_be_brought_is_awaited_again() {
    let data = Numbers([(1, 1)].into());
    let mut core = serving(vec![legacy(2, MemberState::Up)]);
    core.changed(&1, Millis(0));
    core.see(view(Standing::Serving, vec![legacy(2, MemberState::Down)]), Millis(0));
    let mut now = Millis(0);
    while core.awaits(&address(2), &1, now) {
        for action in poll(&mut core, &data, now) {
            if let Action::Call { id, call: Call::Push(_), .. } = action {
                answered(&mut core, id, Answer::Push(Sent::Failed), &data, now);
            }
        }
        now = now.plus(500);
    }
    assert_eq!(now, Millis(60_000), "it may never take it");
    core.see(view(Standing::Serving, vec![legacy(2, MemberState::Up)]), now);
    assert!(core.awaits(&address(2), &1, now), "what it has may be from before it was away");
    assert_eq!(said(&poll(&mut core, &data, now)), ["10.0.0.2:8848 push 1>None"], "at once");
}

#[test]
fn a_node_loads_before_it_says_anything_and_one_that_stood_still_says_so_first() {
    let data = Numbers([(1, 1)].into());
    let peers = |state| vec![nacre(2, state)];
    let mut core = Core::new(RHYTHM, view(Standing::Starting, peers(MemberState::Down)), Millis(0));
    core.changed(&1, Millis(0));
    let actions = poll(&mut core, &data, Millis(0));
    assert_eq!(said(&actions), ["10.0.0.2:8848 load"]);
    answered(&mut core, id(&actions, 0), Answer::Load(Loaded::Merged), &data, Millis(5));
    assert_eq!(said(&poll(&mut core, &data, Millis(5))), ["ready 1"]);
    core.see(view(Standing::Serving, peers(MemberState::Up)), Millis(6));
    assert_eq!(said(&poll(&mut core, &data, Millis(6))), ["10.0.0.2:8848 push 1>None"]);
    assert_eq!(said(&poll(&mut core, &data, Millis(2_007))), ["still 2001"]);
    core.see(view(Standing::Comparing, peers(MemberState::Up)), Millis(2_007));
    assert_eq!(said(&poll(&mut core, &data, Millis(2_007))), ["10.0.0.2:8848 load"]);
}

#[test]
fn who_is_away_is_not_waited_for_by_a_node_that_leaves() {
    let (up, down) = (MemberState::Up, MemberState::Down);
    for (peer, is_flushed) in
        [(nacre(2, up), false), (legacy(2, up), false), (nacre(2, down), true), (legacy(2, down), true)]
    {
        let mut core = serving(vec![peer]);
        core.changed(&7, Millis(1));
        assert_eq!(core.is_flushed(), is_flushed);
    }
}

#[test]
fn a_node_that_is_taken_off_the_list_brings_what_it_wrote_before() {
    let (data, up) = (Numbers::default(), MemberState::Up);
    let mut core = serving(vec![nacre(2, up), nacre(3, up)]);
    core.see(view(Standing::Removed, vec![nacre(2, up)]), Millis(100));
    core.changed(&7, Millis(101));
    let actions = poll(&mut core, &data, Millis(101));
    assert_eq!(said(&actions), ["10.0.0.2:8848 push 7>None"], "and nobody compares or asks");
    answered(&mut core, id(&actions, 0), Answer::Push(Sent::Failed), &data, Millis(102));
    assert!(core.next(Millis(102)).is_some_and(|next| next <= Millis(602)));
    assert_eq!(said(&poll(&mut core, &data, Millis(602))), ["10.0.0.2:8848 push 7>None"]);
    core.changed(&8, Millis(5_099));
    assert!(poll(&mut core, &data, Millis(5_100)).is_empty());
    assert_eq!(core.next(Millis(5_100)), Some(Millis(5_600)));
    core.changed(&9, Millis(5_101));
    assert!(poll(&mut core, &data, Millis(5_101)).is_empty() && core.waiting().next().is_none());
    // A member again, it has no confirmations left.
    core.see(view(Standing::Starting, vec![nacre(2, up)]), Millis(6_000));
    core.see(view(Standing::Serving, vec![nacre(2, up)]), Millis(6_001));
    core.changed(&7, Millis(6_001));
    assert_eq!(said(&poll(&mut core, &data, Millis(6_001)))[0], "10.0.0.2:8848 push 7>None");
}

#[test]
fn a_node_that_stands_still_while_it_loads_loads_anew() {
    let data = Numbers::default();
    let peers = vec![nacre(2, MemberState::Up), nacre(3, MemberState::Up)];
    for standing in [Standing::Starting, Standing::Comparing] {
        let mut core = Core::new(RHYTHM, view(standing, peers.clone()), Millis(0));
        let actions = poll(&mut core, &data, Millis(0));
        let both = ["10.0.0.2:8848 load", "10.0.0.3:8848 load"];
        assert_eq!(said(&actions), both);
        answered(&mut core, id(&actions, 0), Answer::Load(Loaded::Merged), &data, Millis(1));
        let mut again = poll(&mut core, &data, Millis(2_002));
        assert!(matches!(again.remove(0), Action::LoadsAnew));
        assert_eq!(said(&again), both);
        // This lay in its socket meanwhile.
        answered(&mut core, id(&actions, 1), Answer::Load(Loaded::Merged), &data, Millis(2_002));
        for n in [0, 1] {
            assert_eq!(said(&poll(&mut core, &data, Millis(2_002))), [""; 0]);
            answered(&mut core, id(&again, n), Answer::Load(Loaded::Merged), &data, Millis(2_003));
        }
        assert_eq!(said(&poll(&mut core, &data, Millis(3_001))), [""; 0]);
        let actions = poll(&mut core, &data, Millis(3_002));
        assert_eq!(said(&actions), both, "what came meanwhile");
        for n in [0, 1] {
            answered(&mut core, id(&actions, n), Answer::Load(Loaded::Merged), &data, Millis(3_003));
        }
        assert_eq!(said(&poll(&mut core, &data, Millis(3_003))), ["ready 2"]);
    }
}

#[test]
fn a_node_that_ran_while_it_was_no_member_serves_when_it_has_loaded() {
    let data = Numbers::default();
    let peers = vec![nacre(2, MemberState::Up)];
    let (mut core, mut now) =
        (Core::new(RHYTHM, view(Standing::Removed, peers.clone()), Millis(0)), Millis(0));
    assert_eq!(said(&driven(&mut core, &data, &mut now, 9_000)), [""; 0]);
    core.see(view(Standing::Starting, peers), now);
    let actions = poll(&mut core, &data, now);
    answered(&mut core, id(&actions, 0), Answer::Load(Loaded::Merged), &data, now.plus(1));
    assert_eq!(said(&poll(&mut core, &data, now.plus(1))), ["ready 1"]);
}

#[test]
fn a_node_whose_clock_stood_still_compares_as_well() {
    let (mut core, data) = (serving(vec![nacre(2, MemberState::Up)]), Numbers::default());
    assert_eq!(said(&poll(&mut core, &data, Millis(1_100))), [""; 0]);
    core.clock_stood();
    assert_eq!(said(&poll(&mut core, &data, Millis(1_200))), ["still 100"]);
    assert_eq!(said(&poll(&mut core, &data, Millis(1_300))), [""; 0], "once");
}

#[test]
fn a_node_that_stood_still_while_it_was_no_member_compares_for_a_second_too() {
    let data = Numbers::default();
    let peers = vec![nacre(2, MemberState::Up)];
    for is_driven in [false, true] {
        let mut core = Core::new(RHYTHM, view(Standing::Removed, peers.clone()), Millis(0));
        assert_eq!(said(&poll(&mut core, &data, Millis(0))), [""; 0]);
        if is_driven {
            assert_eq!(said(&poll(&mut core, &data, Millis(9_000))), [""; 0]);
        }
        core.see(view(Standing::Starting, peers.clone()), Millis(9_001));
        let mut actions = poll(&mut core, &data, Millis(9_001));
        actions.retain(|action| !matches!(action, Action::LoadsAnew));
        assert_eq!(said(&actions), ["10.0.0.2:8848 load"]);
        answered(&mut core, id(&actions, 0), Answer::Load(Loaded::Merged), &data, Millis(9_002));
        assert_eq!(said(&poll(&mut core, &data, Millis(10_000))), [""; 0], "its sockets may not be empty");
        let actions = poll(&mut core, &data, Millis(10_001));
        assert_eq!(said(&actions), ["10.0.0.2:8848 load"]);
        answered(&mut core, id(&actions, 0), Answer::Load(Loaded::Merged), &data, Millis(10_002));
        assert_eq!(said(&poll(&mut core, &data, Millis(10_002))), ["ready 1"]);
    }
}

#[test]
fn an_answer_to_a_load_that_is_over_is_none_to_the_next_one() {
    let data = Numbers::default();
    let peers = vec![nacre(2, MemberState::Up), nacre(3, MemberState::Up)];
    let mut core = Core::new(RHYTHM, view(Standing::Starting, peers.clone()), Millis(0));
    let first = poll(&mut core, &data, Millis(0));
    answered(&mut core, id(&first, 0), Answer::Load(Loaded::Merged), &data, Millis(1));
    let mut now = Millis(1);
    let again = driven(&mut core, &data, &mut now, 2_999);
    assert_eq!(said(&again), ["10.0.0.2:8848 load", "10.0.0.3:8848 load"]);
    answered(&mut core, id(&again, 0), Answer::Load(Loaded::Merged), &data, now);
    assert_eq!(said(&poll(&mut core, &data, now)), ["ready 1"], "without the one that hangs");
    core.see(view(Standing::Serving, peers.clone()), now);
    assert_eq!(said(&driven(&mut core, &data, &mut now, 1_500)), [""; 0]);
    core.see(view(Standing::Comparing, peers), now);
    answered(&mut core, id(&first, 1), Answer::Load(Loaded::Merged), &data, now);
    let both = ["10.0.0.2:8848 load", "10.0.0.3:8848 load"];
    let anew = poll(&mut core, &data, now);
    assert_eq!(said(&anew), both, "what it had then lay in a socket");
    answered(&mut core, id(&again, 1), Answer::Load(Loaded::Merged), &data, now.plus(1));
    answered(&mut core, id(&anew, 0), Answer::Load(Loaded::Merged), &data, now.plus(1));
    let actions = driven(&mut core, &data, &mut now.plus(1), 2_000);
    assert_eq!(said(&actions), [""; 0]);
}

#[test]
fn what_waits_for_a_peer_that_is_gone_goes_to_the_others_and_they_hand_it_on() {
    let (data, up, down) = (Numbers::default(), MemberState::Up, MemberState::Down);
    let mut core = serving(vec![nacre(2, up), nacre(3, up)]);
    core.changed(&7, Millis(0));
    let actions = poll(&mut core, &data, Millis(0));
    assert_eq!(said(&actions), ["10.0.0.2:8848 push 7>None", "10.0.0.3:8848 push 7>None"]);
    answered(&mut core, id(&actions, 0), Answer::Failed, &data, Millis(1));
    answered(&mut core, id(&actions, 1), Answer::Push(Sent::Taken(vec![Some(9)])), &data, Millis(1));
    core.see(view(Standing::Serving, vec![nacre(2, down), nacre(3, up)]), Millis(100));
    assert_eq!(said(&poll(&mut core, &data, Millis(100))), ["10.0.0.3:8848 push 7>Some(9)"]);
    // The one who gets it, and reaches that peer.
    let mut other = serving(vec![nacre(2, up), nacre(3, up)]);
    other.hand_on(&address(2), [(7, 0xa)], Millis(0));
    let actions = poll(&mut other, &data, Millis(0));
    assert_eq!(said(&actions), ["10.0.0.2:8848 push 7>None"]);
    other.hand_on(&address(2), [(7, 0xb)], Millis(1));
    answered(&mut other, id(&actions, 0), Answer::Push(Sent::Taken(vec![Some(9)])), &data, Millis(2));
    let actions = poll(&mut other, &data, Millis(100));
    assert_eq!(
        said(&actions),
        ["10.0.0.2:8848 push 7>None"],
        "other than what was under way, whatever its stamp"
    );
    answered(&mut other, id(&actions, 0), Answer::Push(Sent::Taken(vec![Some(9)])), &data, Millis(101));
    other.hand_on(&address(2), [(7, 0xb)], Millis(200));
    other.hand_on(&address(4), [(7, 0xc)], Millis(200));
    assert!(poll(&mut other, &data, Millis(300)).is_empty(), "it has it, and nobody else is a member");
    // Something older comes after all: what is sent next isn't cut behind it.
    other.came_belated(&7, 5);
    other.changed(&7, Millis(400));
    let actions = poll(&mut other, &data, Millis(400));
    assert_eq!(said(&actions), ["10.0.0.2:8848 push 7>Some(4)", "10.0.0.3:8848 push 7>None"]);
}

#[test]
fn a_peer_that_answers_no_question_is_asked_again_after_a_pause() {
    let data = Numbers::default();
    let mut core = serving(vec![nacre(2, MemberState::Up)]);
    core.ask(&7, Millis(10));
    let actions = poll(&mut core, &data, Millis(10));
    answered(&mut core, id(&actions, 0), Answer::Failed, &data, Millis(11));
    assert!(poll(&mut core, &data, Millis(12)).is_empty() && poll(&mut core, &data, Millis(510)).is_empty());
    assert_eq!(said(&poll(&mut core, &data, Millis(511))), ["10.0.0.2:8848 ask [7]"]);
}
