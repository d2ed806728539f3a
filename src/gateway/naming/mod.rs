//! Naming that a legacy cluster answers, and that outlives it: the mode `nacre.legacy.naming=legacy`.
//!
//! ```text
//! api::legacy_naming ─► handle (a question) ─► asking ─► servers ─► the owner of the service, or another server
//!                         │  ▲                   └─ ring: who owns it; verdict: is that an answer?
//!        it has answered: │  │ nobody has: the last list, a known instance, a kept write
//!                         ▼  │
//!                        memory: stale, beaten, callers, outage, kept ─► replay (at the usual pace) ─► asking
//! ```
//!
//! All but [`handle`], `asking`, `replay` and `servers` is pure. What is kept is bounded, and gone with the process.

pub mod asking;
pub mod beaten;
pub mod callers;
pub mod counts;
pub mod handle;
pub mod kept;
mod memory;
pub mod outage;
pub mod pace;
pub mod question;
mod replay;
pub mod ring;
mod room;
mod servers;
pub mod stale;
mod standing;
pub mod verdict;

pub use self::{
    handle::{Bounds, Naming},
    room::Held,
    servers::LegacyServers,
    standing::Standing,
};
