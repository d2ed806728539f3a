//! Events in, states and rings out.

use super::*;
use crate::cluster::{NacreMark, Peer, member::digest_of};

const OWN: &str = "10.0.0.1:8848";
const B: &str = "10.0.0.2:8848";
const C: &str = "10.0.0.3:8848";

fn at(text: &str) -> Address {
    Address::new(text)
}

fn settings() -> RosterSettings {
    RosterSettings {
        fail_access_count: 3,
        report_interval_ms: 2_000,
        report_timeout_ms: 2_500,
        mapping: Mapping::Modulo,
        meta: MemberMeta::default(),
    }
}

fn answered() -> Probe {
    Probe::Answered { known: true, nacre: None }
}

fn nacre_answered() -> Probe {
    Probe::Answered { known: true, nacre: Some(1) }
}

/// A report of a member of 1.x.
fn legacy(address: &str) -> MemberReport {
    MemberReport { nacre: None, ..nacre(address) }
}

/// A report of a Nacre node in order.
fn nacre(address: &str) -> MemberReport {
    marked(address, |_| {})
}

fn marked(address: &str, change: impl FnOnce(&mut NacreMark)) -> MemberReport {
    let mut mark = NacreMark { protocol: 1, ..NacreMark::default() };
    change(&mut mark);
    MemberReport::of_nacre(&at(address), mark)
}

/// Serves in a list of these, at time 0.
fn serving(others: &[&str]) -> Roster {
    let mut roster = Roster::new(at(OWN), settings());
    let listed: Vec<Address> = others.iter().chain([&OWN]).map(|text| at(text)).collect();
    roster.relist(&listed, Millis(0));
    roster.set_standing(Standing::Serving, Millis(0));
    roster
}

/// The same where both other members are Nacre nodes, up, at time 0.
fn damped() -> Roster {
    let mut roster = serving(&[B, C]);
    for other in [B, C] {
        roster.probed(&at(other), nacre_answered(), Millis(0));
        assert!(roster.reported(&nacre(other), Millis(0)));
    }
    assert!(roster.is_damped());
    assert_eq!(roster.probe_due(Millis(0)), [at(B), at(C)]);
    for other in [B, C] {
        roster.probed(&at(other), nacre_answered(), Millis(0));
    }
    roster
}

fn state(roster: &Roster, address: &str) -> &'static str {
    roster.view().peer(&at(address)).expect("listed").state.as_str()
}

fn ring(roster: &Roster) -> Vec<String> {
    roster.view().ring.iter().map(ToString::to_string).collect()
}

/// A member answers reports within a millisecond for ten minutes, and closes all writes, which come every millisecond while it
/// is UP. When it became UP.
fn closing(mut roster: Roster, answer: &Probe, reports: Option<&MemberReport>) -> Vec<u64> {
    let mut ups = Vec::new();
    for ms in 1..600_000 {
        let now = Millis(ms);
        if state(&roster, B) == "UP" {
            roster.refused(&at(B), now);
            assert_eq!(state(&roster, B), "DOWN");
        }
        for address in roster.probe_due(now) {
            roster.probed(&address, answer.clone(), now);
        }
        if let Some(report) = reports.filter(|_| ms % 2_000 == 0) {
            roster.reported(report, now);
        }
        if state(&roster, B) == "UP" {
            ups.push(ms);
        }
    }
    ups
}

#[test]
fn one_that_answers_reports_and_closes_writes_is_up_ever_more_seldom() {
    let ups = closing(damped(), &nacre_answered(), Some(&nacre(B)));
    let pauses: Vec<u64> = ups.windows(2).map(|pair| (pair[1] - pair[0]) / 1_000).collect();
    // 1, 2, 4 and 5 s, and then the next report.
    let (first, others) = pauses.split_at(3);
    assert_eq!(first, [2, 4, 6]);
    assert!(others.len() > 50 && others.iter().all(|pause| *pause == 6), "{pauses:?}");
}

#[test]
fn in_a_ring_of_1_x_it_is_up_as_often_as_reports_say_so() {
    let mut roster = serving(&[B, C]);
    for other in [B, C] {
        roster.probed(&at(other), answered(), Millis(0));
    }
    let ups = closing(roster, &answered(), Some(&legacy(B))).len();
    assert!((300..600).contains(&ups), "{ups}: once a report, from it or to it");
}

#[test]
fn one_that_closes_writes_since_it_ends_is_up_with_its_first_good_answer() {
    for ended in [Probe::Refused, Probe::NotReady { starting: true }] {
        let mut roster = damped();
        for ms in 1..=20 {
            roster.refused(&at(B), Millis(ms));
            roster.refused(&at(B), Millis(ms));
            roster.probed(&at(B), nacre_answered(), Millis(ms));
        }
        assert_eq!((state(&roster, B), roster.why(&at(B)).contains("closes other calls")), ("DOWN", true));
        roster.probed(&at(B), ended.clone(), Millis(30));
        roster.probed(&at(B), nacre_answered(), Millis(31));
        assert_eq!(state(&roster, B), "UP");
        roster.refused(&at(B), Millis(32));
        roster.probed(&at(B), nacre_answered(), Millis(32));
        assert_eq!(state(&roster, B), "UP", "it begins anew");
    }
}

mod legacy_rules {
    use super::*;

    #[test]
    fn a_second_name_is_not_up_because_it_gives_its_data_to_a_node_that_loads() {
        let mut roster = serving(&[B]);
        roster.set_standing(Standing::Comparing, Millis(1));
        roster.probed(&at(B), Probe::Another(at(OWN)), Millis(2));
        roster.answered(&at(B), Millis(3));
        assert_eq!(state(&roster, B), "DOWN");
    }

    #[test]
    fn a_new_member_is_down_and_owns_nothing() {
        let roster = serving(&[B]);
        assert_eq!((state(&roster, B), ring(&roster)), ("DOWN", vec![OWN.to_owned()]));
    }

