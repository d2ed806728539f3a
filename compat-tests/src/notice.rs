//! Which clients notice a difference. No I/O.
//!
//! Answers are compared to the byte, and most of what can differ in them no client looks at: it was tried, by changing the
//! answers of a real server in one thing each, and by running published clients against a server that spells
//! its answers in a way of its own (`clients/break`, `clients/run`). Only what was tried so is said here to be unseen; and
//! what a client decodes into a type is seen where the type is another, whether it looks at the value or not.

use crate::compare::Difference;
use crate::facts::Client;
use crate::finding::{Fate, Finding};
use crate::replay::StepDifference;
use crate::shown::{ABSENT, other_type};

use Client::{Dubbo, Java11, Java14, Node, Python, SpringCloud};

/// What a case that failed, or went as a faulty recording, means to one of the clients that depend on what it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// It differs only in what this client doesn't look at.
    Unseen,
    /// What differs that it could see, if any, is in answers to questions that no client asks, so it can't be told.
    Elsewhere,
    /// Something that it looks at.
    Noticed,
}

/// What a case that failed, or went as a faulty recording, means to a client.
pub fn effect(finding: &Finding, client: Client) -> Effect {
    match &finding.fate {
        Fate::Faulty { .. } if finding.facts.fault_breaks.contains(&client) => Effect::Noticed,
        Fate::Same | Fate::Faulty { .. } | Fate::Better { .. } => Effect::Unseen,
        Fate::Differs(steps) => {
            steps.iter().map(|step| in_step(step, client)).max().unwrap_or(Effect::Noticed)
        }
        _ => Effect::Noticed,
    }
}

/// The clients that notice a failure or the fault of a recording, of those that depend on what the case shows.
pub fn noticed_by(finding: &Finding) -> Vec<Client> {
    let all = finding.facts.clients.iter().copied();
    all.filter(|client| effect(finding, *client) == Effect::Noticed).collect()
}

/// Whether clients depend on what a failed case shows, and none of them sees what differs; nor would one that wasn't tried and
/// decodes by types.
pub fn is_unseen(finding: &Finding) -> bool {
    let clients = &finding.facts.clients;
    let mut differences =
        finding.fate.steps().iter().filter(|step| !step.refused).flat_map(|step| &step.differences);
    let retyped = differences.any(|one| other_type(one).is_some());
    !retyped && !clients.is_empty() && clients.iter().all(|client| effect(finding, *client) == Effect::Unseen)
}

fn in_step(step: &StepDifference, client: Client) -> Effect {
    let question = Question::of(&step.sent);
    let sees = |one: &Difference| !is_unseen_by(client, question, step.refused, one);
    let asks = match question {
        Question::NoClients => false,
        Question::Detail => client == Python,
        _ => true,
    };
    match (step.differences.iter().any(sees), asks) {
        (false, _) => Effect::Unseen,
        (true, false) => Effect::Elsewhere,
        (true, true) => Effect::Noticed,
    }
}

/// What a step asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    /// For the list of instances; a push has the same in it.
    List,
    /// For one instance, which only Python asks and hands to its caller as it is.
    Detail,
    /// For a beat.
    Beat,
    /// For the names of services.
    Names,
    /// Whether the server is up.
    Metrics,
    /// Something else that clients ask, or no such question at all (raw bytes, a port of the case's own).
    Else,
    /// What only tools, consoles and members ask.
    NoClients,
}

impl Question {
    /// By what a step says that it sent.
    fn of(sent: &str) -> Self {
        if sent.starts_with("a datagram on ") {
            return Self::List;
        }
        let mut words = sent.split_whitespace();
        let method = words.next().unwrap_or_default();
        let path = words.next().unwrap_or_default().split(['?', '#']).next().unwrap_or_default();
        if !["GET", "POST", "PUT", "DELETE"].contains(&method) {
            return Self::Else;
        }
        match path.trim_start_matches("/nacos/v1/ns/") {
            "instance/list" => Self::List,
            "instance/beat" => Self::Beat,
            "service/list" => Self::Names,
            "operator/metrics" => Self::Metrics,
            "instance" if method == "GET" => Self::Detail,
            "instance" => Self::Else,
            login if login.ends_with("auth/login") || login.ends_with("auth/users/login") => Self::Else,
            _ => Self::NoClients,
        }
    }
}

