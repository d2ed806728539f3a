//! What a call to a member that came to nothing says about the member.
//!
//! Pure. Source: Nacos 1.4.8 core module, member report task: what counts as a failure, and what doesn't.

use bytes::Bytes;
use http::{Response, StatusCode};
use nacre_middleware::refusal::State;

use crate::base::client::CallError;

/// Letters of a refusal that are kept.
const MOST_LETTERS: usize = 200;

/// Why a call came to nothing, by what it asks of the caller.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// Nobody is there: the member is DOWN at once.
    #[error("the member is gone")]
    Gone(#[source] CallError),
    /// No answer in time: try again; a failure of the member.
    #[error("the member gave no answer in time")]
    Silent,
    /// It says that its data aren't loaded yet: ask later; says nothing bad of it.
    #[error("the member is starting")]
    Starting,
    /// It says that the call was under way for long, in time all the same: this node's clock stood still.
    #[error("the member takes the call for an old one, since this node's clock stood still")]
    Late,
    /// It serves alone, and would keep for itself what it is given: an operator has to see to it.
    #[error("the member serves alone: its own list names no members; give it the list, and start it anew")]
    Alone,
    /// It doesn't know this call (404, 501): an older version, or one that isn't ready; changes nothing.
    #[error("the member doesn't know this call ({0})")]
    Unknown(StatusCode),
    /// It doesn't take this node for a member (403): an operator has to see to it.
    #[error("the member doesn't take this node for one: {0}")]
    Forbidden(String),
    /// It says no in another way: try again; a failure of the member.
    #[error("the member answered {0}: {1}")]
    Refused(StatusCode, String),
    /// What came can't be what was asked for: try again; a failure of the member.
    #[error("the member's answer can't be used")]
    Malformed(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// This node can't call (no files or ports left, a name that isn't found): says nothing of the member.
    #[error("this node can't call the member: {0}")]
    Impossible(Box<dyn std::error::Error + Send + Sync>),
}

/// What a failed call says about the member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Nobody is there: DOWN at once.
    Gone,
    /// It fails: SUSPICIOUS, DOWN when that repeats.
    Failing,
    /// Nothing that would change its state.
    None,
}

impl PeerError {
    /// Tells failures apart that an operator is told of once each, whatever their texts say besides.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Gone(_) => "gone",
            Self::Silent => "silent",
            Self::Starting => "starting",
            Self::Late => "late",
            Self::Alone => "alone",
            Self::Unknown(_) => "unknown call",
            Self::Forbidden(_) => "forbidden",
            Self::Refused(..) => "refused",
            Self::Malformed(_) => "malformed answer",
            Self::Impossible(_) => "impossible",
        }
    }

    /// What to conclude about the member.
    #[must_use]
    pub fn evidence(&self) -> Evidence {
        match self {
            Self::Gone(_) | Self::Alone => Evidence::Gone,
            Self::Silent | Self::Forbidden(_) | Self::Refused(..) | Self::Malformed(_) => Evidence::Failing,
            Self::Starting | Self::Late | Self::Unknown(_) | Self::Impossible(_) => Evidence::None,
        }
    }
}

impl From<CallError> for PeerError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(_) | CallError::Closed => Self::Gone(error),
            CallError::TimedOut => Self::Silent,
            CallError::Broken(_) | CallError::TooLarge => Self::Malformed(error.into()),
            CallError::Impossible(error) => Self::Impossible(error),
        }
    }
}

/// What an answer that isn't good says.
#[must_use]
pub(super) fn refusal(answer: &Response<Bytes>) -> Option<PeerError> {
    match State::of(answer.headers()) {
        Some(State::Starting) => return Some(PeerError::Starting),
        Some(State::Alone) => return Some(PeerError::Alone),
        Some(State::Late) => return Some(PeerError::Late),
        _ => {}
    }
    let text = || String::from_utf8_lossy(answer.body()).chars().take(MOST_LETTERS).collect();
    match answer.status() {
        StatusCode::OK | StatusCode::NOT_MODIFIED => None,
        status @ (StatusCode::NOT_FOUND | StatusCode::NOT_IMPLEMENTED) => Some(PeerError::Unknown(status)),
        StatusCode::FORBIDDEN => Some(PeerError::Forbidden(text())),
        status => Some(PeerError::Refused(status, text())),
    }
}
