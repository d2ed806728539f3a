//! Metadata of instances, services and clusters: read from its two spellings, kept as the text that is served.
//!
//! Pure. Source: Nacos 1.4.8 naming module, metadata parsing; compat files `instance-register`, `service-metadata`.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    str::FromStr,
    sync::Arc,
};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::base::{java, json};

/// An ordered map of texts.
///
/// Kept as its JSON text, since it is written a thousand times for each time that a key is looked up, and since one
/// allocation per instance is less than two per entry. Empty metadata allocates nothing.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    json: Option<Arc<str>>,
    /// There were keys with the value null: not shown, but the metadata doesn't count as empty.
    nulls: bool,
}

/// The text is neither a JSON object of scalars nor a list `k=v,k=v`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("metadata format incorrect:{0}")]
pub struct MetadataError(pub String);

/// Keys in order with their values; `None` is JSON's null.
pub type Entries = Vec<(String, Option<String>)>;

impl Metadata {
    /// The JSON object as answers show it.
    #[must_use]
    pub fn json(&self) -> &str {
        self.json.as_deref().unwrap_or("{}")
    }

    /// No key at all, not even one with the value null.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.json.is_none() && !self.nulls
    }

    /// Keys and values in order; parses the text, so not for hot paths.
    #[must_use]
    pub fn entries(&self) -> Vec<(String, String)> {
        let Some(json) = self.json.as_deref() else { return Vec::new() };
        let entries = read_object(json).expect("our own text is an object of texts");
        entries.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }

    /// The value of `key`; a plain search first, so that metadata without the key costs no parsing.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<String> {
        if !self.may_have(key) {
            return None;
        }
        self.entries().into_iter().find_map(|(name, value)| (name == key).then_some(value))
    }

    /// These entries; of a repeated key the last value counts, at the place of the first.
    #[must_use]
    pub fn from_entries(entries: impl IntoIterator<Item = (String, Option<String>)>) -> Self {
        let kept = unique(entries);
        let nulls = kept.iter().any(|(_, value)| value.is_none());
        let mut out = vec![b'{'];
        for (key, value) in &kept {
            let Some(value) = value else { continue };
            if out.len() > 1 {
                out.push(b',');
            }
            json::push_string(&mut out, key);
            out.push(b':');
            json::push_string(&mut out, value);
        }
        out.push(b'}');
        let text = String::from_utf8(out).expect("texts and punctuation are UTF-8");
        Self { json: (text.len() > 2).then(|| text.into()), nulls }
    }

    /// With the entries of `other` added or put in the place of those that were there.
    #[must_use]
    pub fn merged(&self, other: &Entries) -> Self {
        let own = self.entries().into_iter().map(|(key, value)| (key, Some(value)));
        Self::from_entries(own.chain(other.iter().cloned()))
    }

    /// Without the keys of `other`.
    #[must_use]
    pub fn without(&self, other: &Entries) -> Self {
        let gone: HashSet<&str> = other.iter().map(|(name, _)| name.as_str()).collect();
        let own = self.entries().into_iter().filter(|(key, _)| !gone.contains(key.as_str()));
        Self::from_entries(own.map(|(key, value)| (key, Some(value))))
    }

    /// Whether `text` stands anywhere in it, in a key or a value: a cheap look before [`Metadata::entries`].
    #[must_use]
    pub fn may_have(&self, text: &str) -> bool {
        self.json
            .as_deref()
            .is_some_and(|json| memchr::memmem::find(json.as_bytes(), text.as_bytes()).is_some())
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.json())
    }
}

impl FromStr for Metadata {
    type Err = MetadataError;

    fn from_str(text: &str) -> Result<Self, MetadataError> {
        Ok(Self::from_entries(parse_entries(text)?))
    }
}

impl Serialize for Metadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(self.json()).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Metadata {
    /// From a JSON object of scalars, or null for empty metadata.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries = Option::<Object>::deserialize(deserializer)?.map(|object| object.0);
        Ok(Self::from_entries(entries.unwrap_or_default()))
    }
}

/// Reads the value of a `metadata` parameter.
///
/// A JSON object of scalars comes first: numbers and booleans become their text, spelled as they came; what follows
/// the object is ignored; the word `null` is empty. Everything else must be `k=v,k=v`: no trimming, exactly two parts
/// around each `=`, in the order of a Java hash map.
///
/// # Errors
/// [`MetadataError`] with the whole text.
pub fn parse_entries(text: &str) -> Result<Entries, MetadataError> {
    if text.is_empty() || is_null(text) {
        return Ok(Vec::new());
    }
    if let Ok(object) = Object::deserialize(&mut serde_json::Deserializer::from_str(text)) {
        return Ok(object.0);
    }
    parse_list(text).ok_or_else(|| MetadataError(text.into()))
}

/// Whether the value of a `metadata` parameter is JSON's null.
#[must_use]
pub fn is_null(text: &str) -> bool {
    text.trim_start().strip_prefix("null").is_some_and(|rest| !rest.starts_with(is_word_letter))
}

/// What would make another word of the word before it.
fn is_word_letter(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '$')
}

/// The entries with the last value of a repeated key at the place of its first; in linear time, since a request may
/// bring a hundred thousand of them.
fn unique(entries: impl IntoIterator<Item = (String, Option<String>)>) -> Entries {
    let mut kept: Entries = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for (key, value) in entries {
        let known = if places.is_empty() {
            kept.iter().position(|(name, _)| *name == key)
        } else {
            places.get(&key).copied()
        };
        match known {
            Some(place) => kept[place].1 = value,
            None => {
                if kept.len() == SEARCHED {
                    places =
                        kept.iter().enumerate().map(|(place, (name, _))| (name.clone(), place)).collect();
                }
                if kept.len() >= SEARCHED {
                    places.insert(key.clone(), kept.len());
                }
                kept.push((key, value));
            }
        }
    }
    kept
}

