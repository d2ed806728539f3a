//! What is persistent, and how it is written down.
//!
//! A [`Change`] is absolute ("this is so now"), so that applying it twice, or again at start, is the same as once.
//! Pure.

use serde::{Deserialize, Serialize};

use super::record::{Record, Table};
use crate::{
    base::clock::Millis,
    model::{
        Definition, Instance, InstanceKey, Metadata, ServiceKey,
        instance::{Description, InstanceId},
        namespaces::Namespace,
        switches::Switches,
    },
};

/// A change of persistent data.
#[derive(Debug)]
pub enum Change {
    /// A persistent instance is so now, health included.
    Instance(ServiceKey, Box<Instance>),
    /// A persistent instance is gone: its service, its key.
    NoInstance(ServiceKey, GoneInstance),
    /// A service has this definition now.
    Service(ServiceKey, Box<Definition>),
    /// A service is gone with all its instances, of which these were persistent.
    NoService(ServiceKey, Vec<GoneInstance>),
    /// A service that was found empty is gone, unless something was registered in it meanwhile.
    IdleService(ServiceKey),
    /// The switches stand so now.
    Switches(Box<Switches>),
    /// A namespace is so now.
    Namespace(Namespace),
    /// A namespace is gone.
    NoNamespace(String),
}

/// The key of an instance that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoneInstance {
    /// Its address.
    pub ip: String,
    /// Its port.
    pub port: i32,
    /// Its cluster.
    pub cluster: String,
}

impl GoneInstance {
    /// The key of `instance`.
    #[must_use]
    pub fn of(key: &InstanceKey<'_>) -> Self {
        Self { ip: key.ip.into(), port: key.port, cluster: key.cluster.into() }
    }

    /// The same, borrowed.
    #[must_use]
    pub fn key(&self) -> InstanceKey<'_> {
        InstanceKey { ip: &self.ip, port: self.port, cluster: &self.cluster }
    }
}

/// A value as it lies on disk. The place is part of it; the key only has to be unique.
#[derive(Serialize, Deserialize)]
struct Kept<T> {
    namespace: String,
    name: String,
    value: T,
}

#[derive(Serialize, Deserialize)]
struct KeptInstance {
    ip: String,
    port: i32,
    cluster: String,
    weight: f64,
    enabled: bool,
    healthy: bool,
    metadata: Metadata,
    #[serde(skip_serializing_if = "Option::is_none")]
    app: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
}

/// There is one set of switches.
const SWITCHES_KEY: &[u8] = b"switches";

impl Change {
    /// What it changes on disk.
    pub(super) fn records(&self) -> Vec<Record> {
        match self {
            Self::Instance(service, instance) => {
                let key = instance_key(service, &instance.key());
                vec![Record::put(Table::Instances, key, kept(service, &KeptInstance::of(instance)))]
            }
            Self::NoInstance(service, gone) => {
                vec![Record::delete(Table::Instances, instance_key(service, &gone.key()))]
            }
            Self::Service(service, definition) => {
                vec![Record::put(Table::Services, service_key(service), kept(service, definition))]
            }
            Self::NoService(service, instances) => {
                let instances = instances.iter().map(|gone| instance_key(service, &gone.key()));
                let mut records: Vec<_> =
                    instances.map(|key| Record::delete(Table::Instances, key)).collect();
                records.push(Record::delete(Table::Services, service_key(service)));
                records
            }
            Self::IdleService(service) => vec![Record::delete(Table::Services, service_key(service))],
            Self::Switches(switches) => vec![Record::put(Table::Switches, SWITCHES_KEY, json(switches))],
            Self::Namespace(namespace) => {
                vec![Record::put(Table::Namespaces, namespace.id.as_bytes(), json(namespace))]
            }
            Self::NoNamespace(id) => vec![Record::delete(Table::Namespaces, id.as_bytes())],
        }
    }

    /// Reads a value of `table` back.
    ///
    /// # Errors
    /// A text for the log where the bytes aren't what this version writes.
    pub(super) fn read(table: Table, value: &[u8], now: Millis) -> serde_json::Result<Self> {
        Ok(match table {
            Table::Instances => {
                let Kept { namespace, name, value } = serde_json::from_slice::<Kept<KeptInstance>>(value)?;
                Self::Instance(ServiceKey::new(&namespace, &name), Box::new(value.into_instance(now)))
            }
            Table::Services => {
                let Kept { namespace, name, value } = serde_json::from_slice::<Kept<Definition>>(value)?;
                Self::Service(ServiceKey::new(&namespace, &name), Box::new(value))
            }
            Table::Switches => Self::Switches(serde_json::from_slice(value)?),
            Table::Namespaces => Self::Namespace(serde_json::from_slice(value)?),
        })
    }
}

