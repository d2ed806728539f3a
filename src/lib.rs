//! Nacre: a naming server that speaks the HTTP API of Nacos 1.x.
//!
//! The way of a request and the arrows between the modules are drawn in `src/README.md`.

pub mod api;
pub mod app;
pub mod base;
pub mod health;
pub mod model;
pub mod stack;
