//! Does the replayer notice what it should, and only that? Played against a server that does as the script says.

#![allow(clippy::disallowed_types, reason = "threads without a runtime: std's own locks will do")]
#![allow(clippy::unwrap_used)] // a test's helpers are tests, too

mod fake;

use std::path::Path;
use std::time::Duration;

use compat_tests::cases::{Library, Playable, Steps, own_index};
use compat_tests::facts::{Client, Level, Need};
use compat_tests::finding::{Fate, Finding};
use compat_tests::golden::{
    Action, Expected, ExpectedRaw, ExpectedResponse, Scenario, Status, Suite, load, load_folder,
};
use compat_tests::login::Login;
use compat_tests::order::Case;
use compat_tests::progress::Progress;
use compat_tests::replay::{Options, Outcome, Verdict, replay};
use compat_tests::run::Pauses;
use compat_tests::score::Score;
use compat_tests::session::Session;
use compat_tests::target::Target;
use regex::Regex;

fn scenarios(folder: &str) -> Vec<Suite> {
    load_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap()
}

fn recorded(suite: &str, name: &str) -> Scenario {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(suite).with_extension("json");
    load(&file).unwrap().scenarios.into_iter().find(|scenario| scenario.name == name).unwrap()
}

/// A scenario written in the format, for what no short recording shows.
fn written(steps: &str) -> Scenario {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("written.json");
    std::fs::write(&file, format!(r#"[{{"name": "written", "steps": {steps}}}]"#)).unwrap();
    load(&file).unwrap().scenarios.remove(0)
}

/// The same conversation in less time.
fn hurried(mut scenario: Scenario) -> Scenario {
    for step in &mut scenario.steps {
        step.rules.min = step.rules.min.map(|min| min / 50);
        let nothing = matches!(step.expected.first(), Some(Expected::Nothing));
        match &mut step.action {
            Action::Sleep(wait) => *wait = Duration::ZERO,
            Action::UdpRecv { timeout, drain, .. } if nothing || *drain => {
                *timeout = Duration::from_millis(300);
            }
            Action::HttpOpen { delay, .. } => *delay = Duration::ZERO,
            // no server under test comes by to ask
            Action::HttpSeen(_) => step.expected.clear(),
            _ => {}
        }
    }
    scenario
}

fn play_with(stated: &Scenario, server: Scenario, key_order: bool) -> Outcome {
    let target = Target::parse(&fake::serve(server)).unwrap();
    let options = Options { jobs: 1, key_order, pauses: Pauses::AsRecorded, seed: 0 };
    replay(&target, &[Case { suite: "self-check", scenario: stated }], &options).remove(0)
}

/// What a server that answers like `server` gives in a replay of `stated`: the places that differ.
fn places(stated: &Scenario, server: Scenario, key_order: bool) -> Vec<String> {
    match play_with(stated, server, key_order).verdict {
        Verdict::Same => Vec::new(),
        Verdict::Differs(steps) => {
            steps.into_iter().flat_map(|step| step.differences).map(|difference| difference.place).collect()
        }
        Verdict::Broke { step, why, .. } => vec![format!("broke at step {step}: {why}")],
    }
}

/// Replays with the answer of the `at`th step changed.
fn changed(stated: &Scenario, at: usize, change: impl Fn(&mut Expected)) -> Vec<String> {
    let mut server = stated.clone();
    change(&mut server.steps[at].expected[0]);
    places(stated, server, true)
}

fn response(expected: &mut Expected) -> &mut ExpectedResponse {
    match expected {
        Expected::Response(response) => response,
        other => panic!("{other:?} is no response"),
    }
}

fn body(from: &str, to: &str) -> impl Fn(&mut Expected) {
    move |expected| {
        let body = match expected {
            Expected::Datagram { body, .. } => body,
            other => &mut response(other).body,
        };
        assert!(body.contains(from), "{body} has no {from}");
        *body = body.replacen(from, to, 1);
    }
}

const LIST: &str = r#"[{"request": "GET /nacos/v1/ns/instance/list?serviceName=${run}",
    "compare_headers": ["vary"], "unordered": ["/tags"], "volatile": ["/hosts/*/age"],
    "mask": [["took \\d+", "took N"]],
    "response": {"status": 200, "headers": {"content-type": "application/json", "vary": "Origin"},
      "body": "{\"name\":\"${run}\",\"hosts\":[{\"ip\":\"a\",\"weight\":1.0,\"age\":3},{\"ip\":\"b\",\"age\":4}],\"tags\":[1,2],\"keep\":[1,2],\"pair\":{\"p\":1,\"q\":2},\"lastRefTime\":12,\"text\":\"{\\\"x\\\":1,\\\"y\\\":2}\",\"note\":\"took 5\"}"}}]"#;

