//! Who is there: the listed members, what is known of each, and who of them owns services.
//!
//! Source: Nacos 1.4.8 core module, member manager and lookups; naming module, distro mapper.

pub mod member;
pub mod view;

pub use member::{Address, MemberReport, MemberState, NacreMark};
pub use view::{Peer, Standing, View};

pub use crate::config::Mapping;
