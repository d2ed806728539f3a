//! The members of a legacy cluster of 1.x, and which of them owns a service: writes go straight there, without a second hop.
//!
//! Pure. Read from what one of its members shows of all: the hash ring are those that are `UP` or `SUSPICIOUS`, as text in
//! order. Source: Nacos 1.4.8 core module, nodes of the cluster controller, and its naming module, distro mapper; wire
//! exchange `nodes`.

use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    cluster::{
        Address,
        document::{self, ReportError},
    },
    config::Mapping,
    distro::mapper,
};

/// Members that are read; clusters have a handful.
const MOST_MEMBERS: usize = 1_000;

/// Why the members of a legacy cluster aren't known.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// It is no list of members.
    #[error("no list of members: {0}")]
    NoList(#[from] serde_json::Error),
    /// One of the members can't be read.
    #[error("a member of the list can't be read: {0}")]
    Member(#[from] ReportError),
    /// More members than any cluster has.
    #[error("the list has {0} members, more than {MOST_MEMBERS}")]
    TooMany(usize),
}

/// Who owns what in a legacy cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ring {
    /// Sorted; empty where services have no owners by the hash of 1.x.
    owners: Vec<Address>,
}

/// What `GET /v1/core/cluster/nodes` answers.
#[derive(Deserialize)]
struct Nodes<'a> {
    #[serde(borrow)]
    data: Vec<&'a RawValue>,
}

/// What `GET /v1/core/cluster/self` answers.
#[derive(Deserialize)]
struct Own<'a> {
    #[serde(borrow)]
    data: &'a RawValue,
}

/// How a member is called, from its answer to `GET /v1/core/cluster/self`; nothing where it doesn't say.
#[must_use]
pub fn own_address(answer: &[u8]) -> Option<Address> {
    let Own { data } = serde_json::from_slice(answer).ok()?;
    document::read(data.get().as_bytes()).ok().map(|member| member.address)
}

impl Ring {
    /// Reads it from the answer to `GET /v1/core/cluster/nodes`.
    ///
    /// A cluster of another generation than 1.x has no owners, and a cluster of Nacre nodes that spreads services in
    /// another way neither: each of their nodes takes every write.
    ///
    /// # Errors
    /// See [`RingError`]; then nothing is known.
    pub fn read(nodes: &[u8]) -> Result<Self, RingError> {
        let Nodes { data } = serde_json::from_slice(nodes)?;
        if data.len() > MOST_MEMBERS {
            return Err(RingError::TooMany(data.len()));
        }
        let (mut owners, mut told) = (Vec::new(), false);
        for member in data {
            let member = document::read(member.get().as_bytes())?;
            // The entry of the member that answers lacks its version for a while after the list was changed.
            match member.version.as_deref() {
                Some(version) if version.starts_with("1.") => told = true,
                Some(_) => return Ok(Self::default()),
                None => {}
            }
            let mark = member.nacre.unwrap_or_default();
            if mark.mapping != Mapping::Modulo {
                return Ok(Self::default());
            }
            if matches!(&*member.state, "UP" | "SUSPICIOUS") && !mark.starting && !mark.leaving {
                owners.push(member.address);
            }
        }
        if !told {
            return Ok(Self::default());
        }
        owners.sort_unstable();
        owners.dedup();
        Ok(Self { owners })
    }

    /// The member that owns the service with this grouped name, as the cluster spells it.
    #[must_use]
    pub fn owner(&self, name: &str) -> Option<&Address> {
        mapper::owner_in(&self.owners, Mapping::Modulo, name)
    }

    /// How many members own services.
    #[must_use]
    pub fn len(&self) -> usize {
        self.owners.len()
    }

    /// Nobody is known to own anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }
}

