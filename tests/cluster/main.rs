//! Whole servers over real HTTP, each at an address of its own: 127.0.60.x, so Linux alone.

#![allow(clippy::unwrap_used, reason = "a test")]

mod poller_tests;
mod relay_tests;
mod standalone;
mod support;
mod truth_tests;
