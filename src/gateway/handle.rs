//! Passes one request on: to the first server that takes it.

use std::{
    convert::Infallible,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Instant,
};

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt as _, ready};
use http::{HeaderMap, Request, Response, header};
use http_body::{Body, Frame, SizeHint};
use nacre_middleware::{
    V1Body, V1Response, framing,
    hygiene::{self, Asked, Caller},
    legacy_forward::PassOn,
    pass::{Answer, Broken, Failure, Fault, Plan, Sending, pass},
    pool::{Bounds, Origin, Upload, Upstream},
    resend::{Budget, Progress},
};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{
    answer,
    naming::LegacyServers,
    order::{last_resort, order},
    probe::{self, Probed},
    sessions::{self, Sessions},
    sight::{Server, ServerReadings, Sight, Trial},
    times,
    upload::{Paced, Slow},
};
use crate::{
    base::{burst::Seldom, dial::Dial},
    config::{LegacySettings, Network, Settings},
};

/// Nacre nodes that a request may have passed before.
pub const MOST_HOPS: u8 = 3;
/// Fields of a head that Tomcat takes are 100; as many are added here at most.
const MOST_FIELDS: usize = 100 - 4;
/// Connections to one server that are kept unused.
const MAX_IDLE: usize = 256;

/// The legacy servers; clones share all.
pub struct Gateway<B: Upload> {
    shared: Arc<Shared<B>>,
}

impl<B: Upload> Clone for Gateway<B> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

type Way<B> = Upstream<Dial, Sending<Paced<B>>>;

struct Shared<B: Upload> {
    settings: LegacySettings,
    trusted: Vec<Network>,
    context_path: String,
    servers: Arc<[Server]>,
    /// In the order of `servers`.
    ways: Vec<Way<B>>,
    sessions: Mutex<Sessions>,
    requests: AtomicU64,
    budget: Mutex<Budget>,
    lines: Arc<Seldom>,
    /// The node stops.
    stopped: CancellationToken,
}

impl<B: Upload> Gateway<B> {
    /// One for the servers that the settings name; none where they name none.
    #[must_use]
    pub fn new(settings: &Settings) -> Option<Self> {
        let legacy = settings.legacy.clone();
        if legacy.servers.is_empty() {
            return None;
        }
        let bounds = Bounds {
            max_idle: MAX_IDLE,
            keep: times::KEEP,
            max_in_flight: legacy.max_in_flight,
            max_waiting: legacy.queue,
            ..Bounds::default()
        };
        let names: Vec<String> = legacy.servers.iter().map(crate::config::LegacyServer::authority).collect();
        let ways = names.iter().map(|name| Upstream::new(Origin::plain(name), Dial::default(), bounds));
        let shared = Shared {
            trusted: settings.http.trusted_forwarders.clone(),
            context_path: settings.server.context_path.as_str().to_owned(),
            ways: ways.collect(),
            servers: Server::all(&names),
            settings: legacy,
            sessions: Mutex::default(),
            requests: AtomicU64::new(0),
            budget: Mutex::new(Budget::new(Instant::now())),
            lines: Arc::default(),
            stopped: CancellationToken::new(),
        };
        Some(Self { shared: Arc::new(shared) })
    }

    /// What it shows of the servers.
    #[must_use]
    pub fn sight(&self) -> Arc<dyn Sight> {
        Arc::clone(&self.shared) as Arc<dyn Sight>
    }

    /// The same servers, as naming asks them.
    #[must_use]
    pub fn naming_servers(&self, settings: &Settings) -> LegacyServers {
        LegacyServers::new(settings, Arc::clone(&self.shared.servers), Arc::clone(&self.shared.lines))
    }

    /// Looks after the servers until `stopped`.
    pub async fn look_after(self, stopped: CancellationToken) {
        let (context_path, shared) = (self.shared.context_path.clone(), Arc::clone(&self.shared));
        probe::run(self, context_path, Dial::default(), stopped).await;
        shared.stopped.cancel();
    }
}

impl<B: Upload> Probed for Gateway<B> {
    fn servers(&self) -> &[Server] {
        &self.shared.servers
    }

    fn sweep(&self) {
        self.shared.ways.iter().for_each(Upstream::sweep);
    }
}

impl<B: Upload> Sight for Shared<B> {
    fn read(&self) -> Vec<ServerReadings> {
        let both = self.servers.iter().zip(&self.ways);
        both.map(|(server, way)| {
            let connections = way.readings();
            ServerReadings {
                in_flight: connections.in_flight as u64,
                waiting: connections.waiting as u64,
                idle: connections.idle as u64,
                connected: connections.connected,
                ..server.read()
            }
        })
        .collect()
    }
}

impl<B: Upload> PassOn<B> for Gateway<B> {
    type Future = BoxFuture<'static, Result<V1Response, Infallible>>;

    fn pass_on(&self, request: Request<B>, peer: SocketAddr) -> Self::Future {
        // What waits for an answer is kept small: of long polls there are thousands at a time.
        let outgoing = match self.shared.prepare(request, peer) {
            Ok(outgoing) => outgoing,
            Err(refused) => return ready(Ok(*refused)).boxed(),
        };
        let polls = times::polls(outgoing.request.headers());
        let passing = Arc::clone(&self.shared).pass_to_one_of(outgoing);
        if !polls {
            return passing.map(Ok).boxed();
        }
        // Its answer may be half a minute away, for which a node that stops doesn't wait.
        let (stopped, passing) = (self.shared.stopped.clone(), passing.boxed());
        async move { Ok(stopped.run_until_cancelled(passing).await.unwrap_or_else(answer::stops)) }.boxed()
    }
}

