//! What reading the settings has to say: where something stands, what is wrong, what to know.

use std::{fmt, path::PathBuf};

/// Where a setting was given, as the operator finds it again. Sorted as the reader would look: files by
/// line, then environment, then command line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A line of a file; lines count from 1, 0 means the file as a whole.
    File {
        /// The file as it was named or found.
        path: PathBuf,
        /// Its line.
        line: usize,
    },
    /// An environment variable of this name.
    Environment(String),
    /// A `-D` word in the environment variable of this name.
    JvmFlag(String),
    /// `--set` on the command line.
    CommandLine,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line: 0 } => write!(f, "{}", path.display()),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::JvmFlag(name) => write!(f, "-D in environment {name}"),
            Self::CommandLine => write!(f, "--set"),
        }
    }
}

/// A setting that can't be taken; the server doesn't start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.line())]
pub struct SettingError {
    /// Where it stands.
    pub place: Place,
    /// The key as it was written; empty when the trouble is not with one key.
    pub key: String,
    /// What is wrong and what helps. Never holds a secret's value.
    pub reason: String,
}

/// No reason is longer, since it quotes what may be a whole file on one line.
const LONGEST_REASON: usize = 400;

impl SettingError {
    pub(super) fn new(place: &Place, key: &str, reason: impl Into<String>) -> Self {
        let mut reason = reason.into();
        if reason.len() > LONGEST_REASON {
            reason.truncate(reason.floor_char_boundary(LONGEST_REASON));
            reason.push_str("...");
        }
        Self { place: place.clone(), key: key.to_owned(), reason }
    }

    fn line(&self) -> String {
        at(&self.place, &self.key, &self.reason)
    }
}

/// Something that the operator should know although the server starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Whether something is lost.
    pub severity: Severity,
    /// One line, ready for the log. Never holds a secret's value.
    pub text: String,
}

/// Whether a [`Notice`] needs a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Good to know.
    Info,
    /// The operator asked for something that doesn't happen.
    Warn,
}

impl Notice {
    pub(super) fn info(text: String) -> Self {
        Self { severity: Severity::Info, text }
    }

    pub(super) fn info_at(place: &Place, key: &str, text: &str) -> Self {
        Self::info(at(place, key, text))
    }

    pub(super) fn warn(text: String) -> Self {
        Self { severity: Severity::Warn, text }
    }

    pub(super) fn warn_at(place: &Place, key: &str, text: &str) -> Self {
        Self::warn(at(place, key, text))
    }
}

fn at(place: &Place, key: &str, text: &str) -> String {
    match place {
        _ if key.is_empty() => format!("{place}: {text}"),
        Place::CommandLine => format!("{place} {key}: {text}"),
        Place::Environment(name) if name == key => format!("{place}: {text}"),
        _ => format!("{place}: {key}: {text}"),
    }
}
