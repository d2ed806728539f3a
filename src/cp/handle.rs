//! The door to persistent data: decide, make durable, apply.

use std::{future::Future, path::Path, sync::Arc};

use super::{
    change::Change,
    fault::StoreError,
    job::{Decision, WriteError},
    record::Table,
    scope::Scope,
    status::{StoreHealth, WriterStats},
    store::Store,
    writer::{Writer, WriterHandle},
};
use crate::{
    base::clock::{Clock, Millis},
    model::{
        InstanceKey, Registry, ServiceKey, namespaces::Namespaces, service::GRID_MS, switches::Switchboard,
    },
};

/// Where applied changes become visible.
#[derive(Clone, Debug)]
pub struct Applied {
    /// Services and instances.
    pub registry: Arc<Registry>,
    /// Switches.
    pub switches: Arc<Switchboard>,
    /// Namespaces of the console.
    pub namespaces: Arc<Namespaces>,
    /// The time of what is applied.
    pub clock: Clock,
}

/// Takes changes of persistent data; cheap to clone.
#[derive(Clone)]
pub struct Handle {
    writer: WriterHandle,
    applied: Applied,
    /// No member holds the same data.
    alone: bool,
}

/// The store can't be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It can't be opened or read.
    #[error("the store in {folder} can't be used: {}", .source.reason())]
    Store {
        /// Where it lies.
        folder: String,
        /// What happened.
        source: StoreError,
    },
    /// A value isn't what this version writes.
    #[error("the store in {folder} holds a value of table {table:?} that this version can't read: {source}")]
    Value {
        /// Where it lies.
        folder: String,
        /// Which kind.
        table: Table,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// No thread for the writer.
    #[error("no thread for the store")]
    Thread(#[source] std::io::Error),
}

impl Handle {
    /// Opens the store in `folder`, applies what lies in it, and starts the writer.
    ///
    /// # Errors
    /// [`OpenError`]; nothing serves then, since serving without what was registered would be a lie.
    pub fn open(folder: &Path, applied: Applied) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Store { folder: folder.display().to_string(), source };
        Self::start(Store::open(folder).map_err(failed)?, folder, applied)
    }

    /// The same with an open store; `folder` is its name in errors.
    pub(super) fn start(mut store: Store, folder: &Path, applied: Applied) -> Result<Self, OpenError> {
        let name = || folder.display().to_string();
        let failed = |source| OpenError::Store { folder: name(), source };
        let began = applied.clock.now();
        let mut records = 0;
        for table in Table::ALL {
            let mut wrong = None;
            let now = applied.clock.now();
            let load = || {
                store.load(table, |_, value| match Change::read(table, value, now) {
                    Ok(change) => {
                        records += 1;
                        // Each service gets its own place in the grid, or all would be looked at in one moment.
                        applied.apply_at(change, now.minus(records % GRID_MS));
                    }
                    Err(error) => wrong = Some(error),
                })
            };
            applied.registry.while_loading(load).map_err(failed)?;
            if let Some(source) = wrong {
                return Err(OpenError::Value { folder: name(), table, source });
            }
        }
        let took_ms = applied.clock.now().since(began);
        tracing::info!(records, services = applied.registry.len(), took_ms, "the store is loaded");
        let writer = Writer::spawn(store).map_err(OpenError::Thread)?;
        Ok(Self { writer, applied, alone: true })
    }

    /// The same for a node with members, which don't hear of persistent data yet: every change of them is refused
    /// (`WriteError::Members`) rather than accepted here alone, also one that finds nothing to change here.
    #[must_use]
    pub fn among_members(self) -> Self {
        Self { alone: false, ..self }
    }

    /// Whether persistent data may be changed at all.
    ///
    /// # Errors
    /// `WriteError::Members`.
    pub fn check_alone(&self) -> Result<(), WriteError> {
        if self.alone { Ok(()) } else { Err(WriteError::Members) }
    }

    /// Lets `decide` say what changes, when all earlier changes within `scope` are applied; ready when its changes
    /// are on disk and visible.
    ///
    /// `decide` runs on the writer's thread: it should be short, and see only what `scope` names.
    ///
    /// # Errors
    /// What `decide` says, or a `WriteError`; nothing changed then.
    pub fn submit<T, E, D>(
        &self,
        scope: Scope,
        decide: D,
    ) -> impl Future<Output = Result<T, E>> + Send + use<T, E, D>
    where
        T: Send + 'static,
        E: From<WriteError> + Send + 'static,
        D: FnOnce(&Applied) -> Result<(Vec<Change>, T), E> + Send + 'static,
    {
        let (applied, alone) = (self.applied.clone(), self.alone);
        self.writer.submit(scope, move || {
            let (changes, answer) = decide(&applied)?;
            if !alone {
                return Err(WriteError::Members.into());
            }
            let records = changes.iter().flat_map(Change::records).collect();
            Ok(Decision::new(records, move || {
                changes.into_iter().for_each(|change| applied.apply(change));
                answer
            }))
        })
    }

    /// Whether writing works.
    #[must_use]
    pub fn health(&self) -> StoreHealth {
        self.writer.health()
    }

    /// What was written so far.
    #[must_use]
    pub fn stats(&self) -> WriterStats {
        self.writer.stats()
    }

    /// Finishes what is queued and closes the store.
    pub async fn stop(&self) {
        self.writer.stop().await;
    }
}

