//! Reads `conf/proxy.toml`: all of it or nothing, and every mistake with its line.
//!
//! Pure. [`RULE_KEYS`], [`DESTINATION_KEYS`] and [`POLICY_KEYS`] are the keys that there are; `conf/proxy.toml.example` says
//! the same in the operator's words, and a test compares the two.

use std::{collections::HashMap, fmt, num::NonZeroU32, ops::Range, sync::Arc, time::Duration};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    matching,
    rule::{Balance, Condition, Destination, HashBy, PathPattern, Policy, PrefixChange, Rule, Rules, Share},
    rules_value::{self as read, Reason},
};
use crate::model::{ServiceKey, name};

/// Rules of a file at most.
const MOST_RULES: usize = 1_000;
/// Destinations of a rule at most.
const MOST_SHARES: usize = 16;
/// Mistakes that are told at most.
const MOST_MISTAKES: usize = 20;

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// A mistake in a file of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub text: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}: {}", self.line, self.text)
    }
}

/// The mistakes of a file, in the order of its lines.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Mistakes(pub Vec<Mistake>);

impl fmt::Display for Mistakes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = self.0.iter().take(MOST_MISTAKES).map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let untold = self.0.len().saturating_sub(MOST_MISTAKES);
        if untold > 0 { write!(out, "{told}; and {untold} more") } else { out.write_str(&told) }
    }
}

/// Reads a file of rules.
///
/// # Errors
/// What is wrong with it; of what is no TOML the first mistake alone.
pub fn parse(text: &str) -> Result<Rules, Mistakes> {
    let mut reader = Reader { text, mistakes: Vec::new() };
    let file = match DeTable::parse(text) {
        Ok(file) => file.into_inner(),
        Err(error) => {
            reader.mistake(error.span().unwrap_or_default(), error.message().to_owned());
            return Err(Mistakes(reader.mistakes));
        }
    };
    let rules = reader.rules(&file);
    if reader.mistakes.is_empty() {
        return Ok(rules);
    }
    reader.mistakes.sort_by_key(|mistake| mistake.line);
    Err(Mistakes(reader.mistakes))
}

/// One key: its name, and what its value changes.
type Key<T> = (&'static str, fn(&mut T, &DeValue<'_>) -> Result<(), Reason>);

/// A rule that is being read.
#[derive(Clone, Debug, Default)]
struct Draft {
    name: Option<Box<str>>,
    condition: Condition,
    path: Option<Box<str>>,
    is_exact: bool,
    destination: DestinationDraft,
    strips: bool,
    rewrite: Option<Box<str>>,
}

/// A destination that is being read.
#[derive(Clone, Debug, Default)]
struct DestinationDraft {
    weight: Option<f64>,
    service: Option<Box<str>>,
    namespace: Option<Box<str>>,
    group: Option<Box<str>>,
    clusters: Option<Vec<Box<str>>>,
    metadata: Option<super::expression::Expression>,
}

/// A policy that is being read.
#[derive(Clone, Debug, Default)]
struct PolicyDraft {
    policy: Policy,
    balance: Option<&'static str>,
    hash_by: Option<HashBy>,
}

fn put<T>(slot: &mut T, value: Result<T, Reason>) -> Result<(), Reason> {
    *slot = value?;
    Ok(())
}

fn put_some<T>(slot: &mut Option<T>, value: Result<T, Reason>) -> Result<(), Reason> {
    *slot = Some(value?);
    Ok(())
}

/// What only a rule has; `headers` and `split` are tables.
const RULE_KEYS: &[Key<Draft>] = &[
    ("name", |d, v| put_some(&mut d.name, read::name(v))),
    ("host", |d, v| put(&mut d.condition.hosts, read::hosts(v))),
    ("path", |d, v| put_some(&mut d.path, read::path(v))),
    ("exact", |d, v| put(&mut d.is_exact, read::truth(v))),
    ("methods", |d, v| put(&mut d.condition.methods, read::methods(v))),
    ("strip-prefix", |d, v| put(&mut d.strips, read::truth(v))),
    ("rewrite-prefix", |d, v| put_some(&mut d.rewrite, read::path(v))),
];

