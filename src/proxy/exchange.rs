//! One request of a client, from its head to the head of its answer.
//!
//! ```text
//! framing ─► path ─► rule ─► limits ─► clean head ─► pick an instance ─► pass ─┬─► clean answer ─► client
//!                                            ▲                                └─► may be sent again? ─┐
//!                                            └──────────────────────────────────────────────────────────┘
//! ```
//!
//! Decisions are those of pure parts; here they meet sockets and the clock.

use std::{
    net::IpAddr,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};

use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, Version, header, request::Parts};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use nacre_middleware::{
    framing, hygiene,
    pass::{self, Failure, Fault, Plan},
    pool::ConnectFault,
};

use super::{
    Proxy,
    answer::{Answer, ProxyBody, REQUEST_ID, Refusal},
    finish::{Asked, Finish},
    matching, path,
    routes::Route,
    rule::{Balance, HashBy, HostHeader},
    table::{Backends, Selection, Unpicked, Wanted},
    tunnel,
    upload::{Exceeded, Upload},
    upstream::{ServiceSlot, Slot, Upstream, Way},
};
use crate::base::hash;

/// Nacre nodes that a request may pass.
const MOST_HOPS: u8 = 8;
/// A connection to an instance that has been idle for longer isn't used: applications close theirs after 5 s and more.
const MAX_IDLE: std::time::Duration = std::time::Duration::from_secs(4);
/// Bytes of a request's number that is believed.
const LONGEST_ID: usize = 128;

const NO_RULE: Refusal =
    Refusal::new(StatusCode::NOT_FOUND, "no_rule", "no rule of this proxy is for this host and path");
const BAD_PATH: Refusal = Refusal::new(
    StatusCode::BAD_REQUEST,
    "bad_path",
    "the path has dot segments or broken escapes, which servers read differently",
);
const AMBIGUOUS: Refusal =
    Refusal::new(StatusCode::BAD_REQUEST, "ambiguous", "servers would read this request differently");
const CIRCLE: Refusal = Refusal::new(
    StatusCode::LOOP_DETECTED,
    "circle",
    "this request comes to the same proxies again and again",
);
const TOO_LONG: Refusal = Refusal::new(
    StatusCode::PAYLOAD_TOO_LARGE,
    "too_long",
    "the request's body is longer than its rule allows",
);
const NOBODY: Refusal = Refusal::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "no_instance",
    "the service has no instance that may get requests",
);
const FULL: Refusal =
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "full", "the service has as many requests as it may");
const UNREACHED: Refusal = Refusal::new(
    StatusCode::BAD_GATEWAY,
    "unreached",
    "there is no connection to an instance of the service",
);
const BROKEN: Refusal =
    Refusal::new(StatusCode::BAD_GATEWAY, "broken", "the instance gave no answer that can be read");
const LATE: Refusal = Refusal::new(StatusCode::GATEWAY_TIMEOUT, "late", "the instance didn't answer in time");
const SLOW: Refusal =
    Refusal::new(StatusCode::REQUEST_TIMEOUT, "slow_client", "the request's body stopped coming");
const BROKE_OFF: Refusal =
    Refusal::new(StatusCode::BAD_REQUEST, "broken_client", "the request's body broke off");

/// Who calls.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// The other end of the connection.
    pub address: IpAddr,
    /// `http` or `https`.
    pub scheme: &'static str,
}

/// What is passed on, beside the body.
struct Passing<'r> {
    route: &'r Arc<Route>,
    key: u64,
    backends: &'r Backends,
    selection: Arc<Selection>,
    exceeded: Option<Exceeded>,
    /// The host that the client called.
    host: HeaderValue,
}

