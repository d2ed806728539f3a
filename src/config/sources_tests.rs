//! Literal files and environments in, literal settings, errors and notices out.

use std::{collections::BTreeMap, io, path::Path, time::Duration};

use super::*;
use crate::config::{
    LegacyNaming, LegacyServer, LogFormat, OwnAddressRules, ProxyLog, PushTargets, Severity, Via,
    cluster_settings::{DnsName, LookupType, Mapping, Secret},
    keys::Treatment,
};

/// What a test gives; everything else is absent.
#[derive(Default)]
struct Case<'a> {
    file: &'a str,
    environment: &'a [(&'a str, &'a str)],
    set: &'a [&'a str],
    cluster_conf: Option<&'a str>,
}

impl Case<'_> {
    fn load(&self) -> Result<Loaded, Vec<SettingError>> {
        let sources = Sources {
            config: Some("app.properties".into()),
            set: self.set.iter().map(|&word| word.to_owned()).collect(),
            environment: variables(self.environment),
            ..Sources::default()
        };
        load(&sources, &|path| match (path.to_str(), self.cluster_conf) {
            (Some("app.properties"), _) => Ok(self.file.as_bytes().to_vec()),
            (Some("cluster.conf"), Some(text)) => Ok(text.as_bytes().to_vec()),
            _ => Err(io::ErrorKind::NotFound.into()),
        })
    }

    fn loaded(&self) -> Loaded {
        self.load().unwrap_or_else(|errors| panic!("{errors:#?}"))
    }

    fn settings(&self) -> Settings {
        self.loaded().settings
    }

    fn errors(&self) -> Vec<String> {
        let errors = self.load().expect_err("a wrong setting");
        errors.iter().map(ToString::to_string).collect()
    }

    fn notices(&self, severity: Severity) -> Vec<String> {
        let notices = self.loaded().notices.into_iter();
        notices.filter(|notice| notice.severity == severity).map(|notice| notice.text).collect()
    }
}

fn file(text: &str) -> Case<'_> {
    Case { file: text, ..Case::default() }
}

fn environment<'a>(variables: &'a [(&'a str, &'a str)]) -> Case<'a> {
    Case { environment: variables, ..Case::default() }
}

fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// The defaults, with the config folder of a file that lies where the tests run.
fn defaults() -> Settings {
    Settings { config_dir: "".into(), ..Settings::default() }
}

/// The defaults, changed.
fn with(change: impl FnOnce(&mut Settings)) -> Settings {
    let mut settings = defaults();
    change(&mut settings);
    settings
}

fn listen(settings: &mut Settings, address: &str, own: Option<&str>) {
    settings.server.address = Some(address.parse().unwrap());
    settings.own_address.given = own.map(str::to_owned);
}

#[test]
fn without_anything_the_defaults_serve() {
    let absent = |_: &Path| Err(io::ErrorKind::NotFound.into());
    let loaded = load(&Sources::default(), &absent).expect("defaults");
    assert_eq!(loaded.settings, Settings::default());
    assert_eq!(loaded.file, None);
    assert_eq!(loaded.notices, []);
}

