//! The parts of an answer by name, in whatever depth: status, media type, every field of a body. No I/O.
//!
//! A name stands for all parts that are alike: `hosts/*/ip` for the address of each host, `*` for any key that belongs to
//! a run (names, addresses). `~` leads into a text that holds JSON itself.

use std::collections::BTreeSet;

use crate::json::{Json, parse};

/// Leads into a text that is JSON.
const INSIDE: &str = "~";

/// Any item of a list, any key that isn't a name of the API.
const ANY: &str = "*";

/// Keys below these are a user's, not the API's.
const OWN_KEYS: [&str; 4] = ["metadata", "metaDataMap", "doms", "services"];

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// The status.
    Status,
    /// The header that names the media type.
    MediaType,
    /// A body that is no JSON, as a whole.
    Text,
    /// A field, or with no segment the whole body.
    Field(Vec<String>),
}

impl std::fmt::Display for Place {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Status => out.write_str("status"),
            Self::MediaType => out.write_str("media type"),
            Self::Text => out.write_str("text"),
            Self::Field(path) if path.is_empty() => out.write_str("whole body"),
            Self::Field(path) => out.write_str(&path.join("/")),
        }
    }
}

impl Place {
    /// The name of the field itself.
    pub fn name(&self) -> &str {
        match self {
            Self::Field(path) => {
                path.iter().rev().find(|part| *part != ANY && *part != INSIDE).map_or("", String::as_str)
            }
            _ => "",
        }
    }
}

/// All fields of a body, each once.
pub fn places(body: &Json) -> BTreeSet<Place> {
    let mut found = BTreeSet::new();
    collect(body, &mut Vec::new(), &mut found);
    found
}

fn collect(value: &Json, path: &mut Vec<String>, found: &mut BTreeSet<Place>) {
    found.insert(Place::Field(path.clone()));
    let mut below = |path: &mut Vec<String>, segment: &str, value: &Json| {
        path.push(segment.to_owned());
        collect(value, path, found);
        path.pop();
    };
    match value {
        Json::List(items) => items.iter().for_each(|item| below(path, ANY, item)),
        Json::Object(pairs) => {
            let own = is_own(path.last());
            pairs.iter().for_each(|(key, value)| below(path, segment(key, own), value));
        }
        Json::Text(_) => {
            if let Some(inner) = inside(value) {
                below(path, INSIDE, &inner);
            }
        }
        _ => {}
    }
}

fn is_own(parent: Option<&String>) -> bool {
    parent.is_some_and(|parent| OWN_KEYS.contains(&&**parent))
}

fn segment(key: &str, own: bool) -> &str {
    let name = key.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    let token = key.len() >= 8 && key.starts_with('t') && key[..8].chars().all(|c| c.is_ascii_lowercase());
    let token = token && !key.chars().any(char::is_uppercase);
    if own || !name || token && key != "timestamp" { ANY } else { key }
}

/// The JSON that a text holds.
fn inside(value: &Json) -> Option<Json> {
    match value {
        Json::Text(text) if text.starts_with(['{', '[']) => parse(text).ok(),
        _ => None,
    }
}

/// Replaces every value at that place by what `change` makes of it; `None` takes it away. Tells whether there was one
/// that became another.
pub fn alter(body: &mut Json, path: &[String], change: &dyn Fn(&Json) -> Option<Json>) -> bool {
    // What is taken away as a whole leaves nothing.
    step(body, path, false, change).unwrap_or_else(|| {
        *body = Json::Null;
        true
    })
}

/// `None` if the value is to be taken away.
fn step(
    value: &mut Json,
    path: &[String],
    own: bool,
    change: &dyn Fn(&Json) -> Option<Json>,
) -> Option<bool> {
    let Some((first, rest)) = path.split_first() else {
        let changed = change(value)?;
        let differs = changed != *value;
        *value = changed;
        return Some(differs);
    };
    let own_below = is_own(Some(first));
    let mut any = false;
    match value {
        Json::List(items) if first == ANY => {
            items.retain_mut(|item| keep(item, rest, own_below, change, &mut any));
        }
        Json::Object(pairs) => {
            pairs.retain_mut(|(key, value)| {
                segment(key, own) != first || keep(value, rest, own_below, change, &mut any)
            });
        }
        Json::Text(_) if first == INSIDE => {
            if let Some(mut inner) = inside(value) {
                any = step(&mut inner, rest, false, change)?;
                if any {
                    *value = Json::Text(inner.written());
                }
            }
        }
        _ => {}
    }
    Some(any)
}

fn keep(
    value: &mut Json,
    rest: &[String],
    own: bool,
    change: &dyn Fn(&Json) -> Option<Json>,
    any: &mut bool,
) -> bool {
    let kept = step(value, rest, own, change);
    *any |= kept.unwrap_or(true);
    kept.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str =
        r#"{"name":"G@@a","hosts":[{"ip":"1","metadata":{"k":"v"}},{"ip":"2"}],"data":"{\"b\":1}"}"#;

    fn path(text: &str) -> Vec<String> {
        text.split('/').map(str::to_owned).collect()
    }

    #[test]
    fn every_field_has_one_name() {
        let found: Vec<String> = places(&parse(BODY).unwrap()).iter().map(Place::to_string).collect();
        assert_eq!(
            found,
            [
                "whole body",
                "data",
                "data/~",
                "data/~/b",
                "hosts",
                "hosts/*",
                "hosts/*/ip",
                "hosts/*/metadata",
                "hosts/*/metadata/*",
                "name"
            ]
        );
    }

    #[test]
    fn a_value_is_changed_or_taken_away_wherever_it_is() {
        let mut body = parse(BODY).unwrap();
        assert!(alter(&mut body, &path("hosts/*/ip"), &|_| None));
        assert!(alter(&mut body, &path("hosts/*/metadata/*"), &|_| Some(Json::Null)));
        assert!(alter(&mut body, &path("data/~/b"), &|_| Some(Json::Number("2".into()))));
        assert!(!alter(&mut body, &path("nothing"), &|_| None));
        assert_eq!(
            body.written(),
            r#"{"name":"G@@a","hosts":[{"metadata":{"k":null}},{}],"data":"{\"b\":2}"}"#
        );
    }
}
