//! Data as they are sent to peers, and shown to those who ask: written as the reference writes them.
//!
//! To a Nacre member more is said beside: stamps, ages, tombstones, whether it is all; and a large service in parts. Pure. Source: Nacos 1.4.8 naming
//! module, datum and instance as its JSON mapper writes them; compat file `distro-data`.

use std::{iter::Peekable, sync::Arc};

use bytes::Bytes;
use serde::{
    Serialize, Serializer,
    ser::{SerializeMap as _, SerializeStruct as _},
};

use super::{key, whole_instance::WholeInstance};
use crate::{
    base::{clock::Reading, json},
    config::PART_BYTES,
    model::{
        ServiceKey, State,
        entry::Shown,
        extent::{Range, Slice},
        gone::{Cause, Gone},
        instance::{InstanceId, KEY_ID_GENERATOR},
    },
};

/// What a datum of 1.x shows as its time: it is compared with nothing.
const LEGACY_TIMESTAMP: u64 = 1;
/// Our own sends are cut before they get longer than this, in bytes. A Nacre member gets a datum that is longer in parts, so that
/// a single instance alone may be; one of 1.x gets it alone.
pub const BODY_BYTES: usize = PART_BYTES;
/// What an instance or a tombstone takes in a datum besides its texts, in bytes; rather more.
const ENTRY_BYTES: usize = 512;
/// What a part takes around its instances besides the names of the service, in bytes; rather more where the ends of its range
/// are of usual length.
const AROUND_BYTES: usize = 512;

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
    /// Its owner alone knows the beats. A member of 1.x that gets it may own it in a moment, and judges by what stands there, or by
    /// its own time where nothing does: of what is healthy it is told no beat.
    pub is_copy: bool,
}

impl DatumToSend {
    /// The highest stamp that a Nacre member knows after it.
    fn highest_stamp(&self) -> u64 {
        self.state.as_ref().map_or(0, |state| state.highest_stamp)
    }

    /// The datum in parts of at most so many bytes, or one instance each; 1.x knows no parts.
    fn parts(self, dialect: Dialect, part_bytes: usize) -> impl Iterator<Item = Part> {
        let around = AROUND_BYTES + 2 * (self.service.namespace.len() + self.service.name.len());
        let name_bytes = self.service.name.len();
        let slices = match (&self.state, dialect) {
            (None, _) => vec![Slice::default()],
            (Some(state), Dialect::Legacy) => {
                state.cut(None, usize::MAX, |entry| bytes_of(entry, dialect, name_bytes))
            }
            (Some(state), Dialect::Nacre) => {
                let most = part_bytes.saturating_sub(around);
                state.cut(self.newer_than, most, |entry| bytes_of(entry, dialect, name_bytes))
            }
        };
        let count = slices.len();
        let part = move |(number, slice): (usize, Slice)| {
            let bytes = around + slice.bytes;
            Part { datum: self.clone(), slice, bytes, is_last: number + 1 == count }
        };
        slices.into_iter().enumerate().map(part)
    }
}

/// About how many bytes it takes in a datum.
fn bytes_of(entry: &Shown<'_>, dialect: Dialect, name_bytes: usize) -> usize {
    let key = entry.key();
    // Some texts stand there twice, once in the id.
    let texts = 2 * (json::length(&key.ip) + json::length(&key.cluster) + name_bytes);
    let more = match entry {
        Shown::Alive(instance, _) => {
            let id = if let InstanceId::Given(id) = &instance.id { json::length(id) } else { 0 };
            let metadata = instance.metadata.json();
            // What makes the id stands beside the metadata once more; to read how long that is would cost more than it is worth.
            let times = if metadata.contains(KEY_ID_GENERATOR) { 2 } else { 1 };
            id + times * metadata.len() + instance.app().as_ref().map_or(0, json::length)
        }
        Shown::Gone(_) if dialect == Dialect::Legacy => return 0,
        Shown::Gone(_) => 0,
    };
    ENTRY_BYTES + texts + more
}

/// A datum, or a part of it.
#[derive(Clone, Debug)]
pub struct Part {
    datum: DatumToSend,
    /// What it tells of.
    slice: Slice,
    /// About how many bytes it takes in a document, rather more than it does.
    bytes: usize,
    /// Whoever has taken it and those before it has the datum.
    is_last: bool,
}

