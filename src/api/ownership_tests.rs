//! Whose a write is, and what is said of its caller.

use bytes::Bytes;
use http::Request;
use nacre_middleware::loop_guard::Guard as _;
use parking_lot::Mutex;

use super::*;
use crate::{
    api::routes::Table,
    cluster::{Mapping, MemberState, Peer},
    model::change::Changes,
    observe::Meters,
};

/// A cluster that looks like this, and notes what it is asked.
struct Fixed {
    view: Arc<View>,
    asked: Mutex<Vec<String>>,
}

impl Ring for Fixed {
    fn view(&self) -> Guard<Arc<View>> {
        Guard::from_inner(Arc::clone(&self.view))
    }
    fn is_stale(&self) -> bool {
        false
    }

    fn refused(&self, address: &Address) {
        self.asked.lock().push(format!("refused {address}"));
    }
    fn serves_nobody(&self, address: &Address) {
        self.asked.lock().push(format!("{address} serves nobody"));
    }
    fn answered(&self, address: &Address) {
        self.asked.lock().push(format!("answered {address}"));
    }
    fn is_member(&self, call: &V1Call) -> bool {
        call.peer.ip().is_loopback()
    }
    fn fetch(&self, from: &Address, service: ServiceKey) -> BoxFuture<'static, ()> {
        self.asked.lock().push(format!("fetch {service} from {from}"));
        Box::pin(std::future::ready(()))
    }
    fn brought(&self, _: &Address, _: &ServiceKey) -> Option<BoxFuture<'static, ()>> {
        None
    }

    fn stood_in(&self, service: ServiceKey, why: StandIn) {
        self.asked.lock().push(format!("stood in for the owner of {service}: {why:?}"));
    }
}

const OWN: &str = "10.0.0.1:8848";
const NACRE: &str = "10.0.0.2:8848";
const LEGACY: &str = "10.0.0.3:8848";

fn peer(address: &str, nacre: Option<u32>) -> Peer {
    Peer { nacre, ..Peer::new(Address::new(address), MemberState::Up) }
}

fn view(standing: Standing, peers: Vec<Peer>) -> View {
    View::new(Address::new(OWN), standing, peers, Mapping::Modulo)
}

fn ownership(view: Option<View>) -> (Ownership, Option<Arc<Fixed>>) {
    let fixed = view.map(|view| Arc::new(Fixed { view: Arc::new(view), asked: Mutex::default() }));
    let ring = fixed.clone().map(|fixed| fixed as Arc<dyn Ring>);
    let with = With {
        registry: Arc::new(Registry::new(Arc::new(Changes::default()), Default::default())),
        switches: Arc::default(),
        clock: Clock::set(1_796_000_000_000),
        trusted: Arc::from([]),
        forwards: &Meters::new([]).forwards,
    };
    (Ownership::new(ring, with), fixed)
}

fn call(method: &str, path: &str, query: &str, form: &'static str) -> V1Call {
    let mut request = Request::builder().method(method).uri(format!("/nacos{path}?{query}"));
    for (name, value) in
        [("host", "a"), ("request-source", NACRE), ("content-type", "application/x-www-form-urlencoded")]
    {
        request = request.header(name, value);
    }
    let request = request.body(()).unwrap();
    let facts = Table::new("/nacos").find(&request);
    let peer = ([127, 0, 0, 1], 1).into();
    V1Call { head: request.into_parts().0, body: Bytes::from_static(form.as_bytes()), peer, facts }
}

/// The owner of a beat with this query and form, for people.
fn owner(ownership: &Ownership, query: &str, form: &'static str) -> String {
    use distro_filter::{Owner, Ownership as _};
    match ownership.owner(&call("PUT", "/v1/ns/instance/beat", query, form)) {
        Owner::Alone => "alone".into(),
        Owner::Here => "here".into(),
        Owner::Peer(target) => {
            format!("{} nacre: {}, all: {}", target.address, target.is_nacre, target.all_nacre)
        }
        Owner::Nobody(standstill) => format!("nobody: {}", standstill.state.word()),
    }
}

