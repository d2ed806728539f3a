//! Every recording of a real server, replayed against this one.

mod support;

use support::replaying::{replay_all, suites};

#[test]
fn the_server_answers_as_was_recorded() {
    let suites = suites("golden");
    let all: usize = suites.iter().map(|suite| suite.scenarios.len()).sum();
    let report = replay_all(&suites);
    let left_out: usize = report.left_out.iter().map(|suite| suite.scenarios).sum();
    assert_eq!(report.outcomes.len() + left_out, all, "every scenario is played or named as left out");
}
