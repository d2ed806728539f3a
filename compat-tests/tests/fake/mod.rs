//! A server that plays the other side of one scenario: answers each step exactly as the scenario states.
//!
//! It learns `${run}` and ports from the requests it gets, pushes the datagrams that the next steps wait for,
//! and lets an `until` come true after its `min_ms`. A test gives it a changed copy to see the change noticed.

#![allow(clippy::disallowed_methods, reason = "the server that is played answers as late as was recorded")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use compat_tests::golden::{
    Action, Expected, ExpectedRaw, ExpectedResponse, HttpRequest, RawExchange, Scenario, Status, Step,
};
use compat_tests::vars::Vars;
use flate2::{Compression, write::GzEncoder};
use regex::Regex;

/// An `until` comes true this much after its `min_ms`, which is counted from an instant that only the other side knows.
const SLACK: Duration = Duration::from_millis(150);

/// Starts the server; its URL. It serves one run of the script.
pub fn serve(script: Scenario) -> String {
    serve_each(vec![script])
}

/// Starts a server that serves one run of each script, one after the other; its URL.
pub fn serve_each(scripts: Vec<Scenario>) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let authority = listener.local_addr().unwrap().to_string();
    let url = format!("http://{authority}/nacos");
    thread::spawn(move || {
        for script in scripts {
            let mut fake = Fake {
                vars: Vars::default(),
                known: vec!["authority".to_owned()],
                times: Vec::new(),
                script,
            };
            fake.vars.set("authority", authority.clone());
            fake.play(&listener);
        }
    });
    url
}

struct Fake {
    script: Scenario,
    vars: Vars,
    known: Vec<String>,
    /// When each step was reached.
    times: Vec<Instant>,
}

impl Fake {
    fn play(&mut self, listener: &TcpListener) {
        for at in 0..self.script.steps.len() {
            self.times.push(Instant::now());
            let step = self.script.steps[at].clone();
            match &step.action {
                Action::Request { request, save } => {
                    for (name, _) in save {
                        self.learn(name, &format!("saved{name}"));
                    }
                    let (mut stream, got) = accept(listener);
                    self.learn_from(request, &got);
                    if let Some(Expected::Response(response)) = step.expected.first() {
                        write(&mut stream, &self.bytes(response, &request.method, true));
                    }
                    self.times[at] = Instant::now();
                    self.push_what_follows(at);
                }
                Action::Until { request, contains, lacks, .. } => {
                    let min = step.rules.min.map(|min| min + SLACK);
                    let reached = matches!(step.expected.first(), Some(Expected::Reached));
                    loop {
                        let (mut stream, got) = accept(listener);
                        self.learn_from(request, &got);
                        let over = min.is_none_or(|min| self.base(&step, at).elapsed() >= min);
                        let text = if reached && over { contains } else { lacks };
                        let body = text.clone().unwrap_or_else(|| "neither".to_owned());
                        let response =
                            ExpectedResponse { status: Status::one(200), headers: Vec::new(), body };
                        write(&mut stream, &self.bytes(&response, &request.method, true));
                        if reached && over {
                            break;
                        }
                    }
                    self.push_what_follows(at);
                }
                Action::Raw(exchange) => {
                    self.exchange(listener, exchange, &step);
                    self.push_what_follows(at);
                }
                _ => {}
            }
        }
    }

    fn base(&self, step: &Step, at: usize) -> Instant {
        let is_mark = |step: &Step, name: &str| matches!(&step.action, Action::Mark(mark) if mark == name);
        match &step.since {
            None => self.times[at],
            Some(name) => {
                let mark = (0..at).rev().find(|at| is_mark(&self.script.steps[*at], name)).unwrap();
                self.times[mark]
            }
        }
    }

    fn exchange(&mut self, listener: &TcpListener, exchange: &RawExchange, step: &Step) {
        let template = exchange.pieces.concat();
        let mut sample = self.vars.clone();
        sample.set("run", "trunruns"); // as long as any
        let length = sample.expand(&template).chars().count();
        let (mut stream, _) = listener.accept().unwrap();
        let mut data = vec![0; length];
        stream.read_exact(&mut data).unwrap();
        let text: String = data.iter().map(|byte| char::from(*byte)).collect();
        self.learn_text(&template, &text);
        let Some(Expected::Raw { responses, closed }) = step.expected.first() else { return };
        for item in responses {
            match item {
                ExpectedRaw::Response(response) => {
                    let method = if exchange.head { "HEAD" } else { "GET" };
                    write(&mut stream, &self.bytes(response, method, false));
                }
                ExpectedRaw::Garbage(text) => write(&mut stream, self.vars.expand(text).as_bytes()),
            }
        }
        if !closed {
            let _ = stream.read(&mut [0]); // until the other side is content
        }
    }

