//! Tells the traffic layer what the switches shut.
//!
//! Source: Nacos 1.4.8 naming module, traffic revision; compat file `operator-switch-effects`. Ours: a limit never shuts
//! the switches themselves, since nothing else could lift it again.

use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode, request::Parts};
use nacre_middleware::{Facts as _, V1Body, V1Response, envelope::Bare, refusal, traffic_revise::Traffic};

use super::{agent::Agent, reply, routes::Row};
use crate::{
    cluster::{Cluster, Standing},
    model::switches::Switchboard,
};

/// The entry that sets the switches, as the route table has it.
const SWITCHES: &str = "/v1/ns/operator/switches";

/// Begins the paths of the entries for operators.
const OPERATOR: &str = "/v1/ns/operator/";

/// Looks at the switches; costs one atomic load while nothing is shut.
#[derive(Clone, Debug)]
pub struct Gate {
    switches: Arc<Switchboard>,
    /// Of a node that takes no clients before it has the data of the others.
    loading: Option<Cluster>,
}

impl Gate {
    /// A gate that follows `switches`.
    #[must_use]
    pub fn new(switches: Arc<Switchboard>) -> Self {
        Self { switches, loading: None }
    }

    /// The same for a node that has members: it is shut to clients until their data are here.
    #[must_use]
    pub fn shut_while_loading(self, cluster: Cluster) -> Self {
        Self { loading: Some(cluster), ..self }
    }

    /// Whether the data of the members aren't here yet. What peers and operators ask is answered all the same.
    fn is_loading(&self, facts: Row) -> bool {
        let clients = || facts.is_naming() && !facts.of_peers && !facts.path.starts_with(OPERATOR);
        let loading = |cluster: &Cluster| cluster.view_guard().standing == Standing::Starting;
        self.loading.as_ref().is_some_and(loading) && clients()
    }
}

impl Traffic<Row> for Gate {
    fn refusal(&self, head: &Parts, facts: Row) -> Option<V1Response> {
        if self.is_loading(facts) {
            let text = "server is STARTING now, its data are not loaded yet, please try again later!";
            let mut response = bare(StatusCode::SERVICE_UNAVAILABLE, V1Body::sized(text));
            refusal::mark(&mut response, refusal::State::Starting);
            return Some(response);
        }
        if !self.switches.guards() || !facts.is_naming() {
            return None;
        }
        let switches = self.switches.load();
        let liftable = facts.path == SWITCHES;
        let target = format!("{}?{}", head.uri.path(), head.uri.query().unwrap_or_default());
        if let Some(code) = switches.limit(&target).filter(|_| !liftable) {
            return Some(bare(StatusCode::from_u16(code).ok()?, V1Body::default()));
        }
        let status = switches.status();
        if status.takes(head.method == Method::GET) || comes_from_peer(&head.headers) {
            return None;
        }
        let text = format!("server is {status}now, please try again later!");
        Some(bare(StatusCode::SERVICE_UNAVAILABLE, V1Body::sized(text)))
    }
}

fn comes_from_peer(headers: &HeaderMap) -> bool {
    Agent::of(headers).is_server()
}

fn bare(status: StatusCode, body: V1Body) -> V1Response {
    let mut response = reply::empty(status);
    *response.body_mut() = body;
    response.extensions_mut().insert(Bare);
    response
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;
    use crate::api::routes::Table;

    /// Status and body for each request after `entry` was set; 0 where the request is let through.
    fn answers(entry: &str, value: &str, requests: &[(&str, &str, &str)]) -> Vec<(u16, String)> {
        let switches = Arc::new(Switchboard::default());
        switches.alter_here(|switches| switches.set(entry, value)).unwrap();
        let (gate, table) = (Gate::new(switches), Table::new("/nacos"));
        let answer = |&(method, target, agent): &(&str, &str, &str)| {
            let request = Request::builder().method(method).uri(target).header("host", "a");
            let request = request.header("user-agent", agent).body(()).unwrap();
            let row = table.find(&request);
            let refusal = gate.refusal(&request.into_parts().0, row);
            refusal.map_or((0, String::new()), |response| {
                let text = String::from_utf8(response.body().bytes().to_vec()).unwrap();
                (response.status().as_u16(), text)
            })
        };
        requests.iter().map(answer).collect()
    }

    #[test]
    fn a_node_that_is_down_answers_peers_only() {
        let list = "/nacos/v1/ns/instance/list?serviceName=a";
        let requests = [
            ("GET", list, "curl"),
            ("GET", "/nacos/v1/ns/nothing", "curl"),
            ("GET", list, "Nacos-Server:v1.4.8"),
            ("GET", "/nacos/index.html", "curl"),
        ];
        let refused = (503, "server is DOWNnow, please try again later!".to_string());
        let passed = (0, String::new());
        let expected = vec![refused.clone(), refused, passed.clone(), passed];
        assert_eq!(answers("overriddenServerStatus", "DOWN", &requests), expected);
    }

    #[test]
    fn read_only_and_write_only_go_by_the_method() {
        let path = "/nacos/v1/ns/instance";
        let requests = [("GET", path, ""), ("POST", path, ""), ("DELETE", path, "")];
        let statuses = |value| -> Vec<u16> {
            answers("overriddenServerStatus", value, &requests).into_iter().map(|(code, _)| code).collect()
        };
        assert_eq!(statuses("READ_ONLY"), [0, 503, 503]);
        assert_eq!(statuses("WRITE_ONLY"), [503, 0, 0]);
        assert_eq!(statuses("UP"), [0, 0, 0]);
    }

    #[test]
    fn a_limited_address_is_shut_to_everybody() {
        let requests = [
            ("GET", "/nacos/v1/ns/instance/list?serviceName=a", "Nacos-Server"),
            ("GET", "/nacos/v1/ns/instance/list?serviceName=b", ""),
            ("POST", "/nacos/v1/ns/instance", ""),
        ];
        let limit = "/nacos/v1/ns/instance/list?serviceName=a:429";
        let codes: Vec<_> =
            answers("limitedUrlMap", limit, &requests).into_iter().map(|(code, _)| code).collect();
        assert_eq!(codes, [429, 0, 0]);
        let all = answers(
            "limitedUrlMap",
            "/:404",
            &[
                ("PUT", "/nacos/v1/ns/operator/switches?entry=batch&value={}", ""),
                ("GET", "/nacos/v1/ns/ops/switches", ""),
                ("GET", "/nacos/v1/ns/operator/metrics", ""),
            ],
        );
        assert_eq!(all.into_iter().map(|(code, _)| code).collect::<Vec<_>>(), [0, 0, 404]);
    }
}