#[test]
fn every_honoured_key_reaches_its_setting() {
    type Change = fn(&mut Settings);
    let cases: &[(&str, Change)] = &[
        ("nacos.home=/opt/nacos", |s| s.data_dir = "/opt/nacos/data".into()),
        ("nacos.standalone=true", |s| s.membership.standalone = Some(true)),
        ("nacos.member.list=10.0.0.1:8848, b", |s| {
            s.membership.member_list = vec!["10.0.0.1:8848".into(), "b".into()];
            s.membership.lookup = Lookup::File;
        }),
        ("nacos.core.member.lookup.type=address-server", |s| {
            s.membership.lookup_type = Some(LookupType::AddressServer);
            s.membership.lookup = Lookup::AddressServer;
        }),
        ("address.server.domain=a.example", |s| {
            s.membership.address_server.domain = Some("a.example".into());
            s.membership.lookup = Lookup::AddressServer;
        }),
        ("address.server.port=1", |s| s.membership.address_server.port = 1),
        ("address.server.url=/list?env=a", |s| {
            s.membership.address_server.url = Some("/list?env=a".into());
        }),
        ("nacos.core.address-server.retry=1", |s| s.membership.address_server.tries = 1),
        ("maxHealthCheckFailCount=1", |s| s.membership.address_server.max_failures = 1),
        ("nacre.member.dns=nacre-headless.svc:8849", |s| {
            s.membership.dns = Some(DnsName { name: "nacre-headless.svc".into(), port: Some(8849) });
            s.membership.lookup = Lookup::Dns;
        }),
        ("nacre.member.dns=nacre", |s| {
            s.membership.dns = Some(DnsName { name: "nacre".into(), port: None });
            s.membership.lookup = Lookup::Dns;
        }),
        ("nacre.member.dns-interval-ms=100", |s| s.membership.dns_interval = Duration::from_millis(100)),
        ("nacos.core.member.meta.site=here", |s| s.membership.meta.site = Some("here".into())),
        ("nacos.core.member.meta.adweight=1", |s| s.membership.meta.ad_weight = Some("1".into())),
        ("nacos.core.member.meta.weight=2", |s| s.membership.meta.weight = Some("2".into())),
        ("nacos.core.member.fail-access-cnt=0", |s| s.membership.fail_access_count = 0),
        ("nacre.report.interval-ms=100", |s| s.cluster.report_interval = Duration::from_millis(100)),
        ("nacre.report.timeout-ms=50", |s| s.cluster.report_timeout = Duration::from_millis(50)),
        ("nacre.peer.networks=127.0.0.0/8", |s| {
            s.cluster.peer_networks = values::networks("127.0.0.0/8").unwrap();
        }),
        ("nacre.peer.max-body-bytes=8MB", |s| s.cluster.peer_max_body_bytes = 8 << 20),
        ("nacre.peer.via=10.0.0.2:8848>127.0.0.1:9002, [::1]:1 > b:2", |s| {
            let via = |member: &str, target: &str| Via { member: member.into(), target: target.into() };
            s.cluster.peer_via = vec![via("10.0.0.2:8848", "127.0.0.1:9002"), via("[::1]:1", "b:2")];
        }),
        ("nacos.core.auth.server.identity.key=X-Who\nnacos.core.auth.server.identity.value=me, you", |s| {
            s.cluster.identity_key = Some("x-who".into());
            s.cluster.identity_value = Some(Secret("me, you".into()));
        }),
        ("nacos.naming.distro.taskDispatchPeriod=5000", |s| {
            s.distro.legacy_sync_delay = Duration::from_millis(2_500);
        }),
        ("nacos.naming.distro.taskDispatchPeriod=200", |s| {
            s.distro.legacy_sync_delay = Duration::from_millis(200);
        }),
        ("nacos.core.protocol.distro.data.sync.delayMs=300", |s| {
            s.distro.legacy_sync_delay = Duration::from_millis(300);
        }),
        ("nacos.naming.distro.batchSyncKeyCount=1", |s| s.distro.batch_sync_key_count = 1),
        ("nacos.naming.distro.syncRetryDelay=100", |s| {
            s.distro.sync_retry_delay = Duration::from_millis(100);
        }),
        ("nacos.core.protocol.distro.data.sync.retryDelayMs=101", |s| {
            s.distro.sync_retry_delay = Duration::from_millis(101);
        }),
        ("nacos.core.protocol.distro.data.verify_interval_ms=500", |s| {
            s.distro.verify_interval = Duration::from_millis(500);
        }),
        ("nacos.core.protocol.distro.data.verify.intervalMs=501", |s| {
            s.distro.verify_interval = Duration::from_millis(501);
        }),
        ("nacos.core.protocol.distro.data.sync.timeoutMs=104", |s| {
            s.distro.sync_timeout = Duration::from_millis(104);
        }),
        ("nacos.core.protocol.distro.data.verify.timeoutMs=105", |s| {
            s.distro.verify_timeout = Duration::from_millis(105);
        }),
        ("nacos.core.protocol.distro.data.load.timeoutMs=106", |s| {
            s.distro.load_timeout = Duration::from_millis(106);
        }),
        ("nacre.distro.sync-delay-ms=0", |s| s.distro.sync_delay = Duration::ZERO),
        ("nacre.distro.mapping=rendezvous", |s| s.distro.mapping = Mapping::Rendezvous),
        ("nacre.forward.timeout-ms=50", |s| s.forward.timeout = Duration::from_millis(50)),
        ("nacre.legacy.servers=10.0.0.1, http://b:8849/,[::1]", |s| {
            let server = |host: &str, port| LegacyServer { host: host.into(), port };
            s.legacy.servers = vec![server("10.0.0.1", 8848), server("b", 8849), server("[::1]", 8848)];
        }),
        ("nacre.legacy.connect-timeout-ms=50", |s| s.legacy.connect_timeout = Duration::from_millis(50)),
        ("nacre.legacy.timeout-ms=100", |s| s.legacy.timeout = Duration::from_millis(100)),
        ("nacre.legacy.max-in-flight=1", |s| s.legacy.max_in_flight = 1),
        ("nacre.legacy.queue=0", |s| s.legacy.queue = 0),
        ("nacre.legacy.naming=legacy", |s| s.legacy.naming = LegacyNaming::Legacy),
        ("nacre.legacy.stale-ms=0", |s| s.legacy.stale = Duration::ZERO),
        ("nacre.legacy.max-kept=0", |s| s.legacy.max_kept = 0),
        ("nacre.limit.beat=1", |s| s.limit.beat = 1),
        ("nacre.limit.read=1000000", |s| s.limit.read = 1_000_000),
        ("nacre.limit.write=2", |s| s.limit.write = 2),
        ("nacre.forward.max-per-peer=1", |s| s.forward.max_per_peer = 1),
        ("nacre.drain.timeout-ms=0", |s| s.drain_timeout = Duration::ZERO),
        ("nacos.naming.data.warmup=false", |s| s.naming.data_warmup = false),
        ("server.port=0", |s| s.server.port = 0),
        ("server.port=65535", |s| s.server.port = 65535),
        ("server.address=127.0.0.1", |s| listen(s, "127.0.0.1", Some("127.0.0.1"))),
        ("server.address=localhost", |s| listen(s, "127.0.0.1", Some("127.0.0.1"))),
        ("server.address=[::1]", |s| listen(s, "::1", Some("[::1]"))),
        ("server.address=::ffff:127.0.0.2", |s| listen(s, "127.0.0.2", Some("127.0.0.2"))),
        ("server.address=0.0.0.0", |s| listen(s, "0.0.0.0", None)),
        ("server.address=::", |s| listen(s, "::", None)),
        ("server.address=127.0.0.1\nnacos.inetutils.ip-address=10.0.0.1", |s| {
            listen(s, "127.0.0.1", Some("10.0.0.1"));
        }),
        ("server.address=127.0.0.1\nnacos.preferHostnameOverIp=true", |s| {
            listen(s, "127.0.0.1", None);
            s.own_address.prefer_hostname = true;
        }),
        ("server.servlet.contextPath=/a/b", |s| {
            s.server.context_path = values::context_path("/a/b").unwrap();
        }),
        ("server.servlet.context-path=/", |s| s.server.context_path = values::context_path("/").unwrap()),
        ("server.servlet.context_path=/x", |s| s.server.context_path = values::context_path("/x").unwrap()),
        ("server.max-http-header-size=8192", |s| s.http.max_head_bytes = 8192),
        ("server.maxHttpHeaderSize=64KB", |s| s.http.max_head_bytes = 65536),
        ("server.tomcat.accesslog.enabled=true", |s| s.server.access_log = true),
        ("management.endpoints.web.exposure.include=*", |s| s.server.prometheus_endpoint = true),
        ("management.endpoints.web.exposure.include=health, prometheus", |s| {
            s.server.prometheus_endpoint = true;
        }),
        ("management.endpoints.web.exposure.include=health,info", |_| {}),
        ("nacos.inetutils.ip-address=10.0.0.1", |s| s.own_address.given = Some("10.0.0.1".into())),
        ("nacos.server.ip=10.0.0.2", |s| s.own_address.given = Some("10.0.0.2".into())),
        ("nacos.server.ip=2001:DB8::1", |s| s.own_address.given = Some("[2001:db8::1]".into())),
        ("nacos.server.ip=::ffff:10.0.0.2", |s| s.own_address.given = Some("10.0.0.2".into())),
        ("nacos.server.ip=nacos-0.nacos", |s| s.own_address.given = Some("nacos-0.nacos".into())),
        ("nacos.server.ip=nacos", |s| s.own_address.given = Some("nacos".into())),
        ("nacos.preferHostnameOverIp=true", |s| s.own_address.prefer_hostname = true),
        ("nacos.inetutils.prefer-hostname-over-ip=true", |s| s.own_address.prefer_hostname = true),
        ("nacos.inetutils.use-only-site-local-interfaces=true", |s| s.own_address.only_site_local = true),
        ("nacos.inetutils.preferred-networks=10\\\\.1\\\\..*,192.168", |s| {
            s.own_address.preferred_networks =
                vec![values::pattern(r"10\.1\..*").unwrap(), values::pattern("192.168").unwrap()];
        }),
        (
            "nacos.inetutils.ignored-interfaces[1]=br-{1,2}\nnacos.inetutils.ignored-interfaces[0]=docker0",
            |s| {
                s.own_address.ignored_interfaces =
                    vec![values::pattern("docker0").unwrap(), values::pattern("br-{1,2}").unwrap()];
            },
        ),
        ("java.net.preferIPv6Addresses=true", |s| s.own_address.prefer_ipv6 = true),
        ("nacos.naming.empty-service.auto-clean=false", |s| s.naming.empty_service_auto_clean = false),
        ("nacos.naming.empty-service.clean.initial-delay-ms=1", |s| {
            s.naming.empty_service_initial_delay = Duration::from_millis(1);
        }),
        ("nacos.naming.empty-service.clean.period-time-ms=10", |s| {
            s.naming.empty_service_period = Duration::from_millis(10);
        }),
        ("nacos.naming.clean.empty-service.interval=60000", |s| {
            s.naming.empty_service_period = Duration::from_secs(60);
        }),
        ("nacos.naming.clean.empty-service.expired-time=60000", |s| {
            s.naming.empty_service_expired_time = Some(Duration::from_secs(60));
        }),
        ("nacos.naming.expireInstance=no", |s| s.naming.expire_instance = false),
        ("nacre.naming.max-name-bytes=200", |s| s.naming.max_name_bytes = 200),
        ("nacre.naming.max-metadata-bytes=64KB", |s| s.naming.max_metadata_bytes = 64 * 1024),
        ("nacre.naming.max-clusters=1", |s| s.naming.max_clusters = 1),
        ("nacos.naming.push.pushTaskDelay=500", |s| s.push.interval = Duration::from_millis(500)),
        ("nacre.push.first-delay-ms=0", |s| s.push.first_delay = Duration::ZERO),
        ("nacre.push.interval-ms=0", |s| s.push.interval = Duration::ZERO),
        ("nacre.push.subscription-ms=100", |s| s.push.subscription = Duration::from_millis(100)),
        ("nacre.push.targets=caller", |s| s.push.targets = PushTargets::Caller),
        ("nacre.push.targets=any", |s| s.push.targets = PushTargets::Any),
        ("nacre.push.agents=My-Client:1.2, Other:v3", |s| {
            s.push.agents = values::push_agents("My-Client:1.2.0,Other:3.0.0").unwrap();
        }),
        ("nacre.push.max-subscribers=0", |s| s.push.max_subscribers = 0),
        ("nacre.push.max-unacked=1", |s| s.push.max_unacked = 1),
        ("nacre.http.max-body-bytes=1MB", |s| s.http.max_body_bytes = 1 << 20),
        ("nacre.http.max-collecting-bytes=1MB", |s| s.http.max_collecting_bytes = 1 << 20),
        ("nacre.http.idle-timeout-ms=100", |s| s.http.idle_timeout = Duration::from_millis(100)),
        ("nacre.http.head-timeout-ms=101", |s| s.http.head_timeout = Duration::from_millis(101)),
        ("nacre.http.body-timeout-ms=102", |s| s.http.body_timeout = Duration::from_millis(102)),
        ("nacre.http.write-timeout-ms=103", |s| s.http.write_timeout = Duration::from_millis(103)),
        ("nacre.http.max-connections=1", |s| s.http.max_connections = 1),
        ("nacre.forwarded.trust=10.0.0.0/8, ::1", |s| {
            s.http.trusted_forwarders = values::networks("10.0.0.0/8,::1/128").unwrap();
        }),
        ("nacre.proxy.listen=[::1]:8080", |s| s.proxy.listen = Some("[::1]:8080".parse().unwrap())),
        ("nacre.proxy.rules=/etc/proxy.toml", |s| s.proxy.rules = Some("/etc/proxy.toml".into())),
        ("nacre.proxy.by-convention=on", |s| s.proxy.by_convention = true),
        ("nacre.proxy.access-log=full", |s| s.proxy.access_log = ProxyLog::Full),
        ("nacre.proxy.access-log=sampled 100", |s| {
            s.proxy.access_log = ProxyLog::Sampled(100.try_into().unwrap());
        }),
        ("nacre.proxy.trust-forwarded=10.0.0.0/8", |s| {
            s.proxy.trust_forwarded = values::networks("10.0.0.0/8").unwrap();
        }),
        ("nacre.proxy.max-head-bytes=8KB", |s| s.proxy.max_head_bytes = 8 << 10),
        ("nacre.proxy.max-connections=1", |s| s.proxy.max_connections = 1),
        ("nacre.proxy.tls.listen=0.0.0.0:443", |s| {
            s.proxy.tls_listen = Some("0.0.0.0:443".parse().unwrap());
        }),
        ("nacre.proxy.tls.folder=/etc/tls", |s| s.proxy.tls_folder = Some("/etc/tls".into())),
        ("nacre.proxy.tls.upstream-ca=/etc/ca.pem", |s| s.proxy.upstream_ca = Some("/etc/ca.pem".into())),
        ("nacre.stop.grace-ms=0", |s| s.stop_grace = Duration::ZERO),
        ("nacre.log.level=DEBUG", |s| s.log.level = tracing::Level::DEBUG),
        ("nacre.log.format=json", |s| s.log.format = LogFormat::Json),
    ];
    let mut seen = Vec::new();
    for (text, change) in cases {
        let loaded = file(text).loaded();
        assert_eq!(loaded.settings, with(change), "{text}");
        assert_eq!(file(text).notices(Severity::Warn), [""; 0], "{text}");
        let told = file(text).notices(Severity::Info).concat();
        assert!(!told.contains("accepted without effect"), "{told}");
        for line in text.lines() {
            let (key, _) = line.split_once('=').unwrap();
            seen.push(keys::find(key).unwrap().0.name);
        }
    }
    for key in KEYS {
        if matches!(key.treatment, Treatment::Honour(_) | Treatment::HonourList(_)) {
            assert!(seen.contains(&key.name), "no case for {}", key.name);
        }
    }
}

