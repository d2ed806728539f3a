//! How often what happened: kinds of faults, and what they led to.

use std::collections::BTreeMap;

use super::faults::{KINDS, Kind};

/// Counts over one or many runs.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// Faults by kind.
    pub faults: BTreeMap<Kind, u64>,
    /// What else is worth counting, by name.
    pub marks: BTreeMap<&'static str, u64>,
}

impl Coverage {
    /// A fault began.
    pub fn fault(&mut self, kind: Kind) {
        *self.faults.entry(kind).or_default() += 1;
    }

    /// Something happened `count` times.
    pub fn mark(&mut self, name: &'static str, count: u64) {
        *self.marks.entry(name).or_default() += count;
    }

    /// Adds the counts of another.
    pub fn add(&mut self, other: &Self) {
        for (kind, count) in &other.faults {
            *self.faults.entry(*kind).or_default() += count;
        }
        for (name, count) in &other.marks {
            *self.marks.entry(name).or_default() += count;
        }
    }

    /// Kinds that never came.
    pub fn missing(&self) -> Vec<Kind> {
        KINDS.iter().copied().filter(|kind| !self.faults.contains_key(kind)).collect()
    }

    /// A table.
    pub fn table(&self) -> String {
        let faults =
            self.faults.iter().map(|(kind, count)| format!("{:<22}{count:>12}\n", format!("{kind:?}")));
        let marks = self.marks.iter().map(|(name, count)| format!("{name:<30}{count:>12}\n"));
        format!("{}--\n{}", faults.collect::<String>(), marks.collect::<String>())
    }
}
