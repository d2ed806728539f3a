//! Counts and log lines of requests that were refused since their address makes too many.

use std::{
    net::IpAddr,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Instant,
};

use nacre_middleware::limits::Class;

use crate::base::burst::Seldom;

/// Counters by class.
#[derive(Debug, Default)]
pub struct Limited {
    counts: [AtomicU64; Class::ALL.len()],
    lines: Seldom,
}

impl Limited {
    /// Counts one, and tells people of its address.
    pub fn note(&self, address: IpAddr, class: Class, now: Instant) {
        self.counts[class as usize].fetch_add(1, Relaxed);
        let (text, class) = (address.to_string(), class.label());
        if let Some(unlogged) = self.lines.pass(&[&text, class], now) {
            tracing::warn!(%address, class, unlogged, "an address makes too many requests: they are refused");
        }
    }

    /// How many were refused so far, by label of their class.
    #[must_use]
    pub fn read(&self) -> [(&'static str, u64); Class::ALL.len()] {
        Class::ALL.map(|class| (class.label(), self.counts[class as usize].load(Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_count_by_class() {
        let limited = Limited::default();
        for class in [Class::Beat, Class::Write, Class::Write] {
            limited.note([10, 0, 0, 1].into(), class, Instant::now());
        }
        assert_eq!(limited.read(), [("beat", 1), ("read", 0), ("write", 2)]);
    }
}
