//! How the value of one key of `conf/proxy.toml` is read.
//!
//! Pure. Every error says what was expected and what stood there, as the end of the sentence "KEY: ...".

use std::{ops::RangeInclusive, time::Duration};

use http::{HeaderName, HeaderValue, Method};
use toml::{Spanned, de::DeValue};

use super::{
    expression::Expression,
    path,
    rule::{HashBy, HeaderCondition, HostHeader, HostPattern, Protocol},
};

/// Why a value isn't taken.
pub(super) type Reason = String;
type Read<T> = Result<T, Reason>;

/// Bytes of a name at most.
const LONGEST_NAME: usize = 64;

fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(number) => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::Datetime(date) => date.to_string(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

fn wrong(expected: &str, value: &DeValue<'_>) -> Reason {
    format!("expected {expected}, got {}", shown(value))
}

/// A text that isn't empty.
pub(super) fn text<'v>(value: &'v DeValue<'_>) -> Read<&'v str> {
    value.as_str().filter(|text| !text.is_empty()).ok_or_else(|| wrong("a text", value))
}

/// `true` or `false`.
pub(super) fn truth(value: &DeValue<'_>) -> Read<bool> {
    value.as_bool().ok_or_else(|| wrong("true or false", value))
}

/// A whole number.
pub(super) fn number(value: &DeValue<'_>, range: RangeInclusive<u64>) -> Read<u64> {
    let read = value
        .as_integer()
        .and_then(|number| u64::from_str_radix(number.as_str().trim_start_matches('+'), number.radix()).ok());
    read.filter(|number| range.contains(number))
        .ok_or_else(|| wrong(&format!("a whole number from {} to {}", range.start(), range.end()), value))
}

/// The same, where it fits into 32 bits.
pub(super) fn count(value: &DeValue<'_>, range: RangeInclusive<u32>) -> Read<u32> {
    let number = number(value, u64::from(*range.start())..=u64::from(*range.end()))?;
    u32::try_from(number).map_err(|_| wrong("a smaller number", value))
}

/// A weight beside others: a number, whole or not.
pub(super) fn weight(value: &DeValue<'_>) -> Read<f64> {
    let text = match value {
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str()),
        DeValue::Float(number) => Some(number.as_str()),
        _ => None,
    };
    let read = text.and_then(|text| text.parse::<f64>().ok());
    read.filter(|weight| (0.0..=10_000.0).contains(weight))
        .ok_or_else(|| wrong("a number from 0 to 10000", value))
}

/// A duration such as `500ms`, `2s` or `1m 30s`.
pub(super) fn duration(value: &DeValue<'_>, range: RangeInclusive<Duration>) -> Read<Duration> {
    let read = value.as_str().and_then(|text| humantime::parse_duration(text).ok());
    read.filter(|duration| range.contains(duration)).ok_or_else(|| {
        let (least, most) =
            (humantime::format_duration(*range.start()), humantime::format_duration(*range.end()));
        wrong(&format!("a duration such as \"500ms\" or \"2s\", from {least} to {most}"), value)
    })
}

/// A text, or a list of some.
pub(super) fn texts<'v>(value: &'v DeValue<'_>) -> Read<Vec<&'v str>> {
    match value {
        DeValue::Array(items) if !items.is_empty() => items.iter().map(|item| text(item.get_ref())).collect(),
        DeValue::String(_) => Ok(vec![text(value)?]),
        _ => Err(wrong("a text or a list of texts", value)),
    }
}

/// The entries of a table of texts.
pub(super) fn table<'v>(value: &'v DeValue<'_>) -> Read<Vec<(&'v str, &'v Spanned<DeValue<'v>>)>> {
    let table = value.as_table().ok_or_else(|| wrong("a table", value))?;
    Ok(table.iter().map(|(key, value)| (&**key.get_ref(), value)).collect())
}

/// The name of a rule.
pub(super) fn name(value: &DeValue<'_>) -> Read<Box<str>> {
    let is_plain = |text: &&str| {
        text.len() <= LONGEST_NAME
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
    };
    let expected = format!("a name of at most {LONGEST_NAME} letters, digits and -_.");
    text(value).ok().filter(is_plain).map(Into::into).ok_or_else(|| wrong(&expected, value))
}

/// Hosts: `shop.example.org`, `*.example.org`, `10.0.0.1`, `[::1]`.
pub(super) fn hosts(value: &DeValue<'_>) -> Read<Vec<HostPattern>> {
    texts(value)?.into_iter().map(host).collect()
}

