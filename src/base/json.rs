//! JSON as Jackson writes it: Java's number spelling, escapes in upper case, characters beyond U+FFFF as pairs.
//!
//! Answers are structs whose fields stand in wire order, written by [`to_bytes`]; the list, the hottest answer, is
//! put together by hand with [`push_string`]. Source: Nacos 1.4.8, its JSON mapper; compat files `instance-encoding`.

use std::{fmt, io, marker::PhantomData};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::ser::{CharEscape, Formatter, Serializer};

use super::java;

/// Writes `value` as the reference would.
///
/// Numbers that JSON can't hold (`NaN`, `Infinity`) must be given as texts by their own type; serde writes null.
pub fn to_bytes(value: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    append(&mut out, value);
    out
}

/// How many bytes [`to_bytes`] would write.
pub fn length(value: &impl Serialize) -> usize {
    struct Counting(usize);
    impl io::Write for Counting {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counting = Counting(0);
    let mut serializer = Serializer::with_formatter(&mut counting, Jackson);
    value.serialize(&mut serializer).expect("counting can't fail");
    counting.0
}

/// Appends `value` as [`to_bytes`] writes it.
pub fn append(out: &mut Vec<u8>, value: &impl Serialize) {
    let mut serializer = Serializer::with_formatter(out, Jackson);
    value.serialize(&mut serializer).expect("writing our own structs into memory can't fail");
}

/// Appends `text` as a JSON string with its quotes.
pub fn push_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    push_escaped(out, text);
    out.push(b'"');
}

/// Appends `text` as it stands between the quotes of a JSON string.
pub fn push_escaped(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    // Nearly all texts are plain: one look, one copy.
    if bytes.iter().all(|&byte| byte >= 0x20 && byte != b'"' && byte != b'\\' && byte < 0xf0) {
        return out.extend_from_slice(bytes);
    }
    for letter in text.chars() {
        match letter {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\u{8}' => out.extend_from_slice(b"\\b"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\u{c}' => out.extend_from_slice(b"\\f"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\0'..' ' | '\u{10000}'.. => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    out.extend_from_slice(format!("\\u{unit:04X}").as_bytes());
                }
            }
            _ => out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

/// A struct that is read from a JSON object only; derived code would take an array of its fields as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = Object<T>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(Fields(PhantomData))
    }
}

/// Appends a whole number.
pub fn push_number(out: &mut Vec<u8>, number: impl Into<i64>) {
    out.extend_from_slice(itoa::Buffer::new().format(number.into()).as_bytes());
}

/// Appends `true` or `false`.
pub fn push_truth(out: &mut Vec<u8>, truth: bool) {
    out.extend_from_slice(if truth { b"true" } else { b"false" });
}

/// How many bytes a whole number takes.
#[must_use]
pub fn digits(number: impl Into<i128>) -> usize {
    let number: i128 = number.into();
    let sign = usize::from(number < 0);
    sign + number.unsigned_abs().checked_ilog10().map_or(1, |digits| digits as usize + 1)
}

struct Jackson;

impl Formatter for Jackson {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(java::double_text(value).as_bytes())
    }

    fn write_f32<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f32) -> io::Result<()> {
        writer.write_all(java::float_text(value).as_bytes())
    }

    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, text: &str) -> io::Result<()> {
        let mut out = Vec::with_capacity(text.len());
        push_escaped(&mut out, text);
        writer.write_all(&out)
    }

    fn write_char_escape<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        let letter = match escape {
            CharEscape::Quote => '"',
            CharEscape::ReverseSolidus => '\\',
            CharEscape::Solidus => '/',
            CharEscape::Backspace => '\u{8}',
            CharEscape::FormFeed => '\u{c}',
            CharEscape::LineFeed => '\n',
            CharEscape::CarriageReturn => '\r',
            CharEscape::Tab => '\t',
            CharEscape::AsciiControl(byte) => char::from(byte),
        };
        let mut out = Vec::with_capacity(6);
        push_escaped(&mut out, letter.encode_utf8(&mut [0; 4]));
        writer.write_all(&out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_like_jackson() {
        let text = "a\"b\\c\n\u{1}中\u{1F600}";
        let expected = "\"a\\\"b\\\\c\\n\\u0001中\\uD83D\\uDE00\"";
        let mut out = Vec::new();
        push_string(&mut out, text);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert_eq!(String::from_utf8(to_bytes(&text)).unwrap(), expected);
        assert_eq!(length(&text), expected.len());
    }

    #[test]
    fn an_object_is_no_array() {
        #[derive(Debug, Deserialize, PartialEq)]
        struct Point {
            x: i32,
        }
        let read = |text| serde_json::from_str::<Object<Point>>(text).ok();
        assert_eq!(read(r#"{"x":1,"y":2}"#), Some(Object(Point { x: 1 })));
        assert_eq!([read("[1]"), read("null"), read("1")], [None, None, None]);
    }

    #[test]
    fn whole_numbers_are_written_and_counted() {
        for number in [0, 1, 9, 10, -1, -10, 3000, i64::MAX, i64::MIN] {
            assert_eq!(digits(number), number.to_string().len());
            let mut out = Vec::new();
            push_number(&mut out, number);
            assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
        }
    }

    #[test]
    fn numbers_are_spelled_like_java() {
        assert_eq!(to_bytes(&(1.0_f64, 0.8_f32, 1e7_f64, 5)), b"[1.0,0.8,1.0E7,5]");
    }
}
