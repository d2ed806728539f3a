//! Cases in code, where behaviour spans time, UDP, peers or load that no recording shows.

mod beat;
mod bench;
mod case;
mod distro;
mod http;
mod push;
mod ring;
mod ring_health;
mod single;

pub use bench::Bench;
pub use case::{Written, all};
