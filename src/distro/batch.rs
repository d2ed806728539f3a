//! Data of peers, read key by key and instance by instance: what can't be used spoils nothing else.
//!
//! Pure. Text that is no JSON is refused as a whole, as are bodies beyond the limit of their route; everything that can
//! be read is read, however deep the rest is nested. Source: Nacos 1.4.8 naming module, datum; what stands under `nacre`
//! is ours.

use std::{collections::HashMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{
    accept::AcceptError,
    codec::{self, FieldError, WireInstance},
    key::{self, Key},
};
use crate::{
    base::{
        clock::Reading,
        jackson::{self, Scalar},
    },
    model::{
        Entry, Extent, Gone, Instance, InstanceKey, ServiceKey, gone::Cause, name::DEFAULT_CLUSTER,
        registry::Place,
    },
};

/// A datum of a peer.
#[derive(Debug)]
pub struct ReadDatum {
    /// Of which service; whether it may have its name is for the registry to say.
    pub service: ServiceKey,
    /// What is told.
    pub content: Content,
    /// Why an instance was left out; the others are there.
    pub refused: Option<FieldError>,
}

/// What a datum tells.
#[derive(Debug)]
pub enum Content {
    /// The list of a 1.x peer.
    List(Vec<Instance>),
    /// What a Nacre member tells.
    Entries {
        /// Of single instances.
        entries: Vec<Entry>,
        /// Of which instances this is all that it knows.
        extent: Extent,
    },
}

/// A key, and what was read under it.
pub type Read = (String, Result<ReadDatum, AcceptError>);

/// Reads the body of several data. Of lists that stand under one key the last one counts, of what Nacre members tell all parts;
/// keys of other kinds are left out.
///
/// # Errors
/// The body isn't a JSON object.
pub fn read(body: &[u8], at: Reading) -> Result<Vec<Read>, serde_json::Error> {
    read_answer(body, at, at)
}

/// The same of an answer to what was `asked` for then. It may have lain in the socket of a process that stood still: what is
/// there beat no later than its age before it was asked for, what is gone went no later than its age ago.
///
/// # Errors
/// The body isn't a JSON object.
pub fn read_answer(body: &[u8], asked: Reading, at: Reading) -> Result<Vec<Read>, serde_json::Error> {
    let Keys(keys) = serde_json::from_slice(body)?;
    let mut read: Vec<Read> = Vec::with_capacity(keys.len());
    let mut places: HashMap<String, usize> = HashMap::with_capacity(keys.len());
    for (key, raw) in keys {
        let datum = match key::read(&key) {
            Key::Other => continue,
            Key::Broken => Err(AcceptError::Key(key.clone())),
            Key::List(place) => read_datum(&key, place, raw, asked, at),
        };
        let is_part = |datum: &Result<ReadDatum, AcceptError>| {
            matches!(datum, Ok(ReadDatum { content: Content::Entries { .. }, .. }))
        };
        match places.get(&key) {
            Some(&place) if !is_part(&datum) && !is_part(&read[place].1) => read[place] = (key, datum),
            Some(_) => read.push((key, datum)),
            None => {
                places.insert(key.clone(), read.len());
                read.push((key, datum));
            }
        }
    }
    Ok(read)
}

/// The keys of a body with the texts under them.
struct Keys<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Keys<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Keys<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object of data")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Keys(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// The fields of a datum, as they came.
#[derive(Default)]
struct Fields<'a> {
    key: Scalar<'a>,
    value: Scalar<'a>,
    nacre: Scalar<'a>,
}

/// What stands under `nacre`, as it came.
#[derive(Default)]
struct Beside<'a> {
    complete: Scalar<'a>,
    within: Scalar<'a>,
    gone: Scalar<'a>,
}

/// A tombstone, as it came.
#[derive(Default)]
struct WireGone<'a> {
    ip: Scalar<'a>,
    port: Scalar<'a>,
    cluster: Scalar<'a>,
    stamp: Scalar<'a>,
    written: Scalar<'a>,
    age: Scalar<'a>,
    silent: Scalar<'a>,
    beat_age: Scalar<'a>,
}

