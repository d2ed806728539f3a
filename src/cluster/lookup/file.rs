//! The list in `cluster.conf`, watched; where the file is missing, that of the settings.
//!
//! Ours: Nacos 1.4.8 reads at each event of the file system.

use std::path::Path;

pub use crate::base::watched_file::PAUSE;

use super::list::List;
use crate::{
    base::watched_file::{Content, WatchedFile},
    config,
};

/// The file and what is there instead of it.
#[derive(Debug)]
pub struct File {
    file: WatchedFile,
    fallback: Vec<String>,
}

impl File {
    /// The file `cluster.conf` of a folder, and the items of `nacos.member.list`.
    #[must_use]
    pub fn new(folder: &Path, fallback: Vec<String>) -> Self {
        Self { file: WatchedFile::new(folder.join("cluster.conf"), config::read_regular), fallback }
    }

    /// Where the list is, for a person.
    #[must_use]
    pub fn place(&self) -> String {
        if self.file.is_absent() && !self.fallback.is_empty() {
            "nacos.member.list/NACOS_SERVERS".to_owned()
        } else {
            self.file.path().display().to_string()
        }
    }

    /// Reads the list as it is now.
    ///
    /// # Errors
    /// It can't be read, or a part of it is no address.
    pub async fn first(&mut self) -> Result<List, String> {
        let content = self.file.first().await;
        self.list(&content)
    }

    /// Reads again; gives the list when its content is another one and stands still.
    pub async fn next(&mut self) -> Option<Result<List, String>> {
        let settled = self.file.next().await?;
        Some(self.list(&settled))
    }

    fn list(&self, content: &Content) -> Result<List, String> {
        match content {
            Content::Text(bytes) => {
                List::parse(&String::from_utf8_lossy(bytes)).map_err(|error| error.to_string())
            }
            Content::Absent if self.fallback.is_empty() => Err("there is no such file".to_owned()),
            Content::Absent => List::of_items(&self.fallback).map_err(|error| {
                format!("of nacos.member.list, as there is no {}, {error}", self.file.path().display())
            }),
            Content::Unreadable(reason) => Err(reason.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

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
}
