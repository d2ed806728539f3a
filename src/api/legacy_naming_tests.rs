//! What calls want of a legacy cluster, and how the answers look.

use std::time::{Duration, SystemTime};

use http_body_util::BodyExt as _;
use nacre_middleware::Call;
use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    api::{
        node::Node,
        observe::Sight,
        routes::{self, Table},
    },
    base::clock::Clock,
    cluster::{Address, Cluster, Doorkeeper, Peers},
    config::Settings,
    cp,
    gateway::naming::{
        Bounds,
        asking::{Failure, Server, Servers},
    },
    model::{Registry, change::Changes},
    observe::{Meters, logs},
    push::Push,
};

/// A server that gives one answer or none, and what it was asked.
#[derive(Default)]
struct One {
    answer: Mutex<Option<Response<Bytes>>>,
    asked: Mutex<Vec<Request<Bytes>>>,
}

impl Servers for One {
    fn count(&self) -> usize {
        1
    }

    fn well(&self, _: std::net::IpAddr) -> SmallVec<[Server; 4]> {
        SmallVec::from_slice(&[0])
    }

    fn ask(&self, _: Server, sent: Sent, _: Duration) -> BoxFuture<'_, Result<Response<Bytes>, Failure>> {
        self.asked.lock().push(sent.request);
        let answer = self.answer.lock().clone().ok_or(Failure::Unreachable("refused".into()));
        ready(answer).boxed()
    }

    fn look(
        &self,
        _: Server,
        _: &'static str,
        _: Duration,
    ) -> BoxFuture<'_, Result<Response<Bytes>, Failure>> {
        ready(Err(Failure::TimedOut)).boxed()
    }

    fn name(&self, _: Server) -> String {
        "legacy".into()
    }
}

struct Node1 {
    legacy: LegacyNaming,
    server: Arc<One>,
    table: Table,
    _folder: tempfile::TempDir,
}

impl Node1 {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings { data_dir: folder.path().to_owned(), ..Settings::default() };
        let (own, clock) = (Address::new("127.0.0.1:8848"), Clock::set(0));
        let registry = Arc::new(Registry::new(Arc::new(Changes::default()), (&settings.naming).into()));
        let applied = cp::Applied {
            registry: Arc::clone(&registry),
            switches: Arc::default(),
            namespaces: Arc::default(),
            clock: clock.clone(),
        };
        let api = Arc::new(Api {
            node: Node::new(0).unwrap(),
            push: Push::new(&settings.push),
            sight: Sight {
                meters: Meters::new(routes::labels()),
                sweeps: Arc::default(),
                logs: Arc::new(logs::prepare(&settings.log, false).unwrap().0),
                stopped: CancellationToken::new(),
                started: SystemTime::now(),
            },
            clock: clock.clone(),
            registry,
            switches: Arc::clone(&applied.switches),
            namespaces: Arc::clone(&applied.namespaces),
            cp: cp::Handle::open(&settings.data_dir, applied).unwrap(),
            peers: Peers::new(own.clone(), 1, &settings),
            cluster: Cluster::alone(own.clone(), clock.clone()),
            doorkeeper: Doorkeeper::new(&settings.cluster),
            distro: None,
            proxy: None,
            gateway: None,
            legacy_naming: None,
            own_address: own.as_str().into(),
            settings: Arc::new(settings),
        });
        let server = Arc::<One>::default();
        let bounds =
            Bounds { stale: Duration::from_secs(600), max_kept: 10, patience: Duration::from_secs(30) };
        let naming = Naming::new(Arc::clone(&server) as Arc<dyn Servers>, bounds, clock);
        Self { legacy: LegacyNaming::new(api, naming), server, table: Table::new("/nacos"), _folder: folder }
    }

    fn answers(&self, status: u16, headers: &[(&str, &str)], body: &str) {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        *self.server.answer.lock() = Some(response.body(body.to_owned().into()).unwrap());
    }

    fn is_away(&self) {
        *self.server.answer.lock() = None;
    }

    fn call(&self, method: &str, target: &str, form: &str) -> V1Call {
        let request = Request::builder().method(method).uri(format!("/nacos{target}")).header("host", "a");
        let request = request
            .header("user-agent", "Nacos-Java-Client:v1.4.8")
            .header("content-type", "application/x-www-form-urlencoded");
        let request = request.body(()).unwrap();
        let facts = self.table.find(&request);
        let (head, ()) = request.into_parts();
        Call { head, body: form.to_owned().into(), peer: ([10, 0, 0, 9], 4_000).into(), facts }
    }

    /// Status, headers as text, body; nothing where the call isn't the cluster's.
    async fn ask(&self, method: &str, target: &str, form: &str) -> Option<(u16, String, String)> {
        let answer = self.legacy.answer(self.call(method, target, form)).ok()?.await;
        let (head, body) = answer.into_parts();
        let mut headers: Vec<String> =
            head.headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        headers.sort_unstable();
        let bare = if head.extensions.get::<Bare>().is_some() { "bare; " } else { "" };
        let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        Some((head.status.as_u16(), format!("{bare}{}", headers.join("; ")), body))
    }

    /// What the server was asked last: method and target, body.
    fn asked(&self) -> (String, String) {
        let request = self.server.asked.lock().pop().unwrap();
        let body = String::from_utf8(request.body().to_vec()).unwrap();
        (format!("{} {}", request.method(), request.uri()), body)
    }
}

