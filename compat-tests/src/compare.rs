//! What differs between an expected answer and the one that came. No I/O.
//!
//! JSON is compared as a tree in which numbers keep their spelling; JSON inside a JSON text (as in a push) is
//! opened; volatile values count by kind, lists without order are sorted first, and of bodies that are ignored the types of
//! their values are looked at. Everything else is compared as text. Source of the rules: the format that the recordings were made in, README.md.

use crate::golden::{Expected, ExpectedRaw, ExpectedResponse, Rules};
use crate::json::{Json, parse};
use crate::run::Got;
use crate::shown::{ABSENT, ORDER};
use crate::target::{RawItem, Response};
use crate::timely::mark;
use crate::vars::quote_folded_numbers;

/// Keys whose values differ from call to call.
const VOLATILE: [&str; 6] = ["lastRefTime", "timestamp", "lastBeat", "cpu", "load", "mem"];

/// Those of them that are times: Go's client ends at a negative one.
const TIMES: [&str; 3] = ["lastRefTime", "timestamp", "lastBeat"];

/// Lists whose order a server doesn't promise.
const UNORDERED: [&str; 3] = ["hosts", "ips", "doms"];

/// As many differences of one body are kept; so many that what one of them hides, such as a client that breaks, isn't lost
/// behind others.
const MOST_KEPT: usize = 1000;

/// One thing that is not as expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// E.g. `status` or `body /hosts/0/weight`.
    pub place: String,
    /// What was expected.
    pub want: String,
    /// What came.
    pub got: String,
    /// Whether time alone can bring a right server to it, so that it says nothing where time was lost ([`timely`](crate::timely)).
    pub hangs_on_time: bool,
}

impl Difference {
    /// One that no time brings about.
    pub fn new(place: impl Into<String>, want: &impl ToString, got: &impl ToString) -> Self {
        let place = place.into().trim_end().to_owned();
        Self { place, want: want.to_string(), got: got.to_string(), hangs_on_time: false }
    }

    /// The same, as one that time can bring about.
    #[must_use]
    pub fn of_time(self) -> Self {
        Self { hangs_on_time: true, ..self }
    }
}

/// What differs from the nearest of the expected answers; nothing if any of them fits. `key_order` tells
/// whether the order of keys in an object counts.
pub fn compare(expected: &[Expected], got: &Got, rules: &Rules, key_order: bool) -> Vec<Difference> {
    let all = expected.iter().map(|one| compare_one(one, got, rules, key_order));
    all.min_by_key(Vec::len).unwrap_or_default()
}

fn compare_one(expected: &Expected, got: &Got, rules: &Rules, key_order: bool) -> Vec<Difference> {
    let mut out = Vec::new();
    let mut bodies = Bodies { rules, key_order, out: &mut out };
    match (expected, got) {
        (Expected::Response(want), Got::Response(got)) => bodies.response("", want, got),
        (Expected::Datagram { gzip, body }, Got::Datagram(Some(got), _)) => {
            bodies.plain("compressed", gzip, &got.gzip);
            bodies.pushed("body", body, &got.body);
            // As large as what is in it.
            let other_hosts = bodies.out.iter().any(|one| one.hangs_on_time && one.want.contains(" items: "));
            bodies
                .out
                .iter_mut()
                .filter(|one| one.place == "compressed")
                .for_each(|one| one.hangs_on_time = other_hosts);
        }
        (Expected::Datagram { body, .. }, Got::Datagram(None, _)) => {
            bodies.of_time("datagram", body, &"nothing came");
        }
        (Expected::Nothing, Got::Datagram(Some(got), _)) => {
            bodies.of_time("datagram", &"nothing", &got.body);
        }
        (Expected::Nothing, Got::Datagram(None, _))
        | (Expected::Reached, Got::Until { reached: true, .. }) => {}
        (Expected::Reached, Got::Until { elapsed, last, .. }) => {
            let came = format!("not so after {} ms: {last}", elapsed.as_millis());
            bodies.of_time("body", &"the text to come or go", &came);
        }
        (Expected::Raw { responses, closed }, Got::Raw(got)) => {
            bodies.raw(responses, &got.items);
            bodies.plain("closed by the server", closed, &got.closed);
        }
        (want, got) => bodies.plain("kind of answer", &format!("{want:?}"), &format!("{got:?}")),
    }
    if let (Some(min), Got::Datagram(_, elapsed) | Got::Until { elapsed, .. }) = (rules.min, got)
        && *elapsed < min
    {
        let (min, elapsed) = (min.as_millis(), elapsed.as_millis());
        out.push(Difference::new("time", &format!("at least {min} ms"), &format!("{elapsed} ms")).of_time());
    }
    out
}

struct Bodies<'a> {
    rules: &'a Rules,
    key_order: bool,
    out: &'a mut Vec<Difference>,
}

