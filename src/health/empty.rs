//! Removes services that stay empty, as far as nobody made them on purpose.
//!
//! Source: Nacos 1.4.8 naming module, empty service cleaner; that explicitly made services and those with metadata stay
//! is ours: the reference removes both kinds.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use crate::{
    base::clock::{Clock, Millis},
    config::NamingSettings,
    cp::{self, Change, Scope, WriteError},
    model::{Registry, Service, ServiceKey},
};

/// The round that finds a service empty for the fifth time removes it.
const ROUNDS: u32 = 5;

/// Since when a service has been found empty, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Emptiness {
    since: Millis,
    rounds: u32,
}

/// Which services have been found empty in the last round.
#[derive(Debug, Default)]
struct Found(HashMap<ServiceKey, Emptiness>);

impl Found {
    /// Takes the services that a round found empty; gives those that must go.
    ///
    /// One that wasn't empty in between starts anew.
    fn round(&mut self, empty: Vec<ServiceKey>, now: Millis, longest: Option<Duration>) -> Vec<ServiceKey> {
        let mut next = HashMap::with_capacity(empty.len());
        let mut due = Vec::new();
        for key in empty {
            let before = self.0.get(&key).copied().unwrap_or(Emptiness { since: now, rounds: 0 });
            let emptiness = Emptiness { rounds: before.rounds + 1, ..before };
            let goes = match longest {
                Some(longest) => u128::from(now.since(emptiness.since)) >= longest.as_millis(),
                None => emptiness.rounds >= ROUNDS,
            };
            if goes {
                due.push(key);
            } else {
                next.insert(key, emptiness);
            }
        }
        self.0 = next;
        due
    }
}

/// Cleans until `stopped`, whatever the settings say of whether it should.
pub async fn clean(
    clock: Clock,
    registry: Arc<Registry>,
    cp: cp::Handle,
    settings: NamingSettings,
    stopped: CancellationToken,
) {
    let mut found = Found::default();
    let mut wait = settings.empty_service_initial_delay;
    loop {
        tokio::select! {
            () = stopped.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
        wait = settings.empty_service_period;
        let mut empty = Vec::new();
        registry.for_each(|service| {
            if service.state().may_go() {
                empty.push(service.key.clone());
            }
        });
        for key in found.round(empty, clock.now(), settings.empty_service_expired_time) {
            if let Some(service) = registry.get(key.place()) {
                remove(&registry, &cp, &service).await;
            }
        }
    }
}

/// Removes an empty service, from the store first where it lies there.
async fn remove(registry: &Registry, cp: &cp::Handle, service: &Service) {
    let key = service.key.clone();
    if !service.state().definition.durable {
        registry.remove_idle(key.place());
        return;
    }
    let stored = cp.submit(Scope::service(&key), move |applied| {
        let state = applied.registry.get(key.place()).map(|service| service.state());
        let goes = state.is_some_and(|state| state.may_go());
        Ok::<_, WriteError>((if goes { vec![Change::IdleService(key)] } else { vec![] }, ()))
    });
    if let Err(error) = stored.await {
        tracing::warn!(service = %service.key, %error, "an empty service stays for now");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Definition, Limits};

    fn key() -> ServiceKey {
        ServiceKey::new("public", "G@@s")
    }

    #[test]
    fn the_fifth_round_in_a_row_removes() {
        let mut found = Found::default();
        for _ in 0..4 {
            assert_eq!(found.round(vec![key()], Millis(1), None), []);
        }
        assert_eq!(found.round(vec![key()], Millis(1), None), [key()]);
        assert_eq!(found.round(vec![key()], Millis(1), None), []);
        assert_eq!(found.round(vec![], Millis(1), None), []);
        assert_eq!(found.0.len(), 0);
    }

    #[test]
    fn a_time_counts_instead_of_rounds_when_given() {
        let mut found = Found::default();
        let longest = Some(Duration::from_secs(60));
        assert_eq!(found.round(vec![key()], Millis(1_000), longest), []);
        assert_eq!(found.round(vec![key()], Millis(60_999), longest), []);
        assert_eq!(found.round(vec![key()], Millis(61_000), longest), [key()]);
    }

    #[tokio::test]
    async fn an_empty_service_leaves_the_store_too() {
        let folder = tempfile::tempdir().unwrap();
        let start = || {
            let registry = Arc::new(Registry::new(Arc::default(), Limits::default()));
            let (switches, namespaces, clock) = (Arc::default(), Arc::default(), Clock::set(0));
            let applied = cp::Applied { registry: Arc::clone(&registry), switches, namespaces, clock };
            (registry, cp::Handle::open(folder.path(), applied).unwrap())
        };
        let (registry, cp) = start();
        let change = Change::Service(key(), Box::default());
        cp.submit(Scope::service(&key()), |_| Ok::<_, WriteError>((vec![change], ()))).await.unwrap();
        let service = registry.get(key().place()).unwrap();
        assert!(service.state().may_go() && service.state().definition.durable);
        assert!(!registry.remove_idle(key().place()), "what is stored goes by way of the store");
        remove(&registry, &cp, &service).await;
        assert!(registry.is_empty());
        cp.stop().await;
        drop(cp);
        assert!(start().0.is_empty());
    }

    #[test]
    fn what_was_made_on_purpose_stays() {
        let registry = Registry::new(Arc::default(), Limits::default());
        let explicit = Definition { explicit: true, ..Definition::default() };
        let described = Definition { metadata: "a=b".parse().unwrap(), ..Definition::default() };
        for (name, definition, goes) in
            [("G@@a", Definition::default(), true), ("G@@b", explicit, false), ("G@@c", described, false)]
        {
            let key = ServiceKey::new("public", name);
            let service = registry.get_or_make(key.place(), || definition, Millis(1)).unwrap();
            assert_eq!(service.state().may_go(), goes, "{name}");
        }
    }
}
