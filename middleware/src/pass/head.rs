//! The head of a request as it goes over a connection, and a copy of it for another one.
//!
//! Pure.

use http::{
    HeaderMap, HeaderValue, Method, Request, Uri, Version, header,
    uri::{Authority, PathAndQuery, Scheme as UriScheme},
};
use http_body::Body;

use super::body::Sending;

/// What is needed to send a head again.
pub(super) struct Copy {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
}

impl Copy {
    pub fn of(head: &http::request::Parts) -> Self {
        Self { method: head.method.clone(), uri: head.uri.clone(), headers: head.headers.clone() }
    }

    pub fn into_request<B>(self, body: B) -> Request<B> {
        let mut request = Request::new(body);
        *request.method_mut() = self.method;
        *request.uri_mut() = self.uri;
        *request.headers_mut() = self.headers;
        request
    }
}

type Head = http::request::Parts;

/// Path and query, and a `Host`; a body without a length goes in chunks whatever the method.
pub(super) fn for_http1<B: Body>(mut head: Head, body: &Sending<B>) -> Result<Head, Box<Head>> {
    head.version = Version::HTTP_11;
    if let Some(authority) = head.uri.authority() {
        let host = HeaderValue::from_str(authority.as_str());
        let Ok(host) = host else { return Err(Box::new(head)) };
        head.headers.insert(header::HOST, host);
        head.uri = head.uri.path_and_query().cloned().map(Uri::from).unwrap_or_default();
    }
    head.headers.remove(header::TRANSFER_ENCODING);
    join_cookies(&mut head.headers);
    if let Some(length) = body.length() {
        let announced = head.headers.get(header::CONTENT_LENGTH).map(|length| length.to_str());
        let is_right = match announced {
            None => length == 0,
            Some(announced) => announced.is_ok_and(|announced| is_plain(announced, length)),
        };
        if !is_right {
            head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        }
        return Ok(head);
    }
    head.headers.remove(header::CONTENT_LENGTH);
    // hyper sends no body with a GET unless it is told to.
    head.headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    Ok(head)
}

/// One line for all cookies, which clients of HTTP/2 may send apart. Source: RFC 9113, 8.2.3.
fn join_cookies(headers: &mut HeaderMap) {
    let mut lines = headers.get_all(header::COOKIE).iter();
    let (Some(first), Some(second)) = (lines.next(), lines.next()) else { return };
    let mut joined = first.as_bytes().to_vec();
    for line in std::iter::once(second).chain(lines) {
        joined.extend_from_slice(b"; ");
        joined.extend_from_slice(line.as_bytes());
    }
    if let Ok(joined) = HeaderValue::from_bytes(&joined) {
        headers.insert(header::COOKIE, joined);
    }
}

/// Whether this is how everybody writes that number.
fn is_plain(text: &str, number: u64) -> bool {
    text.parse() == Ok(number) && (text.len() == 1 || !text.starts_with(['0', '+']))
}

/// A whole URI, and no fields of HTTP/1.1.
pub(super) fn for_http2(mut head: Head, scheme: &'static str) -> Result<Head, Box<Head>> {
    head.version = Version::HTTP_2;
    head.headers.remove(header::TRANSFER_ENCODING);
    head.headers.remove(header::CONNECTION);
    head.headers.remove(header::UPGRADE);
    let host = head.headers.remove(header::HOST);
    let of_host = || Authority::try_from(host.as_ref()?.as_bytes()).ok();
    let Some(authority) = head.uri.authority().cloned().or_else(of_host) else { return Err(Box::new(head)) };
    let target = head.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    let scheme = if scheme == "https" { UriScheme::HTTPS } else { UriScheme::HTTP };
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(scheme);
    parts.authority = Some(authority);
    parts.path_and_query = Some(target);
    match Uri::from_parts(parts) {
        Ok(uri) => {
            head.uri = uri;
            Ok(head)
        }
        Err(_) => Err(Box::new(head)),
    }
}
