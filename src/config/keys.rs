//! THE table of keys: what the server does with each key that a 1.x installation or Nacre knows.
//!
//! Rows are applied from top to bottom, so where two keys mean the same the lower one wins.
//! Source: Nacos 1.4.8, its shipped settings and start script; names of 2.x where they say what 1.x can't.

use std::path::Path;

use super::{
    cluster_settings::LEAST_PEER_BODY_BYTES,
    settings::Settings,
    values::{self as read, Reason, put, put_some},
};

/// One row: a key, a list `key` (also `key[0]`, `key[1]` ...), or all keys under `prefix.*`.
pub(super) struct Key {
    pub name: &'static str,
    pub treatment: Treatment,
}

/// What a key does here.
pub(super) enum Treatment {
    /// Has its meaning; the function reads the value into the settings.
    Honour(fn(&mut Settings, &str) -> Result<(), Reason>),
    /// The same for a list key.
    HonourList(fn(&mut Settings, &[String]) -> Result<(), Reason>),
    /// Has no effect here, and nothing is lost by it.
    Accept,
    /// The rest of an area of which other keys have an effect, or their own row: from a file or the environment accepted, but
    /// for what is nearly a known key; with `--set` unknown.
    AcceptRest,
    /// Has no effect here; if the value is so, the operator must know (text: what doesn't happen).
    WarnIf(fn(&str) -> bool, &'static str),
    /// If the value is so, the server doesn't start (text: reason and cure); else accepted.
    RefuseIf(fn(&str) -> bool, &'static str),
    /// A switch that must be off (text: reason and cure); what is neither on nor off is wrong, never taken for off.
    RefuseOn(&'static str),
}

use Treatment::{Accept, AcceptRest, HonourList, RefuseIf, RefuseOn, WarnIf};

const fn honour(name: &'static str, apply: fn(&mut Settings, &str) -> Result<(), Reason>) -> Key {
    Key { name, treatment: Treatment::Honour(apply) }
}

const fn key(name: &'static str, treatment: Treatment) -> Key {
    Key { name, treatment }
}

const NO_DATABASE: &str = "no database is used; namespaces and users that are stored there aren't read";
const NO_METRICS_PUSH: &str = "metrics aren't pushed; let the collector read /metrics";
const FILE_BY_OPTION: &str = "no file is read by this key; name it with --config FILE";
const NO_AUTH: &str = "this version can't check passwords, so everybody could read and write; \
    set it to false and keep the port closed to strangers, or stay with a server that can";
const NO_TLS: &str = "this version can't serve HTTPS, and plain HTTP in its place would betray the clients; \
    set it to false and put a TLS proxy before the server";
const NO_CONFIG_CENTRE: &str = "this is a naming server without a config centre; \
    use naming or all here, and another server for the configurations";

/// All keys. Order within a block: the reference's names, then those of 2.x, then ours.
pub(super) static KEYS: &[Key] = &[
    // Folders. `--data` wins over `nacos.home`.
    honour("nacos.home", |s, v| {
        s.data_dir = Path::new(v).join("data");
        Ok(())
    }),
    // Membership, see `mode`.
    honour("nacos.standalone", |s, v| put_some(&mut s.membership.standalone, read::switch(v))),
    honour("nacos.core.member.lookup.type", |s, v| {
        put(&mut s.membership.lookup_type, Ok(read::lookup_type(v)))
    }),
    honour("nacos.member.list", |s, v| put(&mut s.membership.member_list, Ok(read::members(v)))),
    honour("address.server.domain", |s, v| put_some(&mut s.membership.address_server.domain, read::host(v))),
    honour("address.server.port", |s, v| {
        put(&mut s.membership.address_server.port, read::number(v, 1..=65_535))
    }),
    honour("address.server.url", |s, v| put_some(&mut s.membership.address_server.url, read::url_path(v))),
    honour("nacos.core.address-server.retry", |s, v| {
        put(&mut s.membership.address_server.tries, read::number(v, 1..=1_000))
    }),
    honour("maxHealthCheckFailCount", |s, v| {
        put(&mut s.membership.address_server.max_failures, read::number(v, 1..=1_000_000))
    }),
    honour("nacos.core.member.meta.site", |s, v| put_some(&mut s.membership.meta.site, read::short_text(v))),
    honour("nacos.core.member.meta.adweight", |s, v| {
        put_some(&mut s.membership.meta.ad_weight, read::short_text(v))
    }),
    honour("nacos.core.member.meta.weight", |s, v| {
        put_some(&mut s.membership.meta.weight, read::short_text(v))
    }),
    honour("nacos.core.member.fail-access-cnt", |s, v| {
        put(&mut s.membership.fail_access_count, read::number(v, 0..=1_000))
    }),
    honour("nacre.member.dns", |s, v| put_some(&mut s.membership.dns, read::dns_name(v))),
    honour("nacre.member.dns-interval-ms", |s, v| {
        put(&mut s.membership.dns_interval, read::millis(v, 100..=3_600_000))
    }),
    honour("nacre.report.interval-ms", |s, v| {
        put(&mut s.cluster.report_interval, read::millis(v, 100..=60_000))
    }),
    honour("nacre.report.timeout-ms", |s, v| {
        put(&mut s.cluster.report_timeout, read::millis(v, 50..=60_000))
    }),
    honour("nacre.peer.networks", |s, v| put(&mut s.cluster.peer_networks, read::networks(v))),
    honour("nacre.peer.max-body-bytes", |s, v| {
        put(&mut s.cluster.peer_max_body_bytes, read::bytes(v, LEAST_PEER_BODY_BYTES..=4 << 30))
    }),
    key("nacre.peer.via", HonourList(|s, items| put(&mut s.cluster.peer_via, read::vias(items)))),
    // Who proves to be a member by a header; the rest of auth stands at the end.
    honour("nacos.core.auth.server.identity.key", |s, v| {
        put_some(&mut s.cluster.identity_key, read::header_name(v))
    }),
    honour("nacos.core.auth.server.identity.value", |s, v| {
        put_some(&mut s.cluster.identity_value, read::header_secret(v))
    }),
    key("nacos.core.member.*", AcceptRest),
    key("nacos.core.notify.*", Accept),
    key("nacos.core.snowflake.worker-id", Accept),
    key("nacos.core.monitor.*", Accept),
    key("nacos.member-change-event.queue.size", Accept),
    key("nacos.watch-file.max-dirs", Accept),
    key("nacos.remote.server.*", Accept),
    // Web.
    honour("server.port", |s, v| put(&mut s.server.port, read::number(v, 0..=65_535))),
    honour("server.address", |s, v| put_some(&mut s.server.address, read::listen_address(v))),
    key("server.context-path", Accept),
    honour("server.servlet.context-path", |s, v| put(&mut s.server.context_path, read::context_path(v))),
    honour("server.max-http-header-size", |s, v| {
        put(&mut s.http.max_head_bytes, read::bytes(v, 8 * 1024..=16 * 1024 * 1024))
    }),
    honour("server.tomcat.accesslog.enabled", |s, v| put(&mut s.server.access_log, read::switch(v))),
    honour("management.endpoints.web.exposure.include", |s, v| {
        put(&mut s.server.prometheus_endpoint, read::opens_prometheus(v))
    }),
    key("management.metrics.export.elastic.enabled", WarnIf(is_true, NO_METRICS_PUSH)),
    key("management.metrics.export.influx.enabled", WarnIf(is_true, NO_METRICS_PUSH)),
    key("management.*", Accept),
    key("server.ssl.enabled", RefuseOn(NO_TLS)),
    key("server.ssl.*", Accept),
    key("server.tomcat.*", Accept),
    key("server.compression.*", Accept),
    key("server.error.*", Accept),
    key("server.use-forward-headers", Accept),
    key("tls.*", Accept),
    key("checkIntervalTlsFile", Accept),
    key("nacos.http.timeout", Accept),
    // Spring and the JVM.
    key("spring.config.additional-location", WarnIf(any, FILE_BY_OPTION)),
    key("spring.config.location", WarnIf(any, FILE_BY_OPTION)),
    key("spring.datasource.platform", WarnIf(is_outer_database, NO_DATABASE)),
    key("spring.sql.init.platform", WarnIf(is_outer_database, NO_DATABASE)),
    key("spring.*", Accept),
    key("logging.*", Accept),
    key("loader.path", Accept),
    // Own address. An IP in `nacos.server.ip` wins over the other name.
    honour("nacos.inetutils.ip-address", |s, v| put_some(&mut s.own_address.given, read::own_address(v))),
    honour("nacos.server.ip", |s, v| put_some(&mut s.own_address.given, read::own_address(v))),
    honour("nacos.preferHostnameOverIp", |s, v| {
        let said = read::switch(v)?;
        s.own_address.prefer_hostname |= said;
        Ok(())
    }),
    honour("nacos.inetutils.prefer-hostname-over-ip", |s, v| {
        let said = read::switch(v)?;
        s.own_address.prefer_hostname |= said;
        Ok(())
    }),
    honour("nacos.inetutils.use-only-site-local-interfaces", |s, v| {
        put(&mut s.own_address.only_site_local, read::switch(v))
    }),
    key(
        "nacos.inetutils.preferred-networks",
        HonourList(|s, items| put(&mut s.own_address.preferred_networks, read::patterns(items))),
    ),
    key(
        "nacos.inetutils.ignored-interfaces",
        HonourList(|s, items| put(&mut s.own_address.ignored_interfaces, read::patterns(items))),
    ),
    honour("java.net.preferIPv6Addresses", |s, v| put(&mut s.own_address.prefer_ipv6, read::switch(v))),
    key("nacos.core.inet.auto-refresh", Accept),
    key("nacos.local.ip", Accept),
    key("nacos.mode", Accept),
    key("nacos.function.mode", Accept),
    // Distro: among members only. Where 1.x and 2.x have a name each, that of 2.x wins.
    honour("nacos.naming.distro.taskDispatchPeriod", |s, v| {
        put(&mut s.distro.legacy_sync_delay, read::legacy_delay(v, 2))
    }),
    honour("nacos.core.protocol.distro.data.sync.delayMs", |s, v| {
        put(&mut s.distro.legacy_sync_delay, read::legacy_delay(v, 1))
    }),
    honour("nacos.naming.distro.batchSyncKeyCount", |s, v| {
        put(&mut s.distro.batch_sync_key_count, read::number(v, 1..=100_000))
    }),
    honour("nacos.naming.distro.syncRetryDelay", |s, v| {
        put(&mut s.distro.sync_retry_delay, read::millis(v, 100..=600_000))
    }),
    honour("nacos.core.protocol.distro.data.sync.retryDelayMs", |s, v| {
        put(&mut s.distro.sync_retry_delay, read::millis(v, 100..=600_000))
    }),
    // What the names above are called inside of 1.x, which writes their values over these.
    key("nacos.core.protocol.distro.data.sync_delay_ms", Accept),
    key("nacos.core.protocol.distro.data.sync_retry_delay_ms", Accept),
    key("nacos.core.protocol.distro.data.load_retry_delay_ms", Accept),
    // A node that starts asks each member anew within seconds.
    key("nacos.naming.distro.loadDataRetryDelayMillis", Accept),
    key("nacos.core.protocol.distro.data.load.retryDelayMs", Accept),
    honour("nacos.core.protocol.distro.data.verify_interval_ms", |s, v| {
        put(&mut s.distro.verify_interval, read::millis(v, 500..=600_000))
    }),
    honour("nacos.core.protocol.distro.data.verify.intervalMs", |s, v| {
        put(&mut s.distro.verify_interval, read::millis(v, 500..=600_000))
    }),
    honour("nacos.core.protocol.distro.data.sync.timeoutMs", |s, v| {
        put(&mut s.distro.sync_timeout, read::millis(v, 100..=600_000))
    }),
    honour("nacos.core.protocol.distro.data.verify.timeoutMs", |s, v| {
        put(&mut s.distro.verify_timeout, read::millis(v, 100..=600_000))
    }),
    honour("nacos.core.protocol.distro.data.load.timeoutMs", |s, v| {
        put(&mut s.distro.load_timeout, read::millis(v, 100..=3_600_000))
    }),
    honour("nacre.distro.sync-delay-ms", |s, v| put(&mut s.distro.sync_delay, read::millis(v, 0..=60_000))),
    honour("nacre.distro.mapping", |s, v| put(&mut s.distro.mapping, read::mapping(v))),
    honour("nacre.forward.timeout-ms", |s, v| put(&mut s.forward.timeout, read::millis(v, 50..=60_000))),
    honour("nacre.forward.max-per-peer", |s, v| {
        put(&mut s.forward.max_per_peer, read::number(v, 1..=65_536))
    }),
    // Legacy servers.
    key(
        "nacre.legacy.servers",
        HonourList(|s, items| put(&mut s.legacy.servers, read::legacy_servers(items))),
    ),
    honour("nacre.legacy.connect-timeout-ms", |s, v| {
        put(&mut s.legacy.connect_timeout, read::millis(v, 50..=60_000))
    }),
    honour("nacre.legacy.timeout-ms", |s, v| put(&mut s.legacy.timeout, read::millis(v, 100..=600_000))),
    honour("nacre.legacy.max-in-flight", |s, v| {
        put(&mut s.legacy.max_in_flight, read::number(v, 1..=1_000_000))
    }),
    honour("nacre.legacy.queue", |s, v| put(&mut s.legacy.queue, read::number(v, 0..=1_000_000))),
    honour("nacre.legacy.naming", |s, v| put(&mut s.legacy.naming, read::legacy_naming(v))),
    honour("nacre.legacy.stale-ms", |s, v| put(&mut s.legacy.stale, read::millis(v, 0..=86_400_000))),
    honour("nacre.legacy.max-kept", |s, v| put(&mut s.legacy.max_kept, read::number(v, 0..=1_000_000))),
    // Requests of one address.
    honour("nacre.limit.beat", |s, v| put(&mut s.limit.beat, read::number(v, 0..=1_000_000))),
    honour("nacre.limit.read", |s, v| put(&mut s.limit.read, read::number(v, 0..=1_000_000))),
    honour("nacre.limit.write", |s, v| put(&mut s.limit.write, read::number(v, 0..=1_000_000))),
    key("nacos.naming.distro.taskDispatchThreadCount", Accept),
    key("nacos.naming.distro.initDataRatio", Accept),
    key("nacos.naming.distro.*", AcceptRest),
    key("nacos.core.protocol.raft.*", Accept),
    key("nacos.core.protocol.*", AcceptRest),
    key("nacos.naming.use-new-raft.first", Accept),
    // Naming.
    honour("nacos.naming.empty-service.auto-clean", |s, v| {
        put(&mut s.naming.empty_service_auto_clean, read::switch(v))
    }),
    honour("nacos.naming.empty-service.clean.initial-delay-ms", |s, v| {
        put(&mut s.naming.empty_service_initial_delay, read::millis(v, 0..=DAY_MS))
    }),
    honour("nacos.naming.empty-service.clean.period-time-ms", |s, v| {
        put(&mut s.naming.empty_service_period, read::millis(v, 10..=DAY_MS))
    }),
    honour("nacos.naming.clean.empty-service.interval", |s, v| {
        put(&mut s.naming.empty_service_period, read::millis(v, 10..=DAY_MS))
    }),
    honour("nacos.naming.clean.empty-service.expired-time", |s, v| {
        put_some(&mut s.naming.empty_service_expired_time, read::millis(v, 0..=30 * DAY_MS))
    }),
    key("nacos.naming.clean.expired-metadata.*", Accept),
    key("nacos.naming.client.expired.time", Accept),
    honour("nacos.naming.data.warmup", |s, v| put(&mut s.naming.data_warmup, read::switch(v))),
    honour("nacos.naming.expireInstance", |s, v| put(&mut s.naming.expire_instance, read::switch(v))),
    honour("nacre.naming.max-name-bytes", |s, v| {
        put(&mut s.naming.max_name_bytes, read::number(v, 200..=8_192))
    }),
    honour("nacre.naming.max-metadata-bytes", |s, v| {
        put(&mut s.naming.max_metadata_bytes, read::bytes(v, 64 * 1024..=1024 * 1024 * 1024))
    }),
    honour("nacre.naming.max-clusters", |s, v| {
        put(&mut s.naming.max_clusters, read::number(v, 1..=1_000_000))
    }),
    key("com.alibaba.nacos.naming.health.thread.num", Accept),
    // Push.
    honour("nacos.naming.push.pushTaskDelay", |s, v| put(&mut s.push.interval, read::millis(v, 0..=600_000))),
    key("nacos.naming.push.pushTaskTimeout", Accept),
    key("nacos.naming.push.pushTaskRetryDelay", Accept),
    key("nacos.naming.pushRetry*", Accept),
    honour("nacre.push.first-delay-ms", |s, v| put(&mut s.push.first_delay, read::millis(v, 0..=60_000))),
    honour("nacre.push.interval-ms", |s, v| put(&mut s.push.interval, read::millis(v, 0..=600_000))),
    honour("nacre.push.subscription-ms", |s, v| {
        put(&mut s.push.subscription, read::millis(v, 100..=3_600_000))
    }),
    honour("nacre.push.targets", |s, v| put(&mut s.push.targets, read::push_targets(v))),
    honour("nacre.push.agents", |s, v| put(&mut s.push.agents, read::push_agents(v))),
    honour("nacre.push.max-subscribers", |s, v| {
        put(&mut s.push.max_subscribers, read::number(v, 0..=10_000_000))
    }),
    honour("nacre.push.max-unacked", |s, v| put(&mut s.push.max_unacked, read::number(v, 1..=10_000_000))),
    // Limits of the HTTP level.
    honour("nacre.http.max-body-bytes", |s, v| {
        put(&mut s.http.max_body_bytes, read::bytes(v, 1024..=1024 * 1024 * 1024))
    }),
    honour("nacre.http.max-collecting-bytes", |s, v| {
        put(&mut s.http.max_collecting_bytes, read::bytes(v, 1 << 20..=64 << 30))
    }),
    honour("nacre.http.idle-timeout-ms", |s, v| {
        put(&mut s.http.idle_timeout, read::millis(v, 100..=3_600_000))
    }),
    honour("nacre.http.head-timeout-ms", |s, v| {
        put(&mut s.http.head_timeout, read::millis(v, 100..=600_000))
    }),
    honour("nacre.http.body-timeout-ms", |s, v| {
        put(&mut s.http.body_timeout, read::millis(v, 100..=600_000))
    }),
    honour("nacre.http.write-timeout-ms", |s, v| {
        put(&mut s.http.write_timeout, read::millis(v, 100..=600_000))
    }),
    honour("nacre.http.max-connections", |s, v| {
        put(&mut s.http.max_connections, read::number(v, 1..=1_000_000))
    }),
    honour("nacre.forwarded.trust", |s, v| put(&mut s.http.trusted_forwarders, read::networks(v))),
    // The reverse proxy.
    honour("nacre.proxy.listen", |s, v| put_some(&mut s.proxy.listen, read::socket(v))),
    honour("nacre.proxy.rules", |s, v| put_some(&mut s.proxy.rules, Ok(v.into()))),
    honour("nacre.proxy.by-convention", |s, v| put(&mut s.proxy.by_convention, read::switch(v))),
    honour("nacre.proxy.access-log", |s, v| put(&mut s.proxy.access_log, read::proxy_log(v))),
    honour("nacre.proxy.trust-forwarded", |s, v| put(&mut s.proxy.trust_forwarded, read::networks(v))),
    honour("nacre.proxy.max-head-bytes", |s, v| {
        put(&mut s.proxy.max_head_bytes, read::bytes(v, 8 << 10..=1 << 20))
    }),
    honour("nacre.proxy.max-connections", |s, v| {
        put(&mut s.proxy.max_connections, read::number(v, 1..=1_000_000))
    }),
    honour("nacre.proxy.tls.listen", |s, v| put_some(&mut s.proxy.tls_listen, read::socket(v))),
    honour("nacre.proxy.tls.folder", |s, v| put_some(&mut s.proxy.tls_folder, Ok(v.into()))),
    honour("nacre.proxy.tls.upstream-ca", |s, v| put_some(&mut s.proxy.upstream_ca, Ok(v.into()))),
    // The process.
    honour("nacre.stop.grace-ms", |s, v| put(&mut s.stop_grace, read::millis(v, 0..=600_000))),
    honour("nacre.drain.timeout-ms", |s, v| put(&mut s.drain_timeout, read::millis(v, 0..=600_000))),
    honour("nacre.log.level", |s, v| put(&mut s.log.level, read::log_level(v))),
    honour("nacre.log.format", |s, v| put(&mut s.log.format, read::log_format(v))),
    // Storage, config centre, others.
    key("db.*", Accept),
    key("embeddedStorage", Accept),
    key("nacos.persistence.*", Accept),
    key("nacos.config.*", Accept),
    key("isHealthCheck", Accept),
    key("notifyConnectTimeout", Accept),
    key("notifySocketTimeout", Accept),
    key("maxContent", Accept),
    key("isManageCapacity", Accept),
    key("isCapacityLimitCheck", Accept),
    key("defaultClusterQuota", Accept),
    key("defaultGroupQuota", Accept),
    key("defaultTenantQuota", Accept),
    key("defaultMaxSize", Accept),
    key("defaultMaxAggrCount", Accept),
    key("defaultMaxAggrSize", Accept),
    key("correctUsageDelay", Accept),
    key("initialExpansionPercent", Accept),
    key("isQuickStart", Accept),
    key("QUERYTIMEOUT", Accept),
    key("nacos.cmdb.*", Accept),
    key("nacos.istio.mcp.server.enabled", WarnIf(is_true, "there is no MCP server")),
    key("nacos.functionMode", RefuseIf(is_config, NO_CONFIG_CENTRE)),
    key("nacos.security.ignore.urls", Accept),
    // Auth.
    key("nacos.core.auth.enabled", RefuseOn(NO_AUTH)),
    key("nacos.core.auth.system.type", Accept),
    key("nacos.core.auth.default.token.secret.key", Accept),
    key("nacos.core.auth.default.token.expire.seconds", Accept),
    key("nacos.core.auth.caching.enabled", Accept),
    key("nacos.core.auth.enable.userAgentAuthWhite", Accept),
    key("nacos.core.auth.plugin.*", Accept),
    key("nacos.core.auth.ldap.*", Accept),
    key("nacos.core.auth.*", AcceptRest),
];

const DAY_MS: u64 = 86_400_000;

fn any(_: &str) -> bool {
    true
}

fn is_true(value: &str) -> bool {
    read::switch(value) == Ok(true)
}

/// `derby` is the reference's own store inside the process.
fn is_outer_database(value: &str) -> bool {
    !value.eq_ignore_ascii_case("derby")
}

fn is_config(value: &str) -> bool {
    value.eq_ignore_ascii_case("config")
}

/// Two names in one row of meaning: the first is heard only where the second isn't given.
pub(super) const REPLACED_BY: &[(&str, &str)] = &[
    ("nacos.naming.empty-service.clean.period-time-ms", "nacos.naming.clean.empty-service.interval"),
    ("nacos.naming.push.pushTaskDelay", "nacre.push.interval-ms"),
    ("nacos.inetutils.ip-address", "nacos.server.ip"),
    ("nacos.naming.distro.taskDispatchPeriod", "nacos.core.protocol.distro.data.sync.delayMs"),
    ("nacos.naming.distro.syncRetryDelay", "nacos.core.protocol.distro.data.sync.retryDelayMs"),
    (
        "nacos.core.protocol.distro.data.verify_interval_ms",
        "nacos.core.protocol.distro.data.verify.intervalMs",
    ),
];

/// The row of a key as it was written, and its index if it is an item of a list (`key[3]`).
pub(super) fn find(written: &str) -> Option<(&'static Key, Option<usize>)> {
    if let Some((name, index)) = indexed(written) {
        let list = KEYS.iter().find(|key| key.is_list() && key.is_called(name));
        if let Some(key) = list {
            return Some((key, Some(index)));
        }
    }
    let exact = KEYS.iter().find(|key| key.is_called(written));
    exact.or_else(|| KEYS.iter().find(|key| key.covers(written))).map(|key| (key, None))
}

fn indexed(written: &str) -> Option<(&str, usize)> {
    let (name, index) = written.strip_suffix(']')?.rsplit_once('[')?;
    Some((name, index.parse().ok()?))
}

impl Key {
    pub(super) fn is_list(&self) -> bool {
        matches!(self.treatment, HonourList(_))
    }

    /// What all keys of this row begin with, if it is a row of many.
    pub(super) fn prefix(&self) -> Option<&'static str> {
        self.name.strip_suffix('*')
    }

    fn is_called(&self, written: &str) -> bool {
        self.prefix().is_none()
            && (self.name == written || is_springs(self.name) && relaxed(self.name) == relaxed(written))
    }

    fn covers(&self, written: &str) -> bool {
        self.prefix().is_some_and(|prefix| {
            written.starts_with(prefix)
                || is_springs(prefix) && relaxed(written).starts_with(&relaxed(prefix))
        })
    }
}

/// Spring reads its own keys in any of `context-path`, `contextPath`, `context_path`; Nacos's are exact.
fn is_springs(name: &str) -> bool {
    ["server.", "spring.", "management.", "logging."].iter().any(|owner| name.starts_with(owner))
}

fn relaxed(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_')).map(|c| c.to_ascii_lowercase()).collect()
}

/// The known key that a misspelt one most likely means, if one is near.
pub(super) fn nearest(written: &str) -> Option<&'static str> {
    within(written, MOST_SLIPS + written.len() / 10)
}

/// Whether this is a known key but for a slip of the pen.
pub(super) fn is_slip(written: &str) -> bool {
    within(written, MOST_SLIPS).is_some()
}

/// Characters that a slip of the pen adds, leaves out or changes at most; two that have changed places are two.
const MOST_SLIPS: usize = 2;

/// The nearest known key that differs by so many characters at most.
fn within(written: &str, most: usize) -> Option<&'static str> {
    if written.len() > 100 {
        return None;
    }
    let written = relaxed(written);
    let names = KEYS.iter().filter(|key| key.prefix().is_none()).map(|key| (relaxed(key.name), key.name));
    let near = names.filter(|(plain, _)| plain.len().abs_diff(written.len()) <= most);
    let (distance, name) = near.map(|(plain, name)| (edits(&written, &plain), name)).min()?;
    (distance <= most).then_some(name)
}

/// Characters to insert, delete or replace to get from one text to the other.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}
