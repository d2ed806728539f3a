//! Instances that leave: nothing new from the next request on, and what runs ends well.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use http_body_util::BodyExt as _;

use super::support::{RULES, client, front, instance, named, said, status, until};

#[tokio::test]
async fn after_a_deregistration_no_request_comes_and_running_ones_end() {
    let front = front(RULES).await;
    let (late, gone, served) =
        (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let (open, opened) = tokio::sync::watch::channel(false);
    let leaver = {
        let (late, gone, served) = (Arc::clone(&late), Arc::clone(&gone), Arc::clone(&served));
        instance(move |request| {
            late.fetch_add(u32::from(gone.load(Relaxed)), Relaxed);
            served.fetch_add(1, Relaxed);
            let mut opened = opened.clone();
            async move {
                if request.uri().path() == "/slow" {
                    let _ = opened.wait_for(|open| *open).await;
                }
                said("leaver")
            }
        })
        .await
    };
    let others = [named().await, named().await];
    front.register(leaver.address);
    let client = client();
    let url = |path: &str| format!("http://{}{path}", front.address).parse().unwrap();
    let running = tokio::spawn(client.get(url("/slow")));
    until("it runs", || served.load(Relaxed) == 1).await;
    others.iter().for_each(|other| front.register(other.address));
    let stop = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = (0..4)
        .map(|_| {
            let (client, stop, uri) = (client.clone(), Arc::clone(&stop), url("/"));
            tokio::spawn(async move {
                let mut count = 0;
                while !stop.load(Relaxed) {
                    let uri: http::Uri = http::Uri::clone(&uri);
                    assert_eq!(client.get(uri).await.unwrap().status(), 200);
                    count += 1;
                }
                count
            })
        })
        .collect();
    until("it gets its share", || served.load(Relaxed) > 20).await;
    front.deregister(leaver.address);
    // What was picked before is on its way for this long.
    tokio::time::sleep(Duration::from_millis(50)).await;
    gone.store(true, Relaxed);
    tokio::time::sleep(Duration::from_millis(500)).await;
    stop.store(true, Relaxed);
    for worker in load {
        assert!(worker.await.unwrap() > 0);
    }
    assert_eq!(late.load(Relaxed), 0);
    open.send(true).unwrap();
    let answer = running.await.unwrap().unwrap().into_body().collect().await.unwrap().to_bytes();
    assert_eq!(answer, "leaver");
}

#[tokio::test]
async fn without_weight_or_disabled_all_is_503() {
    let front = front(RULES).await;
    let only = named().await;
    front.register(only.address);
    assert_eq!(status(&front.get("/").await), 200);
    front.register_with(only.address, |described| described.weight = 0.0);
    assert_eq!(status(&front.get("/").await), 503);
    front.register(only.address);
    assert_eq!(status(&front.get("/").await), 200);
    front.register_with(only.address, |described| described.enabled = false);
    assert_eq!(status(&front.get("/").await), 503);
}

#[tokio::test]
async fn a_changed_weight_fails_no_request() {
    let front = front(RULES).await;
    let instances = [named().await, named().await];
    instances.iter().for_each(|one| front.register(one.address));
    let client = client();
    for round in 0..300 {
        front.register_with(instances[0].address, |described| described.weight = f64::from(1 + round % 5));
        let uri = format!("http://{}/", front.address).parse().unwrap();
        assert_eq!(client.get(uri).await.unwrap().status(), 200);
    }
}

#[tokio::test]
async fn one_that_fails_is_ejected_and_shown() {
    let front = front(&format!("{RULES}eject-after = 3\nretries = 1\n")).await;
    let (good, bad) = (named().await, named().await);
    let address = bad.address;
    drop(bad);
    until("the port is closed", || std::net::TcpStream::connect(address).is_err()).await;
    front.register(good.address);
    front.register(address);
    for _ in 0..20 {
        assert_eq!(status(&front.get("/").await), 200);
    }
    let shown = serde_json::to_value(front.proxy.shown()).unwrap();
    let instances = shown["rules"][0]["destinations"][0]["instances"].as_array().unwrap().clone();
    let of = |at: std::net::SocketAddr| {
        instances.iter().find(|one| one["address"] == at.to_string()).unwrap_or_else(|| panic!("{shown}"))
    };
    assert_eq!(of(address)["ejected"]["reason"], "refused", "{shown}");
    assert_eq!((&of(address)["failures"], &of(good.address)["requests"]), (&3.into(), &20.into()));
    assert!(of(good.address).get("ejected").is_none());
}
