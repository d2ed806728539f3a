//! What the proxy says by itself, where an instance has nothing to say.

use http::{HeaderValue, Response, StatusCode, header};
use nacre_middleware::{pass::Fault, pool::ConnectFault};

use super::{answer::ProxyBody, upload::Exceeded};

/// No rule is for it.
pub const NO_RULE: Refusal =
    Refusal::new(StatusCode::NOT_FOUND, "no_rule", "no rule of this proxy is for this host and path");
/// Its path may be another one to others.
pub const BAD_PATH: Refusal = Refusal::new(
    StatusCode::BAD_REQUEST,
    "bad_path",
    "the path has dot segments or broken escapes, which servers read differently",
);
/// It may be another request to others.
pub const AMBIGUOUS: Refusal =
    Refusal::new(StatusCode::BAD_REQUEST, "ambiguous", "servers would read this request differently");
/// It has come by here before.
pub const CIRCLE: Refusal = Refusal::new(
    StatusCode::LOOP_DETECTED,
    "circle",
    "this request comes to the same proxies again and again",
);
/// Its body is too long.
pub const TOO_LONG: Refusal = Refusal::new(
    StatusCode::PAYLOAD_TOO_LARGE,
    "too_long",
    "the request's body is longer than its rule allows",
);
/// There is nobody to pass it to.
pub const NOBODY: Refusal = Refusal::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "no_instance",
    "the service has no instance that may get requests",
);
/// There is no room for it.
pub const FULL: Refusal =
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "full", "the service has as many requests as it may");
/// Nobody could be reached.
pub const UNREACHED: Refusal = Refusal::new(
    StatusCode::BAD_GATEWAY,
    "unreached",
    "there is no connection to an instance of the service",
);
/// There was no answer that could be passed back.
pub const BROKEN: Refusal =
    Refusal::new(StatusCode::BAD_GATEWAY, "broken", "the instance gave no answer that can be read");
/// There was no answer in time.
pub const LATE: Refusal =
    Refusal::new(StatusCode::GATEWAY_TIMEOUT, "late", "the instance didn't answer in time");
/// Its client was too slow.
pub const SLOW: Refusal =
    Refusal::new(StatusCode::REQUEST_TIMEOUT, "slow_client", "the request's body stopped coming");
/// Its client broke off.
pub const BROKE_OFF: Refusal =
    Refusal::new(StatusCode::BAD_REQUEST, "broken_client", "the request's body broke off");

/// A refusal of the proxy's own: why a request isn't passed on, or has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// Its status.
    pub status: StatusCode,
    /// For a person.
    pub text: &'static str,
    /// In one word, for log and metrics.
    pub kind: &'static str,
}

impl Refusal {
    /// A refusal.
    #[must_use]
    pub const fn new(status: StatusCode, kind: &'static str, text: &'static str) -> Self {
        Self { status, text, kind }
    }

    /// The answer, with the number of the request where it has one by now.
    #[must_use]
    pub fn answer(self, id: Option<&HeaderValue>) -> Response<ProxyBody> {
        let id = id.and_then(|id| id.to_str().ok());
        let text = match id {
            Some(id) => format!("{}\nrequest {id}\n", self.text),
            None => format!("{}\n", self.text),
        };
        let mut answer = Response::new(ProxyBody::whole(text.into()));
        *answer.status_mut() = self.status;
        let headers = answer.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.status == StatusCode::BAD_REQUEST {
            // Where the request ends is anybody's guess.
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    }
}

/// What a client is told of a fault.
#[must_use]
pub fn refusal_of(fault: &Fault, exceeded: Option<&Exceeded>) -> Refusal {
    match fault {
        Fault::Full => FULL,
        Fault::Connect(ConnectFault::TimedOut) | Fault::TimedOut => LATE,
        Fault::Connect(_) => UNREACHED,
        Fault::Closed | Fault::Broken(_) => BROKEN,
        Fault::SlowClient => SLOW,
        Fault::BrokenClient if exceeded.is_some_and(Exceeded::is_set) => TOO_LONG,
        Fault::BrokenClient => BROKE_OFF,
    }
}
