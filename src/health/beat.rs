//! The body of a full beat: what a client says of its instance.
//!
//! Pure. Source: Nacos 1.4.8 naming module, client beat; compat file `beat`. That a beat makes no weightless, ipless or
//! persistent instance is ours (compat cases marked imp-5).

use serde_json::{Map, Value};

use crate::model::{
    Metadata,
    instance::{Description, HIGHEST_WEIGHT, InstanceKey},
};

/// A full beat.
#[derive(Debug, Clone, PartialEq)]
pub struct Beat {
    /// Address of the instance; may be empty.
    pub ip: String,
    /// Port of the instance.
    pub port: i32,
    cluster: Option<String>,
    weight: Option<f64>,
    metadata: Option<Metadata>,
    ephemeral: bool,
}

/// The text isn't a beat.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the beat can not be read: {0}")]
pub struct BeatError(String);

impl Beat {
    /// Reads a beat's JSON; the word `null` is no beat. Unknown fields are of no account, numbers may be texts.
    ///
    /// # Errors
    /// [`BeatError`] where it isn't an object with fields of the right kind.
    pub fn read(text: &str) -> Result<Option<Self>, BeatError> {
        let value: Value = serde_json::from_str(text).map_err(|error| BeatError(error.to_string()))?;
        match value {
            Value::Null => Ok(None),
            Value::Object(fields) => Self::from_fields(&fields).map(Some),
            _ => Err(BeatError("it is no object".into())),
        }
    }

    fn from_fields(fields: &Map<String, Value>) -> Result<Self, BeatError> {
        let ephemeral = match fields.get("ephemeral") {
            None | Some(Value::Null) => true,
            Some(Value::Bool(ephemeral)) => *ephemeral,
            Some(Value::String(text)) => text.eq_ignore_ascii_case("true"),
            Some(_) => return Err(wrong("ephemeral")),
        };
        let metadata = match fields.get("metadata") {
            None | Some(Value::Null) => None,
            Some(metadata) => Some(serde_json::from_value(metadata.clone()).map_err(|_| wrong("metadata"))?),
        };
        #[expect(clippy::cast_possible_truncation, reason = "a fraction is cut, as the reference does")]
        let port = number(fields, "port")?.map_or(0, |port| port as i32);
        Ok(Self {
            ip: text(fields, "ip")?.unwrap_or_default(),
            port,
            cluster: text(fields, "cluster")?,
            weight: number(fields, "weight")?,
            metadata,
            ephemeral,
        })
    }

    /// The cluster, where the beat names one.
    #[must_use]
    pub fn cluster(&self) -> Option<&str> {
        self.cluster.as_deref().filter(|cluster| !cluster.trim().is_empty())
    }

    /// Whether an unknown instance is registered from it: ephemeral ones with an address only.
    #[must_use]
    pub fn makes_an_instance(&self) -> bool {
        self.ephemeral && !self.ip.trim().is_empty()
    }

    /// The instance that it describes, in `cluster`.
    ///
    /// # Errors
    /// [`BeatError`] for a weight that no instance may have.
    pub fn describe<'a>(&'a self, cluster: &'a str) -> Result<Description<'a>, BeatError> {
        let weight = self.weight.unwrap_or(1.0);
        if weight.is_nan() || weight < 0.0 {
            return Err(BeatError(format!("weights range from 0.0 to {HIGHEST_WEIGHT:?}")));
        }
        Ok(Description {
            key: InstanceKey { ip: &self.ip, port: self.port, cluster },
            weight,
            metadata: self.metadata.clone().unwrap_or_default(),
            ..Description::new("", 0, "")
        })
    }
}

fn wrong(field: &str) -> BeatError {
    BeatError(format!("{field} is of the wrong kind"))
}

fn text(fields: &Map<String, Value>, field: &str) -> Result<Option<String>, BeatError> {
    match fields.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(Value::Bool(word)) => Ok(Some(word.to_string())),
        Some(_) => Err(wrong(field)),
    }
}

fn number(fields: &Map<String, Value>, field: &str) -> Result<Option<f64>, BeatError> {
    match fields.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Number(number)) => Ok(number.as_f64()),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
        Some(Value::String(text)) => {
            crate::base::java::parse_double(text).map(Some).ok_or_else(|| wrong(field))
        }
        Some(_) => Err(wrong(field)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Beat> {
        Beat::read(text).unwrap()
    }

    #[test]
    fn a_beat_is_read_leniently() {
        let beat =
            read(r#"{"ip":"1.1.1.1","port":"80","weight":"2","cluster":" ","more":[1],"scheduled":false}"#)
                .unwrap();
        let description = beat.describe("C").unwrap();
        assert_eq!((description.key.ip, description.key.port, description.key.cluster), ("1.1.1.1", 80, "C"));
        assert!((description.weight - 2.0).abs() < f64::EPSILON);
        assert_eq!(beat.cluster(), None);
        assert_eq!(read(r#"{"ip":"1.1.1.1","port":80.9}"#).unwrap().port, 80);
        assert_eq!(read("null"), None);
    }

    #[test]
    fn a_bare_beat_describes_weight_one_and_no_metadata() {
        let beat = read(r#"{"ip":"1.1.1.1","port":1}"#).unwrap();
        let description = beat.describe("DEFAULT").unwrap();
        assert!((description.weight - 1.0).abs() < f64::EPSILON);
        assert_eq!(description.metadata.json(), "{}");
        assert!(description.healthy && description.enabled && description.ephemeral);
    }

    #[test]
    fn neither_persistent_nor_ipless_instances_come_from_a_beat() {
        assert!(!read(r#"{"ip":"1.1.1.1","port":1,"ephemeral":false}"#).unwrap().makes_an_instance());
        assert!(!read(r#"{"port":1}"#).unwrap().makes_an_instance());
        assert!(read(r#"{"ip":"1.1.1.1"}"#).unwrap().makes_an_instance());
    }

    #[test]
    fn malformed_beats_are_errors() {
        for text in ["{bad", "[]", "1", r#"{"ip":{}}"#, r#"{"port":"x"}"#, r#"{"metadata":3}"#, "{} {}"] {
            assert!(Beat::read(text).is_err(), "{text}");
        }
        assert!(read(r#"{"ip":"1.1.1.1","weight":-5}"#).unwrap().describe("A").is_err());
    }
}
