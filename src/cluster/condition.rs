//! What a person should know about the cluster, and how many members are how: for `/readyz` and metrics.
//!
//! Pure. Hardly any of it makes a node unready: a probe that took nodes with a dead peer out of service would take them all.

use std::time::Duration;

use super::{
    Address, MemberState, Roster, ShownMember, Standing, View, lookup::LookupShown, member::digest_of,
};

/// One line of `/readyz`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// What it is about.
    pub part: &'static str,
    /// What is wrong with it; none where it is in order.
    pub trouble: Option<String>,
}

/// How many members are how, the node itself left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberCounts {
    /// That answer.
    pub up: u64,
    /// That failed lately.
    pub suspicious: u64,
    /// That can't be reached, or that most call slow.
    pub down: u64,
    /// That say they load their data.
    pub starting: u64,
    /// That say they go.
    pub leaving: u64,
    /// That have shown that they are Nacre nodes.
    pub nacre: u64,
    /// Owners of services, the node itself among them where it is one.
    pub ring: u64,
    /// The node itself is an owner.
    pub is_owner: bool,
}

impl MemberCounts {
    /// Of the members of a view.
    #[must_use]
    pub fn of(view: &View) -> Self {
        let mut counts = Self {
            ring: u64::try_from(view.ring.len()).unwrap_or(u64::MAX),
            is_owner: view.own_index.is_some(),
            ..Self::default()
        };
        for peer in &view.peers {
            match peer.state {
                MemberState::Up => counts.up += 1,
                MemberState::Suspicious => counts.suspicious += 1,
                MemberState::Down => counts.down += 1,
            }
            counts.starting += u64::from(peer.starting);
            counts.leaving += u64::from(peer.leaving);
            counts.nacre += u64::from(peer.nacre.is_some());
        }
        counts
    }
}

/// Members that a line names at most.
const NAMED: usize = 5;

/// All lines. `moved`: the address that the node would have now, where that is another one.
#[must_use]
pub fn conditions(roster: &Roster, lookup: Option<&LookupShown>, moved: Option<&str>) -> Vec<Condition> {
    let shown = roster.members();
    let persistent = shown.iter().filter_map(|member| {
        let count = member.report.as_ref()?.nacre.as_ref()?.persistent;
        (count > 0)
            .then(|| format!("{} holds persistent data that aren't shared: {count} in all", member.address))
    });
    let own_list = digest_of(&roster.listed());
    // Of one that is away the list of then is known, and a node that was taken off has another list than all.
    let is_compared =
        |member: &&ShownMember| member.state != MemberState::Down && roster.standing() != Standing::Removed;
    let differing = shown.iter().filter(is_compared).filter_map(|member| {
        let list = member.report.as_ref()?.nacre.as_ref()?.list.as_ref()?;
        (*list != own_list).then(|| format!("{} has another list than this node", member.address))
    });
    let hindrance = roster.mapping_hindrance();
    let mapping = hindrance.map(|(address, why)| format!("modulo in place of rendezvous: {address} {why}"));
    vec![
        Condition { part: "ring", trouble: ring(roster) },
        Condition { part: "members", trouble: joined(shown.iter().filter_map(member_trouble).collect()) },
        Condition {
            part: "member list",
            trouble: lookup.and_then(list_trouble).or_else(|| joined(differing.collect())),
        },
        Condition { part: "mapping", trouble: mapping },
        Condition {
            part: "own address",
            trouble: moved.map(|moved| moved_text(roster.own().as_str(), moved)),
        },
        Condition { part: "persistent data", trouble: joined(persistent.collect()) },
    ]
}