impl Scope {
    /// The scope of a change to one instance of a service.
    #[must_use]
    pub fn instance(service: &ServiceKey, instance: &InstanceKey<'_>) -> Self {
        Self::Instance { service: scope_text(service), instance: instance.text().into() }
    }

    /// The scope of a change to a whole service.
    #[must_use]
    pub fn service(service: &ServiceKey) -> Self {
        Self::Service(scope_text(service))
    }
}

impl Applied {
    /// Makes a change visible.
    fn apply(&self, change: Change) {
        self.apply_at(change, self.clock.now());
    }

    /// Makes a change visible; a service that it makes counts as made at `now`.
    fn apply_at(&self, change: Change, now: Millis) {
        match change {
            Change::Instance(service, instance) => {
                self.registry.put_persistent(service.place(), *instance, now);
            }
            Change::NoInstance(service, gone) => self.registry.remove_persistent(service.place(), gone.key()),
            Change::Service(service, mut definition) => {
                definition.durable = true;
                self.registry.define(service.place(), &definition, now);
            }
            Change::IdleService(service) => self.registry.forget(service.place()),
            Change::NoService(service, _) => {
                self.registry.remove(service.place(), now);
            }
            Change::Switches(switches) => self.switches.store(*switches),
            Change::Namespace(namespace) => self.namespaces.put(&namespace),
            Change::NoNamespace(id) => self.namespaces.remove(&id),
        }
    }
}

/// A text that only this service has.
fn scope_text(service: &ServiceKey) -> Arc<str> {
    [&service.namespace, "##", &service.name].concat().into()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::model::{Definition, change::Changes};

    fn applied() -> Applied {
        Applied {
            registry: Arc::new(Registry::new(Arc::new(Changes::default()), Default::default())),
            switches: Arc::default(),
            namespaces: Arc::default(),
            clock: Clock::set(0),
        }
    }

    #[tokio::test]
    async fn loaded_services_are_spread_over_the_grid() {
        let folder = tempfile::tempdir().unwrap();
        let cp = Handle::open(folder.path(), applied()).unwrap();
        let definition = Definition { explicit: true, ..Definition::default() };
        let change = |number| {
            Change::Service(ServiceKey::new("public", &format!("G@@{number}")), Box::new(definition.clone()))
        };
        let changes: Vec<_> = (0..200).map(change).collect();
        let stored = cp.submit(Scope::Everything, |_| Ok::<_, WriteError>((changes, ())));
        stored.await.unwrap();
        cp.stop().await;
        let loaded = applied();
        let cp = Handle::open(folder.path(), loaded.clone()).unwrap();
        let mut moments = HashSet::new();
        loaded.registry.for_each(|service| {
            moments.insert(service.made_at);
        });
        assert!(moments.len() == 200, "{} moments", moments.len());
        cp.stop().await;
    }
}
