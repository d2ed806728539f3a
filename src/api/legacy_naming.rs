//! Naming that a legacy cluster answers: what a call wants of it, and how what is answered in its place looks.
//!
//! Everything under the naming path goes there as it came; only the address for pushes is written into a question that
//! names none, since the servers would take this node's for it. Source: ours; what is answered in the cluster's place
//! looks as this server's own answers do.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{
    FutureExt as _,
    future::{BoxFuture, ready},
};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header, uri::PathAndQuery};
use nacre_middleware::{V1Body, V1Response, envelope::Bare, hygiene, legacy_naming::Legacy};

use super::{
    Api, Named, V1Call,
    agent::Agent,
    beat,
    caller::caller_of,
    instance, legacy,
    params::Params,
    peers,
    reply::{self, Refusal, Reply},
    routes::{Area, Row},
};
use crate::{
    base::java,
    gateway::{
        self, MOST_HOPS, Naming,
        naming::{
            Held,
            kept::{Effect, Which},
            question::{Answered, Question, Refused, Sent, What},
            stale::{HostKey, Last, ListKey},
        },
    },
    model::{InstanceKey, Metadata, ServiceKey, instance::own_beat_interval_ms},
    observe::beats,
};

/// On a list that is older than its answer: by how many seconds.
static STALE: HeaderName = HeaderName::from_static("x-nacre-stale");

const INSTANCE: &str = "/v1/ns/instance";
const LIST: &str = "/v1/ns/instance/list";
/// The entries that name a service by `dom` alone.
const BY_DOM: [&str; 2] = ["/v1/ns/api/srvIPXT", "/v1/ns/api/clientBeat"];

/// Hands naming to a legacy cluster.
#[derive(Clone)]
pub struct LegacyNaming {
    api: Arc<Api>,
    naming: Naming,
}

impl LegacyNaming {
    /// Where `naming` answers.
    #[must_use]
    pub fn new(api: Arc<Api>, naming: Naming) -> Self {
        Self { api, naming }
    }
}

impl Legacy<Row> for LegacyNaming {
    fn answer(&self, mut call: V1Call) -> Result<BoxFuture<'static, V1Response>, Box<V1Call>> {
        if call.facts.area != Area::Naming {
            return Err(Box::new(call));
        }
        // The servers see this node's address, and may let it do what not all may.
        if call.facts.of_peers
            && let Err(refusal) = peers::check(&self.api, &call)
        {
            return Ok(ready(reply::respond(&mut call.head, Err(refusal))).boxed());
        }
        let question = question(&self.api, &self.naming, &call);
        let (mut head, body) = request(&self.api, &call, &question).into_parts();
        // What `Connection` names goes before anything is added.
        hygiene::clean_request(&mut head);
        let mut request = Request::from_parts(head, body);
        if hygiene::count_hop(request.headers_mut(), MOST_HOPS).is_err() {
            return Ok(ready(gateway::circle()).boxed());
        }
        let sent = Sent { request, peer: call.peer };
        let Self { api, naming } = self.clone();
        Ok(async move { respond(&api, call, naming.answer(question, sent).await) }.boxed())
    }
}

/// The request as it goes on.
fn request(api: &Api, call: &V1Call, question: &Question) -> Request<Bytes> {
    let mut request = Request::new(call.body.clone());
    *request.method_mut() = call.head.method.clone();
    *request.headers_mut() = call.head.headers.clone();
    *request.uri_mut() = call.head.uri.clone();
    if matches!(question.what, What::List(_))
        && let Some(target) = with_own_address(api, call)
    {
        *request.uri_mut() = target.into();
    }
    request
}

/// The target with the caller's address for pushes, where the caller wants some and gives none.
fn with_own_address(api: &Api, call: &V1Call) -> Option<PathAndQuery> {
    let params = Params::of(call);
    let wants_pushes = params.optional("udpPort").and_then(|port| java::parse_int(&port))? > 0;
    if !wants_pushes || params.optional("clientIP").is_some() {
        return None;
    }
    // In front: of a name that stands twice, empty the second time, the first value is the only one.
    let (path, query) = (call.head.uri.path(), call.head.uri.query().unwrap_or_default());
    PathAndQuery::try_from(format!("{path}?clientIP={}&{query}", caller_of(api, call))).ok()
}

/// What a call wants.
fn question(api: &Api, naming: &Naming, call: &V1Call) -> Question {
    let params = Params::of(call);
    let named = match BY_DOM.contains(&call.facts.path) {
        true => legacy::named(&params),
        false => Named::read(&params),
    };
    let service = named.ok().map(|named| named.place().to_key());
    let header =
        |name: HeaderName| call.head.headers.get(name).map(HeaderValue::as_bytes).unwrap_or_default();
    let param = |name: &str| params.get(name).unwrap_or_default().as_bytes();
    let credentials =
        [param("accessToken"), param("username"), param("password"), header(header::AUTHORIZATION)];
    let caller = naming.caller(&params.namespace(), &credentials);
    let what = service.as_ref().and_then(|service| wanted(api, call, &params, service));
    Question { service, caller, what: what.unwrap_or(What::Other) }
}

