//! JSON as it was written: keys in their order (doubles included), numbers in their spelling.
//!
//! A client of Nacos 1.x may read `1.0` and `1` differently, and a checksum depends on the order of keys; a
//! parser that turns numbers into `f64` and objects into maps would hide both. No I/O.

/// How deep lists and objects may be nested; a deeper text counts as no JSON.
const MAX_DEPTH: usize = 256;

/// One JSON value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, spelled as in the text.
    Number(String),
    /// A string, its escapes resolved.
    Text(String),
    /// A list.
    List(Vec<Json>),
    /// An object: pairs as they came.
    Object(Vec<(String, Json)>),
    /// A text that holds this: what normalising makes of it, so that it can be compared inside and is still no value itself.
    Within(Box<Json>),
    /// Only the kind of value counts: what normalising leaves of a volatile value.
    Any(&'static str),
}

impl Json {
    /// The name of the kind of value, in which `1` and `1.0` are alike.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) | Self::Within(_) => "a text",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
            Self::Any(kind) => kind,
        }
    }

    /// The text that reads as this value, without spaces. What normalising left is written as a text.
    pub fn written(&self) -> String {
        let text = |text: &str| serde_json::Value::from(text).to_string();
        match self {
            Self::Text(value) => text(value),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(Self::written).collect();
                format!("[{}]", items.join(","))
            }
            Self::Object(pairs) => {
                let pair = |(key, value): &(String, Self)| format!("{}:{}", text(key), value.written());
                let pairs: Vec<String> = pairs.iter().map(pair).collect();
                format!("{{{}}}", pairs.join(","))
            }
            Self::Within(inner) => text(&inner.written()),
            Self::Any(kind) => text(kind),
            plain => plain.to_string(),
        }
    }

    /// The value of the first `key` of an object.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Object(pairs) => pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }
}

impl std::fmt::Display for Json {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Null => out.write_str("null"),
            Self::Bool(value) => write!(out, "{value}"),
            Self::Number(spelling) => out.write_str(spelling),
            Self::Text(text) => write!(out, "{text:?}"),
            Self::List(items) => {
                out.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    write!(out, "{}{item}", if at == 0 { "" } else { "," })?;
                }
                out.write_str("]")
            }
            Self::Object(pairs) => {
                out.write_str("{")?;
                for (at, (key, value)) in pairs.iter().enumerate() {
                    write!(out, "{}{key:?}:{value}", if at == 0 { "" } else { "," })?;
                }
                out.write_str("}")
            }
            Self::Within(inner) => write!(out, "{:?}", inner.to_string()),
            Self::Any(kind) => write!(out, "<{kind}>"),
        }
    }
}

/// The text is no JSON, or is nested too deeply.
#[derive(Debug, PartialEq, Eq)]
pub struct NotJson {
    /// Where reading stopped, in bytes.
    pub at: usize,
}

