//! Tells the layers that forward what they must know: whose a write is, who is a member, what a form says.
//!
//! Source: Nacos 1.4.8 naming module, distro filter; compat file `forward`.

use std::sync::Arc;

use arc_swap::Guard;
use futures_util::future::BoxFuture;
use http::StatusCode;
use nacre_middleware::{
    V1Response,
    distro_filter::{self, Standstill, Target},
    envelope::Bare,
    forwarder::{Members, Note, StandIn, Writes},
    loop_guard::{self, Refused, SOURCE},
    outgoing::Parameters,
    refusal::State,
};

use super::{Api, V1Call, beat, owner_key::with_owner_key, params::Params, routes::Row, unrouted};
use crate::{
    base::clock::{Clock, Millis},
    cluster::{Address, Standing, View},
    config::Network,
    distro::mapper::{self, Owner},
    model::{Registry, ServiceKey, registry::Place, switches::Switchboard},
    observe::forwards::Forwards,
};

/// What a node with members knows and does that forwarding needs.
pub trait Ring: Send + Sync + 'static {
    /// The cluster as it is seen now, for a moment.
    fn view(&self) -> Guard<Arc<View>>;

    /// Whether what is read from a socket now may have lain there while the process stood still.
    fn is_stale(&self) -> bool;

    /// This member takes no connections: it is gone.
    fn refused(&self, address: &Address);

    /// This member answers that it serves nobody now: it is starting, or removed.
    fn serves_nobody(&self, address: &Address);

    /// This member answers; told once a second at most.
    fn answered(&self, address: &Address);

    /// Whether the call has been proven to be a member's.
    fn is_member(&self, call: &V1Call) -> bool;

    /// Brings what `from` knows of the service into the registry; ends when it has come, or won't.
    ///
    /// Called before a beat for an instance that is unknown here is done, where a member has passed it on that names itself.
    fn fetch(&self, from: &Address, service: ServiceKey) -> BoxFuture<'static, ()>;

    /// Ends when nothing of the service is being brought to `owner` any more, or soon; nothing where that is so.
    fn brought(&self, owner: &Address, service: &ServiceKey) -> Option<BoxFuture<'static, ()>>;

    /// A write of this service was done here in its owner's place.
    ///
    /// Of a [`StandIn::Disagreement`] its datum must go to all members, whoever owns it.
    fn stood_in(&self, service: ServiceKey, why: StandIn);
}

/// What the layers ask; cheap to clone, since every request clones the layers.
#[derive(Clone)]
pub struct Ownership(Arc<Inner>);

struct Inner {
    /// The members; nothing on a node that never has any.
    ring: Option<Arc<dyn Ring>>,
    with: With,
}

/// What [`Ownership`] works with.
pub struct With {
    /// All services.
    pub registry: Arc<Registry>,
    /// The run-time switches.
    pub switches: Arc<Switchboard>,
    /// The time.
    pub clock: Clock,
    /// From whom `X-Forwarded-For` is believed, besides members.
    pub trusted: Arc<[Network]>,
    /// Counts and logs.
    pub forwards: &'static Forwards,
}

impl With {
    /// The parts of this server.
    #[must_use]
    pub fn of(api: &Api) -> Self {
        Self {
            registry: Arc::clone(&api.registry),
            switches: Arc::clone(&api.switches),
            clock: api.clock.clone(),
            trusted: api.settings.http.trusted_forwarders.as_slice().into(),
            forwards: &api.sight.meters.forwards,
        }
    }
}

impl Ownership {
    /// Of a node with these members, or without.
    #[must_use]
    pub fn new(ring: Option<Arc<dyn Ring>>, with: With) -> Self {
        Self(Arc::new(Inner { ring, with }))
    }
}

const STARTING: Standstill = Standstill {
    state: State::Starting,
    text: "server is STARTING now, its data are not loaded yet, please try again later",
};
const COMPARING: Standstill = Standstill {
    state: State::Starting,
    text: "server stood still and compares its data with the members, please try again later",
};
const REMOVED: Standstill = Standstill {
    state: State::Removed,
    text: "this node is no longer a member of its cluster: it is not on the list of members, and takes no writes",
};
const OWNERLESS: Standstill = Standstill {
    state: State::Ownerless,
    text: "no member is up that could own this service, please try again later",
};

