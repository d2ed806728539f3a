//! The way of log lines to stderr: a buffer of bounded size and a thread that empties it.
//!
//! Whoever logs never waits for whoever reads stderr: a collector that hangs would otherwise stop the server. What
//! doesn't fit is dropped and counted.

use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use tracing_subscriber::fmt::MakeWriter;

/// Bytes that wait at most; some 5,000 lines.
const MOST_BYTES: usize = 1 << 20;

/// Where lines go; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Lines(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// There is something to write, or nothing more.
    changed: Condvar,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    writing: bool,
}

impl Lines {
    /// Starts the thread that writes to `out`; it lives as long as the process.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn to(out: impl Write + Send + 'static) -> io::Result<Self> {
        let waiting = Mutex::new(Waiting { bytes: Vec::with_capacity(1 << 14), writing: false });
        let shared = Shared { waiting, changed: Condvar::new(), dropped: AtomicU64::new(0) };
        let lines = Self(Arc::new(shared));
        let shared = Arc::clone(&lines.0);
        thread::Builder::new().name("log".into()).spawn(move || shared.write_to(out))?;
        Ok(lines)
    }

    /// Lines that didn't fit so far.
    pub(super) fn dropped(&self) -> u64 {
        self.0.dropped.load(Relaxed)
    }

    /// Waits until all is written, or for `longest`.
    pub(super) fn flush(&self, longest: Duration) {
        let end = Instant::now() + longest;
        let mut waiting = self.0.waiting.lock();
        while waiting.writing || !waiting.bytes.is_empty() {
            if self.0.changed.wait_until(&mut waiting, end).timed_out() {
                return;
            }
        }
    }
}

impl Shared {
    fn push(&self, line: &[u8]) {
        let mut waiting = self.waiting.lock();
        if waiting.bytes.len() + line.len() > MOST_BYTES {
            self.dropped.fetch_add(1, Relaxed);
            return;
        }
        waiting.bytes.extend_from_slice(line);
        self.changed.notify_all();
    }

    fn write_to(&self, mut out: impl Write) {
        let (mut bytes, mut told) = (Vec::new(), 0);
        loop {
            let mut waiting = self.waiting.lock();
            waiting.writing = false;
            self.changed.notify_all();
            while waiting.bytes.is_empty() {
                self.changed.wait(&mut waiting);
            }
            waiting.writing = true;
            std::mem::swap(&mut waiting.bytes, &mut bytes);
            drop(waiting);
            // Where stderr is closed nobody wants to know.
            let _ = out.write_all(&bytes).and_then(|()| out.flush());
            bytes.clear();
            let dropped = self.dropped.load(Relaxed);
            if dropped > told {
                tracing::warn!(lines = dropped - told, "log lines were dropped: stderr is read too slowly");
                told = dropped;
            }
        }
    }
}

/// Takes the lines of one event.
#[derive(Debug)]
pub(super) struct Line<'a>(&'a Shared);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(&self.0)
    }
}

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Keeps what is written, from when its gate is opened (or given up) on.
    struct Gated {
        gate: mpsc::Receiver<()>,
        kept: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Gated {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.gate.recv();
            self.kept.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn gated() -> (Lines, mpsc::Sender<()>, Arc<Mutex<Vec<u8>>>) {
        let (open, gate) = mpsc::channel();
        let kept = Arc::default();
        (Lines::to(Gated { gate, kept: Arc::clone(&kept) }).unwrap(), open, kept)
    }

    fn write(lines: &Lines, text: &str) {
        lines.make_writer().write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn lines_come_in_order() {
        let (lines, open, kept) = gated();
        drop(open);
        for line in ["a\n", "b\n", "c\n"] {
            write(&lines, line);
        }
        lines.flush(LONG);
        assert_eq!(*kept.lock(), b"a\nb\nc\n");
        assert_eq!(lines.dropped(), 0);
    }

    #[test]
    fn who_logs_never_waits_and_what_does_not_fit_is_counted() {
        let (lines, open, kept) = gated();
        let line = format!("{}\n", "x".repeat(1023));
        for _ in 0..3_000 {
            write(&lines, &line);
        }
        let dropped = lines.dropped();
        assert!(dropped >= 3_000 - 2 * 1_024, "one buffer waits, one is being written: {dropped}");
        drop(open);
        lines.flush(LONG);
        assert_eq!(kept.lock().len() as u64, (3_000 - dropped) * 1_024);
    }

    #[test]
    fn flushing_gives_up_when_nobody_reads() {
        let (lines, _open, kept) = gated();
        write(&lines, "a\n");
        lines.flush(Duration::from_millis(1));
        assert!(kept.lock().is_empty());
    }
}
