//! Numbers, hashes and orders as Java has them, wherever the v1 wire shows them.
//!
//! Pure. Source: the Java platform's documented `String.hashCode`, `Double.toString`, `Double.parseDouble`,
//! `Integer.parseInt` and the iteration order of `HashMap`; vectors in `compat-tests/wire`.

use std::{borrow::Cow, fmt::Write as _};

/// `String.hashCode`: over UTF-16 units, wrapping at 32 bits.
#[must_use]
pub fn hash(text: &str) -> i32 {
    let add = |hash: i32, unit: u16| hash.wrapping_mul(31).wrapping_add(i32::from(unit));
    // Nearly all names, and each is hashed again and again to find its owner.
    if text.is_ascii() {
        return text.bytes().fold(0, |hash, byte| add(hash, byte.into()));
    }
    text.encode_utf16().fold(0, add)
}

/// The order in which a `HashMap` that was filled with `names` one after the other gives them back.
///
/// The table has 16 buckets and doubles when it is more than three quarters full; names of one bucket keep
/// their order of arrival.
pub fn hash_map_order<T>(names: &mut [T], text: impl Fn(&T) -> &str) {
    hash_map_order_from(16, names, text);
}

/// [`hash_map_order`] where the table has this power of two of buckets at first.
pub fn hash_map_order_from<T>(mut buckets: usize, names: &mut [T], text: impl Fn(&T) -> &str) {
    while names.len() > buckets / 4 * 3 {
        buckets *= 2;
    }
    names.sort_by_key(|name| {
        let hash = hash(text(name)).cast_unsigned();
        (hash ^ (hash >> 16)) as usize & (buckets - 1)
    });
}

/// `URLDecoder.decode` in UTF-8: `+` is a blank, what isn't UTF-8 becomes U+FFFD; nothing where a `%` begins no escape.
#[must_use]
pub fn url_decode(text: &str) -> Option<Cow<'_, str>> {
    decode(text.as_bytes(), Stray::Refuses)
}

/// The wide reading of a boolean: `true on yes t y` in any case, all else is false.
#[must_use]
pub fn is_true_word(text: &str) -> bool {
    ["true", "on", "yes", "t", "y"].iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// The narrow reading of a boolean: `true` in any case.
#[must_use]
pub fn is_true(text: &str) -> bool {
    text.eq_ignore_ascii_case("true")
}

/// The text without its blanks, wherever they stand.
#[must_use]
pub fn without_blanks(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_whitespace()).collect()
}

/// What a `%` that begins no escape does to a text that is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stray {
    /// The text can't be decoded.
    Refuses,
    /// It stands for itself.
    IsItself,
}

/// Decodes `%XX` and `+`; what isn't UTF-8 then becomes U+FFFD. Nothing where a stray `%` refuses.
#[must_use]
pub fn decode(text: &[u8], stray: Stray) -> Option<Cow<'_, str>> {
    let Some(first) = memchr::memchr2(b'%', b'+', text) else {
        return Some(String::from_utf8_lossy(text));
    };
    let mut out = Vec::with_capacity(text.len());
    out.extend_from_slice(&text[..first]);
    let mut rest = &text[first..];
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'+' => out.push(b' '),
            b'%' => match (after.first().and_then(hex), after.get(1).and_then(hex)) {
                (Some(high), Some(low)) => {
                    out.push(high << 4 | low);
                    rest = &after[2..];
                }
                _ if stray == Stray::Refuses => return None,
                _ => out.push(b'%'),
            },
            _ => out.push(byte),
        }
    }
    Some(Cow::Owned(match String::from_utf8(out) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }))
}