#[test]
fn an_empty_value_means_the_default() {
    for key in KEYS.iter().filter(|key| key.prefix().is_none()) {
        let text = format!("{}=", key.name);
        assert_eq!(file(&text).settings(), defaults(), "{text}");
    }
}

#[test]
fn a_wrong_value_is_told_with_its_line() {
    for (text, error) in [
        ("server.port=70000", "server.port: expected a whole number from 0 to 65535, got \"70000\""),
        (
            "nacre.legacy.servers=https://a",
            "nacre.legacy.servers: this version calls legacy servers without TLS alone, got \"https://a\"",
        ),
        (
            "nacre.legacy.servers=a:0",
            "nacre.legacy.servers: expected HOST:PORT or http://HOST:PORT, such as 10.0.0.1:8848, got \"a:0\"",
        ),
        ("nacre.legacy.naming=on", "nacre.legacy.naming: expected native or legacy, got \"on\""),
        ("nacre.limit.read=-1", "nacre.limit.read: expected a whole number from 0 to 1000000, got \"-1\""),
        ("nacre.legacy.servers=a,a:8848", "nacre.legacy.servers: a:8848 stands there twice"),
        ("server.port=-1", "server.port: expected a whole number from 0 to 65535, got \"-1\""),
        ("server.port=88 48", "server.port: expected a whole number from 0 to 65535, got \"88 48\""),
        (
            "server.address=nohost",
            "server.address: expected an IP address of this machine (leave it out for all of them), got \"nohost\"",
        ),
        (
            "server.servlet.contextPath=nacos",
            "server.servlet.contextPath: expected a path that begins with / and doesn't end with it, got \"nacos\"",
        ),
        (
            "server.servlet.contextPath=/nacos/",
            "server.servlet.contextPath: expected a path that begins with / and doesn't end with it, got \"/nacos/\"",
        ),
        (
            "server.servlet.contextPath=/a//b",
            "server.servlet.contextPath: expected path segments of letters, digits and -_.~, got \"/a//b\"",
        ),
        (
            "server.servlet.contextPath=/a?b",
            "server.servlet.contextPath: expected path segments of letters, digits and -_.~, got \"/a?b\"",
        ),
        (
            "server.servlet.contextPath=/metrics",
            "server.servlet.contextPath: \"/metrics\" is taken by the server's own pages; choose another path",
        ),
        (
            "server.max-http-header-size=1KB",
            "server.max-http-header-size: expected bytes (or KB, MB) from 8192 to 16777216, got \"1KB\"",
        ),
        (
            "server.max-http-header-size=512 kilo",
            "server.max-http-header-size: expected bytes (or KB, MB) from 8192 to 16777216, got \"512 kilo\"",
        ),
        (
            "nacos.server.ip=10.0.0.1:8848",
            "nacos.server.ip: expected an address without port (the port is server.port), got \"10.0.0.1:8848\"",
        ),
        (
            "nacos.server.ip=http://a",
            "nacos.server.ip: expected an IP address or a host name, got \"http://a\"",
        ),
        (
            "nacos.naming.expireInstance=maybe",
            "nacos.naming.expireInstance: expected true or false, got \"maybe\"",
        ),
        (
            "nacre.naming.max-name-bytes=199",
            "nacre.naming.max-name-bytes: expected a whole number from 200 to 8192, got \"199\"",
        ),
        (
            "nacre.peer.max-body-bytes=4MB",
            "nacre.peer.max-body-bytes: expected bytes (or KB, MB) from 8388608 to 4294967296, got \"4MB\"",
        ),
        (
            "nacre.push.interval-ms=1s",
            "nacre.push.interval-ms: expected milliseconds from 0 to 600000, got \"1s\"",
        ),
        ("nacre.push.targets=all", "nacre.push.targets: expected private, caller or any, got \"all\""),
        (
            "nacre.push.agents=A:1,B",
            "nacre.push.agents: expected NAME:MINIMUM-VERSION such as My-Client:1.2.0, got \"B\"",
        ),
        (
            "nacre.push.agents=A:1.2.3.4",
            "nacre.push.agents: expected NAME:MINIMUM-VERSION such as My-Client:1.2.0, got \"A:1.2.3.4\"",
        ),
        (
            "nacre.forwarded.trust=10.0.0.0/33",
            "nacre.forwarded.trust: expected networks such as 10.0.0.0/8 or fd00::/8, got \"10.0.0.0/33\"",
        ),
        (
            "address.server.domain=http://a",
            "address.server.domain: expected a host name or an IP address, without http:// and port, got \"http://a\"",
        ),
        (
            "address.server.url=list",
            "address.server.url: expected the path of a URL, such as /nacos/serverlist, got \"list\"",
        ),
        (
            "nacre.member.dns=a:0",
            "nacre.member.dns: expected NAME or NAME:PORT, such as nacre-headless.default.svc:8848, got \"a:0\"",
        ),
        (
            "nacre.peer.via=10.0.0.2>127.0.0.1:9002",
            "nacre.peer.via: expected MEMBER>HOST:PORT, such as 10.0.0.2:8848>127.0.0.1:9002, got \"10.0.0.2>127.0.0.1:9002\"",
        ),
        (
            "nacos.core.auth.server.identity.key=a b",
            "nacos.core.auth.server.identity.key: expected the name of a header (letters, digits, -), got \"a b\"",
        ),
        (
            "nacos.core.auth.server.identity.value=geheimß",
            "nacos.core.auth.server.identity.value: expected printable ASCII characters, as a header's value has",
        ),
        ("nacre.distro.mapping=hash", "nacre.distro.mapping: expected modulo or rendezvous, got \"hash\""),
        ("nacre.log.level=loud", "nacre.log.level: expected error, warn, info, debug or trace, got \"loud\""),
        ("nacre.log.format=xml", "nacre.log.format: expected text or json, got \"xml\""),
        (
            "nacos.inetutils.ignored-interfaces[0]=eth(",
            "nacos.inetutils.ignored-interfaces[0]: expected a regular expression (without look-around), got \"eth(\"",
        ),
        (
            "nacre.push.frist-delay-ms=1",
            "nacre.push.frist-delay-ms: this version knows no such key; did you mean nacre.push.first-delay-ms?",
        ),
        ("nacre.new=1", "nacre.new: this version knows no such key"),
        (
            "server.port=${PORT}",
            "server.port: nothing gives a value for the placeholder ${PORT}; set PORT, or write ${PORT:default}",
        ),
        ("a=\\uzz", "expected four hexadecimal digits of a character after \\u"),
    ] {
        let text = format!("# a line above\n{text}\n");
        assert_eq!(file(&text).errors(), [format!("app.properties:2: {error}")]);
    }
}

