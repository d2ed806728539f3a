//! One request over a connection of its own, with exactly the headers that the scenario names.

use std::io::Read as _;
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use super::Target;
use super::deadline::{Deadline, is_silence};
use super::wire::{Head, Headers, MAX_BYTES};
use crate::golden::HttpRequest;

/// Headers that belong to the connection or change with every answer.
const LEFT_OUT: [&str; 5] = ["date", "content-length", "connection", "keep-alive", "transfer-encoding"];

/// How soon one who waits for an answer notices that the run is over.
const LOOK: Duration = Duration::from_millis(200);

/// What a server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// E.g. 200; 0 for what is no response but is compared like one.
    pub status: u16,
    /// Names in lower case; without those of the connection.
    pub headers: Headers,
    /// Decoded.
    pub body: String,
}

impl Target {
    /// Sends a request (its variables filled in) and reads the final answer.
    ///
    /// # Errors
    /// If the server can't be reached, closes without an answer, or isn't done within the request's limit.
    pub fn send(&self, request: &HttpRequest) -> Result<Response> {
        let body = request.form.as_ref().map(|form| urlencoded(form));
        let body = body.as_ref().or(request.body.as_ref());
        self.note(&request.method, &request.target, body.map(String::as_str).unwrap_or_default());
        let is_write = !matches!(request.method.as_str(), "GET" | "HEAD" | "OPTIONS");
        let deadline = Deadline::after(request.timeout);
        let mut stream = self.connect(request.timeout)?;
        stream.set_read_timeout(Some(LOOK.min(request.timeout)))?;
        // A server may refuse a long request before it has read all of it: its answer counts, not our write.
        let written = deadline.send(&mut stream, &self.bytes_of(request)?);
        match read(&mut stream, request.method == "HEAD", &deadline, || self.stop.gives_up(is_write)) {
            Ok(Response { status, headers, body }) => Ok(Response {
                status,
                headers: self.headers_as_recorded(headers),
                body: self.as_recorded(body),
            }),
            Err(error) => {
                written?;
                Err(error)
            }
        }
    }

    fn bytes_of(&self, request: &HttpRequest) -> Result<Vec<u8>> {
        let mut headers: Vec<(&str, Option<String>)> = vec![
            ("Host", Some(self.authority.clone())),
            ("User-Agent", Some("golden/1".to_owned())),
            ("Accept", Some("*/*".to_owned())),
        ];
        for (name, value) in &request.headers {
            match headers.iter_mut().find(|(known, _)| known == name) {
                Some((_, old)) => old.clone_from(value),
                None => headers.push((name, value.clone())),
            }
        }
        if let Some(token) = &self.token
            && !headers.iter().any(|(name, _)| *name == "Authorization")
        {
            headers.push(("Authorization", Some(format!("Bearer {token}"))));
        }
        let body = match &request.form {
            Some(form) => Some(urlencoded(form)),
            None => request.body.clone(),
        };
        let set_default = |headers: &mut Vec<(&str, Option<String>)>, name: &'static str, value: String| {
            if !headers.iter().any(|(known, value)| *known == name && value.is_some()) {
                headers.push((name, Some(value)));
            }
        };
        if request.form.is_some() {
            set_default(&mut headers, "Content-Type", "application/x-www-form-urlencoded".to_owned());
        }
        if let Some(body) = &body {
            headers.retain(|(name, _)| *name != "Content-Length");
            headers.push(("Content-Length", Some(body.len().to_string())));
        } else if matches!(request.method.as_str(), "POST" | "PUT" | "PATCH") {
            set_default(&mut headers, "Content-Length", "0".to_owned());
        }
        let target = self.to_context(&request.target);
        let mut bytes = format!("{} {target} HTTP/1.1\r\n", request.method).into_bytes();
        for (name, value) in headers {
            if let Some(value) = value {
                bytes.extend(format!("{name}: ").into_bytes());
                bytes.extend(latin1_bytes(&value)?);
                bytes.extend(b"\r\n");
            }
        }
        bytes.extend(b"\r\n");
        bytes.extend(body.unwrap_or_default().into_bytes());
        Ok(bytes)
    }
}

