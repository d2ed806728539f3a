//! Masks: a regular expression and what stands in place of its matches before bodies are compared.

use anyhow::{Context as _, Result};
use regex::Regex;

/// A compiled mask.
#[derive(Debug, Clone)]
pub struct Mask {
    pattern: Regex,
    replacement: String,
}

impl Mask {
    /// A mask; the replacement names groups as `\1` and a backslash as `\\`.
    ///
    /// # Errors
    /// If the pattern can't be compiled.
    pub fn new(pattern: &str, replacement: &str) -> Result<Self> {
        let pattern = Regex::new(pattern).with_context(|| format!("can't read the mask {pattern:?}"))?;
        Ok(Self { pattern, replacement: replacement_of(replacement) })
    }

    /// The text with every match replaced.
    pub fn apply(&self, text: &str) -> String {
        self.pattern.replace_all(text, self.replacement.as_str()).into_owned()
    }
}

/// The replacement in the notation of the `regex` crate.
fn replacement_of(template: &str) -> String {
    let mut out = String::new();
    let mut letters = template.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, letters.peek().copied()) {
            ('$', _) => out.push_str("$$"),
            ('\\', Some(next)) => {
                letters.next();
                match next {
                    '0'..='9' => out.push_str(&format!("${{{next}}}")),
                    'n' => out.push('\n'),
                    '$' => out.push_str("$$"),
                    other => out.push(other),
                }
            }
            _ => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_backslashes_and_dollars_mean_what_the_format_says() {
        let mask = Mask::new(r#"(?s)^\{"(a|b)".*"(\$\{run\}\w*)".*$"#, r"\1 has \2").unwrap();
        assert_eq!(mask.apply("{\"a\":[\n\"${run}x\"]}"), "a has ${run}x");
        assert_eq!(Mask::new("x", r#"\\"${y}"#).unwrap().apply("axa"), r#"a\"${y}a"#);
    }

    #[test]
    fn a_bad_pattern_is_an_error() {
        assert!(Mask::new("(", "").is_err());
    }
}
