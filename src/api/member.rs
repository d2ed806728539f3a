//! The members, as consoles, operators and clients are shown them.
//!
//! Source: Nacos 1.4.8 core module, member; its address server, for the list of lines. Compat files `core-cluster`,
//! `operator-state`.

use std::fmt::Write as _;

use super::{Api, V1Call, reply::Reply, routes::Outcome};
use crate::cluster::{MemberState, ShownMember, Standing, document::Document};

/// The members at one moment.
pub struct ShownMembers {
    standing: Standing,
    /// Sorted as text.
    all: Vec<ShownMember>,
}

impl ShownMembers {
    /// All listed members; on a node that serves alone that node.
    #[must_use]
    pub fn of(api: &Api) -> Self {
        let standing = api.cluster.view_guard().standing;
        let mut all = api.cluster.members();
        if standing == Standing::Alone {
            // Nobody is there whom that would tell anything.
            all.iter_mut().filter_map(|own| own.report.as_mut()).for_each(|report| report.nacre = None);
        }
        Self { standing, all }
    }

    /// The node itself, listed or not.
    #[must_use]
    pub fn own(api: &Api) -> Self {
        let Self { standing, all } = Self::of(api);
        let own = all.into_iter().find(|member| member.is_own).unwrap_or_else(|| ShownMember {
            address: api.cluster.view_guard().own.clone(),
            state: MemberState::Down,
            report: Some(api.cluster.own_report()),
            raft_port: None,
            failures: 0,
            why: "it is this node, which is no member any more".into(),
            knows_us: None,
            forbids_us: false,
            is_own: true,
        });
        Self { standing, all: vec![own] }
    }

    /// Their documents.
    pub fn documents(&self) -> impl Iterator<Item = Document<'_>> {
        self.all.iter().map(|member| Document::of(member, self.state(member)))
    }

    /// Those whose state is UP.
    pub fn up(&self) -> impl Iterator<Item = Document<'_>> {
        let up = self.all.iter().filter(|member| self.state(member) == "UP");
        up.map(|member| Document::of(member, self.state(member)))
    }

    /// Their addresses.
    pub fn addresses(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|member| member.address.as_str())
    }

    fn state(&self, member: &ShownMember) -> &'static str {
        if member.is_own { own_state(self.standing) } else { member.state.as_str() }
    }
}

/// The state of the node itself, in the words of the reference's members.
#[must_use]
pub fn own_state(standing: Standing) -> &'static str {
    match standing {
        Standing::Alone | Standing::Serving | Standing::Leaving => "UP",
        Standing::Starting | Standing::Comparing => "STARTING",
        Standing::Removed => "DOWN",
    }
}

/// GET serverlist: the members, one a line; clients with an `endpoint` ask it for the servers to talk to.
pub fn server_list(api: &Api, _: &V1Call) -> Outcome {
    let mut lines = String::new();
    for address in ShownMembers::of(api).addresses() {
        let _ = writeln!(lines, "{address}");
    }
    Ok(Reply::Text(lines.into()))
}
