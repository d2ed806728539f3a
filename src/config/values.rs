//! How the text of one value is read: numbers with their range, switches, lists, networks.
//!
//! Pure. Every error says what was expected and what stood there; the caller adds key and place.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    num::NonZeroU32,
    ops::RangeInclusive,
    time::Duration,
};

use super::{
    cluster_settings::{DnsName, LookupType, Mapping, Secret},
    legacy_settings::{LegacyNaming, LegacyServer},
    own_address::bracketed,
    proxy_settings::ProxyLog,
    settings::{LogFormat, PushTargets},
};

/// Why a value isn't taken, as the end of the sentence "KEY: ...".
pub(super) type Reason = String;

/// A path prefix without trailing slash; empty when there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextPath(String);

/// First segments that belong to our own pages, so that no context path may begin with them.
const OWN_PATHS: [&str; 4] = ["nacre", "metrics", "livez", "readyz"];

impl ContextPath {
    /// The prefix as it stands in URLs: `/nacos`, or the empty text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for ContextPath {
    fn default() -> Self {
        Self("/nacos".to_owned())
    }
}

/// A range of addresses such as `10.0.0.0/8` or `fd00::/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// Tells whether `address` lies in the network; an IPv4 address written as IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                let host_bits = 32 - u32::from(self.prefix);
                (ours.to_bits() ^ theirs.to_bits()).checked_shr(host_bits).unwrap_or(0) == 0
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                let host_bits = 128 - u32::from(self.prefix);
                (ours.to_bits() ^ theirs.to_bits()).checked_shr(host_bits).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl std::str::FromStr for Network {
    type Err = String;

    /// Reads `10.0.0.0/8`, `fd00::/8` or an address, which is a network of itself.
    fn from_str(text: &str) -> Result<Self, String> {
        network(text)
    }
}

/// A regular expression of the operator; two are equal when their texts are.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    whole: regex::Regex,
}

impl Pattern {
    /// Tells whether the expression matches the whole of `text`.
    pub fn matches_whole(&self, text: &str) -> bool {
        self.whole.is_match(text)
    }

    /// The expression as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

/// A client that understands pushes from a version on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushAgent {
    /// What stands before the `:` of its `User-Agent`, e.g. `My-Client`.
    pub name: String,
    /// Major, minor and patch number of the first version that understands pushes.
    pub minimum: [u32; 3],
}

/// Where to connect instead of a member's own address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Via {
    /// The member, spelled as in the list of members.
    pub member: String,
    /// `HOST:PORT` of the forwarder.
    pub target: String,
}

/// Writes `value` into `slot` if it could be read.
pub(super) fn put<T>(slot: &mut T, value: Result<T, Reason>) -> Result<(), Reason> {
    *slot = value?;
    Ok(())
}

/// Like [`put`], for a setting whose default is "none".
pub(super) fn put_some<T>(slot: &mut Option<T>, value: Result<T, Reason>) -> Result<(), Reason> {
    *slot = Some(value?);
    Ok(())
}

/// Spring's spellings of true and false.
pub(super) fn switch(text: &str) -> Result<bool, Reason> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" | "1" => Ok(true),
        "false" | "off" | "no" | "0" => Ok(false),
        _ => Err(format!("expected true or false, got {text:?}")),
    }
}

/// A whole number within `range`.
pub(super) fn number<T>(text: &str, range: RangeInclusive<T>) -> Result<T, Reason>
where
    T: std::str::FromStr + PartialOrd + fmt::Display,
{
    match text.parse::<T>() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(format!("expected a whole number from {} to {}, got {text:?}", range.start(), range.end())),
    }
}

/// A whole number of milliseconds within `range`.
pub(super) fn millis(text: &str, range: RangeInclusive<u64>) -> Result<Duration, Reason> {
    match text.parse::<u64>() {
        Ok(number) if range.contains(&number) => Ok(Duration::from_millis(number)),
        _ => Err(format!("expected milliseconds from {} to {}, got {text:?}", range.start(), range.end())),
    }
}

/// A size as Spring writes it: bytes, or with the unit B, KB, MB or GB (of 1024).
pub(super) fn bytes(text: &str, range: RangeInclusive<usize>) -> Result<usize, Reason> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => Some(1),
        "KB" => Some(1 << 10),
        "MB" => Some(1 << 20),
        "GB" => Some(1 << 30),
        _ => None,
    };
    let size = factor.and_then(|factor: usize| digits.parse::<usize>().ok()?.checked_mul(factor));
    size.filter(|size| range.contains(size)).ok_or_else(|| {
        format!("expected bytes (or KB, MB) from {} to {}, got {text:?}", range.start(), range.end())
    })
}

