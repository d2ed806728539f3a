//! What of a head goes on to the next server, and back: the one place that says which fields belong to a connection.
//!
//! Pure. Fields of the connection end here, and so does whatever `Connection` names; who forwards writes its own. Who
//! called is told in `X-Forwarded-*`: of a caller that is trusted the former chain goes on, of anybody else it is
//! replaced. A counter of hops finds circles.
//! Source: RFC 9110, 7.6.1; RFC 9113, 8.2.2.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts};

use crate::loop_guard::HOPS;

/// Who has called before whom.
pub static FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// By which protocol the first of them was called.
pub static FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// As which host.
pub static FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

const TRAILERS: HeaderValue = HeaderValue::from_static("trailers");

/// Whether a field belongs to the connection that it came over, whatever else is said.
#[must_use]
pub fn is_of_connection(name: &HeaderName) -> bool {
    matches!(
        *name,
        header::CONNECTION
            | header::TRANSFER_ENCODING
            | header::TE
            | header::TRAILER
            | header::UPGRADE
            | header::PROXY_AUTHENTICATE
            | header::PROXY_AUTHORIZATION
    ) || matches!(
        name.as_str(),
        "keep-alive" | "proxy-connection" | "http2-settings" | "proxy-authentication-info"
    )
}

/// The fields that the `Connection` fields name, `close` and `keep-alive` among them.
pub fn named_by_connection(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|names| names.to_str().ok())
        .flat_map(|names| names.split(','))
        .map(str::trim)
        .filter(|name| !name.is_empty())
}

/// What may not be taken away by naming it in `Connection`: without it a request would mean another one.
fn is_kept(name: &str) -> bool {
    ["host", "content-length", "content-type", "content-encoding"]
        .iter()
        .any(|kept| name.eq_ignore_ascii_case(kept))
        || name.as_bytes().first() == Some(&b':')
}

/// What the head of a request asked of its connection, which the answer must fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The protocol that it wants to change to: the value of `Upgrade` where `Connection` names it.
    pub upgrade: Option<HeaderValue>,
    /// It takes trailers.
    pub trailers: bool,
    /// It is a `HEAD`, whose answer has a length and no body.
    pub head: bool,
}

/// Takes off a request's head what belongs to its connection; says what was asked of it.
///
/// `Expect` goes too: a server says 100 when its application reads the body, and that is when the next one has taken
/// the head. Lengths stay; whoever writes the request on frames it by its body.
pub fn clean_request(head: &mut Parts) -> Asked {
    let mut asked = Asked { head: head.method == Method::HEAD, ..Asked::default() };
    if !head.headers.keys().any(|name| is_of_connection(name) || *name == header::EXPECT) {
        return asked;
    }
    let te = head.headers.get_all(header::TE);
    asked.trailers =
        te.iter().filter_map(|te| te.to_str().ok()).flat_map(|te| te.split(',')).any(is_trailers);
    if named_by_connection(&head.headers).any(|name| name.eq_ignore_ascii_case("upgrade")) {
        asked.upgrade = head.headers.get(header::UPGRADE).filter(|protocols| may_pass(protocols)).cloned();
    }
    head.headers.remove(header::EXPECT);
    remove_of_connection(&mut head.headers);
    asked
}

/// Whether a change to one of these protocols may be asked of the next server: what is another form of HTTP, or brings TLS, would let
/// requests pass unseen.
fn may_pass(protocols: &HeaderValue) -> bool {
    let is_http = |protocol: &str| {
        let name = protocol.split('/').next().unwrap_or_default().trim().to_ascii_lowercase();
        matches!(&*name, "h2c" | "h2" | "h3" | "http" | "tls")
    };
    protocols.to_str().is_ok_and(|protocols| !protocols.split(',').any(is_http))
}

fn is_trailers(coding: &str) -> bool {
    let name = coding.split(';').next().unwrap_or_default();
    name.trim().eq_ignore_ascii_case("trailers")
}

/// Takes off an answer's head what belongs to its connection, and lengths that its body doesn't have.
///
/// `length`: how many bytes the body has, if that is known. `101` keeps what it is about, where it was asked for.
pub fn clean_answer(status: StatusCode, headers: &mut HeaderMap, asked: &Asked, length: Option<u64>) {
    let upgrade = match status {
        StatusCode::SWITCHING_PROTOCOLS => headers.get(header::UPGRADE).cloned(),
        _ => None,
    };
    let trailer = if asked.trailers { headers.get(header::TRAILER).cloned() } else { None };
    if headers.keys().any(is_of_connection) {
        remove_of_connection(headers);
    }
    if let Some(upgrade) = upgrade {
        headers.insert(header::UPGRADE, upgrade);
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    }
    if let Some(trailer) = trailer {
        headers.insert(header::TRAILER, trailer);
    }
    let describes_another = asked.head || status == StatusCode::NOT_MODIFIED;
    if !describes_another && let Some(announced) = headers.get(header::CONTENT_LENGTH) {
        let is_right = length.is_some_and(|length| {
            announced.to_str().is_ok_and(|announced| announced.parse() == Ok(length))
                && headers.get_all(header::CONTENT_LENGTH).iter().count() == 1
        });
        if !is_right {
            headers.remove(header::CONTENT_LENGTH);
        }
    }
}

