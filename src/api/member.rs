//! The members, as consoles, operators and clients are shown them.
//!
//! Source: Nacos 1.4.8 core module, member; its address server, for the list of lines. Compat files `core-cluster`,
//! `operator-state`.

use std::fmt::Write as _;

use super::{Api, V1Call, reply::Reply, routes::Outcome};
use crate::cluster::{
    Address, MemberReport, MemberState, NacreMark, ShownMember, Standing, document::Document,
};

/// The members at one moment.
pub struct Members {
    standing: Standing,
    /// Sorted as text.
    all: Vec<ShownMember>,
}

impl Members {
    /// All listed members; on a node that serves alone that node.
    #[must_use]
    pub fn of(api: &Api) -> Self {
        let standing = api.cluster.view_guard().standing;
        let mut all = match standing {
            Standing::Alone => vec![alone(api)],
            _ => api.cluster.members(),
        };
        all.iter_mut().filter(|member| member.is_own).for_each(|own| note_start(api, own));
        Self { standing, all }
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

/// The node itself, listed or not.
#[must_use]
pub fn own(api: &Api) -> Members {
    let members = Members::of(api);
    let standing = members.standing;
    let own = members.all.into_iter().find(|member| member.is_own);
    let unlisted = || {
        let mut own = alone(api);
        note_start(api, &mut own);
        own
    };
    Members { standing, all: vec![own.unwrap_or_else(unlisted)] }
}

/// What a node without members says of itself: nothing that is for other Nacre nodes.
fn alone(api: &Api) -> ShownMember {
    let address = Address::new(&api.own_address);
    let report = MemberReport::of_nacre(&address, NacreMark::default());
    ShownMember {
        address,
        state: MemberState::Up,
        report: Some(MemberReport { nacre: None, ..report }),
        failures: 0,
        why: "it is this node",
        knows_us: None,
        is_own: true,
    }
}

fn note_start(api: &Api, own: &mut ShownMember) {
    if let Some(report) = &mut own.report {
        report.extend_info.insert("lastRefreshTime".to_owned(), api.node.started_ms.into());
    }
}

/// GET serverlist: the members, one a line; clients with an `endpoint` ask it for the servers to talk to.
pub fn server_list(api: &Api, _: &V1Call) -> Outcome {
    let mut lines = String::new();
    for address in Members::of(api).addresses() {
        let _ = writeln!(lines, "{address}");
    }
    Ok(Reply::Text(lines.into()))
}
