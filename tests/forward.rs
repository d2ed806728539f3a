//! Writes passed on over real connections, held against what a real cluster sent: `compat-tests/wire/forward.json`.
//!
//! What must be equal is method, path, parameters as a set, body, status and answer. Where the reference loses a form,
//! shows a Java exception or relays a loop, ours does better; those exchanges are tested for what ours does.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "support/in_process.rs"]
#[allow(dead_code, reason = "each test uses a part of it")]
mod in_process;

use std::{collections::BTreeSet, convert::Infallible, fs, net::Ipv4Addr, path::Path, sync::Arc};

use bytes::Bytes;
use futures_util::future::{BoxFuture, ready};
use http::{HeaderMap, Request};
use http_body_util::Full;
use in_process::{Node, read};
use nacre::{
    api::{V1Call, ownership::Ring, routes::Row},
    base::{clock::Clock, java},
    cluster::{Address, Cluster, Mapping, MemberState, Peer, Standing, View},
    config::Settings,
    distro::mapper::{self, Owner},
    model::ServiceKey,
};
use nacre_middleware::{V1Response, collect::Routed, forwarder::StandIn};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tower_service::Service;

#[derive(Clone, Deserialize)]
struct Exchange {
    name: String,
    request: String,
    headers: Vec<(String, String)>,
    body: String,
    status: String,
    response_headers: Vec<(String, String)>,
    response_body: String,
}

fn exchange(name: &str) -> Exchange {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("compat-tests/wire/forward.json");
    let all: Vec<Exchange> = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    all.into_iter().find(|exchange| exchange.name == name).unwrap()
}

/// What a request consists of, as far as it must be equal.
#[derive(Debug, PartialEq, Eq)]
struct Essence {
    method: String,
    path: String,
    parameters: BTreeSet<(String, String)>,
    body: String,
}

impl Essence {
    fn new(line: &str, body: &str) -> Self {
        let mut words = line.split(' ');
        let (method, target) = (words.next().unwrap(), words.next().unwrap());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let decode = |text: &str| java::url_decode(text).unwrap().into_owned();
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let parameters = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        Self {
            method: method.into(),
            path: path.into(),
            parameters: parameters.map(|(name, value)| (decode(name), decode(value))).collect(),
            body: body.into(),
        }
    }
}

/// A member that gives everybody the same answer and keeps what it was sent.
struct Member {
    address: Address,
    received: mpsc::UnboundedReceiver<(String, HeaderMap, String)>,
}

impl Member {
    async fn start(status: &str, media_type: &str, body: &str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 30, 1), 0)).await.unwrap();
        let address = Address::new(&listener.local_addr().unwrap().to_string());
        let answer = format!(
            "{status}\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\nVary: Origin\r\nSet-Cookie: a=b\r\n\r\n{body}",
            body.len()
        );
        let (sender, received) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, answer.clone(), sender.clone()));
            }
        });
        Self { address, received }
    }

    /// As the owner in this exchange answered.
    async fn answering_as(exchange: &Exchange) -> Self {
        let media_type = exchange.response_headers.iter().find(|(name, _)| name == "Content-Type");
        Self::start(&exchange.status, &media_type.unwrap().1, &exchange.response_body).await
    }

    fn got(&mut self) -> (Essence, HeaderMap) {
        let (line, headers, body) = self.received.try_recv().unwrap();
        (Essence::new(&line, &body), headers)
    }

    fn got_nothing(&mut self) -> bool {
        self.received.try_recv().is_err()
    }
}

/// Answers each request of a connection.
async fn serve(
    mut stream: TcpStream,
    answer: String,
    sender: mpsc::UnboundedSender<(String, HeaderMap, String)>,
) {
    let mut bytes = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = memchr::memmem::find(&bytes, b"\r\n\r\n") {
                break end;
            }
            if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                return;
            }
        };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let (line, rest) = head.split_once("\r\n").unwrap();
        let mut headers = HeaderMap::new();
        for (name, value) in rest.split("\r\n").map(|header| header.split_once(": ").unwrap()) {
            let name: http::HeaderName = name.parse().unwrap();
            headers.append(name, value.parse().unwrap());
        }
        let length =
            headers.get("content-length").map_or(0, |length| length.to_str().unwrap().parse().unwrap());
        while bytes.len() < end + 4 + length {
            stream.read_buf(&mut bytes).await.unwrap();
        }
        let body = String::from_utf8(bytes[end + 4..end + 4 + length].to_vec()).unwrap();
        bytes.drain(..end + 4 + length);
        sender.send((line.to_owned(), headers, body)).unwrap();
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

