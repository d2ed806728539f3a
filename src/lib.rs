//! Nacre: a naming server that speaks the HTTP API of Nacos 1.x.
//!
//! The way of a request and the arrows between the modules are drawn in `src/README.md`.

// The v1 endpoints.
pub mod api;
// Builds the parts, wires them, stops them.
pub mod app;
// What knows nothing of Nacos.
pub mod base;
// Command line: words in, exit code out.
pub mod cli;
// Who is there: members, their states, who owns what.
pub mod cluster;
// Settings: typed values from file, environment and command line.
pub mod config;
// Persistent data: what must survive a restart, durable before it is answered.
pub mod cp;
// Ephemeral data as peers exchange it.
pub mod distro;
// What belongs to a legacy cluster behind this node.
pub mod gateway;
// The command that tells a running node to leave and stop.
pub mod drain;
// Who is alive.
pub mod health;
// Wires what a node with members has beside one that serves alone.
pub mod membership;
// The naming model.
pub mod model;
// What a person sees of the running server.
pub mod observe;
// The reverse proxy in front of registered instances.
pub mod proxy;
// Changed lists, by UDP to who subscribed.
pub mod push;
// Accepts connections and serves them.
pub mod server;
// The order of the layers.
pub mod stack;

#[cfg(test)]
mod arrows;
