//! Every call to another member, one function each.
//!
//! What is sent equals what a member of Nacos 1.4.8 sends, but for the gzip header that it sets on plain bodies; a header
//! more tells that a Nacre node calls. Paths begin with the own context path, on which all members agree. Source: Nacos
//! 1.4.8, its calls recorded in the wire files `distro`, `member`, `service`.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyDataStream, BodyExt as _};
use hyper::body::Incoming;
use nacre_middleware::{
    lateness::Sent,
    loop_guard::{PEER, SENT, SOURCE},
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize, Serializer};
use tokio::time::{Instant, timeout_at};

use super::{Address, MemberReport, PeerError, document, member::VERSION, peer_error::refusal};
use crate::{
    base::{
        client::{self, CallError, Client, ClientSettings},
        json,
    },
    config::Settings,
};

/// The agent of a member, as others recognise it.
pub const USER_AGENT: HeaderValue = HeaderValue::from_static("Nacos-Server:v1.4.8");

/// Bytes of an answer that carries no data.
const MAX_PLAIN: usize = 64 << 10;

/// Characters that Java leaves as they are in a query.
const PLAIN: AsciiSet = NON_ALPHANUMERIC.remove(b'*').remove(b'-').remove(b'.').remove(b'_');

/// What the reference appends to a query.
const READ_AS_SENT: &str = "encoding=UTF-8&nofix=1";

/// All data of a member, a map of keys and data as JSON, while it comes.
#[derive(Debug)]
pub struct AllData {
    /// How the member calls itself, where it says so.
    pub called: Option<Address>,
    /// The number of its protocol, where it has shown that it is Nacre.
    pub nacre: Option<u32>,
    /// What its clock showed when it answered, to the second, where it says so; milliseconds since 1970.
    pub wall_ms: Option<u64>,
    body: BodyDataStream<Incoming>,
    until: Instant,
}

impl AllData {
    /// The next part of the text, cut anywhere; nothing at its end. It is for the caller to bound what is kept of it.
    ///
    /// # Errors
    /// It doesn't come whole, or in time.
    pub async fn next(&mut self) -> Result<Option<Bytes>, PeerError> {
        let next = timeout_at(self.until, self.body.next());
        match next.await.map_err(|_| PeerError::Silent)? {
            Some(Err(error)) => Err(CallError::Broken(error.into()).into()),
            Some(Ok(part)) => Ok(Some(part)),
            None => Ok(None),
        }
    }
}

/// What a member says to a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportAnswer {
    /// This node is in its list.
    pub listed: bool,
    /// How it calls itself, where it says so.
    pub called: Option<Address>,
    /// It is a Nacre node that speaks this protocol.
    pub nacre: Option<u32>,
}

/// What an answer says of the time when it was made, in milliseconds since 1970.
fn date(headers: &HeaderMap) -> Option<u64> {
    let at = httpdate::parse_http_date(headers.get(header::DATE)?.to_str().ok()?).ok()?;
    u64::try_from(at.duration_since(std::time::UNIX_EPOCH).ok()?.as_millis()).ok()
}

/// On data of a Nacre member: the members that it can't reach, by their addresses with commas between.
pub const UNREACHED_HEADER: HeaderName = HeaderName::from_static("x-nacre-unreached");
/// Members that it names at most; who can't reach more is cut off himself.
pub const MOST_UNREACHED: usize = 16;

/// On answers to members: how the node that answers is called, by its own list of members.
pub const CALLED_HEADER: HeaderName = HeaderName::from_static("x-nacre-member");
/// Bytes of an address that such a header may hold: a name of 253, and a port.
const MOST_CALLED: usize = 260;

/// Says in these headers of an answer that a Nacre node gives it, and how it is called.
pub fn sign(headers: &mut HeaderMap, own: &Address) {
    headers.insert(PEER.clone(), HeaderValue::from(super::member::PROTOCOL));
    if let Ok(own) = HeaderValue::from_str(own.as_str()) {
        headers.insert(CALLED_HEADER, own);
    }
}

fn called(headers: &HeaderMap) -> Option<Address> {
    let called = headers.get(CALLED_HEADER)?.to_str().ok()?;
    (1..=MOST_CALLED).contains(&called.len()).then(|| Address::new(called))
}