    #[test]
    fn one_that_never_showed_itself_owns_nothing_because_it_fails() {
        let mut roster = serving(&[B]);
        for time in 1..6 {
            roster.probed(&at(B), Probe::Failed, Millis(time));
            assert_eq!((state(&roster, B), ring(&roster).len()), ("DOWN", 1), "failure {time}");
        }
        assert!(roster.reported(&legacy(B), Millis(6)));
        assert_eq!(state(&roster, B), "UP");
        roster.probed(&at(B), Probe::Failed, Millis(7));
        assert_eq!(state(&roster, B), "SUSPICIOUS");
    }

    #[test]
    fn an_answered_report_makes_it_up() {
        let mut roster = serving(&[B]);
        roster.probed(&at(B), answered(), Millis(1));
        assert_eq!((state(&roster, B), ring(&roster)), ("UP", vec![OWN.to_owned(), B.to_owned()]));
    }

    #[test]
    fn a_second_name_of_a_node_is_no_member_and_says_so() {
        let mut roster = serving(&[B, C]);
        for (called, why) in [
            (B, format!("the node there calls itself {B}; ")),
            (OWN, format!("it is this node, {OWN}, under a second name; ")),
        ] {
            roster.probed(&at(B), answered(), Millis(1));
            roster.probed(&at(C), answered(), Millis(1));
            assert_eq!(state(&roster, C), "UP");
            roster.probed(&at(C), Probe::Another(at(called)), Millis(2));
            assert_eq!(
                roster.view().peer(&at(C)).unwrap().nacre,
                Some(1),
                "it is sent nothing while it is DOWN"
            );
            assert_eq!((state(&roster, C), ring(&roster).len()), ("DOWN", 2));
            assert!(roster.why(&at(C)).starts_with(&why), "{}", roster.why(&at(C)));
            for ms in 3..9 {
                roster.probed(&at(C), Probe::Failed, Millis(ms));
                assert_eq!(state(&roster, C), "DOWN", "it would be an owner beside its first name");
            }
            assert!(roster.reported(&legacy(C), Millis(10)));
            assert_eq!((state(&roster, C), roster.called(&at(C))), ("UP", None), "a sender of that name");
        }
    }

    #[test]
    fn one_that_does_not_list_us_is_up_all_the_same() {
        let mut roster = serving(&[B]);
        roster.probed(&at(B), Probe::Answered { known: false, nacre: None }, Millis(1));
        assert_eq!(state(&roster, B), "UP");
        assert_eq!(roster.members()[1].knows_us, Some(false));
    }

    #[test]
    fn a_report_makes_it_up_even_if_it_cannot_be_reached() {
        let mut roster = serving(&[B]);
        roster.probed(&at(B), Probe::Refused, Millis(1));
        assert_eq!(state(&roster, B), "DOWN");
        assert!(roster.reported(&legacy(B), Millis(2)));
        assert_eq!(state(&roster, B), "UP");
    }

    #[test]
    fn a_refused_report_makes_it_down_at_once() {
        let mut roster = serving(&[B]);
        roster.probed(&at(B), answered(), Millis(1));
        roster.probed(&at(B), Probe::Refused, Millis(2));
        assert_eq!(state(&roster, B), "DOWN");
    }

    #[test]
    fn other_failures_make_it_suspicious_and_down_at_the_fourth() {
        let mut roster = serving(&[B]);
        roster.probed(&at(B), answered(), Millis(0));
        for (time, expected) in
            [(1, "SUSPICIOUS"), (2, "SUSPICIOUS"), (3, "SUSPICIOUS"), (4, "DOWN"), (5, "DOWN")]
        {
            roster.probed(&at(B), Probe::Failed, Millis(time));
            assert_eq!(state(&roster, B), expected, "failure {time}");
            assert_eq!(ring(&roster).len(), if expected == "DOWN" { 1 } else { 2 });
        }
        roster.probed(&at(B), answered(), Millis(6));
        assert_eq!((state(&roster, B), roster.members()[1].failures), ("UP", 0));
    }

    #[test]
    fn a_success_in_between_counts_anew() {
        let mut roster = serving(&[B]);
        assert!(roster.reported(&legacy(B), Millis(0)));
        for round in 0..10 {
            for _ in 0..3 {
                roster.probed(&at(B), Probe::Failed, Millis(round));
            }
            assert_eq!(state(&roster, B), "SUSPICIOUS");
            assert!(roster.reported(&legacy(B), Millis(round)));
            assert_eq!(state(&roster, B), "UP");
        }
    }

    #[test]
    fn beside_one_of_1x_a_member_that_was_never_there_is_suspicious_for_three_failures_as_there() {
        let mut roster = serving(&[B, C]);
        assert!(roster.reported(&legacy(C), Millis(0)));
        let states: Vec<_> = (0..4)
            .map(|time| {
                roster.probed(&at(B), Probe::Failed, Millis(time));
                state(&roster, B)
            })
            .collect();
        assert_eq!(states, ["SUSPICIOUS", "SUSPICIOUS", "SUSPICIOUS", "DOWN"]);
    }

    #[test]
    fn not_ready_changes_nothing() {
        let mut roster = serving(&[B]);
        for (before, expected) in
            [(answered(), "UP"), (Probe::Failed, "SUSPICIOUS"), (Probe::Refused, "DOWN")]
        {
            roster.probed(&at(B), before, Millis(1));
            let failures = roster.members()[1].failures;
            roster.probed(&at(B), Probe::NotReady { starting: false }, Millis(2));
            assert_eq!((state(&roster, B), roster.members()[1].failures), (expected, failures));
        }
    }

