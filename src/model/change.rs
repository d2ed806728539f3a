//! What a write reports: that a service changed, or came into being.
//!
//! A report carries the service, not data, and a service that is waiting already isn't queued again, so the queue
//! can't grow beyond the number of services; whoever takes a report reads the newest state.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Service;

/// Services whose instances or health changed, oldest first, the services that were made, and those of which something
/// ephemeral was written here.
#[derive(Debug, Default)]
pub struct Changes {
    changed: Queue,
    made: Queue,
    local: Queue,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<VecDeque<Arc<Service>>>,
    filled: Notify,
}

impl Queue {
    fn put(&self, service: &Arc<Service>) {
        self.waiting.lock().push_back(Arc::clone(service));
        self.filled.notify_one();
    }

    async fn take(&self) -> Arc<Service> {
        loop {
            if let Some(service) = self.waiting.lock().pop_front() {
                return service;
            }
            self.filled.notified().await;
        }
    }
}

impl Changes {
    /// Notes that the list of `service` looks different now.
    pub fn changed(&self, service: &Arc<Service>) {
        if !service.announced.swap(true, Ordering::AcqRel) {
            self.changed.put(service);
        }
    }

    /// Notes that `service` was made.
    pub fn made(&self, service: &Arc<Service>) {
        self.made.put(service);
    }

    /// Notes that something ephemeral of `service` was written here, which its peers don't know yet.
    ///
    /// Only a registry whose data peers share does so: nobody else takes these reports.
    pub fn local(&self, service: &Arc<Service>) {
        if !service.announced_local.swap(true, Ordering::AcqRel) {
            self.local.put(service);
        }
    }

    /// The next changed service; waits for one. One caller at a time.
    pub async fn next_changed(&self) -> Arc<Service> {
        let service = self.changed.take().await;
        service.announced.store(false, Ordering::Release);
        service
    }

    /// Ready when there is one; it stays to be taken.
    pub async fn any_local(&self) {
        while self.local.waiting.lock().is_empty() {
            self.local.filled.notified().await;
        }
    }

    /// The next service of which something ephemeral was written here, if there is one. One caller at a time.
    ///
    /// It may have been removed meanwhile: its last state then holds what went with it.
    pub fn try_next_local(&self) -> Option<Arc<Service>> {
        let service = self.local.waiting.lock().pop_front()?;
        service.announced_local.store(false, Ordering::Release);
        Some(service)
    }

    /// [`Changes::next_changed`] without waiting.
    pub fn try_next_changed(&self) -> Option<Arc<Service>> {
        let service = self.changed.waiting.lock().pop_front()?;
        service.announced.store(false, Ordering::Release);
        Some(service)
    }

    /// [`Changes::next_made`] without waiting.
    pub fn try_next_made(&self) -> Option<Arc<Service>> {
        self.made.waiting.lock().pop_front()
    }

    /// The next new service; waits for one. One caller at a time.
    pub async fn next_made(&self) -> Arc<Service> {
        self.made.take().await
    }
}
