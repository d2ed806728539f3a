//! Paths as rules see them, and what instances are sent in their place.
//!
//! Pure. Escapes of letters, digits and `-._~` are read as what they stand for, since instances read them so, too; an
//! escaped slash is none. A path with dot segments means another one to whoever resolves them than to who doesn't, so no
//! rule gets to see it.

use std::borrow::Cow;

/// A path in the form that is compared: without needless escapes, escapes in upper case.
///
/// None for one that is refused: it doesn't begin with a slash, has a dot segment, escaped or not, or a broken escape.
#[must_use]
pub fn normalized(path: &str) -> Option<Cow<'_, str>> {
    if !path.starts_with('/') {
        return None;
    }
    let plain =
        if path.contains('%') { Cow::Owned(without_needless_escapes(path)?) } else { Cow::Borrowed(path) };
    if plain.contains('.') && has_dots(&plain) || plain.contains("%00") { None } else { Some(plain) }
}

/// Whether a segment is `.` or `..` to some server: there are those that take a backslash, or an escaped slash, for a slash.
fn has_dots(path: &str) -> bool {
    let separated = if path.contains('%') {
        Cow::Owned(path.replace("%2F", "/").replace("%5C", "\\").replace("%3B", ";"))
    } else {
        Cow::Borrowed(path)
    };
    separated.split(['/', '\\']).any(|segment| matches!(base_of(segment), "." | ".."))
}

/// A segment without its parameters, which some servers cut off before they look for dots.
fn base_of(segment: &str) -> &str {
    segment.split_once(';').map_or(segment, |(base, _)| base)
}

fn without_needless_escapes(path: &str) -> Option<String> {
    let mut plain = String::with_capacity(path.len());
    let mut parts = path.split('%');
    plain.push_str(parts.next()?);
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let byte = u8::from_str_radix(digits, 16).ok()?;
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            plain.push(char::from(byte));
        } else {
            plain.push('%');
            plain.push_str(&digits.to_ascii_uppercase());
        }
        plain.push_str(rest);
    }
    Some(plain)
}

/// Whether a text is a path that can be compared with others as it is.
#[must_use]
pub fn is_path(text: &str) -> bool {
    let is_plain = |path: &str| normalized(path).is_some_and(|same| same == path);
    text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#' | b'\\')) && is_plain(text)
}

/// Whether a path in compared form begins with whole segments `prefix`, which has no slash at its end.
#[must_use]
pub fn has_prefix(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The target of a request whose path begins with `prefix`, with `new` in its place; `path` is in compared form.
#[must_use]
pub fn replaced(path: &str, query: Option<&str>, prefix: &str, new: &str) -> String {
    let rest = path.strip_prefix(prefix).unwrap_or(path);
    let query = query.map_or("", |query| query);
    let mut target = String::with_capacity(new.len() + rest.len() + query.len() + 2);
    target.push_str(new);
    target.push_str(rest);
    if target.is_empty() {
        target.push('/');
    }
    // What is left of `/a//b` would be taken for a host by whoever resolves it.
    while target.starts_with("//") {
        target.remove(0);
    }
    if !query.is_empty() {
        target.push('?');
        target.push_str(query);
    }
    target
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_path_is_compared_without_needless_escapes() {
        for (path, expected) in [
            ("/", Some("/")),
            ("/orders/1", Some("/orders/1")),
            ("/%6Frders", Some("/orders")),
            ("/a%2fb", Some("/a%2Fb")),
            ("/a%20b", Some("/a%20b")),
            ("/a..b/.c/...", Some("/a..b/.c/...")),
            ("//a", Some("//a")),
            ("/a/../b", None),
            ("/a/..", None),
            ("/./a", None),
            ("/a/%2e%2E/b", None),
            ("/a/.%2e", None),
            ("/a/..;x=1/b", None),
            ("/a\\..\\b", None),
            ("/public/..%2fadmin", None),
            ("/public/x%2F..%2fadmin", None),
            ("/public/..%5cadmin", None),
            ("/public/..%3bx/admin", None),
            ("/a%00", None),
            ("/a%2", None),
            ("/a%zz", None),
            ("/a%+1", None),
            ("*", None),
            ("", None),
        ] {
            assert_eq!(normalized(path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn a_prefix_is_one_of_whole_segments() {
        for (path, prefix, expected) in [
            ("/orders", "/orders", true),
            ("/orders/", "/orders", true),
            ("/orders/1", "/orders", true),
            ("/orders1", "/orders", false),
            ("/order", "/orders", false),
            ("/anything", "", true),
        ] {
            assert_eq!(has_prefix(path, prefix), expected, "{path} {prefix}");
        }
    }

    #[test]
    fn the_rest_stays_behind_another_prefix() {
        for (path, query, prefix, new, expected) in [
            ("/orders/1", Some("a=b"), "/orders", "", "/1?a=b"),
            ("/orders", None, "/orders", "", "/"),
            ("/orders/", Some(""), "/orders", "", "/"),
            ("/orders/1", None, "/orders", "/api/v2", "/api/v2/1"),
            ("/orders", None, "/orders", "/api", "/api"),
            ("/orders//evil.example", None, "/orders", "", "/evil.example"),
            ("/a", None, "", "/api", "/api/a"),
        ] {
            assert_eq!(replaced(path, query, prefix, new), expected, "{path}");
        }
    }

    proptest! {
        #[test]
        fn what_is_compared_is_compared_alike_again(path in "/[a-z%.0-9A-F/;]{0,30}") {
            if let Some(plain) = normalized(&path) {
                let again = normalized(&plain).map(Cow::into_owned);
                prop_assert_eq!(again.as_deref(), Some(&*plain));
            }
        }

        #[test]
        fn a_replaced_prefix_leaves_a_target(rest in "(/[a-z/]{0,9})?", new in "(/[a-z]{1,3})?") {
            let path = format!("/p{rest}");
            let target = replaced(&path, None, "/p", &new);
            prop_assert!(target.starts_with('/') && !target.starts_with("//"));
        }
    }
}
