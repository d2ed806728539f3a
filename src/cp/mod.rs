//! Persistent data (CP): what must survive a restart and is durable before it is answered.
//!
//! ```text
//! many tasks ─ submit(scope, decide) ─► queue ─► writer thread ─► store (one transaction, one fsync) ─► apply ─► answers
//! ```
//!
//! - `writer`: the handle and its bounded queue. `group`: the thread, many jobs to one fsync.
//! - `job`: what is submitted. `scope`: which jobs may share a transaction (pure). `status`: how it goes.
//! - `store`: one file, one durable transaction at a time; heals itself after a `fault`.
//!   `record`: what it keeps. `disk`: the file, its folder, the lock.
//!
//! None of these knows what the bytes mean. Above them:
//! - `handle`: the one door, for those who change persistent data. `change`: what a change is, and its bytes.

mod change;
mod disk;
mod fault;
mod group;
mod handle;
mod job;
mod record;
mod scope;
mod status;
mod store;
mod writer;

#[cfg(test)]
pub(crate) mod faulty;
#[cfg(test)]
mod handle_tests;
#[cfg(test)]
mod store_tests;
#[cfg(test)]
mod survives_kill_tests;
#[cfg(test)]
mod writer_tests;

pub use fault::StoreError;
pub use handle::{Applied, Handle, OpenError};
pub use record::Table;
pub use status::{StoreHealth, WriterStats};

pub(crate) use change::{Change, GoneInstance};
pub(crate) use job::WriteError;
pub(crate) use scope::Scope;

#[cfg(test)]
use self::{
    job::Decision,
    record::Record,
    store::Store,
    writer::{Writer, WriterHandle},
};
