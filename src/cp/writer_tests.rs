//! The writer as its callers see it: order, sharing of transactions, faults, bounds, the end.

use std::{
    collections::BTreeMap,
    sync::{Arc, mpsc},
    time::Duration,
};

use futures_util::future::join_all;
use parking_lot::Mutex;

use super::{
    Decision, Record, Scope, Store, StoreHealth, Table, WriteError, Writer, WriterHandle,
    faulty::{Faults, FaultyDisk},
};

type Memory = Arc<Mutex<BTreeMap<String, u64>>>;

/// What the callers here can be told; `Taken` is a refusal of their own.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("taken")]
    Taken,
    #[error(transparent)]
    Write(#[from] WriteError),
}

struct Node {
    disk: FaultyDisk,
    memory: Memory,
    writer: WriterHandle,
}

fn node() -> Node {
    let disk = FaultyDisk::new(1);
    let writer = Writer::spawn(Store::open_with(disk.clone()).unwrap()).unwrap();
    Node { disk, memory: Memory::default(), writer }
}

fn instance(key: &str) -> Scope {
    Scope::Instance { service: "s".into(), instance: key.into() }
}

impl Node {
    /// Adds one to the number under `key`, in memory and on disk; answers the new number.
    fn add(&self, scope: Scope, key: &str) -> impl Future<Output = Result<u64, Refused>> + Send + use<> {
        let (memory, key) = (self.memory.clone(), key.to_owned());
        self.writer.submit(scope, move || {
            let new = memory.lock().get(&key).map_or(1, |old| old + 1);
            let record = Record::put(Table::Instances, key.as_bytes(), new.to_be_bytes());
            Ok(Decision::new(vec![record], move || {
                memory.lock().insert(key, new);
                new
            }))
        })
    }

    /// Holds the writer until the result is dropped or sent to, so that jobs gather behind it.
    fn hold(&self) -> mpsc::Sender<()> {
        let (release, held) = mpsc::channel();
        let _job = self.writer.submit(Scope::Service("holds".into()), move || {
            let _ = held.recv();
            Ok::<_, WriteError>(Decision::new(Vec::new(), || ()))
        });
        release
    }

    /// Stops the writer and reads what is on disk.
    async fn on_disk(&self) -> BTreeMap<String, u64> {
        self.writer.stop().await;
        let mut found = BTreeMap::new();
        let mut store = Store::open_with(self.disk.clone()).unwrap();
        store
            .load(Table::Instances, |key, value| {
                let number = u64::from_be_bytes(value.try_into().unwrap());
                found.insert(String::from_utf8(key.to_vec()).unwrap(), number);
            })
            .unwrap();
        found
    }
}

#[tokio::test]
async fn sixteen_callers_share_one_transaction() {
    let node = node();
    let release = node.hold();
    let jobs: Vec<_> = (0..16).map(|i| node.add(instance(&i.to_string()), &i.to_string())).collect();
    drop(release);
    for answer in join_all(jobs).await {
        assert_eq!(answer.unwrap(), 1);
    }
    assert_eq!(node.writer.stats().commits, 1);
    assert_eq!(node.writer.stats().jobs, 16, "the holder wrote nothing");
    assert_eq!(node.on_disk().await, *node.memory.lock());
    assert_eq!(node.memory.lock().len(), 16);
}

#[tokio::test]
async fn jobs_of_one_scope_see_each_other_in_order() {
    for scope in [instance("k"), Scope::Service("s".into()), Scope::Everything] {
        let node = node();
        let release = node.hold();
        let jobs: Vec<_> = (0..20).map(|_| node.add(scope.clone(), "k")).collect();
        drop(release);
        let answers: Vec<_> = join_all(jobs).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(answers, (1..=20).collect::<Vec<_>>());
        assert_eq!(node.on_disk().await, BTreeMap::from([("k".to_owned(), 20)]));
    }
}