    fn bytes(&self, response: &ExpectedResponse, method: &str, add_length: bool) -> Vec<u8> {
        let status = (100..600).find(|status| response.status.accepts(*status)).unwrap();
        let body = self.vars.expand(&response.body);
        let zipped =
            response.headers.iter().any(|(name, value)| name == "content-encoding" && value == "gzip");
        let body = if zipped { gzip(body.as_bytes()) } else { body.into_bytes() };
        let mut out = format!("HTTP/1.1 {status} x\r\n").into_bytes();
        let (mut chunked, mut counted) = (false, add_length);
        for (name, value) in &response.headers {
            match name.as_str() {
                "content-length" if method != "HEAD" => counted = true,
                _ => {
                    chunked |= name == "transfer-encoding";
                    out.extend(format!("{name}: {}\r\n", self.vars.expand(value)).bytes());
                }
            }
        }
        if counted && !chunked {
            out.extend(format!("Content-Length: {}\r\n", body.len()).bytes());
        }
        out.extend(b"\r\n");
        if method == "HEAD" || status < 200 || status == 204 || status == 304 {
            return out;
        }
        if chunked && !body.is_empty() {
            out.extend(format!("{:x}\r\n", body.len()).bytes());
            out.extend(&body);
            out.extend(b"\r\n");
        } else {
            out.extend(body);
        }
        if chunked {
            out.extend(b"0\r\n\r\n");
        }
        out
    }

    /// Sends the datagrams that are awaited before the next request comes.
    fn push_what_follows(&self, at: usize) {
        for (offset, step) in self.script.steps[at + 1..].iter().enumerate() {
            match &step.action {
                Action::UdpRecv { name, .. } => {
                    let Some(Expected::Datagram { gzip: zipped, body }) = step.expected.first() else {
                        continue;
                    };
                    let port: u16 = self.vars.expand(&format!("${{{name}}}")).parse().unwrap();
                    let body = self.vars.expand(body).into_bytes();
                    let data = if *zipped { gzip(&body) } else { body };
                    let min = step.rules.min.map(|min| min + SLACK);
                    let wait = min.unwrap_or_default() + Duration::from_millis(20 * offset as u64);
                    thread::spawn(move || {
                        thread::sleep(wait);
                        let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
                        socket.send_to(&data, ("127.0.0.1", port)).unwrap();
                    });
                }
                Action::Request { .. } | Action::Until { .. } | Action::Raw(_) => break,
                _ => {}
            }
        }
    }

    fn learn_from(&mut self, request: &HttpRequest, got: &str) {
        self.learn_text(&request.target, got);
        self.learn_text(request.body.as_deref().unwrap_or_default(), got);
        let decoded = percent_decoded(got);
        for (name, value) in request.form.iter().flatten() {
            self.learn_text(name, &decoded);
            self.learn_text(value, &decoded);
        }
    }

    /// Finds unknown variables of `template` in `text`.
    fn learn_text(&mut self, template: &str, text: &str) {
        let variable = Regex::new(r"\$\{(\w+)\}").unwrap();
        let names: Vec<String> = variable.captures_iter(template).map(|found| found[1].to_owned()).collect();
        for name in names {
            if self.known.contains(&name) {
                continue;
            }
            let kind = if name == "run" { "t[a-z]{7}" } else { r"\d+" };
            let around = template.find(&format!("${{{name}}}")).unwrap();
            let before: String = template[..around].chars().rev().take_while(|c| *c != '}').collect();
            let before: String = before.chars().rev().collect();
            let pattern = Regex::new(&format!("{}({kind})", regex::escape(&before))).unwrap();
            let value =
                pattern.captures(text).unwrap_or_else(|| panic!("{pattern} not in {text}"))[1].to_owned();
            self.learn(&name, &value);
        }
    }

    fn learn(&mut self, name: &str, value: &str) {
        self.vars.set(name, value);
        self.known.push(name.to_owned());
    }
}

/// The next connection over which anything comes, and the whole request that came.
fn accept(listener: &TcpListener) -> (TcpStream, String) {
    loop {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let request = read_request(&mut stream);
        if !request.is_empty() {
            return (stream, request);
        }
    }
}

fn read_request(stream: &mut TcpStream) -> String {
    let length = Regex::new(r"(?i)\r\ncontent-length: *(\d+)").unwrap();
    let mut data = Vec::new();
    loop {
        let mut piece = [0; 65536];
        let count = stream.read(&mut piece).unwrap();
        data.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&data).into_owned();
        let whole = text.find("\r\n\r\n").is_some_and(|head| {
            let body: usize = length.captures(&text[..head]).map_or(0, |found| found[1].parse().unwrap());
            data.len() >= head + 4 + body
        });
        if whole || count == 0 {
            return text;
        }
    }
}

fn write(stream: &mut TcpStream, data: &[u8]) {
    let _ = stream.write_all(data); // the other side judges what it got
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn percent_decoded(text: &str) -> String {
    let escape = Regex::new("%([0-9A-F]{2})").unwrap();
    let decoded =
        |found: &regex::Captures<'_>| char::from(u8::from_str_radix(&found[1], 16).unwrap()).to_string();
    escape.replace_all(&text.replace('+', " "), decoded).into_owned()
}
