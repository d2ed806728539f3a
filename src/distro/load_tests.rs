//! How a start takes what the others have.

use super::*;
use crate::cluster::MemberState;

fn address(n: u32) -> Address {
    Address::new(&format!("10.0.0.{n}:8848"))
}

fn nacre(peers: impl IntoIterator<Item = u32>) -> Vec<Peer> {
    legacy(peers).into_iter().map(|peer| Peer { nacre: Some(1), ..peer }).collect()
}

fn legacy(peers: impl IntoIterator<Item = u32>) -> Vec<Peer> {
    peers.into_iter().map(|n| Peer::new(address(n), MemberState::Up)).collect()
}

fn load(peers: u32) -> Load {
    let mut load = Load::new(&nacre(1..=peers), Millis(1_000));
    assert_eq!(load.take(Millis(1_000)).len(), peers as usize);
    load
}

/// The peer answers what it was asked last.
fn answer(load: &mut Load, peer: u32, outcome: Loaded, now: u64) {
    let asked = load.peers[&address(peer)].asked;
    load.answered(&address(peer), asked, outcome, Millis(now));
}

/// A load after a standstill from two peers whose data are here, and which have been asked once more at 2,000.
fn asked_once_more() -> Load {
    let mut load = Load::after_standstill(&nacre(1..=2), Millis(1_000));
    load.take(Millis(1_000));
    answer(&mut load, 1, Loaded::Merged, 1_001);
    answer(&mut load, 2, Loaded::Merged, 1_001);
    assert_eq!(load.take(Millis(2_000)).len(), 2);
    load
}

/// Whether it is complete when it is driven.
fn is_done(load: &mut Load, now: u64) -> bool {
    load.take(Millis(now));
    load.is_complete(Millis(now))
}

#[test]
fn a_node_with_one_peer_s_data_waits_for_the_first_word_of_each_other() {
    let mut load = load(3);
    answer(&mut load, 1, Loaded::Merged, 1_001);
    assert!(!is_done(&mut load, 1_001));
    answer(&mut load, 2, Loaded::Refused, 1_001);
    assert!(!is_done(&mut load, 1_400));
    answer(&mut load, 3, Loaded::Failed, 1_450);
    assert!(is_done(&mut load, 1_450));
    assert_eq!(load.merged().count(), 1);
}

#[test]
fn peers_whose_data_are_of_another_time_are_waited_for_while_they_answer() {
    let mut load = load(2);
    answer(&mut load, 2, Loaded::Refused, 1_001);
    let (mut now, mut last) = (1_001, 0);
    for pause in [3_000, 3_000, 6_000, 12_000, 24_000, 30_000, 30_000, 30_000] {
        answer(&mut load, 1, Loaded::OfAnotherTime, now);
        assert!(!is_done(&mut load, now + pause - 1));
        (now, last) = (now + pause, now);
        assert_eq!(load.peers[&address(1)].next, Millis(now));
        load.take(Millis(now));
    }
    // It isn't one that never said anything when an answer fails to come.
    answer(&mut load, 1, Loaded::Failed, now);
    let until = last + 60_000;
    assert!(!is_done(&mut load, until - 1));
    assert!(load.next(Millis(until - 1)).is_some_and(|next| next <= Millis(until)));
    answer(&mut load, 1, Loaded::Refused, until - 1);
    assert!(is_done(&mut load, until));
}

#[test]
fn when_the_clock_is_right_or_another_s_data_can_be_used_the_node_goes_on() {
    let mut load = super::Load::new(&nacre(1..=2), Millis(1_000));
    load.take(Millis(1_000));
    answer(&mut load, 1, Loaded::OfAnotherTime, 1_001);
    answer(&mut load, 2, Loaded::Starting, 1_001);
    assert!(!is_done(&mut load, 60_000));
    answer(&mut load, 1, Loaded::Merged, 60_001);
    assert!(is_done(&mut load, 60_001));
    let mut load = super::Load::new(&nacre(1..=2), Millis(1_000));
    load.take(Millis(1_000));
    answer(&mut load, 1, Loaded::OfAnotherTime, 1_001);
    assert!(!is_done(&mut load, 1_100));
    answer(&mut load, 2, Loaded::Merged, 1_101);
    assert!(is_done(&mut load, 1_101));
}