/// Reads a whole text as one value.
///
/// # Errors
/// [`NotJson`] if there is anything but one value between white space. `NaN` and `Infinity` count as numbers.
pub fn parse(text: &str) -> Result<Json, NotJson> {
    let mut reader = Reader { text, at: 0 };
    reader.space();
    let value = reader.value(0)?;
    reader.space();
    if reader.at < text.len() { Err(reader.wrong()) } else { Ok(value) }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn wrong(&self) -> NotJson {
        NotJson { at: self.at }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.text.as_bytes()[self.at..].starts_with(token.as_bytes());
        if found {
            self.at += token.len();
        }
        found
    }

    fn value(&mut self, depth: usize) -> Result<Json, NotJson> {
        if depth > MAX_DEPTH {
            return Err(self.wrong());
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => self.text().map(Json::Text),
            _ if self.take("null") => Ok(Json::Null),
            _ if self.take("true") => Ok(Json::Bool(true)),
            _ if self.take("false") => Ok(Json::Bool(false)),
            _ => self.number(),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, NotJson> {
        self.at += 1;
        let mut pairs = Vec::new();
        self.space();
        if self.take("}") {
            return Ok(Json::Object(pairs));
        }
        loop {
            self.space();
            let key = self.text()?;
            self.space();
            if !self.take(":") {
                return Err(self.wrong());
            }
            self.space();
            pairs.push((key, self.value(depth + 1)?));
            self.space();
            if self.take("}") {
                return Ok(Json::Object(pairs));
            }
            if !self.take(",") {
                return Err(self.wrong());
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Json, NotJson> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.take("]") {
            return Ok(Json::List(items));
        }
        loop {
            self.space();
            items.push(self.value(depth + 1)?);
            self.space();
            if self.take("]") {
                return Ok(Json::List(items));
            }
            if !self.take(",") {
                return Err(self.wrong());
            }
        }
    }

    fn text(&mut self) -> Result<String, NotJson> {
        if !self.take("\"") {
            return Err(self.wrong());
        }
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.find(|c: char| c == '"' || c == '\\' || c < ' ').ok_or(self.wrong())?;
            out.push_str(&rest[..plain]);
            self.at += plain;
            if self.take("\"") {
                return Ok(out);
            }
            if !self.take("\\") {
                return Err(self.wrong()); // a control character as itself
            }
            self.escape(&mut out)?;
        }
    }

    fn escape(&mut self, out: &mut String) -> Result<(), NotJson> {
        let letter = self.peek().ok_or(self.wrong())?;
        let plain = match letter {
            b'"' | b'\\' | b'/' => char::from(letter),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(out),
            _ => return Err(self.wrong()),
        };
        self.at += 1;
        out.push(plain);
        Ok(())
    }

    /// `uXXXX`, or two of them for one character. Half of a pair stays visible as its escape.
    fn unicode(&mut self, out: &mut String) -> Result<(), NotJson> {
        let first = self.hex4()?;
        let before = self.at;
        if (0xD800..0xDC00).contains(&first) && self.take("\\") && self.peek() == Some(b'u') {
            let second = self.hex4()?;
            if (0xDC00..0xE000).contains(&second) {
                let code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                out.extend(char::from_u32(code));
                return Ok(());
            }
        }
        self.at = before;
        match char::from_u32(first) {
            Some(character) => out.push(character),
            None => out.push_str(&format!("\\u{first:04x}")),
        }
        Ok(())
    }

    fn hex4(&mut self) -> Result<u32, NotJson> {
        let digits = self.text.as_bytes().get(self.at + 1..self.at + 5).ok_or(self.wrong())?;
        let mut code = 0;
        for digit in digits {
            code = code * 16 + char::from(*digit).to_digit(16).ok_or(self.wrong())?;
        }
        self.at += 5;
        Ok(code)
    }

    fn number(&mut self) -> Result<Json, NotJson> {
        let start = self.at;
        if self.take("NaN") || self.take("Infinity") || self.take("-Infinity") {
            return Ok(Json::Number(self.text[start..self.at].to_owned()));
        }
        self.take("-");
        if !self.take("0") && self.digits() == 0 {
            return Err(self.wrong());
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if self.digits() == 0 {
                return Err(self.wrong());
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if self.digits() == 0 {
                return Err(self.wrong());
            }
        }
        Ok(Json::Number(self.text[start..self.at].to_owned()))
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_spelling_and_keys_their_order() {
        let value = parse(r#" {"b":1.0,"a":[1,1.0E2,-0.5],"b":null} "#).unwrap();
        assert_eq!(value.to_string(), r#"{"b":1.0,"a":[1,1.0E2,-0.5],"b":null}"#);
        assert_ne!(parse("1").unwrap(), parse("1.0").unwrap());
    }

    #[test]
    fn escapes_are_resolved() {
        assert_eq!(parse(r#""\u00e9\n\ud83d\ude00\/""#), Ok(Json::Text("é\n😀/".to_owned())));
        assert_eq!(parse(r#""\ud83dx""#), Ok(Json::Text("\\ud83dx".to_owned())));
    }

    #[test]
    fn what_is_no_json_is_told_apart() {
        for text in ["", "ok", "{", "[1,]", "{\"a\":1}x", "01", "1.", "\"\u{1}\"", "\"\\x\"", "{a:1}", "-"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse(&"[".repeat(100_000)).is_err());
    }
}