/// What is wrong with a member, and what is wrong with this node in its eyes.
fn member_trouble(member: &ShownMember) -> Option<String> {
    let says_that_it_leaves = || member.report.as_ref()?.nacre.as_ref().map(|mark| mark.leaving);
    let state = match member.state {
        // It owns nothing any more, and is DOWN in a moment.
        MemberState::Up if !member.is_own && says_that_it_leaves() == Some(true) => "is leaving".to_owned(),
        MemberState::Up => String::new(),
        state => format!("{}: {}", state.as_str(), member.why),
    };
    let opinion = match (member.forbids_us, member.knows_us) {
        (true, _) => FORBIDS,
        (false, Some(false)) => "doesn't list this node",
        (false, _) => "",
    };
    let texts: Vec<&str> = [&state, opinion].into_iter().filter(|text| !text.is_empty()).collect();
    (!texts.is_empty()).then(|| format!("{} {}", member.address, texts.join(", and ")))
}

fn ring(roster: &Roster) -> Option<String> {
    let own = roster.own();
    match roster.standing() {
        Standing::Starting => Some("the data of the other members aren't loaded yet".to_owned()),
        Standing::Comparing => {
            Some("this node stood still and looks at what it missed: it takes no writes".to_owned())
        }
        Standing::Leaving => Some("this node is leaving".to_owned()),
        Standing::Removed if roster.is_disowned() => {
            Some(format!("no member that answers lists this node, {own}: it takes no writes"))
        }
        Standing::Removed => {
            Some(format!("this node, {own}, is no longer in the list of members: it takes no writes"))
        }
        Standing::Serving if roster.view().own_index.is_none() => {
            Some("most members call this node slow: it owns nothing".to_owned())
        }
        Standing::Alone | Standing::Serving => None,
    }
}

fn list_trouble(lookup: &LookupShown) -> Option<String> {
    let reason = lookup.trouble.as_ref()?;
    let place = &lookup.place;
    let health = match &lookup.server {
        Some(server) if !server.is_healthy => {
            format!(", unhealthy after {} failures in a row", server.failures)
        }
        _ => String::new(),
    };
    Some(format!("the former list counts, not what {place} gives{health}: {reason}"))
}

/// What a member does that answers reports 403, and what helps.
const FORBIDS: &str = "refuses this node (403): its list lacks this node, or it sees another address, which its log tells, \
    then see nacre.peer.networks there";

/// What an operator is told of a member that answers reports 403.
#[must_use]
pub fn forbidden_text(member: &Address) -> String {
    format!("{member} {FORBIDS}")
}

/// What an operator is told where this node's clock is so far behind that a member's data can't be taken.
#[must_use]
pub fn behind_text(behind: &Duration) -> String {
    let behind = humantime::format_duration(Duration::from_secs(behind.as_secs()));
    format!(
        "its clock, or the stamps of its data, are ahead of this node's clock by {behind}: set the clock right"
    )
}

/// What an operator is told of an own address that is another one now.
#[must_use]
pub fn moved_text(own: &str, moved: &str) -> String {
    format!(
        "this node would be {moved} now; until it is started anew it stays {own}, where others may not reach it"
    )
}