    #[test]
    fn the_limit_of_failures_is_a_setting() {
        let mut roster = Roster::new(at(OWN), RosterSettings { fail_access_count: 0, ..settings() });
        roster.relist(&[at(OWN), at(B)], Millis(0));
        roster.probed(&at(B), answered(), Millis(1));
        roster.probed(&at(B), Probe::Failed, Millis(2));
        assert_eq!(state(&roster, B), "DOWN");
    }

    #[test]
    fn members_are_reported_to_in_turn() {
        let mut roster = serving(&[B, C]);
        assert_eq!(roster.probe_due(Millis(0)), [at(B), at(C)]);
        for other in [B, C] {
            roster.probed(&at(other), answered(), Millis(5));
        }
        assert_eq!(roster.next_due(), Some(Millis(4_000)));
        assert_eq!(roster.probe_due(Millis(3_999)), []);
        assert_eq!(roster.probe_due(Millis(4_000)), [at(B), at(C)]);
        assert_eq!(roster.probe_due(Millis(9_000)), [], "both are under way");
    }

    #[test]
    fn one_member_of_1x_is_enough() {
        let mut roster = damped();
        assert!(roster.reported(&legacy(C), Millis(1)));
        assert!(!roster.is_damped());
        roster.probed(&at(B), Probe::Refused, Millis(2));
        assert!(roster.reported(&nacre(B), Millis(3)));
        assert_eq!(state(&roster, B), "UP");
    }

    #[test]
    fn silence_alone_makes_nobody_down() {
        let mut roster = serving(&[B]);
        roster.probed(&at(B), answered(), Millis(0));
        roster.probe_due(Millis(0));
        for time in [3_000, 6_000] {
            roster.probed(&at(B), Probe::Failed, Millis(time));
            roster.probe_due(Millis(time));
        }
        assert_eq!(roster.probe_due(Millis(8_500)), []);
        assert_eq!(state(&roster, B), "SUSPICIOUS");
    }
}

mod damped_rules {
    use super::*;

    #[test]
    fn a_report_of_an_unreachable_member_makes_it_no_owner_but_is_answered_with_one() {
        let mut roster = damped();
        roster.probe_due(Millis(2_000));
        roster.probed(&at(B), Probe::Refused, Millis(2_000));
        assert_eq!(state(&roster, B), "DOWN");
        assert_eq!(roster.probe_due(Millis(2_100)), []);
        assert!(roster.reported(&nacre(B), Millis(2_200)));
        assert_eq!(state(&roster, B), "DOWN");
        assert_eq!(roster.probe_due(Millis(2_200)), [at(B)], "at once");
        roster.probed(&at(B), nacre_answered(), Millis(2_201));
        assert_eq!(state(&roster, B), "UP");
    }

    /// The link to B is cut in one direction: B's reports come, ours never arrive.
    #[test]
    fn one_that_was_listed_and_never_started_changes_no_rule() {
        let mut roster = damped();
        let four: Vec<Address> = [OWN, B, C, "10.0.0.4:8848"].into_iter().map(at).collect();
        roster.relist(&four, Millis(1_000));
        assert!(roster.is_damped() && roster.view().is_all_nacre());
        roster.probed(&at("10.0.0.4:8848"), Probe::Refused, Millis(1_001));
        assert!(roster.is_damped());
        roster.reported(&legacy("10.0.0.4:8848"), Millis(2_000));
        assert!(!roster.is_damped() && !roster.view().is_all_nacre(), "it is one of 1.x");
    }

    #[test]
    fn a_one_way_link_does_not_flap() {
        let mut roster = damped();
        let mut states = Vec::new();
        let mut fails_at = None;
        for time in (1..60_000).step_by(100) {
            let now = Millis(time);
            if fails_at.is_some_and(|due| due <= time) {
                fails_at = None;
                roster.probed(&at(B), Probe::Failed, now);
            }
            if time % 2_000 < 100 {
                assert!(roster.reported(&nacre(B), now));
            }
            for due in roster.probe_due(now) {
                if due == at(B) {
                    fails_at = Some(time + 2_500);
                } else {
                    roster.probed(&due, nacre_answered(), now);
                }
            }
            if states.last() != Some(&state(&roster, B)) {
                states.push(state(&roster, B));
            }
        }
        assert_eq!(states, ["UP", "SUSPICIOUS", "DOWN"]);
        assert_eq!(state(&roster, C), "UP");
    }

    #[test]
    fn one_that_refuses_and_reports_does_not_flap_either() {
        let mut roster = damped();
        let mut changes = 0;
        let mut last = state(&roster, B);
        for time in (2_000..62_000).step_by(500) {
            let now = Millis(time);
            assert!(roster.reported(&nacre(B), now));
            for due in roster.probe_due(now) {
                let probe = if due == at(B) { Probe::Refused } else { nacre_answered() };
                roster.probed(&due, probe, now);
            }
            changes += usize::from(std::mem::replace(&mut last, state(&roster, B)) != state(&roster, B));
        }
        assert_eq!((changes, last), (1, "DOWN"));
    }

    /// Accepts and never answers, from just after an answer on.
    #[test]
    fn one_that_hangs_is_down_within_ten_seconds() {
        let mut roster = damped();
        let mut fails_at = None;
        let mut down_at = None;
        for time in (1..20_000).step_by(50) {
            let now = Millis(time);
            if fails_at.is_some_and(|due| due <= time) {
                fails_at = None;
                roster.probed(&at(B), Probe::Failed, now);
            }
            for due in roster.probe_due(now) {
                match due == at(B) {
                    true => fails_at = Some(time + 2_500),
                    false => roster.probed(&due, nacre_answered(), now),
                }
            }
            if state(&roster, B) == "DOWN" {
                down_at.get_or_insert(time);
            }
        }
        let down_at = down_at.expect("it is down");
        assert!((7_000..=9_000).contains(&down_at), "{down_at}");
    }

