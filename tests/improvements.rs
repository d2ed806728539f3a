//! Where a recording of the real server has a fault, this one does what is right: compat-tests/improved says what
//! that is, as scenarios; they are replayed here.

mod support;

use std::collections::BTreeMap;

use compat_tests::{golden::Scenario, order::plan};
use support::replaying::{name, replay_all, suites};

#[test]
fn the_server_is_right_where_a_recording_has_a_fault() {
    let report = replay_all(&suites("improved"));
    assert!(report.left_out.is_empty());
}

#[test]
fn every_recorded_fault_has_a_statement_of_what_is_right() {
    let (recorded, improved) = (suites("golden"), suites("improved"));
    let improved: BTreeMap<String, &Scenario> = plan(&improved, None, true)
        .shared
        .iter()
        .chain(plan(&improved, None, true).alone.iter().flatten())
        .map(|case| (name(case), case.scenario))
        .collect();
    let plan = plan(&recorded, None, true);
    for case in plan.shared.iter().chain(plan.alone.iter().flatten()) {
        let name = name(case);
        let Some(fault) = &case.scenario.fault else {
            assert!(!improved.contains_key(&name), "{name} is right as recorded");
            continue;
        };
        let stated = improved
            .get(&name)
            .unwrap_or_else(|| panic!("{name} has a fault, and nothing says what is right"));
        let id = stated.improves.as_ref().unwrap();
        assert!(fault.starts_with(&format!("{id}:")), "{name} states {id} but the recording says {fault}");
        assert!(stated.fault.is_none(), "{name} is a statement, its differences count");
    }
}
