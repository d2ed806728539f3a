//! The settings of the reverse proxy; which requests go where stands in a file of its own.

use std::{net::SocketAddr, num::NonZeroU32, path::PathBuf};

use super::values::Network;

/// The reverse proxy in front of registered instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxySettings {
    /// Where it listens without TLS (`nacre.proxy.listen`): an IP address and a port. Default none.
    pub listen: Option<SocketAddr>,

    /// Where it listens with TLS (`nacre.proxy.tls.listen`). Default none; it needs [`Self::tls_folder`].
    pub tls_listen: Option<SocketAddr>,

    /// Folder of certificates (`nacre.proxy.tls.folder`): `NAME.crt` and `NAME.key` each, PEM. Default none.
    ///
    /// The first by name counts for clients that name no host, or another. Read again when it changes.
    pub tls_folder: Option<PathBuf>,

    /// PEM file of the authorities that certificates of instances may be of (`nacre.proxy.tls.upstream-ca`).
    ///
    /// Default none: those that the system trusts.
    pub upstream_ca: Option<PathBuf>,

    /// File of rules (`nacre.proxy.rules`). Default `proxy.toml` in the folder of `cluster.conf`.
    pub rules: Option<PathBuf>,

    /// `/SERVICE/...` goes to the service of that name where no rule says otherwise (`nacre.proxy.by-convention`).
    ///
    /// Default false: with it every service of the default namespace can be called from where the proxy can.
    pub by_convention: bool,

    /// Which requests are logged (`nacre.proxy.access-log`). Default [`ProxyLog::Off`].
    pub access_log: ProxyLog,

    /// From whom `X-Forwarded-*`, `Forwarded` and `X-Request-Id` are believed (`nacre.proxy.trust-forwarded`).
    ///
    /// Networks in CIDR form; default none: they are set anew.
    pub trust_forwarded: Vec<Network>,

    /// Bytes of a request's head (`nacre.proxy.max-head-bytes`).
    ///
    /// Default 65,536, from 8,192 to 1,048,576. A larger head is answered 431.
    pub max_head_bytes: usize,

    /// Open connections of clients at most (`nacre.proxy.max-connections`), upgraded ones among them.
    ///
    /// Default 50,000, from 1 to 1,000,000. At it, further ones wait. As many connections to instances, 1,024 in any case, may be
    /// open.
    pub max_connections: usize,
}

impl Default for ProxySettings {
    fn default() -> Self {
        Self {
            listen: None,
            tls_listen: None,
            tls_folder: None,
            upstream_ca: None,
            rules: None,
            by_convention: false,
            access_log: ProxyLog::Off,
            trust_forwarded: Vec::new(),
            max_head_bytes: 64 << 10,
            max_connections: 50_000,
        }
    }
}

impl ProxySettings {
    /// Whether there is a proxy.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.listen.is_some() || self.tls_listen.is_some()
    }
}

/// Which requests of the proxy are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyLog {
    /// None.
    Off,
    /// One of so many, and each that was answered 5xx.
    Sampled(NonZeroU32),
    /// All.
    Full,
}
