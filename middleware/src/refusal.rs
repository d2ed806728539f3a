//! What the layers around forwarding answer by themselves: 503 and 413 with a text that says why.
//!
//! Ours: the reference relays the text of a Java exception there.

use http::{HeaderName, HeaderValue, Response, StatusCode, header};

use crate::{V1Body, V1Response};

/// On an answer of a node that is not in a state to do what was asked; peers act on it.
pub static STATE: HeaderName = HeaderName::from_static("x-nacre-state");

/// What [`STATE`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The data aren't loaded yet.
    Starting,
    /// No longer on the list of members.
    Removed,
    /// It serves alone: its own list names no members.
    Alone,
    /// No member that could own a service is up.
    Ownerless,
    /// The members disagree about the owner.
    Disagreeing,
    /// The request came when whoever passed it on had given it up.
    Late,
}

impl State {
    const ALL: [Self; 6] =
        [Self::Starting, Self::Removed, Self::Alone, Self::Ownerless, Self::Disagreeing, Self::Late];

    /// As the header spells it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Removed => "removed",
            Self::Alone => "alone",
            Self::Ownerless => "ownerless",
            Self::Disagreeing => "disagreeing",
            Self::Late => "late",
        }
    }

    /// What an answer with these headers says, if anything.
    #[must_use]
    pub fn of(headers: &http::HeaderMap) -> Option<Self> {
        let value = headers.get(&STATE)?;
        Self::ALL.into_iter().find(|state| state.word().as_bytes() == value.as_bytes())
    }
}

/// 503: not now; the client shall try again, here or elsewhere.
pub(crate) fn unavailable(text: &str) -> V1Response {
    let mut response = refusal(StatusCode::SERVICE_UNAVAILABLE, text);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// The same with the state that is the reason.
pub(crate) fn unavailable_in(state: State, text: &str) -> V1Response {
    let mut response = unavailable(text);
    mark(&mut response, state);
    response
}

/// Says what state the node is in.
pub fn mark(response: &mut V1Response, state: State) {
    response.headers_mut().insert(STATE.clone(), HeaderValue::from_static(state.word()));
}

pub(crate) fn refusal(status: StatusCode, text: &str) -> V1Response {
    let mut response = Response::new(V1Body::sized(format!("caused: {text};")));
    *response.status_mut() = status;
    let media_type = HeaderValue::from_static("text/plain;charset=UTF-8");
    response.headers_mut().insert(header::CONTENT_TYPE, media_type);
    response
}
