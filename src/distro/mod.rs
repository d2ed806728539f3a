//! Ephemeral data as peers exchange it.
//!
//! A *datum* is the list of the ephemeral instances of one service under a key. Among 1.x members lists travel whole; Nacre
//! members tell each other more: stamps, tombstones, and only what is new. `key` spells keys, `bodies` writes data,
//! `batch` and `codec` read them, `whole_instance` is the instance that the catalog shows, too, `accept` puts what was
//! received into the registry. Source: Nacos 1.4.8 naming module, distro consistency; compat files `distro-*`.

pub mod accept;
pub mod batch;
pub mod bodies;
pub mod checksum;
pub mod codec;
pub mod core;
pub mod counts;
pub mod data;
pub mod documents;
pub mod exchange;
pub mod handle;
pub mod key;
pub mod legacy;
pub mod lists;
pub mod load;
pub mod mapper;
pub mod outbox;
pub mod runner;
pub mod silence;
pub mod takeover;
pub mod verify;
pub mod whole_instance;

pub use handle::{Claim, Distro};
