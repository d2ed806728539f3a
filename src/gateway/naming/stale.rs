//! The last good answer to each question for a list, for the time in which no legacy server answers.
//!
//! Pure. What is remembered is the answer's bytes; what they say is read when somebody must know it, which is in an outage
//! alone. A failed call changes nothing here, so it never replaces a list. Bounded in lists and bytes: those go first that
//! were answered longest ago, and empty ones have little room of their own, since anybody can ask for names that don't exist.
//! Source: ours.

use std::{
    borrow::Cow,
    cell::OnceCell,
    collections::{BTreeMap, HashMap},
    ops::Range,
    sync::Arc,
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::HeaderValue;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    base::clock::Millis,
    model::{Metadata, ServiceKey, instance::own_beat_interval_ms, name::DEFAULT_CLUSTER},
};

/// Lists that are remembered, besides the empty ones.
pub const MOST_LISTS: usize = 50_000;
/// Empty lists that are remembered.
pub const MOST_EMPTY: usize = 5_000;
/// Bytes of all lists that are remembered.
pub const MOST_BYTES: usize = 256 << 20;
/// No empty list is longer.
const LONGEST_EMPTY: usize = 4 << 10;

/// What an answer for a list depends on, besides what is registered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListKey {
    /// The service.
    pub service: ServiceKey,
    /// `clusters` as given.
    pub clusters: Box<str>,
    /// `env` as given, which is echoed.
    pub env: Box<str>,
    /// Unhealthy hosts are left out.
    pub healthy_only: bool,
    /// Only whether there is an instance.
    pub is_check: bool,
    /// Names are written with their group.
    pub grouped: bool,
}

impl ListKey {
    /// Before all others of the service.
    fn first(service: &ServiceKey) -> Self {
        let (clusters, env) = (Box::default(), Box::default());
        Self { service: service.clone(), clusters, env, healthy_only: false, is_check: false, grouped: false }
    }
}

/// An answer that can be given again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// `Content-Type`.
    pub media_type: Option<HeaderValue>,
    /// The whole body.
    pub body: Bytes,
}

/// Bytes of what a question says besides its service; answers to longer ones aren't remembered.
const LONGEST_ECHO: usize = 1 << 10;

/// A host as a list shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// As JSON.
    pub weight: Box<str>,
    /// As JSON.
    pub metadata: Box<str>,
    /// It lives by beats.
    pub ephemeral: bool,
    /// Where it stands in the list.
    range: Range<usize>,
}

impl Host {
    /// How often it beats, where its metadata say so.
    #[must_use]
    pub fn beats_every(&self) -> Option<Duration> {
        memchr::memmem::find(self.metadata.as_bytes(), b"preserved.")?;
        let metadata: Metadata = serde_json::from_str(&self.metadata).ok()?;
        own_beat_interval_ms(&metadata).map(Duration::from_millis)
    }
}

/// Which host of a service: ip, port, cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostKey {
    /// As given.
    pub ip: Box<str>,
    /// As given.
    pub port: i32,
    /// Cluster name.
    pub cluster: Box<str>,
}

/// A list that is remembered.
#[derive(Debug)]
struct Entry {
    answer: Answer,
    at: Millis,
    number: u64,
    is_empty: bool,
    hosts: OnceCell<HashMap<HostKey, Host>>,
}

/// All lists that are remembered.
#[derive(Debug)]
pub struct Lists {
    /// How long a list is good.
    bound_ms: u64,
    most: Most,
    by_key: BTreeMap<Arc<ListKey>, Entry>,
    /// By when they were answered: the others and the empty ones.
    order: [BTreeMap<u64, Arc<ListKey>>; 2],
    next: u64,
    bytes: usize,
}

/// Their bounds.
#[derive(Clone, Copy, Debug)]
struct Most {
    lists: [usize; 2],
    bytes: usize,
}

/// A list that was answered a while ago.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Last {
    /// As it was answered.
    pub answer: Answer,
    /// How long ago.
    pub age: Duration,
}

impl Lists {
    /// Remembers lists, each for `bound`.
    #[must_use]
    pub fn new(bound: Duration) -> Self {
        Self::within(bound, Most { lists: [MOST_LISTS, MOST_EMPTY], bytes: MOST_BYTES })
    }

