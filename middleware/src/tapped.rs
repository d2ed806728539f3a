//! A stream that tells somebody what passes, and changes nothing of it.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Is told what passes over a stream of this kind.
pub trait Tap<S> {
    /// These bytes have come; there is one at least.
    fn has_read(&self, bytes: &[u8]) {
        let _ = bytes;
    }

    /// The runtime knows of nothing that could be read. True lets the reader take that for the end.
    fn takes_for_end(&self, stream: &S) -> bool {
        let _ = stream;
        false
    }

    /// Something is to be written.
    fn writes(&self) {}

    /// So many bytes were taken, or none could be.
    fn has_written(&self, outcome: &Poll<io::Result<usize>>) {
        let _ = outcome;
    }

    /// All was written.
    fn has_flushed(&self) {}
}

/// A stream and who is told of it.
#[derive(Debug)]
pub struct Tapped<S, T> {
    /// The stream.
    pub stream: S,
    /// Is told what passes.
    pub tap: T,
}

/// A client of hyper-util finds the tap among the extensions of its answers.
impl<S, T: Clone + Send + Sync + 'static> Connection for Tapped<S, T> {
    fn connected(&self) -> Connected {
        Connected::new().extra(self.tap.clone())
    }
}

impl<S: AsyncRead + Unpin, T: Tap<S> + Unpin> AsyncRead for Tapped<S, T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.stream).poll_read(cx, buffer) {
            Poll::Pending if self.tap.takes_for_end(&self.stream) => return Poll::Ready(Ok(())),
            outcome => ready!(outcome)?,
        }
        let read = &buffer.filled()[before..];
        if !read.is_empty() {
            self.tap.has_read(read);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin, T: Tap<S> + Unpin> AsyncWrite for Tapped<S, T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.tap.writes();
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.tap.has_written(&outcome);
        outcome
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.tap.writes();
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.tap.has_written(&outcome);
        outcome
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.tap.has_flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
