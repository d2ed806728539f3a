//! Why a run ends before its end, and waiting that notices it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

/// How soon waiting notices that it is over.
const LOOK: Duration = Duration::from_millis(100);

/// Shared by all who work on a run.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    interrupted: Arc<AtomicBool>,
    died: Arc<AtomicBool>,
}

impl Stop {
    /// The flag that Ctrl-C sets.
    pub fn interrupted(&self) -> &Arc<AtomicBool> {
        &self.interrupted
    }

    /// Says that the server can't be reached any more, or takes connections but doesn't answer.
    pub fn server_died(&self) {
        self.died.store(true, Ordering::SeqCst);
    }

    /// Whether that was said.
    pub fn has_died(&self) -> bool {
        self.died.load(Ordering::SeqCst)
    }

    /// Why it is over, if it is.
    pub fn reason(&self) -> Option<&'static str> {
        if self.interrupted.load(Ordering::SeqCst) {
            Some("interrupted")
        } else if self.has_died() {
            Some("the server doesn't answer any more")
        } else {
            None
        }
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
