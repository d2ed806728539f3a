//! Whom a wrong answer hurts, as far as that was tried: the answers of a real server were changed in one thing each, and
//! published clients were run against them; of what Go and Rust decode without looking at it, as their sources say. No I/O.

use crate::between::{Change, How, Place};
use crate::facts::Client;

use Client::{Dubbo, Go, Java11, Java14, Node, Python, Rust, SpringCloud};

/// Every client that takes pushes or lists.
const ALL: &[Client] = &Client::ALL;

/// Those that take what is pushed.
const PUSHED: &[Client] = &[Java14, Java11, Go, Node, SpringCloud, Dubbo];

/// Entry, the end of the place's name, what was done, and who stopped working or lost a value.
const TRIED: [(&str, &str, How, &[Client]); 32] = [
    (LIST, "name", How::Dropped, &[Java14, Java11, Go, SpringCloud, Dubbo]),
    (LIST, "clusters", How::Dropped, &[Node]),
    (LIST, "clusters", How::Retyped, &[Node]),
    (LIST, "hosts", How::Dropped, ALL),
    (LIST, "hosts/*/ip", How::Dropped, ALL),
    (LIST, "hosts/*/port", How::Dropped, ALL),
    (LIST, "hosts/*/port", How::Retyped, &[Go, Node, Rust]),
    (LIST, "hosts/*/metadata", How::Dropped, &[Java14, Java11, Go, Node, Rust, SpringCloud, Dubbo]),
    (LIST, "hosts/*/metadata/*", How::Dropped, &[Java14, Java11, Go, Node, Rust, SpringCloud, Dubbo]),
    (LIST, "hosts/*/enabled", How::Dropped, &[Go, Node]),
    (LIST, "hosts/*/weight", How::Dropped, &[Go, Node, Rust]),
    (LIST, "hosts/*/weight", How::Retyped, &[Go, Rust]),
    (LIST, "hosts/*/healthy", How::Dropped, &[Go, Node, Rust]),
    (LIST, "lastRefTime", How::Altered, &[Go]),
    (LIST, "cacheMillis", How::Retyped, &[Go, Rust]),
    (LIST, "hosts/*/marked", How::Retyped, &[Go, Rust]),
    (LIST, "hosts/*/valid", How::Retyped, &[Go]),
    (LIST, "useSpecifiedURL", How::Retyped, &[Go, Rust]),
    (LIST, "metadata", How::Retyped, &[Go, Rust]),
    (PUSH, "data/~/hosts/*/marked", How::Retyped, &[Go]),
    (PUSH, "data/~/hosts/*/valid", How::Retyped, &[Go]),
    ("POST /v1/ns/instance", "text", How::Altered, &[Python]),
    ("POST /v1/ns/instance", "text", How::Dropped, &[Python]),
    ("PUT /v1/ns/instance", "text", How::Altered, &[Python]),
    ("DELETE /v1/ns/instance", "text", How::Altered, &[Python]),
    ("GET /v1/ns/service/list", "count", How::Dropped, &[Java14, Java11, Go, Node]),
    (PUSH, "type", How::Altered, &[Node]),
    (PUSH, "lastRefTime", How::Retyped, &[Go]),
    (PUSH, "data", How::Retyped, &[Java14, Go, Node, SpringCloud, Dubbo]),
    (PUSH, "data", How::Dropped, PUSHED),
    (PUSH, "data/~/hosts", How::Dropped, PUSHED),
    (PUSH, "data/~/name", How::Dropped, &[Java14, Java11, Go, SpringCloud, Dubbo]),
];

const LIST: &str = "GET /v1/ns/instance/list";
const PUSH: &str = "push";

/// The clients that a change is known to hurt.
pub fn hurt(change: &Change) -> Vec<Client> {
    if change.kind.refused {
        return Vec::new();
    }
    match change.how {
        How::PushLate(_) | How::PushLost(_) => return PUSHED.to_vec(),
        How::Resend(_) => return Vec::new(),
        _ => {}
    }
    if change.place == Place::Status && [LIST, "POST /v1/ns/instance"].contains(&&*change.kind.entry) {
        return ALL.to_vec();
    }
    let place = change.place.to_string();
    let known = TRIED
        .iter()
        .find(|(entry, end, how, _)| *entry == change.kind.entry && *end == place && *how == change.how);
    known.map(|(_, _, _, clients)| clients.to_vec()).unwrap_or_default()
}