    #[test]
    fn one_that_answers_errors_is_down_at_the_fourth() {
        let mut roster = damped();
        let mut seen = Vec::new();
        for time in (2_000..=8_000).step_by(2_000) {
            for due in roster.probe_due(Millis(time)) {
                let probe = if due == at(B) { Probe::Failed } else { nacre_answered() };
                roster.probed(&due, probe, Millis(time));
            }
            seen.push(state(&roster, B));
        }
        assert_eq!(seen, ["SUSPICIOUS", "SUSPICIOUS", "SUSPICIOUS", "DOWN"]);
    }

    #[test]
    fn a_node_that_stood_still_blames_nobody() {
        let mut roster = damped();
        assert_eq!(roster.probe_due(Millis(2_000)), [at(B), at(C)]);
        // Frozen for 27 s: what was under way has failed, and the time is over.
        for other in [B, C] {
            roster.probed(&at(other), Probe::Failed, Millis(29_000));
        }
        assert_eq!(roster.probe_due(Millis(29_001)), [at(B), at(C)], "asked again at once");
        assert_eq!(ring(&roster).len(), 3);
        for other in [B, C] {
            roster.probed(&at(other), nacre_answered(), Millis(29_010));
        }
        assert_eq!([state(&roster, B), state(&roster, C)], ["UP", "UP"]);
    }

    #[test]
    fn evidence_of_other_calls_counts_down_at_once_and_up_by_asking() {
        let mut roster = damped();
        roster.refused(&at(B), Millis(5));
        assert_eq!((state(&roster, B), ring(&roster)), ("DOWN", vec![OWN.to_owned(), C.to_owned()]));
        assert_eq!(roster.probe_due(Millis(5)), [at(B)], "was it only the connection?");
        roster.refused(&at(B), Millis(5));
        roster.probed(&at(B), Probe::Refused, Millis(6));
        assert_eq!(roster.probe_due(Millis(9)), []);
        roster.answered(&at(B), Millis(10));
        assert_eq!(state(&roster, B), "DOWN");
        assert_eq!(roster.probe_due(Millis(10)), [at(B)]);
        roster.answered(&at(C), Millis(10));
        assert_eq!(roster.probe_due(Millis(10)), [], "one that is up isn't asked for that");
        roster.refused(&at("10.0.0.9:8848"), Millis(10));
    }

    #[test]
    fn a_report_right_after_refused_evidence_does_not_make_it_up() {
        let mut roster = damped();
        roster.refused(&at(B), Millis(5));
        assert!(roster.reported(&nacre(B), Millis(10)));
        assert_eq!(state(&roster, B), "DOWN");
    }

    #[test]
    fn one_that_starts_owns_nothing_until_it_answers() {
        let mut roster = damped();
        // Restarted so fast that nobody saw it down.
        roster.probe_due(Millis(2_000));
        roster.probed(&at(B), Probe::NotReady { starting: true }, Millis(2_000));
        assert_eq!(ring(&roster), [OWN, C]);
        let view = roster.view();
        let peer = view.peer(&at(B)).unwrap();
        assert_eq!((peer.starting, peer.state), (true, MemberState::Up));
        assert!(roster.reported(&nacre(B), Millis(2_100)), "its first report says that it has started");
        assert_eq!(roster.probe_due(Millis(2_100)), [at(B)]);
        roster.probed(&at(B), nacre_answered(), Millis(2_101));
        assert_eq!(ring(&roster), [OWN, B, C]);
    }

    #[test]
    fn one_that_says_it_starts_is_a_nacre_node() {
        let mut roster = serving(&[B]);
        roster.heard_starting(&at(B), Millis(1));
        let view = roster.view();
        let peer = view.peer(&at(B)).unwrap();
        assert_eq!((peer.nacre, peer.starting, peer.state), (Some(1), true, MemberState::Down));
        assert_eq!(
            roster.probe_due(Millis(1)),
            [at(B)],
            "what was heard by the way is no answer to a report"
        );
        roster.heard_starting(&at(B), Millis(2));
        assert_eq!(roster.probe_due(Millis(9_000)), [], "nor does it end one that is under way");
        roster.probed(&at(B), Probe::Refused, Millis(9_001));
        assert!(!roster.view().peer(&at(B)).unwrap().starting, "nobody is there any more");
    }

    #[test]
    fn one_that_leaves_owns_nothing_and_is_up() {
        let mut roster = damped();
        assert!(roster.reported(&marked(B, |mark| mark.leaving = true), Millis(10)));
        assert_eq!((state(&roster, B), ring(&roster)), ("UP", vec![OWN.to_owned(), C.to_owned()]));
        assert!(roster.view().peer(&at(B)).unwrap().leaving);
        roster.probed(&at(B), Probe::Refused, Millis(20));
        assert_eq!(state(&roster, B), "DOWN");
        // And comes back.
        assert!(roster.reported(&nacre(B), Millis(9_000)));
        roster.probed(&at(B), nacre_answered(), Millis(9_001));
        assert_eq!(ring(&roster).len(), 3);
    }

    #[test]
    fn one_that_most_call_slow_counts_as_down() {
        let mut roster = damped();
        let slow = |mark: &mut NacreMark| mark.slow = vec![at(C)];
        roster.set_slow(vec![at(C)]);
        assert_eq!(state(&roster, C), "UP", "one voice of two is not most");
        assert!(roster.reported(&marked(B, slow), Millis(1)));
        assert_eq!((state(&roster, C), ring(&roster)), ("DOWN", vec![OWN.to_owned(), B.to_owned()]));
        assert_eq!(roster.members()[2].why, "most members call it slow");
        let is_at_work = |roster: &Roster| roster.view().peer(&at(C)).is_some_and(Peer::is_nacre_at_work);
        assert!(
            is_at_work(&roster) && roster.view().unreached().eq([&at(C)]),
            "it answers this node, if not most"
        );
        let mut alone = roster.clone();
        alone.refused(&at(C), Millis(2));
        assert!(!is_at_work(&alone));
        assert!(roster.reported(&nacre(B), Millis(2)));
        assert_eq!(state(&roster, C), "UP");
    }