fn hex(byte: &u8) -> Option<u8> {
    char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Appends `value` as `Double.toString` spells it: `1.0`, `0.01`, `1.0E7`, `NaN`, `-0.0`.
pub fn push_double(out: &mut String, value: f64) {
    push_shortest(out, value, || format!("{value:e}"));
}

/// Appends `value` as `Float.toString` spells it.
pub fn push_float(out: &mut String, value: f32) {
    push_shortest(out, f64::from(value), || format!("{value:e}"));
}

/// `Double.toString`.
#[must_use]
pub fn double_text(value: f64) -> String {
    let mut out = String::new();
    push_double(&mut out, value);
    out
}

/// `Float.toString`.
#[must_use]
pub fn float_text(value: f32) -> String {
    let mut out = String::new();
    push_float(&mut out, value);
    out
}

/// Writes the shortest digits (given by `scientific` as Rust's `{:e}`) in Java's layout: plain for
/// 10^-3 <= |x| < 10^7, else with an exponent; always at least one digit behind the point.
fn push_shortest(out: &mut String, value: f64, scientific: impl Fn() -> String) {
    if value.is_nan() {
        return out.push_str("NaN");
    }
    if value.is_sign_negative() {
        out.push('-');
    }
    let magnitude = value.abs();
    if magnitude.is_infinite() {
        return out.push_str("Infinity");
    }
    // The weights that nearly every instance has.
    if magnitude < 1e7 && magnitude.fract() == 0.0 {
        out.push_str(itoa::Buffer::new().format(magnitude as u32));
        return out.push_str(".0");
    }
    let text = scientific();
    let (digits, exponent) = text.trim_start_matches('-').split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits: String = digits.chars().filter(char::is_ascii_digit).collect();
    if !(-3..7).contains(&exponent) {
        let (first, rest) = digits.split_at(1);
        let _ = write!(out, "{first}.{}E{exponent}", if rest.is_empty() { "0" } else { rest });
    } else if exponent < 0 {
        let _ = write!(out, "0.{}{digits}", "0".repeat(exponent.unsigned_abs() as usize - 1));
    } else {
        let point = exponent.unsigned_abs() as usize + 1;
        if digits.len() <= point {
            let _ = write!(out, "{digits}{}.0", "0".repeat(point - digits.len()));
        } else {
            let _ = write!(out, "{}.{}", &digits[..point], &digits[point..]);
        }
    }
}

/// `Integer.parseInt` of a text that was trimmed before: an optional sign and decimal digits.
#[must_use]
pub fn parse_int(text: &str) -> Option<i32> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// `Long.parseLong`.
#[must_use]
pub fn parse_long(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// `Double.parseDouble`: blanks around it, a type suffix (`1d`, `0.5F`), hexadecimal forms (`0x1p3`), `NaN` and
/// `Infinity` are all numbers; Rust's own extra words (`inf`, `nan`) are not.
#[must_use]
pub fn parse_double(text: &str) -> Option<f64> {
    let text = text.trim_matches(|letter: char| letter <= ' ');
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let negative = text.starts_with('-');
    let magnitude = match unsigned {
        "NaN" => return Some(f64::NAN),
        "Infinity" => f64::INFINITY,
        _ => {
            let hexadecimal = unsigned.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("0x"));
            if hexadecimal { parse_hexadecimal(&unsigned[2..])? } else { parse_decimal(unsigned)? }
        }
    };
    Some(if negative { -magnitude } else { magnitude })
}

/// `Float.parseFloat`, with the forms of [`parse_double`].
#[must_use]
pub fn parse_float(text: &str) -> Option<f32> {
    let trimmed = text.trim_matches(|letter: char| letter <= ' ');
    let number = trimmed.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(trimmed);
    let plain = !number.is_empty()
        && number
            .bytes()
            .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'+' | b'-' | b'e' | b'E'));
    if plain {
        // Straight to 32 bits: by way of 64 the last digit may be rounded twice.
        return number.parse().ok();
    }
    #[expect(clippy::cast_possible_truncation, reason = "Java narrows to the nearest float as well")]
    parse_double(text).map(|value| value as f32)
}

fn parse_decimal(text: &str) -> Option<f64> {
    let number = text.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(text);
    let plain =
        number.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'));
    // The sign was taken off before; a second one isn't Java's, and Rust would take it.
    let unsigned = !number.starts_with(['+', '-']);
    if plain && unsigned && number.bytes().any(|byte| byte.is_ascii_digit()) {
        number.parse().ok()
    } else {
        None
    }
}

