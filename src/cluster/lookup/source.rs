//! The ways to a list, told apart.

use std::time::Duration;

use super::{
    address_server::{self, AddressServer, AddressServerShown},
    dns::Dns,
    file::{self, File},
    list::List,
};
use crate::{
    cluster::Address,
    config::{Lookup, Settings},
};

/// Lists in a row without the node itself until one counts: a name or a server may forget a node for a moment.
const PATIENCE: u32 = 3;
/// Looks at a name before the start fails: a new address takes a while to get there.
const DNS_TRIES: u32 = 10;

/// Where the list is read.
#[derive(Debug)]
pub(super) enum Source {
    File(File),
    AddressServer(Box<AddressServer>),
    Dns(Dns),
}

impl Source {
    /// The one that the settings choose; none for a node that serves alone.
    pub fn new(lookup: Lookup, settings: &Settings, own: &Address) -> Option<Self> {
        let said = &settings.membership;
        match lookup {
            Lookup::Standalone => None,
            Lookup::File => Some(Self::File(File::new(&settings.config_dir, said.member_list.clone()))),
            Lookup::AddressServer => Some(Self::AddressServer(Box::new(AddressServer::new(settings)))),
            Lookup::Dns => {
                let name = said.dns.as_ref()?;
                let port = name.port.unwrap_or_else(|| own.port());
                Some(Self::Dns(Dns::new(name.name.clone(), port, own, said.dns_interval)))
            }
        }
    }

    /// As Nacos calls it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::File(_) => "file",
            Self::AddressServer(_) => "address-server",
            Self::Dns(_) => "dns",
        }
    }

    /// Where the list is, for a person.
    pub fn place(&self) -> String {
        match self {
            Self::File(file) => file.place(),
            Self::AddressServer(server) => server.place(),
            Self::Dns(dns) => dns.place(),
        }
    }

    /// Reads the list as it is now.
    pub async fn first(&mut self) -> Result<List, String> {
        match self {
            Self::File(file) => file.first().await,
            Self::AddressServer(server) => server.read().await,
            Self::Dns(dns) => dns.read().await,
        }
    }

    /// Reads again; none: nothing that would count yet.
    pub async fn next(&mut self) -> Option<Result<List, String>> {
        match self {
            Self::File(file) => file.next().await,
            Self::AddressServer(server) => Some(server.read().await),
            Self::Dns(dns) => Some(dns.read().await),
        }
    }

    /// From one read to the next.
    pub fn pause(&self) -> Duration {
        match self {
            Self::File(_) => file::PAUSE,
            Self::AddressServer(_) => address_server::PAUSE,
            Self::Dns(dns) => dns.pause,
        }
    }

    /// Lists in a row without the node itself until one counts.
    pub fn patience(&self) -> u32 {
        match self {
            Self::File(_) => 1,
            Self::AddressServer(_) | Self::Dns(_) => PATIENCE,
        }
    }

    /// Reads at start before it fails.
    pub fn tries(&self, settings: &Settings) -> u32 {
        match self {
            Self::File(_) => 1,
            Self::AddressServer(_) => settings.membership.address_server.tries,
            Self::Dns(_) => DNS_TRIES,
        }
    }

    /// How the web server has been answering, where it is one.
    pub fn server(&self) -> Option<AddressServerShown> {
        match self {
            Self::AddressServer(server) => Some(server.shown()),
            Self::File(_) | Self::Dns(_) => None,
        }
    }
}