/// An address to listen on.
pub(super) fn listen_address(text: &str) -> Result<IpAddr, Reason> {
    if text.eq_ignore_ascii_case("localhost") {
        return Ok(IpAddr::from([127, 0, 0, 1]));
    }
    unbracketed(text).parse().map(|address: IpAddr| address.to_canonical()).map_err(|_| {
        format!("expected an IP address of this machine (leave it out for all of them), got {text:?}")
    })
}

/// `/name`, also of several segments; `/` for none.
pub(super) fn context_path(text: &str) -> Result<ContextPath, Reason> {
    if text == "/" {
        return Ok(ContextPath(String::new()));
    }
    if !text.starts_with('/') || text.ends_with('/') {
        return Err(format!("expected a path that begins with / and doesn't end with it, got {text:?}"));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~');
    let segments = || text[1..].split('/');
    if segments().any(|segment| matches!(segment, "" | "." | "..") || !segment.chars().all(plain)) {
        return Err(format!("expected path segments of letters, digits and -_.~, got {text:?}"));
    }
    if segments().next().is_some_and(|first| OWN_PATHS.contains(&first)) {
        return Err(format!("{text:?} is taken by the server's own pages; choose another path"));
    }
    Ok(ContextPath(text.to_owned()))
}

/// Tells whether a list of actuator endpoints opens the one named `prometheus`.
pub(super) fn opens_prometheus(text: &str) -> Result<bool, Reason> {
    Ok(words(text).any(|word| word == "*" || word.eq_ignore_ascii_case("prometheus")))
}

/// The own address as the operator gave it: IP (IPv6 gets brackets) or host name, without port.
pub(super) fn own_address(text: &str) -> Result<String, Reason> {
    if let Ok(address) = unbracketed(text).parse::<IpAddr>() {
        return Ok(bracketed(address.to_canonical()));
    }
    if is_host_name(text) {
        return Ok(text.to_owned());
    }
    if text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
        return Err(format!("expected an address without port (the port is server.port), got {text:?}"));
    }
    Err(format!("expected an IP address or a host name, got {text:?}"))
}

/// Labels of letters, digits, `-` and `_`; a dot may end it.
fn is_host_name(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    };
    let name = text.strip_suffix('.').unwrap_or(text);
    name.len() <= 253 && name.split('.').all(label)
}

/// A regular expression.
pub(super) fn pattern(text: &str) -> Result<Pattern, Reason> {
    let whole = regex::RegexBuilder::new(&format!("^(?:{text})$")).size_limit(1 << 20).build();
    match whole {
        Ok(whole) => Ok(Pattern { text: text.to_owned(), whole }),
        Err(_) => Err(format!("expected a regular expression (without look-around), got {text:?}")),
    }
}

/// Regular expressions, one per item of a list.
pub(super) fn patterns(items: &[String]) -> Result<Vec<Pattern>, Reason> {
    items.iter().map(|item| pattern(item)).collect()
}

/// Networks in CIDR form, separated by commas; a bare address is a network of itself.
pub(super) fn networks(text: &str) -> Result<Vec<Network>, Reason> {
    words(text).map(network).collect()
}

fn network(text: &str) -> Result<Network, Reason> {
    let wrong = || format!("expected networks such as 10.0.0.0/8 or fd00::/8, got {text:?}");
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let prefix = match prefix {
        Some(prefix) => prefix.parse().ok().filter(|prefix| *prefix <= longest).ok_or_else(wrong)?,
        None => longest,
    };
    Ok(Network { address, prefix })
}

/// `Name:1.2.3`, separated by commas.
pub(super) fn push_agents(text: &str) -> Result<Vec<PushAgent>, Reason> {
    words(text).map(push_agent).collect()
}

fn push_agent(text: &str) -> Result<PushAgent, Reason> {
    let wrong = || format!("expected NAME:MINIMUM-VERSION such as My-Client:1.2.0, got {text:?}");
    let (name, version) = text.split_once(':').filter(|(name, _)| !name.is_empty()).ok_or_else(wrong)?;
    let version = version.strip_prefix('v').unwrap_or(version);
    let mut minimum = [0; 3];
    for (index, part) in version.split('.').enumerate() {
        *minimum.get_mut(index).ok_or_else(wrong)? = part.parse().map_err(|_| wrong())?;
    }
    Ok(PushAgent { name: name.to_owned(), minimum })
}

/// `private`, `caller` or `any`.
pub(super) fn push_targets(text: &str) -> Result<PushTargets, Reason> {
    match text {
        "private" => Ok(PushTargets::Private),
        "caller" => Ok(PushTargets::Caller),
        "any" => Ok(PushTargets::Any),
        _ => Err(format!("expected private, caller or any, got {text:?}")),
    }
}

