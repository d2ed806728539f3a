//! Whose requests the registry has answered: in an outage nobody else is told what was listed, or changes what is kept.
//!
//! Pure. A registry with authentication says who may read and who may write; while it is away, only whoever it has let do
//! the same in the same namespace is believed, by what a request carried to prove itself. Where it has let one without any,
//! it asks nobody for any there, to read or to write: authentication is one switch. Bounded: those that were answered longest ago are forgotten first. Source: ours.

use std::{
    collections::HashSet,
    hash::{BuildHasher as _, RandomState},
};

/// Callers that are remembered.
const MOST: usize = 100_000;

/// Who calls, as far as a request says so: its namespace and its credentials, as numbers that tell neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// With these credentials there.
    own: u64,
    /// Without any there.
    anybody: u64,
}

/// What a caller wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    /// Be told lists.
    Reads,
    /// Register and deregister.
    Writes,
}

/// Those that were answered.
#[derive(Debug, Default)]
pub struct Callers {
    hasher: RandomState,
    young: HashSet<u64>,
    old: HashSet<u64>,
}

impl Callers {
    /// Who carries these credentials in this namespace.
    #[must_use]
    pub fn caller(&self, namespace: &str, credentials: &[&[u8]]) -> Caller {
        let anybody = self.hasher.hash_one(namespace);
        let none = credentials.iter().all(|part| part.is_empty());
        let own = if none { anybody } else { self.hasher.hash_one((namespace, credentials)) };
        Caller { own, anybody }
    }

    /// The registry has let this caller do so.
    pub fn admit(&mut self, caller: Caller, right: Right) {
        let is_anybody = caller.own == caller.anybody;
        let number = if is_anybody { caller.anybody } else { self.hasher.hash_one((caller.own, right)) };
        if self.young.len() >= MOST / 2 && !self.young.contains(&number) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(number);
    }

    /// Whether it has let this caller do so before, or anybody; all are believed while it has answered nobody yet.
    #[must_use]
    pub fn knows(&self, caller: Caller, right: Right) -> bool {
        self.has(self.hasher.hash_one((caller.own, right)))
            || self.lets_anybody(caller)
            || (self.young.is_empty() && self.old.is_empty())
    }

    /// Whether it asks for no credentials in the namespace of this caller.
    #[must_use]
    pub fn lets_anybody(&self, caller: Caller) -> bool {
        self.has(caller.anybody)
    }

    fn has(&self, number: u64) -> bool {
        self.young.contains(&number) || self.old.contains(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::{Right::*, *};

    #[test]
    fn who_was_let_is_known_in_that_namespace_and_for_that_alone() {
        let mut callers = Callers::default();
        let token = callers.caller("public", &[b"token", b""]);
        assert!(callers.knows(token, Writes), "nobody was answered yet");
        callers.admit(token, Reads);
        assert!(callers.knows(callers.caller("public", &[b"token", b""]), Reads));
        assert!(!callers.knows(token, Writes));
        for other in [
            callers.caller("public", &[b"", b""]),
            callers.caller("other", &[b"token", b""]),
            callers.caller("public", &[b"", b"token"]),
            callers.caller("public", &[b"toke", b"n"]),
        ] {
            assert!(!callers.knows(other, Reads), "{other:?}");
        }
    }

    #[test]
    fn where_one_without_credentials_was_let_all_are_known_there() {
        let mut callers = Callers::default();
        callers.admit(callers.caller("public", &[b"", b""]), Reads);
        assert!(callers.knows(callers.caller("public", &[b"any"]), Reads));
        assert!(callers.knows(callers.caller("public", &[b"any"]), Writes));
        assert!(!callers.knows(callers.caller("other", &[]), Reads));
    }

    #[test]
    fn no_more_callers_are_remembered_than_there_is_room_for_and_the_latest_are() {
        let mut callers = Callers::default();
        let caller = |own| Caller { own, anybody: u64::MAX };
        for n in 0..2 * MOST as u64 {
            callers.admit(caller(n), Writes);
            assert!(callers.young.len() + callers.old.len() <= MOST);
        }
        assert!(callers.knows(caller(2 * MOST as u64 - 1), Writes) && !callers.knows(caller(0), Writes));
    }
}
