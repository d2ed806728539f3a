//! What stands between this program and a server: does it carry everything, and change that one thing only?

#![allow(clippy::unwrap_used)] // a test's helpers are tests, too

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use compat_tests::between::{Change, How, Kind, Lost, Manner, Place, Relay};
use compat_tests::golden::{Ack, HttpRequest};
use compat_tests::target::{Port, Target};

const LIST: &str = "/nacos/v1/ns/instance/list?serviceName=a";

/// A server that answers every request with the request's target and its own address; one that names a UDP port is
/// pushed a text of JSON, and what it acknowledges is the next answer's body.
fn server() -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let pusher = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        pusher.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut data = [0; 4096];
            let count = stream.read(&mut data).unwrap_or(0);
            let request = String::from_utf8_lossy(&data[..count]).into_owned();
            let Some(target) = request.split(' ').nth(1) else { continue };
            let mut acknowledged = String::new();
            if let Some((_, port)) = target.split_once("udpPort=") {
                let port: u16 = port.parse().unwrap();
                let push = r#"{"type":"dom","data":"{\"hosts\":[]}","lastRefTime":7}"#;
                pusher.send_to(push.as_bytes(), ("127.0.0.1", port)).unwrap();
                let count = pusher.recv(&mut data).unwrap_or(0);
                acknowledged = String::from_utf8_lossy(&data[..count]).replace('"', "'");
            }
            let body = format!(
                "{{\"target\":\"{target}\",\"address\":\"{address}\",\"acknowledged\":\"{acknowledged}\",\"weight\":1.0}}"
            );
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
            let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len());
        }
    });
    address
}

fn through(manner: Manner) -> (Relay, Target) {
    let relay = Relay::open(server(), "/nacos", manner, 1).unwrap();
    let target = Target::parse(&format!("http://{}", relay.address())).unwrap();
    (relay, target)
}

fn ask(target: &Target, path: &str) -> String {
    target.send(&HttpRequest::new("GET", path, Duration::from_secs(5))).unwrap().body
}

fn change(kind: Kind, place: &str, how: How) -> Manner {
    let place = Place::Field(place.split('/').map(str::to_owned).collect());
    Manner { change: Some(Change { kind, place, how }), ..Manner::default() }
}

#[test]
fn one_thing_is_changed_in_the_answers_of_one_kind_and_no_other() {
    let kind = Kind::of("GET", LIST, "/nacos", 200);
    let (relay, target) = through(change(kind, "weight", How::Altered));
    assert!(ask(&target, LIST).ends_with("\"weight\":1}"));
    assert!(ask(&target, "/nacos/v1/ns/service").ends_with("\"weight\":1.0}"));
    assert_eq!(relay.changed(), 1);
    assert_eq!(relay.seen().len(), 2);
}

#[test]
fn the_server_goes_by_the_name_of_the_relay() {
    let (relay, target) = through(Manner::default());
    assert!(ask(&target, LIST).contains(&format!("\"address\":\"{}\"", relay.address())));
}

#[test]
fn a_push_and_its_acknowledgement_pass_and_may_be_lost() {
    for (manner, comes) in
        [(Manner::default(), true), (change(Kind::push(), "data", How::PushLost(Lost::All)), false)]
    {
        let (_relay, target) = through(manner);
        let mut port = Port::open().unwrap();
        let path = format!("{LIST}&udpPort={}", port.number().unwrap());
        let asking = target.clone();
        let asked = thread::spawn(move || ask(&asking, &path));
        let push = port.receive(Duration::from_millis(400), Ack::Number, false, target.stop()).unwrap();
        assert_eq!(push.is_some(), comes);
        let acknowledged = asked.join().unwrap().contains("'lastRefTime': 7");
        assert_eq!(acknowledged, comes);
    }
}

#[test]
fn a_slow_relay_delays_and_changes_nothing() {
    let (_relay, target) = through(Manner { delay: Duration::from_millis(200), ..Manner::default() });
    let begin = Instant::now();
    for _ in 0..5 {
        assert!(ask(&target, LIST).ends_with("\"weight\":1.0}"));
    }
    let took = begin.elapsed();
    assert!(took > Duration::from_millis(50) && took < Duration::from_secs(5), "{took:?}");
}