/// Takes off what belongs to the connection: by its nature, or because `Connection` names it.
pub fn remove_of_connection(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = named_by_connection(headers)
        .filter(|name| !is_kept(name))
        .filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok())
        .filter(|name| headers.contains_key(name))
        .collect();
    for name in named {
        headers.remove(name);
    }
    while let Some(name) = headers.keys().find(|name| is_of_connection(name)).cloned() {
        headers.remove(name);
    }
}

/// Asks for trailers, where the next server can send them and the client takes them.
pub fn ask_for_trailers(headers: &mut HeaderMap, asked: &Asked) {
    if asked.trailers {
        headers.insert(header::TE, TRAILERS);
    }
}

/// Asks the next server for the protocol that the client asked for.
pub fn ask_for_upgrade(headers: &mut HeaderMap, asked: &Asked) {
    if let Some(protocol) = &asked.upgrade {
        headers.insert(header::UPGRADE, protocol.clone());
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    }
}

/// Whom a request comes from.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// Who opened the connection.
    pub address: IpAddr,
    /// `http` or `https`, as it called here.
    pub scheme: &'static str,
    /// The host that it called, if it said.
    pub host: Option<&'a HeaderValue>,
    /// What it says about those before it is believed, and goes on.
    pub trusted: bool,
}

/// Says for whom a request is passed on.
///
/// - `X-Forwarded-For`: the former chain of a trusted caller, and the caller behind it.
/// - `X-Forwarded-Proto`, `X-Forwarded-Host`: those of a trusted caller, or how this server was called.
/// - `Forwarded`: goes on of a trusted caller, with this hop behind it; of others it is taken away.
pub fn sign(headers: &mut HeaderMap, caller: Caller<'_>) {
    let address = caller.address.to_canonical();
    let before = headers.get_all(&FORWARDED_FOR);
    if let Some(chain) = chain_of(before.iter().filter(|_| caller.trusted), address) {
        headers.insert(FORWARDED_FOR.clone(), chain);
    }
    if !(caller.trusted && headers.contains_key(&FORWARDED_PROTO)) {
        headers.insert(FORWARDED_PROTO.clone(), HeaderValue::from_static(caller.scheme));
    }
    if !(caller.trusted && headers.contains_key(&FORWARDED_HOST)) {
        match caller.host {
            Some(host) => _ = headers.insert(FORWARDED_HOST.clone(), host.clone()),
            None => _ = headers.remove(&FORWARDED_HOST),
        }
    }
    if headers.contains_key(header::FORWARDED) {
        let chain = headers.get_all(header::FORWARDED).iter().filter(|_| caller.trusted);
        match forwarded(chain, address, caller.scheme) {
            Some(chain) if caller.trusted => _ = headers.insert(header::FORWARDED, chain),
            _ => _ = headers.remove(header::FORWARDED),
        }
    }
}

/// Who is known to have called before, and who called here.
pub fn chain_of<'a>(before: impl Iterator<Item = &'a HeaderValue>, caller: IpAddr) -> Option<HeaderValue> {
    use std::io::Write as _;
    let mut text = Vec::with_capacity(40);
    for value in before {
        text.extend_from_slice(value.as_bytes());
        text.extend_from_slice(b", ");
    }
    let _ = write!(text, "{caller}");
    HeaderValue::from_maybe_shared(bytes::Bytes::from(text)).ok()
}

fn forwarded<'a>(
    before: impl Iterator<Item = &'a HeaderValue>,
    caller: IpAddr,
    scheme: &str,
) -> Option<HeaderValue> {
    use std::io::Write as _;
    let mut text = Vec::with_capacity(60);
    for value in before {
        text.extend_from_slice(value.as_bytes());
        text.extend_from_slice(b", ");
    }
    let _ = match caller {
        IpAddr::V4(caller) => write!(text, "for={caller};proto={scheme}"),
        IpAddr::V6(caller) => write!(text, "for=\"[{caller}]\";proto={scheme}"),
    };
    HeaderValue::from_maybe_shared(bytes::Bytes::from(text)).ok()
}

/// A request has passed as many Nacre nodes as it may: they pass it on in a circle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Circle;

/// Counts this hop in a request's head.
///
/// # Errors
/// [`Circle`] where it is one more than `most`, or the count can't be read.
pub fn count_hop(headers: &mut HeaderMap, most: u8) -> Result<(), Circle> {
    let passed = match headers.get(&HOPS) {
        None => 0,
        Some(text) => text.to_str().ok().and_then(|text| text.parse().ok()).unwrap_or(u8::MAX),
    };
    if passed >= most {
        return Err(Circle);
    }
    let count = match passed {
        0 => HeaderValue::from_static("1"),
        _ => HeaderValue::from(u16::from(passed) + 1),
    };
    headers.insert(HOPS.clone(), count);
    Ok(())
}

#[cfg(test)]
#[path = "hygiene_tests.rs"]
mod tests;
