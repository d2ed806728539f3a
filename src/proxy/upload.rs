//! The body of a client's request on its way to an instance, no longer than its rule allows.
//!
//! Its beginning may be kept, for an instance that says, when it was sent it, that it takes no more requests.

use std::{
    collections::VecDeque,
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
    /// What was read so far, while it is little.
    kept: Option<Vec<Bytes>>,
    /// What is to be read once more.
    again: VecDeque<Bytes>,
}

/// Bytes of a body's beginning that are kept.
const MOST_KEPT: usize = 16 << 10;
/// The same in pieces.
const MOST_PIECES: usize = 64;

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
    /// `incoming`, of which so many bytes may come. `keeps`: it may have to begin anew.
    #[must_use]
    pub fn new(incoming: Incoming, most: Option<u64>, keeps: bool) -> (Self, Option<Exceeded>) {
        let exceeded = most.map(|_| Exceeded::default());
        let bound = most.zip(exceeded.clone()).map(|(left, exceeded)| Bound { left, exceeded });
        (Self { incoming, bound, kept: keeps.then(Vec::new), again: VecDeque::new() }, exceeded)
    }

    /// Begins anew; tells whether it can, having kept all that was read.
    pub fn rewind(&mut self) -> bool {
        let Some(kept) = &self.kept else { return false };
        self.again = kept.iter().cloned().collect();
        true
    }

    fn keep(&mut self, frame: &Frame<Bytes>) {
        let Some(kept) = &mut self.kept else { return };
        let held: usize = kept.iter().map(Bytes::len).sum();
        match frame.data_ref() {
            Some(data) if held + data.len() <= MOST_KEPT && kept.len() < MOST_PIECES => {
                kept.push(data.clone());
            }
            _ => self.kept = None,
        }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = UploadError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        if let Some(data) = self.again.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
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
        self.keep(&frame);
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.again.is_empty() && self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let again = self.again.iter().map(Bytes::len).sum::<usize>() as u64;
        let coming = self.incoming.size_hint();
        let mut all = SizeHint::new();
        all.set_lower(coming.lower() + again);
        if let Some(upper) = coming.upper() {
            all.set_upper(upper + again);
        }
        all
    }
}
