//! The instances of one kind of a service, in the order of the checksum, with the numbers that their ids use.
//!
//! Reads like the ordered set that it is; only the doors that change it are its own. Pure.

use std::{ops::Deref, sync::Arc};

use imbl::OrdSet;

use super::{
    Instance, InstanceKey,
    counted_ids::{CountedIds, number},
    instance::InstanceId,
};

/// A copy shares everything with the original.
#[derive(Clone, Debug, Default)]
pub struct Instances {
    set: OrdSet<Arc<Instance>>,
    /// Nothing where no id is a number, as nearly everywhere.
    ids: Option<Arc<CountedIds>>,
}

impl Deref for Instances {
    type Target = OrdSet<Arc<Instance>>;

    fn deref(&self) -> &Self::Target {
        &self.set
    }
}

impl Instances {
    /// None at all.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts an instance in the place of the one with its key, which is given back; O(log n).
    pub fn insert(&mut self, instance: Arc<Instance>) -> Option<Arc<Instance>> {
        let new = number(&instance.id);
        let before = self.set.insert(instance);
        self.count(before.as_ref().and_then(|before| number(&before.id)), new);
        before
    }

    /// Removes the instance with this key and gives it back; O(log n).
    pub fn remove(&mut self, key: &InstanceKey<'_>) -> Option<Arc<Instance>> {
        let removed = self.set.remove(key)?;
        self.count(number(&removed.id), None);
        Some(removed)
    }

    fn count(&mut self, gone: Option<u64>, new: Option<u64>) {
        if gone == new {
            return;
        }
        let ids = Arc::make_mut(self.ids.get_or_insert_default());
        if let Some(gone) = gone {
            ids.remove(gone);
        }
        if let Some(new) = new {
            ids.add(new);
        }
        if ids.is_empty() {
            self.ids = None;
        }
    }

    /// The smallest number that isn't yet the id of one of them; O(log n).
    #[must_use]
    pub fn next_counted_id(&self) -> InstanceId {
        let number = self.ids.as_ref().map_or(0, |ids| ids.smallest_free());
        InstanceId::Given(number.to_string().into())
    }
}

impl FromIterator<Arc<Instance>> for Instances {
    /// Of two with the same key the later one stays.
    fn from_iter<I: IntoIterator<Item = Arc<Instance>>>(all: I) -> Self {
        let mut instances = Self::new();
        for instance in all {
            instances.insert(instance);
        }
        instances
    }
}

impl<'a> IntoIterator for &'a Instances {
    type Item = &'a Arc<Instance>;
    type IntoIter = <&'a OrdSet<Arc<Instance>> as IntoIterator>::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        self.set.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{base::clock::Millis, model::instance::Description};

    fn instance(port: i32, id: &str) -> Arc<Instance> {
        let id = InstanceId::Given(id.into());
        Arc::new(Instance::new(Description::new("10.0.0.1", port, "DEFAULT"), id, Millis(0)))
    }

    #[test]
    fn counting_follows_what_is_put_replaced_and_removed() {
        let mut instances: Instances =
            [instance(1, "0"), instance(2, "1"), instance(3, "x")].into_iter().collect();
        let next = |instances: &Instances| instances.next_counted_id();
        assert_eq!(next(&instances), InstanceId::Given("2".into()));
        let before = instances.clone();
        assert!(instances.remove(&instance(1, "").key()).is_some());
        assert_eq!(next(&instances), InstanceId::Given("0".into()));
        assert!(instances.insert(instance(2, "0")).is_some());
        assert_eq!(next(&instances), InstanceId::Given("1".into()));
        assert!(instances.remove(&instance(2, "").key()).is_some());
        assert_eq!((next(&instances), instances.len()), (InstanceId::Given("0".into()), 1));
        assert!(instances.ids.is_none() && instances.remove(&instance(2, "").key()).is_none());
        assert_eq!(
            (next(&before), before.len()),
            (InstanceId::Given("2".into()), 3),
            "a copy stays as it was"
        );
    }
}
