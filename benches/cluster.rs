//! What a cluster of three costs and how fast it is: whole servers over real HTTP at 127.0.60.x.
//!
//! - `cargo bench --bench cluster -- latency`: from a registration on one node to its being listed by the others.
//! - `cargo bench --bench cluster -- hung`: a member that owns a third accepts and never answers.
//! - `cargo bench --bench cluster -- steady`: 10,000 services of 10 instances at rest.
//!
//! `SECONDS` and `PAIRS` make runs shorter or longer.

#![allow(clippy::unwrap_used, reason = "a measurement")]
#![allow(missing_docs, reason = "a program")]

#[path = "../tests/cluster/support/mod.rs"]
mod support;

#[path = "cluster/hung.rs"]
mod hung;
#[path = "cluster/latency.rs"]
mod latency;
#[path = "cluster/steady.rs"]
mod steady;

use std::{env, time::Duration};

use nacre::{
    cluster::{Address, Mapping, MemberState, Peer, Standing, View},
    distro::mapper::{Owner, owner},
};
use support::cluster::{Cluster, Place};

const THREE: [Place; 3] = [0, 1, 2];

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let named = |name: &str| env::args().any(|word| word == name);
    if named("latency") {
        runtime.block_on(latency::run());
    }
    if named("hung") {
        runtime.block_on(hung::run());
    }
    if named("steady") {
        runtime.block_on(steady::run());
    }
}

/// A number from the environment.
fn number(name: &str, default: u32) -> u32 {
    env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// The owner of a service in a ring of all three.
fn owner_of(cluster: &Cluster, service: &str) -> Place {
    let address = |place: Place| Address::new(&cluster.at(place).to_string());
    let peer = |place: Place| Peer { nacre: Some(1), ..Peer::new(address(place), MemberState::Up) };
    let view = View::new(address(0), Standing::Serving, vec![peer(1), peer(2)], Mapping::Modulo);
    match owner(&view, &format!("DEFAULT_GROUP@@{service}")) {
        Owner::Here => 0,
        Owner::Peer(found) => THREE.into_iter().find(|place| address(*place) == *found).unwrap(),
        Owner::Nobody => unreachable!("all three are up"),
    }
}

/// `part` (of 1) of the values are at most this.
fn quantile(values: &mut [Duration], part: f64) -> Duration {
    if values.is_empty() {
        return Duration::ZERO;
    }
    values.sort_unstable();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    let index = ((values.len() as f64 * part) as usize).min(values.len() - 1);
    values[index]
}

fn ms(duration: Duration) -> String {
    format!("{:.1}", duration.as_secs_f64() * 1000.0)
}
