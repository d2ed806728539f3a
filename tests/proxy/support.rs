//! A proxy in this process with a registry of its own, and instances behind it.

use std::{
    convert::Infallible,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use nacre::{
    base::{clock::Clock, watched::Patience},
    config::ProxySettings,
    model::{InstanceKey, Registry, instance::Description, registry::Place},
    proxy::{Certificates, Connector, Door, Proxy, Server, parse_rules},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinHandle,
};
use tokio_rustls::rustls::RootCertStore;
use tokio_util::sync::CancellationToken;

/// The service of most tests.
pub const ORDERS: Place<'static> = Place { namespace: "public", name: "DEFAULT_GROUP@@orders" };
/// One rule: everything goes to it.
pub const RULES: &str = "[[rule]]\nname = \"orders\"\nservice = \"orders\"\n";

/// A proxy that serves until it is dropped.
pub struct Front {
    pub registry: Arc<Registry>,
    pub proxy: Arc<Proxy>,
    pub address: SocketAddr,
    pub clock: Clock,
    pub stopped: CancellationToken,
    pub serving: JoinHandle<()>,
}

impl Drop for Front {
    fn drop(&mut self) {
        self.stopped.cancel();
    }
}

pub async fn front(rules: &str) -> Front {
    front_with(rules, ProxySettings::default(), None, RootCertStore::empty()).await
}

pub async fn front_with(
    rules: &str,
    settings: ProxySettings,
    certificates: Option<Arc<Certificates>>,
    trusted: RootCertStore,
) -> Front {
    front_within(rules, settings, certificates, trusted, Bounds::default()).await
}

/// How much the proxy takes.
#[derive(Clone, Copy)]
pub struct Bounds {
    pub patience: Patience,
    pub clients: usize,
    pub to_instances: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        let patience = Patience {
            idle: Duration::from_secs(60),
            head: Duration::from_secs(20),
            write: Duration::from_secs(30),
            least_rate: 4 << 10,
        };
        Self { patience, clients: 5_000, to_instances: 5_000 }
    }
}

pub async fn front_bounded(rules: &str, bounds: Bounds) -> Front {
    front_within(rules, ProxySettings::default(), None, RootCertStore::empty(), bounds).await
}

async fn front_within(
    rules: &str,
    settings: ProxySettings,
    certificates: Option<Arc<Certificates>>,
    trusted: RootCertStore,
    bounds: Bounds,
) -> Front {
    let registry = Arc::new(Registry::new(Arc::default(), Default::default()));
    let clock = Clock::system();
    let rules = parse_rules(rules).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let connector = Connector::new(trusted, bounds.to_instances);
    let proxy = Proxy::new(settings, Arc::clone(&registry), clock.clone(), rules, connector, 7);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server {
        proxy: Arc::clone(&proxy),
        patience: bounds.patience,
        room: Arc::new(Semaphore::new(bounds.clients)),
    };
    let stopped = CancellationToken::new();
    let doors = vec![Door { listener, certificates }];
    let serving = tokio::spawn(server.run(doors, stopped.clone(), Duration::from_secs(10)));
    tokio::spawn(Arc::clone(&proxy).sweep(stopped.clone()));
    Front { registry, proxy, address, clock, stopped, serving }
}

impl Front {
    pub fn register(&self, at: SocketAddr) {
        self.register_with(at, |_| {});
    }