#[test]
fn all_errors_are_told_at_once() {
    let case = Case {
        file: "nacre.http.max-connections=0\nserver.port=x\nnacre.push.targets=${T}",
        environment: &[
            ("NACOS_AUTH_ENABLE", "true"),
            ("SERVER_TOMCAT_ACCESSLOG_ENABLED", "2"),
            ("NACRE_NOTHING", "1"),
            ("JAVA_OPT_EXT", "-Dnacre.log.format=xml"),
        ],
        set: &["nacre.log.level=x", "no-value: hidden", "server.prot=1", "=hidden"],
        ..Case::default()
    };
    assert_eq!(
        case.errors(),
        [
            "app.properties:1: nacre.http.max-connections: expected a whole number from 1 to 1000000, got \"0\"",
            "app.properties:2: server.port: expected a whole number from 0 to 65535, got \"x\"",
            "app.properties:3: nacre.push.targets: nothing gives a value for the placeholder ${T}; set T, \
             or write ${T:default}",
            "environment NACOS_AUTH_ENABLE: nacos.core.auth.enabled=true: this version can't check passwords, so \
             everybody could read and write; set it to false and keep the port closed to strangers, or stay \
             with a server that can",
            "environment NACRE_NOTHING: names no key that this version knows",
            "environment SERVER_TOMCAT_ACCESSLOG_ENABLED: server.tomcat.accesslog.enabled: expected true or \
             false, got \"2\"",
            "-D in environment JAVA_OPT_EXT: nacre.log.format: expected text or json, got \"xml\"",
            "--set no-value: expected KEY=VALUE",
            "--set: expected KEY=VALUE",
            "--set server.prot: this version knows no such key; did you mean server.port?",
            "--set nacre.log.level: expected error, warn, info, debug or trace, got \"x\"",
        ]
    );
}

#[test]
fn what_this_version_cannot_do_is_refused_with_a_cure() {
    for (text, beginning, cure) in [
        (
            "nacos.core.auth.enabled=true",
            "app.properties:1: nacos.core.auth.enabled=true: this version can't check passwords",
            "set it to false",
        ),
        (
            "server.ssl.enabled=true",
            "app.properties:1: server.ssl.enabled=true: this version can't serve HTTPS",
            "TLS proxy",
        ),
        (
            "nacos.functionMode=config",
            "app.properties:1: nacos.functionMode=config: this is a naming server without a config centre",
            "use naming or all",
        ),
        (
            "nacos.standalone=false",
            "app.properties:1: nacos.standalone=false: asks for a cluster, and nothing names its members; name the",
            "nacos.standalone=true",
        ),
        (
            "nacos.core.member.lookup.type=file",
            "app.properties:1: nacos.core.member.lookup.type=file: there is neither a cluster.conf nor a member list",
            "nacos.standalone=true",
        ),
    ] {
        let errors = file(text).errors();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].starts_with(beginning) && errors[0].contains(cure), "{errors:?}");
    }
    for text in [
        "nacos.core.auth.enabled=false",
        "server.ssl.enabled=false",
        "nacos.functionMode=naming",
        "nacos.functionMode=all",
    ] {
        assert_eq!(file(text).settings(), defaults(), "{text}");
    }
}

#[test]
fn the_standalone_flag_wins_over_every_list_of_members() {
    let case = Case {
        file: "nacos.core.member.lookup.type=file\nnacos.member.list=a, b:1,",
        environment: &[("MODE", "standalone"), ("NACOS_SERVERS", "c:1 d:2,e")],
        cluster_conf: Some("10.0.0.1:8848"),
        ..Case::default()
    };
    let membership = with(|s| {
        s.membership.standalone = Some(true);
        s.membership.lookup_type = Some(LookupType::File);
        s.membership.member_list = ["c:1", "d:2", "e"].map(str::to_owned).to_vec();
    });
    assert_eq!(case.settings(), membership);
}

#[test]
fn a_cluster_conf_counts_when_it_names_somebody() {
    for (text, names) in [
        ("10.0.0.1:8848", true),
        ("# nobody\n\n  # x\n, ,\n", false),
        ("", false),
        ("# me\r\n10.0.0.1\r\n", true),
        ("\u{feff}# x", false),
        ("a # b", true),
    ] {
        let case = Case { cluster_conf: Some(text), ..Case::default() };
        match names {
            true => assert_eq!(case.settings().membership.lookup, Lookup::File, "{text:?}"),
            false => assert!(case.errors()[0].contains("names no member"), "{text:?}"),
        }
    }
}

#[test]
fn a_lookup_type_that_nacos_does_not_know_never_makes_a_server_that_serves_alone() {
    const KEY: &str = "nacos.core.member.lookup.type";
    let expected = |value: &str| format!("{KEY}: expected file or address-server, got {value:?}");
    let alone = file("nacos.core.member.lookup.type=fil\nserver.port=x").errors();
    assert_eq!(alone[0], format!("app.properties:1: {}", expected("fil")));
    assert_eq!(alone.len(), 2, "{alone:?}");
    // As the file of Nacos has it in a comment.
    let text = "nacos.core.member.lookup.type=[file,address-server]\n";
    for (more, cluster_conf, lookup) in [
        ("", Some("10.0.0.1:8848"), Lookup::File),
        ("nacos.member.list=10.0.0.1:8848", None, Lookup::File),
        ("address.server.domain=a", None, Lookup::AddressServer),
        ("nacos.standalone=true", None, Lookup::Standalone),
    ] {
        let case = Case { file: &format!("{text}{more}"), cluster_conf, ..Case::default() };
        assert_eq!(case.settings().membership.lookup, lookup, "{more}");
        let warned = format!(
            "app.properties:1: {}; it counts as not given, as in Nacos",
            expected("[file,address-server]")
        );
        assert_eq!(case.notices(Severity::Warn), [warned], "{more}");
    }
    let cluster_conf = Some("10.0.0.1:8848");
    let set = Case { set: &["nacos.core.member.lookup.type=dns"], cluster_conf, ..Case::default() };
    assert_eq!(set.errors(), [format!("--set {}", expected("dns"))]);
    for (value, lookup) in [("FILE", Lookup::File), ("Address-Server", Lookup::AddressServer)] {
        let case = Case { file: &format!("{KEY}={value}"), cluster_conf, ..Case::default() };
        assert_eq!(case.settings().membership.lookup, lookup, "{value}");
        assert_eq!(case.notices(Severity::Warn), [""; 0]);
    }
}