fn read_datum(
    key: &str,
    place: Place<'_>,
    raw: &RawValue,
    asked: Reading,
    at: Reading,
) -> Result<ReadDatum, AcceptError> {
    let unreadable = |what| AcceptError::Unreadable(place.to_key(), what);
    let fields = jackson::fields(raw.get(), |fields: &mut Fields<'_>, name, value| match name {
        "key" => fields.key = value,
        "value" => fields.value = value,
        "nacre" => fields.nacre = value,
        _ => {}
    });
    let fields = fields.map_err(|_| unreadable("datum"))?;
    let own_key = fields.key.text().map_err(|_| unreadable("key"))?;
    let own_key = own_key.ok_or_else(|| AcceptError::NoKey(place.to_key()))?;
    if own_key != key {
        return Err(AcceptError::OtherKey(place.to_key()));
    }
    let value = fields.value.raw().ok_or_else(|| unreadable("value"))?;
    let list = jackson::fields(value, |list: &mut Scalar<'_>, name, value| {
        if name == "instanceList" {
            *list = value;
        }
    });
    let list = elements(list.map_err(|_| unreadable("value"))?).ok_or_else(|| unreadable("instanceList"))?;
    let mut refused = None;
    let service = place.to_key();
    let Some(beside) = fields.nacre.raw() else {
        let instances = list.into_iter().filter_map(|raw| {
            let read = read_instance(raw).and_then(|wire| wire.into_instance(place.name, asked));
            kept(read, &mut refused)
        });
        let content = Content::List(instances.collect());
        return Ok(ReadDatum { service, content, refused });
    };
    let beside = jackson::fields(beside, |beside: &mut Beside<'_>, name, value| match name {
        "complete" => beside.complete = value,
        "within" => beside.within = value,
        "gone" => beside.gone = value,
        _ => {}
    });
    let beside = beside.map_err(|_| unreadable("nacre"))?;
    let complete = beside.complete.boolean().map_err(|_| unreadable("complete"))?.unwrap_or(false);
    let within = beside.within.raw().map(serde_json::from_str).transpose();
    let within = within.map_err(|_| unreadable("within"))?;
    let gone = elements(beside.gone).ok_or_else(|| unreadable("gone"))?;
    let mut entries = Vec::with_capacity(list.len() + gone.len());
    for raw in list {
        let read = read_instance(raw).and_then(|wire| wire.into_stamped(place.name, asked));
        entries.extend(kept(read, &mut refused).map(Entry::Alive));
    }
    for raw in gone {
        entries.extend(kept(read_gone(raw, at), &mut refused).map(Entry::Gone));
    }
    // What was left out may be what is known here: the teller shall not hear that it lacks it.
    let extent = match (&refused, complete, within) {
        (Some(_), ..) | (None, false, None) => Extent::News,
        (None, true, _) => Extent::Whole,
        (None, false, Some(range)) => Extent::Within(range),
    };
    Ok(ReadDatum { service, content: Content::Entries { entries, extent }, refused })
}

/// The elements of an array; none where it is absent or null, nothing where it is something else.
fn elements(array: Scalar<'_>) -> Option<Vec<&RawValue>> {
    array.raw().map_or(Some(Vec::new()), |raw| serde_json::from_str(raw).ok())
}

/// What could be read; the first reason why something couldn't is noted.
fn kept<T>(read: Result<T, FieldError>, refused: &mut Option<FieldError>) -> Option<T> {
    read.map_err(|error| _ = refused.get_or_insert(error)).ok()
}

fn read_instance(raw: &RawValue) -> Result<WireInstance<'_>, FieldError> {
    serde_json::from_str(raw.get()).map_err(|_| FieldError::Missing("fields"))
}

fn read_gone(raw: &RawValue, at: Reading) -> Result<Gone, FieldError> {
    let gone = jackson::fields(raw.get(), |gone: &mut WireGone<'_>, name, value| match name {
        "ip" => gone.ip = value,
        "port" => gone.port = value,
        "cluster" => gone.cluster = value,
        "stamp" => gone.stamp = value,
        "written" => gone.written = value,
        "age" => gone.age = value,
        "silent" => gone.silent = value,
        "beatAge" => gone.beat_age = value,
        _ => {}
    });
    let gone = gone.map_err(|_| FieldError::Missing("fields"))?;
    let ip = gone.ip.text().map_err(|_| FieldError::Kind("ip"))?.ok_or(FieldError::Missing("ip"))?;
    let cluster = gone.cluster.text().map_err(|_| FieldError::Kind("cluster"))?;
    let cluster = cluster.as_deref().unwrap_or(DEFAULT_CLUSTER);
    let port = gone.port.integer().map_err(|_| FieldError::Kind("port"))?.unwrap_or(0);
    let key = InstanceKey { ip: &ip, port, cluster };
    let stamp = codec::stamp(gone.stamp, "stamp", at)?;
    let written = codec::written(gone.written, "written", at)?.unwrap_or(stamp);
    let went = codec::moment_ago(gone.age, "age", at)?;
    let silent = gone.silent.boolean().map_err(|_| FieldError::Kind("silent"))?.unwrap_or(false);
    let cause = match silent {
        false => Cause::Left,
        true => Cause::Silent { last_beat: codec::moment_ago(gone.beat_age, "beatAge", at)? },
    };
    Ok(Gone::of(&key, stamp, went, cause).of_writing(written))
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
