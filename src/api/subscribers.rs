//! Subscriptions to pushes: what a list takes up, and `/v1/ns/service/subscribers`, which shows them.
//!
//! Source: Nacos 1.4.8 naming module, list of the instance controller, subscribe manager; compat files `push`,
//! `service-subscribers`.

use std::sync::Arc;

use serde::Serialize;

use super::{
    Api, Named, V1Call, agent::Agent, caller::caller_of, params::Params, reply::Reply, routes::Outcome,
};
use crate::{
    base::java,
    model::{
        name::{group_part, service_part},
        registry::Place,
    },
    push::{
        Question,
        subscriber::{Host, Subscriber},
    },
};

/// What a list says about wanting pushes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subscription<'a> {
    /// As given; not above 0 means that no pushes are wanted.
    pub udp_port: i32,
    pub agent: Agent<'a>,
    pub clusters: &'a str,
    pub grouped: bool,
}

impl Subscription<'_> {
    /// How long the client may keep the list, in milliseconds: longer if it is subscribed, which this does.
    pub fn cache_millis(self, api: &Api, call: &V1Call, params: &Params<'_>, place: Place<'_>) -> i64 {
        let switches = api.switches.load();
        if self.udp_port <= 0
            || !switches.push_enabled
            || !self.agent.takes_pushes(&switches, &api.settings.push.agents)
        {
            return switches.default_cache_millis;
        }
        let question = Question {
            place,
            clusters: self.clusters,
            grouped: self.grouped,
            agent: self.agent.text,
            app: &params.optional("app").unwrap_or_default(),
            host: &params.optional("clientIP").unwrap_or_default(),
            port: self.udp_port,
            caller: caller_of(api, call),
        };
        if api.push.subscribe(&question, api.clock.now()) {
            switches.default_push_cache_millis
        } else {
            switches.default_cache_millis
        }
    }
}

/// A subscriber, fields in wire order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SubscriberRow<'a> {
    addr_str: String,
    agent: &'a str,
    app: &'a str,
    ip: String,
    namespace_id: &'a str,
    service_name: &'a str,
}

impl<'a> SubscriberRow<'a> {
    fn of(subscriber: &'a Subscriber) -> Self {
        Self {
            addr_str: subscriber.target.text(),
            agent: &subscriber.agent,
            app: &subscriber.app,
            ip: subscriber.target.host_text(),
            namespace_id: &subscriber.service.namespace,
            service_name: &subscriber.service.name,
        }
    }
}

/// The order of the list, and what of a subscriber it shows.
fn key(subscriber: &Subscriber) -> (&str, Host<'_>, u16, &str, &str) {
    let target = &subscriber.target;
    (&subscriber.service.name, target.host(), target.port(), &subscriber.agent, &subscriber.app)
}

/// A page of subscribers.
#[derive(Default, Serialize)]
struct Page<'a> {
    subscribers: Vec<SubscriberRow<'a>>,
    count: usize,
}

/// GET: who listens to services whose group and name contain those asked for.
pub fn list(api: &Api, call: &V1Call) -> Outcome {
    let params = Params::of(call);
    params.required("serviceName")?;
    let number =
        |name, default| params.optional(name).map_or(default, |text| java::parse_int(&text).unwrap_or(0));
    let (page_number, page_size) = (number("pageNo", 1), number("pageSize", 1_000));
    let aggregation = params.optional("aggregation").is_none_or(|text| java::is_true(&text));
    // Whatever is wrong with the name, the answer is that nobody is there.
    let Ok(named) = Named::read(&params) else { return Ok(Reply::json(&Page::default())) };
    let mut found = Vec::new();
    api.push.for_each_subscriber(api.clock.now(), |subscriber| {
        if listens_to(subscriber, &named) {
            found.push(Arc::clone(subscriber));
        }
    });
    found.sort_unstable_by(|one, other| key(one).cmp(&key(other)));
    if aggregation {
        // One that listens to several lists of a service looks the same in each.
        found.dedup_by(|one, other| key(one) == key(other));
    }
    let page = page(&found, page_number, page_size).map_or_else(Page::default, |part| Page {
        subscribers: part.iter().map(|subscriber| SubscriberRow::of(subscriber)).collect(),
        count: found.len(),
    });
    Ok(Reply::json(&page))
}

fn listens_to(subscriber: &Subscriber, named: &Named<'_>) -> bool {
    let (own, asked) = (&*subscriber.service.name, &*named.name);
    *subscriber.service.namespace == *named.namespace
        && service_part(own).contains(service_part(asked))
        && group_part(own).contains(group_part(asked))
}

/// A page; nothing where it begins behind the end, or ends before its beginning.
fn page<T>(all: &[T], number: i32, size: i32) -> Option<&[T]> {
    let (number, size) = (i64::from(number), i64::from(size));
    let start = ((number - 1) * size).max(0);
    let end = (start + size).min(i64::try_from(all.len()).unwrap_or(i64::MAX));
    all.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_cut_like_the_reference_does() {
        let cut = |number, size| page(&[1, 2, 3], number, size);
        assert_eq!(cut(1, 2), Some(&[1, 2][..]));
        assert_eq!(cut(2, 2), Some(&[3][..]));
        assert_eq!(cut(2, 3), Some(&[][..]));
        assert_eq!(cut(9, 2), None);
        assert_eq!(cut(0, 10), Some(&[1, 2, 3][..]));
        assert_eq!(cut(-5, 10), Some(&[1, 2, 3][..]));
        assert_eq!(cut(0, 0), Some(&[][..]));
        assert_eq!(cut(1, -1), None);
        assert_eq!(cut(i32::MIN, i32::MIN), None);
        assert_eq!(cut(i32::MAX, i32::MAX), None);
    }
}
