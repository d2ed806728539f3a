//! A file that is read again and again, and tells when its content has changed and stands still.
//!
//! The content itself is read: events of the file system miss changes of mounted volumes, where a link is changed, and
//! say nothing of whether the writer is done. A content counts when it has stood still for some reads, so that neither a
//! half-written file nor a burst of changes is taken for a whole. A file system that hangs holds up one read, and its
//! thread, until it answers.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::task::JoinHandle;

/// From one read to the next.
pub const PAUSE: Duration = Duration::from_millis(400);
/// Reads that must agree; the first comes [`PAUSE`] after the change at most, so a content counts within 1.2 s.
const AGREEING: u32 = 3;
/// How long a read may take until the file counts as one that can't be read. It goes on after that; the next one waits for
/// the same bytes.
const LIMIT: Duration = Duration::from_secs(3);

/// The file.
#[derive(Debug)]
pub struct WatchedFile {
    path: PathBuf,
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
pub enum Content {
    /// These bytes.
    Text(Vec<u8>),
    /// No such file.
    Absent,
    /// There is something, and this is why it can't be read.
    Unreadable(String),
}

impl WatchedFile {
    /// The file at `path`, read by `read`, which may block.
    #[must_use]
    pub fn new(path: PathBuf, read: impl Fn(&Path) -> io::Result<Vec<u8>> + Send + Sync + 'static) -> Self {
        Self {
            path,
            settling: Settling::default(),
            reader: Reader(Arc::new(read)),
            limit: LIMIT,
            reading: None,
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there was no such file, by the last content that counted.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.settling.settled == Some(Content::Absent)
    }

    /// Reads the content as it is now.
    pub async fn first(&mut self) -> Content {
        let content = self.read().await;
        self.settling.start(content.clone());
        content
    }

    /// Reads again; gives the content when it is another one and stands still.
    pub async fn next(&mut self) -> Option<Content> {
        let content = self.read().await;
        self.settling.seen(content)
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
}

/// Tells when something that is looked at again and again has changed and stands still.
#[derive(Clone, Debug)]
pub struct Settling<T> {
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
    pub fn start(&mut self, value: T) {
        (self.settled, self.moving) = (Some(value), None);
    }

    /// Gives the value when it differs from the last one given and has been seen often enough.
    pub fn seen(&mut self, value: T) -> Option<T> {
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
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

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
        let mut file = WatchedFile {
            limit: Duration::from_millis(5),
            ..WatchedFile::new("a".into(), move |_| Ok(read.read()))
        };
        disk.hang(true);
        let content = file.first().await;
        let text = "it can't be read: the file system gives no answer within 0.005 s";
        assert_eq!(content, Content::Unreadable(text.into()));
        assert_eq!(file.next().await, None);
        disk.hang(false);
        file.limit = LIMIT;
        for _ in 0..2 {
            assert_eq!(file.next().await, None);
        }
        assert_eq!(file.next().await, Some(Content::Text(b"a:1".to_vec())));
        assert_eq!(disk.reads.load(Relaxed), 3, "the one that hung is the first of three");
    }
}