/// Whether a client doesn't look at it. `refused`: both answers are refusals.
fn is_unseen_by(client: Client, question: Question, refused: bool, one: &Difference) -> bool {
    let place = one.place.as_str();
    if place.ends_with("media type") || place.ends_with("(order of keys)") {
        return true;
    }
    if place == "compressed" {
        return one.got == "true"; // all of them unpack; one that isn't packed may not fit into Go's buffer
    }
    if refused && place == "status" {
        return is_same_refusal(client, &one.want, &one.got);
    }
    let Some(path) = place.strip_prefix("body") else { return false };
    if refused {
        return true;
    }
    let path = path.trim().trim_start_matches("/data").replace(|c: char| c.is_ascii_digit(), "*");
    let path = path.replace("**", "*");
    if let Some(types) = other_type(one)
        && question == Question::List
        && fails_to_decode(client, &path, types, &one.got)
    {
        return false;
    }
    if is_same_number(&one.want, &one.got) {
        return true;
    }
    let of_users = path.contains("metadata/");
    if one.want == ABSENT && !of_users && path.starts_with('/') && question != Question::Else {
        return true; // an unknown field
    }
    match question {
        Question::List => in_list(client, &path, one),
        Question::Beat => match &*path {
            "/code" => ![Java14, SpringCloud, Dubbo].contains(&client),
            "/lightBeatEnabled" => true,
            "/clientBeatInterval" => one.got == ABSENT,
            _ => false,
        },
        Question::Metrics => path.starts_with('/') && path != "/status",
        Question::Detail | Question::Names | Question::Else | Question::NoClients => false,
    }
}

/// The longest time between two questions that the real server asks clients for, in milliseconds.
const LONGEST_CACHE: f64 = 10_000.0;

/// Whether a client doesn't look at this place of a list.
fn in_list(client: Client, path: &str, one: &Difference) -> bool {
    match path {
        "/dom" | "/checksum" | "/hosts/*/marked" | "/hosts/*/instanceId" => true,
        "/metadata" => one.got == ABSENT || one.got == "null",
        "/useSpecifiedURL" | "/env" | "/hosts/*/valid" | "/lastRefTime" => one.got == ABSENT,
        "/hosts/*/serviceName" => one.got == ABSENT || one.got.contains("@@"),
        "/cacheMillis" => {
            one.got == ABSENT || one.got.parse().is_ok_and(|wait: f64| (0.0..=LONGEST_CACHE).contains(&wait))
        }
        "/name" => ![Java14, Java11, Client::Go, SpringCloud, Dubbo].contains(&client) && one.got == ABSENT,
        "/clusters" => client != Node,
        _ => false,
    }
}

/// What Go decodes of a list, each into a type of its own; one that doesn't fit, and it has no list. From its source.
const GO_DECODES: [&str; 22] = [
    "/name",
    "/dom",
    "/clusters",
    "/cacheMillis",
    "/lastRefTime",
    "/checksum",
    "/env",
    "/useSpecifiedURL",
    "/metadata",
    "/hosts",
    "/hosts/*/ip",
    "/hosts/*/port",
    "/hosts/*/weight",
    "/hosts/*/valid",
    "/hosts/*/marked",
    "/hosts/*/healthy",
    "/hosts/*/enabled",
    "/hosts/*/ephemeral",
    "/hosts/*/instanceId",
    "/hosts/*/clusterName",
    "/hosts/*/serviceName",
    "/hosts/*/metadata",
];

/// What of it Rust doesn't decode.
const NOT_IN_RUST: [&str; 1] = ["/hosts/*/valid"];

/// What of it Java doesn't, from 1.4 on; of the rest it makes texts and numbers of each other where it can.
const NOT_IN_JAVA: [&str; 6] =
    ["/dom", "/env", "/useSpecifiedURL", "/metadata", "/hosts/*/valid", "/hosts/*/marked"];

/// Whether a value of another type makes a client lose the whole list, even in a field that it doesn't look at. All of them take
/// `null` for nothing.
fn fails_to_decode(client: Client, path: &str, [want, got]: [&str; 2], value: &str) -> bool {
    if got == "null" || !GO_DECODES.contains(&path) {
        return false;
    }
    let container = |kind: &str| ["a list", "an object"].contains(&kind);
    match client {
        Client::Go => true,
        Client::Rust => !NOT_IN_RUST.contains(&path),
        Java14 | SpringCloud | Dubbo if NOT_IN_JAVA.contains(&path) => false,
        Java14 | SpringCloud | Dubbo => {
            let number = value.trim_matches('"').parse::<f64>().is_ok();
            let unread = want.ends_with("number") && got == "a text" && !number && !value.starts_with('<');
            container(want) != container(got) || container(want) && want != got || unread
        }
        Java11 | Node | Python => false,
    }
}