/// The members that the sender of these headers can't reach, as far as it says.
#[must_use]
pub fn unreached_of(headers: &HeaderMap) -> Vec<Address> {
    let unreached = headers.get(UNREACHED_HEADER).and_then(|unreached| unreached.to_str().ok());
    let unreached = unreached.into_iter().flat_map(|unreached| unreached.split(','));
    unreached.filter(|address| !address.is_empty()).take(MOST_UNREACHED).map(Address::new).collect()
}

/// The number of the protocol of the Nacre node that sent these headers.
#[must_use]
pub fn protocol_of(headers: &HeaderMap) -> Option<u32> {
    let number = headers.get(&PEER)?.to_str().ok()?.parse().ok();
    number.filter(|number| *number > 0)
}

/// How long the calls may take and what their answers may weigh.
#[derive(Clone, Debug)]
struct Limits {
    report: Duration,
    sync: Duration,
    verify: Duration,
    load: Duration,
    max_data: usize,
}

/// The calls to other members; cheap to clone.
#[derive(Clone)]
pub struct Peers(Arc<Inner>);

struct Inner {
    client: Client,
    own: Address,
    /// Tells this run of the node from others, and the times before and after its clock stood still.
    process: Arc<AtomicU64>,
    /// Under which number a call was late for its receiver that wasn't here.
    stood_as: AtomicU64,
    context: Box<str>,
    /// What every call carries.
    headers: HeaderMap,
    limits: Limits,
}

impl fmt::Debug for Peers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Peers").field("own", &self.0.own).finish_non_exhaustive()
    }
}

impl Peers {
    /// Calls as the member `own` with the settings' limits, from its address where this host has it. `process`: a number that
    /// no other run of the node has.
    #[must_use]
    pub fn new(own: Address, process: u64, settings: &Settings) -> Self {
        let host = own.host();
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let ways = settings.cluster.peer_via.iter();
        let client = Client::new(ClientSettings {
            from: bare.parse().ok(),
            via: ways.map(|via| (via.member.as_str().into(), via.target.as_str().into())).collect(),
            ..ClientSettings::default()
        });
        let limits = Limits {
            report: settings.cluster.report_timeout,
            sync: settings.distro.sync_timeout,
            verify: settings.distro.verify_timeout,
            load: settings.distro.load_timeout,
            max_data: settings.most_peer_bytes(),
        };
        let context = settings.server.context_path.as_str().into();
        let headers = headers(&own, settings);
        Self(Arc::new(Inner {
            client,
            own,
            process: Arc::new(AtomicU64::new(process)),
            stood_as: AtomicU64::new(0),
            context,
            headers,
            limits,
        }))
    }