/// An answer and the places that it has until its end.
struct Passed {
    answer: Response<Answer>,
    slot: Slot,
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
            return Err(AMBIGUOUS);
        }
        let host_and_port = host_of(&head.uri, &head.headers).unwrap_or_default();
        let Ok(host) = HeaderValue::from_str(host_and_port) else { return Err(AMBIGUOUS) };
        let routes = self.routes.load_full();
        let route = {
            let path = path::normalized(head.uri.path()).ok_or(BAD_PATH)?;
            let asked = matching::Asked {
                host: without_port(host_and_port),
                path: &path,
                method: &head.method,
                headers: &head.headers,
            };
            let route = routes.find(&self.table, asked).ok_or(NO_RULE)?;
            if let Some(target) = route.target(&path, head.uri.query()) {
                head.uri = target.parse().map_err(|_| BAD_PATH)?;
            }
            route
        };
        finish.rule = Some(Arc::clone(&route.rule.name));
        finish.counts = Some(Arc::clone(&route.counts));
        let most = route.rule.policy.limits.body_bytes;
        if most.is_some_and(|most| body.size_hint().lower() > most) {
            return Err(TOO_LONG);
        }
        let asked = hygiene::clean_request(&mut head);
        hygiene::count_hop(&mut head.headers, MOST_HOPS).map_err(|_| CIRCLE)?;
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
        let place = backends.load.enter(route.rule.policy.limits.per_service).ok_or(FULL)?;
        let (body, exceeded) = Upload::new(body, most);
        let passing = Passing { route: &route, key, backends, selection, exceeded, host };
        let request = Request::from_parts(into_origin_form(head), body);
        let Passed { answer, slot } = self.pass(request, passing, finish).await?;
        finish.upstream = Some(Arc::clone(slot.upstream()));
        let idle = route.rule.policy.times.idle;
        let (mut head, mut body) = answer.into_parts();
        hygiene::clean_answer(head.status, &mut head.headers, &asked, body.size_hint().exact());
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            let upgrade = upgrade.ok_or(BROKEN)?;
            self.tunnel(upgrade, body, (slot, place), idle);
            return Ok(Response::from_parts(head, ProxyBody::whole(bytes::Bytes::new())));
        }
        let body = match body.take_whole() {
            Some(whole) => ProxyBody::whole(whole),
            None => ProxyBody::streamed(Box::new(body), (slot, place)),
        };
        Ok(Response::from_parts(head, body))
    }

    /// Sends the request to one instance after the other until one answers, or it may not be sent again.
    async fn pass(
        &self,
        request: Request<Upload>,
        mut passing: Passing<'_>,
        finish: &mut Finish,
    ) -> Result<Passed, Refusal> {
        let policy = &passing.route.rule.policy;
        let times = policy.times;
        let plan = Plan {
            connect: times.connect,
            wait: std::time::Duration::ZERO,
            response: times.response,
            idle: times.idle,
            max_idle: MAX_IDLE,
        };
        let mut plan = plan.of(request.method());
        let (mut request, mut tried) = (request, Vec::new());
        // Each attempt but for those that only found a kept connection closed.
        let (mut retries_left, mut found_closed) = (policy.retries, false);
        loop {
            let now = self.clock.now();
            if finish.attempts > 0 {
                // Who has left meanwhile gets no second chance.
                passing.selection = passing.backends.selection(&self.table, now);
            }
            let wanted = Wanted {
                now,
                balance: &policy.balance,
                key: passing.key,
                tried: &tried,
                per_instance: policy.limits.per_instance,
                slow_start: policy.slow_start,
            };
            let slot = passing.selection.pick(&self.table, &wanted).map_err(|unpicked| match unpicked {
                Unpicked::Nobody => NOBODY,
                Unpicked::Full => FULL,
            })?;
            let upstream = Arc::clone(slot.upstream());
            finish.attempts += 1;
            finish.upstream = Some(Arc::clone(&upstream));
            upstream.counts.requests.fetch_add(1, Relaxed);
            set_host(&mut request, &policy.host_header, &passing.host, &upstream);
            let outcome = match self.way(&upstream, policy).await {
                Ok(way) => pass::pass(&upstream.pool(&way, &self.connector), request, plan).await,
                Err(error) => {
                    let fault = match error.kind() {
                        std::io::ErrorKind::TimedOut => ConnectFault::TimedOut,
                        _ => ConnectFault::Refused(error.to_string()),
                    };
                    Err(Failure::unsent(Fault::Connect(fault), request))
                }
            };
            let failure = match outcome {
                Ok(answer) => {
                    self.note_answer(&upstream, answer.status(), &passing);
                    return Ok(Passed { answer, slot });
                }
                Err(failure) => failure,
            };
            drop(slot);
            let (kind, was_kept) = (
                failure.fault.kind(),
                failure.reused && !found_closed && matches!(failure.fault, Fault::Closed),
            );
            let is_instances = failure.fault.is_upstreams();
            if is_instances && !was_kept {
                upstream.failed(self.clock.now(), kind, &policy.ejection, passing.selection.usable());
            }
            let refusal = refusal_of(&failure.fault, passing.exceeded.as_ref());
            let text = failure.fault.to_string();
            let may_try = was_kept || retries_left > 0;
            match failure.again().ok().filter(|_| may_try && self.may_retry()) {
                Some(again) => {
                    tracing::debug!(instance = %upstream, error = text, "a request is sent again");
                    passing.route.counts.retries.fetch_add(1, Relaxed);
                    request = again;
                }
                None => {
                    finish.failure = Some(kind);
                    if is_instances {
                        self.tell_of(&upstream, passing.route, kind, &text);
                    }
                    return Err(refusal);
                }
            }
            if was_kept {
                found_closed = true;
                plan = plan.afresh();
            } else {
                retries_left -= 1;
                tried.push(upstream);
            }
        }
    }

    fn note_answer(&self, upstream: &Upstream, status: StatusCode, passing: &Passing<'_>) {
        let now = self.clock.now();
        let reason = match status {
            StatusCode::BAD_GATEWAY => "502",
            StatusCode::SERVICE_UNAVAILABLE => "503",
            StatusCode::GATEWAY_TIMEOUT => "504",
            _ => return upstream.succeeded(now),
        };
        let rule = &passing.route.rule.policy.ejection;
        upstream.failed(now, reason, rule, passing.selection.usable());
    }

    /// One line for each failure that a client is told of; of many in a short time, some.
    fn tell_of(&self, upstream: &Upstream, route: &Route, kind: &'static str, error: &str) {
        let address = upstream.to_string();
        if let Some(unlogged) = self.failures.pass(&[&address, kind], Instant::now()) {
            let rule = &*route.rule.name;
            tracing::warn!(
                instance = address,
                rule,
                kind,
                error,
                unlogged,
                "a request has no answer of an instance"
            );
        }
    }

    /// Whether the budget of further attempts has one left.
    fn may_retry(&self) -> bool {
        let requests = self.counts.requests.load(Relaxed);
        self.budget.lock().take(Instant::now(), requests)
    }

    async fn way(&self, upstream: &Upstream, policy: &super::rule::Policy) -> std::io::Result<Way> {
        let looking = self.names.address(&upstream.host, upstream.port);
        let late = || std::io::Error::new(std::io::ErrorKind::TimedOut, "the name server doesn't answer");
        let address = tokio::time::timeout(policy.times.connect, looking).await.map_err(|_| late())??;
        Ok(Way { protocol: policy.protocol, tls_name: policy.tls_name.clone(), address })
    }

    /// Passes bytes between both ends once the client's connection has changed, too.
    fn tunnel(
        self: &Arc<Self>,
        upgrade: hyper::upgrade::OnUpgrade,
        mut body: Answer,
        places: (Slot, ServiceSlot),
        idle: std::time::Duration,
    ) {
        let proxy = Arc::clone(self);
        self.tunnels.spawn(async move {
            let _places = places;
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

fn refusal_of(fault: &Fault, exceeded: Option<&Exceeded>) -> Refusal {
    match fault {
        Fault::Full => FULL,
        Fault::Connect(ConnectFault::TimedOut) | Fault::TimedOut => LATE,
        Fault::Connect(_) => UNREACHED,
        Fault::Closed | Fault::Broken(_) => BROKEN,
        Fault::SlowClient => SLOW,
        Fault::BrokenClient if exceeded.is_some_and(Exceeded::is_set) => TOO_LONG,
        Fault::BrokenClient => BROKE_OFF,
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

fn set_host<B>(request: &mut Request<B>, rule: &HostHeader, called: &HeaderValue, upstream: &Upstream) {
    let host = match rule {
        HostHeader::Keep if !called.is_empty() => called.clone(),
        HostHeader::Given(host) => host.clone(),
        HostHeader::Keep | HostHeader::Instance => match HeaderValue::try_from(upstream.to_string()) {
            Ok(host) => host,
            Err(_) => return,
        },
    };
    request.headers_mut().insert(header::HOST, host);
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

fn key_of(by: &HashBy, headers: &HeaderMap, client: IpAddr) -> u64 {
    let of_header =
        |name: &http::HeaderName| headers.get(name).map(|value| hash::fnv(value.as_bytes().iter().copied()));
    let key = match by {
        HashBy::Address => None,
        HashBy::Header(name) => of_header(name),
        HashBy::Cookie(name) => cookie(headers, name).map(|value| hash::fnv(value.bytes())),
    };
    key.unwrap_or_else(|| match client {
        IpAddr::V4(address) => hash::fnv(address.octets()),
        IpAddr::V6(address) => hash::fnv(address.octets()),
    })
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find_map(|(has, value)| (has == name).then_some(value))
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::base::clock::Millis;

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

    #[test]
    fn the_key_is_the_cookies_value_or_the_clients_address() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("a=1; sid=x=y"));
        headers.append(header::COOKIE, HeaderValue::from_static("b=2"));
        assert_eq!(cookie(&headers, "sid"), Some("x=y"));
        assert_eq!((cookie(&headers, "b"), cookie(&headers, "id")), (Some("2"), None));
        let client = IpAddr::from([10, 0, 0, 1]);
        let key = |name: &str| key_of(&HashBy::Cookie(name.into()), &headers, client);
        assert_eq!(key("none"), key_of(&HashBy::Address, &headers, client));
        assert_ne!(key("sid"), key("a"));
    }

    #[test]
    fn instances_are_told_the_host_that_the_rule_says() {
        let upstream = super::super::upstream::Upstreams::default().get("10.0.0.1", 80, Millis(1));
        let told = |rule: &HostHeader| {
            let mut request = Request::new(());
            *request.method_mut() = Method::GET;
            set_host(&mut request, rule, &HeaderValue::from_static("shop.example:80"), &upstream);
            request.headers()[header::HOST].to_str().unwrap().to_owned()
        };
        assert_eq!(told(&HostHeader::Keep), "shop.example:80");
        assert_eq!(told(&HostHeader::Instance), "10.0.0.1:80");
        assert_eq!(told(&HostHeader::Given(HeaderValue::from_static("b"))), "b");
    }
}