#[tokio::test]
async fn a_batch_ends_at_its_bounds() {
    let node = node();
    let release = node.hold();
    let many: Vec<_> = (0..600).map(|i| node.add(instance(&i.to_string()), &i.to_string())).collect();
    drop(release);
    assert!(join_all(many).await.iter().all(Result::is_ok));
    assert_eq!(node.writer.stats().commits, 3, "600 and the holder at 256 each");

    let release = node.hold();
    let big: Vec<_> = (0..4)
        .map(|i| {
            node.writer.submit(instance(&i.to_string()), move || {
                let record = Record::put(Table::Services, i.to_string().as_bytes(), vec![0; 2 << 20]);
                Ok::<_, WriteError>(Decision::new(vec![record], || ()))
            })
        })
        .collect();
    drop(release);
    assert!(join_all(big).await.iter().all(Result::is_ok));
    assert_eq!(node.writer.stats().commits, 5, "two of 2 MiB each");
}

#[tokio::test]
async fn a_refusal_is_answered_and_nothing_is_written() {
    let node = node();
    let refused = node.writer.submit(instance("k"), || Err::<Decision<()>, _>(Refused::Taken)).await;
    assert!(matches!(refused, Err(Refused::Taken)));
    assert_eq!(node.writer.stats().commits, 0);
    assert_eq!(node.add(instance("k"), "k").await.unwrap(), 1);
}

#[tokio::test]
async fn a_failed_batch_is_answered_with_the_reason_and_not_applied() {
    let node = node();
    node.add(instance("a"), "a").await.unwrap();
    assert_eq!(node.writer.health(), StoreHealth::Ok);
    for (faults, reason) in [
        (Faults::Full, "the change wasn't made: no space left for the store: "),
        (
            Faults::SyncAfterWriting,
            "the change wasn't made: the store can't be read or written: I/O error: sync failed",
        ),
    ] {
        node.disk.set(faults);
        let release = node.hold();
        let jobs = ["a", "b", "c"].map(|key| node.add(instance(key), key));
        drop(release);
        for answer in join_all(jobs).await {
            let text = answer.unwrap_err().to_string();
            assert!(text.starts_with(reason), "{text}");
        }
        let StoreHealth::Failing { since, .. } = node.writer.health() else { panic!("healthy") };
        assert!(node.add(instance("d"), "d").await.is_err());
        let StoreHealth::Failing { since: still, .. } = node.writer.health() else { panic!("healthy") };
        assert_eq!(since, still, "since the first failure");
        assert_eq!(*node.memory.lock(), BTreeMap::from([("a".to_owned(), 1)]));
        node.disk.set(Faults::None);
        assert_eq!(node.add(instance("a"), "a").await.unwrap(), 2, "works at once when the fault is over");
        assert_eq!(node.writer.health(), StoreHealth::Ok);
        node.memory.lock().insert("a".to_owned(), 1);
    }
    node.memory.lock().insert("a".to_owned(), 2);
    assert_eq!(node.on_disk().await, *node.memory.lock());
}

#[tokio::test]
async fn what_needs_nothing_written_works_on_a_full_disk() {
    let node = node();
    node.disk.set(Faults::Full);
    assert!(node.add(instance("k"), "k").await.is_err());
    let nothing = || Ok::<_, WriteError>(Decision::new(Vec::new(), || "nothing to do"));
    assert_eq!(node.writer.submit(instance("k"), nothing).await.unwrap(), "nothing to do");
    assert_eq!(node.writer.stats().jobs, 0);
}

#[tokio::test]
async fn an_idle_writer_notices_that_the_fault_has_ended() {
    let node = node();
    node.disk.set(Faults::Full);
    assert!(node.add(instance("k"), "k").await.is_err());
    node.disk.set(Faults::None);
    let healthy = async {
        while node.writer.health() != StoreHealth::Ok {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), healthy).await.unwrap();
    assert_eq!(node.on_disk().await, BTreeMap::new());
}

