//! Builds the parts in order, wires them, waits, stops them: alone knows all modules.

use std::{
    io::{self, Write as _},
    net::{IpAddr, SocketAddr},
    process::ExitCode,
    sync::Arc,
    time::{Duration, SystemTime},
};

use hyper::body::Incoming;
use nacre_middleware::collect::Limits;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    api::{
        Api,
        node::Node,
        observe::Sight,
        ownership::{Ownership, Ring, With},
        routes::{self, Table},
    },
    base::{
        clock::Clock,
        net,
        signals::{Signals, Told},
        tasks::{TaskError, Tasks},
    },
    cluster::{self, Address, Cluster, LookupError},
    config::{
        Loaded, Settings,
        own_address::{self, FoundBy, OwnAddress},
    },
    cp::{self, Applied},
    distro::{Distro, exchange::Exchange},
    health::{
        empty,
        sweep::{SweepStats, Sweeper},
    },
    membership::{self, Membership},
    model::{Registry, change::Changes},
    observe::{
        Meters,
        logs::{self, Logs},
    },
    push::{self, Push, PushSocket},
    server::Server,
    stack,
};

/// How long parts that should end at once may take after the requests under way: tasks, then the store's last writes.
const AFTER_REQUESTS: Duration = Duration::from_secs(5);

/// Serves as the settings say until the process is told to stop.
///
/// The exit code is 0 after a stop in order; 1 where it doesn't start, a background task failed or the stop took too
/// long; 143 or 130 where SIGTERM or SIGINT came before it served, or again while it stopped.
pub fn run(loaded: Loaded) -> ExitCode {
    let logs = match logs::start(&loaded.settings.log, loaded.settings.server.access_log, &loaded.notices) {
        Ok(logs) => Arc::new(logs),
        Err(error) => return doesnt_start(&format!("nothing can be logged: {error}")),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return doesnt_start(&format!("no threads for the server: {error}")),
    };
    let served = runtime.block_on(serve(loaded, Arc::clone(&logs)));
    // What still runs is not waited for: a page of metrics, a name that is being resolved, a store that hangs.
    runtime.shutdown_background();
    let code = match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(ServeError::Start(error)) => doesnt_start(&error.to_string()),
        Err(ServeError::End(error)) => error.exit_code(),
    };
    logs.finish();
    code
}

fn doesnt_start(reason: &str) -> ExitCode {
    // If nobody reads stderr, the exit code still tells.
    let _ = writeln!(io::stderr(), "nacre doesn't start: {reason}");
    ExitCode::FAILURE
}

/// Why serving ended otherwise than in order.
#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    End(#[from] EndError),
}

/// Why the server doesn't start; the text tells the operator what to do.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(
        "can't listen on port {port} (server.port): another server is running there; stop it, or take another port"
    )]
    PortTaken { port: u16 },
    #[error("can't listen on {} (server.address, server.port): {source}", shown(*.address, *.port))]
    Listen { address: Option<IpAddr>, port: u16, source: io::Error },
    #[error("the machine doesn't tell its addresses: {0}; give the own one with nacos.server.ip")]
    OwnAddress(io::Error),
    #[error("{0}")]
    Store(#[from] cp::OpenError),
    #[error("the system gives no random bytes for the key of login tokens: {0}")]
    Key(io::Error),
    #[error("no UDP socket for pushes: {0}")]
    Push(io::Error),
    #[error("signals can't be received: {0}")]
    Signals(io::Error),
    #[error("{0}")]
    Members(#[from] LookupError),
}

fn shown(address: Option<IpAddr>, port: u16) -> String {
    address.map_or_else(|| format!("port {port}"), |address| SocketAddr::new(address, port).to_string())
}

/// How a server ended that had started; it has been logged.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum EndError {
    #[error("{0}")]
    Task(#[from] TaskError),
    #[error("the stop took too long")]
    Late,
    #[error("{} before all was in order", .0.name())]
    Told(Told),
}

impl EndError {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Task(_) | Self::Late => ExitCode::FAILURE,
            Self::Told(told) => ExitCode::from(told.exit_code()),
        }
    }
}

async fn serve(loaded: Loaded, logs: Arc<Logs>) -> Result<(), ServeError> {
    let mut settings = loaded.settings;
    settings.http.max_connections = raise_open_files(settings.http.max_connections);
    let settings = Arc::new(settings);
    let mut signals = Signals::new().map_err(StartError::Signals)?;
    let clock = Clock::system();
    let doors = Doors::open(&settings, &clock)?;
    let changes = Arc::new(Changes::default());
    let membership = find_members(&settings, &doors, &clock, &mut signals).await?;
    let registry = Registry::new(Arc::clone(&changes), (&settings.naming).into());
    registry.set_expires(settings.naming.expire_instance);
    let applied = Applied {
        registry: Arc::new(membership.share(registry, clock.reading())),
        switches: Arc::default(),
        namespaces: Arc::default(),
        clock,
    };
    // The last that can fail, so that a store that was opened is always closed.
    let cp = open_store(&settings, &applied, &mut signals).await?;
    let cp = if membership.has_members() { cp.among_members() } else { cp };
    membership.tell_of_persistent(&applied.registry);
    let running = start(&settings, logs, doors, membership, applied, &changes, cp);
    Ok(running.until_told(async || signals.next().await).await?)
}

