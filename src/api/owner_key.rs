//! The name by which the owner of a write's service is found.
//!
//! It is the grouped name that the endpoint reads; of the requests that clients send it is read without looking at other
//! parameters, into memory on the stack. Source: Nacos 1.4.8 naming module, distro filter and its tag generator.

use std::borrow::Cow;

use nacre_middleware::carries_form;
use smallvec::SmallVec;

use super::{
    V1Call,
    params::{MOST_PARAMETERS, Params},
};
use crate::model::name::{DEFAULT_GROUP, SEPARATOR};

/// Longer names are read into memory of their own.
type Text = SmallVec<[u8; 128]>;

/// Calls `found` with the name; nothing where the call names no service.
pub fn with_owner_key<T>(call: &V1Call, found: impl FnOnce(&str) -> T) -> Option<T> {
    if !carries_form(&call.head)
        && let Some(name) = usual(call.head.uri.query().unwrap_or_default())
        && let Ok(name) = std::str::from_utf8(&name)
    {
        return Some(found(name));
    }
    let params = Params::of(call);
    let name = params.service_name().ok().filter(|name| !name.is_empty());
    name.map(|name: Cow<'_, str>| found(&name))
}

/// The name in a query as clients write it; nothing where it is to be read with all care.
fn usual(query: &str) -> Option<Text> {
    let (mut service, mut group) = (None, None);
    for (number, pair) in query.split('&').enumerate() {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "serviceName" if service.is_none() => service = Some(value),
            "groupName" if group.is_none() => group = Some(value),
            "encoding" if !value.eq_ignore_ascii_case("utf-8") => return None,
            _ if number == MOST_PARAMETERS || name.bytes().any(|byte| matches!(byte, b'%' | b'+')) => {
                return None;
            }
            _ => {}
        }
    }
    let name = plain(service?)?;
    if memchr::memmem::find(&name, SEPARATOR.as_bytes()).is_some() {
        return Some(name);
    }
    let group = match group {
        None | Some("") => DEFAULT_GROUP,
        Some(group) if group.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'%' | b'+')) => {
            group
        }
        Some(_) => return None,
    };
    let mut grouped = Text::from_slice(group.as_bytes());
    grouped.extend_from_slice(SEPARATOR.as_bytes());
    grouped.extend_from_slice(&name);
    Some(grouped)
}

/// The text of a value whose letters are all plain ones, escaped or not; nothing where there are others, or none.
fn plain(value: &str) -> Option<Text> {
    let mut text = Text::new();
    let mut bytes = value.bytes();
    while let Some(byte) = bytes.next() {
        let byte = match byte {
            b'%' => hex(bytes.next()?)? << 4 | hex(bytes.next()?)?,
            b'+' => return None,
            byte => byte,
        };
        if !byte.is_ascii_graphic() {
            return None;
        }
        text.push(byte);
    }
    (!text.is_empty()).then_some(text)
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn usual_of(query: &str) -> Option<String> {
        usual(query).map(|name| String::from_utf8(name.to_vec()).unwrap())
    }

    #[test]
    fn names_as_clients_write_them_are_read_at_once() {
        for (query, name) in [
            ("serviceName=DEFAULT_GROUP%40%40shop&namespaceId=public", "DEFAULT_GROUP@@shop"),
            ("ip=1&serviceName=shop&serviceName=other", "DEFAULT_GROUP@@shop"),
            ("serviceName=shop&groupName=G&encoding=UTF-8&nofix=1", "G@@shop"),
            ("groupName=&serviceName=a%40b", "DEFAULT_GROUP@@a@b"),
        ] {
            assert_eq!(usual_of(query).as_deref(), Some(name));
        }
    }

    #[test]
    fn all_else_is_read_with_care() {
        for query in [
            "",
            "dom=a",
            "serviceName=",
            "serviceName=+a",
            "serviceName=%",
            "serviceName=%E4%B8%AD",
            "%73erviceName=a&serviceName=b",
            "serviceName=a&encoding=GBK",
            "serviceName=a&groupName=%20",
        ] {
            assert_eq!(usual_of(query), None, "{query}");
        }
    }

    fn piece() -> impl Strategy<Value = String> {
        let name = prop::sample::select(vec![
            "serviceName",
            "groupName",
            "dom",
            "encoding",
            "%73erviceName",
            "x",
            "service+Name",
            "",
        ]);
        let value = prop_oneof![
            Just("utf-8".to_owned()),
            Just("ISO-8859-1".to_owned()),
            "[a-c@%+ =0-9]{0,8}",
            "(%40|%20|%41|%e4|a|@@){0,5}",
        ];
        (name, prop::bool::ANY, value).prop_map(|(name, has_value, value)| {
            if has_value { format!("{name}={value}") } else { name.to_owned() }
        })
    }

    proptest! {
        #[test]
        fn what_is_read_at_once_is_what_endpoints_read(pieces in prop::collection::vec(piece(), 0..6)) {
            let query = pieces.join("&");
            if let Some(name) = usual_of(&query) {
                let params = Params::read(&query, b"");
                let service_name = params.service_name().unwrap();
                prop_assert_eq!(service_name.as_ref(), name.as_str());
            }
        }
    }
}
