//! The instances that requests can go to, as the registry has them at this moment.
//!
//! Nothing is told of changes and nothing polls: whoever looks for an instance compares the service's revision with the one
//! that was last made ready. So one that has left, was disabled or lost its weight gets no request from the next one on.
//! Reads: the registry. Which instances count follows the list of a service ([`crate::model::list`]): protection shows all as
//! healthy where too few are.

use std::{
    collections::HashMap,
    sync::{Arc, Weak, atomic::AtomicU64, atomic::Ordering::Relaxed},
    time::Duration,
};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::{
    load::Load,
    pick,
    rule::{Balance, Destination},
    slow_start,
    upstream::{Slot, Upstream, Upstreams},
    wheel::Wheel,
};
use crate::{
    base::{clock::Millis, hash},
    model::{Instance, Registry, ServiceKey, State, list::is_protected},
};

/// What all destinations share.
#[derive(Debug)]
pub struct Table {
    registry: Arc<Registry>,
    /// By address and port.
    pub upstreams: Upstreams,
    loads: Mutex<HashMap<ServiceKey, Weak<Load>>>,
    draws: AtomicU64,
}

impl Table {
    /// A table of what `registry` has; `seed` is any number.
    #[must_use]
    pub fn new(registry: Arc<Registry>, seed: u64) -> Self {
        Self {
            registry,
            upstreams: Upstreams::default(),
            loads: Mutex::default(),
            draws: AtomicU64::new(seed),
        }
    }

    /// The registry.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// A number from 0 to 1, both excluded, that nobody foresees who doesn't know the seed.
    pub fn draw(&self) -> f64 {
        pick::unit(hash::mix(self.draws.fetch_add(0x9e37_79b9_7f4a_7c15, Relaxed)))
    }

    fn load(&self, service: &ServiceKey) -> Arc<Load> {
        let mut loads = self.loads.lock();
        if let Some(load) = loads.get(service).and_then(Weak::upgrade) {
            return load;
        }
        loads.retain(|_, load| load.strong_count() > 0);
        let load = Arc::new(Load::default());
        loads.insert(service.clone(), Arc::downgrade(&load));
        load
    }
}

/// An instance, as a destination has it.
#[derive(Debug)]
pub struct Member {
    /// Where it is.
    pub upstream: Arc<Upstream>,
    /// As the registry has it.
    pub weight: f64,
    /// Of those that are preferred, where some are.
    is_near: bool,
    /// It may get requests.
    pub is_usable: bool,
}

/// The instances of a destination in one revision of its service.
#[derive(Debug, Default)]
pub struct Selection {
    state: Option<Arc<State>>,
    /// All, those that get nothing too.
    pub members: Vec<Member>,
    /// Those that get something, the preferred ones first.
    tiers: Vec<Tier>,
}

/// Whether an instance may be picked.
type Admits<'a> = &'a dyn Fn(&Arc<Upstream>) -> bool;

/// Instances among which weights decide.
#[derive(Debug)]
struct Tier {
    members: Vec<(Arc<Upstream>, f64)>,
    hashes: Vec<u64>,
    sums: Vec<f64>,
    wheel: Mutex<Wheel>,
}

/// What a request asks of a pick.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// Now.
    pub now: Millis,
    /// Which instance is next.
    pub balance: &'a Balance,
    /// What [`Balance::Hash`] goes by.
    pub key: u64,
    /// Those that have failed this request already.
    pub tried: &'a [Arc<Upstream>],
    /// Requests under way to an instance, at most.
    pub per_instance: u32,
    /// How long a new instance gets less.
    pub slow_start: Duration,
}

/// Why no instance is picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unpicked {
    /// There is none.
    Nobody,
    /// All have as many requests as they may.
    Full,
}

/// A destination, ready to be picked from.
#[derive(Debug)]
pub struct Backends {
    /// Which instances it is about.
    pub destination: Destination,
    prefer_cluster: Option<Box<str>>,
    /// Requests under way to the service.
    pub load: Arc<Load>,
    current: ArcSwap<Selection>,
    making: Mutex<()>,
}

impl Backends {
    /// The instances of a destination, of which those of a cluster may be preferred.
    #[must_use]
    pub fn new(table: &Table, destination: Destination, prefer_cluster: Option<Box<str>>) -> Self {
        let load = table.load(&destination.service);
        Self { destination, prefer_cluster, load, current: ArcSwap::default(), making: Mutex::default() }
    }

