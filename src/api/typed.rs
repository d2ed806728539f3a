//! Parameters of the entries whose parameters the reference's framework reads: as they came, but converted to a type.
//!
//! A text that can't be converted is a 500, as is one that is missing; an empty one counts as absent where there is a
//! default. Source: Nacos 1.4.8, its framework's parameter binding; compat files `service-crud`, `service-threshold`,
//! `catalog-services`, `catalog-instances`.

use std::borrow::Cow;

use super::{params::Params, reply::Refusal};
use crate::{base::java, model::name::DEFAULT_NAMESPACE};

impl Params<'_> {
    /// The grouped name as the filter in front of all entries makes it; one that it can't make, as it came.
    ///
    /// # Errors
    /// 500 where neither `serviceName` nor `dom` is there.
    pub fn typed_name(&self) -> Result<Cow<'_, str>, Refusal> {
        match self.grouped_name() {
            Some(name) if !name.is_empty() => Ok(name),
            _ => self.typed("serviceName", "String").map(Cow::Borrowed),
        }
    }

    /// A text, or `default` where it is absent or empty.
    #[must_use]
    pub fn typed_or<'p>(&'p self, name: &str, default: &'p str) -> &'p str {
        self.get(name).filter(|text| !text.is_empty()).unwrap_or(default)
    }

    /// The namespace id; blanks alone are one.
    #[must_use]
    pub fn typed_namespace(&self) -> &str {
        self.typed_or("namespaceId", DEFAULT_NAMESPACE)
    }

    /// A 32-bit number, blanks in it left out.
    ///
    /// # Errors
    /// 500 where it is absent or none.
    pub fn typed_integer(&self, name: &str) -> Result<i32, Refusal> {
        let text = self.typed(name, "int")?;
        java::parse_int(&java::without_blanks(text)).ok_or_else(|| not_a("int", name, text))
    }

    /// A 32-bit floating-point number, or `default` where it is absent or empty.
    ///
    /// # Errors
    /// 500 where it is none.
    pub fn typed_float(&self, name: &str, default: f32) -> Result<f32, Refusal> {
        match self.typed_or(name, "") {
            "" => Ok(default),
            text => java::parse_float(&java::without_blanks(text)).ok_or_else(|| not_a("float", name, text)),
        }
    }

    /// A truth value, false where it is absent or blank.
    ///
    /// # Errors
    /// 500 where it is none of the framework's words.
    pub fn typed_boolean(&self, name: &str) -> Result<bool, Refusal> {
        let text = self.typed_or(name, "");
        match text.trim().to_ascii_lowercase().as_str() {
            "true" | "on" | "yes" | "1" => Ok(true),
            "" | "false" | "off" | "no" | "0" => Ok(false),
            _ => Err(not_a("boolean", name, text)),
        }
    }
}

fn not_a(java_type: &str, name: &str, text: &str) -> Refusal {
    Refusal::failed(format_args!("parameter '{name}' is no {java_type}: \"{text}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_text_is_absent_where_there_is_a_default() {
        let params = Params::read("a=&b=%20&serviceName=%20&namespaceId=", b"");
        assert_eq!((params.typed_or("a", "x"), params.typed_or("b", "x")), ("x", " "));
        assert_eq!(params.typed_name().unwrap(), " ");
        assert_eq!(params.typed_namespace(), "public");
        assert!(Params::read("", b"").typed_name().is_err());
        assert_eq!(Params::read("dom=a", b"").typed_name().unwrap(), "DEFAULT_GROUP@@a");
    }

    #[test]
    fn texts_are_converted_or_refused() {
        let params = Params::read("i=%201%20&f=.5F&t=Yes&o=0&w=maybe&e=", b"");
        assert_eq!(params.typed_integer("i").unwrap(), 1);
        assert_eq!(params.typed_float("f", 0.0).unwrap().to_bits(), 0.5_f32.to_bits());
        assert_eq!(params.typed_float("none", 0.25).unwrap().to_bits(), 0.25_f32.to_bits());
        assert!(params.typed_boolean("t").unwrap());
        assert!(!params.typed_boolean("o").unwrap() && !params.typed_boolean("e").unwrap());
        assert!(params.typed_boolean("w").is_err() && params.typed_float("w", 0.0).is_err());
        assert!(params.typed_integer("w").is_err() && params.typed_integer("e").is_err());
        assert!(params.typed_integer("none").is_err());
    }
}
