use std::{num::NonZeroU32, time::Duration};

use super::*;
use crate::{
    model::{InstanceKey, Metadata, instance::Description, registry::Place},
    proxy::{
        expression::Expression,
        rule::{Ejection, HashBy},
    },
};

const PLACE: Place<'static> = Place { namespace: "public", name: "DEFAULT_GROUP@@orders" };
const NOW: Millis = Millis(1_000_000);

fn table() -> Table {
    Table::new(Arc::new(Registry::new(Arc::default(), Default::default())), 7)
}

fn backends(table: &Table) -> Backends {
    Backends::new(table, destination(), None)
}

fn destination() -> Destination {
    Destination { service: PLACE.to_key(), clusters: Vec::new(), metadata: None }
}

/// Registers `10.0.0.HOST:80` of a cluster.
fn register(table: &Table, host: u8, change: impl FnOnce(&mut Description<'_>)) {
    let ip = format!("10.0.0.{host}");
    let mut described = Description::new(&ip, 80, "DEFAULT");
    change(&mut described);
    table.registry.register(PLACE, &described, NOW).unwrap();
}

fn deregister(table: &Table, host: u8) {
    let ip = format!("10.0.0.{host}");
    table.registry.deregister(PLACE, InstanceKey { ip: &ip, port: 80, cluster: "DEFAULT" }, NOW).unwrap();
}

const WANTED: Wanted<'static> = Wanted {
    now: NOW,
    balance: &Balance::RoundRobin,
    key: 0,
    tried: &[],
    per_instance: 10,
    slow_start: Duration::ZERO,
};

/// The last number of the address that is picked.
fn pick(table: &Table, backends: &Backends, wanted: &Wanted<'_>) -> Result<u8, Unpicked> {
    let slot = backends.selection(table, wanted.now).pick(table, wanted)?;
    Ok(slot.upstream().host.rsplit_once('.').unwrap().1.parse().unwrap())
}

fn counts(table: &Table, backends: &Backends, wanted: &Wanted<'_>, turns: u32) -> HashMap<u8, u32> {
    let mut counts = HashMap::new();
    for _ in 0..turns {
        *counts.entry(pick(table, backends, wanted).unwrap()).or_default() += 1;
    }
    counts
}

#[test]
fn a_hundred_thousand_requests_go_by_weight() {
    let table = table();
    for (host, weight) in [(1, 1.0), (2, 2.0), (3, 7.0)] {
        register(&table, host, |described| described.weight = weight);
    }
    let backends = backends(&table);
    for balance in [Balance::RoundRobin, Balance::LeastRequest] {
        let counts = counts(&table, &backends, &Wanted { balance: &balance, ..WANTED }, 100_000);
        for (host, expected) in [(1, 10_000_u32), (2, 20_000), (3, 70_000)] {
            assert!(counts[&host].abs_diff(expected) <= 1_000, "{balance:?} {counts:?}");
        }
    }
}

#[test]
fn one_that_has_left_gets_nothing_from_the_next_request_on() {
    let table = table();
    let backends = backends(&table);
    assert_eq!(pick(&table, &backends, &WANTED), Err(Unpicked::Nobody));
    for host in 1..=3 {
        register(&table, host, |_| {});
    }
    assert_eq!(counts(&table, &backends, &WANTED, 30), HashMap::from([(1, 10), (2, 10), (3, 10)]));
    deregister(&table, 2);
    assert!(!counts(&table, &backends, &WANTED, 30).contains_key(&2));
    register(&table, 1, |described| described.weight = 0.0);
    assert_eq!(counts(&table, &backends, &WANTED, 30), HashMap::from([(3, 30)]));
    register(&table, 3, |described| described.enabled = false);
    assert_eq!(pick(&table, &backends, &WANTED), Err(Unpicked::Nobody));
}

