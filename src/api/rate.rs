//! Which requests are limited, and by whose address: `nacre.limit.*`.
//!
//! What members of the cluster send isn't, nor what lies outside the context path: probes and metrics. Source: ours.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Instant,
};

use http::{Method, Request};
use nacre_middleware::{limits::Class, rate_limit::Counted};

use super::{
    Api, beat,
    caller::caller_by,
    peers,
    routes::{Area, Row},
};

/// Knows whose requests are limited.
#[derive(Clone)]
pub struct ByCaller(pub Arc<Api>);

impl Counted<Row> for ByCaller {
    fn count<B>(&self, request: &Request<B>, peer: SocketAddr, facts: Row) -> Option<(IpAddr, Class)> {
        let Self(api) = self;
        if facts.area == Area::Outside || facts.of_peers || peers::is_member(api, peer, request.headers()) {
            return None;
        }
        Some((caller_by(api, request.headers(), peer), class(request.method(), request.uri().path(), facts)))
    }

    fn refused(&self, address: IpAddr, class: Class) {
        self.0.sight.meters.limited.note(address, class, Instant::now());
    }
}

fn class(method: &Method, path: &str, facts: Row) -> Class {
    match *method {
        _ if beat::is_beat(facts) => Class::Beat,
        Method::GET | Method::HEAD | Method::OPTIONS => Class::Read,
        // A long poll for changes of configurations: it changes nothing, whatever its method.
        Method::POST if path.ends_with("/v1/cs/configs/listener") => Class::Read,
        _ => Class::Write,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::routes::Table;

    #[test]
    fn a_request_is_a_beat_a_read_or_a_write() {
        let table = Table::new("/nacos");
        for (method, path, expected) in [
            ("PUT", "/nacos/v1/ns/instance/beat", Class::Beat),
            ("PUT", "/nacos/v1/ns/api/beat", Class::Beat),
            ("GET", "/nacos/v1/ns/api/clientBeat?dom=a", Class::Beat),
            ("GET", "/nacos/v1/ns/instance/list", Class::Read),
            ("POST", "/nacos/v1/ns/instance", Class::Write),
            ("DELETE", "/nacos/v1/ns/instance", Class::Write),
            ("POST", "/nacos/v1/cs/configs/listener", Class::Read),
            ("POST", "/nacos/v1/cs/configs", Class::Write),
            ("PUT", "/nacos/v1/ns/nothing", Class::Write),
        ] {
            let request = Request::builder().method(method).uri(path).header("host", "a").body(()).unwrap();
            let found = class(request.method(), request.uri().path(), table.find(&request));
            assert_eq!(found, expected, "{method} {path}");
        }
    }
}
