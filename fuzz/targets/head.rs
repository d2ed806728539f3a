//! Bytes of a client go through the whole proxy; what arrives at an instance must be read in one way only.
//!
//! The reader at the instance is strict and shares no code with the proxy. It panics, which is a finding, on: anything that isn't
//! a request of HTTP/1.1 in one framing, fields that belong to the client's connection, a path with dot segments, an instance
//! that is asked without being named. So does a client that has no answer in time.

#![no_main]

mod strict;

use std::{
    cell::RefCell,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::Duration,
};

use libfuzzer_sys::fuzz_target;
use nacre::{
    base::{clock::Clock, watched::Patience},
    config::ProxySettings,
    model::{Registry, instance::Description, registry::Place},
    proxy::{Caller, Connector, Proxy, Server, parse_rules},
};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    runtime::{Builder, Runtime},
    sync::Semaphore,
};
use tokio_rustls::rustls::RootCertStore;
use tokio_util::sync::CancellationToken;

const RULES: &str = r#"
[defaults]
eject-after = 0
response-timeout = "500ms"
idle-timeout = "500ms"
[[rule]]
name = "stripped"
path = "/nacos/v1/ns"
service = "orders"
strip-prefix = true
max-body-bytes = 1000
[[rule]]
name = "rewritten"
host = "shop.example"
path = "/orders"
service = "orders"
rewrite-prefix = "/api"
host-header = "instance"
[[rule]]
name = "all"
service = "orders"
"#;

/// How long a client waits for the end of its connection.
const LIMIT: Duration = Duration::from_secs(5);

struct Bench {
    runtime: Runtime,
    server: Arc<Server>,
    /// What has arrived on each connection since the last look.
    arrived: Arc<Mutex<Vec<Vec<u8>>>>,
}

thread_local! {
    static BENCH: RefCell<Option<Bench>> = const { RefCell::new(None) };
}

fn bench() -> Bench {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let arrived = Arc::<Mutex<Vec<Vec<u8>>>>::default();
    let server = runtime.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let port = listener.local_addr().expect("its address").port();
        tokio::spawn(instance(listener, Arc::clone(&arrived)));
        let registry = Arc::new(Registry::new(Arc::default(), Default::default()));
        let clock = Clock::system();
        let described = Description::new("127.0.0.1", i32::from(port), "DEFAULT");
        let place = Place { namespace: "public", name: "DEFAULT_GROUP@@orders" };
        registry.register(place, &described, clock.now()).expect("it is registered");
        let rules = parse_rules(RULES).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let connector = Connector::new(RootCertStore::empty(), 100);
        let proxy = Proxy::new(ProxySettings::default(), registry, clock, rules, connector, 7);
        let second = Duration::from_secs(1);
        let patience = Patience { idle: second, head: second, write: second, least_rate: 1 };
        Server { proxy, patience, room: Arc::new(Semaphore::new(100)) }
    });
    Bench { runtime, server: Arc::new(server), arrived }
}

/// Answers each request that the strict reader finds.
async fn instance(listener: TcpListener, arrived: Arc<Mutex<Vec<Vec<u8>>>>) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else { continue };
        let arrived = Arc::clone(&arrived);
        tokio::spawn(async move {
            let (mut read, mut answered) = (Vec::new(), 0);
            while stream.read_buf(&mut read).await.is_ok_and(|count| count > 0) {
                while let strict::Next::Request(length) = strict::next(&read[answered..]) {
                    arrived.lock().push(read[answered..answered + length].to_vec());
                    answered += length;
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                    if stream.write_all(answer).await.is_err() {
                        return;
                    }
                }
            }
            // An upload that broke off; what there is of it must be the beginning of a request.
            assert!(
                !matches!(strict::next(&read[answered..]), strict::Next::Request(_)),
                "not answered: {:?}",
                String::from_utf8_lossy(&read[answered..])
            );
        });
    }
}

/// Lets a client say these bytes, and waits for the end of its connection.
async fn say(server: &Arc<Server>, bytes: &[u8]) {
    let (mut client, stream) = tokio::io::duplex(64 << 10);
    let stopped = CancellationToken::new();
    let (serving, until) = (Arc::clone(server), stopped.clone());
    let place = Arc::new(Arc::clone(&server.room).acquire_owned().await.expect("it is never closed"));
    let address = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));
    let caller = Caller { address, scheme: "http", place };
    let serving = tokio::spawn(async move { serving.serve(stream, caller, until).await });
    let talking = async {
        // Who refuses may close before all is written.
        let _ = client.write_all(bytes).await;
        let _ = client.shutdown().await;
        let mut answers = Vec::new();
        let _ = client.read_to_end(&mut answers).await;
    };
    let ended = tokio::time::timeout(LIMIT, talking).await;
    assert!(ended.is_ok(), "no end of the connection");
    stopped.cancel();
    serving.await.expect("it doesn't panic");
}

fuzz_target!(|bytes: &[u8]| {
    BENCH.with_borrow_mut(|held| {
        let Bench { runtime, server, arrived } = held.get_or_insert_with(bench);
        runtime.block_on(say(server, bytes));
        for request in std::mem::take(&mut *arrived.lock()) {
            strict::check(&request);
        }
    });
});