impl Part {
    /// It is the datum.
    fn is_all(&self) -> bool {
        self.slice.range == Range::default()
    }
}

/// Data as the document of several keys. A datum that is too long for one part stands there in several, under the same key.
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
        let mut map = serializer.serialize_map(None)?;
        for datum in self.data {
            let key = key::of(datum.service.place());
            for part in datum.clone().parts(self.dialect, BODY_BYTES) {
                map.serialize_entry(&key, &ShownDatum::of(&key, &part, self.dialect, self.at))?;
            }
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
    fn of(key: &'a str, part: &'a Part, dialect: Dialect, at: Reading) -> Self {
        let value = ShownList { part, dialect, at };
        match dialect {
            Dialect::Legacy => Self { key, value, timestamp: LEGACY_TIMESTAMP, nacre: None },
            Dialect::Nacre => {
                Self { key, value, timestamp: part.datum.highest_stamp(), nacre: Some(Beside { part, at }) }
            }
        }
    }
}

struct ShownList<'a> {
    part: &'a Part,
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
        let &ShownList { part, dialect, at } = self.0;
        let name = &*part.datum.service.name;
        serializer.collect_seq(part.slice.alive().map(|(instance, mark)| match dialect {
            Dialect::Legacy if instance.healthy() && (part.datum.is_copy || instance.is_renewed()) => {
                WholeInstance::beaten(instance, name, at)
            }
            Dialect::Legacy => WholeInstance::of(instance, name, at),
            Dialect::Nacre => WholeInstance::stamped(instance, mark, name, at),
        }))
    }
}

/// What stands beside the list for a Nacre member.
struct Beside<'a> {
    part: &'a Part,
    at: Reading,
}

impl Serialize for Beside<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut beside = serializer.serialize_struct("Beside", 3)?;
        let part = self.part;
        let is_all_there = part.datum.state.is_some() && part.datum.newer_than.is_none();
        beside.serialize_field("complete", &(is_all_there && part.is_all()))?;
        if is_all_there && !part.is_all() {
            // All that there is between these.
            beside.serialize_field("within", &part.slice.range)?;
        }
        beside.serialize_field("gone", &ShownTombstones(self))?;
        beside.end()
    }
}

struct ShownTombstones<'a>(&'a Beside<'a>);

impl Serialize for ShownTombstones<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Beside { part, at } = self.0;
        serializer.collect_seq(part.slice.gone().map(|gone| ShownGone::of(gone, *at)))
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
            Cause::Left | Cause::Missing => None,
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
    /// Of each datum that ends in it, in order, the highest stamp that a Nacre member knows after all bodies up to it.
    pub stamps: Vec<u64>,
    /// When it was made: ages in it count from then.
    pub at: Reading,
}

/// `data` in their order as bodies of at most `body_bytes`, but for those of a single datum that is longer; a Nacre member
/// gets such a datum in parts, of which only one with a single instance is longer.
///
/// A body is made when it is asked for, by the `clock` of then, so no more than one is held, and none is old when it leaves.
pub fn bodies<I, C>(
    data: I,
    dialect: Dialect,
    clock: C,
    body_bytes: usize,
) -> Bodies<impl Iterator<Item = Part> + use<I, C>, C>
where
    I: IntoIterator<Item = DatumToSend>,
    C: Fn() -> Reading,
{
    let parts = data.into_iter().flat_map(move |datum| datum.parts(dialect, body_bytes));
    Bodies { parts: parts.peekable(), dialect, clock, body_bytes }
}

/// See [`bodies`].
#[derive(Debug)]
pub struct Bodies<I: Iterator<Item = Part>, C> {
    parts: Peekable<I>,
    dialect: Dialect,
    clock: C,
    body_bytes: usize,
}

impl<I: Iterator<Item = Part>, C: Fn() -> Reading> Iterator for Bodies<I, C> {
    type Item = Body;

