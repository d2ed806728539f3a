//! What no report, error or progress may show: the password of `--auth`, and tokens that were given for it.
//!
//! They are looked for by their letters, in the spellings in which they are sent and answered, and by the places where such things
//! stand, since a server may give further tokens in the cases about authentication. `nacos`, the password that everybody knows and
//! that is in every path, is hidden in these places only.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use regex::{Captures, Regex};

use crate::login::{RECORDED, base64};
use crate::target::escaped;

/// What stands in place of a secret.
pub const HIDDEN: &str = "***";

/// From so many letters on a secret is looked for within words, too.
const LONG: usize = 6;

/// Where secrets stand: what is before one, and it.
static PLACES: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r"(?i)(\b(?:password|newPassword|oldPassword|accessToken|access_token)=)([^&\s\x22'#]+)",
        // as JSON, as JSON within a text, and as a list of pairs
        r#"(?i)(\\*"(?:password|accessToken|access_token)\\*"\s*[:,]\s*\\*")((?:[^"\\]|\\+[^"\\])+)"#,
        r"(?i)(\b(?:Bearer|Basic)(?:\s|%20|\+)+)([\w.~+/=%-]{6,})",
        r"()(\beyJ[\w-]+\.[\w-]+\.[\w-]*)",
        r"(https?://)([^/@\s]+)@",
    ]
    .iter()
    .map(|pattern| Regex::new(pattern).expect("a literal pattern"))
    .collect()
});

/// The secrets of one run; clones share them.
#[derive(Clone, Default)]
pub struct Secrets(Arc<Mutex<Vec<String>>>);

impl std::fmt::Debug for Secrets {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Secrets")
    }
}

impl Secrets {
    /// Hides a login of the form `USER:PASSWORD` from now on; what isn't of this form is hidden as a whole.
    pub fn keep_login(&self, login: &str) {
        let password = login.split_once(':').map_or(login, |(_, password)| password);
        self.add(base64(login.as_bytes()));
        if password != RECORDED {
            self.keep(password);
        }
    }

    /// Hides a password or a token from now on.
    pub fn keep(&self, secret: &str) {
        let json = serde_json::Value::from(secret).to_string();
        let within_text = format!("{:?}", json.trim_matches('"'));
        for spelling in [
            secret,
            &escaped(secret),
            &escaped(secret).replace('+', "%20"),
            json.trim_matches('"'),
            within_text.trim_matches('"'),
        ] {
            self.add(spelling.to_owned());
        }
    }

    fn add(&self, spelling: String) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !spelling.is_empty() && !all.contains(&spelling) {
            all.push(spelling);
            // One may be part of another.
            all.sort_by_key(|one| std::cmp::Reverse(one.len()));
        }
    }

    /// The text without them.
    pub fn hidden(&self, text: &str) -> String {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let text = known.iter().fold(text.to_owned(), |text, secret| without(&text, secret));
        PLACES.iter().fold(text, |text, place| {
            place
                .replace_all(&text, |found: &Captures<'_>| found[0].replacen(&found[2], HIDDEN, 1))
                .into_owned()
        })
    }

    /// Hides them in a text that is kept.
    pub fn hide(&self, text: &mut String) {
        *text = self.hidden(text);
    }
}

/// The text with the secret hidden: a short one only where it stands by itself.
fn without(text: &str, secret: &str) -> String {
    if secret.chars().count() >= LONG {
        return text.replace(secret, HIDDEN);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(secret) {
        let (before, found) = rest.split_at(at);
        let after = &found[secret.len()..];
        let inside = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
        let part =
            inside(before.chars().next_back().or(out.chars().next_back())) || inside(after.chars().next());
        out.push_str(before);
        out.push_str(if part { secret } else { HIDDEN });
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(login: &str, text: &str) -> String {
        let secrets = Secrets::default();
        secrets.keep_login(login);
        secrets.hidden(text)
    }

    #[test]
    fn a_password_is_hidden_in_every_spelling_and_within_words() {
        let login = "me:p w/\"7";
        for text in [
            "refused: p w/\"7",
            "xp w/\"7x",
            "GET /l?a=b&p=p+w%2F%227&c=d",
            "GET /l?p=p%20w%2F%227",
            r#"{"echo":"p w/\"7"}"#,
            r#"[Response { body: "{\"echo\":\"p w/\\\"7\"}" }]"#,
            "Authorization: Basic bWU6cCB3LyI3",
        ] {
            let shown = hidden(login, text);
            assert!(shown.contains(HIDDEN), "{text}: {shown}");
            for left in ["p w", "p+w", "p%20w", "bWU6"] {
                assert!(!shown.contains(left), "{text}: {shown}");
            }
        }
    }

    #[test]
    fn a_short_password_is_hidden_where_it_stands_by_itself() {
        assert_eq!(hidden("me:ab", "ab=ab, \"ab\" table ab"), "***=***, \"***\" table ***");
        assert_eq!(hidden("me:nacos", "/nacos/v1?password=nacos&x=1"), "/nacos/v1?password=***&x=1");
    }

    #[test]
    fn tokens_are_hidden_where_they_stand_whoever_gave_them() {
        let secrets = Secrets::default();
        for (text, shown) in [
            ("GET /l?accessToken=abc.def&a=b", "GET /l?accessToken=***&a=b"),
            (r#"{"accessToken":"abc","tokenTtl":1}"#, r#"{"accessToken":"***","tokenTtl":1}"#),
            (r#""{\"accessToken\":\"abc\",\"a\":1}""#, r#""{\"accessToken\":\"***\",\"a\":1}""#),
            (
                r#"form [("username", "a"), ("password", "b c")]"#,
                r#"form [("username", "a"), ("password", "***")]"#,
            ),
            ("  Authorization: Bearer abcdef-1\n", "  Authorization: Bearer ***\n"),
            ("token eyJhbGciOi.eyJzdWIi.x-_Y expired!", "token *** expired!"),
            ("http://me:secret@host:1/x", "http://***@host:1/x"),
        ] {
            assert_eq!(secrets.hidden(text), shown);
        }
        secrets.keep("opaque-token");
        assert_eq!(secrets.hidden("who is opaque-token?"), "who is ***?");
        assert_eq!(format!("{secrets:?}"), "Secrets");
    }
}
