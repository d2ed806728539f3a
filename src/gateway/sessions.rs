//! Which server began which session: the cookie that names it goes back to that one.
//!
//! Pure. Logins of Nacos are tokens that any server takes; a session is of use to pages of some versions alone.
//! Bounded: two generations, of which the older is forgotten when the younger is full; one that is used stays.

use std::collections::HashMap;

use http::{HeaderMap, HeaderValue, header};

/// Cookies that name a session.
const NAMES: [&str; 2] = ["JSESSIONID", "SESSION"];
/// Sessions of one generation.
const MOST: usize = 5_000;
/// Bytes of an id; longer ones aren't kept.
const LONGEST: usize = 128;

/// Sessions by their ids.
#[derive(Debug, Default)]
pub struct Sessions {
    young: HashMap<Box<str>, usize>,
    old: HashMap<Box<str>, usize>,
}

impl Sessions {
    /// The server that began a session.
    pub fn server_of(&mut self, id: &str) -> Option<usize> {
        if let Some(server) = self.young.get(id) {
            return Some(*server);
        }
        let server = *self.old.get(id)?;
        self.began(id, server);
        Some(server)
    }

    /// A server began a session, or goes on with it.
    pub fn began(&mut self, id: &str, server: usize) {
        if id.is_empty() || id.len() > LONGEST {
            return;
        }
        if self.young.len() >= MOST {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(id.into(), server);
    }
}

/// The session that a request's cookies name.
pub fn of_request(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    cookies.flat_map(|value| value.split(';')).find_map(id)
}

/// The session that an answer begins.
pub fn of_answer(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::SET_COOKIE).iter().map(HeaderValue::to_str);
    cookies.filter_map(Result::ok).filter_map(|value| value.split(';').next()).find_map(id)
}

fn id(cookie: &str) -> Option<&str> {
    let (name, id) = cookie.trim().split_once('=')?;
    NAMES.contains(&name).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, values: &[&'static str]) -> HeaderMap {
        values
            .iter()
            .map(|value| (http::HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn cookies_are_read() {
        assert_eq!(of_request(&headers("cookie", &["a=1; JSESSIONID=x1; b=2"])), Some("x1"));
        assert_eq!(of_request(&headers("cookie", &["a=1", "SESSION=x2"])), Some("x2"));
        assert_eq!(of_request(&headers("cookie", &["XJSESSIONID=x1; JSESSIONID"])), None);
        assert_eq!(
            of_answer(&headers("set-cookie", &["a=1", "JSESSIONID=x3; Path=/; HttpOnly"])),
            Some("x3")
        );
        assert_eq!(of_answer(&headers("set-cookie", &["a=1; JSESSIONID=x3"])), None);
    }

    #[test]
    fn what_is_used_stays_and_the_rest_is_bounded() {
        let mut sessions = Sessions::default();
        sessions.began("mine", 2);
        for number in 0..50_000 {
            sessions.began(&format!("{number}"), 0);
            if number % 1_000 == 0 {
                assert_eq!(sessions.server_of("mine"), Some(2));
            }
        }
        assert_eq!(sessions.server_of("0"), None);
        assert!(sessions.young.len() + sessions.old.len() <= 2 * MOST);
        sessions.began(&"x".repeat(LONGEST + 1), 1);
        assert_eq!(sessions.server_of(&"x".repeat(LONGEST + 1)), None);
    }
}