    #[test]
    fn those_that_are_down_have_no_voice() {
        let (d, e) = ("10.0.0.4:8848", "10.0.0.5:8848");
        let mut roster = serving(&[B, C, d, e]);
        for other in [B, C, d, e] {
            roster.probed(&at(other), nacre_answered(), Millis(0));
            assert!(roster.reported(&nacre(other), Millis(0)));
        }
        roster.set_slow(vec![at(C)]);
        assert!(roster.reported(&marked(d, |mark| mark.slow = vec![at(C)]), Millis(1)));
        assert_eq!(state(&roster, C), "UP", "two voices of four");
        roster.refused(&at(B), Millis(5));
        assert_eq!(state(&roster, C), "DOWN", "two voices of three");
    }

    #[test]
    fn accusations_that_would_leave_too_few_owners_are_ignored() {
        let mut two = serving(&[B]);
        two.probed(&at(B), nacre_answered(), Millis(0));
        two.set_slow(vec![at(B)]);
        assert!(two.reported(&marked(B, |mark| mark.slow = vec![at(OWN)]), Millis(1)));
        assert_eq!((ring(&two), state(&two, B)), (vec![OWN.to_owned(), B.to_owned()], "UP"));
        assert_eq!(two.view().own_index, Some(0));
        assert_eq!(two.why(&at(B)), "it reports");
        assert!(two.reported(&nacre(B), Millis(2)));
        assert_eq!(ring(&two), [OWN, B], "nor where one calls the only other slow");

        let mut three = damped();
        three.set_slow(vec![at(B), at(C)]);
        assert!(three.reported(&marked(B, |mark| mark.slow = vec![at(OWN), at(C)]), Millis(1)));
        assert_eq!(ring(&three), [OWN, B], "both others call C slow, and nobody else is called so by most");
        assert!(three.reported(&marked(C, |mark| mark.slow = vec![at(OWN), at(B)]), Millis(1)));
        assert_eq!(ring(&three), [OWN, B, C], "each is called slow by both others");
        three.refused(&at(C), Millis(2));
        assert_eq!(ring(&three), [OWN, B], "of those that are left neither is most");
    }

    #[test]
    fn the_node_itself_can_be_called_slow() {
        let mut roster = damped();
        let slow = |mark: &mut NacreMark| mark.slow = vec![at(OWN)];
        assert!(roster.reported(&marked(B, slow), Millis(1)));
        assert_eq!(ring(&roster).len(), 3);
        assert!(roster.reported(&marked(C, slow), Millis(1)));
        let view = roster.view();
        assert_eq!((ring(&roster), view.own_index), (vec![B.to_owned(), C.to_owned()], None));
        assert_eq!(view.standing, Standing::Serving);
    }

    #[test]
    fn an_address_is_called_slow_only_by_its_exact_text() {
        let mut roster = serving(&["110.0.0.2:8848", B]);
        for other in ["110.0.0.2:8848", B] {
            roster.probed(&at(other), nacre_answered(), Millis(0));
            assert!(roster.reported(&nacre(other), Millis(0)));
        }
        roster.set_slow(vec![at("110.0.0.2:8848")]);
        assert!(roster.reported(&marked(B, |mark| mark.slow = vec![at("110.0.0.2:8848")]), Millis(1)));
        assert_eq!(ring(&roster), [OWN, B]);
    }

    #[test]
    fn every_member_is_reported_to_every_interval() {
        let mut roster = damped();
        assert_eq!(roster.next_due(), Some(Millis(2_000)));
        assert_eq!(roster.probe_due(Millis(1_999)), []);
        assert_eq!(roster.probe_due(Millis(2_000)), [at(B), at(C)]);
    }
}

mod the_list {
    use super::*;

    #[test]
    fn known_members_keep_their_state_and_new_ones_are_down() {
        let mut roster = damped();
        roster.relist(&[at(OWN), at(C), at("10.0.0.4:8848")], Millis(100));
        assert_eq!((state(&roster, C), state(&roster, "10.0.0.4:8848")), ("UP", "DOWN"));
        assert!(roster.view().peer(&at(B)).is_none());
        assert_eq!(roster.probe_due(Millis(100)), [at("10.0.0.4:8848")]);
        roster.probed(&at(B), nacre_answered(), Millis(101));
        assert!(roster.view().peer(&at(B)).is_none(), "an answer lists nobody");
    }

    #[test]
    fn a_report_of_one_that_is_not_listed_changes_nothing() {
        let mut roster = damped();
        let before = roster.view();
        for stranger in ["10.0.0.4:8848", "110.0.0.2:8848", "10.0.0.2:88", "10.0.0.2"] {
            assert!(!roster.reported(&nacre(stranger), Millis(1)), "{stranger}");
        }
        assert_eq!(roster.view(), before);
    }

    #[test]
    fn a_report_in_the_own_name_changes_nothing() {
        let mut roster = damped();
        let before = roster.members();
        assert!(roster.reported(&legacy(OWN), Millis(1)));
        assert_eq!(roster.members(), before);
    }

