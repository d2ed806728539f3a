//! What the node takes at the moment: everything, only reads, nothing.
//!
//! Pure. Source: Nacos 1.4.8 naming module, server status; compat file `operator-switch-effects`.

use std::{fmt, str::FromStr};

/// The status of the node, as `GET /operator/metrics` shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeStatus {
    /// Takes everything.
    #[default]
    Up,
    /// Takes nothing.
    Down,
    /// Takes nothing.
    Starting,
    /// Takes nothing.
    Paused,
    /// Takes GET only.
    ReadOnly,
    /// Takes everything but GET.
    WriteOnly,
}

/// The word names no status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown server status: {0}, it can be UP, DOWN, STARTING, PAUSED, READ_ONLY or WRITE_ONLY")]
pub struct UnknownStatus(pub String);

impl NodeStatus {
    const WORDS: [(Self, &'static str); 6] = [
        (Self::Up, "UP"),
        (Self::Down, "DOWN"),
        (Self::Starting, "STARTING"),
        (Self::Paused, "PAUSED"),
        (Self::ReadOnly, "READ_ONLY"),
        (Self::WriteOnly, "WRITE_ONLY"),
    ];

    /// The word that the wire has for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(status, _)| *status == self).map_or("UP", |(_, word)| word)
    }

    /// Whether a client's request is taken; a GET counts as reading, everything else as writing.
    #[must_use]
    pub fn takes(self, is_get: bool) -> bool {
        match self {
            Self::Up => true,
            Self::Down | Self::Starting | Self::Paused => false,
            Self::ReadOnly => is_get,
            Self::WriteOnly => !is_get,
        }
    }
}

impl fmt::Display for NodeStatus {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.word())
    }
}

impl FromStr for NodeStatus {
    type Err = UnknownStatus;

    fn from_str(word: &str) -> Result<Self, UnknownStatus> {
        let found = Self::WORDS.iter().find(|(_, known)| *known == word);
        found.map(|(status, _)| *status).ok_or_else(|| UnknownStatus(word.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_exactly_and_written_back() {
        for (status, word) in NodeStatus::WORDS {
            assert_eq!(word.parse(), Ok(status));
            assert_eq!(status.to_string(), word);
        }
        for wrong in ["", "up", "BANANA", " UP"] {
            assert_eq!(wrong.parse::<NodeStatus>(), Err(UnknownStatus(wrong.into())));
        }
    }

    #[test]
    fn each_status_takes_what_it_says() {
        let takes = NodeStatus::WORDS.map(|(status, _)| (status.takes(true), status.takes(false)));
        let none = (false, false);
        assert_eq!(takes, [(true, true), none, none, none, (true, false), (false, true)]);
    }
}
