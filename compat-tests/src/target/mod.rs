//! The server under test, as the network sees it: HTTP, raw bytes, UDP; and what it may connect to itself.

mod http;
mod raw;
mod udp;
mod wanted;
mod wire;

use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

pub use http::Response;
pub use raw::RawAnswer;
pub use udp::{Datagram, Port};
pub use wanted::{HttpTarget, TcpTarget};
pub use wire::RawItem;

/// Where the server is.
#[derive(Debug, Clone)]
pub struct Target {
    address: SocketAddr,
    authority: String,
}

impl Target {
    /// From `http://HOST:PORT`; a path behind it (such as `/nacos`) is left out, scenarios name whole paths.
    ///
    /// # Errors
    /// If the URL is not of this form or the host has no address.
    pub fn parse(url: &str) -> Result<Self> {
        let rest =
            url.strip_prefix("http://").with_context(|| format!("{url:?} doesn't begin with http://"))?;
        let authority = rest.split('/').next().unwrap_or(rest);
        ensure!(!authority.is_empty(), "{url:?} names no host");
        let port_named = authority.rsplit(']').next().is_some_and(|tail| tail.contains(':'));
        let host_and_port = if port_named { authority.to_owned() } else { format!("{authority}:80") };
        let address = host_and_port
            .to_socket_addrs()
            .with_context(|| format!("can't look up {authority:?}"))?
            .next()
            .with_context(|| format!("{authority:?} has no address"))?;
        Ok(Self { address, authority: authority.to_owned() })
    }

    /// Host and port as a `Host` header has them.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Whether anyone listens there.
    ///
    /// # Errors
    /// If a connection can't be opened within 5 s.
    pub fn probe(&self) -> Result<()> {
        self.connect(Duration::from_secs(5)).map(drop)
    }

    fn connect(&self, timeout: Duration) -> Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.address, timeout)
            .with_context(|| format!("can't connect to {}", self.authority))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_with_or_without_a_path() {
        assert_eq!(Target::parse("http://127.0.0.1:8848/nacos").unwrap().authority(), "127.0.0.1:8848");
        assert_eq!(Target::parse("http://[::1]:1").unwrap().authority(), "[::1]:1");
        assert_eq!(Target::parse("http://127.0.0.1").unwrap().address.port(), 80);
        for url in ["127.0.0.1:1", "https://127.0.0.1", "http://", "http://127.0.0.1:x"] {
            assert!(Target::parse(url).is_err(), "{url}");
        }
    }
}
