//! Counts and times of answers, by route.
//!
//! Called for every request: an answer costs two relaxed additions in memory that its thread doesn't share. Which
//! label set an answer belongs to is the number of its route; texts are only looked at when somebody reads.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use http::{Method, StatusCode};

use super::sharded::Sharded;

/// Upper bounds of the buckets of durations, in seconds; one more bucket holds what took longer.
pub const BOUNDS: [f64; 8] = [0.000_1, 0.000_5, 0.001, 0.005, 0.025, 0.1, 0.5, 2.5];
const BOUNDS_NS: [u64; 8] =
    [100_000, 500_000, 1_000_000, 5_000_000, 25_000_000, 100_000_000, 500_000_000, 2_500_000_000];
const BUCKETS: usize = BOUNDS.len() + 1;

/// Classes of statuses as labels.
pub const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// The label set of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// `any` where the method makes no difference.
    pub method: &'static str,
    /// Path of the route, without the context path.
    pub endpoint: &'static str,
}

impl Label {
    /// The label set of this route.
    #[must_use]
    pub fn of(method: &'static Method, endpoint: &'static str) -> Self {
        Self { method: method.as_str(), endpoint }
    }
}

/// What was answered on one route.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Answers {
    by_class_and_bucket: [[AtomicU64; BUCKETS]; CLASSES.len()],
    nanoseconds: AtomicU64,
}

/// Counters of all routes.
#[derive(Debug)]
pub struct Requests {
    labels: Box<[Label]>,
    routes: Sharded<Box<[Answers]>>,
}

/// What was answered on one route so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Which route.
    pub label: Label,
    /// Count by class of status, as in [`CLASSES`].
    pub by_class: [u64; CLASSES.len()],
    /// Count by duration: up to each of [`BOUNDS`], then what took longer; not summed up.
    pub by_bucket: [u64; BUCKETS],
    /// All durations together.
    pub took: Duration,
}

impl Requests {
    /// Counters of the routes with these labels, which must be distinct; a route is its place among them.
    #[must_use]
    pub fn new(labels: impl IntoIterator<Item = Label>) -> Self {
        let labels: Box<[Label]> = labels.into_iter().collect();
        let routes = Sharded::new(|| labels.iter().map(|_| Answers::default()).collect());
        Self { labels, routes }
    }

    /// Counts an answer of a route; one that isn't known is not counted.
    pub fn answered(&self, route: usize, status: StatusCode, took: Duration) {
        let Some(answers) = self.routes.own().get(route) else { return };
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let class = usize::from(status.as_u16() / 100).clamp(1, CLASSES.len()) - 1;
        answers.by_class_and_bucket[class][bucket(nanoseconds)].fetch_add(1, Relaxed);
        answers.nanoseconds.fetch_add(nanoseconds, Relaxed);
    }

    /// What was answered on each route that answered anything.
    #[must_use]
    pub fn read(&self) -> Vec<Answered> {
        let all = self.labels.iter().enumerate().map(|(route, &label)| self.read_route(route, label));
        all.filter(|answered| answered.by_bucket.iter().any(|&count| count > 0)).collect()
    }

    fn read_route(&self, route: usize, label: Label) -> Answered {
        let mut answered =
            Answered { label, by_class: [0; CLASSES.len()], by_bucket: [0; BUCKETS], took: Duration::ZERO };
        for (class, of_class) in answered.by_class.iter_mut().enumerate() {
            for (bucket, of_bucket) in answered.by_bucket.iter_mut().enumerate() {
                let count =
                    self.routes.sum(|routes| routes[route].by_class_and_bucket[class][bucket].load(Relaxed));
                *of_class += count;
                *of_bucket += count;
            }
        }
        let nanoseconds = self.routes.sum(|routes| routes[route].nanoseconds.load(Relaxed));
        Answered { took: Duration::from_nanos(nanoseconds), ..answered }
    }
}

fn bucket(nanoseconds: u64) -> usize {
    BOUNDS_NS.iter().position(|&bound| nanoseconds <= bound).unwrap_or(BOUNDS_NS.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: Label = Label { method: "GET", endpoint: "/list" };
    const BEAT: Label = Label { method: "PUT", endpoint: "/beat" };

    #[test]
    fn answers_count_by_class_and_duration() {
        let requests = Requests::new([LIST, BEAT]);
        let note = |status: u16, took: Duration| {
            requests.answered(1, StatusCode::from_u16(status).unwrap(), took);
        };
        note(200, Duration::from_micros(100));
        note(204, Duration::from_nanos(100_001));
        note(404, Duration::from_secs(3));
        let answered = requests.read();
        assert_eq!(answered.len(), 1);
        assert_eq!(answered[0].label, BEAT);
        assert_eq!(answered[0].by_class, [0, 2, 0, 1, 0]);
        assert_eq!(answered[0].by_bucket, [1, 1, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(answered[0].took, Duration::from_nanos(3_000_200_001));
    }

    #[test]
    fn nothing_is_lost_among_threads() {
        let requests = Requests::new([LIST]);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        requests.answered(0, StatusCode::OK, Duration::ZERO);
                    }
                });
            }
        });
        assert_eq!(requests.read()[0].by_class[1], 8_000);
    }

    #[test]
    fn odd_statuses_and_unknown_routes_harm_nobody() {
        let requests = Requests::new([LIST]);
        requests.answered(0, StatusCode::from_u16(999).unwrap(), Duration::MAX);
        requests.answered(7, StatusCode::OK, Duration::ZERO);
        let answered = requests.read();
        assert_eq!((answered.len(), answered[0].by_class), (1, [0, 0, 0, 0, 1]));
    }

    #[test]
    fn the_bounds_agree() {
        for (seconds, nanoseconds) in BOUNDS.iter().zip(BOUNDS_NS) {
            assert_eq!(Duration::from_secs_f64(*seconds), Duration::from_nanos(nanoseconds));
        }
    }
}