impl distro_filter::Ownership<Row> for Ownership {
    fn owner(&self, call: &V1Call) -> distro_filter::Owner {
        use distro_filter::Owner::{Alone, Here, Nobody, Peer};
        let Some(ring) = &self.0.ring else { return Alone };
        let view = ring.view();
        match view.standing {
            Standing::Alone => return Alone,
            _ if ring.is_stale() => return Nobody(COMPARING),
            Standing::Starting => return Nobody(STARTING),
            Standing::Comparing => return Nobody(COMPARING),
            Standing::Removed => return Nobody(REMOVED),
            Standing::Serving | Standing::Leaving => {}
        }
        if !self.0.with.switches.load().distro_enabled {
            return Here;
        }
        let owner = with_owner_key(call, |name| match mapper::owner(&view, name) {
            Owner::Here => Here,
            Owner::Peer(address) => Peer(target(&view, address)),
            Owner::Nobody => Nobody(OWNERLESS),
        });
        owner.unwrap_or(Here)
    }
}

fn target(view: &View, address: &Address) -> Target {
    Target {
        address: address.shared(),
        is_nacre: view.peer(address).is_some_and(|peer| peer.nacre.is_some()),
        all_nacre: view.is_all_nacre(),
    }
}

impl Parameters<Row> for Ownership {
    fn parameters(&self, call: &V1Call, each: &mut dyn FnMut(&str, &str)) {
        Params::of(call).iter().for_each(|(name, value)| each(name, value));
    }
}

impl Members for Ownership {
    fn is_listed(&self, address: &str) -> bool {
        let Some(ring) = &self.0.ring else { return false };
        ring.view().lists(address)
    }

    fn refused(&self, address: &str) {
        if let Some(ring) = &self.0.ring {
            ring.refused(&Address::new(address));
        }
    }

    fn serves_nobody(&self, address: &str) {
        if let Some(ring) = &self.0.ring {
            ring.serves_nobody(&Address::new(address));
        }
    }

    fn answers(&self, address: &str) {
        if let Some(ring) = &self.0.ring {
            ring.answered(&Address::new(address));
        }
    }

    fn now_ms(&self) -> u64 {
        self.0.with.clock.now().0
    }

    fn note(&self, note: Note<'_>) {
        self.0.with.forwards.note(note);
    }
}

impl Writes<Row> for Ownership {
    fn is_believed(&self, call: &V1Call) -> bool {
        let caller = call.peer.ip().to_canonical();
        self.0.with.trusted.iter().any(|network| network.contains(caller))
            || self.0.ring.as_ref().is_some_and(|ring| ring.is_member(call))
    }

    fn prepare(&self, call: &V1Call) -> Option<BoxFuture<'static, ()>> {
        let ring = self.0.ring.as_ref()?;
        let service = beat::unknown_here(&self.0.with.registry, call)?;
        let from = call.head.headers.get(&SOURCE)?.to_str().ok()?;
        // It is of a proven member, which may name itself alone; who isn't listed isn't asked.
        ring.view().lists(from).then(|| ring.fetch(&Address::new(from), service))
    }

    fn brings_first(&self, call: &V1Call, owner: &str) -> Option<BoxFuture<'static, ()>> {
        self.0.ring.as_ref()?.brought(&Address::new(owner), &service_of(call)?)
    }

    fn passed_on(&self, call: &V1Call, came_ms: u64, answer: Option<&V1Response>) {
        beat::overhear(&self.0.with.registry, call, answer, Millis(came_ms));
    }

    fn stand_in(&self, call: &V1Call, why: StandIn) -> Option<Box<dyn FnOnce() + Send>> {
        let ring = Arc::clone(self.0.ring.as_ref()?);
        let service = service_of(call)?;
        Some(Box::new(move || ring.stood_in(service, why)))
    }
}

/// The service that a write is about, if it names one.
fn service_of(call: &V1Call) -> Option<ServiceKey> {
    let params = Params::of(call);
    let (namespace, name) = (params.namespace(), params.service_name().ok()?);
    Some(Place { namespace: &namespace, name: &name }.to_key())
}

impl loop_guard::Guard<Row> for Ownership {
    fn is_peer(&self, call: &V1Call) -> bool {
        self.0.ring.as_ref().is_some_and(|ring| ring.is_member(call))
    }

    fn now_ms(&self) -> u64 {
        self.0.with.clock.now().0
    }

    fn error_document(&self, call: &V1Call, status: StatusCode, message: &str) -> V1Response {
        let mut response = unrouted::error_response(self.0.with.clock.wall_ms(), call, status, message);
        response.extensions_mut().insert(Bare);
        response
    }

    fn is_leaving(&self) -> bool {
        self.0.ring.as_ref().is_some_and(|ring| ring.view().standing == Standing::Leaving)
    }

    fn note_refusal(&self, call: &V1Call, why: Refused) {
        self.0.with.forwards.note_refusal(why, call.peer.ip(), call.head.uri.path());
    }
}

#[cfg(test)]
#[path = "ownership_tests.rs"]
mod tests;
