//! The documents of the v1 wire: data as peers send them, read leniently and written as the reference writes them.
//!
//! Pure. Source: Nacos 1.4.8 naming module, datum and instance as its JSON mapper reads and writes them; compat file
//! `distro-data`.

use std::{fmt, sync::Arc};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
    ser::SerializeMap as _,
};

use super::{
    key,
    whole_instance::{DEFAULT_APP, WholeInstance},
};
use crate::{
    base::{
        clock::{Millis, Reading},
        java,
        json::Object,
    },
    model::{
        Instance, Metadata, Service,
        instance::{Description, HIGHEST_WEIGHT, InstanceId, InstanceKey},
        name::DEFAULT_CLUSTER,
    },
};

/// What every stored datum shows as its time: it is compared with nothing.
const TIMESTAMP: u32 = 1;

/// Data as received: keys with what stands under them, in order.
#[derive(Debug)]
pub struct Data(pub Vec<(String, Option<Object<Datum>>)>);

/// A datum as received.
#[derive(Debug, Deserialize)]
pub struct Datum {
    /// Where the list is stored; should equal the key that the datum stands under.
    pub key: Option<String>,
    /// The list.
    pub value: Option<Object<InstanceList>>,
}

/// A list as received.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceList {
    /// The instances; absent or null is an empty list.
    #[serde(default)]
    pub instance_list: Option<Vec<Option<Object<WireInstance>>>>,
}

/// An instance as received: any field may be missing or null, scalars may come as texts.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WireInstance {
    instance_id: Option<Scalar>,
    ip: Option<Scalar>,
    port: Option<Scalar>,
    weight: Option<Scalar>,
    healthy: Option<Scalar>,
    enabled: Option<Scalar>,
    cluster_name: Option<Scalar>,
    metadata: Metadata,
    last_beat: Option<Scalar>,
    marked: Option<Scalar>,
    app: Option<Scalar>,
}

