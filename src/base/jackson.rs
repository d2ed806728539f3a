//! JSON as Jackson reads it where its types are given: numbers may be texts, texts numbers, fractions are cut.
//!
//! A blank text is the number 0 and the boolean false, as the reference's primitive fields have it; null and an absent
//! field are nothing, and the reader gives the default. Nothing is copied but texts with escapes. Pure. Source: documented coercions of Jackson; compat files `beat`,
//! `distro-data`, `instance-metadata-batch`.

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::{
    Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::java;

/// A field's value as it stands in the text; nothing where the field is absent or null.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scalar<'a>(Option<&'a str>);

/// A value can't be read as what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a value is of the wrong kind")]
pub struct WrongKind;

/// 2^63.
const FIRST_BEYOND_LONG: f64 = 9_223_372_036_854_775_808.0;

impl<'a> Scalar<'a> {
    /// The value as it stands in the text, whatever it is.
    #[must_use]
    pub fn raw(self) -> Option<&'a str> {
        self.0
    }

    /// Nothing where it is a blank text: for readers that have no use for the reference's 0 or false.
    #[must_use]
    pub fn unless_blank(self) -> Self {
        let blank = |raw: &str| raw.trim_matches('"').trim().is_empty();
        Self(self.0.filter(|raw| !blank(raw)))
    }

    /// As a text: numbers and booleans by their spelling.
    ///
    /// # Errors
    /// Objects and arrays.
    pub fn text(self) -> Result<Option<Cow<'a, str>>, WrongKind> {
        match self.0 {
            None => Ok(None),
            Some(raw) if raw.starts_with(['{', '[']) => Err(WrongKind),
            Some(raw) => match raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')) {
                None => Ok(Some(raw.into())),
                Some(text) if !text.contains('\\') => Ok(Some(text.into())),
                Some(_) => {
                    serde_json::from_str(raw).map(|text| Some(Cow::Owned(text))).map_err(|_| WrongKind)
                }
            },
        }
    }

    /// As a Java `int`: a fraction is cut; a blank text is 0.
    ///
    /// # Errors
    /// What isn't a number, or doesn't fit.
    pub fn integer(self) -> Result<Option<i32>, WrongKind> {
        self.long()?.map(|number| number.try_into().map_err(|_| WrongKind)).transpose()
    }

    /// As a Java `long`, likewise.
    ///
    /// # Errors
    /// What isn't a number, or doesn't fit.
    pub fn long(self) -> Result<Option<i64>, WrongKind> {
        let Some(text) = self.text()? else { return Ok(None) };
        if text.trim().is_empty() {
            return Ok(Some(0));
        }
        if let Some(number) = java::parse_long(text.trim()) {
            return Ok(Some(number));
        }
        let is_number = self.0.is_some_and(|raw| !raw.starts_with('"'));
        let number = java::parse_double(&text).filter(|_| is_number).ok_or(WrongKind)?.trunc();
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and in range")]
        let fitting = (-FIRST_BEYOND_LONG..FIRST_BEYOND_LONG).contains(&number).then_some(number as i64);
        fitting.map(Some).ok_or(WrongKind)
    }

    /// As a Java `double`; a blank text is 0.
    ///
    /// # Errors
    /// What isn't a number.
    pub fn double(self) -> Result<Option<f64>, WrongKind> {
        match self.text()? {
            None => Ok(None),
            Some(text) if text.trim().is_empty() => Ok(Some(0.0)),
            Some(text) => java::parse_double(&text).map(Some).ok_or(WrongKind),
        }
    }

    /// As a `boolean`: `true` and `false` also as texts, whole numbers by whether they are zero; a blank text is
    /// false.
    ///
    /// # Errors
    /// All else.
    pub fn boolean(self) -> Result<Option<bool>, WrongKind> {
        let Some(text) = self.text()? else { return Ok(None) };
        match text.trim() {
            "true" | "True" | "TRUE" => Ok(Some(true)),
            "" | "false" | "False" | "FALSE" => Ok(Some(false)),
            number if self.0 == Some(number) => {
                java::parse_long(number).map(|number| Some(number != 0)).ok_or(WrongKind)
            }
            _ => Err(WrongKind),
        }
    }
}

