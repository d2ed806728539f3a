//! Is the server at this URL a Nacos 1.x naming server? Replays recorded scenarios and compares the answers.
//!
//! `golden` loads scenarios, `order` says which of them share a server, `replay` runs them side by side,
//! `run` plays one against a `target` (HTTP, raw bytes, UDP), `compare` finds what differs, `report` says it.
//! Everything goes through the doors that a client uses: HTTP and UDP. README.md describes the format.

#![allow(
    clippy::disallowed_types,
    reason = "one process of threads without a runtime: std's own locks will do"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "scenarios say how long to wait, and what a server does can only be polled"
)]

pub mod compare;
pub mod golden;
pub mod json;
pub mod mask;
pub mod order;
pub mod replay;
pub mod report;
pub mod restore;
pub mod run;
pub mod shuffle;
pub mod target;
pub mod vars;
