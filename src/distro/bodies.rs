//! Data as they are sent to peers, and shown to those who ask: written as the reference writes them.
//!
//! To a Nacre member more is said beside: stamps, ages, tombstones, whether it is all. Pure. Source: Nacos 1.4.8 naming
//! module, datum and instance as its JSON mapper writes them; compat file `distro-data`.

use std::sync::Arc;

use bytes::Bytes;
use serde::{
    Serialize, Serializer,
    ser::{SerializeMap as _, SerializeStruct as _},
};

use super::{key, whole_instance::WholeInstance};
use crate::{
    base::{clock::Reading, json},
    model::{
        ServiceKey, State,
        entry::Shown,
        gone::{Cause, Gone},
    },
};

/// What a datum of 1.x shows as its time: it is compared with nothing.
const LEGACY_TIMESTAMP: u64 = 1;
/// Our own sends are cut before they get longer than this, in bytes; a single datum may be longer and goes alone.
pub const BODY_BYTES: usize = 4 << 20;

/// To whom something is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// To 1.x, or to somebody who hasn't shown that it is Nacre.
    Legacy,
    /// To a Nacre member.
    Nacre,
}

/// A datum to be shown.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Of which service.
    pub service: ServiceKey,
    /// What there is; nothing where there is no such service any more.
    pub state: Option<Arc<State>>,
    /// A Nacre member is told what has a higher stamp; nothing for all of it. 1.x always gets the whole list.
    pub newer_than: Option<u64>,
}

impl Outgoing {
    /// The highest stamp that a Nacre member knows after it.
    fn highest_stamp(&self) -> u64 {
        self.state.as_ref().map_or(0, |state| state.highest_stamp)
    }
}

/// Data as the document of several keys.
pub struct ShownData<'a> {
    /// The data.
    pub data: &'a [Outgoing],
    /// To whom.
    pub dialect: Dialect,
    /// For the times of the beats.
    pub at: Reading,
}

impl Serialize for ShownData<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.data.len()))?;
        for datum in self.data {
            let key = key::of(datum.service.place());
            map.serialize_entry(&key, &ShownDatum::of(&key, datum, self.dialect, self.at))?;
        }
        map.end()
    }
}

#[derive(Serialize)]
struct ShownDatum<'a> {
    key: &'a str,
    value: ShownList<'a>,
    timestamp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    nacre: Option<Beside<'a>>,
}

impl<'a> ShownDatum<'a> {
    fn of(key: &'a str, datum: &'a Outgoing, dialect: Dialect, at: Reading) -> Self {
        let value = ShownList { datum, dialect, at };
        match dialect {
            Dialect::Legacy => Self { key, value, timestamp: LEGACY_TIMESTAMP, nacre: None },
            Dialect::Nacre => {
                Self { key, value, timestamp: datum.highest_stamp(), nacre: Some(Beside { datum, at }) }
            }
        }
    }
}

struct ShownList<'a> {
    datum: &'a Outgoing,
    dialect: Dialect,
    at: Reading,
}

impl Serialize for ShownList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_struct("List", 1)?;
        list.serialize_field("instanceList", &Instances(self))?;
        list.end()
    }
}

struct Instances<'a>(&'a ShownList<'a>);

impl Serialize for Instances<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let &ShownList { datum, dialect, at } = self.0;
        let name = &*datum.service.name;
        let newer_than = datum.newer_than.filter(|_| dialect == Dialect::Nacre);
        let entries = datum.state.iter().flat_map(|state| state.entries(newer_than));
        serializer.collect_seq(entries.filter_map(|entry| match (entry, dialect) {
            (Shown::Alive(instance, _), Dialect::Legacy) => Some(WholeInstance::of(instance, name, at)),
            (Shown::Alive(instance, mark), Dialect::Nacre) => {
                Some(WholeInstance::stamped(instance, mark, name, at))
            }
            (Shown::Gone(_), _) => None,
        }))
    }
}

/// What stands beside the list for a Nacre member.
struct Beside<'a> {
    datum: &'a Outgoing,
    at: Reading,
}

