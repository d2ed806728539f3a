//! Pushes: a changed list goes by UDP to the clients that asked for it with a `udpPort`.
//!
//! A hint only; clients ask again on their own, and a packet that is lost costs some seconds. `api` subscribes
//! clients through [`Push`]; the registry reports changed services; one task, [`Sender`], waits until a service is
//! due, reads its newest state and sends it. What is decided is decided in pure parts: who listens
//! ([`subscriber`], [`subscribers`]), when a service is due ([`schedule`]), what a packet holds ([`payload`]), where it may go
//! ([`targets`]), which packets wait for an acknowledgement ([`unacked`]).
//!
//! Reads: the registry, the switches. Writes: UDP. Source: Nacos 1.4.8 naming module, push service; compat files
//! `push`, `service-subscribers`.

mod handle;
pub mod payload;
mod resolver;
pub mod schedule;
mod sender;
mod socket;
mod stats;
pub mod subscriber;
pub mod subscribers;
pub mod targets;
pub mod unacked;

#[cfg(test)]
mod sender_tests;

pub use handle::{Push, Question, State};
pub use sender::Sender;
pub use socket::{PushSocket, open};
pub use stats::{Stats, Tally};
