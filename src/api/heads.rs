//! Heads and paths that are refused before any route is looked for.
//!
//! Pure. Source: the container and the first filter of Nacos 1.4.8; compat files `http-wire`, `http-routing`.

use http::{HeaderMap, Method, Request, Version, header};

/// What is wrong with a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// No right `Host`, or an escape that no path may have: 400.
    Malformed,
    /// Something else is expected than `100-continue`: 417.
    Expectation,
    /// The method `TRACE`.
    Trace,
    /// A method that nobody knows.
    StrangeMethod,
    /// A path that could mean another one to somebody behind: 500.
    RefusedPath,
}

/// What the container refuses before it looks at the path.
pub(super) fn fault_of_head<B>(request: &Request<B>) -> Option<Fault> {
    let headers = request.headers();
    if !host_is_right(request) {
        return Some(Fault::Malformed);
    }
    if let Some(expected) = headers.get(header::EXPECT)
        && !expected.as_bytes().eq_ignore_ascii_case(b"100-continue")
    {
        return Some(Fault::Expectation);
    }
    match *request.method() {
        Method::GET
        | Method::PUT
        | Method::POST
        | Method::DELETE
        | Method::PATCH
        | Method::HEAD
        | Method::OPTIONS => None,
        Method::TRACE => Some(Fault::Trace),
        _ => Some(Fault::StrangeMethod),
    }
}

/// One `Host` (HTTP/1.1 must have it) that is an authority, and the same as an absolute target's.
fn host_is_right<B>(request: &Request<B>) -> bool {
    let headers: &HeaderMap = request.headers();
    let mut hosts = headers.get_all(header::HOST).iter();
    let Some(host) = hosts.next() else { return request.version() < Version::HTTP_11 };
    if hosts.next().is_some() {
        return false;
    }
    let host = host.as_bytes();
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b".-_:[]%~!$&'()*+,;=".contains(byte);
    if !host.iter().all(allowed) {
        return false;
    }
    match request.uri().authority() {
        Some(authority) => authority.as_str().as_bytes().eq_ignore_ascii_case(host),
        None => true,
    }
}

/// Paths that a filter of the reference refuses: 500, or 400 from its container.
pub(super) fn fault_of_path(path: &str) -> Option<Fault> {
    let escaped = |escape: &str| {
        memchr::memmem::find(path.to_ascii_lowercase().as_bytes(), escape.as_bytes()).is_some()
    };
    if path.contains('%') && (escaped("%2f") || escaped("%5c") || escaped("%00")) {
        return Some(Fault::Malformed);
    }
    let decoded = percent_encoding::percent_decode_str(path).decode_utf8_lossy();
    let dots = decoded.split('/').any(|segment| segment == "." || segment == "..");
    (decoded.contains("//") || decoded.contains(';') || dots).then_some(Fault::RefusedPath)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(method: &str, uri: &str, headers: &[(&str, &str)]) -> Option<Fault> {
        let request = Request::builder().method(method).uri(uri);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        fault_of_head(&request.body(()).unwrap())
    }

    #[test]
    fn a_head_has_one_host_that_agrees_with_its_target() {
        for hosts in [&["a:8848"][..], &[""], &["[::1]:80"]] {
            let headers: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
            assert_eq!(fault("GET", "/", &headers), None, "{hosts:?}");
        }
        for hosts in [&[][..], &["a", "a"], &["a b"], &["a/b"]] {
            let headers: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
            assert_eq!(fault("GET", "/", &headers), Some(Fault::Malformed), "{hosts:?}");
        }
        assert_eq!(fault("GET", "http://A:80/", &[("host", "a:80")]), None);
        assert_eq!(fault("GET", "http://b:80/", &[("host", "a:80")]), Some(Fault::Malformed));
    }

    #[test]
    fn methods_and_expectations_that_the_container_refuses() {
        let host = ("host", "a");
        assert_eq!(fault("TRACE", "/", &[host]), Some(Fault::Trace));
        assert_eq!(fault("PROPFIND", "/", &[host]), Some(Fault::StrangeMethod));
        assert_eq!(fault("PUT", "/", &[host, ("expect", "100-Continue")]), None);
        assert_eq!(fault("PUT", "/", &[host, ("expect", "more")]), Some(Fault::Expectation));
    }

    #[test]
    fn paths_that_could_mean_another_are_refused() {
        for path in ["/a//b", "/a/./b", "/a/../b", "/a/%2e%2E/b", "/a;x=1/b"] {
            assert_eq!(fault_of_path(path), Some(Fault::RefusedPath), "{path}");
        }
        for path in ["/a%2Fb", "/a%5cb", "/a%00"] {
            assert_eq!(fault_of_path(path), Some(Fault::Malformed), "{path}");
        }
        assert_eq!(fault_of_path("/a/b.html"), None);
    }
}
