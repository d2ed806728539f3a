//! The list in `cluster.conf`, watched; where the file is missing, that of the settings.
//!
//! The content itself is read again and again: events of the file system miss changes of mounted volumes, where a
//! link is changed, and say nothing of whether the writer is done. A content counts when it has stood still for some
//! reads, so that neither a half-written file nor a burst of changes is taken for a list. Ours: Nacos 1.4.8 reads at each
//! event. A file system that hangs holds up one read, and its thread, until it answers.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::task::JoinHandle;

use super::list::List;
use crate::config;

/// From one read to the next.
pub const PAUSE: Duration = Duration::from_millis(400);
/// Reads that must agree; the first comes [`PAUSE`] after the change at most, so a list counts within 1.2 s.
const AGREEING: u32 = 3;
/// How long a read may take until the file counts as one that can't be read. It goes on after that; the next one waits for
/// the same bytes.
const LIMIT: Duration = Duration::from_secs(3);

/// The file and what is there instead of it.
#[derive(Debug)]
pub struct File {
    path: PathBuf,
    fallback: Vec<String>,
    settling: Settling<Content>,
    reader: Reader,
    limit: Duration,
    /// What is under way.
    reading: Option<JoinHandle<io::Result<Vec<u8>>>>,
}

/// Reads a file.
struct Reader(Arc<Read>);

type Read = dyn Fn(&Path) -> io::Result<Vec<u8>> + Send + Sync;

impl fmt::Debug for Reader {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Reader")
    }
}

/// What a read finds.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    Text(Vec<u8>),
    Absent,
    Unreadable(String),
}

impl File {
    /// The file `cluster.conf` of a folder, and the items of `nacos.member.list`.
    #[must_use]
    pub fn new(folder: &Path, fallback: Vec<String>) -> Self {
        Self {
            path: folder.join("cluster.conf"),
            fallback,
            settling: Settling::default(),
            reader: Reader(Arc::new(config::read_regular)),
            limit: LIMIT,
            reading: None,
        }
    }

    /// Where the list is, for a person.
    #[must_use]
    pub fn place(&self) -> String {
        match self.settling.settled {
            Some(Content::Absent) if !self.fallback.is_empty() => {
                "nacos.member.list/NACOS_SERVERS".to_owned()
            }
            _ => self.path.display().to_string(),
        }
    }

    /// Reads the list as it is now.
    ///
    /// # Errors
    /// It can't be read, or a part of it is no address.
    pub async fn first(&mut self) -> Result<List, String> {
        let content = self.read().await;
        self.settling.start(content.clone());
        self.list(&content)
    }

    /// Reads again; gives the list when its content is another one and stands still.
    pub async fn next(&mut self) -> Option<Result<List, String>> {
        let content = self.read().await;
        let settled = self.settling.seen(content)?;
        Some(self.list(&settled))
    }

    async fn read(&mut self) -> Content {
        let reading = self.reading.get_or_insert_with(|| {
            let (path, reader) = (self.path.clone(), Arc::clone(&self.reader.0));
            tokio::task::spawn_blocking(move || reader(&path))
        });
        let Ok(read) = tokio::time::timeout(self.limit, reading).await else {
            let limit = self.limit.as_secs_f64();
            let text = format!("it can't be read: the file system gives no answer within {limit} s");
            return Content::Unreadable(text);
        };
        self.reading = None;
        match read.unwrap_or_else(|error| Err(error.into())) {
            Ok(bytes) => Content::Text(bytes),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Content::Absent
            }
            Err(error) => Content::Unreadable(format!("it can't be read: {error}")),
        }
    }

    fn list(&self, content: &Content) -> Result<List, String> {
        match content {
            Content::Text(bytes) => {
                List::parse(&String::from_utf8_lossy(bytes)).map_err(|error| error.to_string())
            }
            Content::Absent if self.fallback.is_empty() => Err("there is no such file".to_owned()),
            Content::Absent => List::of_items(&self.fallback).map_err(|error| {
                format!("of nacos.member.list, as there is no {}, {error}", self.path.display())
            }),
            Content::Unreadable(reason) => Err(reason.clone()),
        }
    }
}

/// Tells when something that is looked at again and again has changed and stands still.
#[derive(Clone, Debug)]
struct Settling<T> {
    settled: Option<T>,
    moving: Option<(T, u32)>,
}

impl<T> Default for Settling<T> {
    fn default() -> Self {
        Self { settled: None, moving: None }
    }
}

impl<T: Clone + PartialEq> Settling<T> {
    /// This is what it is, without waiting.
    fn start(&mut self, value: T) {
        (self.settled, self.moving) = (Some(value), None);
    }

