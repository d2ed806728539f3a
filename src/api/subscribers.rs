//! Subscriptions to pushes: what a list takes up, and `/v1/ns/service/subscribers`, which shows them.
//!
//! Source: Nacos 1.4.8 naming module, list of the instance controller, subscribe manager; compat files `push`,
//! `service-subscribers`.

use serde::Serialize;

use super::{
    Api, Named, V1Call, agent::Agent, caller::caller, params::Params, reply::Reply, routes::Outcome,
};
use crate::{
    base::java,
    model::{
        name::{group_part, service_part},
        registry::Place,
    },
    push::{Question, subscribers::Subscriber},
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
            caller: caller(&call.head.headers, call.peer.ip(), &api.settings.http.trusted_forwarders),
        };
        if api.push.subscribe(&question, api.clock.now()) {
            switches.default_push_cache_millis
        } else {
            switches.default_cache_millis
        }
    }
}

/// A subscriber, fields in wire order; the order of the list too, but that it begins with the service.
#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
struct Shown {
    addr_str: String,
    agent: Box<str>,
    app: Box<str>,
    ip: String,
    namespace_id: String,
    service_name: String,
}

impl Shown {
    fn of(subscriber: &Subscriber) -> Self {
        Self {
            addr_str: subscriber.target.text(),
            agent: subscriber.agent.clone(),
            app: subscriber.app.clone(),
            ip: subscriber.target.host_text(),
            namespace_id: subscriber.service.namespace.to_string(),
            service_name: subscriber.service.name.to_string(),
        }
    }

    fn key(&self) -> (&str, &str, &str, &str) {
        (&self.service_name, &self.addr_str, &self.agent, &self.app)
    }
}

/// A page of subscribers.
#[derive(Debug, Default, Serialize, PartialEq, Eq)]
struct Page<'a> {
    subscribers: &'a [Shown],
    count: usize,
}

/// GET: who listens to services whose group and name contain those asked for.
pub fn list(api: &Api, call: &V1Call) -> Outcome {
    let params = Params::of(call);
    params.required("serviceName")?;
    let number =
        |name, default| params.optional(name).map_or(default, |text| java::parse_int(&text).unwrap_or(0));
    let (page_number, page_size) = (number("pageNo", 1), number("pageSize", 1_000));
    let aggregation = params.optional("aggregation").is_none_or(|text| text.eq_ignore_ascii_case("true"));
    // Whatever is wrong with the name, the answer is that nobody is there.
    let Ok(named) = Named::read(&params) else { return Ok(Reply::json(&Page::default())) };
    let mut shown = Vec::new();
    api.push.for_each_subscriber(api.clock.now(), |subscriber| {
        if listens_to(subscriber, &named) {
            shown.push(Shown::of(subscriber));
        }
    });
    shown.sort_unstable_by(|one, other| one.key().cmp(&other.key()));
    if aggregation {
        // One that listens to several lists of a service looks the same in each.
        shown.dedup();
    }
    Ok(Reply::json(&page(&shown, page_number, page_size)))
}

fn listens_to(subscriber: &Subscriber, named: &Named<'_>) -> bool {
    let (own, asked) = (&*subscriber.service.name, &*named.name);
    *subscriber.service.namespace == *named.namespace
        && service_part(own).contains(service_part(asked))
        && group_part(own).contains(group_part(asked))
}

/// A page; one that begins behind the end, or ends before its beginning, is empty with a count of 0.
fn page(shown: &[Shown], number: i32, size: i32) -> Page<'_> {
    let (number, size) = (i64::from(number), i64::from(size));
    let start = ((number - 1) * size).max(0);
    let end = (start + size).min(i64::try_from(shown.len()).unwrap_or(i64::MAX));
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    let part = range.and_then(|(start, end)| shown.get(start..end));
    part.map_or_else(Page::default, |subscribers| Page { subscribers, count: shown.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(count: usize) -> Vec<Shown> {
        let one = |index: usize| Shown {
            addr_str: format!("127.0.0.1:{index}"),
            agent: "a".into(),
            app: "".into(),
            ip: "127.0.0.1".into(),
            namespace_id: "public".into(),
            service_name: "G@@a".into(),
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn pages_are_cut_like_the_reference_does() {
        let all = shown(3);
        let cut = |number, size| {
            let page = page(&all, number, size);
            (page.subscribers.len(), page.count)
        };
        assert_eq!(cut(1, 2), (2, 3));
        assert_eq!(cut(2, 2), (1, 3));
        assert_eq!(cut(2, 3), (0, 3));
        assert_eq!(cut(9, 2), (0, 0));
        assert_eq!(cut(0, 10), (3, 3));
        assert_eq!(cut(-5, 10), (3, 3));
        assert_eq!(cut(0, 0), (0, 3));
        assert_eq!(cut(1, -1), (0, 0));
        assert_eq!(cut(i32::MIN, i32::MIN), (0, 0));
        assert_eq!(cut(i32::MAX, i32::MAX), (0, 0));
    }
}
