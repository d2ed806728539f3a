//! Whether the node should get traffic, and what else a person should know: the text of `/readyz`.
//!
//! Pure. Only naming that doesn't answer makes a node unready. All other trouble is a line under a good status: a
//! probe that took a node with a full disk out of service would take them all, and with them the lists that clients
//! live by. While a node loads its store it answers nothing at all, this neither. A member that its list no longer names
//! hears of nothing new and isn't ready; but where the list is made by others, it may be made of the nodes that are ready, and
//! the node could never come back.
//!
//! The text has one line per part, `NAME: STATE`, where a state in order is `up`; those of the cluster are there where
//! the node has members, `legacy` where it has legacy servers behind it:
//!
//! ```text
//! naming: up
//! store: failing since 2026-11-29T20:08:54Z: no space left on device
//! ring: up
//! members: 10.0.0.3:8848 DOWN: it refuses connections, or no way leads to it
//! legacy: DOWN: 10.0.0.9:8848
//! ```

use std::{borrow::Cow, time::SystemTime};

/// Whether naming requests are answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Naming {
    /// Yes.
    Up,
    /// Not yet: the data of the other members aren't here.
    Loading,
    /// Reads alone, for some seconds: the node stood still and looks at what it missed.
    Comparing,
    /// No longer: the node is being stopped. One with members leaves them first and finishes what comes meanwhile; then,
    /// as on one without, this is seen by requests alone that had begun before, and a probe is refused its connection.
    Draining,
    /// Reads alone, of what it knew: a file or setting no longer names the node among the members, or no member does.
    Removed,
    /// Not by the status that an operator gave the node.
    Status(&'static str),
}

/// How a part is that the node can do without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// In order.
    Up,
    /// Not in order.
    Failing {
        /// From when on.
        since: SystemTime,
        /// Why, for a person.
        reason: String,
    },
}

/// What is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The naming service.
    pub naming: Naming,
    /// The store of persistent data.
    pub store: State,
    /// Of the cluster, and of the legacy servers; none on a node that serves alone and has none of these.
    pub others: Vec<Line>,
}

/// What is to be known of a part that never makes a node unready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// What it is about.
    pub part: &'static str,
    /// What is wrong with it; none where it is in order.
    pub trouble: Option<String>,
}

/// The answer of `/readyz`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// The node should get traffic.
    pub ready: bool,
    /// One line per part.
    pub text: String,
}

/// Longest line, in bytes; reasons come from elsewhere.
const LONGEST_LINE: usize = 500;

/// Judges the node.
#[must_use]
pub fn judge(parts: &Parts) -> Readiness {
    let naming = match parts.naming {
        Naming::Up => "up",
        Naming::Loading => "loading",
        Naming::Comparing => "comparing",
        Naming::Draining => "draining",
        Naming::Removed => "removed",
        Naming::Status(status) => status,
    };
    let mut text = format!("naming: {naming}\n");
    let failing;
    let store = match &parts.store {
        State::Up => None,
        State::Failing { since, reason } => {
            failing = format!("failing since {}: {reason}", humantime::format_rfc3339_seconds(*since));
            Some(failing.as_str())
        }
    };
    push_line(&mut text, "store", store);
    for Line { part, trouble } in &parts.others {
        push_line(&mut text, part, trouble.as_deref());
    }
    Readiness { ready: parts.naming == Naming::Up, text }
}

fn push_line(text: &mut String, part: &str, trouble: Option<&str>) {
    let begin = text.len();
    let state = trouble.map_or(Cow::Borrowed("up"), |trouble| trouble.replace(['\r', '\n'], " ").into());
    text.extend([part, ": ", &*state]);
    text.truncate(text.floor_char_boundary(begin + LONGEST_LINE));
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn judged(naming: Naming, store: State) -> (bool, String) {
        let Readiness { ready, text } = judge(&Parts { naming, store, others: vec![] });
        (ready, text)
    }

    fn failing(reason: &str) -> State {
        let since = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_982_718);
        State::Failing { since, reason: reason.into() }
    }

    #[test]
    fn a_node_in_order_is_ready() {
        assert_eq!(judged(Naming::Up, State::Up), (true, "naming: up\nstore: up\n".into()));
    }

    #[test]
    fn a_store_that_fails_is_a_line_and_no_reason_to_be_unready() {
        let text = "naming: up\nstore: failing since 2026-11-29T20:05:18Z: no space left\n";
        assert_eq!(judged(Naming::Up, failing("no space left")), (true, text.into()));
    }

    #[test]
    fn naming_that_does_not_answer_is() {
        for (naming, word) in [
            (Naming::Loading, "loading"),
            (Naming::Comparing, "comparing"),
            (Naming::Draining, "draining"),
            (Naming::Removed, "removed"),
            (Naming::Status("READ_ONLY"), "READ_ONLY"),
        ] {
            assert_eq!(judged(naming, State::Up), (false, format!("naming: {word}\nstore: up\n")));
        }
    }

    #[test]
    fn trouble_in_the_cluster_is_a_line_each_and_no_reason_to_be_unready() {
        let lines = [("ring", None), ("members", Some("b:1 DOWN: it\nhangs"))];
        let others = lines.map(|(part, trouble)| Line { part, trouble: trouble.map(str::to_owned) });
        let parts = Parts { naming: Naming::Up, store: State::Up, others: others.into() };
        let text = "naming: up\nstore: up\nring: up\nmembers: b:1 DOWN: it hangs\n";
        assert_eq!(judge(&parts), Readiness { ready: true, text: text.into() });
    }

    #[test]
    fn a_reason_stays_on_its_line_and_within_bounds() {
        let (_, text) = judged(Naming::Up, failing(&"ä\n".repeat(1_000)));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[1].len() <= LONGEST_LINE);
    }
}
