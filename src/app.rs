//! Builds the parts in order and wires them: alone knows all modules.

mod last_members;
mod open_files;
mod proxying;
mod ready_line;
mod running;

use std::{
    io::{self, Write as _},
    net::{IpAddr, SocketAddr},
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::SystemTime,
};

use hyper::body::Incoming;
use nacre_middleware::collect::Limits;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::{
    last_members::ListGone,
    open_files::TooFewFiles,
    proxying::ProxyError,
    ready_line::ReadyLine,
    running::{AFTER_REQUESTS, EndError, Running},
};
use crate::{
    api::{
        Api,
        node::Node,
        observe::Sight,
        ownership::{Ownership, Ring, With},
        routes::{self, Table},
    },
    base::{clock::Clock, net, signals::Signals, tasks::Tasks},
    cluster::{self, Address, LookupError},
    config::{
        LegacyNaming, LegacyServer, LegacySettings, Loaded, LogFormat, Lookup, Settings,
        own_address::{self, FoundBy, OwnAddress},
    },
    cp::{self, Applied},
    distro::{Distro, exchange::Exchange},
    gateway::{self, Gateway, NamesItself},
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

/// Serves as the settings say until the process is told to stop.
///
/// The exit code is 0 after a stop in order; 1 where it doesn't start, a background task failed or the stop took too
/// long; 143 or 130 where SIGTERM or SIGINT came before it served, or again while it stopped.
pub fn run(loaded: Loaded) -> ExitCode {
    let logs = match logs::start(&loaded.settings.log, loaded.settings.server.access_log, &loaded.notices) {
        Ok(logs) => Arc::new(logs),
        Err(error) => return doesnt_start(&format!("nothing can be logged: {error}")),
    };
    tell_of_file(loaded.file.as_deref());
    let format = loaded.settings.log.format;
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return refuse(&logs, format, &format!("no threads for the server: {error}")),
    };
    let served = runtime.block_on(serve(loaded, Arc::clone(&logs)));
    // What still runs is not waited for: a page of metrics, a name that is being resolved, a store that hangs.
    runtime.shutdown_background();
    let code = match served {
        Ok(()) => {
            tracing::info!("stopped: all is in order");
            ExitCode::SUCCESS
        }
        Err(ServeError::Start(error)) => return refuse(&logs, format, &error.to_string()),
        Err(ServeError::End(error)) => error.exit_code(),
    };
    logs.finish();
    code
}

/// Tells why the server doesn't start, behind all that has been logged: who looks at the last line alone sees the reason.
fn refuse(logs: &Logs, format: LogFormat, reason: &str) -> ExitCode {
    match format {
        LogFormat::Text => {
            logs.finish();
            doesnt_start(reason)
        }
        // Whoever reads objects can't read anything else.
        LogFormat::Json => {
            tracing::error!("{}", refusal(reason));
            logs.finish();
            ExitCode::FAILURE
        }
    }
}

/// Which settings file counts is the first thing that somebody asks whose settings don't.
fn tell_of_file(file: Option<&Path>) {
    match file {
        Some(file) => {
            let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
            tracing::info!(file = %file.display(), "settings file read");
        }
        None => tracing::info!("no settings file: defaults, environment and command line count"),
    }
}

fn doesnt_start(reason: &str) -> ExitCode {
    // If nobody reads stderr, the exit code still tells.
    let _ = writeln!(io::stderr(), "{}", refusal(reason));
    ExitCode::FAILURE
}