    /// The client of these calls, with its connections, for writes that are passed on.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// The number that tells members one time of this node's clock from another, see [`Lateness`](nacre_middleware::lateness).
    #[must_use]
    pub fn process(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.0.process)
    }

    /// Changes when the node's clock has stood still for many seconds: a member says that a call came late that was answered
    /// in time here.
    #[must_use]
    pub fn clock_stops(&self) -> u64 {
        self.0.stood_as.load(Ordering::Relaxed)
    }

    /// The headers that tell a member who calls: agent, protocol, identity.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.0.headers
    }

    /// Tells `to` about this node.
    ///
    /// # Errors
    /// [`PeerError::Malformed`] too where the answer isn't the reference's envelope, [`PeerError::Refused`] too where
    /// the envelope's code isn't 200: both count as failures in 1.x.
    pub async fn report(&self, to: &Address, report: &MemberReport) -> Result<ReportAnswer, PeerError> {
        #[derive(Deserialize)]
        struct Envelope {
            code: u16,
            message: Option<String>,
            data: Option<serde_json::Value>,
        }
        let mut call = self.in_context(Method::POST, "/v1/core/cluster/report", document::write(report));
        call.headers_mut().insert("nacos-server", HeaderValue::from_static(VERSION));
        let answer = self.send_whole(to, call, self.0.limits.report, MAX_PLAIN).await?;
        let envelope: Envelope = read(answer.body())?;
        if envelope.code != 200 {
            let status = StatusCode::from_u16(envelope.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            return Err(PeerError::Refused(status, envelope.message.unwrap_or_default()));
        }
        let listed = envelope.data.is_some_and(|data| data == "true" || data == true);
        let (called, nacre) = (called(answer.headers()), protocol_of(answer.headers()));
        Ok(ReportAnswer { listed, called, nacre })
    }

    /// Hands data to `to` (a map of keys and data as JSON); gives its answer, which is `ok` from a 1.x member. A Nacre
    /// member that reaches some of the `unreached` hands the data on to them; of more than [`MOST_UNREACHED`] the first.
    ///
    /// `written_ms`: when its ages were read from this node's monotonic clock, here and below.
    ///
    /// # Errors
    /// See [`PeerError`].
    pub async fn put_data(
        &self,
        to: &Address,
        data: Bytes,
        unreached: &[Address],
        written_ms: u64,
    ) -> Result<Bytes, PeerError> {
        let call = self.in_context(Method::PUT, "/v1/ns/distro/datum", data);
        let mut call = self.written(call, written_ms, self.0.limits.sync);
        let unreached: Vec<&str> = unreached.iter().take(MOST_UNREACHED).map(Address::as_str).collect();
        if let (false, Ok(unreached)) = (unreached.is_empty(), HeaderValue::try_from(unreached.join(","))) {
            call.headers_mut().insert(UNREACHED_HEADER, unreached);
        }
        self.send(to, call, self.0.limits.sync, MAX_PLAIN).await
    }

    /// Tells a 1.x member the checksums (a map as JSON) of what this node owns. It answers when it has done what
    /// follows, a pull included.
    ///
    /// # Errors
    /// See [`PeerError`].
    pub async fn checksum(&self, to: &Address, checksums: Bytes) -> Result<(), PeerError> {
        let path = format!("/v1/ns/distro/checksum?source={}", encode(self.0.own.as_str()));
        let call = self.in_context(Method::PUT, &path, checksums);
        self.send(to, call, self.0.limits.verify, MAX_PLAIN).await.map(drop)
    }

    /// The data of these keys; those that `to` doesn't know are left out.
    ///
    /// # Errors
    /// See [`PeerError`].
    pub async fn data(&self, to: &Address, keys: &[impl AsRef<str>]) -> Result<Bytes, PeerError> {
        #[derive(Serialize)]
        struct Asked {
            keys: String,
        }
        let keys: Vec<&str> = keys.iter().map(AsRef::as_ref).collect();
        let body = json::to_bytes(&Asked { keys: keys.join(",") });
        let call = self.in_context(Method::GET, "/v1/ns/distro/datum", body);
        self.send(to, call, self.0.limits.sync, self.0.limits.max_data).await
    }

    /// All data that `to` has. They have to come within the limit of loading.
    ///
    /// # Errors
    /// See [`PeerError`].
    pub async fn all_data(&self, to: &Address) -> Result<AllData, PeerError> {
        let call = self.get(&format!("/v1/ns/distro/datums?{READ_AS_SENT}"));
        let until = Instant::now() + self.0.limits.load;
        let answer = self.0.client.open(to.as_str(), call, self.0.limits.load).await?;
        if answer.status() != StatusCode::OK {
            let answer = timeout_at(until, client::collect(answer, MAX_PLAIN)).await;
            let answer = answer.map_err(|_| PeerError::Silent)??;
            return Err(refusal(&answer).unwrap_or_else(|| PeerError::Unknown(answer.status())));
        }
        let (called, nacre) = (called(answer.headers()), protocol_of(answer.headers()));
        let wall_ms = date(answer.headers());
        Ok(AllData { called, nacre, wall_ms, body: answer.into_body().into_data_stream(), until })
    }

    /// The members that `to` takes for owners of services: those that it shows as up, or nearly, sorted as text.
    ///
    /// # Errors
    /// See [`PeerError`].
    pub async fn ring(&self, to: &Address) -> Result<Vec<Address>, PeerError> {
        #[derive(Deserialize)]
        struct Shown {
            data: Vec<Node>,
        }
        #[derive(Deserialize)]
        struct Node {
            address: String,
            state: String,
        }
        let call = self.get("/v1/core/cluster/nodes");
        let body = self.send(to, call, self.0.limits.sync, MAX_PLAIN).await?;
        let shown: Shown =
            serde_json::from_slice(&body).map_err(|error| PeerError::Malformed(error.into()))?;
        let owners = shown.data.into_iter().filter(|node| matches!(&*node.state, "UP" | "SUSPICIOUS"));
        let ring: BTreeSet<Address> = owners.map(|node| Address::new(&node.address)).collect();
        Ok(ring.into_iter().collect())
    }

    /// Bytes that a single datum of a member may have.
    #[must_use]
    pub fn max_datum(&self) -> usize {
        self.0.limits.max_data
    }

    /// Tells a 1.x member the checksums of the services of a namespace that this node owns, health included. Where its
    /// own differ it pulls the [statuses](Self::statuses).
    ///
    /// # Errors
    /// See [`PeerError`].
    pub async fn service_status<'a>(
        &self,
        to: &Address,
        namespace: &str,
        checksums: impl IntoIterator<Item = (&'a str, &'a str)> + Clone,
    ) -> Result<(), PeerError> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Statuses<'a, C: Serialize> {
            namespace_id: &'a str,
            #[serde(rename = "serviceName2Checksum")]
            checksums: C,
        }
        #[derive(Serialize)]
        struct Told<'a> {
            #[serde(rename = "clientIP")]
            client_ip: &'a str,
            statuses: &'a str,
        }
        let statuses = json::to_bytes(&Statuses { namespace_id: namespace, checksums: AsMap(checksums) });
        let statuses = String::from_utf8_lossy(&statuses);
        let body = json::to_bytes(&Told { client_ip: self.0.own.as_str(), statuses: &statuses });
        let call = self.in_context(Method::POST, "/v1/ns/service/status", body);
        self.send(to, call, self.0.limits.verify, MAX_PLAIN).await.map(drop)
    }

    /// The health of each instance of a service as `to` sees it: `ip:port`, and whether it is healthy.
    ///
    /// # Errors
    /// See [`PeerError`].
    pub async fn statuses(
        &self,
        to: &Address,
        namespace: &str,
        name: &str,
    ) -> Result<Vec<(String, bool)>, PeerError> {
        #[derive(Deserialize)]
        struct Statuses {
            ips: Vec<String>,
        }
        let key = encode(&format!("{namespace}##{name}"));
        let call = self.get(&format!("/v1/ns/instance/statuses?key={key}&{READ_AS_SENT}"));
        let answer = self.send(to, call, self.0.limits.verify, self.0.limits.max_data).await?;
        let Statuses { ips } = read(&answer)?;
        let parts = ips.iter().filter_map(|status| status.rsplit_once('_'));
        Ok(parts.map(|(address, healthy)| (address.to_owned(), healthy == "true")).collect())
    }

    /// Compares with a Nacre member what this node owns (`PUT /nacre/peer/verify`, JSON both ways).
    ///
    /// # Errors
    /// See [`PeerError`].
    pub async fn verify(&self, to: &Address, body: Bytes, written_ms: u64) -> Result<Bytes, PeerError> {
        let call = self.call(Method::PUT, "/nacre/peer/verify", body);
        let call = self.written(call, written_ms, self.0.limits.verify);
        self.send(to, call, self.0.limits.verify, self.0.limits.max_data).await
    }

    /// Asks a Nacre member about silent instances (`PUT /nacre/peer/ask`, JSON both ways).
    ///
    /// # Errors
    /// See [`PeerError`].
    pub async fn ask(&self, to: &Address, body: Bytes) -> Result<Bytes, PeerError> {
        let call = self.call(Method::PUT, "/nacre/peer/ask", body);
        self.send(to, call, self.0.limits.verify, self.0.limits.max_data).await
    }

    /// Compares keys with a Nacre member (`PUT /nacre/peer/keys`, JSON both ways).
    ///
    /// # Errors
    /// See [`PeerError`].
    pub async fn keys(&self, to: &Address, body: Bytes) -> Result<Bytes, PeerError> {
        let call = self.call(Method::PUT, "/nacre/peer/keys", body);
        self.send(to, call, self.0.limits.verify, self.0.limits.max_data).await
    }

    /// Tells `to` that these members leave; with `notify_others` it tells the rest.
    ///
    /// # Errors
    /// See [`PeerError`].
    pub async fn leave(
        &self,
        to: &Address,
        leaving: &[Address],
        notify_others: bool,
    ) -> Result<(), PeerError> {
        let path = format!("/v1/core/cluster/server/leave?notifyOtherMembers={notify_others}");
        let addresses: Vec<&str> = leaving.iter().map(Address::as_str).collect();
        let call = self.in_context(Method::POST, &path, json::to_bytes(&addresses));
        self.send(to, call, self.0.limits.report, MAX_PLAIN).await.map(drop)
    }

    /// Tells when the ages in a body were read, so that they can be told from the time that the call was on its way.
    fn written(&self, mut call: Request<Bytes>, written_ms: u64, timeout: Duration) -> Request<Bytes> {
        let patience_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let sent = Sent { process: self.0.process.load(Ordering::Relaxed), at_ms: written_ms, patience_ms };
        if let Ok(sent) = HeaderValue::try_from(sent.to_string()) {
            call.headers_mut().insert(SENT.clone(), sent);
        }
        call
    }

    /// A call without body.
    fn get(&self, path: &str) -> Request<Bytes> {
        let mut call = self.in_context(Method::GET, path, Bytes::new());
        call.headers_mut().remove(header::CONTENT_TYPE);
        call
    }

    fn in_context(&self, method: Method, path: &str, json: impl Into<Bytes>) -> Request<Bytes> {
        self.call(method, &[&self.0.context, path].concat(), json)
    }

    fn call(&self, method: Method, path: &str, json: impl Into<Bytes>) -> Request<Bytes> {
        let mut call = Request::new(json.into());
        *call.method_mut() = method;
        *call.uri_mut() = path.parse().expect("texts in paths are encoded");
        call.headers_mut().clone_from(&self.0.headers);
        let json = HeaderValue::from_static("application/json;charset=UTF-8");
        call.headers_mut().insert(header::CONTENT_TYPE, json);
        call
    }

    /// The body of a good answer.
    async fn send(
        &self,
        to: &Address,
        call: Request<Bytes>,
        timeout: Duration,
        max_answer: usize,
    ) -> Result<Bytes, PeerError> {
        self.send_whole(to, call, timeout, max_answer).await.map(Response::into_body)
    }

    /// A good answer.
    async fn send_whole(
        &self,
        to: &Address,
        call: Request<Bytes>,
        timeout: Duration,
        max_answer: usize,
    ) -> Result<Response<Bytes>, PeerError> {
        let sent = call.headers().get(&SENT).and_then(|sent| Sent::read(sent.as_bytes()));
        let answer = self.0.client.send(to.as_str(), call, timeout, max_answer).await?;
        let refusal = refusal(&answer);
        if let (Some(PeerError::Late), Some(Sent { process, .. })) = (&refusal, sent) {
            self.0.stood_as.store(process, Ordering::Relaxed);
            // Its clock has nothing to do any more with what members know of it. Once, however many say so.
            let next = process.wrapping_add(1);
            let _ = self.0.process.compare_exchange(process, next, Ordering::Relaxed, Ordering::Relaxed);
        }
        refusal.map_or(Ok(answer), Err)
    }
}

