//! The body of an answer: bytes that are all there, or a stream of another server's.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::pass::Broken;

/// Bytes that leave with a `Content-Length`, or in chunks as the reference sends its JSON.
#[derive(Default)]
pub struct V1Body {
    bytes: Bytes,
    /// Follows `bytes`.
    rest: Bytes,
    chunked: bool,
    sent: bool,
    /// In the place of all of these.
    stream: Option<Stream>,
}

type Stream = Pin<Box<dyn Body<Data = Bytes, Error = Broken> + Send>>;

impl fmt::Debug for V1Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, rest, chunked, sent, stream } = self;
        let mut shown = f.debug_struct("V1Body");
        shown.field("bytes", bytes).field("rest", rest).field("chunked", chunked).field("sent", sent);
        shown.field("streams", &stream.is_some()).finish()
    }
}

impl V1Body {
    /// A body with a `Content-Length`.
    pub fn sized(bytes: impl Into<Bytes>) -> Self {
        Self { bytes: bytes.into(), ..Self::default() }
    }

    /// A body without a `Content-Length`: chunked for HTTP/1.1, closed at its end for HTTP/1.0.
    pub fn chunked(bytes: impl Into<Bytes>) -> Self {
        Self::chunked_in_two(bytes, Bytes::new())
    }

    /// As [`V1Body::chunked`], of two pieces that needn't be copied together.
    pub fn chunked_in_two(bytes: impl Into<Bytes>, rest: impl Into<Bytes>) -> Self {
        Self { bytes: bytes.into(), rest: rest.into(), chunked: true, ..Self::default() }
    }

    /// What another server sends, as it comes; with a `Content-Length` if the stream knows one.
    pub fn streamed(stream: impl Body<Data = Bytes, Error = Broken> + Send + 'static) -> Self {
        Self { stream: Some(Box::pin(stream)), ..Self::default() }
    }

    /// It comes from another server, as it comes.
    #[must_use]
    pub fn is_streamed(&self) -> bool {
        self.stream.is_some()
    }

    /// The bytes; of a body in two pieces, the first; of one that streams, none.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// How many bytes it has, but for what streams.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() + self.rest.len()
    }

    /// No byte at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Body for V1Body {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        if let Some(stream) = &mut self.stream {
            return stream.as_mut().poll_frame(cx);
        }
        if self.is_empty() {
            return Poll::Ready(None);
        }
        self.sent = true;
        let following = std::mem::take(&mut self.rest);
        let piece = std::mem::replace(&mut self.bytes, following);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        if let Some(stream) = &self.stream {
            return stream.is_end_stream();
        }
        // A chunked body that said it is over before its first frame would be sent as a sized one.
        self.is_empty() && (self.sent || !self.chunked)
    }

    fn size_hint(&self) -> SizeHint {
        if let Some(stream) = &self.stream {
            return stream.size_hint();
        }
        if self.chunked { SizeHint::new() } else { SizeHint::with_exact(self.len() as u64) }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    /// The frames that a body sends, and whether it says before each that it is over.
    async fn frames(mut body: V1Body) -> Vec<(bool, Bytes)> {
        let mut frames = Vec::new();
        loop {
            let over = body.is_end_stream();
            let Some(frame) = body.frame().await else { return frames };
            frames.push((over, frame.unwrap().into_data().unwrap()));
        }
    }

    #[tokio::test]
    async fn a_body_in_two_pieces_sends_one_after_the_other() {
        let body = V1Body::chunked_in_two("ab", "c");
        assert_eq!((body.len(), body.size_hint().exact()), (3, None));
        assert_eq!(frames(body).await, [(false, "ab".into()), (false, "c".into())]);
        assert_eq!(frames(V1Body::chunked("ab")).await, [(false, "ab".into())]);
    }

    #[tokio::test]
    async fn an_empty_chunked_body_is_not_over_before_it_is_asked() {
        assert!(!V1Body::chunked("").is_end_stream());
        assert!(V1Body::sized("").is_end_stream());
        assert_eq!(frames(V1Body::chunked("")).await, []);
    }
}
