//! A node without sockets: requests go straight into the stack of layers.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::SystemTime};

use bytes::Bytes;
use futures_util::{
    FutureExt as _,
    future::{BoxFuture, ready},
};
use http::{HeaderMap, Request};
use http_body_util::Full;
use nacre::{
    api::{
        Api, V1Call, node,
        observe::Sight,
        ownership::{Ownership, Ring, With},
        routes::{self, Row, Table},
    },
    base::clock::Clock,
    cluster::{Address, Cluster, Doorkeeper, Mapping, MemberState, Peer, Peers, Standing, View},
    config::Settings,
    cp::{self, Applied},
    distro::Distro,
    gateway::Gateway,
    model::{Registry, ServiceKey, change::Changes},
    observe::{Meters, logs},
    push::Push,
    stack,
};
use nacre_middleware::{
    V1Response,
    collect::{Limits, Routed},
    forwarder::StandIn,
};
use tokio_util::sync::CancellationToken;
use tower_service::Service;

/// What a request consists of here.
pub type Sent = Request<Full<Bytes>>;

/// A node with a set clock and a store of its own.
pub struct Node<S> {
    /// All services.
    pub registry: Arc<Registry>,
    /// Stands still until it is told.
    pub clock: Clock,
    /// Its store.
    pub cp: cp::Handle,
    /// Of the last answer: what a connection takes for its next request.
    pub spare: HeaderMap,
    /// Where its requests come from.
    pub caller: SocketAddr,
    /// Its members.
    pub cluster: Cluster,
    table: Arc<Table>,
    service: S,
    folder: Arc<tempfile::TempDir>,
}

/// Starts one.
pub fn start()
-> Node<impl Service<Routed<Row, Full<Bytes>>, Response = V1Response, Error = Infallible> + Clone + Send> {
    start_in(Arc::new(tempfile::tempdir().unwrap()))
}

/// Starts one on what another has left in `folder`.
pub fn start_in(
    folder: Arc<tempfile::TempDir>,
) -> Node<impl Service<Routed<Row, Full<Bytes>>, Response = V1Response, Error = Infallible> + Clone + Send> {
    start_as(
        Cluster::alone(Address::new("127.0.0.1:8848"), Clock::set(1_796_000_000_000)),
        Settings::default(),
        folder,
        None,
    )
}

/// A cluster in which this node owns everything, since its peer is down.
struct Survivor(Arc<View>);

impl Ring for Survivor {
    fn view(&self) -> arc_swap::Guard<Arc<View>> {
        arc_swap::Guard::from_inner(Arc::clone(&self.0))
    }
    fn is_stale(&self) -> bool {
        false
    }
    fn refused(&self, _: &Address) {}
    fn serves_nobody(&self, _: &Address) {}
    fn answered(&self, _: &Address) {}
    fn is_member(&self, _: &V1Call) -> bool {
        false
    }
    fn fetch(&self, _: &Address, _: ServiceKey) -> BoxFuture<'static, ()> {
        Box::pin(ready(()))
    }
    fn brought(&self, _: &Address, _: &ServiceKey) -> Option<BoxFuture<'static, ()>> {
        None
    }

    fn stood_in(&self, _: ServiceKey, _: StandIn) {}
}

/// Starts one whose only peer is down.
pub fn start_as_survivor()
-> Node<impl Service<Routed<Row, Full<Bytes>>, Response = V1Response, Error = Infallible> + Clone + Send> {
    let peer = Peer::new(Address::new("10.0.0.2:8848"), MemberState::Down);
    let view = View::new(Address::new("10.0.0.1:8848"), Standing::Serving, vec![peer], Mapping::Modulo);
    let (cluster, ring) =
        (Cluster::alone(view.own.clone(), Clock::set(0)), Arc::new(Survivor(Arc::new(view))));
    start_as(cluster, Settings::default(), Arc::new(tempfile::tempdir().unwrap()), Some(ring))
}

/// Starts one that has these members and settings; of a cluster where it has a ring.
pub fn start_as(
    cluster: Cluster,
    settings: Settings,
    folder: Arc<tempfile::TempDir>,
    ring: Option<Arc<dyn Ring>>,
) -> Node<impl Service<Routed<Row, Full<Bytes>>, Response = V1Response, Error = Infallible> + Clone + Send> {
    start_among(cluster, settings, folder, ring, |_, _, _, _| None)
}