/// Slips in names of areas of which Nacos has keys without effect here, and the keys that were meant.
const SLIPS: [(&str, &str); 6] = [
    ("nacos.core.auth.server.identity.kye", "nacos.core.auth.server.identity.key"),
    ("nacos.core.member.lookup.typ", "nacos.core.member.lookup.type"),
    ("nacos.core.auth.enable", "nacos.core.auth.enabled"),
    ("nacos.naming.distro.batchSyncKeyCont", "nacos.naming.distro.batchSyncKeyCount"),
    ("nacos.naming.distro.syncretrydelay", "nacos.naming.distro.syncRetryDelay"),
    (
        "nacos.core.protocol.distro.data.verify_interval_m",
        "nacos.core.protocol.distro.data.verify_interval_ms",
    ),
];

#[test]
fn a_slip_in_the_name_of_a_key_is_found_also_where_nacos_has_keys_without_effect() {
    for (written, meant) in SLIPS {
        let warned =
            format!("app.properties:1: {written}: unknown key; it has no effect; did you mean {meant}?");
        assert_eq!(file(&format!("{written}=1")).notices(Severity::Warn), [warned]);
        let set = Case { set: &[&format!("{written}=1")], ..Case::default() };
        let refused = format!("--set {written}: this version knows no such key; did you mean {meant}?");
        assert_eq!(set.errors(), [refused]);
    }
    let variable = environment(&[("NACOS_CORE_AUTH_SERVER_IDENTITY_KYE", "hidden")]).notices(Severity::Warn);
    assert_eq!(
        variable,
        [
            "environment NACOS_CORE_AUTH_SERVER_IDENTITY_KYE: nacos.core.auth.server.identity.kye: unknown key; it has no \
          effect; did you mean nacos.core.auth.server.identity.key?"
        ]
    );
    for unknown in ["nacos.naming.distro.foo", "nacos.core.auth.foo", "nacos.core.protocol.foo"] {
        let accepted = file(&format!("{unknown}=1")).loaded().notices;
        assert_eq!(accepted, [Notice::info(format!("accepted without effect: {unknown}"))]);
        let set = Case { set: &[&format!("{unknown}=1")], ..Case::default() };
        assert_eq!(set.errors(), [format!("--set {unknown}: this version knows no such key")]);
    }
}

#[test]
fn keys_of_nacos_that_have_no_effect_may_be_set() {
    for key in [
        "nacos.core.auth.system.type",
        "nacos.core.auth.default.token.secret.key",
        "nacos.core.auth.default.token.expire.seconds",
        "nacos.core.auth.plugin.nacos.token.expire.seconds",
        "nacos.core.auth.ldap.basedc",
        "nacos.core.auth.caching.enabled",
        "nacos.core.auth.enable.userAgentAuthWhite",
        "nacos.core.protocol.raft.data.rpc_request_timeout_ms",
        "nacos.core.protocol.distro.data.sync_delay_ms",
        "nacos.core.protocol.distro.data.sync_retry_delay_ms",
        "nacos.core.protocol.distro.data.load_retry_delay_ms",
        "nacos.naming.distro.taskDispatchThreadCount",
        "nacos.naming.distro.initDataRatio",
        "nacos.config.retention.days",
        "spring.mvc.x",
        "db.pool.config.maximumPoolSize",
    ] {
        let set = Case { set: &[&format!("{key}=x")], ..Case::default() };
        assert_eq!(set.loaded().notices, [Notice::info(format!("accepted without effect: {key}"))]);
    }
}

#[test]
fn an_access_log_that_a_file_asks_for_is_told_of() {
    let told = "app.properties:1: server.tomcat.accesslog.enabled: the log gets a line for each request";
    let case = file("server.tomcat.accesslog.enabled=true");
    assert_eq!(case.loaded().notices, [Notice::info(told.to_owned())]);
    let off = Case { set: &["server.tomcat.accesslog.enabled=false"], ..case };
    assert_eq!(off.loaded().notices, []);
}

#[test]
fn the_stronger_source_wins() {
    let file = "server.port=1\n";
    let set = &["server.port=6", "server.port=7"];
    let all = [
        ("NACOS_SERVER_PORT", "2"),
        ("NACOS_APPLICATION_PORT", "3"),
        ("SERVER_PORT", "4"),
        ("JAVA_OPT", "-Dserver.port=5"),
        ("JAVA_OPT_EXT", "-Dserver.port=6"),
    ];
    for count in 0..=all.len() {
        let case = Case { file, environment: &all[..count], ..Case::default() };
        assert_eq!(usize::from(case.settings().server.port), count + 1);
    }
    let case = Case { file, environment: &all, set, ..Case::default() };
    assert_eq!(case.settings().server.port, 7);
}

#[test]
fn what_a_stronger_source_overrides_need_not_be_right() {
    let case = Case { file: "server.port=x", set: &["server.port=1"], ..Case::default() };
    assert_eq!(case.settings().server.port, 1);
}

#[test]
fn every_variable_of_the_image_is_heard() {
    type Change = fn(&mut Settings);
    let cases: &[(&str, &str, Change)] = &[
        ("MODE", "standalone", |s| s.membership.standalone = Some(true)),
        ("NACOS_SERVERS", "10.0.0.1:8848 10.0.0.2:8848", |s| {
            s.membership.member_list = vec!["10.0.0.1:8848".into(), "10.0.0.2:8848".into()];
            s.membership.lookup = Lookup::File;
        }),
        ("address_server_domain", "a.example", |s| {
            s.membership.address_server.domain = Some("a.example".into());
            s.membership.lookup = Lookup::AddressServer;
        }),
        ("address_server_port", "81", |s| s.membership.address_server.port = 81),
        ("address_server_url", "/x", |s| s.membership.address_server.url = Some("/x".into())),
        ("NACOS_AUTH_IDENTITY_KEY", "who", |s| s.cluster.identity_key = Some("who".into())),
        ("NACOS_AUTH_IDENTITY_VALUE", "me", |s| s.cluster.identity_value = Some(Secret("me".into()))),
        ("NACRE_MEMBER_DNS", "nacre:1", |s| {
            s.membership.dns = Some(DnsName { name: "nacre".into(), port: Some(1) });
            s.membership.lookup = Lookup::Dns;
        }),
        ("PREFER_HOST_MODE", "hostname", |s| s.own_address.prefer_hostname = true),
        ("PREFER_HOST_MODE", "ip", |_| {}),
        ("NACOS_SERVER_IP", "10.0.0.9", |s| s.own_address.given = Some("10.0.0.9".into())),
        ("NACOS_SERVER_PORT", "9", |s| s.server.port = 9),
        ("NACOS_APPLICATION_PORT", "8", |s| s.server.port = 8),
        ("SERVER_SERVLET_CONTEXTPATH", "/x", |s| s.server.context_path = values::context_path("/x").unwrap()),
        ("SERVER_SERVLET_CONTEXT_PATH", "/x", |s| {
            s.server.context_path = values::context_path("/x").unwrap();
        }),
        ("USE_ONLY_SITE_INTERFACES", "true", |s| s.own_address.only_site_local = true),
        ("PREFERRED_NETWORKS", "10.1,10.2", |s| {
            s.own_address.preferred_networks = values::patterns(&["10.1".into(), "10.2".into()]).unwrap();
        }),
        ("IGNORED_INTERFACES", "docker0", |s| {
            s.own_address.ignored_interfaces = values::patterns(&["docker0".into()]).unwrap();
        }),
        ("TOMCAT_ACCESSLOG_ENABLED", "true", |s| s.server.access_log = true),
        ("NACOS_AUTH_ENABLE", "false", |_| {}),
        ("FUNCTION_MODE", "naming", |_| {}),
        // Spring's spelling, with an index, and a key as it is.
        ("NACOS_NAMING_EXPIREINSTANCE", "false", |s| s.naming.expire_instance = false),
        ("NACRE_PUSH_FIRSTDELAYMS", "0", |s| s.push.first_delay = Duration::ZERO),
        ("NACRE_PUSH_FIRST_DELAY_MS", "0", |s| s.push.first_delay = Duration::ZERO),
        ("NACOS_INETUTILS_IGNOREDINTERFACES_0_", "a", |s| {
            s.own_address.ignored_interfaces = values::patterns(&["a".into()]).unwrap();
        }),
        ("NACOS_INETUTILS_IGNORED_INTERFACES_0", "a,{1}", |s| {
            s.own_address.ignored_interfaces = values::patterns(&["a,{1}".into()]).unwrap();
        }),
        ("server.port", "7", |s| s.server.port = 7),
        ("JAVA_OPT", "-Xmx1g '-Dnacos.server.ip=10.1.1.1' -XX:+X", |s| {
            s.own_address.given = Some("10.1.1.1".into());
        }),
        ("JAVA_OPT_EXT", "-Djava.net.preferIPv6Addresses=true -Dfile.encoding=UTF-8", |s| {
            s.own_address.prefer_ipv6 = true;
        }),
    ];
    for (name, value, change) in cases {
        let pair = [(*name, *value)];
        let case = environment(&pair);
        assert_eq!(case.settings(), with(change), "{name}");
        // Half of the members' secret is told of.
        let warnings = if name.contains("IDENTITY") { 1 } else { 0 };
        assert_eq!(case.notices(Severity::Warn).len(), warnings, "{name}");
    }
    for (pair, key) in [
        (("MODE", "cluster"), "nacos.standalone=false: asks"),
        (("FUNCTION_MODE", "config"), "nacos.functionMode=config: this is"),
        (("NACOS_CORE_AUTH_ENABLED", "true"), "nacos.core.auth.enabled=true: this"),
    ] {
        let errors = environment(&[pair]).errors();
        assert!(errors[0].starts_with(&format!("environment {}: {key}", pair.0)), "{errors:?}");
    }
}

