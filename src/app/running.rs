//! Waits until the node is to stop, and stops its parts in order.

use std::{process::ExitCode, time::Duration};

use tokio_util::sync::CancellationToken;

use crate::{
    base::{
        signals::Told,
        tasks::{TaskError, Tasks},
    },
    cluster::Cluster,
    cp,
    distro::exchange::Exchange,
    membership,
};

/// How long parts that should end at once may take after the requests under way: tasks, then the store's last writes.
pub const AFTER_REQUESTS: Duration = Duration::from_secs(5);

/// How a server ended that had started; it has been logged.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndError {
    #[error("{0}")]
    Task(#[from] TaskError),
    #[error("the stop took too long")]
    Late,
    #[error("{} before all was in order", .0.name())]
    Told(Told),
}

impl EndError {
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Task(_) | Self::Late => ExitCode::FAILURE,
            Self::Told(told) => ExitCode::from(told.exit_code()),
        }
    }
}

/// What runs until the process ends.
pub struct Running {
    pub tasks: Tasks,
    pub stopped: CancellationToken,
    /// Cancelled where the node is to leave and stop, as at a signal.
    pub drain: CancellationToken,
    pub cp: cp::Handle,
    /// The members to be left in order.
    pub leaving: Option<(Exchange, Cluster)>,
    pub drain_timeout: Duration,
    pub longest_stop: Duration,
}

impl Running {
    /// Ready when all is in order after the node was told to stop or a task failed, or when that takes too long.
    pub async fn until_told(mut self, mut told: impl AsyncFnMut() -> Told) -> Result<(), EndError> {
        let failure = tokio::select! {
            told = told() => {
                tracing::info!(signal = told.name(), "stopping: requests under way are finished");
                None
            }
            () = self.drain.cancelled() => {
                tracing::info!("drained from its own host; stopping: requests under way are finished");
                None
            }
            error = self.tasks.failed() => {
                tracing::error!(%error, "stopping: the server can't do its work without this task");
                Some(error)
            }
        };
        if failure.is_none() {
            self.leave(&mut told).await?;
        }
        self.stopped.cancel();
        tokio::select! {
            stopped = self.stop() => stopped?,
            told = told() => {
                tracing::error!(signal = told.name(), running = ?self.tasks.running(), "told again: ending at once");
                return Err(EndError::Told(told));
            }
        }
        failure.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Leaves the members in order, where there are any; told again it ends at once.
    async fn leave(&self, told: &mut impl AsyncFnMut() -> Told) -> Result<(), EndError> {
        let Some((exchange, cluster)) = &self.leaving else { return Ok(()) };
        tokio::select! {
            () = membership::leave(exchange, cluster, self.drain_timeout) => Ok(()),
            told = told() => {
                tracing::error!(signal = told.name(), "told again while leaving: ending at once");
                Err(EndError::Told(told))
            }
        }
    }

    /// Waits for the tasks, the server and with it the requests under way among them, then closes the store.
    async fn stop(&mut self) -> Result<(), EndError> {
        let (tasks, cp) = (&mut self.tasks, &self.cp);
        let in_order = async {
            let mut failure = None;
            while let Err(error) = tasks.ended().await {
                tracing::error!(%error, "a task failed while the server stopped");
                failure = Some(error);
            }
            cp.stop().await;
            failure.map_or(Ok(()), |error| Err(error.into()))
        };
        if let Ok(stopped) = tokio::time::timeout(self.longest_stop, in_order).await {
            return stopped;
        }
        let running = self.tasks.running();
        let waits_for = if running.is_empty() { "the store".to_owned() } else { running.join(", ") };
        tracing::error!(waits_for, limit = ?self.longest_stop, "the stop took too long: ending at once");
        Err(EndError::Late)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::pending,
        io,
        sync::{Arc, mpsc},
    };

    use parking_lot::Mutex;

    use super::*;
    use crate::{
        base::clock::Clock,
        cp::{Applied, Scope, WriteError},
        model::Registry,
    };

    /// The tests take turns: a log line that two of them write for the first time in one moment may miss the subscriber.
    static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

    /// A node of one task, which breaks, and a store; the folder of the latter.
    fn breaking(longest_stop: Duration) -> (Running, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let applied = Applied {
            registry: Arc::new(Registry::new(Arc::default(), Default::default())),
            switches: Arc::default(),
            namespaces: Arc::default(),
            clock: Clock::system(),
        };
        let cp = cp::Handle::open(folder.path(), applied).unwrap();
        let stopped = CancellationToken::new();
        let mut tasks = Tasks::new(stopped.clone());
        tasks.spawn("sweeper", async { panic!("no beat") });
        let drain = CancellationToken::new();
        (
            Running { tasks, stopped, drain, cp, leaving: None, drain_timeout: longest_stop, longest_stop },
            folder,
        )
    }

    fn store<F: FnOnce() + Send + 'static>(
        cp: &cp::Handle,
        first: F,
    ) -> impl Future<Output = Result<(), WriteError>> + use<F> {
        cp.submit(Scope::Service("a".into()), move |_| {
            first();
            Ok((Vec::new(), ()))
        })
    }

    fn broken() -> EndError {
        EndError::Task(TaskError::Panicked { task: "sweeper", reason: "no beat".into() })
    }

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_task_that_panics_stops_the_server_in_order_and_is_named() {
        let _turn = TURN.lock().await;
        let kept = Kept::default();
        let writer = kept.clone();
        let subscriber =
            tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
        let _logging = tracing::subscriber::set_default(subscriber);
        let (mut running, _folder) = breaking(Duration::from_secs(60));
        let (stopped, cp) = (running.stopped.clone(), running.cp.clone());
        let (ended, has_ended) = mpsc::channel();
        running.tasks.spawn("server", async move {
            stopped.cancelled().await;
            ended.send(()).unwrap();
        });
        assert_eq!(running.until_told(pending).await, Err(broken()));
        assert_eq!(has_ended.try_recv(), Ok(()));
        assert!(matches!(store(&cp, || {}).await, Err(WriteError::Stopped)));
        let lines = String::from_utf8(kept.0.lock().clone()).unwrap();
        let line = lines.lines().find(|line| line.contains("ERROR"));
        assert!(line.is_some_and(|line| line.contains("the task sweeper panicked: no beat")), "{lines}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_hangs_does_not_hold_up_the_end() {
        let _turn = TURN.lock().await;
        let (running, _folder) = breaking(Duration::from_secs(10));
        let (release, held) = mpsc::channel::<()>();
        let _written = store(&running.cp, move || {
            let _ = held.recv();
        });
        assert_eq!(running.until_told(pending).await, Err(EndError::Late));
        drop(release);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_hangs_does_not_either() {
        let _turn = TURN.lock().await;
        let (mut running, _folder) = breaking(Duration::from_secs(10));
        running.tasks.spawn("server", pending());
        assert_eq!(running.until_told(pending).await, Err(EndError::Late));
    }

    #[tokio::test]
    async fn a_second_signal_ends_a_stop_at_once() {
        let _turn = TURN.lock().await;
        let (mut running, _folder) = breaking(Duration::from_secs(600));
        running.tasks.spawn("server", pending());
        let ended = running.until_told(async || Told::Interrupt).await;
        assert_eq!(ended, Err(EndError::Told(Told::Interrupt)));
        assert_eq!(Told::Interrupt.exit_code(), 130);
    }
}