#[test]
fn one_that_hangs_is_not_waited_for_and_the_others_are_asked_for_what_they_heard_meanwhile() {
    let mut load = load(3);
    answer(&mut load, 1, Loaded::Merged, 1_001);
    answer(&mut load, 2, Loaded::Merged, 1_001);
    assert!(!is_done(&mut load, 3_999));
    assert_eq!(load.take(Millis(4_000)), [address(1), address(2), address(3)]);
    answer(&mut load, 1, Loaded::Merged, 4_001);
    assert!(!is_done(&mut load, 4_001));
    assert_eq!(load.next(Millis(4_001)), Some(Millis(4_501)));
    answer(&mut load, 2, Loaded::Failed, 4_002);
    assert!(is_done(&mut load, 4_002));
    assert_eq!(load.merged().count(), 2);
}

#[test]
fn while_a_slow_one_is_waited_for_what_the_others_told_grows_old_and_is_asked_for_again() {
    let mut load = load(3);
    for peer in 1..=3 {
        answer(&mut load, peer, Loaded::Merged, 1_001);
    }
    assert!(is_done(&mut load, 1_001), "all of it is fresh");
    let mut load = super::Load::after_standstill(&nacre(1..=3), Millis(1_000));
    load.take(Millis(1_000));
    for peer in 1..=3 {
        answer(&mut load, peer, Loaded::Merged, 1_001);
    }
    assert_eq!(load.take(Millis(2_000)).len(), 3);
    answer(&mut load, 1, Loaded::Merged, 2_001);
    answer(&mut load, 2, Loaded::Merged, 2_001);
    assert_eq!(load.next(Millis(2_001)), Some(Millis(2_501)));
    assert!(!is_done(&mut load, 2_501) && !is_done(&mut load, 4_999));
    assert_eq!(load.next(Millis(4_999)), Some(Millis(5_000)));
    assert_eq!(load.take(Millis(5_000)), [address(1), address(2)]);
    assert!(!load.is_complete(Millis(5_000)));
    answer(&mut load, 1, Loaded::Merged, 5_001);
    answer(&mut load, 2, Loaded::Merged, 5_001);
    assert!(is_done(&mut load, 5_001));
}

#[test]
fn a_late_answer_is_as_old_as_its_question_whatever_became_of_the_next() {
    let mut load = load(3);
    answer(&mut load, 3, Loaded::Unknown, 3_500);
    answer(&mut load, 1, Loaded::Merged, 3_999);
    assert_eq!(load.take(Millis(4_000)), [address(2), address(3)]);
    answer(&mut load, 2, Loaded::Refused, 4_001);
    load.answered(&address(2), Millis(1_000), Loaded::Merged, Millis(4_100));
    answer(&mut load, 3, Loaded::Merged, 4_200);
    assert_eq!(load.take(Millis(4_200)), [1, 2, 3].map(address));
    for peer in 1..=3 {
        assert!(!load.is_complete(Millis(4_201)));
        answer(&mut load, peer, Loaded::Merged, 4_201);
    }
    assert!(is_done(&mut load, 4_201));
}

#[test]
fn who_may_take_itself_for_an_owner_must_tell_its_ring_and_one_that_is_away_is_passed_over_in_the_end() {
    let mut load = load(4);
    let told = |of: &'static [u32]| move |member: &Address| of.iter().any(|n| *member == address(*n));
    let nobody = |_: &Address| false;
    answer(&mut load, 1, Loaded::Merged, 1_001);
    answer(&mut load, 2, Loaded::Refused, 1_001);
    answer(&mut load, 3, Loaded::Starting, 1_001);
    assert!(load.has_all_rings(told(&[1, 4]), nobody) && !load.has_all_rings(told(&[4]), nobody));
    assert!(!load.has_all_rings(told(&[1]), |_| true), "it may answer yet");
    answer(&mut load, 3, Loaded::Unknown, 1_501);
    assert!(!is_done(&mut load, 3_999));
    load.take(Millis(4_002));
    assert!(load.has_all_rings(told(&[1]), |_| true));
    assert!(!load.has_all_rings(told(&[1]), nobody), "it was there a moment ago");
    assert!(!load.has_all_rings(told(&[4]), |_| true), "its data are here");
}