/// Up to so many entries are searched one by one, as nearly all metadata are.
const SEARCHED: usize = 16;

fn parse_list(text: &str) -> Option<Entries> {
    let mut entries: Entries = Vec::new();
    // Java's split drops empty parts at the end, but not in the middle.
    for part in text.trim_end_matches(',').split(',') {
        if part.is_empty() && entries.is_empty() && text.bytes().all(|byte| byte == b',') {
            break;
        }
        let (key, value) = part.split_once('=')?;
        let value = value.trim_end_matches('=');
        if value.is_empty() || value.contains('=') || part.len() != key.len() + 1 + value.len() {
            return None;
        }
        entries.push((key.into(), Some(value.into())));
    }
    let mut entries = unique(entries);
    java::hash_map_order(&mut entries, |(key, _)| key);
    Some(entries)
}

/// The entries of a JSON object of scalars, in order; a repeated key comes more than once.
///
/// # Errors
/// It is no such object.
pub fn read_object(text: &str) -> serde_json::Result<Entries> {
    serde_json::from_str::<Object>(text).map(|object| object.0)
}

/// A JSON object of scalars, in order.
struct Object(Entries);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entry;
        impl<'de> Visitor<'de> for Entry {
            type Value = Object;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a JSON object of scalars")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut entries = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    entries.push((key, scalar_text(value.get()).map_err(serde::de::Error::custom)?));
                }
                Ok(Object(entries))
            }
        }
        deserializer.deserialize_map(Entry)
    }
}

/// The text of a JSON scalar: a string's content, a number or boolean as spelled, null as nothing.
fn scalar_text(raw: &str) -> Result<Option<String>, &'static str> {
    match raw.as_bytes().first() {
        Some(b'"') => serde_json::from_str(raw).map(Some).map_err(|_| "not a string"),
        Some(b'n') => Ok(None),
        Some(b'{' | b'[') | None => Err("neither objects nor arrays are allowed here"),
        Some(_) => Ok(Some(raw.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        text.parse::<Metadata>()
            .map_or_else(|error| error.to_string(), |metadata| metadata.json().to_string())
    }

    #[test]
    fn a_json_object_of_scalars_keeps_order_and_spelling() {
        assert_eq!(read(r#"{"b":"1","a":1.50,"t":true,"n":null}"#), r#"{"b":"1","a":"1.50","t":"true"}"#);
        assert_eq!(read(r#"{"a":"1","b":"2","a":"3"}"#), r#"{"a":"3","b":"2"}"#);
        assert_eq!(read(r#"{"a":"1"}garbage"#), r#"{"a":"1"}"#);
        assert_eq!(read("null"), "{}");
        assert_eq!(read("null and more"), "{}");
        assert_eq!(read("nullable"), "metadata format incorrect:nullable");
        assert_eq!(read(""), "{}");
    }

    #[test]
    fn a_list_has_exactly_one_sign_a_piece() {
        assert_eq!(read("a=1,b=2"), r#"{"a":"1","b":"2"}"#);
        assert_eq!(read("a=1,"), r#"{"a":"1"}"#);
        assert_eq!(read(","), "{}");
        assert_eq!(read("=b"), r#"{"":"b"}"#);
        assert_eq!(read(" a= b "), r#"{" a":" b "}"#);
        for wrong in
            ["a=", "a=b=c", "word", "a=1,,b=2", "[1]", "\"text\"", r#"{"a":{"b":1}}"#, r#"{"a":[1]}"#, "{"]
        {
            assert_eq!(read(wrong), format!("metadata format incorrect:{wrong}"));
        }
    }

    #[test]
    fn many_entries_are_read_as_few_are_and_in_no_time() {
        let few =
            |count: usize| (0..count).map(|k| format!("k{}=v{k}", k % 40)).collect::<Vec<_>>().join(",");
        let metadata: Metadata = few(100).parse().unwrap();
        let entries = metadata.entries();
        assert_eq!(entries.len(), 40);
        assert!(
            entries.contains(&("k19".into(), "v99".into()))
                && entries.contains(&("k20".into(), "v60".into()))
        );
        let object: String = (0..100).map(|k| format!("\"k{}\":{k},", k % 40)).collect();
        let metadata: Metadata = format!("{{{object}\"end\":1}}").parse().unwrap();
        assert_eq!(metadata.entries()[0], ("k0".into(), "80".into()));
        assert_eq!(metadata.entries()[40], ("end".into(), "1".into()));
        // Quadratic, these would take minutes.
        let many: String = (0..200_000).map(|k| format!("k{k}=v,")).collect();
        let metadata: Metadata = many.parse().unwrap();
        let all = parse_entries(&many).unwrap();
        assert_eq!(metadata.merged(&all), metadata);
        assert!(metadata.without(&all).is_empty());
    }

    #[test]
    fn nulls_are_hidden_but_count() {
        let metadata: Metadata = r#"{"a":null}"#.parse().unwrap();
        assert_eq!(metadata.json(), "{}");
        assert!(!metadata.is_empty());
        assert!(Metadata::default().is_empty());
    }

    #[test]
    fn merging_overwrites_in_place_and_removing_leaves_the_rest() {
        let metadata: Metadata = r#"{"a":"1","b":"2"}"#.parse().unwrap();
        let more = parse_entries(r#"{"a":"9","c":"3"}"#).unwrap();
        assert_eq!(metadata.merged(&more).json(), r#"{"a":"9","b":"2","c":"3"}"#);
        assert_eq!(metadata.without(&more).json(), r#"{"b":"2"}"#);
    }
}
