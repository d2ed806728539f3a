//! The server under test, as the network sees it: HTTP, raw bytes, UDP; and what it may connect to itself.

pub(crate) mod deadline;
mod http;
mod raw;
mod udp;
mod wanted;
pub(crate) mod wire;

use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use socket2::{Domain, Socket, Type};

use crate::ledger::Ledger;
use crate::secrets::Secrets;
use crate::stop::Stop;

pub use http::{Response, escaped};
pub use raw::RawAnswer;
pub use udp::{Datagram, Port};
pub use wanted::{HttpTarget, TcpTarget};
pub use wire::RawItem;

/// The path under which the recordings ask.
const RECORDED_CONTEXT: &str = "/nacos";

/// Where the server is, and what goes with every request.
#[derive(Clone)]
pub struct Target {
    address: SocketAddr,
    authority: String,
    context: String,
    from: Option<IpAddr>,
    token: Option<String>,
    run: Option<String>,
    ledger: Arc<Mutex<Ledger>>,
    stop: Stop,
    secrets: Secrets,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Target {}{}", self.authority, self.context) // not its token
    }
}

impl Target {
    /// From `http://HOST:PORT`; a path behind it (such as `/nacos`) is left out, scenarios name whole paths.
    ///
    /// # Errors
    /// If the URL is not of this form or the host has no address.
    pub fn parse(url: &str) -> Result<Self> {
        ensure!(
            !url.starts_with("https://"),
            "{url:?} is TLS, which this program doesn't speak: give it the plain port, or a proxy that takes TLS off"
        );
        let rest =
            url.strip_prefix("http://").with_context(|| format!("{url:?} doesn't begin with http://"))?;
        let authority = rest.split('/').next().unwrap_or(rest);
        ensure!(!authority.is_empty(), "{url:?} names no host");
        ensure!(
            !authority.contains('@'),
            "{url:?} has a login in it: give --auth USER:PASSWORD in its place"
        );
        let port_named = authority.rsplit(']').next().is_some_and(|tail| tail.contains(':'));
        let host_and_port = if port_named { authority.to_owned() } else { format!("{authority}:80") };
        let address = host_and_port
            .to_socket_addrs()
            .with_context(|| format!("can't look up {authority:?}"))?
            .next()
            .with_context(|| format!("{authority:?} has no address"))?;
        Ok(Self {
            address,
            authority: authority.to_owned(),
            context: RECORDED_CONTEXT.to_owned(),
            from: None,
            token: None,
            run: None,
            ledger: Arc::default(),
            stop: Stop::default(),
            secrets: Secrets::default(),
        })
    }

    /// The same server, whose entries stand under another path; empty or `/` for none.
    pub fn under(self, context: &str) -> Self {
        let path = context.trim_matches('/');
        Self { context: if path.is_empty() { String::new() } else { format!("/{path}") }, ..self }
    }

    /// The same server as one of a run: over when the run is, and keeping its secrets.
    #[must_use]
    pub fn of_run(self, stop: &Stop, secrets: &Secrets) -> Self {
        Self { stop: stop.clone(), secrets: secrets.clone(), ..self }
    }

    /// The same server for those who tidy up after a run, also after one that was interrupted.
    #[must_use]
    pub fn for_tidying(&self) -> Self {
        Self { stop: self.stop.for_tidying(), ..self.clone() }
    }

    /// The same server, asked with this token; without one, as somebody who didn't log in.
    pub fn with_token(self, token: Option<String>) -> Self {
        token.iter().for_each(|token| self.secrets.keep(token));
        Self { token, ..self }
    }

    /// The same server, asked from this address of the machine.
    pub fn calling_from(&self, from: IpAddr) -> Self {
        Self { from: Some(from), ..self.clone() }
    }

    /// The same server for one case: names begin with `run`, and what may be made is noted apart.
    pub fn for_case(&self, run: String) -> Self {
        Self { run: Some(run), ledger: Arc::default(), ..self.clone() }
    }

    /// Host and port as a `Host` header has them.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The host's address and the port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The path before `/v1`.
    pub fn context(&self) -> &str {
        &self.context
    }

    /// What names begin with, if this is for one case.
    pub fn run(&self) -> Option<&str> {
        self.run.as_deref()
    }