#[test]
fn peers_that_were_asked_at_different_times_are_asked_again_together() {
    let mut load = load(2);
    answer(&mut load, 1, Loaded::Merged, 1_300);
    answer(&mut load, 2, Loaded::Unknown, 1_300);
    assert_eq!(load.take(Millis(1_800)), [address(2)]);
    answer(&mut load, 2, Loaded::Merged, 2_250);
    assert_eq!(load.take(Millis(2_250)), [address(1), address(2)], "though the second is fresh");
    answer(&mut load, 1, Loaded::Merged, 2_700);
    answer(&mut load, 2, Loaded::Merged, 2_701);
    assert!(is_done(&mut load, 2_701));
}

#[test]
fn where_nobody_answers_once_more_they_are_tried_for_ten_seconds_but_not_those_that_are_gone() {
    let begin = || {
        let mut load = asked_once_more();
        answer(&mut load, 1, Loaded::Refused, 2_001);
        assert!(!is_done(&mut load, 2_001));
        load
    };
    let mut load = begin();
    answer(&mut load, 2, Loaded::Refused, 2_002);
    assert!(is_done(&mut load, 2_002));
    let mut load = begin();
    assert_eq!(load.take(Millis(2_501)), [address(1)]);
    assert!(!is_done(&mut load, 4_999));
    assert_eq!(load.take(Millis(5_000)), [address(2)]);
    answer(&mut load, 2, Loaded::Failed, 5_001);
    answer(&mut load, 1, Loaded::Refused, 5_001);
    assert_eq!(load.take(Millis(5_501)), [address(1), address(2)]);
    answer(&mut load, 2, Loaded::Merged, 5_502);
    answer(&mut load, 1, Loaded::Refused, 5_502);
    assert!(is_done(&mut load, 5_502));
    let mut load = begin();
    let asked = [2_501, 5_000, 5_501, 8_000].map(|now| load.take(Millis(now)).len());
    assert_eq!(asked, [1; 4], "each of them every three seconds");
    let mut load = begin();
    assert!(!is_done(&mut load, 11_999) && is_done(&mut load, 12_500));
}

#[test]
fn a_request_that_hangs_is_not_waited_for_where_the_peer_answers_another() {
    let mut load = load(1);
    assert_eq!(load.take(Millis(3_999)), []);
    assert_eq!((load.next(Millis(3_999)), load.take(Millis(4_000)).len()), (Some(Millis(4_000)), 1));
    assert_eq!(load.take(Millis(9_999)), []);
    assert_eq!(load.take(Millis(10_000)).len(), 1);
    answer(&mut load, 1, Loaded::Merged, 10_100);
    assert!(is_done(&mut load, 10_100));
}

#[test]
fn an_answer_to_an_earlier_request_brings_data_and_ends_no_waiting_for_the_later_one() {
    let mut load = load(2);
    answer(&mut load, 1, Loaded::Refused, 1_001);
    assert_eq!(load.take(Millis(1_501)), [address(1)]);
    answer(&mut load, 1, Loaded::Starting, 1_502);
    assert_eq!(load.take(Millis(2_002)), [address(1)]);
    assert_eq!(load.take(Millis(4_000)), [address(2)], "beside the first request");
    let late = |load: &mut Load, asked, outcome, now| {
        load.answered(&address(2), Millis(asked), outcome, Millis(now));
    };
    late(&mut load, 1_000, Loaded::Failed, 4_001);
    assert!(load.peers[&address(2)].under_way && load.peers[&address(2)].last.is_none());
    late(&mut load, 1_000, Loaded::Merged, 4_002);
    assert_eq!(load.merged().count(), 1);
    assert!(!is_done(&mut load, 4_002), "its data are old, and the later ones may be about to come");
    assert_eq!(load.take(Millis(4_100)), []);
    answer(&mut load, 2, Loaded::Merged, 4_200);
    assert!(is_done(&mut load, 4_200));
}