    /// The instances as they are now.
    pub fn selection(&self, table: &Table, now: Millis) -> Arc<Selection> {
        let state = table.registry.get(self.destination.service.place()).map(|service| service.state());
        let current = self.current.load();
        if is_same(&current.state, &state) {
            return Arc::clone(&current);
        }
        drop(current);
        let _alone = self.making.lock();
        // Whoever came first may have made it, or a later one.
        let state = table.registry.get(self.destination.service.place()).map(|service| service.state());
        let current = self.current.load_full();
        if is_same(&current.state, &state) {
            return current;
        }
        let made = Arc::new(self.make(table, now, state, &current));
        self.current.store(Arc::clone(&made));
        made
    }

    fn make(&self, table: &Table, now: Millis, state: Option<Arc<State>>, before: &Selection) -> Selection {
        let chosen = state.as_deref().map(|state| chosen(state, &self.destination)).unwrap_or_default();
        let prefers = self.prefer_cluster.as_deref();
        let mut members: Vec<Member> = Vec::with_capacity(chosen.len());
        let mut known: HashMap<(&str, u16), usize> = HashMap::with_capacity(chosen.len());
        let was: HashMap<*const Upstream, bool> =
            before.members.iter().map(|member| (Arc::as_ptr(&member.upstream), member.is_usable)).collect();
        for Chosen { instance, port, is_usable } in &chosen {
            let is_near = prefers.is_some_and(|cluster| cluster == instance.cluster());
            if let Some(at) = known.get(&(instance.ip(), *port)) {
                // The same address once more, in another cluster or of the other kind.
                let member = &mut members[*at];
                let better = *is_usable && (!member.is_usable || instance.weight > member.weight);
                if better {
                    member.weight = instance.weight;
                }
                member.is_usable |= *is_usable;
                member.is_near |= is_near && *is_usable;
                continue;
            }
            known.insert((instance.ip(), *port), members.len());
            let upstream = table.upstreams.get(instance.ip(), *port, now);
            members.push(Member { upstream, weight: instance.weight, is_near, is_usable: *is_usable });
        }
        for member in members.iter().filter(|member| member.is_usable) {
            if was.get(&Arc::as_ptr(&member.upstream)) == Some(&false) {
                member.upstream.is_back(now);
            }
        }
        let waits = before.waits();
        let tiers =
            [true, false].into_iter().filter_map(|near| Tier::new(&members, near, &waits, table)).collect();
        Selection { state, members, tiers }
    }
}

fn is_same(one: &Option<Arc<State>>, other: &Option<Arc<State>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        _ => false,
    }
}

struct Chosen<'s> {
    instance: &'s Instance,
    port: u16,
    is_usable: bool,
}

/// The instances of a destination. Protection looks at all of the clusters, as for somebody who asks for the list of these.
fn chosen<'s>(state: &'s State, destination: &Destination) -> Vec<Chosen<'s>> {
    let Destination { clusters, metadata, .. } = destination;
    let of_clusters: Vec<&Instance> = state
        .instances()
        .map(|instance| &**instance)
        .filter(|instance| {
            clusters.is_empty() || clusters.iter().any(|cluster| **cluster == *instance.cluster())
        })
        .collect();
    // Each health is read once, as it may change meanwhile.
    let health: Vec<bool> = of_clusters.iter().map(|instance| instance.healthy()).collect();
    let healthy = health.iter().filter(|healthy| **healthy).count();
    let is_protected = is_protected(healthy, of_clusters.len(), state.definition.protect_threshold);
    let chosen = of_clusters.into_iter().zip(health).filter_map(|(instance, healthy)| {
        let fits = metadata.as_ref().is_none_or(|wanted| wanted.holds(&|key| instance.metadata.get(key)));
        let port = u16::try_from(instance.port).ok().filter(|port| *port > 0 && fits)?;
        let is_usable = instance.enabled && instance.weight > 0.0 && (healthy || is_protected);
        Some(Chosen { instance, port, is_usable })
    });
    chosen.collect()
}

