//! Where two texts part, byte by byte. No I/O.

/// As many bytes before the place are shown.
const BEFORE: usize = 24;

/// As many bytes from the place on are shown.
const AFTER: usize = 40;

/// The first place where two texts differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parting {
    /// Bytes that are alike.
    pub at: usize,
    /// What was expected around it, bytes beyond printable ASCII as escapes.
    pub want: String,
    /// What came around it.
    pub got: String,
}

impl Parting {
    /// The place; `None` if the texts are the same.
    pub fn of(want: &str, got: &str) -> Option<Self> {
        let at = want.bytes().zip(got.bytes()).take_while(|(one, other)| one == other).count();
        let around = |text: &str| {
            let from = at.saturating_sub(BEFORE);
            let part = &text.as_bytes()[from..text.len().min(at + AFTER)];
            let lead = if from > 0 { "…" } else { "" };
            let rest = if text.len() > at + AFTER { "…" } else { "" };
            format!("{lead}{}{rest}", part.escape_ascii())
        };
        (want != got).then(|| Self { at, want: around(want), got: around(got) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_byte_that_differs_is_named_with_what_is_around_it() {
        let parting = Parting::of("{\"weight\":1.0}", "{\"weight\":1}").unwrap();
        assert_eq!(
            (parting.at, &*parting.want, &*parting.got),
            (11, r#"{\"weight\":1.0}"#, r#"{\"weight\":1}"#)
        );
        assert_eq!(Parting::of("a", "a"), None);
        assert_eq!(Parting::of("é", "è").unwrap().want, "\\xc3\\xa9");
        assert_eq!(Parting::of("", "x").unwrap().got, "x");
        assert!(Parting::of(&"x".repeat(99), "y").unwrap().want.ends_with('…'));
    }
}
