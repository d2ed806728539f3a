//! Naming before scripted servers.

use std::{
    collections::VecDeque,
    net::IpAddr,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use futures_util::future::BoxFuture;
use http::Request;
use smallvec::SmallVec;

use super::{
    super::{
        asking::{Failure, PATIENCE, SELF, Server},
        callers::Caller,
        kept::Effect,
        outage::SETTLING,
        replay::TRY_EVERY,
        stale::{HostKey, ListKey},
    },
    *,
};
use crate::model::ServiceKey;

/// What a server does with requests.
#[derive(Clone, Debug)]
enum Does {
    Answers(u16, String),
    Refuses,
    BreaksOff,
    Hangs,
    IsFull,
}

fn answers(status: u16, body: impl Into<String>) -> Does {
    Does::Answers(status, body.into())
}

/// Two servers that do what they are told, and what they were asked.
#[derive(Default)]
struct Scripted {
    does: Mutex<[Option<Does>; 2]>,
    /// What all do with requests whose line has this word, whatever they do else.
    does_with: Mutex<Option<(&'static str, Does)>>,
    /// They have all been down.
    were_down: AtomicBool,
    /// How often their members were asked for.
    looks: AtomicUsize,
    asked: Mutex<VecDeque<(Server, String, String)>>,
}

/// The second is the first of the ring.
const NAMES: [&str; 2] = ["10.0.0.2:8848", "10.0.0.1:8848"];

impl Scripted {
    fn all_do(&self, does: Does) {
        *self.does.lock() = [Some(does.clone()), Some(does)];
    }

    fn does(&self, server: Server, does: Does) {
        self.does.lock()[server] = Some(does);
    }

    /// What they were asked since the last look: server, request line, body.
    fn asked(&self) -> Vec<(Server, String, String)> {
        self.asked.lock().drain(..).collect()
    }

    fn lines(&self) -> Vec<String> {
        self.asked().into_iter().map(|(server, line, _)| format!("{server} {line}")).collect()
    }
}

impl Servers for Scripted {
    fn count(&self) -> usize {
        2
    }

    fn well(&self, _: IpAddr) -> SmallVec<[Server; 4]> {
        SmallVec::from_slice(&[0, 1])
    }

    fn ask(
        &self,
        server: Server,
        sent: Sent,
        within: Duration,
    ) -> BoxFuture<'_, Result<Response<Bytes>, Failure>> {
        let body = String::from_utf8(sent.request.body().to_vec()).unwrap();
        let line = format!("{} {}", sent.request.method(), sent.request.uri());
        self.asked.lock().push_back((server, line.clone(), body));
        let with = self.does_with.lock().clone();
        let with = with.filter(|(word, _)| line.contains(word));
        let does = with.map(|(_, does)| does).or(self.does.lock()[server].clone()).unwrap_or(Does::Refuses);
        Box::pin(async move {
            match does {
                Does::Answers(status, body) => {
                    let response =
                        Response::builder().status(status).header("content-type", "application/json");
                    Ok(response.body(body.into()).unwrap())
                }
                Does::Refuses => Err(Failure::Unreachable("connection refused".into())),
                Does::BreaksOff => Err(Failure::Spoilt("closed without an answer".into())),
                Does::IsFull => Err(Failure::Full),
                Does::Hangs => {
                    tokio::time::sleep(within).await;
                    Err(Failure::TimedOut)
                }
            }
        })
    }

    fn look(
        &self,
        server: Server,
        path: &'static str,
        _: Duration,
    ) -> BoxFuture<'_, Result<Response<Bytes>, Failure>> {
        self.looks.fetch_add(1, Relaxed);
        let data = match path {
            SELF => member(NAMES[server]),
            _ => format!("[{},{}]", member(NAMES[0]), member(NAMES[1])),
        };
        let answer = Response::new(format!(r#"{{"code":200,"message":null,"data":{data}}}"#).into());
        Box::pin(async move { Ok(answer) })
    }

    fn were_all_down(&self) -> bool {
        self.were_down.swap(false, Relaxed)
    }

    fn name(&self, server: Server) -> String {
        NAMES[server].to_owned()
    }
}

struct Gateway {
    servers: Arc<Scripted>,
    naming: Naming,
    clock: Clock,
}

impl Gateway {
    fn new() -> Self {
        Self::with_room(100)
    }

    fn with_room(max_kept: usize) -> Self {
        let (servers, clock) = (Arc::<Scripted>::default(), Clock::set(0));
        let bounds = Bounds { stale: Duration::from_secs(600), max_kept, patience: Duration::from_secs(30) };
        let naming = Naming::new(Arc::clone(&servers) as Arc<dyn Servers>, bounds, clock.clone());
        Self { servers, naming, clock }
    }

    async fn ask(&self, method: &str, target: &str, what: What) -> (&'static str, String) {
        self.ask_as(self.naming.caller("public", &[]), method, target, what).await
    }

    /// As a word and a text.
    async fn ask_as(&self, caller: Caller, method: &str, target: &str, what: What) -> (&'static str, String) {
        let request = Request::builder().method(method).uri(target).body(Bytes::new()).unwrap();
        let service = Some(service());
        let sent = Sent { request, peer: ([10, 0, 0, 9], 1).into() };
        match self.naming.answer(Question { service, caller, what }, sent).await {
            Answered::Registry(answer) => {
                let body = String::from_utf8(answer.body().to_vec()).unwrap();
                ("registry", format!("{} {body}", answer.status().as_u16()))
            }
            Answered::Stale(last) => {
                let body = String::from_utf8(last.answer.body.to_vec()).unwrap();
                ("stale", format!("{} {body}", last.age.as_secs()))
            }
            Answered::Known(metadata) => ("known", metadata.unwrap_or_default().into()),
            Answered::Unknown => ("unknown", String::new()),
            Answered::Kept => ("kept", String::new()),
            Answered::Refused(why) => ("refused", format!("{why:?}")),
        }
    }

    async fn list(&self) -> (&'static str, String) {
        self.ask("GET", "/list", What::List(list_key(""))).await
    }

    async fn beat(&self, port: i32, is_light: bool) -> (&'static str, String) {
        self.ask("PUT", "/beat", What::Beat { service: service(), host: host(port), is_light }).await
    }

    async fn write(&self, port: i32, effect: Effect) -> (&'static str, String) {
        self.write_as(self.naming.caller("public", &[]), port, effect).await
    }

    async fn write_as(&self, caller: Caller, port: i32, effect: Effect) -> (&'static str, String) {
        let method = if effect == Effect::Registers { "POST" } else { "DELETE" };
        let which = Which { service: service(), host: host(port), ephemeral: true };
        self.ask_as(caller, method, &format!("/instance?{port}"), What::Write(which, effect)).await
    }

    async fn change(&self, port: i32) -> (&'static str, String) {
        let what = What::Change { service: service(), host: host(port) };
        self.ask("PUT", &format!("/instance?{port}"), what).await
    }

    /// Lets what is kept be sent until nothing waits.
    async fn replayed(&self) -> Vec<String> {
        let stopped = CancellationToken::new();
        let task = tokio::spawn(self.naming.clone().replay(stopped.clone()));
        while self.naming.standing().kept > 0 {
            self.wait(Duration::from_millis(10)).await;
        }
        stopped.cancel();
        task.await.unwrap();
        self.servers.lines()
    }

    /// So much time goes by, for what is decided by this node's clock too.
    async fn wait(&self, time: Duration) {
        let end = tokio::time::Instant::now() + time;
        while tokio::time::Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(10)).await;
            self.clock.advance(10);
        }
    }
}

