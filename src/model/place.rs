//! Where a service is looked for: a [`ServiceKey`] that owns nothing.
//!
//! Pure. Requests bring their names borrowed, and a look-up must not cost a copy of them.

use std::hash::{Hash, Hasher};

use equivalent::Equivalent;

use super::ServiceKey;

/// A place in the registry, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// Namespace id.
    pub namespace: &'a str,
    /// Grouped name.
    pub name: &'a str,
}

impl Place<'_> {
    /// The same, owned.
    #[must_use]
    pub fn to_key(self) -> ServiceKey {
        ServiceKey::new(self.namespace, self.name)
    }
}

impl ServiceKey {
    /// The same, borrowed.
    #[must_use]
    pub fn place(&self) -> Place<'_> {
        Place { namespace: &self.namespace, name: &self.name }
    }
}

impl Hash for Place<'_> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        // As `ServiceKey` derives it: the two texts one after the other.
        self.namespace.hash(hasher);
        self.name.hash(hasher);
    }
}

impl Equivalent<ServiceKey> for Place<'_> {
    fn equivalent(&self, key: &ServiceKey) -> bool {
        *self.namespace == *key.namespace && *self.name == *key.name
    }
}