    #[test]
    fn who_is_no_longer_listed_is_removed_and_who_is_again_starts() {
        let mut roster = damped();
        roster.relist(&[at(B), at(C)], Millis(10));
        assert_eq!(roster.standing(), Standing::Removed);
        assert_eq!((roster.view().own_index, ring(&roster)), (None, vec![B.to_owned(), C.to_owned()]));
        assert_eq!((roster.probe_due(Millis(5_000)), roster.next_due()), (vec![], None), "it is silent");
        assert!(!roster.reported(&nacre(OWN), Millis(5_000)));
        assert_eq!(roster.listed(), [at(B), at(C)]);
        roster.set_standing(Standing::Serving, Millis(5_500));
        assert_eq!(roster.standing(), Standing::Removed, "only the list can take it back");

        roster.relist(&[at(OWN), at(B), at(C)], Millis(6_000));
        assert_eq!(roster.standing(), Standing::Starting);
        assert_eq!(roster.probe_due(Millis(6_000)), []);
        assert_eq!(roster.view().own_index, None);
        roster.set_standing(Standing::Serving, Millis(7_000));
        assert_eq!(ring(&roster).len(), 3);
    }

    #[test]
    fn data_of_who_was_a_member_a_moment_ago_are_taken() {
        let mut roster = damped();
        let stranger = at("10.0.0.4:8848");
        roster.relist(&[at(OWN), at(B), at(C), stranger.clone()], Millis(0));
        assert_eq!(roster.view().parting, []);
        roster.relist(&[at(OWN), at(C)], Millis(1_000));
        let view = roster.view();
        assert_eq!(view.parting, [at(B)], "what may be one of 1.x sends whole lists");
        assert!(view.takes_data_of(&at(B)) && view.takes_data_of(&at(C)) && !view.takes_data_of(&stranger));
        assert_eq!(view.peers.len(), 1);
        roster.probe_due(Millis(10_999));
        assert_eq!(roster.view().parting, [at(B)]);
        assert!(roster.next_due().is_some_and(|due| due <= Millis(11_000)));
        roster.probe_due(Millis(11_000));
        assert_eq!(roster.view().parting, []);
        roster.relist(&[at(OWN)], Millis(12_000));
        roster.relist(&[at(OWN), at(C)], Millis(13_000));
        assert_eq!(roster.view().parting, [], "it is a member again");
    }

    #[test]
    fn a_list_of_the_node_alone_is_a_cluster_of_one() {
        let roster = serving(&[]);
        assert_eq!((ring(&roster), roster.view().standing), (vec![OWN.to_owned()], Standing::Serving));
        assert_eq!(roster.next_due(), None);
    }

    #[test]
    fn the_ring_is_sorted_as_text() {
        let mut roster = serving(&["10.0.0.9:8848", "10.0.0.10:8848"]);
        for other in ["10.0.0.9:8848", "10.0.0.10:8848"] {
            roster.probed(&at(other), answered(), Millis(1));
        }
        assert_eq!(ring(&roster), ["10.0.0.10:8848", OWN, "10.0.0.9:8848"], "a digit comes before the colon");
        assert_eq!(roster.view().own_index, Some(1));
    }
}

mod standing {
    use super::*;

    #[test]
    fn one_that_starts_reports_nothing_and_learns_who_is_there() {
        let mut roster = Roster::new(at(OWN), settings());
        roster.relist(&[at(OWN), at(B), at(C)], Millis(0));
        assert_eq!((roster.probe_due(Millis(1)), roster.next_due()), (vec![], None));
        roster.answered(&at(B), Millis(1));
        assert!(roster.reported(&legacy(C), Millis(1)));
        assert_eq!(ring(&roster), [B, C]);
        assert!(roster.report().nacre.unwrap().starting);
        roster.set_standing(Standing::Serving, Millis(2));
        assert_eq!(ring(&roster), [OWN, B, C]);
        assert_eq!(roster.probe_due(Millis(2)), [at(B), at(C)]);
    }

    #[test]
    fn one_that_compares_is_no_owner_and_silent_until_it_serves() {
        let mut roster = damped();
        roster.set_standing(Standing::Comparing, Millis(100));
        assert_eq!(
            (ring(&roster), roster.probe_due(Millis(9_000))),
            (vec![B.to_owned(), C.to_owned()], vec![])
        );
        roster.refused(&at(B), Millis(9_000));
        roster.answered(&at(C), Millis(9_000));
        assert!(roster.report().nacre.unwrap().starting);
        roster.set_standing(Standing::Serving, Millis(9_100));
        assert_eq!(
            (ring(&roster), roster.probe_due(Millis(9_100))),
            (vec![OWN.to_owned(), C.to_owned()], vec![at(B), at(C)])
        );
    }

    #[test]
    fn one_that_has_loaded_knows_who_is_nacre_before_it_serves() {
        let mut roster = Roster::new(at(OWN), settings());
        roster.relist(&[at(OWN), at(B), at(C)], Millis(0));
        roster.shown_nacre(&at(B), 1);
        roster.answered(&at(B), Millis(1));
        let view = roster.view();
        assert!(view.peer(&at(B)).is_some_and(Peer::is_nacre_at_work) && view.is_all_nacre());
    }

    #[test]
    fn one_that_leaves_tells_it_at_once() {
        let mut roster = damped();
        roster.set_standing(Standing::Leaving, Millis(100));
        assert_eq!(roster.probe_due(Millis(100)), [at(B), at(C)]);
        assert!(roster.report().nacre.unwrap().leaving);
        assert_eq!(ring(&roster), [B, C]);
        roster.probed(&at(B), nacre_answered(), Millis(101));
        assert!(!roster.has_told());
        roster.probed(&at(C), Probe::Refused, Millis(102));
        assert!(roster.has_told(), "who is gone needn't know");
    }

    #[test]
    fn a_report_that_left_before_tells_nothing_new() {
        let mut roster = damped();
        assert!(roster.has_told());
        assert_eq!(roster.probe_due(Millis(2_000)), [at(B), at(C)]);
        roster.set_standing(Standing::Leaving, Millis(2_001));
        assert_eq!(roster.probe_due(Millis(2_001)), [], "both are under way");
        for other in [B, C] {
            roster.probed(&at(other), nacre_answered(), Millis(2_002));
        }
        assert!(!roster.has_told());
        assert_eq!(roster.probe_due(Millis(2_002)), [at(B), at(C)], "the next ones follow at once");
        for other in [B, C] {
            roster.probed(&at(other), nacre_answered(), Millis(2_003));
        }
        assert!(roster.has_told());
    }

