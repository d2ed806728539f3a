//! Answers to requests that no endpoint takes.
//!
//! Source: Nacos 1.4.8, its naming filter (501), its framework (404, wrong methods) and its container (pages); compat
//! files `http-routing`, `http-wire`, `instance-http`, `core-web`.

use http::{HeaderValue, Method, StatusCode, header};
use nacre_middleware::{V1Body, V1Response};
use serde::Serialize;

use super::{
    Api, V1Call,
    reply::{self, Refusal, Reply},
    routes::Outcome,
};
use crate::base::{clock::date_text, json};

/// The error object of the reference's framework, fields in wire order.
#[derive(Serialize)]
struct ErrorObject<'a> {
    timestamp: String,
    status: u16,
    error: &'a str,
    message: &'a str,
    path: &'a str,
}

fn error_object(api: &Api, call: &V1Call, status: StatusCode, message: &str) -> Outcome {
    whole(error_response(api.clock.wall_ms(), call, status, message))
}

/// The error document, at `wall_ms` since 1970.
pub(super) fn error_response(wall_ms: u64, call: &V1Call, status: StatusCode, message: &str) -> V1Response {
    let accept = call.head.headers.get(header::ACCEPT).map(HeaderValue::as_bytes).unwrap_or_default();
    let takes_json = accept.is_empty()
        || memchr::memmem::find(accept, b"*/*").is_some()
        || memchr::memmem::find(accept, b"application/json").is_some()
        || memchr::memmem::find(accept, b"application/*").is_some();
    if accept.starts_with(b"text/html") {
        return page(status, message);
    }
    let mut response = if takes_json {
        let object = ErrorObject {
            timestamp: date_text(wall_ms),
            status: status.as_u16(),
            error: status.canonical_reason().unwrap_or_default(),
            message,
            path: call.head.uri.path(),
        };
        let body = V1Body::chunked(json::to_bytes(&object));
        reply::typed_response(status, HeaderValue::from_static("application/json"), body)
    } else {
        reply::empty(status)
    };
    if call.head.method == Method::HEAD {
        *response.body_mut() = V1Body::default();
    }
    response
}

fn whole(response: V1Response) -> Outcome {
    Ok(Reply::Whole(Box::new(response)))
}

/// A page for a person; the reference's container has its own text in such places.
fn page_of(status: StatusCode, message: &str) -> Outcome {
    whole(page(status, message))
}

fn page(status: StatusCode, message: &str) -> V1Response {
    let reason = status.canonical_reason().unwrap_or_default();
    let escaped = message.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let text = format!(
        "<!doctype html><html lang=\"en\"><head><title>{0} {reason}</title></head><body><h1>{0} {reason}</h1><p>{escaped}</p></body></html>",
        status.as_u16()
    );
    let media_type = HeaderValue::from_static("text/html;charset=UTF-8");
    let mut response = reply::typed_response(status, media_type, V1Body::sized(text));
    response.headers_mut().insert(header::CONTENT_LANGUAGE, HeaderValue::from_static("en"));
    response
}

/// 501 for whatever isn't an entry under the naming path.
pub fn no_such_api(api: &Api, call: &V1Call) -> Outcome {
    let message = format!("no such api:{}:{}", call.head.method, call.head.uri.path());
    error_object(api, call, StatusCode::NOT_IMPLEMENTED, &message)
}

/// 404 elsewhere under the context path.
pub fn not_found(api: &Api, call: &V1Call) -> Outcome {
    error_object(api, call, StatusCode::NOT_FOUND, "No message available")
}

/// 404 outside the context path.
pub fn outside(_: &Api, _: &V1Call) -> Outcome {
    page_of(StatusCode::NOT_FOUND, "nothing is served here")
}

/// 500 for a known path outside the naming path with another method.
pub fn wrong_method(_: &Api, call: &V1Call) -> Outcome {
    Err(Refusal::failed(format_args!("Request method '{}' not supported", call.head.method)))
}

/// 500 for a path with a double slash, a dot segment or a semicolon.
pub fn refused_path(api: &Api, call: &V1Call) -> Outcome {
    let path = call.head.uri.path();
    let message = if path.contains("//") {
        "The request was rejected because the URL contained a potentially malicious String \"//\""
    } else if path.contains(';') {
        "The request was rejected because the URL contained a potentially malicious String \";\""
    } else {
        "The request was rejected because the URL was not normalized."
    };
    error_object(api, call, StatusCode::INTERNAL_SERVER_ERROR, message)
}

/// 400 for a head that isn't right.
pub fn bad_request(_: &Api, _: &V1Call) -> Outcome {
    page_of(StatusCode::BAD_REQUEST, "the head of the request is not right")
}

/// 417 for an expectation that isn't `100-continue`.
pub fn expectation(_: &Api, _: &V1Call) -> Outcome {
    page_of(StatusCode::EXPECTATION_FAILED, "only 100-continue can be expected")
}

/// 405 for TRACE.
pub fn trace(_: &Api, _: &V1Call) -> Outcome {
    page_of(StatusCode::METHOD_NOT_ALLOWED, "TRACE is not served")
}

/// 500 for a method that HTTP doesn't know.
pub fn strange_method(_: &Api, call: &V1Call) -> Outcome {
    page_of(StatusCode::INTERNAL_SERVER_ERROR, &format!("unknown method {}", call.head.method))
}

/// 302 from the context path to the page below it.
pub fn root(_: &Api, call: &V1Call) -> Outcome {
    let host = call.head.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let location = format!("http://{host}{}/", call.head.uri.path());
    let mut response = reply::empty(StatusCode::FOUND);
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    whole(response)
}
