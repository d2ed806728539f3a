//! The namespaces that the console knows. Naming itself takes any namespace; these only have names for people.
//!
//! Source: Nacos 1.4.8 console, namespaces; compat file `core-console`.

use std::sync::Arc;

use arc_swap::ArcSwap;
use serde::{Deserialize, Serialize};

/// A namespace that somebody made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// Unique.
    pub id: String,
    /// For people.
    pub name: String,
    /// For people.
    pub description: String,
}

/// All of them, in the order in which they were made.
#[derive(Debug, Default)]
pub struct Namespaces(ArcSwap<Vec<Namespace>>);

impl Namespaces {
    /// The list as it is now.
    #[must_use]
    pub fn list(&self) -> Arc<Vec<Namespace>> {
        self.0.load_full()
    }

    /// Adds a namespace, or puts it in the place of the one with its id.
    pub fn put(&self, namespace: &Namespace) {
        self.0.rcu(|list| {
            let mut list = Vec::clone(list);
            match list.iter_mut().find(|known| known.id == namespace.id) {
                Some(known) => *known = namespace.clone(),
                None => list.push(namespace.clone()),
            }
            list
        });
    }

    /// Removes the namespace with this id.
    pub fn remove(&self, id: &str) {
        self.0.rcu(|list| list.iter().filter(|known| known.id != id).cloned().collect::<Vec<_>>());
    }
}
