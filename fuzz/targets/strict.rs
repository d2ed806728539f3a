//! Reads requests of HTTP/1.1 as narrowly as they can be read.

/// What stands at the beginning of some bytes.
pub enum Next {
    /// A whole request of so many bytes.
    Request(usize),
    /// A part of one, or nothing.
    Part,
}

/// Looks for a whole request. Panics on what can be none.
pub fn next(bytes: &[u8]) -> Next {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return Next::Part };
    let head = lines(&bytes[..end]);
    let body = &bytes[end + 4..];
    let length = match framing(&head[1..]) {
        Framing::Length(length) => (body.len() >= length).then_some(length),
        Framing::Chunked => chunked(body),
    };
    length.map_or(Next::Part, |length| Next::Request(end + 4 + length))
}

fn lines(head: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    let mut rest = head;
    while let Some(end) = rest.windows(2).position(|window| window == b"\r\n") {
        lines.push(&rest[..end]);
        rest = &rest[end + 2..];
    }
    lines.push(rest);
    for line in &lines {
        let is_line = line.iter().all(|byte| !matches!(byte, b'\r' | b'\n' | 0));
        assert!(is_line, "a line within a line: {:?}", String::from_utf8_lossy(line));
    }
    lines
}

enum Framing {
    Length(usize),
    Chunked,
}

fn field(line: &[u8]) -> (String, &[u8]) {
    let colon = line.iter().position(|byte| *byte == b':').expect("a field has a colon");
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    assert!(!name.is_empty() && name.iter().all(is_token), "no name: {:?}", String::from_utf8_lossy(line));
    (String::from_utf8_lossy(name).to_ascii_lowercase(), value.trim_ascii())
}

fn framing(fields: &[&[u8]]) -> Framing {
    let of = |wanted: &str| -> Vec<&[u8]> {
        fields.iter().map(|line| field(line)).filter(|(name, _)| name == wanted).map(|(_, value)| value).collect()
    };
    match (&*of("content-length"), &*of("transfer-encoding")) {
        ([], []) => Framing::Length(0),
        ([length], []) => {
            let text = std::str::from_utf8(length).expect("digits");
            assert!(text.bytes().all(|byte| byte.is_ascii_digit()), "no length: {text:?}");
            assert!(text == "0" || !text.starts_with('0'), "a length in another form: {text:?}");
            Framing::Length(text.parse().expect("a number"))
        }
        ([], [coding]) => {
            assert_eq!(*coding, b"chunked");
            Framing::Chunked
        }
        (lengths, codings) => panic!("{} lengths, {} codings", lengths.len(), codings.len()),
    }
}

/// Bytes of a body in chunks, trailers included, if it is whole.
fn chunked(body: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let line = body[at..].windows(2).position(|window| window == b"\r\n")?;
        let digits = std::str::from_utf8(&body[at..at + line]).expect("digits");
        assert!(!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digits:?}");
        let length = usize::from_str_radix(digits, 16).expect("a length");
        at += line + 2;
        if length == 0 {
            loop {
                let line = body[at..].windows(2).position(|window| window == b"\r\n")?;
                at += line + 2;
                if line == 0 {
                    return Some(at);
                }
            }
        }
        if body.len() < at + length + 2 {
            return None;
        }
        assert_eq!(&body[at + length..at + length + 2], b"\r\n", "a chunk has another length than it says");
        at += length + 2;
    }
}

/// Fields of the client's connection, which end at the proxy.
const OF_CONNECTION: [&str; 6] =
    ["keep-alive", "proxy-connection", "proxy-authorization", "http2-settings", "expect", "trailer"];

/// Panics where a request, which is whole, could mean something else to somebody else.
pub fn check(request: &[u8]) {
    let end = request.windows(4).position(|window| window == b"\r\n\r\n").expect("it is whole");
    let head = lines(&request[..end]);
    let line = std::str::from_utf8(head[0]).expect("a line of text");
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, "HTTP/1.1"] = &*words else { panic!("{line:?}") };
    assert!(!method.is_empty() && *method != "CONNECT", "{line:?}");
    assert!(target.starts_with('/') || *target == "*" && *method == "OPTIONS", "{line:?}");
    assert!(target.bytes().all(|byte| byte > b' ' && byte != 0x7f && byte != b'#'), "{line:?}");
    let path = target.split('?').next().unwrap_or_default();
    assert!(!has_dot_segments(path), "{line:?}");
    let fields: Vec<(String, &[u8])> = head[1..].iter().map(|line| field(line)).collect();
    let count = |wanted: &str| fields.iter().filter(|(name, _)| name == wanted).count();
    for once in ["host", "x-forwarded-for", "x-forwarded-proto", "x-request-id", "x-nacre-hops"] {
        assert_eq!(count(once), 1, "{once}");
    }
    for (name, value) in &fields {
        assert!(!OF_CONNECTION.contains(&&**name), "{name}");
        assert!(value.iter().all(|byte| *byte == b'\t' || *byte >= b' ' && *byte != 0x7f), "{name}");
        match &**name {
            "connection" => assert_eq!(value.to_ascii_lowercase(), b"upgrade"),
            "te" => assert_eq!(*value, b"trailers"),
            "x-forwarded-for" => assert_eq!(*value, b"192.0.2.7"),
            "x-forwarded-proto" => assert_eq!(*value, b"http"),
            _ => {}
        }
    }
    assert_eq!(count("connection"), count("upgrade").min(1));
}

/// Whether some server may take a segment for a step up, whatever it decodes first.
fn has_dot_segments(path: &str) -> bool {
    let mut plain = path.to_ascii_lowercase();
    for (escape, stands_for) in [("%2e", "."), ("%2f", "/"), ("%5c", "/"), ("%3b", ";"), ("\\", "/")] {
        plain = plain.replace(escape, stands_for);
    }
    plain.split('/').any(|segment| matches!(segment.split(';').next(), Some("." | "..")))
}
