//! Which wrong answers are as good as right ones, by rules: no client can tell them apart. No I/O.
//!
//! A rule says nothing of what is found all the same; it only explains what isn't.

use crate::between::{Change, How, Place};

/// Values that are measured, or counted over the whole server: another one of the same kind is as right.
const MEASURED: [&str; 14] = [
    "checkRTBest",
    "checkRTWorst",
    "checkRTNormalized",
    "configCount",
    "cpu",
    "load",
    "mem",
    "term",
    "leaderDueMs",
    "heartbeatDueMs",
    "serviceCount",
    "instanceCount",
    "responsibleServiceCount",
    "responsibleInstanceCount",
];

/// The rule by which nobody can see it, if there is one.
pub fn invisible(change: &Change) -> Option<&'static str> {
    if change.how.is_of_pushes() {
        return None;
    }
    let in_text = !matches!(change.place, Place::Status);
    if change.kind.refused && in_text {
        return Some("what a refusal says beyond its status: no client reads it but to log it");
    }
    if change.kind.entry == "no entry" && matches!(change.place, Place::Text) {
        return Some("the text of a page for people");
    }
    if change.how == How::Altered && MEASURED.contains(&change.place.name()) {
        return Some("a measured value, altered to another of its kind");
    }
    if change.how == How::Altered && is_map(change) {
        return Some("the order of a map's keys, which name services: members look one up");
    }
    None
}

/// Whether the place is a map by the names of services. Dropped and retyped it is seen.
fn is_map(change: &Change) -> bool {
    let data = ["GET /v1/ns/distro/datums", "GET /v1/ns/distro/datum"].contains(&&*change.kind.entry);
    data && change.place == Place::Field(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::between::Kind;

    #[test]
    fn a_status_is_always_seen_and_a_field_of_a_good_answer_too() {
        let change = |status, place, how| Change {
            kind: Kind::of("GET", "/v1/ns/instance/list", "", status),
            place,
            how,
        };
        let field = |name: &str| Place::Field(vec![name.to_owned()]);
        assert_eq!(invisible(&change(400, Place::Status, How::Altered)), None);
        assert_eq!(invisible(&change(200, field("name"), How::Altered)), None);
        assert_eq!(invisible(&change(200, field("cpu"), How::Dropped)), None);
        assert!(invisible(&change(200, field("cpu"), How::Altered)).is_some());
        assert!(invisible(&change(400, Place::Text, How::Dropped)).is_some());
    }
}