/// What a call wants that names this service; nothing where it is nothing that could be answered in the cluster's place, or
/// would be refused.
fn wanted(api: &Api, call: &V1Call, params: &Params<'_>, service: &ServiceKey) -> Option<What> {
    if beat::is_beat(call.facts) {
        let host = beat::with_instance(call, |_, key| host_of(key))?;
        // The oldest entry has beats in the query alone.
        let is_light = params.optional("beat").is_none() && call.head.method == Method::PUT;
        return Some(What::Beat { service: service.clone(), host, is_light });
    }
    match (&call.facts.method, call.facts.path) {
        (&Method::GET, LIST) => list_key(call, params, service).map(What::List),
        (&Method::GET, path) if path == BY_DOM[0] => list_key(call, params, service).map(What::List),
        (method @ (&Method::POST | &Method::DELETE), INSTANCE) => {
            let (service, gone, ephemeral) = instance::examine(api, call).ok()?;
            let effect = if method == Method::POST { Effect::Registers } else { Effect::Deregisters };
            Some(What::Write(Which { service, host: host_of(&gone.key()), ephemeral }, effect))
        }
        (&Method::PUT | &Method::PATCH, INSTANCE) => {
            let host = instance::changed(params, host_of)?;
            Some(What::Change { service: service.clone(), host })
        }
        _ => None,
    }
}

fn list_key(call: &V1Call, params: &Params<'_>, service: &ServiceKey) -> Option<ListKey> {
    let text = |name: &str| params.optional(name).unwrap_or_default().into();
    let truth = |name: &str| params.optional(name).is_some_and(|word| java::is_true(&word));
    Some(ListKey {
        service: service.clone(),
        clusters: text("clusters"),
        env: text("env"),
        healthy_only: truth("healthyOnly"),
        is_check: truth("isCheck"),
        grouped: Agent::of(&call.head.headers).is_modern_java().ok()?,
    })
}

fn host_of(key: &InstanceKey<'_>) -> HostKey {
    HostKey { ip: key.ip.into(), port: key.port, cluster: key.cluster.into() }
}

fn respond(api: &Api, mut call: V1Call, answered: Answered) -> V1Response {
    let outcome = match answered {
        Answered::Registry(response) => return relayed(response),
        Answered::Stale(last) => Ok(Reply::Whole(Box::new(stale(last)))),
        Answered::Known(metadata) => {
            let metadata = metadata.and_then(|text| serde_json::from_str::<Metadata>(&text).ok());
            let interval = metadata.as_ref().and_then(own_beat_interval_ms);
            Ok(beat::known(api, beats::Effect::Renewed, interval))
        }
        Answered::Unknown => Ok(beat::unknown(api)),
        Answered::Kept => Ok(Reply::OK),
        Answered::Refused(why) => Err(refusal(why)),
    };
    let is_refused = outcome.is_err();
    let mut response = reply::respond(&mut call.head, outcome);
    if is_refused {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// What a server said, framed as it was: with a length, or without.
fn relayed(response: Response<Bytes>) -> V1Response {
    let (mut head, mut body) = response.into_parts();
    if let Some(held) = head.extensions.remove::<Held>() {
        body = held.by(body);
    }
    let is_sized = head.headers.remove(header::CONTENT_LENGTH).is_some();
    head.headers.remove(header::TRANSFER_ENCODING);
    head.extensions.insert(Bare);
    Response::from_parts(head, if is_sized { V1Body::sized(body) } else { V1Body::chunked(body) })
}

fn stale(last: Last) -> V1Response {
    let media_type = last.answer.media_type.unwrap_or(HeaderValue::from_static("application/json"));
    let mut response = reply::typed_response(StatusCode::OK, media_type, V1Body::chunked(last.answer.body));
    response.headers_mut().insert(STALE.clone(), HeaderValue::from(last.age.as_secs()));
    response
}

/// Clients of 1.x go to their next server, or come again, by 503; not all of them do by 504.
fn refusal(why: Refused) -> Refusal {
    match why {
        Refused::Away => Refusal::unavailable(
            "no legacy server answers, and this was not asked for before, please try again later",
        ),
        Refused::Full => Refusal::unavailable("too many requests wait for the legacy servers"),
        Refused::TimedOut => Refusal::unavailable("no legacy server answers in time"),
        Refused::Doubtful => Refusal::unavailable(
            "the legacy server has given no answer: what was asked may have been done, or not",
        ),
        Refused::Strange => Refusal::bad_gateway("the legacy servers give no answer that a registry gives"),
        Refused::NoRoom => Refusal::unavailable(
            "no legacy server answers, and no more registrations are kept (nacre.legacy.max-kept)",
        ),
        Refused::Stranger => Refusal::unavailable(
            "no legacy server answers, and none has answered a request with these credentials before",
        ),
    }
}

#[cfg(test)]
#[path = "legacy_naming_tests.rs"]
mod tests;
