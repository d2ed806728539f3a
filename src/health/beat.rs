//! The body of a full beat: what a client says of its instance.
//!
//! Pure. Source: Nacos 1.4.8 naming module, client beat; compat file `beat`. That a beat makes no weightless, ipless or
//! persistent instance is ours (compat cases marked imp-5).

use std::borrow::Cow;

use serde::Deserialize;

use crate::{
    base::jackson::{self, Scalar},
    model::{
        Metadata,
        instance::{Description, HIGHEST_WEIGHT, InstanceKey},
    },
};

/// A full beat; borrows from its text.
#[derive(Debug, Clone, PartialEq)]
pub struct Beat<'a> {
    /// Address of the instance; may be empty.
    pub ip: Cow<'a, str>,
    /// Port of the instance.
    pub port: i32,
    cluster: Option<Cow<'a, str>>,
    weight: Option<f64>,
    /// A JSON object of scalars; read only when an instance is made of it.
    metadata: Option<&'a str>,
    ephemeral: bool,
}

/// The text isn't a beat.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the beat can not be read: {0}")]
pub struct BeatError(String);

/// The fields that count, as they came.
#[derive(Default)]
struct Fields<'a> {
    ip: Scalar<'a>,
    port: Scalar<'a>,
    cluster: Scalar<'a>,
    weight: Scalar<'a>,
    metadata: Scalar<'a>,
    ephemeral: Scalar<'a>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        jackson::read_fields(deserializer, |fields: &mut Self, name, value| match name {
            "ip" => fields.ip = value,
            "port" => fields.port = value,
            "cluster" => fields.cluster = value,
            "weight" => fields.weight = value,
            "metadata" => fields.metadata = value,
            "ephemeral" => fields.ephemeral = value,
            _ => {}
        })
    }
}

impl<'a> Beat<'a> {
    /// Reads a beat's JSON; the word `null` is no beat. Unknown fields are of no account, numbers may be texts.
    ///
    /// # Errors
    /// [`BeatError`] where it isn't an object with fields of the right kind.
    pub fn read(text: &'a str) -> Result<Option<Self>, BeatError> {
        let fields: Option<Fields<'a>> =
            serde_json::from_str(text).map_err(|error| BeatError(error.to_string()))?;
        fields.map(|fields| Self::of(&fields)).transpose()
    }

    fn of(fields: &Fields<'a>) -> Result<Self, BeatError> {
        let metadata = fields.metadata.raw();
        if !metadata.is_none_or(jackson::is_object_of_scalars) {
            return Err(wrong("metadata"));
        }
        Ok(Self {
            ip: fields.ip.text().map_err(|_| wrong("ip"))?.unwrap_or_default(),
            port: fields.port.integer().map_err(|_| wrong("port"))?.unwrap_or(0),
            cluster: fields.cluster.text().map_err(|_| wrong("cluster"))?,
            // A blank makes no weightless or persistent instance either.
            weight: fields.weight.unless_blank().double().map_err(|_| wrong("weight"))?,
            metadata,
            ephemeral: fields
                .ephemeral
                .unless_blank()
                .boolean()
                .map_err(|_| wrong("ephemeral"))?
                .unwrap_or(true),
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
    pub fn describe<'b>(&'b self, cluster: &'b str) -> Result<Description<'b>, BeatError> {
        let weight = self.weight.unwrap_or(1.0);
        if weight.is_nan() || weight < 0.0 {
            return Err(BeatError(format!("weights range from 0.0 to {HIGHEST_WEIGHT:?}")));
        }
        let metadata = self.metadata.map_or(Ok(Metadata::default()), serde_json::from_str);
        Ok(Description {
            key: InstanceKey { ip: &self.ip, port: self.port, cluster },
            weight,
            metadata: metadata.map_err(|_| wrong("metadata"))?,
            ..Description::new("", 0, "")
        })
    }
}

fn wrong(field: &str) -> BeatError {
    BeatError(format!("{field} is of the wrong kind"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Beat<'_>> {
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