#[test]
fn what_is_known_of_an_instance_outlives_a_change_of_its_weight() {
    let table = table();
    let backends = backends(&table);
    register(&table, 1, |_| {});
    let before = Arc::clone(&backends.selection(&table, NOW).members[0].upstream);
    register(&table, 1, |described| described.weight = 5.0);
    let after = backends.selection(&table, NOW.plus(5));
    assert!(Arc::ptr_eq(&before, &after.members[0].upstream));
    assert_eq!((before.since(), after.members[0].weight), (NOW, 5.0));
    // One that comes back to weight is new.
    register(&table, 1, |described| described.weight = 0.0);
    let _ = backends.selection(&table, NOW.plus(6));
    register(&table, 1, |_| {});
    let _ = backends.selection(&table, NOW.plus(7));
    assert_eq!(before.since(), NOW.plus(7));
}

#[test]
fn an_address_in_two_clusters_is_one_upstream() {
    let table = table();
    register(&table, 1, |_| {});
    register(&table, 1, |described| described.key.cluster = "other");
    register(&table, 2, |_| {});
    let backends = backends(&table);
    assert_eq!(counts(&table, &backends, &WANTED, 30), HashMap::from([(1, 15), (2, 15)]));
    assert_eq!(backends.selection(&table, NOW).members.len(), 2);
    assert_eq!(table.upstreams.all().len(), 2);
}

#[test]
fn the_unhealthy_get_nothing_unless_protection_shows_them() {
    let table = table();
    for host in 1..=4 {
        register(&table, host, |described| described.healthy = host > 2);
    }
    let backends = backends(&table);
    let hosts = |backends: &Backends| {
        let mut hosts: Vec<u8> = counts(&table, backends, &WANTED, 40).into_keys().collect();
        hosts.sort_unstable();
        hosts
    };
    assert_eq!(hosts(&backends), [3, 4]);
    let service = table.registry.get(PLACE).unwrap();
    table
        .registry
        .write(&service, NOW, |draft| {
            let mut definition = (*draft.definition).clone();
            definition.protect_threshold = 0.5;
            draft.definition = Arc::new(definition);
            draft.touched.definition = true;
        })
        .unwrap();
    assert_eq!(hosts(&backends), [1, 2, 3, 4]);
}

#[test]
fn clusters_and_metadata_choose_and_a_preferred_cluster_comes_first() {
    let table = table();
    let metadata = |text: &str| text.parse::<Metadata>().unwrap();
    register(&table, 1, |described| described.metadata = metadata("version=v1"));
    register(&table, 2, |described| described.metadata = metadata("version=v2"));
    for host in [3, 4] {
        register(&table, host, |described| {
            described.key.cluster = "far";
            described.metadata = metadata("version=v2");
        });
    }
    let with = |clusters: &[&str], wanted: Option<&str>, prefer: Option<&str>| {
        let destination = Destination {
            clusters: clusters.iter().map(|cluster| (*cluster).into()).collect(),
            metadata: wanted.map(|text| Expression::parse(text).unwrap()),
            ..destination()
        };
        let backends = Backends::new(&table, destination, prefer.map(Into::into));
        let mut hosts: Vec<u8> = counts(&table, &backends, &WANTED, 40).into_keys().collect();
        hosts.sort_unstable();
        hosts
    };
    assert_eq!(with(&["far"], None, None), [3, 4]);
    assert_eq!(with(&[], Some("version = v2"), None), [2, 3, 4]);
    assert_eq!(with(&[], Some("version = v2"), Some("DEFAULT")), [2]);
    assert_eq!(with(&[], None, Some("nowhere")), [1, 2, 3, 4]);
    // Others take over as soon as the near ones are full.
    let backends = Backends::new(&table, destination(), Some("far".into()));
    let selection = backends.selection(&table, NOW);
    let wanted = Wanted { per_instance: 1, ..WANTED };
    let slots: Vec<Slot> = (0..4).map(|_| selection.pick(&table, &wanted).unwrap()).collect();
    assert!(slots[..2].iter().all(|slot| slot.upstream().host.ends_with(['3', '4'])));
    assert_eq!(selection.pick(&table, &wanted).map(drop), Err(Unpicked::Full));
    drop(slots);
    assert!(selection.pick(&table, &wanted).is_ok());
}

