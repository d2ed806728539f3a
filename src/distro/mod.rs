//! Ephemeral data as peers exchange it.
//!
//! A *datum* is the list of the ephemeral instances of one service under a key; lists always travel whole. `key` spells
//! keys, `codec` the documents of the v1 wire, `whole_instance` the one that the catalog shows, too, `accept` puts what was received into the registry. Source: Nacos 1.4.8
//! naming module, distro consistency; compat files `distro-*`.

pub mod accept;
pub mod codec;
pub mod core;
pub mod data;
pub mod key;
pub mod load;
pub mod mapper;
pub mod outbox;
pub mod verify;
pub mod whole_instance;
