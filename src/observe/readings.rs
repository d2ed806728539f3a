//! What is read from the parts of the server when somebody wants to see its metrics: plain numbers.

use std::time::{Duration, SystemTime};

use super::{forwards::ForwardReadings, requests::Answered};
use crate::base::process::Usage;

/// Everything that the metrics show, as it was when somebody looked.
#[derive(Clone, Debug, PartialEq)]
pub struct Readings {
    /// Answers by route.
    pub requests: Vec<Answered>,
    /// Open connections.
    pub connections: u64,
    /// Connections so far.
    pub connections_accepted: u64,
    /// Naming answers.
    pub ready: bool,
    /// What is registered.
    pub sizes: Sizes,
    /// Beats by label of what they did.
    pub beats: [(&'static str, u64); 3],
    /// Writes that are passed on.
    pub forwards: ForwardReadings,
    /// The legacy servers behind this node.
    pub legacy: Vec<LegacyReadings>,
    /// Naming that legacy servers answer; nothing where this node does.
    pub legacy_naming: Option<LegacyNamingReadings>,
    /// Requests that were refused for their number, by label of their class.
    pub limited: [(&'static str, u64); 3],
    /// The members; nothing on a node that serves alone.
    pub cluster: Option<ClusterReadings>,
    /// Instances that turned unhealthy for want of beats.
    pub expired_unhealthy: u64,
    /// Instances that were removed for want of beats.
    pub expired_removed: u64,
    /// Pushes.
    pub push: PushReadings,
    /// The store.
    pub store: StoreReadings,
    /// Log lines that were dropped.
    pub log_lines_dropped: u64,
    /// When the process started.
    pub started: SystemTime,
    /// What the process takes of the machine.
    pub usage: Usage,
}

/// Naming that legacy servers answer, and what is answered in their place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LegacyNamingReadings {
    /// Answers by label of who gave them.
    pub answers: [(&'static str, u64); 6],
    /// No legacy server answers.
    pub away: bool,
    /// How often that began.
    pub outages: u64,
    /// Writes that wait for a server.
    pub kept: u64,
    /// Kept writes that were sent, by label of how they were answered.
    pub replayed: [(&'static str, u64); 2],
    /// Lists that are remembered.
    pub lists: u64,
    /// Members of the legacy cluster that own services, as far as they are known.
    pub owners: u64,
}

/// A legacy server as the node sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LegacyReadings {
    /// `host:port`.
    pub server: String,
    /// It gets requests.
    pub up: bool,
    /// Answers by class of status.
    pub answers: Vec<(&'static str, u64)>,
    /// Requests without an answer, and answers that broke off, by kind.
    pub failures: Vec<(&'static str, u64)>,
    /// Requests under way, and waiting.
    pub requests: [(&'static str, u64); 2],
    /// Connections that are kept unused.
    pub idle: u64,
    /// Connections so far.
    pub connected: u64,
}

/// The members as the node sees them, and what it does with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterReadings {
    /// Other members by label of their state.
    pub states: [(&'static str, u64); 3],
    /// Other members by label of what they say of themselves; one may say several.
    pub marks: [(&'static str, u64); 3],
    /// Owners of services.
    pub ring: u64,
    /// The node is one of them.
    pub is_owner: bool,
    /// Services that wait for a listed member or are under way to it, by its address.
    pub waiting: Vec<(String, u64)>,
    /// Comparisons with members by label of how they ended.
    pub comparisons: [(&'static str, u64); 3],
    /// Services that the node became the owner of.
    pub taken_over: u64,
    /// News of silence that the node knew better.
    pub refuted: u64,
    /// By how many milliseconds stamps run ahead of the node's clock.
    pub stamps_ahead_ms: i64,
}

/// Counts of one kind of instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// All.
    pub instances: u64,
    /// Healthy ones.
    pub healthy: u64,
}

/// What is registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Services.
    pub services: u64,
    /// Instances that live by beats.
    pub ephemeral: Kind,
    /// Instances that stay.
    pub persistent: Kind,
}

/// Pushes of changed lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PushReadings {
    /// Clients that get them.
    pub subscribers: u64,
    /// Packets that wait for their acknowledgement.
    pub waiting: u64,
    /// Counts by event.
    pub events: PushEvents,
    /// From sending to acknowledgement, of all acknowledged packets together.
    pub ack_time: Duration,
    /// The longest of these.
    pub slowest_ack: Duration,
}

/// Counts of what happened to pushes. Packets are counted once however often they are sent again, but for
/// [`Self::resent`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PushEvents {
    /// Packets that were sent.
    pub sent: u64,
    /// Packets that were sent again.
    pub resent: u64,
    /// Packets that were acknowledged.
    pub acked: u64,
    /// Packets that nobody acknowledged.
    pub failed: u64,
    /// Packets that the system didn't take.
    pub unsendable: u64,
    /// Packets that won't be sent again, since too many wait for their acknowledgement.
    pub sent_once: u64,
    /// Lists that don't fit into a packet.
    pub too_large: u64,
    /// Datagrams that came in and were no acknowledgement that anything waits for.
    pub strange_ack: u64,
    /// Subscriptions that weren't taken, for a bound or a rule.
    pub refused: u64,
    /// Host names of subscribers that couldn't be resolved.
    pub unresolved: u64,
}

impl PushEvents {
    /// Each with the name of its field as label.
    pub(super) fn by_label(self) -> [(&'static str, u64); 10] {
        [
            ("sent", self.sent),
            ("resent", self.resent),
            ("acked", self.acked),
            ("failed", self.failed),
            ("unsendable", self.unsendable),
            ("sent_once", self.sent_once),
            ("too_large", self.too_large),
            ("strange_ack", self.strange_ack),
            ("refused", self.refused),
            ("unresolved", self.unresolved),
        ]
    }
}

/// The store of persistent data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreReadings {
    /// The latest write worked.
    pub up: bool,
    /// Durable changes.
    pub writes: u64,
    /// Transactions that succeeded.
    pub commits: u64,
    /// Transactions that failed.
    pub failures: u64,
}
