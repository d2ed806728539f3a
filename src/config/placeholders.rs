//! `${NAME}` and `${NAME:default}` in values, nested as deep as they like.
//!
//! Pure. Names are looked up where Spring looks: among all given keys and in the environment.

use super::values::Reason;

/// No resolved value is longer; a file of placeholders that double each other ends here.
const LONGEST_VALUE: usize = 64 * 1024;

/// Placeholders within placeholders, however they come about, go no deeper.
const DEEPEST: usize = 32;

/// No value takes more placeholders: some that double each other with empty text have no length.
const MOST: usize = 1_000;

/// Replaces every placeholder of `text`, also in what is put in.
///
/// # Errors
/// A name that nothing gives and that has no default, a `${` without `}`, a name that needs itself, or
/// a value above 64 KiB.
pub(super) fn resolve(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, Reason> {
    Resolver { lookup, open: Vec::new(), depth: 0, replaced: 0 }.expand(text)
}

struct Resolver<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    /// Names whose values are being resolved, outermost first.
    open: Vec<String>,
    depth: usize,
    replaced: usize,
}

impl Resolver<'_> {
    fn expand(&mut self, text: &str) -> Result<String, Reason> {
        if self.depth > DEEPEST {
            return Err(format!("its placeholders are nested deeper than {DEEPEST}"));
        }
        self.depth += 1;
        let mut resolved = String::new();
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            resolved.push_str(&rest[..start]);
            let inner = &rest[start + 2..];
            let Some(end) = closing_brace(inner) else {
                return Err("a placeholder ${ has no closing }".to_owned());
            };
            resolved.push_str(&self.replacement(&inner[..end])?);
            if resolved.len() > LONGEST_VALUE {
                return Err(format!("its placeholders make it longer than {LONGEST_VALUE} bytes"));
            }
            rest = &inner[end + 1..];
        }
        resolved.push_str(rest);
        self.depth -= 1;
        Ok(resolved)
    }

    fn replacement(&mut self, inner: &str) -> Result<String, Reason> {
        self.replaced += 1;
        if self.replaced > MOST {
            return Err(format!("it takes more than {MOST} placeholders"));
        }
        let (name, default) = match top_level_colon(inner) {
            Some(colon) => (&inner[..colon], Some(&inner[colon + 1..])),
            None => (inner, None),
        };
        let name = self.expand(name)?;
        if self.open.contains(&name) {
            return Err(format!("the placeholder ${{{name}}} needs itself"));
        }
        match ((self.lookup)(&name), default) {
            (Some(value), _) => {
                self.open.push(name);
                let value = self.expand(&value)?;
                self.open.pop();
                Ok(value)
            }
            (None, Some(default)) => self.expand(default),
            (None, None) => Err(format!(
                "nothing gives a value for the placeholder ${{{name}}}; set {name}, or write ${{{name}:default}}"
            )),
        }
    }
}

/// Where the `}` stands that ends a placeholder whose content begins `inner`.
fn closing_brace(inner: &str) -> Option<usize> {
    position_at_depth_zero(inner, b'}')
}

/// Where the `:` stands that parts a name from its default.
fn top_level_colon(inner: &str) -> Option<usize> {
    position_at_depth_zero(inner, b':')
}

fn position_at_depth_zero(inner: &str, wanted: u8) -> Option<usize> {
    let bytes = inner.as_bytes();
    let mut depth = 0_usize;
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"${") {
            depth += 1;
            at += 2;
            continue;
        }
        if depth == 0 && bytes[at] == wanted {
            return Some(at);
        }
        if bytes[at] == b'}' {
            depth = depth.checked_sub(1)?;
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(names: &[(&str, &str)], text: &str) -> Result<String, Reason> {
        resolve(text, &|name| {
            names.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn names_defaults_and_nesting_are_resolved() {
        let names = [("A", "1"), ("B", "${A}2"), ("NAME", "A"), ("EMPTY", "")];
        for (text, value) in [
            ("plain", "plain"),
            ("${A}", "1"),
            ("x${A}y${B}z", "x1y12z"),
            ("${MISSING:8848}", "8848"),
            ("${MISSING:}", ""),
            ("${EMPTY:full}", ""),
            ("${MISSING:${ALSO:${A}}}", "1"),
            ("${A:${NOT_NEEDED}}", "1"),
            ("${${NAME}}", "1"),
            ("${MISSING:http://h:1/p}", "http://h:1/p"),
            ("$A {A} }", "$A {A} }"),
        ] {
            assert_eq!(with(&names, text).as_deref(), Ok(value), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_resolved_is_an_error() {
        let names = [("LOOP", "a${POOL}"), ("POOL", "${LOOP}")];
        for (text, reason) in [
            (
                "${MISSING}",
                "nothing gives a value for the placeholder ${MISSING}; set MISSING, or write ${MISSING:default}",
            ),
            ("a${A:b", "a placeholder ${ has no closing }"),
            ("${LOOP}", "the placeholder ${LOOP} needs itself"),
        ] {
            assert_eq!(with(&names, text), Err(reason.to_owned()));
        }
    }

    #[test]
    fn nesting_has_a_limit() {
        let text = format!("{}A{}", "${".repeat(40), "}".repeat(40));
        assert_eq!(with(&[("A", "A")], &text), Err("its placeholders are nested deeper than 32".to_owned()));
    }

    #[test]
    fn placeholders_that_double_each_other_end() {
        for (last, reason) in [
            ("x".repeat(1024), "its placeholders make it longer than 65536 bytes"),
            (String::new(), "it takes more than 1000 placeholders"),
        ] {
            let lookup = |name: &str| match name.parse::<u32>().expect("a number") {
                20 => Some(last.clone()),
                n => Some(format!("${{{0}}}${{{0}}}", n + 1)),
            };
            assert_eq!(resolve("${0}", &lookup), Err(reason.to_owned()));
        }
    }
}
