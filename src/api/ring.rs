//! What forwarding asks of a node with members.

use std::sync::Arc;

use arc_swap::Guard;
use futures_util::future::{BoxFuture, FutureExt as _};
use nacre_middleware::forwarder::StandIn;

use super::{V1Call, ownership::Ring};
use crate::{
    base::clock::Clock,
    cluster::{Address, Cluster, Doorkeeper, View},
    distro::exchange::Exchange,
    model::ServiceKey,
};

/// The members of a node.
pub struct RingOfMembers {
    /// The cluster as this node sees it.
    pub cluster: Cluster,
    /// Says who is a member.
    pub doorkeeper: Doorkeeper,
    /// Brings data of other members.
    pub exchange: Exchange,
    /// The time.
    pub clock: Clock,
}

impl Ring for RingOfMembers {
    fn view(&self) -> Guard<Arc<View>> {
        self.cluster.view_guard()
    }

    fn is_stale(&self) -> bool {
        self.exchange.distro.may_be_stale(self.clock.now())
    }

    fn refused(&self, address: &Address) {
        self.cluster.refused(address, self.clock.now());
    }

    fn serves_nobody(&self, address: &Address) {
        self.cluster.heard_starting(address, self.clock.now());
    }

    fn answered(&self, address: &Address) {
        // A node that loads passes nothing on; its probes still may be answered, and don't say by what kind of member.
        if !self.cluster.view_guard().standing.is_loading() {
            self.cluster.answered(address, self.clock.now());
        }
    }

    fn is_member(&self, call: &V1Call) -> bool {
        self.doorkeeper.proves(&self.cluster.view_guard(), call.peer.ip(), &call.head.headers)
    }

    fn fetch(&self, from: &Address, service: ServiceKey) -> BoxFuture<'static, ()> {
        let (exchange, from) = (self.exchange.clone(), from.clone());
        async move { exchange.fetch(&from, service).await }.boxed()
    }

    fn brought(&self, owner: &Address, service: &ServiceKey) -> Option<BoxFuture<'static, ()>> {
        Some(self.exchange.distro.brought(owner, service)?.boxed())
    }

    fn stood_in(&self, service: ServiceKey, why: StandIn) {
        // Whatever is written here goes to all members. Where one of 1.x disagrees about the owner, it gets the whole of
        // it even if nothing changed here.
        if why == StandIn::Disagreement {
            self.exchange.distro.send_to_all([service]);
        }
    }
}
