//! What there is a bound for, and what happens at it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use nacre::{
    config::ProxySettings,
    model::{instance::Description, registry::Place},
    proxy::{Certificates, Door, Server, trusted},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{Notify, Semaphore},
    time::timeout,
};
use tokio_rustls::rustls::RootCertStore;

use super::{
    support::{Bounds, Front, RULES, front, front_bounded, front_with, instance, named, said, status, until},
    tls::certificates,
};

const CARTS: Place<'static> = Place { namespace: "public", name: "DEFAULT_GROUP@@carts" };
const TWO_RULES: &str = "[[rule]]\nname = \"carts\"\npath = \"/carts\"\nservice = \"carts\"\n\
                         [[rule]]\nname = \"orders\"\nservice = \"orders\"\n";

fn register_cart(front: &Front, at: std::net::SocketAddr) {
    let ip = at.ip().to_string();
    let described = Description::new(&ip, i32::from(at.port()), "DEFAULT");
    front.registry.register(CARTS, &described, front.clock.now()).unwrap();
}

/// An instance that changes the protocol of each connection, and then says nothing.
async fn upgrades() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let said = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
                stream.write_all(said).await.unwrap();
                let _ = stream.read_to_end(&mut Vec::new()).await;
            });
        }
    });
    address
}

async fn tunnel(front: &Front) -> TcpStream {
    let mut stream = TcpStream::connect(front.address).await.unwrap();
    let head = b"GET /chat HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
    stream.write_all(head).await.unwrap();
    let mut read = [0; 12];
    stream.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"HTTP/1.1 101");
    stream
}

#[tokio::test]
async fn tunnels_have_their_place_among_the_connections_of_clients() {
    let front = front_bounded(RULES, Bounds { clients: 2, ..Bounds::default() }).await;
    front.register(upgrades().await);
    let (one, _other) = (tunnel(&front).await, tunnel(&front).await);
    let mut third = std::pin::pin!(tunnel(&front));
    assert!(timeout(Duration::from_millis(300), third.as_mut()).await.is_err(), "there is no room");
    drop(one);
    timeout(Duration::from_secs(10), third).await.expect("there is room again");
}

#[tokio::test]
async fn connections_to_instances_are_bounded_and_idle_ones_make_room() {
    let front = front_bounded(TWO_RULES, Bounds { to_instances: 1, ..Bounds::default() }).await;
    let (go, stop) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (began, released) = (Arc::clone(&go), Arc::clone(&stop));
    let orders = instance(move |request| {
        let (began, released) = (Arc::clone(&began), Arc::clone(&released));
        async move {
            if request.uri().path() == "/slow" {
                began.notify_one();
                released.notified().await;
            }
            said("orders")
        }
    })
    .await;
    let carts = named().await;
    front.register(orders.address);
    register_cart(&front, carts.address);
    // Kept connections go for others.
    for path in ["/", "/carts", "/", "/carts"] {
        assert_eq!(status(&front.get(path).await), 200, "{path}");
    }
    let slow = front.get("/slow");
    let meanwhile = async {
        go.notified().await;
        let answer = front.get("/carts").await;
        stop.notify_one();
        answer
    };
    let (slow, refused) = tokio::join!(slow, meanwhile);
    assert!(slow.ends_with("orders"), "{slow}");
    assert!(status(&refused) == 503 && refused.contains("retry-after: 1"), "{refused}");
    assert_eq!(status(&front.get("/carts").await), 200);
}

#[tokio::test]
async fn a_door_that_waits_for_clients_takes_no_room_from_another() {
    let front = front(RULES).await;
    let named = named().await;
    front.register(named.address);
    let listeners =
        [TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap()];
    let addresses = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
    let server = Server {
        proxy: Arc::clone(&front.proxy),
        patience: Bounds::default().patience,
        room: Arc::new(Semaphore::new(1)),
    };
    let doors = listeners.into_iter().map(|listener| Door { listener, certificates: None }).collect();
    tokio::spawn(server.run(doors, front.stopped.clone(), Duration::from_secs(1)));
    for address in addresses {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        let reading = timeout(Duration::from_secs(10), stream.read_to_string(&mut answer)).await;
        reading.expect("an answer").unwrap();
        assert_eq!(status(&answer), 200);
    }
}