    fn next(&mut self) -> Option<Body> {
        self.parts.peek()?;
        let at = (self.clock)();
        let (mut bytes, mut stamps) = (Vec::from(b"{"), Vec::new());
        let body_bytes = self.body_bytes;
        let is_first_or_fits = |part: &Part, so_far: usize| so_far == 1 || so_far + part.bytes <= body_bytes;
        while let Some(part) = self.parts.next_if(|part| is_first_or_fits(part, bytes.len())) {
            if bytes.len() > 1 {
                bytes.push(b',');
            }
            append(&mut bytes, &part, self.dialect, at);
            stamps.extend(part.is_last.then(|| part.datum.highest_stamp()));
        }
        bytes.push(b'}');
        Some(Body { bytes: bytes.into(), stamps, at })
    }
}

/// Appends a part as it stands in a body.
fn append(bytes: &mut Vec<u8>, part: &Part, dialect: Dialect, at: Reading) {
    let key = key::of(part.datum.service.place());
    json::push_string(bytes, &key);
    bytes.push(b':');
    json::append(bytes, &ShownDatum::of(&key, part, dialect, at));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::clock::Millis,
        distro::{accept, batch},
        model::{
            Limits, Registry,
            instance::Description,
            merge::{Judge, ListFor},
            registry::Place,
        },
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
        DatumToSend { service, state, newer_than, is_copy: false }
    }

    fn texts(data: Vec<DatumToSend>, dialect: Dialect, body_bytes: usize) -> Vec<(String, Vec<u64>)> {
        let text = |body: Body| (String::from_utf8(body.bytes.to_vec()).unwrap(), body.stamps);
        bodies(data, dialect, || AT, body_bytes).map(text).collect()
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
        let copy = |healthy: bool| {
            let service = registry.get(Place { namespace: "public", name: "G@@s" }).unwrap();
            registry.set_health(&service, AT.now, |_| Some(healthy));
            let copy = DatumToSend { is_copy: true, ..outgoing(&registry, "G@@s", None) };
            texts(vec![copy], Dialect::Legacy, BODY_BYTES).remove(0).0
        };
        let unbeaten = expected.replace(r#""lastBeat":1795983049438,"#, "");
        assert_eq!(copy(true), unbeaten, "whoever reads it takes it for just beaten by its own clock");
        assert_eq!(copy(false), expected.replace(r#""healthy":true"#, r#""healthy":false"#));
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
        let all = r#","timestamp":1795983049929,"nacre":{"complete":true,"gone":[{"ip":"10.0.0.1","port":80,"cluster":"C","stamp":1795983049919,"written":1795983049438,"age":20,"silent":true,"beatAge":500},{"ip":"10.0.0.2","port":80,"cluster":"C","stamp":1795983049929,"age":10,"silent":false}]}}}"#;
        assert_eq!(beside(None), (1, all.to_owned(), vec![first + 491]));
        let newer = r#","timestamp":1795983049929,"nacre":{"complete":false,"gone":[{"ip":"10.0.0.2","port":80,"cluster":"C","stamp":1795983049929,"age":10,"silent":false}]}}}"#;
        assert_eq!(beside(Some(first + 481)), (0, newer.to_owned(), vec![first + 491]));
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
        for (body_bytes, count) in [(1, 210), (4_000, 39), (20_000, 6), (BODY_BYTES, 1)] {
            let data: Vec<_> = names.iter().map(|name| outgoing(&from, name, None)).collect();
            let stamps: Vec<u64> = data.iter().map(DatumToSend::highest_stamp).collect();
            let to = registry();
            let made: Vec<Body> = bodies(data, Dialect::Nacre, || AT, body_bytes).collect();
            assert_eq!(made.iter().flat_map(|body| body.stamps.clone()).collect::<Vec<_>>(), stamps);
            for body in &made {
                let instances = String::from_utf8_lossy(&body.bytes).matches("nacreStamp").count();
                assert!(body.bytes.len() <= body_bytes || instances == 1);
                let read = batch::read(&body.bytes, AT).unwrap();
                let outcome = accept::take(&to, read, |_| Judge::Another, |_| ListFor::Whole, AT.now);
                assert!(outcome.taken.len() >= body.stamps.len() && outcome.faults().next().is_none());
            }
            assert_eq!(made.len(), count, "{body_bytes}");
            for name in &names {
                let state = |registry| outgoing(registry, name, None).state.unwrap();
                assert_eq!(state(&from).digest(), state(&to).digest());
                assert_eq!(state(&from).ephemeral.len(), state(&to).ephemeral.len());
            }
        }
        assert!(bodies([], Dialect::Nacre, || AT, 1).next().is_none());
    }

    #[test]
    fn a_part_takes_no_more_than_is_thought_and_not_much_less() {
        let from = registry();
        let place = Place { namespace: "public", name: "G@@s" };
        let text = Some("\u{1}\"".repeat(1_000));
        let long = ["x", KEY_ID_GENERATOR]
            .map(|key| crate::model::Metadata::from_entries([(key.into(), text.clone())]));
        let apps = [None, Some("\u{1}\\".repeat(200))];
        for (host, (app, metadata)) in (10..70).zip(apps.iter().zip(&long).cycle()) {
            let (ip, metadata) = (format!("10.0.0.{host}"), metadata.clone());
            let app = app.as_deref();
            let description = Description { metadata, app, ..Description::new(&ip, 80, "C") };
            from.register(place, &description, AT.now).unwrap();
        }
        for host in 10..20 {
            let ip = format!("10.0.0.{host}");
            from.deregister(place, Description::new(&ip, 80, "C").key, AT.now).unwrap();
        }
        for (dialect, part_bytes) in [(Dialect::Nacre, 60_000), (Dialect::Nacre, 1), (Dialect::Legacy, 1)] {
            for part in outgoing(&from, "G@@s", None).parts(dialect, part_bytes) {
                let mut bytes = Vec::new();
                append(&mut bytes, &part, dialect, AT);
                let is_close = part.bytes < 2 * bytes.len() + 1_000;
                assert!(bytes.len() <= part.bytes && is_close, "{} of {}", bytes.len(), part.bytes);
            }
        }
    }

    #[test]
    fn who_loads_takes_a_part_with_the_longest_instance_whatever_is_set() {
        let mut settings = crate::config::Settings::default();
        settings.cluster.peer_max_body_bytes = 2 * BODY_BYTES;
        for (metadata_bytes, name_bytes) in [(1 << 20, 512), (6 << 20, 8_192)] {
            (settings.naming.max_metadata_bytes, settings.naming.max_name_bytes) =
                (metadata_bytes, name_bytes);
            let limits = Limits::from(&settings.naming);
            let from = Registry::new(Arc::default(), limits).shared(AT);
            let (ip, app) = ("\u{1}".repeat(name_bytes), "\u{2}".repeat(name_bytes));
            let generator = ("preserved.instance.id.generator".into(), Some("y".repeat(metadata_bytes - 38)));
            let metadata = crate::model::Metadata::from_entries([generator]);
            assert_eq!(metadata.json().len(), metadata_bytes);
            let description = Description { metadata, app: Some(&app), ..Description::new(&ip, 80, "C") };
            from.register(Place { namespace: "public", name: "G@@s" }, &description, AT.now).unwrap();
            let all = json::to_bytes(&ShownData {
                data: &[outgoing(&from, "G@@s", None)],
                dialect: Dialect::Nacre,
                at: AT,
            });
            assert!(all.len() > 2 * metadata_bytes);
            let mut pieces = crate::distro::pieces::Pieces::new(settings.most_peer_bytes());
            pieces.push(&all).unwrap();
            assert_eq!(pieces.take_skipped(), [""; 0]);
        }
    }

    /// A service of 30 instances, of which some have gone, and its stamp.
    fn large() -> (Registry, u64) {
        let from = registry();
        (10..40).for_each(|host| register(&from, "G@@s", &format!("10.0.0.{host}"), AT.now.minus(500)));
        for ip in ["10.0.0.10", "10.0.0.25"] {
            let place = Place { namespace: "public", name: "G@@s" };
            from.deregister(place, Description::new(ip, 80, "C").key, AT.now).unwrap();
        }
        let stamp = outgoing(&from, "G@@s", None).highest_stamp();
        (from, stamp)
    }

    #[test]
    fn a_large_datum_goes_in_parts_and_is_had_with_the_last() {
        let (from, stamp) = large();
        let made: Vec<Body> = bodies([outgoing(&from, "G@@s", None)], Dialect::Nacre, || AT, 4_000).collect();
        assert!(made.len() > 4, "{}", made.len());
        let (last, others) = made.split_last().unwrap();
        assert!(others.iter().all(|body| body.stamps.is_empty()));
        assert_eq!(last.stamps, [stamp]);
        assert!(made.iter().all(|body| body.bytes.len() <= 4_000));
        let state = |registry: &Registry| outgoing(registry, "G@@s", None).state.unwrap();
        // In any order.
        for turned in [false, true] {
            let to = registry();
            let take = |body: &Body| {
                accept::take(
                    &to,
                    batch::read(&body.bytes, AT).unwrap(),
                    |_| Judge::Another,
                    |_| ListFor::News,
                    AT.now,
                )
            };
            let taken: Vec<_> =
                if turned { made.iter().rev().map(take).collect() } else { made.iter().map(take).collect() };
            assert!(taken.iter().all(|outcome| outcome.faults().next().is_none()));
            assert_eq!(state(&from).fingerprint(), state(&to).fingerprint());
            assert_eq!(state(&from).highest_stamp, state(&to).highest_stamp);
        }
        let legacy = texts(vec![outgoing(&from, "G@@s", None)], Dialect::Legacy, 4_000);
        assert_eq!(legacy.len(), 1, "1.x takes lists for whole");
    }

    #[test]
    fn what_the_parts_lack_is_told_to_their_sender_once() {
        let (from, _) = large();
        let to = registry();
        register(&to, "G@@s", "10.0.0.255", AT.now);
        let better = |newer_than| -> Vec<bool> {
            let made = bodies([outgoing(&from, "G@@s", newer_than)], Dialect::Nacre, || AT, 4_000);
            let take = |body: Body| {
                let read = batch::read(&body.bytes, AT).unwrap();
                accept::take(&to, read, |_| Judge::Another, |_| ListFor::News, AT.now).taken.remove(0).1
            };
            made.map(take)
                .map(|taken| matches!(taken, accept::Taken::Merged(merged) if merged.ours_is_newer))
                .collect()
        };
        // Its address stands between 10.0.0.25 and 10.0.0.26.
        let told = better(None);
        assert_eq!(told.iter().filter(|told| **told).count(), 1, "{told:?}");
        let told = better(Some(1));
        assert!(told.len() > 3 && !told.contains(&true), "news say nothing of the rest: {told:?}");
    }

    #[test]
    fn all_data_show_a_large_datum_in_parts() {
        let from = registry();
        let place = Place { namespace: "public", name: "G@@s" };
        for host in 0..10 {
            let long = crate::model::Metadata::from_entries([("x".into(), Some("y".repeat(1_000_000)))]);
            let ip = format!("10.0.0.{host}");
            let description = Description { metadata: long, ..Description::new(&ip, 80, "C") };
            from.register(place, &description, AT.now).unwrap();
        }
        register(&from, "G@@t", "10.0.0.1", AT.now);
        let data = [outgoing(&from, "G@@s", None), outgoing(&from, "G@@t", None)];
        let shown = |dialect| json::to_bytes(&ShownData { data: &data, dialect, at: AT });
        let all = shown(Dialect::Nacre);
        let read = batch::read(&all, AT).unwrap();
        let keys: Vec<&str> = read.iter().map(|(key, _)| key.rsplit("##").next().unwrap()).collect();
        assert_eq!(keys, ["G@@s", "G@@s", "G@@s", "G@@t"]);
        let to = registry();
        let mut pieces = crate::distro::pieces::Pieces::new(5 << 20);
        let mut taken = pieces.push(&all).unwrap();
        assert_eq!(pieces.take_skipped(), [""; 0]);
        taken.push(pieces.end().unwrap());
        for piece in taken {
            accept::take(&to, batch::read(&piece, AT).unwrap(), |_| Judge::Teller, |_| ListFor::Copy, AT.now);
        }
        for name in ["G@@s", "G@@t"] {
            let state = |registry| outgoing(registry, name, None).state.unwrap();
            assert_eq!(state(&from).fingerprint(), state(&to).fingerprint());
        }
        let read = batch::read(&shown(Dialect::Legacy), AT).unwrap();
        assert_eq!(read.len(), 2);
    }
}