/// A cluster of this node and one member, which owns all until it refuses.
struct Two {
    view: Mutex<Arc<View>>,
    stood_in: Mutex<Vec<String>>,
}

impl Ring for Two {
    fn view(&self) -> arc_swap::Guard<Arc<View>> {
        arc_swap::Guard::from_inner(Arc::clone(&self.view.lock()))
    }

    fn is_stale(&self) -> bool {
        false
    }

    fn refused(&self, address: &Address) {
        let mut view = self.view.lock();
        let peers = view.peers.iter().cloned().map(|mut peer| {
            if peer.address == *address {
                peer.state = MemberState::Down;
            }
            peer
        });
        *view = Arc::new(View::new(view.own.clone(), Standing::Serving, peers.collect(), view.mapping));
    }
    fn serves_nobody(&self, address: &Address) {
        self.refused(address);
    }
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

    fn stood_in(&self, service: ServiceKey, why: StandIn) {
        self.stood_in.lock().push(format!("{service} {why:?}"));
    }
}

/// A ring in which `member` owns the service of this name, or this node does.
fn ring(member: &Address, nacre: Option<u32>, name: &str, ours: bool) -> Arc<Two> {
    let view = |own: &str| {
        let peer = Peer { nacre, ..Peer::new(member.clone(), MemberState::Up) };
        View::new(Address::new(own), Standing::Serving, vec![peer], Mapping::Modulo)
    };
    let of = |view: &View| (mapper::owner(view, name) == Owner::Here) == ours;
    let view = ["10.0.0.1:8848", "192.0.2.1:8848"].map(view).into_iter().find(of).unwrap();
    Arc::new(Two { view: Mutex::new(Arc::new(view)), stood_in: Mutex::default() })
}

fn start(
    ring: &Arc<Two>,
) -> Node<impl Service<Routed<Row, Full<Bytes>>, Response = V1Response, Error = Infallible> + Clone + Send> {
    let (own, ring) = (ring.view().own.clone(), Arc::clone(ring) as Arc<dyn Ring>);
    let folder = Arc::new(tempfile::tempdir().unwrap());
    in_process::start_as(Cluster::alone(own, Clock::set(0)), Settings::default(), folder, Some(ring))
}

fn request(exchange: &Exchange) -> in_process::Sent {
    let mut words = exchange.request.split(' ');
    let mut request = Request::builder().method(words.next().unwrap()).uri(words.next().unwrap());
    for (name, value) in &exchange.headers {
        request = request.header(name, value);
    }
    request.body(Full::from(exchange.body.clone())).unwrap()
}

/// The grouped name in a request.
fn name_of(exchange: &Exchange) -> String {
    let mut parameters = Essence::new(&exchange.request, "").parameters;
    parameters.extend(Essence::new(&format!("- ?{}", exchange.body), "").parameters);
    let name = parameters.into_iter().find(|(name, _)| name == "serviceName").unwrap().1;
    if name.contains("@@") { name } else { format!("DEFAULT_GROUP@@{name}") }
}

