//! What knows nothing of Nacos: numbers and hashes as Java spells them, JSON as Jackson writes it, time, the machine.

pub mod burst;
pub mod client;
pub mod clock;
pub mod connector;
pub mod dial;
pub mod hash;
pub mod jackson;
pub mod java;
pub mod json;
pub mod long_target;
pub mod machine;
pub mod mutant;
pub mod net;
pub mod numbers;
pub mod process;
pub mod signals;
pub mod tasks;
pub mod watched;
pub mod watched_file;
