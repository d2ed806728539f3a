//! Whether the node should get traffic, and what else a person should know: the text of `/readyz`.
//!
//! Pure. Only naming that doesn't answer makes a node unready. All other trouble is a line under a good status: a
//! probe that took a node with a full disk out of service would take them all, and with them the lists that clients
//! live by. While a node loads its store it answers nothing at all, this neither.
//!
//! The text has one line per part, `NAME: STATE`, where a state in order is `up`:
//!
//! ```text
//! naming: up
//! store: failing since 2026-11-29T20:08:54Z: no space left on device
//! ```

use std::{fmt::Write as _, time::SystemTime};

/// Whether naming requests are answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Naming {
    /// Yes.
    Up,
    /// No longer: the node is being stopped, what is under way is finished. Seen by a request that had begun before;
    /// a probe that comes later is refused its connection.
    Draining,
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
        Naming::Draining => "draining",
        Naming::Status(status) => status,
    };
    let mut text = format!("naming: {naming}\n");
    push_state(&mut text, "store", &parts.store);
    Readiness { ready: parts.naming == Naming::Up, text }
}

fn push_state(text: &mut String, name: &str, state: &State) {
    let begin = text.len();
    let written = match state {
        State::Up => write!(text, "{name}: up"),
        State::Failing { since, reason } => {
            let since = humantime::format_rfc3339_seconds(*since);
            let reason = reason.replace(['\r', '\n'], " ");
            write!(text, "{name}: failing since {since}: {reason}")
        }
    };
    written.expect("writing into memory can't fail");
    text.truncate(text.floor_char_boundary(begin + LONGEST_LINE));
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn judged(naming: Naming, store: State) -> (bool, String) {
        let Readiness { ready, text } = judge(&Parts { naming, store });
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
        for (naming, word) in [(Naming::Draining, "draining"), (Naming::Status("READ_ONLY"), "READ_ONLY")] {
            assert_eq!(judged(naming, State::Up), (false, format!("naming: {word}\nstore: up\n")));
        }
    }

    #[test]
    fn a_reason_stays_on_its_line_and_within_bounds() {
        let (_, text) = judged(Naming::Up, failing(&"ä\n".repeat(1_000)));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[1].len() <= LONGEST_LINE);
    }
}