fn service() -> ServiceKey {
    ServiceKey::new("public", "G@@a")
}

fn list_key(clusters: &str) -> ListKey {
    ListKey {
        service: service(),
        clusters: clusters.into(),
        env: "".into(),
        healthy_only: false,
        is_check: false,
        grouped: true,
    }
}

fn host(port: i32) -> HostKey {
    HostKey { ip: "10.0.0.7".into(), port, cluster: "DEFAULT".into() }
}

fn list_of(ports: &[i32]) -> String {
    let host = |port: &i32| {
        format!(
            r#"{{"ip":"10.0.0.7","port":{port},"weight":2.5,"clusterName":"DEFAULT","metadata":{{"zone":"ä&="}},"ephemeral":true}}"#
        )
    };
    let hosts: Vec<String> = ports.iter().map(host).collect();
    format!(r#"{{"hosts":[{}],"name":"G@@a"}}"#, hosts.join(","))
}

const BEATEN: &str = r#"{"clientBeatInterval":5000,"code":10200,"lightBeatEnabled":true}"#;

/// A member of 1.x.
fn member(address: &str) -> String {
    let ip = address.split(':').next().unwrap();
    format!(
        r#"{{"ip":"{ip}","port":8848,"state":"UP","extendInfo":{{"version":"1.4.8"}},"address":"{address}"}}"#
    )
}

#[tokio::test(start_paused = true)]
async fn what_a_server_says_is_the_answer_whatever_it_is() {
    let gateway = Gateway::new();
    for (status, body) in [(200, list_of(&[1])), (400, "caused: no;".into()), (403, "<html>".into())] {
        gateway.servers.all_do(answers(status, body.clone()));
        assert_eq!(gateway.list().await, ("registry", format!("{status} {body}")));
    }
    assert_eq!(gateway.servers.lines(), vec!["0 GET /list"; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_request_goes_to_the_owner_of_its_service_first() {
    let gateway = Gateway::new();
    gateway.servers.all_do(answers(200, "ok"));
    gateway.naming.0.asking.look_at_cluster().await;
    assert_eq!(gateway.naming.standing().owners, 2);
    // The hash of this name is even.
    let owner = 1;
    assert_eq!(i64::from(crate::base::java::hash("G@@a")).unsigned_abs() % 2, 0);
    gateway.write(1, Effect::Registers).await;
    assert_eq!(gateway.servers.lines(), [format!("{owner} POST /instance?1")]);
    gateway.servers.does(owner, Does::Refuses);
    assert_eq!(gateway.write(1, Effect::Registers).await.0, "registry");
    assert_eq!(
        gateway.servers.lines(),
        [format!("{owner} POST /instance?1"), format!("{} POST /instance?1", 1 - owner)]
    );
}

#[tokio::test(start_paused = true)]
async fn while_nobody_answers_lists_are_the_last_good_ones_for_their_time() {
    let gateway = Gateway::new();
    gateway.servers.all_do(answers(200, list_of(&[1, 2])));
    gateway.list().await;
    for does in [
        Does::Refuses,
        answers(503, "server is STARTING now"),
        answers(500, "java.net.SocketTimeoutException: Read timed out"),
        answers(200, "<html>"),
        answers(200, ""),
        Does::Hangs,
    ] {
        gateway.servers.all_do(does.clone());
        gateway.clock.advance(1_000);
        assert_eq!(gateway.list().await.0, "stale", "{does:?}");
    }
    assert_eq!(gateway.list().await, ("stale", format!("6 {}", list_of(&[1, 2]))));
    gateway.clock.advance(600_000);
    gateway.servers.all_do(Does::Refuses);
    assert_eq!(gateway.list().await, ("refused", "Away".into()));
    assert_eq!(gateway.naming.counts().outages.load(Relaxed), 1, "one outage, one line");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_was_never_asked_for_is_refused_not_empty() {
    let gateway = Gateway::new();
    gateway.servers.all_do(answers(200, list_of(&[1])));
    gateway.list().await;
    gateway.servers.all_do(Does::Refuses);
    let other = gateway.ask("GET", "/list", What::List(list_key("other"))).await;
    assert_eq!(other, ("refused", "Away".into()));
}

#[tokio::test(start_paused = true)]
async fn only_whoever_the_registry_has_answered_is_told_what_was_listed() {
    let gateway = Gateway::new();
    let ask = async |token: &'static [u8]| {
        let request = Request::get("/list").body(Bytes::new()).unwrap();
        let caller = gateway.naming.caller("public", &[token]);
        let question = Question { service: Some(service()), caller, what: What::List(list_key("")) };
        gateway.naming.answer(question, Sent { request, peer: ([10, 0, 0, 9], 1).into() }).await
    };
    gateway.servers.all_do(answers(403, "unknown user!"));
    assert!(matches!(ask(b"forged").await, Answered::Registry(_)));
    gateway.servers.all_do(answers(200, list_of(&[1])));
    assert!(matches!(ask(b"good").await, Answered::Registry(_)));
    gateway.servers.all_do(Does::Refuses);
    assert!(matches!(ask(b"good").await, Answered::Stale(_)));
    assert!(matches!(ask(b"forged").await, Answered::Refused(Refused::Stranger)));
    assert!(matches!(ask(b"").await, Answered::Refused(Refused::Stranger)));
}

#[tokio::test(start_paused = true)]
async fn beats_are_answered_by_the_last_lists_and_by_what_is_kept() {
    let gateway = Gateway::new();
    gateway.servers.all_do(answers(200, list_of(&[1, 2])));
    gateway.list().await;
    gateway.servers.all_do(Does::Refuses);
    assert_eq!(gateway.beat(1, true).await, ("known", r#"{"zone":"ä&="}"#.into()));
    assert_eq!(gateway.beat(3, true).await.0, "unknown");
    assert_eq!(gateway.write(3, Effect::Registers).await.0, "kept");
    assert_eq!(gateway.beat(3, true).await.0, "known");
    assert_eq!(gateway.write(1, Effect::Deregisters).await.0, "kept");
    assert_eq!(gateway.beat(1, true).await.0, "unknown");
    assert_eq!(gateway.list().await.1, format!("0 {}", list_of(&[2])), "who has left is listed no more");
}

#[tokio::test(start_paused = true)]
async fn what_was_kept_is_sent_in_order_at_the_usual_pace_when_a_server_is_back() {
    let gateway = Gateway::new();
    gateway.servers.all_do(Does::Refuses);
    for (port, effect) in
        [(1, Effect::Registers), (2, Effect::Registers), (1, Effect::Deregisters), (3, Effect::Registers)]
    {
        assert_eq!(gateway.write(port, effect).await.0, "kept");
    }
    gateway.servers.asked();
    gateway.servers.all_do(answers(200, "ok"));
    let started = tokio::time::Instant::now();
    assert_eq!(
        gateway.replayed().await,
        ["0 POST /instance?2", "0 DELETE /instance?1", "0 POST /instance?3"]
    );
    let took = started.elapsed();
    assert!((Duration::from_millis(100)..Duration::from_millis(200)).contains(&took), "{took:?}");
    assert_eq!(gateway.naming.counts().replayed.load(Relaxed), 3);
    // Nothing more is between clients and the registry.
    assert_eq!(gateway.write(1, Effect::Registers).await.0, "registry");
}

#[tokio::test(start_paused = true)]
async fn a_write_of_an_instance_of_which_something_waits_waits_behind_it() {
    let gateway = Gateway::new();
    gateway.servers.all_do(Does::Refuses);
    gateway.write(1, Effect::Registers).await;
    gateway.servers.all_do(answers(200, "ok"));
    gateway.servers.asked();
    assert_eq!(gateway.write(1, Effect::Deregisters).await.0, "kept");
    assert_eq!(gateway.write(2, Effect::Registers).await.0, "registry");
    assert_eq!(gateway.servers.lines(), ["0 POST /instance?2"]);
    assert_eq!(gateway.replayed().await, ["0 DELETE /instance?1"]);
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_sent_again_and_what_is_refused_is_not() {
    let gateway = Gateway::new();
    gateway.servers.all_do(Does::Refuses);
    gateway.write(1, Effect::Registers).await;
    let stopped = CancellationToken::new();
    let task = tokio::spawn(gateway.naming.clone().replay(stopped.clone()));
    gateway.wait(TRY_EVERY * 3).await;
    assert!(gateway.servers.asked().len() > 2 && gateway.naming.standing().kept == 1);
    gateway.servers.all_do(answers(403, "unknown user!"));
    gateway.wait(TRY_EVERY * 2).await;
    assert_eq!(gateway.naming.standing().kept, 0);
    assert_eq!(gateway.naming.counts().rejected.load(Relaxed), 1);
    stopped.cancel();
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_has_just_started_may_fail_a_few_times() {
    let gateway = Gateway::new();
    gateway.servers.all_do(Does::Refuses);
    gateway.write(1, Effect::Registers).await;
    gateway.servers.all_do(answers(500, "caused: no leader;"));
    let stopped = CancellationToken::new();
    let task = tokio::spawn(gateway.naming.clone().replay(stopped.clone()));
    gateway.wait(TRY_EVERY * 3).await;
    assert_eq!(gateway.naming.standing().kept, 1);
    gateway.servers.all_do(answers(200, "ok"));
    gateway.wait(TRY_EVERY * 8).await;
    assert_eq!(gateway.naming.standing().kept, 0);
    gateway.servers.all_do(Does::Refuses);
    gateway.write(2, Effect::Registers).await;
    gateway.servers.all_do(answers(500, "caused: no;"));
    gateway.wait(Duration::from_secs(60)).await;
    assert_eq!(gateway.naming.standing().kept, 1);
    gateway.wait(Duration::from_secs(90)).await;
    assert_eq!(gateway.naming.standing().kept, 0, "not for ever");
    let counts = gateway.naming.counts();
    assert_eq!((counts.replayed.load(Relaxed), counts.rejected.load(Relaxed)), (1, 1));
    stopped.cancel();
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_that_hangs_in_something_long_is_no_outage() {
    let gateway = Gateway::new();
    gateway.servers.all_do(Does::Hangs);
    gateway.ask("POST", "/service", What::Other).await;
    assert_eq!(gateway.naming.standing().away_for, None);
}

#[tokio::test(start_paused = true)]
async fn what_has_no_room_is_refused() {
    let gateway = Gateway::with_room(1);
    gateway.servers.all_do(Does::Refuses);
    assert_eq!(gateway.write(1, Effect::Registers).await.0, "kept");
    assert_eq!(gateway.write(2, Effect::Registers).await, ("refused", "NoRoom".into()));
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_comes_back_empty_is_told_of_all_instances_and_not_believed_meanwhile() {
    let gateway = Gateway::new();
    gateway.servers.all_do(answers(200, list_of(&[1, 2])));
    gateway.list().await;
    gateway.servers.all_do(Does::Refuses);
    assert_eq!(gateway.list().await.0, "stale");
    gateway.servers.asked();
    gateway.beat(1, true).await;
    assert!(
        gateway.servers.asked()[0].2.starts_with("beat="),
        "it may be the first that a new registry gets"
    );
    gateway.servers.all_do(answers(200, list_of(&[])));
    gateway.clock.advance(1_000);
    assert_eq!(gateway.list().await, ("stale", format!("1 {}", list_of(&[1, 2]))));
    gateway.servers.asked();
    gateway.servers.all_do(answers(200, BEATEN));
    gateway.beat(1, true).await;
    let (_, line, body) = gateway.servers.asked().remove(0);
    assert_eq!(line, "PUT /beat");
    let beat =
        percent_encoding::percent_decode_str(body.strip_prefix("beat=").unwrap()).decode_utf8().unwrap();
    assert_eq!(
        beat,
        r#"{"cluster":"DEFAULT","ip":"10.0.0.7","metadata":{"zone":"ä&="},"period":5000,"port":1,"scheduled":false,"serviceName":"G@@a","weight":2.5}"#
    );
    // A full beat says all by itself, and one of an instance that isn't known can't be made longer.
    gateway.beat(2, false).await;
    gateway.beat(3, true).await;
    assert!(gateway.servers.asked().iter().all(|(_, _, body)| body.is_empty()));
    // A list that has all and more is believed at once, a shorter one after a beat period.
    gateway.servers.all_do(answers(200, list_of(&[1, 2, 3])));
    assert_eq!(gateway.list().await.0, "registry");
    gateway.servers.all_do(answers(200, list_of(&[1])));
    assert_eq!(gateway.list().await.0, "stale");
    gateway.clock.advance(6_000);
    assert_eq!(gateway.list().await, ("registry", format!("200 {}", list_of(&[1]))));
    gateway.servers.asked();
    gateway.beat(1, true).await;
    assert_eq!(gateway.servers.asked()[0].2, "", "a short beat stays short");
}

#[tokio::test(start_paused = true)]
async fn who_beats_seldom_is_waited_for_longer() {
    let gateway = Gateway::new();
    let slow = list_of(&[1, 2]).replacen(r#""zone":"ä&=""#, r#""preserved.heart.beat.interval":"20000""#, 1);
    gateway.servers.all_do(answers(200, slow.clone()));
    gateway.list().await;
    gateway.servers.all_do(Does::Refuses);
    gateway.list().await;
    gateway.servers.all_do(answers(200, list_of(&[])));
    assert_eq!(gateway.list().await.0, "stale");
    gateway.clock.advance(20_999);
    assert_eq!(gateway.list().await, ("stale", format!("20 {slow}")));
    gateway.servers.asked();
    gateway.servers.all_do(answers(200, BEATEN));
    gateway.beat(1, true).await;
    gateway.beat(2, true).await;
    gateway.servers.all_do(answers(200, list_of(&[])));
    let told: Vec<bool> = gateway.servers.asked().iter().map(|(_, _, body)| body.contains("20000")).collect();
    assert_eq!(told, [true, false], "whoever the registry may lack is told of in full");
    gateway.clock.advance(1);
    assert_eq!(gateway.list().await, ("registry", format!("200 {}", list_of(&[]))));
}

#[tokio::test(start_paused = true)]
async fn a_restart_that_no_request_has_seen_empties_no_list() {
    let gateway = Gateway::new();
    gateway.servers.all_do(answers(200, list_of(&[1])));
    gateway.list().await;
    gateway.servers.all_do(answers(200, list_of(&[])));
    gateway.servers.were_down.store(true, Relaxed);
    assert_eq!(gateway.list().await.0, "stale");
    gateway.clock.advance(SETTLING.as_millis() as u64);
    assert_eq!(gateway.list().await.0, "registry");
    assert_eq!(gateway.naming.counts().outages.load(Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn one_slow_list_is_answered_by_the_last_and_changes_nothing_for_others() {
    let gateway = Gateway::new();
    gateway.servers.all_do(answers(200, list_of(&[1, 2])));
    gateway.list().await;
    let of_b = async || gateway.ask("GET", "/list?b", What::List(list_key("b"))).await;
    of_b().await;
    for _ in 0..10 {
        gateway.servers.all_do(Does::Hangs);
        gateway.clock.advance(1_000);
        assert_eq!(gateway.list().await.0, "stale");
        gateway.servers.all_do(answers(200, list_of(&[1])));
        assert_eq!(of_b().await, ("registry", format!("200 {}", list_of(&[1]))));
    }
    assert_eq!(gateway.naming.counts().outages.load(Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_says_nothing_to_anybody_is_away() {
    let gateway = Gateway::new();
    gateway.clock.advance(10_000);
    gateway.servers.all_do(answers(200, list_of(&[1])));
    gateway.list().await;
    gateway.servers.all_do(Does::Hangs);
    for (after_ms, expected) in [(1_000, 0), (1_000, 0), (499, 0), (1, 1)] {
        gateway.clock.advance(after_ms);
        gateway.list().await;
        assert_eq!(gateway.naming.counts().outages.load(Relaxed), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn who_leaves_while_the_registry_settles_is_listed_no_more() {
    let gateway = Gateway::new();
    gateway.servers.all_do(answers(200, list_of(&[1, 2])));
    gateway.list().await;
    gateway.servers.all_do(Does::Refuses);
    gateway.list().await;
    gateway.servers.all_do(answers(200, "ok"));
    assert_eq!(gateway.write(1, Effect::Deregisters).await.0, "registry");
    gateway.servers.all_do(answers(200, list_of(&[2])));
    assert_eq!(gateway.list().await.0, "registry");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_its_dead_owner_cannot_take_is_kept_while_others_answer() {
    let gateway = Gateway::new();
    gateway.servers.does(0, Does::Refuses);
    gateway.servers.does(1, answers(500, "java.net.SocketException: Connection reset"));
    assert_eq!(gateway.write(1, Effect::Registers).await.0, "kept");
    assert_eq!(gateway.naming.standing().away_for, None);
    gateway.servers.does(1, answers(200, list_of(&[])));
    assert_eq!(gateway.list().await.0, "registry");
}

#[tokio::test(start_paused = true)]
async fn what_may_have_been_done_is_not_done_twice_unless_that_changes_nothing() {
    let gateway = Gateway::new();
    gateway.servers.all_do(Does::Hangs);
    assert_eq!(gateway.ask("POST", "/service", What::Other).await, ("refused", "Doubtful".into()));
    assert_eq!(gateway.servers.lines(), ["0 POST /service"]);
    gateway.ask("GET", "/service", What::Other).await;
    assert_eq!(gateway.servers.lines(), ["0 GET /service", "1 GET /service"]);
    gateway.servers.does(0, Does::Refuses);
    gateway.servers.does(1, answers(200, "ok"));
    assert_eq!(gateway.ask("POST", "/service", What::Other).await, ("registry", "200 ok".into()));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_serve_says_so_itself_where_nothing_can_be_answered_in_its_place() {
    let gateway = Gateway::new();
    gateway.servers.all_do(answers(503, "server is DOWNnow"));
    let answer = gateway.ask("GET", "/service/list", What::Other).await;
    assert_eq!(answer, ("registry", "503 server is DOWNnow".into()));
    assert_eq!(gateway.write(1, Effect::Registers).await.0, "kept");
    gateway.servers.all_do(answers(200, "<html>"));
    assert_eq!(gateway.ask("GET", "/service/list", What::Other).await, ("refused", "Strange".into()));
}

#[tokio::test(start_paused = true)]
async fn too_many_requests_are_refused_and_no_outage() {
    let gateway = Gateway::new();
    gateway.servers.all_do(Does::IsFull);
    assert_eq!(gateway.list().await, ("refused", "Full".into()));
    assert_eq!(gateway.beat(1, true).await, ("refused", "Full".into()));
    assert_eq!(gateway.write(1, Effect::Registers).await, ("refused", "Full".into()));
    assert_eq!(gateway.naming.standing().away_for, None);
}

#[tokio::test(start_paused = true)]
async fn a_request_ends_in_time_whatever_servers_do() {
    let gateway = Gateway::new();
    gateway.servers.all_do(Does::Hangs);
    let started = tokio::time::Instant::now();
    assert_eq!(gateway.list().await, ("refused", "TimedOut".into()));
    assert_eq!(started.elapsed(), PATIENCE);
    gateway.ask("GET", "/service/list", What::Other).await;
    assert_eq!(started.elapsed(), PATIENCE + Duration::from_secs(30), "what is much may take its time");
}

#[tokio::test(start_paused = true)]
async fn every_answer_is_counted_by_who_gave_it() {
    let gateway = Gateway::new();
    gateway.servers.all_do(answers(200, list_of(&[1])));
    gateway.list().await;
    gateway.servers.all_do(Does::Refuses);
    gateway.list().await;
    gateway.beat(1, true).await;
    gateway.beat(2, true).await;
    gateway.write(2, Effect::Registers).await;
    gateway.ask("GET", "/service/list", What::Other).await;
    let counts = gateway.naming.counts().answers();
    assert_eq!(counts, By::ALL.map(|by| (by.label(), 1)));
}

#[tokio::test(start_paused = true)]
async fn a_registration_of_which_bytes_went_goes_to_no_other_server_and_its_client_is_told() {
    let gateway = Gateway::new();
    gateway.servers.all_do(answers(200, "ok"));
    for does in [Does::BreaksOff, Does::Hangs] {
        gateway.servers.does(0, does);
        assert_eq!(gateway.write(1, Effect::Registers).await, ("refused", "Doubtful".into()));
        assert_eq!(gateway.servers.lines(), ["0 POST /instance?1"]);
        assert_eq!(gateway.naming.standing().kept, 0);
        // Done twice it is as done once.
        assert_eq!(gateway.write(1, Effect::Deregisters).await.0, "registry");
        assert_eq!(gateway.servers.lines(), ["0 DELETE /instance?1", "1 DELETE /instance?1"]);
    }
    gateway.servers.does(0, Does::Refuses);
    assert_eq!(gateway.write(1, Effect::Registers).await.0, "registry");
    assert_eq!(
        gateway.servers.lines(),
        ["0 POST /instance?1", "1 POST /instance?1"],
        "none went to the first"
    );
}

#[tokio::test(start_paused = true)]
async fn a_write_that_nobody_takes_holds_up_no_other_and_is_given_up() {
    let gateway = Gateway::new();
    gateway.servers.all_do(Does::Refuses);
    for port in [1, 2] {
        assert_eq!(gateway.write(port, Effect::Registers).await.0, "kept");
    }
    gateway.servers.all_do(answers(200, BEATEN));
    *gateway.servers.does_with.lock() = Some(("?1", answers(500, "java.net.SocketException: x")));
    gateway.beat(9, false).await;
    gateway.servers.asked();
    let stopped = CancellationToken::new();
    let task = tokio::spawn(gateway.naming.clone().replay(stopped.clone()));
    gateway.wait(Duration::from_millis(200)).await;
    assert!(gateway.servers.lines().contains(&"0 POST /instance?2".to_owned()));
    assert_eq!(gateway.naming.standing().kept, 1);
    assert_eq!(gateway.beat(2, true).await.0, "registry");
    gateway.wait(Duration::from_secs(150)).await;
    let counts = gateway.naming.counts();
    assert_eq!((counts.replayed.load(Relaxed), counts.rejected.load(Relaxed)), (1, 1));
    assert_eq!(gateway.naming.standing().kept, 0);
    stopped.cancel();
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn however_long_a_registry_takes_to_start_nothing_that_is_kept_is_given_up() {
    let gateway = Gateway::new();
    gateway.servers.all_do(Does::Refuses);
    gateway.write(1, Effect::Registers).await;
    gateway.servers.all_do(answers(503, "server is STARTING now"));
    let stopped = CancellationToken::new();
    let task = tokio::spawn(gateway.naming.clone().replay(stopped.clone()));
    gateway.wait(Duration::from_secs(300)).await;
    assert!(gateway.servers.asked().len() > 100);
    gateway.servers.all_do(answers(200, "ok"));
    gateway.wait(TRY_EVERY * 2).await;
    assert_eq!(gateway.naming.counts().replayed.load(Relaxed), 1);
    stopped.cancel();
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_beat_sends_what_is_kept_of_its_instance_once_the_registry_is_back() {
    let gateway = Gateway::new();
    gateway.servers.all_do(Does::Refuses);
    gateway.write(1, Effect::Registers).await;
    gateway.write(2, Effect::Registers).await;
    gateway.servers.asked();
    assert_eq!((gateway.beat(1, true).await.0, gateway.servers.lines()), ("known", vec![]), "it is away");
    gateway.servers.all_do(answers(200, list_of(&[])));
    gateway.list().await;
    gateway.servers.asked();
    assert_eq!(gateway.beat(1, true).await.0, "known");
    assert_eq!(gateway.servers.lines(), ["0 POST /instance?1"]);
    gateway.servers.all_do(answers(403, "unknown user!"));
    assert_eq!(gateway.beat(2, true).await.0, "unknown", "the registry doesn't want it");
    assert_eq!(gateway.naming.standing().kept, 0);
    gateway.servers.all_do(answers(200, BEATEN));
    assert_eq!(gateway.beat(1, true).await.0, "registry");
}

#[tokio::test(start_paused = true)]
async fn whichever_write_of_an_instance_came_last_counts_however_long_the_others_took() {
    for does in [answers(200, "ok"), Does::Refuses] {
        let gateway = Gateway::new();
        *gateway.servers.does_with.lock() = Some(("DELETE", Does::Hangs));
        let older = gateway.write(1, Effect::Deregisters);
        let newer = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            gateway.servers.all_do(does.clone());
            gateway.write(1, Effect::Registers).await.0
        };
        let (older, newer) = tokio::join!(older, newer);
        assert_eq!(older.0, "kept");
        gateway.servers.asked();
        *gateway.servers.does_with.lock() = None;
        gateway.servers.all_do(answers(200, "ok"));
        let expected: &[&str] = if newer == "kept" { &["0 POST /instance?1"] } else { &[] };
        assert_eq!(gateway.replayed().await, expected, "{does:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_changes_an_instance_goes_after_what_is_kept_of_it() {
    let gateway = Gateway::new();
    gateway.servers.all_do(Does::Refuses);
    gateway.write(1, Effect::Registers).await;
    assert_eq!(gateway.change(1).await, ("refused", "Away".into()));
    gateway.servers.all_do(answers(200, list_of(&[])));
    gateway.list().await;
    gateway.servers.asked();
    assert_eq!(gateway.change(1).await.0, "registry");
    assert_eq!(gateway.servers.lines(), ["0 POST /instance?1", "0 PUT /instance?1"]);
    assert_eq!(gateway.replayed().await, [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn who_has_left_in_an_outage_is_listed_no_more_though_the_registry_has_yet_to_hear_of_it() {
    let gateway = Gateway::new();
    gateway.servers.all_do(answers(200, list_of(&[1, 2])));
    gateway.list().await;
    gateway.servers.all_do(Does::Refuses);
    assert_eq!(gateway.write(1, Effect::Deregisters).await.0, "kept");
    gateway.servers.all_do(answers(200, list_of(&[1, 2])));
    assert_eq!(gateway.list().await, ("registry", format!("200 {}", list_of(&[2]))));
    gateway.servers.all_do(Does::Refuses);
    assert_eq!(gateway.list().await, ("stale", format!("0 {}", list_of(&[2]))));
}

#[tokio::test(start_paused = true)]
async fn owners_that_do_not_answer_have_the_members_asked_for_now_and_then_not_all_the_time() {
    let gateway = Gateway::new();
    gateway.naming.0.asking.look_at_cluster().await;
    gateway.servers.all_do(Does::Refuses);
    let stopped = CancellationToken::new();
    let task = tokio::spawn(gateway.naming.clone().watch_members(stopped.clone()));
    tokio::time::sleep(Duration::from_millis(10)).await;
    gateway.servers.looks.store(0, Relaxed);
    for _ in 0..1_000 {
        gateway.list().await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Each round asks both who they are, and one for its members.
    let looks = gateway.servers.looks.load(Relaxed);
    assert!((3..=6).contains(&looks), "{looks}");
    stopped.cancel();
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_anybody_may_ask_for_makes_nobody_known() {
    let gateway = Gateway::new();
    let caller = |token: &'static [u8]| gateway.naming.caller("public", &[token]);
    let (reader, writer, nobody) = (caller(b"reader"), caller(b"writer"), caller(b""));
    gateway.servers.all_do(answers(200, list_of(&[1])));
    gateway.ask_as(reader, "GET", "/list", What::List(list_key(""))).await;
    gateway.ask_as(nobody, "GET", "/operator/metrics", What::Other).await;
    gateway.write_as(writer, 1, Effect::Registers).await;
    gateway.servers.all_do(Does::Refuses);
    let list = async |caller| gateway.ask_as(caller, "GET", "/list", What::List(list_key(""))).await.0;
    assert_eq!([list(reader).await, list(nobody).await, list(writer).await], ["stale", "refused", "refused"]);
    for stranger in [reader, nobody] {
        let answer = gateway.write_as(stranger, 1, Effect::Deregisters).await;
        assert_eq!(answer, ("refused", "Stranger".into()));
    }
    assert_eq!(gateway.write_as(writer, 1, Effect::Registers).await.0, "kept");
}

#[tokio::test(start_paused = true)]
async fn what_one_has_written_no_other_writes_over_until_the_registry_can_be_asked() {
    let gateway = Gateway::new();
    let caller = |token: &'static [u8]| gateway.naming.caller("public", &[token]);
    let (one, other) = (caller(b"one"), caller(b"other"));
    gateway.servers.all_do(answers(200, "ok"));
    for caller in [one, other] {
        gateway.write_as(caller, 9, Effect::Registers).await;
    }
    gateway.servers.all_do(Does::Refuses);
    assert_eq!(gateway.write_as(one, 1, Effect::Registers).await.0, "kept");
    let refused = gateway.write_as(other, 1, Effect::Deregisters).await;
    assert_eq!(refused, ("refused", "Stranger".into()));
    gateway.servers.all_do(answers(200, "ok"));
    gateway.write_as(one, 9, Effect::Registers).await;
    gateway.servers.asked();
    assert_eq!(gateway.write_as(other, 1, Effect::Deregisters).await.0, "registry");
    assert_eq!(gateway.replayed().await, ["0 DELETE /instance?1"], "the older one isn't sent after it");
}

#[tokio::test(start_paused = true)]
async fn a_beat_makes_its_instance_known_though_nobody_has_asked_for_a_list() {
    let gateway = Gateway::new();
    gateway.servers.all_do(answers(200, BEATEN));
    gateway.beat(1, true).await;
    gateway.write(2, Effect::Registers).await;
    gateway.servers.all_do(answers(200, BEATEN.replace("10200", "20404")));
    gateway.beat(3, true).await;
    gateway.servers.all_do(Does::Hangs);
    assert_eq!(gateway.beat(4, true).await, ("refused", "TimedOut".into()), "one time-out is no outage");
    gateway.servers.all_do(Does::Refuses);
    let mut beats = Vec::new();
    for port in 1..=4 {
        beats.push(gateway.beat(port, true).await.0);
    }
    assert_eq!(beats, ["known", "known", "unknown", "unknown"]);
    gateway.write(1, Effect::Deregisters).await;
    assert_eq!(gateway.beat(1, true).await.0, "unknown");
}

#[tokio::test(start_paused = true)]
async fn full_servers_leave_what_is_known_to_be_answered() {
    let gateway = Gateway::new();
    gateway.servers.all_do(answers(200, list_of(&[1])));
    gateway.list().await;
    gateway.servers.does(0, Does::Hangs);
    gateway.servers.does(1, Does::IsFull);
    assert_eq!(gateway.list().await.0, "stale");
    assert_eq!(gateway.beat(1, true).await.0, "known");
    gateway.servers.all_do(Does::IsFull);
    assert_eq!((gateway.list().await.0, gateway.beat(1, true).await.0), ("stale", "known"));
    assert_eq!(gateway.naming.standing().away_for, None);
}
