//! One framing only: refuses a head that two servers could read as two different requests.
//!
//! Pure; looks at a head as hyper has read it. hyper itself refuses (with 400, closing): lengths that differ, have a
//! sign, a blank or a comma, or are empty; `Transfer-Encoding` in HTTP/1.0 or without `chunked` at its end; folded lines,
//! blanks before a colon, names that are no tokens, bare CR and NUL. It reads bare LF as an end of line, takes equal lengths for
//! one, and drops a length beside `chunked`. What is left of these can be read in one way only, and the head that goes on
//! is written anew; what is still ambiguous is refused here. compat: spec of HTTP/1.1, RFC 9112, 6.1 to 6.3, 3.2.

use http::{HeaderMap, Method, Uri, Version, header};

/// Why a head is refused; all of it is answered 400, and the connection closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ambiguous {
    /// More than one `Content-Length`, or one that isn't a plain number.
    #[error("the length of the body is ambiguous")]
    Length,
    /// A coding other than one `chunked`, or one together with a length, or in HTTP/1.0.
    #[error("the transfer coding of the body is ambiguous")]
    Coding,
    /// No host, several, an empty one, one that isn't an authority, or another one than in the target.
    #[error("the host is ambiguous")]
    Host,
    /// A target that is no path: empty, of another scheme, or an authority alone.
    #[error("the target of the request is not a path")]
    Target,
    /// `CONNECT`, which is for proxies that anybody may use.
    #[error("tunnels are not served")]
    Connect,
}

/// Looks at a request's head before it is passed on.
///
/// # Errors
/// See [`Ambiguous`].
pub fn check(method: &Method, uri: &Uri, version: Version, headers: &HeaderMap) -> Result<(), Ambiguous> {
    if *method == Method::CONNECT {
        return Err(Ambiguous::Connect);
    }
    check_body(version, headers)?;
    check_target(method, uri)?;
    check_host(uri, version, headers)
}

fn check_body(version: Version, headers: &HeaderMap) -> Result<(), Ambiguous> {
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    let length = lengths.next();
    if let Some(length) = length {
        let digits = length.as_bytes();
        // 19 digits fit into 64 bits whatever they are.
        let is_number = !digits.is_empty() && digits.len() <= 19 && digits.iter().all(u8::is_ascii_digit);
        if !is_number || lengths.next().is_some() {
            return Err(Ambiguous::Length);
        }
    }
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next() {
        let is_chunked = coding.as_bytes().eq_ignore_ascii_case(b"chunked");
        // HTTP/2 has frames of its own, and no such field.
        if !is_chunked || codings.next().is_some() || length.is_some() || version != Version::HTTP_11 {
            return Err(Ambiguous::Coding);
        }
    }
    Ok(())
}

fn check_target(method: &Method, uri: &Uri) -> Result<(), Ambiguous> {
    let is_web = uri.scheme_str().is_none_or(|scheme| scheme == "http" || scheme == "https");
    // An authority without a scheme is what CONNECT asks for.
    let is_authority = uri.scheme().is_none() && uri.authority().is_some();
    let path = uri.path_and_query().map_or("", |target| target.as_str());
    let is_path = path.starts_with('/') || path == "*" && *method == Method::OPTIONS;
    if is_web && !is_authority && is_path { Ok(()) } else { Err(Ambiguous::Target) }
}

fn check_host(uri: &Uri, version: Version, headers: &HeaderMap) -> Result<(), Ambiguous> {
    let authority = uri.authority().map(http::uri::Authority::as_str);
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(Ambiguous::Host);
    }
    let is_needed = version == Version::HTTP_11 || version == Version::HTTP_2 && authority.is_none();
    let is_right = match (host, authority) {
        (None, None) => !is_needed,
        (None, Some(authority)) => version != Version::HTTP_11 && is_authority(authority.as_bytes()),
        (Some(host), None) => is_authority(host.as_bytes()),
        (Some(host), Some(authority)) => {
            is_authority(host.as_bytes()) && host.as_bytes().eq_ignore_ascii_case(authority.as_bytes())
        }
    };
    if is_right { Ok(()) } else { Err(Ambiguous::Host) }
}

