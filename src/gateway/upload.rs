//! A request's body on its way to a legacy server, which its client must not send too slowly.
//!
//! Whoever sends a byte now and then holds a connection, and a place among the requests under way, for as long as it likes.
//! So the time in which the client is waited for is counted, and must be paid for in bytes beyond its patience; silence is
//! bounded by whoever passes the body on. Source: ours.

use std::{
    error::Error,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;

/// Bytes a second that a client must send beyond its patience, as it must take of an answer.
const LEAST_RATE: u64 = 64 << 10;

/// The client sends too slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client sends too slowly")]
pub struct TooSlow;

/// A body that must come fast enough.
pub struct Paced<B> {
    body: B,
    patience: Duration,
    bytes: u64,
    waited: Duration,
    /// Since when the client is being waited for.
    waits_since: Option<Instant>,
    is_slow: Slow,
}

/// Tells whether a body came too slowly.
#[derive(Clone, Debug, Default)]
pub struct Slow(Arc<AtomicBool>);

impl Slow {
    /// It ended for that.
    pub fn is_it(&self) -> bool {
        self.0.load(Relaxed)
    }
}

impl<B> Paced<B> {
    /// The client may be waited for as long as `patience` in all, and longer by as much as its bytes pay for.
    pub fn new(body: B, patience: Duration) -> (Self, Slow) {
        let is_slow = Slow::default();
        let (bytes, waited, waits_since) = (0, Duration::ZERO, None);
        (Self { body, patience, bytes, waited, waits_since, is_slow: is_slow.clone() }, is_slow)
    }
}

impl<B> Body for Paced<B>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin,
{
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        let since = *this.waits_since.get_or_insert_with(Instant::now);
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        this.waited += since.elapsed();
        this.waits_since = None;
        if let Some(Ok(frame)) = &frame {
            this.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
            if this.waited > this.patience + Duration::from_millis(this.bytes * 1_000 / LEAST_RATE) {
                this.is_slow.0.store(true, Relaxed);
                return Poll::Ready(Some(Err(TooSlow.into())));
            }
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::StreamExt as _;
    use http_body_util::{BodyExt as _, StreamBody};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    /// How long a body is read that comes in pieces of this many bytes, one in each so much time; nothing where that is
    /// to its end.
    async fn cut_after(pieces: usize, bytes: usize, every: Duration) -> Option<Duration> {
        let pieces = futures_util::stream::iter(0..pieces).then(move |_| async move {
            tokio::time::sleep(every).await;
            Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b'x'; bytes])))
        });
        let (body, slow) = Paced::new(StreamBody::new(Box::pin(pieces)), PATIENCE);
        let started = Instant::now();
        let outcome = body.collect().await;
        assert_eq!(outcome.is_err(), slow.is_it());
        outcome.is_err().then(|| started.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_trickle_ends_before_it_has_had_twice_its_patience() {
        let cut = cut_after(1_000, 1, PATIENCE.mul_f64(0.9)).await.unwrap();
        assert!(cut > PATIENCE && cut < PATIENCE * 2, "{cut:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_slow_but_sends_goes_on_and_so_does_who_is_quick() {
        assert_eq!(cut_after(100, 128 << 10, Duration::from_secs(2)).await, None);
        assert_eq!(cut_after(1_000, 1, Duration::from_millis(1)).await, None);
        let cut = cut_after(100, 32 << 10, Duration::from_secs(2)).await.unwrap();
        assert!(cut > PATIENCE, "{cut:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_which_nobody_reads_is_not_the_clients() {
        let pieces =
            futures_util::stream::iter([1, 2, 3]).map(|_| Ok::<_, Infallible>(Frame::data("x".into())));
        let (mut body, slow) = Paced::new(StreamBody::new(pieces), PATIENCE);
        for _ in 0..3 {
            body.frame().await.unwrap().unwrap();
            tokio::time::sleep(PATIENCE * 2).await;
        }
        assert!(!slow.is_it());
    }
}
