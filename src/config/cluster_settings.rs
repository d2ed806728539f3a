//! The settings of a node that has members beside it: who they are, how it talks to them, what it forwards.

use std::{fmt, time::Duration};

use super::values::{Network, Via};

/// Who is a member besides this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MembershipSettings {
    /// Where the list of members comes from, as decided from all that was said.
    ///
    /// Default [`Lookup::Standalone`]: the node serves alone.
    pub lookup: Lookup,

    /// What was said about serving alone (`nacos.standalone`, `MODE`). Default none: alone, unless members are named.
    pub standalone: Option<bool>,

    /// What was said about where members are looked up (`nacos.core.member.lookup.type`). Default none.
    pub lookup_type: Option<LookupType>,

    /// Members as `host[:port]` (`nacos.member.list`, `NACOS_SERVERS`). Default empty. Counts where there is no
    /// `cluster.conf`.
    pub member_list: Vec<String>,

    /// The name whose addresses are the members (`nacre.member.dns`, `NAME[:PORT]`). Default none.
    pub dns: Option<DnsName>,

    /// From one look at the name to the next (`nacre.member.dns-interval-ms`).
    ///
    /// Milliseconds, default 5,000, from 100 to 3,600,000.
    pub dns_interval: Duration,

    /// The web server that hands out the list.
    pub address_server: AddressServerSettings,

    /// What the node tells of itself in `extendInfo` besides (`nacos.core.member.meta.site`, `.adweight`, `.weight`);
    /// only shown. Default none.
    pub meta: MemberMeta,

    /// Failed reports in a row that a member may have; with the next one it is DOWN
    /// (`nacos.core.member.fail-access-cnt`).
    ///
    /// Default 3, from 0 to 1,000. Where all members are Nacre nodes, 10 s without an answer are enough too.
    pub fail_access_count: u32,
}

/// Where the list of members comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lookup {
    /// There is none: the node serves alone.
    #[default]
    Standalone,
    /// `cluster.conf` in the config folder, watched; where it is missing, the list in the settings.
    File,
    /// A web server that hands out the list.
    AddressServer,
    /// A name whose addresses are the members.
    Dns,
}

/// A way to learn who the members are that Nacos has a word for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupType {
    /// `cluster.conf` in the config folder, or the member list.
    File,
    /// A web server that hands out the list.
    AddressServer,
}

/// A name with the port that all members listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsName {
    /// What is resolved, e.g. `nacre-headless.default.svc.cluster.local`.
    pub name: String,
    /// The port of every member. None: that of this node.
    pub port: Option<u16>,
}

/// The web server that hands out the list: `GET http://DOMAIN:PORTURL`, every 5 s.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressServerSettings {
    /// Its name or IP address (`address.server.domain`). Default none, which means [`Self::DEFAULT_DOMAIN`].
    pub domain: Option<String>,

    /// Its port (`address.server.port`). Default 8080.
    pub port: u16,

    /// The path of the list (`address.server.url`). Default none: context path and `/serverlist`.
    pub url: Option<String>,

    /// Requests at start before the start fails, 1 s apart (`nacos.core.address-server.retry`).
    ///
    /// Default 5, from 1 to 1,000.
    pub tries: u32,

    /// Failures in a row from which on the server is shown as unhealthy (`maxHealthCheckFailCount`).
    ///
    /// Default 12, from 1 to 1,000,000. The last list is kept in any case.
    pub max_failures: u32,
}

impl AddressServerSettings {
    /// The name that Nacos asks when none is given.
    pub const DEFAULT_DOMAIN: &str = "jmenv.tbsite.net";

    /// The name or IP address to ask.
    #[must_use]
    pub fn domain(&self) -> &str {
        self.domain.as_deref().unwrap_or(Self::DEFAULT_DOMAIN)
    }
}

/// What a node tells of itself besides; only shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberMeta {
    /// `site`.
    pub site: Option<String>,
    /// `adWeight`.
    pub ad_weight: Option<String>,
    /// `weight`.
    pub weight: Option<String>,
}

/// Nacre nodes tell each other of a large service in parts of about so many bytes, or one instance where that is more.
pub const PART_BYTES: usize = 4 << 20;
/// The least that may be set for [`ClusterSettings::peer_max_body_bytes`]: a part, and as much again for an instance.
pub const LEAST_PEER_BODY_BYTES: usize = 2 * PART_BYTES;

/// How the node talks to other members, and whom it takes for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSettings {
    /// How often every member is told that this node is there (`nacre.report.interval-ms`).
    ///
    /// Milliseconds, default 2,000, from 100 to 60,000. Members of Nacos 1.x report every 2 s. Above 8,000 a member
    /// that hangs isn't DOWN within 10 s any more.
    pub report_interval: Duration,

    /// How long a member may take to answer a report (`nacre.report.timeout-ms`).
    ///
    /// Milliseconds, default 2,500, from 50 to 60,000.
    pub report_timeout: Duration,

    /// From where members call besides their listed addresses (`nacre.peer.networks`).
    ///
    /// Networks in CIDR form; default none. Whoever is in one of them can change everything that is registered.
    pub peer_networks: Vec<Network>,

    /// Bytes of a body that a member sends (`nacre.peer.max-body-bytes`).
    ///
    /// Default 67,108,864 (64 MiB), from 8 MiB to 4 GiB. A larger one is answered 413. Members of 1.x send up to
    /// 1,000 services at once; a service of 1,000 instances takes about 400 KiB. All data of a member, which a node loads, are
    /// taken piece by piece and not bounded by it; a single service of theirs is, or a part of it. What counts is
    /// [`Settings::most_peer_bytes`](super::Settings::most_peer_bytes).
    pub peer_max_body_bytes: usize,

    /// Where to connect instead of a member's own address (`nacre.peer.via`).
    ///
    /// List of `ADDRESS>HOST:PORT`; default none. For members that reach each other through forwarders.
    pub peer_via: Vec<Via>,

    /// The name of the header that proves a member (`nacos.core.auth.server.identity.key`). Default none. Counts only
    /// together with [`Self::identity_value`].
    pub identity_key: Option<String>,

    /// Its value (`nacos.core.auth.server.identity.value`). Default none.
    pub identity_value: Option<Secret>,
}

