//! What endpoints answer, and how it looks on the wire.
//!
//! The one place that turns successes and errors into v1 answers: status, media type by `Accept`, body.
//! Source: Nacos 1.4.8 and its framework's content negotiation; compat files `http-headers`, `instance-http`.

use std::{borrow::Cow, fmt};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header, request::Parts};
use nacre_middleware::{
    V1Body, V1Response,
    refusal::{self, State},
};
use serde::Serialize;

use crate::{
    base::json,
    cp::WriteError,
    model::{
        cluster::ClusterError, limits::TooLong, metadata::MetadataError, name::NameError,
        pattern::PatternError, selector::SelectorError,
    },
};

/// Why a request is not done. Its text is what clients see between `caused: ` and `;`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    status: StatusCode,
    text: String,
    state: Option<State>,
}

impl Refusal {
    fn new(status: StatusCode, text: impl fmt::Display) -> Self {
        Self { status, text: text.to_string(), state: None }
    }

    /// 400: an argument is missing or malformed.
    #[must_use]
    pub fn illegal(text: impl fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    /// 500: the reference's answer to everything else, "not found" included.
    #[must_use]
    pub fn failed(text: impl fmt::Display) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, text)
    }

    /// 403: not from there.
    #[must_use]
    pub fn forbidden(text: impl fmt::Display) -> Self {
        Self::new(StatusCode::FORBIDDEN, text)
    }

    /// 503: not now.
    #[must_use]
    pub fn unavailable(text: impl fmt::Display) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }

    /// 502: what another server says is of no use.
    #[must_use]
    pub fn bad_gateway(text: impl fmt::Display) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, text)
    }

    /// 503, with the node's state in a header for peers: it takes nothing of the kind now.
    #[must_use]
    pub fn standstill(state: State) -> Self {
        Self { state: Some(state), ..Self::unavailable(format_args!("this node is {}", state.word())) }
    }

    /// The same with the node's state in a header for peers.
    #[must_use]
    pub fn in_state(self, state: State) -> Self {
        Self { state: Some(state), ..self }
    }

    /// 400 for a parameter that must be there.
    #[must_use]
    pub fn missing(name: &str) -> Self {
        Self::illegal(format_args!("Param '{name}' is required."))
    }

    /// 400 with the text of Java's number parsers.
    #[must_use]
    pub fn not_a_number(text: &str) -> Self {
        Self::illegal(format_args!("For input string: \"{text}\""))
    }

    /// The text without its wrapping.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl From<NameError> for Refusal {
    fn from(error: NameError) -> Self {
        Self::illegal(error)
    }
}

impl From<TooLong> for Refusal {
    fn from(error: TooLong) -> Self {
        Self::illegal(error)
    }
}

impl From<WriteError> for Refusal {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Busy { .. } | WriteError::Stopped | WriteError::Members => Self::unavailable(error),
            WriteError::Store(_) | WriteError::Panicked => Self::failed(error),
        }
    }
}

impl From<PatternError> for Refusal {
    fn from(error: PatternError) -> Self {
        Self::illegal(error)
    }
}

impl From<ClusterError> for Refusal {
    fn from(error: ClusterError) -> Self {
        match error {
            ClusterError::Name(error) => error.into(),
            ClusterError::ZeroPort(_) => Self::failed(error),
        }
    }
}

impl From<SelectorError> for Refusal {
    fn from(error: SelectorError) -> Self {
        match error {
            SelectorError::Escape(_) | SelectorError::Type(_) => Self::illegal(error),
            _ => Self::failed(error),
        }
    }
}

impl From<MetadataError> for Refusal {
    fn from(error: MetadataError) -> Self {
        Self::failed(error)
    }
}

/// A good answer.
#[derive(Debug)]
pub enum Reply {
    /// 200 with a text, whose media type follows `Accept`.
    Text(Cow<'static, str>),
    /// 200 with a JSON text.
    Json(Bytes),
    /// 200 with a JSON text in two pieces, the first of which may be shared with other answers.
    JsonInTwo(Bytes, Bytes),
    /// An answer that is like no other.
    Whole(Box<V1Response>),
}

impl Reply {
    /// The two bytes that writes are answered with.
    pub const OK: Self = Self::Text(Cow::Borrowed("ok"));

    /// 200 with `value` as JSON.
    #[must_use]
    pub fn json(value: &impl Serialize) -> Self {
        Self::Json(json::to_bytes(value).into())
    }

