//! Requests are passed on byte by byte as they should: a raw client, the core behind hyper, a raw server.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod ambiguous;
mod front;
mod kept;
mod multiplexed;
mod streams;
