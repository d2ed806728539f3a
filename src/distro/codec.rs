//! Data as peers send them, read leniently: the documents of the v1 wire.
//!
//! Pure. Source: Nacos 1.4.8 naming module, datum and instance as its JSON mapper reads them; compat file
//! `distro-data`. The fields whose names begin with `nacre` are ours.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};

use crate::{
    base::{
        clock::{Millis, Reading},
        jackson::{self, Scalar, WrongKind},
        json::Object,
    },
    model::{
        Instance, Metadata,
        entry::DEFAULT_APP,
        instance::{Description, HIGHEST_WEIGHT, InstanceId, InstanceKey},
        name::DEFAULT_CLUSTER,
    },
};

/// Data as received: keys with what stands under them, in order.
#[derive(Debug)]
pub struct Data<'a>(pub Vec<(String, Option<Object<Datum<'a>>>)>);

/// A datum as received.
#[derive(Debug, Deserialize)]
pub struct Datum<'a> {
    /// Where the list is stored; should equal the key that the datum stands under.
    pub key: Option<String>,
    /// The list.
    #[serde(borrow)]
    pub value: Option<Object<InstanceList<'a>>>,
}

/// A list as received.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceList<'a> {
    /// The instances; absent or null is an empty list.
    #[serde(default, borrow)]
    pub instance_list: Option<Vec<Option<WireInstance<'a>>>>,
}

/// An instance as received, with its fields as they came; any may be missing or null.
#[derive(Debug, Default)]
pub struct WireInstance<'a> {
    instance_id: Scalar<'a>,
    ip: Scalar<'a>,
    port: Scalar<'a>,
    weight: Scalar<'a>,
    healthy: Scalar<'a>,
    enabled: Scalar<'a>,
    cluster_name: Scalar<'a>,
    metadata: Scalar<'a>,
    last_beat: Scalar<'a>,
    marked: Scalar<'a>,
    app: Scalar<'a>,
    stamp: Scalar<'a>,
    written: Scalar<'a>,
    age: Scalar<'a>,
}

impl<'de: 'a, 'a> Deserialize<'de> for WireInstance<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        jackson::read_fields(deserializer, |instance: &mut Self, name, value| match name {
            "instanceId" => instance.instance_id = value,
            "ip" => instance.ip = value,
            "port" => instance.port = value,
            "weight" => instance.weight = value,
            "healthy" => instance.healthy = value,
            "enabled" => instance.enabled = value,
            "clusterName" => instance.cluster_name = value,
            "metadata" => instance.metadata = value,
            "lastBeat" => instance.last_beat = value,
            "marked" => instance.marked = value,
            "app" => instance.app = value,
            "nacreStamp" => instance.stamp = value,
            "nacreWritten" => instance.written = value,
            "nacreAge" => instance.age = value,
            _ => {}
        })
    }
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
    /// It is a number that can't be.
    #[error("an instance has a {0} that can not be true: {1}")]
    Range(&'static str, i64),
}

/// A stamp may be ahead of our wall clock by this, in milliseconds; one that is further ahead would win for ever.
const MOST_AHEAD_MS: u64 = 24 * 60 * 60 * 1_000;

/// A stamp of a Nacre member.
///
/// # Errors
/// [`FieldError`]: none, no number, below 1, more than a day ahead of our clock.
pub(super) fn stamp(field: Scalar<'_>, name: &'static str, at: Reading) -> Result<u64, FieldError> {
    let given = field.long().map_err(|_| FieldError::Kind(name))?.ok_or(FieldError::Missing(name))?;
    let stamp = u64::try_from(given).ok().filter(|stamp| *stamp > 0);
    stamp
        .filter(|stamp| *stamp <= at.wall_ms.saturating_add(MOST_AHEAD_MS))
        .ok_or(FieldError::Range(name, given))
}