impl fmt::Display for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.owners {
            [] => f.write_str("any server"),
            [first, others @ ..] => {
                write!(f, "{first}")?;
                others.iter().try_for_each(|other| write!(f, ",{other}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer with these members: port, state, and what stands in `extendInfo`.
    fn nodes(members: &[(u16, &str, &str)]) -> String {
        let member = |(port, state, info): &(u16, &str, &str)| {
            format!(
                r#"{{"ip":"10.0.0.1","port":{port},"state":"{state}","extendInfo":{{{info}}},"address":"10.0.0.1:{port}","failAccessCnt":0}}"#
            )
        };
        let members: Vec<String> = members.iter().map(member).collect();
        format!(r#"{{"code":200,"message":null,"data":[{}]}}"#, members.join(","))
    }

    fn ring(members: &[(u16, &str, &str)]) -> Ring {
        Ring::read(nodes(members).as_bytes()).unwrap()
    }

    fn owners(ring: &Ring) -> Vec<&str> {
        ring.owners.iter().map(Address::as_str).collect()
    }

    const OLD: &str = r#""version":"1.4.8","raftPort":"7848""#;

    #[test]
    fn who_is_up_or_suspicious_owns_services_in_the_order_of_texts() {
        let ring = ring(&[(9, "UP", OLD), (10, "SUSPICIOUS", OLD), (11, "DOWN", OLD), (8, "STARTING", OLD)]);
        assert_eq!(owners(&ring), ["10.0.0.1:10", "10.0.0.1:9"]);
        assert_eq!(ring.len(), 2);
    }

    #[test]
    fn the_owner_is_the_one_that_members_of_1x_find() {
        // A row of the vectors `distro-hash`: hash 248,381,274; the lowest port as text is 100.
        let ring = ring(&[(9, "UP", OLD), (10, "UP", ""), (100, "UP", OLD)]);
        assert_eq!(owners(&ring), ["10.0.0.1:10", "10.0.0.1:100", "10.0.0.1:9"]);
        assert_eq!(ring.owner("DEFAULT_GROUP@@orders"), Some(&Address::new("10.0.0.1:10")));
        assert_eq!(248_381_274 % 3, 0);
    }

    #[test]
    fn other_generations_have_no_owners() {
        let new = r#""version":"2.5.1""#;
        assert!(ring(&[(1, "UP", new), (2, "UP", OLD)]).is_empty());
        assert!(ring(&[(1, "UP", "")]).is_empty(), "nobody tells a version");
        assert_eq!(ring(&[(1, "UP", new)]).owner("G@@a"), None);
    }

    #[test]
    fn nacre_nodes_own_by_the_hash_of_1x_while_they_serve_and_are_set_to() {
        let with = |mark: &str| format!(r#"{OLD},"nacre":{{"protocol":1{mark}}}"#);
        let (plain, leaving) = (with(""), with(r#","leaving":true"#));
        let members = ring(&[(1, "UP", &plain), (2, "UP", &leaving)]);
        assert_eq!(owners(&members), ["10.0.0.1:1"]);
        assert!(ring(&[(1, "UP", &plain), (2, "UP", &with(r#","mapping":"rendezvous""#))]).is_empty());
    }

    #[test]
    fn a_member_says_how_it_is_called() {
        let answer = r#"{"code":200,"message":null,"data":{"ip":"10.0.0.1","port":1,"state":"UP","extendInfo":{},"address":"10.0.0.1:1"}}"#;
        assert_eq!(own_address(answer.as_bytes()), Some(Address::new("10.0.0.1:1")));
        for answer in ["", "<html>", r#"{"code":403}"#, r#"{"data":null}"#, r#"{"data":{"ip":"a"}}"#] {
            assert_eq!(own_address(answer.as_bytes()), None, "{answer}");
        }
    }

    #[test]
    fn what_is_no_list_of_members_says_nothing() {
        for (answer, expected) in [
            ("<html>", "no list of members: expected value at line 1 column 1"),
            (r#"{"code":200,"data":null}"#, "no list of members"),
            (r#"{"code":403}"#, "no list of members: missing field `data`"),
            (r#"{"data":[{"port":1}]}"#, "a member of the list can't be read"),
        ] {
            let error = Ring::read(answer.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{answer}: {error}");
        }
        let many = format!(r#"{{"data":[{}]}}"#, vec!["1"; MOST_MEMBERS + 1].join(","));
        assert!(matches!(Ring::read(many.as_bytes()), Err(RingError::TooMany(1_001))));
    }
}