    fn within(bound: Duration, most: Most) -> Self {
        let bound_ms = u64::try_from(bound.as_millis()).unwrap_or(u64::MAX);
        let (by_key, order) = (BTreeMap::new(), Default::default());
        Self { bound_ms, most, by_key, order, next: 0, bytes: 0 }
    }

    /// Remembers a good answer; one that is longer than all may be together isn't kept.
    pub fn remember(&mut self, key: ListKey, answer: Answer, now: Millis) {
        let key = Arc::new(key);
        self.forget(&key);
        if answer.body.len() > self.most.bytes || key.clusters.len() + key.env.len() > LONGEST_ECHO {
            return;
        }
        self.bytes += answer.body.len();
        let is_empty = answer.body.len() <= LONGEST_EMPTY
            && memchr::memmem::find(&answer.body, br#""hosts":[]"#).is_some();
        let (number, hosts) = (self.next, OnceCell::new());
        self.next += 1;
        self.order[usize::from(is_empty)].insert(number, Arc::clone(&key));
        self.by_key.insert(key, Entry { answer, at: now, number, is_empty, hosts });
        for (order, most) in [(1, self.most.lists[1]), (0, self.most.lists[0])] {
            while self.order[order].len() > most || self.bytes > self.most.bytes {
                let Some((_, oldest)) = self.order[order].first_key_value() else { break };
                let oldest = Arc::clone(oldest);
                self.forget(&oldest);
            }
        }
    }

    fn forget(&mut self, key: &ListKey) {
        if let Some(entry) = self.by_key.remove(key) {
            self.bytes -= entry.answer.body.len();
            self.order[usize::from(entry.is_empty)].remove(&entry.number);
        }
    }

    /// The last good answer to this question, while it is good.
    #[must_use]
    pub fn last(&self, key: &ListKey, now: Millis) -> Option<Last> {
        let entry = self.by_key.get(key).filter(|entry| self.is_good(entry, now))?;
        Some(Last { answer: entry.answer.clone(), age: Duration::from_millis(now.since(entry.at)) })
    }

    /// Whether the last good answer to this question has hosts beside these, of which one `may_lack`.
    #[must_use]
    pub fn has_more(
        &self,
        key: &ListKey,
        hosts: &HashMap<HostKey, Host>,
        may_lack: impl Fn(&Host) -> bool,
        now: Millis,
    ) -> bool {
        let Some(entry) = self.by_key.get(key).filter(|entry| self.is_good(entry, now)) else { return false };
        !entry.is_empty && entry.hosts().iter().any(|(key, host)| !hosts.contains_key(key) && may_lack(host))
    }

    /// Frees what was read of lists: it takes as much room as they do, and is of use in an outage alone.
    pub fn forget_hosts(&mut self) {
        self.by_key.values_mut().for_each(|entry| _ = entry.hosts.take());
    }

    /// What the last lists of a service say of one of its hosts.
    #[must_use]
    pub fn host(&self, service: &ServiceKey, host: &HostKey, now: Millis) -> Option<&Host> {
        let of_service = self.of(service).filter(|(_, entry)| self.is_good(entry, now) && !entry.is_empty);
        of_service.filter_map(|(_, entry)| entry.hosts().get(host)).next()
    }

    /// Takes a host out of all lists of a service: it has left.
    pub fn remove_host(&mut self, service: &ServiceKey, host: &HostKey) {
        let with_host = self.of(service).filter(|(_, entry)| !entry.is_empty);
        let with_host = with_host.filter_map(|(key, entry)| {
            let range = entry.hosts().get(host)?.range.clone();
            Some((Arc::clone(key), without(&entry.answer.body, &range)))
        });
        for (key, body) in with_host.collect::<Vec<_>>() {
            let Some(entry) = self.by_key.get_mut(&key) else { continue };
            self.bytes = self.bytes - entry.answer.body.len() + body.len();
            entry.answer.body = body;
            entry.hosts = OnceCell::new();
        }
    }

    /// How many lists are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// None is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    fn of<'l>(
        &'l self,
        service: &ServiceKey,
    ) -> impl Iterator<Item = (&'l Arc<ListKey>, &'l Entry)> + use<'l> {
        let (first, service) = (ListKey::first(service), service.clone());
        self.by_key.range(first..).take_while(move |(key, _)| key.service == service)
    }

    fn is_good(&self, entry: &Entry, now: Millis) -> bool {
        now.since(entry.at) <= self.bound_ms
    }
}

