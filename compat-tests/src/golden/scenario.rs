//! Scenarios ready to be run: one action a step, expressions compiled, contradictions refused.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use regex::Regex;

use super::text::{
    AckText, ClassText, Pairs, RawText, ResponseText, Scalar, ScenarioText, StatusText, StepText,
};
use crate::mask::Mask;

/// The scenarios of one file.
#[derive(Debug, Clone)]
pub struct Suite {
    /// The file's name without `.json`.
    pub name: String,
    /// In the order of the file.
    pub scenarios: Vec<Scenario>,
}

/// A conversation with a server, with what it answered.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Unique in its suite.
    pub name: String,
    /// What it shows.
    pub about: Option<String>,
    /// What the server needs beyond the usual start.
    pub server: Option<String>,
    /// Present if the recorded behaviour had better not be copied; says what is right instead.
    pub fault: Option<String>,
    /// Present if this scenario states better behaviour than was recorded; the identifier of the improvement.
    pub improves: Option<String>,
    /// Uses fixed service names: runs once per server.
    pub fixed: bool,
    /// In order.
    pub steps: Vec<Step>,
}

/// One step.
#[derive(Debug, Clone)]
pub struct Step {
    /// What is done.
    pub action: Action,
    /// How its answer is compared.
    pub rules: Rules,
    /// The mark from which the time of this step counts; without one, from its beginning.
    pub since: Option<String>,
    /// What may come back: any of these. Empty: not compared.
    pub expected: Vec<Expected>,
}

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

/// How answers are compared.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Keys, or paths with `*` for any index, whose values are compared by kind only.
    pub volatile: Vec<String>,
    /// Keys or paths of lists without order.
    pub unordered: Vec<String>,
    /// Applied to bodies before comparing.
    pub masks: Vec<Mask>,
    /// Leaves out the body.
    pub ignore_body: bool,
    /// Leaves out the media type.
    pub ignore_type: bool,
    /// Headers that are compared too, in lower case.
    pub headers: Vec<String>,
    /// The answer must not come earlier.
    pub min: Option<Duration>,
}

/// An answer that is right.
#[derive(Debug, Clone)]
pub enum Expected {
    /// To a request.
    Response(ExpectedResponse),
    /// A datagram.
    Datagram {
        /// Whether it was compressed.
        gzip: bool,
        /// Its text.
        body: String,
    },
    /// No datagram.
    Nothing,
    /// The text came, or went.
    Reached,
    /// What came back over a raw connection.
    Raw {
        /// In order.
        responses: Vec<ExpectedRaw>,
        /// Whether the server closed the connection.
        closed: bool,
    },
}

/// An HTTP response that is right.
#[derive(Debug, Clone)]
pub struct ExpectedResponse {
    /// Which status.
    pub status: Status,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// Decoded.
    pub body: String,
}

/// One item of a raw answer.
#[derive(Debug, Clone)]
pub enum ExpectedRaw {
    /// A response.
    Response(ExpectedResponse),
    /// What was no complete response.
    Garbage(String),
}

/// Which statuses are right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status(Vec<(u16, u16)>);

impl Status {
    /// Exactly this one.
    pub fn one(status: u16) -> Self {
        Self(vec![(status, status)])
    }

    /// Whether `status` is right.
    pub fn accepts(&self, status: u16) -> bool {
        self.0.iter().any(|(from, to)| (*from..=*to).contains(&status))
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, (from, to)) in self.0.iter().enumerate() {
            out.write_str(if at == 0 { "" } else { " or " })?;
            if from == to { write!(out, "{from}")? } else { write!(out, "{from} to {to}")? }
        }
        Ok(())
    }
}

impl TryFrom<&StatusText> for Status {
    type Error = anyhow::Error;

    fn try_from(text: &StatusText) -> Result<Self> {
        let items = match text {
            StatusText::One(status) => return Ok(Self::one(*status)),
            StatusText::OneOf(items) => items,
        };
        ensure!(!items.is_empty(), "a list of statuses is empty");
        let range = |item: &ClassText| match item {
            ClassText::Number(status) => Ok((*status, *status)),
            ClassText::Class(class) => match class.as_bytes() {
                [digit @ b'1'..=b'5', b'x', b'x'] => {
                    let from = u16::from(digit - b'0') * 100;
                    Ok((from, from + 99))
                }
                _ => Err(anyhow!("{class:?} is no class of statuses such as 4xx")),
            },
        };
        Ok(Self(items.iter().map(range).collect::<Result<_>>()?))
    }
}

