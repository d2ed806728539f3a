//! One request of a client, from its head to the head of its answer.
//!
//! ```text
//! framing ─► path ─► rule ─► limits ─► clean head ─► pick an instance ─► pass ─┬─► clean answer ─► client
//!                                            ▲                                └─► may be sent again? ─┐
//!                                            └──────────────────────────────────────────────────────────┘
//! ```
//!
//! Decisions are those of pure parts; here they meet sockets and the clock.

use std::net::IpAddr;
use std::sync::{Arc, atomic::Ordering::Relaxed};

use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, Version, header, request::Parts};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use nacre_middleware::{framing, hygiene};
use tokio::sync::OwnedSemaphorePermit;

use super::{
    Proxy,
    answer::{Answer, ProxyBody, REQUEST_ID},
    attempts::{self, Passed, Passing},
    finish::{Asked, Finish},
    key::key_of,
    load::ServiceSlot,
    matching, path,
    refusals::{self, Refusal},
    rule::{Balance, Protocol},
    tunnel,
    upload::Upload,
    upstream::Slot,
};
use crate::base::hash;

/// Nacre nodes that a request may pass.
const MOST_HOPS: u8 = 8;
/// Bytes of a request's number that is believed.
const LONGEST_ID: usize = 128;

/// Who calls.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The other end of the connection.
    pub address: IpAddr,
    /// `http` or `https`.
    pub scheme: &'static str,
    /// Its connection's place among all, for as long as it is open.
    pub place: Arc<OwnedSemaphorePermit>,
}

impl Proxy {
    /// Answers a request; whatever happens there is an answer.
    pub async fn answer(
        self: &Arc<Self>,
        mut request: Request<Incoming>,
        caller: Caller,
        mut finish: Box<Finish>,
    ) -> Response<ProxyBody> {
        let number = self.counts.requests.fetch_add(1, Relaxed);
        let is_trusted = self.settings.trust_forwarded.iter().any(|network| network.contains(caller.address));
        let id = self.request_id(number, request.headers(), is_trusted);
        if self.sampler.is_on() {
            finish.asked = Some(Box::new(Asked {
                client: caller.address,
                method: request.method().clone(),
                host: host_of(request.uri(), request.headers()).unwrap_or_default().into(),
                target: Asked::shown(request.uri().path(), request.uri().query()),
                id: Some(id.clone()),
            }));
        }
        let is_http2 = request.version() == Version::HTTP_2;
        let upgrade =
            request.headers().contains_key(header::UPGRADE).then(|| hyper::upgrade::on(&mut request));
        let outcome = self.passed(request, caller, is_trusted, &id, &mut finish, upgrade).await;
        let mut answer = outcome.unwrap_or_else(|refusal| {
            self.counts.refused(refusal.kind);
            finish.failure.get_or_insert(refusal.kind);
            let mut answer = refusal.answer(Some(&id));
            if is_http2 {
                answer.headers_mut().remove(header::CONNECTION);
            }
            answer
        });
        answer.headers_mut().entry(&REQUEST_ID).or_insert(id);
        finish.status = answer.status();
        answer.map(|body| body.with(finish))
    }