fn joined(mut texts: Vec<String>) -> Option<String> {
    let more = texts.len().saturating_sub(NAMED);
    texts.truncate(NAMED);
    if more > 0 {
        texts.push(format!("and {more} more"));
    }
    (!texts.is_empty()).then(|| texts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::clock::Millis,
        cluster::{AddressServerShown, MemberReport, NacreMark, Probe, RosterSettings},
        config::Settings,
    };

    fn roster(others: &[&str]) -> Roster {
        let own = Address::new("a:1");
        let mut roster = Roster::new(own.clone(), RosterSettings::from(&Settings::default()));
        let listed: Vec<Address> = others.iter().map(|text| Address::new(text)).chain([own]).collect();
        roster.relist(&listed, Millis(0));
        roster.set_standing(Standing::Serving, Millis(0));
        roster
    }

    fn troubles(roster: &Roster, lookup: Option<&LookupShown>, moved: Option<&str>) -> Vec<String> {
        let all = conditions(roster, lookup, moved).into_iter();
        all.filter_map(|line| line.trouble.map(|trouble| format!("{}: {trouble}", line.part))).collect()
    }

    #[test]
    fn a_cluster_in_order_has_no_trouble() {
        let mut roster = roster(&["b:1"]);
        roster.probed(&Address::new("b:1"), Probe::Answered { known: true, nacre: Some(1) }, Millis(1));
        assert_eq!(troubles(&roster, None, None), [""; 0]);
        assert_eq!(conditions(&roster, None, None).len(), 6);
        let counts = MemberCounts { up: 1, nacre: 1, ring: 2, is_owner: true, ..MemberCounts::default() };
        assert_eq!(MemberCounts::of(&roster.view()), counts);
    }

    #[test]
    fn a_member_that_forbids_reports_is_told_apart_from_one_with_another_list() {
        let (mut roster, b) = (roster(&["b:1", "c:1"]), Address::new("b:1"));
        let known = |known| Probe::Answered { known, nacre: Some(1) };
        roster.probed(&Address::new("c:1"), known(true), Millis(1));
        roster.probed(&b, Probe::Stranger, Millis(1));
        let forbids = "members: b:1 refuses this node (403): its list lacks this node, or it sees another address, which its \
                       log tells, then see nacre.peer.networks there"
            .to_owned();
        assert_eq!(troubles(&roster, None, None), [forbids]);
        assert!(roster.is_forbidden_by(&b));
        assert_eq!(MemberCounts::of(&roster.view()).up, 2, "it answers");
        roster.probed(&b, known(false), Millis(2));
        assert_eq!(troubles(&roster, None, None), ["members: b:1 doesn't list this node"]);
        roster.forbidden(&b);
        roster.shown_nacre(&b, 1);
        assert!(!roster.is_forbidden_by(&b), "it has answered");
        roster.forbidden(&b);
        roster.probed(&b, Probe::Alone, Millis(2));
        assert!(!roster.is_forbidden_by(&b), "it has no list");
        roster.probed(&b, known(true), Millis(3));
        assert_eq!(troubles(&roster, None, None), [""; 0]);
    }

    #[test]
    fn each_trouble_has_its_words() {
        let mut roster = roster(&["b:1", "c:1", "d:1"]);
        roster.probed(&Address::new("b:1"), Probe::Refused, Millis(1));
        for known in [true, false] {
            roster.probed(&Address::new("c:1"), Probe::Answered { known, nacre: None }, Millis(1));
        }
        roster.probed(&Address::new("d:1"), Probe::Failed, Millis(1));
        let mark = NacreMark { protocol: 1, persistent: 3, ..NacreMark::default() };
        roster.reported(&MemberReport::of_nacre(&Address::new("c:1"), mark), Millis(2));
        let lookup = LookupShown {
            kind: "address-server",
            is_own: false,
            place: "http://s:80/l".into(),
            trouble: Some("it answered 500".into()),
            server: Some(AddressServerShown {
                is_healthy: false,
                url: String::new(),
                env_id_url: String::new(),
                failures: 12,
            }),
        };
        assert_eq!(
            troubles(&roster, Some(&lookup), Some("z:1")),
            [
                "ring: no member that answers lists this node, a:1: it takes no writes",
                "members: b:1 DOWN: it refuses connections, or no way leads to it; c:1 doesn't list this node; d:1 SUSPICIOUS: it didn't \
                 answer the last report",
                "member list: the former list counts, not what http://s:80/l gives, unhealthy after 12 failures in a \
                 row: it answered 500",
                "own address: this node would be z:1 now; until it is started anew it stays a:1, where others may \
                 not reach it",
                "persistent data: c:1 holds persistent data that aren't shared: 3 in all",
            ]
        );
        let counts = MemberCounts { up: 1, suspicious: 1, down: 1, nacre: 1, ring: 2, ..Default::default() };
        assert_eq!(MemberCounts::of(&roster.view()), counts);
    }

    #[test]
    fn one_whose_name_is_not_found_is_told_of_as_such() {
        let mut roster = roster(&["b:1"]);
        roster.probed(&Address::new("b:1"), Probe::Impossible, Millis(1));
        let line = &troubles(&roster, None, None)[0];
        assert!(line.ends_with(": this node can't call it: is its name found here?"), "{line}");
        roster.probed(&Address::new("b:1"), Probe::Answered { known: true, nacre: Some(1) }, Millis(2));
        assert_eq!(troubles(&roster, None, None), [""; 0]);
    }

    #[test]
    fn a_node_that_is_no_owner_says_why() {
        let mut roster = roster(&["b:1"]);
        roster.probed(&Address::new("b:1"), Probe::Answered { known: true, nacre: Some(1) }, Millis(1));
        roster.set_standing(Standing::Leaving, Millis(1));
        assert_eq!(troubles(&roster, None, None), ["ring: this node is leaving"]);
        roster.relist(&[Address::new("b:1")], Millis(2));
        assert_eq!(
            troubles(&roster, None, None),
            ["ring: this node, a:1, is no longer in the list of members: it takes no writes"]
        );
        assert!(!MemberCounts::of(&roster.view()).is_owner);
    }

    #[test]
    fn one_that_refuses_a_loading_node_and_one_with_another_list_are_told() {
        let mut starting = Roster::new(Address::new("a:1"), RosterSettings::from(&Settings::default()));
        starting.relist(&["a:1", "b:1"].map(Address::new), Millis(0));
        starting.forbidden(&Address::new("b:1"));
        let [ring, members] = &troubles(&starting, None, None)[..] else { panic!("two lines") };
        assert_eq!(ring, "ring: the data of the other members aren't loaded yet");
        assert!(
            members.starts_with(
                "members: b:1 DOWN: it answers, but not this node, and refuses this node (403): its list"
            ),
            "{members}"
        );
        let mut roster = roster(&["b:1", "c:1"]);
        for member in ["b:1", "c:1"] {
            roster.probed(&Address::new(member), Probe::Answered { known: true, nacre: Some(1) }, Millis(1));
        }
        for (member, list) in [("b:1", &["a:1", "b:1"][..]), ("c:1", &["a:1", "b:1", "c:1"])] {
            let list: Vec<Address> = list.iter().map(|text| Address::new(text)).collect();
            let mark = NacreMark { protocol: 1, list: Some(digest_of(&list)), ..NacreMark::default() };
            roster.reported(&MemberReport::of_nacre(&Address::new(member), mark), Millis(2));
        }
        assert_eq!(troubles(&roster, None, None), ["member list: b:1 has another list than this node"]);
        roster.probed(&Address::new("b:1"), Probe::Refused, Millis(3));
        assert_eq!(
            troubles(&roster, None, None),
            ["members: b:1 DOWN: it refuses connections, or no way leads to it"]
        );
    }

    #[test]
    fn one_that_leaves_is_told_of_before_it_is_down() {
        let (mut roster, b) = (roster(&["b:1"]), Address::new("b:1"));
        roster.probed(&b, Probe::Answered { known: true, nacre: Some(1) }, Millis(1));
        let report = |leaving| {
            let mark = NacreMark { protocol: 1, leaving, ..NacreMark::default() };
            MemberReport::of_nacre(&Address::new("b:1"), mark)
        };
        roster.reported(&report(true), Millis(2));
        assert_eq!(troubles(&roster, None, None), ["members: b:1 is leaving"]);
        roster.probed(&b, Probe::Refused, Millis(3));
        assert_eq!(
            troubles(&roster, None, None),
            ["members: b:1 DOWN: it refuses connections, or no way leads to it"]
        );
        roster.probed(&b, Probe::Answered { known: true, nacre: Some(1) }, Millis(4));
        roster.reported(&report(false), Millis(4));
        assert_eq!(troubles(&roster, None, None), [""; 0]);
    }

    #[test]
    fn many_members_are_cut() {
        let others: Vec<String> = (10..30).map(|n| format!("b:{n}")).collect();
        let roster = roster(&others.iter().map(String::as_str).collect::<Vec<_>>());
        let text = troubles(&roster, None, None).concat();
        assert!(text.ends_with("b:14 DOWN: listed, not heard of yet; and 15 more"), "{text}");
    }
}
