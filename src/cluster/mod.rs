//! Who is there: the listed members, what is known of each, and who of them owns services.
//!
//! Source: Nacos 1.4.8 core module, member manager and lookups; naming module, distro mapper.

pub mod document;
pub mod doorkeeper;
pub mod handle;
pub mod lookup;
pub mod member;
pub mod peer;
pub mod proof;
pub mod roster;
pub mod view;

pub use doorkeeper::Doorkeeper;
pub use handle::Cluster;
pub use member::{Address, MemberReport, MemberState, NacreMark};
pub use peer::{Evidence, PeerError, Peers};
pub use roster::{Probe, Roster, RosterSettings, ShownMember};
pub use view::{Peer, Standing, View};

pub use crate::config::Mapping;
