//! Data of peers: whole, in part wrong, and wrong altogether; and that what is written comes back as it was.

use std::sync::Arc;

use proptest::prelude::*;

use super::{Content, ReadDatum, read, read_answer};
use crate::{
    base::clock::{Millis, Reading},
    distro::{
        accept::{self, Taken},
        bodies::{BODY_BYTES, DatumToSend, Dialect, bodies},
    },
    model::{
        Entry, Extent, Instance, Limits, Registry, ServiceKey,
        gone::Cause,
        instance::{Description, InstanceId},
        merge::{Judge, ListFor},
        registry::Place,
    },
};

const AT: Reading = Reading { now: Millis(1 << 40), wall_ms: 1_795_983_049_938 };
const DAY_MS: u64 = 86_400_000;

fn key(name: &str) -> String {
    format!("com.alibaba.nacos.naming.iplist.ephemeral.public##{name}")
}

/// A datum that holds `rest` behind its key.
fn datum(name: &str, rest: &str) -> String {
    let key = key(name);
    format!(r#""{key}":{{"key":"{key}",{rest}}}"#)
}

fn body(data: &[String]) -> String {
    format!("{{{}}}", data.join(","))
}

/// What was read of the only key.
fn one(rest: &str) -> Result<ReadDatum, String> {
    let mut read = read(body(&[datum("G@@s", rest)]).as_bytes(), AT).unwrap();
    assert_eq!(read.len(), 1);
    read.remove(0).1.map_err(|error| error.to_string())
}

fn registry() -> Registry {
    Registry::new(Arc::default(), Limits::default()).shared(AT)
}

#[test]
fn a_datum_without_our_fields_is_a_list_and_one_with_them_tells_of_each() {
    let list = r#""value":{"instanceList":[{"ip":"a","port":1,"nacreStamp":5,"nacreAge":3}]},"timestamp":9"#;
    let Content::List(instances) = one(list).unwrap().content else { panic!("a list") };
    assert_eq!((instances[0].ip(), instances[0].stamp()), ("a", 0));
    let told = r#""nacre":{"complete":true,"gone":[{"ip":"b","port":"2","cluster":"C","stamp":7,"age":10},
        {"ip":"c","port":3,"stamp":8,"age":20,"silent":true,"beatAge":30000}],"later":{}}"#;
    let read = one(&format!("{list},{told}")).unwrap();
    assert_eq!((read.service, read.refused), (ServiceKey::new("public", "G@@s"), None));
    let Content::Entries { entries, extent: Extent::Whole } = read.content else { panic!("all entries") };
    let [Entry::Alive(a), Entry::Gone(b), Entry::Gone(c)] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!((a.stamp(), a.last_beat()), (5, AT.now.minus(3)));
    assert_eq!((&*b.ip, b.port, &*b.cluster, b.stamp, b.at), ("b", 2, "C", 7, AT.now.minus(10)));
    assert_eq!((b.cause, &*c.cluster), (Cause::Left, "DEFAULT"));
    assert_eq!(c.cause, Cause::Silent { last_beat: AT.now.minus(30_000) });
}