impl Bodies<'_> {
    fn plain<T: PartialEq + ToString>(&mut self, place: &str, want: &T, got: &T) {
        if want != got {
            self.out.push(Difference::new(place, want, got));
        }
    }

    fn of_time(&mut self, place: &str, want: &impl ToString, got: &impl ToString) {
        self.out.push(Difference::new(place, want, got).of_time());
    }

    fn response(&mut self, place: &str, want: &ExpectedResponse, got: &Response) {
        self.parts(place, want, got.status, &got.headers, &got.body);
    }

    fn parts(
        &mut self,
        place: &str,
        want: &ExpectedResponse,
        status: u16,
        headers: &[(String, String)],
        body: &str,
    ) {
        if !want.status.accepts(status) {
            self.out.push(Difference::new(format!("{place}status"), &want.status, &status));
        }
        if !self.rules.ignore_type {
            self.plain(&format!("{place}media type"), &media_type(&want.headers), &media_type(headers));
        }
        if !self.rules.ignore_body {
            self.body(&format!("{place}body"), &want.body, body);
        } else if !want.status.refuses() {
            self.types(&format!("{place}body"), &want.body, body);
        }
        for name in &self.rules.headers {
            let value = |headers| header(headers, name).unwrap_or("(absent)").to_owned();
            self.plain(&format!("{place}header {name}"), &value(&want.headers), &value(headers));
        }
    }

    fn raw(&mut self, want: &[ExpectedRaw], got: &[RawItem]) {
        if want.len() != got.len() {
            let texts = (format!("{} responses", want.len()), format!("{}: {got:?}", got.len()));
            self.out.push(Difference::new("responses", &texts.0, &texts.1));
        }
        for (at, pair) in want.iter().zip(got).enumerate() {
            let place = format!("response {at} ");
            match pair {
                (ExpectedRaw::Response(want), RawItem::Response { status, headers, body }) => {
                    self.parts(&place, want, *status, headers, body);
                }
                (ExpectedRaw::Garbage(want), RawItem::Garbage(got)) => self.plain(&place, want, got),
                (want, got) => self.plain(&place, &format!("{want:?}"), &format!("{got:?}")),
            }
        }
    }

    fn body(&mut self, place: &str, want: &str, got: &str) {
        let mut found = self.in_body(place, want, got);
        mark(&mut found, false);
        self.out.append(&mut found);
    }

    /// Of a body that is ignored the types of its values, if it is JSON: of the fields that are there.
    fn types(&mut self, place: &str, want: &str, got: &str) {
        let Some(want @ (Json::Object(_) | Json::List(_))) = read(want) else { return };
        match read(got) {
            None => self.plain(place, &format!("<{}>", want.kind()), &"no JSON".to_owned()),
            Some(got) => types(&want, &got, place.to_owned() + " ", self.out),
        }
    }

    fn pushed(&mut self, place: &str, want: &str, got: &str) {
        let mut found = self.in_body(place, want, got);
        mark(&mut found, true);
        self.out.append(&mut found);
    }

    fn in_body(&self, place: &str, want: &str, got: &str) -> Vec<Difference> {
        let mut found = Vec::new();
        let (want, got) = (self.masked(want), self.masked(got));
        let trees = (read(&want), read(&got));
        let (Some(want_tree), Some(got_tree)) = trees else {
            if want != got {
                found.push(Difference::new(place, &want, &got));
            }
            return found;
        };
        let normal = |tree| normalise(tree, "", self.rules, self.key_order);
        let (want_tree, got_tree) = (normal(want_tree), normal(got_tree));
        tree(&want_tree, &got_tree, place.to_owned() + " ", &mut found);
        found
    }

    fn masked(&self, body: &str) -> String {
        self.rules.masks.iter().fold(body.to_owned(), |body, mask| mask.apply(&body))
    }
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

fn media_type(headers: &[(String, String)]) -> String {
    header(headers, "content-type").unwrap_or_default().to_lowercase().replace(' ', "")
}

fn read(text: &str) -> Option<Json> {
    parse(&quote_folded_numbers(text)).ok()
}

/// The tree in the form in which equal trees mean equal answers.
fn normalise(value: Json, path: &str, rules: &Rules, key_order: bool) -> Json {
    match value {
        Json::Text(text) if text.starts_with(['{', '[']) => match read(&text) {
            Some(inner) if !matches!(inner, Json::Text(_)) => {
                Json::Within(Box::new(normalise(inner, path, rules, key_order)))
            }
            _ => Json::Text(text),
        },
        Json::Object(pairs) => {
            let mut pairs: Vec<_> = pairs
                .into_iter()
                .map(|(key, value)| {
                    let path = format!("{path}/{key}");
                    let value = if names(&VOLATILE, &rules.volatile, &key, &path) {
                        Json::Any(kind(&key, &value))
                    } else {
                        normalise(value, &path, rules, key_order)
                    };
                    (key, value)
                })
                .collect();
            let name = path.rsplit('/').next().unwrap_or_default();
            if !key_order || names(&[], &rules.unordered, name, path) {
                pairs.sort_by(|one, other| one.0.cmp(&other.0));
            }
            Json::Object(pairs)
        }
        Json::List(items) => {
            let below = format!("{path}/*");
            let items = items.into_iter().map(|item| normalise(item, &below, rules, key_order));
            let mut items: Vec<_> = items.collect();
            let name = path.rsplit('/').next().unwrap_or_default();
            if names(&UNORDERED, &rules.unordered, name, path) {
                items.sort();
            }
            Json::List(items)
        }
        other => other,
    }
}

