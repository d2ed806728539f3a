//! What is sent to the owner of a service in the place of its client's request, and what of the answer goes back.
//!
//! Pure. To a 1.x member: every parameter in the query, as Java encodes forms, since such an owner reads no form of a
//! POST; to a Nacre member: the request as it came, form and all. What belongs to the client's connection stays here:
//! hop-by-hop headers, `Host`, lengths, cookies, CORS; tokens pass, since the owner checks them as well.
//! Source: Nacos 1.4.8 naming module, distro filter and its HTTP client; compat file `forward`.

use std::{
    fmt::Write as _,
    sync::{Arc, atomic::AtomicU64},
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri,
    header::{self, Entry},
    request::Parts,
    uri::PathAndQuery,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use crate::{
    Call, V1Body, V1Response, carries_form,
    distro_filter::Target,
    hygiene::{self, FORWARDED_FOR, chain_of},
    lateness::Sent,
    loop_guard::{AGENT, HOPS, PEER, SENT, SOURCE},
    refusal::STATE,
};

static CLIENT_VERSION: HeaderName = HeaderName::from_static("client-version");

/// Bytes that the request line to a 1.x member may have: its server takes heads of 512 KiB.
pub const MOST_LINE_BYTES: usize = 500 << 10;
/// Bytes of a target that an `http::Uri` can hold.
const MOST_URI_BYTES: usize = 65_534;

/// A request to a member.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// `host:port` of the member.
    pub to: Arc<str>,
    /// Without `Host` and the length of a body, which the client writes. Its URI is a path and a query.
    pub request: Request<Bytes>,
    /// The path and the query where they are too long for a URI, which then holds the path alone; up to
    /// [`MOST_LINE_BYTES`].
    pub long_target: Option<Box<str>>,
}

/// What a node says of itself to members.
#[derive(Clone, Debug)]
pub struct Own {
    /// `host:port` as members have it on their lists.
    pub address: HeaderValue,
    /// A number that no other process has, shared by all that tell members when they were sent; another one after the clock
    /// of this process stood still.
    pub process: Arc<AtomicU64>,
    /// What every call to a member carries: its agent, its version, the number of its protocol, the proof of it.
    pub headers: HeaderMap,
}

/// Reads parameters as the endpoints do.
pub trait Parameters<F> {
    /// Calls `each` with the name and the value of each parameter, query first; a name may come several times.
    fn parameters(&self, call: &Call<F>, each: &mut dyn FnMut(&str, &str));
}

/// The request line would be too long for a 1.x member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// The request of a client as it goes to a Nacre member.
///
/// - `hops`: how many Nacre nodes have passed it on then, this one included.
/// - `sent`: now, and how long nobody else does what it asks for.
/// - `believes_chain`: whoever connected here is believed what it says about those before it.
#[must_use]
pub fn to_nacre<F>(
    call: &Call<F>,
    target: &Target,
    own: &Own,
    hops: u8,
    sent: Sent,
    believes_chain: bool,
) -> Outgoing {
    let mut headers = copied(&call.head, &[]);
    // An owner treats clients by these two as if they had called it.
    if let Some(agent) = headers.remove(header::USER_AGENT) {
        headers.insert(AGENT.clone(), agent);
    }
    let version = headers.remove(&CLIENT_VERSION);
    headers.insert(HOPS.clone(), HeaderValue::from(u16::from(hops)));
    if let Ok(sent) = HeaderValue::try_from(sent.to_string()) {
        headers.insert(SENT.clone(), sent);
    }
    sign(&mut headers, call, own, believes_chain);
    match version {
        Some(version) => _ = headers.insert(CLIENT_VERSION.clone(), version),
        None => _ = headers.remove(&CLIENT_VERSION),
    }
    let target_uri = call.head.uri.path_and_query().cloned().map(Uri::from).unwrap_or_default();
    request(call, target, target_uri, None, headers, call.body.clone())
}

/// The request of a client as it goes to a 1.x member.
///
/// # Errors
/// [`TooLong`] where its parameters don't fit into a request line.
pub fn to_legacy<F>(
    call: &Call<F>,
    parameters: &impl Parameters<F>,
    target: &Target,
    own: &Own,
    believes_chain: bool,
) -> Result<Outgoing, TooLong> {
    let path = call.head.uri.path();
    let text = legacy_target(path, |each| parameters.parameters(call, each));
    if call.head.method.as_str().len() + text.len() + " ".len() + " HTTP/1.1\r\n".len() > MOST_LINE_BYTES {
        return Err(TooLong);
    }
    let replaced = [
        &header::CONTENT_TYPE,
        &header::ACCEPT_CHARSET,
        &header::USER_AGENT,
        &CLIENT_VERSION,
        &AGENT,
        &HOPS,
        &SENT,
        &PEER,
    ];
    let mut headers = copied(&call.head, &replaced);
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/x-www-form-urlencoded;charset=UTF-8"),
    );
    headers.insert(header::ACCEPT_CHARSET, HeaderValue::from_static("UTF-8"));
    sign(&mut headers, call, own, believes_chain);
    let body = if carries_form(&call.head) { Bytes::new() } else { call.body.clone() };
    if body.is_empty() && call.head.method != Method::DELETE {
        // As the reference does; clients leave it out.
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    let is_long = text.len() > MOST_URI_BYTES;
    let uri = if is_long { path } else { &text };
    // Both were part of a URI, or are encoded.
    let uri = PathAndQuery::try_from(uri).map(Uri::from).map_err(|_| TooLong)?;
    Ok(request(call, target, uri, is_long.then(|| text.into()), headers, body))
}