/// What names instances: in a rule, and in each part of its `split`.
const DESTINATION_KEYS: &[Key<DestinationDraft>] = &[
    ("service", |d, v| put_some(&mut d.service, read::text(v).map(Into::into))),
    ("namespace", |d, v| put_some(&mut d.namespace, read::text(v).map(Into::into))),
    ("group", |d, v| put_some(&mut d.group, read::text(v).map(Into::into))),
    ("clusters", |d, v| {
        put_some(&mut d.clusters, read::texts(v).map(|texts| texts.into_iter().map(Into::into).collect()))
    }),
    ("metadata", |d, v| put_some(&mut d.metadata, read::metadata(v))),
];

/// How requests are passed on: in `[defaults]`, and in each rule.
const POLICY_KEYS: &[Key<PolicyDraft>] = &[
    ("balance", |d, v| {
        let words = ["round-robin", "least-request", "hash"];
        let word = words.into_iter().find(|word| v.as_str() == Some(*word));
        put_some(&mut d.balance, word.ok_or_else(|| "expected round-robin, least-request or hash".to_owned()))
    }),
    ("hash-by", |d, v| put_some(&mut d.hash_by, read::hash_by(v))),
    ("prefer-cluster", |d, v| put_some(&mut d.policy.prefer_cluster, read::text(v).map(Into::into))),
    ("protocol", |d, v| put(&mut d.policy.protocol, read::protocol(v))),
    ("tls-name", |d, v| put_some(&mut d.policy.tls_name, read::tls_name(v))),
    ("host-header", |d, v| put(&mut d.policy.host_header, read::host_header(v))),
    ("connect-timeout", |d, v| put(&mut d.policy.times.connect, read::duration(v, MS..=60_000 * MS))),
    ("response-timeout", |d, v| put(&mut d.policy.times.response, read::duration(v, MS..=DAY))),
    ("idle-timeout", |d, v| put(&mut d.policy.times.idle, read::duration(v, MS..=DAY))),
    ("retries", |d, v| put(&mut d.policy.retries, read::count(v, 0..=10))),
    ("max-body-bytes", |d, v| {
        let bytes = read::number(v, 0..=1 << 50)?;
        d.policy.limits.body_bytes = (bytes > 0).then_some(bytes);
        Ok(())
    }),
    ("max-per-service", |d, v| put(&mut d.policy.limits.per_service, read::count(v, 1..=1_000_000))),
    ("max-per-instance", |d, v| put(&mut d.policy.limits.per_instance, read::count(v, 1..=1_000_000))),
    ("slow-start", |d, v| put(&mut d.policy.slow_start, read::duration(v, Duration::ZERO..=HOUR))),
    ("eject-after", |d, v| {
        d.policy.ejection.after = NonZeroU32::new(read::count(v, 0..=1_000)?);
        Ok(())
    }),
    ("eject-time", |d, v| put(&mut d.policy.ejection.time, read::duration(v, 100 * MS..=HOUR))),
    ("eject-share", |d, v| put(&mut d.policy.ejection.share_percent, read::count(v, 0..=100))),
];

fn set<T>(keys: &[Key<T>], key: &str, draft: &mut T, value: &DeValue<'_>) -> Option<Result<(), Reason>> {
    keys.iter().find(|(name, _)| *name == key).map(|(_, apply)| apply(draft, value))
}

struct Reader<'t> {
    text: &'t str,
    mistakes: Vec<Mistake>,
}