/// A field of an instance isn't what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// It isn't there and has no default.
    #[error("an instance has no {0}")]
    Missing(&'static str),
    /// It is of another kind.
    #[error("an instance has a {0} that can not be read")]
    Kind(&'static str),
}

impl WireInstance {
    /// The instance, for the ephemeral list of the service `name`.
    ///
    /// A beat that is dated in the future counts as now, weights outside 0 to 10,000 as the nearest limit, and one
    /// that is no number as 1.
    ///
    /// # Errors
    /// [`FieldError`].
    pub fn into_instance(self, name: &str, at: Reading) -> Result<Instance, FieldError> {
        let ip =
            self.ip.map(Scalar::into_text).filter(|ip| !ip.is_empty()).ok_or(FieldError::Missing("ip"))?;
        let port = self.port.map_or(Ok(0), |port| port.to_int().ok_or(FieldError::Kind("port")))?;
        let weight =
            self.weight.map_or(Ok(1.0), |weight| weight.to_double().ok_or(FieldError::Kind("weight")))?;
        let cluster = self.cluster_name.map(Scalar::into_text).filter(|name| !name.trim().is_empty());
        let truth = |field: Option<Scalar>, name, default| match field {
            Some(field) => field.to_bool().ok_or(FieldError::Kind(name)),
            None => Ok(default),
        };
        let app = self.app.map(Scalar::into_text);
        let description = Description {
            key: InstanceKey { ip: &ip, port, cluster: cluster.as_deref().unwrap_or(DEFAULT_CLUSTER) },
            weight: if weight.is_nan() { 1.0 } else { weight.clamp(0.0, HIGHEST_WEIGHT) },
            enabled: truth(self.enabled, "enabled", true)?,
            healthy: truth(self.healthy, "healthy", true)?,
            ephemeral: true,
            metadata: self.metadata,
            app: app.as_deref().filter(|app| *app != DEFAULT_APP),
        };
        let last_beat = self.last_beat.map(|beat| beat.to_long().ok_or(FieldError::Kind("lastBeat")));
        let beaten = last_beat.transpose()?.map_or(at.now, |wall_ms| moment(at, wall_ms));
        let mut instance = Instance::new(description, InstanceId::Simple, beaten);
        instance.marked = truth(self.marked, "marked", false)?;
        instance.id = match self.instance_id.map(Scalar::into_text) {
            None => InstanceId::Missing,
            Some(id) if instance.id_text(name).as_deref() == Some(&id) => InstanceId::Simple,
            Some(id) => InstanceId::Given(id.into()),
        };
        Ok(instance)
    }
}

/// The monotonic moment of a wall time that isn't later than now.
fn moment(at: Reading, wall_ms: i64) -> Millis {
    let age = at.wall_ms.saturating_sub(u64::try_from(wall_ms).unwrap_or(0));
    Millis(at.now.0.saturating_sub(age))
}

/// A scalar that the reference's mapper turns into the kind that a field has.
#[derive(Debug)]
enum Scalar {
    Text(String),
    Int(i64),
    Float(f64),
    Bool(bool),
}

impl Scalar {
    fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Int(number) => number.to_string(),
            Self::Float(number) => java::double_text(number),
            Self::Bool(truth) => truth.to_string(),
        }
    }

    fn to_long(&self) -> Option<i64> {
        match self {
            Self::Text(text) if text.trim().is_empty() => Some(0),
            Self::Text(text) => java::parse_long(text.trim()),
            Self::Int(number) => Some(*number),
            #[expect(
                clippy::cast_possible_truncation,
                reason = "fractions are cut off, too large ones end at the limit"
            )]
            Self::Float(number) => Some(*number as i64),
            Self::Bool(_) => None,
        }
    }

    fn to_int(&self) -> Option<i32> {
        self.to_long().and_then(|number| number.try_into().ok())
    }

    fn to_double(&self) -> Option<f64> {
        match self {
            Self::Text(text) if text.trim().is_empty() => Some(0.0),
            Self::Text(text) => java::parse_double(text),
            #[expect(clippy::cast_precision_loss, reason = "weights have few digits")]
            Self::Int(number) => Some(*number as f64),
            Self::Float(number) => Some(*number),
            Self::Bool(_) => None,
        }
    }

    fn to_bool(&self) -> Option<bool> {
        match self {
            Self::Text(text) => match text.trim() {
                "true" | "True" | "TRUE" => Some(true),
                "" | "false" | "False" | "FALSE" => Some(false),
                _ => None,
            },
            Self::Int(number) => Some(*number != 0),
            Self::Float(_) => None,
            Self::Bool(truth) => Some(*truth),
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyScalar;
        impl Visitor<'_> for AnyScalar {
            type Value = Scalar;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a text, a number or a boolean")
            }

            fn visit_bool<E>(self, value: bool) -> Result<Scalar, E> {
                Ok(Scalar::Bool(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Scalar, E> {
                Ok(Scalar::Int(value))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Scalar, E> {
                Ok(Scalar::Int(value.try_into().unwrap_or(i64::MAX)))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Scalar, E> {
                Ok(Scalar::Float(value))
            }

            fn visit_str<E>(self, value: &str) -> Result<Scalar, E> {
                Ok(Scalar::Text(value.into()))
            }

            fn visit_string<E>(self, value: String) -> Result<Scalar, E> {
                Ok(Scalar::Text(value))
            }
        }
        deserializer.deserialize_any(AnyScalar)
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Data;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object of data")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Data, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Data(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// The ephemeral lists of services as an object of data.
pub struct ShownData<'a> {
    /// The services.
    pub services: &'a [Arc<Service>],
    /// For the times of the beats.
    pub at: Reading,
}

impl Serialize for ShownData<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.services.len()))?;
        for service in self.services {
            let state = service.state();
            let name = &*service.key.name;
            let list = state.ephemeral.iter().map(|instance| WholeInstance::of(instance, name, self.at));
            let key = key::of(service.key.place());
            let value = ShownList { instance_list: list.collect() };
            map.serialize_entry(&key, &ShownDatum { key: &key, value, timestamp: TIMESTAMP })?;
        }
        map.end()
    }
}

