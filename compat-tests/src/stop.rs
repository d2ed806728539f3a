//! Why a run ends before its end, and waiting that notices it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

/// How soon waiting notices that it is over.
const LOOK: Duration = Duration::from_millis(100);

/// How long the answer to a write is still awaited after an interruption: what was asked for may be made after it was looked for
/// to be taken away.
const GRACE: Duration = Duration::from_secs(5);

/// Shared by all who work on a run.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    interrupted: Arc<AtomicBool>,
    since: Arc<OnceLock<Instant>>,
    died: Arc<AtomicBool>,
    peer_died: Arc<AtomicBool>,
}

impl Stop {
    /// The flag that Ctrl-C sets.
    pub fn interrupted(&self) -> &Arc<AtomicBool> {
        &self.interrupted
    }

    /// For those who tidy up: over when nobody answers any more, but not when the run was interrupted.
    #[must_use]
    pub fn for_tidying(&self) -> Self {
        Self { died: Arc::clone(&self.died), ..Self::default() }
    }

    /// Says that the server can't be reached any more, or takes connections but doesn't answer.
    pub fn server_died(&self) {
        self.died.store(true, Ordering::SeqCst);
    }

    /// Says it of another member of its cluster.
    pub fn peer_died(&self) {
        self.peer_died.store(true, Ordering::SeqCst);
    }

    /// Whether that was said of the server.
    pub fn has_died(&self) -> bool {
        self.died.load(Ordering::SeqCst)
    }

    /// Why it is over, if it is.
    pub fn reason(&self) -> Option<&'static str> {
        if self.interrupted.load(Ordering::SeqCst) {
            Some("interrupted")
        } else if self.has_died() {
            Some("the server doesn't answer any more")
        } else if self.peer_died.load(Ordering::SeqCst) {
            Some("a peer of the server doesn't answer any more")
        } else {
            None
        }
    }

    /// Whether the answer to a request, which may be a write, isn't to be awaited any longer.
    pub fn gives_up(&self, write: bool) -> bool {
        let Some(_) = self.reason() else { return false };
        let since = self.since.get_or_init(Instant::now);
        self.has_died() || !write || since.elapsed() > GRACE
    }

    /// Waits.
    ///
    /// # Errors
    /// As soon as the run is over.
    pub fn wait(&self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        loop {
            ensure!(self.reason().is_none(), "the run is over");
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(LOOK));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interruption_ends_questions_at_once_and_writes_a_little_later_but_not_the_tidying() {
        let stop = Stop::default();
        let (clone, tidying) = (stop.clone(), stop.for_tidying());
        assert!(!stop.gives_up(false) && stop.wait(Duration::ZERO).is_ok());
        clone.interrupted().store(true, Ordering::SeqCst);
        assert!(stop.gives_up(false) && !stop.gives_up(true) && stop.wait(Duration::ZERO).is_err());
        assert!(!tidying.gives_up(false) && tidying.wait(Duration::ZERO).is_ok());
        stop.server_died();
        assert!(stop.gives_up(true) && tidying.gives_up(true));
    }
}
