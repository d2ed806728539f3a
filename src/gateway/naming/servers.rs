//! The legacy servers as naming asks them: whole requests, whole answers.
//!
//! Their connections are naming's own, so that long polls that wait at a server take no room from beats; how the servers
//! are is known together with what else is passed on.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt as _};
use http::{HeaderValue, Request, Response, header};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Full, Limited};
use nacre_middleware::{
    hygiene::{self, Caller},
    pass::{self, Answer, Fault, Plan, Sending, pass},
    pool::{Bounds, ConnectFault, Origin, Upstream},
};
use smallvec::SmallVec;

use super::{
    asking::{Failure, Server, Servers},
    question::Sent,
};
use crate::{
    base::{burst::Seldom, dial::Dial},
    config::{Network, Settings},
    gateway::{order::order, sight, times::KEEP},
};

/// Bytes of an answer; the list of a service of 50,000 instances has 15 MB.
const MOST_BYTES: usize = 64 << 20;
/// Connections to one server that are kept unused.
const MAX_IDLE: usize = 256;

type Body = Full<Bytes>;
type Way = Upstream<Dial, Sending<Body>>;

/// All legacy servers.
pub struct LegacyServers {
    connect_timeout: Duration,
    context_path: String,
    trusted: Vec<Network>,
    servers: Arc<[sight::Server]>,
    /// In the order of `servers`.
    ways: Vec<Way>,
    lines: Arc<Seldom>,
}

impl LegacyServers {
    /// Those that the settings name, which are seen as `servers`.
    pub(in crate::gateway) fn new(
        settings: &Settings,
        servers: Arc<[sight::Server]>,
        lines: Arc<Seldom>,
    ) -> Self {
        let legacy = &settings.legacy;
        let bounds = Bounds {
            max_idle: MAX_IDLE,
            keep: KEEP,
            max_in_flight: legacy.max_in_flight,
            max_waiting: legacy.queue,
            ..Bounds::default()
        };
        let ways =
            servers.iter().map(|server| Way::new(Origin::plain(&server.name), Dial::default(), bounds));
        Self {
            connect_timeout: legacy.connect_timeout,
            context_path: settings.server.context_path.as_str().to_owned(),
            trusted: settings.http.trusted_forwarders.clone(),
            ways: ways.collect(),
            servers,
            lines,
        }
    }

    async fn exchange(
        &self,
        server: Server,
        request: Request<Body>,
        within: Duration,
    ) -> Result<Response<Bytes>, Failure> {
        let seen = &self.servers[server];
        let answer = match tokio::time::timeout(within, self.whole(server, request, within)).await {
            Ok(answer) => answer,
            Err(_) => Err(Unheard::Fault(Fault::TimedOut)),
        };
        match answer {
            Ok(answer) => {
                seen.answered(answer.status());
                Ok(answer)
            }
            Err(Unheard::Fault(fault)) => {
                seen.failed(&fault, &self.lines);
                Err(failure(&fault))
            }
            Err(Unheard::Broken(why)) => Err(Failure::Spoilt(why)),
        }
    }

    async fn whole(
        &self,
        server: Server,
        request: Request<Body>,
        within: Duration,
    ) -> Result<Response<Bytes>, Unheard> {
        let (mut head, body) = request.into_parts();
        let asked = hygiene::clean_request(&mut head);
        // What is answered is read here.
        head.headers.remove(header::ACCEPT_ENCODING);
        if !head.headers.contains_key(header::HOST)
            && let Ok(name) = HeaderValue::from_str(&self.servers[server].name)
        {
            head.headers.insert(header::HOST, name);
        }
        let connect = self.connect_timeout.min(within);
        let plan = Plan { connect, wait: connect, response: within, idle: within, max_idle: KEEP };
        let answer = self.sent(server, Request::from_parts(head, body), plan).await?;
        let (mut head, mut body) = answer.into_parts();
        let body = match body.take_whole() {
            Some(body) => body,
            None if body.size_hint().lower() > MOST_BYTES as u64 => return Err(too_long()),
            None => match Limited::new(body, MOST_BYTES).collect().await {
                Ok(body) => body.to_bytes(),
                Err(error) => return Err(broken(&*error)),
            },
        };
        hygiene::clean_answer(head.status, &mut head.headers, &asked, Some(body.len() as u64));
        Ok(Response::from_parts(head, body))
    }

