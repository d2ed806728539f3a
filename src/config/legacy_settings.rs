//! The settings of a gateway: the legacy servers behind this node.

use std::time::Duration;

/// The legacy servers, and how requests are passed on to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacySettings {
    /// Servers of Nacos 1.x or later that get what this node doesn't own (`nacre.legacy.servers`).
    ///
    /// `HOST[:PORT]` or `http://HOST[:PORT]`, port 8848 by default; all of one cluster, under the same context path as this
    /// node. Default empty: there are none, and such paths are answered 404.
    pub servers: Vec<LegacyServer>,

    /// How long a new connection may take (`nacre.legacy.connect-timeout-ms`).
    ///
    /// Milliseconds, default 2,000, from 50 to 60,000. Then the next server is tried.
    pub connect_timeout: Duration,

    /// How long a server may take to begin its answer, and between two pieces of a body (`nacre.legacy.timeout-ms`).
    ///
    /// Milliseconds, default 30,000, from 100 to 600,000. A client that says how long it polls
    /// (`Long-Pulling-Timeout`) is given as much more, two minutes at most. Then the client is answered 504.
    pub timeout: Duration,

    /// Requests under way to one server (`nacre.legacy.max-in-flight`).
    ///
    /// Default 8,192, from 1 to 1,000,000. Each long poll is one. At it, further ones wait in the queue.
    pub max_in_flight: usize,

    /// Requests that wait for one of these to end (`nacre.legacy.queue`).
    ///
    /// Default 1,024, from 0 to 1,000,000; each waits as long as a connection may take. At it, 503 at once.
    pub queue: usize,

    /// Who answers naming (`nacre.legacy.naming`). Default [`LegacyNaming::Native`].
    pub naming: LegacyNaming,

    /// How long lists are served that were answered before all legacy servers went away (`nacre.legacy.stale-ms`).
    ///
    /// Milliseconds since their answer, default 600,000 (10 minutes), from 0 to 86,400,000. Then, and for what was never asked
    /// before, 503. Only where they answer naming.
    pub stale: Duration,

    /// Instances whose registration or deregistration is kept while no legacy server answers (`nacre.legacy.max-kept`).
    ///
    /// Default 10,000, from 0 to 1,000,000; 64 MiB of them at most. At it, further ones are answered 503. What is kept is lost
    /// with the process.
    pub max_kept: usize,
}

/// Who answers naming requests, on a node with legacy servers behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LegacyNaming {
    /// This node.
    #[default]
    Native,
    /// The legacy servers.
    Legacy,
}

/// A legacy server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyServer {
    /// Name or address, an IPv6 one in brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl LegacyServer {
    /// `host:port`.
    #[must_use]
    pub fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl Default for LegacySettings {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            connect_timeout: Duration::from_secs(2),
            timeout: Duration::from_secs(30),
            max_in_flight: 8_192,
            queue: 1_024,
            naming: LegacyNaming::Native,
            stale: Duration::from_secs(600),
            max_kept: 10_000,
        }
    }
}
