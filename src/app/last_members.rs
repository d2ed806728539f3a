//! The members with which the node started last: a list that has gone missing must not make of one of them a server that
//! serves alone, with empty lists and writes that nobody else sees.

use std::{fs, io, path::Path};

use crate::{
    cluster::Address,
    config::{Settings, WAYS_TO_MEMBERS},
};

/// In the data folder.
const FILE: &str = "members";
/// Bytes of it that a refusal shows.
const SHOWN: usize = 1_000;

/// The list has gone missing.
#[derive(Debug, thiserror::Error)]
#[error("there is no list of members, and {why}; {WAYS_TO_MEMBERS}")]
pub struct ListGone {
    why: String,
}

/// Looks whether a node that would serve alone, without having been told to, was a member of a cluster.
///
/// # Errors
/// It was.
pub fn check(settings: &Settings, has_members: bool) -> Result<(), ListGone> {
    let path = settings.data_dir.join(FILE);
    if has_members || settings.membership.standalone == Some(true) {
        return Ok(());
    }
    match fs::read(&path) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]);
            let members = text.split_whitespace().collect::<Vec<_>>().join(", ");
            let why = "this server was a member of a cluster when it started last";
            Err(ListGone { why: format!("{why} ({}: {members})", path.display()) })
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(())
        }
        Err(error) => {
            let why = "whether this server was a member of a cluster when it started last can't be read";
            Err(ListGone { why: format!("{why} ({}: {error})", path.display()) })
        }
    }
}

/// Remembers these members, in a folder that is there; none for a node that serves alone. Where that fails the log says so.
pub fn remember(data_dir: &Path, members: &[Address]) {
    let path = data_dir.join(FILE);
    let done = match members {
        [] => match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        },
        members => {
            let lines: String = members.iter().map(|member| format!("{member}\n")).collect();
            fs::write(&path, lines)
        }
    };
    if let Err(error) = done {
        let file = path.display();
        tracing::warn!(%file, %error, "can't be written: if the list of members goes missing, the next start is one of a server that serves alone");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_whose_list_is_gone_starts_alone_only_when_it_is_told_to() {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = Settings { data_dir: folder.path().to_owned(), ..Settings::default() };
        assert!(check(&settings, false).is_ok(), "it never was one");
        remember(folder.path(), &["10.0.0.1:8848", "10.0.0.2:8848"].map(Address::new));
        assert!(check(&settings, true).is_ok());
        let refused = check(&settings, false).unwrap_err().to_string();
        let file = folder.path().join("members");
        assert!(
            refused.contains(&format!("({}: 10.0.0.1:8848, 10.0.0.2:8848)", file.display())),
            "{refused}"
        );
        assert!(refused.contains("nacos.standalone=true"), "{refused}");
        settings.membership.standalone = Some(true);
        assert!(check(&settings, false).is_ok());
        remember(folder.path(), &[]);
        remember(folder.path(), &[]);
        settings.membership.standalone = None;
        assert!(check(&settings, false).is_ok() && !file.exists(), "it has been told");
        std::fs::create_dir(&file).unwrap();
        let refused = check(&settings, false).unwrap_err().to_string();
        assert!(refused.contains("can't be read") && refused.contains("nacos.standalone=true"), "{refused}");
    }
}
