//! What a relay does to what passes it.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::support::relay::{Passage, Relay, Traffic, listen};

const CALLER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 60, 251));
const RELAY: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 60, 252));
const TARGET: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 60, 253));
const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(5);

/// A server that answers each line with the IP that it came from.
async fn tells_who_calls() -> SocketAddr {
    let listener = listen(SocketAddr::new(TARGET, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, peer) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut line = [0; 5];
                while stream.read_exact(&mut line).await.is_ok() {
                    if stream.write_all(format!("{}\n", peer.ip()).as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    at
}

async fn relay() -> Relay {
    Relay::start(RELAY, CALLER, tells_who_calls().await).await.unwrap()
}

async fn ask(stream: &mut TcpStream) -> io::Result<String> {
    stream.write_all(b"who?\n").await?;
    let mut answer = [0; 13];
    stream.read_exact(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).trim().to_owned())
}

#[tokio::test]
async fn the_target_sees_the_callers_own_address() {
    let relay = relay().await;
    let mut stream = TcpStream::connect(relay.listens()).await.unwrap();
    assert_eq!(ask(&mut stream).await.unwrap(), CALLER.to_string());
    assert_eq!(relay.traffic(), Traffic { requests: 5, answers: 13 });
}

#[tokio::test]
async fn a_refused_link_resets_what_is_open_and_takes_nothing_new_until_it_opens() {
    let relay = relay().await;
    let mut open = TcpStream::connect(relay.listens()).await.unwrap();
    ask(&mut open).await.unwrap();
    relay.set(Passage::Refused);
    let reset = timeout(LONG, open.read(&mut [0; 1])).await.unwrap().unwrap_err();
    assert_eq!(reset.kind(), io::ErrorKind::ConnectionReset);
    let refused = TcpStream::connect(relay.listens()).await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    relay.set(Passage::Open);
    let again = timeout(LONG, async {
        loop {
            match TcpStream::connect(relay.listens()).await {
                Ok(stream) => return stream,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    });
    assert!(ask(&mut again.await.unwrap()).await.is_ok());
}

#[tokio::test]
async fn a_hanging_link_holds_everything_back_until_it_opens() {
    let relay = relay().await;
    let mut open = TcpStream::connect(relay.listens()).await.unwrap();
    ask(&mut open).await.unwrap();
    relay.set(Passage::Hanging);
    let mut new = TcpStream::connect(relay.listens()).await.unwrap();
    for stream in [&mut open, &mut new] {
        stream.write_all(b"who?\n").await.unwrap();
        assert!(timeout(SHORT, stream.read_u8()).await.is_err());
    }
    assert_eq!(relay.traffic().requests, 5);
    relay.set(Passage::Open);
    for stream in [&mut open, &mut new] {
        assert_eq!(timeout(LONG, stream.read_u8()).await.unwrap().unwrap(), b'1');
    }
}

#[tokio::test]
async fn requests_of_an_unanswered_link_arrive() {
    let relay = relay().await;
    let mut open = TcpStream::connect(relay.listens()).await.unwrap();
    ask(&mut open).await.unwrap();
    relay.set(Passage::Unanswered);
    assert!(timeout(SHORT, ask(&mut open)).await.is_err());
    assert_eq!(relay.traffic(), Traffic { requests: 10, answers: 13 });
}

#[tokio::test]
async fn a_slow_link_adds_its_delay_each_way() {
    let relay = relay().await;
    let mut open = TcpStream::connect(relay.listens()).await.unwrap();
    ask(&mut open).await.unwrap();
    relay.set(Passage::Slow(Duration::from_millis(100)));
    let start = Instant::now();
    ask(&mut open).await.unwrap();
    assert!(start.elapsed() >= SHORT);
}

#[tokio::test]
async fn where_the_target_doesnt_listen_the_caller_is_reset() {
    let nobody = { listen(SocketAddr::new(TARGET, 0)).unwrap().local_addr().unwrap() };
    let relay = Relay::start(RELAY, CALLER, nobody).await.unwrap();
    let mut stream = TcpStream::connect(relay.listens()).await.unwrap();
    let reset = timeout(LONG, stream.read(&mut [0; 1])).await.unwrap().unwrap_err();
    assert_eq!(reset.kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_connection_ends_when_its_target_ends_it() {
    let listener = listen(SocketAddr::new(TARGET, 0)).unwrap();
    let relay = Relay::start(RELAY, CALLER, listener.local_addr().unwrap()).await.unwrap();
    let mut stream = TcpStream::connect(relay.listens()).await.unwrap();
    let (mut accepted, _) = listener.accept().await.unwrap();
    accepted.write_all(b"bye").await.unwrap();
    drop(accepted);
    let mut said = Vec::new();
    timeout(LONG, stream.read_to_end(&mut said)).await.unwrap().unwrap();
    assert_eq!(said, b"bye");
}