#[test]
fn the_owner_is_whom_the_mapper_names() {
    let (ownership, _) =
        ownership(Some(view(Standing::Serving, vec![peer(NACRE, Some(1)), peer(LEGACY, None)])));
    let owners: Vec<String> =
        ["s1", "s2", "s3"].map(|name| owner(&ownership, &format!("serviceName={name}"), "")).to_vec();
    let mut sorted = owners.clone();
    sorted.sort_unstable();
    assert_eq!(
        sorted,
        ["10.0.0.2:8848 nacre: true, all: false", "10.0.0.3:8848 nacre: false, all: false", "here"]
    );
    for (place, name) in ["s1", "s2", "s3"].iter().enumerate() {
        let same =
            |query: &str, form| assert_eq!(owner(&ownership, query, form), owners[place], "{query} {form}");
        same(&format!("dom={name}"), "");
        same(&format!("serviceName=%20{name}%20&namespaceId=n"), "");
        same(&format!("serviceName=DEFAULT_GROUP%40%40{name}&groupName=other&serviceName=last"), "");
    }
    assert_eq!(owner(&ownership, "", "serviceName=s1"), owners[0]);
    assert_eq!(owner(&ownership, "serviceName=s1", "serviceName=s2"), owners[0]);
    let of_groups = (0..9).map(|group| owner(&ownership, &format!("serviceName=s1&groupName=G{group}"), ""));
    assert_eq!(of_groups.collect::<std::collections::BTreeSet<_>>().len(), 3);
}

#[test]
fn among_nacre_members_a_target_says_so() {
    let (ownership, _) = ownership(Some(view(Standing::Leaving, vec![peer(NACRE, Some(1))])));
    assert_eq!(owner(&ownership, "serviceName=a", ""), "10.0.0.2:8848 nacre: true, all: true");
}

#[test]
fn who_leaves_says_so_to_the_guard() {
    for standing in [Standing::Serving, Standing::Leaving, Standing::Removed] {
        let (ownership, _) = ownership(Some(view(standing, vec![peer(LEGACY, None)])));
        assert_eq!(ownership.is_leaving(), standing == Standing::Leaving);
    }
    assert!(!ownership(None).0.is_leaving());
}

#[test]
fn what_names_no_service_is_refused_here() {
    let (ownership, _) = ownership(Some(view(Standing::Leaving, vec![peer(NACRE, Some(1))])));
    for query in ["", "serviceName=", "serviceName=%20", "serviceName=%zz", "groupName=G"] {
        assert_eq!(owner(&ownership, query, ""), "here", "{query}");
    }
}

#[test]
fn without_members_or_with_the_switch_off_all_is_ours() {
    assert_eq!(owner(&ownership(None).0, "serviceName=a", ""), "alone");
    let alone = View::alone(Address::new(OWN));
    assert_eq!(owner(&ownership(Some(alone)).0, "serviceName=a", ""), "alone");
    let (ownership, _) = ownership(Some(view(Standing::Leaving, vec![peer(NACRE, Some(1))])));
    let off = |switches: &mut crate::model::switches::Switches| {
        switches.distro_enabled = false;
        Ok::<_, ()>(())
    };
    ownership.0.with.switches.alter_here(off).unwrap();
    assert_eq!(owner(&ownership, "serviceName=a", ""), "here");
}

#[test]
fn who_does_not_serve_takes_no_writes() {
    for (standing, peers, state) in [
        (Standing::Starting, vec![peer(NACRE, None)], "starting"),
        (Standing::Removed, vec![peer(NACRE, None)], "removed"),
        (Standing::Leaving, vec![], "ownerless"),
    ] {
        let (ownership, _) = ownership(Some(view(standing, peers)));
        assert_eq!(owner(&ownership, "serviceName=a", ""), format!("nobody: {state}"));
    }
}

#[test]
fn a_passed_on_beat_of_an_unknown_instance_waits_for_what_its_sender_knows() {
    let (ownership, fixed) = ownership(Some(view(Standing::Serving, vec![peer(NACRE, Some(1))])));
    let place = Place { namespace: "public", name: "DEFAULT_GROUP@@a" };
    let known = crate::model::instance::Description::new("10.1.1.1", 80, "DEFAULT");
    ownership.0.with.registry.register(place, &known, ownership.0.with.clock.now()).unwrap();
    let waits = |method, path, query| ownership.prepare(&call(method, path, query, "")).is_some();
    let beat = "/v1/ns/instance/beat";
    assert!(!waits("PUT", beat, "serviceName=a&ip=10.1.1.1&port=80"));
    assert!(!waits("PUT", beat, "serviceName=a&beat=%7B%22ip%22:%2210.1.1.1%22,%22port%22:80%7D"));
    assert!(!waits("GET", "/v1/ns/api/clientBeat", "dom=a&ip=10.1.1.1&port=80"));
    assert!(waits("PUT", beat, "serviceName=a&ip=10.1.1.1&port=81"));
    assert!(waits("PUT", beat, "serviceName=b&beat=%7B%22ip%22:%2210.1.1.1%22,%22port%22:80%7D"));
    assert!(waits("GET", "/v1/ns/api/clientBeat", "dom=a&ip=10.1.1.2&port=80"));
    assert!(!waits("POST", "/v1/ns/instance", "serviceName=b&ip=10.1.1.1&port=80"));
    assert!(!waits("PUT", beat, "serviceName=b&ip=10.1.1.1&port=x"));
    let asked = fixed.unwrap().asked.lock().clone();
    assert_eq!(
        asked,
        ["a", "b", "a"].map(|name| format!("fetch public##DEFAULT_GROUP@@{name} from {NACRE}"))
    );
}

