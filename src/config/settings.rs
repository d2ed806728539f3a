//! The typed settings: what every other module is told at start, with unit, default and effect.
//!
//! Values are checked where they are read (`keys`, `values`); whoever holds a [`Settings`] needs no
//! check of its own. `conf/application.properties` says the same in the operator's words, and a
//! test keeps its defaults equal to [`Settings::default`].

use std::{net::IpAddr, path::PathBuf, time::Duration};

use super::{
    cluster_settings::{ClusterSettings, DistroSettings, ForwardSettings, MembershipSettings, PART_BYTES},
    legacy_settings::LegacySettings,
    proxy_settings::ProxySettings,
    values::{ContextPath, Network, Pattern, PushAgent},
};

/// Everything that the operator can decide at start. None of it changes while the server runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Folder of the store and of generated secrets (`--data`, else `nacos.home` + `/data`).
    ///
    /// Default `./data`. Made at start when it doesn't exist. Two servers must not share it.
    pub data_dir: PathBuf,

    /// Folder in which `cluster.conf` is looked for (`--config-dir`).
    ///
    /// Default: the folder of the settings file that was read, else `conf` in the data folder.
    pub config_dir: PathBuf,

    /// What the listener does and under which path it answers.
    pub server: ServerSettings,

    /// How this node finds the address by which others know it.
    pub own_address: OwnAddressRules,

    /// Whether the node serves alone, and who else there is.
    pub membership: MembershipSettings,

    /// How the node talks to other members, and whom it takes for one.
    pub cluster: ClusterSettings,

    /// How ephemeral data are brought to the other members.
    pub distro: DistroSettings,

    /// How writes for services of other members are passed on.
    pub forward: ForwardSettings,

    /// The legacy servers behind this node.
    pub legacy: LegacySettings,

    /// Requests a second of one client address, by class.
    pub limit: LimitSettings,

    /// Limits of the HTTP level: sizes, times, connections.
    pub http: HttpSettings,

    /// Rules of the registry.
    pub naming: NamingSettings,

    /// When, how often and to whom changed lists are pushed by UDP.
    pub push: PushSettings,

    /// The reverse proxy.
    pub proxy: ProxySettings,

    /// What is logged and in which form.
    pub log: LogSettings,

    /// How long a stopping server waits for requests that are under way (`nacre.stop.grace-ms`).
    ///
    /// Milliseconds, default 5,000, from 0 to 600,000. What isn't answered by then is cut off. Above
    /// the grace period of the process manager (Kubernetes: 30 s) it has no effect.
    pub stop_grace: Duration,

    /// How long a node that leaves a cluster may take to hand over what it owns (`nacre.drain.timeout-ms`).
    ///
    /// Milliseconds, default 5,000, from 0 to 600,000; before [`Self::stop_grace`] begins. Then it stops all the same.
    pub drain_timeout: Duration,
}

impl Settings {
    /// Bytes of a body that a member may bring, and of a service or a part of one among all data of a member: what is set for
    /// members, what is set for everybody, or what a part takes with the longest instance that this node takes from clients,
    /// whichever is most.
    #[must_use]
    pub fn most_peer_bytes(&self) -> usize {
        let NamingSettings { max_name_bytes, max_metadata_bytes, .. } = self.naming;
        // Names stand there eight times, and may take six times as long in JSON; one entry of the metadata stands there twice.
        let instance = max_metadata_bytes.saturating_mul(2).saturating_add(max_name_bytes.saturating_mul(48));
        let part = PART_BYTES.saturating_add(instance);
        self.cluster.peer_max_body_bytes.max(self.http.max_body_bytes).max(part)
    }
}