impl Entry {
    fn hosts(&self) -> &HashMap<HostKey, Host> {
        self.hosts.get_or_init(|| hosts_of(&self.answer.body))
    }
}

#[derive(Deserialize)]
struct ListText<'a> {
    #[serde(borrow)]
    hosts: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HostText<'a> {
    #[serde(borrow)]
    ip: Cow<'a, str>,
    port: i32,
    #[serde(borrow, default)]
    cluster_name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    weight: Option<&'a RawValue>,
    #[serde(borrow, default)]
    metadata: Option<&'a RawValue>,
    #[serde(default)]
    ephemeral: Option<bool>,
}

/// The hosts of a list; those that can't be read, and all of what is no list, are left out.
#[must_use]
pub fn hosts_of(body: &[u8]) -> HashMap<HostKey, Host> {
    let Ok(ListText { hosts }) = serde_json::from_slice(body) else { return HashMap::new() };
    let read = |text: &RawValue| {
        let HostText { ip, port, cluster_name, weight, metadata, ephemeral } =
            serde_json::from_str(text.get()).ok()?;
        let cluster = cluster_name.map_or(DEFAULT_CLUSTER.into(), Box::from);
        let start = text.get().as_ptr().addr() - body.as_ptr().addr();
        let json = |value: Option<&RawValue>, default: &str| value.map_or(default, RawValue::get).into();
        let host = Host {
            weight: json(weight, "1.0"),
            metadata: json(metadata, "{}"),
            ephemeral: ephemeral.unwrap_or(true),
            range: start..start + text.get().len(),
        };
        Some((HostKey { ip: ip.into(), port, cluster }, host))
    };
    hosts.into_iter().filter_map(read).collect()
}

/// The list without those of its hosts, as they were read of it, that `has_left` says have left.
#[must_use]
pub fn without_hosts(
    body: Bytes,
    hosts: &HashMap<HostKey, Host>,
    has_left: impl Fn(&HostKey) -> bool,
) -> Bytes {
    let mut left: Vec<&Range<usize>> =
        hosts.iter().filter(|(host, _)| has_left(host)).map(|(_, host)| &host.range).collect();
    // From the end on, so that the others stay where they are.
    left.sort_by_key(|range| std::cmp::Reverse(range.start));
    left.into_iter().fold(body, |body, range| without(&body, range))
}

