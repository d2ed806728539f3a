//! Where the settings file and `cluster.conf` are, and how a file is read.

use std::{
    fs, io,
    io::Read as _,
    path::{Path, PathBuf},
};

use super::{settings::Settings, sources::Sources};

/// Bytes of a settings file at most; a Kubernetes ConfigMap holds as much.
const LARGEST_FILE: u64 = 1024 * 1024;

/// Reads a file for [`super::load`]: at most 1 MiB of it, else an error.
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
}
