//! The type of a JSON value as a difference shows it. No I/O.

use crate::compare::Difference;
use crate::json::{Json, parse};

/// What stands in a difference where there is no such key.
pub const ABSENT: &str = "(absent)";

/// How the place of a difference ends that is about the order of keys.
pub const ORDER: &str = "(order of keys)";

/// The type of value that this text shows, if it shows one: the value itself, its kind in angle brackets, or a count of items.
pub fn kind(shown: &str) -> Option<&'static str> {
    match shown {
        "<a text>" | "<an MD5>" => return Some("a text"),
        "<a number>" | "<a negative number>" | "<a fraction>" => return Some("a number"),
        "<true or false>" => return Some("true or false"),
        "<null>" => return Some("null"),
        "<a list>" => return Some("a list"),
        "<an object>" => return Some("an object"),
        _ => {}
    }
    match parse(shown) {
        Ok(value) => Some(value.kind()),
        // a text as it is shown, whose escapes aren't JSON's
        Err(_) if shown.starts_with('"') => Some(Json::Text(String::new()).kind()),
        Err(_) if shown.split_once(" items: ").is_some_and(|(count, _)| count.parse::<usize>().is_ok()) => {
            Some(Json::List(Vec::new()).kind())
        }
        Err(_) => None,
    }
}

/// The types of both values, if both are shown and they aren't of the same; a whole number and a fraction aren't either.
pub fn other_type(one: &Difference) -> Option<[&'static str; 2]> {
    if !one.place.contains('/') {
        return None; // a status, a media type, a body that need not be JSON
    }
    match (kind(&one.want)?, kind(&one.got)?) {
        ("a number", "a number") => {
            let became = is_whole(&one.want) && !is_whole(&one.got);
            became.then_some(["a whole number", "a fraction"])
        }
        (want, got) if want == got => None,
        (want, got) => Some([want, got]),
    }
}

/// Whether a number is spelled as one that typed decoders take for an integer.
fn is_whole(number: &str) -> bool {
    match number.starts_with('<') {
        true => number != "<a fraction>",
        false => !number.contains(['.', 'e', 'E', 'N', 'I']),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(want: &str, got: &str) -> Option<[&'static str; 2]> {
        other_type(&Difference::new("body /a", &want, &got))
    }

    #[test]
    fn types_are_told_from_what_a_difference_shows() {
        for (want, got) in [
            ("\"a\"", "null"),
            ("1", "\"1\""),
            ("<an MD5>", "<a number>"),
            ("[1]", "{}"),
            ("2 items: [1,2]", "{\"0\":1}"),
            ("true", "1"),
            ("80", "80.0"),
            ("80", "8E1"),
            ("<a number>", "<a fraction>"),
        ] {
            assert!(types(want, got).is_some(), "{want} {got}");
        }
        for (want, got) in [
            ("\"a\"", "\"b\""),
            ("1.0", "1"),
            ("<an MD5>", "<a text>"),
            ("<a number>", "<a negative number>"),
            ("2 items: [1,2]", "1 items: [1]"),
            ("1", ABSENT),
        ] {
            assert_eq!(types(want, got), None, "{want} {got}");
        }
        assert_eq!(other_type(&Difference::new("status", &"200", &"\"x\"")), None);
    }
}
