//! Looks at services on their grid and judges silence after the others were asked, with the server's sweeper.

use std::{collections::BTreeSet, sync::Arc};

use nacre::{
    base::clock::{Clock, Millis},
    cluster::{Standing, View},
    distro::{Claims, Settled, core::Core, lists::Lists},
    health::sweep::Sweeper,
    model::{Registry, Service, ServiceKey, change::Changes, service::GRID_MS},
};

/// Tombstones are kept that long at least.
const GONE_MS: u64 = 60_000;

/// What a node does about silence.
pub struct Keeper {
    sweeper: Sweeper,
    order: BTreeSet<(Millis, ServiceKey)>,
    pruned: Millis,
}

impl Keeper {
    /// Of a node that knows no service.
    pub fn new(registry: &Arc<Registry>, changes: &Arc<Changes>) -> Self {
        let sweeper = Sweeper {
            // Never asked: every judgement is told the time.
            clock: Clock::set(0),
            registry: Arc::clone(registry),
            changes: Arc::clone(changes),
            switches: Arc::default(),
            distro: None,
            may_remove: true,
            stats: Arc::default(),
        };
        Self { sweeper, order: BTreeSet::new(), pruned: Millis(0) }
    }

    /// A service came into being.
    pub fn made(&mut self, service: &Service) {
        self.order.insert((service.made_at.plus(GRID_MS), service.key.clone()));
    }

    /// When the next service is looked at.
    pub fn next(&self) -> Option<Millis> {
        self.order.first().map(|(at, _)| *at)
    }

    /// The services of this node whose time has come and that have somebody to be judged.
    pub fn due(&mut self, view: &View, claims: &Claims, now: Millis) -> Vec<ServiceKey> {
        let mut asked = Vec::new();
        while self.order.first().is_some_and(|(at, _)| *at <= now) {
            let Some((at, key)) = self.order.pop_first() else { break };
            let Some(service) = self.sweeper.registry.get(key.place()) else { continue };
            // One that came into being since, after one of this name had gone, has a grid of its own.
            if at.since(service.made_at) % GRID_MS != 0 || at <= service.made_at {
                continue;
            }
            let passed = now.since(service.made_at) / GRID_MS + 1;
            self.order.insert((service.made_at.plus(passed * GRID_MS), key.clone()));
            let is_ours = view.standing == Standing::Serving && claims.look_after(view, &key, now);
            if is_ours && self.sweeper.finds_silent(&service, now) {
                asked.push(key);
            }
        }
        asked
    }

    /// The members were asked about a service.
    pub fn settle(&self, (view, claims): (&View, &Claims), settled: &Settled, is_new: bool, now: Millis) {
        let judges = claims.may_judge(view, settled, is_new, now);
        if let Some(service) = self.sweeper.registry.get(settled.key.place()).filter(|_| judges) {
            self.sweeper.expire(&service, settled.asked, now);
        }
    }

    /// Forgets old tombstones that everybody knows of.
    pub fn prune(&mut self, core: &Core<Lists>, now: Millis) {
        if now.since(self.pruned) < 5_000 {
            return;
        }
        self.pruned = now;
        let registry = &self.sweeper.registry;
        registry.for_each(|service| {
            if !core.is_lacking(&service.key) {
                registry.prune_gone(service, now.minus(GONE_MS), usize::MAX);
            }
        });
    }
}
