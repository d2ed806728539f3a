//! The door over a disk with faults: what is refused is nowhere, now and after a restart.

use std::{path::Path, sync::Arc};

use super::{
    Applied, Change, Handle, Scope, Store, StoreHealth, WriteError,
    faulty::{Faults, FaultyDisk},
};
use crate::{
    base::clock::Clock,
    model::{
        Registry, ServiceKey, change::Changes, instance::Description, namespaces::Namespace,
        switches::Switches,
    },
};

struct Node {
    handle: Handle,
    applied: Applied,
}

fn start(disk: &FaultyDisk) -> Node {
    let applied = Applied {
        registry: Arc::new(Registry::new(Arc::new(Changes::default()), Default::default())),
        switches: Arc::default(),
        namespaces: Arc::default(),
        clock: Clock::set(1_000_000),
    };
    let store = Store::open_with(disk.clone()).unwrap();
    Node { handle: Handle::start(store, Path::new("memory"), applied.clone()).unwrap(), applied }
}

fn key() -> ServiceKey {
    ServiceKey::new("public", "G@@s")
}

impl Node {
    /// Registers a persistent instance of this weight in this cluster.
    async fn register(&self, cluster: &'static str, weight: f64) -> Result<(), WriteError> {
        let decided = self.handle.submit(Scope::service(&key()), move |applied: &Applied| {
            let described =
                Description { weight, ephemeral: false, ..Description::new("10.0.0.1", 80, cluster) };
            let prepared = applied.registry.prepare(key().place(), described, applied.clock.now()).unwrap();
            let definition = prepared.definition.map(|new| Change::Service(key(), Box::new(new)));
            let instance = Change::Instance(key(), Box::new(prepared.instance));
            Ok::<_, WriteError>((definition.into_iter().chain([instance]).collect(), ()))
        });
        decided.await
    }

    async fn change(&self, change: Change) -> Result<(), WriteError> {
        self.handle.submit(Scope::Everything, move |_: &Applied| Ok((vec![change], ()))).await
    }

    /// Everything that is applied.
    fn shown(&self) -> String {
        let state = self.applied.registry.get(key().place()).map(|service| service.state());
        let service = state.map(|state| {
            let instances: Vec<String> = state.instances().map(|instance| instance.describe()).collect();
            let clusters = state.definition.clusters.iter().map(|cluster| cluster.name.to_string());
            (clusters.collect::<Vec<_>>(), instances, state.checksum("G@@s").to_string())
        });
        let (switches, namespaces) = (self.applied.switches.stored(), self.applied.namespaces.list());
        format!("{service:?} {switches:?} {namespaces:?}")
    }
}

fn changes() -> Vec<Change> {
    let mut switches = Switches::default();
    switches.set("distroThreshold", "0.123456789").unwrap();
    let namespace = Namespace { id: "n".into(), name: "N".into(), description: String::new(), place: 0 };
    vec![
        Change::Switches(Box::new(switches)),
        Change::Namespace(namespace),
        Change::NoService(key(), Vec::new()),
    ]
}

#[tokio::test]
async fn what_the_disk_refuses_shows_nowhere_and_later_it_works() {
    for faults in [Faults::Full, Faults::SyncAfterWriting, Faults::SyncLoses] {
        let disk = FaultyDisk::new(7);
        let node = start(&disk);
        let empty = node.shown();
        disk.set(faults);
        assert!(matches!(node.register("A", 0.1).await, Err(WriteError::Store(_))));
        assert_eq!(node.shown(), empty, "not even the service is made");
        disk.set(Faults::None);
        node.register("A", 0.1).await.unwrap();
        let before = node.shown();
        disk.set(faults);
        assert!(matches!(node.register("B", 0.2).await, Err(WriteError::Store(_))));
        for change in changes() {
            assert!(matches!(node.change(change).await, Err(WriteError::Store(_))));
        }
        assert!(matches!(node.handle.health(), StoreHealth::Failing { .. }));
        assert_eq!(node.shown(), before);
        disk.set(Faults::None);
        node.register("C", 0.3).await.unwrap();
        assert_eq!(node.handle.health(), StoreHealth::Ok);
        let after = node.shown();
        assert_ne!(after, before);
        node.handle.stop().await;
        drop(node);
        assert_eq!(start(&disk).shown(), after, "{faults:?}");
    }
}

#[tokio::test]
async fn a_service_that_stayed_empty_is_gone_after_a_restart_too() {
    let disk = FaultyDisk::new(7);
    let node = start(&disk);
    node.register("A", 1.0).await.unwrap();
    let gone = super::GoneInstance { ip: "10.0.0.1".into(), port: 80, cluster: "A".into() };
    node.change(Change::NoInstance(key(), gone)).await.unwrap();
    assert!(node.applied.registry.get(key().place()).unwrap().state().may_go());
    node.change(Change::IdleService(key())).await.unwrap();
    assert!(node.applied.registry.is_empty());
    node.handle.stop().await;
    assert!(start(&disk).applied.registry.is_empty());
}

#[tokio::test]
async fn a_service_that_was_found_empty_too_late_stays_and_is_stored_again() {
    let disk = FaultyDisk::new(7);
    let node = start(&disk);
    node.register("A", 1.0).await.unwrap();
    let gone = super::GoneInstance { ip: "10.0.0.1".into(), port: 80, cluster: "A".into() };
    node.change(Change::NoInstance(key(), gone)).await.unwrap();
    let ephemeral = Description::new("10.0.0.2", 80, "A");
    node.applied.registry.register(key().place(), &ephemeral, node.applied.clock.now()).unwrap();
    node.change(Change::IdleService(key())).await.unwrap();
    let state = node.applied.registry.get(key().place()).unwrap().state();
    assert!(state.len() == 1 && !state.definition.durable);
    node.register("A", 1.0).await.unwrap();
    assert!(node.applied.registry.get(key().place()).unwrap().state().definition.durable);
}

#[tokio::test]
async fn a_node_with_members_changes_nothing_persistent_and_says_what_is_wrong_with_a_change_first() {
    let disk = FaultyDisk::new(7);
    let node = start(&disk);
    node.register("DEFAULT", 1.0).await.unwrap();
    let before = node.shown();
    let node = Node { handle: node.handle.among_members(), applied: node.applied };
    assert!(matches!(node.register("DEFAULT", 2.0).await, Err(WriteError::Members)));
    let namespace = Namespace { id: "n".into(), name: "n".into(), description: String::new(), place: 0 };
    assert!(matches!(node.change(Change::Namespace(namespace)).await, Err(WriteError::Members)));
    let nothing = node.handle.submit(Scope::Everything, |_: &Applied| Ok::<_, WriteError>((Vec::new(), ())));
    assert!(matches!(nothing.await, Err(WriteError::Members)));
    let wrong = |_: &Applied| Err::<(Vec<Change>, ()), _>(WriteError::Stopped);
    assert!(matches!(node.handle.submit(Scope::Everything, wrong).await, Err(WriteError::Stopped)));
    assert!(node.handle.check_alone().is_err());
    assert_eq!(node.shown(), before);
}