/// What the node needs from the system.
struct Doors {
    listener: TcpListener,
    port: u16,
    /// Of the node, as others know it.
    own: OwnAddress,
    packets: PushSocket,
    node: Node,
}

impl Doors {
    fn open(settings: &Settings, clock: &Clock) -> Result<Self, StartError> {
        let (address, port) = (settings.server.address, settings.server.port);
        let listener = net::listen(address, port).map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => StartError::PortTaken { port },
            _ => StartError::Listen { address, port, source },
        })?;
        let port = listener.local_addr().map_or(port, |address: SocketAddr| address.port());
        let own = own_address::find(&settings.own_address).map_err(StartError::OwnAddress)?;
        Ok(Self {
            listener,
            port,
            own,
            packets: push::open(address, port).map_err(StartError::Push)?,
            node: Node::new(clock.wall_ms()).map_err(StartError::Key)?,
        })
    }
}

/// Finds the members beside the signals: an address server may let it wait.
async fn find_members(
    settings: &Arc<Settings>,
    doors: &Doors,
    clock: &Clock,
    signals: &mut Signals,
) -> Result<Membership, ServeError> {
    let own = Address::new(&format!("{}:{}", doors.own.host, doors.port));
    tokio::select! {
        found = Membership::find(settings, own, doors.node.boot, clock) => Ok(found.map_err(StartError::Members)?),
        told = signals.next() => {
            tracing::warn!(signal = told.name(), "told to stop before the members were known");
            Err(EndError::Told(told).into())
        }
    }
}

/// Opens the store beside the signals: after a crash it may have to be checked for minutes.
async fn open_store(
    settings: &Settings,
    applied: &Applied,
    signals: &mut Signals,
) -> Result<cp::Handle, ServeError> {
    let (folder, applied) = (settings.data_dir.clone(), applied.clone());
    let opening = tokio::task::spawn_blocking(move || cp::Handle::open(&folder, applied));
    tokio::select! {
        opened = opening => match opened {
            Ok(opened) => Ok(opened.map_err(StartError::Store)?),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        },
        told = signals.next() => {
            tracing::warn!(signal = told.name(), "told to stop before the store was open");
            Err(EndError::Told(told).into())
        }
    }
}

/// Starts all parts; nothing of it can fail.
fn start(
    settings: &Arc<Settings>,
    logs: Arc<Logs>,
    doors: Doors,
    membership: Membership,
    applied: Applied,
    changes: &Arc<Changes>,
    cp: cp::Handle,
) -> Running {
    let Doors { listener, port, own: found, packets, node } = doors;
    let (stopped, drain) = (CancellationToken::new(), node.drain.clone());
    let mut tasks = Tasks::new(stopped.clone());
    let exchange = membership.protocol(&applied.registry, changes, &applied.clock, settings);
    let distro = exchange.as_ref().map(|exchange| exchange.distro.clone());
    let sweeps = spawn_health(&mut tasks, &stopped, &applied, &cp, changes, &distro, settings);
    let push = spawn_push(&mut tasks, &stopped, &applied, changes, settings, packets);
    let (host, services) = (found.host.clone(), applied.registry.len());
    watch_own_address(&mut tasks, &stopped, &membership, settings, found);
    let meters = Meters::new(routes::labels());
    let api = Arc::new(Api {
        node,
        clock: applied.clock,
        registry: applied.registry,
        switches: applied.switches,
        namespaces: applied.namespaces,
        cp: cp.clone(),
        push,
        peers: membership.peers.clone(),
        cluster: membership.cluster.clone(),
        doorkeeper: membership.doorkeeper.clone(),
        distro,
        own_address: membership.cluster.view().own.as_str().into(),
        settings: Arc::clone(settings),
        sight: Sight { meters, sweeps, logs, stopped: stopped.clone(), started: SystemTime::now() },
    });
    let leaving = exchange.clone().map(|exchange| (exchange, membership.cluster.clone()));
    spawn_server(&mut tasks, &stopped, settings, membership, exchange.as_ref(), &api, listener);
    tell_ready(settings, &host, port, services);
    let drain_timeout = settings.drain_timeout;
    let longest_stop = settings.stop_grace + AFTER_REQUESTS;
    Running { tasks, stopped, drain, cp, leaving, drain_timeout, longest_stop }
}

/// Starts what sends changes to subscribers.
fn spawn_push(
    tasks: &mut Tasks,
    stopped: &CancellationToken,
    applied: &Applied,
    changes: &Arc<Changes>,
    settings: &Settings,
    socket: PushSocket,
) -> Push {
    let push = Push::new(&settings.push);
    let sender = push::Sender {
        push: push.clone(),
        clock: applied.clock.clone(),
        registry: Arc::clone(&applied.registry),
        changes: Arc::clone(changes),
        switches: Arc::clone(&applied.switches),
        socket,
    };
    tasks.spawn("push sender", sender.run(stopped.clone()));
    push
}

