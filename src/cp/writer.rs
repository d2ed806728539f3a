//! Where jobs are submitted: a bounded queue to the one thread that writes (see [`group`](super::group)).

use std::{
    io,
    sync::{
        Arc,
        atomic::Ordering::Relaxed,
        mpsc::{self, SyncSender, TrySendError},
    },
    thread::{self, JoinHandle},
};

use parking_lot::{Mutex, RwLock};
use tokio::sync::{oneshot, watch};

use super::{
    group::Run,
    job::{Decision, Job, Undecided, WriteError},
    scope::Scope,
    status::{Status, StoreHealth, WriterStats},
    store::Store,
};

/// Jobs that may wait; at it a job is refused at once.
const QUEUE_JOBS: usize = 4096;
type Queue = SyncSender<Box<dyn Job>>;

/// Starts the writer.
#[derive(Debug)]
pub struct Writer;

/// Submits jobs; cheap to clone. When the last handle goes, the queued jobs are finished and the
/// store is closed; [`WriterHandle::stop`] waits for that.
#[derive(Clone)]
pub struct WriterHandle {
    shared: Arc<Status>,
    /// `None` once it is stopped: the thread ends when it has emptied the queue.
    queue: Arc<RwLock<Option<Queue>>>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
    finished: watch::Receiver<()>,
}

impl Writer {
    /// Starts the thread `store-writer`, which owns `store` from now on.
    ///
    /// # Errors
    /// The operating system gives no thread.
    pub fn spawn(store: Store) -> io::Result<WriterHandle> {
        let (queue, jobs) = mpsc::sync_channel(QUEUE_JOBS);
        let (alive, finished) = watch::channel(());
        let shared = Arc::new(Status::default());
        let run = Run::new(store, jobs, shared.clone(), alive);
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
        self.shared.stats()
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
