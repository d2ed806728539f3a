//! What it costs to count a request: the counters alone, and the layer around a service that answers at once.

use std::{
    convert::Infallible,
    future::{Future, Ready, ready},
    net::SocketAddr,
    pin::pin,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use divan::{Bencher, black_box};
use http::{Request, Response, StatusCode};
use nacre::observe::requests::{Label, Requests};
use nacre_middleware::{
    Facts, V1Body, V1Response,
    collect::Routed,
    record::{RecordLayer, Recorder},
};
use tower_layer::Layer as _;
use tower_service::Service;

fn main() {
    divan::main();
}

fn requests() -> Requests {
    Requests::new([Label { method: "GET", endpoint: "/list" }])
}

/// As it is: each thread adds in memory of its own.
#[divan::bench(threads = [1, 2])]
fn count(bencher: Bencher<'_, '_>) {
    let requests = requests();
    bencher.bench(|| requests.answered(black_box(0), StatusCode::OK, black_box(Duration::from_micros(30))));
}

/// For comparison: the same two additions in memory that all threads share.
#[divan::bench(threads = [1, 2])]
fn count_in_shared_memory(bencher: Bencher<'_, '_>) {
    let counters = [AtomicU64::new(0), AtomicU64::new(0)];
    bencher.bench(|| {
        counters[0].fetch_add(1, Relaxed);
        counters[1].fetch_add(black_box(30_000), Relaxed);
    });
}

#[derive(Clone, Copy)]
struct Row;

impl Facts for Row {
    fn is_dressed(&self) -> bool {
        true
    }
    fn is_naming(&self) -> bool {
        true
    }
    fn reads_body(&self) -> bool {
        false
    }
    fn is_forwarded(&self) -> bool {
        false
    }
}

#[derive(Clone, Copy)]
struct Meter<'a>(&'a Requests);

impl Recorder<Row> for Meter<'_> {
    fn answered(&self, _: Row, status: StatusCode, started: Instant) {
        self.0.answered(0, status, started.elapsed());
    }
}

/// Answers at once, with nothing.
#[derive(Clone, Copy)]
struct Answers;

impl Service<Routed<Row, ()>> for Answers {
    type Response = V1Response;
    type Error = Infallible;
    type Future = Ready<Result<V1Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, routed: Routed<Row, ()>) -> Self::Future {
        black_box(routed);
        ready(Ok(Response::new(V1Body::default())))
    }
}

fn serve(mut service: impl Service<Routed<Row, ()>, Response = V1Response, Error = Infallible>) {
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    let answer = pin!(service.call(Routed { request: Request::new(()), peer, facts: Row }));
    assert!(black_box(answer.poll(&mut Context::from_waker(Waker::noop()))).is_ready());
}

#[divan::bench(threads = [1, 2])]
fn without_the_layer(bencher: Bencher<'_, '_>) {
    bencher.bench(|| serve(black_box(Answers)));
}

#[divan::bench(threads = [1, 2])]
fn with_the_layer(bencher: Bencher<'_, '_>) {
    let requests = requests();
    let service = RecordLayer::new(Meter(&requests)).layer(Answers);
    bencher.bench(|| serve(black_box(service.clone())));
}
