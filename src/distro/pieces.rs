//! Cuts the answer with all data of a member, while it comes, into documents of some data each.
//!
//! Pure. A node that loads so holds some megabytes of a member's data at a time, however many there are, instead of the
//! text of all of them. Only the outermost object is looked at; whether its pieces are JSON is for their reader to say. What is too
//! long for this node is left out by itself: one service must not cost a node all others.

use super::bodies::BODY_BYTES;

/// Why an answer can't be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PieceError {
    /// It doesn't begin with a brace, or goes on behind the last one.
    #[error("it is no JSON object")]
    NoObject,
    /// It ends before the last brace.
    #[error("it is cut off")]
    Cut,
}

/// Where in the outermost object the next byte stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Before,
    Within,
    Text,
    /// Behind a backslash in a text.
    Escaped,
    Behind,
}

/// What has come of an answer and isn't cut yet.
#[derive(Debug)]
pub struct Pieces {
    /// A brace, and the entries behind the last cut.
    held: Vec<u8>,
    place: Place,
    /// How many braces and brackets are open; 1 between the entries.
    depth: u32,
    /// Bytes of `held` up to the last comma between two entries.
    whole: usize,
    /// From so many bytes on it is cut.
    usual: usize,
    most: usize,
    /// What comes belongs to an entry that is too long.
    skips: bool,
    /// The keys of such entries.
    skipped: Vec<String>,
}

/// Keys of entries that are too long, of which it is remembered at most so many.
const MOST_SKIPPED: usize = 100;

