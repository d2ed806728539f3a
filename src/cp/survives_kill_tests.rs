//! A process with sixteen writers is killed in the middle of it, again and again: whatever it said it
//! had written is there, and nothing is there by half.

use std::{
    collections::BTreeMap,
    env,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    thread,
};

use super::{Decision, Record, Scope, Store, Table, WriteError, Writer, WriterHandle};

const WRITERS: usize = 16;
const LIVES: usize = 15;
const FOLDER: &str = "NACRE_TEST_KILLED_FOLDER";

type Content = BTreeMap<String, u64>;

fn load(folder: &Path) -> (Store, Content) {
    let mut store = Store::open(folder).unwrap();
    let mut content = Content::new();
    store
        .load(Table::Instances, |key, value| {
            let key = String::from_utf8(key.to_vec()).unwrap();
            content.insert(key, u64::from_be_bytes(value.try_into().unwrap()));
        })
        .unwrap();
    (store, content)
}

/// What a writer's round changes, in one job: its counter, a key of the round, and in every third
/// round the key of the one before goes.
fn changes(writer: usize, round: u64) -> Vec<Record> {
    let key = |key: String| key.into_bytes();
    let mut records = vec![
        Record::put(Table::Instances, key(format!("{writer}")), round.to_be_bytes()),
        Record::put(Table::Instances, key(format!("{writer}/{round}")), round.to_be_bytes()),
    ];
    if round.is_multiple_of(3) {
        records.push(Record::delete(Table::Instances, key(format!("{writer}/{}", round - 1))));
    }
    records
}

/// What is there of a writer after its rounds up to `last`.
fn expected(writer: usize, last: u64) -> Content {
    let kept = (1..=last).filter(|round| round % 3 != 2 || *round == last);
    let mut content: Content = kept.map(|round| (format!("{writer}/{round}"), round)).collect();
    if last > 0 {
        content.insert(writer.to_string(), last);
    }
    content
}

fn write_for_ever(handle: &WriterHandle, writer: usize, mut round: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    loop {
        round += 1;
        let scope = Scope::Instance { service: "s".into(), instance: writer.to_string().into() };
        let decide = move || Ok::<_, WriteError>(Decision::new(changes(writer, round), || ()));
        runtime.block_on(handle.submit(scope, decide)).unwrap();
        // In one piece, so that it is a whole line or none.
        std::io::stderr().write_all(format!("{writer} {round}\n").as_bytes()).unwrap();
    }
}

#[test]
#[ignore = "the process that the other test kills"]
fn the_killed_process() {
    let Some(folder) = env::var_os(FOLDER) else { return };
    let (store, content) = load(Path::new(&folder));
    let handle = Writer::spawn(store).unwrap();
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (handle, last) = (&handle, content.get(&writer.to_string()).copied());
            scope.spawn(move || write_for_ever(handle, writer, last.unwrap_or(0)));
        }
    });
}

#[test]
fn every_ok_of_a_killed_process_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut known = [0; WRITERS];
    for life in 0..LIVES {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["cp::survives_kill_tests::the_killed_process", "--exact", "--ignored", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let mut oks = 0;
        let mut note = |line: String, known: &mut [u64; WRITERS]| {
            let (writer, round) = line.split_once(' ').unwrap_or_else(|| panic!("the child says: {line}"));
            known[writer.parse::<usize>().unwrap()] = round.parse().unwrap();
            oks += 1;
        };
        for line in lines.by_ref().take(150 + 101 * life) {
            note(line, &mut known);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        lines.for_each(|line| note(line, &mut known));
        assert!(oks >= 150 + 101 * life, "the child ended by itself");

        let (store, content) = load(folder.path());
        drop(store);
        for (writer, last) in known.iter_mut().enumerate() {
            let own = |key: &str| key.split('/').next() == Some(&writer.to_string());
            let found: Content =
                content.iter().filter(|(key, _)| own(key)).map(|(k, v)| (k.clone(), *v)).collect();
            // The round under way when it was killed may be there, whole.
            let reached = found.get(&writer.to_string()).copied().unwrap_or(0);
            assert!(
                reached == *last || reached == *last + 1,
                "life {life}: {writer} said {last}, has {reached}"
            );
            assert_eq!(found, expected(writer, reached), "life {life}");
            *last = reached;
        }
    }
}
