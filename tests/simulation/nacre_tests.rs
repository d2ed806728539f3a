//! The promises of Nacre's nodes, seed by seed.

use super::{faults::Plan, nacre_node::NacreNode, runs, world::World};

/// Seeds of an ordinary run; continuous integration runs more.
const SEEDS: u64 = 200;

#[test]
fn promises_hold() {
    runs::hold::<NacreNode>(SEEDS, Plan::of_seed);
}

#[test]
fn a_run_of_real_nodes_repeats_itself() {
    let run = |seed| World::<NacreNode>::run(seed, Plan::of_seed(seed), true).history.digest();
    for seed in [3, 4, 12, 62] {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}
