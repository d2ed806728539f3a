//! The switches of this node as they stand now.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;

use super::Switches;
use crate::model::status::NodeStatus;

/// What readers see, and what the store has.
///
/// The two differ while an operator has changed this node alone (`debug=true`): such a change isn't stored, no other
/// node learns of it, and the next stored change or a restart ends it.
#[derive(Debug, Default)]
pub struct Switchboard {
    shown: ArcSwap<Switches>,
    /// Derived from `shown`, for a look at every request.
    guards: AtomicBool,
    /// Also the order of changes.
    stored: Mutex<Arc<Switches>>,
}

impl Switchboard {
    /// The switches that hold.
    #[must_use]
    pub fn load(&self) -> Guard<Arc<Switches>> {
        self.shown.load()
    }

    /// The switches without what was changed on this node alone: what a change for all starts from.
    #[must_use]
    pub fn stored(&self) -> Arc<Switches> {
        Arc::clone(&self.stored.lock())
    }

    /// Whether some request may have to be refused ([`Switches::guards`]); one atomic load.
    #[must_use]
    pub fn guards(&self) -> bool {
        self.guards.load(Ordering::Acquire)
    }

    /// Takes over what is in the store now.
    pub fn store(&self, switches: Switches) {
        let mut stored = self.stored.lock();
        *stored = Arc::new(switches);
        self.show(Arc::clone(&stored));
    }

    /// Lets `change` alter the switches of this node alone.
    ///
    /// # Errors
    /// What `change` says; nothing is altered then.
    pub fn alter_here<E>(&self, change: impl FnOnce(&mut Switches) -> Result<(), E>) -> Result<(), E> {
        let _order = self.stored.lock();
        let mut switches = Switches::clone(&self.shown.load());
        change(&mut switches)?;
        self.show(Arc::new(switches));
        Ok(())
    }

    fn show(&self, switches: Arc<Switches>) {
        let guards = switches.guards();
        let (before, status) = (self.shown.load().status(), switches.status());
        if status == NodeStatus::Up && before != status {
            tracing::info!("the node's status is UP again");
        } else if before != status {
            tracing::warn!(%status, "an operator changed the node's status: clients are refused until it is set to UP");
        }
        self.shown.store(switches);
        self.guards.store(guards, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_altered_here_lasts_until_the_next_stored_change() {
        let board = Switchboard::default();
        board.alter_here(|switches| switches.set("check", "false")).unwrap();
        assert!(!board.load().health_check_enabled);
        assert!(board.stored().health_check_enabled);
        let mut new = Switches::clone(&board.stored());
        new.set("pushEnabled", "false").unwrap();
        board.store(new);
        assert!(board.load().health_check_enabled && !board.load().push_enabled);
    }

    #[test]
    fn a_refused_change_alters_nothing() {
        let board = Switchboard::default();
        assert!(board.alter_here(|switches| switches.set("healthCheckTimes", "x")).is_err());
        assert_eq!(**board.load(), Switches::default());
    }

    #[test]
    fn it_guards_while_there_is_something_to_refuse() {
        let board = Switchboard::default();
        let mut seen = vec![board.guards()];
        for (entry, value) in [
            ("limitedUrlMap", "/a:404"),
            ("batch", "{}"),
            ("overriddenServerStatus", "DOWN"),
            ("batch", "{}"),
        ] {
            board.alter_here(|switches| switches.set(entry, value)).unwrap();
            seen.push(board.guards());
        }
        assert_eq!(seen, [false, true, false, true, false]);
    }
}