fn request<F>(
    call: &Call<F>,
    target: &Target,
    uri: Uri,
    long_target: Option<Box<str>>,
    headers: HeaderMap,
    body: Bytes,
) -> Outgoing {
    let mut request = Request::new(body);
    *request.method_mut() = call.head.method.clone();
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    Outgoing { to: Arc::clone(&target.address), request, long_target }
}

/// What Java's `URLEncoder` leaves as it is; a blank becomes `+`.
const FORM: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'-').remove(b'*').remove(b'_').remove(b' ');

/// Path and query with each parameter once, the first of its name, and what the reference puts behind them.
fn legacy_target(path: &str, each: impl FnOnce(&mut dyn FnMut(&str, &str))) -> String {
    let mut text = String::with_capacity(path.len() + 256);
    text.push_str(path);
    text.push('?');
    let mut names: Vec<Box<str>> = Vec::with_capacity(16);
    each(&mut |name, value| {
        if !names.iter().any(|known| **known == *name) {
            push_encoded(&mut text, name);
            text.push('=');
            push_encoded(&mut text, value);
            text.push('&');
            names.push(name.into());
        }
    });
    text.push_str("encoding=UTF-8&nofix=1");
    text
}

fn push_encoded(out: &mut String, text: &str) {
    let mut parts = text.split(' ');
    if let Some(first) = parts.next() {
        let _ = write!(out, "{}", percent_encode(first.as_bytes(), FORM));
    }
    for part in parts {
        let _ = write!(out, "+{}", percent_encode(part.as_bytes(), FORM));
    }
}

/// Headers that end here: of the connection, of the browser's rules, and those that are written anew.
fn stays(name: &HeaderName) -> bool {
    hygiene::is_of_connection(name)
        || [
            header::HOST,
            header::CONTENT_LENGTH,
            header::EXPECT,
            header::COOKIE,
            header::ORIGIN,
            header::ACCESS_CONTROL_REQUEST_METHOD,
            header::ACCESS_CONTROL_REQUEST_HEADERS,
        ]
        .contains(name)
        || [&SOURCE, &FORWARDED_FOR, &STATE].contains(&name)
}

/// The client's headers that go on.
fn copied(head: &Parts, replaced: &[&HeaderName]) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(head.headers.len() + 8);
    let of_connection: Vec<&str> = hygiene::named_by_connection(&head.headers).collect();
    for (name, value) in &head.headers {
        let named = of_connection.iter().any(|other| other.eq_ignore_ascii_case(name.as_str()));
        if !named && !stays(name) && !replaced.contains(&name) {
            headers.append(name.clone(), value.clone());
        }
    }
    headers
}

/// Says who passes it on, and for whom.
fn sign<F>(headers: &mut HeaderMap, call: &Call<F>, own: &Own, believes_chain: bool) {
    for (name, value) in &own.headers {
        headers.insert(name.clone(), value.clone());
    }
    headers.insert(SOURCE.clone(), own.address.clone());
    let chain = call.head.headers.get_all(&FORWARDED_FOR);
    let chain = chain.iter().filter(|_| believes_chain);
    if let Some(value) = chain_of(chain, call.peer.ip().to_canonical()) {
        headers.insert(FORWARDED_FOR.clone(), value);
    }
}

/// The text in the answer of a member that found the request not to be its own.
const REDIRECT: &[u8] = b"receive invalid redirect request from peer";

/// Whether a member refused a request since it isn't the owner as it sees things.
pub(crate) fn is_redirect(answer: &Response<Bytes>) -> bool {
    answer.status() == http::StatusCode::BAD_REQUEST
        && answer.body().windows(REDIRECT.len()).any(|part| part == REDIRECT)
}

