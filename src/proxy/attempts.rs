//! The attempts of one request: to one instance after the other, until one answers or it may not be sent again.
//!
//! Decisions are those of pure parts ([`super::pick`], [`nacre_middleware::resend`]); here they meet connections and the clock.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use http::{HeaderValue, Request, Response, StatusCode, header};
use nacre_middleware::{
    pass::{self, Failure, Fault, Plan, Sending},
    pool::{ConnectFault, Leased},
};

use super::{
    Proxy,
    answer::Answer,
    finish::Finish,
    outbound::Connector,
    refusals::{self, Refusal},
    routes::Route,
    rule::{HostHeader, Policy},
    table::{Backends, Selection, Unpicked, Wanted},
    upload::{Exceeded, Upload},
    upstream::{Slot, Upstream, Way},
};

/// A connection to an instance that has been idle for longer isn't used: applications close theirs after 5 s and more.
const MAX_IDLE: Duration = Duration::from_secs(4);
/// Instances of one request that may leave while a connection to them is made; with one more there are none for it.
const MOST_LEFT: u32 = 8;

/// What is passed on, beside the body.
pub struct Passing<'r> {
    /// By which rule.
    pub route: &'r Arc<Route>,
    /// What [`super::rule::Balance::Hash`] goes by.
    pub key: u64,
    /// Whose instances.
    pub backends: &'r Backends,
    /// As they are now.
    pub selection: Arc<Selection>,
    /// Whether the body is too long.
    pub exceeded: Option<Exceeded>,
    /// The host that the client called.
    pub host: HeaderValue,
}

/// An answer, the place that it has until its end, and the instances that it was one of.
pub struct Passed {
    /// Its body streams.
    pub answer: Response<Answer>,
    /// At the instance.
    pub slot: Slot,
    /// When it was picked.
    pub selection: Arc<Selection>,
}

type Lease = Leased<Connector, Sending<Upload>>;

/// Why there is no connection to an instance.
enum Unleased {
    Fault(Fault),
    /// The instance has left, or gets nothing new, since it was picked.
    Left,
}