impl Serialize for Beside<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut beside = serializer.serialize_struct("Beside", 2)?;
        let complete = self.datum.state.is_some() && self.datum.newer_than.is_none();
        beside.serialize_field("complete", &complete)?;
        beside.serialize_field("gone", &Tombstones(self))?;
        beside.end()
    }
}

struct Tombstones<'a>(&'a Beside<'a>);

impl Serialize for Tombstones<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Beside { datum, at } = self.0;
        let gone = datum.state.iter().flat_map(|state| state.gone.iter());
        let newer = gone.filter(|gone| datum.newer_than.is_none_or(|stamp| gone.stamp > stamp));
        serializer.collect_seq(newer.map(|gone| ShownGone::of(gone, *at)))
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownGone<'a> {
    ip: &'a str,
    port: i32,
    cluster: &'a str,
    stamp: u64,
    age: u64,
    silent: bool,
    /// Of the last beat that was known when it went for its silence, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    beat_age: Option<u64>,
}

impl<'a> ShownGone<'a> {
    fn of(gone: &'a Gone, at: Reading) -> Self {
        let last_beat = match gone.cause {
            Cause::Left => None,
            Cause::Silent { last_beat } => Some(last_beat),
        };
        Self {
            ip: &gone.ip,
            port: gone.port,
            cluster: &gone.cluster,
            stamp: gone.stamp,
            age: at.now.since(gone.at),
            silent: last_beat.is_some(),
            beat_age: last_beat.map(|last_beat| at.now.since(last_beat)),
        }
    }
}

/// One body to be sent.
#[derive(Clone, Debug)]
pub struct Body {
    /// The document.
    pub bytes: Bytes,
    /// Of each datum in it, in order, the highest stamp that a Nacre member knows after it.
    pub stamps: Vec<u64>,
}

/// `data` in their order as bodies of at most `body_bytes`, but for those of a single datum that is longer.
///
/// A body is made when it is asked for, so no more than one is held.
pub fn bodies<I: IntoIterator<Item = Outgoing>>(
    data: I,
    dialect: Dialect,
    at: Reading,
    body_bytes: usize,
) -> Bodies<I::IntoIter> {
    Bodies { data: data.into_iter(), waiting: None, dialect, at, body_bytes }
}

/// See [`bodies`].
#[derive(Debug)]
pub struct Bodies<I: Iterator<Item = Outgoing>> {
    data: I,
    /// An entry that didn't fit into the last body, and its stamp.
    waiting: Option<(Vec<u8>, u64)>,
    dialect: Dialect,
    at: Reading,
    body_bytes: usize,
}

impl<I: Iterator<Item = Outgoing>> Bodies<I> {
    /// The next datum as it stands in a body, and the highest stamp in it.
    fn next_entry(&mut self) -> Option<(Vec<u8>, u64)> {
        if let Some(waiting) = self.waiting.take() {
            return Some(waiting);
        }
        let datum = self.data.next()?;
        let key = key::of(datum.service.place());
        let mut out = Vec::new();
        json::push_string(&mut out, &key);
        out.push(b':');
        json::append(&mut out, &ShownDatum::of(&key, &datum, self.dialect, self.at));
        Some((out, datum.highest_stamp()))
    }
}

impl<I: Iterator<Item = Outgoing>> Iterator for Bodies<I> {
    type Item = Body;

    fn next(&mut self) -> Option<Body> {
        let (mut bytes, mut stamps) = (Vec::from(b"{"), Vec::new());
        while let Some((entry, stamp)) = self.next_entry() {
            // A comma before it, a brace behind.
            if !stamps.is_empty() && bytes.len() + entry.len() + 2 > self.body_bytes {
                self.waiting = Some((entry, stamp));
                break;
            }
            if !stamps.is_empty() {
                bytes.push(b',');
            }
            bytes.extend_from_slice(&entry);
            stamps.push(stamp);
        }
        bytes.push(b'}');
        (!stamps.is_empty()).then(|| Body { bytes: bytes.into(), stamps })
    }
}
