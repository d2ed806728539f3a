//! The signals by which an operator or a process manager stops the server.

use std::{io, time::Duration};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::Instant,
};

/// A signal that tells the process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// SIGTERM.
    Terminate,
    /// SIGINT.
    Interrupt,
}

impl Told {
    /// The exit code of a process that such a signal ended: 128 and its number.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Terminate => 143,
            Self::Interrupt => 130,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
        }
    }
}

/// Receives both signals; they no longer end the process by themselves, and two others neither.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// SIGHUP: a terminal was closed, or somebody expects settings to be read again, which they are at start only.
    _hangup: Signal,
    /// SIGXFSZ: a file grew beyond the limit of the process. Caught, the write fails instead, and is answered so.
    _file_size: Signal,
    last: Last,
}

/// The same signal within that time counts once: a supervisor may send it to the process and to its group.
const ONCE: Duration = Duration::from_secs(1);

/// The last signal that counted, and when.
#[derive(Debug, Default)]
struct Last(Option<(Told, Instant)>);

impl Last {
    /// Whether a signal that came `now` counts.
    fn counts(&mut self, told: Told, now: Instant) -> bool {
        let is_same = self.0.is_some_and(|(last, at)| last == told && now.duration_since(at) < ONCE);
        if !is_same {
            self.0 = Some((told, now));
        }
        !is_same
    }
}

/// The number of SIGXFSZ on Linux.
const FILE_SIZE: i32 = 25;

impl Signals {
    /// Receives from here on.
    ///
    /// # Errors
    /// The operating system lets no handler be set.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            _hangup: signal(SignalKind::hangup())?,
            _file_size: signal(SignalKind::from_raw(FILE_SIZE))?,
            last: Last::default(),
        })
    }

    /// The next of them that counts: one that came before, less than a second ago, doesn't.
    pub async fn next(&mut self) -> Told {
        loop {
            let told = tokio::select! {
                _ = self.terminate.recv() => Told::Terminate,
                _ = self.interrupt.recv() => Told::Interrupt,
            };
            if self.last.counts(told, Instant::now()) {
                return told;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_signal_within_a_second_counts_once_and_another_one_at_once() {
        let (mut last, begin) = (Last::default(), Instant::now());
        for (after_ms, told, counts) in [
            (0, Told::Terminate, true),
            (1, Told::Terminate, false),
            (999, Told::Terminate, false),
            (1_000, Told::Terminate, true),
            (1_001, Told::Interrupt, true),
            (1_002, Told::Terminate, true),
        ] {
            let now = begin + Duration::from_millis(after_ms);
            assert_eq!(last.counts(told, now), counts, "{told:?} after {after_ms} ms");
        }
    }
}