impl Proxy {
    /// Sends the request to one instance after the other until one answers, or it may not be sent again.
    ///
    /// # Errors
    /// What the client is told.
    pub(super) async fn pass(
        &self,
        request: Request<Upload>,
        mut passing: Passing<'_>,
        finish: &mut Finish,
    ) -> Result<Passed, Refusal> {
        let policy = &passing.route.rule.policy;
        let times = policy.times;
        let plan = Plan {
            connect: times.connect,
            wait: Duration::ZERO,
            response: times.response,
            idle: times.idle,
            max_idle: MAX_IDLE,
        };
        let mut plan = plan.of(request.method());
        let (mut request, mut tried) = (request, Vec::new());
        // Each attempt but for those that only found a kept connection closed, no room, or an instance that has left.
        let (mut retries_left, mut found_closed, mut made_room, mut left) = (policy.retries, false, false, 0);
        loop {
            let now = self.clock.now();
            if finish.attempts > 0 || left > 0 {
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
                Unpicked::Nobody => refusals::NOBODY,
                Unpicked::Full => refusals::FULL,
            })?;
            let upstream = Arc::clone(slot.upstream());
            let leased = match self.lease(&upstream, &passing, plan).await {
                Err(Unleased::Left) if left < MOST_LEFT => {
                    left += 1;
                    continue;
                }
                Err(Unleased::Left) => return Err(refusals::NOBODY),
                Err(Unleased::Fault(fault)) => Err(fault),
                Ok(leased) => Ok(leased),
            };
            finish.attempts += 1;
            finish.upstream = Some(Arc::clone(&upstream));
            upstream.counts.requests.fetch_add(1, Relaxed);
            set_host(&mut request, &policy.host_header, &passing.host, &upstream);
            let outcome = match leased {
                Ok(leased) => pass::pass_over(leased, request, plan).await,
                Err(fault) => Err(Failure::unsent(fault, request)),
            };
            let mut failure = match outcome {
                Ok(answer) => return Ok(Passed { answer, slot, selection: passing.selection }),
                Err(failure) => failure,
            };
            drop(slot);
            let lacks_room = matches!(failure.fault, Fault::Connect(ConnectFault::Impossible(_)))
                && self.connector.is_full();
            if lacks_room {
                let Ok(again) =
                    failure.again().map_err(drop).and_then(|again| (!made_room).then_some(again).ok_or(()))
                else {
                    finish.failure = Some("full");
                    return Err(refusals::FULL);
                };
                self.make_room();
                (request, made_room) = (again, true);
                continue;
            }
            let (kind, was_kept) = (
                failure.fault.kind(),
                failure.reused && !found_closed && matches!(failure.fault, Fault::Closed),
            );
            let is_instances = failure.fault.is_upstreams();
            if is_instances && !was_kept {
                upstream.failed(self.clock.now(), kind, &policy.ejection, passing.selection.usable());
            }
            let refusal = refusals::refusal_of(&failure.fault, passing.exceeded.as_ref());
            let text = failure.fault.to_string();
            if let Some(mut begun) = failure.begun.take()
                && begun.body_mut().rewind()
            {
                failure.request = Some(begun);
            }
            // Who finds a kept connection closed is no load on others.
            let may_try = || was_kept || retries_left > 0 && passing.backends.load.may_retry();
            match failure.again().ok().filter(|_| may_try()) {
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

    /// A connection to an instance that still is one when it is there.
    async fn lease(&self, upstream: &Upstream, passing: &Passing<'_>, plan: Plan) -> Result<Lease, Unleased> {
        let policy = &passing.route.rule.policy;
        let way = self.way(upstream, policy).await.map_err(|error| {
            Unleased::Fault(Fault::Connect(match error.kind() {
                std::io::ErrorKind::TimedOut => ConnectFault::TimedOut,
                _ => ConnectFault::Refused(error.to_string()),
            }))
        })?;
        let leased =
            pass::lease(&upstream.pool(&way, &self.connector), plan).await.map_err(Unleased::Fault)?;
        let took_no_time = leased.is_reused() && upstream.address.is_some();
        if took_no_time || self.is_wanted(upstream, passing) { Ok(leased) } else { Err(Unleased::Left) }
    }

    fn is_wanted(&self, upstream: &Upstream, passing: &Passing<'_>) -> bool {
        let selection = passing.backends.selection(&self.table, self.clock.now());
        Arc::ptr_eq(&selection, &passing.selection)
            || selection.usable().any(|usable| std::ptr::eq(usable, upstream))
    }

    /// Closes connections to instances that nobody uses.
    fn make_room(&self) {
        self.table.upstreams.all().iter().for_each(|upstream| upstream.close_idle_ones());
    }

    /// One line for each failure that a client is told of; of many in a short time, some.
    pub(super) fn tell_of(&self, upstream: &Upstream, route: &Route, kind: &'static str, error: &str) {
        let address = upstream.to_string();
        if let Some(unlogged) = self.failures.pass(&[&address, kind], Instant::now()) {
            let rule = &*route.rule.name;
            tracing::warn!(
                instance = address,
                rule,
                kind,
                error,
                unlogged,
                "a request has no whole answer of an instance"
            );
        }
    }

    async fn way(&self, upstream: &Upstream, policy: &Policy) -> std::io::Result<Way> {
        let address = match upstream.address {
            Some(address) => address,
            None => self.names.address(&upstream.host, upstream.port, policy.times.connect).await?,
        };
        Ok(Way { protocol: policy.protocol, tls_name: policy.tls_name.clone(), address })
    }
}

/// For what an answer of this status counts as a failure of its instance, if it does.
pub fn failure_of(status: StatusCode) -> Option<&'static str> {
    match status {
        StatusCode::BAD_GATEWAY => Some("502"),
        StatusCode::SERVICE_UNAVAILABLE => Some("503"),
        StatusCode::GATEWAY_TIMEOUT => Some("504"),
        _ => None,
    }
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

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::{base::clock::Millis, proxy::upstream::Upstreams};

    #[test]
    fn instances_are_told_the_host_that_the_rule_says() {
        let upstream = Upstreams::default().get("10.0.0.1", 80, Millis(1));
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
