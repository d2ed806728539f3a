//! A node that starts beside two members of 1.x whose copies of each other's services are old: an instance that has left its
//! owner is still in the other's copy. Members of 1.x take what they are sent for newer than what they have.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, SystemTime},
};

use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Collected, Full};
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use nacre::{
    cluster::{Address, Mapping},
    distro::mapper::owner_in,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::{cluster::Cluster, http::Ask};

const SERVICES: usize = 30;
const KEY: &str = "com.alibaba.nacos.naming.iplist.ephemeral.public##DEFAULT_GROUP@@";
/// For the first comparison after the start.
const COMPARED: Duration = Duration::from_secs(30);

fn name(number: usize) -> String {
    format!("s{number}")
}

/// Who owns a service in this ring.
fn owner<'a>(ring: &'a [Address], service: &str) -> &'a Address {
    owner_in(ring, Mapping::Modulo, &format!("DEFAULT_GROUP@@{service}")).unwrap()
}

/// A member of 1.x, as far as a node that starts needs one.
struct Legacy {
    own: Address,
    members: Vec<Address>,
    /// Those that it takes for owners.
    ring: Vec<Address>,
    /// Services whose lists were put there, and what they held.
    put: Mutex<BTreeMap<String, BTreeSet<String>>>,
    /// How often it was compared with.
    compared: Mutex<usize>,
    /// How often it was told of health.
    told_health: Mutex<usize>,
    /// What became of the questions for health, of whichever member.
    asked: Arc<Mutex<Vec<Asked>>>,
    /// It never answers those.
    hangs: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Answered,
    GivenUp,
}

/// A question that isn't answered until whoever asks gives it up.
struct Unanswered<'a>(&'a Legacy);

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.0.asked.lock().push(Asked::GivenUp);
    }
}

impl Legacy {
    /// One that is asked at its address until the test ends.
    async fn start(
        own: Address,
        members: Vec<Address>,
        ring: Vec<Address>,
        asked: Arc<Mutex<Vec<Asked>>>,
    ) -> Arc<Self> {
        let listener = TcpListener::bind(own.as_str()).await.unwrap();
        let legacy = Arc::new(Self {
            own,
            members,
            ring,
            put: Mutex::default(),
            compared: Mutex::default(),
            told_health: Mutex::default(),
            asked,
            hangs: AtomicBool::new(false),
        });
        let shared = Arc::clone(&legacy);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let legacy = Arc::clone(&shared);
                let answer = service_fn(move |request| {
                    let legacy = Arc::clone(&legacy);
                    async move { legacy.answer(request).await }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
            }
        });
        legacy
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
        let answer = match (&head.method, head.uri.path()) {
            (&Method::GET, "/nacos/v1/ns/distro/datums") => self.data(),
            (&Method::GET, "/nacos/v1/core/cluster/nodes") => self.nodes(),
            (&Method::POST, "/nacos/v1/core/cluster/report") => {
                json!({"code": 200, "message": null, "data": "true"})
            }
            (&Method::PUT, "/nacos/v1/ns/distro/datum") => self.took(&body),
            (&Method::PUT, "/nacos/v1/ns/distro/checksum") => {
                *self.compared.lock() += 1;
                json!("ok")
            }
            (&Method::POST, "/nacos/v1/ns/service/status") => {
                *self.told_health.lock() += 1;
                json!("ok")
            }
            (&Method::GET, "/nacos/v1/ns/instance/statuses") => {
                if self.hangs.load(Relaxed) {
                    let _unanswered = Unanswered(self);
                    pending::<()>().await;
                }
                self.asked.lock().push(Asked::Answered);
                json!({"ips": ["10.0.0.1:80_false"]})
            }
            _ => json!("ok"),
        };
        Ok(Response::new(Full::from(answer.to_string())))
    }

    /// Of its own services what they have now; of the others the copy in which one is that has left, and another is older.
    fn data(&self) -> Value {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
        let data = (0..SERVICES).map(|number| {
            let is_own = *owner(&self.ring, &name(number)) == self.own;
            let instance = |ip: &str, weight: f64| json!({"ip": ip, "port": 80, "weight": weight, "lastBeat": now - 9_000});
            let mut list = vec![instance("10.0.0.1", if is_own { 5.0 } else { 1.0 })];
            if !is_own {
                list.push(instance("10.0.0.9", 1.0));
            }
            let key = format!("{KEY}{}", name(number));
            (key.clone(), json!({"key": key, "timestamp": 1, "value": {"instanceList": list}}))
        });
        Value::Object(data.collect())
    }

    fn nodes(&self) -> Value {
        let node = |address: &Address| {
            let state = if self.ring.contains(address) { "UP" } else { "DOWN" };
            json!({"ip": address.host(), "port": address.port(), "state": state, "address": address.as_str()})
        };
        let nodes: Vec<Value> = self.members.iter().map(node).collect();
        json!({"code": 200, "message": null, "data": nodes})
    }

    fn took(&self, body: &[u8]) -> Value {
        let data: serde_json::Map<String, Value> = serde_json::from_slice(body).unwrap();
        for (key, datum) in data {
            let instances = datum["value"]["instanceList"].as_array().unwrap().iter();
            let ips = instances.map(|instance| instance["ip"].as_str().unwrap().to_owned());
            self.put.lock().entry(key[KEY.len()..].to_owned()).or_default().extend(ips);
        }
        json!("ok")
    }
}

