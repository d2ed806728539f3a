//! What an operator says in `conf/proxy.toml`: which requests go to which instances, and how.
//!
//! Pure. Whoever holds a [`Rule`] needs no check of its own: what can't be meant has been refused by the reader
//! ([`super::rules_file`]), which also says the keys' names, units and ranges.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use http::{HeaderName, HeaderValue, Method};

use super::expression::Expression;
use crate::model::ServiceKey;

/// All rules of a file, and what goes for requests by convention.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// In the order of the file: the first that matches counts.
    pub rules: Vec<Arc<Rule>>,
    /// What rules are made of that don't say otherwise.
    pub defaults: Policy,
}

/// One rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Unique in its file; a label of metrics.
    pub name: Arc<str>,
    /// Which requests it is for.
    pub condition: Condition,
    /// Where they go: one or more.
    pub split: Vec<Share>,
    /// What becomes of their path.
    pub prefix: PrefixChange,
    /// How they go there.
    pub policy: Policy,
}

/// Which requests a rule is for: all of these must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Condition {
    /// Empty for all hosts.
    pub hosts: Vec<HostPattern>,
    /// What the path is, or begins with.
    pub path: PathPattern,
    /// Empty for all methods.
    pub methods: Vec<Method>,
    /// Headers that must be there.
    pub headers: Vec<(HeaderName, HeaderCondition)>,
}

/// A host, in lower case, without port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    /// This one.
    Exact(Box<str>),
    /// Every name below: `.example.org` of `*.example.org`, which isn't `example.org` itself.
    Below(Box<str>),
}

/// A path without dot segments, and without escapes of letters, digits and `-._~`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathPattern {
    /// This path and no other.
    Exact(Box<str>),
    /// Paths that begin with these whole segments; without a slash at its end, so empty for all paths.
    Prefix(Box<str>),
}

impl Default for PathPattern {
    fn default() -> Self {
        Self::Prefix("".into())
    }
}

/// What is asked of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderCondition {
    /// It is there.
    Present,
    /// One of its lines has this value, to the byte.
    Value(HeaderValue),
}

/// A part of a rule's requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// Beside those of the others; above 0.
    pub weight: f64,
    /// Where they go.
    pub destination: Destination,
}

/// Some instances of a service.
#[derive(Clone, Debug, PartialEq)]
pub struct Destination {
    /// The service.
    pub service: ServiceKey,
    /// Only those of these clusters; empty for all.
    pub clusters: Vec<Box<str>>,
    /// Only those whose metadata are so.
    pub metadata: Option<Expression>,
}

/// What becomes of the part of the path that a rule's prefix matched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PrefixChange {
    /// Nothing.
    #[default]
    Keep,
    /// It is replaced by this, which is empty, or begins with a slash and doesn't end with one.
    Replace(Box<str>),
}

/// How requests are passed on.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Which instance is next.
    pub balance: Balance,
    /// The cluster whose instances are taken as long as one of them can be.
    pub prefer_cluster: Option<Box<str>>,
    /// What the instances speak.
    pub protocol: Protocol,
    /// The name in their certificates; else the address of each.
    pub tls_name: Option<Box<str>>,
    /// What they are told as the host.
    pub host_header: HostHeader,
    /// How long each step may take.
    pub times: Times,
    /// How often a request may be sent again, where it may be at all.
    pub retries: u32,
    /// How much there may be at a time.
    pub limits: Limits,
    /// How long a new instance gets less than its weight; zero for not at all.
    pub slow_start: Duration,
    /// When an instance that fails gets nothing for a while.
    pub ejection: Ejection,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            balance: Balance::RoundRobin,
            prefer_cluster: None,
            protocol: Protocol::Http1,
            tls_name: None,
            host_header: HostHeader::Keep,
            times: Times {
                connect: Duration::from_secs(1),
                response: Duration::from_secs(60),
                idle: Duration::from_secs(60),
            },
            retries: 2,
            limits: Limits { body_bytes: None, per_service: 10_000, per_instance: 1_000 },
            slow_start: Duration::ZERO,
            ejection: Ejection {
                after: NonZeroU32::new(5),
                time: Duration::from_secs(10),
                share_percent: 50,
            },
        }
    }
}

/// Which instance is next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Balance {
    /// In turn, by weight.
    RoundRobin,
    /// Of two at random, drawn by weight, the one with fewer requests for its weight.
    LeastRequest,
    /// The same for the same key, as long as it is there.
    Hash(HashBy),
}

/// What the key of a request is. One without it is balanced by its client's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HashBy {
    /// The client's address.
    Address,
    /// The value of this header.
    Header(HeaderName),
    /// The value of this cookie.
    Cookie(Box<str>),
}

/// What instances speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// `http/1.1`
    Http1,
    /// `h2c`: HTTP/2 from the first byte on, without TLS.
    Http2,
    /// `https`: HTTP/1.1 within TLS.
    Https1,
    /// `h2`: HTTP/2 within TLS.
    Https2,
}

impl Protocol {
    /// Its name in the rules.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Http1 => "http/1.1",
            Self::Http2 => "h2c",
            Self::Https1 => "https",
            Self::Https2 => "h2",
        }
    }
}

/// What instances are told as the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostHeader {
    /// What the client asked for.
    Keep,
    /// The instance's address and port.
    Instance,
    /// This.
    Given(HeaderValue),
}

/// How long each step may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Until there is a connection.
    pub connect: Duration,
    /// From the request to the head of its answer.
    pub response: Duration,
    /// Between two pieces of a body or of an upgraded connection.
    pub idle: Duration,
}

/// How much there may be at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request's body.
    pub body_bytes: Option<u64>,
    /// Requests under way to a service.
    pub per_service: u32,
    /// Requests under way to an instance.
    pub per_instance: u32,
}

/// When an instance that fails gets nothing for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ejection {
    /// Failures in a row; none for never.
    pub after: Option<NonZeroU32>,
    /// For how long the first time; each further time twice as long.
    pub time: Duration,
    /// Of a hundred instances of a destination, so many at most; one of two or more in any case.
    pub share_percent: u32,
}