#[test]
fn variables_of_others_are_left_alone() {
    let foreign = [
        ("PATH", "/bin"),
        ("HOME", "/root"),
        ("DB_PASSWORD", "secret"),
        ("TLS_ENABLE", "1"),
        ("KUBERNETES_SERVICE_HOST", "10.0.0.1"),
        // What Kubernetes adds for services called nacos, nacos-server, nacre-headless and server.
        ("NACOS_SERVICE_HOST", "10.0.0.1"),
        ("NACOS_PORT", "tcp://10.0.0.1:8848"),
        ("NACOS_PORT_8848_TCP_ADDR", "10.0.0.1"),
        ("NACOS_SERVER_PORT", "tcp://10.0.0.1:8848"),
        ("NACRE_HEADLESS_SERVICE_PORT_HTTP", "8848"),
        ("NACRE_PORT_8848_TCP", "tcp://10.0.0.1:8848"),
        ("SERVER_PORT", "tcp://10.0.0.1:80"),
        // Left open in a compose file.
        ("NACOS_SERVER_IP", ""),
        ("MODE", " "),
    ];
    let loaded = environment(&foreign).loaded();
    assert_eq!(loaded.settings, defaults());
    assert_eq!(loaded.notices, []);
}

#[test]
fn a_name_that_nobody_knows_is_warned_of() {
    assert_eq!(
        environment(&[("NACOS_TYPO", "x")]).notices(Severity::Warn),
        ["environment NACOS_TYPO: names no known key; it has no effect"]
    );
}

#[test]
fn what_is_neither_on_nor_off_is_not_taken_for_off() {
    let errors = environment(&[
        ("MODE", "production"),
        ("PREFER_HOST_MODE", "foo"),
        ("NACOS_AUTH_ENABLE", "maybe"),
        ("SERVER_SSL_ENABLED", "maybe"),
    ])
    .errors();
    assert_eq!(
        errors,
        [
            "environment MODE: expected standalone or cluster",
            "environment NACOS_AUTH_ENABLE: nacos.core.auth.enabled: expected true or false, got \"maybe\"",
            "environment PREFER_HOST_MODE: expected ip or hostname",
            "environment SERVER_SSL_ENABLED: server.ssl.enabled: expected true or false, got \"maybe\"",
        ]
    );
}

#[test]
fn keys_that_lose_something_are_warned_of_one_by_one() {
    let text = "spring.datasource.platform=mysql\nmanagement.metrics.export.elastic.enabled=true\n\
        management.metrics.export.influx.enabled=on\nnacos.istio.mcp.server.enabled=true\n\
        spring.config.additional-location=/x/\naddress.server.domain=a.example\nwhat.is.this=1\n\
        nacos.naming.expire-instance=false\nserver.port=1\nserver.port=2\n\
        nacos.naming.empty-service.clean.period-time-ms=20\nnacos.naming.clean.empty-service.interval=10\n\
        nacre.member.dns=a\nnacos.core.auth.server.identity.key=x\n\
        nacos.naming.distro.taskDispatchPeriod=900\nnacos.core.protocol.distro.data.sync.delayMs=600\n";
    let mut warnings = file(text).notices(Severity::Warn);
    warnings.sort();
    let mut expected = [
        "app.properties:10: server.port: counts instead of line 9, which gives the same key",
        "app.properties:7: what.is.this: unknown key; it has no effect",
        "app.properties:8: nacos.naming.expire-instance: unknown key; it has no effect; did you mean nacos.naming.expireInstance?",
        "app.properties:6: address.server.domain: has no effect, since nacre.member.dns names the members",
        "app.properties:2: management.metrics.export.elastic.enabled: metrics aren't pushed; let the collector read /metrics",
        "app.properties:3: management.metrics.export.influx.enabled: metrics aren't pushed; let the collector read /metrics",
        "app.properties:5: spring.config.additional-location: no file is read by this key; name it with --config FILE",
        "app.properties:1: spring.datasource.platform: no database is used; namespaces and users that are stored there aren't read",
        "app.properties:11: nacos.naming.empty-service.clean.period-time-ms: has no effect, since nacos.naming.clean.empty-service.interval is given too",
        "app.properties:4: nacos.istio.mcp.server.enabled: there is no MCP server",
        "app.properties:14: nacos.core.auth.server.identity.key: proves no member without nacos.core.auth.server.identity.value: members are known by their addresses alone",
        "app.properties:15: nacos.naming.distro.taskDispatchPeriod: has no effect, since nacos.core.protocol.distro.data.sync.delayMs is given too",
    ];
    expected.sort_unstable();
    assert_eq!(warnings, expected);
    let settings = file(text).settings();
    assert_eq!(settings.naming.empty_service_period, Duration::from_millis(10));
    assert_eq!(settings.distro.legacy_sync_delay, Duration::from_millis(600));
}

