//! What a browser or a monitor finds outside `/v1`: the page, the health of the actuator.
//!
//! Source: Nacos 1.4.8 as its framework exposes it by default; compat file `core-web`.

use http::{HeaderValue, StatusCode, header};
use nacre_middleware::V1Body;
use serde::Serialize;

use super::{
    Api, V1Call,
    reply::{self, Reply},
    routes::Outcome,
};
use crate::base::json;

/// What a person sees who opens the server in a browser.
const PAGE: &str = "<!doctype html><html lang=\"en\"><head><title>Nacre</title></head><body><h1>Nacre</h1>\
                    <p>A naming server for clients of Nacos 1.x. There is no console here.</p></body></html>";

/// GET index.html.
pub fn page(_: &Api, _: &V1Call) -> Outcome {
    Ok(page_as("text/html"))
}

/// GET of the context path with its slash.
pub fn welcome(_: &Api, _: &V1Call) -> Outcome {
    Ok(page_as("text/html;charset=UTF-8"))
}

fn page_as(media_type: &'static str) -> Reply {
    let body = V1Body::sized(PAGE);
    Reply::Whole(Box::new(reply::typed_response(StatusCode::OK, HeaderValue::from_static(media_type), body)))
}

#[derive(Serialize)]
struct Actuator {
    #[serde(rename = "_links")]
    links: Links,
}

#[derive(Serialize)]
struct Links {
    #[serde(rename = "self")]
    own: Link,
    #[serde(rename = "health-path")]
    health_path: Link,
    health: Link,
}

#[derive(Serialize)]
struct Link {
    href: String,
    templated: bool,
}

/// GET actuator: where its parts are.
pub fn actuator(_: &Api, call: &V1Call) -> Outcome {
    let head = &call.head;
    let host = head.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let path = head.uri.path();
    let base = format!("http://{host}{}", path.strip_suffix('/').unwrap_or(path));
    let link = |end: &str, templated| Link { href: format!("{base}{end}"), templated };
    let links = Links {
        own: link("", false),
        health_path: link("/health/{*path}", true),
        health: link("/health", false),
    };
    Ok(actuator_json(json::to_bytes(&Actuator { links })))
}

/// GET actuator/health.
pub fn actuator_health(_: &Api, _: &V1Call) -> Outcome {
    Ok(actuator_json(br#"{"status":"UP"}"#.to_vec()))
}

fn actuator_json(json: Vec<u8>) -> Reply {
    let media_type = HeaderValue::from_static("application/vnd.spring-boot.actuator.v3+json");
    Reply::Whole(Box::new(reply::typed_response(StatusCode::OK, media_type, V1Body::chunked(json))))
}
