//! Where the list of members comes from.

pub mod list;