/// `error` to `trace`, in any case.
pub(super) fn log_level(text: &str) -> Result<tracing::Level, Reason> {
    match text.to_ascii_lowercase().as_str() {
        "error" => Ok(tracing::Level::ERROR),
        "warn" => Ok(tracing::Level::WARN),
        "info" => Ok(tracing::Level::INFO),
        "debug" => Ok(tracing::Level::DEBUG),
        "trace" => Ok(tracing::Level::TRACE),
        _ => Err(format!("expected error, warn, info, debug or trace, got {text:?}")),
    }
}

/// An IP address and a port to listen at.
pub(super) fn socket(text: &str) -> Result<SocketAddr, Reason> {
    text.parse().map_err(|_| {
        format!("expected an IP address and a port, such as 0.0.0.0:8080 or [::]:8080, got {text:?}")
    })
}

/// `off`, `sampled N` or `full`.
pub(super) fn proxy_log(text: &str) -> Result<ProxyLog, Reason> {
    let read = match text.split_once(' ') {
        None if text == "off" => Some(ProxyLog::Off),
        None if text == "full" => Some(ProxyLog::Full),
        Some(("sampled", count)) => count.trim().parse::<NonZeroU32>().ok().map(ProxyLog::Sampled),
        Some(_) | None => None,
    };
    let wrong = || format!("expected off, full, or sampled and a number, such as sampled 100, got {text:?}");
    read.ok_or_else(wrong)
}

/// `text` or `json`.
pub(super) fn log_format(text: &str) -> Result<LogFormat, Reason> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(format!("expected text or json, got {text:?}")),
    }
}

/// `file` or `address-server`, in any case; any other text counts as not given, as in 1.x.
pub(super) fn lookup_type(text: &str) -> Option<LookupType> {
    match text.to_ascii_lowercase().as_str() {
        "file" => Some(LookupType::File),
        "address-server" => Some(LookupType::AddressServer),
        _ => None,
    }
}

/// A host name or IP address, without scheme and port.
pub(super) fn host(text: &str) -> Result<String, Reason> {
    if is_host_name(text) || unbracketed(text).parse::<IpAddr>().is_ok() {
        return own_address(text);
    }
    Err(format!("expected a host name or an IP address, without http:// and port, got {text:?}"))
}

/// Characters of a text that is only shown, at most.
const LONGEST_SHOWN: usize = 256;

/// A text that is only shown.
pub(super) fn short_text(text: &str) -> Result<String, Reason> {
    if text.chars().count() <= LONGEST_SHOWN {
        return Ok(text.to_owned());
    }
    Err(format!("expected at most {LONGEST_SHOWN} characters"))
}

/// The path of a URL, from its first `/` on, with or without a query.
pub(super) fn url_path(text: &str) -> Result<String, Reason> {
    if text.starts_with('/') && text.parse::<http::uri::PathAndQuery>().is_ok() {
        return Ok(text.to_owned());
    }
    Err(format!("expected the path of a URL, such as /nacos/serverlist, got {text:?}"))
}

/// `NAME` or `NAME:PORT`.
pub(super) fn dns_name(text: &str) -> Result<DnsName, Reason> {
    let wrong =
        || format!("expected NAME or NAME:PORT, such as nacre-headless.default.svc:8848, got {text:?}");
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) => (name, Some(number(port, 1..=u16::MAX).map_err(|_| wrong())?)),
        None => (text, None),
    };
    if is_host_name(name) { Ok(DnsName { name: name.to_owned(), port }) } else { Err(wrong()) }
}

/// `ADDRESS>HOST:PORT`, each.
pub(super) fn vias(items: &[String]) -> Result<Vec<Via>, Reason> {
    items.iter().map(|item| via(item)).collect()
}

fn via(text: &str) -> Result<Via, Reason> {
    let wrong = || format!("expected MEMBER>HOST:PORT, such as 10.0.0.2:8848>127.0.0.1:9002, got {text:?}");
    let (member, target) = text.split_once('>').ok_or_else(wrong)?;
    let (member, target) = (member.trim(), target.trim());
    let has_port = |address: &str| {
        let parts = address.rsplit_once(':');
        parts.is_some_and(|(name, port)| host(name).is_ok() && number(port, 1..=u16::MAX).is_ok())
    };
    if !has_port(member) || !has_port(target) {
        return Err(wrong());
    }
    Ok(Via { member: member.to_owned(), target: target.to_owned() })
}

/// The port of a Nacos server where none is said.
const NACOS_PORT: u16 = 8848;

/// `HOST[:PORT]` or a URL of it, each once.
pub(super) fn legacy_servers(items: &[String]) -> Result<Vec<LegacyServer>, Reason> {
    let mut servers = Vec::with_capacity(items.len());
    for item in items {
        let server = legacy_server(item)?;
        if servers.contains(&server) {
            return Err(format!("{item} stands there twice"));
        }
        servers.push(server);
    }
    Ok(servers)
}

