//! Puts received data into the registry.
//!
//! What members send counts key by key, and what can't be used is left out. What a plain caller sends to a node without
//! members is read and checked before anything is changed: data that are refused change nothing. Source: Nacos 1.4.8
//! naming module, distro controller and service; compat file `distro-data`.

use super::{
    batch::{self, Content, ReadDatum},
    codec::{Data, Datum, FieldError},
    key::{self, Key},
};
use crate::{
    base::{
        clock::{Millis, Reading},
        json::Object,
    },
    model::{
        Definition, Instance, Registry, ServiceKey,
        cluster::Cluster,
        instance::InstanceId,
        merge::{Judge, ListFor, Merged, Replaced},
        name::NameError,
        registry::Place,
    },
};

/// Why received data change nothing.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// There are none.
    #[error("receive empty entity!")]
    Empty,
    /// A key names no service.
    #[error("the key {0} names no service")]
    Key(String),
    /// There is no datum under a key, or it has no key of its own.
    #[error("the datum of {0} lacks its key")]
    NoKey(ServiceKey),
    /// Its own key is another than the one that it stands under.
    #[error("the datum of {0} has another key of its own")]
    OtherKey(ServiceKey),
    /// A part of it is missing or of the wrong kind.
    #[error("the datum of {0} has no {1} that can be read")]
    Unreadable(ServiceKey, &'static str),
    /// A list holds something that is no instance.
    #[error("the datum of {0} can not be used: {1}")]
    Field(ServiceKey, FieldError),
    /// A service or cluster can't have its name.
    #[error(transparent)]
    Name(#[from] NameError),
}

/// What one datum does.
struct Step<'a> {
    /// This service is made where it isn't there.
    made: Place<'a>,
    /// And the list of this service becomes that; nothing for a datum that is stored under no service.
    replaced: Option<(Place<'a>, Vec<Instance>)>,
}

/// Makes the services of `data` and replaces their ephemeral lists; data of other kinds are passed over.
///
/// The key that a datum stands under says which service is made, its own key whose list is replaced; a peer sends the
/// two equal. A known instance keeps its health, unless it is marked.
///
/// # Errors
/// [`AcceptError`]; nothing is changed then.
pub fn accept(registry: &Registry, data: Data<'_>, at: Reading) -> Result<(), AcceptError> {
    if data.0.is_empty() {
        return Err(AcceptError::Empty);
    }
    // Keys are borrowed by the steps, lists move into them.
    let (keys, data): (Vec<String>, Vec<Option<Object<Datum<'_>>>>) = data.0.into_iter().unzip();
    let mut own_keys = Vec::with_capacity(keys.len());
    let mut lists = Vec::with_capacity(keys.len());
    for datum in data {
        let (own_key, value) = datum.map_or((None, None), |Object(datum)| (datum.key, datum.value));
        own_keys.push(own_key);
        lists.push(value);
    }
    let mut steps = Vec::with_capacity(keys.len());
    for ((key, own_key), list) in keys.iter().zip(&own_keys).zip(lists) {
        let made = match key::read(key) {
            Key::Other => continue,
            Key::Broken => return Err(AcceptError::Key(key.clone())),
            Key::List(place) => place,
        };
        let own_key = own_key.as_deref().ok_or_else(|| AcceptError::NoKey(made.to_key()))?;
        check_service(registry, made)?;
        let target = match key::read(own_key) {
            Key::List(place) if place == made || registry.get(place).is_some() => Some(place),
            Key::List(_) | Key::Other | Key::Broken => None,
        };
        let mut replaced = None;
        if let (Some(place), Some(Object(list))) = (target, list) {
            let mut instances = Vec::new();
            for wire in list.instance_list.unwrap_or_default() {
                let wire = wire.ok_or(FieldError::Missing("fields"));
                let instance = wire.and_then(|wire| wire.into_instance(place.name, at));
                instances.push(instance.map_err(|error| AcceptError::Field(made.to_key(), error))?);
            }
            check_list(registry, place, &instances)?;
            replaced = Some((place, instances));
        }
        steps.push(Step { made, replaced });
    }
    for Step { made, replaced } in steps {
        registry.get_or_make(made, Default::default, at.now)?;
        if let Some((place, list)) = replaced {
            registry.replace_all(place, &list, at.now)?;
        }
    }
    Ok(())
}

fn check_service(registry: &Registry, place: Place<'_>) -> Result<(), NameError> {
    if registry.get(place).is_some() { Ok(()) } else { registry.check_creatable(place) }
}

/// Checks what comes with the instances, and their clusters as far as the service lacks them.
fn check_list(registry: &Registry, place: Place<'_>, list: &[Instance]) -> Result<(), NameError> {
    let (state, limits) = (registry.get(place).map(|service| service.state()), registry.limits());
    let mut definition = state.map_or_else(Definition::default, |state| Definition::clone(&state.definition));
    for instance in list {
        limits.check_instance(&instance.description())?;
        if let InstanceId::Given(id) = &instance.id {
            limits.check_id(id)?;
        }
        if definition.cluster(instance.cluster()).is_none() {
            limits.check_new_cluster(&definition, instance.cluster())?;
            definition.clusters.push(Cluster::plain(instance.cluster()));
        }
    }
    Ok(())
}

/// What a datum did.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// It came from a Nacre member, and was merged.
    Merged(Merged),
    /// It came from a 1.x member.
    Replaced(Replaced),
}

/// What became of the data of a body.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What was taken, and what it did.
    pub taken: Vec<(ServiceKey, Taken)>,
    /// Keys of which nothing was taken.
    pub refused: Vec<(String, AcceptError)>,
    /// Services of which something was left out; the rest was taken, if there is any.
    pub halved: Vec<(ServiceKey, AcceptError)>,
    /// How many instances and tombstones could be read, of all services.
    pub read: usize,
}

