//! A member's address and state.
//!
//! Pure. Source: Nacos 1.4.8 core module, member.

use std::{fmt, sync::Arc};

/// `host:port`, spelled as the member list has it: the text is the identity, and lists are sorted by it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(Arc<str>);

impl Address {
    /// The address with this text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// As listed.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// What one node thinks of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// Answers.
    Up,
    /// Failed lately; still owns services.
    Suspicious,
    /// Can't be reached, or was never; owns nothing.
    Down,
}

impl MemberState {
    /// As the wire spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Up => "UP",
            Self::Suspicious => "SUSPICIOUS",
            Self::Down => "DOWN",
        }
    }
}
