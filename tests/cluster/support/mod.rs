//! What tests and measurements of whole clusters share.

#![allow(dead_code, reason = "each user needs a part of it")]
#![allow(clippy::unwrap_used, reason = "a test")]

pub mod cluster;
pub mod fleet;
pub mod http;
pub mod lists;
pub mod node;
pub mod poller;
pub mod relay;
pub mod table;
pub mod truth;
