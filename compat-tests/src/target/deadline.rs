//! By when an answer must be all there: whoever sends a byte now and then would otherwise never be done.

use std::io::{Error, ErrorKind, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};

/// The end of the time that an exchange may take, whatever comes meanwhile.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    end: Instant,
    limit: Duration,
}

impl Deadline {
    /// So long from now on.
    pub fn after(limit: Duration) -> Self {
        Self { end: Instant::now() + limit, limit }
    }

    /// Whether it has passed.
    pub fn is_over(&self) -> bool {
        self.left().is_zero()
    }

    /// What is left; nothing once it has passed.
    pub fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// What is said of an answer of which so many bytes had come by then.
    pub fn missed(&self, bytes: usize) -> anyhow::Error {
        let limit = self.limit.as_secs_f64();
        match bytes {
            0 => anyhow!("no answer came within {limit} s"),
            _ => anyhow!("the answer didn't end within {limit} s: {bytes} bytes came"),
        }
    }

    /// Sends all of it in time.
    ///
    /// # Errors
    /// If the other side closes, or takes it too slowly.
    pub fn send(&self, stream: &mut TcpStream, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let left = self.left();
            if left.is_zero() {
                return Err(anyhow!("the request wasn't taken within {} s", self.limit.as_secs_f64()));
            }
            stream.set_write_timeout(Some(left))?;
            match stream.write(bytes) {
                Ok(0) => return Err(anyhow!("the request wasn't taken")),
                Ok(count) => bytes = &bytes[count..],
                Err(error) if is_silence(&error) => {}
                Err(error) => return Err(error).context("can't send the request"),
            }
        }
        Ok(())
    }
}

/// Whether it only says that nothing has come, or could be sent, for a while.
pub fn is_silence(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn one_who_takes_nothing_is_given_up() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _held = listener.accept().unwrap();
        let error = Deadline::after(Duration::from_millis(300)).send(&mut stream, &vec![0; 64 << 20]);
        assert_eq!(error.unwrap_err().to_string(), "the request wasn't taken within 0.3 s");
    }

    #[test]
    fn what_was_missed_is_said_with_what_had_come() {
        let deadline = Deadline::after(Duration::ZERO);
        assert!(deadline.is_over());
        assert_eq!(deadline.missed(0).to_string(), "no answer came within 0 s");
        assert_eq!(deadline.missed(3).to_string(), "the answer didn't end within 0 s: 3 bytes came");
    }
}
