//! The v1 endpoints, one file per URL segment, and what they share: parameters, replies, agents, the route table.
//!
//! An endpoint reads its parameters, calls one function and writes the answer.

pub mod agent;
pub mod auth;
pub mod beat;
pub mod body;
pub mod caller;
pub mod catalog;
pub mod cluster;
pub mod console;
pub mod core;
pub mod distro;
pub mod drain;
mod heads;
pub mod health;
pub mod instance;
pub mod legacy;
pub mod legacy_naming;
pub mod list;
pub mod member;
pub mod metadata_batch;
pub mod nacre;
pub mod node;
pub mod observe;
pub mod operator;
mod owner_key;
pub mod ownership;
pub mod params;
pub mod peers;
pub mod proxy;
pub mod push_state;
pub mod raft;
pub mod rate;
pub mod reply;
pub mod ring;
pub mod routes;
pub mod service;
pub mod subscribers;
pub mod traffic;
pub mod typed;
pub mod unrouted;
pub mod web;

use std::sync::Arc;

use nacre_middleware::Call;

use crate::{
    base::clock::Clock,
    cluster::{Cluster, Doorkeeper, Peers, View},
    config::Settings,
    cp,
    distro::{
        Distro,
        mapper::{self, Owner},
    },
    gateway::{Naming, Sight},
    model::{Registry, namespaces::Namespaces, registry::Place, switches::Switchboard},
    proxy::Proxy,
    push::Push,
};
use params::Params;
use reply::Refusal;

/// A request on its way to an endpoint.
pub type V1Call = Call<routes::Row>;

/// What the endpoints work with.
pub struct Api {
    /// The time.
    pub clock: Clock,
    /// All services.
    pub registry: Arc<Registry>,
    /// The run-time switches; changed by way of `cp`.
    pub switches: Arc<Switchboard>,
    /// The namespaces of the console; changed by way of `cp`.
    pub namespaces: Arc<Namespaces>,
    /// Changes of persistent data.
    pub cp: cp::Handle,
    /// Subscribers of pushes.
    pub push: Push,
    /// What the operator decided at start.
    pub settings: Arc<Settings>,
    /// The members, and what they are known to be doing.
    pub cluster: Cluster,
    /// Says who is a member.
    pub doorkeeper: Doorkeeper,
    /// Calls to other members.
    pub peers: Peers,
    /// The protocol of members; nothing on a node that serves alone.
    pub distro: Option<Distro>,
    /// The reverse proxy, where there is one.
    pub proxy: Option<Arc<Proxy>>,
    /// The legacy servers behind this node, if there are any.
    pub gateway: Option<Arc<dyn Sight>>,
    /// Naming, where the legacy servers answer it.
    pub legacy_naming: Option<Naming>,
    /// The address and port by which others know this node, as `ip:port`.
    pub own_address: Box<str>,
    /// What else the node knows of itself.
    pub node: node::Node,
    /// What a person sees of the server.
    pub sight: observe::Sight,
}

impl Api {
    /// Who answers for the service with this grouped name, as `view` has it; this node for all while the switch
    /// `distroEnabled` is off.
    #[must_use]
    pub fn owner<'v>(&self, view: &'v View, name: &str) -> Owner<'v> {
        if self.switches.load().distro_enabled { mapper::owner(view, name) } else { Owner::Here }
    }

    /// Says of grouped names whether a list is to show them that may be limited to what this node answers for.
    pub fn shows(&self, responsible_only: bool) -> impl Fn(&str) -> bool {
        let view = self.cluster.view();
        move |name| !responsible_only || self.owner(&view, name) == Owner::Here
    }
}

/// The namespace and the checked grouped name that a request is about.
pub struct Named<'a> {
    /// Namespace id.
    pub namespace: std::borrow::Cow<'a, str>,
    /// Grouped name.
    pub name: std::borrow::Cow<'a, str>,
}

impl<'a> Named<'a> {
    /// Reads both; the name must be there and of the form `group@@service`.
    ///
    /// # Errors
    /// 400 where it isn't.
    pub fn read(params: &'a Params<'_>) -> Result<Self, Refusal> {
        let name = params.service_name()?;
        crate::model::name::check_format(&name)?;
        Ok(Self { namespace: params.namespace(), name })
    }

    /// The place in the registry.
    #[must_use]
    pub fn place(&self) -> Place<'_> {
        Place { namespace: &self.namespace, name: &self.name }
    }
}