/// Reads the final answer, all of which must be there in time, unless it is `over` before.
fn read(
    stream: &mut TcpStream,
    head_only: bool,
    deadline: &Deadline,
    over: impl Fn() -> bool,
) -> Result<Response> {
    let mut data = Vec::new();
    let mut closed = false;
    loop {
        if let Some(head) = Head::read(&data) {
            if head.status < 200 {
                data.drain(..head.len);
                continue;
            }
            if (closed || !head.ends_by_close(head_only))
                && let Some((body, _)) = head.body(&data[head.len..], head_only)
            {
                let body = head.decode(&body).context("the answer is said to be gzip")?;
                let mut headers = head.headers;
                headers.retain(|(name, _)| !LEFT_OUT.contains(&name.as_str()));
                return Ok(Response { status: head.status, headers, body });
            }
        }
        if closed {
            bail!("the connection was closed after {} bytes of an answer", data.len());
        }
        ensure!(data.len() <= MAX_BYTES, "the answer is longer than {MAX_BYTES} bytes");
        if deadline.is_over() {
            return Err(deadline.missed(data.len()));
        }
        ensure!(!over(), "the run is over");
        closed = match receive(stream, &mut data) {
            Err(error) if is_silence(&error) => continue,
            received => received.context("no answer")? == 0,
        };
    }
}

fn receive(stream: &mut TcpStream, data: &mut Vec<u8>) -> std::io::Result<usize> {
    let mut piece = [0; 65536];
    let count = stream.read(&mut piece)?;
    data.extend_from_slice(&piece[..count]);
    Ok(count)
}

/// A text whose characters are bytes.
///
/// # Errors
/// If a character doesn't fit into a byte.
pub fn latin1_bytes(text: &str) -> Result<Vec<u8>> {
    text.chars().map(|c| u8::try_from(c).with_context(|| format!("{c:?} doesn't fit into a byte"))).collect()
}

fn urlencoded(form: &[(String, String)]) -> String {
    let mut out = String::new();
    for (name, value) in form {
        out.push_str(if out.is_empty() { "" } else { "&" });
        escape(name, &mut out);
        out.push('=');
        escape(value, &mut out);
    }
    out
}

/// A text as it stands in a query.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    escape(text, &mut out);
    out
}

fn escape(text: &str, out: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => out.push(char::from(byte)),
            b' ' => out.push('+'),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str) -> HttpRequest {
        HttpRequest {
            method: method.to_owned(),
            target: "/a?b".to_owned(),
            headers: Vec::new(),
            body: None,
            form: None,
            timeout: Duration::from_secs(1),
        }
    }

    fn bytes(request: &HttpRequest) -> String {
        let target = Target::parse("http://127.0.0.1:1").unwrap();
        String::from_utf8(target.bytes_of(request).unwrap()).unwrap()
    }

    #[test]
    fn the_usual_headers_are_sent_and_can_be_replaced_or_removed() {
        let mut get = request("GET");
        get.headers = vec![("User-Agent".to_owned(), None), ("Accept".to_owned(), Some("x".to_owned()))];
        assert_eq!(bytes(&get), "GET /a?b HTTP/1.1\r\nHost: 127.0.0.1:1\r\nAccept: x\r\n\r\n");
    }

    #[test]
    fn a_form_is_written_in_its_order() {
        let mut post = request("POST");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        post.form = Some(vec![pair("z", "a b"), pair("a", "{é}~")]);
        let sent = bytes(&post);
        assert!(sent.ends_with("Content-Length: 21\r\n\r\nz=a+b&a=%7B%C3%A9%7D~"), "{sent}");
        assert!(sent.contains("Content-Type: application/x-www-form-urlencoded\r\n"));
    }

    #[test]
    fn a_post_without_a_body_says_so() {
        assert!(bytes(&request("POST")).contains("Content-Length: 0\r\n"));
        assert!(!bytes(&request("DELETE")).contains("Content-Length"));
    }
}