/// The listener and the paths on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// TCP port of the HTTP API and UDP source of pushes (`server.port`).
    ///
    /// Default 8848. 0 takes any free port; the ready line on stdout names it.
    pub port: u16,

    /// The one local address to listen on (`server.address`).
    ///
    /// Default none: all addresses, IPv4 and IPv6. It is the own address, too, unless a setting gives one.
    pub address: Option<IpAddr>,

    /// What stands before `/v1/ns` in every path of the API (`server.servlet.context-path`).
    ///
    /// Default `/nacos`; `/` means none. Clients and all members of a cluster must agree on it.
    pub context_path: ContextPath,

    /// One log line per request (`server.tomcat.accesslog.enabled`).
    ///
    /// Default false: at full load it costs more than the requests.
    pub access_log: bool,

    /// Whether `CONTEXT/actuator/prometheus` answers (`management.endpoints.web.exposure.include` is
    /// `*` or names `prometheus`).
    ///
    /// Default false, as in Nacos. Our own `/metrics` doesn't depend on it.
    pub prometheus_endpoint: bool,
}

/// How the own address is found; [`super::own_address::choose`] decides by it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnAddressRules {
    /// The address itself: an IP or a host name without port (`nacos.server.ip`, else
    /// `nacos.inetutils.ip-address`). IPv6 in brackets. Default none: it is looked for.
    pub given: Option<String>,

    /// Take the host's name rather than an address (`nacos.preferHostnameOverIp`, or
    /// `nacos.inetutils.prefer-hostname-over-ip`). Default false.
    pub prefer_hostname: bool,

    /// Take only addresses of 10/8, 172.16/12 and 192.168/16
    /// (`nacos.inetutils.use-only-site-local-interfaces`). Default false; true switches
    /// [`Self::preferred_networks`] off.
    pub only_site_local: bool,

    /// Take only addresses that one of these matches whole, or that begin with its text
    /// (`nacos.inetutils.preferred-networks`). Default empty: any address.
    pub preferred_networks: Vec<Pattern>,

    /// Pass over interfaces whose whole name one of these matches
    /// (`nacos.inetutils.ignored-interfaces`). Default empty.
    pub ignored_interfaces: Vec<Pattern>,

    /// Look for an IPv6 address instead of an IPv4 one (`java.net.preferIPv6Addresses`). Default false.
    pub prefer_ipv6: bool,
}

/// Requests a second of one client address; above, 429. A second's number may come at once.
///
/// The address is the caller's, or what a trusted proxy says of it; an IPv6 one counts with all of its network of 64 bits. What
/// members send isn't limited, nor probes and metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitSettings {
    /// Beats (`nacre.limit.beat`).
    ///
    /// Default 0, no limit; up to 1,000,000. A host with 100 instances sends 20 a second.
    pub beat: u32,

    /// Requests that change nothing: lists and other GETs, long polls (`nacre.limit.read`).
    ///
    /// Default 0, no limit; up to 1,000,000. A client that subscribes to 30 services asks for three lists a second.
    pub read: u32,

    /// All others: registrations, logins, changes of services (`nacre.limit.write`).
    ///
    /// Default 0, no limit; up to 1,000,000.
    pub write: u32,
}

