//! Cases in code, where behaviour spans time, UDP, peers or load that no recording shows.

mod bench;
mod case;

pub use bench::Bench;
pub use case::{Written, all};
