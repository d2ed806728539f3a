//! The syntax of a settings file: Java properties, each with its line.
//!
//! The `java-properties` crate reads separators, escapes and continued lines. Beside it stand three
//! things it does differently from the JVM: bytes that aren't UTF-8 are ISO-8859-1, escapes in comments
//! mean nothing, and a last line that ends in a backslash still counts.

use std::borrow::Cow;

use java_properties::{LineContent, PropertiesIter};

/// One `key=value`, with the line (from 1) on which its key stands.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Property {
    pub line: usize,
    pub key: String,
    pub value: String,
}

/// A line that can't be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SyntaxError {
    pub line: usize,
    pub reason: String,
}

/// All properties in the order of the file; every line that can't be read is reported, not only the first.
pub(super) fn parse(bytes: &[u8]) -> (Vec<Property>, Vec<SyntaxError>) {
    let text = without_comments(&decode(bytes));
    let mut properties = Vec::new();
    let mut errors = Vec::new();
    for line in PropertiesIter::new_with_encoding(text.as_bytes(), encoding_rs::UTF_8) {
        match line {
            Ok(line) => {
                let number = line.line_number();
                if let LineContent::KVPair(key, value) = line.consume_content() {
                    properties.push(Property { line: number, key, value: value.trim().to_owned() });
                }
            }
            Err(error) => errors.push(SyntaxError {
                line: error.line_number().unwrap_or(0),
                reason: "expected four hexadecimal digits of a character after \\u".to_owned(),
            }),
        }
    }
    (properties, errors)
}

fn decode(bytes: &[u8]) -> Cow<'_, str> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => encoding_rs::mem::decode_latin1(bytes),
    }
}

/// Empties comment lines, so that line numbers stay. A line that continues another is no comment.
fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len() + 1);
    let mut continued = false;
    for line in text.split_inclusive(['\n', '\r']) {
        let content = line.trim_end_matches(['\n', '\r']);
        // The `\n` of a `\r\n` comes as a line of its own and ends nothing.
        if content.is_empty() && line == "\n" && kept.ends_with('\r') {
            kept.push('\n');
            continue;
        }
        let is_comment = !continued && content.trim_start().starts_with(['#', '!']);
        if is_comment {
            kept.push_str(&line[content.len()..]);
        } else {
            kept.push_str(line);
            let backslashes = content.len() - content.trim_end_matches('\\').len();
            continued = backslashes % 2 == 1;
        }
    }
    kept.push('\n');
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(bytes: &[u8]) -> Vec<(usize, String, String)> {
        let (properties, errors) = parse(bytes);
        assert_eq!(errors, []);
        properties.into_iter().map(|property| (property.line, property.key, property.value)).collect()
    }

    fn one(bytes: &[u8]) -> (String, String) {
        let mut all = pairs(bytes);
        assert_eq!(all.len(), 1, "{all:?}");
        let (_, key, value) = all.remove(0);
        (key, value)
    }

    #[test]
    fn every_spelling_of_java_properties_is_read() {
        for (text, key, value) in [
            ("a.b=c", "a.b", "c"),
            ("a.b = c ", "a.b", "c"),
            ("a.b: c", "a.b", "c"),
            ("a.b c d", "a.b", "c d"),
            ("  a.b\tc", "a.b", "c"),
            ("a.b=c=d:e", "a.b", "c=d:e"),
            ("a.b=", "a.b", ""),
            ("a.b", "a.b", ""),
            (r"a\=b=c", "a=b", "c"),
            (r"a\u0062=\u0063", "ab", "c"),
            ("a=b\\\n   c", "a", "bc"),
            ("a=b\\\r\n\t#c", "a", "b#c"),
            (r"a=C:\\x", "a", r"C:\x"),
            (r"a=b\", "a", "b"),
            ("a=b # no comment", "a", "b # no comment"),
            ("a=b\r\n", "a", "b"),
            ("a=${X:y}", "a", "${X:y}"),
        ] {
            assert_eq!(one(text.as_bytes()), (key.to_owned(), value.to_owned()), "{text:?}");
        }
    }

    #[test]
    fn a_property_knows_the_line_of_its_key() {
        let text = "# top\r\n\r\na=1\\\r\n  2\r\n ! note \\\r\nb=3\rc=4\n\nd=5";
        let lines: Vec<_> = pairs(text.as_bytes()).into_iter().map(|(line, key, _)| (key, line)).collect();
        assert_eq!(lines, [("a".into(), 3), ("b".into(), 6), ("c".into(), 7), ("d".into(), 9)]);
    }

    #[test]
    fn bytes_are_utf8_or_else_latin1() {
        assert_eq!(one("a=é".as_bytes()).1, "é");
        assert_eq!(one(b"a=\xE9\x80").1, "é\u{80}");
        assert_eq!(one(b"\xEF\xBB\xBFa=b").0, "a");
    }

    #[test]
    fn an_escape_in_a_comment_means_nothing() {
        assert_eq!(one(b"# C:\\users\na=b"), ("a".into(), "b".into()));
    }

    #[test]
    fn every_broken_escape_is_reported_and_the_rest_is_read() {
        let (properties, errors) = parse(b"a=\\uzzzz\nb=2\nc=\\u12\nd=\\ud800");
        assert_eq!(properties.len(), 1);
        assert_eq!(properties[0].key, "b");
        assert_eq!(errors.iter().map(|error| error.line).collect::<Vec<_>>(), [1, 3, 4]);
    }

    #[test]
    fn an_empty_file_has_no_properties() {
        assert_eq!(pairs(b""), []);
        assert_eq!(pairs(b"\n\n  \n#x"), []);
    }
}
