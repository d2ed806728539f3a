//! Which members most call slow.
//!
//! Pure.

use std::collections::BTreeSet;

use super::Roster;
use crate::cluster::{Address, MemberState, Standing, seen::Seen};

impl Roster {
    /// Those that more than half of the Nacre members that are up call slow, the node itself among both. None where
    /// fewer than most of those that are up would be left to own services: two that call each other slow both go on.
    pub(super) fn called_slow(&self) -> BTreeSet<Address> {
        if !self.is_damped() {
            return BTreeSet::new();
        }
        let marks = self.members.values().filter_map(Seen::mark);
        let accused: BTreeSet<&Address> = marks.flat_map(|mark| &mark.slow).chain(&self.slow).collect();
        let called = accused.into_iter().filter(|accused| self.is_called_slow(accused));
        let called: BTreeSet<Address> = called.cloned().collect();
        if called.is_empty() {
            return called;
        }
        let is_at_work =
            |member: &Seen| member.state == MemberState::Up && !member.starting && !member.is_leaving();
        let others = self.members.iter().filter(|(_, member)| is_at_work(member));
        let own = (self.standing == Standing::Serving).then_some(&self.own);
        let at_work: Vec<&Address> = others.map(|(address, _)| address).chain(own).collect();
        let left = at_work.iter().filter(|address| !called.contains(**address)).count();
        if left * 2 > at_work.len() { called } else { BTreeSet::new() }
    }

    fn is_called_slow(&self, accused: &Address) -> bool {
        let voters = self.members.iter().filter(|(address, member)| {
            *address != accused && member.state == MemberState::Up && !member.starting
        });
        let own_voice =
            (self.standing == Standing::Serving && *accused != self.own).then(|| self.slow.contains(accused));
        let voices = voters.map(|(_, member)| member.calls_slow(accused)).chain(own_voice);
        let (votes, all) = voices.fold((0, 0), |(votes, all), voice| (votes + usize::from(voice), all + 1));
        votes * 2 > all
    }
}
