//! What lists must hold.

use std::time::{Duration, Instant};

use crate::support::{
    cluster::Place,
    truth::{FAULTY, Findings, Id, Poll, Truth},
};

/// One service, two nodes, a client that was acknowledged at `start`.
fn one() -> (Truth, Id, Instant) {
    let (mut truth, start) = (Truth::new(1, 2), Instant::now());
    let id = truth.new_instance(0);
    truth.acknowledged(id, start);
    (truth, id, start)
}

fn poll(truth: &mut Truth, node: Place, at: Instant, hosts: &[Id]) -> Findings {
    let hosts: Vec<_> = hosts.iter().map(|id| (Some(*id), true)).collect();
    truth.judge(Poll { node, service: 0, sent: at, got: at, hosts: &hosts })
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_new_instance_has_its_time_to_come() {
    let (mut truth, id, start) = one();
    assert_eq!(poll(&mut truth, 0, start + SECOND, &[]), Findings::default());
    let late = poll(&mut truth, 0, start + 3 * SECOND, &[]);
    assert_eq!((late.empty, late.late), (true, vec![id]));
    truth.set_grace(FAULTY);
    assert_eq!(poll(&mut truth, 0, start + 3 * SECOND, &[]), Findings::default());
}

#[test]
fn what_was_listed_must_never_be_missing() {
    let (mut truth, id, start) = one();
    let other = truth.new_instance(0);
    truth.acknowledged(other, start);
    assert_eq!(poll(&mut truth, 0, start + SECOND, &[id, other]), Findings::default());
    let shrunken = poll(&mut truth, 0, start + SECOND, &[other]);
    assert_eq!((shrunken.empty, shrunken.missing), (false, vec![id]));
    let empty = poll(&mut truth, 0, start + SECOND, &[]);
    assert_eq!((empty.empty, empty.missing), (true, vec![id, other]));
    // The other node has never listed them.
    assert_eq!(poll(&mut truth, 1, start + SECOND, &[]), Findings::default());
}

#[test]
fn what_left_must_not_rise_nor_stay() {
    let (mut truth, id, start) = one();
    poll(&mut truth, 0, start, &[id]);
    truth.leaves(id, start + SECOND);
    assert_eq!(poll(&mut truth, 0, start + SECOND, &[]), Findings::default());
    // Not acknowledged yet: may be seen again, by whatever way it goes.
    assert_eq!(poll(&mut truth, 0, start + 2 * SECOND, &[id]), Findings::default());
    truth.left(id, start + 3 * SECOND);
    assert_eq!(poll(&mut truth, 0, start + 4 * SECOND, &[id]).risen, vec![id]);
    assert_eq!(poll(&mut truth, 1, start + 4 * SECOND, &[id]), Findings::default());
    assert_eq!(poll(&mut truth, 1, start + 6 * SECOND, &[id]).overdue, vec![id]);
}

#[test]
fn a_dead_clients_instance_may_stay_for_a_while() {
    let (mut truth, id, start) = one();
    poll(&mut truth, 0, start, &[id]);
    truth.died(id, start);
    assert_eq!(poll(&mut truth, 0, start + 40 * SECOND, &[id]), Findings::default());
    assert_eq!(poll(&mut truth, 0, start + 41 * SECOND, &[id]).overdue, vec![id]);
    truth.moved(start + 20 * SECOND);
    assert_eq!(poll(&mut truth, 0, start + 45 * SECOND, &[id]), Findings::default());
    assert_eq!(poll(&mut truth, 0, start + 46 * SECOND, &[]), Findings::default());
    assert_eq!(poll(&mut truth, 0, start + 47 * SECOND, &[id]).risen, vec![id]);
}

#[test]
fn a_dead_clients_instance_may_come_to_a_node_that_could_not_know_it() {
    for (node, at, is_risen) in [(1, 11, false), (0, 11, true), (1, 13, true)] {
        let (mut truth, id, start) = one();
        truth.died(id, start + SECOND);
        truth.reachable(1, start + 10 * SECOND);
        assert_eq!(poll(&mut truth, node, start + at * SECOND, &[]), Findings::default());
        let findings = poll(&mut truth, node, start + at * SECOND, &[id]);
        assert_eq!(findings.risen == [id], is_risen, "{node} {at}");
    }
}

#[test]
fn what_was_acknowledged_just_before_a_kill_may_be_missing_until_the_next_beat() {
    let (mut truth, id, start) = one();
    poll(&mut truth, 0, start, &[id]);
    truth.kill(start + Duration::from_millis(100));
    assert_eq!(poll(&mut truth, 0, start + 4 * SECOND, &[]), Findings::default());
    truth.acknowledged(id, start + 5 * SECOND);
    assert_eq!(poll(&mut truth, 0, start + 8 * SECOND, &[]).missing, vec![id]);
}

#[test]
fn a_new_process_must_not_know_what_has_left() {
    let (mut truth, id, start) = one();
    poll(&mut truth, 0, start, &[id]);
    truth.leaves(id, start);
    truth.left(id, start);
    truth.restarted(0, start + 5 * SECOND);
    assert_eq!(poll(&mut truth, 0, start + 6 * SECOND, &[id]).risen, vec![id]);
}

#[test]
fn after_all_nodes_stopped_only_new_acknowledgements_count() {
    let (mut truth, id, start) = one();
    poll(&mut truth, 0, start, &[id]);
    truth.all_stopped();
    assert_eq!(poll(&mut truth, 0, start + 9 * SECOND, &[]), Findings::default());
    truth.acknowledged(id, start + 10 * SECOND);
    assert_eq!(poll(&mut truth, 0, start + 13 * SECOND, &[]).late, vec![id]);
}

#[test]
fn hosts_of_nobody_are_told() {
    let (mut truth, _, start) = one();
    let hosts = [(None, true), (Some(7), true)];
    let findings = truth.judge(Poll { node: 0, service: 0, sent: start, got: start, hosts: &hosts });
    assert_eq!(findings.foreign, 2);
}
