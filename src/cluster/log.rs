//! One line for each change of the cluster.

use std::time::Instant;

use super::{MemberState, Roster, Standing, View};
use crate::base::burst::Burst;

/// Tells what differs. Members that flap could fill the log, so `lines` bounds it.
pub(super) fn tell(lines: &Burst, before: &View, after: &View, roster: &Roster) {
    let Some(unlogged) = lines.pass(Instant::now()) else { return };
    if unlogged > 0 {
        tracing::info!(unlogged, "changes of members weren't logged");
    }
    for gone in before.peers.iter().filter(|peer| after.peer(&peer.address).is_none()) {
        tracing::info!(member = %gone.address, "no member any more");
    }
    for peer in &after.peers {
        let was = before.peer(&peer.address);
        if was.is_none() {
            tracing::info!(member = %peer.address, "a new member");
        }
        let was = was.map_or(MemberState::Down, |peer| peer.state);
        let (member, why) = (&peer.address, roster.why(&peer.address));
        match peer.state {
            state if state == was => {}
            MemberState::Up => tracing::info!(%member, why, "a member is up"),
            MemberState::Suspicious => tracing::warn!(%member, why, "a member is suspicious"),
            MemberState::Down => tracing::warn!(%member, why, "a member is down"),
        }
    }
    tell_own(before, after);
}

fn tell_own(before: &View, after: &View) {
    let own = &after.own;
    match after.standing {
        standing if standing == before.standing => {}
        Standing::Removed => {
            tracing::error!(%own, "this node is no longer listed, here or by the members that answer: it takes no writes");
        }
        Standing::Comparing => tracing::warn!(%own, "this node stood still: looking at what it missed"),
        Standing::Starting => tracing::info!(%own, "in the list of members again: loading what they have"),
        Standing::Serving => tracing::info!(%own, members = after.peers.len() + 1, "one of the members"),
        Standing::Leaving => tracing::info!(%own, "leaving"),
        Standing::Alone => {}
    }
    match (before.own_index.is_some(), after.own_index.is_some()) {
        (true, false) if after.standing == Standing::Serving => {
            tracing::warn!(%own, "most members call this node slow: it owns nothing");
        }
        (false, true) if before.standing == Standing::Serving => {
            tracing::info!(%own, "this node owns services again");
        }
        _ => {}
    }
}
