//! A cluster of a service: how its persistent instances are checked, and its metadata.
//!
//! Pure. Source: Nacos 1.4.8 naming module, clusters; compat file `cluster-update`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use super::health_checker::HealthChecker;
use super::{Definition, Limits, Metadata, name::NameError};

/// Port that a cluster's checks use until another is set.
const DEFAULT_CHECK_PORT: i32 = 80;
/// A default port that follows the check port.
const FOLLOWS: i32 = -1;

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

/// What a request says of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// Port of the checks; any number.
    pub check_port: i32,
    /// Checks go to the instance's own port.
    pub use_instance_port: bool,
    /// Absent where the request said `null`.
    pub health_checker: Option<HealthChecker>,
    /// As given.
    pub metadata: Metadata,
}

/// A cluster can't be made or changed as a request says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// Its name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The port for checks would become the default port, and that can't be zero.
    #[error("the check port of cluster {0} must be a number other than 0")]
    ZeroPort(String),
}

impl Definition {
    /// Gives the cluster of this name what `update` says, making it where there is none; nothing of a cluster is kept
    /// but its default port.
    ///
    /// # Errors
    /// [`ClusterError`]; the definition is as it was then.
    pub fn update_cluster(
        &mut self,
        name: &str,
        update: Update,
        limits: &Limits,
    ) -> Result<(), ClusterError> {
        limits.check_metadata(&update.metadata).map_err(NameError::from)?;
        let mut cluster = match self.cluster(name) {
            Some(known) => known.clone(),
            None => {
                limits.check_new_cluster(self, name)?;
                Cluster::plain(name)
            }
        };
        cluster.check_port = update.check_port;
        cluster.use_instance_port = update.use_instance_port;
        cluster.health_checker = update.health_checker;
        cluster.metadata = update.metadata;
        cluster.settle();
        if cluster.default_port == 0 {
            return Err(ClusterError::ZeroPort(name.into()));
        }
        match self.clusters.iter_mut().find(|known| known.name == cluster.name) {
            Some(known) => *known = cluster,
            None => self.clusters.push(cluster),
        }
        self.settle();
        Ok(())
    }

    /// Settles the default ports of all clusters: the definition is about to be stored.
    pub fn settle(&mut self) {
        self.clusters.iter_mut().for_each(Cluster::settle);
    }
}

impl Cluster {
    /// Lets the default port follow the check port one last time; -1 stands for "follow", and so isn't the last.
    fn settle(&mut self) {
        if !self.settled {
            self.default_port = self.check_port;
            self.settled = self.default_port != FOLLOWS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(check_port: i32) -> Update {
        Update {
            check_port,
            use_instance_port: true,
            health_checker: Some(HealthChecker::Tcp),
            metadata: Metadata::default(),
        }
    }

    fn ports(definition: &Definition) -> Vec<(i32, i32)> {
        definition.clusters.iter().map(|cluster| (cluster.check_port, cluster.default_port)).collect()
    }

    #[test]
    fn the_default_port_stays_at_the_first_port_that_is_stored() {
        let mut definition = Definition { clusters: vec![Cluster::plain("b")], ..Definition::default() };
        definition.update_cluster("c", update(8081), &Limits::default()).unwrap();
        assert_eq!(ports(&definition), [(80, 80), (8081, 8081)]);
        definition.update_cluster("c", update(99), &Limits::default()).unwrap();
        definition.update_cluster("b", update(99), &Limits::default()).unwrap();
        assert_eq!(ports(&definition), [(99, 80), (99, 8081)]);
    }

    #[test]
    fn minus_one_is_not_the_last_word() {
        let mut definition = Definition::default();
        for (port, default) in [(-1, -1), (70_000, 70_000), (80, 70_000)] {
            definition.update_cluster("c", update(port), &Limits::default()).unwrap();
            assert_eq!(ports(&definition), [(port, default)]);
        }
    }

    #[test]
    fn what_is_refused_changes_nothing() {
        let mut definition = Definition { clusters: vec![Cluster::plain("a")], ..Definition::default() };
        let before = definition.clone();
        assert_eq!(
            definition.update_cluster("a", update(0), &Limits::default()),
            Err(ClusterError::ZeroPort("a".into()))
        );
        assert_eq!(
            definition.update_cluster("n", update(0), &Limits::default()),
            Err(ClusterError::ZeroPort("n".into()))
        );
        assert!(matches!(
            definition.update_cluster("a b", update(80), &Limits::default()),
            Err(ClusterError::Name(_))
        ));
        assert_eq!(definition, before);
        definition.update_cluster("a", update(80), &Limits::default()).unwrap();
        definition.update_cluster("a", update(0), &Limits::default()).unwrap();
        assert_eq!(ports(&definition), [(0, 80)]);
    }
}
