//! One thing that a server could do wrong: what is done to which part of which answers. No I/O.

use super::kind::Kind;
use super::message::{Answer, Datagram};
use super::place::{Place, alter};
use crate::json::{Json, parse};

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum How {
    /// The part is missing.
    Dropped,
    /// It is there as another type.
    Retyped,
    /// It has another value, or another order.
    Altered,
    /// Pushes come so many seconds later.
    PushLate(u64),
    /// These pushes don't come.
    PushLost(Lost),
    /// What wasn't acknowledged is sent again otherwise than it should be.
    Resend(Resend),
}

/// Which pushes of a subscription don't come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lost {
    /// None comes.
    All,
    /// The first doesn't.
    First,
    /// All but the first don't.
    Later,
    /// Every second doesn't.
    Second,
    /// Those of more than 1 KiB don't.
    Large,
}

/// What is wrong with the second sending of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resend {
    /// There is none.
    Missing,
    /// It is damaged.
    Damaged,
    /// It comes six seconds too late.
    Late,
    /// It comes twice.
    Double,
    /// It comes although the push was acknowledged.
    Unasked,
}

impl How {
    /// What can be done to a part of an answer.
    pub const OF_PARTS: [Self; 3] = [Self::Dropped, Self::Retyped, Self::Altered];

    /// What can be done to pushes as a whole.
    pub const OF_PUSHES: [Self; 15] = [
        Self::PushLate(3),
        Self::PushLate(4),
        Self::PushLate(5),
        Self::PushLate(6),
        Self::PushLate(8),
        Self::PushLost(Lost::All),
        Self::PushLost(Lost::First),
        Self::PushLost(Lost::Later),
        Self::PushLost(Lost::Second),
        Self::PushLost(Lost::Large),
        Self::Resend(Resend::Missing),
        Self::Resend(Resend::Damaged),
        Self::Resend(Resend::Late),
        Self::Resend(Resend::Double),
        Self::Resend(Resend::Unasked),
    ];

    /// The group that it is counted in.
    pub fn group(self) -> &'static str {
        match self {
            Self::Dropped => "dropped",
            Self::Retyped => "retyped",
            Self::Altered => "altered",
            Self::PushLate(_) => "push late",
            Self::PushLost(_) => "push lost",
            Self::Resend(_) => "push not sent again as it should",
        }
    }

    /// Whether it is done to pushes as a whole.
    pub fn is_of_pushes(self) -> bool {
        !Self::OF_PARTS.contains(&self)
    }
}

/// One thing that a server could do wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// In the answers to this.
    pub kind: Kind,
    /// In this part of them.
    pub place: Place,
    /// This.
    pub how: How,
}

impl std::fmt::Display for Change {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.how {
            How::Dropped | How::Retyped | How::Altered => {
                write!(out, "{}: {} {}", self.kind, self.place, self.how.group())
            }
            How::PushLate(seconds) => write!(out, "pushes come {seconds} s late"),
            How::PushLost(lost) => write!(out, "pushes are lost: {}", format!("{lost:?}").to_lowercase()),
            How::Resend(what) => write!(out, "sent again: {}", format!("{what:?}").to_lowercase()),
        }
    }
}

impl Change {
    /// Does it to an answer; tells whether that is now another one.
    pub fn to_answer(&self, kind: &Kind, answer: &mut Answer) -> bool {
        if *kind != self.kind {
            return false;
        }
        match (&self.place, self.how) {
            (Place::Status, _) => {
                answer.status = if answer.status >= 400 { 200 } else { 500 };
                true
            }
            (Place::MediaType, How::Dropped) => answer.set_media_type(None),
            (Place::MediaType, _) => {
                let other = if answer.is_json() {
                    "text/html;charset=UTF-8"
                } else {
                    "application/json;charset=UTF-8"
                };
                answer.set_media_type(Some(other))
            }
            (Place::Text, how) => {
                let Some(text) = answer.text().filter(|text| parse(text).is_err() && !text.is_empty()) else {
                    return false;
                };
                answer.set_text(&match how {
                    How::Dropped => String::new(),
                    How::Retyped => format!("{{\"data\":{}}}", Json::Text(text).written()),
                    _ => format!("{text}x"),
                });
                true
            }
            (Place::Field(_), _) => match answer.text().and_then(|text| self.to_body(&text)) {
                Some(changed) => {
                    answer.set_text(&changed);
                    true
                }
                None => false,
            },
        }
    }

    /// Does it to what is pushed; tells whether that is now another.
    pub fn to_push(&self, push: &mut Datagram) -> bool {
        if self.kind != Kind::push() {
            return false;
        }
        match push.text().and_then(|text| self.to_body(&text)) {
            Some(changed) => {
                push.set_text(&changed);
                true
            }
            None => false,
        }
    }

