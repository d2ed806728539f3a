//! Answers, requests and datagrams taken apart, so that something in them can be replaced, and put together with
//! everything else as it was: the order and the letters of headers, chunks, compression. No I/O.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::target::wire::{Head, gunzip, latin1};

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// E.g. 200.
    pub status: u16,
    protocol: String,
    reason: String,
    headers: Vec<(String, String)>,
    chunked: bool,
    gzip: bool,
    body: Vec<u8>,
    bare: bool,
}

impl Answer {
    /// The answer at the beginning of `data`, and how many bytes it takes; `None` if it isn't all there, or is none.
    /// `bare`: it has no body, whatever its headers say. `closed`: nothing follows `data`.
    pub fn read(data: &[u8], bare: bool, closed: bool) -> Option<(Self, usize)> {
        let head = Head::read(data)?;
        if head.ends_by_close(bare) && !closed {
            return None;
        }
        let (body, length) = head.body(&data[head.len..], bare)?;
        let text = latin1(&data[..head.len - 4]);
        let mut lines = text.split("\r\n");
        let mut first = lines.next()?.splitn(3, ' ');
        let (protocol, _, reason) = (first.next()?, first.next()?, first.next().unwrap_or_default());
        let headers = lines.filter_map(|line| line.split_once(':'));
        let headers = headers.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
        let has = |name: &str, what: &str| head.get(name).is_some_and(|value| value.contains(what));
        let gzip = has("content-encoding", "gzip") && !body.is_empty();
        let answer = Self {
            status: head.status,
            protocol: protocol.to_owned(),
            reason: reason.to_owned(),
            headers,
            chunked: has("transfer-encoding", "chunked"),
            gzip,
            body: if gzip { gunzip(&body).ok()? } else { body },
            bare: bare || head.status < 200 || matches!(head.status, 204 | 304),
        };
        Some((answer, head.len + length))
    }

    /// The body, if it is UTF-8.
    pub fn text(&self) -> Option<String> {
        String::from_utf8(self.body.clone()).ok()
    }

    /// Replaces the body.
    pub fn set_text(&mut self, text: &str) {
        self.body = text.as_bytes().to_vec();
    }

    /// Replaces a text in all headers.
    pub fn replace_in_headers(&mut self, text: &str, by: &str) {
        for (_, value) in &mut self.headers {
            *value = value.replace(text, by);
        }
    }

    /// Whether it says that it is JSON.
    pub fn is_json(&self) -> bool {
        self.header("content-type").is_some_and(|value| value.contains("json"))
    }

    /// Replaces the media type or takes it away; tells whether that is another.
    pub fn set_media_type(&mut self, value: Option<&str>) -> bool {
        let before = self.header("content-type").map(str::to_owned);
        self.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
        self.headers.extend(value.map(|value| ("Content-Type".to_owned(), value.to_owned())));
        before.as_deref() != value
    }

    fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Its bytes.
    pub fn written(&self) -> Vec<u8> {
        let body = if self.gzip { gzip(&self.body) } else { self.body.clone() };
        let mut out = format!("{} {} {}\r\n", self.protocol, self.status, self.reason);
        for (name, value) in &self.headers {
            let counted = name.eq_ignore_ascii_case("content-length") && !self.bare;
            let value = if counted { body.len().to_string() } else { value.clone() };
            out.push_str(&format!("{name}: {value}\r\n"));
        }
        out.push_str("\r\n");
        let mut out: Vec<u8> = out.chars().map(|letter| letter as u8).collect();
        if self.bare {
            return out;
        }
        if !self.chunked {
            out.extend(body);
            return out;
        }
        if !body.is_empty() {
            out.extend(format!("{:x}\r\n", body.len()).bytes());
            out.extend(body);
            out.extend(b"\r\n");
        }
        out.extend(b"0\r\n\r\n");
        out
    }
}

/// What came over UDP.
#[derive(Debug, Clone)]
pub struct Datagram {
    gzip: bool,
    body: Vec<u8>,
}

impl Datagram {
    /// From its bytes.
    pub fn read(data: &[u8]) -> Self {
        let unpacked = if data.starts_with(&[0x1f, 0x8b]) { gunzip(data).ok() } else { None };
        Self { gzip: unpacked.is_some(), body: unpacked.unwrap_or_else(|| data.to_vec()) }
    }

    /// Its text, if it is UTF-8.
    pub fn text(&self) -> Option<String> {
        String::from_utf8(self.body.clone()).ok()
    }