const LIST_OF_1: &str = r#"{"hosts":[{"ip":"10.0.0.7","port":1,"weight":1.0,"clusterName":"DEFAULT","metadata":{"preserved.heart.beat.interval":"3000"},"ephemeral":true}],"name":"DEFAULT_GROUP@@a"}"#;

#[tokio::test]
async fn all_under_the_naming_path_goes_on_as_it_came_and_nothing_else() {
    let node = Node1::start();
    node.answers(200, &[("content-length", "2"), ("vary", "Origin")], "ok");
    for (method, target, form) in [
        ("POST", "/v1/ns/instance?serviceName=a&ip=10.0.0.7&port=1", ""),
        ("PUT", "/v1/ns/instance", "serviceName=a&ip=%20"),
        ("GET", "/v1/ns/no/such/entry?a=%E4", ""),
        ("PUT", "/v1/ns/operator/switches?entry=check&value=false", ""),
    ] {
        let answer = node.ask(method, target, form).await.unwrap();
        assert_eq!(answer, (200, "bare; vary: Origin".into(), "ok".into()));
        assert_eq!(node.asked(), (format!("{method} /nacos{target}"), form.to_owned()));
    }
    for target in ["/v1/core/cluster/nodes", "/v1/console/health/readiness", "/", "/v1/cs/configs"] {
        assert_eq!(node.ask("GET", target, "").await, None, "{target}");
    }
    assert!(node.server.asked.lock().is_empty());
}

#[tokio::test]
async fn what_only_members_may_is_not_done_in_this_nodes_name() {
    let node = Node1::start();
    node.answers(200, &[], "ok");
    let (status, ..) = node.ask("PUT", "/v1/ns/distro/datum", "").await.unwrap();
    assert_eq!(status, 403);
    assert!(node.server.asked.lock().is_empty());
}

#[tokio::test]
async fn who_wants_pushes_and_says_not_where_is_named_by_its_address() {
    let node = Node1::start();
    node.answers(200, &[], LIST_OF_1);
    for (query, expected) in [
        ("serviceName=a&udpPort=5000", "clientIP=10.0.0.9&serviceName=a&udpPort=5000"),
        ("serviceName=a&udpPort=5000&clientIP=", "clientIP=10.0.0.9&serviceName=a&udpPort=5000&clientIP="),
        ("serviceName=a&udpPort=5000&clientIP=1.2.3.4", "serviceName=a&udpPort=5000&clientIP=1.2.3.4"),
        ("serviceName=a&udpPort=0", "serviceName=a&udpPort=0"),
        ("serviceName=a", "serviceName=a"),
    ] {
        node.ask("GET", &format!("/v1/ns/instance/list?{query}"), "").await;
        assert_eq!(node.asked().0, format!("GET /nacos/v1/ns/instance/list?{expected}"));
    }
    node.ask("GET", "/v1/ns/api/srvIPXT?dom=a&udpPort=1", "").await;
    assert_eq!(node.asked().0, "GET /nacos/v1/ns/api/srvIPXT?clientIP=10.0.0.9&dom=a&udpPort=1");
}