/// A text that is shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub(super) String);

impl Secret {
    /// The text itself.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("(hidden)")
    }
}

/// How services are spread over the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mapping {
    /// Hash modulo count of owners, as Nacos 1.x.
    #[default]
    Modulo,
    /// Highest random weight: a join or leave moves one nth. For clusters of Nacre members only.
    Rendezvous,
}

/// How ephemeral data are brought to the other members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DistroSettings {
    /// From one sending of a service's changes to a Nacre member to the next (`nacre.distro.sync-delay-ms`).
    ///
    /// Milliseconds, default 50, from 0 to 60,000. The first change after a pause leaves at once.
    pub sync_delay: Duration,

    /// From one sending of a service's changes to the next in a ring with a member of Nacos 1.x (half of
    /// `nacos.naming.distro.taskDispatchPeriod`, else `nacos.core.protocol.distro.data.sync.delayMs`, which wins).
    ///
    /// Milliseconds, default 1,000, from 200 to 600,000; a lower one counts as 200. The first change after a pause leaves
    /// at once, later ones are merged.
    pub legacy_sync_delay: Duration,

    /// Services that are sent together at most (`nacos.naming.distro.batchSyncKeyCount`).
    ///
    /// Default 1,000, from 1 to 100,000.
    pub batch_sync_key_count: usize,

    /// The longest pause before what failed is sent again (`nacos.naming.distro.syncRetryDelay`, else
    /// `nacos.core.protocol.distro.data.sync.retryDelayMs`, which wins).
    ///
    /// Milliseconds, default 3,000, from 100 to 600,000. The first pause is 0.5 s, each further one twice as long.
    pub sync_retry_delay: Duration,

    /// How often what a node owns is compared with what others have of it
    /// (`nacos.core.protocol.distro.data.verify_interval_ms`, else `nacos.core.protocol.distro.data.verify.intervalMs`,
    /// which wins).
    ///
    /// Milliseconds, default 5,000, from 500 to 600,000. All members must agree on it.
    pub verify_interval: Duration,

    /// How long a member may take to take data (`nacos.core.protocol.distro.data.sync.timeoutMs`).
    ///
    /// Milliseconds, default 3,000, from 100 to 600,000.
    pub sync_timeout: Duration,

    /// How long a member may take to compare (`nacos.core.protocol.distro.data.verify.timeoutMs`).
    ///
    /// Milliseconds, default 3,000, from 100 to 600,000.
    pub verify_timeout: Duration,

    /// How long a member may take to hand out all its data (`nacos.core.protocol.distro.data.load.timeoutMs`).
    ///
    /// Milliseconds, default 30,000, from 100 to 3,600,000.
    pub load_timeout: Duration,

    /// How services are spread over the members (`nacre.distro.mapping`). Default [`Mapping::Modulo`].
    /// [`Mapping::Rendezvous`] counts only while every member is a Nacre node that has it set.
    pub mapping: Mapping,
}

/// How writes for services of other members are passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardSettings {
    /// How long the owner may take to answer (`nacre.forward.timeout-ms`).
    ///
    /// Milliseconds, default 2,000, from 50 to 60,000. Then the client is answered 503.
    pub timeout: Duration,

    /// Forwards under way to one member at most (`nacre.forward.max-per-peer`).
    ///
    /// Default 512, from 1 to 65,536. At it, further ones are answered 503 at once, so that one member that hangs
    /// doesn't hold up the others' clients.
    pub max_per_peer: usize,
}

impl Default for MembershipSettings {
    fn default() -> Self {
        Self {
            lookup: Lookup::Standalone,
            standalone: None,
            lookup_type: None,
            member_list: Vec::new(),
            dns: None,
            dns_interval: Duration::from_secs(5),
            address_server: AddressServerSettings::default(),
            meta: MemberMeta::default(),
            fail_access_count: 3,
        }
    }
}

impl Default for AddressServerSettings {
    fn default() -> Self {
        Self { domain: None, port: 8080, url: None, tries: 5, max_failures: 12 }
    }
}

impl Default for ClusterSettings {
    fn default() -> Self {
        Self {
            report_interval: Duration::from_secs(2),
            report_timeout: Duration::from_millis(2_500),
            peer_networks: Vec::new(),
            peer_max_body_bytes: 64 * 1024 * 1024,
            peer_via: Vec::new(),
            identity_key: None,
            identity_value: None,
        }
    }
}

impl Default for DistroSettings {
    fn default() -> Self {
        Self {
            sync_delay: Duration::from_millis(50),
            legacy_sync_delay: Duration::from_secs(1),
            batch_sync_key_count: 1_000,
            sync_retry_delay: Duration::from_secs(3),
            verify_interval: Duration::from_secs(5),
            sync_timeout: Duration::from_secs(3),
            verify_timeout: Duration::from_secs(3),
            load_timeout: Duration::from_secs(30),
            mapping: Mapping::Modulo,
        }
    }
}

impl Default for ForwardSettings {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(2), max_per_peer: 512 }
    }
}
