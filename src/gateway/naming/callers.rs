//! Whose requests the registry has answered: in an outage nobody else is told what was listed, or changes what is kept.
//!
//! Pure. A registry with authentication says who may read; while it is away, only whoever it has answered before is
//! believed, by what a request carried to prove itself. Where it has answered one without any, it asks for none. Bounded:
//! those that were answered longest ago are forgotten first. Source: ours.

use std::{
    collections::HashSet,
    hash::{BuildHasher as _, RandomState},
};

/// Callers that are remembered.
const MOST: usize = 100_000;

/// Who calls, as far as a request says so: its namespace and its credentials, as a number that tells neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// It carries no credentials.
    Anybody,
    /// With these.
    Known(u64),
}

/// Those that were answered.
#[derive(Debug, Default)]
pub struct Callers {
    hasher: RandomState,
    anybody: bool,
    young: HashSet<u64>,
    old: HashSet<u64>,
}

impl Callers {
    /// Who carries these credentials in this namespace.
    #[must_use]
    pub fn caller(&self, namespace: &str, credentials: &[&[u8]]) -> Caller {
        if credentials.iter().all(|part| part.is_empty()) {
            return Caller::Anybody;
        }
        Caller::Known(self.hasher.hash_one((namespace, credentials)))
    }

    /// The registry has answered this caller.
    pub fn admit(&mut self, caller: Caller) {
        let Caller::Known(number) = caller else {
            self.anybody = true;
            return;
        };
        if self.young.len() >= MOST / 2 && !self.young.contains(&number) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(number);
    }

    /// Whether it has answered this caller before; all are believed while it has answered nobody yet.
    #[must_use]
    pub fn knows(&self, caller: Caller) -> bool {
        let is_known = match caller {
            Caller::Anybody => false,
            Caller::Known(number) => self.young.contains(&number) || self.old.contains(&number),
        };
        self.anybody || is_known || (self.young.is_empty() && self.old.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_answered_is_known_in_that_namespace_alone() {
        let mut callers = Callers::default();
        let token = callers.caller("public", &[b"token", b""]);
        assert!(callers.knows(token) && callers.knows(Caller::Anybody), "nobody was answered yet");
        callers.admit(token);
        assert!(callers.knows(callers.caller("public", &[b"token", b""])));
        for other in [
            Caller::Anybody,
            callers.caller("other", &[b"token", b""]),
            callers.caller("public", &[b"", b"token"]),
            callers.caller("public", &[b"toke", b"n"]),
        ] {
            assert!(!callers.knows(other), "{other:?}");
        }
    }

    #[test]
    fn where_one_without_credentials_was_answered_all_are_known() {
        let mut callers = Callers::default();
        callers.admit(callers.caller("public", &[b"", b""]));
        assert!(callers.knows(Caller::Anybody) && callers.knows(Caller::Known(1)));
    }

    #[test]
    fn no_more_callers_are_remembered_than_there_is_room_for_and_the_latest_are() {
        let mut callers = Callers::default();
        for n in 0..2 * MOST as u64 {
            callers.admit(Caller::Known(n));
            assert!(callers.young.len() + callers.old.len() <= MOST);
        }
        assert!(callers.knows(Caller::Known(2 * MOST as u64 - 1)) && !callers.knows(Caller::Known(0)));
    }
}
