//! Every recording of a real server, replayed through a gateway: what passes it must look as if it weren't there.
//!
//! A second Nacre stands in for the legacy server.

mod support;

use support::{
    replaying::{Serves, replay_all_against, suites},
    server::{Home, Server},
};

/// A gateway and the server behind it.
struct Pair {
    gateway: Server,
    _legacy: Server,
}

impl Pair {
    fn start(naming: &str) -> Self {
        let legacy = Server::start();
        let authority = support::http::authority(legacy.url());
        let (servers, naming) =
            (format!("nacre.legacy.servers={authority}"), format!("nacre.legacy.naming={naming}"));
        let gateway = Server::start_in(Home::new(), &[&servers, &naming]);
        Self { gateway, _legacy: legacy }
    }
}

impl Serves for Pair {
    fn url(&self) -> &str {
        self.gateway.url()
    }
}

/// What differs where the legacy server answers naming: it tells its own address, where the recordings have that of the
/// server that was asked; and while it is `DOWN` registrations are kept.
const OF_THE_LEGACY_SERVER: [&str; 7] = [
    "operator-state/cluster-state",
    "operator-state/distro-server",
    "operator-state/distro-status",
    "operator-state/servers",
    "operator-switch-effects/overriddenServerStatus-down",
    "service-status/status-report",
    "service-status/status-unknown-member",
];

fn all_pass_but(naming: &str, differing: &[&str]) {
    let suites = suites("golden");
    let all: usize = suites.iter().map(|suite| suite.scenarios.len()).sum();
    let report = replay_all_against(&suites, || Pair::start(naming), differing);
    let left_out: usize = report.left_out.iter().map(|suite| suite.scenarios).sum();
    assert_eq!(report.outcomes.len() + left_out, all, "every scenario is played or named as left out");
}

#[test]
fn recordings_pass_a_gateway_that_answers_naming_itself() {
    all_pass_but("native", &[]);
}

#[test]
fn recordings_pass_a_gateway_whose_naming_the_legacy_server_answers() {
    all_pass_but("legacy", &OF_THE_LEGACY_SERVER);
}
