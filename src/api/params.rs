//! Parameters of a request: query first, then form, the first of a repeated name wins.
//!
//! The one reader of parameters. Source: Nacos 1.4.8 and its container; the first value winning and forms of POST
//! being read are ours (compat cases marked imp-1, imp-2, imp-7). Compat files `http-bodies`, `instance-encoding`,
//! `instance-form-post`.

use std::borrow::Cow;

use encoding_rs::Encoding;
use nacre_middleware::carries_form;
use smallvec::SmallVec;

use super::{V1Call, reply::Refusal};
use crate::{
    base::java::{self, Stray, decode},
    model::name::{DEFAULT_GROUP, DEFAULT_NAMESPACE, SEPARATOR},
};

/// Parameters beyond this count are not read; no client sends more than some 20.
pub(super) const MOST_PARAMETERS: usize = 1_000;

/// Names and values; the Java client sends up to 14.
type Pairs<'a> = SmallVec<[(Cow<'a, str>, Cow<'a, str>); 16]>;

/// The decoded parameters of one request.
#[derive(Debug)]
pub struct Params<'a> {
    pairs: Pairs<'a>,
    charset: Option<&'static Encoding>,
}

impl<'a> Params<'a> {
    /// Reads query and form of a request.
    #[must_use]
    pub fn of(call: &'a V1Call) -> Self {
        let form = if carries_form(&call.head) { &call.body[..] } else { &[] };
        Self::read(call.head.uri.query().unwrap_or_default(), form)
    }

    /// Reads a query text and the bytes of a form.
    #[must_use]
    pub fn read(query: &'a str, form: &'a [u8]) -> Self {
        let mut pairs = SmallVec::new();
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            add(&mut pairs, decode_text(name), decode_text(value));
        }
        for pair in form.split(|&byte| byte == b'&') {
            let at = memchr::memchr(b'=', pair).unwrap_or(pair.len());
            let value = pair.get(at + 1..).unwrap_or_default();
            add(&mut pairs, decode(&pair[..at], Stray::IsItself), decode(value, Stray::IsItself));
        }
        let mut params = Self { pairs, charset: None };
        params.charset = params.get("encoding").and_then(|label| Encoding::for_label(label.as_bytes()));
        if params.charset == Some(encoding_rs::UTF_8) {
            params.charset = None;
        }
        params
    }

    /// All names and values, as they came.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(name, value)| (&**name, &**value))
    }

    /// The first value of this name, as it came.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    /// A parameter that an entry reads by hand and must have: trimmed; blanks alone count as there.
    ///
    /// # Errors
    /// 400 `Param 'NAME' is required.` where it is absent or empty.
    pub fn required(&self, name: &str) -> Result<Cow<'_, str>, Refusal> {
        match self.get(name) {
            None | Some("") => Err(Refusal::missing(name)),
            Some(value) => Ok(self.resolve(value)),
        }
    }

    /// A parameter that an entry reads by hand and may lack: trimmed; absent or blank is nothing.
    #[must_use]
    pub fn optional(&self, name: &str) -> Option<Cow<'_, str>> {
        self.get(name).filter(|value| !value.trim().is_empty()).map(|value| self.resolve(value))
    }

    /// A parameter of a typed entry: as it came.
    ///
    /// # Errors
    /// 500 with the text of the reference's framework where it is absent.
    pub fn typed(&self, name: &str, java_type: &str) -> Result<&str, Refusal> {
        self.get(name).ok_or_else(|| {
            Refusal::failed(format!(
                "Required request parameter '{name}' for method parameter type {java_type} is not present"
            ))
        })
    }

    /// The grouped name: `serviceName` or, where that is blank, `dom`, with the group before it.
    ///
    /// # Errors
    /// 400 where neither is there.
    pub fn service_name(&self) -> Result<Cow<'_, str>, Refusal> {
        match self.grouped_name() {
            None => Err(Refusal::missing("serviceName")),
            // Trimmed as a whole: blanks before the group go, those behind it stay.
            Some(Cow::Owned(name)) if self.charset.is_some() || trim(&name).len() < name.len() => {
                Ok(Cow::Owned(self.resolve(&name).into_owned()))
            }
            Some(Cow::Borrowed(name)) => Ok(self.resolve(name)),
            Some(name) => Ok(name),
        }
    }

    /// The grouped name before any check; nothing where neither `serviceName` nor `dom` has a text.
    #[must_use]
    pub fn grouped_name(&self) -> Option<Cow<'_, str>> {
        let given = self.get("serviceName").filter(|name| !name.trim().is_empty());
        let Some(name) = given.or_else(|| self.get("dom").filter(|name| !name.trim().is_empty())) else {
            // Blanks alone are a name, though not one of the right form.
            return self.get("serviceName").filter(|name| !name.is_empty()).map(|_| Cow::Borrowed(""));
        };
        let name = trim(name);
        if memchr::memmem::find(name.as_bytes(), SEPARATOR.as_bytes()).is_some() {
            return Some(Cow::Borrowed(name));
        }
        let group = self.get("groupName").filter(|group| !group.trim().is_empty()).unwrap_or(DEFAULT_GROUP);
        Some(Cow::Owned([group, SEPARATOR, name].concat()))
    }

    /// The namespace id, `public` where none is given.
    #[must_use]
    pub fn namespace(&self) -> Cow<'_, str> {
        self.optional("namespaceId").unwrap_or(Cow::Borrowed(DEFAULT_NAMESPACE))
    }

    /// Trims, and reads the bytes of the value in the charset that the request names.
    fn resolve<'v>(&self, value: &'v str) -> Cow<'v, str> {
        match self.charset {
            None => Cow::Borrowed(trim(value)),
            Some(charset) => {
                let (text, _) = charset.decode_without_bom_handling(value.as_bytes());
                Cow::Owned(trim(&text).to_string())
            }
        }
    }
}

