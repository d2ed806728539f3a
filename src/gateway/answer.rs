//! What a client is told when no legacy server has answered: a status, and a text that names the server.

use http::{HeaderValue, Response, StatusCode, header};
use nacre_middleware::{V1Body, V1Response, framing::Ambiguous, pass::Fault};

/// The request was refused before any server was asked.
pub fn ambiguous(why: Ambiguous) -> V1Response {
    let mut response = told(StatusCode::BAD_REQUEST, &why.to_string());
    // The rest could be read as another request.
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// More header fields than the legacy server takes, with those that are added: it would say the same.
pub fn too_many_fields() -> V1Response {
    told(StatusCode::BAD_REQUEST, "the request has too many header fields")
}

/// It has gone round in a circle.
pub fn circle() -> V1Response {
    told(
        StatusCode::LOOP_DETECTED,
        "the request has passed too many Nacre nodes: a gateway names itself, or one that leads back to it, in nacre.legacy.servers",
    )
}

/// No server is well.
pub fn none_is_up() -> V1Response {
    unavailable("none of the legacy servers answers, please try again later")
}

/// This node stops, and whoever polls through it would be cut off.
pub fn stops() -> V1Response {
    let mut response = unavailable("this node stops, please ask another");
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The last server that was asked gave no answer.
pub fn failed(server: &str, fault: &Fault) -> V1Response {
    let text = format!("the legacy server {server}: {fault}");
    match fault.status() {
        StatusCode::SERVICE_UNAVAILABLE => unavailable(&text),
        status => told(status, &text),
    }
}

fn unavailable(text: &str) -> V1Response {
    let mut response = told(StatusCode::SERVICE_UNAVAILABLE, text);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn told(status: StatusCode, text: &str) -> V1Response {
    let mut response = Response::new(V1Body::sized(format!("caused: {text};")));
    *response.status_mut() = status;
    let media_type = HeaderValue::from_static("text/plain;charset=UTF-8");
    response.headers_mut().insert(header::CONTENT_TYPE, media_type);
    response
}
