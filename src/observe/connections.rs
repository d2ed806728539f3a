//! How many connections are open.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of connections.
#[derive(Debug, Default)]
pub struct Connections {
    accepted: AtomicU64,
    closed: AtomicU64,
}

/// An open connection; it counts as closed when this is dropped.
#[derive(Debug)]
pub struct Open<'a>(&'a Connections);

impl Connections {
    /// Counts a connection as open for as long as the result lives.
    #[must_use]
    pub fn open(&self) -> Open<'_> {
        self.accepted.fetch_add(1, Relaxed);
        Open(self)
    }

    /// Accepted so far.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Relaxed)
    }

    /// Open now.
    #[must_use]
    pub fn open_now(&self) -> u64 {
        // Closed first: read the other way, one that opens and closes in between would count as less than none.
        let closed = self.closed.load(Relaxed);
        self.accepted.load(Relaxed).saturating_sub(closed)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.closed.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_counts_as_open_until_it_is_dropped() {
        let connections = Connections::default();
        let one = connections.open();
        let other = connections.open();
        drop(one);
        assert_eq!((connections.accepted(), connections.open_now()), (2, 1));
        drop(other);
        assert_eq!((connections.accepted(), connections.open_now()), (2, 0));
    }
}