impl Reader<'_> {
    fn mistake(&mut self, place: Range<usize>, text: String) {
        self.mistakes.push(Mistake { line: self.line(&place), text });
    }

    fn line(&self, place: &Range<usize>) -> usize {
        let before = self.text.as_bytes().iter().take(place.start);
        before.filter(|byte| **byte == b'\n').count() + 1
    }

    fn taken(&mut self, key: &str, place: Range<usize>, taken: Option<Result<(), Reason>>) {
        match taken {
            Some(Ok(())) => {}
            Some(Err(reason)) => self.mistake(place, format!("{key}: {reason}")),
            None => self.mistake(place, format!("{key}: there is no such key here")),
        }
    }

    fn rules(&mut self, file: &DeTable<'_>) -> Rules {
        let mut defaults = PolicyDraft::default();
        let mut tables: &[Spanned<DeValue<'_>>] = &[];
        for (key, value) in file {
            match (&**key.get_ref(), value.get_ref()) {
                ("defaults", DeValue::Table(table)) => {
                    for (key, value) in table {
                        let taken = set(POLICY_KEYS, key.get_ref(), &mut defaults, value.get_ref());
                        self.taken(key.get_ref(), key.span(), taken);
                    }
                }
                ("rule", DeValue::Array(items)) => tables = items,
                (known @ ("defaults" | "rule"), _) => {
                    let form = if known == "rule" { "[[rule]]" } else { "[defaults]" };
                    self.mistake(key.span(), format!("{known}: expected a table {form}"));
                }
                (unknown, _) => {
                    self.mistake(key.span(), format!("{unknown}: there is only [defaults] and [[rule]]"));
                }
            }
        }
        if tables.len() > MOST_RULES {
            let place = tables[MOST_RULES].span();
            self.mistake(place, format!("rule: there may be {MOST_RULES} rules at most"));
        }
        let mut rules: Vec<Arc<Rule>> = Vec::new();
        let mut lines = Vec::new();
        for table in tables.iter().take(MOST_RULES) {
            if let Some(rule) = self.rule(table, &defaults) {
                rules.push(Arc::new(rule));
                lines.push(table.span());
            }
        }
        self.compare(&rules, &lines);
        Rules { rules, defaults: self.policy(defaults, 0..0) }
    }

    /// Finds rules that get no request, and names that come twice.
    fn compare(&mut self, rules: &[Arc<Rule>], places: &[Range<usize>]) {
        let mut names: HashMap<&str, &Range<usize>> = HashMap::new();
        for (rule, place) in rules.iter().zip(places) {
            if let Some(first) = names.insert(&rule.name, place) {
                let line = self.line(first);
                self.mistake(place.clone(), format!("name: line {line} has a rule {:?}, too", rule.name));
            }
        }
        for (at, (rule, place)) in rules.iter().zip(places).enumerate() {
            let hides = |earlier: &&Arc<Rule>| matching::covers(&earlier.condition, &rule.condition);
            if let Some(earlier) = rules[..at].iter().find(hides) {
                let text = format!(
                    "rule {:?} gets no request: all that it is for goes to {:?} before it",
                    rule.name, earlier.name
                );
                self.mistake(place.clone(), text);
            }
        }
    }

    fn rule(&mut self, table: &Spanned<DeValue<'_>>, defaults: &PolicyDraft) -> Option<Rule> {
        let place = table.span();
        let Some(entries) = table.get_ref().as_table() else {
            self.mistake(place, "rule: expected a table [[rule]]".to_owned());
            return None;
        };
        let before = self.mistakes.len();
        let (mut draft, mut policy) = (Draft::default(), defaults.clone());
        let mut split = None;
        for (key, value) in entries {
            let (word, at) = (&**key.get_ref(), key.span());
            match word {
                "headers" => self.headers(&mut draft, value),
                "split" => split = Some(value),
                _ => {
                    let value = value.get_ref();
                    let taken = set(RULE_KEYS, word, &mut draft, value)
                        .or_else(|| set(DESTINATION_KEYS, word, &mut draft.destination, value))
                        .or_else(|| set(POLICY_KEYS, word, &mut policy, value));
                    self.taken(word, at, taken);
                }
            }
        }
        let split = self.split(split, &draft.destination, &place);
        if draft.name.is_none() && !entries.iter().any(|(key, _)| key.get_ref() == "name") {
            self.mistake(place.clone(), "name: a rule must have one".to_owned());
        }
        let prefix = self.prefix(&draft, &place);
        let policy = self.policy(policy, place);
        if self.mistakes.len() > before {
            return None;
        }
        let path = draft.path.as_deref().unwrap_or("/");
        let path = if draft.is_exact {
            PathPattern::Exact(path.into())
        } else {
            PathPattern::Prefix(path.trim_end_matches('/').into())
        };
        let condition = Condition { path, ..draft.condition };
        Some(Rule { name: draft.name?.into(), condition, split, prefix, policy })
    }

    fn headers(&mut self, draft: &mut Draft, value: &Spanned<DeValue<'_>>) {
        let table = match read::table(value.get_ref()) {
            Ok(table) => table,
            Err(reason) => return self.mistake(value.span(), format!("headers: {reason}")),
        };
        for (name, value) in table {
            match read::header(name, value.get_ref()) {
                Ok(header) => draft.condition.headers.push(header),
                Err(reason) => self.mistake(value.span(), format!("headers: {name}: {reason}")),
            }
        }
    }

    fn prefix(&mut self, draft: &Draft, place: &Range<usize>) -> PrefixChange {
        match (&draft.rewrite, draft.strips) {
            (Some(_), true) => {
                let text = "strip-prefix and rewrite-prefix: a rule can have one of them";
                self.mistake(place.clone(), text.to_owned());
                PrefixChange::Keep
            }
            (Some(new), false) => PrefixChange::Replace(new.trim_end_matches('/').into()),
            (None, true) => PrefixChange::Replace("".into()),
            (None, false) => PrefixChange::Keep,
        }
    }

    fn policy(&mut self, draft: PolicyDraft, place: Range<usize>) -> Policy {
        let PolicyDraft { mut policy, balance, hash_by } = draft;
        match (balance, hash_by) {
            (Some("hash"), by) => policy.balance = Balance::Hash(by.unwrap_or(HashBy::Address)),
            (_, Some(_)) => self.mistake(place, "hash-by: it goes with balance = \"hash\" alone".to_owned()),
            (Some("least-request"), None) => policy.balance = Balance::LeastRequest,
            (_, None) => {}
        }
        policy
    }

    /// The destinations of a rule.
    fn split(
        &mut self,
        split: Option<&Spanned<DeValue<'_>>>,
        own: &DestinationDraft,
        place: &Range<usize>,
    ) -> Vec<Share> {
        let Some(split) = split else {
            let only = self.destination(own.clone(), place);
            return only.into_iter().map(|destination| Share { weight: 1.0, destination }).collect();
        };
        let parts = match split.get_ref() {
            DeValue::Array(parts) if (1..=MOST_SHARES).contains(&parts.len()) => parts,
            _ => {
                let text = format!("split: expected a list of 1 to {MOST_SHARES} tables");
                self.mistake(split.span(), text);
                return Vec::new();
            }
        };
        let shares: Vec<Share> = parts.iter().filter_map(|part| self.share(part, own)).collect();
        if self.mistakes.is_empty() && !shares.iter().any(|share| share.weight > 0.0) {
            self.mistake(split.span(), "split: one weight at least must be above 0".to_owned());
        }
        shares.into_iter().filter(|share| share.weight > 0.0).collect()
    }

    fn share(&mut self, part: &Spanned<DeValue<'_>>, own: &DestinationDraft) -> Option<Share> {
        let entries = match read::table(part.get_ref()) {
            Ok(entries) => entries,
            Err(reason) => {
                self.mistake(part.span(), format!("split: {reason}"));
                return None;
            }
        };
        let mut draft = own.clone();
        for (key, value) in entries {
            let taken = if key == "weight" {
                Some(put_some(&mut draft.weight, read::weight(value.get_ref())))
            } else {
                set(DESTINATION_KEYS, key, &mut draft, value.get_ref())
            };
            self.taken(&format!("split: {key}"), value.span(), taken);
        }
        let weight = draft.weight.unwrap_or(1.0);
        let destination = self.destination(draft, &part.span())?;
        Some(Share { weight, destination })
    }

    fn destination(&mut self, draft: DestinationDraft, place: &Range<usize>) -> Option<Destination> {
        let Some(service) = draft.service else {
            self.mistake(place.clone(), "service: a rule must name one".to_owned());
            return None;
        };
        let group = draft.group.as_deref().unwrap_or("DEFAULT_GROUP");
        let grouped = format!("{group}@@{service}");
        if let Err(error) = name::check_format(&grouped) {
            self.mistake(place.clone(), format!("service, group: {error}"));
            return None;
        }
        let service = ServiceKey::new(draft.namespace.as_deref().unwrap_or("public"), &grouped);
        let clusters = draft.clusters.unwrap_or_default();
        Some(Destination { service, clusters, metadata: draft.metadata })
    }
}

/// All keys, for whoever compares them with what is written of them.
#[cfg(test)]
pub(super) fn keys() -> Vec<&'static str> {
    let rule = RULE_KEYS.iter().map(|(name, _)| *name);
    let destination = DESTINATION_KEYS.iter().map(|(name, _)| *name);
    let policy = POLICY_KEYS.iter().map(|(name, _)| *name);
    rule.chain(destination).chain(policy).chain(["headers", "split", "weight"]).collect()
}

#[cfg(test)]
#[path = "rules_file_tests.rs"]
mod tests;