impl Pieces {
    /// Of an answer whose single data have `most` bytes at most.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self::of(BODY_BYTES, most)
    }

    fn of(usual: usize, most: usize) -> Self {
        Self {
            held: Vec::new(),
            place: Place::Before,
            depth: 0,
            whole: 0,
            usual,
            most,
            skips: false,
            skipped: Vec::new(),
        }
    }

    /// Takes the next part of the answer, cut anywhere; gives the pieces that are whole with it, JSON objects. Holds 4 MiB,
    /// or one datum where that is longer, and what came at once. Left out is what is too long: see [`Pieces::take_skipped`].
    ///
    /// # Errors
    /// It is no object. Pieces that were given before stay good.
    pub fn push(&mut self, part: &[u8]) -> Result<Vec<Vec<u8>>, PieceError> {
        let mut pieces = Vec::new();
        for &byte in part {
            self.place = match (self.place, byte) {
                (Place::Before | Place::Behind, b' ' | b'\t' | b'\r' | b'\n') => continue,
                (Place::Before, b'{') => {
                    self.depth = 1;
                    Place::Within
                }
                (Place::Before | Place::Behind, _) => return Err(PieceError::NoObject),
                (Place::Text, b'"') => Place::Within,
                (Place::Text, b'\\') => Place::Escaped,
                (Place::Within, b'"') | (Place::Text | Place::Escaped, _) => Place::Text,
                (Place::Within, b'{' | b'[') => {
                    self.depth = self.depth.saturating_add(1);
                    Place::Within
                }
                (Place::Within, b'}' | b']') => {
                    self.depth -= 1;
                    if self.depth == 0 { Place::Behind } else { Place::Within }
                }
                (Place::Within, _) => Place::Within,
            };
            let is_between = self.place == Place::Within && self.depth == 1 && byte == b',';
            if is_between && std::mem::take(&mut self.skips) && self.held.len() == 1 {
                // Nothing is held that the comma would follow.
                continue;
            }
            if is_between {
                self.whole = self.held.len();
                if self.held.len() >= self.usual {
                    pieces.push(self.cut());
                    continue;
                }
            }
            if self.held.len() - self.whole > self.most && !self.skips && self.place != Place::Behind {
                self.skip();
            }
            if !self.skips || self.place == Place::Behind {
                self.held.push(byte);
            }
        }
        Ok(pieces)
    }

    /// Leaves out the entry that is being read.
    fn skip(&mut self) {
        let begin = self.whole.max(1);
        let entry = self.held[begin..].trim_ascii_start();
        let entry = entry.strip_prefix(b",").unwrap_or(entry);
        let mut texts = serde_json::Deserializer::from_slice(entry).into_iter::<String>();
        // A key that is too long itself has no name.
        let key = texts.next().and_then(Result::ok).unwrap_or_default();
        if self.skipped.len() < MOST_SKIPPED {
            self.skipped.push(key);
        }
        self.held.truncate(begin);
        self.skips = true;
    }

    /// The keys of the data that were left out since this was asked last, since each is longer than one may be.
    pub fn take_skipped(&mut self) -> Vec<String> {
        std::mem::take(&mut self.skipped)
    }

    /// The entries of a piece, each a piece of its own.
    #[must_use]
    pub fn each(piece: &[u8]) -> Vec<Vec<u8>> {
        let mut entries = Self::of(1, usize::MAX);
        let mut each = entries.push(piece).unwrap_or_default();
        each.extend(entries.end());
        each
    }

    /// Gives what is held, and begins the next piece.
    fn cut(&mut self) -> Vec<u8> {
        self.whole = 1;
        let mut piece = std::mem::replace(&mut self.held, vec![b'{']);
        piece.push(b'}');
        piece
    }

    /// The rest, where the answer was a whole object.
    ///
    /// # Errors
    /// It wasn't.
    pub fn end(self) -> Result<Vec<u8>, PieceError> {
        if self.place == Place::Behind { Ok(self.held) } else { Err(PieceError::Cut) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value};

    use super::*;

    /// The pieces of a text that comes in parts of so many bytes.
    fn cut(text: &[u8], part: usize, usual: usize, most: usize) -> Result<Vec<Vec<u8>>, PieceError> {
        let mut pieces = Pieces::of(usual, most);
        let mut all = Vec::new();
        for part in text.chunks(part) {
            all.extend(pieces.push(part)?);
        }
        all.push(pieces.end()?);
        Ok(all)
    }

    #[test]
    fn an_answer_is_cut_between_its_data() {
        let text = br#" {"a":{"x":[1,2,"},{"]},"b":{"y":"\",\\"} , "c":{}} "#;
        let texts = |usual| {
            let pieces = cut(text, 1, usual, 100).unwrap().into_iter();
            pieces.map(|piece| String::from_utf8(piece).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(texts(1), [r#"{"a":{"x":[1,2,"},{"]}}"#, r#"{"b":{"y":"\",\\"} }"#, r#"{ "c":{}}"#]);
        assert_eq!(texts(30), [r#"{"a":{"x":[1,2,"},{"]},"b":{"y":"\",\\"} }"#, r#"{ "c":{}}"#]);
        assert_eq!(texts(99), [std::str::from_utf8(text).unwrap().trim()]);
        assert_eq!(cut(b"{}", 1, 1, 9), Ok(vec![b"{}".to_vec()]));
    }

    #[test]
    fn what_is_no_whole_object_is_refused() {
        for (text, error) in [
            ("", PieceError::Cut),
            ("ok", PieceError::NoObject),
            ("[]", PieceError::NoObject),
            ("{} x", PieceError::NoObject),
            ("{}}", PieceError::NoObject),
            (r#"{"a":{}"#, PieceError::Cut),
            (r#"{"a":"}"#, PieceError::Cut),
        ] {
            assert_eq!(cut(text.as_bytes(), 3, 9, 99), Err(error), "{text}");
        }
    }

    #[test]
    fn what_is_too_long_is_left_out_and_named_and_nothing_else() {
        let long = "x".repeat(60);
        for (text, kept, names) in [
            (format!(r#"{{"a":"{long}"}}"#), "{}", &["a"][..]),
            (format!(r#"{{ "a" : "{long}" , "b":1}}"#), r#"{ "b":1}"#, &["a"]),
            (format!(r#"{{"b":1, "a":{{"x":["{long}"]}},"c":2}}"#), r#"{"b":1,"c":2}"#, &["a"]),
            (format!(r#"{{"b":1,"a":"{long}"}}"#), r#"{"b":1}"#, &["a"]),
            (format!(r#"{{"a":"{long}","\"":[{{"{long}":"}},"}}],"c":2}}"#), r#"{"c":2}"#, &["a", "\""]),
            (format!(r#"{{"{long}":1,"c":2}}"#), r#"{"c":2}"#, &[""]),
        ] {
            for (part, usual) in [(1, 1), (7, 100), (1_000, 1), (1_000, 100)] {
                let mut pieces = Pieces::of(usual, 50);
                let mut all = Vec::new();
                for part in text.as_bytes().chunks(part) {
                    all.extend(pieces.push(part).unwrap());
                }
                assert_eq!(pieces.take_skipped(), names, "{text}");
                all.push(pieces.end().unwrap());
                let read = |piece: &Vec<u8>| serde_json::from_slice::<Map<String, Value>>(piece).unwrap();
                let all: Map<String, Value> = all.iter().flat_map(read).collect();
                assert_eq!(all, serde_json::from_str::<Map<String, Value>>(kept).unwrap(), "{text}");
            }
        }
    }

    #[test]
    fn no_more_is_held_than_one_datum_may_have() {
        let small = format!("{{{}\"z\":1}}", r#""a":[1,2,3],"#.repeat(1_000));
        let mut pieces = Pieces::of(100, 50);
        for part in small.as_bytes().chunks(7) {
            pieces.push(part).unwrap();
            assert!(pieces.held.len() <= 150, "{}", pieces.held.len());
        }
        let long = format!("{{\"a\":1,\"b\":\"{}", "x".repeat(60));
        let mut pieces = Pieces::of(100, 50);
        for part in long.as_bytes().chunks(7) {
            assert_eq!(pieces.push(part), Ok(vec![]));
            assert!(pieces.held.len() <= 58, "{}", pieces.held.len());
        }
        assert_eq!(pieces.take_skipped(), ["b"]);
    }

    proptest::proptest! {
        #[test]
        fn all_pieces_together_are_the_answer(
            texts in proptest::collection::btree_map(r#"[a-c{}\[\]",\\]{0,4}"#, r#"[{}\[\]",\\ x]{0,12}"#, 0..12),
            part in 1_usize..9,
            usual in 1_usize..99,
        ) {
            let data: Map<String, Value> =
                texts.into_iter().map(|(key, text)| (key, serde_json::json!([{ "x": text }, [text]]))).collect();
            let mut read = Map::new();
            for piece in cut(Value::Object(data.clone()).to_string().as_bytes(), part, usual, 1_000).unwrap() {
                read.extend(serde_json::from_slice::<Map<String, Value>>(&piece).unwrap());
            }
            assert_eq!(read, data);
        }
    }
}
