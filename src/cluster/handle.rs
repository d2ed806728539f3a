//! What the other modules hold of the cluster: the view of the moment, and where they tell what they have seen.

use std::{fmt, sync::Arc};

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{Address, MemberReport, Roster, ShownMember, Standing, View};
use crate::base::clock::Millis;

/// The cluster as this node sees it; cheap to clone.
#[derive(Clone)]
pub struct Cluster(Arc<Inner>);

struct Inner {
    view: ArcSwap<View>,
    /// None: the node serves alone.
    roster: Option<Mutex<Roster>>,
    /// How many views there have been.
    changes: watch::Sender<u64>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Cluster").field(&self.view_guard()).finish()
    }
}

impl Cluster {
    /// A node that serves alone: its view never changes.
    #[must_use]
    pub fn alone(own: Address) -> Self {
        Self::start(View::alone(own), None)
    }

    /// A node with members.
    #[must_use]
    pub fn new(roster: Roster) -> Self {
        Self::start(roster.view(), Some(Mutex::new(roster)))
    }

    fn start(view: View, roster: Option<Mutex<Roster>>) -> Self {
        let view = ArcSwap::from_pointee(view);
        Self(Arc::new(Inner { view, roster, changes: watch::Sender::new(0) }))
    }

    /// The view of this moment.
    #[must_use]
    pub fn view(&self) -> Arc<View> {
        self.0.view.load_full()
    }

    /// The same for a look that ends soon: takes no count.
    #[must_use]
    pub fn view_guard(&self) -> Guard<Arc<View>> {
        self.0.view.load()
    }

    /// Tells of each new view.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// A report came in; tells whether its sender is listed. A node that serves alone lists itself.
    pub fn reported(&self, report: &MemberReport, now: Millis) -> bool {
        self.told(|roster| roster.reported(report, now))
            .unwrap_or_else(|| report.address == self.view_guard().own)
    }

    /// A call to a member was refused, or closed without a byte of an answer: it is DOWN at once.
    pub fn refused(&self, address: &Address, _: Millis) {
        self.told(|roster| roster.refused(address));
    }

    /// A call to a member was answered.
    pub fn answered(&self, address: &Address, now: Millis) {
        self.told(|roster| roster.answered(address, now));
    }

    /// The node starts, serves or leaves from now on.
    pub fn set_standing(&self, standing: Standing, now: Millis) {
        self.told(|roster| roster.set_standing(standing, now));
    }

    /// All listed members for operators, sorted as text; none where the node serves alone.
    #[must_use]
    pub fn members(&self) -> Vec<ShownMember> {
        self.0.roster.as_ref().map(|roster| roster.lock().members()).unwrap_or_default()
    }

    /// Tells the roster something; if another view follows it counts from then on.
    fn told<T>(&self, tell: impl FnOnce(&mut Roster) -> T) -> Option<T> {
        let mut roster = self.0.roster.as_ref()?.lock();
        let answer = tell(&mut roster);
        let view = roster.view();
        if view != **self.0.view.load() {
            self.0.view.store(Arc::new(view));
            self.0.changes.send_modify(|count| *count += 1);
        }
        Some(answer)
    }
}