    /// 200 with a JSON text that is always the same.
    #[must_use]
    pub fn fixed(json: &'static str) -> Self {
        Self::Json(Bytes::from_static(json.as_bytes()))
    }
}

/// The answer to a request with this head, whose headers are used up: the answer's take their place in memory.
#[must_use]
pub fn respond(head: &mut Parts, outcome: Result<Reply, Refusal>) -> V1Response {
    let mut state = None;
    let (status, media_type, body) = match outcome {
        Ok(Reply::Text(text)) => (StatusCode::OK, text_type(accept(head)), V1Body::sized(into_bytes(text))),
        Ok(Reply::Json(json)) => negotiated(head, V1Body::chunked(json)),
        Ok(Reply::JsonInTwo(json, rest)) => negotiated(head, V1Body::chunked_in_two(json, rest)),
        Ok(Reply::Whole(response)) => return *response,
        Err(Refusal { status, text, state: why }) => {
            state = why;
            (status, text_type(accept(head)), V1Body::sized(format!("caused: {text};")))
        }
    };
    // The connection takes the map of an answer for its next request, so no request after the first allocates one.
    let mut headers = std::mem::take(&mut head.headers);
    headers.clear();
    let mut response = finish(headers, status, media_type, body);
    if let Some(state) = state {
        refusal::mark(&mut response, state);
    }
    response
}

/// A JSON answer that is given more headers before it leaves.
#[must_use]
pub fn json_response(head: &Parts, value: &impl Serialize) -> V1Response {
    let (status, media_type, body) = negotiated(head, V1Body::chunked(json::to_bytes(value)));
    finish(HeaderMap::new(), status, media_type, body)
}

/// Status, media type and body of a JSON answer, or the refusal where the client takes no JSON.
fn negotiated(head: &Parts, json: V1Body) -> (StatusCode, Option<HeaderValue>, V1Body) {
    match json_type(accept(head)) {
        JsonType::Is(media_type) => (StatusCode::OK, Some(media_type), json),
        JsonType::Unacceptable => {
            let text = "caused: Could not find acceptable representation;";
            (StatusCode::INTERNAL_SERVER_ERROR, text_type(accept(head)), V1Body::sized(text))
        }
    }
}

/// An answer with these headers; one without media type is an empty 500: nothing that the client takes can be said.
fn finish(
    headers: HeaderMap,
    status: StatusCode,
    media_type: Option<HeaderValue>,
    body: V1Body,
) -> V1Response {
    let mut response = Response::new(V1Body::default());
    *response.headers_mut() = headers;
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    if let Some(media_type) = media_type {
        *response.body_mut() = body;
        *response.status_mut() = status;
        response.headers_mut().insert(header::CONTENT_TYPE, media_type);
    }
    response
}

fn into_bytes(text: Cow<'static, str>) -> Bytes {
    match text {
        Cow::Borrowed(text) => Bytes::from_static(text.as_bytes()),
        Cow::Owned(text) => text.into(),
    }
}

/// A text with the media type that the client asks for.
#[must_use]
pub fn text_response(head: &Parts, status: StatusCode, text: Bytes) -> V1Response {
    finish(HeaderMap::new(), status, text_type(accept(head)), V1Body::sized(text))
}

/// An answer with this media type.
#[must_use]
pub fn typed_response(status: StatusCode, media_type: HeaderValue, body: V1Body) -> V1Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, media_type);
    response
}

/// An answer without body and media type.
#[must_use]
pub fn empty(status: StatusCode) -> V1Response {
    let mut response = Response::new(V1Body::default());
    *response.status_mut() = status;
    response
}

fn accept(head: &Parts) -> &[u8] {
    head.headers.get(header::ACCEPT).map(HeaderValue::as_bytes).unwrap_or_default()
}