/// The stamp of an earlier write, where there was one.
///
/// # Errors
/// As [`stamp`], but for none.
pub(super) fn written(field: Scalar<'_>, name: &'static str, at: Reading) -> Result<Option<u64>, FieldError> {
    match stamp(field, name, at) {
        Ok(stamp) => Ok(Some(stamp)),
        Err(FieldError::Missing(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The moment that was as long ago as a Nacre member says.
///
/// # Errors
/// [`FieldError`]: none, no number, in the future, before there was time.
pub(super) fn moment_ago(field: Scalar<'_>, name: &'static str, at: Reading) -> Result<Millis, FieldError> {
    let given = field.long().map_err(|_| FieldError::Kind(name))?.ok_or(FieldError::Missing(name))?;
    let age = u64::try_from(given).ok().filter(|age| *age <= at.now.0);
    age.map(|age| at.now.minus(age)).ok_or(FieldError::Range(name, given))
}

impl WireInstance<'_> {
    /// The instance, for the ephemeral list of the service `name`.
    ///
    /// A beat that is dated in the future counts as now, weights outside 0 to 10,000 as the nearest limit, and one
    /// that is no number as 1.
    ///
    /// # Errors
    /// [`FieldError`].
    pub fn into_instance(self, name: &str, at: Reading) -> Result<Instance, FieldError> {
        self.read(name, at)
    }

    /// The instance as a Nacre member tells of it: with its stamp, and with the age of its last beat in the place of the
    /// date.
    ///
    /// # Errors
    /// [`FieldError`].
    pub fn into_stamped(self, name: &str, at: Reading) -> Result<Instance, FieldError> {
        let written = written(self.written, "nacreWritten", at)?;
        let stamp = stamp(self.stamp, "nacreStamp", at)?;
        let beaten = moment_ago(self.age, "nacreAge", at)?;
        let mut instance = self.read(name, at)?;
        instance.set_stamp(stamp);
        instance.set_written(written.unwrap_or(stamp));
        instance.beat(beaten);
        Ok(instance)
    }

    fn read(self, name: &str, at: Reading) -> Result<Instance, FieldError> {
        let text = |field: Scalar<'_>, name| match field.text() {
            Ok(text) => Ok(text.map(Cow::into_owned)),
            Err(WrongKind) => Err(FieldError::Kind(name)),
        };
        let truth = |field: Scalar<'_>, name| field.boolean().map_err(|_| FieldError::Kind(name));
        let ip = text(self.ip, "ip")?.filter(|ip| !ip.is_empty()).ok_or(FieldError::Missing("ip"))?;
        let port = self.port.integer().map_err(|_| FieldError::Kind("port"))?.unwrap_or(0);
        let weight = self.weight.double().map_err(|_| FieldError::Kind("weight"))?.unwrap_or(1.0);
        let cluster = text(self.cluster_name, "clusterName")?.filter(|name| !name.trim().is_empty());
        let metadata = self.metadata.raw().map_or(Ok(Metadata::default()), serde_json::from_str);
        let app = text(self.app, "app")?;
        let description = Description {
            key: InstanceKey { ip: &ip, port, cluster: cluster.as_deref().unwrap_or(DEFAULT_CLUSTER) },
            weight: if weight.is_nan() { 1.0 } else { weight.clamp(0.0, HIGHEST_WEIGHT) },
            enabled: truth(self.enabled, "enabled")?.unwrap_or(true),
            healthy: truth(self.healthy, "healthy")?.unwrap_or(true),
            ephemeral: true,
            metadata: metadata.map_err(|_| FieldError::Kind("metadata"))?,
            app: app.as_deref().filter(|app| *app != DEFAULT_APP),
        };
        let last_beat = self.last_beat.long().map_err(|_| FieldError::Kind("lastBeat"))?;
        let beaten = last_beat.map_or(at.now, |wall_ms| moment(at, wall_ms));
        let mut instance = Instance::new(description, InstanceId::Simple, beaten);
        instance.marked = truth(self.marked, "marked")?.unwrap_or(false);
        instance.id = match text(self.instance_id, "instanceId")? {
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

impl<'de: 'a, 'a> Deserialize<'de> for Data<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Data<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object of data")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Data<'de>, A::Error> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{base::json, distro::whole_instance::WholeInstance};

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
        for (given, shown) in [
            ("\"NaN\"", "1.0"),
            ("-5", "0.0"),
            ("20000", "10000.0"),
            ("1.0E-4", "0.01"),
            ("\"2\"", "2.0"),
            ("\"\"", "0.0"),
        ] {
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
        for text in [r#"{"ip":["a"]}"#, r#"{"ip":"a","metadata":{"x":{}}}"#, "5", "[]"] {
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