/// Status, media type and body of a member's answer, as if it had been given here.
pub(crate) fn relayed(answer: Response<Bytes>) -> V1Response {
    let (mut head, body) = answer.into_parts();
    let is_sized = head.headers.contains_key(header::CONTENT_LENGTH);
    let mut response = Response::new(if is_sized { V1Body::sized(body) } else { V1Body::chunked(body) });
    *response.status_mut() = head.status;
    for name in [header::CONTENT_TYPE, header::CONTENT_ENCODING, header::RETRY_AFTER, STATE.clone()] {
        if let Entry::Occupied(value) = head.headers.entry(&name) {
            let (name, value) = value.remove_entry();
            response.headers_mut().insert(name, value);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn call(method: &str, target: &str, headers: &[(&str, &str)], body: &'static str) -> Call<()> {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, body) = request.body(Bytes::from_static(body.as_bytes())).unwrap().into_parts();
        Call { head, body, peer: SocketAddr::from(([198, 51, 100, 7], 1)), facts: () }
    }

    fn target() -> Target {
        Target { address: "10.0.0.2:8848".into(), is_nacre: false, all_nacre: false }
    }

    fn own() -> Own {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("identity", "proof"),
            ("user-agent", "Nacos-Server:v1.4.8"),
            ("client-version", "1.4.8"),
            ("x-nacre-peer", "1"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        Own {
            address: HeaderValue::from_static("10.0.0.1:8848"),
            process: Arc::new(AtomicU64::new(10)),
            headers,
        }
    }

    /// Gives these parameters.
    struct Given(&'static [(&'static str, &'static str)]);

    impl Parameters<()> for Given {
        fn parameters(&self, _: &Call<()>, each: &mut dyn FnMut(&str, &str)) {
            self.0.iter().for_each(|(name, value)| each(name, value));
        }
    }

    fn shown(headers: &HeaderMap) -> Vec<(&str, &str)> {
        let mut shown: Vec<_> =
            headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        shown.sort_unstable();
        shown
    }

    const OF_CLIENT: [(&str, &str); 18] = [
        ("host", "127.0.0.1:8848"),
        ("content-length", "4"),
        ("content-type", "application/x-www-form-urlencoded"),
        ("connection", "keep-alive, X-Mine"),
        ("keep-alive", "timeout=5"),
        ("te", "trailers"),
        ("x-mine", "of the connection"),
        ("cookie", "c=1"),
        ("origin", "http://a.example"),
        ("accept", "text/html"),
        ("accesstoken", "tok1"),
        ("authorization", "Bearer tok2"),
        ("user-agent", "Nacos-Java-Client:v1.4.8"),
        ("client-version", "Nacos-Java-Client:v1.4.8"),
        ("request-source", "forged"),
        ("x-forwarded-for", "forged"),
        ("x-custom", "abc"),
        ("identity", "forged"),
    ];

    #[test]
    fn to_1x_a_form_moves_to_the_query_and_the_head_is_a_servers() {
        let call = call("POST", "/nacos/v1/ns/instance?a=1", &OF_CLIENT, "b=x+y");
        let parameters = Given(&[("a", "1"), ("b", "x y"), ("a", "2"), ("中", "ü&=+%~*._-\"")]);
        let sent = to_legacy(&call, &parameters, &target(), &own(), false).unwrap();
        assert_eq!(&*sent.to, "10.0.0.2:8848");
        assert_eq!(sent.request.method(), "POST");
        assert_eq!(
            sent.request.uri(),
            "/nacos/v1/ns/instance?a=1&b=x+y&%E4%B8%AD=%C3%BC%26%3D%2B%25%7E*._-%22&encoding=UTF-8&nofix=1"
        );
        assert_eq!((sent.request.body().len(), sent.long_target), (0, None));
        assert_eq!(
            shown(sent.request.headers()),
            [
                ("accept", "text/html"),
                ("accept-charset", "UTF-8"),
                ("accesstoken", "tok1"),
                ("authorization", "Bearer tok2"),
                ("client-version", "1.4.8"),
                ("content-length", "0"),
                ("content-type", "application/x-www-form-urlencoded;charset=UTF-8"),
                ("identity", "proof"),
                ("request-source", "10.0.0.1:8848"),
                ("user-agent", "Nacos-Server:v1.4.8"),
                ("x-custom", "abc"),
                ("x-forwarded-for", "198.51.100.7"),
                ("x-nacre-peer", "1"),
            ]
        );
    }

    #[test]
    fn to_1x_another_body_goes_as_it_is() {
        let call = call("PUT", "/nacos/v1/ns/health", &[("content-type", "application/json")], "{}");
        let sent = to_legacy(&call, &Given(&[]), &target(), &own(), false).unwrap();
        assert_eq!(sent.request.uri(), "/nacos/v1/ns/health?encoding=UTF-8&nofix=1");
        assert_eq!(sent.request.body(), "{}");
    }

    #[test]
    fn to_nacre_a_request_goes_as_it_came_with_its_hops() {
        let call = call("POST", "/nacos/v1/ns/instance?a=x%20y&a=%zz", &OF_CLIENT, "b=x+y");
        let stamp = Sent { process: 10, at_ms: 5, patience_ms: 25 };
        let sent = to_nacre(&call, &target(), &own(), 2, stamp, false);
        assert_eq!(sent.request.uri(), "/nacos/v1/ns/instance?a=x%20y&a=%zz");
        assert_eq!(sent.request.body(), "b=x+y");
        assert_eq!(
            shown(sent.request.headers()),
            [
                ("accept", "text/html"),
                ("accesstoken", "tok1"),
                ("authorization", "Bearer tok2"),
                ("client-version", "Nacos-Java-Client:v1.4.8"),
                ("content-type", "application/x-www-form-urlencoded"),
                ("identity", "proof"),
                ("request-source", "10.0.0.1:8848"),
                ("user-agent", "Nacos-Server:v1.4.8"),
                ("x-custom", "abc"),
                ("x-forwarded-for", "198.51.100.7"),
                ("x-nacre-agent", "Nacos-Java-Client:v1.4.8"),
                ("x-nacre-hops", "2"),
                ("x-nacre-peer", "1"),
                ("x-nacre-sent", "a.5.25"),
            ]
        );
    }

    #[test]
    fn to_nacre_a_client_that_does_not_say_what_it_is_stays_one() {
        let stamp = Sent { process: 10, at_ms: 5, patience_ms: 25 };
        let sent = to_nacre(&call("PUT", "/", &[], ""), &target(), &own(), 1, stamp, false);
        let headers = sent.request.headers();
        assert_eq!(headers["user-agent"], "Nacos-Server:v1.4.8");
        assert!(!headers.contains_key("client-version") && !headers.contains_key("x-nacre-agent"));
    }

    #[test]
    fn the_caller_follows_those_that_a_trusted_one_names() {
        let call = call(
            "PUT",
            "/",
            &[("x-forwarded-for", "192.0.2.1, 192.0.2.2"), ("x-forwarded-for", "10.1.1.1")],
            "",
        );
        let stamp = Sent { process: 1, at_ms: 1, patience_ms: 1 };
        for (believes, value) in
            [(true, "192.0.2.1, 192.0.2.2, 10.1.1.1, 198.51.100.7"), (false, "198.51.100.7")]
        {
            let sent = to_nacre(&call, &target(), &own(), 1, stamp, believes);
            assert_eq!(sent.request.headers()["x-forwarded-for"], value);
            assert_eq!(sent.request.headers().get_all("x-forwarded-for").iter().count(), 1);
        }
    }

    #[test]
    fn a_line_that_a_uri_cannot_hold_is_kept_beside_it_up_to_the_limit() {
        struct Long(usize);
        impl Parameters<()> for Long {
            fn parameters(&self, _: &Call<()>, each: &mut dyn FnMut(&str, &str)) {
                each("m", &"x".repeat(self.0));
            }
        }
        let call = call("PUT", "/i", &[], "");
        let line = |value| {
            let sent = to_legacy(&call, &Long(value), &target(), &own(), false).ok()?;
            let text = sent.long_target.map_or_else(|| sent.request.uri().to_string(), String::from);
            Some("PUT ".len() + text.len() + " HTTP/1.1\r\n".len())
        };
        let around = "PUT /i?m=&encoding=UTF-8&nofix=1 HTTP/1.1\r\n".len();
        for value in [0, 65_000, 65_534, 70_000, MOST_LINE_BYTES - around] {
            assert_eq!(line(value), Some(around + value));
        }
        assert_eq!(line(MOST_LINE_BYTES - around + 1), None);
        let sent = to_legacy(&call, &Long(70_000), &target(), &own(), false).unwrap();
        assert_eq!(sent.request.uri(), "/i");
    }

    #[test]
    fn of_an_answer_status_media_type_and_body_go_back() {
        let answer = |length: Option<&str>| {
            let mut answer = Response::builder().status(404).header("content-type", "application/json");
            for (name, value) in
                [("vary", "Origin"), ("date", "today"), ("connection", "close"), ("set-cookie", "a")]
            {
                answer = answer.header(name, value);
            }
            if let Some(length) = length {
                answer = answer.header("content-length", length);
            }
            relayed(answer.body(Bytes::from_static(b"{}")).unwrap())
        };
        for (length, exact) in [(Some("2"), Some(2)), (None, None)] {
            let response = answer(length);
            assert_eq!((response.status().as_u16(), &response.body().bytes()[..]), (404, &b"{}"[..]));
            assert_eq!(http_body::Body::size_hint(response.body()).exact(), exact);
            assert_eq!(shown(response.headers()), [("content-type", "application/json")]);
        }
    }
}
