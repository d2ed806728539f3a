//! How lists are read.

use crate::support::{
    fleet,
    poller::{hosts, same_but_for_time},
};

#[test]
fn reads_who_is_listed() {
    let list = br#"{"hosts":[{"ip":"10.0.1.2","port":8080,"valid":true,"healthy":false},{"ip":"10.0.1.2","port":1,"healthy":true}],"dom":"a"}"#;
    assert_eq!(hosts(list), [(Some(258), false), (None, true)]);
    assert_eq!(hosts(b"{}"), []);
    assert_eq!(fleet::instance(&fleet::address(70_000)), Some(70_000));
}

#[test]
fn lists_that_differ_in_their_time_alone_are_the_same() {
    let list = |ip: &str, time: u64| format!(r#"{{"hosts":["{ip}"],"lastRefTime":{time},"env":""}}"#);
    let same = |one: String, other: String| same_but_for_time(one.as_bytes(), other.as_bytes());
    assert!(same(list("a", 1_796_000_000_000), list("a", 1_796_000_000_001)));
    assert!(!same(list("a", 1_796_000_000_000), list("b", 1_796_000_000_000)));
    assert!(!same(String::new(), list("b", 1_796_000_000_000)));
}
