//! Nacre: a naming server that speaks the HTTP API of Nacos 1.x.

/// Command line: words in, exit code out.
pub mod cli;
/// Settings: typed values from file, environment and command line.
pub mod config;
