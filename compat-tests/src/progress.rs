//! Says on stderr how far a run is: one line that changes on a terminal, a line every ten seconds elsewhere.

use std::io::{IsTerminal as _, Write as _, stderr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Counts what is done.
#[derive(Debug, Default)]
pub struct Progress {
    all: usize,
    done: AtomicUsize,
    failed: AtomicUsize,
    over: AtomicBool,
}

impl Progress {
    /// Of so many cases.
    pub fn of(all: usize) -> Self {
        Self { all, ..Self::default() }
    }

    /// One more is done.
    pub fn done(&self, failed: bool) {
        self.done.fetch_add(1, Ordering::Relaxed);
        self.failed.fetch_add(usize::from(failed), Ordering::Relaxed);
    }

    /// Does `work` and tells meanwhile how far it is.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        thread::scope(|scope| {
            scope.spawn(|| self.tell());
            let result = work();
            self.over.store(true, Ordering::SeqCst);
            result
        })
    }

    fn tell(&self) {
        let terminal = stderr().is_terminal();
        let every = Duration::from_secs(if terminal { 0 } else { 10 });
        let (begin, mut told) = (Instant::now(), Instant::now());
        while !self.over.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(100));
            if told.elapsed() < every {
                continue;
            }
            told = Instant::now();
            let (done, failed) = (self.done.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed));
            let seconds = begin.elapsed().as_secs();
            let line = format!("{done} of {} cases, {failed} different, {seconds} s", self.all);
            let _ = if terminal { write!(stderr(), "\r{line} ") } else { writeln!(stderr(), "{line}") };
        }
        if terminal {
            let _ = write!(stderr(), "\r{:60}\r", "");
        }
    }
}