    /// What every request shows.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Whether and why the run is over.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// What no report may show.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// What may have been made so far.
    pub fn ledger(&self) -> Ledger {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether anyone listens there.
    ///
    /// # Errors
    /// If a connection can't be opened within 5 s.
    pub fn probe(&self) -> Result<()> {
        self.connect(Duration::from_secs(5)).map(drop)
    }

    fn note(&self, method: &str, target: &str, body: &str) {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).note(method, target, body);
    }

    /// A recorded path as this server has it.
    fn to_context(&self, target: &str) -> String {
        match target.strip_prefix(RECORDED_CONTEXT) {
            Some(rest) if rest.is_empty() || rest.starts_with(['/', '?']) => {
                let rest = if rest.starts_with('/') || !self.context.is_empty() {
                    rest
                } else {
                    &format!("/{rest}")
                };
                format!("{}{rest}", self.context)
            }
            _ => target.to_owned(),
        }
    }

    /// An answer's text as it would be under the recorded path: errors name the path that was asked, links lead to it.
    fn as_recorded(&self, text: String) -> String {
        if self.context == RECORDED_CONTEXT {
            return text;
        }
        let (here, there) = (&self.context, RECORDED_CONTEXT);
        let mut places = vec![(":", "/v1/"), (&*self.authority, "/")];
        if text.starts_with("{\"timestamp\":") {
            places.push(("\"path\":\"", "/")); // objects that are no error have paths of their own, such as a checker's
        }
        places.into_iter().fold(text, |text, (before, after)| {
            text.replace(&format!("{before}{here}{after}"), &format!("{before}{there}{after}"))
        })
    }

    /// The headers of an answer in the same way.
    fn headers_as_recorded(&self, headers: Vec<(String, String)>) -> Vec<(String, String)> {
        headers.into_iter().map(|(name, value)| (name, self.as_recorded(value))).collect()
    }

    fn connect(&self, timeout: Duration) -> Result<TcpStream> {
        let failed = || format!("can't connect to {}", self.authority);
        let stream = match self.from {
            None => TcpStream::connect_timeout(&self.address, timeout).with_context(failed)?,
            Some(from) => {
                let socket = Socket::new(Domain::for_address(self.address), Type::STREAM, None)?;
                let bound = socket.bind(&SocketAddr::new(from, 0).into());
                bound.with_context(|| format!("can't call from {from}"))?;
                socket.connect_timeout(&self.address.into(), timeout).with_context(failed)?;
                socket.into()
            }
        };
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_context_path_stands_in_place_of_the_recorded_one() {
        let target = Target::parse("http://127.0.0.1:1").unwrap().under("/naming/");
        assert_eq!(target.to_context("/nacos/v1/ns?a=/nacos/"), "/naming/v1/ns?a=/nacos/");
        assert_eq!(
            (target.to_context("/nacosx"), target.to_context("/nacos")),
            ("/nacosx".into(), "/naming".into())
        );
        let recorded = |target: &Target, text: &str| target.as_recorded(text.to_owned());
        assert_eq!(
            recorded(&target, r#"{"timestamp":1,"path":"/naming/x"}"#),
            r#"{"timestamp":1,"path":"/nacos/x"}"#
        );
        assert_eq!(
            recorded(&target, "GET:/naming/v1/x at http://127.0.0.1:1/naming/"),
            "GET:/nacos/v1/x at http://127.0.0.1:1/nacos/"
        );
        let root = target.under("/");
        assert_eq!(recorded(&root, r#"{"path":"/h"}"#), r#"{"path":"/h"}"#);
        assert_eq!(
            (root.to_context("/nacos/v1/ns"), root.to_context("/nacos")),
            ("/v1/ns".into(), "/".into())
        );
        assert_eq!(recorded(&root, r#"{"timestamp":1,"path":"/x"}"#), r#"{"timestamp":1,"path":"/nacos/x"}"#);
        assert_eq!(recorded(&root, "http://127.0.0.1:1/actuator"), "http://127.0.0.1:1/nacos/actuator");
    }

    #[test]
    fn a_url_is_taken_with_or_without_a_path() {
        assert_eq!(Target::parse("http://127.0.0.1:8848/nacos").unwrap().authority(), "127.0.0.1:8848");
        assert_eq!(Target::parse("http://[::1]:1").unwrap().authority(), "[::1]:1");
        assert_eq!(Target::parse("http://127.0.0.1").unwrap().address.port(), 80);
        for url in
            ["127.0.0.1:1", "https://127.0.0.1", "http://", "http://127.0.0.1:x", "http://a:b@127.0.0.1"]
        {
            assert!(Target::parse(url).is_err(), "{url}");
        }
    }
}