    #[test]
    fn a_report_tells_what_the_node_knows() {
        let meta = MemberMeta { site: Some("s".into()), ad_weight: None, weight: Some("2".into()) };
        let mut roster =
            Roster::new(at(OWN), RosterSettings { mapping: Mapping::Rendezvous, meta, ..settings() });
        roster.relist(&[at(OWN)], Millis(0));
        roster.set_standing(Standing::Serving, Millis(0));
        roster.set_slow(vec![at(B)]);
        roster.set_persistent(7);
        let report = roster.report();
        assert_eq!((&*report.ip, report.port, report.version.as_deref()), ("10.0.0.1", 8848, Some("1.4.8")));
        let mark = NacreMark {
            protocol: 1,
            starting: false,
            leaving: false,
            slow: vec![at(B)],
            persistent: 7,
            mapping: Mapping::Rendezvous,
            list: Some(digest_of(&[at(OWN)])),
        };
        assert_eq!(report.nacre, Some(mark));
        let info = serde_json::to_string(&report.extend_info).unwrap();
        assert_eq!(info, r#"{"raftPort":"7848","site":"s","weight":"2"}"#);
    }
}

mod mapping {
    use super::*;

    fn rendezvous() -> Roster {
        let mut roster = Roster::new(at(OWN), RosterSettings { mapping: Mapping::Rendezvous, ..settings() });
        roster.relist(&[at(OWN), at(B), at(C)], Millis(0));
        roster.set_standing(Standing::Serving, Millis(0));
        for other in [B, C] {
            roster.probed(&at(other), nacre_answered(), Millis(0));
            assert!(roster.reported(&marked(other, |mark| mark.mapping = Mapping::Rendezvous), Millis(0)));
        }
        assert_eq!(roster.view().mapping, Mapping::Rendezvous);
        roster
    }

    #[test]
    fn rendezvous_counts_only_among_nacre_nodes() {
        let mut roster = rendezvous();
        assert!(roster.reported(&legacy(C), Millis(1)));
        assert_eq!(roster.view().mapping, Mapping::Modulo);
        assert_eq!(roster.mapping_hindrance(), Some((&at(C), "hasn't shown that it is a Nacre node")));
    }

    #[test]
    fn and_only_where_all_are_set_so() {
        let mut roster = rendezvous();
        assert!(roster.reported(&nacre(C), Millis(1)));
        assert_eq!(roster.view().mapping, Mapping::Modulo);
        assert_eq!(roster.mapping_hindrance(), Some((&at(C), "has another nacre.distro.mapping")));
        assert!(roster.reported(&marked(C, |mark| mark.mapping = Mapping::Rendezvous), Millis(2)));
        assert_eq!(roster.view().mapping, Mapping::Rendezvous);
    }

    /// Else each join would move nearly all services to and fro.
    #[test]
    fn one_that_is_listed_and_not_there_yet_changes_nothing() {
        let mut roster = rendezvous();
        let new = "10.0.0.4:8848";
        roster.relist(&[at(OWN), at(B), at(C), at(new)], Millis(1));
        assert_eq!(roster.view().mapping, Mapping::Rendezvous);
        roster.heard_starting(&at(new), Millis(2));
        roster.probed(&at(new), nacre_answered(), Millis(3));
        assert_eq!((roster.view().mapping, ring(&roster).len()), (Mapping::Rendezvous, 4));
    }