#[test]
fn every_scenario_passes_against_a_server_that_answers_as_it_states() {
    let suites = scenarios("golden").into_iter().chain(scenarios("improved"));
    let queue: Vec<(String, Scenario)> = suites
        .flat_map(|suite| suite.scenarios.into_iter().map(move |scenario| (suite.name.clone(), scenario)))
        .map(|(suite, scenario)| (suite, hurried(scenario)))
        .collect();
    let count = queue.len();
    let queue = std::sync::Mutex::new(queue.into_iter());
    let failed = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                loop {
                    let Some((suite, scenario)) = queue.lock().unwrap().next() else { break };
                    let outcome = play_with(&scenario, scenario.clone(), true);
                    if !matches!(outcome.verdict, Verdict::Same) {
                        failed.lock().unwrap().push(format!("{suite}/{}: {outcome:?}", scenario.name));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {count}:\n{}", failed.len(), failed.join("\n"));
    assert!(count > 620, "only {count} scenarios were found");
}

#[test]
fn a_status_a_media_type_and_a_named_header_are_compared() {
    let list = written(LIST);
    assert_eq!(changed(&list, 0, |answer| response(answer).status = Status::one(201)), ["status"]);
    let header = |at: usize| move |answer: &mut Expected| response(answer).headers[at].1 = "x/y".to_owned();
    assert_eq!(changed(&list, 0, header(0)), ["media type"]);
    assert_eq!(changed(&list, 0, header(1)), ["header vary"]);
    assert_eq!(changed(&list, 0, |answer| response(answer).headers.truncate(1)), ["header vary"]);
}

#[test]
fn a_body_is_compared_to_the_spelling_of_a_number_and_the_order_of_keys() {
    let list = written(LIST);
    assert_eq!(changed(&list, 0, body("1.0", "1")), ["body /hosts/0/weight"]);
    assert_eq!(changed(&list, 0, body("\"weight\":1.0,", "")), ["body /hosts/0/weight"]);
    assert_eq!(changed(&list, 0, body("\"weight\"", "\"more\":null,\"weight\"")), ["body /hosts/0/more"]);
    assert_eq!(changed(&list, 0, body("keep\":[1,2]", "keep\":[2,1]")), ["body /keep/0", "body /keep/1"]);
    assert_eq!(changed(&list, 0, body("\\\"x\\\":1", "\\\"x\\\":3")), ["body /text/x"]);
    assert_eq!(
        changed(&list, 0, body("\"lastRefTime\":12", "\"lastRefTime\":\"12\"")),
        ["body /lastRefTime"]
    );
    assert_eq!(changed(&list, 0, body("\"note\"", "\"not\"")), ["body /note", "body /not"]);
    assert_eq!(changed(&list, 0, |answer| response(answer).body = "ok".to_owned()), ["body"]);
    let swapped = body("\"p\":1,\"q\":2", "\"q\":2,\"p\":1");
    assert_eq!(changed(&list, 0, &swapped), ["body /pair (order of keys)"]);
    let mut server = list.clone();
    swapped(&mut server.steps[0].expected[0]);
    assert_eq!(places(&list, server, false), [""; 0]);
}

#[test]
fn what_differs_from_call_to_call_is_not_counted() {
    let list = written(LIST);
    let same = [""; 0];
    assert_eq!(changed(&list, 0, body("\"lastRefTime\":12", "\"lastRefTime\":99")), same);
    assert_eq!(changed(&list, 0, body("\"age\":3", "\"age\":5")), same);
    assert_eq!(changed(&list, 0, body("\"tags\":[1,2]", "\"tags\":[2,1]")), same);
    assert_eq!(changed(&list, 0, body("took 5", "took 77")), same);
    let swapped = body(
        r#"{"ip":"a","weight":1.0,"age":3},{"ip":"b","age":4}"#,
        r#"{"ip":"b","age":4},{"ip":"a","weight":1.0,"age":3}"#,
    );
    assert_eq!(changed(&list, 0, swapped), same);
}

#[test]
fn ignored_parts_are_ignored_and_the_status_is_not() {
    let page = written(
        r#"[{"request": "GET /", "ignore_body": true, "ignore_type": true,
             "response": {"status": 404, "headers": {"content-type": "text/html"}, "body": "a page"}}]"#,
    );
    let other = |status| {
        move |answer: &mut Expected| {
            let headers = vec![("content-type".to_owned(), "text/plain".to_owned())];
            *response(answer) =
                ExpectedResponse { status: Status::one(status), headers, body: "x".to_owned() };
        }
    };
    assert_eq!(changed(&page, 0, other(404)), [""; 0]);
    assert_eq!(changed(&page, 0, other(400)), ["status"]);
}

