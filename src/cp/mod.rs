//! Persistent data (CP): what must survive a restart and is durable before it is answered.
//!
//! ```text
//! many tasks ─ submit(scope, decide) ─► queue ─► writer thread ─► store (one transaction, one fsync) ─► apply ─► answers
//! ```
//!
//! - [`store`]: bytes by (table, key) in one file; one durable transaction; heals itself after a fault.
//! - [`disk`]: that file in its folder, the folder's lock, and the pass that makes disk and page cache agree.
//! - [`writer`]: the one thread that decides, writes, applies and answers, many jobs to one fsync.
//! - [`job`]: what is submitted. [`scope`]: which jobs may share a transaction (pure).
//!
//! Nothing here knows what the bytes mean; the handle above it does.

mod disk;
mod job;
mod scope;
mod store;
mod writer;

#[cfg(test)]
mod faulty;
#[cfg(test)]
mod store_tests;
#[cfg(test)]
mod writer_tests;

pub use job::{Decision, WriteError};
pub use scope::Scope;
pub use store::{Record, Store, StoreError, Table};
pub use writer::{StoreHealth, Writer, WriterHandle, WriterStats};