#[test]
fn keys_without_effect_are_named_in_one_line() {
    let keys = [
        "nacos.member-change-event.queue.size",
        "nacos.core.notify.ring-buffer-size",
        "nacos.watch-file.max-dirs",
        "nacos.core.protocol.raft.data.election_timeout_ms",
        "nacos.naming.use-new-raft.first",
        "server.contextPath",
        "server.error.include-message",
        "server.tomcat.accesslog.pattern",
        "server.tomcat.accesslog.max-days",
        "server.tomcat.basedir",
        "server.tomcat.max-threads",
        "server.tomcat.uri-encoding",
        "server.compression.enabled",
        "server.use-forward-headers",
        "server.ssl.key-store",
        "server.ssl.key-store-password",
        "tls.enable",
        "tls.client.trustCertPath",
        "checkIntervalTlsFile",
        "nacos.http.timeout",
        "spring.application.name",
        "spring.mvc.x",
        "logging.level.root",
        "loader.path",
        "management.endpoint.health.show-details",
        "management.metrics.export.influx.uri",
        "nacos.core.inet.auto-refresh",
        "nacos.naming.distro.taskDispatchThreadCount",
        "nacos.naming.distro.initDataRatio",
        "nacos.core.protocol.distro.data.sync_delay_ms",
        "nacos.core.protocol.distro.data.sync_retry_delay_ms",
        "nacos.core.protocol.distro.data.load_retry_delay_ms",
        "nacos.naming.distro.loadDataRetryDelayMillis",
        "nacos.core.protocol.distro.data.load.retryDelayMs",
        "nacos.core.member.meta.other",
        "nacos.naming.clean.expired-metadata.interval",
        "nacos.naming.client.expired.time",
        "nacos.naming.push.pushTaskTimeout",
        "nacos.naming.push.pushTaskRetryDelay",
        "com.alibaba.nacos.naming.health.thread.num",
        "nacos.remote.server.grpc.x",
        "nacos.core.monitor.x",
        "nacos.naming.pushRetryCount",
        "db.num",
        "db.url.0",
        "db.user",
        "db.password.0",
        "db.pool.config.x",
        "embeddedStorage",
        "nacos.persistence.sql.derby.limit.enabled",
        "nacos.config.retention.days",
        "isHealthCheck",
        "maxContent",
        "isManageCapacity",
        "isQuickStart",
        "QUERYTIMEOUT",
        "nacos.cmdb.dumpTaskInterval",
        "nacos.core.snowflake.worker-id",
        "spring.security.enabled",
        "nacos.core.auth.system.type",
        "nacos.core.auth.default.token.secret.key",
        "nacos.core.auth.plugin.nacos.token.secret.key",
        "nacos.core.auth.caching.enabled",
        "nacos.core.auth.enable.userAgentAuthWhite",
        "nacos.security.ignore.urls",
    ];
    let text: String = keys.iter().map(|key| format!("{key}=${{secret-and-unresolved}}\n")).collect();
    let loaded = file(&text).loaded();
    assert_eq!(loaded.settings, defaults());
    let mut sorted = keys;
    sorted.sort_unstable();
    assert_eq!(loaded.notices, [Notice::info(format!("accepted without effect: {}", sorted.join(", ")))]);

    let variables = [
        ("JVM_XMS", "1g"),
        ("JAVA_OPTS", "x"),
        ("MYSQL_SERVICE_PASSWORD", "hidden"),
        ("TIME_ZONE", "UTC"),
        ("EMBEDDED_STORAGE", "embedded"),
        ("NACOS_AUTH_TOKEN", "hidden"),
        ("SPRING_PROFILES_ACTIVE", "x"),
    ];
    assert_eq!(
        environment(&variables).loaded().notices,
        [Notice::info(
            "accepted without effect: JAVA_OPTS, JVM_XMS, MYSQL_SERVICE_PASSWORD, TIME_ZONE, embeddedStorage, \
             nacos.core.auth.default.token.secret.key, spring.profiles.active"
                .to_owned()
        )]
    );
}

#[test]
fn the_file_of_a_container_is_taken_as_it_is() {
    let text = r#"
server.servlet.contextPath=${SERVER_SERVLET_CONTEXTPATH:/nacos}
server.contextPath=/nacos
server.port=${NACOS_APPLICATION_PORT:8848}
spring.datasource.platform=${SPRING_DATASOURCE_PLATFORM:}
db.num=${MYSQL_DATABASE_NUM:1}
db.url.0=jdbc:mysql://${MYSQL_SERVICE_HOST}:${MYSQL_SERVICE_PORT:3306}/${MYSQL_SERVICE_DB_NAME}?a=b&c=d
db.user.0=${MYSQL_SERVICE_USER}
nacos.core.auth.enabled=${NACOS_AUTH_ENABLE:false}
nacos.core.auth.default.token.secret.key=${NACOS_AUTH_TOKEN:not-shown}
server.tomcat.accesslog.enabled=${TOMCAT_ACCESSLOG_ENABLED:false}
server.tomcat.accesslog.pattern=%h %l %u %t "%r" %s %b %D
nacos.naming.distro.taskDispatchThreadCount=10
nacos.naming.empty-service.auto-clean=true
"#;
    let case = Case {
        file: text,
        environment: &[("NACOS_APPLICATION_PORT", "9000"), ("TOMCAT_ACCESSLOG_ENABLED", "true")],
        ..Case::default()
    };
    assert_eq!(
        case.settings(),
        with(|s| {
            s.server.port = 9000;
            s.server.access_log = true;
        })
    );
    assert_eq!(case.notices(Severity::Warn), [""; 0]);
    assert!(!case.notices(Severity::Info).concat().contains("not-shown"));
}

#[test]
fn the_preference_for_the_host_name_has_two_keys() {
    let case = Case {
        file: "nacos.inetutils.prefer-hostname-over-ip=true",
        environment: &[("PREFER_HOST_MODE", "ip")],
        ..Case::default()
    };
    let rules = OwnAddressRules { prefer_hostname: true, ..OwnAddressRules::default() };
    assert_eq!(case.settings().own_address, rules);
}