fn host(text: &str) -> Read<HostPattern> {
    let wrong =
        || format!("expected a host without port, such as shop.example.org or *.example.org, got {text:?}");
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    let is_name = |name: &str| name.len() <= 253 && name.split('.').all(is_label);
    let is_ip6 = |text: &str| {
        let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        inner.is_some_and(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok())
    };
    let lower = text.to_ascii_lowercase();
    match lower.strip_prefix('*') {
        Some(below) if below.strip_prefix('.').is_some_and(is_name) => Ok(HostPattern::Below(below.into())),
        None if is_name(&lower) || is_ip6(&lower) => Ok(HostPattern::Exact(lower.into())),
        _ => Err(wrong()),
    }
}

/// A path that begins with a slash, as [`path`] compares it.
pub(super) fn path(value: &DeValue<'_>) -> Read<Box<str>> {
    let read = text(value).ok().filter(|text| path::is_path(text));
    let expected =
        "a path that begins with / and has neither dot segments, nor a query, nor escapes that aren't needed";
    read.map(Into::into).ok_or_else(|| wrong(expected, value))
}

/// Methods; upper case, as they are compared.
pub(super) fn methods(value: &DeValue<'_>) -> Read<Vec<Method>> {
    let method = |text: &str| {
        let read = text.parse::<Method>().ok();
        read.filter(|_| text.bytes().all(|byte| !byte.is_ascii_lowercase()) && text != "CONNECT")
            .ok_or_else(|| format!("expected methods such as GET, got {text:?}"))
    };
    texts(value)?.into_iter().map(method).collect()
}

/// A condition on a header; `*` asks that it is there.
pub(super) fn header(name: &str, value: &DeValue<'_>) -> Read<(HeaderName, HeaderCondition)> {
    let name = header_name(name)?;
    let text = text(value)?;
    if text == "*" {
        return Ok((name, HeaderCondition::Present));
    }
    let value =
        HeaderValue::from_str(text).map_err(|_| format!("expected a header's value, got {text:?}"))?;
    Ok((name, HeaderCondition::Value(value)))
}

fn header_name(text: &str) -> Read<HeaderName> {
    let name: HeaderName =
        text.parse().map_err(|_| format!("expected the name of a header, got {text:?}"))?;
    // Requests of HTTP/2 name theirs elsewhere.
    if name == http::header::HOST {
        return Err("expected another header: the host has a key of its own".to_owned());
    }
    Ok(name)
}

/// `address`, `header:NAME` or `cookie:NAME`.
pub(super) fn hash_by(value: &DeValue<'_>) -> Read<HashBy> {
    let expected = "address, header:NAME or cookie:NAME";
    let text = text(value)?;
    let is_token = |name: &str| name.parse::<HeaderName>().is_ok();
    match text.split_once(':') {
        None if text == "address" => Ok(HashBy::Address),
        Some(("header", name)) => header_name(name).map(HashBy::Header),
        Some(("cookie", name)) if is_token(name) => Ok(HashBy::Cookie(name.into())),
        _ => Err(wrong(expected, value)),
    }
}

/// What instances speak.
pub(super) fn protocol(value: &DeValue<'_>) -> Read<Protocol> {
    let all = [Protocol::Http1, Protocol::Http2, Protocol::Https1, Protocol::Https2];
    let read = value.as_str().and_then(|text| all.into_iter().find(|one| one.word() == text));
    read.ok_or_else(|| wrong("http/1.1, h2c, https or h2", value))
}

/// `keep`, `instance` or a host.
pub(super) fn host_header(value: &DeValue<'_>) -> Read<HostHeader> {
    match text(value)? {
        "keep" => Ok(HostHeader::Keep),
        "instance" => Ok(HostHeader::Instance),
        text => {
            let is_authority = !text.contains('@') && text.parse::<http::uri::Authority>().is_ok();
            let read = HeaderValue::from_str(text).ok().filter(|_| is_authority);
            read.map(HostHeader::Given).ok_or_else(|| wrong("keep, instance or a host", value))
        }
    }
}

/// A condition on metadata.
pub(super) fn metadata(value: &DeValue<'_>) -> Read<Expression> {
    Expression::parse(text(value)?).map_err(|error| error.to_string())
}

/// The name in the certificates of instances.
pub(super) fn tls_name(value: &DeValue<'_>) -> Read<Box<str>> {
    match host(text(value)?) {
        Ok(HostPattern::Exact(name)) => Ok(name.trim_matches(['[', ']']).into()),
        _ => Err(wrong("a host name or an address", value)),
    }
}