    #[test]
    fn modulo_needs_nobody() {
        let roster = damped();
        assert_eq!((roster.view().mapping, roster.mapping_hindrance()), (Mapping::Modulo, None));
    }
}

proptest::proptest! {
    /// Whatever comes in which order: the ring is sorted, holds no stranger and nobody twice, and a second roster that
    /// is told the same comes to the same.
    #[test]
    fn any_events_leave_a_right_ring(events in proptest::collection::vec((0_u8..12, 0_usize..4, 0_u64..5_000), 0..80)) {
        let all = [OWN, B, C, "10.0.0.4:8848"];
        let mut rosters = [serving(&[B, C]), serving(&[B, C])];
        let mut now = Millis(0);
        for (event, who, later) in events {
            now = now.plus(later);
            let other = at(all[who]);
            for roster in &mut rosters {
                match event {
                    0 => { roster.reported(&nacre(all[who]), now); }
                    1 => { roster.reported(&legacy(all[who]), now); }
                    2 => roster.probed(&other, nacre_answered(), now),
                    3 => roster.probed(&other, Probe::Refused, now),
                    4 => roster.probed(&other, Probe::Failed, now),
                    5 => roster.probed(&other, Probe::NotReady { starting: who % 2 == 0 }, now),
                    6 => roster.refused(&other, now),
                    7 => roster.answered(&other, now),
                    8 => roster.relist(&all.iter().filter(|text| **text != all[who]).map(|text| at(text)).collect::<Vec<_>>(), now),
                    9 => { roster.reported(&marked(all[who], |mark| mark.slow = vec![at(B)]), now); }
                    10 => roster.set_standing([Standing::Starting, Standing::Serving, Standing::Leaving, Standing::Comparing][who], now),
                    _ => { roster.probe_due(now); }
                }
            }
            let view = rosters[0].view();
            proptest::prop_assert_eq!(&view, &rosters[1].view());
            proptest::prop_assert!(view.ring.is_sorted_by(|one, other| one < other));
            proptest::prop_assert!(view.ring.iter().all(|member| *member == view.own || view.peer(member).is_some_and(Peer::may_own)));
            proptest::prop_assert!(view.own_index.is_none() || view.standing == Standing::Serving);
        }
    }
}

#[test]
fn one_that_serves_alone_owns_nothing_and_its_word_says_nothing() {
    let mut roster = damped();
    roster.probed(&at(C), Probe::Refused, Millis(1_000));
    roster.probed(&at(B), Probe::Alone, Millis(2_000));
    assert_eq!((roster.standing(), state(&roster, B)), (Standing::Serving, "DOWN"));
    assert_eq!(ring(&roster), [OWN]);
    assert!(roster.members()[1].why.starts_with("it serves alone"));
    roster.probed(&at(B), nacre_answered(), Millis(4_000));
    assert_eq!(state(&roster, B), "UP");
}

#[test]
fn a_node_that_nobody_lists_is_none_until_somebody_does() {
    let unknown = || Probe::Answered { known: false, nacre: Some(1) };
    let mut roster = damped();
    roster.probed(&at(B), unknown(), Millis(2_000));
    assert_eq!(roster.standing(), Standing::Serving, "the other one still lists it");
    roster.probed(&at(C), Probe::Refused, Millis(2_000));
    roster.probed(&at(B), unknown(), Millis(4_000));
    assert_eq!((roster.standing(), roster.is_disowned()), (Standing::Removed, true));
    assert_eq!(roster.view().own_index, None);
    // Its own list may change: that says nothing of the others'.
    roster.relist(&[at(OWN), at(B), at(C)], Millis(5_000));
    assert_eq!(roster.standing(), Standing::Removed);
    assert_eq!(roster.listed(), [at(OWN), at(B), at(C)]);
    assert_eq!(roster.probe_due(Millis(60_000)), [at(B), at(C)], "it goes on asking");
    roster.probed(&at(B), unknown(), Millis(60_000));
    assert_eq!(roster.standing(), Standing::Removed);
    roster.probed(&at(C), nacre_answered(), Millis(60_001));
    assert_eq!((roster.standing(), roster.is_disowned()), (Standing::Starting, false));
    // Two may have heard the same of each other, by one that is gone.
    roster.set_standing(Standing::Serving, Millis(60_002));
    roster.probed(&at(B), unknown(), Millis(60_003));
    roster.probed(&at(C), unknown(), Millis(60_003));
    assert_eq!(roster.standing(), Standing::Removed);
    roster.probed(&at(B), Probe::Refused, Millis(60_004));
    assert_eq!(roster.standing(), Standing::Removed);
    roster.probed(&at(C), Probe::Refused, Millis(60_005));
    assert_eq!((roster.standing(), roster.is_disowned()), (Standing::Starting, false));
    // Out of its own list it is removed as ever, and asks nobody.
    roster.relist(&[at(B)], Millis(61_000));
    assert_eq!((roster.standing(), roster.is_disowned()), (Standing::Removed, false));
    assert!(roster.probe_due(Millis(99_000)).is_empty());
}

#[test]
fn a_single_member_that_never_knew_the_node_does_not_take_it_off() {
    let disowned_by = |strangers: &[&str], starting: bool| {
        let mut roster = Roster::new(at(OWN), settings());
        roster.relist(&[at(OWN), at(B), at(C)], Millis(0));
        roster.set_standing(Standing::Serving, Millis(1));
        roster.probed(&at(B), Probe::Refused, Millis(2));
        if starting {
            roster.probed(&at(B), Probe::NotReady { starting: true }, Millis(2));
        }
        strangers.iter().for_each(|stranger| roster.probed(&at(stranger), Probe::Stranger, Millis(3)));
        roster.is_disowned()
    };
    assert!(!disowned_by(&[C], false), "the other is down, and this one's list may be wrong");
    assert!(!disowned_by(&[C], true), "the other starts, and may list it");
    assert!(disowned_by(&[B, C], false), "they are the cluster");
    let mut roster = damped();
    roster.probed(&at(B), Probe::Refused, Millis(2_000));
    roster.probed(&at(B), Probe::NotReady { starting: true }, Millis(2_000));
    roster.probed(&at(C), Probe::Stranger, Millis(2_000));
    assert!(!roster.is_disowned(), "it is no longer on the one list, and may be on the other");
    roster.probed(&at(B), Probe::Refused, Millis(4_000));
    assert!(roster.is_disowned(), "it was taken off");
}

#[test]
fn what_members_said_of_a_node_that_was_none_does_not_count_once_it_is_one_again() {
    let mut roster = damped();
    roster.probed(&at(B), Probe::Answered { known: false, nacre: Some(1) }, Millis(2_000));
    roster.relist(&[at(B), at(C)], Millis(3_000));
    roster.relist(&[at(OWN), at(B), at(C)], Millis(4_000));
    // It loads from the one that didn't list it then, and its first report to the other is lost.
    roster.answered(&at(B), Millis(4_001));
    roster.set_standing(Standing::Serving, Millis(4_002));
    roster.probed(&at(C), Probe::Refused, Millis(4_003));
    assert_eq!(roster.standing(), Standing::Serving);
}

#[test]
fn one_member_that_does_not_list_the_node_has_no_say_before_the_others_were_asked() {
    let mut roster = Roster::new(at(OWN), settings());
    roster.relist(&[at(OWN), at(B), at(C)], Millis(0));
    roster.forbidden(&at(B));
    roster.answered(&at(C), Millis(1));
    roster.set_standing(Standing::Serving, Millis(2));
    assert_eq!(roster.probe_due(Millis(2)), [at(B), at(C)]);
    roster.probed(&at(B), Probe::Stranger, Millis(3));
    assert_eq!(roster.standing(), Standing::Serving, "the one that it has loaded from may list it");
    roster.probed(&at(C), nacre_answered(), Millis(4));
    assert_eq!(roster.standing(), Standing::Serving);
    roster.probed(&at(C), Probe::Stranger, Millis(5));
    assert_eq!((roster.standing(), roster.is_disowned()), (Standing::Removed, true));
}
