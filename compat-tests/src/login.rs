//! A login that somebody gave, in place of the one that recordings have: `nacos` with the password `nacos`. No I/O.

use crate::golden::{Action, Expected, HttpRequest, Scenario};
use crate::json::Json;
use crate::target::escaped;

/// The user and the password of recordings.
pub const RECORDED: &str = "nacos";

/// Who logs in.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The name.
    pub user: String,
    /// The password.
    pub password: String,
    /// Whether the server calls it a global administrator.
    pub admin: bool,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Login of {:?}", self.user)
    }
}

impl Login {
    /// The same conversation of this one: in queries, forms, headers, and the answers that name the user.
    #[must_use]
    pub fn in_place_of_the_recorded(&self, scenario: &Scenario) -> Scenario {
        let mut scenario = scenario.clone();
        for step in &mut scenario.steps {
            if let Action::Request { request, .. } | Action::Until { request, .. } = &mut step.action {
                self.asks(request);
            }
            for expected in &mut step.expected {
                if let Expected::Response(response) = expected {
                    response.body = self.answered(&response.body);
                }
            }
        }
        scenario
    }

    fn asks(&self, request: &mut HttpRequest) {
        request.target = self.query(&request.target);
        request.body = request.body.as_deref().map(|body| self.query(body));
        for (name, value) in request.form.iter_mut().flatten() {
            match &**name {
                "username" if value.as_str() == RECORDED => value.clone_from(&self.user),
                "password" if value.as_str() == RECORDED => value.clone_from(&self.password),
                _ => {}
            }
        }
        for (_, value) in &mut request.headers {
            let basic = |login: &str| format!("Basic {}", base64(login.as_bytes()));
            if value.as_deref() == Some(&*basic(&format!("{RECORDED}:{RECORDED}"))) {
                *value = Some(basic(&format!("{}:{}", self.user, self.password)));
            }
        }
    }

    /// Pairs of a query or a form. What is recorded as a wrong password is one for this login, too.
    fn query(&self, text: &str) -> String {
        let password = escaped(&self.password);
        text.replace("password=wrong", &format!("password=wrong-{password}"))
            .replace("username=nacos", &format!("username={}", escaped(&self.user)))
            .replace("password=nacos", &format!("password={password}"))
    }

    fn answered(&self, body: &str) -> String {
        let (admin, user) = (self.admin, Json::Text(self.user.clone()).written());
        body.replace(
            r#""globalAdmin":true,"username":"nacos""#,
            &format!(r#""globalAdmin":{admin},"username":{user}"#),
        )
    }
}

/// As RFC 4648 has it.
pub fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or_default());
        let bits = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        for at in 0..4 {
            let letter = char::from(LETTERS[((bits >> (18 - 6 * at)) & 63) as usize]);
            out.push(if at <= three.len() { letter } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_and_answers_name_this_login() {
        let login = Login { user: "a b".to_owned(), password: "p&q".to_owned(), admin: false };
        assert_eq!(login.query("/l?username=nacos&password=nacos"), "/l?username=a+b&password=p%26q");
        assert_eq!(login.query("/l?username=nacos&password=wrong"), "/l?username=a+b&password=wrong-p%26q");
        assert_eq!(
            login.query("/nacos/v1?username=nobody&password=x"),
            "/nacos/v1?username=nobody&password=x"
        );
        assert_eq!(
            login.answered(r#"{"tokenTtl":1,"globalAdmin":true,"username":"nacos"}"#),
            r#"{"tokenTtl":1,"globalAdmin":false,"username":"a b"}"#
        );
    }

    #[test]
    fn base64_is_as_the_rfc_has_it() {
        for (text, encoded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("nacos:nacos", "bmFjb3M6bmFjb3M=")]
        {
            assert_eq!(base64(text.as_bytes()), encoded);
        }
    }
}
