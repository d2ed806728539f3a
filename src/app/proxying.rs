//! The reverse proxy: what it needs from the system, and when it serves.

use std::{io, net::SocketAddr, path::Path, sync::Arc};

use tokio::{net::TcpListener, sync::Semaphore};
use tokio_util::sync::CancellationToken;

use super::{StartError, open_files};
use crate::{
    base::{clock::Clock, net, tasks::Tasks, watched::Patience},
    cluster::Cluster,
    config::{LegacyNaming, Settings},
    membership::until_loaded,
    model::Registry,
    proxy::{Certificates, Connector, Door, Proxy, Rules, RulesError, RulesFile, Server, TlsError, trusted},
};

/// Bytes a second of an answer that a client must take beyond its patience: what a slow mobile phone does.
const LEAST_RATE: u64 = 4 << 10;

/// Why the proxy doesn't start.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    #[error("{key}: can't listen on {address}: {source}")]
    Listen { key: &'static str, address: SocketAddr, source: io::Error },
    #[error(
        "nacre.proxy.tls.listen: certificates are needed, in the folder that nacre.proxy.tls.folder names"
    )]
    NoCertificates,
    #[error("nacre.proxy.tls.folder: {0}")]
    Certificates(TlsError),
    #[error("nacre.proxy.tls.upstream-ca: {0}")]
    Trusted(TlsError),
    #[error("nacre.proxy.rules: {0}")]
    Rules(#[from] RulesError),
    #[error("the system gives no random bytes for the proxy: {0}")]
    Random(io::Error),
}

/// What the proxy has from the system before it serves.
pub struct Opened {
    doors: Vec<Door>,
    certificates: Option<Arc<Certificates>>,
    file: RulesFile,
    rules: Rules,
    connector: Connector,
    seed: u64,
}

/// Opens what the settings name; nothing where they name nothing. `to_instances`: connections to instances at most.
pub async fn open(settings: &Settings, to_instances: usize) -> Result<Option<Opened>, StartError> {
    if !settings.proxy.is_on() {
        return Ok(None);
    }
    Ok(Some(opened(settings, to_instances).await?))
}

async fn opened(settings: &Settings, to_instances: usize) -> Result<Opened, ProxyError> {
    let proxy = &settings.proxy;
    if settings.legacy.naming == LegacyNaming::Legacy {
        tracing::warn!(
            "nacre.legacy.naming=legacy: instances register with the legacy servers, so the proxy has none to pass requests on to"
        );
    }
    let mut doors = Vec::new();
    if let Some(address) = proxy.listen {
        doors.push(Door { listener: listen("nacre.proxy.listen", address)?, certificates: None });
    }
    let mut certificates = None;
    if let Some(address) = proxy.tls_listen {
        let folder = proxy.tls_folder.as_deref().ok_or(ProxyError::NoCertificates)?;
        let read = Arc::new(Certificates::read(folder).map_err(ProxyError::Certificates)?);
        let listener = listen("nacre.proxy.tls.listen", address)?;
        doors.push(Door { listener, certificates: Some(Arc::clone(&read)) });
        certificates = Some(read);
    }
    let path = rules_path(settings);
    let mut file = RulesFile::new(&path);
    let rules = file.first().await?;
    if rules.is_none() && !proxy.by_convention {
        tracing::warn!(file = %path.display(), "the proxy has no rules: there is no such file yet");
    }
    let mut seed = [0; 8];
    getrandom::getrandom(&mut seed).map_err(|error| ProxyError::Random(error.into()))?;
    Ok(Opened {
        doors,
        certificates,
        file,
        rules: rules.unwrap_or_default(),
        connector: Connector::new(
            trusted(proxy.upstream_ca.as_deref()).map_err(ProxyError::Trusted)?,
            to_instances,
        ),
        seed: u64::from_le_bytes(seed),
    })
}

fn listen(key: &'static str, address: SocketAddr) -> Result<TcpListener, ProxyError> {
    net::listen(Some(address.ip()), address.port()).map_err(|source| ProxyError::Listen {
        key,
        address,
        source,
    })
}

/// The file that the settings name, else `proxy.toml` beside `cluster.conf`.
fn rules_path(settings: &Settings) -> std::path::PathBuf {
    let named = settings.proxy.rules.as_deref().map(Path::to_owned);
    named.unwrap_or_else(|| settings.config_dir.join("proxy.toml"))
}

