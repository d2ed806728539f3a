//! The body of a client's request on its way to an instance, no longer than its rule allows.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

/// A body that may be bounded.
#[derive(Debug)]
pub struct Upload {
    incoming: Incoming,
    bound: Option<Bound>,
}

#[derive(Debug)]
struct Bound {
    left: u64,
    exceeded: Exceeded,
}

/// Tells whether a body was longer than it may be.
#[derive(Clone, Debug, Default)]
pub struct Exceeded(Arc<AtomicBool>);

impl Exceeded {
    /// Whether it was.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// Why a body ends before its end.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// It is longer than it may be.
    #[error("the request's body is too long")]
    TooLong,
    /// The client's connection.
    #[error(transparent)]
    Broken(#[from] hyper::Error),
}

impl Upload {
    /// `incoming`, of which so many bytes may come.
    #[must_use]
    pub fn new(incoming: Incoming, most: Option<u64>) -> (Self, Option<Exceeded>) {
        let exceeded = most.map(|_| Exceeded::default());
        let bound = most.zip(exceeded.clone()).map(|(left, exceeded)| Bound { left, exceeded });
        (Self { incoming, bound }, exceeded)
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = UploadError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        let Some(frame) = ready!(Pin::new(&mut self.incoming).poll_frame(cx)?) else {
            return Poll::Ready(None);
        };
        if let (Some(bound), Some(data)) = (&mut self.bound, frame.data_ref()) {
            let length = data.len() as u64;
            if length > bound.left {
                bound.exceeded.0.store(true, Relaxed);
                return Poll::Ready(Some(Err(UploadError::TooLong)));
            }
            bound.left -= length;
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
