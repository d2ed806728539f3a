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
pub struct DatumToSend {
    /// Of which service.
    pub service: ServiceKey,
    /// What there is; nothing where there is no such service any more.
    pub state: Option<Arc<State>>,
    /// A Nacre member is told what has a higher stamp; nothing for all of it. 1.x always gets the whole list.
    pub newer_than: Option<u64>,
}

impl DatumToSend {
    /// The highest stamp that a Nacre member knows after it.
    fn highest_stamp(&self) -> u64 {
        self.state.as_ref().map_or(0, |state| state.highest_stamp)
    }
}

/// Data as the document of several keys.
pub struct ShownData<'a> {
    /// The data.
    pub data: &'a [DatumToSend],
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
    fn of(key: &'a str, datum: &'a DatumToSend, dialect: Dialect, at: Reading) -> Self {
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
    datum: &'a DatumToSend,
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
    datum: &'a DatumToSend,
    at: Reading,
}

impl Serialize for Beside<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut beside = serializer.serialize_struct("Beside", 2)?;
        let complete = self.datum.state.is_some() && self.datum.newer_than.is_none();
        beside.serialize_field("complete", &complete)?;
        beside.serialize_field("gone", &ShownTombstones(self))?;
        beside.end()
    }
}

struct ShownTombstones<'a>(&'a Beside<'a>);

impl Serialize for ShownTombstones<'_> {
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
    /// Of what it undoes, where that is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<u64>,
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
            written: Some(gone.written).filter(|written| *written != gone.stamp),
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
pub fn bodies<I: IntoIterator<Item = DatumToSend>>(
    data: I,
    dialect: Dialect,
    at: Reading,
    body_bytes: usize,
) -> Bodies<I::IntoIter> {
    Bodies { data: data.into_iter(), waiting: None, dialect, at, body_bytes }
}

/// See [`bodies`].
#[derive(Debug)]
pub struct Bodies<I: Iterator<Item = DatumToSend>> {
    data: I,
    /// An entry that didn't fit into the last body, and its stamp.
    waiting: Option<(Vec<u8>, u64)>,
    dialect: Dialect,
    at: Reading,
    body_bytes: usize,
}

