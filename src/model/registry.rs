//! All services of the node: finding, making, changing and removing them.
//!
//! Each method is one write as a caller means it; what it publishes is visible when it returns, and reported to
//! [`Changes`]. Nothing here knows of HTTP, disk or peers. Source: Nacos 1.4.8 naming module, service manager.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

pub use super::place::Place;
use super::{
    Definition, Instance, InstanceKey, Instances, Limits, Service, ServiceKey, State,
    change::Changes,
    cluster::Cluster,
    gone::Cause,
    instance::{Description, InstanceId, wants_counted_id},
    name::{self, NameError},
    service::{Draft, Moment, Removed, Touched},
    stamp_clock::StampClock,
};
use crate::base::{
    burst::Burst,
    clock::{Millis, Reading},
};

/// The services of this node.
#[derive(Debug)]
pub struct Registry {
    services: papaya::HashMap<ServiceKey, Arc<Service>>,
    changes: Arc<Changes>,
    pub(super) limits: Limits,
    stamps: StampClock,
    /// Peers have the same data: tombstones are kept, what is written here is reported.
    pub(super) shared: bool,
    /// Whether silence removes instances here.
    pub(super) expires: AtomicBool,
    /// No removed service had a higher stamp.
    highest_stamp_removed: AtomicU64,
    /// False while the store is loaded.
    logs: AtomicBool,
    lines: Burst,
}

impl Registry {
    /// An empty registry that reports to `changes` and takes what is within `limits`.
    #[must_use]
    pub fn new(changes: Arc<Changes>, limits: Limits) -> Self {
        let (logs, lines) = (AtomicBool::new(true), Burst::default());
        Self {
            services: papaya::HashMap::new(),
            changes,
            limits,
            stamps: StampClock::new(Reading { now: Millis(0), wall_ms: 0 }),
            shared: false,
            expires: AtomicBool::new(true),
            highest_stamp_removed: AtomicU64::new(0),
            logs,
            lines,
        }
    }

    /// The same for a node whose ephemeral data peers share: it stamps by the wall clock as it stands at `at`, keeps
    /// tombstones, and reports to [`Changes::try_next_local`] what is written here.
    #[must_use]
    pub fn shared(self, at: Reading) -> Self {
        Self { stamps: StampClock::new(at), shared: true, ..self }
    }

    /// Stamps go by the wall clock as it stands now.
    pub fn read_clock(&self, at: Reading) {
        self.stamps.read(at);
    }

    /// Lets stamps go on from one that a member, or this node, has given.
    pub(super) fn follow_stamp(&self, stamp: u64, now: Millis) {
        self.stamps.follow(stamp, now);
    }

    /// By how many milliseconds stamps run ahead of this node's clock: a member's is ahead, or so many writes came at once.
    #[must_use]
    pub fn stamps_ahead_ms(&self, now: Millis) -> i64 {
        self.stamps.ahead_ms(now)
    }

    /// Whether peers share the ephemeral data.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// Tells whether silence removes instances here, as it does from the start. Where it doesn't, what peers send is
    /// taken however long it has been silent.
    pub fn set_expires(&self, expires: bool) {
        self.expires.store(expires, Ordering::Relaxed);
    }

    /// How a write at `now` is marked.
    pub(super) fn moment(&self, now: Millis) -> Moment {
        Moment { now, least_stamp: self.stamps.least_stamp(now), keeps_gone: self.shared }
    }

    /// Bounds of what is taken.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Runs `load`; services that are made meanwhile leave no line, whoever loads them says how many there are.
    pub fn while_loading<T>(&self, load: impl FnOnce() -> T) -> T {
        self.logs.store(false, Ordering::Relaxed);
        let loaded = load();
        self.logs.store(true, Ordering::Relaxed);
        loaded
    }

    /// The service at `place`.
    #[must_use]
    pub fn get(&self, place: Place<'_>) -> Option<Arc<Service>> {
        self.services.pin().get(&place).cloned()
    }

    /// Calls `each` with every service, in no order.
    pub fn for_each(&self, mut each: impl FnMut(&Arc<Service>)) {
        for service in self.services.pin().values() {
            each(service);
        }
    }

