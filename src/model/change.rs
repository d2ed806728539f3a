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

/// Services whose instances or health changed, oldest first, and the services that were made.
#[derive(Debug, Default)]
pub struct Changes {
    changed: Queue,
    made: Queue,
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

    /// The next changed service; waits for one. One caller at a time.
    pub async fn next_changed(&self) -> Arc<Service> {
        let service = self.changed.take().await;
        service.announced.store(false, Ordering::Release);
        service
    }

    /// The next new service; waits for one. One caller at a time.
    pub async fn next_made(&self) -> Arc<Service> {
        self.made.take().await
    }
}
