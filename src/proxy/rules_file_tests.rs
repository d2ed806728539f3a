use http::{HeaderName, HeaderValue, Method};
use proptest::prelude::*;

use super::*;
use crate::proxy::{
    expression::Expression,
    rule::{HeaderCondition, HostHeader, HostPattern, Limits, Protocol, Times},
};

fn mistakes(text: &str) -> Vec<String> {
    parse(text).unwrap_err().0.iter().map(ToString::to_string).collect()
}

#[test]
fn a_whole_rule_is_read() {
    let text = r#"
        [defaults]
        retries = 1
        connect-timeout = "300ms"

        [[rule]]
        name = "orders"
        host = ["Shop.example.org", "*.shop.example.org"]
        path = "/orders"
        methods = ["GET", "POST"]
        headers = { X-Tenant = "a", X-Any = "*" }
        namespace = "prod"
        group = "shop"
        clusters = ["c1", "c2"]
        split = [
          { weight = 9, service = "orders", metadata = "version = v1" },
          { weight = 0.5, service = "orders-next", group = "next" },
          { weight = 0, service = "gone" },
        ]
        rewrite-prefix = "/api/"
        balance = "hash"
        hash-by = "cookie:sid"
        prefer-cluster = "c1"
        protocol = "h2"
        tls-name = "orders.internal"
        host-header = "instance"
        response-timeout = "2s"
        idle-timeout = "1m 30s"
        max-body-bytes = 1_000_000
        max-per-service = 100
        max-per-instance = 10
        slow-start = "30s"
        eject-after = 3
        eject-time = "5s"
        eject-share = 30
    "#;
    let rules = parse(text).unwrap();
    assert_eq!((rules.defaults.retries, rules.defaults.times.connect), (1, 300 * MS));
    let [rule] = &*rules.rules else { panic!("one rule") };
    assert_eq!(&*rule.name, "orders");
    let tenant = (HeaderName::from_static("x-tenant"), HeaderCondition::Value(HeaderValue::from_static("a")));
    let condition = Condition {
        hosts: vec![
            HostPattern::Exact("shop.example.org".into()),
            HostPattern::Below(".shop.example.org".into()),
        ],
        path: PathPattern::Prefix("/orders".into()),
        methods: vec![Method::GET, Method::POST],
        headers: vec![(HeaderName::from_static("x-any"), HeaderCondition::Present), tenant],
    };
    assert_eq!(rule.condition, condition);
    let clusters: Vec<Box<str>> = vec!["c1".into(), "c2".into()];
    let stable = Destination {
        service: ServiceKey::new("prod", "shop@@orders"),
        clusters: clusters.clone(),
        metadata: Some(Expression::In("version".into(), vec!["v1".into()])),
    };
    let next =
        Destination { service: ServiceKey::new("prod", "next@@orders-next"), clusters, metadata: None };
    let split = vec![Share { weight: 9.0, destination: stable }, Share { weight: 0.5, destination: next }];
    assert_eq!(rule.split, split);
    assert_eq!(rule.prefix, PrefixChange::Replace("/api".into()));
    let policy = Policy {
        balance: Balance::Hash(HashBy::Cookie("sid".into())),
        prefer_cluster: Some("c1".into()),
        protocol: Protocol::Https2,
        tls_name: Some("orders.internal".into()),
        host_header: HostHeader::Instance,
        times: Times { connect: 300 * MS, response: 2_000 * MS, idle: 90_000 * MS },
        retries: 1,
        limits: Limits { body_bytes: Some(1_000_000), per_service: 100, per_instance: 10 },
        slow_start: 30_000 * MS,
        ejection: super::super::rule::Ejection {
            after: NonZeroU32::new(3),
            time: 5_000 * MS,
            share_percent: 30,
        },
    };
    assert_eq!(rule.policy, policy);
}

#[test]
fn the_least_rule_is_a_name_and_a_service() {
    let rules = parse("[[rule]]\nname = \"a\"\nservice = \"orders\"").unwrap();
    let rule = &rules.rules[0];
    assert_eq!(rule.condition, Condition::default());
    assert_eq!(rule.policy, Policy::default());
    assert_eq!(rule.split[0].destination.service, ServiceKey::new("public", "DEFAULT_GROUP@@orders"));
    assert_eq!(parse(""), Ok(Rules::default()));
}

#[test]
fn all_mistakes_are_told_with_their_lines() {
    let text = r#"[defaults]
retries = 11
retrys = 1
[[rule]]
name = "a b"
service = "orders"
path = "orders"
[[rule]]
host = "shop.example.org:80"
exact = 1
split = [
  { weight = -1, service = "a" },
  { wait = 1, service = "b" },
]
connect-timeout = "0ms"
[other]
"#;
    assert_eq!(
        mistakes(text),
        [
            "line 2: retries: expected a whole number from 0 to 10, got 11",
            "line 3: retrys: there is no such key here",
            "line 5: name: expected a name of at most 64 letters, digits and -_., got \"a b\"",
            "line 7: path: expected a path that begins with / and has neither dot segments, nor a query, nor escapes that \
             aren't needed, got \"orders\"",
            "line 8: name: a rule must have one",
            "line 9: host: expected a host without port, such as shop.example.org or *.example.org, got \
             \"shop.example.org:80\"",
            "line 10: exact: expected true or false, got 1",
            "line 12: split: weight: expected a number from 0 to 10000, got -1",
            "line 13: split: wait: there is no such key here",
            "line 15: connect-timeout: expected a duration such as \"500ms\" or \"2s\", from 1ms to 1m, got \"0ms\"",
            "line 16: other: there is only [defaults] and [[rule]]",
        ]
    );
}

