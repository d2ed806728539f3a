//! Which metadata an instance must have: `version = v2, zone in (a, b), !retired | canary`.
//!
//! Pure. `,` and `&` are "and", `|` is "or" and binds weaker, `(` and `)` group; a key alone asks that it is there, `!`
//! that it isn't. What isn't a letter, a digit or one of `-._/` stands in double quotes. Values are compared to the byte.

use std::fmt;

/// Tokens of an expression at most.
const MOST_TOKENS: usize = 256;
/// Groups within groups at most.
const DEEPEST: usize = 16;

/// A condition on metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// The key is there.
    Has(Box<str>),
    /// Its value is one of these.
    In(Box<str>, Vec<Box<str>>),
    /// This doesn't hold.
    Not(Box<Expression>),
    /// All of these hold.
    All(Vec<Expression>),
    /// One of these holds.
    Any(Vec<Expression>),
}

/// Why a text is no expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// Something else was expected there.
    #[error("expected {expected}, got {found} in the expression")]
    Unexpected {
        /// What there should have been.
        expected: &'static str,
        /// What there was.
        found: String,
    },
    /// It has too many words or groups.
    #[error(
        "the expression is too long or too deep: {MOST_TOKENS} words, {DEEPEST} groups in each other at most"
    )]
    TooLong,
}

impl Expression {
    /// Reads an expression.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        let tokens = tokens(text)?;
        let mut parser = Parser { tokens: &tokens, depth: 0 };
        let expression = parser.any()?;
        match parser.tokens.first() {
            None => Ok(expression),
            Some(found) => Err(unexpected("the end, or one of , & |", Some(found))),
        }
    }

    /// Whether it holds of what `value` says of a key.
    pub fn holds(&self, value: &impl Fn(&str) -> Option<String>) -> bool {
        match self {
            Self::Has(key) => value(key).is_some(),
            Self::In(key, values) => value(key).is_some_and(|has| values.iter().any(|one| **one == *has)),
            Self::Not(inner) => !inner.holds(value),
            Self::All(parts) => parts.iter().all(|part| part.holds(value)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(value)),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Equal,
    Unequal,
    Not,
    And,
    Or,
    Open,
    Close,
}

impl fmt::Display for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self {
            Self::Word(word) => return write!(out, "{word:?}"),
            Self::Equal => "=",
            Self::Unequal => "!=",
            Self::Not => "!",
            Self::And => ", or &",
            Self::Or => "|",
            Self::Open => "(",
            Self::Close => ")",
        };
        out.write_str(sign)
    }
}

fn unexpected(expected: &'static str, found: Option<&Token>) -> ExpressionError {
    let found = found.map_or_else(|| "nothing".to_owned(), Token::to_string);
    ExpressionError::Unexpected { expected, found }
}

fn tokens(text: &str) -> Result<Vec<Token>, ExpressionError> {
    let mut tokens = Vec::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let token = match letter {
            letter if letter.is_whitespace() => continue,
            '(' => Token::Open,
            ')' => Token::Close,
            ',' | '&' => Token::And,
            '|' => Token::Or,
            '=' => Token::Equal,
            '!' if letters.next_if_eq(&'=').is_some() => Token::Unequal,
            '!' => Token::Not,
            '"' => {
                let mut word = String::new();
                loop {
                    match letters.next() {
                        Some('"') => break,
                        Some(letter) => word.push(letter),
                        None => return Err(unexpected("a \" at the end of a word in quotes", None)),
                    }
                }
                Token::Word(word)
            }
            letter if is_plain(letter) => {
                let mut word = String::from(letter);
                while let Some(letter) = letters.next_if(|letter| is_plain(*letter)) {
                    word.push(letter);
                }
                Token::Word(word)
            }
            other => {
                let found = format!("{other:?}");
                return Err(ExpressionError::Unexpected {
                    expected: "a word, or one of ( ) , & | = !",
                    found,
                });
            }
        };
        tokens.push(token);
        if tokens.len() > MOST_TOKENS {
            return Err(ExpressionError::TooLong);
        }
    }
    Ok(tokens)
}

fn is_plain(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '-' | '.' | '_' | '/')
}

struct Parser<'a> {
    tokens: &'a [Token],
    depth: usize,
}

