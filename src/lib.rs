//! Nacre: a naming server that speaks the HTTP API of Nacos 1.x.

/// Persistent data: what must survive a restart, durable before it is answered.
pub mod cp;