/// Whether a refusal is to a client as the other. Most try again, or another server, whatever the status; Python does so
/// after three of them only.
fn is_same_refusal(client: Client, want: &str, got: &str) -> bool {
    let another_server = |status: &str| ["500", "502", "503"].contains(&status);
    let login = |status: &str| ["401", "403"].contains(&status);
    let python = client == Python && another_server(want) != another_server(got);
    !python && login(want) == login(got)
}

/// Whether it is the same number, spelled otherwise.
fn is_same_number(want: &str, got: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    number(want).is_some_and(|want| number(got) == Some(want))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unseen_by(client: Client, sent: &str, place: &str, want: &str, got: &str) -> Effect {
        let difference = Difference::new(place, &want, &got);
        let step = StepDifference {
            step: 0,
            sent: sent.into(),
            differences: vec![difference],
            want: String::new(),
            got: String::new(),
            refused: false,
        };
        in_step(&step, client)
    }

    const LIST: &str = "GET /nacos/v1/ns/instance/list?serviceName=a";
    const PUSH: &str = "a datagram on u1 within 4000 ms";

    #[test]
    fn what_was_tried_on_clients_and_seen_by_none_is_unseen() {
        for (sent, place, want, got) in [
            (LIST, "media type", "application/json;charset=utf-8", "application/json"),
            (LIST, "body /hosts/0 (order of keys)", "ip,port", "port,ip"),
            (LIST, "body /checksum", "<an MD5>", "<a text>"),
            (PUSH, "body /data/checksum", "<an MD5>", "<a text>"),
            (PUSH, "body /data/hosts/12/instanceId", "\"a\"", "null"),
            (PUSH, "compressed", "false", "true"),
            (LIST, "body /hosts/0/weight", "1.0", "1"),
            (LIST, "body /hosts/3/unknown", "(absent)", "7"),
            (LIST, "body /cacheMillis", "3000", "10000"),
            (LIST, "body /hosts/0/serviceName", "\"a\"", "\"DEFAULT_GROUP@@a\""),
            ("PUT instance/beat?ip=1 of a:1", "body /lightBeatEnabled", "true", "(absent)"),
            ("GET /nacos/v1/ns/operator/metrics", "body /cpu", "<a number>", "(absent)"),
        ] {
            for client in Client::ALL {
                assert_eq!(unseen_by(client, sent, place, want, got), Effect::Unseen, "{place} {client:?}");
            }
        }
    }

    #[test]
    fn what_a_client_was_seen_to_lose_is_noticed() {
        for (client, sent, place, want, got) in [
            (Client::Go, LIST, "body /name", "\"a@@b\"", "(absent)"),
            (Node, LIST, "body /clusters", "\"\"", "(absent)"),
            (Client::Go, LIST, "body /lastRefTime", "<a number>", "<a negative number>"),
            (Client::Go, LIST, "body /cacheMillis", "3000", "\"3000\""),
            (Client::Rust, LIST, "body /hosts/0/weight", "1.0", "\"1.0\""),
            (Java14, LIST, "body /hosts/0/metadata/a", "(absent)", "\"1\""),
            (Java14, LIST, "body /hosts/0/metadata", "{}", "null"),
            (Node, LIST, "body /hosts/0/valid", "true", "false"),
            (Java14, LIST, "body /hosts", "1 items: [1]", "0 items: []"),
            (Java14, LIST, "body /cacheMillis", "3000", "600000"),
            (Client::Go, PUSH, "compressed", "true", "false"),
            (Node, PUSH, "datagram", "{}", "nothing came"),
            (Java14, "PUT /nacos/v1/ns/instance/beat?x", "body /code", "20404", "10200"),
            (Python, "POST /nacos/v1/ns/instance?x", "body", "ok", "OK"),
            (Java14, "GET /nacos/v1/ns/service/list?x", "body /count", "1", "(absent)"),
            (Java14, "GET /nacos/v1/ns/operator/metrics", "body /status", "\"UP\"", "\"DOWN\""),
            (Java14, "raw \"GET / HTTP/1.1\"", "closed by the server", "true", "false"),
        ] {
            assert_eq!(unseen_by(client, sent, place, want, got), Effect::Noticed, "{place} {client:?}");
        }
    }

    #[test]
    fn a_value_of_another_type_breaks_those_who_decode_by_types_even_where_they_do_not_look_at_it() {
        for (client, sent, place, want, got) in [
            (Client::Go, LIST, "body /checksum", "<an MD5>", "<a number>"),
            (Client::Rust, LIST, "body /checksum", "<an MD5>", "<a number>"),
            (Client::Go, LIST, "body /dom", "\"a\"", "7"),
            (Client::Go, LIST, "body /hosts/0/marked", "false", "\"false\""),
            (Client::Go, PUSH, "body /data/hosts/12/valid", "true", "\"true\""),
            (Client::Go, LIST, "body /hosts/0/port", "80", "80.0"),
            (Client::Rust, LIST, "body /hosts/0/port", "80", "80.0"),
            (Client::Go, LIST, "body /lastRefTime", "<a number>", "<a fraction>"),
            (Client::Go, LIST, "body /metadata", "{}", "\"\""),
            (Java14, LIST, "body /hosts/0/instanceId", "\"a\"", "{\"a\":1}"),
            (Java14, LIST, "body /checksum", "<an MD5>", "<a list>"),
            (Dubbo, LIST, "body /cacheMillis", "3000", "\"soon\""),
        ] {
            assert_eq!(unseen_by(client, sent, place, want, got), Effect::Noticed, "{place} {client:?}");
        }
        for (client, place, want, got) in [
            (Node, "body /checksum", "<an MD5>", "<a number>"),
            (Java14, "body /hosts/0/marked", "false", "{}"),
            (Java14, "body /checksum", "<an MD5>", "<a number>"),
            // that one was tried, and nobody minds
            (Client::Go, "body /hosts/0/instanceId", "\"a\"", "null"),
        ] {
            assert_eq!(unseen_by(client, LIST, place, want, got), Effect::Unseen, "{place} {client:?}");
        }
    }

    #[test]
    fn a_value_of_another_type_is_never_a_small_matter() {
        let list = |place: &str, want: &str, got: &str| {
            let facts = crate::facts::Facts {
                id: "list/a".to_owned(),
                says: String::new(),
                source: String::new(),
                family: "instance list".to_owned(),
                level: crate::facts::Level::Core,
                needs: Vec::new(),
                clients: vec![Node, Python],
                fault_breaks: Vec::new(),
                weight: 3,
            };
            let step = StepDifference {
                step: 0,
                sent: LIST.to_owned(),
                differences: vec![Difference::new(place, &want, &got)],
                want: String::new(),
                got: String::new(),
                refused: false,
            };
            Finding { facts, took: std::time::Duration::ZERO, fate: Fate::Differs(vec![step]) }
        };
        assert!(is_unseen(&list("body /checksum", "<an MD5>", "<a text>")));
        assert!(!is_unseen(&list("body /checksum", "<an MD5>", "<a number>")));
        assert!(!is_unseen(&list("body /hosts/0/instanceId", "\"a\"", "null")));
        assert!(!is_unseen(&list("body /hosts/0/marked", "false", "0")));
    }

    #[test]
    fn what_another_client_notices_may_be_unseen_by_this() {
        assert_eq!(unseen_by(Java14, LIST, "body /clusters", "\"\"", "(absent)"), Effect::Unseen);
        let beat = "PUT /nacos/v1/ns/instance/beat?x";
        assert_eq!(unseen_by(Client::Go, beat, "body /code", "20404", "10200"), Effect::Unseen);
    }

    #[test]
    fn an_entry_that_no_client_asks_tells_nothing_of_clients() {
        let statuses = "GET /nacos/v1/ns/instance/statuses?key=a\n  until it contains \"x\"";
        assert_eq!(unseen_by(Java14, statuses, "body", "the text to come or go", "x"), Effect::Elsewhere);
        assert_eq!(
            unseen_by(Java14, "GET /nacos/v1/ns/service?x", "status", "200", "404"),
            Effect::Elsewhere
        );
        let detail = |client| unseen_by(client, "GET /nacos/v1/ns/instance?x", "body /weight", "1.0", "2.0");
        assert_eq!((detail(Java14), detail(Python)), (Effect::Elsewhere, Effect::Noticed));
    }

    #[test]
    fn what_a_refusal_says_is_unseen_and_only_python_tells_one_from_another() {
        let place = |place: &str, want: &str, got: &str| Difference::new(place, &want, &got);
        let unseen = |client, one: &Difference| is_unseen_by(client, Question::Else, true, one);
        assert!(unseen(Python, &place("body", "caused: x", "error")));
        let status = place("status", "400", "500");
        assert!(unseen(Java14, &status) && !unseen(Python, &status));
        assert!(unseen(Python, &place("status", "400", "404")));
        assert!(!unseen(Java14, &place("status", "403", "500")));
        assert!(!is_unseen_by(Java14, Question::Else, false, &status));
    }
}
