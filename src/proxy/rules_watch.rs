//! Reads the file of rules at start, and again when it changes.

use std::{path::Path, sync::Arc};

use tokio_util::sync::CancellationToken;

use super::{
    Proxy,
    rule::Rules,
    rules_file::{self, Mistakes},
};
use crate::{
    base::watched_file::{Content, PAUSE, WatchedFile},
    config,
};

/// Why there are no rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RulesError {
    /// It is there and can't be read.
    #[error("{path}: {reason}")]
    Unreadable {
        /// Which file.
        path: String,
        /// Why.
        reason: String,
    },
    /// It has mistakes.
    #[error("{path}: {mistakes}")]
    Mistaken {
        /// Which file.
        path: String,
        /// All of them.
        mistakes: Mistakes,
    },
}

/// The file.
#[derive(Debug)]
pub struct RulesFile(WatchedFile);

impl RulesFile {
    /// The file at `path`.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self(WatchedFile::new(path.to_owned(), config::read_regular))
    }

    /// Reads it as it is now; none where there is no such file.
    ///
    /// # Errors
    /// It can't be read, or has mistakes.
    pub async fn first(&mut self) -> Result<Option<Rules>, RulesError> {
        let content = self.0.first().await;
        self.rules(content)
    }

    fn rules(&self, content: Content) -> Result<Option<Rules>, RulesError> {
        let path = self.0.path().display().to_string();
        match content {
            Content::Absent => Ok(None),
            Content::Unreadable(reason) => Err(RulesError::Unreadable { path, reason }),
            Content::Text(bytes) => match String::from_utf8(bytes) {
                Ok(text) => match rules_file::parse(&text) {
                    Ok(rules) => Ok(Some(rules)),
                    Err(mistakes) => Err(RulesError::Mistaken { path, mistakes }),
                },
                Err(_) => Err(RulesError::Unreadable { path, reason: "it isn't UTF-8".to_owned() }),
            },
        }
    }

    /// Reads until told to stop; each new content counts as a whole or not at all.
    pub async fn watch(mut self, proxy: Arc<Proxy>, stopped: CancellationToken) {
        loop {
            tokio::select! {
                () = stopped.cancelled() => return,
                () = tokio::time::sleep(PAUSE) => {}
            }
            let Some(content) = self.0.next().await else { continue };
            let path = self.0.path().display().to_string();
            match self.rules(content) {
                Ok(Some(rules)) => {
                    tracing::info!(file = path, rules = rules.rules.len(), "rules of the proxy read anew");
                    proxy.take(rules);
                }
                Ok(None) => {
                    let reason = "there is no such file";
                    tracing::warn!(file = path, "the file of rules has gone, the former rules count");
                    proxy.keep(Some(reason.to_owned()));
                }
                Err(error) => {
                    tracing::warn!(%error, "these rules of the proxy don't count, the former ones do");
                    proxy.keep(Some(error.to_string()));
                }
            }
        }
    }
}