/// The number of an exchange's status.
fn status_of(exchange: &Exchange) -> u16 {
    exchange.status.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Sends what the client sent in `asked` to a node of a cluster with a 1.x member, which owns the service and answers
/// as in `answered`; gives the answer, what the member was sent, and its headers.
async fn pass_on(asked: &Exchange, answered: &Exchange) -> ((u16, String), Essence, HeaderMap) {
    let mut member = Member::answering_as(answered).await;
    let ring = ring(&member.address, None, &name_of(asked), false);
    let answer = read(start(&ring).send(request(asked)).await).await;
    let (essence, headers) = member.got();
    assert!(member.got_nothing(), "{}", asked.name);
    (answer, essence, headers)
}

/// What a client must have sent, of whom only what the first node made of it was recorded.
fn before(passed_on: &Exchange) -> Exchange {
    let request = passed_on.request.replace("&encoding=UTF-8&nofix=1", "");
    Exchange { request, headers: vec![("Host".into(), "a".into())], ..passed_on.clone() }
}

#[tokio::test]
async fn what_is_passed_on_to_a_1x_member_equals_the_recordings() {
    for (asked, passed_on) in [
        (exchange("register_in"), "register_out"),
        (exchange("beat_form_in"), "beat_form_out"),
        (before(&exchange("delete_out")), "delete_out"),
        (before(&exchange("patch_out")), "patch_out"),
        (exchange("error_relayed"), "error_out"),
        (before(&exchange("to_foreign")), "to_foreign"),
        (before(&exchange("to_foreign_persistent")), "to_foreign_persistent"),
    ] {
        let passed_on = exchange(passed_on);
        let ((status, body), essence, headers) = pass_on(&asked, &passed_on).await;
        assert_eq!((status, &body), (status_of(&asked), &asked.response_body), "{}", asked.name);
        assert_eq!(essence, Essence::new(&passed_on.request, &passed_on.body), "{}", passed_on.name);
        for (name, value) in &passed_on.headers {
            let own = headers.get(name).map(|value| value.to_str().unwrap());
            match &*name.to_ascii_lowercase() {
                "cookie" | "connection" => assert_eq!(own, None, "{name}"),
                "user-agent" => assert_eq!(own, Some("Nacos-Server:v1.4.8")),
                "host" => assert!(own.unwrap().starts_with("127.0.30.1:"), "{own:?}"),
                "request-source" => assert!(own.unwrap().ends_with(":8848"), "{own:?}"),
                // The client that lets the sender say what it takes is the recorder's.
                "accept-encoding" => {}
                _ => assert_eq!(own, Some(&**value), "{name} of {}", passed_on.name),
            }
        }
        assert_eq!(headers["x-forwarded-for"], "127.0.0.1");
    }
}

#[tokio::test]
async fn a_lower_case_agent_is_no_servers() {
    let asked = exchange("guard_lowercase");
    let (answer, essence, _) = pass_on(&asked, &asked).await;
    assert_eq!(answer, (200, "ok".into()));
    assert_eq!(essence.parameters.len(), 5);
}

#[tokio::test]
async fn a_form_that_no_uri_can_hold_goes_to_a_1x_member_in_its_query_up_to_500_kib() {
    let form = exchange("mixed_in");
    for (letters, status) in [(100_000, 200), (520_000, 413)] {
        let mut member = Member::answering_as(&exchange("register_out")).await;
        let ring = ring(&member.address, None, &name_of(&form), false);
        let metadata = "x".repeat(letters);
        let asked = Exchange { body: format!("port=22&metadata={metadata}"), ..form.clone() };
        let asked = Exchange {
            headers: asked.headers.into_iter().filter(|(name, _)| name != "Content-Length").collect(),
            ..asked
        };
        let (got, text) = read(start(&ring).send(request(&asked)).await).await;
        assert_eq!(got, status, "{text}");
        if status == 413 {
            assert!(member.got_nothing());
            continue;
        }
        let (essence, _) = member.got();
        let line = format!(
            "POST /nacos/v1/ns/instance?serviceName=fw2&ip=10.0.0.22&port=22&metadata={metadata}&encoding=UTF-8&nofix=1"
        );
        assert!(essence == Essence::new(&line, ""));
    }
}

#[tokio::test]
async fn a_form_of_a_post_is_not_lost_on_the_way() {
    let (answer, essence, _) = pass_on(&exchange("post_form_only"), &exchange("register_out")).await;
    assert_eq!(answer, (200, "ok".into()));
    let line = "POST /nacos/v1/ns/instance?serviceName=fw2&ip=10.0.0.2&port=2&metadata=%7B%22k%22%3A%22x%20y%2Bz%22%7D&encoding=UTF-8&nofix=1";
    assert_eq!(essence, Essence::new(line, ""));

    let (answer, essence, _) = pass_on(&exchange("mixed_in"), &exchange("register_out")).await;
    assert_eq!(answer, (200, "ok".into()));
    let line = "POST /nacos/v1/ns/instance?serviceName=fw2&ip=10.0.0.22&port=22&encoding=UTF-8&nofix=1";
    assert_eq!(essence, Essence::new(line, ""));
}

#[tokio::test]
async fn to_a_nacre_member_a_form_stays_a_form() {
    let asked = exchange("mixed_in");
    let mut member = Member::answering_as(&exchange("register_out")).await;
    let ring = ring(&member.address, Some(1), &name_of(&asked), false);
    let answer = start(&ring).send(request(&asked)).await;
    // Dressed as if it had been given here.
    assert_eq!(answer.headers().get_all("vary").iter().count(), 3);
    assert_eq!(answer.headers()["content-type"], "text/html;charset=UTF-8");
    assert!(!answer.headers().contains_key("set-cookie"));
    assert_eq!(read(answer).await, (200, "ok".into()));
    let (essence, headers) = member.got();
    assert_eq!(essence, Essence::new(&asked.request, &asked.body));
    let shown = ["x-nacre-peer", "x-nacre-hops", "x-nacre-agent", "content-type"]
        .map(|name| headers[name].to_str().unwrap());
    assert_eq!(shown, ["1", "1", "probe/b2", "application/x-www-form-urlencoded"]);
}

#[tokio::test]
async fn a_write_whose_owner_was_just_killed_is_done_here() {
    let asked = exchange("target_down");
    let gone = TcpListener::bind((Ipv4Addr::new(127, 0, 30, 1), 0)).await.unwrap().local_addr().unwrap();
    let ring = ring(&Address::new(&gone.to_string()), None, &name_of(&asked), false);
    let mut node = start(&ring);
    let answer = read(node.send(request(&asked)).await).await;
    assert_eq!(answer, (200, r#"{"clientBeatInterval":5000,"code":10200,"lightBeatEnabled":true}"#.into()));
    let list = node.ask("GET", "/v1/ns/instance/list?serviceName=kc84f4_0").await.1;
    assert!(list.contains("10.20.0.9"), "{list}");
    assert!(ring.stood_in.lock().is_empty());
}

/// A text without what differs from one moment to another.
fn timeless(text: &str) -> String {
    let at = text.find(r#"{"timestamp":""#).map(|at| at + r#"{"timestamp":""#.len()).unwrap();
    let end = at + text[at..].find('"').unwrap();
    [&text[..at], &text[end..]].concat()
}

#[tokio::test]
async fn a_servers_write_of_another_members_service_is_refused_as_recorded() {
    // Of the second, what the node answered to the one that had passed it on was relayed to the client.
    for (mut asked, agent) in
        [(exchange("loop_guard"), None), (exchange("views_differ"), Some("Nacos-Server:1.4.8"))]
    {
        let agents = asked.headers.iter_mut().filter(|(name, _)| name == "User-Agent");
        agents.for_each(|(_, value)| *value = agent.map_or_else(|| value.clone(), ToOwned::to_owned));
        let mut member = Member::answering_as(&asked).await;
        let ring = ring(&member.address, None, &name_of(&asked), false);
        let answer = start(&ring).send(request(&asked)).await;
        assert_eq!(answer.headers()["content-type"], "application/json");
        assert!(!answer.headers().contains_key("vary"));
        let (status, body) = read(answer).await;
        assert_eq!((status, timeless(&body)), (400, timeless(&asked.response_body)));
        assert!(member.got_nothing());
    }
}

#[tokio::test]
async fn a_1x_members_refusal_of_a_loop_is_not_relayed_but_settled_here() {
    let asked = exchange("views_differ");
    let mut member = Member::answering_as(&asked).await;
    let ring = ring(&member.address, None, &name_of(&asked), false);
    let mut node = start(&ring);
    let answer = read(node.send(request(&asked)).await).await;
    assert_eq!(answer, (200, r#"{"clientBeatInterval":5000,"code":10200,"lightBeatEnabled":true}"#.into()));
    assert_eq!(member.got().0.method, "PUT");
    assert_eq!(*ring.stood_in.lock(), ["public##DEFAULT_GROUP@@kc84f4_0 Disagreement"]);
}

#[tokio::test]
async fn reads_are_answered_here() {
    let asked = exchange("read_not_forwarded");
    let mut member = Member::answering_as(&asked).await;
    let ring = ring(&member.address, None, &name_of(&asked), false);
    let answer = read(start(&ring).send(request(&asked)).await).await;
    assert_eq!(answer, (200, asked.response_body));
    assert!(member.got_nothing());
}

#[tokio::test]
async fn a_servers_delete_of_a_service_of_ours_is_done() {
    let asked = exchange("self_delete");
    let mut member = Member::answering_as(&asked).await;
    let ring = ring(&member.address, None, &name_of(&asked), true);
    assert_eq!(read(start(&ring).send(request(&asked)).await).await, (200, "ok".into()));
    assert!(member.got_nothing());
}
