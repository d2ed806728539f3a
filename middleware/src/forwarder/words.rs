//! What passing a write on needs to know of the cluster and of the write, and what it tells of it.

use futures_util::future::BoxFuture;
use http::StatusCode;

use crate::{Call, V1Response, distro_filter::Ownership, outgoing::Parameters};

/// Why a request to a peer has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nobody is there.
    Refused,
    /// The connection ended before the first byte of an answer. A client that keeps connections must have tried a new one.
    Closed,
    /// No answer in time.
    TimedOut,
    /// What came isn't a whole answer, or is too large; how, for people.
    Broken(String),
    /// This host can't send it, which says nothing of the peer; why, for people.
    Impossible(String),
}

/// Knows the cluster, and takes note of what becomes of requests to its members.
pub trait Members: Clone + Send + Sync + 'static {
    /// Whether this is the address of a member.
    fn is_listed(&self, address: &str) -> bool;

    /// A member takes no connections: it is gone, and owns nothing from now on.
    fn refused(&self, address: &str);

    /// A Nacre member answers that it serves nobody at the moment: it is starting, or removed, and owns nothing.
    fn serves_nobody(&self, address: &str);

    /// A member answers; told once a second at most.
    fn answers(&self, address: &str);

    /// This node's monotonic clock, in milliseconds.
    fn now_ms(&self) -> u64;

    /// What happened, for logs and metrics.
    fn note(&self, note: Note<'_>);
}

/// Knows the writes that are passed on.
pub trait Writes<F>: Ownership<F> + Parameters<F> {
    /// Whether the caller is believed what `X-Forwarded-For` says.
    fn is_believed(&self, call: &Call<F>) -> bool;

    /// What must be done before a write of our own that a Nacre peer has passed on, if anything.
    ///
    /// The peer may know what this node doesn't yet: a beat for an instance that is unknown here waits for its datum.
    fn prepare(&self, call: &Call<F>) -> Option<BoxFuture<'static, ()>>;

    /// What must be done before a write is sent to an `owner` of 1.x, if anything; it ends soon.
    ///
    /// Such a one takes what comes later for newer: what is to be brought to it of the service comes first, or it would undo the write.
    fn brings_first(&self, call: &Call<F>, owner: &str) -> Option<BoxFuture<'static, ()>>;

    /// Called with the answer to a write that came at `came_ms` of [`Members::now_ms`] and isn't done here; with nothing where
    /// its sender gave it up before there was one.
    ///
    /// That it came says something, unless the owner says otherwise: who sends a beat lives, whether or not the owner gets to
    /// hear of it.
    fn passed_on(&self, call: &Call<F>, came_ms: u64, answer: Option<&V1Response>);

    /// Called before this node does a write that is another's; what it gives is run when it has been done well.
    fn stand_in(&self, call: &Call<F>, why: StandIn) -> Option<Box<dyn FnOnce() + Send>>;
}

/// Why this node does a write that is another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandIn {
    /// The owner doesn't answer, or sent it here; all members are Nacre and merge what both do.
    Deputy,
    /// Two members disagree about the owner, and some member is 1.x: it must be pushed to all, whoever owns it.
    Disagreement,
}

/// What became of a write that was another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The owner's answer went back.
    Relayed,
    /// This node stood in for an owner that doesn't answer.
    Deputy,
    /// The owner was gone, and this node is the next.
    Moved,
    /// The members disagree; done here.
    Settled,
    /// The members disagree; 503.
    Disagreed,
    /// No answer in time; 503.
    TimedOut,
    /// The owner is known not to answer; 503.
    Unanswering,
    /// As many as may were under way; 503.
    Full,
    /// Neither the owner nor the next one took it, or there is none; 503.
    Unreachable,
    /// It doesn't fit into a request to a 1.x member; 413.
    TooLarge,
}

impl Outcome {
    /// All.
    pub const ALL: [Self; 10] = [
        Self::Relayed,
        Self::Deputy,
        Self::Moved,
        Self::Settled,
        Self::Disagreed,
        Self::TimedOut,
        Self::Unanswering,
        Self::Full,
        Self::Unreachable,
        Self::TooLarge,
    ];

    /// As a label of metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Relayed => "relayed",
            Self::Deputy => "deputy",
            Self::Moved => "moved",
            Self::Settled => "settled",
            Self::Disagreed => "disagreed",
            Self::TimedOut => "timed_out",
            Self::Unanswering => "unanswering",
            Self::Full => "full",
            Self::Unreachable => "unreachable",
            Self::TooLarge => "too_large",
        }
    }
}

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note<'a> {
    /// To a write.
    Outcome(Outcome),
    /// This peer's breaker opened: it counts as slow.
    Opened(&'a str),
    /// This peer answers again.
    Closed(&'a str),
    /// This peer isn't the owner as it sees things.
    Disagrees(&'a str),
    /// What answers in this peer's place, or the peer, sends this node elsewhere.
    Redirects(&'a str, StatusCode),
    /// A request couldn't be sent to this peer, for a reason that is one of few.
    Failed(&'a str, &'a str),
    /// The answer of this peer can't be used, for a reason that is one of few; the write may have been done.
    Spoilt(&'a str, &'a str),
}