#[derive(Serialize)]
struct ShownDatum<'a> {
    key: &'a str,
    value: ShownList<'a>,
    timestamp: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownList<'a> {
    instance_list: Vec<WholeInstance<'a>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::json;

    /// Reads an instance and writes it again.
    fn round(text: &str) -> Result<String, String> {
        let at = Reading { now: Millis(1 << 40), wall_ms: 1_795_983_049_938 };
        let wire: WireInstance = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let instance = wire.into_instance("G@@s", at).map_err(|error| error.to_string())?;
        let bytes = json::to_bytes(&WholeInstance::of(&instance, "G@@s", at));
        Ok(String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn an_instance_comes_back_as_a_peer_sent_it() {
        let text = r#"{"instanceId":"10.0.0.7#8080#DEFAULT#G@@s","ip":"10.0.0.7","port":8080,"weight":1.0,"healthy":true,"enabled":false,"ephemeral":true,"clusterName":"DEFAULT","serviceName":"G@@s","metadata":{"a":"1"},"lastBeat":1795983049000,"marked":true,"app":"shop","instanceHeartBeatInterval":5000,"instanceHeartBeatTimeOut":15000,"ipDeleteTimeout":30000}"#;
        assert_eq!(round(text).as_deref(), Ok(text));
    }

    #[test]
    fn ip_and_port_are_enough() {
        let expected = r#"{"ip":"10.0.0.7","port":80,"weight":1.0,"healthy":true,"enabled":true,"ephemeral":true,"clusterName":"DEFAULT","serviceName":"G@@s","metadata":{},"lastBeat":1795983049938,"marked":false,"app":"DEFAULT","instanceHeartBeatInterval":5000,"instanceHeartBeatTimeOut":15000,"ipDeleteTimeout":30000,"instanceIdGenerator":"simple"}"#;
        assert_eq!(round(r#"{"ip":"10.0.0.7","port":80,"new":{"x":[1]}}"#).as_deref(), Ok(expected));
        let nulls =
            r#"{"ip":"10.0.0.7","port":"80","metadata":null,"weight":null,"healthy":"True","app":null}"#;
        assert_eq!(round(nulls).as_deref(), Ok(expected));
    }

    #[test]
    fn weights_become_numbers_within_the_limits() {
        for (given, shown) in
            [("\"NaN\"", "1.0"), ("-5", "0.0"), ("20000", "10000.0"), ("1.0E-4", "0.01"), ("\"2\"", "2.0")]
        {
            let text = round(&format!(r#"{{"ip":"a","port":1,"weight":{given}}}"#)).unwrap();
            assert!(text.contains(&format!("\"weight\":{shown},")), "{given}: {text}");
        }
    }

    #[test]
    fn a_beat_of_the_future_is_now_and_one_of_the_past_stays() {
        for (given, shown) in
            [(1_895_983_049_938_u64, 1_795_983_049_938_u64), (1_795_983_000_000, 1_795_983_000_000)]
        {
            let text = round(&format!(r#"{{"ip":"a","port":1,"lastBeat":{given}}}"#)).unwrap();
            assert!(text.contains(&format!("\"lastBeat\":{shown},")), "{text}");
        }
    }

    #[test]
    fn what_can_not_be_an_instance_is_refused() {
        for (text, reason) in [
            (r#"{"port":80}"#, "an instance has no ip"),
            (r#"{"ip":"a","port":"x"}"#, "an instance has a port that can not be read"),
            (r#"{"ip":"a","port":3000000000}"#, "an instance has a port that can not be read"),
            (r#"{"ip":"a","healthy":"maybe"}"#, "an instance has a healthy that can not be read"),
        ] {
            assert_eq!(round(text), Err(reason.into()), "{text}");
        }
        for text in [r#"{"ip":["a"]}"#, r#"{"ip":"a","metadata":{"x":{}}}"#, "5"] {
            assert!(round(text).is_err(), "{text}");
        }
    }

    #[test]
    fn data_keep_their_order() {
        let data: Data = serde_json::from_str(r#"{"b":null,"a":{"key":"k","timestamp":5}}"#).unwrap();
        let keys: Vec<_> = data.0.iter().map(|(key, datum)| (&**key, datum.is_some())).collect();
        assert_eq!(keys, [("b", false), ("a", true)]);
        assert!(serde_json::from_str::<Data>("[]").is_err());
    }
}
