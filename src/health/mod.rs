//! Who is alive: beats, and what happens when they stay out.
//!
//! `api` reads beats through [`beat`] and notes them in the registry; two tasks of the node look at it from time to
//! time: [`sweep`] expires silent instances by the rules of [`expiry`], [`empty`] removes services without any.
//! Source: Nacos 1.4.8 naming module, health check and empty service cleaner; compat files `beat`, `beat-timing`.

pub mod beat;
pub mod empty;
pub mod expiry;
pub mod sweep;

#[cfg(test)]
mod race_tests;