/// What counts of a volatile value: its kind, of a checksum that it can be one, of a time that it isn't negative.
fn kind(key: &str, value: &Json) -> &'static str {
    let hex = |letter: u8| letter.is_ascii_digit() || (b'a'..=b'f').contains(&letter);
    match value {
        Json::Text(text) if key == "checksum" && text.len() == 32 && text.bytes().all(hex) => "an MD5",
        Json::Number(number) if TIMES.contains(&key) && number.starts_with('-') => "a negative number",
        Json::Number(number) if TIMES.contains(&key) && number.contains(['.', 'e', 'E']) => "a fraction",
        _ => value.kind(),
    }
}

fn names(always: &[&str], also: &[String], key: &str, path: &str) -> bool {
    let hit = |name: &str| name == key || name == path;
    always.iter().any(|name| hit(name)) || also.iter().any(|name| hit(name))
}

/// Names what differs between two trees that aren't equal.
fn tree(want: &Json, got: &Json, path: String, out: &mut Vec<Difference>) {
    if want == got || out.len() >= MOST_KEPT {
        return;
    }
    match (want, got) {
        (Json::Object(want), Json::Object(got)) => object(want, got, &path, out),
        (Json::Within(want), Json::Within(got)) => tree(want, got, path, out),
        (Json::List(want), Json::List(got)) if want.len() == got.len() => {
            for (at, (want, got)) in want.iter().zip(got).enumerate() {
                tree(want, got, format!("{path}/{at}"), out);
            }
        }
        (Json::List(wanted), Json::List(came)) => {
            let counts = (format!("{} items: {want}", wanted.len()), format!("{} items: {got}", came.len()));
            out.push(Difference::new(&path, &counts.0, &counts.1));
            // What is in both is compared all the same.
            for (at, want) in wanted.iter().enumerate() {
                let same = address(want).and_then(|own| came.iter().find(|got| address(got) == Some(own)));
                if let Some(got) = same {
                    tree(want, got, format!("{path}/{at}"), out);
                }
            }
        }
        _ => out.push(Difference::new(path, want, got)),
    }
}

/// Names values of another type than was recorded, `null` where it wasn't among them. Of an object the fields that are in both
/// are looked at, of a list each item as the first that was recorded.
fn types(want: &Json, got: &Json, path: String, out: &mut Vec<Difference>) {
    match (want, got) {
        (Json::Null, _) => {} // recorded while there was nothing to tell
        (Json::Object(want), Json::Object(got)) => {
            for (key, want) in want {
                let same = got.iter().find(|(other, _)| other == key);
                if let Some((_, got)) = same {
                    types(want, got, format!("{path}/{key}"), out);
                }
            }
        }
        (Json::List(want), Json::List(got)) => {
            for (at, got) in got.iter().enumerate().take(MOST_KEPT) {
                let Some(want) = want.first() else { break };
                types(want, got, format!("{path}/{at}"), out);
            }
        }
        _ if want.kind() == got.kind() || out.len() >= MOST_KEPT => {}
        _ => out.push(Difference::new(path, &format!("<{}>", want.kind()), &format!("<{}>", got.kind()))),
    }
}

/// What tells an instance in a list from the others.
fn address(instance: &Json) -> Option<[&Json; 2]> {
    Some([instance.get("ip")?, instance.get("port")?])
}

fn object(want: &[(String, Json)], got: &[(String, Json)], path: &str, out: &mut Vec<Difference>) {
    let keys = |pairs: &[(String, Json)]| pairs.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
    let (want_keys, got_keys) = (keys(want), keys(got));
    if want_keys == got_keys {
        for ((key, want), (_, got)) in want.iter().zip(got) {
            tree(want, got, format!("{path}/{key}"), out);
        }
        return;
    }
    let shared = want_keys.iter().any(|key| got_keys.contains(key));
    if !shared {
        let whole = |pairs: &[(String, Json)]| Json::Object(pairs.to_vec());
        out.push(Difference::new(path, &whole(want), &whole(got)));
        return;
    }
    let before = out.len();
    for (key, value) in want {
        match got.iter().find(|(other, _)| other == key) {
            None => out.push(Difference::new(format!("{path}/{key}"), value, &ABSENT)),
            Some((_, came)) => tree(value, came, format!("{path}/{key}"), out),
        }
    }
    for (key, value) in got {
        if !want_keys.contains(key) {
            out.push(Difference::new(format!("{path}/{key}"), &ABSENT, value));
        }
    }
    if out.len() == before {
        let place = format!("{path} {ORDER}");
        out.push(Difference::new(place, &want_keys.join(","), &got_keys.join(",")));
    }
}
