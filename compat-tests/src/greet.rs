//! Is there a Nacos 1.x server at the URL, how is it asked, and what can be shown of it?

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::facts::Need;
use crate::golden::{HttpRequest, RawExchange};
use crate::json::{Json, parse};
use crate::login::{Login, RECORDED};
use crate::target::{RawItem, Response, Target, escaped};

/// A question that every naming server answers 200, whatever it holds.
const QUESTION: &str = "/nacos/v1/ns/instance/list?serviceName=compat-tests-greeting";

/// A token of the user `nacos`, signed by the secret key of the recordings, that expired long ago.
const EXPIRED: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJuYWNvcyIsImV4cCI6MTYwMDAwMDAwMH0.XDj2j1tRYbnY6iOeWVoGXi4889D108kGXd4kvwm8I7o";

/// How long the first answers may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is known of the server before anything is played.
pub struct Greeting {
    /// How it is asked.
    pub target: Target,
    /// What it has of what cases may need. Whether it checks the health of instances isn't among it yet.
    pub has: Vec<Need>,
    /// Who was logged in.
    pub login: Option<Login>,
    /// How many members its cluster has, itself among them; 1 for one that stands alone.
    pub members: usize,
}

/// Whether a server that was greeted answers, be it a refusal, within 5 s.
pub fn answers(target: &Target) -> bool {
    target.send(&HttpRequest::new("GET", QUESTION, Duration::from_secs(5))).is_ok()
}

/// Asks the server who it is, and logs in if `auth` (`USER:PASSWORD`) is given.
///
/// # Errors
/// It isn't one that can be tried; the message says in one line why and what to do.
pub fn greet(target: Target, auth: Option<&str>) -> Result<Greeting> {
    target.probe()?;
    let bare = first_answer(&target, QUESTION)?;
    let demands_token = matches!(bare.status, 401 | 403);
    let (target, login) = match auth {
        Some(auth) => {
            let (target, login) = logged_in(target, auth)?;
            (target, Some(login))
        }
        None => {
            ensure!(!demands_token, "the server wants a login: give --auth USER:PASSWORD");
            (target, None)
        }
    };
    let answer = if auth.is_some() { target.send(&get(QUESTION))? } else { bare };
    ensure!(!matches!(answer.status, 401 | 403), "the login gives no right to read lists: {}", answer.body);
    ensure!(
        answer.status != 503,
        "the server says that it isn't UP, so it refuses what is played: {}",
        answer.body.trim()
    );
    let hosts = parse(&answer.body).ok().is_some_and(|list| matches!(list.get("hosts"), Some(Json::List(_))));
    if answer.status != 200 || !hosts {
        bail!("{}", not_nacos(&target, &answer));
    }
    let mut has = Vec::new();
    if target.address().ip().is_loopback() {
        has.push(Need::SameMachine);
    }
    if !target.context().is_empty() {
        has.push(Need::ContextPath);
    }
    if own_address(&target).as_deref() == Some(target.authority())
        && target.authority().starts_with("127.0.0.1:")
    {
        has.push(Need::OwnAddress);
    }
    if login.is_some() || !refuses_recorded(&target) {
        has.push(Need::Login);
    }
    if let Some(login) = login.as_ref().filter(|_| demands_token) {
        has.extend(authentication(&target, login)?);
    }
    let members = members(&target);
    Ok(Greeting { target, has, login, members })
}

/// What a server has that asks for a login. Its rights can only be tried by an administrator.
fn authentication(target: &Target, login: &Login) -> Result<Vec<Need>> {
    let stranger = target.clone().with_token(None);
    let asked_with = |name: &str, value: &str| {
        let header = (name.to_owned(), Some(value.to_owned()));
        stranger.send(&HttpRequest { headers: vec![header], ..get(QUESTION) })
    };
    let mut has = Vec::new();
    if asked_with("User-Agent", "Nacos-Server")?.status == 200 {
        has.push(Need::AuthWhiteList);
    } else if login.admin {
        has.push(Need::Auth);
    }
    let old = stranger.send(&get(&format!("{QUESTION}&accessToken={EXPIRED}")))?;
    if login.user == RECORDED && old.body.contains("expired") {
        has.push(Need::RecordedKey);
    }
    if asked_with("X-Golden-Identity", "golden-identity-value")?.status == 200 {
        has.push(Need::RecordedIdentity);
    }
    if stranger.send(&get("/nacos/actuator/metrics"))?.status != 404 {
        has.push(Need::Metrics);
    }
    Ok(has)
}

/// Whether the login of recordings is none here. One who doesn't know logins at all refuses nobody.
fn refuses_recorded(target: &Target) -> bool {
    let path = format!("/nacos/v1/auth/login?username={RECORDED}&password={RECORDED}");
    target.send(&HttpRequest::new("POST", &path, PATIENCE)).is_ok_and(|answer| answer.status == 403)
}

/// How many members the server's cluster has; one that can't say stands alone.
fn members(target: &Target) -> usize {
    let answer = target.send(&get("/nacos/v1/core/cluster/nodes")).ok();
    let nodes = answer.and_then(|answer| parse(&answer.body).ok());
    match nodes.as_ref().and_then(|nodes| nodes.get("data")) {
        Some(Json::List(nodes)) => nodes.len().max(1),
        _ => 1,
    }
}