/// Connections to instances without which requests of HTTP/2, many over one connection of a client, would be held up.
const LEAST_TO_INSTANCES: usize = 1_024;

/// How many connections the node and the proxy may have, each at most what the settings say; gives how many the proxy may have to
/// instances: as many as to clients, since a request that is passed on has two.
pub fn share_files(settings: &mut Settings, has_members: bool) -> Result<usize, StartError> {
    let http = settings.http.max_connections;
    let (wanted, to_instances) = if settings.proxy.is_on() {
        let wanted = settings.proxy.max_connections;
        (wanted, wanted.max(LEAST_TO_INSTANCES))
    } else {
        (0, 0)
    };
    let passed_on = settings.legacy.servers.len().saturating_mul(settings.legacy.max_in_flight);
    let all = http.saturating_add(wanted).saturating_add(to_instances);
    let room = open_files::raise(all, has_members, passed_on)?;
    let shares = shared(room, http, wanted);
    (settings.http.max_connections, settings.proxy.max_connections) = (shares.0, shares.1);
    Ok(shares.2)
}

/// Of the node's clients, the proxy's clients, and the instances.
fn shared(room: usize, http: usize, proxy: usize) -> (usize, usize, usize) {
    if proxy == 0 {
        return (http.min(room), 0, 0);
    }
    let http = http.min((room / 2).max(room.saturating_sub(proxy.saturating_mul(2))));
    let proxy = proxy.min((room - http) / 2).max(1);
    (http, proxy, room.saturating_sub(http + proxy).max(1))
}

impl Opened {
    /// The proxy in front of `registry`.
    pub fn proxy(&mut self, settings: &Settings, registry: &Arc<Registry>, clock: &Clock) -> Arc<Proxy> {
        let (rules, connector) = (std::mem::take(&mut self.rules), self.connector.clone());
        Proxy::new(settings.proxy.clone(), Arc::clone(registry), clock.clone(), rules, connector, self.seed)
    }

    /// Starts what serves; clients wait until the data of other members are loaded.
    pub fn spawn(
        self,
        tasks: &mut Tasks,
        stopped: &CancellationToken,
        settings: &Settings,
        proxy: &Arc<Proxy>,
        cluster: Cluster,
    ) {
        if let Some(certificates) = self.certificates {
            tasks.spawn("certificates of the proxy", certificates.watch(stopped.clone()));
        }
        tasks.spawn("rules of the proxy", self.file.watch(Arc::clone(proxy), stopped.clone()));
        tasks.spawn("connections of the proxy", Arc::clone(proxy).sweep(stopped.clone()));
        let http = &settings.http;
        let server = Server {
            proxy: Arc::clone(proxy),
            patience: Patience {
                idle: http.idle_timeout,
                head: http.head_timeout,
                write: http.write_timeout,
                least_rate: LEAST_RATE,
            },
            room: Arc::new(Semaphore::new(settings.proxy.max_connections.min(Semaphore::MAX_PERMITS))),
        };
        let (stopped, grace, doors) = (stopped.clone(), settings.stop_grace, self.doors);
        tasks.spawn("proxy", async move {
            if stopped.run_until_cancelled(until_loaded(cluster)).await.is_none() {
                return;
            }
            for door in &doors {
                if let Ok(address) = door.listener.local_addr() {
                    let tls = door.certificates.is_some();
                    tracing::info!(%address, tls, "the proxy serves");
                }
            }
            server.run(doors, stopped, grace).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_files_are_shared_between_the_node_and_its_proxy() {
        for (room, http, proxy, expected) in [
            (150_000, 50_000, 50_000, (50_000, 50_000, 50_000)),
            (960, 50_000, 0, (960, 0, 0)),
            (960, 50_000, 50_000, (480, 240, 240)),
            (960, 50_000, 100, (760, 100, 100)),
            (960, 100, 50_000, (100, 430, 430)),
            (2_000, 100, 100, (100, 100, 1_800)),
            (16, 16, 16, (8, 4, 4)),
        ] {
            assert_eq!(shared(room, http, proxy), expected, "{room} {http} {proxy}");
        }
    }
}