    /// The services of a namespace, sorted by grouped name.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<Service>> {
        let mut services = Vec::new();
        self.for_each(|service| {
            if *service.key.namespace == *namespace {
                services.push(Arc::clone(service));
            }
        });
        services.sort_unstable_by(|one, other| one.key.name.cmp(&other.key.name));
        services
    }

    /// How many services there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.services.len()
    }

    /// No service at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The service at `place`, made with `definition` where there is none.
    ///
    /// # Errors
    /// [`NameError`] if it would have to be made and can't have this name.
    pub fn get_or_make(
        &self,
        place: Place<'_>,
        definition: impl FnOnce() -> Definition,
        now: Millis,
    ) -> Result<Arc<Service>, NameError> {
        if let Some(service) = self.get(place) {
            return Ok(service);
        }
        self.check_creatable(place)?;
        Ok(self.get_or_insert(place, definition, now))
    }

    /// The same for what members tell: of the services that they have made there is no line.
    pub(super) fn get_or_make_told(&self, place: Place<'_>, now: Millis) -> Result<Arc<Service>, NameError> {
        if let Some(service) = self.get(place) {
            return Ok(service);
        }
        self.check_creatable(place)?;
        Ok(self.insert(place, Definition::default(), now).0)
    }

    fn get_or_insert(
        &self,
        place: Place<'_>,
        definition: impl FnOnce() -> Definition,
        now: Millis,
    ) -> Arc<Service> {
        if let Some(service) = self.get(place) {
            return service;
        }
        let (service, is_new) = self.insert(place, definition(), now);
        if is_new && self.logs.load(Ordering::Relaxed) {
            match self.lines.pass(Instant::now()) {
                Some(unlogged) => tracing::info!(service = %service.key, unlogged, "service made"),
                None => tracing::debug!(service = %service.key, "service made"),
            }
        }
        service
    }

    /// The service there, and whether it wasn't there before.
    fn insert(&self, place: Place<'_>, definition: Definition, now: Millis) -> (Arc<Service>, bool) {
        let highest_stamp = self.highest_stamp_removed.load(Ordering::Acquire);
        let new = Service::with_stamps_above(highest_stamp, place.to_key(), definition, now);
        let services = self.services.pin();
        let service = services.get_or_insert(new.key.clone(), Arc::clone(&new));
        let is_new = Arc::ptr_eq(service, &new);
        if is_new {
            self.changes.made(&new);
        }
        (Arc::clone(service), is_new)
    }

    /// Checks whether a service could be made at `place`.
    ///
    /// # Errors
    /// The rule that its name breaks.
    pub fn check_creatable(&self, place: Place<'_>) -> Result<(), NameError> {
        name::check_creatable(place.namespace, place.name, &self.limits)
    }

    /// Lets `change` make the next revision of `service` and reports it.
    ///
    /// # Errors
    /// [`Removed`] if the service is gone.
    pub fn write<T>(
        &self,
        service: &Arc<Service>,
        now: Millis,
        change: impl FnOnce(&mut Draft) -> T,
    ) -> Result<T, Removed> {
        let (result, touched) = service.write(self.moment(now), change)?;
        if self.shared && touched.stamps {
            // Many writes to one service at once run ahead of the time, and members follow.
            self.follow_stamp(touched.highest_stamp, now);
        }
        self.report(service, touched);
        Ok(result)
    }

    /// Likewise for what has no stamps: persistent instances and definitions.
    pub(super) fn write_unstamped<T>(
        &self,
        service: &Arc<Service>,
        change: impl FnOnce(&mut Draft) -> T,
    ) -> Result<T, Removed> {
        let (result, touched) = service.write(self.moment(Millis(0)), change)?;
        self.report(service, touched);
        Ok(result)
    }

    pub(super) fn report(&self, service: &Arc<Service>, touched: Touched) {
        if touched.forgotten > 0
            && let Some(unlogged) = self.lines.pass(Instant::now())
        {
            let (service, forgotten) = (&service.key, touched.forgotten);
            tracing::warn!(%service, forgotten, unlogged, "more instances have gone than are remembered: they come back with a member that was away");
        }
        if touched.list() {
            self.changes.changed(service);
        }
        self.report_to_peers(service, touched);
    }

    pub(super) fn report_to_peers(&self, service: &Arc<Service>, touched: Touched) {
        if self.shared && touched.local {
            self.changes.local(service);
        }
    }

    /// Registers an instance: makes the service and the cluster where needed, replaces an entry of the same key.
    ///
    /// A known instance keeps its id and its health. A persistent one is registered by way of `cp`
    /// ([`Registry::prepare`], [`Registry::put_persistent`]); here only where it needn't be durable, as in tests.
    ///
    /// # Errors
    /// [`NameError`] for a name that can't be made, or something too long. The service stays made when it is the
    /// cluster that can't.
    pub fn register(
        &self,
        place: Place<'_>,
        described: &Description<'_>,
        now: Millis,
    ) -> Result<(), NameError> {
        self.limits.check_instance(described)?;
        loop {
            let service = self.get_or_make(place, Definition::default, now)?;
            if let Ok(done) = self.write(&service, now, |draft| self.put(draft, described.clone(), now)) {
                return done;
            }
        }
    }

    /// What registering a persistent instance changes, for a change that must be durable first; changes nothing, but
    /// for making the service where it is the cluster that is refused, as the reference does.
    ///
    /// # Errors
    /// As [`Registry::register`].
    pub fn prepare(
        &self,
        place: Place<'_>,
        described: Description<'_>,
        now: Millis,
    ) -> Result<Prepared, NameError> {
        self.limits.check_instance(&described)?;
        let state = self.get(place).map(|service| service.state());
        if state.is_none() {
            self.check_creatable(place)?;
        }
        let (made, cluster) = (Definition::default(), described.key.cluster);
        let known = state.as_ref().map_or(&made, |state| &state.definition);
        let mut definition = None;
        if known.cluster(cluster).is_none() {
            if let Err(error) = self.limits.check_new_cluster(known, cluster) {
                self.get_or_make(place, Definition::default, now)?;
                return Err(error);
            }
            let mut new = known.clone();
            new.clusters.push(Cluster::plain(cluster));
            definition = Some(new);
        } else if !known.durable {
            definition = Some(known.clone());
        }
        let none = Instances::new();
        let instances = state.as_ref().map_or(&none, |state| &state.persistent);
        Ok(Prepared { instance: registered(instances, described, now), definition })
    }

    /// Puts a persistent instance exactly as it is in the place of the one with its key; makes service and cluster as
    /// needed.
    ///
    /// Only for `cp`, when the instance is durable; names are not looked at.
    pub fn put_persistent(&self, place: Place<'_>, instance: Instance, now: Millis) {
        let instance = Arc::new(instance);
        loop {
            let service = self.get_or_insert(place, Definition::default, now);
            let written = self.write_unstamped(&service, |draft| {
                add_cluster(draft, instance.cluster());
                draft.persistent.insert(Arc::clone(&instance));
                draft.touched.instances = true;
            });
            if written.is_ok() {
                return;
            }
        }
    }

    /// Removes an ephemeral instance; makes the cluster that is named, as the reference does.
    ///
    /// An unknown service or instance is no error; where peers share the data, one of them may have it, so a service is
    /// made to remember the removal. Tells whether the instance was there.
    ///
    /// # Errors
    /// [`NameError`] of a cluster; for a node alone in a known service only.
    pub fn deregister(&self, place: Place<'_>, key: InstanceKey<'_>, now: Millis) -> Result<bool, NameError> {
        loop {
            let made = || self.get_or_make(place, Definition::default, now).ok();
            // Of a service that can't be made nobody has an instance.
            let service = self.get(place).or_else(|| if self.shared { made() } else { None });
            let Some(service) = service else { return Ok(false) };
            let removed = self.write(&service, now, |draft| {
                self.make_cluster(draft, key.cluster)?;
                // Also where nothing was there: the reference writes the list back, and pushes it.
                draft.touched.instances = true;
                Ok(draft.remove(&key, Cause::Left).is_some())
            });
            if let Ok(done) = removed {
                return done;
            }
        }
    }

    /// Removes a persistent instance, if it is there.
    ///
    /// Only for `cp`, when it is durably gone.
    pub fn remove_persistent(&self, place: Place<'_>, key: InstanceKey<'_>) {
        let Some(service) = self.get(place) else { return };
        // A service that is gone has no instances.
        let _ = self.write_unstamped(&service, |draft| {
            draft.touched.instances = draft.persistent.remove(&key).is_some();
        });
    }

    /// Puts a whole list in the place of the ephemeral instances; makes the service where needed.
    ///
    /// A known instance keeps its health, which is what checks and beats here have found, unless the new one is
    /// marked. Beat times are those of the list.
    ///
    /// # Errors
    /// [`NameError`] for a name that can't be made, of the service or of a cluster; nothing is replaced then.
    pub fn replace_all(&self, place: Place<'_>, list: &[Instance], now: Millis) -> Result<(), NameError> {
        loop {
            let service = self.get_or_make(place, Definition::default, now)?;
            let written = self.write(&service, now, |draft| {
                for instance in list {
                    self.make_cluster(draft, instance.cluster())?;
                }
                let stamp = draft.own_stamp();
                let instances = &mut draft.ephemeral;
                let new = list.iter().map(|instance| {
                    let mut new = instance.copy();
                    new.set_stamp(stamp);
                    if let Some(known) = instances.get(&new.key()).filter(|_| !new.marked) {
                        new.set_healthy(known.healthy());
                    }
                    Arc::new(new)
                });
                *instances = new.collect();
                draft.touched.instances = true;
                Ok(())
            });
            if let Ok(done) = written {
                return done;
            }
        }
    }

    /// Gives a service this definition, making the service where needed.
    ///
    /// Clusters that registrations made meanwhile stay. Only for `cp`, when the definition is durable; names are not
    /// looked at.
    pub fn define(&self, place: Place<'_>, definition: &Definition, now: Millis) {
        loop {
            let service = self.get_or_insert(place, || definition.clone(), now);
            let written = self.write_unstamped(&service, |draft| {
                let mut merged = definition.clone();
                for cluster in &draft.definition.clusters {
                    if merged.cluster(&cluster.name).is_none() {
                        merged.clusters.push(cluster.clone());
                    }
                }
                *draft.define() = merged;
            });
            if written.is_ok() {
                return;
            }
        }
    }

    /// Removes a service with all its instances; its subscribers are told of its emptiness.
    ///
    /// Only for `cp`, when it is durably gone. Tells whether it was there.
    pub fn remove(&self, place: Place<'_>, now: Millis) -> bool {
        self.remove_if(place, now, |_| true)
    }

    /// Removes a service that nothing holds any more ([`State::may_go`]) and of which nothing is durable.
    pub fn remove_idle(&self, place: Place<'_>) -> bool {
        self.remove_if(place, Millis(0), |state| state.may_go() && !state.definition.durable)
    }

    /// Removes a service whose definition is durably gone, unless something was registered meanwhile; then it is one
    /// of which nothing is durable.
    ///
    /// Only for `cp`.
    pub fn forget(&self, place: Place<'_>) {
        if let Some(service) = self.get(place)
            && !self.remove_if(place, Millis(0), State::may_go)
        {
            // Removed meanwhile is as good.
            let _ = self.write_unstamped(&service, |draft| draft.define().durable = false);
        }
    }

    /// Removes a service if `agrees` with its last state.
    fn remove_if(&self, place: Place<'_>, now: Millis, agrees: impl FnOnce(&State) -> bool) -> bool {
        let Some(service) = self.get(place) else { return false };
        let Some(touched) = service.remove_if(self.moment(now), agrees) else { return false };
        // Before another service can take its place.
        self.highest_stamp_removed.fetch_max(service.state().highest_stamp, Ordering::AcqRel);
        self.services.pin().remove(&service.key);
        match self.lines.pass(Instant::now()) {
            Some(unlogged) => tracing::info!(service = %service.key, unlogged, "service removed"),
            None => tracing::debug!(service = %service.key, "service removed"),
        }
        self.changes.changed(&service);
        self.report_to_peers(&service, touched);
        true
    }

    /// Puts an instance into a draft.
    fn put(&self, draft: &mut Draft, described: Description<'_>, now: Millis) -> Result<(), NameError> {
        self.make_cluster(draft, described.key.cluster)?;
        let instance = registered(draft.of_kind(described.ephemeral), described, now);
        draft.put(instance);
        Ok(())
    }

    /// Adds a plain cluster of this name where there is none.
    pub(super) fn make_cluster(&self, draft: &mut Draft, cluster: &str) -> Result<(), NameError> {
        if draft.definition.cluster(cluster).is_none() {
            self.limits.check_new_cluster(&draft.definition, cluster)?;
            add_cluster(draft, cluster);
        }
        Ok(())
    }
}

/// What registering a persistent instance changes.
#[derive(Debug)]
pub struct Prepared {
    /// The instance becomes this.
    pub instance: Instance,
    /// The definition becomes this, where the cluster is new or nothing of the service is durable yet: what is shown
    /// of a persistent instance's service is the same after a restart, also the order of its clusters.
    pub definition: Option<Definition>,
}

/// The instance that registering `described` among `instances` of its kind gives: a known key keeps id and health.
#[must_use]
pub fn registered(instances: &Instances, described: Description<'_>, now: Millis) -> Instance {
    let known = instances.get(&described.key);
    let id = match known {
        Some(known) => known.id.clone(),
        None if wants_counted_id(&described.metadata) => instances.next_counted_id(),
        None => InstanceId::Simple,
    };
    let mut instance = Instance::new(described, id, now);
    if let Some(known) = known {
        instance.set_healthy(known.healthy());
    }
    instance
}

fn add_cluster(draft: &mut Draft, cluster: &str) {
    if draft.definition.cluster(cluster).is_none() {
        draft.define().clusters.push(Cluster::plain(cluster));
    }
}