    async fn passed(
        self: &Arc<Self>,
        request: Request<Incoming>,
        caller: Caller,
        is_trusted: bool,
        id: &HeaderValue,
        finish: &mut Finish,
        upgrade: Option<hyper::upgrade::OnUpgrade>,
    ) -> Result<Response<ProxyBody>, Refusal> {
        let (mut head, body) = request.into_parts();
        if let Err(error) = framing::check(&head.method, &head.uri, head.version, &head.headers) {
            tracing::debug!(client = %caller.address, %error, "a request was refused");
            return Err(refusals::AMBIGUOUS);
        }
        let host_and_port = host_of(&head.uri, &head.headers).unwrap_or_default();
        let Ok(host) = HeaderValue::from_str(host_and_port) else { return Err(refusals::AMBIGUOUS) };
        let routes = self.routes.load_full();
        let route = {
            let path = path::normalized(head.uri.path()).ok_or(refusals::BAD_PATH)?;
            let asked = matching::Asked {
                host: without_port(host_and_port),
                path: &path,
                method: &head.method,
                headers: &head.headers,
            };
            let route = routes.find(&self.table, asked).ok_or(refusals::NO_RULE)?;
            if let Some(target) = route.target(&path, head.uri.query()) {
                head.uri = target.parse().map_err(|_| refusals::BAD_PATH)?;
            }
            route
        };
        finish.route = Some(Arc::clone(&route));
        let most = route.rule.policy.limits.body_bytes;
        if most.is_some_and(|most| body.size_hint().lower() > most) {
            return Err(refusals::TOO_LONG);
        }
        let asked = hygiene::clean_request(&mut head);
        hygiene::count_hop(&mut head.headers, MOST_HOPS).map_err(|_| refusals::CIRCLE)?;
        let signed = hygiene::Caller {
            address: caller.address,
            scheme: caller.scheme,
            host: Some(&host).filter(|host| !host.is_empty()),
            trusted: is_trusted,
        };
        if !is_trusted {
            remove_claims(&mut head.headers);
        }
        hygiene::sign(&mut head.headers, signed);
        hygiene::ask_for_trailers(&mut head.headers, &asked);
        hygiene::ask_for_upgrade(&mut head.headers, &asked);
        head.headers.insert(REQUEST_ID.clone(), id.clone());
        let key = match &route.rule.policy.balance {
            Balance::Hash(by) => key_of(by, &head.headers, caller.address),
            _ => 0,
        };
        let now = self.clock.now();
        let (backends, selection) = route.destination(&self.table, now, key);
        let place = backends.load.enter(route.rule.policy.limits.per_service).ok_or(refusals::FULL)?;
        let keeps = matches!(route.rule.policy.protocol, Protocol::Http2 | Protocol::Https2);
        let (body, exceeded) = Upload::new(body, most, keeps);
        let passing = Passing { route: &route, key, backends, selection, exceeded, host };
        let request = Request::from_parts(into_origin_form(head), body);
        let Passed { answer, slot, selection } = self.pass(request, passing, finish).await?;
        let (upstream, policy) = (Arc::clone(slot.upstream()), &route.rule.policy);
        let failure = attempts::failure_of(answer.status());
        if let Some(reason) = failure {
            upstream.failed(self.clock.now(), reason, &policy.ejection, selection.usable());
        }
        let (mut head, mut body) = answer.into_parts();
        hygiene::clean_answer(head.status, &mut head.headers, &asked, body.size_hint().exact());
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            let upgrade = upgrade.ok_or(refusals::BROKEN)?;
            upstream.succeeded(self.clock.now());
            self.tunnel(upgrade, body, (slot, place), policy.times.idle, caller.place);
            return Ok(Response::from_parts(head, ProxyBody::whole(bytes::Bytes::new())));
        }
        let body = match body.take_whole() {
            Some(whole) => {
                if failure.is_none() {
                    upstream.succeeded(self.clock.now());
                }
                ProxyBody::whole(whole)
            }
            None => {
                // Whether it has answered as it should shows at the end.
                finish.judged = Some(selection).filter(|_| failure.is_none());
                ProxyBody::streamed(Box::new(body), (slot, place))
            }
        };
        Ok(Response::from_parts(head, body))
    }

    /// Passes bytes between both ends once the client's connection has changed, too.
    fn tunnel(
        self: &Arc<Self>,
        upgrade: hyper::upgrade::OnUpgrade,
        mut body: Answer,
        places: (Slot, ServiceSlot),
        idle: std::time::Duration,
        connection: Arc<OwnedSemaphorePermit>,
    ) {
        let proxy = Arc::clone(self);
        self.tunnels.spawn(async move {
            let (_places, _connection) = (places, connection);
            let Some(instance) = body.take_tunnel() else { return };
            let client = match upgrade.await {
                Ok(client) => TokioIo::new(client),
                Err(error) => return tracing::debug!(%error, "a connection didn't change its protocol"),
            };
            let passing = tunnel::run(client, instance.stream, &instance.read, idle);
            tokio::select! {
                outcome = passing => {
                    if let Err(error) = outcome {
                        tracing::debug!(%error, "a tunnel ended");
                    }
                }
                () = proxy.cut.cancelled() => {}
            }
        });
    }

    fn request_id(&self, number: u64, headers: &HeaderMap, is_trusted: bool) -> HeaderValue {
        let is_plain = |id: &&HeaderValue| {
            (1..=LONGEST_ID).contains(&id.len()) && id.as_bytes().iter().all(u8::is_ascii_graphic)
        };
        if let Some(id) = headers.get(&REQUEST_ID).filter(|_| is_trusted).filter(is_plain) {
            return id.clone();
        }
        let text = format!("{:016x}{:016x}", self.id_seed, hash::mix(number ^ self.id_seed.rotate_left(32)));
        HeaderValue::try_from(text).expect("digits are a header's value")
    }
}

/// The host that a request is for, with its port where it has one.
fn host_of<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    match uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => headers.get(header::HOST)?.to_str().ok(),
    }
}

fn without_port(host: &str) -> &str {
    if host.starts_with('[') {
        return host.find(']').map_or(host, |end| &host[..=end]);
    }
    host.split_once(':').map_or(host, |(name, _)| name)
}

/// The target without scheme and host.
fn into_origin_form(mut head: Parts) -> Parts {
    if head.uri.authority().is_some() {
        head.uri = head.uri.path_and_query().cloned().map(Uri::from).unwrap_or_default();
    }
    head
}

/// Takes off what a client says about itself as only a proxy should.
fn remove_claims(headers: &mut HeaderMap) {
    let is_claim =
        |name: &&http::HeaderName| name.as_str().starts_with("x-forwarded-") || name.as_str() == "x-real-ip";
    let claims: Vec<http::HeaderName> = headers.keys().filter(is_claim).cloned().collect();
    for claim in claims {
        headers.remove(claim);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_compared_without_its_port() {
        for (host, expected) in [
            ("a", "a"),
            ("a:80", "a"),
            ("[::1]", "[::1]"),
            ("[::1]:80", "[::1]"),
            ("10.0.0.1:80", "10.0.0.1"),
        ] {
            assert_eq!(without_port(host), expected);
        }
    }
}
