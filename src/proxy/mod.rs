//! The reverse proxy: passes requests on to instances of the registry that this process holds.
//!
//! ```text
//! client ─► serve (TLS: tls) ─► exchange ─┬─► routes: matching by rule ─► table: instances as they are now ─► pick, wheel
//!                                         └─► attempts ─► upstream: kept connections ─► middleware pass ─► instance
//! rules_file ◄─ rules_watch                    eject ◄─ what became of it
//! ```
//!
//! No second cache: each request compares the revision of its service, so an instance that leaves gets no request from the next
//! one on. Reads: the registry. Writes: nothing of it.

mod answer;
mod attempts;
mod eject;
mod exchange;
mod expression;
mod finish;
mod key;
mod load;
mod matching;
mod names;
mod outbound;
mod path;
mod pick;
mod refusals;
mod routes;
mod rule;
mod rules_file;
mod rules_value;
mod rules_watch;
mod serve;
mod sight;
mod slow_start;
mod table;
mod tls;
mod tunnel;
mod upload;
mod upstream;
mod wheel;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::{
    exchange::Caller,
    outbound::Connector,
    rule::Rules,
    rules_file::{Mistakes, parse as parse_rules},
    rules_watch::{RulesError, RulesFile},
    serve::{Door, Server},
    sight::Shown,
    tls::{Certificates, TlsError, trusted},
};
use self::{finish::Sampler, names::Names, routes::Routes, table::Table};
use crate::{
    base::{burst::Seldom, clock::Clock},
    config::ProxySettings,
    model::Registry,
};

/// From one look at kept connections to the next.
const SWEEP: Duration = Duration::from_secs(1);

/// The proxy, for whoever serves with it or looks at it.
pub struct Proxy {
    clock: Clock,
    settings: ProxySettings,
    table: Table,
    routes: ArcSwap<Routes>,
    /// Why the file of rules, as it is now, doesn't count.
    trouble: Mutex<Option<String>>,
    names: Names,
    connector: Connector,
    counts: Counts,
    sampler: Sampler,
    failures: Seldom,
    /// Upgraded connections.
    tunnels: TaskTracker,
    /// Cancelled when tunnels must end.
    cut: CancellationToken,
    id_seed: u64,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Proxy")
    }
}

/// What is counted of all requests.
#[derive(Debug, Default)]
struct Counts {
    requests: AtomicU64,
    open: AtomicU64,
    refused: [AtomicU64; REFUSALS.len()],
}

/// Kinds of refusals, as the proxy answers by itself.
const REFUSALS: [&str; 13] = [
    "ambiguous",
    "bad_path",
    "no_rule",
    "circle",
    "too_long",
    "no_instance",
    "full",
    "unreached",
    "broken",
    "late",
    "slow_client",
    "broken_client",
    "other",
];

impl Counts {
    fn refused(&self, kind: &str) {
        let at = REFUSALS.iter().position(|known| *known == kind).unwrap_or(REFUSALS.len() - 1);
        self.refused[at].fetch_add(1, Relaxed);
    }

    fn connection(&self) -> Open<'_> {
        self.open.fetch_add(1, Relaxed);
        Open(&self.open)
    }
}

/// An open connection of a client.
struct Open<'a>(&'a AtomicU64);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Proxy {
    /// A proxy with these rules in front of `registry`, which connects to instances by `connector`. `seed` is any number that
    /// nobody knows.
    #[must_use]
    pub fn new(
        settings: ProxySettings,
        registry: Arc<Registry>,
        clock: Clock,
        rules: Rules,
        connector: Connector,
        seed: u64,
    ) -> Arc<Self> {
        let table = Table::new(registry, seed);
        let routes = Routes::new(rules, settings.by_convention, &table, clock.now(), None);
        Arc::new(Self {
            sampler: Sampler::new(settings.access_log),
            clock,
            settings,
            table,
            routes: ArcSwap::from_pointee(routes),
            trouble: Mutex::default(),
            names: Names::default(),
            connector,
            counts: Counts::default(),
            failures: Seldom::default(),
            tunnels: TaskTracker::new(),
            cut: CancellationToken::new(),
            id_seed: crate::base::hash::mix(seed),
        })
    }

    /// Puts these rules in the place of those before, for the next requests.
    pub fn take(&self, rules: Rules) {
        let before = self.routes.load();
        let (by_convention, now) = (self.settings.by_convention, self.clock.now());
        let routes = Routes::new(rules, by_convention, &self.table, now, Some(&before));
        self.routes.store(Arc::new(routes));
        self.keep(None);
    }

    /// Notes why the file's rules don't count, where that's so.
    fn keep(&self, trouble: Option<String>) {
        *self.trouble.lock() = trouble;
    }

    /// Closes connections to instances that nobody has used for 4 s, until told to stop.
    pub async fn sweep(self: Arc<Self>, stopped: CancellationToken) {
        loop {
            tokio::select! {
                () = stopped.cancelled() => return,
                () = tokio::time::sleep(SWEEP) => {}
            }
            self.table.upstreams.all().iter().for_each(|upstream| upstream.sweep());
        }
    }
}