/// Limits of the HTTP level. Each protects the server from one kind of client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSettings {
    /// Bytes of a request's head, all header fields together (`server.max-http-header-size`).
    ///
    /// Default 524,288, from 8,192 to 16,777,216. A larger head is answered 431.
    pub max_head_bytes: usize,

    /// Bytes of a request's body (`nacre.http.max-body-bytes`).
    ///
    /// Default 10,485,760 (10 MiB), from 1,024 to 1 GiB. A larger body is answered 413. Up to this
    /// much memory is used per request under way. Members may send more, see
    /// [`peer_max_body_bytes`](super::ClusterSettings::peer_max_body_bytes).
    pub max_body_bytes: usize,

    /// Bytes of all bodies that are being read or answered, together (`nacre.http.max-collecting-bytes`).
    ///
    /// Default 268,435,456 (256 MiB), from 1 MiB to 64 GiB. At it, a body that goes on coming is answered 503.
    /// Below [`Self::max_body_bytes`] it is the limit of a single body as well.
    pub max_collecting_bytes: usize,

    /// How long a connection may stay open without a request (`nacre.http.idle-timeout-ms`).
    ///
    /// Milliseconds, default 60,000, from 100 to 3,600,000. Below the idle time of clients' pools
    /// they meet closed connections.
    pub idle_timeout: Duration,

    /// How long a request's head may take from its first byte (`nacre.http.head-timeout-ms`).
    ///
    /// Milliseconds, default 20,000, from 100 to 600,000. Then the connection is closed.
    pub head_timeout: Duration,

    /// How long a request's body may take (`nacre.http.body-timeout-ms`).
    ///
    /// Milliseconds, default 30,000, from 100 to 600,000. Then 408, and the connection is closed.
    pub body_timeout: Duration,

    /// How long a client may take no byte of its answer, and by how much it may be behind a rate of 64 KiB a second
    /// (`nacre.http.write-timeout-ms`).
    ///
    /// Milliseconds, default 30,000, from 100 to 600,000. Then the connection is closed.
    pub write_timeout: Duration,

    /// Open connections at most (`nacre.http.max-connections`).
    ///
    /// Default 50,000, from 1 to 1,000,000. At it, further ones wait in the kernel's queue.
    /// The process's limit of open files must be above it.
    pub max_connections: usize,

    /// From whom `X-Forwarded-For` and `X-Real-IP` are believed (`nacre.forwarded.trust`).
    ///
    /// Networks in CIDR form; default none. A network that clients are in lets them forge their
    /// address.
    pub trusted_forwarders: Vec<Network>,
}

/// Rules of the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamingSettings {
    /// Remove services that stay without instances (`nacos.naming.empty-service.auto-clean`).
    ///
    /// Default true. False keeps every name ever used, in memory.
    pub empty_service_auto_clean: bool,

    /// First look for empty services after start (`nacos.naming.empty-service.clean.initial-delay-ms`).
    ///
    /// Milliseconds, default 50,000, from 0 to 86,400,000.
    pub empty_service_initial_delay: Duration,

    /// Period of that look (`nacos.naming.empty-service.clean.period-time-ms`).
    ///
    /// Milliseconds, default 30,000, from 10 to 86,400,000.
    pub empty_service_period: Duration,

    /// How long a service must have been empty to go
    /// (`nacos.naming.clean.empty-service.expired-time`).
    ///
    /// Milliseconds, from 0 to 2,592,000,000. Default none: it goes at the fifth look that finds it
    /// empty.
    pub empty_service_expired_time: Option<Duration>,

    /// Remove ephemeral instances that stay silent (`nacos.naming.expireInstance`).
    ///
    /// Default true. False only marks them unhealthy; instances that crashed are then kept for ever.
    pub expire_instance: bool,

    /// Bytes of a name: grouped name of a service, cluster, namespace; also of an instance's ip and app
    /// (`nacre.naming.max-name-bytes`).
    ///
    /// Default 512, from 200 to 8,192. A longer one is answered 400.
    pub max_name_bytes: usize,

    /// Bytes of the metadata of an instance, a service or a cluster, as JSON (`nacre.naming.max-metadata-bytes`).
    ///
    /// Default 1,048,576 (1 MiB), from 65,536 to 1 GiB. More is answered 400. Lists carry the metadata of every
    /// instance.
    pub max_metadata_bytes: usize,

    /// Clusters of a service (`nacre.naming.max-clusters`).
    ///
    /// Default 1,000, from 1 to 1,000,000. A further one is answered 400.
    pub max_clusters: usize,

    /// Refuse clients until the data of the other members are loaded (`nacos.naming.data.warmup`).
    ///
    /// Default true. False answers at once, with lists that may lack what others have. Without effect on a node that
    /// serves alone.
    pub data_warmup: bool,
}

