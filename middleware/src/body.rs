//! The body of an answer: bytes that are all there.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// Bytes that leave with a `Content-Length`, or in chunks as the reference sends its JSON.
#[derive(Clone, Debug, Default)]
pub struct V1Body {
    bytes: Bytes,
    chunked: bool,
    sent: bool,
}

impl V1Body {
    /// A body with a `Content-Length`.
    pub fn sized(bytes: impl Into<Bytes>) -> Self {
        Self { bytes: bytes.into(), chunked: false, sent: false }
    }

    /// A body without a `Content-Length`: chunked for HTTP/1.1, closed at its end for HTTP/1.0.
    pub fn chunked(bytes: impl Into<Bytes>) -> Self {
        Self { bytes: bytes.into(), chunked: true, sent: false }
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

impl Body for V1Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.sent || self.bytes.is_empty() {
            return Poll::Ready(None);
        }
        self.sent = true;
        Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        // A chunked body that said it is over before its first frame would be sent as a sized one.
        self.bytes.is_empty() && (self.sent || !self.chunked)
    }

    fn size_hint(&self) -> SizeHint {
        if self.chunked { SizeHint::new() } else { SizeHint::with_exact(self.bytes.len() as u64) }
    }
}
