//! What belongs to a legacy cluster behind this node: passed on to one of its servers.
//!
//! ```text
//! stack: legacy_forward ─► handle: may it go on? (framing, hops) ─► order: which servers, in turn ─► middleware pass ─► server
//!                             ▲                                        ▲
//!   times, upload: how long ──┘          probe, ends of requests ─► health, sessions
//! sight: what was counted ─► api::observe
//! ```
//!
//! A client's requests go to one and the same server while that is well, so that it reads what it wrote; a session to the
//! server that began it. Another one is tried while nothing of an answer has come, as [`nacre_middleware::resend`] says.
//! Source: ours; what is owned here and what isn't says the route table.

mod answer;
mod circle;
mod handle;
mod health;
pub mod naming;
mod order;
mod probe;
mod sessions;
mod sight;
mod times;
mod upload;

pub use answer::circle;
pub use circle::{NamesItself, check as check_servers};
pub use handle::{Gateway, MOST_HOPS};
pub use naming::Naming;
pub use sight::{ServerReadings, Sight};
