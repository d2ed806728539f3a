//! Plays one scenario against a server: step by step, each answer folded so that it can be compared.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use regex::Regex;

use crate::clock::{Clock, Moment};
use crate::golden::{Action, HttpRequest, RawExchange, Scenario, Step};
use crate::shuffle::run_token;
use crate::target::{Datagram, HttpTarget, Port, RawAnswer, RawItem, Response, Target, TcpTarget};
use crate::vars::Vars;

/// Between two questions of an `until`.
const POLL: Duration = Duration::from_millis(200);

/// The longest recorded pause that only waits for a write to become visible.
const WRITE_PAUSE: Duration = Duration::from_millis(300);

/// What to do with recorded pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pauses {
    /// Wait as long as was waited then.
    AsRecorded,
    /// Leave out those up to 300 ms, which only wait for a write to be applied: a server that answers after its
    /// write is visible needs none. Scenarios with a UDP port keep theirs: there a pause tells two pushes apart.
    NoneAfterWrites,
}

/// What came of a step.
#[derive(Debug, Clone)]
pub enum Got {
    /// A response.
    Response(Response),
    /// A datagram, or none, and when.
    Datagram(Option<Datagram>, Duration),
    /// Whether the text came or went, and when.
    Until {
        /// In time.
        reached: bool,
        /// Since the beginning or the mark.
        elapsed: Duration,
        /// The last body.
        last: String,
    },
    /// What a raw connection gave.
    Raw(RawAnswer),
}

/// A step that was done.
#[derive(Debug, Clone)]
pub struct Done {
    /// What was sent or waited for, for a person to read.
    pub sent: String,
    /// What came of it; `None` for steps that only prepare.
    pub got: Option<Got>,
}

/// A scenario that couldn't be played to its end.
#[derive(Debug)]
pub struct Broke {
    /// Index of the step.
    pub step: usize,
    /// What was sent.
    pub sent: String,
    /// Why.
    pub error: anyhow::Error,
}

/// Plays all steps, up to the first that gets no answer at all or names something that was never opened; `clock` tells
/// afterwards how late they were.
pub fn run(
    target: &Target,
    scenario: &Scenario,
    pauses: Pauses,
    clock: &mut Clock,
) -> (Vec<Done>, Option<Broke>) {
    let keeps_pauses = scenario.steps.iter().any(|step| matches!(step.action, Action::UdpOpen(_)));
    let mut stage = Stage {
        target,
        pauses: if keeps_pauses { Pauses::AsRecorded } else { pauses },
        vars: Vars::default(),
        ports: HashMap::new(),
        tcp: HashMap::new(),
        http: HashMap::new(),
        marks: HashMap::new(),
        asks: asks(scenario),
        clock,
    };
    stage.vars.set("run", target.run().map_or_else(run_token, str::to_owned));
    stage.vars.set("authority", target.authority());
    let mut done = Vec::with_capacity(scenario.steps.len());
    for (at, step) in scenario.steps.iter().enumerate() {
        for before in &step.before {
            let sent = stage.describe(&before.action);
            if let Err(error) = stage.step(before) {
                return (done, Some(Broke { step: at, sent, error }));
            }
        }
        let sent = stage.describe(&step.action);
        match stage.step(step) {
            Ok(got) => done.push(Done { sent, got: got.map(|got| stage.fold(got)) }),
            Err(error) => return (done, Some(Broke { step: at, sent, error })),
        }
    }
    (done, None)
}

/// What a running scenario has opened.
struct Stage<'a> {
    target: &'a Target,
    pauses: Pauses,
    vars: Vars,
    ports: HashMap<String, Port>,
    tcp: HashMap<String, TcpTarget>,
    http: HashMap<String, HttpTarget>,
    marks: HashMap<String, Moment>,
    /// All that the scenario asks for.
    asks: String,
    clock: &'a mut Clock,
}

/// The paths and bodies of a scenario's requests, each in a line.
fn asks(scenario: &Scenario) -> String {
    let requests = scenario.steps.iter().filter_map(|step| match &step.action {
        Action::Request { request, .. } | Action::Until { request, .. } => Some(request),
        _ => None,
    });
    requests
        .map(|request| format!("{}\n{}\n", request.target, request.body.as_deref().unwrap_or_default()))
        .collect()
}

