//! How it is with the legacy cluster, for people.

use std::time::Duration;

/// How it is with the legacy cluster, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// For how long no server has answered, where that is so.
    pub away_for: Option<Duration>,
    /// Writes that wait.
    pub kept: usize,
    /// Lists that are remembered.
    pub lists: usize,
    /// Members that own services, as far as they are known.
    pub owners: usize,
}

impl Standing {
    /// What is wrong, for a person; nothing while a server answers and nothing waits.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let waiting = match self.kept {
            0 => String::new(),
            kept => format!(", {kept} registrations wait"),
        };
        match self.away_for {
            Some(away) => {
                let s = away.as_secs();
                Some(format!("no server answers for {s} s, the last lists are served{waiting}"))
            }
            None if self.kept > 0 => Some(format!("a server answers{waiting}")),
            None => None,
        }
    }
}
