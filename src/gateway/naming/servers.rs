//! The legacy servers as naming asks them: whole requests, whole answers.
//!
//! Their connections are naming's own, so that long polls that wait at a server take no room from beats; how the servers
//! are is known together with what else is passed on.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use futures_util::future::{BoxFuture, FutureExt as _};
use http::{HeaderValue, Request, Response, header};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Full};
use nacre_middleware::{
    hygiene::{self, Caller},
    pass::{Answer, Fault, Plan, Sending, pass},
    pool::{Bounds, ConnectFault, Origin, Upstream},
};
use smallvec::SmallVec;

use super::{
    asking::{Failure, Server, Servers},
    question::Sent,
    room::{self, Held, NoRoom, Room},
};
use crate::{
    base::{burst::Seldom, dial::Dial},
    config::{Network, Settings},
    gateway::{
        order::{last_resort, order},
        sight,
        times::KEEP,
    },
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
    room: Room,
    lines: Arc<Seldom>,
    /// Of the times that all servers were down, those that somebody has asked for.
    all_down: AtomicU64,
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
            room: Room::new(room::MOST_BYTES),
            lines,
            all_down: AtomicU64::new(0),
        }
    }

    /// The answer in time, or why there is none.
    async fn exchange(
        &self,
        server: Server,
        request: Request<Body>,
        within: Duration,
    ) -> Result<Response<Bytes>, Unheard> {
        let whole = tokio::time::timeout(within, self.whole(server, request, within));
        whole.await.unwrap_or(Err(Unheard::Fault(Fault::TimedOut)))
    }

    async fn asked(
        &self,
        server: Server,
        request: Request<Body>,
        within: Duration,
    ) -> Result<Response<Bytes>, Failure> {
        let seen = &self.servers[server];
        let trial = if seen.health.is_up() { None } else { seen.try_anyway() };
        if trial.is_none() && !seen.health.is_up() {
            return Err(Failure::Unreachable("it is down".to_owned()));
        }
        let answer = self.exchange(server, request, within).await;
        match &answer {
            Ok(answer) => seen.answered(answer.status()),
            Err(Unheard::Fault(fault)) => seen.failed(fault, &self.lines),
            Err(Unheard::Broken(_) | Unheard::NoRoom) => {}
        }
        answer.map_err(failure)
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
            None => {
                let (body, held) = self.collect(body).await?;
                if let Some(held) = held {
                    head.extensions.insert(held);
                }
                body
            }
        };
        hygiene::clean_answer(head.status, &mut head.headers, &asked, Some(body.len() as u64));
        Ok(Response::from_parts(head, body))
    }

    /// All of a body, and the room that it takes.
    async fn collect(&self, mut body: Answer<Dial, Body>) -> Result<(Bytes, Option<Held>), Unheard> {
        let mut room = self.room.enter();
        let mut grow_to = |bytes: usize| match bytes {
            0..=MOST_BYTES => room.grow_to(bytes).map_err(|NoRoom| Unheard::NoRoom),
            _ => Err(Unheard::Broken(format!("its answer has more than {MOST_BYTES} bytes"))),
        };
        let announced = body.size_hint().exact().map(|length| usize::try_from(length).unwrap_or(usize::MAX));
        grow_to(announced.unwrap_or_default())?;
        let mut whole = BytesMut::with_capacity(announced.unwrap_or_default());
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|why| Unheard::Broken(format!("its answer broke off: {why}")))?;
            if let Ok(data) = frame.into_data() {
                grow_to(whole.len() + data.len())?;
                whole.extend_from_slice(&data);
            }
        }
        Ok((whole.freeze(), room.held()))
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
    /// As many bytes as may be are being answered.
    NoRoom,
}

fn failure(why: Unheard) -> Failure {
    let fault = match why {
        Unheard::Fault(fault) => fault,
        Unheard::Broken(why) => return Failure::Spoilt(why),
        Unheard::NoRoom => return Failure::Full,
    };
    match fault {
        // What this host lacks says nothing of the server.
        Fault::Full | Fault::Connect(ConnectFault::Impossible(_)) => Failure::Full,
        Fault::Connect(ConnectFault::Refused(why)) => Failure::Unreachable(why),
        Fault::Connect(fault) => Failure::Unconnected(fault.to_string()),
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

    fn last_resort(&self, caller: IpAddr) -> Option<Server> {
        last_resort(self.servers.len(), caller, None)
    }

    fn were_all_down(&self) -> bool {
        let now = self.servers.first().map_or(0, |server| server.together().all_down());
        now != self.all_down.load(Relaxed) && self.all_down.swap(now, Relaxed) != now
    }

    fn ask(
        &self,
        server: Server,
        sent: Sent,
        within: Duration,
    ) -> BoxFuture<'_, Result<Response<Bytes>, Failure>> {
        let Sent { mut request, peer } = sent;
        self.sign(&mut request, peer);
        self.asked(server, request.map(Full::new), within).boxed()
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
        // How it is to be looked at says nothing of whether it serves.
        async move { self.exchange(server, request, within).await.map_err(failure) }.boxed()
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
