//! The naming model: what is registered, where, and what a query sees of it.
//!
//! A *namespace* holds *services*, named `group@@service`. A service holds *instances*: an address (ip and port)
//! in a *cluster*, of one of two kinds. *Ephemeral* ones live by their beats; *persistent* ones stay until they are
//! removed. What is known of a service besides its instances is its *definition*: protection threshold, metadata,
//! selector, clusters.
//!
//! Writers go through [`registry::Registry`]; each write publishes a new [`service::State`] and reports a change.
//! Readers take the state of a service without a lock and see one revision. Nothing here does I/O or asks the time.

mod aging;
pub mod change;
pub mod checksum;
pub mod cluster;
mod counted_ids;
mod draft;
pub mod entry;
pub mod extent;
pub mod gone;
pub mod health_checker;
pub mod instance;
mod instances;
pub mod key;
pub mod limits;
pub mod list;
pub mod merge;
#[cfg(test)]
mod merge_tests;
pub mod metadata;
pub mod name;
pub mod namespaces;
pub mod pattern;
mod place;
pub mod registry;
#[cfg(test)]
mod registry_tests;
pub mod selector;
pub mod service;
mod stamp_clock;
pub mod status;
pub mod switches;

pub use entry::{Entry, Shown};
pub use extent::Extent;
pub use gone::{Cause, Gone};
pub use instance::Instance;
pub use instances::Instances;
pub use key::InstanceKey;
pub use limits::Limits;
pub use metadata::Metadata;
pub use name::ServiceKey;
pub use place::Place;
pub use registry::Registry;
pub use service::{Definition, Service, State};
