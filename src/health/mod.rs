//! Who is alive: beats, and what happens when they stay out.

pub mod beat;
