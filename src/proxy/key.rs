//! What a request is balanced by, where its rule balances by a key.
//!
//! Pure.

use std::net::IpAddr;

use http::{HeaderMap, header};

use super::rule::HashBy;
use crate::base::hash;

/// The key of a request of this client; its address, where there is no other.
#[must_use]
pub fn key_of(by: &HashBy, headers: &HeaderMap, client: IpAddr) -> u64 {
    let of_header =
        |name: &http::HeaderName| headers.get(name).map(|value| hash::fnv(value.as_bytes().iter().copied()));
    let key = match by {
        HashBy::Address => None,
        HashBy::Header(name) => of_header(name),
        HashBy::Cookie(name) => cookie(headers, name).map(|value| hash::fnv(value.bytes())),
    };
    key.unwrap_or_else(|| match client {
        IpAddr::V4(address) => hash::fnv(address.octets()),
        IpAddr::V6(address) => hash::fnv(address.octets()),
    })
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find_map(|(has, value)| (has == name).then_some(value))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_key_is_the_cookies_value_or_the_clients_address() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("a=1; sid=x=y"));
        headers.append(header::COOKIE, HeaderValue::from_static("b=2"));
        assert_eq!(cookie(&headers, "sid"), Some("x=y"));
        assert_eq!((cookie(&headers, "b"), cookie(&headers, "id")), (Some("2"), None));
        let client = IpAddr::from([10, 0, 0, 1]);
        let key = |name: &str| key_of(&HashBy::Cookie(name.into()), &headers, client);
        assert_eq!(key("none"), key_of(&HashBy::Address, &headers, client));
        assert_ne!(key("sid"), key("a"));
    }
}
