//! What environment variables say: Spring's spelling of keys, the container image's names, `-D` words.
//!
//! Pure: the environment comes in as a map. An empty variable counts as not given, as in the image's
//! start script; compose files write them for what they leave open.
//! Source: start script of the usual container image; Spring's rule for names; start script of Nacos 1.4.8.

use std::collections::BTreeMap;

use super::{
    findings::Place,
    keys::{KEYS, Key},
    sources::{Given, Layer},
};

/// What the environment gives.
#[derive(Default)]
pub(super) struct FromEnvironment {
    /// Keys with their values.
    pub given: Vec<Given>,
    /// Variables that are known and have no effect.
    pub accepted: Vec<String>,
    /// Variables of the image whose value isn't one of those it knows: name and known values.
    pub unheard: Vec<(String, &'static str)>,
    /// Variables that begin like ours or Nacos's own and mean no key.
    pub unknown: Vec<String>,
}

/// What a name of the container image means. Of two for one key the lower wins.
enum ImageName {
    Means(&'static str),
    /// One of these words, each with the key's value.
    OneOf(&'static str, &'static [(&'static str, &'static str)], &'static str),
    Accepted,
}

use ImageName::{Accepted, Means, OneOf};

const IMAGE_NAMES: &[(&str, ImageName)] = &[
    (
        "MODE",
        OneOf("nacos.standalone", &[("standalone", "true"), ("cluster", "false")], "standalone or cluster"),
    ),
    (
        "PREFER_HOST_MODE",
        OneOf("nacos.preferHostnameOverIp", &[("ip", "false"), ("hostname", "true")], "ip or hostname"),
    ),
    ("NACOS_SERVERS", Means("nacos.member.list")),
    ("NACOS_SERVER_IP", Means("nacos.server.ip")),
    ("NACOS_SERVER_PORT", Means("server.port")),
    ("NACOS_APPLICATION_PORT", Means("server.port")),
    ("USE_ONLY_SITE_INTERFACES", Means("nacos.inetutils.use-only-site-local-interfaces")),
    ("PREFERRED_NETWORKS", Means("nacos.inetutils.preferred-networks")),
    ("IGNORED_INTERFACES", Means("nacos.inetutils.ignored-interfaces")),
    ("FUNCTION_MODE", Means("nacos.functionMode")),
    ("TOMCAT_ACCESSLOG_ENABLED", Means("server.tomcat.accesslog.enabled")),
    ("EMBEDDED_STORAGE", Means("embeddedStorage")),
    ("address_server_domain", Means("address.server.domain")),
    ("address_server_port", Means("address.server.port")),
    ("address_server_url", Means("address.server.url")),
    ("NACOS_AUTH_ENABLE", Means("nacos.core.auth.enabled")),
    ("NACOS_AUTH_SYSTEM_TYPE", Means("nacos.core.auth.system.type")),
    ("NACOS_AUTH_TOKEN", Means("nacos.core.auth.default.token.secret.key")),
    ("NACOS_AUTH_TOKEN_EXPIRE_SECONDS", Means("nacos.core.auth.default.token.expire.seconds")),
    ("NACOS_AUTH_CACHE_ENABLE", Means("nacos.core.auth.caching.enabled")),
    ("NACOS_AUTH_IDENTITY_KEY", Means("nacos.core.auth.server.identity.key")),
    ("NACOS_AUTH_IDENTITY_VALUE", Means("nacos.core.auth.server.identity.value")),
    ("NACOS_AUTH_USER_AGENT_AUTH_WHITE_ENABLE", Means("nacos.core.auth.enable.userAgentAuthWhite")),
    ("NACOS_SECURITY_IGNORE_URLS", Means("nacos.security.ignore.urls")),
    ("MYSQL_SERVICE_HOST", Accepted),
    ("MYSQL_SERVICE_PORT", Accepted),
    ("MYSQL_SERVICE_DB_NAME", Accepted),
    ("MYSQL_SERVICE_USER", Accepted),
    ("MYSQL_SERVICE_PASSWORD", Accepted),
    ("MYSQL_SERVICE_DB_PARAM", Accepted),
    ("MYSQL_DATABASE_NUM", Accepted),
    ("JVM_XMS", Accepted),
    ("JVM_XMX", Accepted),
    ("JVM_XMN", Accepted),
    ("JVM_MS", Accepted),
    ("JVM_MMS", Accepted),
    ("NACOS_DEBUG", Accepted),
    ("TIME_ZONE", Accepted),
    ("NACOS_USER", Accepted),
    ("BASE_DIR", Accepted),
    ("CUSTOM_SEARCH_NAMES", Accepted),
    ("DOMAIN_NAME", Accepted),
    ("SERVICE_NAME", Accepted),
    ("NACOS_REPLICAS", Accepted),
];

/// Variables whose `-D` words are read; the second wins, as it stands later on the JVM's command line.
const JVM_WORDS: [(&str, Layer); 2] = [("JAVA_OPT", Layer::JavaOpt), ("JAVA_OPT_EXT", Layer::JavaOptExt)];

/// Reads all variables.
pub(super) fn read(environment: &BTreeMap<String, String>) -> FromEnvironment {
    let mut found = FromEnvironment::default();
    let said =
        environment.iter().filter(|(name, value)| !value.trim().is_empty() && !is_service_link(name, value));
    for (name, value) in said {
        read_variable(name, value.trim(), &mut found);
    }
    // Of two image names for one key the lower row must come later.
    found.given.sort_by_key(|given| match &given.place {
        Place::Environment(name) => IMAGE_NAMES.iter().position(|(known, _)| known == name),
        _ => None,
    });
    found
}

fn read_variable(name: &str, value: &str, found: &mut FromEnvironment) {
    let place = || Place::Environment(name.to_owned());
    let mut give = |layer, key: String, value: &str| {
        found.given.push(Given { layer, place: place(), key, value: value.to_owned() });
    };
    if let Some((_, image_name)) = IMAGE_NAMES.iter().find(|(known, _)| *known == name) {
        match image_name {
            Means(key) => give(Layer::Image, (*key).to_owned(), value),
            OneOf(key, words, known) => match words.iter().find(|(word, _)| word.eq_ignore_ascii_case(value))
            {
                Some((_, value)) => give(Layer::Image, (*key).to_owned(), value),
                None => found.unheard.push((name.to_owned(), *known)),
            },
            Accepted => found.accepted.push(name.to_owned()),
        }
    } else if let Some((_, layer)) = JVM_WORDS.iter().find(|(known, _)| *known == name) {
        for (key, value) in jvm_flags(value) {
            let place = Place::JvmFlag(name.to_owned());
            found.given.push(Given { layer: *layer, place, key, value });
        }
    } else if name.starts_with("JAVA_OPT") {
        found.accepted.push(name.to_owned());
    } else if let Some(key) = key_of(name) {
        give(Layer::Environment, key, value);
    } else if name.starts_with("NACRE_") || name.starts_with("NACOS_") {
        found.unknown.push(name.to_owned());
    }
}

/// First segments of keys that a variable may name; others are too common words (`DB_USER`).
const HEARD: [&str; 6] = ["nacos.", "nacre.", "server.", "spring.", "management.", "logging."];

/// The key that a variable names by Spring's rule, also with an index at its end; or a key as it is.
fn key_of(variable: &str) -> Option<String> {
    if HEARD.iter().any(|owner| variable.starts_with(owner)) {
        return Some(variable.to_owned());
    }
    let rows = || KEYS.iter().filter(|key| HEARD.iter().any(|owner| key.name.starts_with(owner)));
    if let Some(key) = rows().find(|key| key.prefix().is_none() && is_spelling_of(key.name, variable)) {
        return Some(key.name.to_owned());
    }
    if let Some((name, index)) = indexed(variable)
        && let Some(key) = rows().find(|key| key.is_list() && is_spelling_of(key.name, name))
    {
        return Some(format!("{}[{index}]", key.name));
    }
    rows().filter_map(Key::prefix).find_map(|prefix| {
        let rest = variable
            .strip_prefix(&without_dashes(prefix))
            .or_else(|| variable.strip_prefix(&dashes_as_underscores(prefix)))?;
        Some(format!("{prefix}{}", rest.to_ascii_lowercase().replace('_', ".")))
    })
}

fn is_spelling_of(key: &str, variable: &str) -> bool {
    variable == without_dashes(key) || variable == dashes_as_underscores(key)
}

fn without_dashes(key: &str) -> String {
    key.replace('-', "").replace('.', "_").to_ascii_uppercase()
}

fn dashes_as_underscores(key: &str) -> String {
    key.replace(['-', '.'], "_").to_ascii_uppercase()
}

fn indexed(variable: &str) -> Option<(&str, usize)> {
    let (name, index) = variable.strip_suffix('_').unwrap_or(variable).rsplit_once('_')?;
    Some((name, index.parse().ok()?))
}

/// Kubernetes and Docker add variables for every service nearby: one called `nacos-server` gives
/// `NACOS_SERVER_PORT=tcp://10.0.0.1:8848`. They are no settings.
fn is_service_link(name: &str, value: &str) -> bool {
    let is_url = ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme));
    let is_ours = IMAGE_NAMES.iter().any(|(known, _)| *known == name);
    is_url && name.contains("_PORT")
        || !is_ours
            && (name.contains("_SERVICE_HOST")
                || name.contains("_SERVICE_PORT")
                || ["_TCP_", "_UDP_", "_SCTP_"]
                    .iter()
                    .any(|part| name.contains("_PORT_") && name.contains(part)))
}

/// The `-Dkey=value` words of a JVM's command line; quotes hold a word together.
fn jvm_flags(line: &str) -> Vec<(String, String)> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in line.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            None if matches!(c, '"' | '\'') => quote = Some(c),
            None if c.is_whitespace() => words.push(String::new()),
            _ => words.last_mut().expect("begins with one word").push(c),
        }
    }
    let flags = words.iter().filter_map(|word| word.strip_prefix("-D"));
    let pairs = flags.map(|flag| flag.split_once('=').unwrap_or((flag, "")));
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Tells whether a `-D` word is for the JVM itself or its libraries.
pub(super) fn is_for_the_jvm(key: &str) -> bool {
    const OWNERS: [&str; 12] = [
        "java.",
        "javax.",
        "jdk.",
        "sun.",
        "com.sun.",
        "user.",
        "file.",
        "os.",
        "io.",
        "log4j",
        "logback.",
        "networkaddress.",
    ];
    OWNERS.iter().any(|owner| key.starts_with(owner))
}
