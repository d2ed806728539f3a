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
//! meanwhile, so every answer tells of a fresh attempt; without jobs a probe looks from time to time whether
//! the fault has ended.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime},
};

use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{oneshot, watch};

use super::{
    job::{Decided, Decision, Job, Then, Undecided, WriteError},
    scope::{Scope, Taken},
    store::{Record, Store, StoreError},
};

/// Jobs that may wait; at it a job is refused at once.
const QUEUE_JOBS: usize = 4096;
/// Jobs of one transaction.
const BATCH_JOBS: usize = 256;
/// Bytes of records after which a transaction takes no further job.
const BATCH_BYTES: usize = 4 << 20;
/// Shortest and longest pause between a failed attempt and the next. In between it is four times
/// what the attempt took: opening a big file again reads and writes all of it.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));
/// First and longest pause between probes of an idle store that failed.
const PROBE_EVERY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(8));

/// Whether persistent data can be written, by the latest attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreHealth {
    /// The latest write worked, or none was needed yet.
    Ok,
    /// The latest write failed, or a bug made the state uncertain (then until the restart).
    Failing {
        /// When it began to fail.
        since: SystemTime,
        /// For a person: what the disk said.
        reason: String,
    },
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriterStats {
    /// Jobs that were written and applied.
    pub jobs: u64,
    /// Transactions that succeeded, one fsync each.
    pub commits: u64,
    /// Transactions that failed.
    pub failures: u64,
}

/// Starts the writer.
#[derive(Debug)]
pub struct Writer;

/// Submits jobs; cheap to clone. When the last handle goes, the queued jobs are finished and the
/// store is closed; [`WriterHandle::stop`] waits for that.
#[derive(Clone)]
pub struct WriterHandle {
    shared: Arc<Shared>,
    queue: Arc<RwLock<Option<SyncSender<Box<dyn Job>>>>>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
    finished: watch::Receiver<()>,
}

#[derive(Debug)]
struct Shared {
    health: ArcSwap<StoreHealth>,
    stopping: AtomicBool,
    /// Set for good by a panic: the health stays bad until the restart.
    bug: AtomicBool,
    jobs: AtomicU64,
    commits: AtomicU64,
    failures: AtomicU64,
}

impl Writer {
    /// Starts the thread `store-writer`, which owns `store` from now on.
    ///
    /// # Errors
    /// The operating system gives no thread.
    pub fn spawn(store: Store) -> io::Result<WriterHandle> {
        let (queue, jobs) = mpsc::sync_channel(QUEUE_JOBS);
        let (alive, finished) = watch::channel(());
        let shared = Arc::new(Shared {
            health: ArcSwap::from_pointee(StoreHealth::Ok),
            stopping: AtomicBool::new(false),
            bug: AtomicBool::new(false),
            jobs: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        });
        let run = Run { store, queue: jobs, held: None, failed: None, shared: shared.clone(), _alive: alive };
        let thread = thread::Builder::new().name("store-writer".to_owned()).spawn(|| run.run())?;
        Ok(WriterHandle {
            shared,
            queue: Arc::new(RwLock::new(Some(queue))),
            thread: Arc::new(Mutex::new(Some(thread))),
            finished,
        })
    }
}

impl WriterHandle {
    /// Queues a job at once; the future gives its answer. Dropping the future doesn't stop the job.
    ///
    /// `decide` runs on the writer thread when all earlier jobs that it could see are applied; `scope` must
    /// name everything it looks at. It refuses with its own error, or says what to write and
    /// how to apply it. Both closures should be short: every write waits for them.
    ///
    /// # Errors
    /// What `decide` says, or a [`WriteError`]: `Busy` and `Stopped` at once.
    pub fn submit<T, E, D>(
        &self,
        scope: Scope,
        decide: D,
    ) -> impl Future<Output = Result<T, E>> + Send + use<T, E, D>
    where
        T: Send + 'static,
        E: From<WriteError> + Send + 'static,
        D: FnOnce() -> Result<Decision<T>, E> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let queued = self.queue(Box::new(Undecided { scope, decide, reply }));
        async move {
            queued?;
            // No answer means that the thread is gone with its queue.
            answer.await.unwrap_or_else(|_| Err(WriteError::Stopped.into()))
        }
    }

    /// Ends with an error when the thread has ended.
    #[cfg(test)]
    pub(super) fn finished(&self) -> watch::Receiver<()> {
        self.finished.clone()
    }

    fn queue(&self, job: Box<dyn Job>) -> Result<(), WriteError> {
        let queue = self.queue.read();
        let queue = queue.as_ref().ok_or(WriteError::Stopped)?;
        queue.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => WriteError::Busy { limit: QUEUE_JOBS },
            TrySendError::Disconnected(_) => WriteError::Stopped,
        })
    }

    /// Whether writing works. Costs one atomic load.
    pub fn health(&self) -> StoreHealth {
        StoreHealth::clone(&self.shared.health.load())
    }

    /// What was done so far.
    pub fn stats(&self) -> WriterStats {
        WriterStats {
            jobs: self.shared.jobs.load(Relaxed),
            commits: self.shared.commits.load(Relaxed),
            failures: self.shared.failures.load(Relaxed),
        }
    }

    /// Refuses new jobs, waits until the queued ones are answered and the store is closed, and joins
    /// the thread. May be called by several tasks and again later.
    pub async fn stop(&self) {
        self.shared.stopping.store(true, Relaxed);
        drop(self.queue.write().take());
        if let Some(thread) = self.thread.lock().as_ref() {
            thread.thread().unpark();
        }
        // An error is the end that is waited for: the thread dropped its side.
        let _ = self.finished.clone().changed().await;
        let thread = self.thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the store's writer had panicked");
        }
    }
}

impl std::fmt::Debug for WriterHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriterHandle").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl Shared {
    fn works(&self) {
        if !self.bug.load(Relaxed) {
            self.health.store(Arc::new(StoreHealth::Ok));
        }
    }

    fn fails(&self, reason: String) {
        let since = match &**self.health.load() {
            StoreHealth::Failing { .. } if self.bug.load(Relaxed) => return,
            StoreHealth::Failing { since, .. } => *since,
            StoreHealth::Ok => SystemTime::now(),
        };
        self.health.store(Arc::new(StoreHealth::Failing { since, reason }));
    }

    /// A job panicked: what is in memory may differ from what is on disk.
    fn bug(&self) {
        self.fails("a write of persistent data panicked: restart the node".to_owned());
        self.bug.store(true, Relaxed);
    }
}

/// The thread's own state.
struct Run {
    store: Store,
    queue: Receiver<Box<dyn Job>>,
    /// Began a conflict, so it begins the next batch.
    held: Option<Box<dyn Job>>,
    /// Set from a failed attempt until one that works.
    failed: Option<Failed>,
    shared: Arc<Shared>,
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
    fn run(mut self) {
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
        for (mut job, has_records) in batch.jobs {
            match &written {
                // What needs nothing from the disk isn't stopped by it.
                Err(error) if has_records => job.fail(WriteError::Store(error.clone())),
                _ => {
                    job.apply(&|| self.shared.bug());
                    applied.push(job);
                }
            }
        }
        self.shared.jobs.fetch_add(applied.len() as u64, Relaxed);
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
            tracing::error!(reason = error.reason(), "the store can't be written");
        }
        let pause = (began.elapsed() * 4).clamp(RETRY_AFTER.0, RETRY_AFTER.1);
        self.failed = Some(Failed { retry_at: Instant::now() + pause, bytes, probe_in });
        self.shared.failures.fetch_add(1, Relaxed);
        self.shared.fails(error.reason());
    }
}
