use http::Request;

use super::*;

fn head(method: &str, fields: &[(&str, &str)]) -> Parts {
    let request = Request::builder().method(method).uri("/a");
    let request = fields.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.body(()).unwrap().into_parts().0
}

fn shown(headers: &HeaderMap) -> Vec<String> {
    let mut shown: Vec<_> =
        headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
    shown.sort_unstable();
    shown
}

#[test]
fn what_belongs_to_the_connection_ends_here() {
    let mut head = head(
        "GET",
        &[
            ("host", "a"),
            ("connection", "keep-alive, X-Mine"),
            ("connection", "x-other,"),
            ("x-mine", "1"),
            ("x-other", "1"),
            ("x-stays", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "Basic YTpi"),
            ("te", "gzip"),
            ("trailer", "x-sum"),
            ("upgrade", "h2c"),
            ("http2-settings", "AAA"),
            ("expect", "100-continue"),
            ("transfer-encoding", "chunked"),
        ],
    );
    assert_eq!(clean_request(&mut head), Asked::default());
    assert_eq!(shown(&head.headers), ["host: a", "x-stays: 1"]);
}

#[test]
fn naming_a_field_in_connection_changes_no_meaning() {
    let mut head = head(
        "POST",
        &[
            ("host", "a"),
            ("connection", "close, Host, content-length, Content-Type, x-forwarded-for, (odd)"),
            ("content-length", "3"),
            ("content-type", "text/plain"),
            ("x-forwarded-for", "10.0.0.1"),
        ],
    );
    clean_request(&mut head);
    assert_eq!(shown(&head.headers), ["content-length: 3", "content-type: text/plain", "host: a"]);
}

#[test]
fn an_upgrade_counts_where_connection_names_it() {
    let fields = [("upgrade", "websocket"), ("connection", "keep-alive, Upgrade")];
    let asked = clean_request(&mut head("GET", &fields));
    assert_eq!(asked.upgrade, Some(HeaderValue::from_static("websocket")));
    let mut headers = HeaderMap::new();
    ask_for_upgrade(&mut headers, &asked);
    assert_eq!(shown(&headers), ["connection: upgrade", "upgrade: websocket"]);
    assert_eq!(clean_request(&mut head("GET", &fields[..1])).upgrade, None);
}

#[test]
fn trailers_are_asked_for_on_behalf_of_who_takes_them() {
    let asked = clean_request(&mut head("POST", &[("te", "gzip;q=0.5, Trailers"), ("connection", "TE")]));
    let mut headers = HeaderMap::new();
    ask_for_trailers(&mut headers, &asked);
    assert_eq!(shown(&headers), ["te: trailers"]);
}

/// An answer's head with these fields after cleaning.
fn answered(status: u16, asked: &Asked, length: Option<u64>, fields: &[(&str, &str)]) -> Vec<String> {
    let mut headers = head("GET", fields).headers;
    clean_answer(StatusCode::from_u16(status).unwrap(), &mut headers, asked, length);
    shown(&headers)
}

#[test]
fn an_answer_loses_what_belongs_to_its_connection() {
    let fields = [
        ("connection", "close, x-mine"),
        ("x-mine", "1"),
        ("keep-alive", "timeout=60"),
        ("transfer-encoding", "chunked"),
        ("trailer", "x-sum"),
        ("upgrade", "h2c"),
        ("proxy-authenticate", "Basic"),
        ("set-cookie", "a=1"),
        ("set-cookie", "b=2"),
    ];
    assert_eq!(answered(200, &Asked::default(), None, &fields), ["set-cookie: a=1", "set-cookie: b=2"]);
    let takes_trailers = Asked { trailers: true, ..Asked::default() };
    assert!(answered(200, &takes_trailers, None, &fields).contains(&"trailer: x-sum".to_owned()));
}

#[test]
fn a_change_of_protocol_says_what_it_changes_to() {
    let fields = [("connection", "Upgrade"), ("upgrade", "websocket"), ("sec-websocket-accept", "x")];
    let expected = ["connection: upgrade", "sec-websocket-accept: x", "upgrade: websocket"];
    assert_eq!(answered(101, &Asked::default(), Some(0), &fields), expected);
}

#[test]
fn a_length_that_the_body_doesnt_have_goes() {
    let asked = Asked::default();
    let right = [("content-length", "3")];
    assert_eq!(answered(200, &asked, Some(3), &right), ["content-length: 3"]);
    assert!(answered(200, &asked, None, &right).is_empty());
    assert!(answered(200, &asked, Some(4), &right).is_empty());
    assert!(answered(200, &asked, Some(3), &[("content-length", "3"), ("content-length", "3")]).is_empty());
    assert!(answered(204, &asked, Some(0), &right).is_empty());
    // These describe what another request would get.
    assert_eq!(answered(304, &asked, Some(0), &right), ["content-length: 3"]);
    assert_eq!(answered(200, &Asked { head: true, ..asked }, Some(0), &right), ["content-length: 3"]);
}

fn signed(fields: &[(&str, &str)], trusted: bool, address: &str) -> Vec<String> {
    let mut headers = head("GET", fields).headers;
    let host = headers.get(header::HOST).cloned();
    let caller = Caller { address: address.parse().unwrap(), scheme: "http", host: host.as_ref(), trusted };
    sign(&mut headers, caller);
    shown(&headers)
}

#[test]
fn a_strangers_chain_is_replaced_and_a_trusted_ones_goes_on() {
    let fields = [
        ("host", "a.example"),
        ("x-forwarded-for", "10.9.9.9"),
        ("x-forwarded-for", "10.8.8.8"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "b.example"),
        ("forwarded", "for=10.9.9.9"),
    ];
    assert_eq!(
        signed(&fields, false, "::ffff:10.0.0.1"),
        [
            "host: a.example",
            "x-forwarded-for: 10.0.0.1",
            "x-forwarded-host: a.example",
            "x-forwarded-proto: http",
        ]
    );
    assert_eq!(
        signed(&fields, true, "fe80::1"),
        [
            "forwarded: for=10.9.9.9, for=\"[fe80::1]\";proto=http",
            "host: a.example",
            "x-forwarded-for: 10.9.9.9, 10.8.8.8, fe80::1",
            "x-forwarded-host: b.example",
            "x-forwarded-proto: https",
        ]
    );
    assert_eq!(signed(&[], false, "10.0.0.1"), ["x-forwarded-for: 10.0.0.1", "x-forwarded-proto: http"]);
}

#[test]
fn a_circle_is_found_by_its_hops() {
    let mut headers = HeaderMap::new();
    assert_eq!([0; 4].map(|_| count_hop(&mut headers, 3)), [Ok(()), Ok(()), Ok(()), Err(Circle)]);
    assert_eq!(headers[&HOPS], "3");
    headers.insert(HOPS.clone(), HeaderValue::from_static("many"));
    assert_eq!(count_hop(&mut headers, 3), Err(Circle));
}
