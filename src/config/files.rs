//! Where the settings file and `cluster.conf` are, and how a file is read.

use std::{
    fs, io,
    io::Read as _,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::Duration,
};

use super::{settings::Settings, sources::Sources};

/// Bytes of a settings file at most; a Kubernetes ConfigMap holds as much.
const LARGEST_FILE: u64 = 1024 * 1024;

/// How long the file system may take at start; it may be one that hangs.
const LIMIT: Duration = Duration::from_secs(10);

/// Reads a file for [`super::load`] as [`read_regular`] does, on a thread of its own, which is left alone where it takes
/// longer than 10 s.
///
/// # Errors
/// As [`read_regular`], or that it takes too long.
pub fn read_in_time(path: &Path) -> io::Result<Vec<u8>> {
    within(LIMIT, {
        let path = path.to_owned();
        move || read_regular(&path)
    })
}

fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (done, outcome) = mpsc::sync_channel(1);
    // Whoever waited may have gone.
    thread::Builder::new().spawn(move || _ = done.send(work()))?;
    outcome.recv_timeout(limit).unwrap_or_else(|_| {
        let text = format!("the file system gives no answer within {} s", limit.as_secs());
        Err(io::Error::new(io::ErrorKind::TimedOut, text))
    })
}

/// Reads a file that is one: whoever opens a pipe may wait for its writer for ever.
///
/// # Errors
/// As [`read_file`], or that it is none.
pub fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let kind = fs::metadata(path)?;
    if kind.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"));
    }
    if !kind.is_file() {
        return Err(io::Error::other("it is no regular file, but a pipe, a socket or a device"));
    }
    read_file(path)
}

/// Reads a file, whatever it is: at most 1 MiB of it, else an error.
///
/// # Errors
/// What the file system says, or that the file is too large.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(LARGEST_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(io::Error::other(format!("it is larger than {LARGEST_FILE} bytes")));
    }
    Ok(bytes)
}

/// The settings files to try, the first that exists counts.
pub(super) fn candidates(sources: &Sources, home: Option<&Path>) -> Vec<PathBuf> {
    if let Some(named) = &sources.config {
        return vec![named.clone()];
    }
    let data = sources.data.clone().or_else(|| home.map(|home| home.join("data")));
    let data = data.unwrap_or_else(|| Settings::default().data_dir);
    let folders = [Some(data.as_path()), home, Some(Path::new("."))];
    folders.into_iter().flatten().map(|folder| folder.join("conf/application.properties")).collect()
}

/// The folder of `cluster.conf`.
pub(super) fn config_dir(
    sources: &Sources,
    file: Option<&Path>,
    home: Option<&Path>,
    data: &Path,
) -> PathBuf {
    let of_file = || file.and_then(Path::parent).map(Path::to_path_buf);
    let of_home = || home.map(|home| home.join("conf"));
    let said = sources.config_dir.clone().or_else(of_file).or_else(of_home);
    said.unwrap_or_else(|| data.join("conf"))
}

/// Tells whether there is no such file, rather than one that can't be read.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_above_the_limit_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("large");
        fs::write(&path, vec![b' '; 1024 * 1024]).unwrap();
        assert_eq!(read_file(&path).unwrap().len(), 1024 * 1024);
        fs::write(&path, vec![b' '; 1024 * 1024 + 1]).unwrap();
        assert_eq!(read_file(&path).unwrap_err().to_string(), "it is larger than 1048576 bytes");
    }

    #[test]
    fn what_is_no_file_is_not_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("cluster.conf");
        let said = || read_in_time(&path).unwrap_err().to_string();
        assert!(is_absent(&read_in_time(&path).unwrap_err()));
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_eq!(said(), "it is no regular file, but a pipe, a socket or a device");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(said(), "it is a folder");
        fs::remove_dir(&path).unwrap();
        // Kubernetes mounts links.
        fs::write(folder.path().join("data"), "a:1").unwrap();
        std::os::unix::fs::symlink("data", &path).unwrap();
        assert_eq!(read_in_time(&path).unwrap(), b"a:1");
    }

    #[test]
    fn what_hangs_is_given_up() {
        let (_goes_on, hangs) = mpsc::channel::<()>();
        let error = within(Duration::from_millis(20), move || Ok(hangs.recv().is_ok())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