    /// The body with the change done, unless it is then the same.
    fn to_body(&self, text: &str) -> Option<String> {
        let Place::Field(path) = &self.place else { return None };
        let mut body = parse(text).ok()?;
        let change: &dyn Fn(&Json) -> Option<Json> = match self.how {
            How::Dropped => &|_| None,
            How::Retyped => &|value| Some(retyped(value)),
            How::Altered => &|value| Some(altered(value)),
            _ => return None,
        };
        if !alter(&mut body, path, change) {
            return None;
        }
        Some(if path.is_empty() && self.how == How::Dropped { String::new() } else { body.written() })
    }
}

/// The value in another type, the nearest that a careless writer would use.
fn retyped(value: &Json) -> Json {
    match value {
        Json::Null => Json::Text("null".to_owned()),
        Json::Bool(_) | Json::Number(_) => Json::Text(value.to_string()),
        Json::Text(text) if text.parse::<i64>().is_ok() => Json::Number(text.clone()),
        Json::Text(text) => match parse(text) {
            Ok(inner @ (Json::Object(_) | Json::List(_))) => inner,
            _ => Json::Null,
        },
        Json::List(items) => {
            let pairs = items.iter().enumerate().map(|(at, item)| (at.to_string(), item.clone()));
            Json::Object(pairs.collect())
        }
        Json::Object(pairs) => Json::List(pairs.iter().map(|(_, value)| value.clone()).collect()),
        other @ (Json::Within(_) | Json::Any(_)) => other.clone(),
    }
}

/// Another value of the same type. Numbers that grow with time become negative, since one more of them is right, too.
fn altered(value: &Json) -> Json {
    match value {
        Json::Null => Json::Text("x".to_owned()),
        Json::Bool(value) => Json::Bool(!value),
        Json::Number(spelling) => Json::Number(another_number(spelling)),
        Json::Text(text) => match parse(text) {
            Ok(inner @ (Json::Object(_) | Json::List(_))) => Json::Text(altered(&inner).written()),
            _ => Json::Text(format!("{text}x")),
        },
        Json::List(items) if items.is_empty() => Json::List(vec![Json::Null]),
        Json::List(items) => Json::List(items[1..].to_vec()),
        Json::Object(pairs) if pairs.len() < 2 => {
            let mut pairs = pairs.clone();
            pairs.push(("surplus".to_owned(), Json::Null));
            Json::Object(pairs)
        }
        Json::Object(pairs) => Json::Object(pairs.iter().rev().cloned().collect()),
        other @ (Json::Within(_) | Json::Any(_)) => other.clone(),
    }
}

fn another_number(spelling: &str) -> String {
    match spelling.parse::<i64>() {
        Ok(number) if number > 1_000_000 => (-number).to_string(),
        Ok(number) => (number + 1).to_string(),
        // 1.0 is written 1, which Java's and Go's numbers would never be
        Err(_) => spelling.strip_suffix(".0").map_or_else(|| format!("1{spelling}"), str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(how: How, place: &str, body: &str) -> Option<String> {
        let place =
            Place::Field(place.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect());
        Change { kind: Kind::push(), place, how }.to_body(body)
    }

    #[test]
    fn a_part_is_dropped_retyped_or_altered() {
        let body = r#"{"a":1.0,"b":[{"c":true}],"d":"{\"e\":1}"}"#;
        let change = |how, place| made(how, place, body).unwrap();
        assert_eq!(change(How::Dropped, "a"), r#"{"b":[{"c":true}],"d":"{\"e\":1}"}"#);
        assert_eq!(change(How::Altered, "a"), r#"{"a":1,"b":[{"c":true}],"d":"{\"e\":1}"}"#);
        assert_eq!(change(How::Retyped, "b/*/c"), r#"{"a":1.0,"b":[{"c":"true"}],"d":"{\"e\":1}"}"#);
        assert_eq!(change(How::Altered, "d/~/e"), r#"{"a":1.0,"b":[{"c":true}],"d":"{\"e\":2}"}"#);
        assert_eq!(change(How::Retyped, "d"), r#"{"a":1.0,"b":[{"c":true}],"d":{"e":1}}"#);
        assert_eq!(change(How::Altered, ""), r#"{"d":"{\"e\":1}","b":[{"c":true}],"a":1.0}"#);
        assert_eq!(made(How::Dropped, "x", body), None);
        assert_eq!(made(How::Dropped, "", body).as_deref(), Some(""));
    }
}
