//! A front that passes everything on, and servers that are told what to say.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use nacre_middleware::{
    framing,
    hygiene::{self, Caller},
    pass::{self, Broken, Failure, Plan, Sending},
    pool::{Bounds, ConnectFault, Origin, Upstream},
};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tower_service::Service;

/// Connects by TCP.
#[derive(Clone)]
pub struct Tcp;

impl Service<Arc<Origin>> for Tcp {
    type Response = TcpStream;
    type Error = ConnectFault;
    type Future = BoxFuture<'static, Result<TcpStream, ConnectFault>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectFault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Arc<Origin>) -> Self::Future {
        Box::pin(async move {
            let stream = TcpStream::connect(&*to.authority).await;
            stream.map_err(|error| ConnectFault::Refused(error.to_string()))
        })
    }
}

pub const PLAN: Plan = Plan {
    connect: Duration::from_secs(5),
    wait: Duration::from_secs(5),
    response: Duration::from_secs(20),
    idle: Duration::from_secs(20),
    max_idle: Duration::from_secs(20),
};

pub type To = Upstream<Tcp, Sending<Incoming>>;

pub fn upstream(address: SocketAddr) -> To {
    upstream_within(address, Bounds { keep: Duration::from_secs(20), ..Bounds::default() })
}

pub fn upstream_within(address: SocketAddr, bounds: Bounds) -> To {
    Upstream::new(Origin::plain(&address.to_string()), Tcp, bounds)
}

type Answered = Response<UnsyncBoxBody<Bytes, Broken>>;

fn told(status: StatusCode, text: String) -> Answered {
    let body = Full::new(Bytes::from(text)).map_err(|never: Infallible| match never {});
    let mut answer = Response::new(UnsyncBoxBody::new(body));
    *answer.status_mut() = status;
    answer
}

/// Passes one request on as a gateway does; tries once more what may be.
async fn passed(request: Request<Incoming>, to: To, plan: Plan) -> Answered {
    let (mut head, body) = request.into_parts();
    if let Err(refused) = framing::check(&head.method, &head.uri, head.version, &head.headers) {
        let mut answer = told(StatusCode::BAD_REQUEST, refused.to_string());
        answer.headers_mut().insert("connection", "close".parse().unwrap());
        return answer;
    }
    let asked = hygiene::clean_request(&mut head);
    if hygiene::count_hop(&mut head.headers, 3).is_err() {
        return told(StatusCode::LOOP_DETECTED, "circle".into());
    }
    let host = head.headers.get("host").cloned();
    let address = [127, 0, 0, 1].into();
    hygiene::sign(&mut head.headers, Caller { address, scheme: "http", host: host.as_ref(), trusted: false });
    hygiene::ask_for_upgrade(&mut head.headers, &asked);
    let plan = plan.of(&head.method);
    let first = pass::pass(&to, Request::from_parts(head, body), plan).await;
    let outcome = match first.map_err(Failure::again) {
        Ok(answer) => Ok(answer),
        Err(Ok(again)) => pass::pass(&to, again, plan.afresh()).await,
        Err(Err(failure)) => Err(failure),
    };
    match outcome {
        Ok(answer) => {
            let (mut head, body) = answer.into_parts();
            let length = http_body::Body::size_hint(&body).exact();
            hygiene::clean_answer(head.status, &mut head.headers, &asked, length);
            Response::from_parts(head, UnsyncBoxBody::new(body))
        }
        Err(failure) => told(failure.fault.status(), failure.fault.to_string()),
    }
}

/// Starts a front before `to`.
pub async fn front(to: To, plan: Plan) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let to = to.clone();
            let service = service_fn(move |request| {
                let to = to.clone();
                async move { Ok::<_, Infallible>(passed(request, to, plan).await) }
            });
            let connection = http1::Builder::new()
                .header_read_timeout(None)
                .serve_connection(TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    });
    address
}

/// Sends `bytes`, closes its side, and reads to the end.
pub async fn say(to: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(to).await.unwrap();
    // Who refuses may close before all is written.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let reading = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut answer)).await;
    assert!(reading.is_ok(), "no end after {:?}", String::from_utf8_lossy(&answer));
    String::from_utf8_lossy(&answer).into_owned()
}

/// What a server does with a connection, in order.
#[derive(Clone, Copy, Debug)]
pub enum Does {
    /// Reads until what was read ends so.
    ReadTo(&'static str),
    /// Says this.
    Say(&'static str),
    /// Waits until it is told.
    Wait,
    /// Closes in order.
    Close,
    /// Resets.
    Reset,
}

/// A server that follows a script for each connection, the last one for all further ones.
pub struct Scripted {
    pub address: SocketAddr,
    /// What each connection has read.
    pub read: Arc<Mutex<Vec<String>>>,
    /// Tells a connection that waits to go on.
    pub go: mpsc::Sender<()>,
}

impl Scripted {
    pub async fn start(scripts: &'static [&'static [Does]]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let read = Arc::new(Mutex::new(Vec::new()));
        let (go, told) = mpsc::channel(8);
        let told = Arc::new(tokio::sync::Mutex::new(told));
        let all = Arc::clone(&read);
        tokio::spawn(async move {
            for number in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                all.lock().push(String::new());
                let script = scripts[number.min(scripts.len() - 1)];
                tokio::spawn(follow(stream, script, number, Arc::clone(&all), Arc::clone(&told)));
            }
        });
        Self { address, read, go }
    }

    pub fn read(&self) -> Vec<String> {
        self.read.lock().clone()
    }
}

async fn follow(
    mut stream: TcpStream,
    script: &[Does],
    number: usize,
    all: Arc<Mutex<Vec<String>>>,
    told: Arc<tokio::sync::Mutex<mpsc::Receiver<()>>>,
) {
    let mut buffer = vec![0; 64 << 10];
    for step in script {
        match step {
            Does::ReadTo(end) => {
                while !all.lock()[number].ends_with(end) {
                    match stream.read(&mut buffer).await {
                        Ok(0) | Err(_) => return,
                        Ok(count) => {
                            all.lock()[number].push_str(&String::from_utf8_lossy(&buffer[..count]));
                        }
                    }
                }
            }
            Does::Say(text) => _ = stream.write_all(text.as_bytes()).await,
            Does::Wait => _ = told.lock().await.recv().await,
            Does::Close => return,
            Does::Reset => {
                stream.set_zero_linger().unwrap();
                return;
            }
        }
    }
    // Stays open until the other side ends it.
    while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
}