/// The list without the element of its array that stands there, and without the comma beside it.
fn without(body: &[u8], range: &Range<usize>) -> Bytes {
    let (before, after) = (&body[..range.start], &body[range.end..]);
    let (before, after) = match (after.trim_ascii_start(), before.trim_ascii_end()) {
        ([b',', rest @ ..], _) => (before, rest),
        (_, [rest @ .., b',']) => (rest, after),
        _ => (before, after),
    };
    let mut joined = BytesMut::with_capacity(before.len() + after.len());
    joined.extend_from_slice(before);
    joined.extend_from_slice(after);
    joined.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn key(name: &str) -> ListKey {
        ListKey { grouped: true, ..ListKey::first(&ServiceKey::new("public", name)) }
    }

    fn answer(body: &str) -> Answer {
        Answer {
            media_type: Some(HeaderValue::from_static("application/json")),
            body: body.to_owned().into(),
        }
    }

    fn list(ports: &[i32]) -> String {
        let host = |port: &i32| {
            format!(
                r#"{{"ip":"10.0.0.1","port":{port},"weight":2.50,"clusterName":"DEFAULT","metadata":{{"a":"}},{{"}},"ephemeral":true}}"#
            )
        };
        let hosts: Vec<String> = ports.iter().map(host).collect();
        format!(r#"{{"hosts":[{}],"name":"G@@a","metadata":{{}}}}"#, hosts.join(","))
    }

    fn host(port: i32) -> HostKey {
        HostKey { ip: "10.0.0.1".into(), port, cluster: "DEFAULT".into() }
    }

    fn ports(body: &[u8]) -> Vec<i32> {
        let mut ports: Vec<i32> = hosts_of(body).into_keys().map(|host| host.port).collect();
        ports.sort_unstable();
        ports
    }

    #[test]
    fn a_list_is_good_for_its_time_and_says_how_old_it_is() {
        let mut lists = Lists::new(MINUTE);
        lists.remember(key("G@@a"), answer(&list(&[1])), Millis(1_000));
        let last = lists.last(&key("G@@a"), Millis(31_500)).unwrap();
        assert_eq!((last.answer, last.age.as_millis()), (answer(&list(&[1])), 30_500));
        assert!(lists.last(&key("G@@a"), Millis(61_000)).is_some());
        assert_eq!(lists.last(&key("G@@a"), Millis(61_001)), None);
    }

    #[test]
    fn each_question_has_its_own_list() {
        let mut lists = Lists::new(MINUTE);
        lists.remember(key("G@@a"), answer(&list(&[1])), Millis(0));
        for other in [
            key("G@@b"),
            ListKey { clusters: "C".into(), ..key("G@@a") },
            ListKey { healthy_only: true, ..key("G@@a") },
            ListKey { grouped: false, ..key("G@@a") },
            ListKey { service: ServiceKey::new("other", "G@@a"), ..key("G@@a") },
        ] {
            assert_eq!(lists.last(&other, Millis(0)), None, "{other:?}");
        }
    }

    #[test]
    fn a_host_is_known_from_any_list_of_its_service_and_no_other() {
        let mut lists = Lists::new(MINUTE);
        lists.remember(ListKey { healthy_only: true, ..key("G@@a") }, answer(&list(&[1])), Millis(0));
        lists.remember(ListKey { clusters: "x".into(), ..key("G@@a") }, answer(&list(&[2])), Millis(0));
        let of = |name: &str, port| lists.host(&ServiceKey::new("public", name), &host(port), Millis(0));
        let known = of("G@@a", 2).unwrap();
        assert_eq!((&*known.weight, &*known.metadata, known.ephemeral), ("2.50", r#"{"a":"},{"}"#, true));
        assert!(of("G@@a", 1).is_some());
        assert!(of("G@@a", 3).is_none() && of("G@@b", 1).is_none() && of("G@@", 1).is_none());
        assert!(
            lists.host(&ServiceKey::new("public", "G@@a"), &host(1), Millis(60_001)).is_none(),
            "too old"
        );
    }

    #[test]
    fn a_host_that_has_left_is_shown_no_more_and_the_others_are_as_before() {
        for (first, left, rest) in
            [(vec![1, 2, 3], 1, vec![2, 3]), (vec![1, 2, 3], 2, vec![1, 3]), (vec![1, 2, 3], 3, vec![1, 2])]
        {
            let mut lists = Lists::new(MINUTE);
            lists.remember(key("G@@a"), answer(&list(&first)), Millis(0));
            lists.remove_host(&ServiceKey::new("public", "G@@a"), &host(left));
            let body = lists.last(&key("G@@a"), Millis(0)).unwrap().answer.body;
            assert_eq!(body, list(&rest));
            assert_eq!(lists.bytes, body.len());
            assert!(lists.host(&ServiceKey::new("public", "G@@a"), &host(left), Millis(0)).is_none());
        }
        let mut lists = Lists::new(MINUTE);
        lists.remember(key("G@@a"), answer(&list(&[1])), Millis(0));
        lists.remove_host(&ServiceKey::new("public", "G@@a"), &host(1));
        assert_eq!(lists.last(&key("G@@a"), Millis(0)).unwrap().answer.body, list(&[]));
    }

    #[test]
    fn several_hosts_can_have_left_a_list() {
        for (left, rest) in
            [(vec![1, 3], vec![2]), (vec![2, 3], vec![1]), (vec![1, 2, 3], vec![]), (vec![], vec![1, 2, 3])]
        {
            let body = Bytes::from(list(&[1, 2, 3]));
            let hosts = hosts_of(&body);
            assert_eq!(without_hosts(body, &hosts, |host| left.contains(&host.port)), list(&rest));
        }
    }

    #[test]
    fn a_shorter_list_lacks_hosts_and_a_longer_one_does_not() {
        let mut lists = Lists::new(MINUTE);
        lists.remember(key("G@@a"), answer(&list(&[1, 2])), Millis(0));
        let lacks = |ports: &[i32]| {
            lists.has_more(&key("G@@a"), &hosts_of(list(ports).as_bytes()), |_| true, Millis(0))
        };
        assert!(lacks(&[]) && lacks(&[2]) && lacks(&[2, 3, 4]));
        assert!(!lacks(&[1, 2]) && !lacks(&[3, 2, 1]));
        let lacks_all = |name, may_lack: fn(&Host) -> bool, now| {
            lists.has_more(&key(name), &HashMap::new(), may_lack, Millis(now))
        };
        assert!(lacks_all("G@@a", |_| true, 0));
        assert!(!lacks_all("G@@a", |_| false, 0), "it has had time to tell");
        assert!(!lacks_all("G@@b", |_| true, 0));
        assert!(!lacks_all("G@@a", |_| true, 60_001), "what is too old says nothing");
    }

    #[test]
    fn a_host_beats_as_often_as_its_metadata_say() {
        let every = |metadata: &str| {
            let list = format!(r#"{{"hosts":[{{"ip":"a","port":1,"metadata":{metadata}}}]}}"#);
            hosts_of(list.as_bytes()).values().next().unwrap().beats_every()
        };
        let interval = r#"{"preserved.heart.beat.interval":"20000"}"#;
        assert_eq!(every(interval), Some(Duration::from_secs(20)));
        assert_eq!((every("{}"), every("null"), every(r#"{"preserved.x":"1"}"#)), (None, None, None));
    }

    #[test]
    fn what_was_answered_longest_ago_goes_first() {
        let most = Most { lists: [2, 1], bytes: 10_000 };
        let mut lists = Lists::within(MINUTE, most);
        for name in ["a", "b", "a", "c"] {
            lists.remember(key(name), answer(&list(&[1])), Millis(0));
        }
        let has = |lists: &Lists, name: &str| lists.last(&key(name), Millis(0)).is_some();
        assert!(has(&lists, "a") && has(&lists, "c") && !has(&lists, "b"));
        // Empty ones take no room of the others.
        for name in ["d", "e", "f"] {
            lists.remember(key(name), answer(&list(&[])), Millis(0));
        }
        assert!(has(&lists, "a") && has(&lists, "c") && has(&lists, "f") && !has(&lists, "e"));
        assert_eq!(lists.len(), 3);
    }

    #[test]
    fn answers_to_questions_that_are_long_are_not_remembered() {
        let mut lists = Lists::new(MINUTE);
        let long = ListKey { clusters: "c".repeat(LONGEST_ECHO + 1).into(), ..key("G@@a") };
        lists.remember(long, answer(&list(&[1])), Millis(0));
        assert!(lists.is_empty());
    }

    #[test]
    fn all_lists_together_stay_within_their_bytes() {
        let (one, most) = (list(&[1]).len(), list(&[1]).len() * 3);
        let mut lists = Lists::within(MINUTE, Most { lists: [100, 100], bytes: most });
        for n in 0..50 {
            lists.remember(key(&format!("G@@{n}")), answer(&list(&[1])), Millis(0));
            assert!(lists.bytes <= most && lists.bytes == one * lists.len());
        }
        assert_eq!(lists.len(), 3);
        lists.remember(key("G@@49"), answer(&"x".repeat(most + 1)), Millis(0));
        assert_eq!(
            (lists.len(), lists.bytes),
            (2, one * 2),
            "what is too long isn't kept, nor what it follows"
        );
    }

    #[test]
    fn what_is_no_list_has_no_hosts() {
        for text in ["", "<html>", "{}", r#"{"hosts":null}"#, r#"{"hosts":[1,{"ip":"a"},null]}"#] {
            assert_eq!(ports(text.as_bytes()), [] as [i32; 0], "{text}");
        }
    }
}