/// The part behind `0x` of a hexadecimal float: digits with at most one point, then `p` and a decimal exponent.
fn parse_hexadecimal(text: &str) -> Option<f64> {
    let text = text.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(text);
    let (mantissa, exponent) = text.split_once(['p', 'P'])?;
    let exponent = parse_int(exponent)?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.len() + fraction.len() == 0 {
        return None;
    }
    let mut value = 0.0_f64;
    for letter in whole.chars().chain(fraction.chars()) {
        value = value * 16.0 + f64::from(letter.to_digit(16)?);
    }
    let shift = exponent.saturating_sub(i32::try_from(fraction.len()).ok()?.saturating_mul(4));
    Some(value * 2.0_f64.powi(shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_like_java() {
        assert_eq!(hash(""), 0);
        assert_eq!(hash("nacos"), 104_575_732);
        assert_eq!(hash("polygenelubricants"), i32::MIN);
        assert_eq!(hash("\u{1F600}"), 1_772_899);
    }

    #[test]
    fn doubles_are_spelled_like_java() {
        for (value, text) in [
            (1.0, "1.0"),
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (0.01, "0.01"),
            (10_000.0, "10000.0"),
            (0.001, "0.001"),
            (0.000_1, "1.0E-4"),
            (1e7, "1.0E7"),
            (9_999_999.0, "9999999.0"),
            (12_345.678, "12345.678"),
            (1.5e-7, "1.5E-7"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(double_text(value), text);
        }
        assert_eq!(float_text(0.8), "0.8");
        assert_eq!(float_text(0.123_456_79), "0.12345679");
    }

    #[test]
    fn numbers_are_read_like_java() {
        assert_eq!(parse_double("1e2"), Some(100.0));
        assert_eq!(parse_double("1d"), Some(1.0));
        assert_eq!(parse_double(" .5 "), Some(0.5));
        assert_eq!(parse_double("0x1p3"), Some(8.0));
        assert_eq!(parse_double("-0x1.8p1"), Some(-3.0));
        assert!(parse_double("NaN").is_some_and(f64::is_nan));
        for wrong in ["", "abc", "inf", "nan", "1_0", "0x", "0xg", "1e", "--1", "d"] {
            assert_eq!(parse_double(wrong), None, "{wrong}");
        }
        assert_eq!(parse_float("0.12345678901"), Some(0.123_456_79));
        assert_eq!(parse_float("0.5F"), Some(0.5));
        assert_eq!(parse_int("+80"), Some(80));
        assert_eq!(parse_int("080"), Some(80));
        assert_eq!(parse_int("2147483648"), None);
        assert_eq!(parse_int("8 0"), None);
    }

    #[test]
    fn escapes_are_read_or_refused() {
        assert_eq!(url_decode("a+b%2B%e4%B8%AD").as_deref(), Some("a b+中"));
        assert_eq!(url_decode("中%FF").as_deref(), Some("中\u{fffd}"));
        for wrong in ["%", "%4", "%zz", "100%x", "%中"] {
            assert_eq!(url_decode(wrong), None, "{wrong}");
            assert_eq!(decode(wrong.as_bytes(), Stray::IsItself).as_deref(), Some(wrong));
        }
    }

    #[test]
    fn booleans_have_a_wide_and_a_narrow_reading() {
        for (word, wide, narrow) in [("True", true, true), ("yes", true, false), ("1", false, false)] {
            assert_eq!((is_true_word(word), is_true(word)), (wide, narrow), "{word}");
        }
    }

    #[test]
    fn names_come_back_in_the_order_of_a_hash_map() {
        let mut names = ["DEFAULT", "A", "B", "zone-1"];
        hash_map_order(&mut names, |name| name);
        assert_eq!(names, ["A", "B", "DEFAULT", "zone-1"]);
    }
}
