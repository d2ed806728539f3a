//! Ten instances are replaced one after the other while requests come, and close unused connections whenever they like.

use std::{
    collections::HashMap,
    convert::Infallible,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use nacre::base::hash;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::support::{RULES, client, front, said};

/// How often each request was done, by its number.
type Done = Arc<Mutex<HashMap<u64, u32>>>;

/// An application that ends connections at random: in order, as servers do whose keep-alive time is over.
struct Application {
    address: SocketAddr,
    stopped: CancellationToken,
    connections: TaskTracker,
}

async fn start(at: SocketAddr, done: Done, random: Arc<AtomicU64>) -> Application {
    // The former one has just closed the port.
    let listener = loop {
        match TcpListener::bind(at).await {
            Ok(listener) => break listener,
            Err(_) => tokio::time::sleep(Duration::from_millis(2)).await,
        }
    };
    let address = listener.local_addr().unwrap();
    let (stopped, connections) = (CancellationToken::new(), TaskTracker::new());
    let (until, tracker) = (stopped.clone(), connections.clone());
    tokio::spawn(until.clone().run_until_cancelled_owned(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            let done = Arc::clone(&done);
            let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                let done = Arc::clone(&done);
                async move {
                    let number = request.headers()["x-number"].to_str().unwrap().parse().unwrap();
                    let _ = request.into_body().collect().await;
                    *done.lock().entry(number).or_default() += 1;
                    Ok::<_, Infallible>(said("done"))
                }
            });
            let lasts = Duration::from_millis(20 + hash::mix(random.fetch_add(1, Relaxed)) % 980);
            let until = until.clone();
            tracker.spawn(async move {
                let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                let mut connection = std::pin::pin!(connection);
                tokio::select! {
                    _ = connection.as_mut() => return,
                    () = until.cancelled() => {}
                    () = tokio::time::sleep(lasts) => {}
                }
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            });
        }
    }));
    Application { address, stopped, connections }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_under_load_fails_no_request() {
    // The whole form: NACRE_PROXY_RESTART_SECONDS=60 cargo test --release --test proxy restart
    let seconds: Option<u64> =
        std::env::var("NACRE_PROXY_RESTART_SECONDS").ok().map(|text| text.parse().expect("seconds"));
    let front = front(RULES).await;
    let (done, random) = (Done::default(), Arc::new(AtomicU64::new(1)));
    let mut applications = Vec::new();
    for _ in 0..10 {
        let at = (Ipv4Addr::LOCALHOST, 0).into();
        applications.push(start(at, Arc::clone(&done), Arc::clone(&random)).await);
    }
    applications.iter().for_each(|one| front.register(one.address));
    let (stop, number) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let workers: u64 = 8;
    // 1,000 requests a second, half of them POST.
    let pause = Duration::from_millis(workers);
    let load: Vec<_> = (0..workers)
        .map(|_| {
            let (client, stop, number, to) =
                (client(), Arc::clone(&stop), Arc::clone(&number), front.address);
            tokio::spawn(async move {
                let mut failed = Vec::new();
                let mut tick = tokio::time::interval(pause);
                while !stop.load(Relaxed) {
                    tick.tick().await;
                    let number = number.fetch_add(1, Relaxed);
                    let method = if number % 2 == 0 { Method::GET } else { Method::POST };
                    let body = if number % 2 == 0 { Bytes::new() } else { Bytes::from_static(b"order") };
                    let request = Request::builder()
                        .method(method)
                        .uri(format!("http://{to}/"))
                        .header("x-number", number)
                        .body(Full::new(body))
                        .unwrap();
                    let status = client.request(request).await.unwrap().status().as_u16();
                    if status != 200 {
                        failed.push((number, status));
                    }
                }
                failed
            })
        })
        .collect();
    let end = tokio::time::Instant::now() + Duration::from_secs(seconds.unwrap_or(0));
    loop {
        for application in &mut applications {
            // As applications stop: they leave, go on for a moment, and end what runs.
            front.deregister(application.address);
            tokio::time::sleep(Duration::from_millis(60)).await;
            application.stopped.cancel();
            application.connections.close();
            application.connections.wait().await;
            *application = start(application.address, Arc::clone(&done), Arc::clone(&random)).await;
            front.register(application.address);
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
        if tokio::time::Instant::now() >= end {
            break;
        }
    }
    stop.store(true, Relaxed);
    let mut failed = Vec::new();
    for worker in load {
        failed.extend(worker.await.unwrap());
    }
    let sent = number.load(Relaxed);
    println!("{sent} requests, failed: {failed:?}");
    // A POST whose connection was closed in the same moment isn't sent again. The short form may run on a machine that does much
    // else, where that moment is long; these applications also end connections that have just been used.
    assert!(failed.iter().all(|(number, status)| number % 2 == 1 && *status == 502), "{failed:?}");
    let bound = if seconds.is_some() { sent / 2 / 20_000 + 1 } else { 2 + sent / 2 / 100 };
    assert!(failed.len() as u64 <= bound, "{} of {sent}: {failed:?}", failed.len());
    let done = done.lock();
    let twice: Vec<_> = done.iter().filter(|(number, times)| *number % 2 == 1 && **times > 1).collect();
    assert!(twice.is_empty(), "POSTs that were done twice: {twice:?}");
    assert!(sent > 100);
}