/// What every call carries.
fn headers(own: &Address, settings: &Settings) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Ok(own) = HeaderValue::from_str(own.as_str()) {
        headers.insert(SOURCE.clone(), own);
    }
    headers.insert(header::USER_AGENT, USER_AGENT);
    headers.insert("client-version", HeaderValue::from_static(VERSION));
    headers.insert(PEER.clone(), HeaderValue::from(super::member::PROTOCOL));
    let (name, value) = (&settings.cluster.identity_key, &settings.cluster.identity_value);
    if let (Some(name), Some(value)) = (name, value)
        && let (Ok(name), Ok(mut value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(value.reveal()))
    {
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    headers
}

fn read<'a, T: Deserialize<'a>>(answer: &'a [u8]) -> Result<T, PeerError> {
    serde_json::from_slice(answer).map_err(|error| PeerError::Malformed(error.into()))
}

/// As Java's encoder for forms would, but for blanks, which no such text has.
fn encode(text: &str) -> String {
    utf8_percent_encode(text, &PLAIN).to_string()
}

/// Pairs as a JSON object, in their order.
struct AsMap<I>(I);

impl<'a, I: IntoIterator<Item = (&'a str, &'a str)> + Clone> Serialize for AsMap<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.clone())
    }
}

#[cfg(test)]
#[path = "peer_tests.rs"]
mod tests;