fn legacy_server(text: &str) -> Result<LegacyServer, Reason> {
    let wrong = || format!("expected HOST:PORT or http://HOST:PORT, such as 10.0.0.1:8848, got {text:?}");
    if text.starts_with("https://") {
        return Err(format!("this version calls legacy servers without TLS alone, got {text:?}"));
    }
    let plain = text.strip_prefix("http://").unwrap_or(text);
    let plain = plain.strip_suffix('/').unwrap_or(plain);
    let bare_address = plain.parse::<IpAddr>().is_ok();
    let (name, port) = match plain.rsplit_once(':') {
        Some((name, digits)) if !bare_address && !digits.ends_with(']') => {
            (name, number(digits, 1..=u16::MAX).map_err(|_| wrong())?)
        }
        _ => (plain, NACOS_PORT),
    };
    let host = host(name).map_err(|_| wrong())?;
    Ok(LegacyServer { host, port })
}

/// The name of a header.
pub(super) fn header_name(text: &str) -> Result<String, Reason> {
    let wrong = |_| format!("expected the name of a header (letters, digits, -), got {text:?}");
    text.parse().map(|name: http::HeaderName| name.to_string()).map_err(wrong)
}

/// The value of a header that nobody may see.
pub(super) fn header_secret(text: &str) -> Result<Secret, Reason> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Ok(Secret(text.to_owned()));
    }
    Err("expected printable ASCII characters, as a header's value has".to_owned())
}

/// `native` or `legacy`.
pub(super) fn legacy_naming(text: &str) -> Result<LegacyNaming, Reason> {
    match text {
        "native" => Ok(LegacyNaming::Native),
        "legacy" => Ok(LegacyNaming::Legacy),
        _ => Err(format!("expected native or legacy, got {text:?}")),
    }
}

/// `modulo` or `rendezvous`.
pub(super) fn mapping(text: &str) -> Result<Mapping, Reason> {
    match text {
        "modulo" => Ok(Mapping::Modulo),
        "rendezvous" => Ok(Mapping::Rendezvous),
        _ => Err(format!("expected modulo or rendezvous, got {text:?}")),
    }
}

/// No delay to a member of Nacos 1.x is shorter: below it many small batches slow it down.
const LEAST_LEGACY_DELAY: Duration = Duration::from_millis(200);

/// A delay to members of Nacos 1.x in milliseconds, divided by `parts`.
pub(super) fn legacy_delay(text: &str, parts: u32) -> Result<Duration, Reason> {
    Ok((millis(text, 0..=600_000)? / parts).max(LEAST_LEGACY_DELAY))
}

/// Members separated by commas, blanks or both.
pub(super) fn members(text: &str) -> Vec<String> {
    text.split([',', ' ', '\t', '\n', '\r']).filter(|member| !member.is_empty()).map(str::to_owned).collect()
}

/// The items of a comma list, trimmed, without empty ones.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}

fn unbracketed(text: &str) -> &str {
    text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_what_shares_its_prefix() {
        for (network, address, contained) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("10.0.0.0/8", "::a00:1", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.6", false),
            ("192.168.1.77/24", "192.168.1.1", true),
            ("fd00::/8", "fdff::1", true),
            ("fd00::/8", "fe00::1", false),
            ("::/0", "2001:db8::1", true),
            ("::/0", "10.0.0.1", false),
        ] {
            let networks = networks(network).unwrap();
            assert_eq!(networks.len(), 1);
            assert_eq!(networks[0].contains(address.parse().unwrap()), contained, "{network} {address}");
        }
    }

    #[test]
    fn a_size_has_springs_units() {
        for (text, size) in [
            ("512", Ok(512)),
            ("512B", Ok(512)),
            ("2KB", Ok(2048)),
            ("1mb", Ok(1 << 20)),
            ("1GB", Ok(1 << 30)),
            ("99999999999999999999KB", Err(())),
            ("17592186044416GB", Err(())),
            ("KB", Err(())),
            ("1TB", Err(())),
            ("1.5KB", Err(())),
        ] {
            assert_eq!(bytes(text, 1..=usize::MAX).map_err(|_| ()), size, "{text}");
        }
    }

    #[test]
    fn a_pattern_matches_the_whole_text() {
        let pattern = pattern("eth|lo").unwrap();
        assert!(pattern.matches_whole("eth") && pattern.matches_whole("lo"));
        assert!(!pattern.matches_whole("eth0") && !pattern.matches_whole("xlo"));
    }

    #[test]
    fn a_huge_pattern_is_refused() {
        assert!(pattern("((a{1000}){1000}){1000}").is_err());
    }
}
