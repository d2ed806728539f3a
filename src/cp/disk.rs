//! The store's file in its folder: made whole or not at all, locked against a second process.
//!
//! Used by [`store`](super::store) alone. The lock is a file of its own (`nacre.lock`), since the
//! store closes and reopens the data file after a fault and must not lose the folder meanwhile.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    path::Path,
    sync::Arc,
};

use redb::{StorageBackend, backends::FileBackend};

use super::fault::StoreError;

const DATA: &str = "nacre.redb";
const DATA_BEING_MADE: &str = "nacre.redb.new";
const LOCK: &str = "nacre.lock";

/// Bytes that [`rewrite`] moves at a time.
const CHUNK: usize = 64 << 10;

/// Keeps other processes out of the folder for as long as it lives.
#[derive(Debug)]
pub(super) struct FolderLock {
    _file: File,
}

/// The open data file; a clone is another handle of the same file.
#[derive(Clone, Debug)]
pub(super) struct DataFile {
    bytes: Arc<FileBackend>,
    file: Arc<File>,
}

/// Locks `folder` (made if absent) and opens its data file, which `init` fills if it is new.
///
/// A new file is made under another name and renamed when it is complete and on disk, so a crash
/// in between leaves no half of one.
///
/// # Errors
/// [`StoreError::Locked`] at once if another process has the folder, else [`StoreError::Open`].
pub(super) fn open(
    folder: &Path,
    init: impl FnOnce(DataFile) -> Result<(), StoreError>,
) -> Result<(DataFile, FolderLock), StoreError> {
    let failed = |source| StoreError::Open { path: folder.to_owned(), source: Arc::new(source) };
    fs::create_dir_all(folder).map_err(failed)?;
    let lock = lock(folder)?;
    let path = folder.join(DATA);
    // A link that leads nowhere is there too: its disk isn't mounted, and a new file in its place would hide the data.
    let is_there = match path.symlink_metadata() {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => return Err(failed(error)),
    };
    if !is_there {
        let new = folder.join(DATA_BEING_MADE);
        let file = options().create(true).truncate(true).open(&new).map_err(failed)?;
        init(DataFile::new(file).map_err(failed)?)?;
        fs::rename(&new, &path).map_err(failed)?;
        sync_folder(folder).map_err(failed)?;
        if let Some(parent) = folder.canonicalize().map_err(failed)?.parent() {
            // The folder may be new too. A parent that we may not read is no reason to stop.
            let _ = sync_folder(parent);
        }
    }
    let file = options().open(&path).map_err(failed)?;
    if file.metadata().map_err(failed)?.len() == 0 {
        // We never leave one: a new file gets its name when it is complete.
        let reason = format!("{} is empty; what was in it is lost, delete it to begin anew", path.display());
        return Err(StoreError::Damaged { reason });
    }
    let data = DataFile::new(file).map_err(failed)?;
    Ok((data, lock))
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    options
}

fn lock(folder: &Path) -> Result<FolderLock, StoreError> {
    let path = folder.join(LOCK);
    let failed = |source| StoreError::Open { path: path.clone(), source: Arc::new(source) };
    let mut file = options().create(true).truncate(false).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {
            // The number is only for the text of the error that the next process gives.
            file.set_len(0).and_then(|()| write!(file, "{}", std::process::id())).map_err(failed)?;
            Ok(FolderLock { _file: file })
        }
        Err(fs::TryLockError::WouldBlock) => {
            let mut pid = String::new();
            let known = file.read_to_string(&mut pid).is_ok() && !pid.is_empty();
            let holder = if known { format!("process {pid}") } else { "another process".to_owned() };
            Err(StoreError::Locked { folder: folder.to_owned(), holder })
        }
        Err(fs::TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// A renamed file is only there after a power cut if its folder was synced.
#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

impl DataFile {
    fn new(file: File) -> io::Result<Self> {
        let bytes = FileBackend::new(file.try_clone()?).map_err(io::Error::other)?;
        Ok(Self { bytes: Arc::new(bytes), file: Arc::new(file) })
    }

    /// Writing goes on in a file that was deleted, and everything written is gone at the next start.
    #[cfg(unix)]
    fn check_present(&self) -> io::Result<()> {
        use std::os::unix::fs::MetadataExt;
        if self.file.metadata()?.nlink() > 0 {
            return Ok(());
        }
        Err(io::Error::new(ErrorKind::NotFound, "the data file was deleted under us: restart the node"))
    }

    #[cfg(not(unix))]
    fn check_present(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Everything but the locks, which redb releases with each close: the folder has our own.
impl StorageBackend for DataFile {
    fn len(&self) -> io::Result<u64> {
        self.bytes.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.bytes.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.bytes.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check_present()?;
        self.bytes.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.bytes.write(offset, data)
    }
}

/// Writes every byte again as it reads, then syncs: afterwards what can be read is what is on disk.
///
/// Needed after a failed sync. The kernel then counts the pages as clean although the disk may not
/// have them: reading shows the new bytes, no later sync writes them, and a power cut would
/// reveal the old ones below newer data. Zeros are passed over: they may be holes,
/// which would cost space to fill, and redb keeps nothing in a page of zeros.
pub(super) fn rewrite(backend: &impl StorageBackend) -> io::Result<()> {
    let len = backend.len()?;
    let mut chunk = vec![0; CHUNK];
    let mut offset = 0;
    while offset < len {
        let part = usize::try_from(len - offset).map_or(CHUNK, |rest| rest.min(CHUNK));
        let part = &mut chunk[..part];
        backend.read(offset, part)?;
        if part.iter().any(|&byte| byte != 0) {
            backend.write(offset, part)?;
        }
        offset += part.len() as u64;
    }
    backend.sync_data()
}
