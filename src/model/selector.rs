//! Selectors: which instances a service offers to whom, and which services a listing shows.
//!
//! Pure. Of the first only the text is kept: without labels from a CMDB plug-in a label selector filters nothing, and
//! there is no such plug-in. Source: Nacos 1.4.8 naming module, selectors and service listing; compat files
//! `service-selector`, `service-list`.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::State;
use crate::base::java;

/// What a service says about who may see which of its instances.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Selector {
    /// Everybody sees everything.
    #[default]
    None,
    /// Consumers see providers with the same labels.
    Label {
        /// As given.
        expression: String,
        /// Names of the labels that the expression compares.
        labels: Vec<String>,
    },
}

/// The text is no selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// A `%` that begins no escape.
    #[error("the selector is not URL-encoded: {0}")]
    Escape(String),
    /// No JSON object.
    #[error("the selector can not be read: {0}")]
    Json(String),
    /// A key that must be there.
    #[error("the selector has no {0}")]
    Missing(&'static str),
    /// A type that no version knows.
    #[error("no such type of selector: {0}")]
    Type(String),
    /// The type `unknown`.
    #[error("not match any type of selector!")]
    Unknown,
    /// An expression of another form than `CONSUMER.label.X = PROVIDER.label.X & ...`.
    #[error("parse expression failed!")]
    Expression,
    /// A comparison of a listing without its value.
    #[error("the selector compares with nothing: {0}")]
    Value(String),
}

/// The kinds that both uses know.
enum Kind {
    None,
    Label,
    Unknown,
}

const CONSUMER: &str = "CONSUMER.label.";
const PROVIDER: &str = "PROVIDER.label.";

impl Selector {
    /// Reads the value of a service's `selector` parameter: JSON that is URL-encoded once more.
    ///
    /// # Errors
    /// [`SelectorError`].
    pub fn read(text: &str) -> Result<Self, SelectorError> {
        let json = java::url_decode(text).ok_or_else(|| SelectorError::Escape(text.into()))?;
        let fields = read_object(&json)?;
        match kind(&fields)? {
            Kind::None => Ok(Self::None),
            Kind::Unknown => Err(SelectorError::Unknown),
            Kind::Label => {
                let expression = expression(&fields)?;
                Ok(Self::Label { labels: labels(&expression)?, expression })
            }
        }
    }
}

/// The labels that an expression compares, in the order of a Java hash set.
fn labels(expression: &str) -> Result<Vec<String>, SelectorError> {
    let plain = java::without_blanks(expression);
    let (mut labels, mut known) = (Vec::<String>::new(), HashSet::new());
    if plain.is_empty() {
        return Ok(labels);
    }
    for term in plain.split('&') {
        let sides = term.split_once('=').ok_or(SelectorError::Expression)?;
        let (consumer, provider) = (sides.0.strip_prefix(CONSUMER), sides.1.strip_prefix(PROVIDER));
        match consumer.filter(|label| !label.is_empty() && consumer == provider) {
            None => return Err(SelectorError::Expression),
            Some(label) if known.insert(label) => labels.push(label.into()),
            Some(_) => {}
        }
    }
    java::hash_map_order(&mut labels, |label| label);
    Ok(labels)
}

/// Which services a listing shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListSelector {
    /// All of them.
    All,
    /// Those whose own metadata has this value.
    Service {
        /// Key of the metadata.
        key: String,
        /// Its value.
        value: String,
    },
    /// Those with an instance whose metadata has this value.
    Instance {
        /// Key of the metadata.
        key: String,
        /// Its value.
        value: String,
    },
}

impl ListSelector {
    /// Reads the value of a listing's `selector` parameter: JSON with `type` and `expression`.
    ///
    /// Of the left side only the first and the last piece between points are heeded; an expression about something
    /// else selects everything.
    ///
    /// # Errors
    /// [`SelectorError`].
    pub fn read(text: &str) -> Result<Self, SelectorError> {
        let fields = read_object(text)?;
        let kind = kind(&fields)?;
        let plain = java::without_blanks(&expression(&fields)?);
        if !matches!(kind, Kind::Label) || plain.is_empty() {
            return Ok(Self::All);
        }
        let mut sides = plain.split('=');
        let (left, right) = (sides.next().unwrap_or_default(), sides.next().unwrap_or_default());
        let key = left.rsplit('.').next().unwrap_or_default().to_string();
        let value = || match right {
            "" => Err(SelectorError::Value(plain.clone())),
            right => Ok(right.replace('\'', "")),
        };
        Ok(match left.split('.').next() {
            Some("SERVICE") => Self::Service { key, value: value()? },
            Some("INSTANCE") => Self::Instance { key, value: value()? },
            _ => Self::All,
        })
    }

    /// Whether a service is shown.
    #[must_use]
    pub fn selects(&self, state: &State) -> bool {
        match self {
            Self::All => true,
            Self::Service { key, value } => state.definition.metadata.get(key).as_ref() == Some(value),
            Self::Instance { key, value } => {
                state.instances().any(|instance| instance.metadata.get(key).as_ref() == Some(value))
            }
        }
    }
}

