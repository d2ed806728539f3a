//! The breakers of all peers that anything was sent to.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Instant,
};

use parking_lot::{Mutex, RwLock};

use crate::breaker::{Bounds, Breaker};

/// A peer as the one who sends to it sees it.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) address: Arc<str>,
    pub(crate) breaker: Mutex<Breaker>,
    is_nacre: AtomicBool,
}

/// One per address; those of members alone are kept, so there are no more than members.
#[derive(Debug)]
pub(crate) struct Peers {
    bounds: Bounds,
    by_address: RwLock<HashMap<Arc<str>, Arc<Peer>>>,
}

impl Peers {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self { bounds, by_address: RwLock::default() }
    }

    /// The peer of this address; a new one takes the place of those that are no members any more.
    pub(crate) fn get(
        &self,
        address: &Arc<str>,
        is_nacre: bool,
        now: Instant,
        is_listed: impl Fn(&str) -> bool,
    ) -> Arc<Peer> {
        let known = self.by_address.read().get(address).cloned();
        let peer = known.unwrap_or_else(|| {
            let mut by_address = self.by_address.write();
            by_address.retain(|other, _| is_listed(other));
            let new = || {
                let (address, is_nacre) = (Arc::clone(address), AtomicBool::new(is_nacre));
                Arc::new(Peer { address, breaker: Mutex::new(Breaker::new(self.bounds, now)), is_nacre })
            };
            Arc::clone(by_address.entry(Arc::clone(address)).or_insert_with(new))
        });
        if peer.is_nacre.load(Relaxed) != is_nacre {
            peer.is_nacre.store(is_nacre, Relaxed);
        }
        peer
    }

    /// Members whose breakers are open. Those that are no members any more are forgotten: one that is listed again begins anew.
    pub(crate) fn open(&self, is_listed: impl Fn(&str) -> bool) -> Vec<Arc<Peer>> {
        if !self.by_address.read().keys().all(|address| is_listed(address)) {
            self.by_address.write().retain(|address, _| is_listed(address));
        }
        let by_address = self.by_address.read();
        by_address.values().filter(|peer| peer.breaker.lock().is_open()).cloned().collect()
    }
}

impl Peer {
    pub(crate) fn is_nacre(&self) -> bool {
        self.is_nacre.load(Relaxed)
    }
}