/// A node that starts beside two members of 1.x and has compared itself with them; they `know` it already, or take it for DOWN.
async fn started(known: bool) -> (Cluster, [Arc<Legacy>; 2], Vec<Address>) {
    let mut cluster = Cluster::new(3, &["nacre.peer.networks=127.0.0.0/8"]);
    cluster.list(0, &[0, 1, 2]);
    let mut all: Vec<Address> = (0..3).map(|place| Address::new(&cluster.at(place).to_string())).collect();
    let (own, theirs) = (all[0].clone(), [all[1].clone(), all[2].clone()]);
    all.sort();
    let ring: Vec<Address> = all.iter().filter(|member| known || **member != own).cloned().collect();
    let asked = Arc::default();
    let [one, other] =
        theirs.map(|address| Legacy::start(address, all.clone(), ring.clone(), Arc::clone(&asked)));
    let legacy = [one.await, other.await];
    cluster.start(0).await;
    cluster.ready(0).await;
    let compared = async || legacy.iter().all(|legacy| *legacy.compared.lock() > 0);
    if !known {
        cluster.until("it has compared", COMPARED, compared).await;
    }
    (cluster, legacy, ring)
}

#[tokio::test]
async fn a_node_that_joins_has_what_the_owners_have_and_sends_none_of_them_what_was_its_own() {
    let (cluster, legacy, ring) = started(false).await;
    for number in 0..SERVICES {
        let service = name(number);
        let list = cluster.ok(0, "GET", &format!("/v1/ns/instance/list?serviceName={service}")).await.json();
        let shown = list["hosts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|host| (host["ip"].as_str(), host["weight"].as_f64()));
        assert!(shown.eq([(Some("10.0.0.1"), Some(5.0))]), "{service}: the other has left; {list}");
    }
    for legacy in legacy {
        let put = legacy.put.lock();
        assert!(!put.is_empty(), "what is another's now, and may be its own in a moment");
        assert!(put.keys().all(|service| *owner(&ring, service) != legacy.own), "{put:?}");
        assert!(put.values().flatten().all(|ip| ip == "10.0.0.1"), "{put:?}");
    }
}

#[tokio::test]
async fn a_node_that_nobody_missed_sends_nobody_what_others_own() {
    let (cluster, legacy, ring) = started(true).await;
    let own = Address::new(&cluster.at(0).to_string());
    // The first thing that it sends of its own accord comes after what it would send at a start.
    let service = (0..SERVICES).map(name).find(|service| *owner(&ring, service) == own).unwrap();
    cluster.ok(0, "POST", &format!("/v1/ns/instance?serviceName={service}&ip=10.0.0.2&port=80")).await;
    let told = async || {
        legacy
            .iter()
            .all(|legacy| legacy.put.lock().get(&service).is_some_and(|ips| ips.contains("10.0.0.2")))
    };
    cluster.until("they are told of a new one", COMPARED, told).await;
    for legacy in legacy {
        let put = legacy.put.lock();
        assert!(put.keys().all(|service| *owner(&ring, service) == own), "{put:?}");
    }
}

#[tokio::test]
async fn a_member_that_says_nothing_of_health_keeps_the_other_s_from_nobody() {
    let (cluster, legacy, ring) = started(true).await;
    // Those that are asked in turn are asked in the order of their addresses.
    let (mute, other) = (&legacy[0], &legacy[1]);
    assert!(mute.own < other.own);
    mute.hangs.store(true, Relaxed);
    for legacy in [mute, other] {
        let theirs = (0..SERVICES).map(name).filter(|service| *owner(&ring, service) == legacy.own);
        let unlike: serde_json::Map<_, _> =
            theirs.map(|service| (format!("DEFAULT_GROUP@@{service}"), json!("unlike"))).collect();
        let statuses = json!({"namespaceId": "public", "serviceName2Checksum": unlike}).to_string();
        let body = json!({"clientIP": legacy.own.as_str(), "statuses": statuses}).to_string();
        let ask = Ask::new("POST", "/nacos/v1/ns/service/status").with(&[], body);
        assert_eq!(cluster.http.ask(cluster.at(0), ask).await.unwrap().text(), "ok");
    }
    let service = (0..SERVICES).map(name).find(|service| *owner(&ring, service) == other.own).unwrap();
    let unhealthy = async || {
        let path =
            format!("/v1/ns/catalog/instances?serviceName={service}&clusterName=DEFAULT&pageSize=9&pageNo=1");
        cluster.ok(0, "GET", &path).await.json()["list"][0]["healthy"] == json!(false)
    };
    cluster.until("it has the health of the other's", COMPARED, unhealthy).await;
    assert_eq!(mute.asked.lock()[0], Asked::Answered, "while the question to the one that hangs was open");
    let told = async || legacy.iter().all(|legacy| *legacy.told_health.lock() > 0);
    cluster.until("both are told of health", COMPARED, told).await;
}
