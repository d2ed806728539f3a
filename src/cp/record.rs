//! What is kept: keys and values as bytes, by kind.

use redb::TableDefinition;

/// Which of the kept kinds a record is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Persistent instances.
    Instances,
    /// Services and their clusters, as far as they were set explicitly.
    Services,
    /// Run-time switches.
    Switches,
    /// Namespaces of the console.
    Namespaces,
}

impl Table {
    /// Every table, in the order in which they are loaded at start.
    pub const ALL: [Self; 4] = [Self::Namespaces, Self::Switches, Self::Services, Self::Instances];

    pub(super) fn definition(self) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
        TableDefinition::new(match self {
            Self::Instances => "instances",
            Self::Services => "services",
            Self::Switches => "switches",
            Self::Namespaces => "namespaces",
        })
    }
}

/// One change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Sets the key's value, whether or not it had one.
    Put {
        /// Where the key lies.
        table: Table,
        /// Unique within the table.
        key: Box<[u8]>,
        /// Replaces the former one.
        value: Box<[u8]>,
    },
    /// Removes the key; nothing happens if there is none.
    Delete {
        /// Where the key lies.
        table: Table,
        /// Unique within the table.
        key: Box<[u8]>,
    },
}

impl Record {
    /// A [`Record::Put`].
    pub fn put(table: Table, key: impl Into<Box<[u8]>>, value: impl Into<Box<[u8]>>) -> Self {
        Self::Put { table, key: key.into(), value: value.into() }
    }

    /// A [`Record::Delete`].
    pub fn delete(table: Table, key: impl Into<Box<[u8]>>) -> Self {
        Self::Delete { table, key: key.into() }
    }

    /// What it brings to write, in bytes of key and value.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Put { key, value, .. } => key.len() + value.len(),
            Self::Delete { key, .. } => key.len(),
        }
    }
}