    /// Replaces it.
    pub fn set_text(&mut self, text: &str) {
        self.body = text.as_bytes().to_vec();
    }

    /// Its bytes.
    pub fn written(&self) -> Vec<u8> {
        if self.gzip { gzip(&self.body) } else { self.body.clone() }
    }
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let written = encoder.write_all(data);
    written.and_then(|()| encoder.finish()).expect("a vector takes everything")
}

/// A whole request, and nothing but it.
pub struct Request {
    /// E.g. `GET`.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// All of it, with one text replaced by another wherever it stands, and the length of the body as it then is.
    text: String,
}

impl Request {
    /// `None` if these bytes aren't exactly one request whose body, if any, has a length.
    pub fn read(data: &[u8]) -> Option<Self> {
        let end = data.windows(4).position(|four| four == b"\r\n\r\n")?;
        let text = latin1(data);
        let mut lines = text[..latin1(&data[..end]).len()].split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, target, protocol) = (words.next()?, words.next()?, words.next()?);
        if !protocol.starts_with("HTTP/1.") || words.next().is_some() || !target.starts_with('/') {
            return None;
        }
        let (method, target) = (method.to_owned(), target.to_owned());
        let mut length = 0;
        for line in lines {
            let (name, value) = line.split_once(':')?;
            match name.to_lowercase().as_str() {
                "content-length" => length = value.trim().parse().ok()?,
                "transfer-encoding" | "expect" => return None,
                _ => {}
            }
        }
        (data.len() == end + 4 + length).then_some(Self { method, target, text })
    }

    /// The request with texts replaced.
    pub fn written(&self, replace: &dyn Fn(&str) -> String) -> Vec<u8> {
        let (head, body) = self.text.split_once("\r\n\r\n").unwrap_or((&self.text, ""));
        let (new_head, new_body) = (replace(head), replace(body));
        let counts = |body: &str| format!("Content-Length: {}", body.chars().count());
        let new_head = new_head.replace(&counts(body), &counts(&new_body));
        format!("{new_head}\r\n\r\n{new_body}").chars().map(|letter| letter as u8).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_put_together_is_the_one_that_was_taken_apart() {
        let plain = b"HTTP/1.1 200 OK\r\nvary: a\r\nVary: b\r\nContent-Length: 2\r\n\r\nokHTTP";
        let (mut answer, length) = Answer::read(plain, false, false).unwrap();
        assert_eq!((answer.written(), length), (plain[..length].to_vec(), plain.len() - 4));
        answer.set_text("changed");
        assert!(answer.written().ends_with(b"Content-Length: 7\r\n\r\nchanged"));
        let chunked = b"HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        assert_eq!(Answer::read(chunked, false, false).unwrap().0.written(), chunked);
        let bare = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
        assert_eq!(Answer::read(bare, true, false).unwrap().0.written(), bare);
        assert!(Answer::read(b"HTTP/1.1 200 OK\r\n\r\nopen", false, false).is_none());
        assert!(Answer::read(b"HTTP/1.1 200 OK\r\n\r\nopen", false, true).is_some());
        assert!(Answer::read(bare, false, false).is_none());
    }

    #[test]
    fn a_compressed_answer_stays_compressed() {
        let body = gzip(b"{}");
        let mut data =
            format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", body.len())
                .into_bytes();
        data.extend(&body);
        let (mut answer, _) = Answer::read(&data, false, false).unwrap();
        assert_eq!(answer.text().as_deref(), Some("{}"));
        answer.set_text("[]");
        let (again, _) = Answer::read(&answer.written(), false, false).unwrap();
        assert_eq!(again.text().as_deref(), Some("[]"));
    }

    #[test]
    fn a_request_is_known_only_as_a_whole_and_its_length_follows_its_body() {
        let request = Request::read(b"PUT /a?p=1 HTTP/1.1\r\nContent-Length: 3\r\n\r\np=1").unwrap();
        let longer = request.written(&|text| text.replace("p=1", "p=22"));
        assert_eq!(longer, b"PUT /a?p=22 HTTP/1.1\r\nContent-Length: 4\r\n\r\np=22");
        for other in ["PUT /a HTTP/1.1\r\nContent-Length: 3\r\n\r\np=", "FOO\r\n\r\n", "GET / HTTP/1.1\r\n"] {
            assert!(Request::read(other.as_bytes()).is_none(), "{other}");
        }
    }
}
