//! The variables of one run: `${run}`, `${authority}`, ports and saved texts.
//!
//! What is sent gets its variables filled in ([`Vars::expand`]); what came back gets the values of this run
//! replaced by their names ([`Vars::fold`]), so that it can be compared with a recording of another run.

use regex::Regex;

/// A value shorter than this isn't looked for in answers: `80` would be found everywhere.
const SHORTEST_FOLDED: usize = 4;

/// Names and values, in the order in which they were first set.
#[derive(Debug, Clone, Default)]
pub struct Vars(Vec<(String, String)>);

impl Vars {
    /// Sets or replaces a variable.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value.into(),
            None => self.0.push((name.to_owned(), value.into())),
        }
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Fills in `${name}` where the name is known, and `${pad:N}` with N letters `a`.
    pub fn expand(&self, text: &str) -> String {
        if !text.contains("${") {
            return text.to_owned();
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let Some(end) = rest[start..].find('}') else { break };
            out.push_str(&rest[..start]);
            let name = &rest[start + 2..start + end];
            let padding = name.strip_prefix("pad:").and_then(|count| count.parse::<usize>().ok());
            match (self.get(name), padding) {
                (Some(value), _) => out.push_str(value),
                (None, Some(count)) => out.extend(std::iter::repeat_n('a', count)),
                (None, None) => {
                    out.push_str("${");
                    rest = &rest[start + 2..];
                    continue;
                }
            }
            rest = &rest[start + end + 1..];
        }
        out.push_str(rest);
        out
    }

    /// Puts `${name}` where a value of this run stands, unless it is part of a longer number.
    pub fn fold(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in &self.0 {
            if !value.is_empty() && (name == "run" || value.len() >= SHORTEST_FOLDED) {
                text = fold_one(&text, value, &format!("${{{name}}}"));
            }
        }
        text
    }
}

fn fold_one(text: &str, value: &str, name: &str) -> String {
    let digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let (mut copied, mut from) = (0, 0);
    while let Some(found) = text[from..].find(value).map(|at| at + from) {
        let end = found + value.len();
        let before = found.checked_sub(1).and_then(|at| bytes.get(at));
        if digit(before) || digit(bytes.get(end)) {
            from = found + text[found..].chars().next().map_or(1, char::len_utf8);
        } else {
            out.push_str(&text[copied..found]);
            out.push_str(name);
            (copied, from) = (end, end);
        }
    }
    out.push_str(&text[copied..]);
    out
}

/// Puts a text in place of a `${name}` that stands where JSON has a number, so that the text is JSON again: another one than
/// stands for the same number within quotes.
pub fn quote_folded_numbers(text: &str) -> String {
    if !text.contains("${") {
        return text.to_owned();
    }
    let pattern = Regex::new(r#"":(\$\{\w+\})"#).expect("a literal pattern");
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len() + 8);
    let mut copied = 0;
    for found in pattern.captures_iter(text) {
        let (whole, name) = (found.get(0).expect("group 0"), found.get(1).expect("group 1"));
        let escaped = whole.start() > 0 && bytes[whole.start() - 1] == b'\\';
        if !escaped && matches!(bytes.get(whole.end()), Some(b',' | b'}')) {
            out.push_str(&text[copied..name.start()]);
            out.push_str(&format!("\"{} as a number\"", name.as_str()));
            copied = name.end();
        }
    }
    out.push_str(&text[copied..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars() -> Vars {
        let mut vars = Vars::default();
        vars.set("run", "tabc");
        vars.set("u1", "5000");
        vars.set("n", "80");
        vars
    }

    #[test]
    fn known_names_are_filled_in_and_unknown_ones_stay() {
        assert_eq!(vars().expand("${run}-${u1}-${x}-${pad:3}-${"), "tabc-5000-${x}-aaa-${");
        assert_eq!(vars().expand("${x${run}"), "${xtabc");
    }

    #[test]
    fn values_of_the_run_are_folded_unless_part_of_a_number_or_too_short() {
        assert_eq!(vars().fold("tabctabc 5000 50001 150005000 80"), "${run}${run} ${u1} 50001 150005000 80");
        assert_eq!(vars().fold(":5000,"), ":${u1},");
    }

    #[test]
    fn a_folded_number_is_quoted_only_where_a_number_stood() {
        assert_eq!(
            quote_folded_numbers(r#"{"p":${u1},"q":"${u1}"}"#),
            r#"{"p":"${u1} as a number","q":"${u1}"}"#
        );
        assert_eq!(quote_folded_numbers(r#"{\"p\":${u1}}"#), r#"{\"p\":${u1}}"#);
    }
}
