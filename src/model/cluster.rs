//! A cluster of a service: how its persistent instances are checked, and its metadata.
//!
//! Pure. Source: Nacos 1.4.8 naming module, clusters; compat file `cluster-update`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Metadata;

/// Port that a cluster's checks use until another is set.
const DEFAULT_CHECK_PORT: i32 = 80;

/// How the persistent instances of a cluster are checked; fields stand in wire order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "UPPERCASE")]
pub enum HealthChecker {
    /// By connecting.
    #[default]
    Tcp,
    /// By a GET request.
    Http {
        /// Path of the request.
        path: String,
        /// Headers as `a:b|c:d`.
        headers: String,
        /// Kept and shown; the reference doesn't heed it.
        #[serde(rename = "expectedResponseCode")]
        expected_response_code: i32,
    },
    /// By a statement in a MySQL server.
    Mysql {
        /// User name.
        user: Option<String>,
        /// Password, shown to whoever asks.
        pwd: Option<String>,
        /// Statement.
        cmd: Option<String>,
    },
    /// Not at all: health is what `PUT /health/instance` says.
    None,
}

/// One cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// Letters, digits and `-`.
    pub name: Arc<str>,
    /// Absent where the definition said `null`.
    pub health_checker: Option<HealthChecker>,
    /// Port of the checks where they don't go to the instance's own (`defCkport`).
    pub check_port: i32,
    /// `defIPPort`: follows the check port until the definition is stored for the first time, then stays.
    pub default_port: i32,
    /// Checks go to the instance's own port (`useIPPort4Check`).
    pub use_instance_port: bool,
    /// As given.
    pub metadata: Metadata,
    /// Whether `default_port` has been settled.
    pub settled: bool,
}

impl Cluster {
    /// A cluster as a registration makes it.
    #[must_use]
    pub fn plain(name: &str) -> Self {
        Self {
            name: name.into(),
            health_checker: Some(HealthChecker::Tcp),
            check_port: DEFAULT_CHECK_PORT,
            default_port: DEFAULT_CHECK_PORT,
            use_instance_port: true,
            metadata: Metadata::default(),
            settled: false,
        }
    }
}
