//! How the persistent instances of a cluster are checked, as a definition says it.
//!
//! Pure. Source: Nacos 1.4.8 naming API, health checkers and their JSON mapper; compat file `cluster-update`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Status that an HTTP checker shows unless another is given.
const EXPECTED_RESPONSE_CODE: i32 = 200;

/// How the persistent instances of a cluster are checked; fields stand in wire order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "UPPERCASE")]
pub enum HealthChecker {
    /// By connecting.
    #[default]
    Tcp,
    /// By a GET request.
    Http {
        /// Path of the request.
        path: String,
        /// Headers as `a:b|c:d`.
        headers: String,
        /// Kept and shown; the reference doesn't heed it.
        #[serde(rename = "expectedResponseCode")]
        expected_response_code: i32,
    },
    /// By a statement in a MySQL server.
    Mysql {
        /// User name.
        #[serde(skip_serializing_if = "Option::is_none")]
        user: Option<String>,
        /// Password, shown to whoever asks.
        #[serde(skip_serializing_if = "Option::is_none")]
        pwd: Option<String>,
        /// Statement.
        #[serde(skip_serializing_if = "Option::is_none")]
        cmd: Option<String>,
    },
    /// Not at all: health is what `PUT /health/instance` says.
    None,
}

/// The text describes no checker.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the health checker can not be read: {0}")]
pub struct HealthCheckerError(String);

impl HealthChecker {
    /// Reads the value of a `healthChecker` parameter; the word `null` is no checker.
    ///
    /// A type that is missing or isn't known, as it is written in other letters too, means no checks. Other fields than
    /// the type's own are of no account, as is what follows the object; scalars may be spelled as texts.
    ///
    /// # Errors
    /// [`HealthCheckerError`] where it is no JSON object, or a field of the type is of the wrong kind.
    pub fn read(text: &str) -> Result<Option<Self>, HealthCheckerError> {
        let value = Value::deserialize(&mut serde_json::Deserializer::from_str(text));
        match value.map_err(|error| HealthCheckerError(error.to_string()))? {
            Value::Null => Ok(None),
            Value::Object(fields) => Self::from_fields(&fields).map(Some),
            _ => Err(HealthCheckerError("it is no object".into())),
        }
    }

    fn from_fields(fields: &Map<String, Value>) -> Result<Self, HealthCheckerError> {
        Ok(match fields.get("type").and_then(Value::as_str) {
            Some("TCP") => Self::Tcp,
            Some("HTTP") => Self::Http {
                path: text(fields, "path")?.unwrap_or_default(),
                headers: text(fields, "headers")?.unwrap_or_default(),
                expected_response_code: integer(fields, "expectedResponseCode")?,
            },
            Some("MYSQL") => Self::Mysql {
                user: text(fields, "user")?,
                pwd: text(fields, "pwd")?,
                cmd: text(fields, "cmd")?,
            },
            _ => Self::None,
        })
    }
}

fn wrong(field: &str) -> HealthCheckerError {
    HealthCheckerError(format!("{field} is of the wrong kind"))
}

fn text(fields: &Map<String, Value>, field: &str) -> Result<Option<String>, HealthCheckerError> {
    match fields.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(Value::Bool(word)) => Ok(Some(word.to_string())),
        Some(_) => Err(wrong(field)),
    }
}

/// A 32-bit number; a fraction is cut, null and an empty text are zero, as the reference's mapper has it.
fn integer(fields: &Map<String, Value>, field: &str) -> Result<i32, HealthCheckerError> {
    let number = match fields.get(field) {
        None => return Ok(EXPECTED_RESPONSE_CODE),
        Some(Value::Null) => Some(0),
        Some(Value::String(text)) if text.trim().is_empty() => Some(0),
        Some(Value::String(text)) => crate::base::java::parse_int(text.trim()),
        Some(Value::Number(number)) => match number.as_i64() {
            Some(whole) => i32::try_from(whole).ok(),
            None => number.as_f64().map(f64::trunc).filter(|cut| cut.abs() <= f64::from(i32::MAX)).map(cut),
        },
        Some(_) => None,
    };
    number.ok_or_else(|| wrong(field))
}

#[expect(clippy::cast_possible_truncation, reason = "whole and within the range")]
fn cut(number: f64) -> i32 {
    number as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        match HealthChecker::read(text) {
            Ok(checker) => serde_json::to_string(&checker).unwrap(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn known_types_have_their_own_fields() {
        assert_eq!(read(r#"{"type":"TCP","x":1}"#), r#"{"type":"TCP"}"#);
        assert_eq!(
            read(r#"{"expectedResponseCode":"204","type":"HTTP","path":"/h"} and more"#),
            r#"{"type":"HTTP","path":"/h","headers":"","expectedResponseCode":204}"#
        );
        assert_eq!(
            read(r#"{"type":"HTTP"}"#),
            r#"{"type":"HTTP","path":"","headers":"","expectedResponseCode":200}"#
        );
        assert_eq!(
            read(r#"{"type":"MYSQL","user":"u","pwd":1}"#),
            r#"{"type":"MYSQL","user":"u","pwd":"1"}"#
        );
    }

    #[test]
    fn every_other_type_is_none_and_null_is_nothing() {
        for text in ["{}", r#"{"type":"tcp"}"#, r#"{"type":"FTP"}"#, r#"{"type":1}"#, r#"{"type":null}"#] {
            assert_eq!(read(text), r#"{"type":"NONE"}"#, "{text}");
        }
        assert_eq!(read("null"), "null");
    }

    #[test]
    fn what_is_malformed_is_an_error() {
        let wrong = [
            "abc",
            "[]",
            "1",
            r#""TCP""#,
            r#"{"type":"TCP""#,
            r#"{"type":"HTTP","expectedResponseCode":"abc"}"#,
            r#"{"type":"HTTP","expectedResponseCode":99999999999}"#,
            r#"{"type":"HTTP","expectedResponseCode":true}"#,
            r#"{"type":"HTTP","path":{}}"#,
        ];
        for text in wrong {
            assert!(HealthChecker::read(text).is_err(), "{text}");
        }
        assert!(read(r#"{"type":"HTTP","expectedResponseCode":204.9}"#).contains("204}"));
    }
}
