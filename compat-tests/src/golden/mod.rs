//! Scenarios as data: what a file says ([`text`]), turned into checked steps ([`scenario`]).
//!
//! Reads: JSON files. README.md of this crate describes the format; an unknown key in a file is an error, so that
//! a misspelt one can't silently check nothing.

mod scenario;
mod text;

pub use scenario::{
    Ack, Action, Expected, ExpectedRaw, ExpectedResponse, HttpRequest, RawExchange, Rules, Scenario, Status,
    Step, Suite, load, load_folder,
};
