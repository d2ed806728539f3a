//! Regular expressions over grouped names, as searches and the catalog take them.
//!
//! Pure. They come from callers, so they run on an engine whose time is linear in the length of the name, and are
//! bounded in length and in compiled size. Source: Nacos 1.4.8 naming module, its searches; compat files
//! `service-search`, `catalog-services`.
//!
//! Java's syntax differs a little. Refused here: looking around, back references, `\Q..\E`, `\R`, `\h`, `\Z`. Read
//! differently: `a++` and the like repeat and don't hold on to what they took. An alternative (`a|b`) stands for itself;
//! the reference puts texts around it without a bracket, so that only its ends are open.

use regex::bytes::{Regex, RegexBuilder};

/// Longest expression, in bytes.
const LONGEST: usize = 1_000;
/// Largest compiled form, in bytes.
const LARGEST: usize = 64 << 10;
/// Deepest nesting of brackets.
const DEEPEST: u32 = 50;

/// An expression can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the regular expression can not be used: {0}")]
pub struct PatternError(String);

/// Which grouped names are meant.
#[derive(Clone, Debug)]
pub struct NamePattern(Option<Regex>);

impl NamePattern {
    /// Those in which `expression` is found; empty means all.
    ///
    /// # Errors
    /// [`PatternError`] where it doesn't compile or is too large.
    pub fn anywhere(expression: &str) -> Result<Self, PatternError> {
        if expression.is_empty() {
            return Ok(Self(None));
        }
        check_length(expression)?;
        compile(expression).map(|regex| Self(Some(regex)))
    }

    /// Those in whose group `group` is found, and `service` in what follows; a blank one means all.
    ///
    /// # Errors
    /// [`PatternError`] where one of them doesn't compile or is too large.
    pub fn of_parts(group: &str, service: &str) -> Result<Self, PatternError> {
        let (group, service) = (group.trim(), service.trim());
        if group.is_empty() && service.is_empty() {
            return Ok(Self(None));
        }
        // Each must be an expression by itself, and not only together with the brackets around it.
        for expression in [group, service] {
            check_length(expression)?;
            compile(expression)?;
        }
        let whole = format!(r"\A.*(?:{group}).*@@.*(?:{service}).*\z");
        compile(&whole).map(|regex| Self(Some(regex)))
    }

    /// Whether `name` is meant.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|regex| regex.is_match(name.as_bytes()))
    }
}

fn check_length(expression: &str) -> Result<(), PatternError> {
    if expression.len() > LONGEST {
        return Err(PatternError(format!("it has more than {LONGEST} bytes")));
    }
    Ok(())
}

fn compile(expression: &str) -> Result<Regex, PatternError> {
    // Names are ASCII, and Java's classes are too: without Unicode the compiled form stays small.
    let regex = RegexBuilder::new(expression)
        .unicode(false)
        .size_limit(LARGEST)
        .dfa_size_limit(16 * LARGEST)
        .nest_limit(DEEPEST)
        .build();
    regex.map_err(|error| match error {
        regex::Error::CompiledTooBig(limit) => {
            PatternError(format!("its compiled form has more than {limit} bytes"))
        }
        error => {
            // The last line of the engine's report says what is wrong, those before it draw where.
            let report = error.to_string();
            let reason = report.lines().last().unwrap_or_default();
            PatternError(format!("{expression}: {}", reason.trim_start_matches("error: ")))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pattern: &NamePattern, name: &str) -> bool {
        pattern.matches(name)
    }

    #[test]
    fn an_expression_is_found_anywhere() {
        let name = "DEFAULT_GROUP@@s1";
        for expression in ["", "s1", "DEFAULT", "s[12]", ".*", "A", "@@s", r"\d", "x|s1", "^DEF", "1$"] {
            assert!(found(&NamePattern::anywhere(expression).unwrap(), name), "{expression}");
        }
        for expression in ["zzz", "^s", "default", "S1"] {
            assert!(!found(&NamePattern::anywhere(expression).unwrap(), name), "{expression}");
        }
    }

    #[test]
    fn the_parts_have_expressions_of_their_own() {
        let parts =
            |group: &str, service: &str| found(&NamePattern::of_parts(group, service).unwrap(), "GRP@@svc-1");
        assert!(parts("", "svc") && parts("RP", "") && parts(" GRP ", "svc-[12]") && parts("a|GRP", "b|svc"));
        assert!(!parts("svc", "") && !parts("", "GRP") && !parts("GRP", "SVC"));
    }

    #[test]
    fn what_does_not_compile_is_refused() {
        for expression in ["(", ")", "*", "a)(b", "[", r"(?=a)", r"(a)\1", r"\Qa\E"] {
            assert!(NamePattern::anywhere(expression).is_err(), "{expression}");
            assert!(NamePattern::of_parts("", expression).is_err(), "{expression}");
        }
    }

    #[test]
    fn size_and_length_are_bounded() {
        assert!(NamePattern::anywhere("((a{100}){100}){100}").is_err());
        assert!(NamePattern::anywhere(&"a".repeat(3_000)).is_err());
        assert!(NamePattern::anywhere(&"(".repeat(200)).is_err());
        assert!(NamePattern::anywhere(&format!("{}a{}", "(".repeat(100), ")".repeat(100))).is_err());
    }
}
