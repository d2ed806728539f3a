//! What is submitted to the writer: a decision made when its turn comes, applied when it is durable.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::oneshot;

use super::{fault::StoreError, record::Record, scope::Scope};

/// What a job wants written, and what follows once that is on disk.
pub struct Decision<T> {
    records: Vec<Record>,
    apply: Apply<T>,
}

type Apply<T> = Box<dyn FnOnce() -> T + Send>;

impl<T> Decision<T> {
    /// `records` may be empty: then nothing needs the disk, and the job succeeds even while it is full.
    ///
    /// `apply` runs on the writer thread, after `records` are durable and after the `apply` of all
    /// earlier jobs; it must not fail, and what it returns is the answer.
    pub fn new(records: Vec<Record>, apply: impl FnOnce() -> T + Send + 'static) -> Self {
        Self { records, apply: Box::new(apply) }
    }
}

impl<T> std::fmt::Debug for Decision<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decision").field("records", &self.records.len()).finish_non_exhaustive()
    }
}

/// Why a job wasn't done. Nothing of it was applied, except after [`WriteError::Panicked`].
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// Too many jobs wait: try again a little later (503).
    #[error("{limit} writes of persistent data are waiting already; try again")]
    Busy {
        /// Jobs that the queue holds.
        limit: usize,
    },

    /// The node is stopping (503).
    #[error("the node is stopping and takes no more writes of persistent data")]
    Stopped,

    /// The node has members, which wouldn't hear of it (503).
    #[error(
        "persistent instances, services, clusters and namespaces can't be changed in a cluster: this version keeps \
         them on one node only; register instances with ephemeral=true, and what must be persistent with a node that serves \
         alone (nacos.standalone=true)"
    )]
    Members,

    /// The disk didn't take it (500); works again when the fault is gone.
    #[error("the change wasn't made: {}", .0.reason())]
    Store(StoreError),

    /// A bug: deciding or applying panicked (500). If it was applying, the change is on disk and
    /// shows after a restart. The health says so until then.
    #[error("an internal error; whether the change was made is uncertain")]
    Panicked,
}

/// A submitted job, as the writer thread sees it.
pub(super) trait Job: Send {
    fn scope(&self) -> &Scope;
    /// Decides. `None` if it was refused, or panicked (then `on_panic` is called first): it is answered.
    fn decide(self: Box<Self>, on_panic: &dyn Fn()) -> Option<Decided>;
}

/// A job whose records wait for the disk.
pub(super) struct Decided {
    pub(super) records: Vec<Record>,
    pub(super) scope: Scope,
    pub(super) then: Box<dyn Then>,
}

/// The second half of a job; exactly one of `fail` and (`apply`, then `answer`) is called.
pub(super) trait Then: Send {
    fn apply(&mut self, on_panic: &dyn Fn());
    fn answer(self: Box<Self>);
    fn fail(self: Box<Self>, error: WriteError);
}

type Reply<T, E> = oneshot::Sender<Result<T, E>>;

pub(super) struct Undecided<T, E, D> {
    pub(super) scope: Scope,
    pub(super) decide: D,
    pub(super) reply: Reply<T, E>,
}

impl<T, E, D> Job for Undecided<T, E, D>
where
    T: Send + 'static,
    E: From<WriteError> + Send + 'static,
    D: FnOnce() -> Result<Decision<T>, E> + Send,
{
    fn scope(&self) -> &Scope {
        &self.scope
    }

    fn decide(self: Box<Self>, on_panic: &dyn Fn()) -> Option<Decided> {
        let Self { scope, decide, reply } = *self;
        let refusal = match catch_unwind(AssertUnwindSafe(decide)) {
            Ok(Ok(Decision { records, apply })) => {
                let then = Box::new(Applicable { apply: Some(apply), answer: None, reply });
                return Some(Decided { records, scope, then });
            }
            Ok(Err(refusal)) => refusal,
            Err(_) => {
                on_panic();
                WriteError::Panicked.into()
            }
        };
        // Nobody may listen any more; then the refusal is of no interest.
        let _ = reply.send(Err(refusal));
        None
    }
}

struct Applicable<T, E> {
    apply: Option<Apply<T>>,
    answer: Option<T>,
    reply: Reply<T, E>,
}

impl<T: Send, E: From<WriteError> + Send> Then for Applicable<T, E> {
    fn apply(&mut self, on_panic: &dyn Fn()) {
        let Some(apply) = self.apply.take() else { return };
        self.answer = catch_unwind(AssertUnwindSafe(apply)).map_err(|_| on_panic()).ok();
    }

    fn answer(self: Box<Self>) {
        // The caller may have gone; the job is done all the same.
        let _ = self.reply.send(self.answer.ok_or_else(|| WriteError::Panicked.into()));
    }

    fn fail(self: Box<Self>, error: WriteError) {
        let _ = self.reply.send(Err(error.into()));
    }
}