impl KeptInstance {
    fn of(instance: &Instance) -> Self {
        Self {
            ip: instance.ip().into(),
            port: instance.port,
            cluster: instance.cluster().into(),
            weight: instance.weight,
            enabled: instance.enabled,
            healthy: instance.healthy(),
            metadata: instance.metadata.clone(),
            app: instance.app().map(Into::into),
            id: match &instance.id {
                InstanceId::Given(id) => Some(id.to_string()),
                InstanceId::Simple | InstanceId::Missing => None,
            },
        }
    }

    fn into_instance(self, now: Millis) -> Instance {
        let id = self.id.map_or(InstanceId::Simple, |id| InstanceId::Given(id.into()));
        let description = Description {
            key: InstanceKey { ip: &self.ip, port: self.port, cluster: &self.cluster },
            weight: self.weight,
            enabled: self.enabled,
            healthy: self.healthy,
            ephemeral: false,
            metadata: self.metadata,
            app: self.app.as_deref(),
        };
        Instance::new(description, id, now)
    }
}

/// Lengths stand before the texts, since a namespace may contain any character.
fn service_key(service: &ServiceKey) -> Vec<u8> {
    let ServiceKey { namespace, name } = service;
    format!("{}:{namespace}{}:{name}", namespace.len(), name.len()).into_bytes()
}

fn instance_key(service: &ServiceKey, instance: &InstanceKey<'_>) -> Vec<u8> {
    let mut key = service_key(service);
    key.extend_from_slice(instance.text().as_bytes());
    key
}

fn kept(service: &ServiceKey, value: &impl Serialize) -> Vec<u8> {
    json(&Kept { namespace: service.namespace.to_string(), name: service.name.to_string(), value })
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("writing our own structs into memory can't fail")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_comes_back_as_it_was() {
        let description = Description {
            weight: 2.5,
            healthy: false,
            ephemeral: false,
            metadata: r#"{"a":"1"}"#.parse().unwrap(),
            app: Some("shop"),
            ..Description::new("10.0.0.1", 80, "A")
        };
        let instance = Instance::new(description, InstanceId::Given("7".into()), Millis(1));
        let change = Change::Instance(ServiceKey::new("public", "G@@s"), Box::new(instance));
        let records = change.records();
        let [Record::Put { table, value, .. }] = &records[..] else { panic!("one record: {records:?}") };
        let Change::Instance(key, read) = Change::read(*table, value, Millis(2)).unwrap() else {
            panic!("a kind")
        };
        assert_eq!(key, ServiceKey::new("public", "G@@s"));
        assert_eq!(read.describe(), "10.0.0.1:80:unknown:A_2.5_false_false_A");
        assert_eq!((read.metadata.json(), read.app()), (r#"{"a":"1"}"#, Some("shop")));
        assert_eq!(read.id, InstanceId::Given("7".into()));
        assert!(!read.ephemeral);
    }

    proptest::proptest! {
        /// All weights, and thresholds down to their last bit.
        #[test]
        fn numbers_come_back_bit_by_bit(weight in 0.01_f64..=10_000.0, threshold: u32) {
            let key = ServiceKey::new("public", "G@@s");
            let described = Description { weight, ephemeral: false, ..Description::new("10.0.0.1", 80, "A") };
            let instance = Instance::new(described, InstanceId::Simple, Millis(1));
            let definition =
                Definition { protect_threshold: f32::from_bits(threshold), ..Definition::default() };
            for change in [
                Change::Instance(key.clone(), Box::new(instance)),
                Change::Service(key, Box::new(definition)),
            ] {
                let records = change.records();
                let [Record::Put { table, value, .. }] = &records[..] else { panic!("one record: {records:?}") };
                match Change::read(*table, value, Millis(2)).unwrap() {
                    Change::Instance(_, read) => assert_eq!(read.weight.to_bits(), weight.to_bits()),
                    Change::Service(_, read) => assert_eq!(read.protect_threshold.to_bits(), threshold),
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    #[test]
    fn keys_of_different_places_differ() {
        let one = ServiceKey::new("a", "b1:c");
        let other = ServiceKey::new("a1:b", "c");
        assert_ne!(service_key(&one), service_key(&other));
    }

    #[test]
    fn a_definition_comes_back_with_any_threshold() {
        let definition = Definition { protect_threshold: f32::NAN, explicit: true, ..Definition::default() };
        let change = Change::Service(ServiceKey::new("n", "G@@s"), Box::new(definition));
        let records = change.records();
        let [Record::Put { table, value, .. }] = &records[..] else { panic!("one record: {records:?}") };
        let Change::Service(_, read) = Change::read(*table, value, Millis(0)).unwrap() else {
            panic!("a kind")
        };
        assert!(read.protect_threshold.is_nan() && read.explicit);
    }
}