/// Loads with files at these paths; tells which file was read, and both folders.
fn found(sources: &Sources, files: &[(&str, &str)]) -> (Option<String>, String, String) {
    let read = |path: &Path| {
        if path == "/c" {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let file = files.iter().find(|(name, _)| Path::new(name) == path);
        file.map(|(_, text)| text.as_bytes().to_vec()).ok_or(io::ErrorKind::NotFound.into())
    };
    let loaded = load(sources, &read).expect("right settings");
    let text = |path: &Path| path.to_str().expect("given as text").to_owned();
    let Settings { data_dir, config_dir, .. } = &loaded.settings;
    (loaded.file.as_deref().map(text), text(data_dir), text(config_dir))
}

#[test]
fn the_file_is_looked_for_in_order() {
    let in_data = ("/d/conf/application.properties", "");
    let in_home = ("/h/conf/application.properties", "");
    let here = ("./conf/application.properties", "");
    let named = ("/n/a.properties", "");
    let all = [in_data, in_home, here, named];
    let with_data = Sources { data: Some("/d".into()), ..Sources::default() };
    let with_home =
        Sources { environment: variables(&[("JAVA_OPT", "-Dnacos.home=/h")]), ..with_data.clone() };
    let with_name = Sources { config: Some("/n/a.properties".into()), ..with_home.clone() };
    let with_dir = Sources { config_dir: Some("/c".into()), ..with_name.clone() };
    let home_alone = Sources { data: None, ..with_home.clone() };
    for (sources, files, file, data, config) in [
        (&with_dir, &all[..], Some(named.0), "/d", "/c"),
        (&with_name, &all[..], Some(named.0), "/d", "/n"),
        (&with_home, &all[..], Some(in_data.0), "/d", "/d/conf"),
        (&with_home, &[in_home, here], Some(in_home.0), "/d", "/h/conf"),
        (&with_data, &[in_home, here], Some(here.0), "/d", "./conf"),
        (&with_data, &[], None, "/d", "/d/conf"),
        (&home_alone, &all[..], Some(in_home.0), "/h/data", "/h/conf"),
        (&home_alone, &[], None, "/h/data", "/h/conf"),
        (&Sources::default(), &[], None, "./data", "./data/conf"),
        (
            &Sources::default(),
            &[("./conf/application.properties", "nacos.home=/x")],
            Some(here.0),
            "/x/data",
            "./conf",
        ),
    ] {
        let expected = (file.map(str::to_owned), data.to_owned(), config.to_owned());
        assert_eq!(found(sources, files), expected, "{sources:?}");
    }
}

/// Loads with `--config-dir c` and these files, `c` being a folder where one of them is in it; gives what it warns of.
fn in_folder(files: &[&str], config: Option<&str>, set: &[&str]) -> Result<Vec<String>, Vec<String>> {
    let sources = Sources {
        config: config.map(Into::into),
        config_dir: Some("c".into()),
        data: Some("d".into()),
        set: set.iter().map(|&word| word.to_owned()).collect(),
        ..Sources::default()
    };
    let loaded = load(&sources, &|path| match path.to_str() {
        Some("c") if files.iter().any(|file| file.starts_with("c/")) => {
            Err(io::ErrorKind::IsADirectory.into())
        }
        Some(path) if files.contains(&path) => Ok(b"10.0.0.1:8848=x".to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    });
    let texts = |all: Vec<SettingError>| all.iter().map(ToString::to_string).collect::<Vec<_>>();
    let loaded = loaded.map_err(texts)?;
    let warnings = loaded.notices.into_iter().filter(|notice| notice.text.starts_with("c: "));
    Ok(warnings.map(|notice| notice.text).collect())
}

#[test]
fn the_folder_of_the_list_must_be_one() {
    let refused =
        |reason: &str| Err(vec![format!("c: can't be the folder of cluster.conf (--config-dir): {reason}")]);
    assert_eq!(in_folder(&[], None, &[]), refused("there is no such folder"));
    assert_eq!(in_folder(&["c"], None, &[]), refused("it is no folder"));
    assert_eq!(in_folder(&["c"], None, &["nacos.standalone=true"]), refused("it is no folder"));
}

#[test]
fn a_named_folder_without_a_list_is_told_of() {
    let (empty, list, settings) = ("c/x", "c/cluster.conf", "c/application.properties");
    let alone = "c: holds no cluster.conf, so nothing names members";
    let unread = "c: its application.properties isn't read: name it with --config";
    let both = "c: its application.properties isn't read (name it with --config), and there is no cluster.conf, so nothing \
        names members";
    let members = &["nacos.member.list=10.0.0.1:8848"][..];
    for (files, config, set, expected) in [
        (&[empty][..], None, &[][..], &[alone][..]),
        (&[empty], None, members, &[]),
        (&[empty], None, &["nacos.standalone=true"], &[]),
        (&[list], None, &[], &[]),
        (&[settings], None, &[], &[both]),
        (&[settings, list], None, &[], &[unread]),
        (&[settings], None, members, &[unread]),
        (&[settings], Some(settings), &[], &[]),
        (&[settings, "./c/application.properties"], Some("./c/application.properties"), &[], &[]),
        (&[empty, "d/conf/application.properties"], None, &[], &[alone]),
    ] {
        let expected = expected.iter().map(|&text| text.to_owned()).collect();
        assert_eq!(in_folder(files, config, set), Ok(expected), "{files:?} {config:?} {set:?}");
    }
}

#[test]
fn half_a_secret_and_one_of_the_manual_are_told_of() {
    let warned = |text: &str| file(text).notices(Severity::Warn);
    let (key, value) = ("nacos.core.auth.server.identity.key", "nacos.core.auth.server.identity.value");
    let half = |line: usize, given: &str, lacking: &str| {
        vec![format!(
            "app.properties:{line}: {given}: proves no member without {lacking}: members are known by their addresses alone"
        )]
    };
    assert_eq!(warned(&format!("{key}=a")), half(1, key, value));
    assert_eq!(warned(&format!("{key}=\n{value}=a")), half(2, value, key));
    for (name, secret) in
        [("serverIdentity", "security"), ("SERVERIDENTITY", "security"), ("example", "example")]
    {
        let warned = warned(&format!("{key}={name}\n{value}={secret}"));
        assert!(
            warned.len() == 1
                && warned[0].starts_with(&format!("app.properties:2: {value}: stands in Nacos's manual")),
            "{warned:?}"
        );
    }
    for pair in [("serverIdentity", "another"), ("another", "security"), ("", "")] {
        assert_eq!(warned(&format!("{key}={}\n{value}={}", pair.0, pair.1)), [""; 0]);
    }
}

#[test]
fn a_file_that_cannot_be_read_is_an_error() {
    let named = Sources { config: Some("x.properties".into()), ..Sources::default() };
    let errors = load(&named, &|_| Err(io::ErrorKind::NotFound.into())).expect_err("no file");
    assert_eq!(errors[0].to_string(), "x.properties: can't read the settings file: entity not found");

    let found = Sources { data: Some("d".into()), ..Sources::default() };
    let denied = |path: &Path| match path.to_str() {
        Some("d/conf/application.properties") => Err(io::ErrorKind::PermissionDenied.into()),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    let errors = load(&found, &denied).expect_err("no right");
    assert_eq!(errors.len(), 1);
    assert_eq!(
        errors[0].to_string(),
        "d/conf/application.properties: can't read the settings file: permission denied"
    );
}

const SHIPPED: &str = include_str!("../../conf/application.properties");

/// `#key=value` lines of the shipped file, without their `#`.
fn shipped_defaults() -> String {
    let lines = SHIPPED.lines().map(|line| match line.strip_prefix('#') {
        Some(setting) if setting.starts_with(|c: char| c.is_ascii_alphabetic()) => setting,
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_shipped_file_says_the_defaults() {
    for text in [SHIPPED, &shipped_defaults()] {
        let loaded = file(text).loaded();
        assert_eq!(loaded.settings, defaults());
        assert_eq!(loaded.notices, []);
    }
}

#[test]
fn the_shipped_file_names_every_key_that_has_an_effect() {
    let active = shipped_defaults();
    let lines =
        || active.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('='));
    for (key, value) in lines() {
        let (row, _) = keys::find(key).unwrap_or_else(|| panic!("{key} is no key"));
        assert!(
            matches!(row.treatment, Treatment::Honour(_) | Treatment::HonourList(_)),
            "{key} has no effect"
        );
        // A default that is "not given" can't be compared; all others are.
        let may_be_empty = [
            "nacos.",
            "nacre.forwarded.trust",
            "nacre.legacy.servers",
            "nacre.proxy.listen",
            "nacre.proxy.rules",
            "nacre.proxy.tls.",
            "nacre.proxy.trust-forwarded",
            "nacre.push.agents",
            "server.address",
            "nacre.member.dns",
            "nacre.peer.networks",
            "nacre.peer.via",
            "address.server.",
            "nacre.legacy.servers",
        ];
        assert!(!value.is_empty() || may_be_empty.iter().any(|key_part| key.starts_with(key_part)), "{key}");
    }
    for row in KEYS {
        let has_effect = matches!(
            row.treatment,
            Treatment::Honour(_) | Treatment::HonourList(_) | Treatment::RefuseIf(..)
        );
        let is_active = || lines().any(|(key, _)| std::ptr::eq(keys::find(key).unwrap().0, row));
        assert!(!has_effect || is_active() || SHIPPED.contains(row.name), "{} isn't documented", row.name);
    }
}

proptest::proptest! {
    /// The crate that reads the syntax has places where it would panic; no text may get there.
    #[test]
    fn no_file_makes_it_panic(
        lines in proptest::collection::vec(r"[ \t\f]{0,2}[a.#!:=\\\\u0-9${}\r\n\u{85}\u{2028}é-]{0,12}(server.port|nacos.server.ip|nacre.push.agents)?[ =:]{0,2}[\\\\${}:a0-9,.\[\]]{0,12}", 0..8)
    ) {
        let text = lines.join("\n");
        let latin: Vec<u8> = text.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).collect();
        for bytes in [text.as_bytes(), &latin] {
            let sources = Sources { config: Some("x".into()), ..Sources::default() };
            let _ = load(&sources, &|path| match path.to_str() {
                Some("x") => Ok(bytes.to_vec()),
                _ => Err(io::ErrorKind::NotFound.into()),
            });
        }
    }
}

#[test]
fn a_list_that_names_nobody_or_lies_where_it_is_not_read_is_no_reason_to_serve_alone() {
    let start = |standalone: Option<&str>, list: &'static str, text: &'static str| {
        let set = standalone.map(|value| format!("nacos.standalone={value}")).into_iter().collect();
        let (config, data) = (Some("etc/app.properties".into()), Some("d".into()));
        let sources = Sources { config, data, set, ..Sources::default() };
        let loaded = load(&sources, &|path| match path.to_str() {
            Some("etc/app.properties") => Ok(Vec::new()),
            Some(path) if path == list => Ok(text.as_bytes().to_vec()),
            _ => Err(io::ErrorKind::NotFound.into()),
        });
        loaded.map(|loaded| loaded.settings.membership.lookup).map_err(|errors| errors[0].to_string())
    };
    let elsewhere = start(None, "d/conf/cluster.conf", "10.0.0.1:8848").unwrap_err();
    assert!(
        elsewhere.starts_with(
            "d/conf/cluster.conf: isn't read, since the list of members is looked for beside the settings, in etc/cluster.conf: \
             move it there, or name its folder with --config-dir"
        ),
        "{elsewhere}"
    );
    for text in ["", "# 10.0.0.1:8848\n\n"] {
        let nobody = start(None, "etc/cluster.conf", text).unwrap_err();
        assert!(
            nobody.starts_with("etc/cluster.conf: names no member; name the members: one host:port a line"),
            "{nobody}"
        );
    }
    for list in ["d/conf/cluster.conf", "etc/cluster.conf"] {
        assert_eq!(start(Some("true"), list, "#"), Ok(Lookup::Standalone));
    }
    assert_eq!(start(None, "d/conf/cluster.conf", "# nobody"), Ok(Lookup::Standalone));
}
