//! Ephemeral data as members exchange it.
//!
//! A *datum* is the list of the ephemeral instances of one service under a key. Each has an owner among the members, to
//! whom clients' writes are passed on; what a member writes, as the owner or in its place, it brings to all others. Among
//! members of Nacos 1.x lists travel whole; Nacre members tell each other of single instances, with stamps and
//! tombstones, and only what is new.
//!
//! ```text
//!  written here ──► model::change ─┐                        ┌──► exchange ──► cluster::peer ──► members
//!  cluster: another view ──────────┼──► runner ──► core ────┘       │
//!  time, answers of calls ─────────┘       │         │              └─ what they answer ──► accept
//!                                          │         │
//!                      services whose owner changed  ├─ load      what others have: at the start, after standing still
//!                                          ▼         ├─ outbox    what each member lacks, and when it is sent
//!                                      takeover      ├─ verify    what the node owns, compared: digest, buckets, keys
//!                                      (grace)       └─ asks      who knows younger beats of silent instances
//!                                                                    │
//!  health::sweep ── finds silence ──► handle ── asks all members ────┘── all have answered ──► health::sweep judges
//!
//!  members ──► api::distro, api::nacre ──► receive ─► batch (read) ──► accept ──► model::registry: merged,
//!                                                                                 lists of 1.x replaced
//! ```
//!
//! Three layers. The *protocol* decides and is pure: [`core`] with [`load`], [`outbox`], [`comparison`], [`verify`],
//! [`mapper`], [`claim`], [`trust`], and [`silence`] and [`takeover`], which touch nothing but cells of instances. The *transport*
//! makes its calls: [`runner`] drives it, [`exchange`] calls members, [`pieces`] cuts long answers, [`receive`] takes what they send and answer,
//! [`legacy`] says what only those of 1.x want to hear, [`handle`] is what the rest of the server holds, [`counts`] are for
//! metrics. The *data* are what [`data`] asks for: [`lists`] are those that ship, [`key`], [`batch`], [`codec`],
//! [`whole_instance`], [`documents`] and [`bodies`] their documents, [`checksum`] is that of 1.x, [`accept`] puts what was
//! received into the registry.
//!
//! Source: Nacos 1.4.8 naming module, distro consistency; compat files `distro-*`. What Nacre members say beside is ours.

pub mod accept;
pub mod batch;
pub mod bodies;
pub mod calls;
pub mod checksum;
pub mod claim;
pub mod codec;
pub mod comparison;
pub mod core;
pub mod counts;
pub mod data;
pub mod documents;
pub mod exchange;
pub mod handle;
pub mod key;
pub mod legacy;
pub mod line;
pub mod lists;
pub mod load;
pub mod mapper;
pub mod outbox;
pub mod pieces;
mod questions;
pub mod receive;
pub mod runner;
pub mod silence;
pub mod takeover;
pub mod trust;
pub mod verify;
pub mod whole_instance;

pub use claim::{Claim, Claims};
pub use handle::{Distro, Settled};