#[test]
fn of_those_that_are_asked_once_more_a_late_answer_counts_if_it_was_asked_for_since_then() {
    let begin = || {
        let mut load = asked_once_more();
        assert_eq!(load.take(Millis(5_000)).len(), 2, "nobody answers");
        load
    };
    let is_heard = |asked, outcome| {
        let mut load = begin();
        load.answered(&address(1), Millis(asked), outcome, Millis(5_001));
        is_done(&mut load, 5_001)
    };
    assert!(!is_heard(1_000, Loaded::Merged) && !is_heard(2_000, Loaded::Failed));
    assert!(is_heard(2_000, Loaded::Merged) && is_heard(5_000, Loaded::Merged));
    let mut load = begin();
    answer(&mut load, 1, Loaded::Merged, 5_001);
    load.answered(&address(1), Millis(2_000), Loaded::Failed, Millis(5_002));
    assert!(is_done(&mut load, 5_002), "a late failure takes nothing back");
}

#[test]
fn what_another_load_asked_for_says_nothing() {
    let mut load = Load::after_standstill(&nacre(1..=1), Millis(1_000));
    load.answered(&address(1), Millis(900), Loaded::Merged, Millis(1_000));
    assert_eq!((load.merged().count(), load.take(Millis(1_000)).len()), (0, 1));
    load.answered(&address(1), Millis(900), Loaded::Merged, Millis(1_001));
    assert_eq!((load.merged().count(), is_done(&mut load, 2_000)), (0, false));
}

#[test]
fn a_node_that_stood_still_compares_for_a_second() {
    let mut load = Load::after_standstill(&nacre(1..=2), Millis(1_000));
    assert_eq!(load.take(Millis(1_000)).len(), 2);
    answer(&mut load, 1, Loaded::Merged, 1_001);
    answer(&mut load, 2, Loaded::Refused, 1_001);
    assert!(!is_done(&mut load, 1_999));
    answer(&mut load, 2, Loaded::Refused, 1_999);
    assert_eq!(load.next(Millis(1_999)), Some(Millis(2_000)));
    assert_eq!(load.take(Millis(2_000)), [address(1)]);
    answer(&mut load, 1, Loaded::Merged, 2_001);
    assert!(is_done(&mut load, 2_001));
}

#[test]
fn nodes_that_all_start_go_on_when_each_has_said_so() {
    let mut load = load(2);
    answer(&mut load, 1, Loaded::Starting, 1_001);
    answer(&mut load, 2, Loaded::Refused, 1_001);
    assert!(!load.is_complete(Millis(10_999)));
    assert_eq!(load.take(Millis(1_500)), []);
    assert_eq!(load.take(Millis(1_501)), [address(1), address(2)]);
    answer(&mut load, 2, Loaded::Starting, 1_502);
    assert!(is_done(&mut load, 1_502), "what was said before counts while it is asked again");
}

#[test]
fn silence_ends_the_waiting_but_not_for_those_that_do_not_know_the_node() {
    let mut load = load(2);
    answer(&mut load, 1, Loaded::Refused, 1_001);
    assert!(!is_done(&mut load, 10_999) && is_done(&mut load, 11_000));
    answer(&mut load, 1, Loaded::Unknown, 12_000);
    for now in [12_500, 15_500, 21_500] {
        answer(&mut load, 2, Loaded::Failed, now);
        assert!(load.take(Millis(now)).contains(&address(1)) && !load.is_complete(Millis(now)));
    }
    assert_eq!(load.next(Millis(21_999)), Some(Millis(22_000)));
    assert!(!is_done(&mut load, 21_999) && load.is_complete(Millis(22_000)), "it says nothing more");
    answer(&mut load, 1, Loaded::Unknown, 22_000);
    assert!(!is_done(&mut load, 31_999));
    load.take(Millis(99_000));
    answer(&mut load, 1, Loaded::Merged, 99_000);
    answer(&mut load, 2, Loaded::Unknown, 99_000);
    assert!(!is_done(&mut load, 101_999), "it may be about to know it");
    load.take(Millis(102_000));
    answer(&mut load, 1, Loaded::Merged, 102_001);
    assert!(is_done(&mut load, 102_001));
}

