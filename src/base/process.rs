//! What this process takes of the machine, read from `/proc/self`.
//!
//! Source: the kernel's documented formats of `/proc/self/status`, `/proc/self/stat` and `/proc/self/fd`.

use std::{fs, time::Duration};

/// Processor time in `/proc` counts in ticks of this many a second; Linux has shown no other number to programs
/// since there is `/proc`.
const TICKS_PER_SECOND: u64 = 100;

/// One reading; nothing where `/proc` doesn't say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Memory that is in use and not swapped out, in bytes.
    pub resident_bytes: Option<u64>,
    /// Open files, connections included.
    pub open_files: Option<u64>,
    /// Time on processors since the start, of all threads.
    pub processor_time: Option<Duration>,
}

impl Usage {
    /// Reads it. Costs some tens of microseconds, and more with many open files.
    #[must_use]
    pub fn read() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let files = fs::read_dir("/proc/self/fd").ok();
        Self {
            resident_bytes: resident_bytes(&read("/proc/self/status")),
            // The folder itself is open while it is read.
            open_files: files.map(|files| files.count().saturating_sub(1) as u64),
            processor_time: processor_time(&read("/proc/self/stat")),
        }
    }
}

/// The line `VmRSS:    1234 kB`.
fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The fields 14 and 15, `utime` and `stime`; the second field is a name in parentheses that may hold anything.
fn processor_time(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split_ascii_whitespace().skip(11).map(|field| field.parse::<u64>().ok());
    let ticks = fields.next()??.checked_add(fields.next()??)?;
    Some(Duration::from_millis(ticks.checked_mul(1_000 / TICKS_PER_SECOND)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_kibibytes() {
        assert_eq!(resident_bytes("Name:\tnacre\nVmRSS:\t   12 kB\nThreads:\t3\n"), Some(12_288));
        assert_eq!(resident_bytes("VmRSS:\t12\n"), None);
        assert_eq!(resident_bytes(""), None);
    }

    #[test]
    fn processor_time_is_read_behind_any_name() {
        let stat = "7 (a) b 1) S 1 7 7 0 -1 4194304 100 0 0 0 150 50 0 0 20 0 3 0 99 1000 10";
        assert_eq!(processor_time(stat), Some(Duration::from_secs(2)));
        assert_eq!(processor_time("7 (nacre) S 1"), None);
        assert_eq!(processor_time(""), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_all_of_them() {
        let usage = Usage::read();
        assert!(usage.resident_bytes > Some(100_000) && usage.open_files >= Some(3), "{usage:?}");
        assert!(usage.processor_time.is_some());
    }
}