/// Looks whether the own address is still the one that was found, unless it was set.
fn watch_own_address(
    tasks: &mut Tasks,
    stopped: &CancellationToken,
    membership: &Membership,
    settings: &Settings,
    found: OwnAddress,
) {
    if found.found_by != FoundBy::Setting {
        let (cluster, rules) = (membership.cluster.clone(), settings.own_address.clone());
        tasks.spawn("own address", cluster::own_address::watch(cluster, rules, found, stopped.clone()));
    }
}

/// Starts what exchanges data with the members, and then what serves requests.
fn spawn_server(
    tasks: &mut Tasks,
    stopped: &CancellationToken,
    settings: &Settings,
    membership: Membership,
    exchange: Option<&Exchange>,
    api: &Arc<Api>,
    listener: TcpListener,
) {
    let ring = exchange.map(|exchange| membership::ring(&membership, exchange, &api.clock) as Arc<dyn Ring>);
    let forwarder = stack::forwarder(api, Ownership::new(ring, With::of(api)));
    membership::spawn(membership, exchange, &forwarder, tasks, stopped);
    let limits = Limits {
        max_body_bytes: settings.http.max_body_bytes,
        body_timeout: settings.http.body_timeout,
        max_collecting_bytes: settings.http.max_collecting_bytes,
    };
    let table = Table::new(settings.server.context_path.as_str());
    let connections = &api.sight.meters.connections;
    let server = Server {
        service: stack::v1::<Incoming>(Arc::clone(api), limits, forwarder),
        table: Arc::new(table.with_prometheus(settings.server.prometheus_endpoint)),
        settings: settings.http.clone(),
        connections,
    };
    tasks.spawn("server", server.run(listener, stopped.clone(), settings.stop_grace));
}

/// Tells operators, and whoever has started the process, where it serves.
fn tell_ready(settings: &Settings, host: &str, port: u16, services: usize) {
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        address = %format_args!("{host}:{port}"),
        data = %settings.data_dir.display(),
        services,
        "serving"
    );
    let context_path = settings.server.context_path.as_str();
    if let Err(error) = writeln!(io::stdout(), "ready http://{host}:{port}{context_path}") {
        tracing::warn!(%error, "the ready line can't be written to stdout");
    }
}

/// What runs until the process ends.
struct Running {
    tasks: Tasks,
    stopped: CancellationToken,
    /// Cancelled where the node is to leave and stop, as at a signal.
    drain: CancellationToken,
    cp: cp::Handle,
    /// The members to be left in order.
    leaving: Option<(Exchange, Cluster)>,
    drain_timeout: Duration,
    longest_stop: Duration,
}

impl Running {
    /// Ready when all is in order after the node was told to stop or a task failed, or when that takes too long.
    async fn until_told(mut self, mut told: impl AsyncFnMut() -> Told) -> Result<(), EndError> {
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

/// Files that are open besides connections: the store, sockets of our own, the runtime's.
const OTHER_FILES: u64 = 64;

/// Raises the soft limit of open files to the hard one; gives how many connections there may be within it.
fn raise_open_files(max_connections: usize) -> usize {
    let limit = match rlimit::increase_nofile_limit(rlimit::INFINITY) {
        Ok(limit) => limit,
        Err(error) => {
            tracing::warn!(%error, "the limit of open files (ulimit -n) can't be raised");
            return max_connections;
        }
    };
    let room = usize::try_from(limit.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX).max(1);
    if room < max_connections {
        tracing::info!(limit, "the limit of open files (ulimit -n) leaves room for {room} connections");
    }
    room.min(max_connections)
}

fn spawn_health(
    tasks: &mut Tasks,
    stopped: &CancellationToken,
    applied: &Applied,
    cp: &cp::Handle,
    changes: &Arc<Changes>,
    distro: &Option<Distro>,
    settings: &Settings,
) -> Arc<SweepStats> {
    let stats = Arc::<SweepStats>::default();
    let (clock, registry) = (applied.clock.clone(), Arc::clone(&applied.registry));
    let sweeper = Sweeper {
        clock: clock.clone(),
        registry: Arc::clone(&registry),
        changes: Arc::clone(changes),
        switches: Arc::clone(&applied.switches),
        distro: distro.clone(),
        may_remove: settings.naming.expire_instance,
        stats: Arc::clone(&stats),
    };
    tasks.spawn("sweeper", sweeper.run(stopped.clone()));
    if settings.naming.empty_service_auto_clean {
        let naming = settings.naming.clone();
        tasks.spawn("cleaner", empty::clean(clock, registry, cp.clone(), naming, stopped.clone()));
    }
    stats
}

#[cfg(test)]
mod tests {
    use std::{future::pending, sync::mpsc};

    use parking_lot::Mutex;

    use super::*;
    use crate::cp::{Scope, WriteError};

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
