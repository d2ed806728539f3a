//! What can go wrong with the store, by what its owner does next.

use std::{io, path::PathBuf, sync::Arc};

/// Why the store can't be opened, read or written. After a failed write nothing of it is kept.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// A second process on one folder: end one of them, or give this one another folder.
    #[error("the data folder {folder} is in use by {holder}")]
    Locked {
        /// The folder that both want.
        folder: PathBuf,
        /// `process 123`, or `another process` if its number isn't known.
        holder: String,
    },

    /// The folder or its files can't be made or opened: the start ends here.
    #[error("can't open the store in {path}")]
    Open {
        /// What couldn't be opened.
        path: PathBuf,
        /// The operating system's reason.
        source: Arc<io::Error>,
    },

    /// What lies there isn't a store, is damaged, or is of a newer version: needs a person.
    #[error("{reason}")]
    Damaged {
        /// What is wrong with it.
        reason: String,
    },

    /// The disk or the quota is full. Heals by itself when there is space again.
    #[error("no space left for the store")]
    Full {
        /// The operating system's reason.
        source: Arc<io::Error>,
    },

    /// Any other fault of the disk. Tried again with each write.
    #[error("the store can't be read or written")]
    Fault {
        /// redb's reason.
        source: Arc<redb::Error>,
    },

    /// redb panicked. The file is opened again with the next write.
    #[error("the store panicked: {message}")]
    Panicked {
        /// The panic's own text.
        message: String,
    },
}

impl StoreError {
    /// The whole chain of causes in one line, for an answer's text or a status line.
    pub fn reason(&self) -> String {
        match self {
            Self::Open { source, .. } | Self::Full { source } => format!("{self}: {source}"),
            Self::Fault { source } => format!("{self}: {source}"),
            Self::Locked { .. } | Self::Damaged { .. } | Self::Panicked { .. } => self.to_string(),
        }
    }

    pub(super) fn from_io(source: io::Error) -> Self {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        match source.kind() {
            StorageFull | QuotaExceeded | FileTooLarge => Self::Full { source: Arc::new(source) },
            _ => Self::Fault { source: Arc::new(redb::Error::Io(source)) },
        }
    }
}

impl<E: Into<redb::Error>> From<E> for StoreError {
    fn from(error: E) -> Self {
        match error.into() {
            redb::Error::Io(source) if source.kind() == io::ErrorKind::InvalidData => {
                Self::Damaged { reason: source.to_string() }
            }
            redb::Error::Io(source) => Self::from_io(source),
            redb::Error::Corrupted(reason) => Self::Damaged { reason },
            source @ redb::Error::UpgradeRequired(_) => Self::Damaged { reason: source.to_string() },
            source => Self::Fault { source: Arc::new(source) },
        }
    }
}