#[test]
fn a_beat_that_was_passed_on_is_known_here_too_unless_the_owner_does_not_know_the_instance() {
    let (ownership, _) = ownership(Some(view(Standing::Serving, vec![peer(NACRE, Some(1))])));
    let With { registry, clock, .. } = &ownership.0.with;
    let place = Place { namespace: "public", name: "DEFAULT_GROUP@@a" };
    let described = crate::model::instance::Description::new("10.1.1.1", 80, "DEFAULT");
    registry.register(place, &described, clock.now()).unwrap();
    let known_here = || {
        let state = registry.get(place).unwrap().state();
        let instance = state.ephemeral.iter().next().unwrap();
        (instance.last_heard(), instance.last_beat())
    };
    let registered = clock.now();
    let answer = |status: u16, text: &'static str| {
        let body = nacre_middleware::V1Body::sized(Bytes::from_static(text.as_bytes()));
        http::Response::builder().status(status).body(body).unwrap()
    };
    let known = answer(200, r#"{"clientBeatInterval":5000,"code":10200,"lightBeatEnabled":true}"#);
    let beat = "/v1/ns/instance/beat";
    let light = ("PUT", beat, "serviceName=a&ip=10.1.1.1&port=80");
    for ((method, path, query), answer) in [
        (light, Some(&known)),
        (("PUT", beat, "serviceName=a&beat=%7B%22ip%22:%2210.1.1.1%22,%22port%22:80%7D"), Some(&known)),
        (("GET", "/v1/ns/api/clientBeat", "dom=a&ip=10.1.1.1&port=80"), Some(&known)),
        (light, Some(&answer(503, "the owner of this service has not answered in time"))),
        // Its sender didn't wait for one.
        (light, None),
    ] {
        clock.advance(5_000);
        let came = clock.now();
        clock.advance(2_000);
        ownership.passed_on(&call(method, path, query, ""), came.0, answer);
        assert_eq!(known_here(), (came, registered), "{method} {path}?{query}");
    }
    let before = known_here();
    clock.advance(5_000);
    for ((method, path, query), answer) in [
        (light, Some(&answer(200, r#"{"clientBeatInterval":5000,"code":20404}"#))),
        (("PUT", beat, "serviceName=a&ip=10.1.1.1&port=81"), Some(&known)),
        (("PUT", beat, "serviceName=a&ip=10.1.1.1&port=x"), Some(&known)),
        (("PUT", beat, "serviceName=b&ip=10.1.1.1&port=80"), Some(&known)),
        (("PUT", "/v1/ns/instance", "serviceName=a&ip=10.1.1.1&port=80"), Some(&known)),
        (("PUT", "/v1/ns/instance", "serviceName=a&ip=10.1.1.1&port=80"), None),
    ] {
        ownership.passed_on(&call(method, path, query, ""), clock.now().0, answer);
        assert_eq!(known_here(), before, "{method} {path}?{query}");
    }
}

#[test]
fn members_and_trusted_networks_are_believed_whom_they_name() {
    let (ownership, _) = ownership(Some(view(Standing::Serving, vec![])));
    let mut call = call("PUT", "/v1/ns/instance/beat", "", "");
    assert!(ownership.is_believed(&call) && ownership.is_peer(&call));
    call.peer = ([10, 9, 9, 9], 1).into();
    assert!(!ownership.is_believed(&call) && !ownership.is_peer(&call));
}

#[test]
fn the_ring_is_told_of_what_was_done_for_another() {
    let (ownership, fixed) = ownership(Some(view(Standing::Serving, vec![peer(NACRE, Some(1))])));
    let write = call("POST", "/v1/ns/instance", "serviceName=a&namespaceId=n", "");
    let then = ownership.stand_in(&write, StandIn::Disagreement).unwrap();
    let fixed = fixed.unwrap();
    assert!(fixed.asked.lock().is_empty());
    then();
    Members::refused(&ownership, NACRE);
    Members::serves_nobody(&ownership, NACRE);
    Members::answers(&ownership, NACRE);
    assert_eq!(
        *fixed.asked.lock(),
        [
            "stood in for the owner of n##DEFAULT_GROUP@@a: Disagreement".to_owned(),
            format!("refused {NACRE}"),
            format!("{NACRE} serves nobody"),
            format!("answered {NACRE}"),
        ]
    );
}
