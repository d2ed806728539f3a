//! Tells a recorder about every answer: route, status, time taken.
//!
//! Place in the stack: outermost, so that refusals of other layers are counted as well. The recorder must be cheap:
//! it is called for every request.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Instant,
};

use http::StatusCode;
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::{Facts, V1Response, collect::Routed};

/// Takes note of answers.
pub trait Recorder<F>: Clone {
    /// `started` is when the head had been read.
    fn answered(&self, facts: F, status: StatusCode, started: Instant);
}

/// Adds [`Record`] to a stack.
#[derive(Clone, Debug)]
pub struct RecordLayer<R> {
    recorder: R,
}

impl<R> RecordLayer<R> {
    /// Tells `recorder`.
    pub fn new(recorder: R) -> Self {
        Self { recorder }
    }
}

impl<S, R: Clone> Layer<S> for RecordLayer<R> {
    type Service = Record<S, R>;

    fn layer(&self, inner: S) -> Self::Service {
        Record { inner, recorder: self.recorder.clone() }
    }
}

/// Passes everything on and tells the recorder about the answer.
#[derive(Clone, Debug)]
pub struct Record<S, R> {
    inner: S,
    recorder: R,
}

impl<S, R, F, B> Service<Routed<F, B>> for Record<S, R>
where
    S: Service<Routed<F, B>, Response = V1Response, Error = Infallible>,
    R: Recorder<F>,
    F: Facts,
{
    type Response = V1Response;
    type Error = Infallible;
    type Future = RecordFuture<S::Future, R, F>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, routed: Routed<F, B>) -> Self::Future {
        let (facts, started, recorder) = (routed.facts, Instant::now(), self.recorder.clone());
        RecordFuture { inner: self.inner.call(routed), recorder, facts, started }
    }
}

pin_project! {
    /// The inner answer, after the recorder has been told.
    pub struct RecordFuture<S, R, F> {
        #[pin]
        inner: S,
        recorder: R,
        facts: F,
        started: Instant,
    }
}

impl<S, R, F> Future for RecordFuture<S, R, F>
where
    S: Future<Output = Result<V1Response, Infallible>>,
    R: Recorder<F>,
    F: Facts,
{
    type Output = Result<V1Response, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.inner.poll(cx));
        if let Ok(response) = &answer {
            this.recorder.answered(*this.facts, response.status(), *this.started);
        }
        Poll::Ready(answer)
    }
}
