//! The cluster under simulation: the decisions of real nodes, driven by a seeded world of virtual time in which clients
//! come and go and everything breaks. A seed that breaks a promise prints its history, and can be run alone.
//!
//! `SEEDS` is how many are run, `FIRST` the first of them, `SEED` one alone with its history. `PROGRESS` names a file
//! that says how far a long run has come, and where it goes on.

#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::needless_pass_by_value, reason = "messages are handed over")]

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod clients;
mod coverage;
mod faults;
mod forwarding;
mod history;
mod host;
mod invariants;
mod keeper;
mod messages;
#[cfg(feature = "mutants")]
mod mutants;
mod nacre_node;
mod nacre_tests;
mod network;
mod random;
mod reach;
mod runs;
mod seam;
mod toy;
mod toy_tests;
mod truth;
mod world;
