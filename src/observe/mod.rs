//! What a person sees of the running server: log lines, metrics, readiness.
//!
//! ```text
//! every request ─► stack: record layer ─► requests ─┐
//!             └─► stack: access log ─► logs         ├─► metrics (text for Prometheus)
//! api::observe gathers the readings of all parts ───┴─► ready (text for probes)
//! tracing events of all modules ─► logs ─► lines ─► stderr
//! ```
//!
//! Knows nothing of the other modules: they count for themselves, and `api::observe` asks them when somebody looks.

pub mod beats;
pub mod connections;
pub mod forwards;
pub mod limited;
mod lines;
pub mod logs;
mod meters;
pub mod metrics;
pub mod nacos_monitor;
pub mod readings;
pub mod ready;
pub mod requests;
mod sharded;

pub use meters::Meters;