    pub fn register_with(&self, at: SocketAddr, change: impl FnOnce(&mut Description<'_>)) {
        let ip = at.ip().to_string();
        let mut described = Description::new(&ip, i32::from(at.port()), "DEFAULT");
        change(&mut described);
        self.registry.register(ORDERS, &described, self.clock.now()).unwrap();
    }

    pub fn deregister(&self, at: SocketAddr) {
        let ip = at.ip().to_string();
        let key = InstanceKey { ip: &ip, port: i32::from(at.port()), cluster: "DEFAULT" };
        self.registry.deregister(ORDERS, key, self.clock.now()).unwrap();
    }

    /// Sends raw bytes on a connection of its own, and reads until the other side ends it.
    pub async fn say(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // Who refuses may close before all is written.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let reading = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await;
        assert!(reading.is_ok(), "no end after {:?}", String::from_utf8_lossy(&answer));
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Asks for a path on a connection of its own; the whole answer.
    pub async fn get(&self, path: &str) -> String {
        self.say(format!("GET {path} HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n").as_bytes())
            .await
    }
}

/// Status of an answer.
pub fn status(answer: &str) -> u16 {
    let word = answer.split(' ').nth(1).unwrap_or_default();
    word.parse().unwrap_or_else(|_| panic!("no status: {answer:?}"))
}

/// A pooled client of HTTP/1.1.
pub type Http1Client = Client<hyper_util::client::legacy::connect::HttpConnector, Full<Bytes>>;

pub fn client() -> Http1Client {
    Client::builder(TokioExecutor::new()).build_http()
}

/// An instance that answers as it is told, until it is dropped.
pub struct Instance {
    pub address: SocketAddr,
    pub stopped: CancellationToken,
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.stopped.cancel();
    }
}

/// An answer of an instance.
pub type Said = Response<http_body_util::combinators::BoxBody<Bytes, Infallible>>;

pub fn said(text: impl Into<Bytes>) -> Said {
    Response::new(Full::new(text.into()).boxed())
}

/// Starts an instance of HTTP/1.1 and HTTP/2 that answers with `handler`.
pub async fn instance<H, F>(handler: H) -> Instance
where
    H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Said> + Send + 'static,
{
    let listener = TcpListener::bind((IpAddr::from(Ipv4Addr::LOCALHOST), 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let stopped = CancellationToken::new();
    let until = stopped.clone();
    tokio::spawn(until.clone().run_until_cancelled_owned(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            let handler = handler.clone();
            let service = service_fn(move |request| {
                let answering = handler(request);
                async move { Ok::<_, Infallible>(answering.await) }
            });
            let until = until.clone();
            tokio::spawn(async move {
                let builder = auto::Builder::new(TokioExecutor::new());
                let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
                let _ = until.run_until_cancelled(connection).await;
            });
        }
    }));
    Instance { address, stopped }
}

/// One that says its own port.
pub async fn named() -> Instance {
    let address = Arc::new(std::sync::OnceLock::new());
    let own: Arc<std::sync::OnceLock<SocketAddr>> = Arc::clone(&address);
    let instance = instance(move |_| {
        let own = own.get().map(|own| own.port().to_string()).unwrap_or_default();
        async move { said(own) }
    })
    .await;
    address.set(instance.address).unwrap();
    instance
}

/// An instance that reads what comes and says `answers`, one for each connection and the last for all further ones; what each
/// connection has read. An empty answer is a reset.
pub async fn raw(answers: &'static [&'static str]) -> (SocketAddr, Arc<parking_lot::Mutex<Vec<Vec<u8>>>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let read = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let all = Arc::clone(&read);
    tokio::spawn(async move {
        for number in 0.. {
            let (mut stream, _) = listener.accept().await.unwrap();
            all.lock().push(Vec::new());
            let all = Arc::clone(&all);
            let answer = answers[number.min(answers.len() - 1)];
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                loop {
                    let count = stream.read(&mut buffer).await.unwrap_or(0);
                    if count == 0 {
                        return;
                    }
                    all.lock()[number].extend_from_slice(&buffer[..count]);
                    if !all.lock()[number].windows(4).any(|window| window == b"\r\n\r\n") {
                        continue;
                    }
                    if answer.is_empty() {
                        stream.set_zero_linger().unwrap();
                        return;
                    }
                    if stream.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, read)
}

/// Waits until `holds`, and fails after ten seconds.
pub async fn until(what: &str, holds: impl Fn() -> bool) {
    let end = tokio::time::Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(tokio::time::Instant::now() < end, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
