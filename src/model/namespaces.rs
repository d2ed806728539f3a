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
    /// Its place among the others; see [`Namespaces::next_place`].
    #[serde(default)]
    pub place: u64,
}

/// All of them, by their places: in the order in which they were made.
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
                None => {
                    let at = list.partition_point(|known| known.place <= namespace.place);
                    list.insert(at, namespace.clone());
                }
            }
            list
        });
    }

    /// The place of one that is made now: behind all others.
    #[must_use]
    pub fn next_place(&self) -> u64 {
        self.list().last().map_or(0, |last| last.place + 1)
    }

    /// Removes the namespace with this id.
    pub fn remove(&self, id: &str) {
        self.0.rcu(|list| list.iter().filter(|known| known.id != id).cloned().collect::<Vec<_>>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace(id: &str, place: u64) -> Namespace {
        Namespace { id: id.into(), name: id.into(), description: String::new(), place }
    }

    #[test]
    fn they_stand_in_the_order_of_their_making_however_they_are_read() {
        let namespaces = Namespaces::default();
        for (id, place) in [("a", 2), ("b", 0), ("c", 1)] {
            namespaces.put(&namespace(id, place));
        }
        let ids = || namespaces.list().iter().map(|known| known.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(), ["b", "c", "a"]);
        assert_eq!(namespaces.next_place(), 3);
        namespaces.put(&namespace("d", namespaces.next_place()));
        namespaces.put(&namespace("b", 0));
        assert_eq!(ids(), ["b", "c", "a", "d"]);
        namespaces.remove("d");
        assert_eq!(namespaces.next_place(), 3);
    }
}