#[test]
fn what_counts_by_kind_or_is_ignored_has_the_type_that_was_recorded() {
    let list = written(
        r#"[{"udp_open": "u1"},
            {"request": "GET /b?${u1}", "volatile": ["some", "all"], "ignore_type": true, "response": {"status": 200,
             "body": "{\"port\":${u1},\"name\":\"${u1}\",\"lastRefTime\":7,\"some\":[1],\"all\":{},\"text\":\"{\\\"x\\\":1}\"}"}},
            {"request": "GET /c", "ignore_body": true, "ignore_type": true, "response": {"status": 200,
             "body": "{\"a\":1,\"of\":[{\"b\":\"x\",\"n\":null}],\"more\":{\"c\":true}}"}}]"#,
    );
    let at = |step: usize, from: &'static str, to: &'static str| changed(&list, step, body(from, to));
    assert_eq!(places(&list, list.clone(), true), [""; 0]);
    assert_eq!(at(1, "\"port\":${u1}", "\"port\":\"${u1}\""), ["body /port"]);
    assert_eq!(at(1, "\"name\":\"${u1}\"", "\"name\":${u1}"), ["body /name"]);
    assert_eq!(at(1, "\"lastRefTime\":7", "\"lastRefTime\":7.0"), ["body /lastRefTime"]);
    assert_eq!(at(1, "\"lastRefTime\":7", "\"lastRefTime\":null"), ["body /lastRefTime"]);
    assert_eq!(at(1, "\"some\":[1]", "\"some\":{}"), ["body /some"]);
    assert_eq!(at(1, "\"all\":{}", "\"all\":null"), ["body /all"]);
    assert_eq!(at(1, "\"{\\\"x\\\":1}\"", "{\"x\":1}"), ["body /text"]);
    assert_eq!(at(2, "\"a\":1", "\"a\":2"), [""; 0]);
    assert_eq!(at(2, "\"n\":null", "\"n\":3"), [""; 0]);
    assert_eq!(at(2, "\"a\":1", "\"a\":\"1\""), ["body /a"]);
    assert_eq!(at(2, "\"a\":1", "\"a\":null"), ["body /a"]);
    assert_eq!(at(2, "\"b\":\"x\"", "\"b\":2"), ["body /of/0/b"]);
    assert_eq!(at(2, "\"c\":true", "\"c\":0"), ["body /more/c"]);
    let other = |text: &'static str| changed(&list, 2, move |answer| response(answer).body = text.to_owned());
    assert_eq!((other("ok"), other("[]")), (vec!["body".to_owned()], vec!["body".to_owned()]));
}

#[test]
fn one_of_several_answers_is_enough_and_no_other() {
    let either = written(
        r#"[{"request": "GET /x", "response": {"status": [400, "5xx"], "body": "no"},
             "or": [{"status": 200, "body": "yes"}]}]"#,
    );
    let answer = |status, body: &str| {
        let body = body.to_owned();
        move |answer: &mut Expected| {
            response(answer).status = Status::one(status);
            response(answer).body.clone_from(&body);
        }
    };
    for (status, body) in [(400, "no"), (503, "no"), (200, "yes")] {
        assert_eq!(changed(&either, 0, answer(status, body)), [""; 0]);
    }
    for (status, body) in [(404, "no"), (200, "no"), (400, "yes")] {
        assert!(!changed(&either, 0, answer(status, body)).is_empty(), "{status} {body}");
    }
}