impl Outcome {
    /// All that was wrong.
    pub fn faults(&self) -> impl Iterator<Item = &AcceptError> {
        let refused = self.refused.iter().map(|(_, error)| error);
        refused.chain(self.halved.iter().map(|(_, error)| error))
    }
}

impl AcceptError {
    /// Where it is the clocks that don't fit: the stamp that is too far ahead. What such data say can't be compared with anything.
    #[must_use]
    pub fn of_another_time(&self) -> Option<u64> {
        match self {
            Self::Field(_, FieldError::Range("nacreStamp" | "nacreWritten" | "stamp" | "written", stamp)) => {
                u64::try_from(*stamp).ok().filter(|stamp| *stamp > 0)
            }
            _ => None,
        }
    }
}

/// Takes data of peers key by key: merges what Nacre members tell, and takes lists of 1.x members for what they are. The two
/// decisions are asked for where they count.
pub fn take(
    registry: &Registry,
    batch: Vec<batch::Read>,
    judge: impl Fn(&ServiceKey) -> Judge,
    list_for: impl Fn(&ServiceKey) -> ListFor,
    now: Millis,
) -> Outcome {
    let mut outcome = Outcome::default();
    for (key, read) in batch {
        let taken = read.and_then(|ReadDatum { service, content, refused }| {
            let place = service.place();
            let (taken, left_out) = match content {
                Content::Entries { entries, extent } => {
                    outcome.read += entries.len();
                    let mut merged = registry.merge(place, entries, &extent, judge(&service), now)?;
                    let left_out = merged.refused.take();
                    (Taken::Merged(merged), left_out)
                }
                Content::List(list) => {
                    outcome.read += list.len();
                    let mut replaced = registry.replace_by_legacy(place, &list, list_for(&service), now)?;
                    let left_out = replaced.refused.take();
                    (Taken::Replaced(replaced), left_out)
                }
            };
            let of_field = refused.map(|error| AcceptError::Field(service.clone(), error));
            Ok((service, taken, of_field.or(left_out.map(AcceptError::Name))))
        });
        match taken {
            Ok((service, taken, left_out)) => {
                outcome.halved.extend(left_out.map(|error| (service.clone(), error)));
                outcome.taken.push((service, taken));
            }
            Err(error) => outcome.refused.push((key, error)),
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::{Limits, change::Changes};

    const KEY: &str = "com.alibaba.nacos.naming.iplist.ephemeral.public##G@@s";
    const PLACE: Place<'static> = Place { namespace: "public", name: "G@@s" };

    fn registry() -> Registry {
        Registry::new(Arc::new(Changes::default()), Limits::default())
    }

    fn put(registry: &Registry, text: &str) -> Result<(), String> {
        let text = text.replace("KEY", KEY);
        let data = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        accept(registry, data, Reading { now: Millis(1 << 40), wall_ms: 1_000_000 })
            .map_err(|error| error.to_string())
    }

    /// Addresses with their health, or nothing where there is no service.
    fn list(registry: &Registry) -> Option<Vec<(String, bool)>> {
        let state = registry.get(PLACE)?.state();
        Some(state.ephemeral.iter().map(|one| (one.ip().to_string(), one.healthy())).collect())
    }

    #[test]
    fn a_list_is_replaced_as_a_whole_and_known_health_stays() {
        let registry = registry();
        let first =
            r#"{"KEY":{"key":"KEY","value":{"instanceList":[{"ip":"a","port":1},{"ip":"b","port":1}]}}}"#;
        put(&registry, first).unwrap();
        let service = registry.get(PLACE).unwrap();
        registry.set_health(&service, Millis(0), |instance| Some(instance.ip() != "a"));
        let second = r#"{"KEY":{"key":"KEY","value":{"instanceList":[{"ip":"a","port":1},{"ip":"c","port":1,"healthy":false}]}}}"#;
        put(&registry, second).unwrap();
        assert_eq!(list(&registry), Some(vec![("a".into(), false), ("c".into(), false)]));
        let marked = r#"{"KEY":{"key":"KEY","value":{"instanceList":[{"ip":"a","port":1,"marked":true}]}}}"#;
        put(&registry, marked).unwrap();
        assert_eq!(list(&registry), Some(vec![("a".into(), true)]));
        put(&registry, r#"{"KEY":{"key":"KEY","value":{"instanceList":[]}}}"#).unwrap();
        assert_eq!(list(&registry), Some(vec![]));
    }

    #[test]
    fn other_keys_are_passed_over() {
        let registry = registry();
        put(&registry, r#"{"abc":{"key":"abc","value":{"instanceList":[{"ip":"a","port":1}]}},"x":null}"#)
            .unwrap();
        assert!(registry.is_empty());
    }

    #[test]
    fn a_datum_with_another_key_of_its_own_only_makes_the_service() {
        let registry = registry();
        put(&registry, r#"{"KEY":{"key":"k","value":null}}"#).unwrap();
        assert_eq!(list(&registry), Some(vec![]));
        put(&registry, r#"{"KEY":{"key":"KEYx","value":{"instanceList":[{"ip":"a","port":1}]}}}"#).unwrap();
        assert_eq!((registry.len(), list(&registry)), (1, Some(vec![])));
    }

    #[test]
    fn what_is_too_long_or_too_many_is_refused() {
        let registry = registry();
        let (long, longer, wide) = ("a".repeat(513), "a".repeat(2_049), "v".repeat(1 << 20));
        let ids: Vec<String> =
            (0..=1_000).map(|n| format!(r#"{{"ip":"a","port":1,"clusterName":"c{n}"}}"#)).collect();
        for (instances, reason) in [
            (format!(r#"{{"ip":"{long}"}}"#), "Param 'ip' is illegal"),
            (format!(r#"{{"ip":"a","app":"{long}"}}"#), "Param 'app' is illegal"),
            (format!(r#"{{"ip":"a","instanceId":"{longer}"}}"#), "Param 'instanceId' is illegal"),
            (format!(r#"{{"ip":"a","clusterName":"{long}"}}"#), "Param 'clusterName' is illegal"),
            (format!(r#"{{"ip":"a","metadata":{{"k":"{wide}"}}}}"#), "Param 'metadata' is illegal"),
            (ids.join(","), "Param 'clusterName' is illegal, the service has 1000 clusters"),
        ] {
            let text = format!(r#"{{"KEY":{{"key":"KEY","value":{{"instanceList":[{instances}]}}}}}}"#);
            let said = put(&registry, &text).unwrap_err();
            assert!(said.starts_with(reason), "{said}");
            assert!(registry.is_empty());
        }
    }

    #[test]
    fn refused_data_change_nothing() {
        for (text, reason) in [
            ("{}", "receive empty entity!".to_string()),
            (
                r#"{"KEY":{"key":"KEY","value":[]}}"#,
                "invalid type: sequence, expected a JSON object".to_string(),
            ),
            (r#"{"KEY":null}"#, "the datum of public##G@@s lacks its key".to_string()),
            (r#"{"KEY":{}}"#, "the datum of public##G@@s lacks its key".to_string()),
            (
                r#"{"KEY":{"key":"KEY","value":{"instanceList":[null]}}}"#,
                "the datum of public##G@@s can not be used: an instance has no fields".to_string(),
            ),
            (
                r#"{"KEY":{"key":"KEY","value":{"instanceList":[{"ip":"a","port":1,"clusterName":"a_b"}]}}}"#,
                "cluster name can only have these characters: 0-9a-zA-Z-, current: a_b".to_string(),
            ),
            (
                r#"{"KEY":{"key":"KEY"},"KEY2":{"key":"KEY2"},"KEY/":{"key":"KEY/"}}"#,
                "dom name can only have these characters: 0-9a-zA-Z-._:, current: G@@s/".to_string(),
            ),
            (
                r#"{"KEY":{"key":"KEY"},"com.alibaba.nacos.naming.iplist.ephemeral.x":{"key":"y"}}"#,
                "the key com.alibaba.nacos.naming.iplist.ephemeral.x names no service".to_string(),
            ),
        ] {
            let registry = registry();
            let said = put(&registry, text).unwrap_err();
            assert!(said.starts_with(&reason), "{text}: {said}");
            assert!(registry.is_empty(), "{text}");
        }
    }
}