impl Parser<'_> {
    fn takes(&mut self, token: &Token) -> bool {
        let is_next = self.tokens.first() == Some(token);
        if is_next {
            self.tokens = &self.tokens[1..];
        }
        is_next
    }

    fn word(&mut self, expected: &'static str) -> Result<Box<str>, ExpressionError> {
        match self.tokens.split_first() {
            Some((Token::Word(word), rest)) => {
                self.tokens = rest;
                Ok(word.as_str().into())
            }
            other => Err(unexpected(expected, other.map(|(token, _)| token))),
        }
    }

    fn any(&mut self) -> Result<Expression, ExpressionError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(ExpressionError::TooLong);
        }
        let mut parts = vec![self.all()?];
        while self.takes(&Token::Or) {
            parts.push(self.all()?);
        }
        self.depth -= 1;
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expression::Any(parts) })
    }

    fn all(&mut self) -> Result<Expression, ExpressionError> {
        let mut parts = vec![self.one()?];
        while self.takes(&Token::And) {
            parts.push(self.one()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expression::All(parts) })
    }

    fn one(&mut self) -> Result<Expression, ExpressionError> {
        let mut negated = false;
        while self.takes(&Token::Not) {
            negated = !negated;
        }
        let inner = if self.takes(&Token::Open) {
            let inner = self.any()?;
            self.close()?;
            inner
        } else {
            self.comparison()?
        };
        Ok(if negated { Expression::Not(Box::new(inner)) } else { inner })
    }

    fn comparison(&mut self) -> Result<Expression, ExpressionError> {
        let key = self.word("a key of the metadata")?;
        if self.takes(&Token::Equal) {
            // Also spelt as in programs.
            self.takes(&Token::Equal);
            return Ok(Expression::In(key, vec![self.word("a value")?]));
        }
        if self.takes(&Token::Unequal) {
            let equal = Expression::In(key, vec![self.word("a value")?]);
            return Ok(Expression::Not(Box::new(equal)));
        }
        if self.takes(&Token::Word("in".to_owned())) {
            return Ok(Expression::In(key, self.values()?));
        }
        if self.takes(&Token::Word("notin".to_owned())) {
            return Ok(Expression::Not(Box::new(Expression::In(key, self.values()?))));
        }
        Ok(Expression::Has(key))
    }

    fn values(&mut self) -> Result<Vec<Box<str>>, ExpressionError> {
        if !self.takes(&Token::Open) {
            return Err(unexpected("( and values", self.tokens.first()));
        }
        let mut values = vec![self.word("a value")?];
        while self.takes(&Token::And) {
            values.push(self.word("a value")?);
        }
        self.close()?;
        Ok(values)
    }

    fn close(&mut self) -> Result<(), ExpressionError> {
        if self.takes(&Token::Close) { Ok(()) } else { Err(unexpected(")", self.tokens.first())) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Whether `expression` holds of `version=v2`, `zone=a` and an empty `canary`.
    fn holds(expression: &str) -> bool {
        let has = |key: &str| match key {
            "version" => Some("v2".to_owned()),
            "zone" => Some("a".to_owned()),
            "canary" => Some(String::new()),
            _ => None,
        };
        Expression::parse(expression).unwrap_or_else(|error| panic!("{expression}: {error}")).holds(&has)
    }

    #[test]
    fn an_expression_says_which_metadata_are_meant() {
        for (expression, expected) in [
            ("version = v2", true),
            ("version==v2", true),
            ("version = v1", false),
            ("version = V2", false),
            ("version != v1", true),
            ("absent != v1", true),
            ("canary", true),
            ("!canary", false),
            ("!absent", true),
            ("canary = \"\"", true),
            ("zone in (b, a)", true),
            ("zone in (b)", false),
            ("zone notin (b, c)", true),
            ("version = v1 | zone = a", true),
            ("version = v1 | zone = a, absent", false),
            ("(version = v1 | zone = a) & canary", true),
            ("!(version = v1 | zone = a)", false),
            ("!!canary", true),
            ("\"version\" = \"v2\"", true),
        ] {
            assert_eq!(holds(expression), expected, "{expression}");
        }
    }

    #[test]
    fn what_is_no_expression_says_why() {
        for (text, reason) in [
            ("", "expected a key of the metadata, got nothing in the expression"),
            ("version =", "expected a value, got nothing in the expression"),
            ("version = v1 v2", "expected the end, or one of , & |, got \"v2\" in the expression"),
            ("zone in a", "expected ( and values, got \"a\" in the expression"),
            ("(zone", "expected ), got nothing in the expression"),
            ("zone = \"a", "expected a \" at the end of a word in quotes, got nothing in the expression"),
            ("zone > a", "expected a word, or one of ( ) , & | = !, got '>' in the expression"),
        ] {
            assert_eq!(Expression::parse(text).unwrap_err().to_string(), reason, "{text}");
        }
        assert_eq!(Expression::parse(&"(".repeat(100)), Err(ExpressionError::TooLong));
        assert_eq!(Expression::parse(&"a,".repeat(200)), Err(ExpressionError::TooLong));
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_reader(text in ".{0,80}") {
            let _ = Expression::parse(&text);
        }

        #[test]
        fn an_expression_and_its_negation_never_agree(text in "[ab!(),|=v ]{1,20}") {
            if let Ok(expression) = Expression::parse(&text) {
                let has = |key: &str| (key == "a").then(|| "v".to_owned());
                let negated = Expression::Not(Box::new(expression.clone()));
                prop_assert_ne!(expression.holds(&has), negated.holds(&has));
            }
        }
    }
}