#[test]
fn a_lost_a_changed_and_an_unwanted_datagram_are_noticed() {
    let push = recorded("push", "on-register");
    let receive = push.steps.iter().position(|step| matches!(step.action, Action::UdpRecv { .. })).unwrap();
    assert_eq!(changed(&push, receive, |datagram| *datagram = Expected::Nothing), ["datagram"]);
    assert_eq!(changed(&push, receive, body("10.0.0.1", "10.0.0.2")), ["body /data/hosts/0/ip"]);
    let as_object = |datagram: &mut Expected| {
        if let Expected::Datagram { body, .. } = datagram {
            *body = body.replace("\"{", "{").replace("}\"", "}").replace('\\', "");
        }
    };
    assert_eq!(changed(&push, receive, as_object), ["body /data"]);
    let compressed = |datagram: &mut Expected| match datagram {
        Expected::Datagram { gzip, .. } => *gzip = !*gzip,
        other => panic!("{other:?} is no datagram"),
    };
    assert_eq!(changed(&push, receive, compressed), ["compressed"]);
    let mut silent = push.clone();
    silent.steps[receive].expected = vec![Expected::Nothing];
    assert_eq!(places(&silent, push, true), ["datagram"]);
}

#[test]
fn too_early_and_too_late_are_noticed() {
    let wait = |min: u64| {
        written(&format!(
            r#"[{{"request": "GET /a?${{run}}", "response": {{"status": 200}}}}, {{"mark": "m"}},
                {{"until": {{"request": "GET /b?${{run}}", "contains": "up"}}, "since": "m", "min_ms": {min},
                 "timeout_ms": 1500, "response": {{"reached": true}}}}]"#
        ))
    };
    assert_eq!(places(&wait(400), wait(400), true), [""; 0]);
    assert_eq!(places(&wait(400), wait(0), true), ["time"]);
    assert_eq!(places(&wait(0), wait(60_000), true), ["body"]);
    let push = |min: u64| {
        written(&format!(
            r#"[{{"udp_open": "u1"}}, {{"request": "GET /a?${{u1}}", "response": {{"status": 200}}}},
                {{"mark": "m"}}, {{"udp_recv": "u1", "since": "m", "min_ms": {min}, "timeout_ms": 1500,
                 "response": {{"gzip": false, "body": "{{}}"}}}}]"#
        ))
    };
    assert_eq!(places(&push(400), push(400), true), [""; 0]);
    assert_eq!(places(&push(400), push(0), true), ["time"]);
}

#[test]
fn raw_answers_are_counted_and_their_end_is_seen() {
    let raw = recorded("http-wire", "http11-keep-alive");
    let with = |change: fn(&mut Vec<ExpectedRaw>, &mut bool)| {
        changed(&raw, 0, |expected| match expected {
            Expected::Raw { responses, closed } => change(responses, closed),
            other => panic!("{other:?} is not raw"),
        })
    };
    assert_eq!(with(|_, closed| *closed = !*closed), ["closed by the server"]);
    assert_eq!(
        with(|responses, closed| (responses.truncate(1), *closed = true).1),
        ["responses", "closed by the server"]
    );
    assert_eq!(with(|responses, _| responses[1] = ExpectedRaw::Garbage("what".to_owned())), ["response 1"]);
}

#[test]
fn a_server_that_says_nothing_breaks_the_scenario_even_where_a_fault_is_recorded() {
    let mut list = written(LIST);
    list.fault = Some("any answer is right".to_owned());
    let mut mute = list.clone();
    mute.steps[0].expected.clear();
    let outcome = play_with(&list, mute, true);
    assert!(matches!(outcome.verdict, Verdict::Broke { step: 0, .. }), "{outcome:?}");
    assert!(outcome.counts());
    let mut other = list.clone();
    response(&mut other.steps[0].expected[0]).status = Status::one(500);
    let outcome = play_with(&list, other, true);
    assert!(matches!(outcome.verdict, Verdict::Differs(_)) && !outcome.counts());
}