/// A name or an address, and a port; without user and password, which nobody reads alike.
fn is_authority(text: &[u8]) -> bool {
    let (host, port) = match text.strip_prefix(b"[") {
        Some(rest) => {
            let Some(end) = rest.iter().position(|byte| *byte == b']') else { return false };
            let (address, port) = rest.split_at(end);
            let is_address = std::str::from_utf8(address)
                .is_ok_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok());
            if !is_address {
                return false;
            }
            (&b"v6"[..], &port[1..])
        }
        None => match text.iter().position(|byte| *byte == b':') {
            Some(colon) => text.split_at(colon),
            None => (text, &b""[..]),
        },
    };
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(byte);
    let is_port = match port.strip_prefix(b":") {
        Some(digits) => digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit),
        None => port.is_empty(),
    };
    !host.is_empty() && host.iter().all(is_name) && is_port
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn checked(method: &str, uri: &str, version: Version, fields: &[(&str, &str)]) -> Result<(), Ambiguous> {
        let request = Request::builder().method(method).uri(uri).version(version);
        let request = fields.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let (head, ()) = request.body(()).unwrap().into_parts();
        check(&head.method, &head.uri, head.version, &head.headers)
    }

    fn body(fields: &[(&str, &str)]) -> Result<(), Ambiguous> {
        let fields: Vec<_> = [("host", "a")].iter().chain(fields).copied().collect();
        checked("POST", "/a", Version::HTTP_11, &fields)
    }

    #[test]
    fn a_body_has_one_length_or_one_coding() {
        use Ambiguous::{Coding, Length};
        assert_eq!(body(&[]), Ok(()));
        assert_eq!(body(&[("content-length", "9223372036854775807")]), Ok(()));
        assert_eq!(body(&[("transfer-encoding", "Chunked")]), Ok(()));
        for lengths in [
            &["3", "3"][..],
            &["3", "4"],
            &["+3"],
            &["-3"],
            &["3, 3"],
            &["3 "],
            &[""],
            &["0x3"],
            &["99999999999999999999"],
        ] {
            let fields: Vec<_> = lengths.iter().map(|length| ("content-length", *length)).collect();
            assert_eq!(body(&fields), Err(Length), "{lengths:?}");
        }
        for codings in [
            &["gzip, chunked"][..],
            &["chunked", "chunked"],
            &["chunked, chunked"],
            &["identity"],
            &["xchunked"],
            &[""],
            &["chunked;q=1"],
            &["\"chunked\""],
        ] {
            let fields: Vec<_> = codings.iter().map(|coding| ("transfer-encoding", *coding)).collect();
            assert_eq!(body(&fields), Err(Coding), "{codings:?}");
        }
        assert_eq!(body(&[("content-length", "3"), ("transfer-encoding", "chunked")]), Err(Coding));
        for version in [Version::HTTP_10, Version::HTTP_2] {
            let fields = [("host", "a"), ("transfer-encoding", "chunked")];
            assert_eq!(checked("POST", "/a", version, &fields), Err(Coding));
        }
    }

    #[test]
    fn a_request_is_for_one_host() {
        for host in ["a", "a.example:8848", "[::1]:80", "10.0.0.1:80", "a:"] {
            assert_eq!(checked("GET", "/a", Version::HTTP_11, &[("host", host)]), Ok(()), "{host}");
        }
        for host in
            ["", "a b", "a/b", "a@b", "a:80:80", "a:x", "[::1", "[x]:80", "::1", ":80", "a#b", "a?b", "a\\b"]
        {
            let refused = checked("GET", "/a", Version::HTTP_11, &[("host", host)]);
            assert_eq!(refused, Err(Ambiguous::Host), "{host}");
        }
        let refused = |version, uri, fields: &[(&str, &str)]| checked("GET", uri, version, fields).is_err();
        assert!(refused(Version::HTTP_11, "/a", &[]));
        assert!(refused(Version::HTTP_11, "/a", &[("host", "a"), ("host", "a")]));
        assert!(refused(Version::HTTP_11, "http://b/a", &[("host", "a")]));
        assert!(refused(Version::HTTP_11, "http://b/a", &[]));
        assert!(refused(Version::HTTP_2, "/a", &[]));
        assert!(!refused(Version::HTTP_11, "http://A:80/a", &[("host", "a:80")]));
        assert!(!refused(Version::HTTP_10, "/a", &[]));
        assert!(!refused(Version::HTTP_2, "https://a/a", &[]));
    }

    #[test]
    fn a_target_is_a_path() {
        let get = |uri: &str| checked("GET", uri, Version::HTTP_11, &[("host", "a")]);
        assert_eq!(get("/a?b=c"), Ok(()));
        assert_eq!(get("http://a/"), Ok(()));
        assert_eq!(get("*"), Err(Ambiguous::Target));
        assert_eq!(get("a"), Err(Ambiguous::Target));
        assert_eq!(get("ftp://a/"), Err(Ambiguous::Target));
        assert_eq!(checked("OPTIONS", "*", Version::HTTP_11, &[("host", "a")]), Ok(()));
        assert_eq!(
            checked("CONNECT", "a:80", Version::HTTP_11, &[("host", "a:80")]),
            Err(Ambiguous::Connect)
        );
    }
}