/// Starts one that exchanges data with these members by `protocol`.
pub fn start_among(
    cluster: Cluster,
    settings: Settings,
    folder: Arc<tempfile::TempDir>,
    ring: Option<Arc<dyn Ring>>,
    protocol: impl FnOnce(Cluster, Arc<Registry>, Arc<Changes>, Clock) -> Option<Distro>,
) -> Node<impl Service<Routed<Row, Full<Bytes>>, Response = V1Response, Error = Infallible> + Clone + Send> {
    let settings = Settings { data_dir: folder.path().to_owned(), ..settings };
    let own = cluster.view().own.clone();
    let (clock, changes) = (Clock::set(1_796_000_000_000), Arc::new(Changes::default()));
    let registry = Arc::new(Registry::new(Arc::clone(&changes), (&settings.naming).into()));
    let applied = Applied {
        registry: Arc::clone(&registry),
        switches: Arc::default(),
        namespaces: Arc::default(),
        clock: clock.clone(),
    };
    let limits = Limits {
        max_body_bytes: settings.http.max_body_bytes,
        body_timeout: settings.http.body_timeout,
        max_collecting_bytes: settings.http.max_collecting_bytes,
    };
    let meters = Meters::new(routes::labels());
    let logs = Arc::new(logs::prepare(&settings.log, false).unwrap().0);
    let api = Arc::new(Api {
        node: node::Node::new(clock.wall_ms()).unwrap(),
        push: Push::new(&settings.push),
        proxy: None,
        sight: Sight {
            meters,
            sweeps: Arc::default(),
            logs,
            stopped: CancellationToken::new(),
            started: SystemTime::now(),
        },
        clock: clock.clone(),
        registry: Arc::clone(&registry),
        switches: Arc::clone(&applied.switches),
        namespaces: Arc::clone(&applied.namespaces),
        cp: cp::Handle::open(&settings.data_dir, applied).unwrap(),
        peers: Peers::new(own.clone(), 1, &settings),
        cluster: cluster.clone(),
        doorkeeper: Doorkeeper::new(&settings.cluster),
        gateway: None,
        legacy_naming: None,
        distro: protocol(cluster.clone(), Arc::clone(&registry), changes, clock.clone()),
        own_address: own.as_str().into(),
        settings: Arc::new(settings),
    });
    let (table, cp) = (Arc::new(Table::new("/nacos")), api.cp.clone());
    let forwarder = stack::forwarder(&api, Ownership::new(ring, With::of(&api)));
    let service = stack::v1(api, None::<Gateway<Full<Bytes>>>, limits, forwarder);
    let caller = SocketAddr::from(([127, 0, 0, 1], 50_000));
    Node { registry, clock, cp, spare: HeaderMap::new(), caller, cluster, table, service, folder }
}

impl<S: Clone> Node<S> {
    /// The same node, to be asked by another thread.
    pub fn another_door(&self) -> Self {
        let (table, service, folder) =
            (Arc::clone(&self.table), self.service.clone(), Arc::clone(&self.folder));
        let (registry, clock, cp) = (Arc::clone(&self.registry), self.clock.clone(), self.cp.clone());
        let (caller, cluster) = (self.caller, self.cluster.clone());
        Self { registry, clock, cp, spare: HeaderMap::new(), caller, cluster, table, service, folder }
    }
}

impl<S> Node<S> {
    /// Closes the store and gives what is left.
    pub async fn stop(self) -> Arc<tempfile::TempDir> {
        self.cp.stop().await;
        self.folder
    }
}

impl<S> Node<S>
where
    S: Service<Routed<Row, Full<Bytes>>, Response = V1Response, Error = Infallible>,
{
    /// A request as a connection hands it over: in the map that the last answer left.
    pub fn request(&mut self, method: &str, target: &str, headers: &[(&'static str, &'static str)]) -> Sent {
        let mut request =
            Request::builder().method(method).uri(format!("/nacos{target}")).body(Full::default()).unwrap();
        let mut map = std::mem::take(&mut self.spare);
        map.reserve(8);
        for (name, value) in [("host", "test")].iter().chain(headers) {
            map.insert(*name, value.parse().unwrap());
        }
        *request.headers_mut() = map;
        request
    }

    /// The answer; must be called within a runtime where a body comes or something is stored.
    pub async fn send(&mut self, request: Sent) -> V1Response {
        let (facts, peer) = (self.table.find(&request), self.caller);
        match self.service.call(Routed { request, peer, facts }).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    /// The answer of an entry that answers at once.
    pub fn send_now(&mut self, request: Sent) -> V1Response {
        self.send(request).now_or_never().expect("this entry answers at once")
    }

    /// Sends a request that says what client it is; gives status and text of the answer.
    pub async fn ask_as(&mut self, agent: &'static str, method: &str, target: &str) -> (u16, String) {
        let request = self.request(method, target, &[("user-agent", agent)]);
        read(self.send(request).await).await
    }

    /// Sends a request without further headers; gives status and text of the answer.
    pub async fn ask(&mut self, method: &str, target: &str) -> (u16, String) {
        let request = self.request(method, target, &[]);
        read(self.send(request).await).await
    }

    /// Sends a form.
    pub async fn ask_with_form(&mut self, method: &str, target: &str, form: &str) -> (u16, String) {
        let mut request =
            self.request(method, target, &[("content-type", "application/x-www-form-urlencoded")]);
        *request.body_mut() = Full::from(form.to_owned());
        read(self.send(request).await).await
    }
}

/// Status and text of an answer.
pub async fn read(response: V1Response) -> (u16, String) {
    use http_body_util::BodyExt as _;
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}
