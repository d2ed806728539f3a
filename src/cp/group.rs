//! Group commit: one thread decides, writes, applies and answers, many jobs to one fsync.
//!
//! ```text
//! queue ─► decide, decide, ... until the queue is empty, a bound is met, or scopes conflict
//!       ─► one transaction, fsync ─► apply, apply, ... ─► answer, answer, ...
//! ```
//! While one batch waits for the disk the next one gathers, so the more callers, the more share
//! an fsync; a lone caller waits for nobody.
//!
//! After a failed batch the next attempt waits for [`RETRY_AFTER`], then takes all the jobs that came
//! meanwhile, so every answer tells of a fresh attempt; without jobs a probe looks from time to time
//! whether the fault has ended.

use std::{
    sync::{
        Arc,
        atomic::Ordering::Relaxed,
        mpsc::{Receiver, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use tokio::sync::watch;

use super::{
    fault::StoreError,
    job::{Decided, Job, Then, WriteError},
    record::Record,
    scope::Taken,
    status::Status,
    store::Store,
};

/// Jobs of one transaction.
const BATCH_JOBS: usize = 256;
/// Bytes of records after which a transaction takes no further job.
const BATCH_BYTES: usize = 4 << 20;
/// Shortest and longest pause between a failed attempt and the next. In between it is four times
/// what the attempt took: opening a big file again reads and writes all of it.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));
/// First and longest pause between probes of an idle store that failed.
const PROBE_EVERY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(8));

/// The thread's own state.
pub(super) struct Run {
    store: Store,
    queue: Receiver<Box<dyn Job>>,
    /// Began a conflict, so it begins the next batch.
    held: Option<Box<dyn Job>>,
    /// Set from a failed attempt until one that works.
    failed: Option<Failed>,
    shared: Arc<Status>,
    /// Dropped with the thread, however it ends.
    _alive: watch::Sender<()>,
}

struct Failed {
    retry_at: Instant,
    /// Size of what failed: a probe must succeed with as much.
    bytes: usize,
    probe_in: Duration,
}

#[derive(Default)]
struct Batch {
    records: Vec<Record>,
    bytes: usize,
    /// The second halves, and whether each has records.
    jobs: Vec<(Box<dyn Then>, bool)>,
    taken: Taken,
}

impl Drop for Run {
    fn drop(&mut self) {
        if thread::panicking() {
            self.shared.fails("the store's writer panicked: restart the node".to_owned());
        }
    }
}

impl Run {
    /// `alive` is dropped with the thread, after the store is closed.
    pub(super) fn new(
        store: Store,
        queue: Receiver<Box<dyn Job>>,
        shared: Arc<Status>,
        alive: watch::Sender<()>,
    ) -> Self {
        Self { store, queue, held: None, failed: None, shared, _alive: alive }
    }

    pub(super) fn run(mut self) {
        while let Some(job) = self.next() {
            self.pace();
            let batch = self.gather(job);
            self.commit(batch);
        }
        tracing::debug!("the store's writer ends");
    }

    /// The next job, waited for; `None` when no more will come.
    fn next(&mut self) -> Option<Box<dyn Job>> {
        loop {
            if let Some(job) = self.held.take() {
                return Some(job);
            }
            let Some(failed) = &self.failed else { return self.queue.recv().ok() };
            match self.queue.recv_timeout(failed.probe_in) {
                Ok(job) => return Some(job),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => self.probe(),
            }
        }
    }

    /// Waits until the next attempt is due after a failed one, unless the node stops.
    fn pace(&self) {
        let Some(failed) = &self.failed else { return };
        while !self.shared.stopping.load(Relaxed) {
            let rest = failed.retry_at.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return;
            }
            thread::park_timeout(rest);
        }
    }

    fn gather(&mut self, first: Box<dyn Job>) -> Batch {
        let mut batch = Batch::default();
        let mut next = Some(first);
        while batch.jobs.len() < BATCH_JOBS && batch.bytes < BATCH_BYTES {
            let Some(job) = next.take().or_else(|| self.queue.try_recv().ok()) else { break };
            if batch.taken.conflicts(job.scope()) {
                self.held = Some(job);
                break;
            }
            if let Some(Decided { records, scope, then }) = job.decide(&|| self.shared.bug()) {
                batch.taken.take(&scope);
                batch.bytes += records.iter().map(Record::bytes).sum::<usize>();
                batch.jobs.push((then, !records.is_empty()));
                batch.records.extend(records);
            }
        }
        batch
    }

    fn commit(&mut self, batch: Batch) {
        let written = if batch.records.is_empty() { Ok(()) } else { self.write(&batch) };
        let mut applied = Vec::with_capacity(batch.jobs.len());
        let mut written_jobs = 0;
        for (mut job, has_records) in batch.jobs {
            match &written {
                // What needs nothing from the disk isn't stopped by it.
                Err(error) if has_records => job.fail(WriteError::Store(error.clone())),
                _ => {
                    job.apply(&|| self.shared.bug());
                    written_jobs += u64::from(has_records);
                    applied.push(job);
                }
            }
        }
        self.shared.jobs.fetch_add(written_jobs, Relaxed);
        applied.into_iter().for_each(Then::answer);
    }

    fn write(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let began = Instant::now();
        let outcome = self.store.write(&batch.records);
        match &outcome {
            Ok(()) => {
                self.shared.commits.fetch_add(1, Relaxed);
                self.works();
            }
            Err(error) => self.fails(error, began, batch.bytes, PROBE_EVERY.0),
        }
        outcome
    }

    /// Without jobs nobody else would notice that the fault has ended.
    fn probe(&mut self) {
        let Some(Failed { bytes, probe_in, .. }) = self.failed else { return };
        let began = Instant::now();
        match self.store.probe(bytes) {
            Ok(()) => self.works(),
            Err(error) => self.fails(&error, began, bytes, (probe_in * 2).min(PROBE_EVERY.1)),
        }
    }

    fn works(&mut self) {
        if self.failed.take().is_some() {
            tracing::info!("the store can be written again");
            self.shared.works();
        }
    }

    fn fails(&mut self, error: &StoreError, began: Instant, bytes: usize, probe_in: Duration) {
        if self.failed.is_none() {
            tracing::error!(
                reason = error.reason(),
                "the store can't be written: persistent changes are answered 500 until it can"
            );
        }
        let pause = (began.elapsed() * 4).clamp(RETRY_AFTER.0, RETRY_AFTER.1);
        self.failed = Some(Failed { retry_at: Instant::now() + pause, bytes, probe_in });
        self.shared.failures.fetch_add(1, Relaxed);
        self.shared.fails(error.reason());
    }
}
