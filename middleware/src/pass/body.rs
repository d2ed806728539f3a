//! The body of a request on its way: read as the server takes it, and given back if nobody has read it.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::Request;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::{sync::oneshot, time::Instant};

use crate::pool::Upload;

/// What hyper sends in the place of a client's body.
pub struct Sending<B> {
    body: Option<Reading<B>>,
}

struct Reading<B> {
    body: B,
    shared: Arc<Shared>,
    /// Where it goes when hyper has done with it.
    way_back: oneshot::Sender<Returned<B>>,
    was_read: bool,
}

/// A body that hyper has done with.
pub(super) struct Returned<B> {
    pub body: B,
    /// Somebody has asked for its bytes.
    pub was_read: bool,
}

/// Stays with whoever has the exchange in hand.
pub(super) enum Lent<B> {
    /// An empty body wasn't lent at all.
    Empty(Mutex<Option<B>>),
    Full {
        shared: Arc<Shared>,
        returned: Mutex<oneshot::Receiver<Returned<B>>>,
    },
}

/// How far the body is.
pub(super) struct Shared {
    start: Instant,
    /// Milliseconds from `start` to the last piece.
    moved_ms: AtomicU64,
    has_ended: AtomicBool,
    waits_for_client: AtomicBool,
    is_broken: AtomicBool,
}

impl Shared {
    fn moves(&self) {
        let passed = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.moved_ms.store(passed, Relaxed);
    }

    /// When the last piece went.
    pub fn moved(&self) -> Instant {
        self.start + Duration::from_millis(self.moved_ms.load(Relaxed))
    }

    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Relaxed)
    }

    /// The server would take more than there is.
    pub fn waits_for_client(&self) -> bool {
        self.waits_for_client.load(Relaxed)
    }

    /// The client's part broke off.
    pub fn is_broken(&self) -> bool {
        self.is_broken.load(Relaxed)
    }
}

impl<B: Body> Sending<B> {
    pub(super) fn new(body: B) -> (Self, Lent<B>) {
        if body.is_end_stream() {
            return (Self { body: None }, Lent::Empty(Mutex::new(Some(body))));
        }
        let shared = Arc::new(Shared {
            start: Instant::now(),
            moved_ms: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
            waits_for_client: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
        });
        let (way_back, returned) = oneshot::channel();
        let reading = Reading { body, shared: Arc::clone(&shared), way_back, was_read: false };
        (Self { body: Some(reading) }, Lent::Full { shared, returned: Mutex::new(returned) })
    }

    /// How many bytes it has, if it says so.
    pub(super) fn length(&self) -> Option<u64> {
        self.body.as_ref().map_or(Some(0), |reading| reading.body.size_hint().exact())
    }
}

impl<B> Sending<B> {
    /// Takes the client's body out, if nobody has read of it.
    fn take(&mut self) -> Option<B> {
        let reading = self.body.take()?;
        (!reading.was_read).then_some(reading.body)
    }
}

impl<B> Drop for Sending<B> {
    fn drop(&mut self) {
        if let Some(Reading { body, way_back, was_read, .. }) = self.body.take() {
            // Mostly nobody waits for it any more.
            let _ = way_back.send(Returned { body, was_read });
        }
    }
}

impl<B> Lent<B> {
    pub fn shared(&self) -> Option<&Shared> {
        match self {
            Self::Empty(_) => None,
            Self::Full { shared, .. } => Some(shared),
        }
    }

    pub fn into_shared(self) -> super::SharedUpload {
        match self {
            Self::Empty(_) => None,
            Self::Full { shared, .. } => Some(shared),
        }
    }

    /// The body, if hyper has done with it, or has within `limit`.
    pub async fn returned(&self, limit: Duration) -> Option<Returned<B>> {
        let returned = match self {
            Self::Empty(body) => return body.lock().take().map(|body| Returned { body, was_read: false }),
            Self::Full { returned, .. } => returned,
        };
        if limit.is_zero() {
            return returned.lock().try_recv().ok();
        }
        let coming = std::future::poll_fn(|cx| Pin::new(&mut *returned.lock()).poll(cx));
        tokio::time::timeout(limit, coming).await.ok()?.ok()
    }

    fn take_unread(&self) -> Option<B> {
        match self {
            Self::Empty(body) => body.lock().take(),
            Self::Full { returned, .. } => returned
                .lock()
                .try_recv()
                .ok()
                .filter(|returned| !returned.was_read)
                .map(|returned| returned.body),
        }
    }

    /// The request that was never written, with its own body.
    pub fn take_back(&self, request: Request<Sending<B>>) -> Request<B> {
        request.map(|mut sending| {
            let body = sending.take().or_else(|| self.take_unread());
            body.expect("nobody reads a body before its head is written")
        })
    }
}

impl<B: Upload> Body for Sending<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let Some(Reading { body, shared, was_read, .. }) = &mut self.body else { return Poll::Ready(None) };
        *was_read = true;
        if !shared.waits_for_client.load(Relaxed) {
            // The server has taken what it had: from here on it is the client's time.
            shared.moves();
            shared.waits_for_client.store(true, Relaxed);
        }
        let frame = ready!(Pin::new(&mut *body).poll_frame(cx));
        shared.moves();
        shared.waits_for_client.store(false, Relaxed);
        match &frame {
            None => shared.has_ended.store(true, Relaxed),
            Some(Ok(_)) if body.is_end_stream() => shared.has_ended.store(true, Relaxed),
            Some(Ok(_)) => {}
            Some(Err(_)) => shared.is_broken.store(true, Relaxed),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(|reading| reading.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), |reading| reading.body.size_hint())
    }
}