#[tokio::test]
async fn what_is_answered_in_the_clusters_place_looks_as_its_own_answers() {
    let node = Node1::start();
    node.answers(200, &[("content-type", "application/json")], LIST_OF_1);
    node.ask("GET", "/v1/ns/instance/list?serviceName=a&udpPort=1", "").await;
    node.is_away();
    let beat = |ip: &str| format!("/v1/ns/instance/beat?serviceName=DEFAULT_GROUP@@a&ip={ip}&port=1");
    let text = "content-type: text/plain;charset=UTF-8";
    let json = "content-type: application/json";
    for (method, target, status, headers, body) in [
        (
            "GET",
            "/v1/ns/instance/list?serviceName=a&udpPort=9".to_owned(),
            200,
            "content-type: application/json; x-nacre-stale: 0",
            LIST_OF_1,
        ),
        (
            "PUT",
            beat("10.0.0.7"),
            200,
            json,
            r#"{"clientBeatInterval":3000,"code":10200,"lightBeatEnabled":true}"#,
        ),
        ("PUT", beat("10.0.0.8"), 200, json, r#"{"clientBeatInterval":5000,"code":20404}"#),
        ("POST", "/v1/ns/instance?serviceName=a&ip=10.0.0.8&port=1".to_owned(), 200, text, "ok"),
        (
            "PUT",
            beat("10.0.0.8"),
            200,
            json,
            r#"{"clientBeatInterval":5000,"code":10200,"lightBeatEnabled":true}"#,
        ),
        ("DELETE", "/v1/ns/instance?serviceName=a&ip=10.0.0.7&port=1".to_owned(), 200, text, "ok"),
    ] {
        let answer = node.ask(method, &target, "").await.unwrap();
        assert_eq!(answer, (status, headers.to_owned(), body.to_owned()), "{method} {target}");
    }
}

#[tokio::test]
async fn what_cannot_be_answered_is_refused_and_the_client_told_to_come_again() {
    let node = Node1::start();
    node.answers(200, &[], LIST_OF_1);
    node.ask("GET", "/v1/ns/instance/list?serviceName=a", "").await;
    node.is_away();
    for (method, target) in [
        ("GET", "/v1/ns/instance/list?serviceName=b"),
        ("GET", "/v1/ns/instance/list?serviceName=a&clusters=C"),
        ("GET", "/v1/ns/service/list?pageNo=1&pageSize=10"),
        ("PUT", "/v1/ns/instance?serviceName=a&ip=10.0.0.7&port=1&weight=2"),
        // It would be refused by the registry.
        ("POST", "/v1/ns/instance?serviceName=a&ip=10.0.0.7&port=x"),
        ("POST", "/v1/ns/instance?serviceName=a&ip=10.0.0.7&port=1&weight=20000"),
        ("POST", "/v1/ns/instance?ip=10.0.0.7&port=1"),
    ] {
        let (status, headers, body) = node.ask(method, target, "").await.unwrap();
        assert_eq!(status, 503, "{method} {target}: {body}");
        assert!(headers.contains("retry-after: 1"), "{headers}");
        assert!(body.starts_with("caused: no legacy server answers"), "{body}");
    }
    node.answers(200, &[], "<html>");
    let (status, _, body) = node.ask("GET", "/v1/ns/service/list?pageNo=1&pageSize=10", "").await.unwrap();
    assert_eq!((status, &*body), (502, "caused: the legacy servers give no answer that a registry gives;"));
}

#[tokio::test]
async fn a_form_counts_as_its_query() {
    let node = Node1::start();
    node.is_away();
    let (status, _, body) =
        node.ask("POST", "/v1/ns/instance", "serviceName=a&ip=10.0.0.8&port=1").await.unwrap();
    assert_eq!((status, &*body), (200, "ok"));
    let beat = r#"beat={"ip":"10.0.0.8","port":1,"cluster":"DEFAULT"}&serviceName=a"#;
    let (_, _, body) = node.ask("PUT", "/v1/ns/instance/beat", beat).await.unwrap();
    assert!(body.contains("10200"), "{body}");
}
