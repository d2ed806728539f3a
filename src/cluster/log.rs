//! One line for each change of the cluster.

use std::time::Instant;

use super::{Address, Mapping, MemberState, Roster, Standing, View};
use crate::base::burst::Burst;

/// Tells what differs. Members that flap could fill the log, so `lines` bounds it.
pub(super) fn tell(lines: &Burst, before: &View, after: &View, roster: &Roster) {
    let Some(unlogged) = lines.pass(Instant::now()) else { return };
    if let Some(unlogged) = unlogged {
        tracing::info!(unlogged, "so many changes of members before this one weren't logged");
    }
    for gone in before.peers.iter().filter(|peer| after.peer(&peer.address).is_none()) {
        tracing::info!(member = %gone.address, "off the list of members: others own its services now");
    }
    for peer in &after.peers {
        let was = before.peer(&peer.address);
        if was.is_none() {
            tracing::info!(member = %peer.address, "on the list of members from now on");
        }
        let had_left = was.is_some_and(|peer| peer.leaving);
        if peer.leaving && !had_left {
            tracing::info!(member = %peer.address, "a member is leaving: others own its services from now on");
        }
        let was = was.map_or(MemberState::Down, |peer| peer.state);
        let (member, why) = (&peer.address, roster.why(&peer.address));
        match peer.state {
            state if state == was => {}
            MemberState::Up => tracing::info!(%member, %why, "a member is up"),
            MemberState::Suspicious => tracing::warn!(%member, %why, "a member is suspicious"),
            MemberState::Down if had_left => tracing::info!(%member, %why, "the member has left"),
            MemberState::Down => tracing::warn!(%member, %why, "a member is down"),
        }
    }
    if let Some(line) = mapping_line((before.mapping, after.mapping), roster.mapping_hindrance()) {
        tracing::warn!("{line}");
    }
    tell_own(before, after);
}

/// What is told where services are spread in another way from now on.
fn mapping_line(
    (before, after): (Mapping, Mapping),
    hindrance: Option<(&Address, &'static str)>,
) -> Option<String> {
    match (before == after, hindrance) {
        (true, _) => None,
        (false, Some((member, why))) => {
            Some(format!("services are spread by modulo in place of rendezvous: {member} {why}"))
        }
        (false, None) => {
            Some("services are spread by rendezvous, since nothing hinders it any more".to_owned())
        }
    }
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
        Standing::Serving => {
            tracing::info!(%own, members = after.peers.len() + 1, "one of the members: services are its own from now on");
        }
        Standing::Leaving => tracing::info!(%own, "leaving the members: others own its services from now on"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_way_to_spread_services_has_one_line_with_the_reason() {
        let member = Address::new("10.0.0.2:8848");
        let hindrance = Some((&member, "has another nacre.distro.mapping"));
        let line = |before, after, hindrance| mapping_line((before, after), hindrance);
        assert_eq!(line(Mapping::Modulo, Mapping::Modulo, hindrance), None);
        assert_eq!(line(Mapping::Rendezvous, Mapping::Rendezvous, None), None);
        assert_eq!(
            line(Mapping::Rendezvous, Mapping::Modulo, hindrance).as_deref(),
            Some(
                "services are spread by modulo in place of rendezvous: 10.0.0.2:8848 has another nacre.distro.mapping"
            )
        );
        assert_eq!(
            line(Mapping::Modulo, Mapping::Rendezvous, None).as_deref(),
            Some("services are spread by rendezvous, since nothing hinders it any more")
        );
    }
}
