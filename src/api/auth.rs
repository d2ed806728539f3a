//! `/v1/auth/login` while authentication is off: clients that log in get a token, which opens nothing.
//!
//! Only the well-known pair nacos/nacos logs in; no user is stored, and no entry asks for a token. The key is made
//! anew at each start. Source: Nacos 1.4.8 auth module, user controller; compat file `core-login`.

use std::io;

use http::{HeaderValue, StatusCode, header};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::Serialize;

use super::{
    Api, V1Call,
    params::Params,
    reply::{self, Refusal, Reply},
    routes::Outcome,
};

/// Name and password of the one account.
const ACCOUNT: &str = "nacos";
/// How long a token is good for, in seconds.
const TOKEN_TTL_SECONDS: u64 = 18_000;

/// Makes tokens.
pub struct Tokens {
    key: EncodingKey,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Tokens")
    }
}

#[derive(Serialize)]
struct Claims<'a> {
    sub: &'a str,
    exp: u64,
}

impl Tokens {
    /// Tokens of a key that nobody knows.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn new() -> io::Result<Self> {
        let mut secret = [0; 32];
        getrandom::getrandom(&mut secret)?;
        Ok(Self { key: EncodingKey::from_secret(&secret) })
    }

    /// A token for `subject` that is good for [`TOKEN_TTL_SECONDS`] from `wall_ms` on.
    fn sign(&self, subject: &str, wall_ms: u64) -> Result<String, Refusal> {
        let claims = Claims { sub: subject, exp: wall_ms / 1_000 + TOKEN_TTL_SECONDS };
        let header = Header { typ: None, ..Header::new(Algorithm::HS256) };
        jsonwebtoken::encode(&header, &claims, &self.key)
            .map_err(|error| Refusal::failed(format_args!("the token can not be signed: {error}")))
    }
}

/// What a login gets, fields in wire order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Login<'a> {
    access_token: &'a str,
    token_ttl: u64,
    global_admin: bool,
    username: &'a str,
}

/// POST login, users/login.
pub fn login(api: &Api, call: &V1Call) -> Outcome {
    let params = Params::of(call);
    let name = params.typed("username", "String")?;
    let password = params.typed("password", "String")?;
    if (name, password) != (ACCOUNT, ACCOUNT) {
        let text = "unknown user!".into();
        return Ok(Reply::Whole(Box::new(reply::text_response(&call.head, StatusCode::FORBIDDEN, text))));
    }
    let token = api.node.tokens.sign(name, api.clock.wall_ms())?;
    let bearer = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|error| Refusal::failed(format_args!("the token can not be sent: {error}")))?;
    let login =
        Login { access_token: &token, token_ttl: TOKEN_TTL_SECONDS, global_admin: true, username: name };
    let mut response = reply::json_response(&call.head, &login);
    response.headers_mut().insert(header::AUTHORIZATION, bearer);
    Ok(Reply::Whole(Box::new(response)))
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::{DecodingKey, Validation, decode, decode_header, errors::ErrorKind};
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Read {
        sub: String,
        exp: u64,
    }

    #[test]
    fn a_token_names_its_subject_and_end_and_opens_nothing_elsewhere() {
        let token = Tokens::new().unwrap().sign("nacos", 1_795_982_718_999).unwrap();
        assert_eq!(decode_header(&token).unwrap().typ, None);
        let mut validation = Validation::new(Algorithm::HS256);
        // The moment of signing is the test's own: the date of today must not decide what is read.
        validation.validate_exp = false;
        let strange = decode::<Read>(&token, &DecodingKey::from_secret(b"nacos"), &validation).err().unwrap();
        assert_eq!(*strange.kind(), ErrorKind::InvalidSignature);
        validation.insecure_disable_signature_validation();
        let claims = decode::<Read>(&token, &DecodingKey::from_secret(b""), &validation).unwrap().claims;
        assert_eq!((&*claims.sub, claims.exp), ("nacos", 1_795_982_718 + 18_000));
    }
}
