//! The signals by which an operator or a process manager stops the server.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

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
        })
    }

    /// The next of them.
    pub async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.terminate.recv() => Told::Terminate,
            _ = self.interrupt.recv() => Told::Interrupt,
        }
    }
}