fn refusal(reason: &str) -> String {
    format!("nacre doesn't start: {reason}")
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
        "can't listen on {}: another server is running there; stop it, or take another port",
        shown(*.address, *.port)
    )]
    PortTaken { address: Option<IpAddr>, port: u16 },
    #[error("can't listen on {}: {source}", shown(*.address, *.port))]
    Listen { address: Option<IpAddr>, port: u16, source: io::Error },
    #[error("the machine doesn't tell its addresses: {0}; give the own one with nacos.server.ip")]
    OwnAddress(io::Error),
    #[error("{0}")]
    Files(#[from] TooFewFiles),
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
    #[error("{0}")]
    ListGone(#[from] ListGone),
    #[error(
        "nacre.legacy.naming is legacy, and nacre.legacy.servers names no server that could answer naming"
    )]
    NoLegacyServers,
    #[error("{0}")]
    Proxy(#[from] ProxyError),
    #[error("{0}")]
    NamesItself(#[from] NamesItself),
}

/// Where it listens, and the settings that say so.
fn shown(address: Option<IpAddr>, port: u16) -> String {
    match address {
        Some(address) => format!("{} (server.address, server.port)", SocketAddr::new(address, port)),
        None => format!("port {port} (server.port)"),
    }
}

async fn serve(loaded: Loaded, logs: Arc<Logs>) -> Result<(), ServeError> {
    let mut settings = loaded.settings;
    let has_members = settings.membership.lookup != Lookup::Standalone;
    let to_instances = proxying::share_files(&mut settings, has_members)?;
    let settings = Arc::new(settings);
    let mut signals = Signals::new().map_err(StartError::Signals)?;
    let clock = Clock::system();
    let doors = Doors::open(&settings, &clock)?;
    let proxy = proxying::open(&settings, to_instances).await?;
    let own = format!("{}:{}", doors.own.host, doors.port);
    let listens = (settings.server.address, doors.port);
    if settings.legacy.naming == LegacyNaming::Legacy && settings.legacy.servers.is_empty() {
        return Err(StartError::NoLegacyServers.into());
    }
    gateway::check_servers(&settings.legacy.servers, &own, listens, net::is_of_this_host)
        .map_err(StartError::NamesItself)?;
    let changes = Arc::new(Changes::default());
    last_members::check(&settings, has_members).map_err(StartError::ListGone)?;
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
    last_members::remember(&settings.data_dir, &membership.listed());
    membership.tell_of_persistent(&applied.registry);
    let running = start(&settings, logs, doors, proxy, membership, applied, &changes, cp);
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
            io::ErrorKind::AddrInUse => StartError::PortTaken { address, port },
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
#[expect(clippy::too_many_arguments, reason = "each is a part that is made once")]
fn start(
    settings: &Arc<Settings>,
    logs: Arc<Logs>,
    doors: Doors,
    mut opened: Option<proxying::Opened>,
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
    let ready_line = ReadyLine {
        address: format!("{}:{port}", found.host),
        context_path: settings.server.context_path.as_str().to_owned(),
        data: settings.data_dir.clone(),
        registry: Arc::clone(&applied.registry),
        cluster: membership.cluster.clone(),
        alone: ready_line::why_alone(settings),
    };
    watch_own_address(&mut tasks, &stopped, &membership, settings, found);
    let meters = Meters::new(routes::labels());
    let proxy = opened.as_mut().map(|opened| opened.proxy(settings, &applied.registry, &applied.clock));
    if let Some((opened, proxy)) = opened.zip(proxy.as_ref()) {
        opened.spawn(&mut tasks, &stopped, settings, proxy, membership.cluster.clone());
    }
    let gateway = Gateway::<Incoming>::new(settings);
    if let Some(gateway) = gateway.clone() {
        let names =
            settings.legacy.servers.iter().map(LegacyServer::authority).collect::<Vec<_>>().join(", ");
        tracing::info!(servers = names, "what this node doesn't own is passed on to legacy servers");
        tasks.spawn("legacy servers", gateway.look_after(stopped.clone()));
    }
    let legacy_naming = legacy_naming(gateway.as_ref(), settings, &applied.clock);
    if let Some(naming) = &legacy_naming {
        tracing::info!("naming is answered by the legacy servers");
        tasks.spawn("members of the legacy cluster", naming.clone().watch_members(stopped.clone()));
        tasks.spawn("kept registrations", naming.clone().replay(stopped.clone()));
    }
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
        proxy,
        gateway: gateway.as_ref().map(Gateway::sight),
        legacy_naming,
        own_address: membership.cluster.view().own.as_str().into(),
        settings: Arc::clone(settings),
        sight: Sight { meters, sweeps, logs, stopped: stopped.clone(), started: SystemTime::now() },
    });
    let leaving = exchange.clone().map(|exchange| (exchange, membership.cluster.clone()));
    spawn_server(&mut tasks, &stopped, gateway, membership, exchange.as_ref(), &api, listener);
    let until = stopped.clone();
    tasks.spawn("ready line", async move {
        until.run_until_cancelled(ready_line.tell()).await;
        until.cancelled().await;
    });
    let drain_timeout = settings.drain_timeout;
    let longest_stop = settings.stop_grace + AFTER_REQUESTS;
    Running { tasks, stopped, drain, cp, leaving, drain_timeout, longest_stop }
}

/// Naming, where the settings say that the legacy servers answer it.
fn legacy_naming(
    gateway: Option<&Gateway<Incoming>>,
    settings: &Settings,
    clock: &Clock,
) -> Option<gateway::Naming> {
    let LegacySettings { naming, stale, max_kept, timeout: patience, .. } = settings.legacy;
    let servers = gateway.filter(|_| naming == LegacyNaming::Legacy)?.naming_servers(settings);
    let bounds = gateway::naming::Bounds { stale, max_kept, patience };
    Some(gateway::Naming::new(Arc::new(servers), bounds, clock.clone()))
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
    gateway: Option<Gateway<Incoming>>,
    membership: Membership,
    exchange: Option<&Exchange>,
    api: &Arc<Api>,
    listener: TcpListener,
) {
    let settings = &api.settings;
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
        service: stack::v1(Arc::clone(api), gateway, limits, forwarder),
        table: Arc::new(table.with_prometheus(settings.server.prometheus_endpoint)),
        settings: settings.http.clone(),
        connections,
    };
    tasks.spawn("server", server.run(listener, stopped.clone(), settings.stop_grace));
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