/// Reads the scenarios of a file.
///
/// # Errors
/// If the file can't be read or isn't in the format; the message names the file, the scenario and the step.
pub fn load(file: &Path) -> Result<Suite> {
    let shown = file.display();
    let text = fs::read_to_string(file).with_context(|| format!("can't read {shown}"))?;
    let texts: Vec<ScenarioText> =
        serde_json::from_str(&text).with_context(|| format!("{shown} is not in the format of scenarios"))?;
    let name = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let scenarios = texts
        .into_iter()
        .map(|text| {
            let named = format!("{shown}: scenario {:?}", text.name);
            scenario(text).context(named)
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Suite { name, scenarios })
}

/// Reads every `.json` file of a folder, by name.
///
/// # Errors
/// As [`load`]; also if the folder can't be read or has no such file.
pub fn load_folder(folder: &Path) -> Result<Vec<Suite>> {
    let shown = folder.display();
    let entries = fs::read_dir(folder).with_context(|| format!("can't read the folder {shown}"))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("can't read the folder {shown}"))?.path();
        if path.extension().is_some_and(|ext| ext == "json") {
            files.push(path);
        }
    }
    ensure!(!files.is_empty(), "no .json file in {shown}");
    files.sort();
    files.iter().map(|file| load(file)).collect()
}

fn scenario(text: ScenarioText) -> Result<Scenario> {
    let fixed = text.fixed;
    let steps = text
        .steps
        .into_iter()
        .enumerate()
        .map(|(at, text)| step(text, fixed).with_context(|| format!("step {at}")))
        .collect::<Result<_>>()?;
    Ok(Scenario {
        name: text.name,
        about: text.about,
        server: text.server,
        fault: text.fault,
        improves: text.improves,
        fixed,
        steps,
    })
}

fn step(mut text: StepText, fixed: bool) -> Result<Step> {
    let mut expected = Vec::new();
    for answer in text.response.take().into_iter().chain(std::mem::take(&mut text.or)) {
        expected.push(expected_of(answer)?);
    }
    let mut volatile = std::mem::take(&mut text.volatile);
    if !fixed && !volatile.iter().any(|key| key == "checksum") {
        volatile.push("checksum".to_owned()); // it covers the service's name, which differs from run to run
    }
    let masks = text.mask.iter().map(|(pattern, to)| Mask::new(pattern, to)).collect::<Result<_>>()?;
    let rules = Rules {
        volatile,
        unordered: std::mem::take(&mut text.unordered),
        masks,
        ignore_body: text.ignore_body,
        ignore_type: text.ignore_type,
        headers: std::mem::take(&mut text.compare_headers),
        min: text.min_ms.map(Duration::from_millis),
    };
    let since = text.since.take();
    Ok(Step { action: action(text)?, rules, since, expected })
}

fn action(text: StepText) -> Result<Action> {
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

fn expected_of(text: ResponseText) -> Result<Expected> {
    if let Some(items) = text.raw {
        let closed = text.closed.context("a raw response needs closed")?;
        let responses = items.into_iter().map(raw_of).collect::<Result<_>>()?;
        return Ok(Expected::Raw { responses, closed });
    }
    if let Some(reached) = text.reached {
        ensure!(reached, "a recorded wait that wasn't reached says nothing");
        return Ok(Expected::Reached);
    }
    if text.nothing == Some(true) {
        return Ok(Expected::Nothing);
    }
    if let Some(gzip) = text.gzip {
        return Ok(Expected::Datagram { gzip, body: text.body });
    }
    let status = text.status.context("a response needs a status")?;
    Ok(Expected::Response(response_of(&status, text.headers.0, text.body)?))
}

fn raw_of(text: RawText) -> Result<ExpectedRaw> {
    match (text.garbage, text.status) {
        (Some(garbage), _) => Ok(ExpectedRaw::Garbage(garbage)),
        (None, Some(status)) => Ok(ExpectedRaw::Response(response_of(&status, text.headers.0, text.body)?)),
        (None, None) => bail!("an item of a raw response needs a status or garbage"),
    }
}

fn response_of(
    status: &StatusText,
    headers: Vec<(String, String)>,
    body: String,
) -> Result<ExpectedResponse> {
    Ok(ExpectedResponse { status: Status::try_from(status)?, headers, body })
}
