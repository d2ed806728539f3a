//! Whole servers over real HTTP, each at an address of its own: 127.0.60.x, so Linux alone.

#![allow(clippy::unwrap_used, reason = "a test")]

mod beside_legacy;
mod mixed;
mod poller_tests;
mod quick;
mod relay_tests;
mod scripted;
mod sight;
mod standalone;
mod support;
mod truth_tests;
