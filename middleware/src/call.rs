//! What travels between the layers.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderValue, Method, Response, header, request::Parts};

use crate::V1Body;

/// An answer of a layer or an endpoint.
pub type V1Response = Response<V1Body>;

/// A request with its whole body and the facts of its route.
#[derive(Debug)]
pub struct Call<F> {
    /// Method, target, headers.
    pub head: Parts,
    /// The whole body; empty where the route doesn't read one.
    pub body: Bytes,
    /// Who opened the connection.
    pub peer: SocketAddr,
    /// What the route table says about the request.
    pub facts: F,
}

/// Whether the body of a request with this head is a form whose fields count as parameters.
#[must_use]
pub fn carries_form(head: &Parts) -> bool {
    if head.method == Method::GET || head.method == Method::HEAD {
        return false;
    }
    let media_type = head.headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let media_type = media_type.split(|&byte| byte == b';').next().unwrap_or_default();
    media_type.trim_ascii().eq_ignore_ascii_case(b"application/x-www-form-urlencoded")
}

/// What the layers must know of a route; found from the head of a request alone.
pub trait Facts: Copy + Send + 'static {
    /// The answer carries the headers of the reference's controllers (`Vary`, `Content-Security-Policy`, CORS).
    ///
    /// Its answers to unknown entries under the naming path, and to paths outside the context path, don't.
    fn is_dressed(&self) -> bool;

    /// The route lies under the naming path, where preflights are always refused.
    fn is_naming(&self) -> bool;

    /// The endpoint reads the body.
    fn reads_body(&self) -> bool;

    /// The owner of the service that the request is about must do it: another node passes it on.
    fn is_forwarded(&self) -> bool;

    /// It belongs to the legacy cluster behind this node, where there is one.
    fn is_legacy(&self) -> bool {
        false
    }
}
