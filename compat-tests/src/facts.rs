//! What is known of a case beside its steps: what it says, for whom it matters, what it needs. No I/O.

use serde::{Deserialize, Serialize};

/// How far a run may go. Every level but [`Level::Cluster`] has those before it in it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Only reads.
    Safe,
    /// What one server at a URL can show without traces being left.
    Core,
    /// Also what needs a server of one's own: global switches, fixed names, log levels.
    Full,
    /// What several members show together; not the levels before.
    Cluster,
}

impl Level {
    /// Whether a run at this level plays a case of that one.
    pub fn plays(self, case: Self) -> bool {
        match (self, case) {
            (Self::Cluster, _) | (_, Self::Cluster) => self == case,
            _ => case <= self,
        }
    }
}

/// What a case needs beyond a server that answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// The server can reach ports that this program opens on 127.0.0.1.
    SameMachine,
    /// The server calls itself by the address under which it is asked.
    OwnAddress,
    /// The API stands under a path of its own, so that something is outside of it.
    ContextPath,
    /// Authentication is on, the white list of agents off.
    Auth,
    /// Authentication is on, and agents of peers are let in.
    AuthWhiteList,
    /// A user and a password are known.
    Login,
    /// Tokens are signed by the secret key of the recordings, and their user is the one who logs in.
    RecordedKey,
    /// A peer shows itself by the header that it has in the recordings.
    RecordedIdentity,
    /// More than health is exposed for those who measure.
    Metrics,
    /// Persistent instances are checked by TCP or HTTP.
    HealthChecks,
    /// Other members are named.
    Peers,
    /// This program is a member itself.
    Member,
}

impl std::fmt::Display for Need {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::SameMachine => "the same machine",
            Self::OwnAddress => "the server's own address to be the one that is asked",
            Self::ContextPath => "a context path",
            Self::Auth => "authentication",
            Self::AuthWhiteList => "authentication with a white list of agents",
            Self::Login => "a login",
            Self::RecordedKey => "the secret key of the recordings",
            Self::RecordedIdentity => "the identity of peers of the recordings",
            Self::Metrics => "metrics",
            Self::HealthChecks => "health checks of persistent instances",
            Self::Peers => "other members, by --peer",
            Self::Member => "membership, by --member",
        })
    }
}

/// A client that was seen to depend on what a case shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
pub enum Client {
    /// nacos-client 1.4.8.
    #[serde(rename = "java-1.4")]
    Java14,
    /// nacos-client 1.0.0 and 1.1.4.
    #[serde(rename = "java-1.1")]
    Java11,
    /// nacos-sdk-go 1.1.6.
    #[serde(rename = "go-1.1")]
    Go,
    /// nacos-naming 2.6.3.
    #[serde(rename = "node-2.6")]
    Node,
    /// nacos-sdk-python 1.0.0.
    #[serde(rename = "python-1.0")]
    Python,
    /// `nacos_rust_client` 0.3.3 by HTTP.
    #[serde(rename = "rust-0.3")]
    Rust,
    /// Spring Cloud Alibaba discovery 2021.1.
    #[serde(rename = "spring-cloud-2021")]
    SpringCloud,
    /// The registry of Dubbo 2.7.23.
    #[serde(rename = "dubbo-2.7")]
    Dubbo,
}

impl Client {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 8] = [
        Self::Java14,
        Self::Java11,
        Self::Go,
        Self::Node,
        Self::Python,
        Self::Rust,
        Self::SpringCloud,
        Self::Dubbo,
    ];

    /// How people call it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Java14 => "Java 1.4.x",
            Self::Java11 => "Java 1.0 and 1.1",
            Self::Go => "Go 1.1.x",
            Self::Node => "Node 2.6.x",
            Self::Python => "Python 1.0.x",
            Self::Rust => "Rust 0.3.x",
            Self::SpringCloud => "Spring Cloud Alibaba 2021.1",
            Self::Dubbo => "Dubbo 2.7.x",
        }
    }
}

/// The facts of one case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// `SUITE/NAME`, unique.
    pub id: String,
    /// One sentence that is true of a server that passes.
    pub says: String,
    /// Where the behaviour is from, in words.
    pub source: String,
    /// The group of endpoints it belongs to.
    pub family: String,
    /// The level from which on it is played.
    pub level: Level,
    /// What else it needs.
    pub needs: Vec<Need>,
    /// Whom a failure breaks.
    pub clients: Vec<Client>,
    /// Of them those whom a server breaks that has the fault of the recording, too. The others live with it.
    pub fault_breaks: Vec<Client>,
    /// 3: such a client stops working; 2: it works, but its user loses something; 1: tools or nobody.
    pub weight: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_has_those_before_it_and_the_cluster_stands_apart() {
        use Level::{Cluster, Core, Full, Safe};
        assert!(Full.plays(Safe) && Full.plays(Core) && Full.plays(Full) && Core.plays(Safe));
        assert!(!Core.plays(Full) && !Safe.plays(Core) && !Full.plays(Cluster) && !Cluster.plays(Core));
        assert!(Cluster.plays(Cluster));
    }
}