/// Reads an object into `T`: `set` is told of each field in turn, so that of a repeated one the last counts.
///
/// # Errors
/// What isn't an object.
pub fn read_fields<'de, T, D, F>(deserializer: D, set: F) -> Result<T, D::Error>
where
    T: Default,
    D: Deserializer<'de>,
    F: Fn(&mut T, &str, Scalar<'de>),
{
    deserializer.deserialize_map(Fields { set, result: PhantomData })
}

/// [`read_fields`] of a text.
///
/// # Errors
/// What isn't an object, and nothing but one.
pub fn fields<'a, T: Default>(text: &'a str, set: impl Fn(&mut T, &str, Scalar<'a>)) -> Result<T, WrongKind> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = read_fields(&mut deserializer, set).map_err(|_| WrongKind)?;
    deserializer.end().map_err(|_| WrongKind)?;
    Ok(read)
}

struct Fields<T, F> {
    set: F,
    result: PhantomData<T>,
}

impl<'de, T: Default, F: Fn(&mut T, &str, Scalar<'de>)> Visitor<'de> for Fields<T, F> {
    type Value = T;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut fields = T::default();
        while let Some(name) = map.next_key_seed(Name)? {
            let value: &'de RawValue = map.next_value()?;
            let value = Some(value.get()).filter(|&raw| raw != "null");
            (self.set)(&mut fields, &name, Scalar(value));
        }
        Ok(fields)
    }
}

/// Takes a key without copying it where it has no escapes.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Cow<'de, str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Name {
    type Value = Cow<'de, str>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(name.into())
    }

    fn visit_str<E>(self, name: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(name.into()))
    }
}

/// Whether a JSON text is an object whose values are neither objects nor arrays.
#[must_use]
pub fn is_object_of_scalars(text: &str) -> bool {
    struct Flat;
    impl<'de> Visitor<'de> for Flat {
        type Value = bool;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
            let mut flat = true;
            while let Some((IgnoredAny, value)) = map.next_entry::<IgnoredAny, &RawValue>()? {
                flat &= !value.get().starts_with(['{', '[']);
            }
            Ok(flat)
        }
    }
    serde_json::Deserializer::from_str(text).deserialize_map(Flat).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The forms of a JSON value as text, integer, double and boolean.
    fn forms(raw: &str) -> String {
        let scalar = Scalar(Some(raw).filter(|&raw| raw != "null"));
        format!("{:?} {:?} {:?} {:?}", scalar.text(), scalar.integer(), scalar.double(), scalar.boolean())
            .replace("WrongKind", "_")
            .replace("Ok(Some(", "")
            .replace("))", "")
    }

    #[test]
    fn scalars_are_coerced() {
        assert_eq!(forms("80"), r#""80" 80 80.0 true"#);
        assert_eq!(forms(r#""80""#), r#""80" 80 80.0 Err(_)"#);
        assert_eq!(forms("80.9"), r#""80.9" 80 80.9 Err(_)"#);
        assert_eq!(forms(r#""80.9""#), r#""80.9" Err(_) 80.9 Err(_)"#);
        assert_eq!(forms("1e10"), r#""1e10" Err(_) 10000000000.0 Err(_)"#);
        assert_eq!(forms("true"), r#""true" Err(_) Err(_) true"#);
        assert_eq!(forms(r#""False""#), r#""False" Err(_) Err(_) false"#);
        assert_eq!(forms("null"), "Ok(None) Ok(None) Ok(None) Ok(None)");
        assert_eq!(forms(r#"" ""#), r#"" " 0 0.0 false"#);
        assert_eq!(forms(r#""a\nb""#), r#""a\nb" Err(_) Err(_) Err(_)"#);
        assert_eq!(forms("[1]"), "Err(_) Err(_) Err(_) Err(_)");
    }

    #[test]
    fn a_blank_may_count_as_nothing() {
        for blank in ["\"\"", "\" \""] {
            assert_eq!(Scalar(Some(blank)).double(), Ok(Some(0.0)));
            assert_eq!(Scalar(Some(blank)).unless_blank().double(), Ok(None));
        }
        assert_eq!(Scalar(Some("\"2\"")).unless_blank().double(), Ok(Some(2.0)));
    }

    #[test]
    fn longs_end_where_they_end_in_java() {
        let long = |raw| Scalar(Some(raw)).long();
        assert_eq!(long("9223372036854775807"), Ok(Some(i64::MAX)));
        assert_eq!(long("-9.5"), Ok(Some(-9)));
        for beyond in ["9223372036854775808", "1e19", "true", "\"1.5\""] {
            assert_eq!(long(beyond), Err(WrongKind), "{beyond}");
        }
    }

    #[test]
    fn of_a_repeated_field_the_last_counts() {
        let text = r#"{"a":1,"\u0061":2,"b":{"c":[{}]},"a":3}"#;
        let read =
            read_fields(&mut serde_json::Deserializer::from_str(text), |found: &mut Vec<_>, name, value| {
                found.push(format!("{name}={}", value.raw().unwrap_or("null")));
            });
        assert_eq!(read.unwrap(), ["a=1", "a=2", r#"b={"c":[{}]}"#, "a=3"]);
    }

    #[test]
    fn nested_values_are_noticed() {
        assert!(is_object_of_scalars(r#"{"a":1,"b":null,"c":"[{"}"#));
        for text in [r#"{"a":[]}"#, r#"{"a":{}}"#, "3", "\"a\"", "[]", "null", "{"] {
            assert!(!is_object_of_scalars(text), "{text}");
        }
    }
}
