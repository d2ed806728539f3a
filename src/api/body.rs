//! Bodies that an entry wants as JSON.
//!
//! Source: Nacos 1.4.8 and its framework's body conversion; compat files `distro-data`, `core-cluster`.

use http::{HeaderValue, header};
use serde::Deserialize;

use super::{V1Call, reply::Refusal};

/// Reads the body of a request that must say it is JSON.
///
/// # Errors
/// 500 where the media type isn't `application/json`, or the body is absent, `null` or not of this form.
pub fn json<'a, T: Deserialize<'a>>(call: &'a V1Call) -> Result<T, Refusal> {
    check_json(call)?;
    any_json(call)
}

/// Refuses a request that doesn't say that its body is JSON.
///
/// # Errors
/// 500.
pub fn check_json(call: &V1Call) -> Result<(), Refusal> {
    let media_type =
        call.head.headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let essence = media_type.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    if !essence.eq_ignore_ascii_case(b"application/json") {
        let media_type = String::from_utf8_lossy(media_type);
        return Err(Refusal::failed(format_args!("Content type '{media_type}' not supported")));
    }
    Ok(())
}

/// Reads a JSON body whatever its media type.
///
/// # Errors
/// As [`json`], but for the media type.
pub fn any_json<'a, T: Deserialize<'a>>(call: &'a V1Call) -> Result<T, Refusal> {
    if call.body.trim_ascii().is_empty() {
        return Err(Refusal::failed("Required request body is missing"));
    }
    let read: Option<T> = serde_json::from_slice(&call.body)
        .map_err(|error| Refusal::failed(format_args!("JSON parse error: {error}")))?;
    read.ok_or_else(|| Refusal::failed("Required request body is missing"))
}
