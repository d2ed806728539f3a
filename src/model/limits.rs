//! How much a service and its instances may hold. Pure.

use super::{
    Definition, Metadata,
    instance::Description,
    name::{self, NameError},
};
use crate::config::NamingSettings;

/// Bounds of what is taken; each is a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a grouped name, a cluster's name, a namespace id, an ip, the name of an application.
    pub name_bytes: usize,
    /// Bytes of one metadata as JSON.
    pub metadata_bytes: usize,
    /// Clusters of one service.
    pub clusters: usize,
}

/// Something is more than a limit allows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Param '{what}' is illegal, it may have {limit} bytes at most, and has {bytes}")]
pub struct TooLong {
    /// The parameter.
    pub what: &'static str,
    /// The limit in bytes.
    pub limit: usize,
    /// What it has.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self::from(&NamingSettings::default())
    }
}

impl From<&NamingSettings> for Limits {
    fn from(settings: &NamingSettings) -> Self {
        let &NamingSettings { max_name_bytes, max_metadata_bytes, max_clusters, .. } = settings;
        Self { name_bytes: max_name_bytes, metadata_bytes: max_metadata_bytes, clusters: max_clusters }
    }
}

fn check(what: &'static str, bytes: usize, limit: usize) -> Result<(), TooLong> {
    if bytes <= limit { Ok(()) } else { Err(TooLong { what, limit, bytes }) }
}

impl Limits {
    /// Checks a text that names something.
    ///
    /// # Errors
    /// [`TooLong`].
    pub fn check_name(&self, what: &'static str, text: &str) -> Result<(), TooLong> {
        check(what, text.len(), self.name_bytes)
    }

    /// Checks the id of an instance, which is put together of its ip, its cluster, its service and a number.
    ///
    /// # Errors
    /// [`TooLong`].
    pub fn check_id(&self, id: &str) -> Result<(), TooLong> {
        check("instanceId", id.len(), 4 * self.name_bytes)
    }

    /// Checks the metadata of an instance, a service or a cluster.
    ///
    /// # Errors
    /// [`TooLong`].
    pub fn check_metadata(&self, metadata: &Metadata) -> Result<(), TooLong> {
        check("metadata", metadata.json().len(), self.metadata_bytes)
    }

    /// Checks what an instance is made of; its cluster by [`Limits::check_new_cluster`].
    ///
    /// # Errors
    /// [`TooLong`].
    pub fn check_instance(&self, described: &Description<'_>) -> Result<(), TooLong> {
        self.check_name("ip", described.key.ip)?;
        described.app.map_or(Ok(()), |app| self.check_name("app", app))?;
        self.check_metadata(&described.metadata)
    }

    /// Checks a cluster that is about to be added to `definition`, which lacks it.
    ///
    /// # Errors
    /// [`NameError`]: characters, length, count.
    pub fn check_new_cluster(&self, definition: &Definition, cluster: &str) -> Result<(), NameError> {
        name::check_cluster(cluster)?;
        self.check_name("clusterName", cluster)?;
        if definition.clusters.len() >= self.clusters {
            return Err(NameError::TooManyClusters { limit: self.clusters });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cluster::Cluster;

    const LIMITS: Limits = Limits { name_bytes: 10, metadata_bytes: 20, clusters: 2 };

    #[test]
    fn what_is_as_long_as_its_limit_is_taken() {
        let (ten, eleven) = ("a".repeat(10), "a".repeat(11));
        let described = |ip, app, metadata: &str| Description {
            app,
            metadata: metadata.parse().unwrap(),
            ..Description::new(ip, 80, "C")
        };
        let metadata = r#"{"key":"0123456789"}"#;
        assert_eq!(LIMITS.check_instance(&described(&ten, Some(&ten), metadata)), Ok(()));
        for (described, what) in [
            (described(&eleven, None, ""), "ip"),
            (described("a", Some(&eleven), ""), "app"),
            (described("a", None, r#"{"key":"0123456789a"}"#), "metadata"),
        ] {
            assert_eq!(LIMITS.check_instance(&described).unwrap_err().what, what);
        }
    }

    #[test]
    fn clusters_are_bounded_by_name_and_number() {
        let mut definition = Definition { clusters: vec![Cluster::plain("a")], ..Definition::default() };
        assert_eq!(LIMITS.check_new_cluster(&definition, &"b".repeat(10)), Ok(()));
        assert!(matches!(
            LIMITS.check_new_cluster(&definition, &"b".repeat(11)),
            Err(NameError::Limit(TooLong { what: "clusterName", limit: 10, bytes: 11 }))
        ));
        definition.clusters.push(Cluster::plain("b"));
        assert_eq!(LIMITS.check_new_cluster(&definition, "c"), Err(NameError::TooManyClusters { limit: 2 }));
    }
}
