//! What a step does: one action, its times in units, its expressions compiled.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use regex::Regex;

use super::text::{AckText, Pairs, Scalar, StepText};

/// What a step does.
#[derive(Debug, Clone)]
pub enum Action {
    /// Sends a request; groups found in the body become variables.
    Request {
        /// The request.
        request: HttpRequest,
        /// Variable name and expression with one group.
        save: Vec<(String, Regex)>,
    },
    /// Waits.
    Sleep(Duration),
    /// Binds a UDP port, which becomes a variable.
    UdpOpen(String),
    /// Receives a datagram.
    UdpRecv {
        /// Name of the port.
        name: String,
        /// How long to wait.
        timeout: Duration,
        /// Whether and how to acknowledge.
        ack: Ack,
        /// Receive until the time is up and answer the last one.
        drain: bool,
    },
    /// Sends a text to whoever sent the last datagram.
    UdpSend {
        /// Name of the port.
        name: String,
        /// The text.
        body: String,
    },
    /// Repeats a request until its body has, or no longer has, a text.
    Until {
        /// The request.
        request: HttpRequest,
        /// Text to wait for.
        contains: Option<String>,
        /// Text that has to go.
        lacks: Option<String>,
        /// How long to try.
        timeout: Duration,
    },
    /// Remembers this moment.
    Mark(String),
    /// Opens a TCP port that accepts and closes, or one that lets connection attempts time out.
    TcpOpen {
        /// Name; becomes a variable with the port.
        name: String,
        /// The port, as text with variables; any free one if absent.
        port: Option<String>,
        /// Let attempts time out.
        full: bool,
    },
    /// Opens an HTTP server with one answer.
    HttpOpen {
        /// Name; becomes a variable with the port.
        name: String,
        /// Its status.
        status: u16,
        /// Its headers.
        headers: Vec<(String, String)>,
        /// How long it waits before it answers.
        delay: Duration,
    },
    /// Changes the status of such a server.
    HttpStatus {
        /// Its name.
        name: String,
        /// The new status.
        status: u16,
    },
    /// Gives the first request that such a server saw.
    HttpSeen(String),
    /// Closes a TCP or HTTP server.
    Close(String),
    /// Sends bytes and reads whatever comes back.
    Raw(RawExchange),
}

/// A request over HTTP/1.1, variables not yet filled in.
#[derive(Debug, Clone)]
pub struct HttpRequest {
    /// E.g. `GET`.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// In order; without a value the header of that name isn't sent.
    pub headers: Vec<(String, Option<String>)>,
    /// The body.
    pub body: Option<String>,
    /// The body as form fields; stands in place of `body`.
    pub form: Option<Vec<(String, String)>>,
    /// For connecting, and for each reading and writing.
    pub timeout: Duration,
}

impl HttpRequest {
    /// With the usual headers and no body.
    pub fn new(method: &str, target: &str, timeout: Duration) -> Self {
        let (method, target) = (method.to_owned(), target.to_owned());
        Self { method, target, headers: Vec::new(), body: None, form: None, timeout }
    }
}

/// Bytes for what no HTTP library would send.
#[derive(Debug, Clone)]
pub struct RawExchange {
    /// Texts whose characters are bytes.
    pub pieces: Vec<String>,
    /// How long the line must be silent before the next piece goes.
    pub pause: Duration,
    /// How long the line must be silent at the end.
    pub idle: Duration,
    /// How long to wait for the answers.
    pub timeout: Duration,
    /// How many final answers are waited for.
    pub responses: usize,
    /// The answers have no body.
    pub head: bool,
}

/// How a received datagram is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ack {
    /// Not at all.
    No,
    /// With its `lastRefTime` as a number.
    Number,
    /// With its `lastRefTime` as a text.
    Text,
}

/// The action of a step.
pub fn action(text: StepText) -> Result<Action> {
    let ms = Duration::from_millis;
    let timeout = |default: u64| ms(text.timeout_ms.unwrap_or(default));
    let mut actions = Vec::new();
    if let Some(line) = text.request {
        let save = text
            .save
            .0
            .iter()
            .map(|(name, pattern)| {
                let pattern = Regex::new(pattern).with_context(|| format!("can't read {pattern:?}"))?;
                ensure!(pattern.captures_len() == 2, "{pattern} has not exactly one group");
                Ok((name.clone(), pattern))
            })
            .collect::<Result<_>>()?;
        let request = request(&line, text.headers.0.clone(), text.body.clone(), text.form, timeout(30_000))?;
        actions.push(Action::Request { request, save });
    }
    if let Some(wait) = text.sleep_ms {
        actions.push(Action::Sleep(ms(wait)));
    }
    if let Some(name) = text.udp_open {
        actions.push(Action::UdpOpen(name));
    }
    if let Some(name) = text.udp_recv {
        let ack = match text.ack {
            None | Some(AckText::Yes(false)) => Ack::No,
            Some(AckText::Yes(true)) => Ack::Number,
            Some(AckText::As(kind)) if kind == "text" => Ack::Text,
            Some(AckText::As(kind)) => bail!("ack may be true or \"text\", not {kind:?}"),
        };
        actions.push(Action::UdpRecv { name, timeout: timeout(5_000), ack, drain: text.drain });
    }
    if let Some(name) = text.udp_send {
        actions.push(Action::UdpSend { name, body: text.body.context("udp_send needs a body")? });
    }
    if let Some(until) = text.until {
        let request = request(&until.request, until.headers.0, until.body, until.form, ms(30_000))?;
        let limit = ms(text.timeout_ms.context("until needs a timeout_ms")?);
        actions.push(Action::Until { request, contains: until.contains, lacks: until.lacks, timeout: limit });
    }
    actions.extend(text.mark.map(Action::Mark));
    if let Some(name) = text.tcp_open {
        let port = text.port.map(Scalar::into_text);
        actions.push(Action::TcpOpen { name, port, full: text.full });
    }
    if let Some(name) = text.http_open {
        let headers = text.headers.0.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        let (status, delay) = (text.status.unwrap_or(200), ms(text.delay_ms.unwrap_or(0)));
        actions.push(Action::HttpOpen { name, status, headers, delay });
    }
    if let Some(name) = text.http_status {
        actions.push(Action::HttpStatus { name, status: text.status.context("http_status needs a status")? });
    }
    actions.extend(text.http_seen.map(Action::HttpSeen));
    actions.extend(text.close.map(Action::Close));
    if let Some(pieces) = text.raw {
        actions.push(Action::Raw(RawExchange {
            pieces,
            pause: ms(text.pause_ms.unwrap_or(100)),
            idle: ms(text.idle_ms.unwrap_or(300)),
            timeout: ms(text.timeout_ms.unwrap_or(10_000)),
            responses: text.responses.unwrap_or(1),
            head: text.head,
        }));
    }
    ensure!(actions.len() == 1, "a step needs exactly one action, this one has {}", actions.len());
    actions.pop().context("a step needs an action")
}

fn request(
    line: &str,
    headers: Vec<(String, Option<String>)>,
    body: Option<String>,
    form: Option<Pairs<Scalar>>,
    timeout: Duration,
) -> Result<HttpRequest> {
    let (method, target) =
        line.split_once(' ').with_context(|| format!("{line:?} is not of the form METHOD /path"))?;
    let form = form.map(|pairs| pairs.0.into_iter().map(|(name, value)| (name, value.into_text())).collect());
    Ok(HttpRequest { method: method.to_owned(), target: target.to_owned(), headers, body, form, timeout })
}