impl Stage<'_> {
    fn step(&mut self, step: &Step) -> Result<Option<Got>> {
        let begin = Instant::now();
        let start = match &step.since {
            Some(mark) => *self.marks.get(mark).with_context(|| format!("no mark {mark:?} was set"))?,
            None => self.clock.moment(),
        };
        match &step.action {
            Action::Request { request, save } => return Ok(Some(self.request(request, save)?)),
            Action::Raw(exchange) => {
                let answer = self.target.exchange(&self.filled_raw(exchange))?;
                self.clock.asked(begin);
                return Ok(Some(Got::Raw(answer)));
            }
            Action::Until { request, contains, lacks, timeout } => {
                let texts = [contains, lacks].map(|text| text.as_ref().map(|text| self.vars.expand(text)));
                return Ok(Some(self.until(&self.filled(request), &texts, start, *timeout)?));
            }
            Action::UdpRecv { name, timeout, ack, drain } => {
                let stop = self.target.stop().clone();
                let datagram = self.port(name)?.receive(*timeout, *ack, *drain, &stop)?;
                self.clock.heard();
                return Ok(Some(Got::Datagram(datagram, start.most())));
            }
            Action::HttpSeen(name) => {
                let body = self.http_target(name)?.seen();
                return Ok(Some(Got::Response(Response { status: 0, headers: Vec::new(), body })));
            }
            Action::Sleep(wait) if self.pauses == Pauses::NoneAfterWrites && *wait <= WRITE_PAUSE => {}
            Action::Sleep(wait) => {
                self.target.stop().wait(self.clock.pause(*wait))?;
                self.clock.slept(begin, *wait);
            }
            Action::Mark(name) => {
                self.marks.insert(name.clone(), self.clock.moment());
            }
            Action::UdpOpen(name) => {
                let port = Port::open()?.of_case(&self.vars.expand("${run}"), &self.asks);
                self.vars.set(name, port.number()?.to_string());
                self.ports.insert(name.clone(), port);
            }
            Action::UdpSend { name, body } => {
                let body = self.vars.expand(body);
                self.port(name)?.answer(&body)?;
            }
            Action::TcpOpen { name, port, full } => self.open_tcp(name, port.as_deref(), *full)?,
            Action::HttpOpen { name, status, headers, delay } => {
                let opened = HttpTarget::open(*status, headers.clone(), *delay)?;
                self.vars.set(name, opened.port().to_string());
                self.http.insert(name.clone(), opened);
            }
            Action::HttpStatus { name, status } => self.http_target(name)?.set_status(*status),
            Action::Close(name) => {
                let known = self.tcp.remove(name).is_some() || self.http.remove(name).is_some();
                ensure!(known, "nothing open is called {name:?}");
            }
        }
        Ok(None)
    }

    fn request(&mut self, request: &HttpRequest, save: &[(String, Regex)]) -> Result<Got> {
        let begin = Instant::now();
        let response = self.target.send(&self.filled(request))?;
        self.clock.asked(begin);
        for (name, pattern) in save {
            let found = pattern.captures(&response.body).and_then(|groups| groups.get(1));
            if let Some(token) = found.filter(|_| pattern.as_str().contains("accessToken")) {
                self.target.secrets().keep(token.as_str());
            }
            let value = found.map_or_else(|| format!("unsaved-{name}"), |group| group.as_str().to_owned());
            self.vars.set(name, value);
        }
        Ok(Got::Response(response))
    }

    fn open_tcp(&mut self, name: &str, port: Option<&str>, full: bool) -> Result<()> {
        let number = self.vars.expand(port.unwrap_or("0"));
        let number = number.parse().with_context(|| format!("{number:?} is no port"))?;
        let opened = TcpTarget::open(number, full)?;
        self.vars.set(name, opened.port().to_string());
        self.tcp.insert(name.to_owned(), opened);
        Ok(())
    }

    fn http_target(&self, name: &str) -> Result<&HttpTarget> {
        self.http.get(name).with_context(|| format!("no HTTP target {name:?} was opened"))
    }

    fn until(
        &mut self,
        request: &HttpRequest,
        [contains, lacks]: &[Option<String>; 2],
        start: Moment,
        timeout: Duration,
    ) -> Result<Got> {
        let end = self.clock.end(start, timeout);
        let mut last = String::new();
        while Instant::now() < end {
            let begin = Instant::now();
            last = self.target.send(request)?.body;
            self.clock.looked(begin);
            let came = contains.as_ref().is_none_or(|text| last.contains(text));
            let went = lacks.as_ref().is_none_or(|text| !last.contains(text));
            if came && went {
                return Ok(Got::Until { reached: true, elapsed: start.most(), last });
            }
            self.target.stop().wait(POLL)?; // asking is the only way to learn of it
        }
        Ok(Got::Until { reached: false, elapsed: start.most(), last })
    }

    fn port(&mut self, name: &str) -> Result<&mut Port> {
        self.ports.get_mut(name).with_context(|| format!("no UDP port {name:?} was opened"))
    }

    fn filled(&self, request: &HttpRequest) -> HttpRequest {
        let expand = |text: &String| self.vars.expand(text);
        let headers = request.headers.iter();
        let form = |form: &Vec<(String, String)>| form.iter().map(|(k, v)| (expand(k), expand(v))).collect();
        HttpRequest {
            method: expand(&request.method),
            target: expand(&request.target),
            headers: headers.map(|(name, value)| (expand(name), value.as_ref().map(expand))).collect(),
            body: request.body.as_ref().map(expand),
            form: request.form.as_ref().map(form),
            timeout: request.timeout,
        }
    }

    fn filled_raw(&self, exchange: &RawExchange) -> RawExchange {
        let pieces = exchange.pieces.iter().map(|piece| self.vars.expand(piece)).collect();
        RawExchange { pieces, ..exchange.clone() }
    }

    fn describe(&self, action: &Action) -> String {
        match action {
            Action::Request { request, .. } => shown(&self.filled(request)),
            Action::Until { request, contains, lacks, .. } => {
                let texts = [("contains", contains), ("lacks", lacks)];
                let texts = texts.iter().filter_map(|(what, text)| Some((what, text.as_ref()?)));
                let wanted: Vec<String> =
                    texts.map(|(what, text)| format!("{what} {:?}", self.vars.expand(text))).collect();
                format!("{}\n  until it {}", shown(&self.filled(request)), wanted.join(" and "))
            }
            Action::Raw(exchange) => {
                let pieces = self.filled_raw(exchange).pieces;
                pieces.iter().map(|piece| format!("raw {piece:?}")).collect::<Vec<_>>().join("\n  ")
            }
            Action::UdpRecv { name, timeout, .. } => {
                format!("a datagram on {name} within {} ms", timeout.as_millis())
            }
            Action::HttpSeen(name) => format!("what {name} was asked"),
            Action::UdpSend { name, body } => format!("a datagram from {name}: {body:?}"),
            Action::Close(name) => format!("closing {name}"),
            other => format!("{other:?}"),
        }
    }

    fn fold(&self, got: Got) -> Got {
        let fold = |text: &String| self.vars.fold(text);
        let headers = |headers: Vec<(String, String)>| {
            headers.into_iter().map(|(name, value)| (name, fold(&value))).collect::<Vec<_>>()
        };
        match got {
            Got::Response(r) => {
                Got::Response(Response { status: r.status, headers: headers(r.headers), body: fold(&r.body) })
            }
            Got::Datagram(datagram, elapsed) => {
                let datagram = datagram.map(|d| Datagram { gzip: d.gzip, body: fold(&d.body) });
                Got::Datagram(datagram, elapsed)
            }
            Got::Until { reached, elapsed, last } => Got::Until { reached, elapsed, last: fold(&last) },
            Got::Raw(RawAnswer { items, closed }) => {
                let item = |item| match item {
                    RawItem::Response { status, headers: all, body } => {
                        RawItem::Response { status, headers: headers(all), body: fold(&body) }
                    }
                    RawItem::Garbage(text) => RawItem::Garbage(fold(&text)),
                };
                Got::Raw(RawAnswer { items: items.into_iter().map(item).collect(), closed })
            }
        }
    }
}

fn shown(request: &HttpRequest) -> String {
    let mut text = format!("{} {}", request.method, request.target);
    for (name, value) in &request.headers {
        match value {
            Some(value) => text.push_str(&format!("\n  {name}: {value}")),
            None => text.push_str(&format!("\n  without {name}")),
        }
    }
    if let Some(form) = &request.form {
        text.push_str(&format!("\n  form {form:?}"));
    } else if let Some(body) = &request.body {
        text.push_str(&format!("\n  body {body:?}"));
    }
    text
}