impl<I: Iterator<Item = DatumToSend>> Bodies<I> {
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

impl<I: Iterator<Item = DatumToSend>> Iterator for Bodies<I> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::clock::Millis,
        distro::{accept, batch},
        model::{Limits, Registry, instance::Description, registry::Place},
    };

    const AT: Reading = Reading { now: Millis(1 << 40), wall_ms: 1_795_983_049_938 };

    fn registry() -> Registry {
        Registry::new(Arc::default(), Limits::default()).shared(AT)
    }

    fn register(registry: &Registry, name: &str, ip: &str, now: Millis) {
        let place = Place { namespace: "public", name };
        registry.register(place, &Description::new(ip, 80, "C"), now).unwrap();
    }

    fn outgoing(registry: &Registry, name: &str, newer_than: Option<u64>) -> DatumToSend {
        let service = ServiceKey::new("public", name);
        let state = registry.get(service.place()).map(|service| service.state());
        DatumToSend { service, state, newer_than }
    }

    fn texts(data: Vec<DatumToSend>, dialect: Dialect, body_bytes: usize) -> Vec<(String, Vec<u64>)> {
        let text = |body: Body| (String::from_utf8(body.bytes.to_vec()).unwrap(), body.stamps);
        bodies(data, dialect, AT, body_bytes).map(text).collect()
    }

    #[test]
    fn members_of_1x_are_told_what_they_always_were() {
        let registry = registry();
        register(&registry, "G@@s", "10.0.0.1", AT.now.minus(500));
        let expected = r##"{"com.alibaba.nacos.naming.iplist.ephemeral.public##G@@s":{"key":"com.alibaba.nacos.naming.iplist.ephemeral.public##G@@s","value":{"instanceList":[{"instanceId":"10.0.0.1#80#C#G@@s","ip":"10.0.0.1","port":80,"weight":1.0,"healthy":true,"enabled":true,"ephemeral":true,"clusterName":"C","serviceName":"G@@s","metadata":{},"lastBeat":1795983049438,"marked":false,"app":"DEFAULT","instanceHeartBeatInterval":5000,"instanceHeartBeatTimeOut":15000,"ipDeleteTimeout":30000,"instanceIdGenerator":"simple"}]},"timestamp":1}}"##;
        let data = vec![outgoing(&registry, "G@@s", Some(u64::MAX))];
        let shown = ShownData { data: &data, dialect: Dialect::Legacy, at: AT };
        assert_eq!(String::from_utf8(json::to_bytes(&shown)).unwrap(), expected);
        assert_eq!(texts(data, Dialect::Legacy, BODY_BYTES)[0].0, expected);
        let gone = texts(vec![outgoing(&registry, "G@@t", None)], Dialect::Legacy, BODY_BYTES);
        assert_eq!(
            gone[0].0,
            r##"{"com.alibaba.nacos.naming.iplist.ephemeral.public##G@@t":{"key":"com.alibaba.nacos.naming.iplist.ephemeral.public##G@@t","value":{"instanceList":[]},"timestamp":1}}"##
        );
    }

    #[test]
    fn nacre_members_are_told_stamps_ages_and_what_is_gone() {
        let registry = registry();
        let place = Place { namespace: "public", name: "G@@s" };
        for ip in ["10.0.0.1", "10.0.0.2", "10.0.0.3"] {
            register(&registry, "G@@s", ip, AT.now.minus(500));
        }
        let service = registry.get(place).unwrap();
        let silent = [Arc::clone(service.state().ephemeral.get_min().unwrap())];
        registry.remove_silent(&service, &silent, AT.now.minus(20), |_| true);
        let left = Description::new("10.0.0.2", 80, "C").key;
        registry.deregister(place, left, AT.now.minus(10)).unwrap();
        let beside = |newer_than| {
            let (text, stamps) =
                texts(vec![outgoing(&registry, "G@@s", newer_than)], Dialect::Nacre, BODY_BYTES).remove(0);
            let instances = text.matches("nacreStamp").count();
            let at = text.find(r#","timestamp":"#).unwrap();
            (instances, text[at..].to_owned(), stamps)
        };
        let first = 1_795_983_049_438_u64;
        let all = r#","timestamp":1795983049928,"nacre":{"complete":true,"gone":[{"ip":"10.0.0.1","port":80,"cluster":"C","stamp":1795983049918,"written":1795983049438,"age":20,"silent":true,"beatAge":500},{"ip":"10.0.0.2","port":80,"cluster":"C","stamp":1795983049928,"age":10,"silent":false}]}}}"#;
        assert_eq!(beside(None), (1, all.to_owned(), vec![first + 490]));
        let newer = r#","timestamp":1795983049928,"nacre":{"complete":false,"gone":[{"ip":"10.0.0.2","port":80,"cluster":"C","stamp":1795983049928,"age":10,"silent":false}]}}}"#;
        assert_eq!(beside(Some(first + 480)), (0, newer.to_owned(), vec![first + 490]));
        assert_eq!(beside(Some(first + 1)).0, 1);
        let text = &texts(vec![outgoing(&registry, "G@@s", None)], Dialect::Nacre, BODY_BYTES)[0].0;
        let stamped = r#""instanceIdGenerator":"simple","nacreStamp":1795983049440,"nacreAge":500}]}"#;
        assert!(text.contains(stamped), "{text}");
        let none = texts(vec![outgoing(&registry, "G@@t", None)], Dialect::Nacre, BODY_BYTES).remove(0);
        assert!(none.0.ends_with(r#""timestamp":0,"nacre":{"complete":false,"gone":[]}}}"#), "{}", none.0);
    }

    #[test]
    fn bodies_are_cut_between_data_and_lose_none() {
        let from = registry();
        let names: Vec<String> = (0..20).map(|number| format!("G@@s{number}")).collect();
        for (number, name) in names.iter().enumerate() {
            (0..=number).for_each(|host| register(&from, name, &format!("10.0.0.{host}"), AT.now));
        }
        for (body_bytes, count) in [(1, 20), (4_000, 17), (20_000, 5), (BODY_BYTES, 1)] {
            let data: Vec<_> = names.iter().map(|name| outgoing(&from, name, None)).collect();
            let stamps: Vec<u64> = data.iter().map(DatumToSend::highest_stamp).collect();
            let to = registry();
            let made: Vec<Body> = bodies(data, Dialect::Nacre, AT, body_bytes).collect();
            assert_eq!(made.iter().flat_map(|body| body.stamps.clone()).collect::<Vec<_>>(), stamps);
            for body in &made {
                assert!(body.bytes.len() <= body_bytes || body.stamps.len() == 1);
                let read = batch::read(&body.bytes, AT).unwrap();
                let outcome = accept::take(&to, read, |_| accept::Part::Copies, AT.now);
                assert_eq!((outcome.taken.len(), outcome.refused.len()), (body.stamps.len(), 0));
            }
            assert_eq!(made.len(), count, "{body_bytes}");
            for name in &names {
                let state = |registry| outgoing(registry, name, None).state.unwrap();
                assert_eq!(state(&from).digest(), state(&to).digest());
                assert_eq!(state(&from).ephemeral.len(), state(&to).ephemeral.len());
            }
        }
        assert!(bodies([], Dialect::Nacre, AT, 1).next().is_none());
    }
}