#[test]
fn who_has_failed_or_is_ejected_is_passed_over_while_others_are_there() {
    let table = table();
    for host in 1..=3 {
        register(&table, host, |_| {});
    }
    let backends = backends(&table);
    let selection = backends.selection(&table, NOW);
    let rule = Ejection { after: NonZeroU32::new(1), time: Duration::from_secs(10), share_percent: 50 };
    let of = |host: usize| Arc::clone(&selection.members[host - 1].upstream);
    of(1).failed(NOW, "refused", &rule, selection.usable());
    assert_eq!(counts(&table, &backends, &WANTED, 20), HashMap::from([(2, 10), (3, 10)]));
    for balance in [Balance::RoundRobin, Balance::LeastRequest, Balance::Hash(HashBy::Address)] {
        let picked = |tried: &[Arc<Upstream>]| {
            pick(&table, &backends, &Wanted { tried, balance: &balance, ..WANTED }).unwrap()
        };
        assert_eq!(picked(&[of(2)]), 3);
        assert_eq!(picked(&[of(2), of(3)]), 1);
        picked(&[of(1), of(2), of(3)]);
    }
    let later = Wanted { now: NOW.plus(10_000), ..WANTED };
    assert_eq!(counts(&table, &backends, &later, 30).len(), 3);
}

#[test]
fn a_new_instance_begins_slowly() {
    let table = table();
    register(&table, 1, |_| {});
    let backends = backends(&table);
    let _ = backends.selection(&table, NOW);
    let later = NOW.plus(600_000);
    register(&table, 2, |_| {});
    let slow = |now| Wanted { now, slow_start: Duration::from_secs(10), ..WANTED };
    let _ = backends.selection(&table, later);
    let counted = counts(&table, &backends, &slow(later), 1_100);
    assert!((95..=105).contains(&counted[&2]), "{counted:?}");
    for balance in [Balance::LeastRequest, Balance::Hash(HashBy::Address)] {
        let picked =
            |key| pick(&table, &backends, &Wanted { key, balance: &balance, ..slow(later) }).unwrap();
        let new = (0..1_100).filter(|key| picked(*key) == 2).count();
        assert!((60..=140).contains(&new), "{balance:?}: {new}");
    }
    let counted = counts(&table, &backends, &slow(later.plus(10_000)), 1_000);
    assert!((495..=505).contains(&counted[&2]), "{counted:?}");
}

#[test]
fn a_key_stays_with_its_instance() {
    let table = table();
    for host in 1..=10 {
        register(&table, host, |_| {});
    }
    let backends = backends(&table);
    let balance = Balance::Hash(HashBy::Address);
    let at = |key| pick(&table, &backends, &Wanted { key, balance: &balance, ..WANTED }).unwrap();
    let before: Vec<u8> = (0..1_000).map(at).collect();
    assert_eq!(before, (0..1_000).map(at).collect::<Vec<_>>());
    deregister(&table, 4);
    let moved = before.iter().zip((0..1_000).map(at)).filter(|(before, after)| **before != *after);
    let moved: Vec<u8> = moved.map(|(before, _)| *before).collect();
    assert!(moved.iter().all(|before| *before == 4) && (60..=150).contains(&moved.len()), "{}", moved.len());
}

#[test]
fn what_is_registered_without_a_port_gets_nothing() {
    let table = table();
    for port in [-1, 0, 65_536] {
        let described = Description::new("10.0.0.9", port, "DEFAULT");
        table.registry.register(PLACE, &described, NOW).unwrap();
    }
    assert_eq!(pick(&table, &backends(&table), &WANTED), Err(Unpicked::Nobody));
}
