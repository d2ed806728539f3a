//! Scenarios as data: what a file says (`text`), turned into checked steps (`scenario`, `action`, `expected`).
//!
//! Reads: JSON files. README.md of this crate describes the format; an unknown key in a file is an error, so that
//! a misspelt one can't silently check nothing.

mod action;
mod expected;
mod scenario;
mod text;

pub use action::{Ack, Action, HttpRequest, RawExchange};
pub use expected::{Expected, ExpectedRaw, ExpectedResponse, Status};
pub use scenario::{Rules, Scenario, Step, Suite, load, load_folder};
