//! Where the list of members comes from: a file, a web server, a name.
//!
//! [`find`] reads it for the first time, and refuses to go on without the node itself in it; [`Watch`] reads it again and
//! again and tells the [`Cluster`](super::Cluster) when it has changed. Source: Nacos 1.4.8 core module, member lookups.

pub mod address_server;
pub mod dns;
pub mod file;
pub mod judge;
pub mod list;
mod source;
mod start;
mod watch;

pub use address_server::AddressServerShown;
pub use list::RaftPorts;
pub use start::{Found, LookupError, find};
pub(super) use watch::Switcher;
pub use watch::{LookupShown, SwitchError, Watch};