/// A request that may go on.
struct Outgoing<B> {
    request: Box<Request<Paced<B>>>,
    /// Tells whether its body came too slowly.
    slow: Slow,
    plan: Plan,
    asked: Asked,
    caller: IpAddr,
    /// The server of its session.
    session: Option<usize>,
}

impl<B: Upload> Shared<B> {
    /// Makes a request one that goes on, or refuses it.
    fn prepare(&self, request: Request<B>, peer: SocketAddr) -> Result<Outgoing<B>, Box<V1Response>> {
        let (mut head, body) = request.into_parts();
        if let Err(why) = framing::check(&head.method, &head.uri, head.version, &head.headers) {
            return Err(Box::new(answer::ambiguous(why)));
        }
        if head.headers.len() > MOST_FIELDS {
            return Err(Box::new(answer::too_many_fields()));
        }
        // Before anything is written of our own, or a client could take it away by naming it in `Connection`.
        let asked = hygiene::clean_request(&mut head);
        if hygiene::count_hop(&mut head.headers, MOST_HOPS).is_err() {
            return Err(Box::new(answer::circle()));
        }
        let plan = times::plan(&self.settings, &head.method, &head.headers);
        let session = sessions::of_request(&head.headers).and_then(|id| self.sessions.lock().server_of(id));
        self.sign(&mut head.headers, peer);
        let (body, slow) = Paced::new(body, plan.idle);
        let request = Box::new(Request::from_parts(head, body));
        Ok(Outgoing { request, slow, plan, asked, caller: peer.ip(), session })
    }

    /// A server that is down, since none is well; one request at a time.
    fn try_one(&self, caller: IpAddr, session: Option<usize>) -> Option<(usize, Trial<'_>)> {
        let server = last_resort(self.servers.len(), caller, session)?;
        Some((server, self.servers[server].try_anyway()?))
    }

    fn sign(&self, headers: &mut HeaderMap, peer: SocketAddr) {
        let host = headers.get(header::HOST).cloned();
        let trusted = self.trusted.iter().any(|network| network.contains(peer.ip()));
        hygiene::sign(headers, Caller { address: peer.ip(), scheme: "http", host: host.as_ref(), trusted });
    }

    async fn pass_to_one_of(self: Arc<Self>, outgoing: Outgoing<B>) -> V1Response {
        let Outgoing { request, slow, plan, asked, caller, session } = outgoing;
        let is_up = |server: usize| self.servers[server].health.is_up();
        let mut order = order(self.servers.len(), caller, session, is_up);
        let trial = if order.is_empty() { self.try_one(caller, session) } else { None };
        order.extend(trial.as_ref().map(|(server, _)| *server));
        self.requests.fetch_add(1, Relaxed);
        let mut request = Some(request);
        let mut failed = None;
        for server in order {
            let Some(sent) = request.take() else { break };
            let mut failure = match self.pass_to(server, sent, plan).await {
                Ok(answer) => return self.answered(server, answer, &asked),
                Err(failure) => failure,
            };
            if slow.is_it() && matches!(failure.fault, Fault::BrokenClient) {
                failure.fault = Fault::SlowClient;
            }
            self.servers[server].failed(&failure.fault, &self.lines);
            if trial.is_some() && failure.progress == Progress::NothingSent {
                break;
            }
            // Its client has waited for as long as it may.
            let may_go_again = !matches!(failure.fault, Fault::TimedOut) && failure.can_go_again();
            request = failure.request.filter(|_| may_go_again && self.may_try_again());
            failed = Some((server, failure.fault));
        }
        let failed = failed.map(|(server, fault)| answer::failed(&self.servers[server].name, &fault));
        failed.unwrap_or_else(answer::none_is_up)
    }

    /// Sends it to one server: once more over a new connection where a kept one was closed under it.
    async fn pass_to(
        &self,
        server: usize,
        request: Box<Request<Paced<B>>>,
        plan: Plan,
    ) -> Result<Response<Answer<Dial, Paced<B>>>, Failure<Paced<B>>> {
        let way = &self.ways[server];
        let failure = match pass(way, *request, plan).await {
            Err(failure) if failure.reused && matches!(failure.fault, Fault::Closed) => failure,
            outcome => return outcome,
        };
        if !failure.can_go_again() || !self.may_try_again() {
            return Err(failure);
        }
        match failure.again() {
            // Boxed: it is seldom needed, and long.
            Ok(request) => Box::pin(pass(way, request, plan.afresh())).await,
            Err(failure) => Err(failure),
        }
    }

    fn may_try_again(&self) -> bool {
        self.budget.lock().take(Instant::now(), self.requests.load(Relaxed))
    }

    fn answered(&self, server: usize, answer: Response<Answer<Dial, Paced<B>>>, asked: &Asked) -> V1Response {
        self.servers[server].answered(answer.status());
        let (mut head, mut body) = answer.into_parts();
        hygiene::clean_answer(head.status, &mut head.headers, asked, body.size_hint().exact());
        if let Some(id) = sessions::of_answer(&head.headers) {
            self.sessions.lock().began(id, server);
        }
        let body = match body.take_whole() {
            Some(bytes) => V1Body::sized(bytes),
            None => {
                let (servers, lines) = (Arc::clone(&self.servers), Arc::clone(&self.lines));
                V1Body::streamed(Watched { body, servers, server, lines })
            }
        };
        Response::from_parts(head, body)
    }
}

/// An answer that tells of its breaking off.
struct Watched<B: Upload> {
    body: Answer<Dial, Paced<B>>,
    servers: Arc<[Server]>,
    server: usize,
    lines: Arc<Seldom>,
}

impl<B: Upload> Body for Watched<B> {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Err(why))) = &frame {
            self.servers[self.server].broke_off(why, &self.lines);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
