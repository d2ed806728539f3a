//! A client of HTTP/1.1 with pooled connections, light enough for thousands of callers on one thread.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpSocket;

/// What real clients say of themselves.
const AGENT: &str = "Nacos-Java-Client:v1.4.8";

/// A request; [`Ask::new`] gives one of a plain client.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    pub method: &'a str,
    /// Path and query, context path included.
    pub target: &'a str,
    pub headers: &'a [(&'a str, &'a str)],
    pub body: Bytes,
    /// The address that the call comes from; else the system's choice.
    pub from: Option<IpAddr>,
    /// For all of it, from connecting to the last byte.
    pub limit: Duration,
}

impl<'a> Ask<'a> {
    pub fn new(method: &'a str, target: &'a str) -> Self {
        let limit = Duration::from_secs(3);
        Self { method, target, headers: &[], body: Bytes::new(), from: None, limit }
    }

    pub fn within(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    pub fn from(self, ip: IpAddr) -> Self {
        Self { from: Some(ip), ..self }
    }

    pub fn with(self, headers: &'a [(&'a str, &'a str)], body: impl Into<Bytes>) -> Self {
        Self { headers, body: body.into(), ..self }
    }
}

/// An answer, whatever its status.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unanswered {
    /// No connection.
    Refused,
    /// The connection ended first.
    Closed,
    /// Not within the limit.
    Late,
}

type Connection = SendRequest<Full<Bytes>>;
type Idle = HashMap<(Option<IpAddr>, SocketAddr), Vec<Connection>>;

/// The client: a cheap handle.
#[derive(Clone, Default)]
pub struct Http {
    idle: Arc<Mutex<Idle>>,
}

impl Http {
    /// Sends one request; it isn't repeated.
    pub async fn ask(&self, to: SocketAddr, ask: Ask<'_>) -> Result<Answer, Unanswered> {
        tokio::time::timeout(ask.limit, self.exchange(to, &ask)).await.unwrap_or(Err(Unanswered::Late))
    }

    async fn exchange(&self, to: SocketAddr, ask: &Ask<'_>) -> Result<Answer, Unanswered> {
        loop {
            let idle = self.idle.lock().get_mut(&(ask.from, to)).and_then(Vec::pop);
            let pooled = idle.is_some();
            let mut connection = match idle {
                Some(connection) => connection,
                None => connect(to, ask.from).await?,
            };
            if connection.ready().await.is_err() {
                continue; // its other end has closed it meanwhile
            }
            match connection.send_request(request(to, ask)).await {
                Ok(response) => {
                    let (head, body) = response.into_parts();
                    let body = body.collect().await.map_err(|_| Unanswered::Closed)?.to_bytes();
                    self.idle.lock().entry((ask.from, to)).or_default().push(connection);
                    return Ok(Answer { status: head.status.as_u16(), headers: head.headers, body });
                }
                // Not a byte of it was sent.
                Err(error) if error.is_canceled() && pooled => {}
                Err(_) => return Err(Unanswered::Closed),
            }
        }
    }
}

fn request(to: SocketAddr, ask: &Ask<'_>) -> Request<Full<Bytes>> {
    let mut request = Request::builder().method(ask.method).uri(ask.target).header("host", to.to_string());
    if !ask.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("user-agent")) {
        request = request.header("user-agent", AGENT);
    }
    for (name, value) in ask.headers {
        request = request.header(*name, *value);
    }
    request.body(Full::new(ask.body.clone())).unwrap()
}

async fn connect(to: SocketAddr, from: Option<IpAddr>) -> Result<Connection, Unanswered> {
    let socket = TcpSocket::new_v4().unwrap();
    if let Some(from) = from {
        socket.bind(SocketAddr::new(from, 0)).unwrap();
    }
    let stream = socket.connect(to).await.map_err(|_| Unanswered::Refused)?;
    let _ = stream.set_nodelay(true);
    let (sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|_| Unanswered::Closed)?;
    tokio::spawn(connection);
    Ok(sender)
}