    /// Once more over a new connection where a kept one was closed under it.
    async fn sent(
        &self,
        server: Server,
        request: Request<Body>,
        plan: Plan,
    ) -> Result<Response<Answer<Dial, Body>>, Unheard> {
        let (way, plan) = (&self.ways[server], plan.of(request.method()));
        let failure = match pass(way, request, plan).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        if !failure.reused || !matches!(failure.fault, Fault::Closed) {
            return Err(Unheard::Fault(failure.fault));
        }
        match failure.again() {
            Ok(request) => {
                pass(way, request, plan.afresh()).await.map_err(|failure| Unheard::Fault(failure.fault))
            }
            Err(failure) => Err(Unheard::Fault(failure.fault)),
        }
    }
}

/// Why there is no whole answer.
enum Unheard {
    Fault(Fault),
    Broken(String),
}

fn too_long() -> Unheard {
    Unheard::Broken(format!("its answer has more than {MOST_BYTES} bytes"))
}

fn broken(error: &(dyn std::error::Error + 'static)) -> Unheard {
    match error.downcast_ref::<pass::Broken>() {
        Some(why) => Unheard::Broken(format!("its answer broke off: {why}")),
        None => too_long(),
    }
}

fn failure(fault: &Fault) -> Failure {
    match fault {
        // What this host lacks says nothing of the server.
        Fault::Full | Fault::Connect(ConnectFault::Impossible(_)) => Failure::Full,
        Fault::Connect(ConnectFault::TimedOut) => Failure::Unreachable("no connection in time".to_owned()),
        Fault::Connect(fault) => Failure::Unreachable(fault.to_string()),
        Fault::TimedOut | Fault::SlowClient => Failure::TimedOut,
        Fault::Closed | Fault::Broken(_) | Fault::BrokenClient => Failure::Spoilt(fault.to_string()),
    }
}

impl Servers for LegacyServers {
    fn count(&self) -> usize {
        self.servers.len()
    }

    fn well(&self, caller: IpAddr) -> SmallVec<[Server; 4]> {
        order(self.servers.len(), caller, None, |server| self.servers[server].health.is_up())
    }

    fn ask(
        &self,
        server: Server,
        sent: Sent,
        within: Duration,
    ) -> BoxFuture<'_, Result<Response<Bytes>, Failure>> {
        let Sent { mut request, peer } = sent;
        self.sign(&mut request, peer);
        self.exchange(server, request.map(Full::new), within).boxed()
    }

    fn look(
        &self,
        server: Server,
        path: &'static str,
        within: Duration,
    ) -> BoxFuture<'_, Result<Response<Bytes>, Failure>> {
        let mut request = Request::new(Full::default());
        match format!("{}{path}", self.context_path).parse() {
            Ok(uri) => *request.uri_mut() = uri,
            Err(error) => return std::future::ready(Err(Failure::Spoilt(error.to_string()))).boxed(),
        }
        self.exchange(server, request, within).boxed()
    }

    fn name(&self, server: Server) -> String {
        self.servers[server].name.to_string()
    }

    fn sweep(&self) {
        self.ways.iter().for_each(Upstream::sweep);
    }
}

impl LegacyServers {
    fn sign(&self, request: &mut Request<Bytes>, peer: SocketAddr) {
        let trusted = self.trusted.iter().any(|network| network.contains(peer.ip()));
        let host = request.headers().get(header::HOST).cloned();
        let caller = Caller { address: peer.ip(), scheme: "http", host: host.as_ref(), trusted };
        hygiene::sign(request.headers_mut(), caller);
    }
}
