//! Who is alive: beats, and what happens when they stay out.

pub mod beat;

pub mod empty;
pub mod expiry;
pub mod sweep;