#[test]
fn two_that_start_together_do_not_wait_for_ever_for_one_that_knows_neither() {
    let mut load = load(2);
    let mut is_done_at = |now: u64| {
        load.take(Millis(now));
        answer(&mut load, 1, Loaded::Starting, now);
        answer(&mut load, 2, Loaded::Unknown, now);
        is_done(&mut load, now)
    };
    assert!((1..20).all(|tick| !is_done_at(1_000 + tick * 500)));
    assert!(is_done_at(11_000));
}

#[test]
fn one_that_does_not_know_the_node_yet_is_waited_for_as_long_as_a_list_takes() {
    let mut load = load(2);
    answer(&mut load, 1, Loaded::Merged, 1_001);
    answer(&mut load, 2, Loaded::Unknown, 1_001);
    assert!(!is_done(&mut load, 1_400));
    answer(&mut load, 2, Loaded::Merged, 1_450);
    assert!(is_done(&mut load, 1_450));
}

#[test]
fn who_leaves_the_list_is_not_waited_for_and_who_joins_is_asked() {
    let mut load = load(2);
    answer(&mut load, 1, Loaded::Merged, 1_001);
    load.relist(&nacre(1..=1), Millis(1_002));
    load.relist(&nacre([1, 3]), Millis(1_003));
    assert_eq!(load.take(Millis(1_003)), [address(3)]);
    assert!(!is_done(&mut load, 1_003));
    load.relist(&nacre(1..=1), Millis(1_004));
    assert!(is_done(&mut load, 1_004));
    assert!(is_done(&mut Load::new(&[], Millis(0)), 0), "nobody to load from");
}

#[test]
fn members_of_1x_are_asked_once_more_when_the_data_of_all_are_here() {
    let mut load = Load::new(&legacy(1..=2), Millis(1_000));
    assert_eq!(load.take(Millis(1_000)).len(), 2);
    answer(&mut load, 1, Loaded::Merged, 1_000);
    answer(&mut load, 2, Loaded::Merged, 1_000);
    assert_eq!(load.take(Millis(1_000)), [], "within the same millisecond nobody knows what was first");
    assert!(!load.is_complete(Millis(1_000)));
    assert_eq!(load.next(Millis(1_000)), Some(Millis(1_001)));
    assert_eq!(load.take(Millis(1_001)), [address(1), address(2)]);
    answer(&mut load, 1, Loaded::Merged, 1_003);
    assert!(!is_done(&mut load, 1_003));
    answer(&mut load, 2, Loaded::Failed, 1_003);
    assert!(is_done(&mut load, 1_003));
}

#[test]
fn a_member_that_has_nothing_is_no_reason_to_go_on_without_those_that_failed_once() {
    let mut load = Load::new(&legacy(1..=2), Millis(1_000));
    load.take(Millis(1_000));
    answer(&mut load, 1, Loaded::Empty, 1_001);
    answer(&mut load, 2, Loaded::Failed, 1_001);
    assert!(!is_done(&mut load, 1_002));
    assert_eq!(load.take(Millis(1_501)), [address(1), address(2)]);
    answer(&mut load, 1, Loaded::Empty, 1_502);
    answer(&mut load, 2, Loaded::Empty, 1_502);
    assert!(is_done(&mut load, 1_502), "nobody has anything");
    assert_eq!(load.merged().count(), 2);
}
