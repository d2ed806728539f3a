//! What tests of the whole program share: starting servers, replaying scenarios against them.

#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test")]

pub mod http;
pub mod replaying;
pub mod server;
