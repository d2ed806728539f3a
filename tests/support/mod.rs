//! What tests of the whole program share: starting servers, replaying scenarios against them.

#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::disallowed_methods, reason = "the standard library can't wait for a process with a limit")]

pub mod http;
pub mod legacy;
pub mod replaying;
pub mod server;
