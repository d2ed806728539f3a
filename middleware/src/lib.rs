//! The tower layers of Nacre: what a v1 request passes before its endpoint.
//!
//! They know the envelope of the protocol (heads, parameters' carriers, agents, statuses), not its data: what a layer
//! must know of the rest it asks a trait for. After [`collect`] a request is a [`Call`]: its head, its whole body and
//! the facts of its route. Own layers never fail, they answer.

pub mod access_log;
mod body;
pub mod breaker;
mod call;
pub mod collect;
pub mod distro_filter;
pub mod envelope;
pub mod forward;
pub mod forwarder;
pub mod framing;
pub mod hygiene;
pub mod lateness;
pub mod legacy_forward;
pub mod legacy_naming;
pub mod limits;
pub mod loop_guard;
pub mod outgoing;
pub mod pass;
mod peers;
pub mod pool;
pub mod rate_limit;
pub mod record;
pub mod refusal;
pub mod resend;
mod stack;
pub mod tapped;
pub mod traffic_revise;

pub use body::V1Body;
pub use call::{Call, Facts, V1Response, carries_form};
pub use stack::stack;