#[test]
fn a_misspelt_key_and_two_actions_in_a_step_are_refused() {
    let refused = |steps: &str| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("wrong.json");
        std::fs::write(&file, format!(r#"[{{"name": "wrong", "steps": {steps}}}]"#)).unwrap();
        format!("{:#}", load(&file).unwrap_err())
    };
    assert!(refused(r#"[{"request": "GET /", "ignore_bdy": true}]"#).contains("ignore_bdy"));
    assert!(refused(r#"[{"request": "GET /", "sleep_ms": 1}]"#).contains("exactly one action"));
    assert!(refused(r#"[{"note": "x"}]"#).contains("exactly one action"));
    assert!(refused(r#"[{"request": "GET"}]"#).contains("METHOD /path"));
    assert!(refused(r#"[{"request": "GET /", "response": {"status": ["6xx"]}}]"#).contains("6xx"));
    assert!(refused(r#"[{"request": "GET /", "mask": [["(", ""]]}]"#).contains("mask"));
}

#[test]
fn every_recording_has_its_facts_and_no_facts_are_of_nothing() {
    let suites = scenarios("golden");
    let index = own_index().unwrap();
    let mut recorded: Vec<(&str, &str)> = suites
        .iter()
        .flat_map(|suite| suite.scenarios.iter().map(|scenario| (&*suite.name, &*scenario.name)))
        .collect();
    recorded.sort_unstable();
    assert_eq!(index.names().collect::<Vec<_>>(), recorded);
}

#[test]
fn of_every_fault_it_is_known_what_is_right_and_whom_it_breaks() {
    let library = Library::own(false).unwrap();
    let index = own_index().unwrap();
    let mut faults = 0;
    for case in library.cases(None, None) {
        let Steps::Recorded(recorded) = case.steps else { continue };
        let facts = &case.facts;
        assert_eq!(case.right.is_some(), recorded.scenario.fault.is_some(), "{}", facts.id);
        assert!(facts.fault_breaks.iter().all(|client| facts.clients.contains(client)), "{}", facts.id);
        let Some(right) = case.right else { continue };
        faults += 1;
        assert!(right.scenario.improves.is_some() && right.scenario.name == recorded.scenario.name);
        let told = index.tells_whom_a_fault_breaks(recorded.suite, &recorded.scenario.name);
        assert_eq!(told, !facts.clients.is_empty(), "{}", facts.id);
    }
    assert!(faults > 40, "{faults}");
}

/// Plays a recorded case of this program against a server that answers as these scripts say, one after the other.
fn found(id: &str, scripts: Vec<Scenario>) -> Vec<Finding> {
    let library = Library::own(false).unwrap();
    let cases = library.cases(None, Some(&Regex::new(&format!("^{id}$")).unwrap()));
    let progress = Progress::of(cases.len());
    let session = Session {
        target: Target::parse(&fake::serve_each(scripts)).unwrap(),
        peers: Vec::new(),
        member: None,
        back_door: None,
        has: Vec::new(),
        login: None,
        heeds_needs: false,
        options: Options { jobs: 1, key_order: true, pauses: Pauses::AsRecorded, seed: 0 },
        progress: &progress,
    };
    session.run(cases).findings
}

#[test]
fn a_server_with_the_fault_of_a_recording_breaks_the_clients_that_the_fault_breaks() {
    let id = "client-flows/go-register-by-form";
    let stated = |folder: &str| {
        let suites = scenarios(folder);
        let suite = suites.iter().find(|suite| suite.name == "client-flows").unwrap();
        suite.scenarios.iter().find(|scenario| scenario.name == "go-register-by-form").unwrap().clone()
    };
    let (recorded, right) = (stated("golden"), stated("improved"));
    let percents = |findings: &[Finding]| {
        let score = Score::of(findings);
        let of = |client| score.clients.iter().find(|(known, _)| *known == client).unwrap().1.percent();
        (of(Client::Go), of(Client::Rust), score.all.percent())
    };
    let faulty = found(id, vec![recorded.clone(), recorded]);
    assert!(matches!(faulty[0].fate, Fate::Faulty { .. }), "{faulty:?}");
    assert_eq!(percents(&faulty), (Some(0), Some(0), Some(100)));
    let better = found(id, vec![right.clone()]);
    assert!(matches!(better[0].fate, Fate::Better { .. }), "{better:?}");
    assert_eq!(percents(&better), (Some(100), Some(100), Some(100)));
    let mut neither = right;
    response(&mut neither.steps[0].expected[0]).body = "KO".to_owned();
    let neither = found(id, vec![neither.clone(), neither]);
    assert!(matches!(neither[0].fate, Fate::Differs(_)), "{neither:?}");
    assert_eq!(percents(&neither).2, Some(0));
}

#[test]
fn every_case_says_one_sentence_and_no_id_is_there_twice() {
    let library = Library::own(false).unwrap();
    let cases = library.cases(None, None);
    let mut ids = std::collections::BTreeSet::new();
    for Playable { facts, .. } in &cases {
        assert!(ids.insert(&facts.id), "{} is there twice", facts.id);
        let one = facts.says.ends_with('.') && facts.says.matches(". ").count() == 0;
        assert!(one && facts.says.len() < 120, "{}: {}", facts.id, facts.says);
        assert!((1..=3).contains(&facts.weight) && !facts.source.is_empty(), "{}", facts.id);
        assert!(facts.weight == 1 || !facts.clients.is_empty(), "{} weighs for nobody", facts.id);
    }
}

#[test]
fn what_is_called_safe_only_reads() {
    let library = Library::own(false).unwrap();
    for case in library.cases(Some(Level::Safe), None) {
        let Steps::Recorded(recorded) = case.steps else { continue };
        for step in &recorded.scenario.steps {
            let reads = match &step.action {
                Action::Request { request, .. } | Action::Until { request, .. } => {
                    matches!(&*request.method, "GET" | "HEAD") && !request.target.contains("udpPort")
                }
                Action::Sleep(_) | Action::Mark(_) => true,
                _ => false,
            };
            assert!(reads, "{} does more than read: {:?}", case.facts.id, step.action);
        }
    }
}

#[test]
fn another_login_stands_in_place_of_the_recorded_one_everywhere() {
    let library = Library::own(false).unwrap();
    let login = Login { user: "gru".to_owned(), password: "p w".to_owned(), admin: true };
    let mut logins = 0;
    for case in library.cases(None, None).iter().filter(|case| case.facts.family == "auth") {
        let Steps::Recorded(recorded) = case.steps else { continue };
        let own = hurried(login.in_place_of_the_recorded(recorded.scenario));
        let shown = format!("{own:?}");
        for left in ["username=nacos", "password=nacos", "\"nacos\"", "bmFjb3M6bmFjb3M="] {
            assert!(!shown.contains(left), "{}: {left} in {shown}", case.facts.id);
        }
        logins += shown.matches("username=gru").count();
        assert_eq!(places(&own, own.clone(), true), [""; 0], "{}", case.facts.id);
    }
    assert!(logins >= 12, "{logins}");
}

#[test]
fn what_recordings_have_by_chance_is_awaited_or_without_order() {
    let library = Library::own(false).unwrap();
    let own = |id: &str| {
        let cases = library.cases(None, None);
        let case = cases.iter().find(|case| case.facts.id == id).unwrap();
        let Steps::Recorded(recorded) = case.steps else { panic!("{id} was not recorded") };
        recorded.scenario.clone()
    };
    let links = own("core-web/actuator");
    let swapped = |expected: &mut Expected| {
        let body = &mut response(expected).body;
        let (head, tail) = body.split_once("\"health-path\":").unwrap();
        let (first, second) = tail.split_once(",\"health\":").unwrap();
        let second = second.trim_end_matches("}}");
        *body = format!("{head}\"health\":{second},\"health-path\":{first}}}}}");
    };
    assert_eq!(changed(&links, 0, swapped), [""; 0]);
    assert_eq!(changed(&recorded("core-web", "actuator"), 0, swapped), ["body /_links (order of keys)"]);
    assert_eq!(changed(&links, 0, body("health/{*path}", "health/x")), ["body /_links/health-path/href"]);
    for (id, at) in [("http-bodies/put-form-charsets", 1), ("health/checksum-follows", 0)] {
        let before = &own(id).steps[at].before;
        assert!(before.iter().any(|step| matches!(step.action, Action::Until { .. })), "{id}");
    }
}

/// What few servers offer is shown apart where it isn't; that these cases would notice is shown here.
#[test]
fn cases_that_few_servers_offer_pass_where_all_is_as_recorded_and_fail_where_an_answer_is_not() {
    let library = Library::own(false).unwrap();
    let offered_by_few = [Need::Auth, Need::AuthWhiteList, Need::HealthChecks];
    let mut counts = std::collections::BTreeMap::new();
    for case in library.cases(None, None) {
        let Steps::Recorded(recorded) = case.steps else { continue };
        if !case.facts.needs.iter().any(|need| offered_by_few.contains(need)) {
            continue;
        }
        let stated = hurried(recorded.scenario.clone());
        assert_eq!(places(&stated, stated.clone(), true), [""; 0], "{}", case.facts.id);
        let mut server = stated.clone();
        let mut answers = server.steps.iter_mut().filter_map(|step| match step.expected.first_mut() {
            Some(Expected::Response(response)) if matches!(step.action, Action::Request { .. }) => {
                Some(response)
            }
            _ => None,
        });
        let last = answers.next_back().unwrap_or_else(|| panic!("{} compares no answer", case.facts.id));
        last.status = Status::one(if last.status.accepts(403) { 200 } else { 403 });
        assert!(places(&stated, server, true).contains(&"status".to_owned()), "{}", case.facts.id);
        *counts.entry(case.facts.family).or_insert(0) += 1;
    }
    assert!(counts["auth"] >= 14 && counts["health checks"] >= 14, "{counts:?}");
}