#[test]
fn what_is_no_toml_is_told_with_its_line() {
    let told = mistakes("[[rule]]\nname = \"a\nservice = \"b\"");
    assert!(told.len() == 1 && told[0].starts_with("line 2: "), "{told:?}");
    let told = mistakes("[[rule]]\nname = \"a\"\nname = \"b\"");
    assert!(told.len() == 1 && told[0].starts_with("line 3: "), "{told:?}");
}

#[test]
fn what_can_not_be_meant_is_a_mistake() {
    for (rule, told) in [
        ("", "line 1: service: a rule must name one"),
        ("service = \"@@\"", "line 1: service, group: "),
        ("service = \"a\"\nstrip-prefix = true\nrewrite-prefix = \"/b\"", "line 1: strip-prefix and"),
        ("service = \"a\"\nheaders = { Host = \"a\" }", "line 4: headers: Host: expected another header"),
        (
            "service = \"a\"\nbalance = \"hash\"\nhash-by = \"header:host\"",
            "line 5: hash-by: expected another header",
        ),
        ("service = \"a\"\nhash-by = \"address\"", "line 1: hash-by: it goes with balance = \"hash\" alone"),
        ("service = \"a\"\nbalance = \"random\"", "line 4: balance: expected round-robin, "),
        ("service = \"a\"\nhash-by = \"query:a\"", "line 4: hash-by: expected address, header:NAME"),
        ("service = \"a\"\nprotocol = \"http\"", "line 4: protocol: expected http/1.1, h2c, https or h2"),
        ("service = \"a\"\nmethods = [\"get\"]", "line 4: methods: expected methods such as GET"),
        ("service = \"a\"\nheaders = { \"a b\" = \"c\" }", "line 4: headers: a b: expected the name"),
        ("service = \"a\"\nmetadata = \"a =\"", "line 4: metadata: expected a value, got nothing"),
        ("service = \"a\"\npath = \"/a/../b\"", "line 4: path: expected a path"),
        ("split = [{ weight = 0, service = \"a\" }]", "line 3: split: one weight at least"),
        ("split = []", "line 3: split: expected a list of 1 to 16 tables"),
        ("service = \"a\"\nmax-body-bytes = \"1MB\"", "line 4: max-body-bytes: expected a whole number"),
    ] {
        let said = mistakes(&format!("[[rule]]\nname = \"a\"\n{rule}"));
        assert!(said[0].starts_with(told), "{rule}\n{said:?}");
    }
}

#[test]
fn a_rule_that_gets_no_request_and_a_name_that_comes_twice_are_mistakes() {
    let text = "[[rule]]\nname = \"a\"\nservice = \"a\"\npath = \"/a\"\n\
                [[rule]]\nname = \"a\"\nservice = \"b\"\npath = \"/a/b\"\nmethods = \"GET\"\n";
    assert_eq!(
        mistakes(text),
        [
            "line 5: name: line 1 has a rule \"a\", too",
            "line 5: rule \"a\" gets no request: all that it is for goes to \"a\" before it",
        ]
    );
}

#[test]
fn many_mistakes_are_not_all_told() {
    let text = "[[rule]]\nname = \"\"\nservice = \"a\"\n".repeat(25);
    assert!(parse(&text).unwrap_err().to_string().ends_with("; and 5 more"));
    let text =
        (0..=MOST_RULES).map(|at| format!("[[rule]]\nname = \"{at}\"\npath = \"/{at}\"\nservice = \"a\"\n"));
    assert_eq!(mistakes(&text.collect::<String>()), ["line 4001: rule: there may be 1000 rules at most"]);
}

#[test]
fn the_example_shows_every_key_and_no_other() {
    let example = include_str!("../../conf/proxy.toml.example");
    for key in keys() {
        let shown = |line: &str| {
            let line = line.trim_start_matches(['#', ' ']);
            line.starts_with(&format!("{key} = ")) || line.contains(&format!("{{ {key} = "))
        };
        assert!(example.lines().any(shown), "{key} isn't in conf/proxy.toml.example");
    }
    // What stands behind a single # is meant to be used as it is.
    let used: String = example
        .lines()
        .map(|line| line.strip_prefix('#').filter(|line| !line.starts_with([' ', '#'])).unwrap_or(line))
        .map(|line| format!("{line}\n"))
        .collect();
    parse(&used).unwrap_or_else(|mistakes| panic!("{mistakes}"));
}

proptest! {
    #[test]
    fn no_text_breaks_the_reader(text in "([\\[\\]=\"{},#.a-z0-9\n ]{0,8}|rule|defaults|split|weight){0,12}") {
        let _ = parse(&text);
    }

    #[test]
    fn a_mistake_is_found_on_its_line(lines in 0_usize..30) {
        let text = format!("{}[[rule]]\nname = \"a\"\nservice = \"a\"\nretries = -1\n", "# comment\n".repeat(lines));
        let line = parse(&text).unwrap_err().0[0].line;
        prop_assert_eq!(line, lines + 4);
    }
}