/// Reads a JSON object; what follows it is of no account.
fn read_object(text: &str) -> Result<Map<String, Value>, SelectorError> {
    let value = Value::deserialize(&mut serde_json::Deserializer::from_str(text));
    match value.map_err(|error| SelectorError::Json(error.to_string()))? {
        Value::Object(fields) => Ok(fields),
        _ => Err(SelectorError::Json("it is no object".into())),
    }
}

fn kind(fields: &Map<String, Value>) -> Result<Kind, SelectorError> {
    let name = match fields.get("type").ok_or(SelectorError::Missing("type"))? {
        Value::String(name) => name.clone(),
        other => other.to_string(),
    };
    match name.as_str() {
        "none" => Ok(Kind::None),
        "label" => Ok(Kind::Label),
        "unknown" => Ok(Kind::Unknown),
        _ => Err(SelectorError::Type(name)),
    }
}

fn expression(fields: &Map<String, Value>) -> Result<String, SelectorError> {
    Ok(match fields.get("expression").ok_or(SelectorError::Missing("expression"))? {
        Value::String(text) => text.clone(),
        Value::Object(_) | Value::Array(_) => String::new(),
        scalar => scalar.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(expression: &str) -> Result<Vec<String>, SelectorError> {
        match Selector::read(&format!(r#"{{"type":"label","expression":"{expression}"}}"#))? {
            Selector::Label { labels, expression: kept } => {
                assert_eq!(kept, expression);
                Ok(labels)
            }
            Selector::None => panic!("a label selector"),
        }
    }

    #[test]
    fn an_expression_compares_the_same_labels_of_both_sides() {
        assert_eq!(label("CONSUMER.label.zone = PROVIDER.label.zone").unwrap(), ["zone"]);
        let two = "CONSUMER.label.A=PROVIDER.label.A & CONSUMER.label.B=PROVIDER.label.B";
        assert_eq!(label(two).unwrap(), ["A", "B"]);
        assert_eq!(label(&format!("{two}&CONSUMER.label.A=PROVIDER.label.A")).unwrap(), ["A", "B"]);
        assert!(label("").unwrap().is_empty());
        let wrong = [
            "foo",
            "PROVIDER.label.A=CONSUMER.label.A",
            "CONSUMER.label.A=PROVIDER.label.B",
            "CONSUMER.label.=PROVIDER.label.",
            "CONSUMER.label.A==PROVIDER.label.A",
            "CONSUMER.label.A=PROVIDER.label.A&",
            "consumer.label.A=provider.label.A",
        ];
        for expression in wrong {
            assert_eq!(label(expression), Err(SelectorError::Expression), "{expression}");
        }
    }

    #[test]
    fn the_text_is_decoded_once_more() {
        assert_eq!(Selector::read("%7B%22type%22%3A%22none%22%7D"), Ok(Selector::None));
        assert_eq!(Selector::read(r#"{"type":"none","x":1} "#), Ok(Selector::None));
        assert!(matches!(Selector::read("%zz"), Err(SelectorError::Escape(_))));
    }

    #[test]
    fn what_is_no_selector_is_an_error() {
        assert!(matches!(Selector::read("abc"), Err(SelectorError::Json(_))));
        assert!(matches!(Selector::read("null"), Err(SelectorError::Json(_))));
        assert_eq!(Selector::read("{}"), Err(SelectorError::Missing("type")));
        assert_eq!(Selector::read(r#"{"type":"label"}"#), Err(SelectorError::Missing("expression")));
        assert_eq!(Selector::read(r#"{"type":"unknown"}"#), Err(SelectorError::Unknown));
        assert_eq!(Selector::read(r#"{"type":"NONE"}"#), Err(SelectorError::Type("NONE".into())));
    }

    #[test]
    fn a_listing_compares_metadata_of_services_or_instances() {
        let read = |expression: &str| {
            ListSelector::read(&format!(r#"{{"type":"label","expression":"{expression}"}}"#))
        };
        let service = ListSelector::Service { key: "env".into(), value: "prod".into() };
        assert_eq!(read("SERVICE.metadata.env = 'prod'"), Ok(service.clone()));
        assert_eq!(read("SERVICE.metadata.env=prod"), Ok(service));
        let instance = ListSelector::Instance { key: "env".into(), value: "prod".into() };
        assert_eq!(read("INSTANCE.metadata.env='prod'"), Ok(instance));
        assert_eq!(read("x"), Ok(ListSelector::All));
        assert_eq!(read(""), Ok(ListSelector::All));
        assert!(matches!(read("SERVICE.metadata.env"), Err(SelectorError::Value(_))));
        assert_eq!(
            ListSelector::read(r#"{"type":"none","expression":"SERVICE.a=b"}"#),
            Ok(ListSelector::All)
        );
    }
}