const TEXT: HeaderValue = HeaderValue::from_static("text/plain;charset=UTF-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The media type of a text: plain, or the first concrete type that the client likes best; nothing where `Accept`
/// can't be read.
fn text_type(accept: &[u8]) -> Option<HeaderValue> {
    if accept.is_empty() || accept == b"*/*" {
        return Some(TEXT);
    }
    let ranges = ranges(accept)?;
    for range in ranges {
        match range.essence {
            "*/*" | "*" | "text/*" | "text/plain" => return Some(TEXT),
            "application/json" | "application/*" => return Some(JSON),
            essence if essence.ends_with("/*") => {}
            essence => return HeaderValue::from_str(&format!("{essence};charset=UTF-8")).ok(),
        }
    }
    Some(TEXT)
}

enum JsonType {
    Is(HeaderValue),
    Unacceptable,
}

/// The media type of a JSON answer, or whether the client takes none.
fn json_type(accept: &[u8]) -> JsonType {
    // `*/*` stands in nearly every `Accept` that clients send.
    if accept.is_empty() || accept == b"*/*" {
        return JsonType::Is(JSON);
    }
    let Some(ranges) = ranges(accept) else { return JsonType::Unacceptable };
    for range in ranges {
        match range.essence {
            "*/*" | "*" | "application/*" | "application/*+json" => return JsonType::Is(JSON),
            "application/json" if range.parameters.is_empty() => return JsonType::Is(JSON),
            "application/json" => {
                let text = format!("application/json;{}", range.parameters);
                return JsonType::Is(HeaderValue::from_str(&text).unwrap_or(JSON));
            }
            _ => {}
        }
    }
    JsonType::Unacceptable
}

/// One entry of `Accept`.
struct Range<'a> {
    essence: &'a str,
    /// What follows the essence, without `q`.
    parameters: &'a str,
    quality: u16,
}

/// The entries of `Accept`, best first; nothing where one of them isn't a media type.
fn ranges(accept: &[u8]) -> Option<smallvec::SmallVec<[Range<'_>; 6]>> {
    let accept = std::str::from_utf8(accept).ok()?;
    let mut ranges = smallvec::SmallVec::<[Range<'_>; 6]>::new();
    for entry in accept.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let (essence, parameters) = entry.split_once(';').unwrap_or((entry, ""));
        let (essence, parameters) = (essence.trim(), parameters.trim());
        let is_type = essence == "*"
            || essence.split_once('/').is_some_and(|(kind, sub)| !kind.is_empty() && !sub.is_empty());
        if !is_type {
            return None;
        }
        let quality = parameters.split(';').find_map(|parameter| parameter.trim().strip_prefix("q="));
        let parameters = if quality.is_some() { "" } else { parameters };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 1000")]
        let quality = quality
            .and_then(|quality| quality.trim().parse::<f32>().ok())
            .map_or(1000, |quality| (quality.clamp(0.0, 1.0) * 1000.0) as u16);
        ranges.push(Range { essence, parameters, quality });
    }
    ranges.sort_by_key(|range| std::cmp::Reverse(range.quality));
    Some(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_failed_is_a_500_and_one_that_must_wait_a_503() {
        let status = |error: WriteError| Refusal::from(error).status.as_u16();
        let full = crate::cp::StoreError::Full {
            source: std::sync::Arc::new(std::io::ErrorKind::StorageFull.into()),
        };
        assert_eq!(status(WriteError::Store(full)), 500);
        assert_eq!(status(WriteError::Panicked), 500);
        assert_eq!((status(WriteError::Stopped), status(WriteError::Busy { limit: 1 })), (503, 503));
    }

    fn text_as(accept: &str) -> String {
        text_type(accept.as_bytes()).map_or("none".into(), |value| value.to_str().unwrap().to_string())
    }

    fn json_as(accept: &str) -> String {
        match json_type(accept.as_bytes()) {
            JsonType::Is(value) => value.to_str().unwrap().to_string(),
            JsonType::Unacceptable => "unacceptable".into(),
        }
    }

    #[test]
    fn the_type_of_a_text_follows_accept() {
        assert_eq!(text_as(""), "text/plain;charset=UTF-8");
        assert_eq!(text_as("*/*"), "text/plain;charset=UTF-8");
        assert_eq!(text_as("application/json"), "application/json");
        assert_eq!(
            text_as("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"),
            "text/html;charset=UTF-8"
        );
        assert_eq!(text_as("image/png"), "image/png;charset=UTF-8");
        assert_eq!(text_as("nonsense"), "none");
    }

    #[test]
    fn json_is_json_or_unacceptable() {
        assert_eq!(json_as("text/html, image/gif, image/jpeg, */*; q=0.2"), "application/json");
        assert_eq!(json_as("application/json;charset=UTF-8"), "application/json;charset=UTF-8");
        assert_eq!(json_as("text/plain"), "unacceptable");
    }
}
