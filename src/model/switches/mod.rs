//! The run-time switches: their values, how each is shown, read and set.
//!
//! `values` has the table, `entry` the rules by which an entry of it is set, `board` the switches of this node as
//! they stand now. Pure but for the board's cells.
//! Source: Nacos 1.4.8 naming module, switch domain; compat files `operator-switches`, `operator-switch-effects`.

mod board;
mod entry;
mod values;

pub use board::Switchboard;
pub use entry::SwitchError;
pub use values::{HealthParams, Switches};
