//! The scenario format, key by key, as serde reads it.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioText {
    pub name: String,
    pub about: Option<String>,
    pub server: Option<String>,
    pub fault: Option<String>,
    pub improves: Option<String>,
    #[serde(default)]
    pub fixed: bool,
    pub steps: Vec<StepText>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StepText {
    // what is done
    pub request: Option<String>,
    pub headers: Pairs<Option<String>>,
    pub body: Option<String>,
    pub form: Option<Pairs<Scalar>>,
    pub save: Pairs<String>,
    pub sleep_ms: Option<u64>,
    pub udp_open: Option<String>,
    pub udp_recv: Option<String>,
    pub ack: Option<AckText>,
    pub drain: bool,
    pub udp_send: Option<String>,
    pub until: Option<UntilText>,
    pub mark: Option<String>,
    pub tcp_open: Option<String>,
    pub port: Option<Scalar>,
    pub full: bool,
    pub http_open: Option<String>,
    pub http_status: Option<String>,
    pub status: Option<u16>,
    pub delay_ms: Option<u64>,
    pub http_seen: Option<String>,
    pub close: Option<String>,
    pub raw: Option<Vec<String>>,
    pub pause_ms: Option<u64>,
    pub idle_ms: Option<u64>,
    pub responses: Option<usize>,
    pub head: bool,
    // when
    pub timeout_ms: Option<u64>,
    pub min_ms: Option<u64>,
    pub since: Option<String>,
    // how answers are compared
    pub volatile: Vec<String>,
    pub unordered: Vec<String>,
    pub mask: Vec<(String, String)>,
    pub ignore_body: bool,
    pub ignore_type: bool,
    pub compare_headers: Vec<String>,
    // with what
    pub response: Option<ResponseText>,
    pub or: Vec<ResponseText>,
    #[serde(rename = "note")]
    pub _note: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum AckText {
    Yes(bool),
    As(String),
}

/// A number or a text; both are sent as they are spelled.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Scalar {
    Number(serde_json::Number),
    Text(String),
}

impl Scalar {
    pub fn into_text(self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UntilText {
    pub request: String,
    #[serde(default)]
    pub headers: Pairs<Option<String>>,
    pub body: Option<String>,
    pub form: Option<Pairs<Scalar>>,
    pub contains: Option<String>,
    pub lacks: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ResponseText {
    pub status: Option<StatusText>,
    pub headers: Pairs<String>,
    pub body: String,
    pub gzip: Option<bool>,
    pub nothing: Option<bool>,
    pub reached: Option<bool>,
    pub raw: Option<Vec<RawText>>,
    pub closed: Option<bool>,
    #[serde(rename = "elapsed_ms")]
    pub _elapsed_ms: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum StatusText {
    One(u16),
    OneOf(Vec<ClassText>),
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum ClassText {
    Number(u16),
    Class(String),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawText {
    #[serde(rename = "protocol")]
    pub _protocol: Option<String>,
    pub status: Option<StatusText>,
    pub headers: Pairs<String>,
    pub body: String,
    pub garbage: Option<String>,
}

/// An object whose order of keys is kept: a form is sent and headers are written as the file has them.
#[derive(Debug, Clone)]
pub struct Pairs<T>(pub Vec<(String, T)>);

impl<T> Default for Pairs<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Pairs<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor(PhantomData))
    }
}

struct PairsVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for PairsVisitor<T> {
    type Value = Pairs<T>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Pairs(pairs))
    }
}
