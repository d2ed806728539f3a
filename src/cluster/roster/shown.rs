//! What follows from what a node has seen of the members: for the ring, for the others, for operators.
//!
//! Pure.

use std::{borrow::Cow, collections::BTreeSet};

use super::Roster;
use crate::{
    cluster::{
        Address, Mapping, MemberReport, MemberState, NacreMark, Peer, Standing, View,
        member::{PROTOCOL, digest_of},
        seen::Seen,
    },
    config::MemberMeta,
};

/// Why a member that most call slow is DOWN.
const CALLED_SLOW: &str = "most members call it slow";

/// A member as operators are shown it.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownMember {
    /// Who it is.
    pub address: Address,
    /// What we think of it; of ourselves we think well.
    pub state: MemberState,
    /// What it last reported, or what we would report. None: nothing yet.
    pub report: Option<MemberReport>,
    /// Its raft port, where the list tells it.
    pub raft_port: Option<u16>,
    /// Reports of ours that failed, in a row.
    pub failures: u32,
    /// Why it has its state, for a person.
    pub why: Cow<'static, str>,
    /// Whether we are in its list, as far as it has told.
    pub knows_us: Option<bool>,
    /// It answers our reports 403.
    pub forbids_us: bool,
    /// It is this node.
    pub is_own: bool,
}

impl Roster {
    /// How many of these a member says that it holds.
    #[must_use]
    pub fn persistent_of(&self, address: &Address) -> u64 {
        let mark = self.members.get(address).and_then(Seen::mark);
        mark.map_or(0, |mark| mark.persistent)
    }

    /// What the node reports of itself.
    #[must_use]
    pub fn report(&self) -> MemberReport {
        let mark = NacreMark {
            protocol: PROTOCOL,
            starting: self.is_loading(),
            leaving: self.standing == Standing::Leaving,
            slow: self.slow.clone(),
            persistent: self.persistent,
            mapping: self.settings.mapping,
            list: Some(digest_of(&self.listed())),
        };
        let mut report = MemberReport::of_nacre(&self.own, mark);
        if let Some(raft_port) = self.raft_ports.get(&self.own) {
            report.extend_info.insert("raftPort".into(), raft_port.to_string().into());
        }
        let MemberMeta { site, ad_weight, weight } = &self.settings.meta;
        for (name, value) in [("site", site), ("adWeight", ad_weight), ("weight", weight)] {
            if let Some(value) = value {
                report.extend_info.insert(name.into(), value.as_str().into());
            }
        }
        report
    }

    /// The cluster as it follows from all that.
    #[must_use]
    pub fn view(&self) -> View {
        let slow = self.called_slow();
        let peers: Vec<Peer> =
            self.members.iter().map(|(address, member)| peer(address, member, &slow)).collect();
        let mapping =
            if self.mapping_hindrance().is_none() { self.settings.mapping } else { Mapping::Modulo };
        let view = View::new(self.own.clone(), self.standing, peers, mapping)
            .with_parting(self.parting.keys().cloned().collect());
        if slow.contains(&self.own) { view.without_own() } else { view }
    }

    /// The member for whose sake services aren't spread as set, and why; none where nothing is in the way.
    #[must_use]
    pub fn mapping_hindrance(&self) -> Option<(&Address, &'static str)> {
        if self.settings.mapping == Mapping::Modulo {
            return None;
        }
        // One that owns nothing can't disagree; one that hasn't reported yet is taken to be set like this node.
        let slow = self.called_slow();
        let owners = self.members.iter().filter(|(address, member)| peer(address, member, &slow).may_own());
        owners.into_iter().find_map(|(address, member)| match (member.nacre, member.mark()) {
            (None, _) => Some((address, "hasn't shown that it is a Nacre node")),
            (Some(_), Some(mark)) if mark.mapping != self.settings.mapping => {
                Some((address, "has another nacre.distro.mapping"))
            }
            _ => None,
        })
    }

    /// All listed members, sorted as text, for operators.
    #[must_use]
    pub fn members(&self) -> Vec<ShownMember> {
        let slow = self.called_slow();
        let peers = self.members.iter().map(|(address, member)| ShownMember {
            address: address.clone(),
            state: state(address, member, &slow),
            report: member.report.clone(),
            raft_port: self.raft_ports.get(address).copied(),
            failures: member.failures,
            why: if slow.contains(address) { CALLED_SLOW.into() } else { member.why(&self.own) },
            knows_us: member.knows_us,
            forbids_us: member.forbids_us,
            is_own: false,
        });
        let own = ShownMember {
            address: self.own.clone(),
            state: MemberState::Up,
            report: Some(self.report()),
            raft_port: self.raft_ports.get(&self.own).copied(),
            failures: 0,
            why: "it is this node".into(),
            knows_us: None,
            forbids_us: false,
            is_own: true,
        };
        let own = (self.standing != Standing::Removed || self.disowned).then_some(own);
        let mut all: Vec<ShownMember> = peers.chain(own).collect();
        all.sort_unstable_by(|one, other| one.address.cmp(&other.address));
        all
    }

    /// Why a member has its state, for a person.
    #[must_use]
    pub fn why(&self, address: &Address) -> Cow<'static, str> {
        match self.members.get(address) {
            Some(_) if self.called_slow().contains(address) => CALLED_SLOW.into(),
            Some(member) => member.why(&self.own),
            None => "it isn't listed".into(),
        }
    }
}

fn peer(address: &Address, member: &Seen, slow: &BTreeSet<Address>) -> Peer {
    Peer {
        address: address.clone(),
        state: state(address, member, slow),
        nacre: member.nacre,
        starting: member.starting,
        leaving: member.is_leaving(),
        outvoted: slow.contains(address) && member.state != MemberState::Down,
        is_another: member.called.is_some(),
    }
}

fn state(address: &Address, member: &Seen, slow: &BTreeSet<Address>) -> MemberState {
    if slow.contains(address) { MemberState::Down } else { member.state }
}
