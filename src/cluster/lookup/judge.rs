//! Whether a list that was read takes the place of the one that counts.
//!
//! Pure. A list that can't be read, names nobody or is hardly a list never does: a cluster whose members are forgotten
//! for a slip of the pen loses its data. Ours: Nacos 1.4.8 throws a broken file away as well, and takes everything else.

use super::list::{List, RaftPorts};
use crate::cluster::Address;

/// Remembers what counts and what has been told.
#[derive(Clone, Debug)]
pub struct Judge {
    own: Address,
    members: Vec<Address>,
    raft_ports: RaftPorts,
    /// Lists in a row without the node itself, and how many it takes until one counts.
    absences: u32,
    patience: u32,
    /// Why the last list didn't count.
    trouble: Option<String>,
}

/// What becomes of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is the one that counts already; something had been in the way before or not.
    Same,
    /// It counts from now on; it may lack the node itself.
    New(List),
    /// It doesn't count.
    Kept {
        /// The reason differs from that of the list before.
        is_news: bool,
    },
}

impl Judge {
    /// Of a node called `own` whose list is that; `patience` lists in a row without it are needed to believe them.
    #[must_use]
    pub fn new(own: Address, list: List, patience: u32) -> Self {
        let List { members, raft_ports, .. } = list;
        Self { own, members, raft_ports, absences: 0, patience, trouble: None }
    }

    /// Where the list comes from has changed: so many lists without the node are needed from now on.
    pub fn set_patience(&mut self, patience: u32) {
        (self.patience, self.absences) = (patience, 0);
    }

    /// Why the last list didn't count.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Decides about what was read, or the reason why nothing could be.
    pub fn judge(&mut self, read: Result<List, String>) -> Verdict {
        let mut list = match read {
            Ok(list) if list.members.is_empty() => return self.keep("it names nobody".to_owned()),
            Ok(list) => list,
            Err(reason) => return self.keep(reason),
        };
        match list.spelling_of(&self.own).cloned() {
            Some(spelling) => {
                self.absences = 0;
                if spelling != self.own {
                    list.notes.push(format!(
                        "it calls this node {spelling}; until the next start it stays {}",
                        self.own
                    ));
                    list.members.retain(|member| *member != spelling);
                    list.members.push(self.own.clone());
                    list.members.sort_unstable();
                    let raft_port = list.raft_ports.remove(&spelling);
                    list.raft_ports.extend(raft_port.map(|port| (self.own.clone(), port)));
                }
            }
            None => {
                self.absences = self.absences.saturating_add(1);
                if self.absences < self.patience {
                    return self.keep(format!("it lacks this node, {}", self.own));
                }
            }
        }
        self.trouble = None;
        if list.members == self.members && list.raft_ports == self.raft_ports {
            return Verdict::Same;
        }
        self.members.clone_from(&list.members);
        self.raft_ports.clone_from(&list.raft_ports);
        Verdict::New(list)
    }

    fn keep(&mut self, reason: String) -> Verdict {
        let is_news = self.trouble.as_ref() != Some(&reason);
        self.trouble = Some(reason);
        Verdict::Kept { is_news }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(patience: u32) -> Judge {
        Judge::new(Address::new("a:1"), List::parse("a:1\nb:1").unwrap(), patience)
    }

    fn read(text: &str) -> Result<List, String> {
        List::parse(text).map_err(|error| error.to_string())
    }

    fn new(members: &[&str]) -> Verdict {
        Verdict::New(List::parse(&members.join(",")).unwrap())
    }

    #[test]
    fn a_list_counts_once() {
        let mut judge = judge(1);
        assert_eq!(judge.judge(read("b:1\na:1")), Verdict::Same);
        assert_eq!(judge.judge(read("c:1\na:1")), new(&["a:1", "c:1"]));
        assert_eq!(judge.judge(read("a:1,c:1")), Verdict::Same);
        assert_eq!(judge.judge(read("a:1,c:1?raft_port=5")), new(&["a:1", "c:1?raft_port=5"]));
    }

    #[test]
    fn what_is_no_list_is_told_once_and_forgotten_when_right() {
        let mut judge = judge(1);
        for (text, is_news) in [("", true), ("# x", false), ("a:1\n<html>", true), ("a:1\n<html>", false)] {
            assert_eq!(judge.judge(read(text)), Verdict::Kept { is_news }, "{text}");
        }
        assert!(judge.trouble().unwrap().starts_with("line 2: \"<html>\" is no address"));
        assert_eq!(judge.judge(read("a:1\nb:1")), Verdict::Same);
        assert_eq!(judge.trouble(), None);
        assert_eq!(judge.judge(Err("no file".into())), Verdict::Kept { is_news: true });
    }

    #[test]
    fn a_file_without_the_node_counts_at_once() {
        assert_eq!(judge(1).judge(read("b:1")), new(&["b:1"]));
    }

    #[test]
    fn an_answer_without_the_node_counts_at_the_third_time() {
        let mut judge = judge(3);
        assert_eq!(judge.judge(read("b:1")), Verdict::Kept { is_news: true });
        assert_eq!(judge.trouble(), Some("it lacks this node, a:1"));
        assert_eq!(judge.judge(read("c:1")), Verdict::Kept { is_news: false });
        assert_eq!(judge.judge(read("a:1,b:1")), Verdict::Same);
        for _ in 0..2 {
            assert!(matches!(judge.judge(read("b:1")), Verdict::Kept { .. }));
        }
        assert_eq!(
            judge.judge(Err("no answer".into())),
            Verdict::Kept { is_news: true },
            "no answer is none"
        );
        assert_eq!(judge.judge(read("b:1")), new(&["b:1"]));
        assert_eq!(judge.judge(read("a:1,b:1")), new(&["a:1", "b:1"]));
    }

    #[test]
    fn another_spelling_of_the_node_is_the_node() {
        let mut judge = judge(1);
        assert_eq!(judge.judge(read("b:1\nA.:1")), Verdict::Same);
        let verdict = judge.judge(read("b:1\nA.:1?raft_port=5\nc:1"));
        let Verdict::New(List { members, raft_ports, notes }) = verdict else { panic!("{verdict:?}") };
        assert_eq!(members, [Address::new("a:1"), Address::new("b:1"), Address::new("c:1")]);
        assert_eq!(raft_ports, RaftPorts::from([(Address::new("a:1"), 5)]));
        assert_eq!(notes, ["it calls this node A.:1; until the next start it stays a:1"]);
    }
}