#[test]
fn what_can_not_be_read_of_a_datum_is_named() {
    for (rest, reason) in [
        (r#""value":null"#, "has no value that can be read"),
        (r#""timestamp":1"#, "has no value that can be read"),
        (r#""value":[]"#, "has no value that can be read"),
        (r#""value":{"instanceList":{}}"#, "has no instanceList that can be read"),
        (r#""value":{"instanceList":"a"}"#, "has no instanceList that can be read"),
        (r#""value":{},"nacre":5"#, "has no nacre that can be read"),
        (r#""value":{},"nacre":{"complete":"maybe"}"#, "has no complete that can be read"),
        (r#""value":{},"nacre":{"gone":{}}"#, "has no gone that can be read"),
        (r#""key":null,"value":{}"#, "lacks its key"),
        (r#""key":[],"value":{}"#, "has no key that can be read"),
        (r#""key":"x","value":{}"#, "has another key of its own"),
    ] {
        let said = one(rest).unwrap_err();
        assert_eq!(said, format!("the datum of public##G@@s {reason}"), "{rest}");
    }
    for null in [r#""value":{}"#, r#""value":{"instanceList":null},"nacre":null"#] {
        assert!(matches!(one(null).unwrap().content, Content::List(list) if list.is_empty()), "{null}");
    }
}

#[test]
fn an_instance_that_can_not_be_read_spoils_no_other() {
    let good = r#"{"ip":"a","port":1,"nacreStamp":5,"nacreAge":3}"#;
    let (ahead, far) = (AT.wall_ms + DAY_MS, AT.wall_ms + DAY_MS + 1);
    for (bad, reason) in [
        ("null".to_owned(), "an instance has no fields"),
        ("[1]".to_owned(), "an instance has no fields"),
        (r#"{"port":1,"nacreStamp":5,"nacreAge":3}"#.to_owned(), "an instance has no ip"),
        (r#"{"ip":"b","port":1,"nacreAge":3}"#.to_owned(), "an instance has no nacreStamp"),
        (r#"{"ip":"b","port":1,"nacreStamp":5}"#.to_owned(), "an instance has no nacreAge"),
        (
            r#"{"ip":"b","port":1,"nacreStamp":0,"nacreAge":3}"#.to_owned(),
            "an instance has a nacreStamp that can not be true: 0",
        ),
        (
            format!(r#"{{"ip":"b","port":1,"nacreStamp":{far},"nacreAge":3}}"#),
            "an instance has a nacreStamp that can not be true: 1796069449939",
        ),
        (
            r#"{"ip":"b","port":1,"nacreStamp":"x","nacreAge":3}"#.to_owned(),
            "an instance has a nacreStamp that can not be read",
        ),
        (
            r#"{"ip":"b","port":1,"nacreStamp":99999999999999999999,"nacreAge":3}"#.to_owned(),
            "an instance has a nacreStamp that can not be read",
        ),
        (
            r#"{"ip":"b","port":1,"nacreStamp":5,"nacreAge":-1}"#.to_owned(),
            "an instance has a nacreAge that can not be true: -1",
        ),
        (
            r#"{"ip":"b","port":1,"nacreStamp":5,"nacreAge":1099511627777}"#.to_owned(),
            "an instance has a nacreAge that can not be true: 1099511627777",
        ),
        (
            r#"{"ip":"b","port":{},"nacreStamp":5,"nacreAge":3}"#.to_owned(),
            "an instance has a port that can not be read",
        ),
    ] {
        let list = format!(r#""value":{{"instanceList":[{bad},{good}]}},"nacre":{{"complete":true}}"#);
        let read = one(&list).unwrap();
        assert_eq!(read.refused.unwrap().to_string(), reason, "{bad}");
        let Content::Entries { entries, extent } = read.content else { panic!("{bad}") };
        assert_eq!((entries.len(), extent), (1, Extent::News), "{bad}");
    }
    let list = format!(
        r#""value":{{"instanceList":[{{"ip":"b","nacreStamp":{ahead},"nacreAge":1099511627776}}]}},"nacre":{{}}"#
    );
    let Content::Entries { entries, extent: Extent::News } = one(&list).unwrap().content else {
        panic!("entries")
    };
    let [Entry::Alive(b)] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!((b.stamp(), b.last_beat()), (ahead, Millis(0)));
}

#[test]
fn a_tombstone_that_can_not_be_read_spoils_no_other() {
    for (bad, reason) in [
        ("null", "no fields"),
        ("7", "no fields"),
        (r#"{"port":1,"stamp":1,"age":1}"#, "no ip"),
        (r#"{"ip":{},"port":1,"stamp":1,"age":1}"#, "a ip that can not be read"),
        (r#"{"ip":"a","cluster":[],"stamp":1,"age":1}"#, "a cluster that can not be read"),
        (r#"{"ip":"a","port":"x","stamp":1,"age":1}"#, "a port that can not be read"),
        (r#"{"ip":"a","port":1,"age":1}"#, "no stamp"),
        (r#"{"ip":"a","port":1,"stamp":1}"#, "no age"),
        (r#"{"ip":"a","port":1,"stamp":1,"age":1,"silent":true}"#, "no beatAge"),
        (r#"{"ip":"a","port":1,"stamp":-1,"age":1}"#, "a stamp that can not be true: -1"),
    ] {
        let good = r#"{"ip":"z","port":1,"stamp":1,"age":1}"#;
        let read = one(&format!(r#""value":{{}},"nacre":{{"gone":[{bad},{good}]}}"#)).unwrap();
        assert_eq!(read.refused.unwrap().to_string(), format!("an instance has {reason}"), "{bad}");
        assert!(matches!(read.content, Content::Entries { entries, .. } if entries.len() == 1), "{bad}");
    }
}

#[test]
fn a_key_that_can_not_be_used_spoils_no_other() {
    let list = |ip: &str| format!(r#""value":{{"instanceList":[{{"ip":"{ip}","port":1}}]}}"#);
    let data = [
        datum("G@@a", &list("old")),
        datum("G@@b", r#""value":null"#),
        format!(r#""{}":null"#, key("G@@c")),
        datum("G@@/", &list("a")),
        r#""com.alibaba.nacos.naming.iplist.ephemeral.x":{"key":"y"}"#.to_owned(),
        r#""com.alibaba.nacos.naming.domains.meta.public##G@@s":{"key":"y"}"#.to_owned(),
        datum(
            "G@@d",
            r#""value":{"instanceList":[{"ip":"a","port":1,"clusterName":"a_b"},{"ip":"b"},null]}"#,
        ),
        datum("G@@a", &list("new")),
    ];
    let registry = registry();
    let outcome = accept::take(
        &registry,
        read(body(&data).as_bytes(), AT).unwrap(),
        |_| Judge::Another,
        |_| ListFor::Whole,
        AT.now,
    );
    let taken: Vec<_> = outcome.taken.iter().map(|(service, _)| &*service.name).collect();
    assert_eq!(taken, ["G@@a", "G@@d"]);
    let refused: Vec<_> = outcome.refused.iter().map(|(_, error)| error.to_string()).collect();
    assert_eq!(
        refused,
        [
            "the datum of public##G@@b has no value that can be read",
            "the datum of public##G@@c has no datum that can be read",
            "dom name can only have these characters: 0-9a-zA-Z-._:, current: G@@/",
            "the key com.alibaba.nacos.naming.iplist.ephemeral.x names no service",
        ]
    );
    let halved: Vec<_> =
        outcome.halved.iter().map(|(service, error)| format!("{service}: {error}")).collect();
    assert_eq!(
        halved,
        ["public##G@@d: the datum of public##G@@d can not be used: an instance has no fields"]
    );
    let ips = |name| {
        let state = registry.get(Place { namespace: "public", name }).unwrap().state();
        state.ephemeral.iter().map(|one| one.ip().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((ips("G@@a"), ips("G@@d"), registry.len()), (vec!["new".to_owned()], vec!["b".into()], 2));
}

#[test]
fn who_owns_a_service_decides_what_a_list_of_1x_does() {
    let registry = registry();
    let place = |name| Place { namespace: "public", name };
    let names = ["G@@ours", "G@@nacre", "G@@theirs"];
    for name in names {
        registry.register(place(name), &Description::new("a", 1, "DEFAULT"), AT.now).unwrap();
    }
    let list = r#""value":{"instanceList":[{"ip":"b","port":1}]}"#;
    let data = names.map(|name| datum(name, list));
    let read = read(body(&data).as_bytes(), AT).unwrap();
    let list_for = |service: &ServiceKey| match &*service.name {
        "G@@ours" => ListFor::News,
        "G@@nacre" => ListFor::Hearsay,
        _ => ListFor::Whole,
    };
    let outcome = accept::take(&registry, read, |_| Judge::Another, list_for, AT.now);
    let differs: Vec<_> = outcome
        .taken
        .iter()
        .map(|(_, taken)| matches!(taken, Taken::Replaced(replaced) if replaced.changed && replaced.ours_differs))
        .collect();
    assert_eq!(differs, [true, true, false]);
    let count = |name| registry.get(place(name)).unwrap().state().ephemeral.len();
    assert_eq!(names.map(count), [2, 2, 1], "of a Nacre member a list without stamps takes nothing away");
}

#[test]
fn what_is_no_object_is_refused_as_a_whole() {
    for text in ["", "[]", "null", "{", r#"{"a":}"#, "{}x", "\u{1f8b}", r#"{"a":[}"#] {
        assert!(read(text.as_bytes(), AT).is_err(), "{text}");
    }
    assert!(read(b"\x1f\x8b\x08\x00", AT).is_err() && read(b"{\"a\":\"\xff\"}", AT).is_err());
    assert!(read(b"{}", AT).unwrap().is_empty());
}

#[test]
fn what_is_nested_deeply_costs_no_stack() {
    let deep = format!("{}{}", "[".repeat(1 << 20), "]".repeat(1 << 20));
    let of_instance = format!(r#"{{"ip":"a","port":1,"more":{deep},"metadata":{{"k":{deep}}}}}"#);
    let good = r#"{"ip":"b","port":1}"#;
    let read = one(&format!(r#""more":{deep},"value":{{"x":{deep},"instanceList":[{of_instance},{good}]}}"#));
    let read = read.unwrap();
    assert_eq!(read.refused.unwrap().to_string(), "an instance has a metadata that can not be read");
    assert!(matches!(read.content, Content::List(list) if list.len() == 1));
    assert_eq!(
        one(&format!(r#""value":{deep}"#)).unwrap_err(),
        "the datum of public##G@@s has no value that can be read"
    );
    assert_eq!(
        one(&format!(r#""value":{{"instanceList":{deep}}}"#)).unwrap().refused.unwrap().to_string(),
        "an instance has no fields"
    );
}

fn described() -> impl Strategy<Value = Instance> {
    let text = "[a-zA-Z0-9\"\\\\\u{0}-\u{1f}é中\u{1F600}:,#]{0,6}";
    let metadata = prop::collection::vec((text, prop::option::of(text)), 0..4);
    let id = prop_oneof![
        Just(InstanceId::Simple),
        Just(InstanceId::Missing),
        text.prop_map(|id| InstanceId::Given(id.into())),
    ];
    let flags = any::<[bool; 3]>();
    let weight = prop_oneof![Just(1.0), Just(0.0), 0.0..10_000.0];
    (
        "[a-z]{1,2}",
        -1..3,
        prop_oneof![Just("DEFAULT"), Just("C-1")],
        weight,
        flags,
        metadata,
        id,
        prop::option::of(prop_oneof![Just("DEFAULT".to_owned()), text.prop_map(|app| app)]),
    )
        .prop_map(|(ip, port, cluster, weight, [healthy, enabled, marked], metadata, id, app)| {
            let metadata = crate::model::Metadata::from_entries(metadata);
            let description = Description {
                weight,
                healthy,
                enabled,
                metadata,
                app: app.as_deref(),
                ..Description::new(&ip, port, cluster)
            };
            let mut instance = Instance::new(description, id, AT.now.minus(1_000));
            instance.marked = marked;
            instance
        })
}

proptest! {
    #[test]
    fn what_is_told_is_the_same_with_whoever_takes_it(list in prop::collection::vec(described(), 1..6)) {
        let (from, to) = (registry(), registry());
        let service = ServiceKey::new("public", "G@@s");
        from.replace_by_legacy(service.place(), &list, ListFor::Whole, AT.now).unwrap();
        let state = |registry: &Registry| registry.get(service.place()).unwrap().state();
        let data = [DatumToSend { service: service.clone(), state: Some(state(&from)), newer_than: None, is_copy: false }];
        for body in bodies(data, Dialect::Nacre, || AT, BODY_BYTES) {
            let outcome = accept::take(&to, read(&body.bytes, AT).unwrap(), |_| Judge::Another, |_| ListFor::Whole, AT.now);
            prop_assert_eq!(outcome.refused.len() + outcome.halved.len(), 0);
        }
        prop_assert_eq!(state(&from).digest(), state(&to).digest());
        prop_assert_eq!(state(&from).highest_stamp, state(&to).highest_stamp);
        prop_assert_eq!(
            crate::distro::checksum::of(&state(&from)),
            crate::distro::checksum::of(&state(&to))
        );
    }

    #[test]
    fn no_bytes_are_too_much(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes, AT);
    }
}

#[test]
fn all_parts_of_a_large_service_count() {
    let part = |ip: &str, beside: &str| {
        let instance = format!(r#"{{"ip":"{ip}","port":1,"nacreStamp":5,"nacreAge":1}}"#);
        datum("G@@s", &format!(r#""value":{{"instanceList":[{instance}]}},"nacre":{{{beside}}}"#))
    };
    let one = part("a", r#""complete":false,"within":{"to":{"ip":"a","port":1,"cluster":"DEFAULT"}}"#);
    let other = part("b", r#""complete":false,"within":{"after":{"ip":"a","port":1,"cluster":"DEFAULT"}}"#);
    let broken = datum("G@@s", r#""value":{},"nacre":{"within":5}"#);
    let data = read(format!("{{{one},{broken},{other}}}").as_bytes(), AT).unwrap();
    let told: Vec<_> = data.into_iter().map(|(_, datum)| datum.ok().map(|datum| datum.content)).collect();
    let [
        Some(Content::Entries { extent: Extent::Within(one), .. }),
        None,
        Some(Content::Entries { extent: Extent::Within(other), .. }),
    ] = &told[..]
    else {
        panic!("{told:?}")
    };
    assert_eq!((&one.after, &one.to), (&None, &other.after));
    let wrong = part("a", r#""within":{"to":{"ip":"a","port":1,"cluster":"DEFAULT"}}"#).replace("5", "-5");
    let (_, datum) = read(format!("{{{wrong}}}").as_bytes(), AT).unwrap().remove(0);
    assert!(
        matches!(datum.unwrap().content, Content::Entries { extent: Extent::News, .. }),
        "one is left out"
    );
}

#[test]
fn ages_of_an_answer_are_never_too_young() {
    let entry = r#"KEY":{"key":"KEY","value":{"instanceList":[{"ip":"a","port":1,"nacreStamp":5,"nacreAge":3}]},"nacre":{"gone":[{"ip":"b","port":1,"stamp":6,"age":7}]}}"#;
    let key = "com.alibaba.nacos.naming.iplist.ephemeral.public##G@@s";
    let body = format!("{{\"{}}}", entry.replace("KEY", key));
    let asked = Reading { now: AT.now.minus(20_000), wall_ms: AT.wall_ms - 20_000 };
    let (_, datum) = read_answer(body.as_bytes(), asked, AT).unwrap().remove(0);
    let Content::Entries { entries, .. } = datum.unwrap().content else { panic!("a Nacre member's") };
    let [Entry::Alive(alive), Entry::Gone(gone)] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!((alive.last_beat(), gone.at), (AT.now.minus(20_003), AT.now.minus(7)));
}