    /// Gives the value when it differs from the last one given and has been seen often enough.
    fn seen(&mut self, value: T) -> Option<T> {
        if self.settled.as_ref() == Some(&value) {
            self.moving = None;
            return None;
        }
        let times = match self.moving.take() {
            Some((before, times)) if before == value => times + 1,
            _ => 1,
        };
        if times < AGREEING {
            self.moving = Some((value, times));
            return None;
        }
        self.settled = Some(value.clone());
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        sync::atomic::{AtomicU32, Ordering::Relaxed},
    };

    use parking_lot::{Condvar, Mutex};

    use super::*;

    #[test]
    fn what_keeps_moving_does_not_count() {
        let mut settling = Settling::default();
        settling.start(0);
        let seen: Vec<_> =
            [0, 1, 2, 1, 1, 2, 2, 2, 2, 0, 0, 2, 0, 0, 0].map(|value| settling.seen(value)).to_vec();
        let given: Vec<_> =
            seen.iter().enumerate().filter_map(|(at, value)| value.map(|value| (at, value))).collect();
        assert_eq!(given, [(7, 2), (14, 0)]);
    }

    fn texts(list: &List) -> Vec<&str> {
        list.members.iter().map(crate::cluster::Address::as_str).collect()
    }

    #[tokio::test]
    async fn a_changed_file_counts_at_the_third_look_and_a_missing_one_means_the_setting() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cluster.conf");
        let mut file = File::new(folder.path(), vec!["s:1".into()]);
        assert_eq!(texts(&file.first().await.unwrap()), ["s:1"]);
        fs::write(&path, "a:1\nb").unwrap();
        assert_eq!(file.next().await, None);
        fs::write(&path, "a:1\nb:2\n").unwrap();
        for _ in 0..2 {
            assert_eq!(file.next().await, None);
        }
        assert_eq!(texts(&file.next().await.unwrap().unwrap()), ["a:1", "b:2"]);
        assert_eq!(file.next().await, None);
        fs::remove_file(&path).unwrap();
        for _ in 0..2 {
            assert_eq!(file.next().await, None);
        }
        assert_eq!(texts(&file.next().await.unwrap().unwrap()), ["s:1"]);
    }

    #[tokio::test]
    async fn a_broken_file_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cluster.conf");
        fs::write(&path, "a:1\nb:x\n").unwrap();
        let error = File::new(folder.path(), Vec::new()).first().await.unwrap_err();
        assert_eq!(error, "line 2: \"b:x\" is no address of a member: the port is no number from 1 to 65535");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let error = File::new(folder.path(), Vec::new()).first().await.unwrap_err();
        assert_eq!(error, "it can't be read: it is a folder");
    }

    #[tokio::test]
    async fn a_pipe_is_no_list_and_a_file_in_its_place_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cluster.conf");
        fs::write(&path, "a:1").unwrap();
        let mut file = File::new(folder.path(), Vec::new());
        assert_eq!(texts(&file.first().await.unwrap()), ["a:1"]);
        fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        for _ in 0..2 {
            assert_eq!(file.next().await, None);
        }
        let error = file.next().await.unwrap().unwrap_err();
        assert_eq!(error, "it can't be read: it is no regular file, but a pipe, a socket or a device");
        fs::remove_file(&path).unwrap();
        fs::write(&path, "b:2").unwrap();
        for _ in 0..2 {
            assert_eq!(file.next().await, None);
        }
        assert_eq!(texts(&file.next().await.unwrap().unwrap()), ["b:2"]);
    }

    /// A file system that can hang, and counts what it is asked for.
    #[derive(Default)]
    struct Disk {
        hangs: Mutex<bool>,
        answers: Condvar,
        reads: AtomicU32,
    }

    impl Disk {
        fn read(&self) -> Vec<u8> {
            self.reads.fetch_add(1, Relaxed);
            self.answers.wait_while(&mut self.hangs.lock(), |hangs| *hangs);
            b"a:1".to_vec()
        }

        fn hang(&self, hangs: bool) {
            *self.hangs.lock() = hangs;
            self.answers.notify_all();
        }
    }

    #[tokio::test]
    async fn a_file_system_that_hangs_holds_up_one_read_and_nobody_for_ever() {
        let disk = Arc::new(Disk::default());
        let read = Arc::clone(&disk);
        let mut file = File {
            reader: Reader(Arc::new(move |_| Ok(read.read()))),
            limit: Duration::from_millis(5),
            ..File::new(Path::new("."), Vec::new())
        };
        disk.hang(true);
        let error = file.first().await.unwrap_err();
        assert_eq!(error, "it can't be read: the file system gives no answer within 0.005 s");
        assert_eq!(file.next().await, None);
        disk.hang(false);
        file.limit = LIMIT;
        for _ in 0..2 {
            assert_eq!(file.next().await, None);
        }
        assert_eq!(texts(&file.next().await.unwrap().unwrap()), ["a:1"]);
        assert_eq!(disk.reads.load(Relaxed), 3, "the one that hung is the first of three");
    }
}