/// Java's `trim`: all up to U+0020 at both ends.
#[must_use]
pub fn trim(text: &str) -> &str {
    text.trim_matches(|letter: char| letter <= ' ')
}

/// Reads a number as `Integer.parseInt` does.
///
/// # Errors
/// 400 with Java's text.
pub fn integer(text: &str) -> Result<i32, Refusal> {
    java::parse_int(text).ok_or_else(|| Refusal::not_a_number(text))
}

/// Reads a number as `Double.parseDouble` does.
///
/// # Errors
/// 400 with Java's text.
pub fn double(text: &str) -> Result<f64, Refusal> {
    java::parse_double(text).ok_or_else(|| Refusal::not_a_number(text))
}

/// Takes up a pair both of whose parts could be decoded, if it has a name.
fn add<'a>(pairs: &mut Pairs<'a>, name: Option<Cow<'a, str>>, value: Option<Cow<'a, str>>) {
    if let (Some(name), Some(value)) = (name, value)
        && !name.is_empty()
        && pairs.len() < MOST_PARAMETERS
    {
        pairs.push((name, value));
    }
}

/// Decodes a part of a query; nearly all have nothing to decode. The container drops a pair with a stray `%`.
fn decode_text(text: &str) -> Option<Cow<'_, str>> {
    if text.bytes().any(|byte| matches!(byte, b'%' | b'+')) {
        decode(text.as_bytes(), Stray::Refuses)
    } else {
        Some(Cow::Borrowed(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_wins_and_the_query_comes_first() {
        let params = Params::read("a=1&a=2&%62=x+y%2B", b"a=3&c=%zz&d=100%");
        assert_eq!(params.get("a"), Some("1"));
        assert_eq!(params.get("b"), Some("x y+"));
        assert_eq!(params.get("c"), Some("%zz"));
        assert_eq!(params.get("d"), Some("100%"));
    }

    #[test]
    fn a_broken_escape_drops_its_pair_in_a_query() {
        let params = Params::read("a=%zz&b=%&&=x&c&d=%E4%B8", b"");
        assert_eq!(params.get("a"), None);
        assert_eq!(params.get("b"), None);
        assert_eq!(params.get("c"), Some(""));
        assert_eq!(params.get("d"), Some("\u{fffd}"));
    }

    #[test]
    fn names_are_grouped() {
        let name = |query: &'static str| Params::read(query, b"").service_name().map(Cow::into_owned).ok();
        assert_eq!(name("serviceName=%20a%20"), Some("DEFAULT_GROUP@@a".into()));
        assert_eq!(name("serviceName=a&groupName=%20G%20"), Some("G @@a".into()));
        assert_eq!(name("serviceName=G@@a&groupName=H"), Some("G@@a".into()));
        assert_eq!(name("serviceName=&dom=a&groupName="), Some("DEFAULT_GROUP@@a".into()));
        assert_eq!(name("serviceName=%20"), Some(String::new()));
        assert_eq!(name("serviceName="), None);
    }

    #[test]
    fn an_encoding_reads_the_bytes_again() {
        let params = Params::read("a=%E4%B8%AD&encoding=ISO-8859-1", b"");
        assert_eq!(params.required("a").unwrap(), "ä¸\u{ad}");
        let params = Params::read("a=%E4%B8%AD&encoding=nonsense", b"");
        assert_eq!(params.required("a").unwrap(), "中");
    }
}
