//! What the rest of the server holds of the cluster.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{Address, MemberReport, Roster, ShownMember, Standing, View};
use crate::base::clock::{Clock, Millis};

/// The cluster as this node sees it; cheap to clone.
#[derive(Clone)]
pub struct Cluster(Arc<Inner>);

struct Inner {
    roster: Mutex<Roster>,
    view: ArcSwap<View>,
    changes: watch::Sender<u64>,
    clock: Clock,
}

impl Cluster {
    /// The cluster of this roster.
    #[must_use]
    pub fn new(roster: Roster, clock: Clock) -> Self {
        let view = ArcSwap::from_pointee(roster.view());
        Self(Arc::new(Inner { roster: Mutex::new(roster), view, changes: watch::Sender::new(0), clock }))
    }

    /// What is held for true now.
    #[must_use]
    pub fn view(&self) -> Arc<View> {
        self.0.view.load_full()
    }

    /// The same for a moment's look.
    #[must_use]
    pub fn view_guard(&self) -> Guard<Arc<View>> {
        self.0.view.load()
    }

    /// Tells of each new view.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// A report came in; tells whether its sender is listed.
    pub fn reported(&self, report: &MemberReport, now: Millis) -> bool {
        self.change(|roster| roster.reported(report, now))
    }

    /// A connection to a member was refused, or closed without an answer.
    pub fn refused(&self, address: &Address, _now: Millis) {
        self.change(|roster| roster.refused(address));
    }

    /// A member answered a call.
    pub fn answered(&self, address: &Address, now: Millis) {
        self.change(|roster| roster.answered(address, now));
    }

    /// The node does something else now.
    pub fn set_standing(&self, standing: Standing) {
        let now = self.0.clock.now();
        self.change(|roster| roster.set_standing(standing, now));
    }

    /// All members, this node among them.
    #[must_use]
    pub fn members(&self) -> Vec<ShownMember> {
        self.0.roster.lock().members()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Roster) -> T) -> T {
        let mut roster = self.0.roster.lock();
        let result = change(&mut roster);
        let view = roster.view();
        if *self.0.view.load_full() != view {
            self.0.view.store(Arc::new(view));
            self.0.changes.send_modify(|count| *count += 1);
        }
        result
    }
}
