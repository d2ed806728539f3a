//! How fast kept writes are sent: no faster than requests came before the outage.
//!
//! Pure. So a cluster that comes back gets no more than twice what it is used to. Source: ours.

use std::time::Duration;

use crate::base::clock::Millis;

/// Requests a second that any cluster can take.
const LEAST: f64 = 20.0;
/// What the latest second counts for in the usual rate.
const SHARE: f64 = 0.1;
const SECOND_MS: u64 = 1_000;

/// Requests a second, as they usually come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    usual: Option<f64>,
    count: u32,
    /// When the second began that is being counted.
    since: Option<Millis>,
}

impl Pace {
    /// The cluster has answered a client's request.
    pub fn note(&mut self, now: Millis) {
        let since = *self.since.get_or_insert(now);
        let elapsed = now.since(since);
        if elapsed >= SECOND_MS {
            let latest = f64::from(self.count) * 1_000.0 / Duration::from_millis(elapsed).as_millis() as f64;
            self.usual = Some(self.usual.map_or(latest, |usual| usual + SHARE * (latest - usual)));
            self.count = 0;
            self.since = Some(now);
        }
        self.count += 1;
    }

    /// An outage begins: what doesn't come now says nothing of what is usual.
    pub fn pause(&mut self) {
        self.count = 0;
        self.since = None;
    }

    /// From one kept write to the next.
    #[must_use]
    pub fn gap(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.usual.unwrap_or_default().max(LEAST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests in this distance, from the first time to the second.
    fn steady(pace: &mut Pace, from_ms: u64, to_ms: u64, every_ms: u64) {
        let mut now = from_ms;
        while now < to_ms {
            pace.note(Millis(now));
            now += every_ms;
        }
    }

    #[test]
    fn kept_writes_go_as_fast_as_requests_came() {
        let mut pace = Pace::default();
        steady(&mut pace, 0, 20_000, 5);
        assert_eq!(pace.gap(), Duration::from_millis(5));
    }

    #[test]
    fn where_few_requests_came_it_is_a_rate_that_harms_nobody() {
        let mut pace = Pace::default();
        assert_eq!(pace.gap(), Duration::from_millis(50));
        steady(&mut pace, 0, 20_000, 1_000);
        assert_eq!(pace.gap(), Duration::from_millis(50));
    }

    #[test]
    fn an_outage_does_not_make_the_usual_rate_lower() {
        let mut pace = Pace::default();
        steady(&mut pace, 0, 10_000, 10);
        pace.pause();
        pace.note(Millis(600_000));
        pace.note(Millis(600_010));
        assert_eq!(pace.gap(), Duration::from_millis(10));
    }

    #[test]
    fn one_busy_second_is_not_usual() {
        let mut pace = Pace::default();
        steady(&mut pace, 0, 10_000, 10);
        for _ in 0..1_000 {
            pace.note(Millis(10_000));
        }
        pace.note(Millis(11_000));
        assert!(pace.gap() > Duration::from_millis(5), "{:?}", pace.gap());
    }
}
