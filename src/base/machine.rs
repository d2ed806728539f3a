//! How busy the machine is, read from `/proc`.
//!
//! What `GET /operator/metrics` shows as `cpu`, `load` and `mem`. Where `/proc` can't be read the values are -1, as
//! in Java. Source: the kernel's documented formats of `/proc/stat`, `/proc/loadavg` and `/proc/meminfo`.

use std::fs;

use parking_lot::Mutex;

use super::clock::Millis;

/// A reading is kept for so long, in milliseconds, so that asking often costs nothing.
const KEPT_MS: u64 = 1_000;

/// What isn't known.
const UNKNOWN: f32 = -1.0;

/// One reading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Busyness {
    /// Share of the processors' time that wasn't idle since the reading before, 0 to 1.
    pub cpu: f32,
    /// Average count of tasks that ran or waited to run in the last minute.
    pub load: f32,
    /// Share of the memory that isn't available, 0 to 1.
    pub mem: f32,
}

/// Reads at most once a second.
#[derive(Debug, Default)]
pub struct Machine(Mutex<Option<Reading>>);

#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Millis,
    times: Times,
    shown: Busyness,
}

/// Processor time since the machine started, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Times {
    all: u64,
    idle: u64,
}

impl Machine {
    /// How busy it is; the first reading covers the time since the machine started.
    pub fn busyness(&self, now: Millis) -> Busyness {
        let mut last = self.0.lock();
        if let Some(reading) = last.filter(|reading| now.since(reading.at) < KEPT_MS) {
            return reading.shown;
        }
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let times = processor_times(&read("/proc/stat"));
        let before = last.map(|reading| reading.times).unwrap_or_default();
        let shown = Busyness {
            cpu: times.map_or(UNKNOWN, |times| busy_share(before, times)),
            load: load_average(&read("/proc/loadavg")).unwrap_or(UNKNOWN),
            mem: memory_share(&read("/proc/meminfo")).unwrap_or(UNKNOWN),
        };
        *last = Some(Reading { at: now, times: times.unwrap_or_default(), shown });
        shown
    }
}

/// The first line of `/proc/stat`: `cpu user nice system idle iowait ...`.
fn processor_times(stat: &str) -> Option<Times> {
    let mut words = stat.lines().next()?.split_ascii_whitespace();
    if words.next() != Some("cpu") {
        return None;
    }
    // Guest time, from the ninth on, is part of user time already.
    let ticks: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
    let idle = ticks.get(3)? + ticks.get(4).copied().unwrap_or(0);
    Some(Times { all: ticks.iter().sum(), idle })
}

#[expect(clippy::cast_precision_loss, reason = "a share needs no more digits")]
fn busy_share(before: Times, now: Times) -> f32 {
    let all = now.all.saturating_sub(before.all);
    let idle = now.idle.saturating_sub(before.idle).min(all);
    if all == 0 { 0.0 } else { (all - idle) as f32 / all as f32 }
}

fn load_average(text: &str) -> Option<f32> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

#[expect(clippy::cast_precision_loss, reason = "a share needs no more digits")]
fn memory_share(meminfo: &str) -> Option<f32> {
    let value = |name: &str| -> Option<u64> {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_ascii_whitespace().next()?.parse().ok()
    };
    let (total, available) = (value("MemTotal")?, value("MemAvailable")?);
    (total > 0).then(|| total.saturating_sub(available) as f32 / total as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busy_share_is_of_the_time_since_the_reading_before() {
        let before = processor_times("cpu  10 0 10 70 10 0 0 0 5 5\ncpu0 1 1 1 1\n").unwrap();
        assert_eq!(before, Times { all: 100, idle: 80 });
        let now = processor_times("cpu  40 0 10 130 20 0 0 0 0 0\n").unwrap();
        assert!((busy_share(before, now) - 0.3).abs() < 1e-6);
        assert!((busy_share(Times::default(), before) - 0.2).abs() < 1e-6);
        assert!(busy_share(now, now).abs() < 1e-6);
        assert_eq!(processor_times(""), None);
        assert_eq!(processor_times("cpu x"), None);
    }

    #[test]
    fn load_and_memory_are_read() {
        assert_eq!(load_average("9.93 8.00 7.00 3/500 1234\n"), Some(9.93));
        assert_eq!(load_average(""), None);
        let text = "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    400 kB\n";
        assert_eq!(memory_share(text), Some(0.6));
        assert_eq!(memory_share("MemTotal: 1000 kB\n"), None);
    }

    #[test]
    fn a_reading_is_kept_for_a_second() {
        let machine = Machine::default();
        let first = machine.busyness(Millis(10_000));
        assert_eq!(machine.busyness(Millis(10_999)), first);
        let at = |machine: &Machine| machine.0.lock().map(|reading| reading.at);
        assert_eq!(at(&machine), Some(Millis(10_000)));
        machine.busyness(Millis(11_000));
        assert_eq!(at(&machine), Some(Millis(11_000)));
    }
}