impl Tier {
    fn new(
        members: &[Member],
        near: bool,
        waits: &HashMap<*const Upstream, f64>,
        table: &Table,
    ) -> Option<Self> {
        let of_tier = members.iter().filter(|member| member.is_usable && member.is_near == near);
        let members: Vec<_> = of_tier.map(|member| (Arc::clone(&member.upstream), member.weight)).collect();
        if members.is_empty() {
            return None;
        }
        // Several proxies, or nodes, that begin together must not all begin with the same one.
        let wait =
            |at: usize| waits.get(&Arc::as_ptr(&members[at].0)).copied().unwrap_or_else(|| table.draw());
        let wheel = Wheel::new(members.iter().map(|(_, weight)| *weight), wait);
        let sum = |sum: &mut f64, (_, weight): &(Arc<Upstream>, f64)| {
            *sum += weight;
            Some(*sum)
        };
        let sums = members.iter().scan(0.0, sum).collect();
        let hashes = members.iter().map(|(upstream, _)| upstream.hash).collect();
        Some(Self { members, hashes, sums, wheel: Mutex::new(wheel) })
    }

    fn pick(
        &self,
        table: &Table,
        wanted: &Wanted<'_>,
        admits: impl Fn(&Arc<Upstream>) -> bool,
    ) -> Option<&Arc<Upstream>> {
        let factor = |at: usize| {
            if wanted.slow_start.is_zero() {
                return 1.0;
            }
            slow_start::factor(wanted.now, self.members[at].0.since(), wanted.slow_start)
        };
        let weight = |at: usize| self.members[at].1 * factor(at);
        let admits = |at: usize| admits(&self.members[at].0);
        let at = match wanted.balance {
            Balance::RoundRobin => self.wheel.lock().next(weight, admits),
            Balance::LeastRequest => {
                let load = |at: usize| f64::from(self.members[at].0.in_flight()) / weight(at);
                pick::least_of_two(&self.sums, load, factor, || table.draw(), admits)
            }
            Balance::Hash(_) => pick::by_key(&self.hashes, wanted.key, weight, admits),
        };
        at.map(|at| &self.members[at].0)
    }
}

impl Selection {
    /// Whether somebody may get a request.
    #[must_use]
    pub fn has_any(&self) -> bool {
        !self.tiers.is_empty()
    }

    /// Picks an instance and takes a place among the requests under way to it.
    ///
    /// First one that hasn't failed this request and wasn't ejected; then an ejected one rather than none; at last one that has
    /// failed the request, since a retry may be for a connection that had just been closed. Preferred ones come first each time.
    ///
    /// # Errors
    /// Nobody is there, or has a place.
    pub fn pick(&self, table: &Table, wanted: &Wanted<'_>) -> Result<Slot, Unpicked> {
        if self.tiers.is_empty() {
            return Err(Unpicked::Nobody);
        }
        let has_place = |upstream: &Arc<Upstream>| upstream.in_flight() < wanted.per_instance;
        let is_new =
            |upstream: &Arc<Upstream>| !wanted.tried.iter().any(|tried| Arc::ptr_eq(tried, upstream));
        let levels: [Admits<'_>; 3] = [
            &|upstream| has_place(upstream) && is_new(upstream) && !upstream.is_ejected(wanted.now),
            &|upstream| has_place(upstream) && is_new(upstream),
            &has_place,
        ];
        for admits in levels {
            for tier in &self.tiers {
                // Others may take the last place meanwhile; then another is looked for.
                while let Some(upstream) = tier.pick(table, wanted, admits) {
                    if let Some(slot) = Slot::enter(upstream, wanted.per_instance) {
                        return Ok(slot);
                    }
                }
            }
        }
        Err(Unpicked::Full)
    }

    /// Those that take each other's requests.
    pub fn usable(&self) -> impl Iterator<Item = &Upstream> {
        self.members.iter().filter(|member| member.is_usable).map(|member| &*member.upstream)
    }

    fn waits(&self) -> HashMap<*const Upstream, f64> {
        let of_tier = |tier: &Tier| {
            let waits = tier.wheel.lock().waits(|at| tier.members[at].1);
            tier.members.iter().map(|(upstream, _)| Arc::as_ptr(upstream)).zip(waits).collect::<Vec<_>>()
        };
        self.tiers.iter().flat_map(of_tier).collect()
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