#[tokio::test]
async fn a_service_that_fails_takes_no_retries_from_another() {
    let rules = TWO_RULES.replace("service = \"orders\"\n", "service = \"orders\"\neject-after = 0\n");
    let front = front(&rules).await;
    let dead = named().await;
    let nobody = dead.address;
    drop(dead);
    until("the port is closed", || std::net::TcpStream::connect(nobody).is_err()).await;
    register_cart(&front, nobody);
    let good = named().await;
    front.register(nobody);
    front.register(good.address);
    for _ in 0..100 {
        assert_eq!(status(&front.get("/carts").await), 502);
    }
    for _ in 0..10 {
        assert_eq!(status(&front.get("/").await), 200);
    }
}

#[tokio::test]
async fn the_document_has_a_bound_for_all_rules_together() {
    let rules: String = (0..11)
        .map(|number| format!("[[rule]]\nname = \"r{number}\"\npath = \"/{number}\"\nservice = \"orders\"\n"))
        .collect();
    let front = front(&rules).await;
    for port in 1..=1_001 {
        front.register(([10, 0, 0, 1], port).into());
    }
    let shown = serde_json::to_value(front.proxy.shown()).unwrap();
    let destinations = || shown["rules"].as_array().unwrap().iter().map(|rule| &rule["destinations"][0]);
    let instances: usize = destinations().map(|one| one["instances"].as_array().unwrap().len()).sum();
    let left_out: u64 = destinations().map(|one| one["leftOut"].as_u64().unwrap()).sum();
    assert_eq!((instances, left_out), (10_000, 1_011));
}

#[tokio::test]
async fn an_instance_that_leaves_while_a_connection_is_made_gets_no_request() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path(), &["orders.internal"]);
    let trust = trusted(Some(&folder.path().join("orders.internal.crt"))).unwrap();
    let counts = [Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0))];
    // Two instances with TLS, which are proxies before what counts.
    let (mut fronts, mut counters) = (Vec::new(), Vec::new());
    for count in &counts {
        let count = Arc::clone(count);
        let counter = instance(move |_| {
            count.fetch_add(1, Relaxed);
            async { said("counted") }
        })
        .await;
        let held = Some(Arc::new(Certificates::read(folder.path()).unwrap()));
        let front = front_with(RULES, ProxySettings::default(), held, RootCertStore::empty()).await;
        front.register(counter.address);
        fronts.push(front);
        counters.push(counter);
    }
    // The way to the first is long.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let leaver = listener.local_addr().unwrap();
    let (came, goes_on, first) = (Arc::new(Notify::new()), Arc::new(Notify::new()), fronts[0].address);
    let (comes, waits) = (Arc::clone(&came), Arc::clone(&goes_on));
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        comes.notify_one();
        waits.notified().await;
        let mut on = TcpStream::connect(first).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut stream, &mut on).await;
    });
    let rules =
        format!("{RULES}protocol = \"https\"\ntls-name = \"orders.internal\"\nconnect-timeout = \"20s\"\n");
    let front = front_with(&rules, ProxySettings::default(), None, trust).await;
    front.register(leaver);
    let changes = async {
        came.notified().await;
        front.register(fronts[1].address);
        front.deregister(leaver);
        goes_on.notify_one();
    };
    let (answer, ()) = tokio::join!(front.get("/"), changes);
    assert!(status(&answer) == 200 && answer.ends_with("counted"), "{answer}");
    assert_eq!(counts.map(|count| count.load(Relaxed)), [0, 1]);
}
