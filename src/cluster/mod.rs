//! Who is there: the listed members, what is known of each, and who of them owns services.
//!
//! Source: Nacos 1.4.8 core module, member manager and lookups; naming module, distro mapper.

pub mod condition;
pub mod document;
pub mod doorkeeper;
mod handle;
mod log;
pub mod lookup;
pub mod member;
pub mod own_address;
pub mod peer;
pub mod peer_error;
pub mod proof;
pub mod report;
pub mod roster;
mod seen;
pub mod view;

pub use condition::{Condition, MemberCounts, behind_text};
pub use doorkeeper::Doorkeeper;
pub use handle::Cluster;
pub use lookup::{AddressServerShown, LookupError, LookupShown, LookupSwitchError};
pub use member::{Address, MemberReport, MemberState, NacreMark};
pub use peer::Peers;
pub use peer_error::{Evidence, PeerError};
pub use roster::{Roster, RosterSettings, ShownMember};
pub use seen::Probe;
pub use view::{Peer, Standing, View};

pub use crate::config::Mapping;
