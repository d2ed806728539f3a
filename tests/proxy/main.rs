//! The reverse proxy from outside: clients, instances and what is between them.

#![allow(clippy::unwrap_used, reason = "a test")]

mod answers;
mod bounds;
mod broken;
mod framing;
mod hostile;
mod leaving;
mod protocols;
mod restart;
mod streams;
mod support;
mod tls;
mod wired;

#[path = "../support/mod.rs"]
mod server_support;