/// Pushes of changed lists by UDP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushSettings {
    /// From a change to its push when the service was quiet (`nacre.push.first-delay-ms`).
    ///
    /// Milliseconds, default 200, from 0 to 60,000. Changes within it share one push.
    pub first_delay: Duration,

    /// Between two pushes of one service (`nacre.push.interval-ms`, else
    /// `nacos.naming.push.pushTaskDelay`).
    ///
    /// Milliseconds, default 1,000, from 0 to 600,000. A service that keeps changing is pushed this often.
    pub interval: Duration,

    /// How long a subscription lives after the query that made it (`nacre.push.subscription-ms`).
    ///
    /// Milliseconds, default 30,000, from 100 to 3,600,000. Below the clients' query period
    /// (`cacheMillis`, 10 s) they lose pushes in between.
    pub subscription: Duration,

    /// To which addresses pushes may go (`nacre.push.targets`). Default [`PushTargets::Private`].
    pub targets: PushTargets,

    /// Further clients that understand pushes (`nacre.push.agents`), besides those that Nacos knows.
    ///
    /// List of `NAME:MINIMUM-VERSION` as in their `User-Agent`. Default empty.
    pub agents: Vec<PushAgent>,

    /// Subscriptions at most (`nacre.push.max-subscribers`).
    ///
    /// Default 100,000, from 0 to 10,000,000. At it, a new one isn't taken, and the client gets the
    /// `cacheMillis` of one that doesn't subscribe, so it asks on its own.
    pub max_subscribers: usize,

    /// Pushes that wait for their acknowledgement, at most (`nacre.push.max-unacked`).
    ///
    /// Default 100,000, from 1 to 10,000,000. At it, a push is sent once, without resending.
    pub max_unacked: usize,
}

/// To which addresses a push may go. The address comes from the client's own parameters, so anybody could
/// have a third party flooded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushTargets {
    /// The caller's own address, and any address of a private, loopback or link-local network.
    Private,
    /// Only the address that the query came from.
    Caller,
    /// Any address. Only for a server that untrusted callers can't reach.
    Any,
}

/// Logging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// The least severity that is logged (`nacre.log.level`): error, warn, info, debug or trace.
    /// Default info; debug tells of single services, connections and pushes. Requests have [`ServerSettings::access_log`].
    pub level: tracing::Level,

    /// How a line looks (`nacre.log.format`). Default [`LogFormat::Text`].
    pub format: LogFormat,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people: time, level, text, fields.
    Text,
    /// One JSON object a line, for collectors.
    Json,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from("./data"),
            config_dir: PathBuf::from("./data/conf"),
            server: ServerSettings::default(),
            own_address: OwnAddressRules::default(),
            membership: MembershipSettings::default(),
            cluster: ClusterSettings::default(),
            distro: DistroSettings::default(),
            forward: ForwardSettings::default(),
            legacy: LegacySettings::default(),
            limit: LimitSettings::default(),
            http: HttpSettings::default(),
            naming: NamingSettings::default(),
            push: PushSettings::default(),
            proxy: ProxySettings::default(),
            log: LogSettings { level: tracing::Level::INFO, format: LogFormat::Text },
            stop_grace: Duration::from_secs(5),
            drain_timeout: Duration::from_secs(5),
        }
    }
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            port: 8848,
            address: None,
            context_path: ContextPath::default(),
            access_log: false,
            prometheus_endpoint: false,
        }
    }
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            max_head_bytes: 512 * 1024,
            max_body_bytes: 10 * 1024 * 1024,
            max_collecting_bytes: 256 * 1024 * 1024,
            idle_timeout: Duration::from_secs(60),
            head_timeout: Duration::from_secs(20),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            max_connections: 50_000,
            trusted_forwarders: Vec::new(),
        }
    }
}

impl Default for NamingSettings {
    fn default() -> Self {
        Self {
            empty_service_auto_clean: true,
            empty_service_initial_delay: Duration::from_secs(50),
            empty_service_period: Duration::from_secs(30),
            empty_service_expired_time: None,
            expire_instance: true,
            max_name_bytes: 512,
            max_metadata_bytes: 1024 * 1024,
            max_clusters: 1_000,
            data_warmup: true,
        }
    }
}

impl Default for PushSettings {
    fn default() -> Self {
        Self {
            first_delay: Duration::from_millis(200),
            interval: Duration::from_secs(1),
            subscription: Duration::from_secs(30),
            targets: PushTargets::Private,
            agents: Vec::new(),
            max_subscribers: 100_000,
            max_unacked: 100_000,
        }
    }
}