#[tokio::test]
async fn a_full_queue_refuses_at_once_and_loses_nothing() {
    let node = node();
    let release = node.hold();
    let mut waiting = Vec::new();
    let refusal = loop {
        let key = waiting.len().to_string();
        let mut job = Box::pin(node.add(instance(&key), &key));
        match futures_util::poll!(&mut job) {
            std::task::Poll::Pending => waiting.push(job),
            std::task::Poll::Ready(answer) => break answer.unwrap_err(),
        }
    };
    assert!(matches!(refusal, Refused::Write(WriteError::Busy { limit: 4096 })), "{refusal}");
    drop(release);
    assert!(join_all(waiting).await.iter().all(Result::is_ok));
    assert!(node.memory.lock().len() >= 4095);
    assert_eq!(node.on_disk().await, *node.memory.lock());
}

#[tokio::test]
async fn stopping_finishes_what_is_queued_and_refuses_the_rest() {
    let node = node();
    let release = node.hold();
    let jobs: Vec<_> = (0..300).map(|i| node.add(instance(&i.to_string()), &i.to_string())).collect();
    let (writer, other) = (node.writer.clone(), node.writer.clone());
    let stops = tokio::spawn(async move { tokio::join!(writer.stop(), other.stop()) });
    loop {
        tokio::task::yield_now().await;
        let late = node.writer.submit(instance("late"), || Err::<Decision<()>, _>(WriteError::Panicked));
        let late = Box::pin(late);
        if let std::task::Poll::Ready(answer) = futures_util::poll!(late) {
            assert!(matches!(answer, Err(WriteError::Stopped)));
            break;
        }
    }
    drop(release);
    assert!(join_all(jobs).await.iter().all(Result::is_ok));
    stops.await.unwrap();
    assert_eq!(node.on_disk().await, *node.memory.lock());
    assert_eq!(node.memory.lock().len(), 300);
}

#[tokio::test]
async fn stopping_a_failing_writer_waits_for_no_retry() {
    let node = node();
    node.disk.set(Faults::Full);
    assert!(node.add(instance("k"), "k").await.is_err());
    let jobs: Vec<_> = (0..20).map(|_| node.add(instance("k"), "k")).collect();
    node.writer.stop().await;
    assert!(join_all(jobs).await.iter().all(Result::is_err));
    node.disk.set(Faults::None);
    assert_eq!(node.on_disk().await, BTreeMap::new());
}

#[tokio::test]
async fn a_job_whose_caller_has_gone_is_done() {
    let node = node();
    drop(node.add(instance("k"), "k"));
    assert_eq!(node.on_disk().await, BTreeMap::from([("k".to_owned(), 1)]));
}

#[tokio::test]
async fn the_last_handle_that_goes_lets_the_writer_finish() {
    let Node { disk, memory, writer } = node();
    let node = Node { disk, memory, writer };
    let job = node.add(instance("k"), "k");
    let mut finished = node.writer.finished();
    drop(node.writer);
    assert_eq!(job.await.unwrap(), 1);
    let _ = finished.changed().await;
    let mut found = 0;
    Store::open_with(node.disk).unwrap().load(Table::Instances, |_, _| found += 1).unwrap();
    assert_eq!(found, 1);
}

#[tokio::test]
async fn a_panic_is_answered_and_shows_in_the_health() {
    for in_apply in [false, true] {
        let node = node();
        let answer = node.writer.submit(instance("k"), move || {
            assert!(in_apply, "a bug in deciding");
            Ok::<Decision<()>, _>(Decision::new(Vec::new(), || panic!("a bug in applying")))
        });
        assert!(matches!(answer.await, Err(WriteError::Panicked)));
        assert!(matches!(node.writer.health(), StoreHealth::Failing { .. }));
        assert_eq!(node.add(instance("k"), "k").await.unwrap(), 1, "others are still served");
        assert!(matches!(node.writer.health(), StoreHealth::Failing { .. }), "until the restart");
    }
}
