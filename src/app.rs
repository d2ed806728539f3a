//! Builds the parts in order, wires them, waits, stops them: alone knows all modules.

use std::{io, net::SocketAddr, process::ExitCode, sync::Arc, time::SystemTime};

use hyper::body::Incoming;
use nacre_middleware::collect::Limits;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    api::{
        Api,
        node::Node,
        observe::Sight,
        routes::{self, Table},
    },
    base::{clock::Clock, net},
    config::{Loaded, Settings, own_address},
    cp::{self, Applied},
    health::{
        empty,
        sweep::{SweepStats, Sweeper},
    },
    model::{Registry, change::Changes},
    observe::{
        Meters,
        logs::{self, Logs},
    },
    push::{self, Push},
    server::Server,
    stack,
};

/// Serves as the settings say until the process is told to stop.
pub fn run(loaded: Loaded) -> ExitCode {
    let logs = match logs::start(&loaded.settings.log, loaded.settings.server.access_log, &loaded.notices) {
        Ok(logs) => Arc::new(logs),
        Err(error) => return failed(&format!("nothing can be logged: {error}")),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("no threads for the server: {error}")),
    };
    let served = runtime.block_on(serve(loaded, Arc::clone(&logs)));
    logs.finish();
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error.to_string()),
    }
}

fn failed(reason: &str) -> ExitCode {
    eprintln!("nacre doesn't start: {reason}");
    ExitCode::FAILURE
}

/// Why the server doesn't start; the text tells the operator what to do.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("can't listen on port {port} (server.port): {source}; is another server running there?")]
    Listen { port: u16, source: io::Error },
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
}

async fn serve(loaded: Loaded, logs: Arc<Logs>) -> Result<(), StartError> {
    let settings = Arc::new(loaded.settings);
    raise_open_files(settings.http.max_connections);
    let mut signals = Signals::new().map_err(StartError::Signals)?;
    let port = settings.server.port;
    let listener =
        net::listen(settings.server.address, port).map_err(|source| StartError::Listen { port, source })?;
    let port = listener.local_addr().map_or(port, |address: SocketAddr| address.port());
    let own = own_address::find(&settings.own_address).map_err(StartError::OwnAddress)?;
    let clock = Clock::system();
    let changes = Arc::new(Changes::default());
    let applied = Applied {
        registry: Arc::new(Registry::new(Arc::clone(&changes), (&settings.naming).into())),
        switches: Arc::default(),
        namespaces: Arc::default(),
        clock: clock.clone(),
    };
    let cp = cp::Handle::open(&settings.data_dir, applied.clone())?;
    let services = applied.registry.len();
    let stopped = CancellationToken::new();
    let tasks = TaskTracker::new();
    let sweeps = spawn_health(&tasks, &stopped, &applied, &cp, &changes, &settings);
    let push = Push::new(&settings.push);
    let pushing = push::Sender {
        push: push.clone(),
        clock: clock.clone(),
        registry: Arc::clone(&applied.registry),
        changes,
        switches: Arc::clone(&applied.switches),
        socket: push::open(settings.server.address, port).map_err(StartError::Push)?,
    };
    tasks.spawn(pushing.run(stopped.clone()));
    let meters = Meters::new(routes::labels());
    let api = Arc::new(Api {
        node: Node::new(clock.wall_ms()).map_err(StartError::Key)?,
        clock,
        registry: applied.registry,
        switches: applied.switches,
        namespaces: applied.namespaces,
        cp: cp.clone(),
        push,
        own_address: format!("{}:{port}", own.host).into(),
        settings: Arc::clone(&settings),
        sight: Sight { meters, sweeps, logs, stopped: stopped.clone(), started: SystemTime::now() },
    });
    let context_path = settings.server.context_path.as_str();
    let limits =
        Limits { max_body_bytes: settings.http.max_body_bytes, body_timeout: settings.http.body_timeout };
    let server = Server {
        service: stack::v1::<Incoming>(api, limits),
        table: Arc::new(Table::new(context_path).with_prometheus(settings.server.prometheus_endpoint)),
        settings: settings.http.clone(),
        connections: &meters.connections,
    };
    let serving = tokio::spawn(server.run(listener, stopped.clone(), settings.stop_grace));
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        address = %format_args!("{}:{port}", own.host),
        data = %settings.data_dir.display(),
        services,
        "serving"
    );
    println!("ready http://{}:{port}{context_path}", own.host);
    signals.stop().await;
    tracing::info!("stopping: requests under way are finished");
    stopped.cancel();
    // Only a panic ends it otherwise, which has been reported by then.
    let _ = serving.await;
    tasks.close();
    tasks.wait().await;
    cp.stop().await;
    Ok(())
}

/// Raises the soft limit of open files to the hard one; warns where even that is below what the settings allow.
fn raise_open_files(max_connections: usize) {
    match rlimit::increase_nofile_limit(rlimit::INFINITY) {
        Ok(limit) if limit < max_connections as u64 => {
            tracing::warn!(
                limit,
                max_connections,
                "the limit of open files is below nacre.http.max-connections"
            );
        }
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "the limit of open files can't be raised"),
    }
}

fn spawn_health(
    tasks: &TaskTracker,
    stopped: &CancellationToken,
    applied: &Applied,
    cp: &cp::Handle,
    changes: &Arc<Changes>,
    settings: &Settings,
) -> Arc<SweepStats> {
    let stats = Arc::<SweepStats>::default();
    let (clock, registry) = (applied.clock.clone(), Arc::clone(&applied.registry));
    let sweeper = Sweeper {
        clock: clock.clone(),
        registry: Arc::clone(&registry),
        changes: Arc::clone(changes),
        switches: Arc::clone(&applied.switches),
        may_remove: settings.naming.expire_instance,
        stats: Arc::clone(&stats),
    };
    tasks.spawn(sweeper.run(stopped.clone()));
    tasks.spawn(empty::clean(clock, registry, cp.clone(), settings.naming.clone(), stopped.clone()));
    stats
}

/// The signals that stop a server.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Ready at the first of them.
    async fn stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