/// The first answer, by raw bytes, since it may be of anything that listens.
fn first_answer(target: &Target, path: &str) -> Result<Response> {
    let exchange = RawExchange {
        pieces: vec![format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            target.authority()
        )],
        pause: Duration::ZERO,
        idle: Duration::from_millis(20),
        timeout: PATIENCE,
        responses: 1,
        head: false,
    };
    let who = target.authority();
    let answer = target.exchange(&exchange)?.items.into_iter().next();
    let (status, headers, body) = match answer {
        None if answers_tls(target) => bail!("{}", speaks_tls(who)),
        None => bail!("{who} takes connections but doesn't answer HTTP within {} s", PATIENCE.as_secs()),
        Some(RawItem::Garbage(text)) if text.starts_with("\u{15}\u{3}") => bail!("{}", speaks_tls(who)),
        Some(RawItem::Garbage(_)) => bail!("what listens at {who} doesn't speak HTTP"),
        Some(RawItem::Response { status, headers, body }) => (status, headers, body),
    };
    if status == 400 && body.contains("HTTPS") || body.contains("requires TLS") {
        bail!("{}", speaks_tls(who));
    }
    if (300..400).contains(&status) {
        let place = headers.iter().find(|(name, _)| name == "location").map(|(_, value)| value.as_str());
        bail!("{who} redirects to {}: give the URL that it leads to", place.unwrap_or("nowhere"));
    }
    Ok(Response { status, headers, body })
}

/// Whether the beginning of a TLS handshake is answered by TLS, be it by a refusal.
fn answers_tls(target: &Target) -> bool {
    let random = "r".repeat(32);
    let hello = format!("\u{3}\u{3}{random}\0\0\u{4}\u{c0}\u{2f}\0\u{2f}\u{1}\0");
    let length = |text: &str| char::from(text.chars().count() as u8);
    let handshake = format!("\u{1}\0\0{}{hello}", length(&hello));
    let exchange = RawExchange {
        pieces: vec![format!("\u{16}\u{3}\u{1}\0{}{handshake}", length(&handshake))],
        pause: Duration::ZERO,
        idle: Duration::from_millis(500),
        timeout: Duration::from_secs(2),
        responses: 1,
        head: false,
    };
    let first = target.exchange(&exchange).ok().and_then(|answer| answer.items.into_iter().next());
    matches!(first, Some(RawItem::Garbage(text)) if text.starts_with(['\u{15}', '\u{16}']))
}

fn speaks_tls(who: &str) -> String {
    format!(
        "{who} speaks TLS, which this program doesn't: give it the plain port, or a proxy that takes TLS off"
    )
}

/// Why this is no such server, with the context path under which there is one, if there is.
fn not_nacos(target: &Target, answer: &Response) -> String {
    let here = if target.context().is_empty() { "/" } else { target.context() };
    for context in ["/nacos", "/"] {
        let other = target.clone().under(context);
        let found = other.context() != target.context()
            && other
                .send(&get(QUESTION))
                .is_ok_and(|answer| answer.status == 200 && answer.body.contains("\"hosts\""));
        if found {
            return format!(
                "nothing of Nacos stands under {here}, but under {context}: give --context {context}"
            );
        }
    }
    let head: String = answer.body.chars().take(80).collect();
    format!(
        "this is no Nacos 1.x server: a list of instances under {here} was answered {} {:?}; \
         if it stands under another path, give --context PATH",
        answer.status,
        head.replace(['\r', '\n'], " ")
    )
}

/// The server as it is asked by `USER:PASSWORD`, and who that is.
///
/// # Errors
/// The login is refused, or there is none.
pub fn logged_in(target: Target, auth: &str) -> Result<(Target, Login)> {
    let (token, login) = log_in(&target, auth)?;
    Ok((target.with_token(Some(token)), login))
}

/// The token for `USER:PASSWORD`, and who that is.
fn log_in(target: &Target, auth: &str) -> Result<(String, Login)> {
    target.secrets().keep_login(auth);
    let (user, password) = auth.split_once(':').context("--auth is not of the form USER:PASSWORD")?;
    let query = format!("username={}&password={}", escaped(user), escaped(password));
    for path in ["/nacos/v1/auth/login", "/nacos/v1/auth/users/login"] {
        let answer = target.send(&HttpRequest::new("POST", &format!("{path}?{query}"), PATIENCE))?;
        let answered = parse(&answer.body).ok();
        let token = answered.as_ref().and_then(|answer| answer.get("accessToken"));
        match (answer.status, token) {
            (200, Some(Json::Text(token))) => {
                target.secrets().keep(token);
                let admin = answered.as_ref().and_then(|answer| answer.get("globalAdmin"));
                let admin = admin != Some(&Json::Bool(false));
                let login = Login { user: user.to_owned(), password: password.to_owned(), admin };
                return Ok((token.clone(), login));
            }
            (404 | 405 | 501, _) => {}
            (status, _) => bail!("the login as {user:?} is refused: {status} {}", answer.body.trim()),
        }
    }
    bail!("--auth is given, but the server has no login")
}

fn own_address(target: &Target) -> Option<String> {
    let answer = target.send(&get("/nacos/v1/core/cluster/self")).ok()?;
    match parse(&answer.body).ok()?.get("data")?.get("address")? {
        Json::Text(address) => Some(address.clone()),
        _ => None,
    }
}

fn get(path: &str) -> HttpRequest {
    HttpRequest::new("GET", path, PATIENCE)
}
