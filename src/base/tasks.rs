//! Tasks in the background, each with a name and an owner who learns how it ended.
//!
//! A task that ends although nobody told it to, by a panic for one, leaves a server that looks well and no longer does
//! a part of its work. Its owner waits in [`Tasks::failed`] for that, and for all of them in [`Tasks::ended`].

use std::{any::Any, collections::HashMap, future};

use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

/// A task that didn't end as it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// It panicked.
    #[error("the task {task} panicked: {reason}")]
    Panicked {
        /// Its name.
        task: &'static str,
        /// What the panic said.
        reason: String,
    },
    /// It ended before it was told to.
    #[error("the task {task} ended before it was told to")]
    Ended {
        /// Its name.
        task: &'static str,
    },
}

/// The tasks of one owner; those that still run when it is dropped are aborted.
#[derive(Debug)]
pub struct Tasks {
    stopped: CancellationToken,
    running: JoinSet<()>,
    names: HashMap<Id, &'static str>,
}

impl Tasks {
    /// No task yet; all of them must end when `stopped` is cancelled, and not before.
    #[must_use]
    pub fn new(stopped: CancellationToken) -> Self {
        Self { stopped, running: JoinSet::new(), names: HashMap::new() }
    }

    /// Starts a task.
    pub fn spawn(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let id = self.running.spawn(task).id();
        self.names.insert(id, name);
    }

    /// Ready when a task has failed. Nothing is lost when the future is dropped before.
    pub async fn failed(&mut self) -> TaskError {
        loop {
            match self.running.join_next_with_id().await {
                Some(outcome) => {
                    if let Err(error) = self.judge(outcome) {
                        return error;
                    }
                }
                None => future::pending().await,
            }
        }
    }

    /// Ready when a task has failed, or when all have ended.
    ///
    /// # Errors
    /// The failure; others may still run, and it may be called again.
    pub async fn ended(&mut self) -> Result<(), TaskError> {
        while let Some(outcome) = self.running.join_next_with_id().await {
            self.judge(outcome)?;
        }
        Ok(())
    }

    /// The names of those that run, sorted.
    #[must_use]
    pub fn running(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.names.values().copied().collect();
        names.sort_unstable();
        names
    }

    fn judge(&mut self, outcome: Result<(Id, ()), JoinError>) -> Result<(), TaskError> {
        let id = outcome.as_ref().map_or_else(JoinError::id, |(id, ())| *id);
        let task = self.names.remove(&id).expect("every task is named when it is spawned");
        match outcome {
            Ok(_) if self.stopped.is_cancelled() => Ok(()),
            Ok(_) => Err(TaskError::Ended { task }),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => Err(TaskError::Panicked { task, reason: reason(&*panic) }),
                // Only the end of the runtime aborts a task.
                Err(_) => Err(TaskError::Ended { task }),
            },
        }
    }
}

fn reason(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a text").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks() -> (Tasks, CancellationToken) {
        let stopped = CancellationToken::new();
        (Tasks::new(stopped.clone()), stopped)
    }

    #[tokio::test]
    async fn a_panic_and_an_early_end_are_told_by_name() {
        let (mut tasks, stopped) = tasks();
        let waiting = stopped.clone();
        tasks.spawn("steady", async move { waiting.cancelled().await });
        tasks.spawn("broken", async { panic!("at {}", 3) });
        let reason = "at 3".to_owned();
        assert_eq!(tasks.failed().await, TaskError::Panicked { task: "broken", reason });
        tasks.spawn("hasty", async {});
        assert_eq!(tasks.failed().await, TaskError::Ended { task: "hasty" });
        assert_eq!(tasks.running(), ["steady"]);
        stopped.cancel();
        assert_eq!(tasks.ended().await, Ok(()));
        assert_eq!(tasks.running(), [""; 0]);
    }

    #[tokio::test]
    async fn a_panic_counts_after_the_stop_too() {
        let (mut tasks, stopped) = tasks();
        let waiting = stopped.clone();
        tasks.spawn("late", async move {
            waiting.cancelled().await;
            panic!("late");
        });
        stopped.cancel();
        let error = TaskError::Panicked { task: "late", reason: "late".into() };
        assert_eq!(tasks.ended().await, Err(error));
        assert_eq!(tasks.ended().await, Ok(()));
    }
}
