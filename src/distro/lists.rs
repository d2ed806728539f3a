//! Instance lists as the data of the protocol.

use std::sync::Arc;

use super::{
    bodies::BODY_BYTES,
    data::{Data, Told},
    documents::{Beats, Named},
    silence,
};
use crate::{
    base::{
        clock::Millis,
        hash::{fnv, mix},
        json,
    },
    model::{Registry, ServiceKey},
};

/// The ephemeral instances of a registry.
#[derive(Clone, Debug)]
pub struct Lists(pub Arc<Registry>);

impl Data for Lists {
    type Key = ServiceKey;
    type Beats = Beats;

    fn name(key: &ServiceKey) -> &str {
        &key.name
    }

    fn hash(key: &ServiceKey) -> u64 {
        // No name has this byte, so no two keys look alike.
        mix(fnv(key.namespace.bytes().chain([0xff]).chain(key.name.bytes())))
    }

    fn bytes(key: &ServiceKey) -> usize {
        // As a text, with its digest and what stands between.
        json::length(&Named(key.clone())) + 22
    }

    fn each(&self, each: &mut dyn FnMut(&ServiceKey, u64)) {
        self.0.for_each(|service| {
            let state = service.state();
            if !state.ephemeral.is_empty() {
                each(&service.key, state.digest());
            }
        });
    }

    fn digest(&self, key: &ServiceKey) -> u64 {
        self.0.get(key.place()).map_or(0, |service| service.state().digest())
    }

    fn beats(&self, owned: &dyn Fn(&ServiceKey) -> bool, told: &mut Told, now: Millis) -> Beats {
        silence::news(&self.0, owned, told, now, BODY_BYTES)
    }
}
